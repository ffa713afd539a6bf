//! `txn`: concurrent transactions on a table that is loaded first (8-byte keys, values of 100
//! bytes).
//!
//! | step | a transaction |
//! |---|---|
//! | `put-N` | puts a row |
//! | `get-N` | reads a row |
//! | `rmw-N` | reads a row for update and puts it with its number incremented |
//! | `mix-N` | a request of LinkBench's mix (`mix.rs`) |
//! | `sync-N` | puts a row, acknowledged after a sync |
//! | `alone-N` | puts a row; the step lasts four times as long |
//! | `held-N` | like `alone-N`, while a snapshot is held from the start; may last longer |
//!
//! N clients run them, each without a pause. Except in `mix`, no two clients use the same row, so a
//! client that slows down another does so because of the store.
//!
//! Invariants
//! 1. A step takes the time that it is given, whatever the store.
//! 2. What rows must hold is known at any time (`rows.rs`). Reads under a lock are checked
//!    immediately, all rows at the end, and those of a held snapshot after the writes that it must
//!    not see.
//!
//! Threads: one per client, spawned by the step.

mod client;
pub mod mix;
mod rows;

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Bench, Spec, Volume, Workload};
use crate::measure::Meter;
use crate::random::{Purpose, Random};
use crate::schema::{Checksum, Table};
use crate::targets::{Attempt, Begin, Clients, Connection, Durability, Result, Target};
use client::Client;
use mix::Mix;
use rows::{KEY_BYTES, LOADED, Rows, State, VALUE_BYTES, key, state_of, write_value};

const ROW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
/// Number of rows in a commit of the load.
const ROWS_PER_COMMIT: u64 = 1_000;
/// Largest number of clients that write while a snapshot is held: enough to keep two processors
/// busy.
const WRITERS: u64 = 2;
/// Factor by which these steps are longer than others: memory that a snapshot holds takes time to
/// grow.
const HELD_TIMES: u64 = 4;
/// Number of rows that are checked in the snapshot at the end.
const ROWS_CHECKED: u64 = 10_000;

/// What transactions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Phase {
    /// Put a row.
    Put,
    /// Read a row.
    Get,
    /// Read a row for update and put it.
    Rmw,
    /// LinkBench's mix.
    Mix,
    /// Put a row, with a sync.
    Sync,
    /// Put rows, with a snapshot held and without.
    Snapshot,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Rmw => "rmw",
            Self::Mix => "mix",
            Self::Sync => "sync",
            Self::Snapshot => "alone",
        }
    }
}

/// The workload.
pub struct Txn {
    spec: Spec,
    rows: Rows,
    mix: Mix,
    /// Number of steps so far: the version that the next step puts.
    steps: u16,
}

/// One step.
#[derive(Clone, Copy)]
struct Step {
    phase: Phase,
    clients: u64,
    version: u16,
    durability: Durability,
}

impl Txn {
    /// The workload.
    pub fn new(spec: &Spec) -> Self {
        // The rows of an id are all present or all absent.
        let count = spec.rows.next_multiple_of(mix::ROWS_PER_ID);
        let (rows, mix) = (Rows::new(count), Mix::new(count));
        Self { spec: spec.clone(), rows, mix, steps: 0 }
    }

    fn load(&self, bench: &mut Bench<'_>) -> Result<()> {
        let count = self.rows.loaded();
        bench.step("load", "row", count, None, |meter, target| {
            let (mut connection, mut client) =
                (target.connect(Clients::ONE)?, meter.client("commit"));
            let (mut value, mut row) = (Vec::new(), 0);
            while row < count && client.go_on() {
                let end = (row + ROWS_PER_COMMIT).min(count);
                client.time(end - row, || {
                    connection.begin(Begin::Batch)?;
                    for row in row..end {
                        write_value(row, LOADED, &mut value);
                        connection.put(0, &key(row), &value)?;
                    }
                    connection.commit()
                })?;
                (row..end).for_each(|row| self.rows.set(row, Some(LOADED)));
                row = end;
            }
            Ok(Volume { changed_bytes: row * ROW_BYTES, ..Volume::default() })
        })?;
        Ok(())
    }

