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
//! 1. What rows must hold is known at any time (`rows.rs`). Reads under a lock are checked
//!    immediately, all rows at the end, and those of a held snapshot after the writes that it must
//!    not see.
//!
//! Threads: one per client, spawned by the step.

mod client;
mod mix;
mod rows;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::lab::embedded::{Bench, Entry, Worker, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::step::Step;
use crate::lab::suggest::unknown;
use crate::random::{Purpose, Random};
use crate::schema::Table;
use crate::targets::{Attempt, Begin, Clients, Connection, Failure, Result};
use client::Client;
use mix::Mix;
use rows::{KEY_BYTES, LOADED, Rows, State, VALUE_BYTES, key, state_of, write_value};

pub const EMBEDDED: Entry = Entry {
    name: "txn",
    about: "transactions of one row, and LinkBench's mix, with growing numbers of clients",
    headline: ("", "ops_s"),
    params: &[
        Param::sized("rows", ["8_000", "200_000", "1_000_000", "1_000_000"], "rows of the load"),
        Param::sized(
            "clients",
            ["2", "1,16", "1,2,16,64", "1,2,16,64"],
            "numbers of clients, a step each",
        ),
        Param::fixed("phases", "put,get,rmw,mix,sync,snapshot", "what transactions do"),
        Param::sized("seconds", ["0.1", "1", "5", "60"], "duration of a step, seconds"),
        Param::sized(
            "held",
            ["0.4", "4", "20", "600"],
            "how long a snapshot is held while rows are put, seconds",
        ),
        Param::fixed("ratio", "0.5", "data to cache"),
        Param::sized("time_limit", ["60", "40", "600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Txn::new(params, seed)?)),
};

const ROW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
/// Bytes per row in plain InnoDB.
const INNODB_ROW_BYTES: u64 = 150;
/// Number of rows in a commit of the load.
const ROWS_PER_COMMIT: u64 = 1_000;
/// Largest number of clients that write while a snapshot is held: enough to keep two processors
/// busy.
const WRITERS: u64 = 2;
/// Factor by which `alone`, the step before a snapshot is held, is longer than others: memory that
/// a snapshot holds takes time to grow.
const ALONE_TIMES: f64 = 4.0;
/// Number of rows that are checked in the snapshot at the end.
const ROWS_CHECKED: u64 = 10_000;
/// Least number of samples of the memory from which its growth is computed.
const SAMPLES_MIN: usize = 8;

/// What transactions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Put,
    Get,
    Rmw,
    Mix,
    Sync,
    /// Put rows, with a snapshot held and without.
    Snapshot,
}

const PHASES: [(&str, Phase); 6] = [
    ("put", Phase::Put),
    ("get", Phase::Get),
    ("rmw", Phase::Rmw),
    ("mix", Phase::Mix),
    ("sync", Phase::Sync),
    ("snapshot", Phase::Snapshot),
];

fn phase(name: &str) -> Result<(&'static str, Phase)> {
    let found = PHASES.into_iter().find(|(of, _)| *of == name);
    found.ok_or_else(|| unknown("phase of txn", name, &PHASES.map(|(name, _)| name)))
}

struct Txn {
    seed: u64,
    clients: Vec<u64>,
    phases: Vec<(&'static str, Phase)>,
    seconds: f64,
    held: f64,
    rows: Rows,
    mix: Mix,
    /// Number of steps so far: the version that the next step puts.
    steps: u16,
}

impl Txn {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let names = params.list("phases")?;
        let phases = names.into_iter().map(phase).collect::<Result<Vec<_>>>()?;
        let (clients, rows) = (params.numbers("clients")?, params.number("rows")?);
        let (seconds, held) = (params.real("seconds")?, params.real("held")?);
        let is_right = !phases.is_empty()
            && !clients.is_empty()
            && clients.iter().all(|clients| (1..=512).contains(clients) && *clients <= rows)
            && seconds > 0.0
            && held > 0.0;
        if !is_right {
            return Err(Failure(
                "txn: allowed are clients from 1 to 512 and not more than rows, a phase, seconds and held above 0"
                    .to_owned(),
            ));
        }
        // The rows of an id are all present or all absent.
        let count = rows.next_multiple_of(mix::ROWS_PER_ID);
        let (rows, mix) = (Rows::new(count), Mix::new(count));
        Ok(Self { seed, clients, phases, seconds, held, rows, mix, steps: 0 })
    }

    fn load(&self, bench: &mut Bench<'_>, table: &Table) -> Result<()> {
        let count = self.rows.loaded();
        bench.step(&Step::load("load", count, ROW_BYTES), |worker| {
            let (mut value, mut row) = (Vec::new(), 0);
            while row < count && worker.go_on() {
                let end = (row + ROWS_PER_COMMIT).min(count);
                worker.request("commit", end - row, |connection| {
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
            Ok(())
        })?;
        let rows = self.rows.sum().rows;
        bench.loaded((rows, rows * ROW_BYTES))?;
        bench.verify_raw(table, self.rows.sum(), true).map(drop)
    }

    fn step(
        &mut self,
        bench: &mut Bench<'_>,
        name: &str,
        (phase, clients): (Phase, u64),
        seconds: f64,
    ) -> Result<()> {
        self.steps += 1;
        let (this, keeps_rows, wrong) = (&*self, bench.keeps_rows(), AtomicU64::new(0));
        let name = format!("{name}-{clients}");
        let step =
            Step { writes: phase != Phase::Get, ..Step::timed(&name, seconds, 0.0, clients) };
        let body = |worker: &mut Worker<'_>| {
            let mut client = Client::new(&this.rows, keeps_rows);
            let done = this.run_client(worker, &mut client, (phase, clients));
            wrong.fetch_add(client.wrong, Ordering::Relaxed);
            done
        };
        match phase {
            Phase::Sync => bench.step_synced(&step, body)?,
            _ => bench.step(&step, body)?,
        };
        if keeps_rows {
            let wrong = wrong.into_inner();
            let detail = format!("{wrong} were not as recorded");
            bench.result.verify(&format!("rows read by {name}"), wrong == 0, detail);
        }
        Ok(())
    }

    fn run_client(
        &self,
        worker: &mut Worker<'_>,
        client: &mut Client<'_>,
        (phase, clients): (Phase, u64),
    ) -> Result<()> {
        let stream = u64::from(self.steps) << 32 | worker.index;
        let mut random = Random::stream(self.seed, "txn", 0, stream, Purpose::Choice);
        let own = self.rows.loaded() / clients;
        while worker.go_on() {
            if phase == Phase::Mix {
                let drawn = self.mix.draw(&mut random);
                worker.request("txn", 1, |on| mix::serve(client, on, drawn))?;
                continue;
            }
            // Rows are assigned to the clients in turn.
            let row = random.below(own) * clients + worker.index;
            worker.request("txn", 1, |on| one_row(client, on, phase, row, self.steps))?;
            if phase != Phase::Get {
                worker.changed(ROW_BYTES);
            }
        }
        Ok(())
    }

    /// Runs writers alone, and then the same writers while a snapshot is held.
    fn hold(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let most = self.clients.iter().copied().max().unwrap_or(1);
        let (writers, alone_s) = ((Phase::Snapshot, WRITERS.min(most)), ALONE_TIMES * self.seconds);
        self.step(bench, "alone", writers, alone_s)?;
        let mut held = bench.target.connect(Clients::ONE)?;
        held.begin(Begin::Read)?;
        // Stores may take the snapshot at the first read instead of at `begin`.
        held.get(0, &key(0), &mut Vec::new())?;
        let every = (self.rows.loaded() / ROWS_CHECKED).max(1) as usize;
        let states = (0..self.rows.loaded()).step_by(every).map(|row| (row, self.rows.state(row)));
        let states: Vec<(u64, Option<State>)> = states.collect();
        // Without a store nothing can grow, so the step need not last longer.
        let keeps_rows = bench.keeps_rows();
        self.step(bench, "held", writers, if keeps_rows { self.held } else { alone_s })?;
        if keeps_rows {
            let wrong = wrong_at(held.as_mut(), &states)?;
            let detail = format!("{wrong} of {} were not as when it was taken", states.len());
            bench.result.verify("rows of the snapshot", wrong == 0, detail);
        }
        if let [.., alone, held] = bench.result.steps.as_mut_slice() {
            note_cost(alone, held);
        }
        Ok(())
    }
}

/// Adds what a held snapshot costs: the rate, as a fraction of that without it, and the growth of
/// the memory while it is held.
fn note_cost(alone: &StepResult, held: &mut StepResult) {
    let rate = |step: &StepResult| step.metrics.get("ops_s").copied();
    if let (Some(without), Some(with)) = (rate(alone), rate(held)) {
        held.metrics.insert("held_rate".to_owned(), with / without.max(1e-9));
    }
    if let Some(growth) = held.series.get("rss_b").and_then(|memory| growth(memory)) {
        held.metrics.insert("held_growth".to_owned(), growth);
    }
}

/// Returns the mean in the last quarter of a series relative to that in the second quarter; in the
/// first quarter caches fill.
fn growth(series: &[(f64, f64)]) -> Option<f64> {
    let quarter = |number: usize| {
        let at = |part: usize| series.len() * part / 4;
        let samples = series.get(at(number)..at(number + 1)).unwrap_or_default();
        samples.iter().map(|(_, value)| value).sum::<f64>() / samples.len().max(1) as f64
    };
    (series.len() >= SAMPLES_MIN).then(|| quarter(3) / quarter(1).max(1.0))
}

/// Runs a transaction on one row.
fn one_row(
    client: &mut Client<'_>,
    on: &mut dyn Connection,
    phase: Phase,
    row: u64,
    version: u16,
) -> Attempt<()> {
    match phase {
        Phase::Get => client.read_still(on, row),
        Phase::Rmw => {
            client.begin(on, Begin::Write)?;
            if let Some(state) = client.read_for_update(on, row)? {
                let number = state.number.wrapping_add(1);
                client.put(on, row, State { number, ..state })?;
            }
            client.commit(on)
        }
        Phase::Put | Phase::Sync | Phase::Snapshot | Phase::Mix => {
            client.begin(on, Begin::Write)?;
            client.put(on, row, State { version, number: 1 })?;
            client.commit(on)
        }
    }
}

/// Counts the rows that a snapshot shows differently from what they were (Invariant 1).
fn wrong_at(held: &mut dyn Connection, states: &[(u64, Option<State>)]) -> Result<u64> {
    let (mut value, mut wrong) = (Vec::new(), 0);
    for &(row, state) in states {
        let found = held.get(0, &key(row), &mut value)?;
        wrong += u64::from(found != state.is_some() || state_of(&value) != state);
    }
    Ok(wrong)
}

impl Workload for Txn {
    fn tables(&self) -> Vec<Table> {
        vec![Table::raw("rows", KEY_BYTES)]
    }

    fn innodb_bytes(&self) -> u64 {
        self.rows.loaded() * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let table = bench.table("rows")?;
        self.load(bench, table)?;
        for (name, phase) in self.phases.clone() {
            let why = match phase {
                Phase::Sync if !bench.can_sync() => "all commits have the durability of the store",
                Phase::Mix if !bench.target.locks_rows() => "the store has no locks",
                _ => "",
            };
            if !why.is_empty() {
                bench.result.settings.insert(format!("({name})"), format!("left out: {why}"));
                continue;
            }
            if phase == Phase::Snapshot && !bench.is_over() {
                self.hold(bench)?;
                continue;
            }
            for clients in self.clients.clone() {
                if !bench.is_over() {
                    self.step(bench, name, (phase, clients), self.seconds)?;
                }
            }
        }
        bench.rest()?;
        bench.verify_raw(table, self.rows.sum(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::embedded::testing::{on_all, step_of};
    use crate::lab::size::Size;

    #[test]
    fn embedded_transactions_leave_the_rows_that_they_recorded() {
        on_all("txn", &[], |target, result| {
            let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
            let expected =
                ["load", "put-2", "get-2", "rmw-2", "mix-2", "sync-2", "alone-2", "held-2"];
            let without: &[&str] = match target {
                "lmdb" => &["sync-2"],
                "tidesdb" => &["mix-2", "sync-2"],
                _ => &[],
            };
            let expected: Vec<_> =
                expected.into_iter().filter(|name| !without.contains(name)).collect();
            assert_eq!(names, expected, "{target}");
            assert!(step_of(result, "held-2").metrics["held_rate"] > 0.0, "{target}");
            assert!(step_of(result, "put-2").metrics["changed_b"] > 0.0, "{target}");
            // The load, each step, the snapshot, and the rows at the end.
            let verified = if target == "null" { 0 } else { names.len() + 2 };
            assert_eq!(result.verified.len(), verified, "{target}: {:?}", result.verified);
        });
    }

    #[test]
    fn phases_and_clients_are_checked() {
        let made = |name: &str, value: &str| {
            let changes = [(name.to_owned(), value.to_owned())];
            let params = Params::new("txn", EMBEDDED.params, Size::Tiny, &changes);
            Txn::new(&params.expect("known"), 42).map(|made| made.phases.len())
        };
        assert_eq!(made("phases", "put, snapshot").ok(), Some(2));
        assert!(made("phases", "snapshop").is_err_and(|why| why.0.contains("snapshot")));
        for (name, value) in
            [("phases", ""), ("clients", "0"), ("clients", "9000"), ("seconds", "0")]
        {
            assert!(made(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn memory_that_grows_while_a_snapshot_is_held_is_noticed() {
        let of = |last: f64| {
            let values = [1.0, 500.0, 100.0, 100.0, 100.0, 300.0, last, last];
            growth(&values.map(|value| (0.0, value)))
        };
        assert_eq!((of(105.0), of(150.0)), (Some(1.05), Some(1.5)));
        assert_eq!(growth(&[(0.0, 1.0); 7]), None, "there are too few samples");
    }
}
