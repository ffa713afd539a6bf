//! Targets: the stores that a workload can be run against, behind one trait.
//!
//! Invariants
//! 1. A session's puts and deletes reach the store together, at `commit`, or not at all.
//! 2. A session reads what its last commit wrote.
//! 3. A rival's settings stand in one checked-in file with a reason per line, which the code reads.
//! 4. Durability means the same for every target (WORKLOADS §7.7): `Sync` survives power loss, `Os`
//!    the death of the process, `Lazy` loses at most a second at the death of the process.
//!
//! Threads: a target is shared, a session belongs to one thread.

mod frond;
pub mod library;
mod null;
mod registry;
mod settings;
#[allow(dead_code)] // unused where no rival is built in
mod ticker;
mod txn;

#[cfg(has_lmdb)]
mod lmdb;
#[cfg(has_rocksdb)]
mod rocksdb;
#[cfg(feature = "compare")]
pub mod sql;
#[cfg(has_sqlite3)]
mod sqlite;

pub use registry::{Share, TargetName, available, environment, open};
pub use txn::{Attempt, Begin, Clients, HeldSnapshot, Stop, Transactions};

use std::path::{Path, PathBuf};

use crate::results::PartSize;
use crate::schema::{EncodedRow, Keyspace, Table, Value};
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

/// When a commit is acknowledged (Invariant 4).
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
    /// The table to create: a keyspace of rows, and one for each index.
    pub table: Table,
    /// Whether absent keys are asked for in random order: Frond's unique trees.
    pub unique: bool,
    /// Whether transactions of many calls will be asked for.
    pub transactions: bool,
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
}

/// Sees one entry (key, value); false ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// A number about the engine, with its unit in the name.
pub type Counter = (String, f64);

/// A store under test.
pub trait Target: Send + Sync {
    /// Engine and version.
    fn version(&self) -> String;
    /// Effective settings, as printed in the report.
    fn settings(&self) -> Vec<(String, String)>;
    /// A session of its own for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
    /// Transactions for one thread of so many.
    fn transactions(&self, _clients: Clients) -> Result<Box<dyn Transactions + '_>> {
        Err(Failure(format!("{} has no transactions of many calls", self.version())))
    }
    /// Holds the store's present moment.
    fn hold_snapshot(&self) -> Result<Box<dyn HeldSnapshot + '_>> {
        Err(Failure(format!("{} has no snapshots to be held", self.version())))
    }
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
    /// The directory, below that of the target, whose bytes are the store's.
    fn counted_dir(&self, dir: &Path) -> PathBuf {
        dir.to_owned()
    }
    /// Whether it works in another process, so that CPU, memory and I/O of this one say nothing of it.
    fn is_outside(&self) -> bool {
        false
    }
    /// The process that does the work, if that is a server whose CPU, memory and I/O are to be measured.
    fn server(&self) -> Option<u32> {
        None
    }
    /// Whether what it was given can be read again.
    fn keeps_rows(&self) -> bool {
        true
    }
    /// Closes cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's way into a target.
pub trait Session {
    /// Adds a put to the batch.
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<()>;
    /// Adds a delete to the batch.
    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<()>;
    /// Commits the batch atomically.
    fn commit(&mut self) -> Result<()>;
    /// Reads a value into `value`; false if the key is absent.
    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Scans from `from` (inclusive; `None`: from the end where the direction begins).
    fn scan(
        &mut self,
        keyspace: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()>;

    /// Adds a row and its index entries to the batch. A store with columns of its own takes `row`.
    fn insert_row(
        &mut self,
        _table: &Table,
        _row: &[Value<'_>],
        as_bytes: &EncodedRow,
    ) -> Result<()> {
        self.put(0, &as_bytes.key, &as_bytes.value)?;
        for (index, key) in as_bytes.index_keys.iter().enumerate() {
            self.put(index + 1, key, &[])?;
        }
        Ok(())
    }

    /// Reads a keyspace in key order from the first key at or after `from`, given both as columns
    /// and as bytes; visits entries in their encoded form.
    fn range(
        &mut self,
        _table: &Table,
        keyspace: Keyspace,
        _from: &[Value<'_>],
        as_bytes: &[u8],
        _limit: u64,
        visit: Visit<'_>,
    ) -> Result<()> {
        self.scan(keyspace, Some(as_bytes), Direction::Forward, visit)
    }
}
