//! Targets: the stores that a workload can run against. All work goes through one trait,
//! [`Connection`].
//!
//! Invariants
//! 1. A rival's settings are in one checked-in file with a reason per line, which the code reads.
//! 2. Durability means the same for every target: `Sync` survives power loss, `Os` survives the
//!    death of the process, and `Lazy` loses at most a second at the death of the process.
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

pub use connection::{Attempt, Begin, Clients, Connection, Direction, Entries, Span, Stop, Visit};
pub use registry::{TargetName, available, environment, open};

use std::path::PathBuf;

use crate::schema::Table;
use crate::size::Bytes;

#[cfg(test)]
mod tests;

/// An error of any of the lab's steps: a sentence for the user who started the run.
#[derive(Debug)]
pub struct Failure(pub String);

/// Result of the lab's functions.
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
    /// After the write to the kernel; synced each second.
    Os,
    /// After the append to the process's log buffer; written and synced each second.
    Lazy,
}

/// Parameters with which a target is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A directory of its own, empty.
    pub dir: PathBuf,
    /// Memory for everything: caches, write buffers, and the page cache if the store uses it.
    pub memory: Bytes,
    /// Write buffer of RocksDB, if not the default share.
    pub write_buffer: Option<Bytes>,
    /// Durability class.
    pub durability: Durability,
    /// The tables to create: a keyspace for the rows of each, and one for each index.
    pub tables: Vec<Table>,
    /// Whether absent keys are looked up in random order, for which Frond has unique trees.
    pub unique: bool,
    /// Whether there will be transactions of several calls.
    pub transactions: bool,
}

/// A number about the engine, with its unit in the name.
pub type Counter = (String, f64);

/// Size of a column of a table or index, or of what is stored in addition to the columns.
#[derive(Clone, PartialEq, Debug)]
pub struct PartSize {
    /// Keyspace: the name of the table or index.
    pub keyspace: String,
    /// Column.
    pub part: String,
    /// Raw bytes per row, as given; 0 for what is not part of a row.
    pub raw_b_row: f64,
    /// Stored bytes per row.
    pub b_row: f64,
    /// The encoding: the most frequent one, and how many others there are.
    pub encoding: String,
}

/// A store under test.
pub trait Target: Send + Sync {
    /// Returns the engine and its version.
    fn version(&self) -> String;
    /// Returns the settings in force, as shown in the report.
    fn settings(&self) -> Vec<(String, String)>;
    /// Opens a connection for the calling thread, which is one of `clients.count` clients.
    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>>;
    /// Writes out everything that is only in memory. Called when the bench starts to wait for
    /// background work.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    /// Rewrites everything into its smallest form. Returns false if the store cannot do this.
    fn compact(&self) -> Result<bool> {
        Ok(false)
    }
    /// Whether transactions lock the rows that they read for update, so that no commit meets a
    /// conflict.
    fn locks_rows(&self) -> bool {
        true
    }
    /// Whether a batch can delete a range of keys at a cost that does not depend on their number.
    fn deletes_ranges(&self) -> bool {
        false
    }
    /// Whether the store has a way of its own to fill an empty keyspace.
    fn bulk_loads(&self) -> bool {
        false
    }
    /// Returns the engine's counters: growing since the open, or current states.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
    /// Returns the size of each column on disk, for a store that keeps rows by column.
    fn parts(&self) -> Result<Vec<PartSize>> {
        Ok(Vec::new())
    }
    /// Whether rows that were put can be read back.
    fn keeps_rows(&self) -> bool {
        true
    }
    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}
