//! Counting the rows of a range without returning them.
//!
//! If the transaction has not written to the tree and takes no locks, whole chunks of the scan are
//! counted by their lengths. Otherwise it is a scan like any other.
//!
//! Threads: as the transaction.

use crate::{
    KeyRange, Result, Tree,
    db::{Cursor, tree::bounds},
};

use super::{Interrupter, ReadOptions, Sees, Txn};

impl Txn {
    /// Counts the rows of a range that a plain scan would find now. It scans the range, at a
    /// tenth of the cost of a scan that returns its rows; values are not read if the tree has a
    /// layout for them. At `Serializable` it locks what it counts, as a scan does.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and [`TxnCursor::next`](super::TxnCursor::next).
    pub fn count(&self, tree: &Tree, range: impl KeyRange) -> Result<u64> {
        let range = bounds(&range)?;
        match self.unwritten(tree, &range)? {
            Some(mut cursor) => cursor.count_rest(),
            None => {
                let mut cursor = self.scan_as(tree, range, &ReadOptions::default())?;
                let mut rows = 0;
                while cursor.next()?.is_some() {
                    rows += 1;
                }
                Ok(rows)
            }
        }
    }

    /// A cursor over a range, if a plain scan of it would take no locks and see no writes of this
    /// transaction; `None` otherwise.
    fn unwritten(
        &self,
        tree: &Tree,
        (from, to): &(Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<Option<Cursor>> {
        let mut state = self.enter_tree(tree)?;
        if self.locks_all() || self.has_written_to(&state, tree) {
            return Ok(None);
        }
        let snapshot = self.snapshot_seen(&mut state, Sees::AsLevel);
        let mut cursor =
            Cursor::new(snapshot, tree.entry.id, Some(tree), (from.clone(), to.clone()))?;
        if let Some(owner) = state.known() {
            cursor.set_interrupter(&Interrupter::of(owner.clone(), self.id()));
        }
        Ok(Some(cursor))
    }
}
