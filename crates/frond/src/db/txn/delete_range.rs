//! Deletes of all rows in a range: a scan that locks each row, and deletes it.
//!
//! Invariants
//! 1. What holds for a locking scan and for deletes holds here: a row that others have is waited for; a snapshot transaction is
//!    in conflict with whoever has changed or deleted a row of the range since (Rule: I27); gaps are locked at the levels
//!    that lock them, so that no row is in the range until the transaction ends but its own.
//! 2. A call that fails has deleted nothing.
//! 3. Memory is bounded: rows that were deleted leave it as all writes do, and the scan begins anew behind the last of them, so
//!    that it need not ask of each row whether what has left memory deletes it.
//!
//! Threads: as the transaction.

use std::ops::{Bound, RangeBounds};

use crate::Result;

use super::{
    super::{Tree, tree::bounds},
    ReadOptions, RowLock, Txn,
};

impl Txn {
    /// Deletes all rows in a range, the transaction's own included, and says how many there were. Each is locked as
    /// [`delete`](Self::delete) locks it, and at the levels `RepeatableRead` and `Serializable` the gaps between them are, too:
    /// nobody inserts into the range until the transaction ends.
    ///
    /// It costs what its rows cost, one after the other: a read, a lock, and a delete, in the log and in the tree. Without locks, and for the price of one row, a
    /// batch does it ([`Batch::delete_range`](crate::Batch::delete_range)), and of all rows of a tree a
    /// [truncation](crate::TreesChange::truncate). As a scan of a statement it goes over what the transaction had written when the
    /// statement began.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let log = db.create_tree("log", Default::default())?;
    /// for day in [b"1", b"2", b"3"] {
    ///     log.put(day, b"entry")?;
    /// }
    /// let txn = db.begin(Default::default())?;
    /// assert_eq!(txn.delete_range(&log, ..&b"3"[..])?, 2);
    /// txn.commit()?;
    /// assert_eq!(log.get(b"2")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Self::delete) and [`scan_locked`](Self::scan_locked): `LockTimeout` and `Interrupted` leave the rows as they
    /// were, and locked as far as it came; `Deadlock`, `Conflict`, `Full`: the transaction is rolled back.
    pub fn delete_range<'k>(&self, tree: &Tree, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (from, to) = bounds(&range)?;
        drop(self.enter_writing(tree, &[])?);
        let before = self.savepoint()?;
        let deleted = self.delete_rows(tree, (from, to));
        if self.is_over() {
            return deleted;
        }
        if deleted.is_err() {
            self.rollback_to(&before)?;
        }
        self.release(&before)?;
        deleted
    }

    fn delete_rows(
        &self,
        tree: &Tree,
        (mut from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<u64> {
        let options = ReadOptions { lock: Some(RowLock::Exclusive), ..ReadOptions::default() };
        let mut deleted = 0;
        loop {
            let began = self.spills();
            let low = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let high = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut cursor = self.scan_with(tree, (low, high), &options)?;
            loop {
                let Some((key, _)) = cursor.next()? else { return Ok(deleted) };
                let key = key.to_vec();
                self.delete(tree, &key)?;
                deleted += 1;
                if self.spills() != began {
                    from = Some([&key[..], &[0]].concat());
                    break;
                }
            }
        }
    }

    /// How often what it writes has left memory.
    fn spills(&self) -> u64 {
        self.state.lock().unwrap().spills
    }
}
