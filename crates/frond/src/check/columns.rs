//! What each part of a tree's rows takes on disk, and how it is encoded.
//!
//! Reads leaves, all of them or some, block by block, past the cache. Memory: a block.

use std::collections::BTreeMap;

use crate::{
    Db, Result,
    block::{
        Format,
        typed::{ColumnOf, weigh},
    },
    run::{ReadBuf, Run},
    sync::Arc,
    tree::{Child, NodeRef, Root, RunHandle, TreeContext},
};

/// A column of a tree's leaves, or all that stands in them beside columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ColumnUse {
    /// Bytes of these parts of the rows as they are.
    pub row_bytes: u64,
    /// Bytes that they take encoded.
    pub bytes: u64,
    /// In how many blocks they are encoded how.
    pub encodings: BTreeMap<&'static str, u64>,
}

/// What the parts of a tree's rows take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeColumns {
    /// Leaves that were read, of so many.
    pub leaves_read: u64,
    /// Leaves that there are.
    pub leaves: u64,
    /// Rows of those that were read.
    pub rows: u64,
    /// Their keys and values as they are.
    pub row_bytes: u64,
    /// Extents of the leaves that were read.
    pub bytes: u64,
    /// Of these, filters.
    pub filter_bytes: u64,
    /// Of these, models of strings.
    pub model_bytes: u64,
    /// Bytes of blocks whose rows are not kept by part.
    pub opaque_bytes: u64,
    /// What stands in typed blocks, by part.
    pub columns: BTreeMap<ColumnOf, ColumnUse>,
}

impl Db {
    /// What each part of a tree's rows takes in its leaves, from about one leaf in `one_in`, evenly
    /// spread: 1 reads all of them. What waits in memory and in buffers is not counted.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{Hint, Layout, Part, TreeOptions};
    ///
    /// let number = || Some(Layout::new(vec![Part::Fixed(8, Hint::Integer)]));
    /// let options = TreeOptions { key_layout: number(), value_layout: number(), ..Default::default() };
    /// let mut load = db.bulk_load("squares", options)?;
    /// for n in 0..1000u64 {
    ///     load.put(&n.to_be_bytes(), &(n * n).to_be_bytes())?;
    /// }
    /// load.finish()?;
    /// let columns = db.columns("squares", 1)?;
    /// assert_eq!((columns.rows, columns.row_bytes), (1000, 16_000));
    /// assert!(columns.columns.values().map(|column| column.bytes).sum::<u64>() < 4_000);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree`; I/O errors and damage.
    pub fn columns(&self, tree: &str, one_in: u64) -> Result<TreeColumns> {
        let tree = self.open_tree(tree)?.entry.id;
        let engine = &self.shared.engine;
        let version = engine.versions.hold();
        let mut walk = Walk {
            cx: &engine.cx,
            one_in: one_in.max(1),
            buf: ReadBuf::new(engine.cx.pool.clone()),
            found: TreeColumns::default(),
        };
        match version.roots.get(&tree).map(|root| &root.root) {
            None | Some(Root::Empty) => {}
            Some(Root::Leaf(leaf)) => walk.leaf(leaf)?,
            Some(Root::Node(node)) => walk.node(node)?,
        }
        Ok(walk.found)
    }
}

struct Walk<'a> {
    cx: &'a TreeContext,
    one_in: u64,
    buf: ReadBuf,
    found: TreeColumns,
}

impl Walk<'_> {
    fn node(&mut self, node: &NodeRef) -> Result<()> {
        let content = node.glance(self.cx)?;
        for child in &content.children {
            match child {
                Child::Leaf(leaf) => self.leaf(leaf)?,
                Child::Node(child) => self.node(child)?,
            }
        }
        Ok(())
    }

    fn leaf(&mut self, leaf: &RunHandle) -> Result<()> {
        if leaf.is_hollow() {
            return Ok(());
        }
        // The middle one of each so many, the only one of few.
        let wanted = self.found.leaves % self.one_in == self.one_in / 2;
        self.found.leaves += 1;
        if wanted || self.found.leaves == 1 {
            let run = leaf.glance(self.cx)?;
            self.run(&run)?;
        }
        Ok(())
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<()> {
        let found = &mut self.found;
        found.leaves_read += 1;
        found.rows += run.entries();
        found.row_bytes += run.counts().raw_bytes;
        found.bytes += u64::from(run.extent_bytes());
        found.filter_bytes += run.filter().map_or(0, |filter| filter.bytes() as u64);
        let Format::Typed(format) = run.format() else {
            found.opaque_bytes += run.data_bytes();
            return Ok(());
        };
        let models = format.models().iter().flatten();
        found.model_bytes += models.map(|model| model.as_bytes().len() as u64).sum::<u64>();
        for index in 0..run.block_count() {
            let block = run.encoded_block(index, &mut self.buf)?;
            let weighed = format.block(block).and_then(|typed| {
                weigh(&typed, |column| {
                    let of = found.columns.entry(column.of).or_default();
                    of.row_bytes += column.row_bytes as u64;
                    of.bytes += column.bytes as u64;
                    *of.encodings.entry(column.encoding.name()).or_default() += 1;
                })
            });
            weighed.map_err(|bad| run.bad_block(index, bad))?;
        }
        Ok(())
    }
}
