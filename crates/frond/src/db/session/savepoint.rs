//! Partial rollback of a transaction: to a savepoint, or to the start of its statement.
//!
//! Savepoints have numbers and nest. A statement has none: the next one replaces it, so a program
//! that runs thousands in a transaction accumulates nothing. Scans of a statement see what the
//! transaction had written when it started, and reads of single rows see everything (Rule: I45).
//!
//! Invariants
//! 1. Marks to which the transaction can roll back are live: spilled pieces are cut at them (Rule:
//!    I44).
//! 2. The mark of a statement is never beyond what has been written: a rollback past the
//!    statement's start moves its start there.
//!
//! Threads: as the transaction.

use crate::{Error, Result, sync::Arc, txn::Mark};

use super::{Isolation, State, Txn};

const NO_STATEMENT: &str = "no statement of the transaction was begun";

/// A point in a transaction to roll back to: see [`Txn::savepoint`].
///
/// Savepoints nest: going back to one, or releasing it, forgets those made after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    /// Id and address of the transaction: ids of different stores may be equal.
    txn: (u64, usize),
    number: u64,
}

impl Savepoint {
    /// Its number within the transaction, from 1, never reused within it. For programs that store
    /// numbers; [`Txn::savepoint_of`] returns the savepoint again.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// The points in a transaction's writes that it may go back to, or that its scans see.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Savepoints by ascending number.
    pub savepoints: Vec<(u64, Mark)>,
    pub savepoints_made: u64,
    /// The start of the current statement, and the number of spills at that time.
    pub statement: Option<(Mark, u64)>,
    /// The starts of the substatements within it, outermost first, each with the number of spills
    /// at that time.
    pub substatements: Vec<(Mark, u64)>,
    /// Savepoints that had been made when the statement started.
    pub made_before: u64,
    /// Number and mark of rollbacks, both ascending: of several rollbacks to one mark or lower
    /// ones, only the last.
    pub rollbacks: Vec<(u64, Mark)>,
    pub rollbacks_made: u64,
    /// Marks of the open scans.
    pub cursor_marks: Vec<Mark>,
}

impl Marks {
    /// Forgets everything and keeps the memory.
    pub fn reset(&mut self) {
        self.savepoints.clear();
        self.substatements.clear();
        self.rollbacks.clear();
        self.cursor_marks.clear();
        (self.statement, self.savepoints_made, self.rollbacks_made) = (None, 0, 0);
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
        state.marks.savepoints_made += 1;
        let number = state.marks.savepoints_made;
        state.mark_temporary(number)?;
        let mark = self.live.lock().mark();
        state.marks.savepoints.push((number, mark));
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
        let at = self.find(&state, savepoint)?;
        state.marks.savepoints.truncate(at + 1);
        let mark = state.marks.savepoints[at].1;
        let is_beyond = state.marks.statement.is_some_and(|(began, _)| mark < began);
        if is_beyond && !plant!("txn: a statement starts after the writes that it must undo") {
            // Invariant 2.
            state.marks.statement = Some((mark, state.buffer.spills));
            self.forget_view(&mut state);
        }
        let spills = state.buffer.spills;
        for began in
            state.marks.substatements.iter_mut().rev().take_while(|(began, _)| mark < *began)
        {
            *began = (mark, spills);
        }
        self.go_back(&mut state, mark);
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
        let mark = if state.buffer.has_written { self.live.lock().mark() } else { Mark::default() };
        state.marks.statement = Some((mark, state.buffer.spills));
        state.marks.substatements.clear();
        state.marks.made_before = state.marks.savepoints_made;
        self.forget_view(&mut state);
        state.begin_statement_in_temporary()
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
        if state.marks.statement.is_none() {
            return Err(Error::InvalidArgument(NO_STATEMENT.into()));
        }
        let mark = if state.buffer.has_written { self.live.lock().mark() } else { Mark::default() };
        let spills = state.buffer.spills;
        state.marks.substatements.push((mark, spills));
        state.begin_substatement_in_temporary()
    }

    /// Ends the innermost substatement: scans that start from now on see what those of the
    /// enclosing statement see. Open scans are not affected.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, also after the outer statement was rolled back or has
    /// ended; `TxnEnded`.
    pub fn end_substatement(&self) -> Result<()> {
        let mut state = self.stay()?;
        if state.marks.substatements.pop().is_none() {
            let why = "no statement was begun within the statement";
            return Err(Error::InvalidArgument(why.into()));
        }
        state.end_substatement_in_temporary()
    }

