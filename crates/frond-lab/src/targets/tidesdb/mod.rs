//! TidesDB as a target: keyspaces are column families, and all work is done in its transactions.
//!
//! Invariants
//! 1. `Sync` syncs each commit; `Os` is its interval mode; for `Lazy` a thread of the lab syncs its
//!    log each second.
//! 2. Transactions that write run at its level `Snapshot`: if two write the same key, the second
//!    fails at its commit and is run again. There are no locks.
//!
//! Threads: the database is thread-safe by its contract; a transaction belongs to one client.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, Config, Error, IsolationLevel,
    LogLevel, SyncMode, TidesDB, Transaction,
};

use super::ticker::Ticker;
use super::{
    Attempt, Begin, Clients, Connection, Counter, Direction, Durability, Failure, Result, Setup,
    Stop, Target, Visit, settings,
};
use crate::schema::{Keyspace, Table};

const SETTINGS: &str = include_str!("tidesdb.settings.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    memtable_share: f64,
    block_cache_share: f64,
    queue_stall_threshold: i32,
    flush_threads: i32,
    compaction_threads: i32,
    compression: String,
    bloom_fpr: f64,
    sync_interval_us: u64,
    max_open_sstables: usize,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("tidesdb: {error}"))
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.is_conflict() {
            true => Self::Conflict,
            false => Self::Failed(error.into()),
        }
    }
}

