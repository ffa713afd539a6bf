//! Bulk loads on embedded stores: one load of sysbench's rows per cell, since a table cannot be
//! dropped here and the sizes are those of the whole store. CREATE INDEX is a step of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::sbtest::embedded::{columns, create_index, indexed, load, next_padded, tables};
use super::super::sbtest::{Batch, INNODB_ROW_BYTES, Load, ROW_BYTES, Row, Rows};
use super::ENTRY;
use crate::lab::embedded::{Bench, Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::step::Step;
use crate::schema::{Checksum, EncodedRow, Table};
use crate::targets::{Failure, Result};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: "a bulk load: one row or 1000 rows per commit, or the store's own way; sorted or shuffled; index before or after",
    headline: ("load", "ops_s"),
    params: &[
        Param::sized("rows", ["1_000", "312_000", "2_000_000", "10_000_000"], "rows"),
        Param::fixed(
            "how",
            "own",
            "one-row, multi (1000 rows per commit), own (the store's own way to fill an empty table)",
        ),
        Param::fixed("order", "sorted", "order of the ids: sorted, shuffled"),
        Param::fixed("index", "after", "when the index on k is created: before or after the load"),
        Param::fixed("ratio", "4.5", "data to cache"),
        Param::sized("time_limit", ["60", "40", "1800", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Bulk::new(params, seed)?)),
};

const TABLE: &str = "sbtest1";

struct Bulk {
    rows: u64,
    /// Rows per commit; `None` for the store's own way.
    per_commit: Option<u64>,
    is_shuffled: bool,
    index_first: bool,
    seed: u64,
}

impl Bulk {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let per_commit = match params.word("how", &["one-row", "multi", "own"])? {
            "one-row" => Some(1),
            "multi" => Some(1_000),
            _ => None,
        };
        let rows = params.number("rows")?;
        let is_shuffled = params.word("order", &["sorted", "shuffled"])? == "shuffled";
        let index_first = params.word("index", &["before", "after"])? == "before";
        if !(1..=i32::MAX as u64).contains(&rows) {
            return Err(Failure("bulk: rows from 1 to 2147483647".to_owned()));
        }
        if per_commit.is_none() && (is_shuffled || index_first) {
            let why = "how=own needs sorted rows, and creates the index after them";
            return Err(Failure(format!("bulk: {why}")));
        }
        Ok(Self { rows, per_commit, is_shuffled, index_first, seed })
    }
}

/// Fills an empty table in the store's own way, and returns the number of rows loaded.
fn load_in_bulk(bench: &mut Bench<'_>, table: &Table, load: Load<'_>) -> Result<u64> {
    let loaded = AtomicU64::new(0);
    bench.step(&Step::load(load.step, load.rows, ROW_BYTES), |worker| {
        let (mut rows, mut row) = (Rows::new(load), Row::default());
        let (mut encoded, mut sum) = (EncodedRow::default(), Checksum::default());
        worker.bulk_load(table.base, |key, value| {
            if sum.rows == load.rows {
                return false;
            }
            next_padded(&mut rows, &mut row);
            encoded.encode(table, &columns(&row));
            sum.add(&encoded.key, &encoded.value);
            std::mem::swap(key, &mut encoded.key);
            std::mem::swap(value, &mut encoded.value);
            true
        })?;
        worker.inserted(table, &sum);
        loaded.store(sum.rows, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(loaded.into_inner())
}

impl Workload for Bulk {
    fn tables(&self) -> Vec<Table> {
        tables(&[TABLE.to_owned()], self.index_first)
    }

    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let table = bench.table(TABLE)?;
        let rows = Load::new("load", TABLE, self.rows, self.seed);
        let rows = Load { is_shuffled: self.is_shuffled, ..rows };
        let loaded = match self.per_commit {
            Some(n) => load(bench, table, Load { batch: Batch::Rows(n), ..rows })?,
            None if bench.target.bulk_loads() => load_in_bulk(bench, table, rows)?,
            None => {
                let why = "none: loaded with 1000 rows per commit".to_owned();
                bench.result.settings.insert("(own way to fill a table)".to_owned(), why);
                load(bench, table, Load { batch: Batch::Rows(1_000), ..rows })?
            }
        };
        let live = (loaded, loaded * ROW_BYTES);
        bench.loaded(live)?;
        let table = indexed(bench, TABLE)?;
        if !self.index_first {
            if bench.is_over() {
                return Ok(live);
            }
            create_index(bench, "create index", &table, loaded, true)?;
            bench.loaded(live)?;
        }
        bench.verify(&table, Some(loaded), true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::lab::embedded::testing::{on_all, step_of};
    use crate::lab::size::Size;

    #[test]
    fn embedded_loads_of_each_kind_give_the_same_rows() {
        let facts = Mutex::new(Vec::new());
        let kinds: [&[(&str, &str)]; 5] = [
            &[],
            &[("how", "multi")],
            &[("how", "multi"), ("order", "shuffled")],
            &[("how", "multi"), ("index", "before")],
            &[("how", "one-row"), ("order", "shuffled"), ("index", "before")],
        ];
        for changes in kinds {
            on_all("bulk", changes, |target, result| {
                assert_eq!(step_of(result, "load").metrics["ops"], 1_000.0, "{target}");
                let is_after = !changes.contains(&("index", "before"));
                assert_eq!(result.steps.len(), if is_after { 2 } else { 1 }, "{target}");
                if target != "null" {
                    let checked = |name| result.verified.iter().any(|found| found.name == name);
                    assert!(checked("sbtest1 as inserted") && checked("sbtest1 by k_1"));
                    let fact = (changes.contains(&("order", "shuffled")), result.facts.clone());
                    facts.lock().expect("not poisoned").push(fact);
                }
            });
        }
        let facts = facts.into_inner().expect("not poisoned");
        // Shuffled rows have other ids.
        for is_shuffled in [false, true] {
            let mut of = facts.iter().filter(|fact| fact.0 == is_shuffled).map(|fact| &fact.1);
            let first = of.next().expect("a load");
            assert!(of.all(|other| other == first), "{facts:?}");
        }
        let changes = [("how", "own"), ("order", "shuffled")];
        let changes = changes.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let params = Params::new("bulk", EMBEDDED.params, Size::Tiny, &changes).expect("known");
        assert!(Bulk::new(&params, 42).is_err_and(|failure| failure.0.contains("sorted")));
    }
}
