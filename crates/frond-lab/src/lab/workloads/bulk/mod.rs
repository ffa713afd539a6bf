//! `bulk`: bulk loads of sysbench's rows, with one row per statement, with a thousand, or by LOAD
//! DATA; in the order of ids or in random order; with the index created before the load or after
//! it.
//!
//! Each load has a table of its own, which is dropped afterwards, except for the last one. Space
//! that an engine does not free when a table is dropped is part of the sizes of later loads.

mod embedded;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::compressed;
use super::sbtest::{self, Batch, INNODB_ROW_BYTES, Load, ROW_BYTES, Row, Rows};
use super::{Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Connect, RowSum, Session, Worker};
use crate::lab::step::Step;
use crate::lab::suggest::unknown;
use crate::measure;
use crate::targets::{Failure, Result};

pub use embedded::EMBEDDED;

pub const ENTRY: Entry = Entry {
    name: "bulk",
    about: "bulk loads: one row or 1000 rows per statement, LOAD DATA; sorted or shuffled; index before or after",
    headline: ("multi", "ops_s"),
    params: &[
        Param::sized("rows", ["1_000", "312_000", "2_000_000", "10_000_000"], "rows"),
        Param::sized(
            "how",
            [ALL, "load-data,multi", ALL, ALL],
            "one-row, multi (1000 rows per statement), load-data",
        ),
        Param::sized(
            "order",
            [ORDERS, "sorted", ORDERS, ORDERS],
            "order of the ids: sorted, shuffled",
        ),
        Param::sized(
            "index",
            [WHENS, "after", WHENS, WHENS],
            "when the index on k is created: before or after the load",
        ),
        Param::fixed("one_row_part", "0.05", "fraction of the rows that a one-row load inserts"),
        Param::fixed("ratio", "4.5", "data to cache"),
        Param::sized("time_limit", ["60", "40", "1800", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Bulk::new(params, seed)?)),
};

const ALL: &str = "one-row,load-data,multi";
const ORDERS: &str = "shuffled,sorted";
const WHENS: &str = "before,after";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    OneRow,
    Multi,
    LoadData,
}

/// The plan of one load.
#[derive(Clone, Debug)]
struct Plan {
    how: How,
    is_shuffled: bool,
    index_first: bool,
    rows: u64,
}

struct Bulk {
    plans: Vec<Plan>,
    rows: u64,
    seed: u64,
}

/// Parses a list parameter, each word of which must be one of `known`.
fn words<'a>(params: &Params, name: &str, known: &[(&str, &'a str)]) -> Result<Vec<&'a str>> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let values = params.list(name)?.into_iter().map(|word| {
        let found = known.iter().find(|(name, _)| *name == word);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| unknown(&format!("value of {name}"), word, &names))
    });
    values.collect()
}

impl Bulk {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, part) = (params.number("rows")?, params.real("one_row_part")?);
        if !(1..=i32::MAX as u64).contains(&rows) || part > 1.0 {
            return Err(Failure("bulk: rows from 1, one_row_part from 0 to 1".to_owned()));
        }
        let same = |word| (word, word);
        let hows = words(params, "how", &["one-row", "multi", "load-data"].map(same))?;
        let orders = words(params, "order", &["sorted", "shuffled"].map(same))?;
        let whens = words(params, "index", &["before", "after"].map(same))?;
        let mut plans = Vec::new();
        for how in hows {
            let (how, rows) = match how {
                "one-row" => (How::OneRow, ((rows as f64 * part) as u64).max(1)),
                "multi" => (How::Multi, rows),
                _ => (How::LoadData, rows),
            };
            for order in &orders {
                for when in &whens {
                    let (is_shuffled, index_first) = (*order == "shuffled", *when == "before");
                    plans.push(Plan { how, is_shuffled, index_first, rows });
                }
            }
        }
        Ok(Self { plans, rows, seed })
    }
}

impl Plan {
    /// Name of the load's step. It contains only what differs from the default.
    fn name(&self) -> String {
        let how = match self.how {
            How::OneRow => "one-row",
            How::Multi => "multi",
            How::LoadData => "load-data",
        };
        let order = if self.is_shuffled { " shuffled" } else { "" };
        let when = if self.index_first { " index=before" } else { "" };
        format!("{how}{order}{when}")
    }

    /// Runs the load, and returns the number of rows in the table.
    fn run(&self, bench: &mut Bench, table: &str, seed: u64) -> Result<u64> {
        let name = self.name();
        bench.create(&sbtest::definition(table, self.index_first.then_some("k")), "")?;
        let load = Load::new(&name, table, self.rows, seed);
        let load = Load { with_ids: true, is_shuffled: self.is_shuffled, ..load };
        let loaded = match self.how {
            How::OneRow => Load { batch: Batch::Rows(1), ..load }.run(bench)?,
            How::Multi => Load { batch: Batch::Rows(1_000), ..load }.run(bench)?,
            How::LoadData => load_data(bench, load)?,
        };
        bench.loaded((loaded, loaded * ROW_BYTES))?;
        if !self.index_first && !bench.is_over() {
            let sql = format!("CREATE INDEX k ON {table}(k)");
            sbtest::create_index(bench, &format!("{name} create index"), loaded, &sql)?;
            bench.loaded((loaded, loaded * ROW_BYTES))?;
        }
        compressed::note_lengths(bench, table)?;
        Ok(loaded)
    }
}

