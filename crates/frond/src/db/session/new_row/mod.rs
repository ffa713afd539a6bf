//! Insertion of a new row into all its trees in one step.
//!
//! The naive way locks, checks, and appends one entry after the other, each under the transaction's
//! state and its writes, and hashes and searches each key several times. Nearly every inserted row
//! needs none of that: no other transaction has locked one of its keys or a gap that one of them
//! goes into, the transaction has not written them before, and those that must be absent are. So
//! this step takes the state once, hashes each key once, locks all of them without waiting for
//! their holders, and appends all entries at once. Any other row is inserted by the general code
//! (`row.rs`).
//!
//! Invariants
//! 1. If a row is left to the general code, nothing has changed: none of its entries is among the
//!    writes, and no row is locked that was not before.
//! 2. The order is that of `write.rs`: keys are locked, then checked, then appended and listed, and
//!    only then are gaps checked (Rules: I3, I33).
//!
//! Threads: as the transaction.

#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::{
    Error, Result,
    key_range::check_key,
    txn::{HashedKey, OwnState, lock_table::RowMode},
};

use super::{IfLocked, RowEntry, State, Txn};

/// Most entries of a row that is inserted in one step: their hashes are on the stack.
const ENTRIES_MAX: usize = 16;

/// The entries, with the hashes of their keys.
#[derive(Clone, Copy)]
struct NewRow<'r> {
    entries: &'r [RowEntry<'r>],
    hashes: &'r [u128],
}

impl<'r> NewRow<'r> {
    fn keys(self) -> impl Iterator<Item = HashedKey<'r>> {
        let pairs = self.entries.iter().zip(self.hashes);
        pairs.map(|(entry, &hash)| HashedKey { tree: entry.tree.entry.id, key: entry.key, hash })
    }

    /// True if two entries have the same key in the same tree: the second one is not new then.
    fn repeats_a_key(self) -> bool {
        self.hashes.iter().enumerate().any(|(at, hash)| self.hashes[..at].contains(hash))
    }
}

