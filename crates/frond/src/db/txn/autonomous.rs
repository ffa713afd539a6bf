//! A put that is a commit of its own, from within a transaction: what a sequence has given out, which no rollback takes back.
//!
//! The row must be there, and is locked shared by the transaction until the put is visible. So it waits for nobody who reads
//! the row, its own transaction before all; and whoever it waits for, it waits for by the transaction's name: the search for
//! circles sees it, and an interrupt ends it.
//!
//! Invariants
//! 1. The row is there from the look until the put is visible: to go it would have to be locked for writing, or its tree as a
//!    whole. So who has looked for an absent key has not looked at this one, and may say that what he inserts is fresh
//!    (Rules: I7, I32); and between two rows there is no third that was not there (Rule: I33).
//! 2. No write of the row is pending, neither another's nor the transaction's own.
//!
//! What is not guarded: a row that another has read under a shared lock changes all the same, as long as he has not written
//! it. A snapshot transaction that has read before, and writes the row now, is in conflict, this one included (Rule: I27).
//!
//! Threads: as the transaction. Cost: a commit.

use crate::{
    Error, Result, Seqno,
    pipeline::Paced,
    txn::{
        HashedKey, OwnState,
        lock_table::{RowMode, TableMode},
    },
};

use super::{
    super::{Batch, Tree},
    IfLocked, State, Txn,
};

impl Txn {
    /// Sets the value of a row that is there, in a commit of its own: others see it when the call returns, it is as durable as
    /// the transaction's commits are, and no rollback takes it back. Returns the number of the commit; `None`, with nothing done, if there is no
    /// such row: make it by [`Tree::put`](crate::Tree::put) first. For the number that a sequence goes on from.
    ///
    /// Who has only read the row, under a shared lock, is not waited for, and is not told: this is for rows by which nobody
    /// decides anything. Who has it for himself, or writes it, is waited for as by any call of the transaction. The row is not
    /// locked afterwards, and what the transaction's plain reads see of it goes by its level: a snapshot shows it as it was.
    /// Once it has a snapshot, a write of the row by the transaction itself is a [`Conflict`](Error::Conflict) at `Snapshot`.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{Isolation, TxnOptions};
    ///
    /// let sequences = db.create_tree("sequences", Default::default())?;
    /// sequences.put(b"orders", &1u64.to_be_bytes())?;
    /// let isolation = Isolation::Serializable;
    /// let txn = db.begin(TxnOptions { isolation, ..Default::default() })?;
    /// assert!(txn.get(&sequences, b"orders")?.is_some());
    /// assert!(txn.put_autonomous(&sequences, b"orders", &1001u64.to_be_bytes())?.is_some());
    /// txn.rollback();
    /// assert_eq!(sequences.get(b"orders")?.as_deref(), Some(&1001u64.to_be_bytes()[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put), but `Conflict`; `InvalidArgument` if the transaction has written the row itself, or is read-only; as
    /// [`commit`](Self::commit), but the transaction goes on.
    pub fn put_autonomous(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<Option<Seqno>> {
        drop(self.enter_writing(tree, key)?);
        // A long value is written here, before anything is locked.
        let mut batch = Batch::new();
        batch.put(tree, key, value)?;
        let mut state = self.enter_writing(tree, key)?;
        let state = &mut *state;
        let id = tree.entry.id;
        if self.own_state(state, HashedKey::new(id, key))? != OwnState::Untouched {
            let why = "the transaction has written the row itself: it is no longer anybody's alone";
            return Err(Error::InvalidArgument(why.into()));
        }
        let had_none = state.locks.is_none();
        let paced = if had_none { Paced::Free } else { Paced::HoldsRows { deletes: false } };
        self.shared.engine.pace(paced, &|| state.must_go_on())?;
        let kept = state.locks.as_ref().map_or(0, |locks| locks.last_rows());
        let done = self.put_locked(state, (tree, key), &mut batch);
        self.give_back(state, had_none, kept);
        done
    }

    fn put_locked(
        &self,
        state: &mut State,
        (tree, key): (&Tree, &[u8]),
        batch: &mut Batch,
    ) -> Result<Option<Seqno>> {
        let (id, waits) = (tree.entry.id, IfLocked::Wait.into());
        // To the tree it is a writer; of the row it wants no more than that it stays.
        self.take_tree(state, id, (TableMode::IntentExclusive, RowMode::Shared), waits)?;
        let patience = state.patience(waits);
        let locks = state.locks.as_mut().expect("there since the intent");
        // What was read last may be given back as before.
        locks.join_last();
        if !plant!("txn: an autonomous put passes pending writes") {
            let taken = self.shared.lock_table.lock_row(locks, id, key, RowMode::Shared, patience);
            taken.map_err(|denied| self.denied(state, denied))?;
        }
        // It may have waited for who dropped the tree.
        tree.entry.check()?;
        if !self.shared.exists_at_latest(id, key)? {
            return Ok(None);
        }
        let level = self.options.durability.unwrap_or(self.shared.durability);
        let timing = self.shared.begin_timing(level);
        let seqno = self.shared.commit_of_kept_row(batch, level)?;
        self.shared.end_timing(&timing);
        Ok(Some(seqno))
    }

    /// Gives back what the call has locked.
    fn give_back(&self, state: &mut State, had_none: bool, kept: usize) {
        let table = &self.shared.lock_table;
        match had_none {
            true => {
                // With the gate, so that batches of others need not ask for locks.
                if let Some(mut locks) = state.locks.take() {
                    table.release_all(&mut locks);
                    self.shared.gate.open();
                    state.spare.locks = Some(locks);
                }
            }
            false => {
                state.locks.iter_mut().for_each(|locks| table.unlock_behind(locks, kept));
            }
        }
    }
}
