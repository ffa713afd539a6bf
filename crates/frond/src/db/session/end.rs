//! The end of transactions: commit and rollback.

use crate::{
    Error, Result, Seqno,
    db::{Shared, commit::PendingCommit},
    pipeline::CommitPayload,
    sync::{Arc, MutexGuard, panicking},
    trim::give_freed_back,
    txn::{LiveWrites, lock_table::LockTable},
};

use super::{State, Txn, pool::PooledTxn, spill::WAITING_MAX};

impl Txn {
    /// Makes everything that was written visible to others atomically, and durable as the
    /// transaction's or the store's level says. Returns the seqno of the commit; for a transaction
    /// that has written nothing, that of the last visible commit.
    ///
    /// # Errors
    /// The transaction is rolled back with `TxnEnded`, `Interrupted` (if it would have had to wait
    /// for background work, or while it merged spilled writes), `NoSuchTree` if a tree was dropped,
    /// `Full`, `BatchTooLarge`, `ReadOnly`, `Closed`. `Failed`, `OutcomeUnknown`: the store has
    /// stopped.
    pub fn commit(self) -> Result<Seqno> {
        let mut state = self.state.lock().unwrap();
        if state.is_over {
            return Err(Error::TxnEnded);
        }
        let is_empty = !state.buffer.has_written || self.is_empty();
        let committed = match is_empty {
            true => Ok(self.shared.engine.sequencer.visible()),
            false => self.commit_writes(&mut state),
        };
        if committed.is_ok() {
            state.keep_temporary();
        }
        self.end(&mut state);
        committed
    }

    fn commit_writes(&self, state: &mut State) -> Result<Seqno> {
        let shared = &*self.shared;
        shared.check_writable()?;
        let level = self.options.durability.unwrap_or(shared.commits.durability);
        let timing = shared.begin_timing(level);
        state.entered.iter().try_for_each(|tree| tree.check())?;
        let (bytes, only_deletes) = {
            let own = self.buffer.live.lock();
            (own.commit_bytes() as u64, own.only_deletes())
        };
        // From here until it has its place in the log is the last stretch in which it can be
        // cancelled.
        shared.engine.pace(self.paced(state, only_deletes), &|| state.check_interrupted())?;
        let is_spilled = self.buffer.live.lock().is_spilled();
        let spilled = match is_spilled {
            true => {
                let turn =
                    shared.engine.wait_for_spilled(WAITING_MAX, &|| state.check_interrupted())?;
                Some((turn, self.spilled_change(state)?))
            }
            false => None,
        };
        let _turn = shared.engine.make_room(bytes, &|| state.check_interrupted())?;
        let mut payload = state.spare.payload();
        let mut blobs = Vec::new();
        {
            let mut own = self.buffer.live.lock();
            own.seal(&shared.engine.cx.folder())?;
            blobs.extend(own.pieces().iter().flat_map(|piece| piece.blobs.iter().cloned()));
            blobs.extend(own.blobs().cloned());
            shared.separate(own.sealed(), &mut blobs)?;
            let fresh = Arc::get_mut(&mut payload).expect("it is not shared yet");
            std::mem::swap(&mut fresh.writes, own.sealed());
            fresh.writes.list_trees(&mut fresh.trees);
            let written = state.entered.iter().map(|tree| tree.id);
            shared.list_counters(written, &mut fresh.counters);
            fresh.rows.clear();
            fresh.rows.extend(own.row_deltas());
            shared.engine.make_runs(fresh);
            own.gone_to(payload.clone());
        }
        // Rule I41: locks are released once the commit is visible, before it waits for its
        // durability.
        let locks = Ending { shared, live: &self.buffer.live, state: &mut *state };
        let commit = match &spilled {
            None => PendingCommit::new(&payload, &blobs, &[]),
            Some((_turn, change)) => PendingCommit::spilled(&payload, &blobs, change),
        };
        let committed = shared.commit_pending(&commit, level, locks);
        self.take_back(state, payload);
        if committed.is_ok() {
            shared.end_timing(&timing);
        }
        committed
    }

    /// Reclaims the memory of committed writes, unless a helper still reads them.
    fn take_back(&self, state: &mut State, mut payload: Arc<CommitPayload>) {
        let mut own = self.buffer.live.lock();
        own.forget_holder();
        if let Some(done) = Arc::get_mut(&mut payload) {
            own.take_back(std::mem::take(&mut done.writes));
            done.runs.clear();
            state.spare.payload = Some(payload);
        }
    }

    /// Rolls the transaction back, as dropping it does. Neither can fail.
    pub fn rollback(self) {
        self.end(&mut self.state.lock().unwrap());
    }

    /// Locks the state if the transaction has not ended, for calls that an interrupt does not
    /// prevent.
    pub(super) fn stay(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock().unwrap();
        if state.is_in_row_call_of_another() {
            state = self.after_row_calls(state);
        }
        if state.is_over { Err(Error::TxnEnded) } else { Ok(state) }
    }

    /// Locks the state if the transaction has not ended and is not interrupted, to continue its
    /// work.
    pub(super) fn go_on(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.stay()?;
        state.check_interrupted()?;
        Ok(state)
    }

    /// True once it has ended: by a deadlock or a conflict, because it was large and could not be
    /// spilled, or because the store was [closed](crate::Db::close). Waits for a call of another
    /// thread on the same transaction.
    pub fn is_over(&self) -> bool {
        self.has_ended() || self.shared.engine.health.is_closing()
    }

    /// True once a call of its own has ended it.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().unwrap().is_over
    }

    /// The error that ended it before its program did, except for deadlocks and conflicts.
    pub(super) fn ended_by(&self) -> Option<Error> {
        self.state.lock().unwrap().ended_by.as_deref().cloned()
    }

    /// Ends it: uncommitted writes are dropped and locks released.
    pub(super) fn end(&self, state: &mut State) {
        state.is_over = true;
        state.take_temporary_back();
        drop(Ending { shared: &self.shared, live: &self.buffer.live, state });
        self.release_snapshot(state.snapshot.take());
        if state.buffer.has_written {
            self.buffer.live.clear();
        }
        let freed_bytes = state.buffer.memory.clear();
        // No row is locked any more.
        if state.buffer.spills > 0 {
            let engine = &self.shared.engine;
            if engine.writes_memory.is_trim_due(engine.env.clock.now()) {
                give_freed_back(freed_bytes);
            }
        }
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // Also if a custom merge operator has panicked: others wait for the locks.
        let (mut state, is_whole) = match self.state.lock() {
            Ok(state) => (state, !panicking()),
            Err(poisoned) => (poisoned.into_inner(), false),
        };
        if !state.is_over {
            self.end(&mut state);
        }
        // State left by a panic is not reused, nor that of a prepared transaction.
        if is_whole && Arc::strong_count(&self.buffer.live) == 1 {
            let (live, state) = (self.buffer.live.clone(), std::mem::take(&mut *state));
            self.shared.sessions.pool.keep(PooledTxn { live, state });
        }
    }
}

/// Releases what others wait for, when dropped.
struct Ending<'a> {
    shared: &'a Shared,
    live: &'a Arc<LiveWrites>,
    state: &'a mut State,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let State { locks, entered, spare, .. } = &mut *self.state;
        entered.drain(..).for_each(|tree| tree.writers.leave(self.live));
        if let Some(mut locks) = locks.take() {
            LockTable::release_all(&self.shared.locking.table, &mut locks);
            self.shared.locking.gate.open();
            spare.locks = Some(locks);
        }
    }
}
