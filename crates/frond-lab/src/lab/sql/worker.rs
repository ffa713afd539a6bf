//! A client of a step: its connection, its pace, its clocks and its errors.
//!
//! Threads: one; the arrivals of an open loop are shared by the clients of a step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::insert::InsertText;
use super::session::{Session, SqlError, SqlResult};
use super::sum::Ledger;
use crate::measure::{Client, Meter, thread_cpu_s};
use crate::targets::Result;

/// Errors that were met and dealt with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    /// Deadlock victims.
    pub deadlock: u64,
    /// Lock wait timeouts.
    pub lock_timeout: u64,
    /// Duplicate keys.
    pub duplicate: u64,
}

impl Errors {
    /// Adds another count.
    pub fn add(&mut self, other: &Self) {
        self.deadlock += other.deadlock;
        self.lock_timeout += other.lock_timeout;
        self.duplicate += other.duplicate;
    }
}

/// When the requests of an open loop are due: at a fixed rate, whichever client is free.
#[derive(Debug)]
pub struct Arrivals {
    start: Instant,
    interval_s: f64,
    next: AtomicU64,
}

impl Arrivals {
    /// So many a second, from now on.
    pub fn new(per_second: f64) -> Self {
        let interval_s = 1.0 / per_second.max(1e-9);
        Self { start: Instant::now(), interval_s, next: AtomicU64::new(0) }
    }

    /// When the next one is due, which the caller is to serve.
    fn take(&self) -> Instant {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.start + Duration::from_secs_f64(number as f64 * self.interval_s)
    }
}

/// Where a client's next request comes from.
enum Pace<'m> {
    /// As soon as the last one has ended.
    Closed,
    /// At the client's own rate; when the current one was due.
    Own(Arrivals, Instant),
    /// At the rate of all of the step's clients.
    Shared(&'m Arrivals, Instant),
}

/// Makes a connection.
pub type Connect<'m> = &'m (dyn Fn() -> Result<Session> + Sync);

/// A client.
pub struct Worker<'m> {
    /// Its number, from 0.
    pub index: u64,
    /// Its connection.
    pub session: Session,
    meter: &'m Meter,
    clients: BTreeMap<&'static str, Client<'m>>,
    is_beside: bool,
    errors: Errors,
    pace: Pace<'m>,
    connect: Connect<'m>,
    /// Rows that were loaded, for their verification.
    ledger: &'m Ledger,
    /// CPU of its thread when it began.
    cpu_s: f64,
}

impl<'m> Worker<'m> {
    /// A client of the step; one that is `beside` it has latencies, and its operations are not the step's.
    pub(super) fn new(
        index: u64,
        session: Session,
        meter: &'m Meter,
        is_beside: bool,
        connect: Connect<'m>,
        ledger: &'m Ledger,
    ) -> Self {
        let (clients, errors, pace) = (BTreeMap::new(), Errors::default(), Pace::Closed);
        let cpu_s = thread_cpu_s();
        Self { index, session, meter, clients, is_beside, errors, pace, connect, ledger, cpu_s }
    }

    /// A further connection of this client.
    ///
    /// # Errors
    /// The server's.
    pub fn connect(&self) -> Result<Session> {
        (self.connect)()
    }

    /// Requests are to be due at this rate from now on, per second: a stall is then charged to all that it delays.
    pub fn set_rate(&mut self, per_second: f64) {
        self.pace = Pace::Own(Arrivals::new(per_second), Instant::now());
    }

    /// Requests are those that arrive at all of the step's clients.
    pub(super) fn share(&mut self, arrivals: &'m Arrivals) {
        self.pace = Pace::Shared(arrivals, Instant::now());
    }

