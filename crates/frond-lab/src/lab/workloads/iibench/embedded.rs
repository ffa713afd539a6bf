//! iiBench on embedded stores: the same rows and commits as in SQL, but times with milliseconds.
//! One more client may run the queries of the published mode.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::charfields::{NAMES, Texts};
use super::queries::{Queries, drawn};
use super::{ENTRY, Iibench, PARAMS};
use crate::data::iibench::{Purchases, QUERY_ROWS, table};
use crate::lab::embedded::{Batch, Bench, Concurrent, Entry, Worker, Workload};
use crate::lab::step::measured;
use crate::schema::{Column, Table, Type, Value};
use crate::targets::{Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Iibench::new(params, seed)?)),
};

/// Runs the queries until the step ends. There were `before` rows when it started.
fn ask(worker: &mut Worker<'_>, iibench: &Iibench, table: &Table, before: u64) -> Result<()> {
    let start = Queries::start(iibench.rows);
    while before + worker.done() < start && !worker.is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Queries::PerSecond(rate) = iibench.queries {
        worker.set_rate(rate);
    }
    let done = worker.counter();
    for (keyspace, from) in drawn(iibench, || before + done()) {
        if !worker.go_on() {
            break;
        }
        let span = Span { from: &from, limit: QUERY_ROWS, ..Span::ALL };
        worker.request("query", 1, |connection| {
            connection.range(table, keyspace, &span, &mut |key, value| {
                std::hint::black_box((key, value));
                true
            })
        })?;
    }
    Ok(())
}

impl Workload for Iibench {
    fn tables(&self) -> Vec<Table> {
        let mut table = table();
        table.indexes.truncate(self.indexes);
        let texts = NAMES[..self.charfields.number].iter();
        table.columns.extend(texts.map(|name| Column::new(name, Type::Text)));
        vec![table]
    }

    fn innodb_bytes(&self) -> u64 {
        self.in_innodb()
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let table = bench.table("purchases_index")?;
        let this = &*self;
        let Iibench { per_commit, seed, queries, charfields, .. } = *this;
        let source = Mutex::new((Purchases::new(seed, false), Texts::new(seed, charfields)));
        let inserted = AtomicU64::new(0);
        this.paced(bench, |bench, step, rows, before| {
            let insert = |worker: &mut Worker<'_>| {
                let mut source = source.lock().unwrap_or_else(|e| e.into_inner());
                let (purchases, texts) = &mut *source;
                let (mut batch, mut left) = (Batch::new(table), rows);
                while left > 0 && worker.go_on() {
                    let n = left.min(per_commit);
                    for _ in 0..n {
                        let (row, texts) = (purchases.next_row(), texts.next_row());
                        match texts {
                            [] => batch.push(&row),
                            _ => {
                                let texts = texts.iter().map(|text| Value::Text(text));
                                batch.push(&row.into_iter().chain(texts).collect::<Vec<_>>());
                            }
                        }
                    }
                    left -= n;
                    inserted.fetch_add(worker.insert("commit", &mut batch)?, Ordering::Relaxed);
                }
                Ok(())
            };
            let query = |worker: &mut Worker<'_>| ask(worker, this, table, before);
            let concurrent: &[Concurrent<'_>] =
                if queries == Queries::None { &[] } else { &[&query] };
            measured::add_queries(bench.step_concurrent(step, insert, concurrent)?);
            Ok(())
        })?;
        let inserted = inserted.into_inner();
        bench.loaded((inserted, inserted * self.row_bytes()))?;
        bench.verify(table, Some(inserted), true)
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_loads_have_the_rows_of_the_generator_and_every_index_its_entries() {
        on_all("iibench", &[("rows", "5500")], |target, result| {
            let load = step_of(result, "load");
            assert_eq!((load.metrics["ops"], load.latencies["commit"].count), (5_500.0, 6));
            assert!(load.metrics["exit_velocity"] > 0.0, "{target}");
            assert_eq!(load.metrics["changed_b"], 5_500.0 * 28.0);
            // The rows, their number, those inserted, and the entries of three indexes.
            assert_eq!(result.verified.len(), if target == "null" { 0 } else { 6 });
        });
    }

    #[test]
    fn embedded_queries_run_concurrently_with_the_inserts_and_do_not_count_as_rows() {
        let changes = [("rows", "20000"), ("queries", "unthrottled"), ("indexes", "1")];
        on_all("iibench", &changes, |target, result| {
            let load = step_of(result, "load");
            assert_eq!(load.metrics["ops"], 20_000.0);
            assert!(target == "null" || load.latencies["query"].count > 0, "{target}");
            assert!(!load.metrics.contains_key("cpu_fg_us_op"), "the inserts' part is unknown");
        });
    }

    #[test]
    fn embedded_rows_with_strings_are_loaded_in_a_closed_and_then_in_an_open_loop() {
        let strings = [("charfields", "2"), ("charfield_bytes", "200"), ("rate", "70%")];
        let changes = [&strings[..], &[("queries", "unthrottled")]].concat();
        on_all("iibench", &changes, |target, result| {
            let (closed, open) = (step_of(result, "load"), step_of(result, "load open"));
            let rows = (closed.metrics["ops"], open.metrics["ops"]);
            assert_eq!(rows, (16_000.0, 4_000.0), "{target}");
            assert_eq!(open.metrics["changed_b"], 4_000.0 * 428.0, "{target}");
            let wanted = open.metrics["wanted_s"] * 1_000.0;
            assert!((wanted / closed.metrics["exit_velocity"] - 0.7).abs() < 1e-6, "{target}");
            assert!(open.latencies["query"].count > 0, "{target}: there are rows to query");
            if target != "null" {
                assert!(open.metrics["raw_b_row"] > 428.0, "{target}");
            }
        });
    }
}
