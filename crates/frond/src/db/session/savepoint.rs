//! Partial rollback of a transaction, to a savepoint. Savepoints have numbers and nest.
//!
//! Threads: as the transaction.

use crate::{Result, sync::Arc};

use super::{State, Txn, write_buffer::no_savepoint};

/// A point in a transaction to roll back to: see [`Txn::savepoint`].
///
/// Savepoints nest: rolling back to one, or releasing it, forgets those made after it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "it is needed to roll back to it or to release it"]
pub struct Savepoint {
    /// Id and address of the transaction: ids of different stores may be equal.
    txn: (u64, usize),
    number: u64,
}

short_debug!(Savepoint, "Savepoint", |savepoint| savepoint.number);

impl Savepoint {
    /// The savepoint of a transaction with a [number](Self::number). Whether it still exists is
    /// checked only when it is used.
    pub fn of(txn: &Txn, number: u64) -> Self {
        Self { txn: txn.place(), number }
    }

    /// The number within the transaction, from 1, never reused within it. For programs that store
    /// numbers; [`of`](Self::of) returns the savepoint again.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Txn {
    /// Sets a savepoint to roll back to. Takes sixteen bytes until it is released or rolled back
    /// past.
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn savepoint(&self) -> Result<Savepoint> {
        let mut state = self.stay()?;
        let number = self.buffer.set_savepoint(&mut state.buffer);
        state.mark_temporary(number);
        Ok(Savepoint::of(self, number))
    }

    /// Rolls back what was written since a savepoint, which stays. Costs time proportional to what
    /// is rolled back. Rows stay locked, because others may already wait for them.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint that does not belong to this transaction or no longer
    /// exists; `TxnEnded`.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        let mut state = self.stay()?;
        self.check_own(savepoint)?;
        if self.buffer.rollback_to_savepoint(&mut state.buffer, savepoint.number)? {
            self.forget_view(&mut state);
        }
        self.rolled_back(&mut state);
        state.go_back_in_temporary(savepoint.number)
    }

    /// Follows a rollback of some of the writes.
    pub(super) fn rolled_back(&self, state: &mut State) {
        // The last locking read may have seen what is rolled back.
        state.seen.forget();
        if let Some(locks) = &state.locks {
            locks.owner().set_writes(self.len() as u64);
        }
    }

    /// Releases a savepoint, and those made after it; what was written stays.
    ///
    /// # Errors
    /// As [`rollback_to`](Self::rollback_to).
    pub fn release(&self, savepoint: &Savepoint) -> Result<()> {
        let mut state = self.stay()?;
        self.check_own(savepoint)?;
        state.buffer.marks.release(savepoint.number)?;
        state.release_in_temporary(savepoint.number)
    }

    fn check_own(&self, savepoint: &Savepoint) -> Result<()> {
        if savepoint.txn == self.place() { Ok(()) } else { Err(no_savepoint()) }
    }

    fn place(&self) -> (u64, usize) {
        (self.id(), Arc::as_ptr(&self.buffer.live).addr())
    }
}
