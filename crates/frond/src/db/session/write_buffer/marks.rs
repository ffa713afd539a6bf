//! Marks in a write buffer, and rollbacks to them: savepoints and statements.
//!
//! Savepoints have numbers and nest. A statement has none: the next one replaces it. Scans of a
//! statement see what had been written when it started, and reads of single rows see everything
//! (Rule: I45).
//!
//! Invariants
//! 1. Marks that can be rolled back to are live: spilled pieces are cut at them (Rule: I44).
//! 2. The mark of a statement is never beyond what has been written: a rollback past the
//!    statement's start moves its start there.
//!
//! Threads: as the owner of the buffer.

use crate::{Error, Result, txn::Mark};

use super::{BufferState, WriteBuffer};

const NO_STATEMENT: &str = "no statement of the transaction was begun";

/// The points in the writes of a buffer that can be rolled back to, or that scans see.
#[derive(Debug, Default)]
pub(in crate::db::session) struct Marks {
    /// Savepoints by ascending number.
    pub savepoints: Vec<(u64, Mark)>,
    savepoints_made: u64,
    /// The start of the current statement, and the number of spills at that time.
    pub statement: Option<(Mark, u64)>,
    /// The starts of the substatements within it, outermost first, each with the number of spills
    /// at that time.
    pub substatements: Vec<(Mark, u64)>,
    /// Savepoints that had been made when the statement started.
    made_before: u64,
    /// Number and mark of rollbacks, both ascending: of several rollbacks to one mark or lower
    /// ones, only the last.
    rollbacks: Vec<(u64, Mark)>,
    pub rollbacks_made: u64,
    /// Marks of the open scans.
    scans: Vec<Mark>,
}

impl Marks {
    /// Forgets everything and keeps the memory.
    pub(super) fn reset(&mut self) {
        self.savepoints.clear();
        self.substatements.clear();
        self.rollbacks.clear();
        self.scans.clear();
        (self.statement, self.savepoints_made, self.rollbacks_made) = (None, 0, 0);
    }

    /// Entries for which the lists have memory.
    pub fn capacity(&self) -> usize {
        self.savepoints.capacity() + self.rollbacks.capacity()
    }

    /// The start of the innermost statement, to which new scans belong, and the number of spills at
    /// that time.
    pub(super) fn innermost_statement(&self) -> Option<(Mark, u64)> {
        self.substatements.last().copied().or(self.statement)
    }

    /// The position of a savepoint in the list.
    fn find(&self, savepoint: u64) -> Result<usize> {
        let found = self.savepoints.binary_search_by_key(&savepoint, |(number, _)| *number);
        found.map_err(|_| no_savepoint())
    }

    /// Releases a savepoint, and those made after it.
    pub fn release(&mut self, savepoint: u64) -> Result<()> {
        let at = self.find(savepoint)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// Ends the innermost substatement.
    pub fn end_substatement(&mut self) -> Result<()> {
        match self.substatements.pop() {
            Some(_) => Ok(()),
            None => {
                let why = "no statement was begun within the statement";
                Err(Error::InvalidArgument(why.into()))
            }
        }
    }

    /// Ends the statement: later scans see everything.
    pub fn end_statement(&mut self) {
        self.statement = None;
        self.substatements.clear();
    }

    pub(super) fn open_scan(&mut self, mark: Mark) {
        self.scans.push(mark);
    }

    /// Forgets the mark of a scan that was closed.
    pub fn close_scan(&mut self, mark: Mark) {
        if let Some(at) = self.scans.iter().rposition(|scan| *scan == mark) {
            self.scans.swap_remove(at);
        }
    }

    /// Fails if there was a rollback past a scan's mark since its `rollbacks`-th rollback.
    pub(super) fn check_scan(&self, mark: Mark, rollbacks: u64) -> Result<()> {
        let since = self.rollbacks.partition_point(|(number, _)| *number <= rollbacks);
        match self.rollbacks.get(since) {
            Some((_, lowest)) if *lowest < mark => Err(Error::InvalidArgument(
                "the transaction was rolled back to before this cursor's position; start another scan"
                    .into(),
            )),
            _ => Ok(()),
        }
    }

    /// Live marks, at which spilled pieces are cut.
    pub(super) fn cuts(&self) -> Vec<Mark> {
        let marks = self.savepoints.iter().map(|(_, mark)| *mark);
        marks.chain(self.scan_marks()).collect()
    }

    /// The lowest mark that an open scan has, or that a scan started now would have; `None` if that
    /// would see everything. No scan can get a lower mark later: a rollback past the start of a
    /// statement drops the pieces after it.
    pub(super) fn scans_from(&self) -> Option<Mark> {
        self.scan_marks().min()
    }

    fn scan_marks(&self) -> impl Iterator<Item = Mark> {
        let statements = self.statement.iter().chain(&self.substatements).map(|(mark, _)| *mark);
        statements.chain(self.scans.iter().copied())
    }
}

/// The error for a savepoint that does not exist.
pub(in crate::db::session) fn no_savepoint() -> Error {
    Error::InvalidArgument("the transaction has no such savepoint, or has released it".into())
}

impl WriteBuffer {
    /// The current mark.
    fn mark(&self, state: &BufferState) -> Mark {
        if state.has_written { self.live.lock().mark() } else { Mark::default() }
    }

