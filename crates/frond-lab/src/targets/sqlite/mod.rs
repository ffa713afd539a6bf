//! SQLite as a target: the real table with its indexes, prepared statements, one transaction per
//! commit.
//!
//! Invariants
//! 1. Rows are stored as columns; scans return them in the lab's encoding, so that checksums agree.
//! 2. Connections are kept between steps: closing a connection would discard its cache.
//!
//! Threads: one connection per client.

mod connection;
mod statements;

use std::path::PathBuf;
use std::sync::Mutex;

use rusqlite::Connection as Handle;
use serde::Deserialize;

use super::{Clients, Connection, Durability, Result, Setup, Target, settings};
use crate::schema::{Keyspace, Table};
use connection::SqliteConnection;
use statements::Statements;

const SETTINGS: &str = include_str!("sqlite.settings.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    cache_share: f64,
    page_bytes: u64,
    journal_mode: String,
    wal_autocheckpoint_pages: u64,
    sync_sync: String,
    sync_os: String,
    sync_lazy: String,
    mmap_bytes: u64,
    temp_store: String,
    busy_timeout_ms: u64,
}

/// Writes the log into the database.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// SQLite under test.
pub struct Sqlite {
    path: PathBuf,
    tables: Vec<Table>,
    /// The statements of each table.
    statements: Vec<Statements>,
    /// Pragmas that are run on every connection.
    pragmas: Vec<String>,
    /// The store's durability class, and the value of `synchronous` for each class.
    durability: Durability,
    synchronous: [String; 3],
    cache_kib: u64,
    idle: Mutex<Vec<Handle>>,
}

impl Sqlite {
    /// Opens a fresh database.
    pub fn open(setup: &Setup) -> Result<Self> {
        let settings: Settings = settings::parse("sqlite.settings.toml", SETTINGS)?;
        let synchronous = [settings.sync_sync, settings.sync_os, settings.sync_lazy];
        let pragmas = vec![
            format!("PRAGMA page_size={}", settings.page_bytes),
            format!("PRAGMA busy_timeout={}", settings.busy_timeout_ms),
            format!("PRAGMA journal_mode={}", settings.journal_mode),
            format!("PRAGMA synchronous={}", synchronous[setup.durability as usize]),
            format!("PRAGMA wal_autocheckpoint={}", settings.wal_autocheckpoint_pages),
            format!("PRAGMA mmap_size={}", settings.mmap_bytes),
            format!("PRAGMA temp_store={}", settings.temp_store),
        ];
        let sqlite = Self {
            path: setup.dir.join("store.sqlite"),
            statements: setup.tables.iter().map(Statements::new).collect(),
            tables: setup.tables.clone(),
            pragmas,
            durability: setup.durability,
            synchronous,
            cache_kib: (setup.memory.0 as f64 * settings.cache_share / 1024.0) as u64,
            idle: Mutex::new(Vec::new()),
        };
        let first = sqlite.open_handle(sqlite.cache_kib)?;
        for sql in sqlite.tables.iter().flat_map(statements::ddl) {
            first.execute_batch(&sql)?;
        }
        sqlite.give_back(first);
        Ok(sqlite)
    }

    fn open_handle(&self, cache_kib: u64) -> Result<Handle> {
        let handle = Handle::open(&self.path)?;
        for pragma in &self.pragmas {
            handle.execute_batch(pragma)?;
        }
        handle.execute_batch(&format!("PRAGMA cache_size=-{cache_kib}"))?;
        Ok(handle)
    }

    fn give_back(&self, handle: Handle) {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(handle);
    }

    fn take_idle(&self) -> Option<Handle> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop()
    }

    /// Returns true if no other connection is idle; the memory of idle connections counts too.
    /// Otherwise, returns the result of `otherwise`.
    fn is_alone_or(&self, otherwise: impl FnOnce() -> bool) -> bool {
        let is_alone = self.idle.lock().unwrap_or_else(|e| e.into_inner()).is_empty();
        is_alone || otherwise()
    }

    fn set_durability(&self, handle: &Handle, durability: Durability) -> Result<()> {
        let synchronous = &self.synchronous[durability as usize];
        Ok(handle.execute_batch(&format!("PRAGMA synchronous={synchronous}"))?)
    }

    /// Returns the statements of the table with this keyspace.
    fn statements(&self, base: Keyspace) -> &Statements {
        let at = self.tables.iter().position(|table| table.base == base);
        &self.statements[at.unwrap_or(0)]
    }
}

impl Target for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = settings::pairs(SETTINGS);
        pairs.push(("cache_kib".to_owned(), self.cache_kib.to_string()));
        pairs
    }

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(SqliteConnection::new(self, clients)?))
    }

    fn bulk_loads(&self) -> bool {
        true
    }

    fn settle(&self) -> Result<()> {
        let idle = self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        idle.last().map_or(Ok(()), |handle| Ok(handle.execute_batch(CHECKPOINT)?))
    }

    fn compact(&self) -> Result<bool> {
        let handle = self.open_handle(self.cache_kib / 8)?;
        // The packed copy is as large as the data, so it must not be in memory, whatever
        // `temp_store` is for other tables.
        handle.execute_batch("PRAGMA temp_store=FILE")?;
        handle.execute_batch("VACUUM")?;
        handle.execute_batch(CHECKPOINT)?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()
    }
}