    /// False when the step ends. Waits until the next request is due, if there is a rate.
    pub fn go_on(&mut self) -> bool {
        let (arrivals, next): (&Arrivals, _) = match &mut self.pace {
            Pace::Closed => return !self.meter.is_stopped(),
            Pace::Own(arrivals, due) => (arrivals, due),
            Pace::Shared(arrivals, due) => (arrivals, due),
        };
        let due = arrivals.take();
        *next = due;
        while let Some(early) = due.checked_duration_since(Instant::now()) {
            if self.meter.is_over() {
                return false;
            }
            std::thread::sleep(early.min(Duration::from_millis(50)));
        }
        !self.meter.is_stopped()
    }

    /// Whether the step is to end. Unlike `go_on` it does not wait.
    pub fn is_stopped(&self) -> bool {
        self.meter.is_stopped()
    }

    /// Ends the step.
    pub fn stop(&self) {
        self.meter.stop_side_clients();
    }

    /// Sends a statement with its rows as one request; gives the rows inserted, for whose sum the table is verified.
    ///
    /// # Errors
    /// The server's.
    pub fn insert(&mut self, kind: &'static str, statement: &mut InsertText) -> Result<u64> {
        self.insert_with(kind, statement, "")
    }

    /// The same with a clause after the rows.
    ///
    /// # Errors
    /// The server's.
    pub fn insert_with(
        &mut self,
        kind: &'static str,
        statement: &mut InsertText,
        clause: &str,
    ) -> Result<u64> {
        let (rows, sum) = statement.close(clause);
        let (table, columns) = statement.table();
        let (ledger, text, mut inserted) = (self.ledger, statement.text(), 0);
        // A request that the end of the step cut off before its retry has inserted nothing.
        self.request(kind, rows, |session| {
            session.run(text)?;
            ledger.add(table, columns, rows, sum);
            inserted = rows;
            Ok(())
        })?;
        Ok(inserted)
    }

    /// What rows were inserted, for their verification.
    pub fn ledger(&self) -> &'m Ledger {
        self.ledger
    }

    /// Runs one request of this kind, which does `ops` operations, until it is neither a deadlock victim nor out of
    /// time; its latency includes the retries.
    ///
    /// # Errors
    /// Any other error of the server.
    pub fn request(
        &mut self,
        kind: &'static str,
        ops: u64,
        mut body: impl FnMut(&mut Session) -> SqlResult<()>,
    ) -> Result<()> {
        let now = Instant::now();
        let begin = match self.pace {
            Pace::Closed => now,
            Pace::Own(_, due) | Pace::Shared(_, due) => due,
        };
        let done = loop {
            match body(&mut self.session) {
                Ok(()) => break true,
                Err(SqlError::Deadlock) => self.errors.deadlock += 1,
                Err(SqlError::LockTimeout) => self.errors.lock_timeout += 1,
                Err(SqlError::Duplicate) => {
                    self.errors.duplicate += 1;
                    break false;
                }
                Err(SqlError::Killed) if self.meter.is_over() => {}
                Err(error) => return Err(error.into()),
            }
            // A deadlock victim is rolled back already; after a timeout only the statement is.
            self.session.run("ROLLBACK")?;
            if self.meter.is_stopped() {
                return Ok(());
            }
        };
        if !done {
            self.session.run("ROLLBACK")?;
        }
        let (meter, cpu_s) = (self.meter, self.cpu_s);
        let (is_beside, is_first) = (self.is_beside, self.clients.is_empty());
        let client = self.clients.entry(kind).or_insert_with(|| match (is_beside, is_first) {
            (false, true) => meter.client(kind).with_cpu_from(cpu_s),
            (false, false) => meter.further_client(kind),
            (true, true) => meter.side_client(kind).with_cpu_from(cpu_s),
            (true, false) => meter.second_client(kind),
        });
        client.finish_at(begin, if done { ops } else { 0 }); // what was refused is no operation
        if matches!(self.pace, Pace::Shared(..)) {
            self.meter.was_busy(now.elapsed());
        }
        Ok(())
    }

    /// What it met.
    pub(super) fn errors(&self) -> Errors {
        self.errors
    }
}