    /// The mark that a scan started now has, and the number of spills at that mark.
    pub(super) fn scan_mark(&self, state: &BufferState) -> (Mark, u64) {
        let innermost = state.marks.innermost_statement();
        innermost.unwrap_or_else(|| (self.live.lock().mark(), state.spills))
    }

    /// Sets a savepoint; returns its number.
    pub fn set_savepoint(&self, state: &mut BufferState) -> u64 {
        state.marks.savepoints_made += 1;
        let number = state.marks.savepoints_made;
        state.marks.savepoints.push((number, self.live.lock().mark()));
        number
    }

    /// Rolls back what was written since a savepoint, which stays. Returns whether the statement
    /// starts there now.
    pub fn rollback_to_savepoint(&self, state: &mut BufferState, savepoint: u64) -> Result<bool> {
        let marks = &mut state.marks;
        let at = marks.find(savepoint)?;
        marks.savepoints.truncate(at + 1);
        let (mark, spills) = (marks.savepoints[at].1, state.spills);
        let is_beyond = marks.statement.is_some_and(|(began, _)| mark < began);
        let moves =
            is_beyond && !plant!("txn: a statement starts after the writes that it must undo");
        if moves {
            // Invariant 2.
            marks.statement = Some((mark, spills));
        }
        for began in marks.substatements.iter_mut().rev().take_while(|(began, _)| mark < *began) {
            *began = (mark, spills);
        }
        self.rollback_to(state, mark);
        Ok(moves)
    }

    /// Rolls back everything after a mark.
    pub fn rollback_to(&self, state: &mut BufferState, mark: Mark) {
        let marks = &mut state.marks;
        marks.rollbacks_made += 1;
        let number = marks.rollbacks_made;
        while marks.rollbacks.last().is_some_and(|(_, last)| *last >= mark) {
            marks.rollbacks.pop();
        }
        marks.rollbacks.push((number, mark));
        self.live.lock().rollback_to(mark);
    }

    /// Starts a statement, which ends the one before.
    pub fn begin_statement(&self, state: &mut BufferState) {
        state.marks.statement = Some((self.mark(state), state.spills));
        state.marks.substatements.clear();
        state.marks.made_before = state.marks.savepoints_made;
    }

    /// Starts a statement within the current one.
    pub fn begin_substatement(&self, state: &mut BufferState) -> Result<()> {
        if state.marks.statement.is_none() {
            return Err(Error::InvalidArgument(NO_STATEMENT.into()));
        }
        state.marks.substatements.push((self.mark(state), state.spills));
        Ok(())
    }

    /// Rolls back to the start of the statement, which starts anew.
    pub fn rollback_statement(&self, state: &mut BufferState) -> Result<()> {
        let (marks, spills) = (&mut state.marks, state.spills);
        let Some((mark, _)) = marks.statement else {
            return Err(Error::InvalidArgument(NO_STATEMENT.into()));
        };
        let before = marks.made_before;
        let left = marks.savepoints.partition_point(|(number, _)| *number <= before);
        marks.savepoints.truncate(left);
        marks.statement = Some((mark, spills));
        marks.substatements.clear();
        self.rollback_to(state, mark);
        Ok(())
    }
}
