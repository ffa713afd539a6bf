//! SQLite as a target: the real table with its indexes, prepared statements, one transaction a commit.
//!
//! Invariants
//! 1. Rows are stored as columns; scans give them back in the lab's encoding, so that checksums agree.
//! 2. Connections are kept between steps: closing one would throw its cache away.
//!
//! Threads: one connection per session.

mod connection;
mod ffi;
mod txn;

use std::sync::Mutex;

use serde::Deserialize;

use super::{
    Clients, Direction, Durability, HeldSnapshot, Result, Session, Setup, Target, Transactions,
    Visit, settings,
};
use crate::schema::{EncodedRow, Keyspace, Table, Type, Value};
use connection::{Connection, Parameter, Row};

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

/// SQLite under test.
pub struct Sqlite {
    path: std::ffi::CString,
    table: Table,
    /// Run on every connection.
    pragmas: Vec<String>,
    /// The store's durability class, and what `synchronous` is for each.
    durability: Durability,
    synchronous: [String; 3],
    cache_kib: u64,
    idle: Mutex<Vec<Connection>>,
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
            path: connection::path(&setup.dir.join("store.sqlite"))?,
            table: setup.table.clone(),
            pragmas,
            durability: setup.durability,
            synchronous,
            cache_kib: (setup.memory.0 as f64 * settings.cache_share / 1024.0) as u64,
            idle: Mutex::new(Vec::new()),
        };
        let mut first = sqlite.connect(sqlite.cache_kib)?;
        ddl(&sqlite.table).iter().try_for_each(|sql| first.execute(sql))?;
        sqlite.give_back(first);
        Ok(sqlite)
    }

    fn connect(&self, cache_kib: u64) -> Result<Connection> {
        let mut connection = Connection::open(&self.path)?;
        for pragma in &self.pragmas {
            connection.execute(pragma)?;
        }
        connection.execute(&format!("PRAGMA cache_size=-{cache_kib}"))?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(connection);
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop()
    }

    fn set_durability(&self, connection: &mut Connection, durability: Durability) -> Result<()> {
        let synchronous = &self.synchronous[durability as usize];
        connection.execute(&format!("PRAGMA synchronous={synchronous}"))
    }
}

fn ddl(table: &Table) -> Vec<String> {
    let name = table.name;
    if table.is_raw() {
        return vec![format!("CREATE TABLE {name}(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")];
    }
    let kind = |kind| match kind {
        Type::F32 => "REAL",
        Type::Text => "TEXT",
        Type::Bytes | Type::Number(_) => "BLOB",
        Type::I8 | Type::I32 | Type::U32 | Type::U64 | Type::Millis => "INTEGER",
    };
    let columns = table.columns.iter().map(|c| format!("{} {} NOT NULL", c.name, kind(c.kind)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let names = |columns: &[usize]| {
        columns.iter().map(|&c| table.columns[c].name).collect::<Vec<_>>().join(", ")
    };
    // One integer as the key is SQLite's row number: its fastest form. Others are clustered.
    let rowid = matches!(table.primary[..], [one] if table.columns[one].kind == Type::I32);
    let tail = if rowid { "" } else { " WITHOUT ROWID" };
    let key = names(&table.primary);
    let mut sql = vec![format!("CREATE TABLE {name}({columns}, PRIMARY KEY({key})){tail}")];
    sql.extend(
        table.indexes.iter().map(|index| {
            format!("CREATE INDEX {} ON {name}({})", index.name, names(&index.columns))
        }),
    );
    sql
}

impl Target for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", connection::version())
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = settings::pairs(SETTINGS);
        pairs.push(("cache_kib".to_owned(), self.cache_kib.to_string()));
        pairs
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // The first connection has the cache; those beside it get an eighth of it.
        let connection = self.take_idle().map_or_else(|| self.connect(self.cache_kib / 8), Ok)?;
        Ok(Box::new(SqliteSession {
            target: self,
            connection: Some(connection),
            writing: false,
            sql: Statements::new(&self.table),
        }))
    }

    fn transactions(&self, clients: Clients) -> Result<Box<dyn Transactions + '_>> {
        Ok(Box::new(txn::SqliteTransactions::new(self, clients)?))
    }

    fn hold_snapshot(&self) -> Result<Box<dyn HeldSnapshot + '_>> {
        Ok(Box::new(txn::Held::new(self)?))
    }

    fn settle(&self) -> Result<()> {
        let mut idle = self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        idle.last_mut().map_or(Ok(()), |c| c.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
    }

    fn compact(&self) -> Result<bool> {
        let mut connection = self.connect(self.cache_kib / 8)?;
        // The packed copy is as large as the data: not in memory, whatever is said of other tables.
        connection.execute("PRAGMA temp_store=FILE")?;
        connection.execute("VACUUM")?;
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()
    }
}

/// Statements that run per row, written once.
struct Statements {
    put: String,
    delete: String,
    get: String,
}

impl Statements {
    fn new(table: &Table) -> Self {
        let name = table.name;
        let marks = vec!["?"; table.columns.len()].join(",");
        let verb = if table.is_raw() { "INSERT OR REPLACE" } else { "INSERT" };
        Self {
            put: format!("{verb} INTO {name} VALUES({marks})"),
            delete: format!("DELETE FROM {name} WHERE k=?"),
            get: format!("SELECT v FROM {name} WHERE k=?"),
        }
    }
}

