//! Partial rollback of a transaction: to a savepoint, or to the start of its statement.
//!
//! Savepoints have numbers and nest. A statement has none: the next one replaces it, so a program
//! that runs thousands in a transaction accumulates nothing. Scans of a statement see what the
//! transaction had written when it started, and reads of single rows see everything (Rule: I45).
//!
//! Threads: as the transaction.

use crate::{Result, sync::Arc};

use super::{
    Isolation, State, Txn,
    write_buffer::{WriteBuffer, no_savepoint},
};

/// A point in a transaction to roll back to: see [`Txn::savepoint`].
///
/// Savepoints nest: rolling back to one, or releasing it, forgets those made after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    /// Id and address of the transaction: ids of different stores may be equal.
    txn: (u64, usize),
    number: u64,
}

impl Savepoint {
    /// The number within the transaction, from 1, never reused within it. For programs that store
    /// numbers; [`Txn::savepoint_of`] returns the savepoint again.
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
        Ok(Savepoint { txn: self.place(), number })
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

    /// Starts a statement, which ends where the next one starts. It can be rolled back as a whole.
    /// Scans that start in it see what the transaction had written before it, so that it never
    /// meets its own writes; rows that it has deleted are skipped. Reads of single rows see
    /// everything. Meant for a server, whose statements scan what they write.
    ///
    /// All plain reads of a statement see the same commits of others at `ReadCommitted`, too: what
    /// was committed when the first of them started. Locking reads use the newest commit, as
    /// everywhere.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// txn.put(&tree, b"before", b"")?;
    /// txn.begin_statement()?;
    /// txn.put(&tree, b"in it", b"")?;
    /// let mut scan = txn.scan(&tree, ..)?;
    /// assert_eq!(scan.next()?.map(|(key, _)| key), Some(&b"before"[..]));
    /// assert_eq!(scan.next()?, None);
    /// drop(scan);
    /// txn.rollback_statement()?;
    /// assert_eq!(txn.get(&tree, b"in it")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn begin_statement(&self) -> Result<()> {
        let mut state = self.stay()?;
        self.buffer.begin_statement(&mut state.buffer);
        self.forget_view(&mut state);
        state.in_temporary(|buffer, own| {
            buffer.begin_statement(own);
            Ok(())
        })
    }

    /// Starts a statement inside the current one, such as a statement of a function or a trigger
    /// that it calls. Scans that start in it see what the transaction wrote before it, which is
    /// more than scans of the outer statement see. Nothing else changes:
    /// [`rollback_statement`](Self::rollback_statement) rolls back the outer statement with
    /// everything inside it, and at `ReadCommitted` plain reads keep the outer statement's
    /// snapshot. Substatements nest; end each with [`end_substatement`](Self::end_substatement).
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// txn.begin_statement()?;
    /// txn.put(&tree, b"by the statement", b"")?;
    /// assert_eq!(txn.scan(&tree, ..)?.next()?, None);
    /// txn.begin_substatement()?;
    /// assert!(txn.scan(&tree, ..)?.next()?.is_some());
    /// txn.end_substatement()?;
    /// assert_eq!(txn.scan(&tree, ..)?.next()?, None);
    /// # drop(txn);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` outside of a statement; `TxnEnded`.
    pub fn begin_substatement(&self) -> Result<()> {
        let mut state = self.stay()?;
        self.buffer.begin_substatement(&mut state.buffer)?;
        state.in_temporary(WriteBuffer::begin_substatement)
    }

    /// Ends the innermost substatement: scans that start from now on see what those of the
    /// enclosing statement see. Open scans are not affected.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, also after the outer statement was rolled back or has
    /// ended; `TxnEnded`.
    pub fn end_substatement(&self) -> Result<()> {
        let mut state = self.stay()?;
        state.buffer.marks.end_substatement()?;
        state.in_temporary(|_, own| own.marks.end_substatement())
    }

    /// Rolls back what was written since the statement started, and forgets the savepoints and
    /// substatements made in it; the statement starts anew. Costs time proportional to what is
    /// rolled back. Rows stay locked.
    ///
    /// # Errors
    /// `InvalidArgument` if no statement was begun; `TxnEnded`.
    pub fn rollback_statement(&self) -> Result<()> {
        let mut state = self.stay()?;
        self.buffer.rollback_statement(&mut state.buffer)?;
        let savepoints = &state.buffer.marks.savepoints;
        let last = savepoints.last().map_or(0, |(number, _)| *number);
        self.forget_view(&mut state);
        self.rolled_back(&mut state);
        state.take_statement_back_in_temporary(last)
    }

    /// Releases the snapshot of the statement's plain reads, if the transaction is at
    /// `ReadCommitted`, where later statements do not use it. For a server whose sessions stay idle
    /// within transactions: otherwise the store would keep what others change until the next
    /// statement starts. Open scans continue; the statement can still be rolled back.
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn end_statement(&self) -> Result<()> {
        let mut state = self.stay()?;
        self.forget_view(&mut state);
        Ok(())
    }

    /// Makes the next plain read at `ReadCommitted` take a new snapshot.
    fn forget_view(&self, state: &mut State) {
        if self.options.isolation == Isolation::ReadCommitted {
            self.release_snapshot(state.snapshot.take());
        }
    }

    /// Follows a rollback of some of the writes.
    fn rolled_back(&self, state: &mut State) {
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

    /// The savepoint with a number. Whether it still exists is checked only when it is used.
    pub fn savepoint_of(&self, number: u64) -> Savepoint {
        Savepoint { txn: self.place(), number }
    }

    fn check_own(&self, savepoint: &Savepoint) -> Result<()> {
        if savepoint.txn == self.place() { Ok(()) } else { Err(no_savepoint()) }
    }

    fn place(&self) -> (u64, usize) {
        (self.id(), Arc::as_ptr(&self.buffer.live).addr())
    }
}
