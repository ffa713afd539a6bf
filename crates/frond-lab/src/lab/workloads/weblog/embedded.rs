//! The web log on embedded stores: the same rows, steps and queries as in SQL. Queries read rows
//! through the keys that they find in an index.
//!
//! Where SQL drops a partition, a store that can delete ranges of keys does so: the rows of the day
//! are one range, its entries of `ix_proc` and `ix_inst` are one range for each name. In `ix_dur`
//! such ranges would hold few entries each, so these entries are deleted one by one. Other stores
//! delete the day row by row, as all do where SQL runs DELETE.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::super::pace;
use super::log::{Key, Log};
use super::queries::{Drawn, NAMES, choice, draw};
use super::{
    ENTRY, Gone, INNODB_ROW_BYTES, PARAMS, QUERY_CLIENTS, ROW_BYTES, Retired, Way, Weblog, take,
};
use crate::data::weblog::generator::{Call, columns};
use crate::data::weblog::table;
use crate::decode;
use crate::lab::embedded::{Batch, Bench, Entry, Rows, Worker, Workload, missing};
use crate::lab::params::Param;
use crate::lab::step::{Step, measured};
use crate::measure;
use crate::random::Random;
use crate::schema::{EncodedRow, Table, Value};
use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result, Span, Stop};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: without_partitions(),
    make: |params, seed| Ok(Box::new(Weblog::new(params, seed)?)),
};

const fn without_partitions() -> &'static [Param] {
    match PARAMS {
        [_, others @ ..] => others,
        [] => PARAMS,
    }
}

/// Keyspaces of the indexes.
const BY_PROCEDURE: usize = 1;
const BY_INSTANCE: usize = 2;
const BY_DURATION: usize = 3;
/// Positions of columns in a row.
const ID: usize = 0;
const BEGIN: usize = 1;
const DURATION: usize = 3;
const PROCEDURE: usize = 5;
const PARAMETERS: usize = 10;
/// Maximum number of rows that Q1 and Q3 return.
const NEWEST: u64 = 100;
const SLOWEST: usize = 50;
/// Number of rows that one transaction deletes.
const ROWS_PER_DELETE: u64 = 10_000;
/// Number of ranges that one transaction deletes. TidesDB takes at most 32, of all transactions
/// together.
const RANGES_PER_COMMIT: usize = 16;

/// A client that writes the log.
struct Writer<'l> {
    log: &'l Log,
    calls: Vec<Call>,
    batch: Batch<'l>,
}

impl<'l> Writer<'l> {
    fn new(log: &'l Log, table: &'l Table) -> Self {
        Self { log, calls: Vec::new(), batch: Batch::new(table) }
    }

    /// Writes the next `rows` rows in one commit.
    fn write(&mut self, worker: &mut Worker<'_>, rows: u64) -> Result<()> {
        let Self { log, calls, batch } = self;
        log.take(rows, calls);
        let mut bytes = 0;
        for call in calls.iter() {
            let row = columns(&log.population, call);
            bytes += row.iter().map(Value::logical_bytes).sum::<u64>();
            batch.push(&row);
        }
        if worker.insert("commit", batch)? > 0 {
            log.committed(calls, bytes);
        }
        Ok(())
    }
}

/// Calls of a procedure: their number, sum and maximum of durations.
#[derive(Clone, Copy, Default)]
struct Calls {
    count: u64,
    sum: u64,
    max: u64,
}

/// A client that runs queries.
struct Asker<'l> {
    log: &'l Log,
    random: &'l mut Random,
    table: &'l Table,
    rows: Rows<'l>,
    /// Keys that an index scan has found.
    keys: Vec<Key>,
    keeps_rows: bool,
}

/// Begin time and number of an entry of an index, which ends with them.
fn key_of(table: &Table, keyspace: usize, entry: &[u8]) -> Option<Key> {
    match decode::key(table, keyspace, entry)?[..] {
        [.., Value::Millis(begin), Value::U64(id)] => Some((begin, id)),
        _ => None,
    }
}

fn strange() -> Stop {
    Failure("perf_log: an entry that is not one of this table".to_owned()).into()
}

