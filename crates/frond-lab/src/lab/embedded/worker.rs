//! A client of a step on an embedded store, with its connection, pace, clocks and error counts.
//!
//! Threads: one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use super::Batch;
use crate::lab::step::{Arrivals, Pace, Tally};
use crate::measure::{Client, Meter};
use crate::schema::{Checksum, Keyspace, Table};
use crate::targets::{Attempt, Begin, Connection, Result, Stop};

/// Entries of a bulk load that are counted together.
const BULK_COUNTED: u64 = 1_000;

/// Checksums of the rows that clients have inserted as batches, by the keyspace of the table.
pub(super) type Ledger = Mutex<BTreeMap<Keyspace, Checksum>>;

/// A client of a step.
pub struct Worker<'m> {
    /// Number of the client, from 0.
    pub index: u64,
    connection: Box<dyn Connection + 'm>,
    meter: &'m Meter,
    clients: BTreeMap<&'static str, Client<'m>>,
    is_concurrent: bool,
    pub(super) tally: Tally,
    /// Whether the request that was last due has been served.
    is_served: bool,
    pace: Pace<'m>,
    ledger: &'m Ledger,
    cpu_s: f64,
}

impl<'m> Worker<'m> {
    /// A client of the step. With `is_concurrent`, it runs next to the step: its latencies
    /// are recorded, but its operations do not count as the step's.
    pub(super) fn new(
        index: u64,
        connection: Box<dyn Connection + 'm>,
        meter: &'m Meter,
        is_concurrent: bool,
        (ledger, cpu_s): (&'m Ledger, f64),
    ) -> Self {
        let (clients, tally, pace) = (BTreeMap::new(), Tally::default(), Pace::Closed);
        let is_served = false;
        Self {
            index,
            connection,
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
    #[inline]
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
        let begin = self.pace.due().unwrap_or(now);
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
        self.client(kind).finish_at(begin, ops);
        self.is_served = true;
        if matches!(self.pace, Pace::Shared(..)) {
            self.meter.was_busy(now.elapsed());
        }
        Ok(())
    }

    /// Inserts the rows of a batch in a transaction of their own, as one request, and empties the
    /// batch. Returns the number of rows inserted: none if the step ended before a retry. The table
    /// is later verified against the checksum of these rows.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn insert(&mut self, kind: &'static str, batch: &mut Batch<'_>) -> Result<u64> {
        let mut inserted = 0;
        if !batch.is_empty() {
            self.request(kind, batch.len(), |connection| {
                connection.begin(Begin::Batch)?;
                batch.insert(connection)?;
                connection.commit()?;
                inserted = batch.len();
                Ok(())
            })?;
        }
        if inserted > 0 {
            self.inserted(batch.table, &batch.sum);
        }
        batch.clear();
        Ok(inserted)
    }

    /// Adds rows to those against whose checksum the table is later verified.
    pub fn inserted(&self, table: &Table, rows: &Checksum) {
        let mut ledger = self.ledger.lock().unwrap_or_else(|e| e.into_inner());
        ledger.entry(table.base).or_default().merge(rows);
    }

    /// Runs one long request, which counts its operations itself while it runs, and stops early if
    /// `Client::go_on` is false.
    ///
    /// # Errors
    /// Errors of the store. A conflict is one, since the request is not repeated.
    pub fn counted(
        &mut self,
        kind: &'static str,
        body: impl FnOnce(&mut dyn Connection, &mut Client<'m>) -> Attempt<()>,
    ) -> Result<()> {
        let begin = Instant::now();
        self.client(kind);
        let Self { connection, clients, .. } = self;
        if let Some(client) = clients.get_mut(kind) {
            body(connection.as_mut(), client)?;
            client.finish_at(begin, 0);
        }
        Ok(())
    }

    /// Fills an empty keyspace in the store's own way, as one counted request. `next` is as for
    /// [`Connection::bulk_load`]; it is not asked for more once the time is over.
    ///
    /// # Errors
    /// Errors of the store, which may have no such way.
    pub fn bulk_load(
        &mut self,
        keyspace: Keyspace,
        mut next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool,
    ) -> Result<()> {
        self.counted("load", |connection, client| {
            let mut pending = 0;
            connection.bulk_load(keyspace, &mut |key, value| {
                if !client.go_on() || !next(key, value) {
                    return false;
                }
                pending += 1;
                if pending == BULK_COUNTED {
                    client.count(std::mem::take(&mut pending));
                }
                true
            })?;
            client.count(pending);
            Ok(())
        })
    }

    /// The client's part of the meter for this kind of request.
    #[inline]
    fn client(&mut self, kind: &'static str) -> &mut Client<'m> {
        let (meter, cpu_s) = (self.meter, self.cpu_s);
        let (is_concurrent, is_first) = (self.is_concurrent, self.clients.is_empty());
        self.clients.entry(kind).or_insert_with(|| match (is_concurrent, is_first) {
            (false, true) => meter.client(kind).with_cpu_from(cpu_s),
            (false, false) => meter.further_client(kind),
            (true, true) => meter.side_client(kind).with_cpu_from(cpu_s),
            (true, false) => meter.second_client(kind),
        })
    }
}
