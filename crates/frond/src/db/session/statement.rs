//! Statements of a transaction, which are rolled back as a whole.
//!
//! Unlike a savepoint, a statement has no number: the next statement replaces it, so a program that
//! runs thousands of statements in a transaction accumulates nothing. Scans of a statement see what
//! the transaction had written when it started, and reads of single rows see everything (Rule:
//! I45).
//!
//! Threads: as the transaction.

use crate::Result;

use super::{Isolation, State, Txn, write_buffer::WriteBuffer};

/// The statement of a transaction ([`Txn::statement`]), for a server whose statements scan what
/// they write.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'t> {
    txn: &'t Txn,
}

impl Txn {
    /// The calls by which a server marks where a statement starts and ends, and rolls it back.
    pub fn statement(&self) -> Statement<'_> {
        Statement { txn: self }
    }

    /// Makes the next plain read at `ReadCommitted` take a new snapshot.
    pub(super) fn forget_view(&self, state: &mut State) {
        if self.options.isolation == Isolation::ReadCommitted {
            self.release_snapshot(state.snapshot.take());
        }
    }
}

impl Statement<'_> {
    /// Starts a statement, which ends where the next one starts. It can be rolled back as a whole.
    /// Scans that start in it see what the transaction had written before the statement, so they
    /// never return the statement's own writes; rows that it has deleted are skipped. Reads of
    /// single rows see everything. Meant for a server, whose statements scan what they write.
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
    /// txn.statement().begin()?;
    /// txn.put(&tree, b"in it", b"")?;
    /// let mut scan = txn.scan(&tree, ..)?;
    /// assert_eq!(scan.next()?.map(|(key, _)| key), Some(&b"before"[..]));
    /// assert_eq!(scan.next()?, None);
    /// drop(scan);
    /// txn.statement().rollback()?;
    /// assert_eq!(txn.get(&tree, b"in it")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn begin(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        self.txn.buffer.begin_statement(&mut state.buffer);
        self.txn.forget_view(&mut state);
        state.in_temporary(|buffer, own| {
            buffer.begin_statement(own);
            Ok(())
        })
    }

    /// Starts a statement inside the current one, such as a statement of a function or a trigger
    /// that it calls. Scans that start in it see what the transaction wrote before it, which is
    /// more than scans of the outer statement see. Nothing else changes:
    /// [`rollback`](Self::rollback) rolls back the outer statement with everything inside it, and
    /// at `ReadCommitted` plain reads keep the outer statement's snapshot. Substatements nest; end
    /// each with [`end_substatement`](Self::end_substatement).
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// txn.statement().begin()?;
    /// txn.put(&tree, b"by the statement", b"")?;
    /// assert_eq!(txn.scan(&tree, ..)?.next()?, None);
    /// txn.statement().begin_substatement()?;
    /// assert!(txn.scan(&tree, ..)?.next()?.is_some());
    /// txn.statement().end_substatement()?;
    /// assert_eq!(txn.scan(&tree, ..)?.next()?, None);
    /// # drop(txn);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` outside of a statement; `TxnEnded`.
    pub fn begin_substatement(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        self.txn.buffer.begin_substatement(&mut state.buffer)?;
        state.in_temporary(WriteBuffer::begin_substatement)
    }

    /// Ends the innermost substatement: scans that start from now on see what those of the
    /// enclosing statement see. Open scans are not affected.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, also after the outer statement was rolled back or has
    /// ended; `TxnEnded`.
    pub fn end_substatement(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        state.buffer.marks.end_substatement()?;
        state.in_temporary(|_, own| own.marks.end_substatement())
    }

    /// Rolls back what was written since the statement started, and forgets the savepoints and
    /// substatements made in it; the statement starts anew. Costs time proportional to what is
    /// rolled back. Rows stay locked.
    ///
    /// # Errors
    /// `InvalidArgument` if no statement was begun; `TxnEnded`.
    pub fn rollback(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        self.txn.buffer.rollback_statement(&mut state.buffer)?;
        let savepoints = &state.buffer.marks.savepoints;
        let last = savepoints.last().map_or(0, |(number, _)| *number);
        self.txn.forget_view(&mut state);
        self.txn.rolled_back(&mut state);
        state.take_statement_back_in_temporary(last)
    }

    /// Releases the snapshot of the statement's plain reads, if the transaction is at
    /// `ReadCommitted`, where later statements do not use it. For a server whose sessions stay idle
    /// within transactions: otherwise the store would keep what others change until the next
    /// statement starts. Open scans continue; the statement can still be rolled back.
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn end(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        self.txn.forget_view(&mut state);
        Ok(())
    }
}