impl Asker<'_> {
    /// Runs the next query.
    fn ask(&mut self, worker: &mut Worker<'_>) -> Result<()> {
        let drawn = draw(self.log, self.random);
        worker.request(NAMES[drawn.query], 1, |connection| match drawn.query {
            0 | 2 | 3 => {
                connection.begin(Begin::Read)?;
                self.find(connection, &drawn)?;
                self.fetch(connection)?;
                connection.commit()
            }
            1 => self.sum(connection, &drawn),
            4 => self.read_row(connection, (drawn.from, drawn.number)).map(drop),
            _ => self.search(connection, &drawn),
        })
    }

    /// Finds the keys of the rows in an index: the newest calls of a procedure, the slowest calls,
    /// or the calls of an instance.
    fn find(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<()> {
        let (from, until) = ([Value::Millis(drawn.from)], [Value::Millis(drawn.until)]);
        let before = [Value::Millis(drawn.until.saturating_sub(1))];
        let (name, number) = ([Value::Text(&drawn.text)], [Value::U32(drawn.number as u32)]);
        let (keyspace, span) = match drawn.query {
            0 => {
                let (direction, limit) = (Direction::Reverse, NEWEST);
                let span = Span { from: &from, to: &until, direction, limit, equal: &name };
                (BY_PROCEDURE, span)
            }
            2 => {
                let direction = Direction::Reverse;
                (BY_DURATION, Span { from: &number, direction, ..Span::ALL })
            }
            _ => (BY_INSTANCE, Span { from: &from, to: &before, ..Span::of(&name) }),
        };
        let (table, keys, mut is_strange) = (self.table, &mut self.keys, false);
        keys.clear();
        connection.range(table, keyspace, &span, &mut |entry, _| {
            let Some(key) = key_of(table, keyspace, entry) else {
                is_strange = true;
                return false;
            };
            if keyspace != BY_DURATION {
                keys.push(key);
                return true;
            }
            if key.0 >= drawn.from {
                keys.push(key);
            }
            keys.len() < SLOWEST
        })?;
        if is_strange { Err(strange()) } else { Ok(()) }
    }

    /// Reads the rows that were found. They must exist, since the transaction has a snapshot.
    fn fetch(&mut self, connection: &mut dyn Connection) -> Attempt<()> {
        for at in 0..self.keys.len() {
            if !self.read_row(connection, self.keys[at])? && self.keeps_rows {
                return Err(missing(self.table).into());
            }
        }
        Ok(())
    }

    fn read_row(&mut self, connection: &mut dyn Connection, key: Key) -> Attempt<bool> {
        self.rows.read(connection, &[Value::Millis(key.0), Value::U64(key.1)])
    }

    /// Reads the rows of a time range with their columns.
    fn read(
        &self,
        connection: &mut dyn Connection,
        drawn: &Drawn,
        mut visit: impl FnMut(&[Value<'_>]),
    ) -> Attempt<()> {
        let table = self.table;
        let (from, to) =
            ([Value::Millis(drawn.from)], [Value::Millis(drawn.until.saturating_sub(1))]);
        let (span, mut is_strange) = (Span { from: &from, to: &to, ..Span::ALL }, false);
        connection.range(table, 0, &span, &mut |key, value| {
            match decode::row(table, key, value) {
                Some(row) => visit(&row),
                None => is_strange = true,
            }
            !is_strange
        })?;
        if is_strange { Err(strange()) } else { Ok(()) }
    }

    /// Number of calls, mean and longest duration by procedure.
    fn sum(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<()> {
        let mut sums: HashMap<String, Calls> = HashMap::new();
        self.read(connection, drawn, |row| {
            let (name, duration) = (row[PROCEDURE].text(), row[DURATION].integer() as u64);
            if !sums.contains_key(name) {
                sums.insert(name.to_owned(), Calls::default());
            }
            if let Some(calls) = sums.get_mut(name) {
                calls.count += 1;
                calls.sum += duration;
                calls.max = calls.max.max(duration);
            }
        })?;
        let means = sums.values().map(|calls| (calls.sum / calls.count, calls.max));
        std::hint::black_box(means.max());
        Ok(())
    }

    /// Number of calls with this text in their parameters.
    fn search(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<()> {
        let (text, mut found) = (drawn.text.trim_matches('%'), 0u64);
        self.read(connection, drawn, |row| {
            found += u64::from(row[PARAMETERS].text().contains(text));
        })?;
        std::hint::black_box(found);
        Ok(())
    }
}

/// Deletes rows of a table that began before a time.
struct Deleter<'t> {
    table: &'t Table,
    end: u64,
    /// Keys and values of the rows that the next transaction deletes.
    found: Vec<(Vec<u8>, Vec<u8>)>,
    encoded: EncodedRow,
}

impl Deleter<'_> {
    /// Deletes the oldest rows, at most those of one transaction, and returns their number. They
    /// are read before, since their index entries follow from their columns. No other client
    /// changes rows of that age, so they are not locked.
    fn delete(&mut self, connection: &mut dyn Connection) -> Attempt<u64> {
        let Self { table, end, found, encoded } = self;
        let to = [Value::Millis(end.saturating_sub(1))];
        let span = Span { to: &to, limit: ROWS_PER_DELETE, ..Span::ALL };
        found.clear();
        connection.range(table, 0, &span, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            true
        })?;
        if found.is_empty() {
            return Ok(0);
        }
        connection.begin(Begin::Batch)?;
        for (key, value) in found.iter() {
            let row = decode::row(table, key, value).ok_or_else(strange)?;
            encoded.encode(table, &row);
            connection.delete_row(table, &row, encoded)?;
        }
        connection.commit()?;
        Ok(found.len() as u64)
    }
}

/// Deletes the rows of a table that began before a time by ranges of keys.
struct Dropper<'l> {
    log: &'l Log,
    table: &'l Table,
    end: u64,
    /// Key from which on entries of `ix_dur` are still to be deleted.
    from: Key,
    /// Keys of these entries that the next transaction deletes.
    found: Vec<Vec<u8>>,
}

