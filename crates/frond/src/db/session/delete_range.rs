//! Deletes of all rows in a range: a scan that locks each row and deletes it.
//!
//! Invariants
//! 1. The rules of locking scans and of deletes apply: it waits for rows that others have locked; a
//!    snapshot transaction is in conflict if another one has changed or deleted a row of the range
//!    since its snapshot (Rule: I27); gaps are locked at the levels that lock them, so that only
//!    the transaction itself can insert into the range until it ends.
//! 2. A call that fails has deleted nothing.
//! 3. Memory is bounded: the deletes are spilled as all writes are. After a spill the scan restarts
//!    after the last deleted row, so that it need not check each row against the spilled deletes.
//!
//! Threads: as the transaction.

use std::ops::Bound;

use crate::{
    KeyRange, Result,
    db::{
        Tree,
        tree::{bounds, key_after},
    },
};

use super::{ReadOptions, RowLock, Txn};

impl Txn {
    /// Deletes all rows in a range, including the transaction's own, and returns how many there
    /// were. Each row is locked as [`delete`](Self::delete) locks it; at the levels
    /// `RepeatableRead` and `Serializable` the gaps between them are, too: other transactions
    /// cannot insert into the range until the transaction ends.
    ///
    /// The cost is that of its rows one by one: a read, a lock, and a delete, in the log and in the
    /// tree. Without locks, a batch does it for the price of one row
    /// ([`Batch::delete_range`](crate::Batch::delete_range)); to delete all rows of a tree, use a
    /// [truncation](crate::db::TreesChange::truncate). Within a statement it covers what the
    /// transaction had written when the statement started.
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
    /// As [`delete`](Self::delete) and [`scan_with`](Self::scan_with): after `LockTimeout` and
    /// `Interrupted` the rows are unchanged, and those that were reached are locked; after
    /// `Deadlock`, `Conflict`, `Full` the transaction is rolled back.
    pub fn delete_range(&self, tree: &Tree, range: impl KeyRange) -> Result<u64> {
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
        let options = ReadOptions::new().lock(RowLock::Exclusive);
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
                    from = key_after(&key);
                    if from.is_none() {
                        return Ok(deleted);
                    }
                    break;
                }
            }
        }
    }

    /// Number of spills of the transaction's writes so far.
    pub(crate) fn spills(&self) -> u64 {
        self.state.lock().unwrap().buffer.spills
    }
}
