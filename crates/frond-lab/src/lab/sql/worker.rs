//! A client of a step, with its connection, pace, clocks and error counts.
//!
//! Threads: one. The clients of a step share the arrivals of an open loop.

use std::collections::BTreeMap;
use std::time::Instant;

use super::insert::InsertText;
use super::session::{Session, SqlError, SqlResult};
use super::sum::Ledger;
use crate::lab::step::{Arrivals, Pace, Tally};
use crate::measure::{Client, Meter, thread_cpu_s};
use crate::targets::Result;

/// Opens a connection.
pub type Connect<'m> = &'m (dyn Fn() -> Result<Session> + Sync);

/// A client of a step.
pub struct Worker<'m> {
    /// Number of the client, from 0.
    pub index: u64,
    /// Connection of the client.
    pub session: Session,
    meter: &'m Meter,
    clients: BTreeMap<&'static str, Client<'m>>,
    is_concurrent: bool,
    tally: Tally,
    /// Whether the request that was last due has been served.
    is_served: bool,
    pace: Pace<'m>,
    /// Records the inserted rows for verification.
    ledger: &'m Ledger,
    /// CPU time of the thread when the client started.
    cpu_s: f64,
}

impl<'m> Worker<'m> {
    /// A client of the step. With `is_concurrent`, it runs next to the step: its latencies
    /// are recorded, but its operations do not count as the step's.
    pub(super) fn new(
        index: u64,
        session: Session,
        meter: &'m Meter,
        is_concurrent: bool,
        ledger: &'m Ledger,
    ) -> Self {
        let (clients, tally, pace) = (BTreeMap::new(), Tally::default(), Pace::Closed);
        let cpu_s = thread_cpu_s();
        let is_served = false;
        Self {
            index,
            session,
            meter,
            clients,
            is_concurrent,
            tally,
            is_served,
            pace,
            ledger,
            cpu_s,
        }
    }

    /// Makes requests due at this rate from now on, per second. A stall then adds to the latency of
    /// every request that it delays.
    pub fn set_rate(&mut self, per_second: f64) {
        self.pace = Pace::Own(Arrivals::new(per_second), Instant::now());
    }

    /// Makes the client serve the requests of a schedule that all clients of the step share.
    pub(super) fn share(&mut self, arrivals: &'m Arrivals) {
        self.pace = Pace::Shared(arrivals, Instant::now());
    }

    /// Waits until the next request is due, if there is a rate. Returns false once the step has to
    /// end.
    pub fn go_on(&mut self) -> bool {
        self.pace.wait(&mut self.is_served, self.meter)
    }

    /// Whether the step has to end. Unlike `go_on`, this does not wait.
    pub fn is_stopped(&self) -> bool {
        self.meter.is_stopped()
    }

    /// Operations that the step has done so far.
    pub fn done(&self) -> u64 {
        self.meter.done()
    }

    /// A function that counts the operations that the step has done so far.
    pub fn counter(&self) -> impl Fn() -> u64 + use<'m> {
        let meter = self.meter;
        move || meter.done()
    }

    /// Ends the step.
    pub fn stop(&self) {
        self.meter.stop();
    }

    /// Sends a statement with its rows as one request; returns the number of rows inserted. The
    /// table is later verified against the checksum of these rows.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn insert(&mut self, kind: &'static str, statement: &mut InsertText) -> Result<u64> {
        self.insert_with(kind, statement, "")
    }

    /// Like [`insert`](Self::insert), with a clause appended to the statement.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn insert_with(
        &mut self,
        kind: &'static str,
        statement: &mut InsertText,
        clause: &str,
    ) -> Result<u64> {
        let (rows, sum) = statement.close(clause);
        let (table, columns) = statement.table();
        let (ledger, text, mut inserted) = (self.ledger, statement.text(), 0);
        // If the step ends before a retry, nothing was inserted.
        self.request(kind, rows, |session| {
            session.run(text)?;
            ledger.add(table, columns, rows, sum);
            inserted = rows;
            Ok(())
        })?;
        Ok(inserted)
    }

    /// The record of inserted rows, for verification.
    pub fn ledger(&self) -> &'m Ledger {
        self.ledger
    }

    /// Adds to the bytes of rows that requests have changed.
    pub fn changed(&mut self, bytes: u64) {
        self.tally.changed_bytes += bytes;
    }

    /// Runs a request of this kind, which performs `ops` operations. Retries it after a deadlock or
    /// lock timeout; the latency includes the retries. A duplicate key is counted, not retried.
    ///
    /// # Errors
    /// Other errors of the server.
    pub fn request(
        &mut self,
        kind: &'static str,
        ops: u64,
        mut body: impl FnMut(&mut Session) -> SqlResult<()>,
    ) -> Result<()> {
        self.request_of(kind, |session| body(session).map(|()| ops))
    }

    /// Like [`request`](Self::request), but `body` returns the number of operations performed.
    ///
    /// # Errors
    /// Other errors of the server.
    pub fn request_of(
        &mut self,
        kind: &'static str,
        mut body: impl FnMut(&mut Session) -> SqlResult<u64>,
    ) -> Result<()> {
        let now = Instant::now();
        let begin = self.pace.due().unwrap_or(now);
        let done = loop {
            match body(&mut self.session) {
                Ok(ops) => break Some(ops),
                Err(SqlError::Deadlock) => self.tally.deadlock += 1,
                Err(SqlError::LockTimeout) => self.tally.lock_timeout += 1,
                Err(SqlError::Duplicate) => {
                    self.tally.duplicate += 1;
                    break None;
                }
                Err(SqlError::Killed) if self.meter.is_over() => {}
                Err(error) => return Err(error.into()),
            }
            // After a deadlock the transaction is already rolled back, after a timeout only the
            // statement.
            self.session.run("ROLLBACK")?;
            if self.meter.is_stopped() {
                return Ok(());
            }
        };
        if done.is_none() {
            self.session.run("ROLLBACK")?;
        }
        let (meter, cpu_s) = (self.meter, self.cpu_s);
        let (is_concurrent, is_first) = (self.is_concurrent, self.clients.is_empty());
        let client = self.clients.entry(kind).or_insert_with(|| match (is_concurrent, is_first) {
            (false, true) => meter.client(kind).with_cpu_from(cpu_s),
            (false, false) => meter.further_client(kind),
            (true, true) => meter.side_client(kind).with_cpu_from(cpu_s),
            (true, false) => meter.second_client(kind),
        });
        client.finish_at(begin, done.unwrap_or(0)); // a refused request counts no operations
        self.is_served = true;
        if matches!(self.pace, Pace::Shared(..)) {
            self.meter.was_busy(now.elapsed());
        }
        Ok(())
    }

    /// Errors that the client handled, and bytes that it changed.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}
