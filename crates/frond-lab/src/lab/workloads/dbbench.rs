//! `dbbench`: the tests of RocksDB's db_bench on plain keys and values, in one store, in the order
//! of its script.
//!
//! | test | |
//! |---|---|
//! | `fillseq` | puts of ascending keys into an empty table |
//! | `fillrandom` | puts of random keys into an empty table; 63 % of them are distinct |
//! | `fillsync` | puts of random keys into an empty table, a thousandth as many, each synced |
//! | `overwrite` | puts of existing keys |
//! | `readrandom`, `readmissing` | gets of existing keys, and of absent ones |
//! | `multireadrandom` | ten gets in one snapshot |
//! | `seekrandom` | a seek, and the ten entries from there on |
//! | `readseq`, `readreverse` | all entries in order, and in reverse |
//! | `readwhilewriting` | `readrandom` while one client puts 2 MB/s |
//!
//! Tests that read or overwrite use the table that was filled last. `fillseq`, `fillrandom` and
//! `fillsync` have a table each, as db_bench starts them on an empty store.
//!
//! Invariants
//! 1. What a table must contain follows from one byte for each number: the version of its value.
//! 2. A version is recorded when the commit of its put has been acknowledged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::data::shape::Shape;
use crate::lab::embedded::{Bench, Concurrent, Entry, Worker, Workload};
use crate::lab::params::{Param, Params, twice};
use crate::lab::step::Step;
use crate::lab::suggest::unknown;
use crate::random::{Purpose, Random};
use crate::schema::{Checksum, Table};
use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result};

pub const EMBEDDED: Entry = Entry {
    name: "dbbench",
    about: "db_bench: plain keys and values; its tests, one after the other in one store",
    headline: ("", "ops_s"),
    params: &[
        Param::fixed(
            "tests",
            "fillseq,readrandom,multireadrandom,seekrandom,readmissing,readseq,readreverse,fillrandom,overwrite,readwhilewriting,fillsync",
            "tests, in this order",
        ),
        Param::sized("rows", ["5_000", "400_000", "4_000_000", "4_000_000"], "rows of a fill"),
        Param::fixed(
            "shape",
            "script",
            "script: 20-byte keys, 400-byte values; classic: 16 and 100",
        ),
        Param::fixed("rows_per_commit", "1", "puts per commit of a fill"),
        Param::fixed("threads", "1", "number of reading clients"),
        Param::sized(
            "seconds",
            ["0.3", "1", "60", "600"],
            "maximum duration of other tests, seconds",
        ),
        Param::sized("warm_up", ["0", "0.3", "20", "60"], "maximum warm-up of these, seconds"),
        Param::fixed("ratio", "10", "data to cache"),
        Param::sized("time_limit", ["60", "40", "3600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(DbBench::new(params, seed)?)),
};

/// Bytes per row of the shape `script` in plain InnoDB.
const INNODB_ROW_BYTES: u64 = 425;
/// Entries that a seek reads.
const ROWS_PER_SEEK: u64 = 10;
/// Keys that are read in one snapshot.
const KEYS_PER_GET: usize = 10;
/// Bytes per second of the writer that runs concurrently with readers, as in the tool's script.
const CONCURRENT_BYTES_PER_SECOND: u64 = 2_000_000;
/// Rows after which a scan counts them and looks at the clock.
const SCAN_CHUNK: u64 = 1_000;
/// A synced fill has one row for each of this many rows of other fills.
const SYNCED_OF: u64 = 1_000;

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
}

/// The tests by name.
pub const TESTS: [(&str, Test); 11] = [
    ("fillseq", Test::FillSeq),
    ("fillrandom", Test::FillRandom),
    ("fillsync", Test::FillSync),
    ("overwrite", Test::Overwrite),
    ("readrandom", Test::ReadRandom),
    ("multireadrandom", Test::MultiReadRandom),
    ("readmissing", Test::ReadMissing),
    ("readseq", Test::ReadSeq),
    ("readreverse", Test::ReadReverse),
    ("seekrandom", Test::SeekRandom),
    ("readwhilewriting", Test::ReadWhileWriting),
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
        matches!(self, Self::FillSeq | Self::FillRandom | Self::FillSync)
    }
}

struct DbBench {
    seed: u64,
    tests: Vec<Test>,
    rows: u64,
    shape: Shape,
    per_commit: u64,
    threads: u64,
    seconds: f64,
    warm_up: f64,
}

/// A table and what it must contain (Invariant 1).
struct Filled<'t> {
    table: &'t Table,
    /// Version of the value of each number; 0 if the key is absent.
    versions: Vec<AtomicU8>,
    /// Whether every target has the same entries.
    is_fixed: bool,
}

