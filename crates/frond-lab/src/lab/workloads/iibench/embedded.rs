//! iiBench on embedded stores: the same rows and commits as in SQL, but times with milliseconds.
//! One more client may run the queries of the published mode.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::queries::{Queries, drawn};
use super::{ENTRY, INNODB_ROW_BYTES, Iibench, PARAMS, ROW_BYTES};
use crate::data::iibench::{Purchases, QUERY_ROWS, table};
use crate::lab::embedded::{Batch, Bench, Concurrent, Entry, Worker, Workload};
use crate::lab::step::{Step, measured};
use crate::schema::Table;
use crate::targets::{Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Iibench::new(params, seed)?)),
};

/// Runs the queries until the step ends.
fn ask(worker: &mut Worker<'_>, iibench: &Iibench, table: &Table) -> Result<()> {
    while worker.done() < Queries::start(iibench.rows) && !worker.is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Queries::PerSecond(rate) = iibench.queries {
        worker.set_rate(rate);
    }
    let done = worker.counter();
    for (keyspace, from) in drawn(iibench, done) {
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
        vec![table]
    }

    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let table = bench.table("purchases_index")?;
        let this = &*self;
        let Iibench { rows, per_commit, seed, queries, .. } = *this;
        let (purchases, inserted) = (Mutex::new(Purchases::new(seed, false)), AtomicU64::new(0));
        let insert = |worker: &mut Worker<'_>| {
            let mut purchases = purchases.lock().unwrap_or_else(|e| e.into_inner());
            let (mut batch, mut left) = (Batch::new(table), rows);
            while left > 0 && worker.go_on() {
                let n = left.min(per_commit);
                (0..n).for_each(|_| batch.push(&purchases.next_row()));
                left -= n;
                inserted.fetch_add(worker.insert("commit", &mut batch)?, Ordering::Relaxed);
            }
            Ok(())
        };
        let query = |worker: &mut Worker<'_>| ask(worker, this, table);
        let concurrent: &[Concurrent<'_>] = if queries == Queries::None { &[] } else { &[&query] };
        let is_shared = queries == Queries::Unthrottled;
        let step = Step { is_shared, ..Step::load("load", rows, ROW_BYTES) };
        measured::add_queries(bench.step_concurrent(&step, insert, concurrent)?);
        let inserted = inserted.into_inner();
        bench.loaded((inserted, inserted * ROW_BYTES))?;
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
}
