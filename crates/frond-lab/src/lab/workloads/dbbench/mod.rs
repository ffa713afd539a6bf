//! `dbbench`: the tests of RocksDB's db_bench on plain keys and values, one after the other in one
//! store.
//!
//! | test | |
//! |---|---|
//! | `fillseq` | puts of ascending keys into an empty table |
//! | `fillrandom` | puts of random keys into an empty table; 63 % of them are distinct |
//! | `filluniquerandom` | puts of all keys into an empty table, in random order |
//! | `fillsync` | puts of random keys into an empty table, a thousandth as many, each synced |
//! | `bulkload` | an empty table is filled with ascending keys in the store's own way |
//! | `overwrite` | puts of existing keys |
//! | `overwritesome` | puts of existing keys, a tenth as many as the rows of a fill |
//! | `readrandom`, `readmissing` | gets of existing keys, and of absent ones |
//! | `multireadrandom` | ten gets in one snapshot |
//! | `seekrandom`, `revrange` | a seek, and the ten entries from there on, or backwards |
//! | `readseq`, `readreverse` | all entries in order, and in reverse |
//! | `readwhilewriting` | `readrandom` while one client puts 2 MB/s |
//! | `fwdrangewhilewriting` | `seekrandom` while one client puts 2 MB/s |
//! | `deleteseq` | deletes of the lower half of the keys in order, and then `seekrandom` |
//! | `deleterandom` | as many deletes of random keys, and then `seekrandom` |
//!
//! Tests that read, overwrite or delete use the table that was filled last. Each test that fills
//! has a table of its own, as db_bench starts it on an empty store; that of `fillsync` is too small
//! to be read. Tests that run for a time are steps of their own for each number of clients.

mod filled;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use xxhash_rust::xxh3::xxh3_64;

use self::filled::{ABSENT, Changes, Filled};
use super::pace::{self, RATE, Rate};
use crate::data::shape::Shape;
use crate::lab::embedded::{Bench, Concurrent, Entry, Worker, Workload};
use crate::lab::params::{Param, Params, twice};
use crate::lab::step::Step;
use crate::lab::suggest::unknown;
use crate::random::{Purpose, Random, Shuffle};
use crate::schema::Table;
use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result};

