//! How many rows a range has, counted where they lie: nothing of them is handed out.
//!
//! Where the transaction has not written to the tree, and locks nothing, whole pieces of the walk are counted by their lengths.
//! Else it is a scan like any other.
//!
//! Threads: as the transaction.

use std::ops::RangeBounds;

use crate::{Result, Tree};

use super::{
    super::{cursor::Cursor, tree::bounds},
    Interrupter, Isolation, ReadOptions, Txn,
};

impl Txn {
    /// How many rows of a range a plain scan would find now. A walk over the range, at a tenth of what a scan costs that hands
    /// out its rows; of values nothing is read if the tree has a layout of them. At `Serializable` it locks what it counts, as a scan.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and [`TxnCursor::next`](super::TxnCursor::next).
    pub fn count<'k>(&self, tree: &Tree, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
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

    /// What its plain scan of a range walks over, if that is no more than what others have committed.
    fn unwritten(
        &self,
        tree: &Tree,
        (from, to): &(Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<Option<Cursor>> {
        let mut state = self.enter_tree(tree)?;
        let locks = self.options.isolation == Isolation::Serializable && !self.options.read_only;
        let has_touched = state.has_written && self.live.lock().changes(tree.entry.id) != 0;
        if locks || has_touched || self.private.is_some() {
            return Ok(None);
        }
        let snapshot = match self.keeps_snapshot(&state) {
            true => self.snapshot_again(&mut state),
            false => self.newest_snapshot(),
        };
        let mut cursor =
            Cursor::new(snapshot, tree.entry.id, Some(tree), (from.clone(), to.clone()))?;
        if let Some(owner) = state.known() {
            cursor.heed(&Interrupter::of(owner.clone(), self.id()));
        }
        Ok(Some(cursor))
    }
}