struct SqliteSession<'a> {
    target: &'a Sqlite,
    connection: Option<Connection>,
    writing: bool,
    sql: Statements,
}

impl Drop for SqliteSession<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.target.give_back(connection);
        }
    }
}

impl SqliteSession<'_> {
    fn run<'p>(
        &mut self,
        sql: &str,
        parameters: impl Iterator<Item = Parameter<'p>>,
        visit: &mut dyn FnMut(&Row) -> bool,
    ) -> Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.run(sql, parameters, visit)
    }

    fn write<'p>(
        &mut self,
        which: fn(&Statements) -> &str,
        parameters: impl Iterator<Item = Parameter<'p>>,
    ) -> Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !self.writing {
            connection.execute("BEGIN IMMEDIATE")?;
            self.writing = true;
        }
        connection.run(which(&self.sql), parameters, &mut |_| true)
    }
}

impl Session for SqliteSession<'_> {
    fn put(&mut self, _: Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        let parameters = [Parameter::Blob(key), Parameter::Blob(value)];
        self.write(|sql| &sql.put, parameters.into_iter())
    }

    fn delete(&mut self, _: Keyspace, key: &[u8]) -> Result<()> {
        self.write(|sql| &sql.delete, std::iter::once(Parameter::Blob(key)))
    }

    fn commit(&mut self) -> Result<()> {
        match std::mem::take(&mut self.writing) {
            true => self.run("COMMIT", std::iter::empty(), &mut |_| true),
            false => Ok(()),
        }
    }

    fn get(&mut self, _: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let mut found = false;
        let parameters = std::iter::once(Parameter::Blob(key));
        connection.run(&self.sql.get, parameters, &mut |row| {
            value.extend_from_slice(row.bytes(0));
            found = true;
            false
        })?;
        Ok(found)
    }

    fn scan(
        &mut self,
        _: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        let name = self.target.table.name;
        let (operator, order) = match direction {
            Direction::Forward => (">=", "ASC"),
            Direction::Reverse => ("<=", "DESC"),
        };
        let condition = from.map(|_| format!("WHERE k{operator}?")).unwrap_or_default();
        let sql = format!("SELECT k,v FROM {name} {condition} ORDER BY k {order}");
        self.run(&sql, from.into_iter().map(Parameter::Blob), &mut |row| {
            visit(row.bytes(0), row.bytes(1))
        })
    }

    fn insert_row(&mut self, _: &Table, row: &[Value<'_>], _: &EncodedRow) -> Result<()> {
        self.write(|sql| &sql.put, row.iter().map(|&value| Parameter::Value(value)))
    }

    fn range(
        &mut self,
        table: &Table,
        keyspace: Keyspace,
        from: &[Value<'_>],
        as_bytes: &[u8],
        limit: u64,
        visit: Visit<'_>,
    ) -> Result<()> {
        if table.is_raw() {
            return self.scan(keyspace, Some(as_bytes), Direction::Forward, visit);
        }
        let key_columns = table.key_columns(keyspace);
        let rest = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
        let sql = range_sql(table, keyspace, from.len());
        let limit = Parameter::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let parameters = from.iter().map(|&value| Parameter::Value(value)).chain([limit]);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.run(&sql, parameters, &mut |row| {
            key.clear();
            value.clear();
            for (position, &column) in (0..).zip(key_columns.iter().chain(&rest)) {
                let kind = table.columns[column].kind;
                match (position as usize) < key_columns.len() {
                    true => with_value(row, position, kind, |v| v.append_key(&mut key)),
                    false => with_value(row, position, kind, |v| v.append_value(&mut value)),
                }
            }
            visit(&key, &value)
        })
    }
}

/// Selects a keyspace's columns in its order, from the first `given` key columns on.
fn range_sql(table: &Table, keyspace: Keyspace, given: usize) -> String {
    let names = |columns: &[usize]| {
        columns.iter().map(|&c| table.columns[c].name).collect::<Vec<_>>().join(",")
    };
    let key = table.key_columns(keyspace);
    let rest: Vec<usize> = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
    let all: Vec<usize> = key.iter().chain(&rest).copied().collect();
    let index = keyspace.checked_sub(1).and_then(|index| table.indexes.get(index));
    let hint = index.map(|index| format!("INDEXED BY {}", index.name)).unwrap_or_default();
    let marks = vec!["?"; given].join(",");
    let condition = match key.get(..given) {
        Some(columns @ [_, ..]) => format!("WHERE ({})>=({marks})", names(columns)),
        _ => String::new(),
    };
    let (columns, order) = (names(&all), names(&key));
    format!("SELECT {columns} FROM {} {hint} {condition} ORDER BY {order} LIMIT ?", table.name)
}

fn with_value(row: &Row, column: i32, kind: Type, then: impl FnOnce(Value<'_>)) {
    match kind {
        Type::I8 => then(Value::I8(row.integer(column) as i8)),
        Type::I32 => then(Value::I32(row.integer(column) as i32)),
        Type::U32 => then(Value::U32(row.integer(column) as u32)),
        Type::U64 => then(Value::U64(row.integer(column) as u64)),
        Type::Millis => then(Value::Millis(row.integer(column) as u64)),
        Type::F32 => then(Value::F32(row.float(column) as f32)),
        Type::Text | Type::Bytes | Type::Number(_) => {
            // Text that is no UTF-8 cannot be ours; the checksum then says so.
            then(Value::Text(std::str::from_utf8(row.bytes(column)).unwrap_or_default()));
        }
    }
}
