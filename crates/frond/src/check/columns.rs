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
};

use super::walk::Page;

/// A column of a tree's leaves, or whole blocks of them.
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
    /// Of these, dictionaries of leaves whose rows are not kept by part.
    pub dictionary_bytes: u64,
    /// What blocks take whose rows are not kept by part.
    pub opaque: ColumnUse,
    /// What stands in typed blocks, by part.
    pub columns: BTreeMap<ColumnOf, ColumnUse>,
}

impl ColumnUse {
    /// What encoding saves; 0 if it saves nothing.
    pub fn saved_bytes(&self) -> u64 {
        self.row_bytes.saturating_sub(self.bytes)
    }

    /// Adds what stands in a block.
    fn add(&mut self, encoding: &'static str, row_bytes: u64, bytes: u64) {
        self.row_bytes += row_bytes;
        self.bytes += bytes;
        *self.encodings.entry(encoding).or_default() += 1;
    }
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
        let one_in = one_in.max(1);
        let mut buf = ReadBuf::new(self.shared.engine.cx.pool.clone());
        let mut found = TreeColumns::default();
        self.walk_pages(tree, &mut |cx, page| {
            let Page::Leaf(leaf) = page else { return Ok(()) };
            if leaf.is_hollow() {
                return Ok(());
            }
            // The middle one of each so many, the only one of few.
            let wanted = found.leaves % one_in == one_in / 2;
            found.leaves += 1;
            if wanted || found.leaves == 1 {
                found.add(&*leaf.glance(cx)?, &mut buf)?;
            }
            Ok(())
        })?;
        Ok(found)
    }
}

impl TreeColumns {
    /// What encoding saves of the rows that were read, filters and indexes of their leaves included; 0 if it saves
    /// nothing.
    pub fn saved_bytes(&self) -> u64 {
        self.row_bytes.saturating_sub(self.bytes)
    }

    /// Adds a leaf.
    fn add(&mut self, run: &Run, buf: &mut ReadBuf) -> Result<()> {
        self.leaves_read += 1;
        self.rows += run.entries();
        self.row_bytes += run.counts().raw_bytes;
        self.bytes += u64::from(run.extent_bytes());
        self.filter_bytes += run.filter().map_or(0, |filter| filter.bytes() as u64);
        self.dictionary_bytes += run.dictionary().map_or(0, |its| its.to_disk().len() as u64);
        let Format::Typed(format) = run.format() else {
            for block in run.blocks().entries() {
                self.opaque.add(
                    block.packing.name(),
                    block.row_bytes.into(),
                    block.encoded_bytes.into(),
                );
            }
            return Ok(());
        };
        let models = format.models().iter().flatten();
        self.model_bytes += models.map(|model| model.as_bytes().len() as u64).sum::<u64>();
        for index in 0..run.block_count() {
            let block = run.encoded_block(index, buf)?;
            let weighed = format.block(block).and_then(|typed| {
                weigh(&typed, |column| {
                    let of = self.columns.entry(column.of).or_default();
                    of.add(column.encoding.name(), column.row_bytes as u64, column.bytes as u64);
                })
            });
            weighed.map_err(|bad| run.bad_block(index, bad))?;
        }
        Ok(())
    }
}
