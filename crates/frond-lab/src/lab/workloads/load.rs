//! `load`: loads one data set and lets it settle, to compare what its rows take on disk. One client
//! inserts them in the order of the generator, so that all targets get the same commits.

use std::path::PathBuf;
use std::sync::Mutex;

use crate::data::Source;
use crate::data::iibench::Purchases;
use crate::data::linktable::LinkTable;
use crate::data::packages::Packages;
use crate::data::sbtest::Sbtest;
use crate::data::weblog::generator::WebLog;
use crate::lab::embedded::{Batch, Bench, Entry, Workload};
use crate::lab::params::Param;
use crate::lab::step::Step;
use crate::schema::{Table, Value};
use crate::targets::{Failure, Result};

pub const EMBEDDED: Entry = Entry {
    name: "load",
    about: "loads one data set and lets it settle: what its rows take on disk",
    headline: ("", "disk_b_row"),
    params: &[
        Param::fixed("set", "sbtest", "sbtest, iibench, weblog, linktable, packages"),
        Param::sized("rows", ["2_000", "200_000", "2_000_000", "10_000_000"], "rows"),
        Param::fixed(
            "packages",
            "",
            "file with control paragraphs; empty for those that apt-cache dumpavail prints",
        ),
        Param::fixed("ratio", "1.5", "data to cache"),
        Param::sized("time_limit", ["60", "12", "600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| {
        let rows = params.number("rows")?;
        if rows == 0 {
            return Err(Failure("load: rows must be at least 1".to_owned()));
        }
        Ok(match params.word("set", &SETS)? {
            "iibench" => made(seed, rows, move || Ok(Some(Purchases::new(seed, false)))),
            "weblog" => made(seed, rows, move || Ok(Some(WebLog::of_a_week(seed, rows)))),
            "linktable" => made(seed, rows, move || Ok(Some(LinkTable::new(seed, rows)))),
            "packages" => {
                let file = Some(PathBuf::from(params.text("packages")));
                let file = file.filter(|file| !file.as_os_str().is_empty());
                made(seed, rows.min(PACKAGES_MAX), move || Packages::find(file.as_deref()))
            }
            _ => made(seed, rows, move || Ok(Some(Sbtest::new(seed, rows)))),
        })
    },
};

/// The data sets.
pub const SETS: [&str; 5] = ["sbtest", "iibench", "weblog", "linktable", "packages"];
/// More packages than a system knows.
const PACKAGES_MAX: u64 = 100_000;

struct Load<S, F> {
    seed: u64,
    rows: u64,
    /// Makes the rows; `None` if this machine has none.
    make: F,
    source: Option<S>,
}

fn made<S, F>(seed: u64, rows: u64, make: F) -> Box<dyn Workload>
where
    S: Source + Send + 'static,
    F: Fn() -> Result<Option<S>> + 'static,
{
    Box::new(Load { seed, rows, make, source: None })
}

impl<S, F> Workload for Load<S, F>
where
    S: Source + Send,
    F: Fn() -> Result<Option<S>>,
{
    fn tables(&self) -> Vec<Table> {
        vec![S::table()]
    }

    fn innodb_bytes(&self) -> u64 {
        self.rows * S::INNODB_ROW_BYTES
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn prepare(&mut self) -> Result<()> {
        self.source = (self.make)()?;
        Ok(())
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let Some(source) = self.source.take() else {
            let why = "left out: apt-cache knows none, and no file was given".to_owned();
            bench.result.settings.insert(format!("({})", S::NAME), why);
            return Ok((0, 0));
        };
        let (table, source) = (bench.tables().first(), Mutex::new(source));
        let live = Mutex::new((0, 0));
        let table = table.ok_or_else(|| Failure("a load without a table".to_owned()))?;
        bench.step(&Step::load(S::NAME, self.rows, 0), |worker| {
            let mut source = source.lock().unwrap_or_else(|e| e.into_inner());
            let mut live = live.lock().unwrap_or_else(|e| e.into_inner());
            let (mut batch, mut record) = (Batch::new(table), S::Record::default());
            let mut left = self.rows;
            while worker.go_on() {
                let mut bytes = 0;
                while batch.len() < left.min(S::ROWS_PER_COMMIT) && source.next(&mut record) {
                    let row = source.columns(&record);
                    bytes += row.as_ref().iter().map(Value::logical_bytes).sum::<u64>();
                    batch.push(row.as_ref());
                }
                if batch.is_empty() {
                    break;
                }
                left -= batch.len();
                let inserted = worker.insert("commit", &mut batch)?;
                if inserted > 0 {
                    worker.changed(bytes);
                    *live = (live.0 + inserted, live.1 + bytes);
                }
            }
            Ok(())
        })?;
        let live = live.into_inner().unwrap_or_else(|e| e.into_inner());
        bench.loaded(live)?;
        bench.verify(table, Some(live.0), true)?;
        bench.compact()?;
        let mut metrics = Vec::new();
        if bench.keeps_rows() {
            let parts = bench.target.parts()?;
            let of_rows = parts.iter().filter(|part| part.keyspace == table.name);
            let bytes: f64 = of_rows.map(|part| part.b_row).sum();
            metrics.extend((bytes > 0.0).then_some(("columns_b_row", bytes)));
            for part in parts {
                let name = format!("(column {}.{})", part.keyspace, part.part);
                let (raw, stored) = (part.raw_b_row, part.b_row);
                let said = format!("{stored:.2} B of {raw:.2} per row, {}", part.encoding);
                bench.result.settings.insert(name, said);
            }
        } else {
            metrics.extend(S::yardstick(self.seed, live.0)?);
        }
        if let Some(step) = bench.result.steps.last_mut() {
            step.metrics.extend(metrics.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::packages::EXAMPLE;
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_data_sets_are_loaded_and_what_is_known_of_them_is_measured() {
        let list = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(list.path(), EXAMPLE).expect("written");
        let list = list.path().display().to_string();
        for set in SETS {
            on_all("load", &[("set", set), ("packages", &list)], |target, result| {
                let metrics = &step_of(result, set).metrics;
                let rows = if set == "packages" { 2.0 } else { 2_000.0 };
                assert_eq!(metrics["ops"], rows, "{set} on {target}");
                let is_split = target == "null" && set == "weblog";
                assert!(!is_split || metrics["columns_b_row"] > 0.0, "{metrics:?}");
                if target == "null" && set == "sbtest" {
                    assert!((68.0..71.0).contains(&metrics["random_b_row"]), "{metrics:?}");
                }
            });
        }
    }
}