    /// Runs a step with its clients (Invariant 1).
    fn step(
        &mut self,
        bench: &mut Bench<'_>,
        name: &str,
        (phase, clients): (Phase, u64),
        seconds: u64,
    ) -> Result<()> {
        self.steps += 1;
        let durability = match phase {
            Phase::Sync => Durability::Sync,
            _ => self.spec.durability,
        };
        let step = Step { phase, clients, version: self.steps, durability };
        let (retries, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
        let keeps_rows = bench.keeps_rows();
        let name = format!("{name}-{clients}");
        let rows = self.rows.loaded();
        let row = bench.step(&name, "transaction", rows, Some(seconds), |meter, target| {
            std::thread::scope(|scope| {
                let one = |number: u64| {
                    let (this, retries, wrong) = (&*self, &retries, &wrong);
                    move || -> Result<u64> {
                        let client = this.run_client(meter, target, step, number, keeps_rows)?;
                        retries.fetch_add(client.retries, Ordering::Relaxed);
                        wrong.fetch_add(client.wrong, Ordering::Relaxed);
                        Ok(client.changed)
                    }
                };
                let threads: Vec<_> = (0..clients).map(|number| scope.spawn(one(number))).collect();
                let mut changed = 0;
                for thread in threads {
                    changed += thread.join().expect("a panic of a client ends the run")?;
                }
                Ok(Volume { changed_bytes: changed * ROW_BYTES, ..Volume::default() })
            })
        })?;
        row.ops_planned = row.ops;
        row.clients = Some(clients);
        row.retries = Some(retries.into_inner());
        let wrong = wrong.into_inner();
        if wrong > 0 && keeps_rows {
            row.errors.insert("wrong_rows".to_owned(), wrong);
        }
        Ok(())
    }

    fn run_client(
        &self,
        meter: &Meter,
        target: &dyn Target,
        step: Step,
        number: u64,
        keeps_rows: bool,
    ) -> Result<Ended> {
        let durability = Some(step.durability).filter(|class| *class != self.spec.durability);
        let clients = Clients { count: step.clients, durability };
        let mut client = Client::new(target.connect(clients)?, &self.rows, keeps_rows);
        let stream = u64::from(step.version) << 32 | number;
        let mut random = Random::stream(self.spec.seed, "txn", 0, stream, Purpose::Choice);
        let (mut meter, own) = (meter.client("txn"), self.rows.loaded() / step.clients);
        let changes = matches!(step.phase, Phase::Put | Phase::Rmw | Phase::Sync | Phase::Snapshot);
        let mut done = 0;
        while meter.go_on() {
            match step.phase {
                Phase::Mix => {
                    let drawn = self.mix.draw(&mut random);
                    meter.time(1, || client.run(|client| mix::serve(client, drawn)))?;
                }
                phase => {
                    // Rows are assigned to the clients in turn.
                    let row = random.below(own.max(1)) * step.clients + number;
                    meter.time(1, || {
                        client.run(|client| one_row(client, phase, row, step.version))
                    })?;
                }
            }
            done += 1;
        }
        let changed = if changes { done } else { 0 };
        Ok(Ended { changed, retries: client.retries, wrong: client.wrong })
    }

    /// Runs writers alone, and then the same writers while a snapshot is held.
    fn hold(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let most = self.spec.clients.iter().copied().max().unwrap_or(1);
        let (clients, seconds) = (WRITERS.min(most), HELD_TIMES * self.spec.seconds);
        self.step(bench, "alone", (Phase::Snapshot, clients), seconds)?;
        let mut held = bench.target.connect(Clients::ONE)?;
        held.begin(Begin::Read)?;
        // Stores may take the snapshot at the first read instead of at `begin`.
        held.get(0, &key(0), &mut Vec::new())?;
        let every = (self.rows.loaded() / ROWS_CHECKED).max(1) as usize;
        let states = (0..self.rows.loaded()).step_by(every).map(|row| (row, self.rows.state(row)));
        let states: Vec<(u64, Option<State>)> = states.collect();
        // Without a store nothing can grow, so the step need not last longer.
        let held_for = self.spec.held.filter(|_| bench.keeps_rows()).unwrap_or(seconds);
        self.step(bench, "held", (Phase::Snapshot, clients), held_for)?;
        if bench.keeps_rows() {
            let wrong = wrong_at(held.as_mut(), &states)?;
            if let Some(row) = bench.rows.last_mut().filter(|_| wrong > 0) {
                row.errors.insert("wrong_rows_of_snapshot".to_owned(), wrong);
            }
        }
        Ok(())
    }
}

/// The counts of a client that has ended.
struct Ended {
    changed: u64,
    retries: u64,
    wrong: u64,
}

/// Runs a transaction on one row.
fn one_row(client: &mut Client<'_>, phase: Phase, row: u64, version: u16) -> Attempt<()> {
    match phase {
        Phase::Get => client.read_still(row),
        Phase::Rmw => {
            client.txns.begin(Begin::Write)?;
            if let Some(state) = client.read_for_update(row)? {
                client.put(row, State { number: state.number.wrapping_add(1), ..state })?;
            }
            client.commit()
        }
        Phase::Put | Phase::Sync | Phase::Snapshot | Phase::Mix => {
            client.txns.begin(Begin::Write)?;
            client.put(row, State { version, number: 1 })?;
            client.commit()
        }
    }
}

/// Counts the rows that a snapshot shows differently from what they were (Invariant 2).
fn wrong_at(held: &mut dyn Connection, states: &[(u64, Option<State>)]) -> Result<u64> {
    let (mut value, mut wrong) = (Vec::new(), 0);
    for &(row, state) in states {
        let found = held.get(0, &key(row), &mut value)?;
        wrong += u64::from(found != state.is_some() || state_of(&value) != state);
    }
    Ok(wrong)
}

impl Workload for Txn {
    fn table(&self) -> Table {
        Table::raw("rows", KEY_BYTES)
    }

    fn unique(&self) -> bool {
        false
    }

    fn has_transactions(&self) -> bool {
        true
    }

    fn is_fixed(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        self.load(bench)?;
        bench.quiesce(self.rows.loaded())?;
        for phase in self.spec.phases.clone() {
            if phase == Phase::Snapshot {
                self.hold(bench)?;
                continue;
            }
            for clients in self.spec.clients.clone() {
                let seconds = self.spec.seconds;
                self.step(bench, phase.name(), (phase, clients.max(1)), seconds)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Vec<Checksum> {
        vec![self.rows.sum()]
    }

    fn volume(&self) -> Volume {
        let bytes = self.rows.sum().rows * ROW_BYTES;
        Volume { changed_bytes: bytes, live_bytes: bytes, live_bytes_indexed: bytes }
    }
}
