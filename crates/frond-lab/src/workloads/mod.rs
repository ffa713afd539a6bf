//! Workloads: what is written and read, and in which order.
//!
//! Invariants
//! 1. A workload accesses its targets only through `Connection`: all get the same rows in the same
//!    order.
//! 2. A workload keeps the checksum that every keyspace must have at the end; the verification pass
//!    compares it.
//!
//! Threads: `run` is called on the child's main thread; steps with several clients spawn scoped
//! threads.

mod bench;
mod dbbench;
pub mod iibench;
pub mod linktable;
pub mod load;
pub mod packages;
mod queue;
pub mod sbtest;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod txn;
pub mod weblog;

pub use bench::{Bench, Rest};
pub use txn::Phase;
pub use weblog::Profile;

use std::path::PathBuf;

use crate::results::Yardstick;
use crate::schema::{Checksum, Index, Table, Value};
use crate::targets::{Durability, Result};

/// Parameters of a workload.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Rows to load.
    pub rows: u64,
    /// Seed of all streams.
    pub seed: u64,
    /// Key and value sizes of the db_bench workloads.
    pub shape: Shape,
    /// Number of reader threads, in workloads with several.
    pub threads: u64,
    /// Duration of a timed step, seconds.
    pub seconds: u64,
    /// How long to hold a snapshot, seconds, if not the default time.
    pub held: Option<u64>,
    /// Queries per second concurrently with a load; 0 means no limit.
    pub query_rate: f64,
    /// How repetitive the web log is.
    pub profile: Profile,
    /// Durability class.
    pub durability: Durability,
    /// Whether loads use one writer, so that every target gets the rows in the same order.
    pub one_writer: bool,
    /// Path of the list of packages: control paragraphs.
    pub packages: PathBuf,
    /// Numbers of clients that run transactions, one step for each.
    pub clients: Vec<u64>,
    /// Phases of the transactions.
    pub phases: Vec<Phase>,
}

/// Key and value sizes of the db_bench workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Shape {
    /// 16-byte keys, 100-byte values: the tool's defaults.
    Classic,
    /// 20-byte keys, 400-byte values: its benchmark script.
    Script,
}

/// Logical bytes that a step changed or left alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volume {
    /// Bytes of the changed rows, without index entries.
    pub changed_bytes: u64,
    /// Bytes of the rows alive at the end, primary data once.
    pub live_bytes: u64,
    /// Bytes of the rows alive at the end, with each index entry.
    pub live_bytes_indexed: u64,
}

impl Volume {
    /// Adds an inserted row.
    pub fn add(&mut self, table: &Table, row: &[Value<'_>]) {
        let bytes: u64 = row.iter().map(Value::logical_bytes).sum();
        let of = |columns: &[usize]| columns.iter().map(|&c| row[c].logical_bytes()).sum::<u64>();
        let entry = |index: &Index| of(&table.primary) + of(&index.columns);
        self.changed_bytes += bytes;
        self.live_bytes += bytes;
        self.live_bytes_indexed += bytes + table.indexes.iter().map(entry).sum::<u64>();
    }
}

/// A workload that can run against any target.
pub trait Workload {
    /// Returns its table.
    fn table(&self) -> Table;
    /// Whether absent keys are looked up in random order, so that filters pay off.
    fn unique(&self) -> bool;
    /// Whether it runs transactions of many calls.
    fn has_transactions(&self) -> bool {
        false
    }
    /// Whether every target that finishes holds the same rows at the end; otherwise each gets as
    /// many changes as it can take in the time.
    fn is_fixed(&self) -> bool {
        true
    }
    /// Runs the steps.
    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()>;
    /// Returns the checksums that the keyspaces must have now.
    fn expected(&self) -> Vec<Checksum>;
    /// Returns the logical bytes alive.
    fn volume(&self) -> Volume;
    /// Returns what is known of the size of its rows in any store, where that is useful. May
    /// generate all rows again.
    fn yardstick(&self) -> Result<Option<Yardstick>> {
        Ok(None)
    }
}

/// Names of the workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum Name {
    /// Insert in primary-key order with three random secondary indexes (iibench-2011).
    Iibench,
    /// Insert like `iibench` while a client queries all four orders.
    IibenchQuery,
    /// Insert log rows with long strings and three indexes, two writers.
    Weblog,
    /// Load sysbench's table and its index, rows in order.
    Sbtest,
    /// Load LinkBench's links in the order of its loader, no index.
    Linktable,
    /// Descriptions of Debian packages: real text (--packages).
    Packages,
    /// Put ascending keys.
    Fillseq,
    /// Put uniformly random keys.
    Fillrandom,
    /// Fillrandom, then put existing keys again.
    Overwrite,
    /// Fillrandom, then get existing keys.
    Readrandom,
    /// Fillrandom, then get absent keys.
    Readmissing,
    /// Fillrandom, then scan everything forwards.
    Readseq,
    /// Fillrandom, then scan everything backwards.
    Readreverse,
    /// Fillrandom, then seek and read ten rows.
    Seekrandom,
    /// Fillrandom, then get while one thread writes.
    Readwhilewriting,
    /// Put at the right end, delete at the left end, read the first row.
    Queue,
    /// Transactions of one row, and LinkBench's mix, with growing numbers of clients (--clients,
    /// --phases).
    Txn,
}

/// Creates the workload `name`.
pub fn make(name: Name, spec: &Spec) -> Result<Box<dyn Workload>> {
    Ok(match name {
        Name::Iibench => Box::new(iibench::Iibench::new(spec, false)),
        Name::IibenchQuery => Box::new(iibench::Iibench::new(spec, true)),
        Name::Weblog => Box::new(weblog::Load::new(spec)),
        Name::Sbtest => Box::new(load::Load::new(spec, sbtest::Sbtest::new(spec.seed, spec.rows))),
        Name::Linktable => {
            Box::new(load::Load::new(spec, linktable::LinkTable::new(spec.seed, spec.rows)))
        }
        Name::Packages => {
            let packages = packages::Packages::read(&spec.packages)?;
            let rows = spec.rows.min(packages.len());
            Box::new(load::Load::new(&Spec { rows, ..spec.clone() }, packages))
        }
        Name::Queue => Box::new(queue::Queue::new(spec)),
        Name::Txn => Box::new(txn::Txn::new(spec)),
        Name::Fillseq => Box::new(dbbench::DbBench::new(spec, dbbench::Test::FillSeq)),
        Name::Fillrandom => Box::new(dbbench::DbBench::new(spec, dbbench::Test::FillRandom)),
        Name::Overwrite => Box::new(dbbench::DbBench::new(spec, dbbench::Test::Overwrite)),
        Name::Readrandom => Box::new(dbbench::DbBench::new(spec, dbbench::Test::ReadRandom)),
        Name::Readmissing => Box::new(dbbench::DbBench::new(spec, dbbench::Test::ReadMissing)),
        Name::Readseq => Box::new(dbbench::DbBench::new(spec, dbbench::Test::ReadSeq)),
        Name::Readreverse => Box::new(dbbench::DbBench::new(spec, dbbench::Test::ReadReverse)),
        Name::Seekrandom => Box::new(dbbench::DbBench::new(spec, dbbench::Test::SeekRandom)),
        Name::Readwhilewriting => {
            Box::new(dbbench::DbBench::new(spec, dbbench::Test::ReadWhileWriting))
        }
    })
}