pub const EMBEDDED: Entry = Entry {
    name: "dbbench",
    about: "db_bench: plain keys and values; its tests, one after the other in one store",
    headline: ("", "ops_s"),
    params: &[
        Param::sized("tests", [ALL, QUICK, ALL, ALL], "tests, in this order"),
        Param::sized("rows", ["5_000", "400_000", "4_000_000", "4_000_000"], "rows of a fill"),
        Param::fixed(
            "shape",
            "script",
            "script: 20-byte keys, 400-byte values; classic: 16 and 100",
        ),
        Param::fixed("rows_per_commit", "1", "puts per commit of a fill"),
        Param::sized("threads", ["1", "1", "1,4", "1,4"], "numbers of clients"),
        Param::sized(
            "seconds",
            ["0.3", "1", "60", "600"],
            "maximum duration of tests that neither fill nor delete, seconds",
        ),
        Param::sized("warm_up", ["0", "0.3", "20", "60"], "maximum warm-up of these, seconds"),
        RATE,
        Param::fixed("ratio", "10", "data to cache"),
        Param::sized("time_limit", ["60", "40", "3600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(DbBench::new(params, seed)?)),
};

const QUICK: &str = "fillseq,readrandom,multireadrandom,seekrandom,readmissing,readseq,readreverse,fillrandom,overwrite,readwhilewriting,fillsync";
const ALL: &str = "fillseq,readrandom,multireadrandom,seekrandom,revrange,readmissing,readseq,readreverse,deleteseq,fillrandom,overwrite,readwhilewriting,fillsync,filluniquerandom,overwritesome,fwdrangewhilewriting,deleterandom,bulkload";

/// Bytes per row of the shape `script` in plain InnoDB.
const INNODB_ROW_BYTES: u64 = 425;
/// Entries that a seek reads.
const ROWS_PER_SEEK: usize = 10;
/// Keys that are read in one snapshot.
const KEYS_PER_GET: usize = 10;
/// Bytes per second of the writer that runs concurrently with readers, as in the tool's script.
const CONCURRENT_BYTES_PER_SECOND: u64 = 2_000_000;
/// Rows after which a scan counts them and looks at the clock.
const CHUNK: u64 = 1_000;
/// Absent keys between two entries that a seek checks, at most: the client must cost little.
const GAP_MAX: usize = 64;
/// A synced fill has one row for each of this many rows of other fills.
const SYNCED_OF: u64 = 1_000;
/// `overwritesome` has one put for each of this many rows of a fill.
const OVERWRITTEN_OF: u64 = 10;
/// Tests that delete have one delete for each of this many rows of a fill.
const DELETED_OF: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    FillSeq,
    FillRandom,
    FillSync,
    Overwrite,
    ReadRandom,
    MultiReadRandom,
    ReadMissing,
    ReadSeq,
    ReadReverse,
    SeekRandom,
    ReadWhileWriting,
    FillUniqueRandom,
    BulkLoad,
    OverwriteSome,
    RevRange,
    FwdRangeWhileWriting,
    DeleteSeq,
    DeleteRandom,
}

/// The tests by name.
pub const TESTS: [(&str, Test); 18] = [
    ("fillseq", Test::FillSeq),
    ("fillrandom", Test::FillRandom),
    ("filluniquerandom", Test::FillUniqueRandom),
    ("fillsync", Test::FillSync),
    ("bulkload", Test::BulkLoad),
    ("overwrite", Test::Overwrite),
    ("overwritesome", Test::OverwriteSome),
    ("readrandom", Test::ReadRandom),
    ("multireadrandom", Test::MultiReadRandom),
    ("readmissing", Test::ReadMissing),
    ("readseq", Test::ReadSeq),
    ("readreverse", Test::ReadReverse),
    ("seekrandom", Test::SeekRandom),
    ("revrange", Test::RevRange),
    ("readwhilewriting", Test::ReadWhileWriting),
    ("fwdrangewhilewriting", Test::FwdRangeWhileWriting),
    ("deleteseq", Test::DeleteSeq),
    ("deleterandom", Test::DeleteRandom),
];

impl Test {
    /// Finds a test by name.
    fn find(name: &str) -> Result<Self> {
        let found = TESTS.iter().find(|(of, _)| *of == name).map(|(_, test)| *test);
        found.ok_or_else(|| unknown("test of dbbench", name, &TESTS.map(|(name, _)| name)))
    }

    fn name(self) -> &'static str {
        TESTS.iter().find(|(_, test)| *test == self).map_or("", |(name, _)| name)
    }

    /// Whether the test starts with an empty table of its own.
    fn fills(self) -> bool {
        use Test::{BulkLoad, FillRandom, FillSeq, FillSync, FillUniqueRandom};
        matches!(self, FillSeq | FillRandom | FillUniqueRandom | FillSync | BulkLoad)
    }

    fn deletes(self) -> bool {
        matches!(self, Self::DeleteSeq | Self::DeleteRandom)
    }

    /// Whether a client puts entries while others read.
    fn has_writer(self) -> bool {
        matches!(self, Self::ReadWhileWriting | Self::FwdRangeWhileWriting)
    }

    /// Whether the test runs with each number of clients.
    fn has_clients(self) -> bool {
        let is_scan = matches!(self, Self::ReadSeq | Self::ReadReverse);
        !(self.fills() || self.deletes() || is_scan || self == Self::OverwriteSome)
    }
}

/// A test with a number of clients.
#[derive(Clone, Copy, Debug)]
struct Round {
    test: Test,
    clients: u64,
    /// Version of the values that it puts.
    version: u8,
}

impl Round {
    /// Name of its step.
    fn name(self) -> String {
        match self.clients {
            1 => self.test.name().to_owned(),
            clients => format!("{} threads={clients}", self.test.name()),
        }
    }
}

struct DbBench {
    seed: u64,
    tests: Vec<Test>,
    rows: u64,
    shape: Shape,
    per_commit: u64,
    threads: Vec<u64>,
    seconds: f64,
    warm_up: f64,
    rate: Rate,
}

/// Buffers of a client that reads.
struct Buffers {
    keys: Vec<Vec<u8>>,
    value: Vec<u8>,
}

fn lock(random: &Mutex<Random>) -> MutexGuard<'_, Random> {
    random.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl DbBench {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let mut tests =
            params.list("tests")?.into_iter().map(Test::find).collect::<Result<Vec<_>>>()?;
        // A table that only a synced fill has filled is not read.
        let first = tests.iter().find(|test| **test != Test::FillSync);
        if first.is_some_and(|test| !test.fills()) {
            tests.insert(0, Test::FillSeq);
        }
        let made = Self {
            seed,
            rows: params.number("rows")?,
            shape: match params.word("shape", &["script", "classic"])? {
                "classic" => Shape::Classic,
                _ => Shape::Script,
            },
            per_commit: params.number("rows_per_commit")?,
            threads: params.numbers("threads")?,
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            tests,
        };
        let is_right = made.rows > 0
            && !made.tests.is_empty()
            && twice(&made.tests).is_none()
            && (1..=100_000).contains(&made.per_commit)
            && (1..=10).contains(&made.threads.len())
            && made.threads.iter().all(|threads| (1..=512).contains(threads))
            && made.seconds > 0.0;
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "dbbench: allowed are each test once, rows and rows_per_commit from 1, up to ten numbers of threads from 1 to 512, seconds \
             above 0"
                .to_owned(),
        ))
    }

    /// The tests with their numbers of clients, in order. Each puts a version of its own.
    fn rounds(&self) -> Vec<Round> {
        let clients = |test: Test| match test.has_clients() {
            true => self.threads.as_slice(),
            false => &[1],
        };
        let all = self.tests.iter().flat_map(|&test| {
            clients(test).iter().map(move |&clients| Round { test, clients, version: ABSENT })
        });
        (1..).zip(all).map(|(version, round)| Round { version, ..round }).collect()
    }

    fn row_bytes(&self) -> u64 {
        (self.shape.key_bytes() + self.shape.value_bytes()) as u64
    }

    fn random(&self, round: Round, client: u64) -> Random {
        let stream = round.test as u64 | (round.clients - 1) << 32;
        Random::stream(self.seed, "dbbench", stream, client, Purpose::Choice)
    }

    /// Random choices of the clients of a test. They continue after its warm-up, and in an open
    /// loop.
    fn randoms(&self, round: Round) -> Vec<Mutex<Random>> {
        (0..round.clients).map(|client| Mutex::new(self.random(round, client))).collect()
    }

    /// Runs the step of a test that puts or deletes, one commit after the other; `next` chooses the
    /// numbers.
    fn change(
        &self,
        bench: &mut Bench<'_>,
        step: &Step<'_>,
        round: Round,
        filled: &Filled<'_>,
        next: impl Fn(&mut Random, u64) -> u64 + Sync,
    ) -> Result<()> {
        let (test, randoms) = (round.test, self.randoms(round));
        let (kind, version) =
            if test.deletes() { ("delete", ABSENT) } else { ("put", round.version) };
        let per_commit = if test.fills() && test != Test::FillSync { self.per_commit } else { 1 };
        let rate = if step.seconds.is_some() { self.rate } else { Rate::Closed };
        let planned = step.planned.unwrap_or(u64::MAX);
        let body = |worker: &mut Worker<'_>| {
            let mut random = lock(&randoms[worker.index as usize]);
            let (mut changes, mut done) = (Changes::new(self.shape), 0);
            while done < planned && worker.go_on() {
                let n = per_commit.min(planned - done);
                (done..done + n).for_each(|at| changes.push(next(&mut random, at), version));
                changes.send(worker, kind, filled)?;
                done += n;
            }
            Ok(())
        };
        pace::run(bench, step, rate, |bench, step| {
            match test {
                Test::FillSync => bench.step_synced(step, body)?,
                _ => bench.step(step, body)?,
            };
            Ok(())
        })
    }

    /// Runs the step of a test that reads. Each request of a client performs `per_request` reads;
    /// `request` returns how many of them were wrong.
    fn read(
        &self,
        bench: &mut Bench<'_>,
        (name, per_request): (&str, u64),
        round: Round,
        filled: &Filled<'_>,
        request: impl Fn(&mut Worker<'_>, &mut Random, &mut Buffers) -> Result<u64> + Sync,
    ) -> Result<()> {
        let (asked, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
        let randoms = self.randoms(round);
        let read = |worker: &mut Worker<'_>| {
            let mut random = lock(&randoms[worker.index as usize]);
            let keys = vec![Vec::new(); per_request as usize];
            let mut buffers = Buffers { keys, value: Vec::new() };
            while worker.go_on() {
                let missed = request(worker, &mut random, &mut buffers)?;
                asked.fetch_add(per_request, Ordering::Relaxed);
                wrong.fetch_add(missed, Ordering::Relaxed);
            }
            Ok(())
        };
        let concurrent = Mutex::new(self.random(round, u64::MAX));
        let write = |worker: &mut Worker<'_>| self.write_concurrently(worker, filled, &concurrent);
        let has_writer = round.test.has_writer();
        let others: &[Concurrent<'_>] = if has_writer { &[&write] } else { &[] };
        let timed = Step::timed(name, self.seconds, self.warm_up, round.clients);
        let step = Step { writes: has_writer, ..timed };
        pace::run_batches(bench, &step, self.rate, per_request, |bench, step| {
            bench.step_concurrent(step, read, others)?;
            Ok(())
        })?;
        if bench.keeps_rows() {
            let (asked, wrong) = (asked.into_inner(), wrong.into_inner());
            let detail = format!("{wrong} of {asked} were wrong");
            bench.result.verify(&format!("reads of {name}"), wrong == 0, detail);
        }
        Ok(())
    }

    /// Gets random keys, one by one or `KEYS_PER_GET` in one snapshot.
    fn get(&self, bench: &mut Bench<'_>, round: Round, filled: &Filled<'_>) -> Result<()> {
        let (shape, base) = (self.shape, filled.table.base);
        let is_absent = round.test == Test::ReadMissing;
        let (at_once, kind) = match round.test {
            Test::MultiReadRandom => (KEYS_PER_GET as u64, "multiget"),
            _ => (1, "get"),
        };
        self.read(bench, (&round.name(), at_once), round, filled, |worker, random, buffers| {
            let Buffers { keys, value } = buffers;
            for key in &mut *keys {
                let number = filled.existing(random);
                match is_absent {
                    true => shape.absent_key(number, key),
                    false => shape.key(number, key),
                }
            }
            let mut found = 0;
            worker.request(kind, at_once, |connection| {
                found = get_all(connection, base, keys, value)?;
                Ok(())
            })?;
            Ok(found.abs_diff(if is_absent { 0 } else { at_once }))
        })
    }

    /// Puts existing entries as they are, at a fixed rate.
    fn write_concurrently(
        &self,
        worker: &mut Worker<'_>,
        filled: &Filled<'_>,
        random: &Mutex<Random>,
    ) -> Result<()> {
        let (mut random, mut changes) = (lock(random), Changes::new(self.shape));
        worker.set_rate(CONCURRENT_BYTES_PER_SECOND as f64 / self.row_bytes() as f64);
        while worker.go_on() {
            let number = filled.existing(&mut random);
            changes.push(number, filled.version(number));
            changes.send(worker, "put", filled)?;
            worker.changed(self.row_bytes());
        }
        Ok(())
    }

    /// Seeks random keys, and reads the entries from there on. They must exist, and be in order.
    fn seek(
        &self,
        bench: &mut Bench<'_>,
        name: &str,
        round: Round,
        filled: &Filled<'_>,
    ) -> Result<()> {
        let (shape, base) = (self.shape, filled.table.base);
        let direction = match round.test {
            Test::RevRange => Direction::Reverse,
            _ => Direction::Forward,
        };
        self.read(bench, (name, 1), round, filled, |worker, random, buffers| {
            let (number, bound) = (random.below(self.rows), &mut buffers.keys[0]);
            let mut run = Run::new(number, direction);
            match direction {
                Direction::Forward => shape.key(number, bound),
                // The upper bound is exclusive, and the next key after that of the number.
                Direction::Reverse => shape.absent_key(number, bound),
            }
            let bounds = match direction {
                Direction::Forward => (Some(&bound[..]), None),
                Direction::Reverse => (None, Some(&bound[..])),
            };
            worker.request("seek", 1, |connection| {
                run = Run::new(number, direction);
                connection.scan(base, bounds, direction, &mut |key, value| {
                    std::hint::black_box(value);
                    run.visit(key, filled);
                    run.found < ROWS_PER_SEEK
                })
            })?;
            Ok(u64::from(!run.is_complete(filled)))
        })
    }

    /// Reads all entries.
    fn scan(&self, bench: &mut Bench<'_>, test: Test, filled: &Filled<'_>) -> Result<()> {
        let direction = match test {
            Test::ReadReverse => Direction::Reverse,
            _ => Direction::Forward,
        };
        let (visited, is_whole) = (AtomicU64::new(0), AtomicBool::new(false));
        let step = Step::timed(test.name(), self.seconds, self.warm_up, 1);
        bench.step(&step, |worker| {
            worker.counted("scan", |connection, client| {
                let (mut all, mut pending, mut sum) = (0, 0, 0);
                connection.scan(filled.table.base, (None, None), direction, &mut |_, value| {
                    sum ^= xxh3_64(value);
                    (all, pending) = (all + 1, pending + 1);
                    if pending == CHUNK {
                        client.count(std::mem::take(&mut pending));
                    }
                    client.go_on()
                })?;
                client.count(pending);
                std::hint::black_box(sum);
                visited.store(all, Ordering::Relaxed);
                is_whole.store(client.go_on(), Ordering::Relaxed);
                Ok(())
            })
        })?;
        if bench.keeps_rows() {
            let (visited, rows) = (visited.into_inner(), filled.rows());
            let is_right = if is_whole.into_inner() { visited == rows } else { visited <= rows };
            let detail = format!("{visited} entries of {rows}");
            bench.result.verify(&format!("entries of {}", test.name()), is_right, detail);
        }
        Ok(())
    }

    /// Fills a table with ascending keys in the store's own way.
    fn bulk_load(
        &self,
        bench: &mut Bench<'_>,
        step: &Step<'_>,
        version: u8,
        filled: &Filled<'_>,
    ) -> Result<()> {
        let shape = self.shape;
        bench.step(step, |worker| {
            let (mut numbers, mut loaded) = (0..self.rows, 0);
            worker.bulk_load(filled.table.base, |key, value| {
                let Some(number) = numbers.next() else { return false };
                shape.key(number, key);
                shape.value(number, version, value);
                loaded = number + 1;
                true
            })?;
            (0..loaded).for_each(|number| filled.set(number, version));
            Ok(())
        })?;
        Ok(())
    }

    /// Fills a table of its own; `None` if the store cannot do it in this way.
    fn fill<'t>(&self, bench: &mut Bench<'t>, round: Round) -> Result<Option<Filled<'t>>> {
        let (rows, bytes, name) = (self.rows, self.row_bytes(), round.test.name());
        let mut filled = Filled::new(bench.table(name)?, rows);
        let step = Step::load(name, rows, bytes);
        let missing = match round.test {
            Test::FillSync if !bench.can_sync() => {
                Some("all commits have the durability of the store")
            }
            Test::BulkLoad if !bench.target.bulk_loads() => Some("the store has no bulk loads"),
            _ => None,
        };
        if let Some(why) = missing {
            bench.result.settings.insert(format!("({name})"), format!("left out: {why}"));
            return Ok(None);
        }
        match round.test {
            Test::FillSeq => self.change(bench, &step, round, &filled, |_, at| at)?,
            Test::FillSync => {
                // Not all stores have this table.
                filled.is_fixed = false;
                let step = Step { planned: Some((rows / SYNCED_OF).max(1)), ..step };
                self.change(bench, &step, round, &filled, |random, _| random.below(rows))?;
            }
            Test::FillUniqueRandom => {
                let shuffle = Shuffle::new(self.seed, rows);
                self.change(bench, &step, round, &filled, |_, at| shuffle.of(at))?;
            }
            Test::BulkLoad => {
                filled.is_fixed = false;
                self.bulk_load(bench, &step, round.version, &filled)?;
            }
            _ => self.change(bench, &step, round, &filled, |random, _| random.below(rows))?,
        }
        Ok(Some(filled))
    }

    /// Overwrites existing keys for a time, or a fixed number of them.
    fn overwrite(
        &self,
        bench: &mut Bench<'_>,
        round: Round,
        filled: &mut Filled<'_>,
    ) -> Result<()> {
        let (name, bytes) = (round.name(), self.row_bytes());
        let step = match round.test {
            Test::OverwriteSome => Step::load(&name, (self.rows / OVERWRITTEN_OF).max(1), bytes),
            _ => {
                filled.is_fixed = false;
                let timed = Step::timed(&name, self.seconds, self.warm_up, round.clients);
                Step { changed_bytes: bytes, writes: true, ..timed }
            }
        };
        let filled = &*filled;
        self.change(bench, &step, round, filled, |random, _| filled.existing(random))?;
        bench.rest()
    }

    /// Deletes keys, and then seeks, while the store may not yet have removed what was deleted.
    fn delete(&self, bench: &mut Bench<'_>, round: Round, filled: &Filled<'_>) -> Result<()> {
        let (rows, is_random) = (self.rows, round.test == Test::DeleteRandom);
        let step = Step::load(round.test.name(), (rows / DELETED_OF).max(1), self.row_bytes());
        let next = |random: &mut Random, at| if is_random { random.below(rows) } else { at };
        self.change(bench, &step, round, filled, next)?;
        if !bench.is_over() {
            let name = format!("{} {}", round.test.name(), Test::SeekRandom.name());
            self.seek(bench, &name, Round { test: Test::SeekRandom, ..round }, filled)?;
        }
        bench.rest()
    }

    /// Rows and bytes of all tables.
    fn live(&self, all: &[Filled<'_>]) -> (u64, u64) {
        let rows = all.iter().map(Filled::rows).sum();
        (rows, rows * self.row_bytes())
    }
}

