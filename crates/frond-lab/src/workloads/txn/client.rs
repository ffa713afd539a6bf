//! A client of `txn`: its transactions, and its record of the rows that it changes.
//!
//! Invariants
//! 1. A change is recorded right before the commit. The commit is the last call of a transaction
//!    and fails only with errors that end the run: conflicts occur before it, and the transaction
//!    is then run again from its start.
//! 2. A row that is read under its lock must be as recorded; each deviation is counted.
//!
//! Threads: one.

use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result, Stop};

use super::rows::{Rows, State, key, state_of, write_value};

/// A client that runs transactions.
pub struct Client<'a> {
    /// Its connection.
    pub txns: Box<dyn Connection + 'a>,
    rows: &'a Rows,
    /// Whether the store keeps what it is given.
    keeps_rows: bool,
    value: Vec<u8>,
    /// Changes of the current transaction.
    changes: Vec<(u64, Option<State>)>,
    /// Row that is being added.
    adding: Option<u64>,
    /// Transactions that were run again because of conflicts.
    pub retries: u64,
    /// Rows that were not as recorded.
    pub wrong: u64,
}

impl<'a> Client<'a> {
    /// Creates a client on `rows`.
    pub fn new(txns: Box<dyn Connection + 'a>, rows: &'a Rows, keeps_rows: bool) -> Self {
        let (value, changes) = (Vec::new(), Vec::new());
        Self { txns, rows, keeps_rows, value, changes, adding: None, retries: 0, wrong: 0 }
    }

    /// Runs `work`, a transaction with its commit, until it succeeds.
    pub fn run(&mut self, mut work: impl FnMut(&mut Self) -> Attempt<()>) -> Result<()> {
        loop {
            match work(self) {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Conflict) => {
                    self.changes.clear();
                    self.txns.rollback()?;
                    self.retries += 1;
                }
            }
        }
    }

    /// Reads a row outside of a transaction.
    pub fn read_once(&mut self, row: u64) -> Attempt<()> {
        self.read(row).map(drop)
    }

    /// Reads a row, which other clients may be changing.
    pub fn read(&mut self, row: u64) -> Attempt<Option<State>> {
        let found = self.txns.get(0, &key(row), &mut self.value)?;
        let state = state_of(&self.value);
        // A row that was found must contain a valid state, and one that was not found no state.
        self.wrong += u64::from(found != state.is_some());
        Ok(state)
    }

    /// Reads a row that no client is changing, so that it must be as recorded.
    pub fn read_still(&mut self, row: u64) -> Attempt<()> {
        let state = self.read(row)?;
        self.must_be(row, state);
        Ok(())
    }

    /// Locks a row and reads it (Invariant 2).
    pub fn read_for_update(&mut self, row: u64) -> Attempt<Option<State>> {
        self.txns.get_for_update(0, &key(row), &mut self.value)?;
        let state = state_of(&self.value);
        self.must_be(row, state);
        Ok(if self.keeps_rows { state } else { self.rows.state(row) })
    }

    fn must_be(&mut self, row: u64, state: Option<State>) {
        self.wrong += u64::from(self.keeps_rows && state != self.rows.state(row));
    }

    /// Puts a row.
    pub fn put(&mut self, row: u64, state: State) -> Attempt<()> {
        write_value(row, state, &mut self.value);
        self.txns.put(0, &key(row), &self.value)?;
        self.changes.push((row, Some(state)));
        Ok(())
    }

    /// Deletes a row.
    pub fn delete(&mut self, row: u64) -> Attempt<()> {
        self.txns.delete(0, &key(row))?;
        self.changes.push((row, None));
        Ok(())
    }

    /// Puts a new row, which no other client uses, in its own transaction.
    pub fn add(&mut self, state: State) -> Attempt<()> {
        // A retry adds the same row.
        let row = *self.adding.get_or_insert_with(|| self.rows.add());
        self.txns.begin(Begin::Write)?;
        self.put(row, state)?;
        self.commit()?;
        self.adding = None;
        Ok(())
    }

    /// Reads the rows in `from..to`.
    pub fn list(&mut self, from: u64, to: u64) -> Attempt<()> {
        let mut wrong = 0;
        let (from, to) = (key(from), key(to));
        let bounds = (Some(&from[..]), Some(&to[..]));
        self.txns.scan(0, bounds, Direction::Forward, &mut |_, value| {
            wrong += u64::from(state_of(value).is_none());
            true
        })?;
        self.wrong += wrong;
        Ok(())
    }

    /// Commits (Invariant 1).
    pub fn commit(&mut self) -> Attempt<()> {
        for (row, state) in self.changes.drain(..) {
            self.rows.set(row, state);
        }
        self.txns.commit().map_err(|stop| match stop {
            Stop::Conflict => Failure("a commit found others in its way".to_owned()).into(),
            failed => failed,
        })
    }
}
