//! sysbench's tests on embedded stores: the same rows, tests and random numbers as in SQL, with
//! each statement replaced by the calls that a server would make for it.
//!
//! Invariants
//! 1. A retry of an event repeats the same event, except that an insert gets a new id. The rows
//!    that an event added and changed are counted only after it is committed.
//! 2. A row is locked before it is changed or deleted.
//!
//! `random_points` and `random_ranges` read a snapshot, as one statement does; the ranges are read
//! one after the other.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::pace;
use super::super::sbtest::embedded::{C, K, columns, create_index, indexed, load, pad, tables};
use super::super::sbtest::{Load, ROW_BYTES, Row};
use super::client::Effect;
use super::ids::Ids;
use super::statements::{DELTA, Kind, LIST, RANGE};
use super::{ENTRY, PARAMS, Pace, Sysbench, Tables, Test, deletes_of_step, note_deletes, step_of};
use crate::decode;
use crate::lab::embedded::{Bench, Entry, Rows, Worker, Workload};
use crate::random::Random;
use crate::schema::{Table, Value};
use crate::targets::{Attempt, Begin, Connection, Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: "sysbench's OLTP tests: the calls that their statements would become in a server",
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Sysbench::new(params, seed)?)),
};

/// The loaded tables with their indexes, and the id that the next inserted row gets in each.
pub struct Loaded<'t> {
    tables: &'t Tables,
    of: Vec<(Table, AtomicU64)>,
}

impl<'t> Loaded<'t> {
    /// Describes tables that have all their rows.
    pub fn new(tables: &'t Tables, of: Vec<Table>) -> Self {
        let of = of.into_iter().map(|table| (table, AtomicU64::new(tables.rows + 1))).collect();
        Self { tables, of }
    }

    /// Loads the tables, creates their indexes and verifies them; `None` if the time limit is
    /// reached before the end.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn load(bench: &mut Bench<'_>, tables: &'t Tables, seed: u64) -> Result<Option<Self>> {
        let (mut rows, mut of) = (0, Vec::new());
        for (number, name) in (0..).zip(&tables.names) {
            let of_table = if tables.names.len() == 1 { String::new() } else { format!(" {name}") };
            let step = format!("load{of_table}");
            let table = bench.table(name)?;
            rows += load(bench, table, Load::new(&step, name, tables.rows, seed + number))?;
            tables.note_loaded(rows);
            bench.loaded((rows, rows * ROW_BYTES))?;
            if bench.is_over() {
                return Ok(None);
            }
            let table = indexed(bench, name)?;
            create_index(bench, &format!("create index{of_table}"), &table, tables.rows, false)?;
            bench.loaded((rows, rows * ROW_BYTES))?;
            bench.verify(&table, Some(tables.rows), true)?;
            of.push(table);
        }
        Ok((!bench.is_over()).then(|| Self::new(tables, of)))
    }

    /// Runs one test with this many clients, and once more at a share of its rate if `pace` says
    /// so.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn run(
        &self,
        bench: &mut Bench<'_>,
        test: Test,
        clients: u64,
        suffix: &str,
        pace: Pace,
    ) -> Result<()> {
        if bench.is_over() {
            return Ok(());
        }
        let name = format!("{} threads={clients}{suffix}", test.name());
        let step = step_of(&name, test, clients, pace);
        pace::run(bench, &step, pace.rate, |bench, step| {
            let before = self.tables.allow_deletes(deletes_of_step(self.tables, pace));
            let made = bench.step(step, |worker| {
                Client::new(self, test, (worker.index, clients)).run(worker)
            })?;
            note_deletes(made, test, self.tables.deleted() - before);
            Ok(())
        })
    }

    /// Verifies that each index agrees with its table, and that all tables together have as many
    /// rows as the clients counted. Returns the number of live rows and their bytes.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn verify(&self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let expected = self.tables.rows_now();
        let single = (self.of.len() == 1).then_some(expected);
        let (mut rows, mut bytes) = (0, 0);
        for (table, _) in &self.of {
            let live = bench.verify(table, single, false)?;
            rows += live.0;
            bytes += live.1;
        }
        if single.is_none() && bench.keeps_rows() && !bench.is_over() {
            let detail = format!("{rows} rows, {expected} expected");
            bench.result.verify("rows of all tables", rows == expected, detail);
        }
        Ok((rows, bytes))
    }
}

/// A client of a test.
struct Client<'l> {
    loaded: &'l Loaded<'l>,
    test: Test,
    rows: Vec<Rows<'l>>,
    ids: Ids,
    /// Start of the client's own range of the values that `random_points` and `random_ranges` look
    /// for, and the distribution within it.
    part: (u64, Ids),
    row: Row,
    /// Values of `c` that were read, to be sorted.
    found: Vec<String>,
}

