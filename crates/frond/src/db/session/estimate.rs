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
    KeyRange, Result,
    db::{RangeEstimate, Tree, read::is_nothing, tree::bounds},
    sync::Arc,
    tree::Look,
};

use super::Txn;

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
        let (own, delta) = self.buffer.estimate(&state.buffer, id, range);
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
}