/// TidesDB under test.
pub struct Tides {
    db: Arc<TidesDB>,
    families: Vec<String>,
    durability: Durability,
    ticker: Option<Ticker>,
    sizes: [(&'static str, usize); 2],
}

fn compression(name: &str) -> Result<CompressionAlgorithm> {
    let algorithm = match name {
        "none" => CompressionAlgorithm::None,
        "lz4" => CompressionAlgorithm::Lz4,
        "zstd" => CompressionAlgorithm::Zstd,
        _ => {
            return Err(Failure(format!("tidesdb.settings.toml: unknown compression `{name}`")));
        }
    };
    match algorithm.is_available() {
        true => Ok(algorithm),
        false => Err(Failure(format!("tidesdb was built without {name}"))),
    }
}

impl Tides {
    /// Opens a fresh store.
    pub fn open(setup: &Setup) -> Result<Self> {
        let own: Settings = settings::parse("tidesdb.settings.toml", SETTINGS)?;
        let share = |share: f64| (setup.memory.0 as f64 * share) as usize;
        let (memtable, cache) = (share(own.memtable_share), share(own.block_cache_share));
        let mode = match setup.durability {
            Durability::Sync => SyncMode::Full,
            Durability::Os => SyncMode::Interval,
            Durability::Lazy => SyncMode::None,
        };
        let config = Config::new(path_of(&setup.dir))
            .num_flush_threads(own.flush_threads)
            .num_compaction_threads(own.compaction_threads)
            .log_level(LogLevel::None)
            .block_cache_size(cache)
            .max_open_sstables(own.max_open_sstables)
            .memtable_write_buffer_size(memtable)
            .memtable_l0_queue_stall_threshold(own.queue_stall_threshold)
            .memtable_sync_mode(mode)
            .memtable_sync_interval_us(own.sync_interval_us);
        let db = Arc::new(TidesDB::open(config)?);
        let families: Vec<String> = setup.tables.iter().flat_map(Table::keyspaces).collect();
        let algorithm = compression(&own.compression)?;
        for family in &families {
            let config = ColumnFamilyConfig::new()
                .compression_algorithm(algorithm)
                .enable_bloom_filter(true)
                .bloom_fpr(own.bloom_fpr);
            db.create_column_family(family, config)?;
        }
        let ticker = (setup.durability == Durability::Lazy).then(|| {
            let db = Arc::clone(&db);
            Ticker::each_second(move || Ok(db.sync_wal()?))
        });
        let sizes = [("memtable_b", memtable), ("block_cache_b", cache)];
        Ok(Self { db, families, durability: setup.durability, ticker, sizes })
    }
}

/// Returns the directory of its files, which TidesDB creates below that of the target.
fn path_of(dir: &Path) -> std::path::PathBuf {
    dir.join("tides")
}

impl Target for Tides {
    fn version(&self) -> String {
        format!("TidesDB {}", tidesdb::TIDESDB_VERSION)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = settings::pairs(SETTINGS);
        pairs.extend(self.sizes.map(|(name, bytes)| (name.to_owned(), bytes.to_string())));
        pairs
    }

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        if clients.durability.is_some_and(|durability| durability != self.durability) {
            return Err(Failure("tidesdb has the same durability for all commits".to_owned()));
        }
        let families = self.families.iter().map(|name| self.db.get_column_family(name));
        Ok(Box::new(TidesConnection {
            txn: self.db.begin_transaction()?,
            families: families.collect::<std::result::Result<_, _>>()?,
            is_open: false,
        }))
    }

    fn locks_rows(&self) -> bool {
        false
    }

    fn deletes_ranges(&self) -> bool {
        true
    }

    fn settle(&self) -> Result<()> {
        self.ticker.as_ref().map_or(Ok(()), Ticker::check)?;
        Ok(self.db.flush_memtable()?)
    }

    fn counters(&self) -> Vec<Counter> {
        let Ok(stats) = self.db.get_db_stats() else { return Vec::new() };
        [
            ("memtables_b", stats.memtable_bytes as f64),
            ("sstables_now", f64::from(stats.total_sstable_count)),
            ("txn_conflicts", stats.txn_conflicts as f64),
            ("wal_written_b_all", stats.wal_bytes_written as f64),
            ("flush_written_b_all", stats.flush_bytes_written as f64),
            ("compaction_written_b_all", stats.compaction_bytes_written as f64),
            ("write_stall_s", stats.write_stall_us as f64 / 1e6),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.ticker.take().map_or(Ok(()), Ticker::stop)?;
        Ok(self.db.sync_wal()?)
    }
}

/// The connection of one client.
struct TidesConnection<'a> {
    /// Reused for each transaction, and for reads outside of one.
    txn: Transaction<'a>,
    families: Vec<ColumnFamily<'a>>,
    is_open: bool,
}

impl TidesConnection<'_> {
    /// Makes reads see what was committed last, if there is no current transaction.
    fn refresh(&mut self) -> Attempt<()> {
        if !self.is_open {
            self.txn.reset(IsolationLevel::ReadCommitted)?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
        is_tracked: bool,
    ) -> Attempt<bool> {
        value.clear();
        let family = &self.families[keyspace];
        let found = match is_tracked {
            true => self.txn.get(family, key),
            false => self.txn.get_notrack(family, key),
        };
        match found {
            Ok(bytes) => *value = bytes,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

impl Connection for TidesConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        self.txn.reset(match what {
            // Blind writes do not conflict.
            Begin::Batch => IsolationLevel::ReadCommitted,
            Begin::Read | Begin::Write => IsolationLevel::Snapshot,
        })?;
        self.is_open = true;
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        self.refresh()?;
        self.read(keyspace, key, value, false)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.read(keyspace, key, value, true)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        Ok(self.txn.put(&self.families[keyspace], key, value)?)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        Ok(self.txn.delete(&self.families[keyspace], key)?)
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: Range<&[u8]>) -> Attempt<()> {
        Ok(self.txn.delete_range(&self.families[keyspace], range.start, Some(range.end))?)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        self.refresh()?;
        let mut iter = self.txn.new_iterator(&self.families[keyspace])?;
        match (direction, from, to) {
            (Direction::Forward, Some(key), _) => iter.seek(key)?,
            (Direction::Forward, None, _) => iter.seek_to_first()?,
            (Direction::Reverse, _, Some(key)) => iter.seek_for_prev(key)?,
            (Direction::Reverse, _, None) => iter.seek_to_last()?,
        }
        while iter.is_valid() {
            let (key, value) = iter.key_value()?;
            let is_past = match direction {
                Direction::Forward => to.is_some_and(|to| &key[..] >= to),
                Direction::Reverse => from.is_some_and(|from| &key[..] < from),
            };
            // The upper bound is exclusive, but a descending scan may start at it.
            let is_bound = direction == Direction::Reverse && to == Some(&key[..]);
            if is_past || (!is_bound && !visit(&key, &value)) {
                break;
            }
            match direction {
                Direction::Forward => iter.next()?,
                Direction::Reverse => iter.prev()?,
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        if std::mem::take(&mut self.is_open) {
            self.txn.commit()?;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.txn.rollback()?;
        }
        Ok(())
    }
}