fn int(number: u64) -> Value<'static> {
    Value::I32(i32::try_from(number).unwrap_or(i32::MAX))
}

impl<'l> Client<'l> {
    fn new(loaded: &'l Loaded<'l>, test: Test, (index, clients): (u64, u64)) -> Self {
        let tables = loaded.tables;
        let length = tables.rows / clients.max(1);
        Self {
            loaded,
            test,
            rows: loaded.of.iter().map(|(table, _)| Rows::new(table)).collect(),
            ids: Ids::new(&tables.distribution, tables.rows),
            part: (length * index, Ids::new(&tables.distribution, length + 1)),
            row: Row::default(),
            found: Vec::new(),
        }
    }

    /// Runs events until the step ends.
    fn run(&mut self, worker: &mut Worker<'_>) -> Result<()> {
        let tables = self.loaded.tables;
        let mut random = tables.random(worker.index)?;
        let name = self.test.name();
        while worker.go_on() {
            let (begin, mut effect) = (random.clone(), Effect::default());
            worker.request(name, 1, |connection| {
                effect = Effect::default();
                random.clone_from(&begin); // Invariant 1
                effect = self.event(connection, &mut random)?;
                Ok(())
            })?;
            worker.changed(effect.changed * ROW_BYTES);
            if tables.note(self.test, effect) {
                worker.stop();
            }
        }
        Ok(())
    }

    /// Runs one event.
    fn event(&mut self, connection: &mut dyn Connection, random: &mut Random) -> Attempt<Effect> {
        let of_all = self.rows.len() as u64;
        if self.test == Test::Insert {
            let table = random.below(of_all) as usize;
            let id = self.loaded.of[table].1.fetch_add(1, Ordering::Relaxed);
            connection.begin(Begin::Batch)?;
            self.insert(connection, random, table, id)?;
            connection.commit()?;
            return Ok(Effect { grown: 1, changed: 1 });
        }
        match self.test {
            Test::PointSelect => {} // a single read needs no transaction
            test if test.writes() => connection.begin(Begin::Write)?,
            _ => connection.begin(Begin::Read)?,
        }
        let mut all = Effect::default();
        for &(kind, times) in self.test.groups() {
            let table = random.below(of_all) as usize;
            for _ in 0..times {
                let effect = self.statement(connection, random, table, kind)?;
                all.grown += effect.grown;
                all.changed += effect.changed;
            }
        }
        connection.commit()?;
        Ok(all)
    }

    /// Inserts a row with this id and random columns.
    fn insert(
        &mut self,
        connection: &mut dyn Connection,
        random: &mut Random,
        table: usize,
        id: u64,
    ) -> Attempt<()> {
        let (row, fill) = (&mut self.row, self.loaded.tables.fill);
        (row.id, row.k) = (id, self.ids.draw(random) as i32 + 1);
        for (column, text) in [&mut row.c, &mut row.pad].into_iter().enumerate() {
            fill.write(random, column, text);
            pad(column, text);
        }
        self.rows[table].insert(connection, &columns(row))
    }

    fn statement(
        &mut self,
        connection: &mut dyn Connection,
        random: &mut Random,
        table: usize,
        kind: Kind,
    ) -> Attempt<Effect> {
        let (rows, ids) = (&mut self.rows[table], &self.ids);
        let mut id = || ids.draw(random) + 1;
        match kind {
            Kind::Point => {
                black_box(rows.read(connection, &[int(id())])?);
            }
            Kind::Range | Kind::Sum | Kind::Order | Kind::Distinct => {
                let first = id();
                self.range(connection, table, kind, first)?;
            }
            Kind::UpdateIndex => {
                let id = id();
                if rows.lock(connection, &[int(id)])? {
                    let k = rows.columns()?[K].integer() as u64;
                    rows.update(connection, &[(K, int(k + 1))])?;
                    return Ok(Effect { grown: 0, changed: 1 });
                }
            }
            Kind::UpdateNonIndex => {
                let c = &mut self.row.c;
                self.loaded.tables.fill.write(random, 0, c);
                pad(0, c);
                if rows.lock(connection, &[int(ids.draw(random) + 1)])? {
                    rows.update(connection, &[(C, Value::Text(c))])?;
                    return Ok(Effect { grown: 0, changed: 1 });
                }
            }
            Kind::Delete => {
                let id = id();
                let deleted = u64::from(rows.lock(connection, &[int(id)])?);
                if deleted > 0 {
                    rows.delete(connection)?;
                }
                if self.test == Test::Delete {
                    return Ok(Effect { grown: -(deleted as i64), changed: deleted });
                }
                self.insert(connection, random, table, id)?;
                return Ok(Effect { grown: 1 - deleted as i64, changed: 1 + deleted });
            }
            Kind::Insert => {} // belongs to the deletion
            Kind::Points | Kind::Ranges => {
                let width = if kind == Kind::Ranges { DELTA } else { 0 };
                for _ in 0..LIST {
                    let value = self.part.0 + self.part.1.draw(random);
                    self.by_k(connection, table, value, width)?;
                }
            }
        }
        Ok(Effect::default())
    }

