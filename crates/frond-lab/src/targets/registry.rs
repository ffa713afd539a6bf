//! Names of the targets, and how each is opened.

use std::fmt;
use std::str::FromStr;

use super::null::Null;
use super::{Failure, Result, Setup, Target};
use crate::size::Bytes;

/// A target by name; RocksDB possibly with a write buffer of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetName {
    /// Frond.
    Frond,
    /// RocksDB; the write buffer as given, `None` for the default share.
    RocksDb(Option<Share>),
    /// SQLite.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// InnoDB, in a MariaDB server: sizes beside those of embedded stores.
    Innodb(Pages),
    /// An engine of a MariaDB server beside others of its engines.
    Sql(Engine),
    /// No store at all.
    Null,
}

/// How InnoDB keeps its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// ROW_FORMAT=DYNAMIC, pages of 16 KiB as they are.
    Dynamic,
    /// ROW_FORMAT=COMPRESSED with pages of so many KiB.
    Compressed(u8),
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dynamic => f.write_str("innodb"),
            Self::Compressed(kib) => write!(f, "innodb-{kib}k"),
        }
    }
}

/// An engine of a MariaDB server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Takes rows and keeps none: what the server itself costs.
    Blackhole,
    /// Frond, as the plugin of this tree.
    Frond,
    /// InnoDB, in the server.
    Innodb(Pages),
    /// RocksDB.
    MyRocks,
}

impl Engine {
    const ALL: [Self; 6] = [
        Self::Blackhole,
        Self::Frond,
        Self::Innodb(Pages::Dynamic),
        Self::Innodb(Pages::Compressed(8)),
        Self::Innodb(Pages::Compressed(4)),
        Self::MyRocks,
    ];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blackhole => f.write_str("blackhole"),
            Self::Frond => f.write_str("frond"),
            Self::Innodb(pages) => pages.fmt(f),
            Self::MyRocks => f.write_str("myrocks"),
        }
    }
}

/// A size, or a fraction of the memory: `16MB`, `m/6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// M divided by this.
    Fraction(u64),
    /// So many bytes.
    Fixed(Bytes),
}

impl Share {
    /// In bytes, of this memory.
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
        match text.strip_prefix("m/").or_else(|| text.strip_prefix("M/")) {
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
            Self::Innodb(pages) => pages.fmt(f),
            Self::Sql(engine) => write!(f, "{SQL}{engine}"),
            Self::Null => f.write_str("null"),
        }
    }
}

/// What names of SQL targets begin with.
const SQL: &str = "sql:";

impl TargetName {
    /// Whether it is an engine of a server, measured as one.
    pub fn is_sql(self) -> bool {
        matches!(self, Self::Sql(_))
    }
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(name) = text.strip_prefix(SQL) {
            let engine = Engine::ALL.into_iter().find(|engine| engine.to_string() == name);
            return engine.map(Self::Sql).ok_or_else(|| {
                let names = Engine::ALL.map(|engine| format!("{SQL}{engine}")).join(", ");
                format!("unknown target `{text}` ({names})")
            });
        }
        match text {
            "frond" => Ok(Self::Frond),
            "rocksdb" => Ok(Self::RocksDb(None)),
            "sqlite" => Ok(Self::Sqlite),
            "lmdb" => Ok(Self::Lmdb),
            "innodb" => Ok(Self::Innodb(Pages::Dynamic)),
            "innodb-8k" => Ok(Self::Innodb(Pages::Compressed(8))),
            "innodb-4k" => Ok(Self::Innodb(Pages::Compressed(4))),
            "null" => Ok(Self::Null),
            _ => Err(format!(
                "unknown target `{text}` (frond, rocksdb, sqlite, lmdb, innodb, innodb-8k, innodb-4k, null, sql:ENGINE)"
            )),
        }
    }
}

/// What a rival that is not built in has to say.
#[allow(dead_code)] // unused where every rival is built in
fn absent(name: &str, package: &str) -> Failure {
    let why = if cfg!(feature = "compare") {
        format!("its library was not found when frond was built: `apt-get install {package}`")
    } else {
        format!("this frond was built without rivals: `apt-get install {package}`")
    };
    Failure(format!("target {name}: {why}, then build with `--features compare`"))
}

/// Fails, naming the package, if the target is not built in.
pub fn available(name: TargetName) -> Result<()> {
    match name {
        TargetName::RocksDb(_) if !cfg!(has_rocksdb) => Err(absent("rocksdb", "librocksdb-dev")),
        TargetName::Sqlite if !cfg!(has_sqlite3) => Err(absent("sqlite", "libsqlite3-dev")),
        TargetName::Lmdb if !cfg!(has_lmdb) => Err(absent("lmdb", "liblmdb-dev")),
        #[cfg(feature = "compare")]
        TargetName::Innodb(pages) => super::sql::available(Engine::Innodb(pages)),
        #[cfg(feature = "compare")]
        TargetName::Sql(engine) => super::sql::available(engine),
        #[cfg(not(feature = "compare"))]
        TargetName::Innodb(_) | TargetName::Sql(_) => {
            Err(absent(&name.to_string(), "mariadb-server"))
        }
        _ => Ok(()),
    }
}

/// Variables the target's process is started with, for what must stand before its first allocation.
pub fn environment(name: TargetName) -> Result<Vec<(&'static str, String)>> {
    match name {
        #[cfg(has_rocksdb)]
        TargetName::RocksDb(_) => Ok(super::rocksdb::RocksDb::environment()?.into()),
        _ => Ok(Vec::new()),
    }
}

/// Opens a target on an empty directory.
pub fn open(name: TargetName, setup: &Setup) -> Result<Box<dyn Target>> {
    available(name)?;
    match name {
        TargetName::Null => Ok(Box::new(Null)),
        TargetName::Frond => Ok(Box::new(super::frond::Frond::open(setup)?)),
        #[cfg(feature = "compare")]
        TargetName::Innodb(pages) => Ok(Box::new(super::sql::Sql::beside_embedded(setup, pages)?)),
        #[cfg(feature = "compare")]
        TargetName::Sql(engine) => Ok(Box::new(super::sql::Sql::beside_sql(setup, engine)?)),
        #[cfg(has_rocksdb)]
        TargetName::RocksDb(_) => Ok(Box::new(super::rocksdb::RocksDb::open(setup)?)),
        #[cfg(has_sqlite3)]
        TargetName::Sqlite => Ok(Box::new(super::sqlite::Sqlite::open(setup)?)),
        #[cfg(has_lmdb)]
        TargetName::Lmdb => Ok(Box::new(super::lmdb::Lmdb::open(setup)?)),
        #[allow(unreachable_patterns)] // reachable where a rival is missing
        _ => {
            let _ = setup;
            Err(Failure(format!("target {name}: not built in")))
        }
    }
}