/// Loads the rows by LOAD DATA, in one statement and one transaction. The client generates them
/// while the statement runs.
fn load_data(bench: &mut Bench, load: Load<'_>) -> Result<u64> {
    let (loaded, deadline) = (AtomicU64::new(0), bench.deadline());
    let sql = format!("LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} (id, k, c, pad)", load.table);
    let variables = bench.target.bulk_variables.clone();
    let step = Step::load(load.step, load.rows, ROW_BYTES);
    let prepare = |_, _: &mut Session, _: Connect<'_>| Ok(Rows::new(load));
    let send = |worker: &mut Worker<'_>, mut rows: Rows| {
        let (mut row, mut left) = (Row::default(), load.rows);
        let (mut inserted, sum) = (0, Arc::new(AtomicU64::new(0)));
        let (summed, mut of_rows) = (Arc::clone(&sum), RowSum::default());
        // At the time limit the file ends, and the statement finishes with the rows sent so far.
        let source = move |file: &mut dyn std::io::Write| {
            let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            while left > 0 && !is_over() && !measure::is_interrupted() {
                for _ in 0..left.min(1_000) {
                    rows.next(&mut row);
                    let Row { id, k, c, pad } = &row;
                    writeln!(file, "{id}\t{k}\t{c}\t{pad}")?;
                    left -= 1;
                    for text in [&id.to_string(), &k.to_string(), c, pad] {
                        of_rows.value(text.as_bytes());
                    }
                    of_rows.end_row();
                }
            }
            summed.store(of_rows.take(), Ordering::Relaxed);
            Ok(())
        };
        let mut source = Some(source);
        worker.request_of("commit", |session| {
            let again = || Failure("LOAD DATA: its rows cannot be sent again".to_owned());
            let source = source.take().ok_or_else(again)?;
            inserted =
                session.with_variables(&variables, |session| session.load_data(&sql, source))?;
            Ok(inserted)
        })?;
        if inserted > 0 {
            worker.ledger().add(load.table, "id, k, c, pad", inserted, sum.load(Ordering::Relaxed));
        }
        loaded.store(inserted, Ordering::Relaxed);
        Ok(())
    };
    bench.step_prepared(&step, prepare, send, &[])?;
    Ok(loaded.into_inner())
}

impl Workload for Bulk {
    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let (mut live, last) = (0, self.plans.len());
        for (number, plan) in (1..).zip(&self.plans) {
            if bench.is_over() {
                break;
            }
            let table = format!("bulk{number}");
            live = plan.run(bench, &table, self.seed)?;
            bench.verify(&table, Some(live), true)?;
            bench.crash()?;
            if number < last {
                bench.admin().run(&format!("DROP TABLE {table}"))?;
            }
        }
        Ok((live, live * ROW_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::size::Size;
    use crate::lab::workloads::testing::on_both;

    #[test]
    fn sql_loads_of_each_kind_give_the_same_rows() {
        on_both("bulk", &[("one_row_part", "0.1")], |bench| {
            assert_eq!(
                bench.result.steps.iter().filter(|s| !s.name.contains("create")).count(),
                12
            );
            // LOAD DATA and statements of a thousand rows, each shuffled (tables 5, 6, 9, 10) and
            // sorted.
            let of = |table: &str| bench.result.facts[&format!("{table} by PRIMARY")].clone();
            for tables in [[5, 6, 9, 10], [7, 8, 11, 12]] {
                let sums = tables.map(|number| of(&format!("bulk{number}")));
                assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
            }
        });
    }

    #[test]
    fn every_combination_is_a_load_with_a_unique_name() {
        let params = Params::new("bulk", ENTRY.params, Size::Standard, &[]).expect("defaults");
        let bulk = Bulk::new(&params, 42).expect("they are right");
        let mut names: Vec<String> = bulk.plans.iter().map(Plan::name).collect();
        assert_eq!(names.last().map(String::as_str), Some("multi"));
        assert!(names.contains(&"load-data shuffled index=before".to_owned()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12);
        let one_row = bulk.plans.iter().find(|plan| plan.how == How::OneRow);
        assert_eq!(one_row.map(|plan| plan.rows), Some(100_000));
        let change = [("how".to_owned(), "muti".to_owned())];
        let params = Params::new("bulk", ENTRY.params, Size::Tiny, &change).expect("a known name");
        assert!(Bulk::new(&params, 42).is_err_and(|failure| failure.0.contains("multi")));
    }
}
