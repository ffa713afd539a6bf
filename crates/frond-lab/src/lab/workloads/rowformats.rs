//! `rowformats`: the study of InnoDB's row formats of 2008. The table of sysbench 0.4 with its
//! index on `k` is loaded with one INSERT per row, and then read and written by increasing numbers
//! of clients.
//!
//! The study's strings are unknown, so sizes cannot be compared with it; the parameter `strings`
//! offers three degrees of compressibility instead. The study's two buffer pools are two values of
//! `ratio`, 0.4 and 4.5.

use super::compressed;
use super::pace::Rate;
use super::sbtest::{self, Batch, FILLS, Fill, INNODB_ROW_BYTES, Load, ROW_BYTES};
use super::sweep::POWERS;
use super::sysbench::embedded::Loaded;
use super::sysbench::{self, Pace, Tables, Test};
use super::{Entry, Workload};
use crate::lab::embedded;
use crate::lab::params::{Param, Params};
use crate::lab::sql::Bench;
use crate::schema::Table;
use crate::targets::Result;

pub const ENTRY: Entry = Entry {
    name: "rowformats",
    about: "the row-format study of 2008: one row per INSERT, sizes, and read_write with growing numbers of clients",
    headline: ("load", "seconds"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(RowFormats::new(params, seed)?)),
};

pub const EMBEDDED: embedded::Entry = embedded::Entry {
    name: ENTRY.name,
    about: "the load of the row-format study of 2008: one row per commit, then read_write with growing numbers of clients",
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(RowFormats::new(params, seed)?)),
};

const PARAMS: &[Param] = &[
    Param::sized("rows", ["500", "3_000", "2_000_000", "10_000_000"], "rows"),
    Param::fixed("load", "one-row", "rows per INSERT: one-row, or multi (512 KiB of text)"),
    Param::fixed("index", "before", "when the index on k is created: before or after the load"),
    Param::fixed("strings", "digits", "contents of c and pad: digits, letters, constant"),
    Param::sized("threads", ["1", "1,16", POWERS, POWERS], "numbers of clients, one step each"),
    Param::fixed("tests", "read_write", "tests of sysbench"),
    Param::sized("seconds", ["0.1", "0.5", "10", "30"], "duration of each step, seconds"),
    Param::sized("warm_up", ["0", "0", "2", "10"], "maximum warm-up before each step, seconds"),
    Param::fixed("ratio", "0.4", "ratio of data to cache: 0.4 and 4.5 in the study"),
    Param::sized("time_limit", ["60", "12", "1800", "0"], "seconds, 0 for none"),
];

const TABLE: &str = "sbtest";

struct RowFormats {
    tables: Tables,
    batch: Batch,
    index_first: bool,
    threads: Vec<u64>,
    tests: Vec<Test>,
    pace: Pace,
    seed: u64,
}

impl RowFormats {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, threads) = (params.number("rows")?, params.numbers("threads")?);
        sysbench::check(rows, 1, &threads)?;
        let most = threads.iter().copied().max().unwrap_or(1);
        let mut tables = Tables::new(TABLE, 0, rows, "uniform", seed).with_clients(most);
        tables.fill = Fill::new(params.word("strings", &FILLS)?);
        let (seconds, warm_up) = (params.real("seconds")?, params.real("warm_up")?);
        let pace = Pace { seconds, warm_up, rate: Rate::Closed, steps: threads.len() as u64 };
        let batch = match params.word("load", &["one-row", "multi"])? {
            "multi" => Batch::Bytes,
            _ => Batch::Rows(1),
        };
        let index_first = params.word("index", &["before", "after"])? == "before";
        let tests = sysbench::tests(params)?;
        Ok(Self { tables, batch, index_first, threads, tests, pace, seed })
    }
}