impl Dropper<'_> {
    /// Deletes the entries of `ix_dur` of the next rows, at most those of one transaction, and
    /// returns their number. The rows must still exist.
    fn delete_durations(&mut self, connection: &mut dyn Connection) -> Attempt<u64> {
        let Self { table, end, from, found, .. } = self;
        let first = [Value::Millis(from.0), Value::U64(from.1)];
        let last = [Value::Millis(end.saturating_sub(1))];
        let limit = ROWS_PER_DELETE;
        let span = Span { from: &first, to: &last, limit, ..Span::ALL };
        let (mut is_strange, mut next, mut encoded) = (false, *from, EncodedRow::default());
        found.clear();
        connection.range(table, 0, &span, &mut |key, value| {
            let Some(row) = decode::row(table, key, value) else {
                is_strange = true;
                return false;
            };
            encoded.encode(table, &row);
            found.push(std::mem::take(&mut encoded.index_keys[BY_DURATION - 1]));
            next = (row[BEGIN].integer() as u64, row[ID].integer() as u64 + 1);
            true
        })?;
        if is_strange {
            return Err(strange());
        }
        connection.begin(Begin::Batch)?;
        for key in found.iter() {
            connection.delete(table.base + BY_DURATION, key)?;
        }
        connection.commit()?;
        *from = next;
        Ok(found.len() as u64)
    }

    /// The ranges of the entries of the two other indexes, and at last that of the rows: if the
    /// work is cut short, they show what is left to do.
    fn ranges(&self) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
        let (first, last) = ([Value::Millis(0)], [Value::Millis(self.end.saturating_sub(1))]);
        let population = &self.log.population;
        let procedures = population.procedures.iter().map(|procedure| procedure.name.as_str());
        let instances = population.instances.iter().map(String::as_str);
        let by_procedure = procedures.map(|name| (BY_PROCEDURE, Some(Value::Text(name))));
        let by_instance = instances.map(|name| (BY_INSTANCE, Some(Value::Text(name))));
        let all = by_procedure.chain(by_instance).chain([(0, None)]);
        let ranges = all.filter_map(|(keyspace, name)| {
            let equal = name.as_slice();
            let span = Span { equal, from: &first, to: &last, ..Span::ALL };
            let (low, high) = span.bounds();
            Some((self.table.base + keyspace, low?, high?))
        });
        ranges.collect()
    }
}

/// Repeats a request that deletes some rows, until it finds none. A target that keeps no rows has
/// no end of them.
fn delete_all(
    worker: &mut Worker<'_>,
    keeps_rows: bool,
    mut some: impl FnMut(&mut dyn Connection) -> Attempt<u64>,
) -> Result<()> {
    let mut deleted = 1;
    while deleted > 0 && !measure::is_interrupted() {
        worker.request("delete", 1, |connection| {
            deleted = some(connection)?;
            Ok(())
        })?;
        worker.changed(deleted * ROW_BYTES);
        if !keeps_rows {
            break;
        }
    }
    Ok(())
}

