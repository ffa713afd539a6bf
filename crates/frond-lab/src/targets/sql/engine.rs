//! The engines of a server: how each is configured for its share of memory and its durability, and where its files are.
//!
//! Invariants
//! 1. Each engine's cache is the memory of the run, memtables within it; InnoDB's pool, which the server always has, is then
//!    as small as it goes.
//! 2. Frond runs with its defaults, memory and durability.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::server::{PLUGINS, Plugin};
use crate::targets::registry::{Engine, Pages};
use crate::targets::{Durability, Failure, Result, Setup, settings};

pub const SETTINGS: &str = include_str!("sql.settings.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub character_set: String,
    pub collation: String,
    pub key_text_chars: u32,
    idle_pool_bytes: u64,
    innodb_flush_log_sync: u8,
    innodb_flush_log_os: u8,
    innodb_flush_log_lazy: u8,
    innodb_log_file_bytes: u64,
    innodb_flush_method: String,
    innodb_compression_level: u8,
    rocksdb_flush_log_sync: u8,
    rocksdb_flush_log_os: u8,
    rocksdb_flush_log_lazy: u8,
    rocksdb_write_buffer_share: f64,
    rocksdb_write_buffers: u64,
    rocksdb_level_base_write_buffers: f64,
    rocksdb_compaction_readahead_bytes: u64,
    rocksdb_wal_bytes_per_sync: u64,
    rocksdb_max_background_jobs: u64,
    rocksdb_use_direct_reads: bool,
    rocksdb_use_direct_io_for_flush_and_compaction: bool,
    rocksdb_table_options: String,
    rocksdb_column_family_options: String,
}

impl Settings {
    pub fn read() -> Result<Self> {
        settings::parse("sql.settings.toml", SETTINGS)
    }
}

