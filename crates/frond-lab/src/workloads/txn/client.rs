//! A client of `txn`: its transactions, and what it notes of the rows it changes.
//!
//! Invariants
//! 1. A change is noted right before the commit, which is the last call of a transaction and fails only for what ends
//!    the run: until then others may be in the way, and the transaction is done again from its begin.
//! 2. A row that is read under its lock must be what was noted; each that is not is counted.
//!
//! Threads: one.

use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result, Stop};

use super::rows::{Rows, State, key, state_of, write_value};

/// One client.
pub struct Client<'a> {
    /// Its transactions.
    pub txns: Box<dyn Connection + 'a>,
    rows: &'a Rows,
    /// Whether the store keeps what it is given.
    keeps_rows: bool,
    value: Vec<u8>,
    /// What the transaction changes.
    changes: Vec<(u64, Option<State>)>,
    /// The row that it is adding.
    adding: Option<u64>,
    /// Transactions done again because others were in their way.
    pub retries: u64,
    /// Rows that were not what they must be.
    pub wrong: u64,
}

impl<'a> Client<'a> {
    /// A client of `rows`.
    pub fn new(txns: Box<dyn Connection + 'a>, rows: &'a Rows, keeps_rows: bool) -> Self {
        let (value, changes) = (Vec::new(), Vec::new());
        Self { txns, rows, keeps_rows, value, changes, adding: None, retries: 0, wrong: 0 }
    }

    /// Runs `work`, a transaction with its commit, until it comes through.
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

    /// Reads a row outside of transactions.
    pub fn read_once(&mut self, row: u64) -> Attempt<()> {
        self.read(row).map(drop)
    }

    /// Reads a row; it may be on its way to another state.
    pub fn read(&mut self, row: u64) -> Attempt<Option<State>> {
        let found = self.txns.get(0, &key(row), &mut self.value)?;
        let state = state_of(&self.value);
        // What is there tells its state, what is not there nothing.
        self.wrong += u64::from(found != state.is_some());
        Ok(state)
    }

    /// Reads a row that nobody changes.
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

    /// Puts a row that nobody has, in a transaction of its own.
    pub fn add(&mut self, state: State) -> Attempt<()> {
        // The same when it is done again.
        let row = *self.adding.get_or_insert_with(|| self.rows.add());
        self.txns.begin(Begin::Write)?;
        self.put(row, state)?;
        self.commit()?;
        self.adding = None;
        Ok(())
    }

    /// Reads the rows from one up to another.
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
