//! `sysbench`: sysbench's table, load and OLTP tests, with the same statements as version 1.0.20
//! sends.
//!
//! Read-only tests run first, then those that write, then the read-only tests again: the ratio of
//! the two shows how the writes have affected the tables.

mod client;
pub mod embedded;
mod ids;
mod statements;
#[cfg(test)]
mod tests;

pub use client::{Client, Tables};
pub use embedded::EMBEDDED;
pub use ids::NAMES as DISTRIBUTIONS;
pub use statements::Test;

use super::pace::{self, RATE, Rate};
use super::sbtest::{self, Load, ROW_BYTES};
use super::{Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::sql::Bench;
use crate::lab::step::Step;
use crate::lab::suggest::unknown;
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "sysbench",
    about: "sysbench's OLTP tests: the prepared statements of version 1.0.20",
    headline: ("read_write threads=1", "ops_s"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Sysbench::new(params, seed)?)),
};

const PARAMS: &[Param] = &[
    Param::sized("rows", ["5_000", "100_000", "2_000_000", "2_000_000"], "rows of each table"),
    Param::fixed("tables", "1", "tables"),
    Param::sized("threads", ["1,2", "1,16", "1,16", "1,16"], "numbers of clients, one step each"),
    Param::sized("tests", [EACH, "point_select,update_index,read_write", EACH, EACH], "tests"),
    Param::sized("seconds", ["0.05", "0.5", "30", "300"], "duration of each step, seconds"),
    Param::sized("warm_up", ["0", "0.2", "20", "600"], "maximum warm-up before each step, seconds"),
    Param::fixed(
        "distribution",
        "uniform",
        "distribution of the ids: uniform, gaussian, pareto, zipfian, special, zipfian-scrambled",
    ),
    RATE,
    Param::sized("ratio", ["0.4", "0.4", "4.5", "4.5"], "data to cache"),
    Param::sized("time_limit", ["60", "12", "2400", "0"], "seconds, 0 for none"),
];

/// All tests.
const EACH: &str = "point_select,read_only,random_points,random_ranges,update_index,update_non_index,write_only,\
                    read_write,insert,delete";

struct Sysbench {
    tables: Tables,
    threads: Vec<u64>,
    tests: Vec<Test>,
    pace: Pace,
    seed: u64,
}

/// Duration and rate of steps.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Duration of a step in seconds.
    pub seconds: f64,
    /// Maximum duration of the warm-up before it, in seconds.
    pub warm_up: f64,
    /// How events are issued.
    pub rate: Rate,
    /// Number of steps of each test.
    pub steps: u64,
}

/// Share of the rows that all steps of `delete` together may delete. Without a limit, ever fewer
/// requests would find a row.
const DELETED_PART: f64 = 0.2;

/// Returns the tests that the parameter `tests` names.
///
/// # Errors
/// There is no such test, and the message lists the most similar names; or a test is listed twice.
pub fn tests(params: &Params) -> Result<Vec<Test>> {
    let known = Test::ALL.map(Test::name);
    let tests = params.list("tests")?.into_iter().map(|name| {
        let test = Test::ALL.into_iter().find(|test| test.name() == name);
        test.ok_or_else(|| unknown("test of sysbench", name, &known))
    });
    tests.collect()
}

/// Checks the numbers of rows, tables and clients.
///
/// # Errors
/// One of them is out of range.
pub fn check(rows: u64, tables: u64, threads: &[u64]) -> Result<()> {
    let is_right = (1..=i32::MAX as u64).contains(&rows)
        && (1..=1_000).contains(&tables)
        && !threads.is_empty()
        && threads.iter().all(|n| (1..=512).contains(n));
    match is_right {
        true => Ok(()),
        false => Err(Failure(
            "sysbench: allowed are rows from 1 to 2147483647, tables from 1 to 1000, threads from 1 to 512"
                .to_owned(),
        )),
    }
}

impl Sysbench {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, tables) = (params.number("rows")?, params.number("tables")?);
        let threads = params.numbers("threads")?;
        check(rows, tables, &threads)?;
        let distribution = params.word("distribution", &DISTRIBUTIONS)?;
        let most = threads.iter().copied().max().unwrap_or(1);
        let tests = tests(params)?;
        let is_alone = |test: &Test| matches!(test, Test::RandomPoints | Test::RandomRanges);
        if tables > 1 && tests.iter().any(is_alone) {
            let what = "random_points and random_ranges have one table only, as upstream";
            return Err(Failure(format!("sysbench: {what}")));
        }
        let pace = Pace {
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            steps: threads.len() as u64,
        };
        let tables = Tables::new("sbtest", tables, rows, distribution, seed).with_clients(most);
        Ok(Self { tables, threads, tests, pace, seed })
    }

    /// The tests in their order, each with the end of its step's name.
    fn order(&self) -> Vec<(Test, &'static str)> {
        let of = |writes| self.tests.iter().copied().filter(move |test| test.writes() == writes);
        let again = of(false).filter(|_| of(true).next().is_some());
        let first = of(false).chain(of(true)).map(|test| (test, ""));
        first.chain(again.map(|test| (test, " after writes"))).collect()
    }
}

