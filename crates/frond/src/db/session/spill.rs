//! Spills of a transaction: its locks and its commit, in addition to the spills of its write buffer
//! (`write_buffer/spill.rs`).
//!
//! The locks of spilled rows leave the lock table (Rule: I47, `txn/lock_table/spilled.rs`). The
//! commit names the spilled runs in the log.
//!
//! Invariants
//! 1. Spilled writes are seen only by their own transaction, and by other transactions' searches
//!    for pending keys.
//! 2. No spill happens within a row call: writes are spilled before such a call or after it.
//! 3. The runs are on disk before a record that names them can be (Rule: I11).
//!
//! Threads: as the transaction.

use std::collections::HashSet;

use crate::{
    Error, Result, TreeId,
    db::Tree,
    pipeline::Engine,
    sync::Arc,
    txn::{
        HashedKey, LiveWrites, OwnState,
        lock_table::{HoldsRows, Leaving as LeavingLocks, Owner},
    },
    version::{Change, SpilledWrites},
};

use super::{
    State, Txn,
    write_buffer::{Cancellable, MERGED, Spiller, tag_in},
};

/// Spilled commits that may wait to be applied: readers must search each of them.
pub(super) const WAITING_MAX: usize = 2;

/// Determines whether a transaction holds a row: in its pieces, in pieces that a rollback to a
/// savepoint has dropped, or, once those are gone, in its sealed set.
#[derive(Debug)]
struct SpilledRows {
    engine: Arc<Engine>,
    live: Arc<LiveWrites>,
}

impl HoldsRows for SpilledRows {
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool> {
        let (pieces, dropped) = self.live.all_pieces();
        let all = pieces.iter().map(|piece| &piece.writes).chain(dropped.iter());
        let mut holds = Some(false);
        for writes in all {
            match tag_in(&self.engine, writes, tree, key) {
                Ok(Some(_)) => return Some(true),
                Ok(None) => {}
                // The row may be in the run that cannot be read.
                Err(_) => holds = None,
            }
        }
        // A row that was written again after its piece was rolled back took no new lock: the rolled
        // back piece stood for the lock, and a prepare drops those pieces.
        let in_memory = || {
            self.live.is_in_sealed(tree, key)
                && !plant!("txn: a prepare forgets rows written again")
        };
        if dropped.is_empty() && in_memory() { Some(true) } else { holds }
    }
}

/// An object that answers for the rows that a transaction has spilled.
pub(in crate::db) fn rows_beyond_memory(
    engine: &Arc<Engine>,
    live: &Arc<LiveWrites>,
) -> Arc<dyn HoldsRows> {
    Arc::new(SpilledRows { engine: engine.clone(), live: live.clone() })
}

impl Txn {
    /// What the transaction itself did to a key.
    pub(super) fn own_state(&self, state: &State, hashed: HashedKey<'_>) -> Result<OwnState> {
        self.buffer.own_state(&self.shared.engine, &state.buffer, hashed)
    }

    /// True if the transaction has ever written to a tree.
    pub(crate) fn has_touched(&self, tree: &Tree) -> bool {
        self.buffer.changes(tree.entry.id) != 0
    }

    /// Fails if the transaction was cancelled or has ended; for long loops.
    pub(crate) fn must_not_stop(&self) -> Result<()> {
        self.go_on().map(drop)
    }

    /// True if the transaction has written a key, and not rolled that back.
    pub(crate) fn has_written_key(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        let state = self.stay()?;
        Ok(self.own_state(&state, HashedKey::new(tree.entry.id, key))? != OwnState::Untouched)
    }

    /// Spills what is in memory if it has become too much. Called before a call that writes; a row
    /// call writes several times and is not split.
    ///
    /// An error ends the transaction, because what was being spilled is incomplete. An interrupt
    /// does not.
    #[inline]
    pub(super) fn spill_if_large(&self, state: &mut State) -> Result<()> {
        match state.buffer.is_large && state.row_calls.depth == 0 {
            true => self.spill_if_due(state),
            false => Ok(()),
        }
    }

    fn spill_if_due(&self, state: &mut State) -> Result<()> {
        let owner = state.known().cloned();
        if !self.spiller(owner.clone()).is_due(&mut state.buffer)? {
            return Ok(());
        }
        self.leave_memory(state, Cancellable::No).inspect_err(|error| self.end_by(state, error))?;
        let merged = self.spiller(owner).merge_after_spill(&state.buffer);
        merged.inspect_err(|error| {
            if !matches!(error, Error::Interrupted) {
                self.shared.stop_if_unwritable(error);
                self.end_by(state, error);
            }
        })
    }

    fn spiller(&self, owner: Option<Arc<Owner>>) -> Spiller<'_> {
        Spiller { buffer: &self.buffer, shared: &self.shared, owner, temporary: None }
    }

    /// Ends the transaction with an error that a retry would cause again.
    fn end_by(&self, state: &mut State, error: &Error) {
        state.ended_by = Some(Box::new(error.clone()));
        self.end(state);
    }

    /// Spills everything that is in memory. After an error the transaction must be ended.
    pub(super) fn leave_memory(&self, state: &mut State, cancellable: Cancellable) -> Result<()> {
        let mut hashes = HashSet::new();
        let spiller = self.spiller(state.known().cloned());
        let trees_exist = state.entered.iter().try_for_each(|tree| tree.check());
        let spilled = trees_exist
            .and_then(|()| spiller.spill(&mut state.buffer, cancellable, Some(&mut hashes)));
        spilled.inspect_err(|error| self.shared.stop_if_unwritable(error))?;
        if let Some(locks) = &mut state.locks {
            let rows = rows_beyond_memory(&self.shared.engine, &self.buffer.live);
            self.shared.locking.table.spill(locks, rows, LeavingLocks::Rows(&hashes));
        }
        Ok(())
    }

    /// The spilled part of its commit: the change to be noted, and the bytes to reserve for it.
    pub(super) fn spilled_change(&self, state: &State) -> Result<(Change, u64)> {
        let shared = &*self.shared;
        // It has no scans any more.
        self.buffer.live.lock().forget_hidden_deletes(None);
        // Readers search each piece, and an apply reads all of them concurrently.
        self.spiller(state.known().cloned()).merge_pieces(&[], None, 2 * MERGED)?;
        let pieces = self.buffer.live.all_pieces().0;
        let mut all = SpilledWrites::default();
        for (tree, runs) in pieces.iter().rev().flat_map(|piece| piece.writes.iter()) {
            all.push_older(tree, runs.clone());
        }
        if !plant!("txn: record before the spilled runs are synced") {
            shared.engine.health.watch(shared.engine.store.sync())?;
        }
        // Deletes are always allowed: they are how space comes back (Rule: I24).
        let adds = pieces.iter().any(|piece| !piece.only_deletes);
        let bytes = if adds { all.bytes() } else { 0 };
        Ok((Change::Spill(Arc::new(all)), bytes))
    }
}
