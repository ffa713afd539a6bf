//! A client of `txn`: its transactions, and its record of the rows that it changes.
//!
//! Invariants
//! 1. A change is recorded right before the commit. The commit is the last call of a transaction
//!    and fails only with errors that end the run: conflicts occur before it, and the transaction
//!    is then run again from its start.
//! 2. A row that is read under its lock must be as recorded; each deviation is counted.
//!
//! Threads: one.

use super::rows::{Rows, State, key, state_of, write_value};
use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Stop};

/// A client that runs transactions.
pub struct Client<'a> {
    rows: &'a Rows,
    /// Whether the store keeps what it is given.
    keeps_rows: bool,
    value: Vec<u8>,
    /// Changes of the current transaction.
    changes: Vec<(u64, Option<State>)>,
    /// Row that is being added.
    adding: Option<u64>,
    /// Rows that were not as recorded.
    pub wrong: u64,
}

impl<'a> Client<'a> {
    /// Creates a client on `rows`.
    pub fn new(rows: &'a Rows, keeps_rows: bool) -> Self {
        Self { rows, keeps_rows, value: Vec::new(), changes: Vec::new(), adding: None, wrong: 0 }
    }

    /// Begins a transaction. What an attempt before it has changed is forgotten.
    pub fn begin(&mut self, on: &mut dyn Connection, begin: Begin) -> Attempt<()> {
        self.changes.clear();
        on.begin(begin)
    }

    /// Reads a row, which other clients may be changing.
    pub fn read(&mut self, on: &mut dyn Connection, row: u64) -> Attempt<Option<State>> {
        let found = on.get(0, &key(row), &mut self.value)?;
        let state = state_of(&self.value);
        // A row that was found must contain a valid state, and one that was not found no state.
        self.wrong += u64::from(found != state.is_some());
        Ok(state)
    }

    /// Reads a row that no client is changing, so that it must be as recorded.
    pub fn read_still(&mut self, on: &mut dyn Connection, row: u64) -> Attempt<()> {
        let state = self.read(on, row)?;
        self.must_be(row, state);
        Ok(())
    }

    /// Locks a row and reads it (Invariant 2).
    pub fn read_for_update(&mut self, on: &mut dyn Connection, row: u64) -> Attempt<Option<State>> {
        on.get_for_update(0, &key(row), &mut self.value)?;
        let state = state_of(&self.value);
        self.must_be(row, state);
        Ok(if self.keeps_rows { state } else { self.rows.state(row) })
    }

    fn must_be(&mut self, row: u64, state: Option<State>) {
        self.wrong += u64::from(self.keeps_rows && state != self.rows.state(row));
    }

    /// Puts a row.
    pub fn put(&mut self, on: &mut dyn Connection, row: u64, state: State) -> Attempt<()> {
        write_value(row, state, &mut self.value);
        on.put(0, &key(row), &self.value)?;
        self.changes.push((row, Some(state)));
        Ok(())
    }

    /// Deletes a row.
    pub fn delete(&mut self, on: &mut dyn Connection, row: u64) -> Attempt<()> {
        on.delete(0, &key(row))?;
        self.changes.push((row, None));
        Ok(())
    }

    /// Puts a new row, which no other client uses, in its own transaction.
    pub fn add(&mut self, on: &mut dyn Connection, state: State) -> Attempt<()> {
        // A retry adds the same row.
        let row = *self.adding.get_or_insert_with(|| self.rows.add());
        self.begin(on, Begin::Write)?;
        self.put(on, row, state)?;
        self.commit(on)?;
        self.adding = None;
        Ok(())
    }

    /// Reads the rows in `from..to`.
    pub fn list(&mut self, on: &mut dyn Connection, from: u64, to: u64) -> Attempt<()> {
        let mut wrong = 0;
        let (from, to) = (key(from), key(to));
        let bounds = (Some(&from[..]), Some(&to[..]));
        on.scan(0, bounds, Direction::Forward, &mut |_, value| {
            wrong += u64::from(state_of(value).is_none());
            true
        })?;
        self.wrong += wrong;
        Ok(())
    }

    /// Commits (Invariant 1).
    pub fn commit(&mut self, on: &mut dyn Connection) -> Attempt<()> {
        for (row, state) in self.changes.drain(..) {
            self.rows.set(row, state);
        }
        on.commit().map_err(|stop| match stop {
            Stop::Conflict => Failure("a commit found others in its way".to_owned()).into(),
            failed => failed,
        })
    }
}