impl Txn {
    /// Inserts a row in one step, if nothing is in its way and no wait for a row or gap lock is
    /// needed; false, with nothing done, otherwise. A transaction without locks is paced first, as
    /// for every write.
    ///
    /// # Errors
    /// As [`RowWriter::insert`](super::RowWriter::insert); nothing was done.
    pub(super) fn insert_new_row(&self, entries: &[RowEntry<'_>]) -> Result<bool> {
        if !self.may_be_in_one_step(entries) {
            return Ok(false);
        }
        let mut state = self.enter_writing(entries[0].tree, entries[0].key)?;
        let state = &mut *state;
        self.spill_if_large(state)?;
        let mut hashes = [0; ENTRIES_MAX];
        for (hash, entry) in hashes.iter_mut().zip(entries) {
            *hash = HashedKey::new(entry.tree.entry.id, entry.key).hash;
        }
        let row = NewRow { entries, hashes: &hashes[..entries.len()] };
        if row.repeats_a_key() || self.has_touched_any(state, row)? {
            return Ok(false);
        }
        self.slow_down_to_write(state)?;
        if !self.lock_all(state, row)? {
            return Ok(false);
        }
        let is_done = self.insert_locked(state, row);
        match &mut state.locks {
            Some(locks) if matches!(is_done, Ok(true)) => locks.keep_last(),
            Some(locks) => self.shared.locking.table.unlock_last(locks),
            None => {}
        }
        is_done
    }

    /// Checks that need only the entries themselves. Errors in them are left to the general way.
    fn may_be_in_one_step(&self, entries: &[RowEntry<'_>]) -> bool {
        let is_plain = |entry: &RowEntry<'_>| {
            self.is_short(entry.value)
                && check_key(entry.key).is_ok()
                && entry.tree.check_value(entry.value).is_ok()
                && self.check_tree(entry.tree).is_ok()
                && entry.tree.must_not_bypass_table().is_ok()
        };
        let is_known = entries.first().is_some_and(|own| own.unique || own.absent);
        is_known && entries.len() <= ENTRIES_MAX && entries.iter().all(is_plain)
    }

    fn has_touched_any(&self, state: &State, row: NewRow<'_>) -> Result<bool> {
        if !state.buffer.has_written {
            return Ok(false);
        }
        let own = self.buffer.live.lock();
        if !own.is_spilled() {
            return Ok(row.keys().any(|key| own.state_of(key) != OwnState::Untouched));
        }
        drop(own);
        for key in row.keys() {
            if self.own_state(state, key)? != OwnState::Untouched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Locks all keys without waiting for their holders, as one "last locked" group. False, with
    /// none of them locked, if another transaction conflicts.
    fn lock_all(&self, state: &mut State, row: NewRow<'_>) -> Result<bool> {
        for (at, key) in row.keys().enumerate() {
            let locked = self.lock_new(state, key, at > 0);
            if let (Err(_), Some(locks)) = (&locked, &mut state.locks) {
                if at > 0 {
                    self.shared.locking.table.unlock_last(locks);
                }
                locks.keep_last();
            }
            match locked {
                Ok(()) => {}
                Err(Error::LockBusy { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn lock_new(&self, state: &mut State, key: HashedKey<'_>, joins: bool) -> Result<()> {
        let meeting = IfLocked::NoWait.into();
        self.intend(state, key.tree, RowMode::Write, meeting)?;
        let wait_policy = state.wait_policy(meeting);
        let locks = state.locks.as_mut().expect("there since the intent");
        if joins {
            locks.join_last();
        }
        let taken = self.lock_to_write(state, key, wait_policy);
        taken.map(drop).map_err(|denied| self.denied(state, denied))
    }

    /// The steps after the keys are locked; false if the row is left to the general way.
    fn insert_locked(&self, state: &mut State, row: NewRow<'_>) -> Result<bool> {
        let entries = row.entries;
        for entry in entries {
            // It may have been dropped before its rows were locked.
            if entry.tree.entry.check().is_err() {
                return Ok(false);
            }
            self.must_not_conflict(state, entry.tree, entry.key)?;
            if entry.unique
                && !entry.absent
                && self.shared.exists_at_latest(entry.tree.entry.id, entry.key)?
            {
                return Ok(false);
            }
        }
        state.buffer.has_written = true;
        let mut writes = self.buffer.live.lock();
        let mark = writes.mark();
        let mut pairs = entries.iter().zip(row.keys());
        let appended = pairs.try_for_each(|(entry, key)| writes.insert(key, entry.value, 1));
        if appended.is_err()
            || self.buffer.charge(&self.shared.engine, &mut state.buffer, &writes).is_err()
        {
            writes.rollback_to(mark);
            return Ok(false);
        }
        let count = writes.len() as u64;
        drop(writes);
        for entry in entries {
            if entry.unique
                || !plant!("txn: a new row is not listed at indexes that are not unique")
            {
                self.list_as_writer(state, &entry.tree.entry);
            }
        }
        if let Err(error) = self.queue_changes(state, entries) {
            if !state.is_over {
                self.buffer.live.lock().rollback_to(mark);
            }
            return Err(error);
        }
        let Some(locks) = &state.locks else { return Ok(true) };
        let asks_for_one = plant!("txn: a new row asks for the gap of its first entry");
        let asked = if asks_for_one { 1 } else { entries.len() };
        let mut places = row.keys().take(asked).map(|key| (key.tree, key.key));
        if self.shared.locking.table.is_any_gap_locked(locks, &mut places) {
            self.buffer.live.lock().rollback_to(mark);
            return Ok(false);
        }
        locks.owner().set_writes(count);
        Ok(true)
    }

    fn queue_changes(&self, state: &mut State, entries: &[RowEntry<'_>]) -> Result<()> {
        entries.iter().try_for_each(|entry| self.queue_change(state, entry.tree, entry.key))
    }
}
