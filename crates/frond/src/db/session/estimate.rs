//! Estimates of how much of a tree is in a range, as a transaction sees it (Rule: I51).
//!
//! They cover what is committed now, which locking reads see; what the transaction's snapshot
//! shows, if it has one; and its own writes, in memory and spilled.
//!
//! Invariant: an estimate is 0 only if no read of the transaction finds a row there.
//!
//! Threads: as the transaction. Cost: as [`Tree::estimate`], twice if the snapshot's version is not
//! the newest.

use crate::{
    KeyRange, Result, TreeId,
    db::{RangeEstimate, Tree, read::is_nothing, tree::bounds},
    sync::Arc,
    tree::Look,
    txn::TxnWrites,
};

use super::{State, Txn};

impl Txn {
    /// Estimates how many rows are in a range, and how many bytes they take: of what is committed
    /// or of what the transaction's reads see, whichever is more, plus the transaction's own
    /// writes. Reads nothing from the file. 0 rows only if neither a plain nor a locking read of
    /// the transaction would find one.
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped; `TxnEnded`, `Interrupted`.
    pub fn estimate(&self, tree: &Tree, range: impl KeyRange) -> Result<RangeEstimate> {
        let state = self.enter_tree(tree)?;
        let (from, to) = bounds(&range)?;
        if is_nothing(&from, &to) {
            return Ok(RangeEstimate::default());
        }
        let (shared, id) = (&*self.shared, tree.entry.id);
        let range = (from.as_deref(), to.as_deref());
        let (own, delta) = self.own_estimate(&state, tree, range);
        let now = shared.engine.versions.hold();
        let held = shared.held(&now, id, range, Look::InMemory);
        let mut rows = held.rows_at_least() + own.rows;
        let mut bytes = held.bytes.round() as u64;
        if let Some(all) = tree.counted().zip(delta).and_then(|(n, d)| n.checked_add_signed(d)) {
            rows = rows.min(all.max(u64::from(rows > 0)));
        }
        if let Some(snapshot) = &state.snapshot
            && tree.check_at(snapshot.at).is_ok()
        {
            let then = snapshot.version(&shared.engine.versions);
            if !Arc::ptr_eq(&then, &now) {
                let held = shared.held(&then, id, range, Look::InMemory);
                rows = rows.max(held.rows_at_least());
                bytes = bytes.max(held.bytes.round() as u64);
            }
        }
        // Checked after the versions were taken: a version that includes the drop of the tree has
        // no rows of it.
        tree.entry.check()?;
        Ok(RangeEstimate { rows, bytes: bytes + own.bytes })
    }

    /// Number of rows that it has added to one of its own trees, if that is known.
    pub(super) fn rows_written(&self, tree: &Tree) -> Result<Option<u64>> {
        let state = self.stay()?;
        let delta = match state.buffer.has_written {
            true => delta(&self.live.lock(), tree.entry.id),
            false => Some(0),
        };
        Ok(delta.and_then(|delta| u64::try_from(delta).ok()))
    }

    /// Its own writes in the range, and their change of the tree's total row count, if that is
    /// known.
    fn own_estimate(
        &self,
        state: &State,
        tree: &Tree,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> (RangeEstimate, Option<i64>) {
        if !state.buffer.has_written {
            return (RangeEstimate::default(), Some(0));
        }
        let id = tree.entry.id;
        let mut own = self.live.lock();
        let (mut rows, mut bytes) = own.estimate(id, range);
        let delta = delta(&own, id);
        let pieces = own.pieces().clone();
        drop(own);
        for runs in pieces.iter().flat_map(|piece| piece.writes.of(id)) {
            let held = runs.estimate(range);
            rows += held.rows_at_least();
            bytes += held.bytes.round() as u64;
        }
        (RangeEstimate { rows, bytes }, delta)
    }
}

/// Change of a tree's row count by own writes, if that is known.
fn delta(own: &TxnWrites, tree: TreeId) -> Option<i64> {
    match own.changes(tree) {
        0 => Some(0),
        _ => own.row_deltas().find(|(other, _)| *other == tree).map(|(_, delta)| delta),
    }
}