/// The entries that a seek has read so far.
struct Run {
    /// The number from which on they are read.
    number: u64,
    direction: Direction,
    /// The next number that may come; `None` if there is none.
    next: Option<u64>,
    found: usize,
    /// Whether all of them exist and are in order, and none was skipped.
    is_right: bool,
}

impl Run {
    fn new(number: u64, direction: Direction) -> Self {
        Self { number, direction, next: Some(number), found: 0, is_right: true }
    }

    fn visit(&mut self, key: &[u8], filled: &Filled<'_>) {
        let number = key.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        let is_absent = |number: u64| filled.version(number) == ABSENT;
        let is_next = self.next.is_some_and(|next| match self.direction {
            Direction::Forward => number >= next && (next..number).take(GAP_MAX).all(is_absent),
            Direction::Reverse => {
                number <= next && (number + 1..=next).rev().take(GAP_MAX).all(is_absent)
            }
        });
        self.is_right &= is_next && !is_absent(number);
        self.next = match self.direction {
            Direction::Forward => number.checked_add(1),
            Direction::Reverse => number.checked_sub(1),
        };
        self.found += 1;
    }

    /// Whether the entries are right, and as many as there are.
    fn is_complete(&self, filled: &Filled<'_>) -> bool {
        let all = || filled.existing_from(self.number, self.direction, ROWS_PER_SEEK);
        self.is_right && (self.found == ROWS_PER_SEEK || self.found == all())
    }
}

