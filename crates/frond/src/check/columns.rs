//! The disk space used by each part of a tree's rows, and its encodings.
//!
//! Reads all leaves or some, block by block, bypassing the cache. Memory: a block.

use std::collections::BTreeMap;

use crate::{
    Result, Tree,
    block::{
        Format,
        columnar::{ColumnOf, weigh},
    },
    run::{ReadBuf, Run},
};

use super::walk::Page;

/// The space used by a column of a tree's leaves, or by whole blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ColumnUse {
    /// Unencoded bytes of these parts of the rows.
    pub row_bytes: u64,
    /// Encoded bytes.
    pub bytes: u64,
    /// Number of blocks by encoding.
    pub encodings: BTreeMap<&'static str, u64>,
}

/// The space used by the parts of a tree's rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeColumns {
    /// Number of leaves read.
    pub leaves_read: u64,
    /// Number of leaves in the tree, without placeholder leaves.
    pub leaves: u64,
    /// Rows in the leaves read.
    pub rows: u64,
    /// Unencoded bytes of their keys and values.
    pub row_bytes: u64,
    /// Bytes of the extents of the leaves read.
    pub bytes: u64,
    /// Bytes of filters in these extents.
    pub filter_bytes: u64,
    /// Bytes of string models in these extents.
    pub model_bytes: u64,
    /// Bytes of dictionaries of leaves with row blocks in these extents.
    pub dictionary_bytes: u64,
    /// The space used by row blocks.
    pub row_blocks: ColumnUse,
    /// The space used in columnar blocks, by part.
    pub columns: BTreeMap<ColumnOf, ColumnUse>,
}

impl ColumnUse {
    /// Bytes saved by encoding; 0 if it saves nothing.
    pub fn saved_bytes(&self) -> u64 {
        self.row_bytes.saturating_sub(self.bytes)
    }

    /// Adds a column of a block, or a block.
    fn add(&mut self, encoding: &'static str, row_bytes: u64, bytes: u64) {
        self.row_bytes += row_bytes;
        self.bytes += bytes;
        *self.encodings.entry(encoding).or_default() += 1;
    }
}

impl Tree {
    /// The space used by each part of the tree's rows in its leaves, measured on about one leaf in
    /// `one_in`, evenly spread: 1 reads all of them. What waits in memory and in buffers is not
    /// counted.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{layout::{Hint, Layout, Part}, TreeOptions};
    ///
    /// let number = || Some(Layout::new(vec![Part::Fixed(8, Hint::Integer)]));
    /// let (key_layout, value_layout) = (number(), number());
    /// let options = TreeOptions::new().key_layout(key_layout).value_layout(value_layout);
    /// let mut load = db.bulk_load("squares", options)?;
    /// for n in 0..1000u64 {
    ///     load.put(&n.to_be_bytes(), &(n * n).to_be_bytes())?;
    /// }
    /// load.finish()?;
    /// let columns = db.open_tree("squares")?.column_sizes(1)?;
    /// assert_eq!((columns.rows, columns.row_bytes), (1000, 16_000));
    /// assert!(columns.columns.values().map(|column| column.bytes).sum::<u64>() < 4_000);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree`; I/O errors and damage.
    pub fn column_sizes(&self, one_in: u64) -> Result<TreeColumns> {
        let one_in = one_in.max(1);
        let mut buf = ReadBuf::new(self.shared.engine.cx.pool.clone());
        let mut found = TreeColumns::default();
        self.walk_pages(&mut |cx, page| {
            let Page::Leaf(leaf) = page else { return Ok(()) };
            if leaf.is_placeholder() {
                return Ok(());
            }
            // The middle leaf of each group of `one_in`, and always the first leaf, so that few
            // leaves suffice.
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
    /// Bytes saved by encoding the rows that were read, counting filters and indexes of their
    /// leaves; 0 if it saves nothing.
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
        let Format::Columnar(format) = run.format() else {
            for block in run.blocks().entries() {
                self.row_blocks.add(
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
            let weighed = format.block(block).and_then(|columnar| {
                weigh(&columnar, |column| {
                    let of = self.columns.entry(column.of).or_default();
                    of.add(column.encoding.name(), column.row_bytes as u64, column.bytes as u64);
                })
            });
            weighed.map_err(|bad| run.bad_block(index, bad))?;
        }
        Ok(())
    }
}
