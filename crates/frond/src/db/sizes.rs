//! What a tree takes: rows, bytes before and after encoding, what waits above its leaves and in memory.
//!
//! Invariants
//! 1. Nothing is sampled: sums are kept with the tree's root as it changes (`tree/sums.rs`), and are stored with it.
//!
//! Threads: all. Cost: some look-ups; the first time after a store of an earlier version of Frond was opened, a read of
//! the tree's nodes.

use crate::{Result, Seqno, sync::Arc, tree::Held};

use super::{Tree, TreeStats};

/// What a tree takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeSizes {
    /// Rows, as [`Tree::row_count`] tells them.
    pub rows: u64,
    /// They were counted.
    pub rows_exact: bool,
    /// Rows of leaves: each key once. A row that was deleted or written anew stays in its leaf until what waits above
    /// reaches it.
    pub leaf_rows: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of the rows of leaves, keys and values, before they were encoded. Of a tree without layouts those of its
    /// blocks before their codec: begins of keys that are those of their neighbours are left out. Of leaves that a version of
    /// Frond has written which did not note it, as much for a byte as of the others.
    pub raw_bytes: u64,
    /// What these rows take as they are encoded.
    pub encoded_bytes: u64,
    /// What leaves take on the disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`. Pages that a
    /// clone shares with its parent count for both.
    pub disk_bytes: u64,
    /// What values of more than 64 KiB of these rows take on the disk. Not in `raw_bytes` and `encoded_bytes`.
    pub blob_bytes: u64,
    /// Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper estimate.
    pub buffered_bytes: u64,
    /// Bytes of rows in memory that no page has yet; of what large transactions wrote to disk ahead, too.
    pub memory_bytes: u64,
    /// Levels of pages, leaves among them; 0 if no page has anything.
    pub depth: u8,
}

impl Tree {
    /// What was done on the tree's runs since the store was opened. Costs some forty loads.
    pub fn stats(&self) -> TreeStats {
        let entry = &self.entry;
        TreeStats::of(self.name(), entry.id, entry.class, &entry.work)
    }

    /// What the tree takes by now. Reads nothing, but for a tree of nodes that an earlier version of Frond has written:
    /// that one's nodes are read the first time (one in some thousand of its pages).
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
        // Asks whether the tree has ended, behind the version that was looked at.
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
