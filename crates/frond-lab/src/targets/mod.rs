//! Targets: the stores that a workload can be run against. All work is done through one trait, [`Connection`].
//!
//! Invariants
//! 1. A rival's settings stand in one checked-in file with a reason per line, which the code reads.
//! 2. Durability means the same for every target (WORKLOADS §7.7): `Sync` survives power loss, `Os`
//!    the death of the process, `Lazy` loses at most a second at the death of the process.
//!
//! Threads: a target is shared, a connection belongs to one thread.

mod connection;
mod frond;
pub mod library;
mod null;
mod registry;
mod settings;
#[allow(dead_code)] // unused where no rival is built in
mod ticker;

#[cfg(has_lmdb)]
mod lmdb;
#[cfg(has_rocksdb)]
mod rocksdb;
#[cfg(has_sqlite3)]
mod sqlite;
#[cfg(feature = "tidesdb")]
mod tidesdb;

pub use connection::{Attempt, Begin, Clients, Connection, Direction, Span, Stop, Visit};
pub use registry::{Share, TargetName, available, environment, open};

use std::path::PathBuf;

use crate::results::PartSize;
use crate::schema::Table;
use crate::size::Bytes;

/// What any of the lab's steps may fail with: a sentence for the person who started the run.
#[derive(Debug)]
pub struct Failure(pub String);

/// Result of the lab.
pub type Result<T> = std::result::Result<T, Failure>;

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("results: {error}"))
    }
}

/// When a commit is acknowledged (Invariant 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Durability {
    /// After a sync: survives power loss.
    Sync,
    /// After the kernel has it; synced each second.
    Os,
    /// After it is in the process's log buffer; written and synced each second.
    Lazy,
}

/// What a target is opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its own directory, empty.
    pub dir: PathBuf,
    /// Memory for everything (WORKLOADS §8.2).
    pub memory: Bytes,
    /// Write buffer of RocksDB, if not the default share.
    pub write_buffer: Option<Bytes>,
    /// Durability class.
    pub durability: Durability,
    /// The tables to create: each a keyspace of rows, and one for each index.
    pub tables: Vec<Table>,
    /// Whether absent keys are asked for in random order: Frond's unique trees.
    pub unique: bool,
    /// Whether transactions of many calls will be asked for.
    pub transactions: bool,
}

/// A number about the engine, with its unit in the name.
pub type Counter = (String, f64);

/// A store under test.
pub trait Target: Send + Sync {
    /// Engine and version.
    fn version(&self) -> String;
    /// Effective settings, as printed in the report.
    fn settings(&self) -> Vec<(String, String)>;
    /// A connection for the calling thread, which is one of so many clients.
    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>>;
    /// Asks the store to write out what waits in memory; called when the quiesce begins.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    /// Rewrites everything into its smallest form, if the store has such an act.
    fn compact(&self) -> Result<bool> {
        Ok(false)
    }
    /// Engine counters, growing since open, or states now.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
    /// What each column takes on disk, in a store that keeps rows by part.
    fn parts(&self) -> Result<Vec<PartSize>> {
        Ok(Vec::new())
    }
    /// Whether what it was given can be read again.
    fn keeps_rows(&self) -> bool {
        true
    }
    /// Closes cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}
