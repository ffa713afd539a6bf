//! A client of a step: its connection, its pace, its clocks and its errors.
//!
//! Threads: one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::lab::sql::{Arrivals, Errors};
use crate::measure::{Client, Meter};
use crate::targets::{Attempt, Connection, Result, Stop};

/// A client.
pub struct Worker<'m> {
    /// Its number, from 0.
    pub index: u64,
    connection: Box<dyn Connection + 'm>,
    meter: &'m Meter,
    clients: BTreeMap<&'static str, Client<'m>>,
    pub(super) errors: Errors,
    /// Of an open loop: when requests are due, and when the current one was.
    arrivals: Option<(&'m Arrivals, Instant)>,
    cpu_s: f64,
}

impl<'m> Worker<'m> {
    /// A client of the step. With arrivals it serves those that nobody else serves.
    pub(super) fn new(
        index: u64,
        connection: Box<dyn Connection + 'm>,
        meter: &'m Meter,
        arrivals: Option<&'m Arrivals>,
        cpu_s: f64,
    ) -> Self {
        let arrivals = arrivals.map(|arrivals| (arrivals, Instant::now()));
        let (clients, errors) = (BTreeMap::new(), Errors::default());
        Self { index, connection, meter, clients, errors, arrivals, cpu_s }
    }

    /// False when the step ends. Waits until the next request is due, if there is a rate.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        let Some((arrivals, next)) = &mut self.arrivals else { return !self.meter.is_stopped() };
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

    /// Ends the step.
    pub(super) fn stop(&self) {
        self.meter.stop_side_clients();
    }

    /// Runs one request of this kind, which does `ops` operations, until nobody is in its way; its latency includes the
    /// retries.
    ///
    /// # Errors
    /// The store's.
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
                Err(Stop::Conflict) => self.errors.deadlock += 1,
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
        if self.arrivals.is_some() {
            meter.was_busy(now.elapsed());
        }
        Ok(())
    }
}