/// Gets these keys, several of them in one snapshot. Returns how many were found.
fn get_all(
    connection: &mut dyn Connection,
    base: usize,
    keys: &[Vec<u8>],
    value: &mut Vec<u8>,
) -> Attempt<u64> {
    if let [key] = keys {
        return connection.get(base, key, value).map(u64::from);
    }
    let mut found = 0;
    connection.begin(Begin::Read)?;
    for key in keys {
        found += u64::from(connection.get(base, key, value)?);
    }
    connection.commit()?;
    Ok(found)
}

impl Workload for DbBench {
    fn tables(&self) -> Vec<Table> {
        let fills = self.tests.iter().filter(|test| test.fills());
        fills.map(|test| Table::raw(test.name(), self.shape.key_bytes())).collect()
    }

    fn innodb_bytes(&self) -> u64 {
        let script = (Shape::Script.key_bytes() + Shape::Script.value_bytes()) as u64;
        self.rows * INNODB_ROW_BYTES * self.row_bytes() / script
    }

    fn is_unique(&self) -> bool {
        true
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let (mut all, mut current): (Vec<Filled<'_>>, Option<usize>) = (Vec::new(), None);
        for round in self.rounds() {
            if bench.is_over() {
                break;
            }
            if round.test.fills() {
                let filled = self.fill(bench, round)?;
                let is_read = round.test != Test::FillSync;
                if is_read {
                    current = filled.is_some().then_some(all.len());
                }
                let is_filled = filled.is_some();
                all.extend(filled);
                if is_read && is_filled {
                    bench.loaded(self.live(&all))?;
                }
                continue;
            }
            let Some(filled) = current.and_then(|at| all.get_mut(at)) else {
                let why = "left out: the store has not filled its table".to_owned();
                bench.result.settings.insert(format!("({})", round.test.name()), why);
                continue;
            };
            if filled.rows() == 0 {
                break; // nothing was filled in the time
            }
            match round.test {
                Test::Overwrite | Test::OverwriteSome => self.overwrite(bench, round, filled)?,
                Test::DeleteSeq | Test::DeleteRandom => self.delete(bench, round, filled)?,
                Test::SeekRandom | Test::RevRange | Test::FwdRangeWhileWriting => {
                    self.seek(bench, &round.name(), round, filled)?;
                }
                Test::ReadSeq | Test::ReadReverse => self.scan(bench, round.test, filled)?,
                _ => self.get(bench, round, filled)?,
            }
        }
        bench.rest()?;
        for filled in &all {
            bench.verify_raw(filled.table, filled.expected(self.shape), filled.is_fixed)?;
        }
        Ok(self.live(&all))
    }
}
