//! Registry of the targets: their names, and how each is opened.

use std::fmt;
use std::str::FromStr;

use super::library::{Library, Version};
use super::null::Null;
use super::{Failure, Result, Setup, Target};
use crate::size::Bytes;

/// Name of a target; for RocksDB optionally with a size of the write buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetName {
    /// Frond.
    Frond,
    /// RocksDB with the given write buffer; `None` for the default share.
    RocksDb(Option<Share>),
    /// SQLite.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// TidesDB.
    TidesDb,
    /// No store.
    Null,
}

/// A size, or a fraction of the memory: `16MB`, `m6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// The memory divided by this.
    Fraction(u64),
    /// A fixed number of bytes.
    Fixed(Bytes),
}

impl Share {
    /// Returns the size in bytes, given the memory.
    pub fn of(self, memory: Bytes) -> Bytes {
        match self {
            Self::Fraction(n) => Bytes(memory.0 / n.max(1)),
            Self::Fixed(bytes) => bytes,
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix('m') {
            Some(n) => n.parse().map(Self::Fraction).map_err(|_| format!("`{text}` is no share")),
            None => text.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(n) => write!(f, "m{n}"),
            Self::Fixed(Bytes(n)) if n.is_multiple_of(1_000_000) => {
                write!(f, "{}MB", n / 1_000_000)
            }
            Self::Fixed(Bytes(n)) if n.is_multiple_of(1 << 20) => write!(f, "{}MiB", n >> 20),
            Self::Fixed(Bytes(n)) => write!(f, "{n}"),
        }
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frond => f.write_str("frond"),
            Self::RocksDb(None) => f.write_str("rocksdb"),
            Self::RocksDb(Some(share)) => write!(f, "rocksdb-{share}"),
            Self::Sqlite => f.write_str("sqlite"),
            Self::Lmdb => f.write_str("lmdb"),
            Self::TidesDb => f.write_str("tidesdb"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl TargetName {
    /// Whether the store reads its files through the page cache. The page cache is then part of its
    /// memory and is bounded from outside.
    pub fn is_buffered(self) -> bool {
        matches!(self, Self::Sqlite | Self::Lmdb | Self::TidesDb)
    }
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "frond" => Ok(Self::Frond),
            "rocksdb" => Ok(Self::RocksDb(None)),
            "sqlite" => Ok(Self::Sqlite),
            "lmdb" => Ok(Self::Lmdb),
            "tidesdb" => Ok(Self::TidesDb),
            "null" => Ok(Self::Null),
            _ => match text.strip_prefix("rocksdb-") {
                Some(share) => share.parse().map(|share| Self::RocksDb(Some(share))),
                None => Err(format!("unknown target `{text}`")),
            },
        }
    }
}

/// The error for a rival that is not built in.
#[allow(dead_code)] // unused where every rival is built in
fn absent(name: &str, package: &str) -> Failure {
    Failure(format!(
        "target {name}: its library was not found when this program was built: `apt-get install {package}`, then build again"
    ))
}

/// Fails if the target is not built in; the error names the missing package.
pub fn available(name: TargetName) -> Result<()> {
    match name {
        TargetName::RocksDb(_) if !cfg!(has_rocksdb) => Err(absent("rocksdb", "librocksdb-dev")),
        TargetName::Sqlite if !cfg!(has_sqlite3) => Err(absent("sqlite", "libsqlite3-dev")),
        TargetName::Lmdb if !cfg!(has_lmdb) => Err(absent("lmdb", "liblmdb-dev")),
        TargetName::TidesDb if !cfg!(feature = "tidesdb") => Err(Failure(
            "target tidesdb: this program was built without it: `apt-get install cmake liblz4-dev libzstd-dev`, then build \
             with `--features tidesdb`"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Returns environment variables for the target's process, for settings that must be in place
/// before the first allocation.
pub fn environment(name: TargetName) -> Result<Vec<(&'static str, String)>> {
    match name {
        #[cfg(has_rocksdb)]
        TargetName::RocksDb(_) => Ok(super::rocksdb::RocksDb::environment()?.into()),
        _ => Ok(Vec::new()),
    }
}

/// Opens a target on an empty directory. With a version, opens Frond of that commit instead of the
/// built-in one.
pub fn open(name: TargetName, version: Option<&Version>, setup: &Setup) -> Result<Box<dyn Target>> {
    available(name)?;
    if let Some(version) = version {
        return Ok(Box::new(Library::open(version, setup)?));
    }
    match name {
        TargetName::Null => Ok(Box::new(Null::open(setup))),
        TargetName::Frond => Ok(Box::new(super::frond::Frond::open(setup)?)),
        #[cfg(has_rocksdb)]
        TargetName::RocksDb(_) => Ok(Box::new(super::rocksdb::RocksDb::open(setup)?)),
        #[cfg(has_sqlite3)]
        TargetName::Sqlite => Ok(Box::new(super::sqlite::Sqlite::open(setup)?)),
        #[cfg(has_lmdb)]
        TargetName::Lmdb => Ok(Box::new(super::lmdb::Lmdb::open(setup)?)),
        #[cfg(feature = "tidesdb")]
        TargetName::TidesDb => Ok(Box::new(super::tidesdb::Tides::open(setup)?)),
        #[allow(unreachable_patterns)] // reachable where a rival is missing
        _ => {
            let _ = setup;
            Err(Failure(format!("target {name}: not built in")))
        }
    }
}
