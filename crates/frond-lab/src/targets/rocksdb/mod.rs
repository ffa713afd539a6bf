//! RocksDB as a target: keyspaces are column families, a batch is a write batch. For transactions
//! of several calls it is opened as `TransactionDB`.
//!
//! Invariants
//! 1. Block cache + write buffers = M; index and filter blocks are in the cache; I/O is direct.
//! 2. `Lazy` is manual WAL flush with `FlushWAL` and a sync each second; `Os` writes the WAL at
//!    each commit and syncs it each second; `Sync` syncs each commit.
//!
//! Threads: the database handle is thread-safe by RocksDB's contract; batches and iterators belong
//! to one client.

mod connection;
mod database;
mod ffi;
mod ingest;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;

use libc::{c_char, c_int};
use serde::Deserialize;

use self::connection::RocksConnection;
use self::database::{Handle, Opened, Opening};
use super::ticker::Ticker;
use super::{Clients, Connection, Counter, Durability, Failure, Result, Setup, Target, settings};
use crate::schema::Table;
use crate::size::Bytes;

const SETTINGS: &str = include_str!("rocksdb.settings.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    glibc_tunables: String,
    write_buffer_share: f64,
    block_bytes: usize,
    bloom_bits_per_key: f64,
    cache_index_and_filter_blocks: bool,
    pin_l0_filter_and_index_blocks: bool,
    format_version: c_int,
    compression: String,
    bottommost_compression: String,
    max_background_jobs: c_int,
    level_compaction_dynamic_level_bytes: bool,
    level_base_write_buffers: f64,
    target_file_base_mib: u64,
    max_write_buffer_number: c_int,
    use_direct_reads: bool,
    use_direct_io_for_flush_and_compaction: bool,
    compaction_readahead_kib: usize,
    bytes_per_sync_kib: u64,
    max_open_files: c_int,
    lock_timeout_ms: i64,
}

/// Converts RocksDB's error message into an error of the lab, and frees it.
fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so by c.h it is a malloc'ed zero-terminated string that we own.
    let text = unsafe { CStr::from_ptr(error).to_string_lossy().into_owned() };
    // SAFETY: as above; freed once.
    unsafe { ffi::rocksdb_free(error.cast()) };
    Err(Failure(format!("rocksdb: {text}")))
}

/// RocksDB under test.
pub struct RocksDb {
    handle: Arc<Handle>,
    ticker: Option<Ticker>,
    durability: Durability,
    cache: Bytes,
    write_buffer: Bytes,
}