/// Deletes ranges of keys.
fn drop_ranges(worker: &mut Worker<'_>, ranges: &[(usize, Vec<u8>, Vec<u8>)]) -> Result<()> {
    for ranges in ranges.chunks(RANGES_PER_COMMIT) {
        worker.request("drop", 1, |connection| {
            connection.begin(Begin::Batch)?;
            for (keyspace, low, high) in ranges {
                connection.delete_range(*keyspace, &low[..]..&high[..])?;
            }
            connection.commit()
        })?;
    }
    Ok(())
}

impl Weblog {
    fn load_log(&self, bench: &mut Bench<'_>, log: &Log, table: &Table) -> Result<()> {
        let mut step = Step::load("load", self.rows, ROW_BYTES);
        step.clients = self.writers;
        let left = AtomicU64::new(self.rows);
        bench.step(&step, |worker| {
            let mut writer = Writer::new(log, table);
            while worker.go_on() {
                match take(&left, self.per_commit) {
                    0 => break,
                    rows => writer.write(worker, rows)?,
                }
            }
            Ok(())
        })?;
        bench.loaded((log.rows(), log.live_bytes()))?;
        bench.verify(table, Some(log.rows()), true).map(drop)
    }

    fn keep_writing(&self, worker: &mut Worker<'_>, log: &Log, table: &Table) -> Result<()> {
        let mut writer = Writer::new(log, table);
        while worker.go_on() {
            writer.write(worker, self.steady_per_commit)?;
        }
        Ok(())
    }

    /// Random choices of the clients that query. They continue after a warm-up.
    fn choices(&self, step: u64) -> Vec<Mutex<Random>> {
        (0..QUERY_CLIENTS).map(|index| Mutex::new(choice(self.seed, (step, index)))).collect()
    }

    fn steady_writes(&self, bench: &mut Bench<'_>, log: &Log, table: &Table) -> Result<()> {
        let (choices, keeps_rows) = (self.choices(0), bench.keeps_rows());
        let ask = |worker: &mut Worker<'_>| ask(worker, log, table, &choices, keeps_rows);
        let write = |worker: &mut Worker<'_>| self.keep_writing(worker, log, table);
        let step = Step { is_shared: true, ..self.written("steady", self.steady_seconds) };
        measured::add_queries(bench.step_concurrent(&step, write, &[&ask, &ask])?);
        Ok(())
    }

    fn run_queries(
        &self,
        bench: &mut Bench<'_>,
        log: &Log,
        table: &Table,
        name: &str,
    ) -> Result<()> {
        let step = Step::timed(name, self.query_seconds, self.warm_up, QUERY_CLIENTS);
        let (choices, keeps_rows) = (self.choices(1), bench.keeps_rows());
        pace::run(bench, &step, self.rate, |bench, step| {
            bench.step(step, |worker| ask(worker, log, table, &choices, keeps_rows))?;
            Ok(())
        })
    }

    /// Deletes the oldest day while the writer continues.
    fn retire_day(&self, bench: &mut Bench<'_>, log: &Log, table: &Table, way: Way) -> Result<()> {
        let (space, keeps_rows) = (bench.space(), bench.keeps_rows());
        let has_ranges = bench.target.deletes_ranges();
        if way == Way::DropPartition && !has_ranges {
            let why = "row by row: the store has no range deletes".to_owned();
            bench.result.settings.insert(format!("({})", way.step()), why);
        }
        let retired = Retired::new(log, space.bytes());
        let found = Mutex::new(Gone::default());
        let retire = |worker: &mut Worker<'_>| {
            let (begin, end) = (Instant::now(), retired.end);
            // Continues after the end of the step, since rows that are left would fail the
            // verification.
            if way == Way::DropPartition && has_ranges {
                let mut dropper = Dropper { log, table, end, from: (0, 0), found: Vec::new() };
                delete_all(worker, keeps_rows, |connection| dropper.delete_durations(connection))?;
                drop_ranges(worker, &dropper.ranges())?;
            } else {
                let (found, encoded) = (Vec::new(), EncodedRow::default());
                let mut deleter = Deleter { table, end, found, encoded };
                delete_all(worker, keeps_rows, |connection| deleter.delete(connection))?;
            }
            let gone = self.linger(begin, retired.goal, || space.bytes(), || worker.go_on());
            *found.lock().unwrap_or_else(|e| e.into_inner()) = gone;
            worker.stop();
            Ok(())
        };
        let write = |worker: &mut Worker<'_>| self.keep_writing(worker, log, table);
        bench.step_concurrent(&self.retaining(way.step()), write, &[&retire])?;
        let gone = *found.lock().unwrap_or_else(|e| e.into_inner());
        let freed = retired.before as f64 - space.bytes() as f64;
        gone.note(bench.result.steps.last_mut(), Some(freed).filter(|_| keeps_rows));
        Ok(())
    }
}