impl<'t> Filled<'t> {
    fn new(table: &'t Table, rows: u64) -> Self {
        let versions = (0..rows).map(|_| AtomicU8::new(0)).collect();
        Self { table, versions, is_fixed: true }
    }

    fn version(&self, number: u64) -> u8 {
        self.versions[number as usize].load(Ordering::Relaxed)
    }

    /// Draws a number whose key exists. There must be one.
    fn existing(&self, random: &mut Random) -> u64 {
        loop {
            let number = random.below(self.versions.len() as u64);
            if self.version(number) > 0 {
                return number;
            }
        }
    }

    fn rows(&self) -> u64 {
        let exists = |version: &&AtomicU8| version.load(Ordering::Relaxed) > 0;
        self.versions.iter().filter(exists).count() as u64
    }

    fn expected(&self, shape: Shape) -> Checksum {
        let (mut sum, mut key, mut value) = (Checksum::default(), Vec::new(), Vec::new());
        for number in 0..self.versions.len() as u64 {
            let version = self.version(number);
            if version > 0 {
                shape.key(number, &mut key);
                shape.value(number, version, &mut value);
                sum.add(&key, &value);
            }
        }
        sum
    }
}

/// Entries of one commit, generated before its clock starts.
struct Puts {
    shape: Shape,
    numbers: Vec<u64>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Puts {
    fn new(shape: Shape) -> Self {
        Self { shape, numbers: Vec::new(), entries: Vec::new() }
    }

    fn push(&mut self, number: u64, version: u8) {
        let at = self.numbers.len();
        if at == self.entries.len() {
            self.entries.push(Default::default());
        }
        let (key, value) = &mut self.entries[at];
        self.shape.key(number, key);
        self.shape.value(number, version, value);
        self.numbers.push(number);
    }

    /// Puts the entries in one commit, and records their versions (Invariant 2).
    fn send(&mut self, worker: &mut Worker<'_>, filled: &Filled<'_>, version: u8) -> Result<()> {
        let Self { numbers, entries, .. } = self;
        let mut is_done = false;
        worker.request("put", numbers.len() as u64, |connection| {
            connection.begin(Begin::Batch)?;
            for (key, value) in &entries[..numbers.len()] {
                connection.put(filled.table.base, key, value)?;
            }
            connection.commit()?;
            is_done = true;
            Ok(())
        })?;
        for number in numbers.drain(..).filter(|_| is_done) {
            filled.versions[number as usize].store(version, Ordering::Relaxed);
        }
        Ok(())
    }
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
            threads: params.number("threads")?,
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            tests,
        };
        let is_right = made.rows > 0
            && !made.tests.is_empty()
            && twice(&made.tests).is_none()
            && (1..=100_000).contains(&made.per_commit)
            && (1..=512).contains(&made.threads)
            && made.seconds > 0.0;
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "dbbench: allowed are each test once, rows and rows_per_commit from 1, threads from 1 to 512, seconds above 0"
                .to_owned(),
        ))
    }

    fn row_bytes(&self) -> u64 {
        (self.shape.key_bytes() + self.shape.value_bytes()) as u64
    }

    fn random(&self, test: Test, client: u64) -> Random {
        Random::stream(self.seed, "dbbench", test as u64, client, Purpose::Choice)
    }

    /// Random choices of the clients of a test. They continue after its warm-up.
    fn randoms(&self, test: Test, clients: u64) -> Vec<Mutex<Random>> {
        (0..clients).map(|client| Mutex::new(self.random(test, client))).collect()
    }

    /// A test that ends after its time.
    fn timed(&self, test: Test, clients: u64) -> Step<'static> {
        Step::timed(test.name(), self.seconds, self.warm_up, clients)
    }

    /// Puts one commit after the other; `next` chooses the numbers.
    fn put(
        &self,
        bench: &mut Bench<'_>,
        step: &Step<'_>,
        test: Test,
        filled: &Filled<'_>,
        next: impl Fn(&mut Random, u64) -> u64 + Sync,
    ) -> Result<()> {
        // Versions start at 1. Each test runs once, so it has a version of its own.
        let (version, random) = (1 + test as u8, Mutex::new(self.random(test, 0)));
        let per_commit = if test.fills() && test != Test::FillSync { self.per_commit } else { 1 };
        let body = |worker: &mut Worker<'_>| {
            let mut random = random.lock().unwrap_or_else(|e| e.into_inner());
            let (mut puts, mut done) = (Puts::new(self.shape), 0);
            let planned = step.planned.unwrap_or(u64::MAX);
            while done < planned && worker.go_on() {
                let n = per_commit.min(planned - done);
                (done..done + n).for_each(|at| puts.push(next(&mut random, at), version));
                puts.send(worker, filled, version)?;
                done += n;
            }
            Ok(())
        };
        match test {
            Test::FillSync => bench.step_synced(step, body)?,
            _ => bench.step(step, body)?,
        };
        Ok(())
    }

    /// Gets random keys, one by one or `KEYS_PER_GET` in one snapshot.
    fn get(&self, bench: &mut Bench<'_>, test: Test, filled: &Filled<'_>) -> Result<()> {
        let (shape, base) = (self.shape, filled.table.base);
        let is_absent = test == Test::ReadMissing;
        let (at_once, kind) = match test {
            Test::MultiReadRandom => (KEYS_PER_GET, "multiget"),
            _ => (1, "get"),
        };
        let (randoms, wrong) = (self.randoms(test, self.threads), AtomicU64::new(0));
        let read = |worker: &mut Worker<'_>| {
            let mut random =
                randoms[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            let (mut keys, mut value) = (vec![Vec::new(); at_once], Vec::new());
            while worker.go_on() {
                for key in &mut keys {
                    let number = filled.existing(&mut random);
                    match is_absent {
                        true => shape.absent_key(number, key),
                        false => shape.key(number, key),
                    }
                }
                let mut found = 0;
                worker.request(kind, at_once as u64, |connection| {
                    found = get_all(connection, base, &keys, &mut value)?;
                    Ok(())
                })?;
                let expected = if is_absent { 0 } else { at_once as u64 };
                wrong.fetch_add(found.abs_diff(expected), Ordering::Relaxed);
            }
            Ok(())
        };
        let concurrent = Mutex::new(self.random(test, u64::MAX));
        let write = |worker: &mut Worker<'_>| self.write_concurrently(worker, filled, &concurrent);
        let is_concurrent = test == Test::ReadWhileWriting;
        let others: &[Concurrent<'_>] = if is_concurrent { &[&write] } else { &[] };
        let step = Step { writes: is_concurrent, ..self.timed(test, self.threads) };
        let gets = bench.step_concurrent(&step, read, others)?.metrics.get("ops").copied();
        if bench.keeps_rows() {
            let wrong = wrong.into_inner();
            let detail = format!("{wrong} of {} keys were wrong", gets.unwrap_or(0.0));
            bench.result.verify(&format!("gets of {}", test.name()), wrong == 0, detail);
        }
        Ok(())
    }

    /// Puts existing entries as they are, at a fixed rate.
    fn write_concurrently(
        &self,
        worker: &mut Worker<'_>,
        filled: &Filled<'_>,
        random: &Mutex<Random>,
    ) -> Result<()> {
        let mut random = random.lock().unwrap_or_else(|e| e.into_inner());
        let mut puts = Puts::new(self.shape);
        worker.set_rate(CONCURRENT_BYTES_PER_SECOND as f64 / self.row_bytes() as f64);
        while worker.go_on() {
            let number = filled.existing(&mut random);
            let version = filled.version(number);
            puts.push(number, version);
            puts.send(worker, filled, version)?;
            worker.changed(self.row_bytes());
        }
        Ok(())
    }

    fn seek(&self, bench: &mut Bench<'_>, test: Test, filled: &Filled<'_>) -> Result<()> {
        let (shape, base) = (self.shape, filled.table.base);
        let randoms = self.randoms(test, self.threads);
        bench.step(&self.timed(test, self.threads), |worker| {
            let mut random =
                randoms[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            let mut key = Vec::new();
            while worker.go_on() {
                shape.key(random.below(self.rows), &mut key);
                worker.request("seek", 1, |connection| {
                    let (bounds, mut left) = ((Some(&key[..]), None), ROWS_PER_SEEK);
                    connection.scan(base, bounds, Direction::Forward, &mut |key, value| {
                        std::hint::black_box((key, value));
                        left -= 1;
                        left > 0
                    })
                })?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Reads all entries.
    fn scan(&self, bench: &mut Bench<'_>, test: Test, filled: &Filled<'_>) -> Result<()> {
        let direction = match test {
            Test::ReadReverse => Direction::Reverse,
            _ => Direction::Forward,
        };
        let (visited, is_whole) = (AtomicU64::new(0), AtomicBool::new(false));
        bench.step(&self.timed(test, 1), |worker| {
            worker.counted("scan", |connection, client| {
                let (mut all, mut pending, mut sum) = (0, 0, 0);
                connection.scan(filled.table.base, (None, None), direction, &mut |_, value| {
                    sum ^= xxh3_64(value);
                    (all, pending) = (all + 1, pending + 1);
                    if pending == SCAN_CHUNK {
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

    /// Fills a table of its own.
    fn fill<'t>(&self, bench: &mut Bench<'t>, test: Test) -> Result<Filled<'t>> {
        let mut filled = Filled::new(bench.table(test.name())?, self.rows);
        let (rows, bytes) = (self.rows, self.row_bytes());
        match test {
            Test::FillSeq => {
                let step = Step::load(test.name(), rows, bytes);
                self.put(bench, &step, test, &filled, |_, at| at)?;
            }
            Test::FillSync => {
                // Left out for stores that cannot sync single commits.
                filled.is_fixed = false;
                if bench.can_sync() {
                    let step = Step::load(test.name(), (rows / SYNCED_OF).max(1), bytes);
                    self.put(bench, &step, test, &filled, |random, _| random.below(rows))?;
                } else {
                    let why = "left out: all commits have the durability of the store".to_owned();
                    bench.result.settings.insert("(fillsync)".to_owned(), why);
                }
            }
            _ => {
                let step = Step::load(test.name(), rows, bytes);
                self.put(bench, &step, test, &filled, |random, _| random.below(rows))?;
            }
        }
        Ok(filled)
    }

    /// Rows and bytes of all tables.
    fn live(&self, all: &[Filled<'_>]) -> (u64, u64) {
        let rows = all.iter().map(Filled::rows).sum();
        (rows, rows * self.row_bytes())
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
        let (mut all, mut current): (Vec<Filled<'_>>, usize) = (Vec::new(), 0);
        for &test in &self.tests {
            if bench.is_over() {
                break;
            }
            if test.fills() {
                all.push(self.fill(bench, test)?);
                if test != Test::FillSync {
                    current = all.len() - 1;
                    bench.loaded(self.live(&all))?;
                }
                continue;
            }
            let Some(filled) = all.get_mut(current).filter(|filled| filled.rows() > 0) else {
                break; // nothing was filled in the time
            };
            match test {
                Test::Overwrite => {
                    filled.is_fixed = false;
                    let bytes = self.row_bytes();
                    let timed = self.timed(test, 1);
                    let step = Step { changed_bytes: bytes, writes: true, ..timed };
                    let filled = &*filled;
                    self.put(bench, &step, test, filled, |random, _| filled.existing(random))?;
                    bench.rest()?;
                }
                Test::SeekRandom => self.seek(bench, test, filled)?,
                Test::ReadSeq | Test::ReadReverse => self.scan(bench, test, filled)?,
                _ => self.get(bench, test, filled)?,
            }
        }
        bench.rest()?;
        for filled in &all {
            bench.verify_raw(filled.table, filled.expected(self.shape), filled.is_fixed)?;
        }
        Ok(self.live(&all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::embedded::testing::{make, on_all};
    use crate::lab::size::Size;

    #[test]
    fn embedded_tests_run_in_one_store_and_find_what_was_put() {
        on_all("dbbench", &[("threads", "2")], |target, result| {
            let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
            let fixed = ["lmdb", "tidesdb"].contains(&target);
            assert_eq!(names.len(), if fixed { 10 } else { 11 }, "{target}: {names:?}");
            assert_eq!((names[0], names[7]), ("fillseq", "fillrandom"));
            let step = |name: &str| result.steps.iter().find(|step| step.name == name);
            let scan = step("readreverse").expect("it ran");
            assert!(target == "null" || scan.metrics["ops"] == 5_000.0, "{target}");
            let concurrent = step("readwhilewriting").expect("it ran");
            assert!(
                concurrent.latencies.contains_key("put") && concurrent.metrics["changed_b"] > 0.0
            );
            // Six tests check what they read, and three tables are read back.
            assert_eq!(result.verified.len(), if target == "null" { 0 } else { 9 }, "{target}");
        });
    }

    #[test]
    fn tests_are_known_run_once_and_have_rows_to_read() {
        let tests = |text: &str| {
            let changes = [("tests".to_owned(), text.to_owned())];
            let params = Params::new("dbbench", EMBEDDED.params, Size::Tiny, &changes);
            DbBench::new(&params.expect("known"), 42).map(|made| made.tests)
        };
        assert_eq!(tests("readseq").ok(), Some(vec![Test::FillSeq, Test::ReadSeq]));
        assert_eq!(tests("fillsync").ok(), Some(vec![Test::FillSync]));
        assert_eq!(tests("fillrandom overwrite").ok().map(|tests| tests.len()), Some(2));
        assert!(tests("readsec").is_err_and(|failure| failure.0.contains("readseq")));
        assert!(tests("fillseq,fillseq").is_err() && tests("").is_err());
        assert!(make("dbbench", &[("shape", "classic")]).innodb_bytes() < 5_000 * 425);
    }

    #[test]
    fn a_lost_and_a_stale_entry_change_the_expected_sum() {
        let table = Table::raw("fillseq", 20);
        let filled = Filled::new(&table, 100);
        filled.versions.iter().for_each(|version| version.store(1, Ordering::Relaxed));
        let all = filled.expected(Shape::Script);
        assert_eq!((all.rows, all.bytes), (100, 100 * 420));
        filled.versions[7].store(2, Ordering::Relaxed);
        assert_ne!(filled.expected(Shape::Script), all);
        filled.versions[7].store(0, Ordering::Relaxed);
        assert_eq!((filled.rows(), filled.expected(Shape::Script).rows), (99, 99));
    }
}