impl RocksDb {
    /// Returns environment variables for its process, which must be set before the first malloc.
    pub fn environment() -> Result<[(&'static str, String); 1]> {
        let settings: Settings = settings::parse("rocksdb.settings.toml", SETTINGS)?;
        Ok([("GLIBC_TUNABLES", settings.glibc_tunables)])
    }

    /// Opens a fresh database.
    pub fn open(setup: &Setup) -> Result<Self> {
        let settings: Settings = settings::parse("rocksdb.settings.toml", SETTINGS)?;
        let write_buffer = setup
            .write_buffer
            .unwrap_or(Bytes((setup.memory.0 as f64 * settings.write_buffer_share) as u64));
        let cache = Bytes(setup.memory.0.saturating_sub(write_buffer.0).max(1 << 20));
        let handle = open(setup, &settings, cache, write_buffer)?;
        let handle = Arc::new(handle);
        let ticker = (setup.durability != Durability::Sync).then(|| {
            let handle = Arc::clone(&handle);
            Ticker::each_second(move || handle.flush_wal())
        });
        Ok(Self { handle, ticker, durability: setup.durability, cache, write_buffer })
    }
}

fn compression(name: &str) -> Result<c_int> {
    match name {
        "none" => Ok(0),
        "lz4" => Ok(4),
        "zstd" => Ok(7),
        _ => Err(Failure(format!("rocksdb.settings.toml: unknown compression `{name}`"))),
    }
}

fn open(setup: &Setup, settings: &Settings, cache: Bytes, buffer: Bytes) -> Result<Handle> {
    let [upper, bottom] =
        [compression(&settings.compression)?, compression(&settings.bottommost_compression)?];
    let names = setup.tables.iter().flat_map(Table::keyspaces);
    let mut names: Vec<CString> =
        names.map(CString::new).collect::<std::result::Result<_, _>>().map_err(path_error)?;
    // The default family must be opened too; it stays empty.
    names.push(c"default".to_owned());
    let path = CString::new(setup.dir.as_os_str().as_bytes()).map_err(path_error)?;
    let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut families = vec![ptr::null_mut(); names.len()];
    let mut error = ptr::null_mut();
    // SAFETY: every pointer passed comes from the matching create call or from a CString or Vec
    // that outlives the call; the table factory and the options keep their own references to the
    // cache and the filter (c.h: set_filter_policy takes ownership).
    let (opened, lru, options) = unsafe {
        let lru = ffi::rocksdb_cache_create_lru(cache.0 as usize);
        let table = ffi::rocksdb_block_based_options_create();
        ffi::rocksdb_block_based_options_set_block_cache(table, lru);
        ffi::rocksdb_block_based_options_set_block_size(table, settings.block_bytes);
        let filter = ffi::rocksdb_filterpolicy_create_bloom_full(settings.bloom_bits_per_key);
        ffi::rocksdb_block_based_options_set_filter_policy(table, filter);
        ffi::rocksdb_block_based_options_set_format_version(table, settings.format_version);
        ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(
            table,
            settings.cache_index_and_filter_blocks.into(),
        );
        ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
            table,
            settings.pin_l0_filter_and_index_blocks.into(),
        );
        let options = ffi::rocksdb_options_create();
        ffi::rocksdb_options_set_create_if_missing(options, 1);
        ffi::rocksdb_options_set_create_missing_column_families(options, 1);
        ffi::rocksdb_options_set_db_write_buffer_size(options, buffer.0 as usize);
        ffi::rocksdb_options_set_write_buffer_size(options, buffer.0 as usize);
        ffi::rocksdb_options_set_max_write_buffer_number(options, settings.max_write_buffer_number);
        ffi::rocksdb_options_set_max_background_jobs(options, settings.max_background_jobs);
        ffi::rocksdb_options_set_max_open_files(options, settings.max_open_files);
        ffi::rocksdb_options_set_compression(options, upper);
        ffi::rocksdb_options_set_bottommost_compression(options, bottom);
        ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(
            options,
            settings.level_compaction_dynamic_level_bytes.into(),
        );
        let base = (buffer.0 as f64 * settings.level_base_write_buffers) as u64;
        ffi::rocksdb_options_set_max_bytes_for_level_base(options, base);
        ffi::rocksdb_options_set_target_file_size_base(
            options,
            settings.target_file_base_mib << 20,
        );
        ffi::rocksdb_options_set_use_direct_reads(options, settings.use_direct_reads.into());
        ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(
            options,
            settings.use_direct_io_for_flush_and_compaction.into(),
        );
        ffi::rocksdb_options_compaction_readahead_size(
            options,
            settings.compaction_readahead_kib << 10,
        );
        ffi::rocksdb_options_set_wal_bytes_per_sync(options, settings.bytes_per_sync_kib << 10);
        let manual = setup.durability == Durability::Lazy;
        ffi::rocksdb_options_set_manual_wal_flush(options, manual.into());
        ffi::rocksdb_options_set_block_based_table_factory(options, table);
        let opening = Opening {
            options,
            path: &path,
            names: &pointers,
            lock_timeout_ms: setup.transactions.then_some(settings.lock_timeout_ms),
        };
        let opened = database::open(&opening, &mut families, &mut error);
        ffi::rocksdb_block_based_options_destroy(table);
        (opened, lru, options)
    };
    check(error)?;
    let (dir, table_bytes) = (setup.dir.clone(), settings.target_file_base_mib << 20);
    Ok(Handle { opened, families, cache: lru, options, dir, table_bytes })
}

