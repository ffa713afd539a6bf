//! How many rows a tree has: counted by commits, and estimated for a range (Rule: I51).
//!
//! Invariants
//! 1. A count that says it is exact is what a walk over the newest rows would count, commits on their way to be visible
//!    included. Design note 026.
//! 2. An estimate is 0 only of a range in which there is nothing.
//!
//! Threads: all. Cost: a count some look-ups; an estimate two descents a memtable and in the tree.

use std::ops::RangeBounds;

use crate::{Result, Seqno};

use super::{Tree, tree::bounds};

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
        self.entry.check()?;
        self.shared.engine.health.check()?;
        if let Some(rows) = self.counted() {
            return Ok(RowCount { rows, exact: true });
        }
        Ok(RowCount { rows: self.estimate(..)?.rows, exact: false })
    }

    fn counted(&self) -> Option<u64> {
        let version = self.shared.engine.versions.current();
        let root = version.roots.get(&self.entry.id);
        let applied = root.map_or(Some(0), |root| root.rows())?;
        let mut more = 0i64;
        for slot in version.memtables() {
            more = more.checked_add(slot.rows(self.entry.id)?)?;
        }
        applied.checked_add_signed(more)
    }

    /// About how many rows lie in a range, and how many bytes they take. Reads no rows; inner nodes that were not read
    /// before are. Counts a row that was written anew of late twice, but never more rows than the tree has.
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped.
    pub fn estimate<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<RangeEstimate> {
        self.entry.check()?;
        self.shared.engine.health.check()?;
        let (from, to) = bounds(&range)?;
        let range = (from.as_deref(), to.as_deref());
        if from.is_some() && from == to {
            return Ok(RangeEstimate::default());
        }
        let version = self.shared.engine.versions.current();
        let root = version.roots.get(&self.entry.id);
        let held = root.map(|root| root.estimate(&self.shared.engine.cx, range));
        let mut held = held.unwrap_or_default();
        for slot in version.memtables() {
            let (rows, bytes) = slot.table.estimate(self.entry.id, range.0, range.1);
            held.rows += rows;
            held.bytes += bytes;
            for piece in slot.spilled_at(self.entry.id, Seqno(u64::MAX)) {
                // What was written beyond memory is not looked into: of what is cut, a half at each end.
                let ends = i32::from(range.0.is_some()) + i32::from(range.1.is_some());
                held.rows += piece.entries() as f64 * 0.5f64.powi(ends);
                held.is_guessed = true;
            }
        }
        drop(version);
        let is_empty = held.rows == 0.0 && !held.is_guessed;
        let rows = if is_empty { 0 } else { held.rows.round().max(1.0) as u64 };
        let rows =
            self.counted().map_or(rows, |counted| rows.min(counted.max(u64::from(!is_empty))));
        Ok(RangeEstimate { rows, bytes: held.bytes.round() as u64 })
    }
}
