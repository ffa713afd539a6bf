//! A client of a step on an embedded store, with its connection, pace, clocks and error counts.
//!
//! Threads: one.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::lab::sql::{Arrivals, Tally};
use crate::measure::{Client, Meter};
use crate::targets::{Attempt, Connection, Result, Stop};

/// A client of a step.
pub struct Worker<'m> {
    /// Number of the client, from 0.
    pub index: u64,
    connection: Box<dyn Connection + 'm>,
    meter: &'m Meter,
    clients: BTreeMap<&'static str, Client<'m>>,
    pub(super) tally: Tally,
    /// Whether the request that was last due has been served.
    is_served: bool,
    /// For an open loop: its schedule, and when the current request was due.
    arrivals: Option<(&'m Arrivals, Instant)>,
    cpu_s: f64,
}

impl<'m> Worker<'m> {
    /// A client of the step. With `arrivals` it takes its requests from that schedule, which the
    /// clients share.
    pub(super) fn new(
        index: u64,
        connection: Box<dyn Connection + 'm>,
        meter: &'m Meter,
        arrivals: Option<&'m Arrivals>,
        cpu_s: f64,
    ) -> Self {
        let arrivals = arrivals.map(|arrivals| (arrivals, Instant::now()));
        let (clients, tally, is_served) = (BTreeMap::new(), Tally::default(), false);
        Self { index, connection, meter, clients, tally, is_served, arrivals, cpu_s }
    }

    /// Waits until the next request is due, if there is a rate. Returns false once the step has to
    /// end.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        let Some((arrivals, next)) = &mut self.arrivals else { return !self.meter.is_stopped() };
        if std::mem::take(&mut self.is_served) {
            arrivals.note_served();
        }
        let Some(due) = arrivals.wait(self.meter) else { return false };
        *next = due;
        !self.meter.is_stopped()
    }

    /// Ends the step.
    pub(super) fn stop(&self) {
        self.meter.stop_side_clients();
    }

    /// Adds to the bytes of rows that requests have changed.
    pub fn changed(&mut self, bytes: u64) {
        self.tally.changed_bytes += bytes;
    }

    /// Runs a request of this kind, which performs `ops` operations, and retries it until it meets
    /// no conflict. Its latency includes the retries.
    ///
    /// # Errors
    /// Errors of the store.
    #[inline]
    pub fn request(
        &mut self,
        kind: &'static str,
        ops: u64,
        mut body: impl FnMut(&mut dyn Connection) -> Attempt<()>,
    ) -> Result<()> {
        let now = Instant::now();
        let begin = self.arrivals.map_or(now, |(_, due)| due);
        loop {
            match body(self.connection.as_mut()) {
                Ok(()) => break,
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Conflict) => self.tally.deadlock += 1,
            }
            self.connection.rollback()?;
            if self.meter.is_stopped() {
                return Ok(());
            }
        }
        let (meter, cpu_s, is_first) = (self.meter, self.cpu_s, self.clients.is_empty());
        let client = self.clients.entry(kind).or_insert_with(|| match is_first {
            true => meter.client(kind).with_cpu_from(cpu_s),
            false => meter.further_client(kind),
        });
        client.finish_at(begin, ops);
        self.is_served = true;
        if self.arrivals.is_some() {
            meter.was_busy(now.elapsed());
        }
        Ok(())
    }
}