/// Creates the tables, loads them, creates their indexes and verifies them. Returns false if the
/// time limit is reached before the end.
///
/// # Errors
/// The server reports an error.
pub fn load(bench: &mut Bench, tables: &Tables, seed: u64) -> Result<bool> {
    let mut rows = 0;
    for (number, name) in (1..).zip(&tables.names) {
        let of_table = if tables.names.len() == 1 { String::new() } else { format!(" {name}") };
        bench.create(&sbtest::definition(name, None), "")?;
        let step = format!("load{of_table}");
        rows += Load::new(&step, name, tables.rows, seed + number - 1).run(bench)?;
        tables.note_loaded(rows);
        bench.loaded((rows, rows * ROW_BYTES))?;
        if bench.is_over() {
            return Ok(false);
        }
        let step = format!("create index{of_table}");
        let sql = format!("CREATE INDEX k_{number} ON {name}(k)");
        sbtest::create_index(bench, &step, tables.rows, &sql)?;
        bench.loaded((rows, rows * ROW_BYTES))?;
        bench.verify(name, Some(tables.rows), true)?;
    }
    bench.crash()?;
    Ok(!bench.is_over())
}

/// Runs one test with this many clients, and once more at a share of its rate if `pace` says so.
///
/// # Errors
/// The server reports an error.
pub fn run(
    bench: &mut Bench,
    tables: &Tables,
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
        let before = tables.allow_deletes(deletes_of_step(tables, pace));
        let made = bench.step_prepared(
            step,
            |index, session, _| Client::new(tables, test, (index, clients), session),
            |worker, mut client| client.run(worker, None),
            &[],
        )?;
        note_deletes(made, test, tables.deleted() - before);
        Ok(())
    })
}

/// The step of one test.
fn step_of(name: &str, test: Test, clients: u64, pace: Pace) -> Step<'_> {
    // `delete` has no warm-up, because the rows that it deletes would be missing.
    let warm_up = if test == Test::Delete { 0.0 } else { pace.warm_up };
    let step = Step::timed(name, pace.seconds, warm_up, clients);
    Step { writes: test.writes(), ..step }
}

/// Number of rows that one step of `delete` may delete.
fn deletes_of_step(tables: &Tables, pace: Pace) -> f64 {
    tables.all_rows() as f64 * DELETED_PART / (pace.steps * pace.rate.steps()) as f64
}

/// Adds the number of deleted rows to a step of `delete`.
fn note_deletes(made: &mut StepResult, test: Test, deleted: u64) {
    if test == Test::Delete && made.metrics.contains_key("ops") {
        made.metrics.insert("rows_deleted".to_owned(), deleted as f64);
    }
}

impl Workload for Sysbench {
    fn innodb_bytes(&self) -> u64 {
        self.tables.innodb_bytes()
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        if !load(bench, &self.tables, self.seed)? {
            return Ok((0, 0));
        }
        for (test, suffix) in self.order() {
            for &clients in &self.threads {
                run(bench, &self.tables, test, clients, suffix, self.pace)?;
            }
        }
        bench.rest()?;
        verify(bench, &self.tables)
    }
}

/// Verifies that each index agrees with its table, and that all tables together have as many rows
/// as the clients counted. Returns the number of live rows and their bytes.
///
/// # Errors
/// The server reports an error.
pub fn verify(bench: &mut Bench, tables: &Tables) -> Result<(u64, u64)> {
    let expected = tables.rows_now();
    let single = (tables.names.len() == 1).then_some(expected);
    for name in &tables.names {
        bench.verify(name, single, false)?;
    }
    if tables.names.len() > 1 && bench.keeps_rows() && !bench.is_over() {
        let counts: Vec<String> =
            tables.names.iter().map(|name| format!("(SELECT COUNT(*) FROM {name})")).collect();
        let found = bench.admin().value(&format!("SELECT {}", counts.join("+")))?;
        let is_right = found.parse() == Ok(expected);
        let detail = format!("{found} rows, {expected} expected");
        bench.result.verify("rows of all tables", is_right, detail);
    }
    Ok((expected, expected * ROW_BYTES))
}