fn ask(
    worker: &mut Worker<'_>,
    log: &Log,
    table: &Table,
    choices: &[Mutex<Random>],
    keeps_rows: bool,
) -> Result<()> {
    let mut random = choices[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
    let (rows, keys) = (Rows::new(table), Vec::new());
    let mut asker = Asker { log, random: &mut random, table, rows, keys, keeps_rows };
    while worker.go_on() {
        asker.ask(worker)?;
    }
    Ok(())
}

impl Workload for Weblog {
    fn tables(&self) -> Vec<Table> {
        vec![table()]
    }

    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let (this, log, table) = (&*self, self.new_log(), bench.table("perf_log")?);
        this.load_log(bench, &log, table)?;
        type Part<'p> = &'p dyn Fn(&mut Bench<'_>) -> Result<()>;
        let parts: [Part<'_>; 5] = [
            &|bench| this.steady_writes(bench, &log, table),
            &|bench| this.run_queries(bench, &log, table, "queries before"),
            &|bench| this.retire_day(bench, &log, table, Way::DropPartition),
            &|bench| this.retire_day(bench, &log, table, Way::Delete),
            &|bench| this.run_queries(bench, &log, table, "queries after"),
        ];
        for part in parts {
            if bench.is_over() {
                return Ok((log.rows(), log.live_bytes()));
            }
            part(bench)?;
        }
        bench.rest()?;
        bench.verify(table, Some(log.rows()), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_days_are_deleted_with_their_index_entries_while_the_writer_continues() {
        let short = ["steady_seconds", "query_seconds", "retention_seconds", "back_seconds"];
        on_all("weblog", &short.map(|name| (name, "0.4")), |target, result| {
            let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
            let expected = [
                "load",
                "steady",
                "queries before",
                "retention drop",
                "retention delete",
                "queries after",
            ];
            assert_eq!(names, expected);
            assert_eq!(step_of(result, "load").metrics["ops"], 7_000.0);
            for way in [Way::DropPartition, Way::Delete] {
                let retention = step_of(result, way.step());
                assert!(retention.metrics["gone_s"] > 0.0 && retention.metrics["ops"] > 0.0);
                assert!(retention.latencies.contains_key("commit"), "{target}");
                assert!(retention.latencies.contains_key("delete"), "{target}");
            }
            let drops = |way: Way| step_of(result, way.step()).latencies.contains_key("drop");
            let has_ranges = !["sqlite", "lmdb"].contains(&target);
            assert_eq!(drops(Way::DropPartition), has_ranges, "{target}");
            assert!(!drops(Way::Delete), "{target}");
            let is_noted = result.settings.contains_key("(retention drop)");
            assert_eq!(is_noted, !has_ranges, "{target}");
            let asked = &step_of(result, "queries before").latencies;
            assert!(NAMES.iter().filter(|name| asked.contains_key(**name)).count() > 3, "{target}");
            // Rows, their number and three indexes, after the load and at the end; those inserted.
            assert_eq!(result.verified.len(), if target == "null" { 0 } else { 11 });
        });
    }

    #[test]
    fn index_entries_end_with_the_key_of_their_row() {
        let (table, log) = (table(), Log::new(42, 1_000.0, 0.25, 9));
        let (mut calls, mut encoded) = (Vec::new(), EncodedRow::default());
        log.take(100, &mut calls);
        for call in &calls {
            let row = columns(&log.population, call);
            assert_eq!(row[DURATION].integer() as u32, call.duration_millis);
            encoded.encode(&table, &row);
            for (keyspace, key) in (1..).zip(&encoded.index_keys) {
                let expected = Some((call.begin_millis, call.log_id));
                assert_eq!(key_of(&table, keyspace, key), expected, "{keyspace}");
            }
        }
    }
}
