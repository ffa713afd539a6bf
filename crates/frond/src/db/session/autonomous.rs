//! Autonomous puts: a transaction sets the next value of a sequence in a separate commit, which no
//! rollback undoes.
//!
//! The row must exist, and the transaction holds a shared lock on it until the put is visible. So
//! the put does not block on readers of the row, including its own transaction. Where it does
//! block, it waits in the transaction's name, so that deadlock detection and interrupts apply.
//!
//! Invariants
//! 1. The row exists from the check until the put is visible: to delete it, another transaction
//!    would have to lock it for writing, or lock its whole tree. So the put never creates a key
//!    that another transaction has found absent: what that transaction inserts may still be marked
//!    as fresh (Rules: I7, I32), and no new row appears in a gap (Rule: I33).
//! 2. No write of the row is pending, neither another transaction's nor its own.
//!
//! Not guaranteed: a row that another transaction has read under a shared lock may change, unless
//! that transaction has written it. A transaction at `Snapshot` that has read the row before and
//! writes it afterwards gets `Conflict`, including the one that made the put (Rule: I27).
//!
//! Threads: as the transaction. Cost: a commit.

use crate::{
    Error, Result, Seqno,
    db::{Batch, Tree},
    pipeline::Paced,
    txn::{
        HashedKey, OwnState,
        lock_table::{RowMode, TableMode},
    },
};

use super::{IfLocked, RowWriter, State, Txn};

impl RowWriter<'_> {
    /// Sets the value of an existing row in a commit of its own: it is visible to others when the
    /// call returns, as durable as the transaction's commits, and no rollback undoes it. Returns
    /// the seqno of the commit; `None`, with nothing done, if there is no such row: create it with
    /// [`Tree::put`](crate::Tree::put) first. Meant for the next number of a sequence.
    ///
    /// The call does not block on transactions that have only read the row under a shared lock, and
    /// they do not notice it: use it only for rows on which no transaction bases a decision. It
    /// does block on exclusive holders and writers, as any call of the transaction. The row is not
    /// locked afterwards. What the transaction's plain reads see of it depends on its level: a
    /// snapshot shows the old value. Once the transaction has a snapshot, its own write of the row
    /// is a [`Conflict`](Error::Conflict) at `Snapshot`.
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
    /// let txn = db.begin(TxnOptions::new().isolation(isolation))?;
    /// assert!(txn.get(&sequences, b"orders")?.is_some());
    /// let put = txn.row_writer().put_autonomous(&sequences, b"orders", &1001u64.to_be_bytes())?;
    /// assert!(put.is_some());
    /// txn.rollback();
    /// assert_eq!(sequences.get(b"orders")?.as_deref(), Some(&1001u64.to_be_bytes()[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Txn::put`], except `Conflict`; `InvalidArgument` if the transaction has written
    /// the row itself, or is read-only; as [`Txn::commit`], but the transaction goes on.
    pub fn put_autonomous(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<Option<Seqno>> {
        let txn = self.txn;
        drop(txn.enter_writing(tree, key)?);
        // A long value is written here, before anything is locked.
        let mut batch = Batch::new();
        batch.put(tree, key, value)?;
        let mut state = txn.enter_writing(tree, key)?;
        let state = &mut *state;
        let id = tree.entry.id;
        if txn.own_state(state, HashedKey::new(id, key))? != OwnState::Untouched {
            let why = "the transaction has written the row itself: it is no longer anybody's alone";
            return Err(Error::InvalidArgument(why.into()));
        }
        let had_none = state.locks.is_none();
        let paced = if had_none { Paced::Free } else { Paced::HoldsRows { deletes: false } };
        txn.shared.engine.pace(paced, &|| state.check_interrupted())?;
        let kept = state.locks.as_ref().map_or(0, |locks| locks.last_rows());
        let done = txn.put_locked(state, (tree, key), &mut batch);
        txn.give_back(state, had_none, kept);
        done
    }
}

impl Txn {
    fn put_locked(
        &self,
        state: &mut State,
        (tree, key): (&Tree, &[u8]),
        batch: &mut Batch,
    ) -> Result<Option<Seqno>> {
        let (id, waits) = (tree.entry.id, IfLocked::Wait.into());
        // The put is a writer of the tree; the row only has to keep existing.
        self.take_tree(state, id, (TableMode::IntentExclusive, RowMode::Shared), waits)?;
        let wait_policy = state.wait_policy(waits);
        let locks = state.locks.as_mut().expect("there since the intent");
        // What was locked last can still be released as before.
        locks.join_last();
        if !plant!("txn: an autonomous put passes pending writes") {
            let taken =
                self.shared.locking.table.lock_row(locks, id, key, RowMode::Shared, wait_policy);
            taken.map_err(|denied| self.denied(state, denied))?;
        }
        // The tree may have been dropped during the wait.
        tree.entry.check()?;
        if !self.shared.exists_at_latest(id, key)? {
            return Ok(None);
        }
        let level = self.options.durability.unwrap_or(self.shared.commits.durability);
        let timing = self.shared.begin_timing(level);
        let seqno = self.shared.commit_of_kept_row(batch, level)?;
        self.shared.end_timing(&timing);
        Ok(Some(seqno))
    }

    /// Releases what the call has locked.
    fn give_back(&self, state: &mut State, had_none: bool, kept: usize) {
        let table = &self.shared.locking.table;
        match had_none {
            true => {
                // Opens the gate as well, so that batches of others need no locks.
                if let Some(mut locks) = state.locks.take() {
                    table.release_all(&mut locks);
                    self.shared.locking.gate.open();
                    state.spare.locks = Some(locks);
                }
            }
            false => {
                state.locks.iter_mut().for_each(|locks| table.unlock_behind(locks, kept));
            }
        }
    }
}
