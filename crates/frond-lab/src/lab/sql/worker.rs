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

/// What a client met and dealt with, and what it changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Deadlock victims.
    pub deadlock: u64,
    /// Lock wait timeouts.
    pub lock_timeout: u64,
    /// Duplicate keys.
    pub duplicate: u64,
    /// Bytes of changed rows.
    pub changed_bytes: u64,
}

impl Tally {
    /// Adds another client's.
    pub fn add(&mut self, other: &Self) {
        self.deadlock += other.deadlock;
        self.lock_timeout += other.lock_timeout;
        self.duplicate += other.duplicate;
        self.changed_bytes += other.changed_bytes;
    }
}

/// When the requests of an open loop are due: at a fixed rate, whichever client is free.
#[derive(Debug)]
pub struct Arrivals {
    start: Instant,
    interval_s: f64,
    next: AtomicU64,
    served: AtomicU64,
}

impl Arrivals {
    /// So many a second, from now on.
    pub fn new(per_second: f64) -> Self {
        let interval_s = 1.0 / per_second.max(1e-9);
        let (next, served) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), interval_s, next, served }
    }

    /// Requests that were due in these seconds, before the deadline, and were not served: their latency is in no
    /// histogram.
    pub fn unserved(&self, seconds: f64, deadline: Option<Instant>) -> u64 {
        let most = deadline.map(|end| end.saturating_duration_since(self.start).as_secs_f64());
        let time = most.map_or(seconds, |most| most.min(seconds));
        ((time / self.interval_s).ceil() as u64).saturating_sub(self.served.load(Ordering::Relaxed))
    }

    /// When the next one is due, which the caller is to serve.
    fn take(&self) -> Instant {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.start + Duration::from_secs_f64(number as f64 * self.interval_s)
    }

    /// Waits until the next one is due, which the caller is to serve; gives when it was due. None if the step ends before.
    pub fn wait(&self, meter: &Meter) -> Option<Instant> {
        let due = self.take();
        while let Some(early) = due.checked_duration_since(Instant::now()) {
            if meter.is_over() {
                return None;
            }
            std::thread::sleep(early.min(Duration::from_millis(50)));
        }
        Some(due)
    }

    /// Notes that the caller has served one.
    pub fn note_served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
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
    tally: Tally,
    /// Whether the request that was due has been served.
    is_served: bool,
    pace: Pace<'m>,
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
        ledger: &'m Ledger,
    ) -> Self {
        let (clients, tally, pace) = (BTreeMap::new(), Tally::default(), Pace::Closed);
        let cpu_s = thread_cpu_s();
        let is_served = false;
        Self { index, session, meter, clients, is_beside, tally, is_served, pace, ledger, cpu_s }
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
        if std::mem::take(&mut self.is_served) {
            arrivals.note_served();
        }
        let Some(due) = arrivals.wait(self.meter) else { return false };
        *next = due;
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

    /// Sends a statement with its rows and a clause after them as one request; gives the rows inserted.
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

    /// Notes bytes of rows that a request has changed.
    pub fn changed(&mut self, bytes: u64) {
        self.tally.changed_bytes += bytes;
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
        self.request_of(kind, |session| body(session).map(|()| ops))
    }

    /// Runs one request that says how many operations it did; otherwise like [`request`](Self::request).
    ///
    /// # Errors
    /// Any other error of the server.
    pub fn request_of(
        &mut self,
        kind: &'static str,
        mut body: impl FnMut(&mut Session) -> SqlResult<u64>,
    ) -> Result<()> {
        let now = Instant::now();
        let begin = match self.pace {
            Pace::Closed => now,
            Pace::Own(_, due) | Pace::Shared(_, due) => due,
        };
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
            // A deadlock victim is rolled back already; after a timeout only the statement is.
            self.session.run("ROLLBACK")?;
            if self.meter.is_stopped() {
                return Ok(());
            }
        };
        if done.is_none() {
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
        client.finish_at(begin, done.unwrap_or(0)); // what was refused is no operation
        self.is_served = true;
        if matches!(self.pace, Pace::Shared(..)) {
            self.meter.was_busy(now.elapsed());
        }
        Ok(())
    }

    /// What it met and changed.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_were_due_and_not_served_are_counted() {
        let arrivals = Arrivals::new(100.0);
        assert_eq!(arrivals.unserved(0.0, None), 0);
        assert_eq!(arrivals.unserved(0.095, None), 10); // at 0, 10, … 90 ms
        let deadline = arrivals.start + Duration::from_millis(45);
        assert_eq!(arrivals.unserved(0.095, Some(deadline)), 5);
        assert_eq!(arrivals.take(), arrivals.start);
        arrivals.served.fetch_add(7, Ordering::Relaxed);
        assert_eq!(arrivals.unserved(0.095, None), 3);
        arrivals.served.fetch_add(7, Ordering::Relaxed);
        assert_eq!(arrivals.unserved(0.095, None), 0);
    }
}
