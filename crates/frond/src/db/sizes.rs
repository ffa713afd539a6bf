//! Sizes of a tree: rows, bytes before and after encoding, and what waits in buffers and in memory.
//!
//! Invariants
//! 1. Nothing is sampled: sums are maintained in the tree's root as it changes (`tree/sums.rs`) and
//!    stored with it.
//!
//! Threads: all. Cost: some look-ups; the first time after a store of an earlier version of Frond
//! was opened, a read of the tree's nodes.

use crate::{
    Result, Seqno,
    db::{Tree, TreeStats},
    sync::Arc,
    tree::Held,
};

/// Sizes of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeSizes {
    /// Rows, as [`Tree::row_count`] returns them.
    pub rows: u64,
    /// Whether `rows` is exact.
    pub rows_exact: bool,
    /// Rows in leaves: each key once. A row that was deleted or overwritten stays in its leaf until
    /// the newer message that waits above reaches it.
    pub leaf_rows: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Bytes of keys and values in leaves before encoding. For a tree without layouts, bytes of its
    /// blocks before compression, in which prefixes shared by neighbouring keys are left out.
    /// Leaves written by a version of Frond that did not record this are assumed to compress as
    /// well as the others.
    pub raw_bytes: u64,
    /// Encoded bytes of these rows.
    pub encoded_bytes: u64,
    /// Bytes of leaves on disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`.
    /// Pages that a clone shares with its parent count for both.
    pub disk_bytes: u64,
    /// Bytes on disk of these rows' values over 64 KiB. Not included in `raw_bytes` and
    /// `encoded_bytes`.
    pub blob_bytes: u64,
    /// Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper
    /// estimate.
    pub buffered_bytes: u64,
    /// Bytes of rows in memory that are in no page yet; also of what large transactions wrote to
    /// disk before their commit.
    pub memory_bytes: u64,
    /// Levels of pages, including leaves; 0 if there are no pages.
    pub depth: u8,
}

impl Tree {
    /// Work done on the tree's runs since the store was opened. Costs some forty loads.
    pub fn stats(&self) -> TreeStats {
        let entry = &self.entry;
        TreeStats::of(self.name(), entry.id, entry.class, &entry.work)
    }

    /// Current sizes of the tree. Reads nothing, except for a tree with nodes that an earlier
    /// version of Frond has written: its nodes (one in a few thousand of its pages) are read the
    /// first time.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let words = db.create_tree("words", Default::default())?;
    /// words.put(b"frond", b"the leaf of a fern")?;
    /// assert!(words.sizes()?.memory_bytes > 0);
    /// db.checkpoint()?;
    /// let sizes = words.sizes()?;
    /// assert_eq!((sizes.leaf_rows, sizes.depth, sizes.memory_bytes), (1, 1, 0));
    /// assert!(sizes.disk_bytes > 0);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped; I/O errors and damage where nodes are read.
    pub fn sizes(&self) -> Result<TreeSizes> {
        let engine = &self.shared.engine;
        let version = engine.versions.hold();
        let root = version.roots.get(&self.entry.id).map(Arc::clone).unwrap_or_default();
        let sums = root.sums(&engine.cx)?;
        let mut memory = Held::default();
        for slot in version.memtables() {
            let (rows, bytes) = slot.table.estimate(self.entry.id, None, None);
            memory.add(Held { rows, bytes, is_guessed: false });
            let pieces = slot.spilled_at(self.entry.id, Seqno(u64::MAX)).iter();
            pieces.for_each(|piece| memory.add(piece.estimate((None, None))));
        }
        // Also checks that the tree has not ended, after the version was taken.
        let count = self.row_count()?;
        Ok(TreeSizes {
            rows: count.rows,
            rows_exact: count.exact,
            leaf_rows: sums.rows,
            leaves: sums.leaves,
            raw_bytes: sums.raw_bytes(),
            encoded_bytes: sums.encoded,
            disk_bytes: sums.extents.saturating_add(sums.blobs),
            blob_bytes: sums.blobs,
            buffered_bytes: sums.waiting,
            memory_bytes: memory.bytes.round() as u64,
            depth: root.depth(),
        })
    }
}