    /// Rolls back what was written since the statement started, and forgets the savepoints and
    /// substatements made in it; the statement starts anew. Costs time proportional to what is
    /// rolled back. Rows stay locked.
    ///
    /// # Errors
    /// `InvalidArgument` if no statement was begun; `TxnEnded`.
    pub fn rollback_statement(&self) -> Result<()> {
        let mut state = self.stay()?;
        let Some((mark, _)) = state.marks.statement else {
            return Err(Error::InvalidArgument(NO_STATEMENT.into()));
        };
        let before = state.marks.made_before;
        let left = state.marks.savepoints.partition_point(|(number, _)| *number <= before);
        state.marks.savepoints.truncate(left);
        let last = state.marks.savepoints.last().map_or(0, |(number, _)| *number);
        state.marks.statement = Some((mark, state.buffer.spills));
        state.marks.substatements.clear();
        self.forget_view(&mut state);
        self.go_back(&mut state, mark);
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

    pub(super) fn go_back(&self, state: &mut State, mark: Mark) {
        state.marks.rollbacks_made += 1;
        let number = state.marks.rollbacks_made;
        while state.marks.rollbacks.last().is_some_and(|(_, last)| *last >= mark) {
            state.marks.rollbacks.pop();
        }
        state.marks.rollbacks.push((number, mark));
        // The last locking read may have seen what is rolled back.
        state.seen.forget();
        let mut own = self.live.lock();
        own.rollback_to(mark);
        if self.private.is_some() {
            // A temporary tree has no locks for rows that it rolled back.
            own.forget_dropped();
        }
        if let Some(locks) = &state.locks {
            locks.owner().set_writes(own.len() as u64);
        }
    }

    /// Releases a savepoint, and those made after it; what was written stays.
    ///
    /// # Errors
    /// As [`rollback_to`](Self::rollback_to).
    pub fn release(&self, savepoint: &Savepoint) -> Result<()> {
        let mut state = self.stay()?;
        let at = self.find(&state, savepoint)?;
        state.marks.savepoints.truncate(at);
        state.release_in_temporary(savepoint.number)
    }

    /// The savepoint with a number. Whether it still exists is checked only when it is used.
    pub fn savepoint_of(&self, number: u64) -> Savepoint {
        Savepoint { txn: self.place(), number }
    }

    fn find(&self, state: &State, savepoint: &Savepoint) -> Result<usize> {
        let number = |&(number, _): &(u64, Mark)| number;
        let found = state.marks.savepoints.binary_search_by_key(&savepoint.number, number);
        found.ok().filter(|_| savepoint.txn == self.place()).ok_or_else(|| {
            Error::InvalidArgument(
                "the transaction has no such savepoint, or has released it".into(),
            )
        })
    }

    fn place(&self) -> (u64, usize) {
        (self.id(), Arc::as_ptr(&self.live).addr())
    }

    /// Checks that a scan may continue: fails if the transaction is over, or has rolled back past
    /// `mark` since its `rollbacks`-th rollback. Returns the numbers of spills and of rollbacks so
    /// far.
    pub(super) fn must_have(&self, mark: Mark, rollbacks: u64, locks: bool) -> Result<(u64, u64)> {
        let mut state = self.go_on()?;
        state.begin_call();
        if let Some(locks) = state.locks.as_mut().filter(|_| locks) {
            // What it returns next need not be what was locked last.
            locks.keep_last();
        }
        let since = state.marks.rollbacks.partition_point(|(number, _)| *number <= rollbacks);
        match state.marks.rollbacks.get(since) {
            Some((_, lowest)) if *lowest < mark => Err(Error::InvalidArgument(
                "the transaction was rolled back to before this cursor's position; start another scan"
                    .into(),
            )),
            _ => Ok((state.buffer.spills, state.marks.rollbacks_made)),
        }
    }
}

impl State {
    /// The start of the innermost statement, to which new scans belong, and the number of spills at
    /// that time.
    pub(super) fn innermost_statement(&self) -> Option<(Mark, u64)> {
        self.marks.substatements.last().copied().or(self.marks.statement)
    }
}