/// An option of the server, without dashes.
pub type ServerOption = (&'static str, String);

fn on(yes: bool) -> String {
    if yes { "ON" } else { "OFF" }.to_owned()
}

impl Engine {
    /// What CREATE TABLE ends with.
    pub fn table_options(self) -> String {
        match self {
            Self::Blackhole => "ENGINE=BLACKHOLE".to_owned(),
            Self::Frond => "ENGINE=FROND".to_owned(),
            Self::Innodb(Pages::Dynamic) => "ENGINE=InnoDB ROW_FORMAT=DYNAMIC".to_owned(),
            Self::Innodb(Pages::Compressed(kib)) => {
                format!("ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={kib}")
            }
            Self::MyRocks => "ENGINE=ROCKSDB".to_owned(),
        }
    }

    /// Its plugin; `None` for what is in the server.
    pub fn plugin(self) -> Result<Option<Plugin>> {
        let packaged = |file: &str, package: &str| {
            let path = Path::new(PLUGINS).join(file);
            match path.is_file() {
                true => Ok(Some(Plugin { file: file.to_owned(), path })),
                false => Err(Failure(format!(
                    "target sql:{}: there is no {file} in {PLUGINS}: `apt-get install {package}`",
                    self
                ))),
            }
        };
        match self {
            Self::Innodb(_) => Ok(None),
            Self::Blackhole => packaged("ha_blackhole.so", "mariadb-server"),
            Self::MyRocks => packaged("ha_rocksdb.so", "mariadb-plugin-rocksdb"),
            Self::Frond => match built_plugin() {
                Some(path) => Ok(Some(Plugin { file: FROND_PLUGIN.to_owned(), path })),
                None => Err(Failure(
                    "target sql:frond: there is no target/mariadb/build/ha_frond.so: \
                     `make mariadb-plugin`"
                        .to_owned(),
                )),
            },
        }
    }

    /// Its options and those of the server for a run.
    pub fn options(self, own: &Settings, setup: &Setup) -> Vec<ServerOption> {
        let by_class = |sync: u8, os: u8, lazy: u8| {
            let value = match setup.durability {
                Durability::Sync => sync,
                Durability::Os => os,
                Durability::Lazy => lazy,
            };
            value.to_string()
        };
        let memory = setup.memory.0;
        let mut options = vec![
            ("character-set-server", own.character_set.clone()),
            ("collation-server", own.collation.clone()),
            ("innodb-flush-method", own.innodb_flush_method.clone()),
        ];
        let pool = if matches!(self, Self::Innodb(_)) { memory } else { own.idle_pool_bytes };
        options.push(("innodb-buffer-pool-size", pool.to_string()));
        match self {
            Self::Blackhole => {}
            Self::Innodb(_) => {
                let flush_log = by_class(
                    own.innodb_flush_log_sync,
                    own.innodb_flush_log_os,
                    own.innodb_flush_log_lazy,
                );
                options.extend([
                    ("innodb-log-file-size", own.innodb_log_file_bytes.to_string()),
                    ("innodb-flush-log-at-trx-commit", flush_log),
                    ("innodb-compression-level", own.innodb_compression_level.to_string()),
                ]);
            }
            Self::Frond => {
                let durability = match setup.durability {
                    Durability::Sync => "sync",
                    Durability::Os => "os",
                    Durability::Lazy => "lazy",
                };
                options.extend([
                    ("plugin-maturity", "experimental".to_owned()),
                    ("frond", "FORCE_PLUS_PERMANENT".to_owned()),
                    ("frond-cache-size", memory.to_string()),
                    ("frond-durability", durability.to_owned()),
                ]);
            }
            Self::MyRocks => options.extend(own.rocksdb(memory, by_class)),
        }
        options
    }

    /// Where the bytes that count as its own are: all files of Frond and MyRocks with their logs; of InnoDB the table's,
    /// not the log of a fixed size.
    pub fn files(self, data: &Path, database: &str) -> PathBuf {
        match self {
            Self::Frond => data.join("#frond"),
            Self::MyRocks => data.join("#rocksdb"),
            Self::Blackhole | Self::Innodb(_) => data.join(database),
        }
    }
}

impl Settings {
    fn rocksdb(&self, memory: u64, by_class: impl Fn(u8, u8, u8) -> String) -> Vec<ServerOption> {
        let buffers = (memory as f64 * self.rocksdb_write_buffer_share) as u64;
        let column_families = format!(
            "write_buffer_size={buffers};max_write_buffer_number={};max_bytes_for_level_base={};{};\
             block_based_table_factory={{{}}}",
            self.rocksdb_write_buffers,
            (buffers as f64 * self.rocksdb_level_base_write_buffers) as u64,
            self.rocksdb_column_family_options,
            self.rocksdb_table_options
        );
        let flush_log = by_class(
            self.rocksdb_flush_log_sync,
            self.rocksdb_flush_log_os,
            self.rocksdb_flush_log_lazy,
        );
        vec![
            ("rocksdb", "FORCE".to_owned()),
            ("rocksdb-flush-log-at-trx-commit", flush_log),
            ("rocksdb-block-cache-size", (memory - buffers).to_string()),
            ("rocksdb-db-write-buffer-size", buffers.to_string()),
            ("rocksdb-max-background-jobs", self.rocksdb_max_background_jobs.to_string()),
            (
                "rocksdb-compaction-readahead-size",
                self.rocksdb_compaction_readahead_bytes.to_string(),
            ),
            ("rocksdb-wal-bytes-per-sync", self.rocksdb_wal_bytes_per_sync.to_string()),
            ("rocksdb-use-direct-reads", on(self.rocksdb_use_direct_reads)),
            (
                "rocksdb-use-direct-io-for-flush-and-compaction",
                on(self.rocksdb_use_direct_io_for_flush_and_compaction),
            ),
            ("rocksdb-default-cf-options", column_families),
        ]
    }
}

const FROND_PLUGIN: &str = "ha_frond.so";

/// The plugin that was built in this tree: below the working directory, or beside this program.
pub fn built_plugin() -> Option<PathBuf> {
    let place = Path::new("mariadb/build").join(FROND_PLUGIN);
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).map(Path::to_owned);
    let places = std::iter::once(PathBuf::from("target")).chain(above);
    let mut files = places.map(|target| target.join(&place));
    files.find(|file| file.is_file())?.canonicalize().ok()
}
