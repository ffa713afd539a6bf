//! How many rows a tree has: counted by commits, and estimated for a range (Rule: I51).
//!
//! Invariants
//! 1. A count that says it is exact is what a walk over the newest rows would count, commits on their way to be visible
//!    included. Design note 026.
//! 2. An estimate is 0 only of a range in which there is nothing.
//!
//! Threads: all. Cost: a count some look-ups; an estimate two descents a memtable and in the tree.

use std::ops::RangeBounds;

use crate::{
    Result, Seqno, TreeId,
    tree::{Held, Look},
    version::Version,
};

use super::{Shared, Tree, tree::bounds};

/// How many rows a tree has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowCount {
    /// Rows.
    pub rows: u64,
    /// They were counted. Else `rows` is an estimate: something was committed to the tree of which it was not known whether
    /// its keys were there.
    pub exact: bool,
}

/// About what lies in a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeEstimate {
    /// Rows; 0 only if there is none.
    pub rows: u64,
    /// Bytes that they take, as they lie in leaves and memtables.
    pub bytes: u64,
}

impl Tree {
    /// How many rows there are. Commits count as they go: inserts that are checked, and what a transaction does under its
    /// locks to rows that it knows of ([`Txn::insert_row`](crate::Txn::insert_row), `update_row`, `delete_row`, and writes of
    /// the row that a locking read has just found or missed). A tree to which something was put or deleted without a look
    /// says that it is not exact, until it is empty or another takes its place.
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
    pub fn row_count(&self) -> Result<RowCount> {
        self.shared.engine.health.check()?;
        let counted = self.counted();
        // Behind the version that was counted: a tree that has ended has no rows there.
        if !plant!("db: a count does not ask whether its tree has ended") {
            self.entry.check()?;
        }
        if let Some(rows) = counted {
            return Ok(RowCount { rows, exact: true });
        }
        Ok(RowCount { rows: self.estimate(..)?.rows, exact: false })
    }

    /// How many rows there are, if everything that was committed knew what it did.
    pub(super) fn counted(&self) -> Option<u64> {
        let version = self.shared.engine.versions.current();
        let root = version.roots.get(&self.entry.id);
        let applied = root.map_or(Some(0), |root| root.rows())?;
        let mut more = 0i64;
        for slot in version.memtables() {
            more = more.checked_add(slot.rows(self.entry.id)?)?;
        }
        applied.checked_add_signed(more)
    }

    /// About how many rows lie in a range, and how many bytes they take. Reads nothing from the file: of inner nodes that were
    /// not read since the store was opened it goes by the number of all rows as it is known or was estimated by the last
    /// checkpoint, in equal shares. Counts a row that was written
    /// anew of late twice, but never more rows than the tree has. It goes by what is committed by now: what a transaction or
    /// a snapshot sees may be more ([`Txn::estimate`](crate::Txn::estimate)).
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped.
    pub fn estimate<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<RangeEstimate> {
        self.estimate_by(range, Look::InMemory)
    }

    pub(super) fn estimate_by<'k>(
        &self,
        range: impl RangeBounds<&'k [u8]>,
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
        // Behind the versions that were looked at.
        self.entry.check()?;
        Ok(RangeEstimate { rows, bytes: held.bytes.round() as u64 })
    }
}

/// True if no key can lie between the two.
pub(super) fn is_nothing(from: &Option<Vec<u8>>, to: &Option<Vec<u8>>) -> bool {
    from.is_some() && from == to
}

impl Shared {
    /// About what a version holds of a tree in a range, in whatever memtables it has.
    pub(super) fn held(
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
