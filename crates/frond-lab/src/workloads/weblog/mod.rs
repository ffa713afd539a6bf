//! `weblog`: a performance log of database calls, with long strings and three indexes.
//!
//! Invariants
//! 1. The generator is not tuned towards a compression ratio; its test compares the ratio with that
//!    of reference data.
//! 2. Both writers take their commits from one generator, so the rows do not depend on the number
//!    of writers.
//!
//! The workload is a load: 7 days of traffic, 2 writers, 500 rows per commit, in order of end.

pub mod generator;
pub mod population;
mod split;

pub use generator::Profile;

use std::sync::Mutex;

use super::{Bench, Spec, Volume, Workload};
use crate::measure::Meter;
use crate::results::Yardstick;
use crate::schema::{Checksum, Column, EncodedRow, Index, Table, Type};
use crate::targets::{Begin, Clients, Result, Target};
use generator::{Call, Traffic, WebLog, columns};
use split::{ColumnSplit, LEFT_OUT, PIECE_ROWS};

const ROWS_PER_COMMIT: u64 = 500;
/// Number of writers, unless every store must get the rows in the same order.
const WRITERS: u64 = 2;
const DAYS: f64 = 7.0;

/// Returns the table `perf_log`.
pub fn table() -> Table {
    let column = |name, kind| Column { name, kind };
    Table {
        name: "perf_log",
        base: 0,
        columns: vec![
            column("log_id", Type::U64),
            column("begin_ts", Type::Millis),
            column("end_ts", Type::Millis),
            column("duration_ms", Type::U32),
            column("instance_name", Type::Text),
            column("proc_name", Type::Text),
            column("app_server", Type::Text),
            column("login_name", Type::Text),
            column("row_count", Type::U32),
            column("error_code", Type::I32),
            column("param_text", Type::Text),
        ],
        primary: vec![1, 0],
        indexes: vec![
            Index { name: "ix_proc", columns: vec![5, 1] },
            Index { name: "ix_inst", columns: vec![4, 1] },
            Index { name: "ix_dur", columns: vec![3, 1] },
        ],
    }
}

/// Names of the columns in DDL order.
fn column_names() -> Vec<&'static str> {
    table().columns.iter().map(|column| column.name).collect()
}

/// The `weblog` workload.
pub struct Load {
    spec: Spec,
    table: Table,
    sums: Vec<Checksum>,
    volume: Volume,
}

impl Load {
    /// Creates the workload.
    pub fn new(spec: &Spec) -> Self {
        let table = table();
        let sums = vec![Checksum::default(); table.indexes.len() + 1];
        Self { spec: spec.clone(), table, sums, volume: Volume::default() }
    }

    /// Creates the generator, positioned before its first row.
    fn log(&self) -> WebLog {
        let traffic = Traffic {
            rows_per_day: self.spec.rows as f64 / DAYS,
            daily_curve: true,
            instance_subsets: true,
            poll: self.spec.profile.poll(),
        };
        WebLog::new(self.spec.seed, traffic)
    }

    fn write(
        &self,
        meter: &Meter,
        target: &dyn Target,
        source: &Mutex<Source>,
        population: &population::Population,
    ) -> Result<(Vec<Checksum>, Volume)> {
        let (mut connection, mut client) =
            (target.connect(Clients::many(WRITERS))?, meter.client("commit"));
        let mut sums = vec![Checksum::default(); self.sums.len()];
        let (mut volume, mut calls) = (Volume::default(), Vec::new());
        let mut encoded = vec![EncodedRow::default(); ROWS_PER_COMMIT as usize];
        while client.go_on() {
            if !take(source, &mut calls) {
                break;
            }
            for (call, encoded) in calls.iter().zip(&mut encoded) {
                let row = columns(population, call);
                encoded.encode(&self.table, &row);
                encoded.add_to(&mut sums);
                volume.add(&self.table, &row);
            }
            client.time(calls.len() as u64, || {
                connection.begin(Begin::Batch)?;
                for (call, encoded) in calls.iter().zip(&encoded) {
                    connection.insert_row(&self.table, &columns(population, call), encoded)?;
                }
                connection.commit()
            })?;
        }
        Ok((sums, volume))
    }
}

/// The generator, and the number of rows still to come.
struct Source {
    log: WebLog,
    left: u64,
}

/// Replaces the calls of the last commit by those of the next; false if there are none.
fn take(source: &Mutex<Source>, calls: &mut Vec<Call>) -> bool {
    let mut source = source.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let n = source.left.min(ROWS_PER_COMMIT);
    source.left -= n;
    calls.drain(..).for_each(|call| source.log.give_back(call));
    calls.extend((0..n).map(|_| source.log.next_call()));
    n > 0
}

impl Workload for Load {
    fn table(&self) -> Table {
        self.table.clone()
    }

    fn unique(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let rows = self.spec.rows;
        let log = self.log();
        let population = log.population().clone();
        let source = Mutex::new(Source { log, left: rows });
        let mut written = Vec::new();
        let this = &*self;
        bench.step("weblog", "row", rows, None, |meter, target| {
            std::thread::scope(|scope| {
                let write = || this.write(meter, target, &source, &population);
                let writers = if this.spec.one_writer { 1 } else { WRITERS };
                let writers: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
                for writer in writers {
                    written.push(writer.join().expect("a panic of a writer ends the run")?);
                }
                let changed_bytes = written.iter().map(|(_, volume)| volume.changed_bytes).sum();
                Ok(Volume { changed_bytes, ..Volume::default() })
            })
        })?;
        for (sums, volume) in written {
            self.sums.iter_mut().zip(&sums).for_each(|(all, sum)| all.merge(sum));
            self.volume.changed_bytes += volume.changed_bytes;
            self.volume.live_bytes += volume.live_bytes;
            self.volume.live_bytes_indexed += volume.live_bytes_indexed;
        }
        Ok(())
    }

    fn expected(&self) -> Vec<Checksum> {
        self.sums.clone()
    }

    fn volume(&self) -> Volume {
        self.volume
    }

    fn yardstick(&self) -> Result<Option<Yardstick>> {
        let mut log = self.log();
        let population = log.population().clone();
        let (names, mut split) = (column_names(), ColumnSplit::new(PIECE_ROWS));
        for _ in 0..self.spec.rows {
            let call = log.next_call();
            split.add(&names, &columns(&population, &call))?;
            log.give_back(call);
        }
        let (table, without) = (self.table.name.to_owned(), LEFT_OUT.join(", "));
        Ok(split.finish()?.map(|b_row| Yardstick::ColumnSplit { table, b_row, without }))
    }
}