impl Workload for RowFormats {
    fn innodb_bytes(&self) -> u64 {
        self.tables.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let index = if self.index_first { ", KEY k (k)" } else { "" };
        let definition = format!(
            "{TABLE}(id INT UNSIGNED NOT NULL AUTO_INCREMENT, k INT UNSIGNED NOT NULL DEFAULT '0', \
             c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id){index})"
        );
        bench.create(&definition, "")?;
        compressed::reset(bench)?;
        let (rows, fill, batch) = (self.tables.rows, self.tables.fill, self.batch);
        let load = Load::new("load", TABLE, rows, self.seed);
        let loaded = Load { batch, fill, with_ids: true, ..load }.run(bench)?;
        self.tables.note_loaded(loaded);
        bench.loaded((loaded, loaded * ROW_BYTES))?;
        compressed::note(bench)?;
        if !self.index_first && !bench.is_over() {
            compressed::reset(bench)?;
            sbtest::create_index(bench, "create index", rows, "CREATE INDEX k ON sbtest(k)")?;
            bench.loaded((loaded, loaded * ROW_BYTES))?;
            compressed::note(bench)?;
        }
        compressed::note_lengths(bench, TABLE)?;
        bench.verify(TABLE, Some(loaded), true)?;
        bench.crash()?;
        for &test in &self.tests {
            for &clients in &self.threads {
                compressed::reset(bench)?;
                sysbench::run(bench, &self.tables, test, clients, "", self.pace)?;
                compressed::note(bench)?;
            }
        }
        bench.rest()?;
        sysbench::verify(bench, &self.tables)
    }
}

impl embedded::Workload for RowFormats {
    fn tables(&self) -> Vec<Table> {
        sbtest::embedded::tables(&self.tables.names, self.index_first)
    }

    fn innodb_bytes(&self) -> u64 {
        self.tables.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut embedded::Bench<'_>) -> Result<(u64, u64)> {
        let (rows, fill, batch) = (self.tables.rows, self.tables.fill, self.batch);
        let load = Load { batch, fill, ..Load::new("load", TABLE, rows, self.seed) };
        let loaded = sbtest::embedded::load(bench, bench.table(TABLE)?, load)?;
        self.tables.note_loaded(loaded);
        bench.loaded((loaded, loaded * ROW_BYTES))?;
        let table = sbtest::embedded::indexed(bench, TABLE)?;
        if !self.index_first {
            if bench.is_over() {
                return Ok((0, 0));
            }
            sbtest::embedded::create_index(bench, "create index", &table, rows, false)?;
            bench.loaded((loaded, loaded * ROW_BYTES))?;
        }
        bench.verify(&table, Some(loaded), true)?;
        let all = Loaded::new(&self.tables, vec![table]);
        for &test in &self.tests {
            for &clients in &self.threads {
                all.run(bench, test, clients, "", self.pace)?;
            }
        }
        bench.rest()?;
        all.verify(bench)
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};
    use crate::lab::workloads::testing::{on_both, step};

    #[test]
    fn embedded_loads_commit_each_row_and_indexes_may_be_created_later() {
        on_all("rowformats", &[("seconds", "0.2")], |target, result| {
            let load = step_of(result, "load");
            assert_eq!((load.metrics["ops"], load.latencies["commit"].count), (500.0, 500));
            assert_eq!(result.steps.len(), 2, "{target}");
            let is_verified = result.verified.iter().any(|found| found.name == "sbtest by k_1");
            assert_eq!(is_verified, target != "null", "{target}");
        });
        let changes = [("index", "after"), ("load", "multi"), ("seconds", "0.2")];
        for strings in ["letters", "constant"] {
            on_all("rowformats", &[&changes[..], &[("strings", strings)]].concat(), |_, result| {
                assert_eq!(step_of(result, "load").latencies["commit"].count, 1);
                assert_eq!(step_of(result, "create index").metrics["ops"], 500.0);
            });
        }
    }

    #[test]
    fn sql_row_format_loads_report_lengths_and_indexes_may_be_created_later() {
        on_both("rowformats", &[], |bench| {
            let load = &step(bench, "load").metrics;
            assert!(load.contains_key("data_length_b"));
            assert!(bench.target.name != "innodb" || load["data_length_b"] > 0.0);
            // Both report what they have compressed since the step started; at size tiny that is
            // nothing yet.
            assert_eq!(load["compress_ops"], 0.0, "{load:?}");
        });
        let changes = [("index", "after"), ("load", "multi"), ("strings", "letters")];
        on_both("rowformats", &changes, |bench| {
            assert_eq!(step(bench, "create index").metrics["ops"], 500.0);
        });
    }
}