fn path_error(error: std::ffi::NulError) -> Failure {
    Failure(format!("rocksdb: {error}"))
}

impl Target for RocksDb {
    fn version(&self) -> String {
        match self.handle.opened {
            Opened::Plain(_) => "RocksDB 7.8".to_owned(),
            Opened::Transactions(_) => "RocksDB 7.8 TransactionDB".to_owned(),
        }
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = settings::pairs(SETTINGS);
        pairs.push(("block_cache_b".to_owned(), self.cache.0.to_string()));
        pairs.push(("db_write_buffer_b".to_owned(), self.write_buffer.0.to_string()));
        pairs
    }

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        let durability = clients.durability.unwrap_or(self.durability);
        Ok(Box::new(RocksConnection::new(&self.handle, durability)))
    }

    fn deletes_ranges(&self) -> bool {
        matches!(self.handle.opened, Opened::Plain(_))
    }

    fn bulk_loads(&self) -> bool {
        matches!(self.handle.opened, Opened::Plain(_))
    }

    fn settle(&self) -> Result<()> {
        self.ticker.as_ref().map_or(Ok(()), |ticker| ticker.check())?;
        self.handle.families.iter().try_for_each(|&family| self.handle.flush(family))
    }

    fn compact(&self) -> Result<bool> {
        Ok(self.handle.families.iter().all(|&family| self.handle.compact(family)))
    }

    fn counters(&self) -> Vec<Counter> {
        let handle = &self.handle;
        let properties = [
            ("memtables_b", c"rocksdb.cur-size-all-mem-tables"),
            ("debt_b", c"rocksdb.estimate-pending-compaction-bytes"),
            ("tables_b", c"rocksdb.total-sst-files-size"),
            ("level0_files", c"rocksdb.num-files-at-level0"),
        ];
        let told = |(name, of): &(&str, &CStr)| Some((str::to_owned(name), handle.property(of)?));
        let mut counters: Vec<Counter> = properties.iter().filter_map(told).collect();
        // SAFETY: the cache lives as long as the handle.
        let usage = unsafe { ffi::rocksdb_cache_get_usage(handle.cache) };
        counters.push(("cache_b".to_owned(), usage as f64));
        let text = handle.stats_text();
        if let Some(line) = text.lines().find(|line| line.starts_with("Cumulative WAL:")) {
            let syncs = line.split(',').nth(1).and_then(|part| quantity(part.trim()));
            counters.extend(syncs.map(|n| ("wal_syncs".to_owned(), n)));
        }
        if let Some(line) = text.lines().find(|line| line.starts_with("Cumulative stall:")) {
            let mut parts = line.trim_start_matches("Cumulative stall:").trim().split([':', ' ']);
            let mut number =
                || parts.next().and_then(|part| part.parse::<f64>().ok()).unwrap_or(0.0);
            let seconds = number() * 3600.0 + number() * 60.0 + number();
            counters.push(("write_stall_s".to_owned(), seconds));
        }
        counters
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let last = self.ticker.take().map_or(Ok(()), Ticker::stop);
        last.and_then(|()| self.handle.flush_wal())
    }
}

/// Parses a quantity: "12K syncs" is 12000.
fn quantity(text: &str) -> Option<f64> {
    let word = text.split(' ').next()?;
    let (digits, scale) = match word.chars().last()? {
        'K' => (&word[..word.len() - 1], 1e3),
        'M' => (&word[..word.len() - 1], 1e6),
        'G' => (&word[..word.len() - 1], 1e9),
        _ => (word, 1.0),
    };
    digits.parse::<f64>().ok().map(|n| n * scale)
}
