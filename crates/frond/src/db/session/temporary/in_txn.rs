//! Temporary trees within a transaction: how those that it has written follow its savepoints, its
//! statements and its end.
//!
//! Threads: as the transaction.

use crate::{
    Error, Result,
    db::session::{
        State, Txn,
        write_buffer::{BufferState, WriteBuffer},
    },
    sync::Arc,
};

use super::{Held, TemporaryTree, used};

/// A temporary tree that a transaction has written.
#[derive(Debug)]
pub(in crate::db::session) struct TemporaryUse {
    held: Arc<Held>,
    /// The tree's savepoint at the start.
    start: u64,
    /// Savepoints of the tree by the numbers of the transaction's savepoints; ascending.
    marks: Vec<(u64, u64)>,
}

impl TemporaryTree {
    /// Makes the tree part of a transaction that writes it.
    pub(super) fn enroll(&self, txn: &Txn) -> Result<()> {
        let held = &self.held;
        let mut state = txn.go_on()?;
        if state.temporary.iter().any(|using| Arc::ptr_eq(&using.held, held)) {
            return Ok(());
        }
        if !Arc::ptr_eq(&held.tree.shared, &txn.shared) || txn.options.read_only {
            let why = "a temporary tree is written by transactions of its store that may write";
            return Err(Error::InvalidArgument(why.into()));
        }
        let mut own = held.lock()?;
        if std::mem::replace(&mut own.is_used, true) {
            return Err(used());
        }
        let start = held.buffer.set_savepoint(&mut own.buffer);
        // Nothing of the statement was written here so far.
        if state.buffer.marks.statement.is_some() {
            held.buffer.begin_statement(&mut own.buffer);
        }
        for _ in &state.buffer.marks.substatements {
            held.buffer.begin_substatement(&mut own.buffer)?;
        }
        own.writer = state.known().cloned();
        state.temporary.push(TemporaryUse { held: held.clone(), start, marks: Vec::new() });
        Ok(())
    }
}

impl Held {
    /// Rolls back to a savepoint, unless the tree is lost: then it has nothing to roll back, and
    /// reports its loss when it is read or written (invariant 3 of `mod.rs`).
    pub(super) fn rollback_to_savepoint(&self, savepoint: u64) -> Result<()> {
        let Ok(mut own) = self.lock() else { return Ok(()) };
        self.buffer.rollback_to_savepoint(&mut own.buffer, savepoint)?;
        self.forget_dropped();
        Ok(())
    }
}

/// A lost tree is skipped everywhere here.
impl State {
    /// Calls `does` for each temporary tree that the transaction has written.
    pub(in crate::db::session) fn in_temporary(
        &self,
        does: impl Fn(&WriteBuffer, &mut BufferState) -> Result<()>,
    ) -> Result<()> {
        self.temporary.iter().try_for_each(|TemporaryUse { held, .. }| match held.lock() {
            Ok(mut own) => does(&held.buffer, &mut own.buffer),
            Err(_) => Ok(()),
        })
    }

    pub(in crate::db::session) fn mark_temporary(&mut self, number: u64) {
        for TemporaryUse { held, marks, .. } in &mut self.temporary {
            if let Ok(mut own) = held.lock() {
                marks.push((number, held.buffer.set_savepoint(&mut own.buffer)));
            }
        }
    }

    /// Rolls back to a savepoint; a tree that joined after it goes back to its start.
    pub(in crate::db::session) fn go_back_in_temporary(&mut self, number: u64) -> Result<()> {
        for TemporaryUse { held, start, marks } in &mut self.temporary {
            marks.truncate(marks.partition_point(|(other, _)| *other <= number));
            let to = marks.last().filter(|(other, _)| *other == number);
            held.rollback_to_savepoint(to.map_or(*start, |(_, savepoint)| *savepoint))?;
        }
        Ok(())
    }

    pub(in crate::db::session) fn release_in_temporary(&mut self, number: u64) -> Result<()> {
        for TemporaryUse { held, marks, .. } in &mut self.temporary {
            let at = marks.partition_point(|(other, _)| *other < number);
            if let Some((_, savepoint)) = marks.get(at)
                && let Ok(mut own) = held.lock()
            {
                own.buffer.marks.release(*savepoint)?;
            }
            marks.truncate(at);
        }
        Ok(())
    }

    /// Makes the transaction's interrupters reach its calls in temporary trees.
    pub(in crate::db::session) fn cancel_in_temporary(&self) {
        for TemporaryUse { held, .. } in &self.temporary {
            if let Ok(mut own) = held.lock() {
                own.writer = self.known().cloned();
            }
        }
    }

    /// Rolls back to the start of the statement; savepoints up to this number stay.
    pub(in crate::db::session) fn take_statement_back_in_temporary(
        &mut self,
        left: u64,
    ) -> Result<()> {
        for TemporaryUse { marks, .. } in &mut self.temporary {
            marks.truncate(marks.partition_point(|(other, _)| *other <= left));
        }
        self.in_temporary(|buffer, own| {
            buffer.rollback_statement(own)?;
            buffer.live.lock().forget_dropped();
            Ok(())
        })
    }

    /// Keeps what was written.
    pub(in crate::db::session) fn keep_temporary(&mut self) {
        self.temporary.drain(..).for_each(|using| using.end(false));
    }

    /// Rolls back what was written.
    pub(in crate::db::session) fn take_temporary_back(&mut self) {
        self.temporary.drain(..).for_each(|using| using.end(true));
    }
}

impl TemporaryUse {
    fn end(self, takes_back: bool) {
        let Self { held, start, .. } = self;
        // A lost tree reports that to its next caller.
        let Ok(mut own) = held.lock() else { return };
        if takes_back && held.buffer.rollback_to_savepoint(&mut own.buffer, start).is_ok() {
            held.forget_dropped();
        }
        let _ = own.buffer.marks.release(start);
        own.buffer.marks.end_statement();
        (own.writer, own.is_used) = (None, false);
    }
}
