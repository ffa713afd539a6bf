//! Row counts of trees, maintained by commits, and estimates for ranges (Rule: I51).
//!
//! Invariants
//! 1. A count that is marked exact equals what a scan of the newest rows would count, including
//!    commits that are not visible yet. Design note 026.
//! 2. An estimate is 0 only if the range is empty.
//!
//! Threads: all. Cost: a count takes some look-ups; an estimate two descents per memtable and in
//! the tree.

use crate::{
    KeyRange, Result, Seqno, TreeId,
    db::{Shared, Tree, tree::bounds},
    tree::{Held, Look},
    version::Version,
};

/// Number of rows of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowCount {
    /// Rows.
    pub rows: u64,
    /// Whether the rows were counted. If not, `rows` is an estimate: some commit wrote to the tree
    /// without knowing whether its keys existed.
    pub exact: bool,
}

/// Approximate content of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeEstimate {
    /// Rows; 0 only if there are none.
    pub rows: u64,
    /// Bytes that they take in leaves and memtables.
    pub bytes: u64,
}

impl Tree {
    /// Number of rows. Commits maintain the count if they know whether their keys existed: checked
    /// inserts, and changes by a transaction, under its locks, of rows that it knows
    /// ([`RowWriter`](crate::transaction::RowWriter), and writes of the row that a locking read has
    /// just found or missed). After a blind put or delete the count is not exact any more, until
    /// the tree is empty or replaced: it is then what [`estimate`](Self::estimate) says of the
    /// whole tree. Deletes do not raise the estimate. A put of an existing key raises it only while
    /// the two versions of the row are in different parts of the store: if a memtable was applied
    /// between the two writes, until a merge in the tree brings them together.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let words = db.create_tree("words", Default::default())?;
    /// db.transact(|txn| txn.insert(&words, b"frond", b""))?;
    /// assert_eq!(words.row_count()?, frond::RowCount { rows: 1, exact: true });
    /// words.put(b"fern", b"")?;
    /// assert!(!words.row_count()?.exact);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped.
    #[doc(alias = "len")]
    pub fn row_count(&self) -> Result<RowCount> {
        self.shared.engine.health.check()?;
        let counted = self.counted();
        // Checked after the version was taken: a tree that has ended has no rows there.
        if !plant!("db: a count does not ask whether its tree has ended") {
            self.entry.check()?;
        }
        if let Some(rows) = counted {
            return Ok(RowCount { rows, exact: true });
        }
        Ok(RowCount { rows: self.estimate(..)?.rows, exact: false })
    }

    /// The exact number of rows, if every commit knew whether its keys existed.
    pub(in crate::db) fn counted(&self) -> Option<u64> {
        let version = self.shared.engine.versions.current();
        let root = version.roots.get(&self.entry.id);
        let applied = root.map_or(Some(0), |root| root.rows())?;
        let mut more = 0i64;
        for slot in version.memtables() {
            more = more.checked_add(slot.rows(self.entry.id)?)?;
        }
        applied.checked_add_signed(more)
    }

    /// Estimates how many rows a range has, and how many bytes they take. Reads nothing from the
    /// file: for an inner node that was not read since the store was opened, it divides the row
    /// count that is known, or that the last checkpoint estimated, into equal shares. A row that
    /// was rewritten recently may count twice, and one that was deleted recently may still count;
    /// if the number of rows is known, the result does not exceed it. It covers what is committed
    /// so far; a transaction or snapshot may see more ([`Txn::estimate`](crate::Txn::estimate)).
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped.
    pub fn estimate(&self, range: impl KeyRange) -> Result<RangeEstimate> {
        self.estimate_by(range, Look::InMemory)
    }

    pub(in crate::db) fn estimate_by(
        &self,
        range: impl KeyRange,
        look: Look,
    ) -> Result<RangeEstimate> {
        self.shared.engine.health.check()?;
        let (from, to) = bounds(&range)?;
        if is_nothing(&from, &to) {
            return self.entry.check().map(|()| RangeEstimate::default());
        }
        let version = self.shared.engine.versions.current();
        let range = (from.as_deref(), to.as_deref());
        let held = self.shared.held(&version, self.entry.id, range, look);
        drop(version);
        let mut rows = held.rows_at_least();
        if let Some(counted) = self.counted() {
            rows = rows.min(counted.max(u64::from(rows > 0)));
        }
        // Checked after the versions were taken.
        self.entry.check()?;
        Ok(RangeEstimate { rows, bytes: held.bytes.round() as u64 })
    }
}

/// True if no key can be between the two bounds.
pub(in crate::db) fn is_nothing(from: &Option<Vec<u8>>, to: &Option<Vec<u8>>) -> bool {
    from.is_some() && from == to
}

impl Shared {
    /// Approximate content of a range of a tree in a version, with all its memtables.
    pub(in crate::db) fn held(
        &self,
        version: &Version,
        tree: TreeId,
        range: (Option<&[u8]>, Option<&[u8]>),
        look: Look,
    ) -> Held {
        let (root, cx) = (version.roots.get(&tree), &self.engine.cx);
        let mut held = root.map(|root| root.estimate(cx, range, look)).unwrap_or_default();
        for slot in version.memtables() {
            let (rows, bytes) = slot.table.estimate(tree, range.0, range.1);
            held.add(Held { rows, bytes, is_guessed: false });
            let pieces = slot.spilled_at(tree, Seqno(u64::MAX)).iter();
            pieces.for_each(|piece| held.add(piece.estimate(range)));
        }
        held
    }
}