    /// Reads the range of rows that starts with this id.
    fn range(
        &mut self,
        connection: &mut dyn Connection,
        table: usize,
        kind: Kind,
        first: u64,
    ) -> Attempt<()> {
        let (table, found) = (self.rows[table].table, &mut self.found);
        let (from, to) = ([int(first)], [int(first + RANGE - 1)]);
        let span = Span { from: &from, to: &to, ..Span::ALL };
        let (mut sum, mut count) = (0, 0);
        connection.range(table, 0, &span, &mut |key, value| {
            match kind {
                Kind::Sum => {
                    sum += decode::value_column(table, K, value).map_or(0, |k| k.integer());
                }
                Kind::Order | Kind::Distinct => {
                    if count == found.len() {
                        found.push(String::new());
                    }
                    found[count].clear();
                    let c = decode::value_column(table, C, value);
                    found[count].push_str(c.map_or("", |c| c.text()));
                    count += 1;
                }
                _ => {
                    black_box((key, value));
                }
            }
            true
        })?;
        let found = &mut found[..count];
        found.sort_unstable();
        if kind == Kind::Distinct {
            sum = found.chunk_by(|one, next| one == next).count() as i64;
        }
        black_box((sum, found));
        Ok(())
    }

    /// Looks up a value of `k`, and reads the rows that have it; or, with a width, counts the
    /// entries from there on up to that distance.
    fn by_k(
        &mut self,
        connection: &mut dyn Connection,
        table: usize,
        value: u64,
        width: u64,
    ) -> Attempt<()> {
        let rows = &mut self.rows[table];
        let (from, to) = ([int(value)], [int(value + width)]);
        let span = match width {
            0 => Span::of(&from),
            _ => Span { from: &from, to: &to, ..Span::ALL },
        };
        let mut found = Vec::new();
        connection.range(rows.table, 1, &span, &mut |key, _| {
            found.extend(key.last_chunk::<4>().copied());
            true
        })?;
        if width == 0 {
            for id in &found {
                let id = decode::key(rows.table, 0, id).unwrap_or_default();
                black_box(rows.read(connection, &id)?);
            }
        }
        black_box(found.len());
        Ok(())
    }
}

impl Workload for Sysbench {
    fn tables(&self) -> Vec<Table> {
        tables(&self.tables.names, false)
    }

    fn innodb_bytes(&self) -> u64 {
        self.tables.innodb_bytes()
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let Some(loaded) = Loaded::load(bench, &self.tables, self.seed)? else {
            return Ok((0, 0));
        };
        for (test, suffix) in self.order() {
            for &clients in &self.threads {
                loaded.run(bench, test, clients, suffix, self.pace)?;
            }
        }
        bench.rest()?;
        loaded.verify(bench)
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_all_tests_run_and_their_clients_count_the_rows() {
        for tables in ["1", "3"] {
            let mut changes = vec![("tables", tables), ("rows", "2000"), ("seconds", "0.1")];
            if tables != "1" {
                changes.push(("tests", "read_only,read_write,insert,delete"));
            }
            on_all("sysbench", &changes, |target, result| {
                for test in ["read_only threads=2 after writes", "read_write threads=2"] {
                    assert!(step_of(result, test).metrics["ops"] > 0.0, "{target}: {test}");
                }
                let read = step_of(result, "read_only threads=1");
                assert!(!read.metrics.contains_key("changed_b"), "{target}");
                if target == "null" {
                    return;
                }
                // An event of read_write changes two rows, and deletes and inserts a third.
                let written = &step_of(result, "read_write threads=1").metrics;
                assert_eq!(written["changed_b"], 4.0 * 188.0 * written["ops"], "{target}");
                // Two steps may together delete a fifth of the rows, and requests in progress at
                // the end a row or two more.
                let most = 0.2 * 2000.0 * tables.parse::<f64>().expect("a number") / 2.0 + 2.0;
                let deleted = step_of(result, "delete threads=1").metrics["rows_deleted"];
                assert!((1.0..=most).contains(&deleted), "{target}: {deleted} of {most}");
                let checked = |name: &str| result.verified.iter().any(|found| found.name == name);
                let of_all = if tables == "1" { "rows of sbtest1" } else { "rows of all tables" };
                assert!(checked(of_all) && checked("sbtest1 by k_1"), "{target}");
            });
        }
    }
}
