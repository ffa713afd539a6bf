//! A client of SQLite: a connection and its prepared statements. Transactions that write start with
//! `BEGIN IMMEDIATE`: otherwise one that reads before it writes might have to be run again.
//!
//! Invariants
//! 1. All connections of a step together have the cache that a single one has; idle connections
//!    have no cache.
//! 2. A connection is returned without a transaction, and with the durability of the store.
//!
//! Threads: a connection belongs to one thread.

use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection as Handle, ErrorCode, Row, ToSql};

use super::Sqlite;
use super::statements::{self, SpanShape};
use crate::decode;
use crate::schema::{EncodedRow, Keyspace, Table, Type, Value};
use crate::targets::{
    Attempt, Begin, Clients, Connection, Direction, Entries, Failure, Result, Span, Stop, Visit,
};

/// Number of statements that a connection keeps prepared: more than any workload has.
const PREPARED: usize = 256;

/// The connection of one client.
pub(super) struct SqliteConnection<'a> {
    target: &'a Sqlite,
    handle: Option<Handle>,
    is_open: bool,
    /// Texts of statements that depend on the request.
    updates: HashMap<(Keyspace, u64), String>,
    spans: HashMap<(Keyspace, SpanShape), String>,
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Conflict,
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("sqlite: {error}"))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::F32(v) => ValueRef::Real(v.into()),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            _ => ValueRef::Integer(self.integer()),
        }))
    }
}

/// Runs a statement that returns no rows with these parameters.
fn execute<P: ToSql>(
    handle: &Handle,
    sql: &str,
    parameters: impl Iterator<Item = P>,
) -> rusqlite::Result<()> {
    let mut statement = handle.prepare_cached(sql)?;
    for (index, parameter) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, parameter)?;
    }
    statement.raw_execute().map(drop)
}

/// Runs a query; `visit` sees each row, and returning false ends the query.
fn query<P: ToSql>(
    handle: &Handle,
    sql: &str,
    parameters: impl Iterator<Item = P>,
    mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut statement = handle.prepare_cached(sql)?;
    for (index, parameter) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, parameter)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if !visit(row)? {
            break;
        }
    }
    Ok(())
}

/// Converts a column of a row to a value of the lab. A value of the wrong type becomes one that no
/// row has, so that the checksum reveals it.
fn value<'r>(row: &'r Row<'_>, column: usize, kind: Type) -> rusqlite::Result<Value<'r>> {
    let found = row.get_ref(column)?;
    Ok(match (kind, found) {
        (Type::I8, ValueRef::Integer(v)) => Value::I8(v as i8),
        (Type::I16, ValueRef::Integer(v)) => Value::I16(v as i16),
        (Type::I32, ValueRef::Integer(v)) => Value::I32(v as i32),
        (Type::I64, ValueRef::Integer(v)) => Value::I64(v),
        (Type::U32, ValueRef::Integer(v)) => Value::U32(v as u32),
        (Type::U64, ValueRef::Integer(v)) => Value::U64(v as u64),
        (Type::Millis, ValueRef::Integer(v)) => Value::Millis(v as u64),
        (Type::F32, ValueRef::Real(v)) => Value::F32(v as f32),
        (_, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Value::Blob(bytes),
        _ => Value::Blob(b"not of its type"),
    })
}

impl<'a> SqliteConnection<'a> {
    pub(super) fn new(target: &'a Sqlite, clients: Clients) -> Result<Self> {
        let kib = target.cache_kib / clients.count.max(1); // Invariant 1
        let handle = target.take_idle().map_or_else(|| target.open_handle(kib), Ok)?;
        handle.set_prepared_statement_cache_capacity(PREPARED);
        handle.execute_batch(&format!("PRAGMA cache_size=-{kib}"))?;
        target.set_durability(&handle, clients.durability.unwrap_or(target.durability))?;
        let (updates, spans) = (HashMap::new(), HashMap::new());
        Ok(Self { target, handle: Some(handle), is_open: false, updates, spans })
    }

    fn handle(&self) -> Result<&Handle> {
        self.handle.as_ref().ok_or_else(|| Failure("sqlite: the connection is gone".to_owned()))
    }

    /// Returns the raw table with this keyspace.
    fn raw(&self, keyspace: Keyspace) -> Result<&'a Table> {
        let tables = &self.target.tables;
        let found = tables.iter().find(|table| table.base == keyspace && table.is_raw());
        found.ok_or_else(|| Failure(format!("sqlite: keyspace {keyspace} has columns of its own")))
    }

    /// Reads the non-key columns of a row, encoded as the lab's bytes.
    fn row_value(&self, table: &Table, key: &[Value<'_>], out: &mut Vec<u8>) -> Attempt<bool> {
        out.clear();
        let (handle, mut found) = (self.handle()?, false);
        query(handle, &self.target.statements(table.base).get, key.iter(), |row| {
            for (at, column) in table.value_columns().enumerate() {
                value(row, at, table.columns[column].kind)?.append_value(out);
            }
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }
}

impl Connection for SqliteConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        let sql = match what {
            Begin::Read => "BEGIN",
            Begin::Batch | Begin::Write => "BEGIN IMMEDIATE",
        };
        let handle = self.handle()?;
        execute(handle, sql, std::iter::empty::<i64>())?;
        if what == Begin::Read {
            // The snapshot is taken at the first read.
            execute_query(handle, "SELECT rowid FROM sqlite_schema LIMIT 1")?;
        }
        self.is_open = true;
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let (table, mut found) = (self.raw(keyspace)?, false);
        value.clear();
        let sql = &self.target.statements(table.base).get;
        query(self.handle()?, sql, std::iter::once(key), |row| {
            value.extend_from_slice(row.get_ref(0)?.as_blob()?);
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        // A transaction that writes is the only writer of the store.
        self.get(keyspace, key, value)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let table = self.raw(keyspace)?;
        let sql = &self.target.statements(table.base).insert;
        Ok(execute(self.handle()?, sql, [key, value].into_iter())?)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        let table = self.raw(keyspace)?;
        let sql = &self.target.statements(table.base).delete;
        Ok(execute(self.handle()?, sql, std::iter::once(key))?)
    }

    /// Inserts the entries or rows in one transaction. SQLite recognizes keys in ascending order
    /// and appends them.
    fn bulk_load(&mut self, keyspace: Keyspace, next: Entries<'_>) -> Attempt<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let target = self.target;
        let with_columns = target.tables.iter().find(|of| of.base == keyspace && !of.is_raw());
        self.begin(Begin::Batch)?;
        while next(&mut key, &mut value) {
            let Some(table) = with_columns else {
                self.put(keyspace, &key, &value)?;
                continue;
            };
            let row = decode::row(table, &key, &value);
            let row = row.ok_or_else(|| Failure(format!("{}: a strange row", table.name)))?;
            execute(self.handle()?, &target.statements(keyspace).insert, row.iter())?;
        }
        self.commit()
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let table = self.raw(keyspace)?;
        let sql = statements::raw_scan(table, from.is_some(), to.is_some(), direction);
        Ok(query(self.handle()?, &sql, from.into_iter().chain(to), |row| {
            Ok(visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?))
        })?)
    }

    fn commit(&mut self) -> Attempt<()> {
        if self.is_open {
            execute(self.handle()?, "COMMIT", std::iter::empty::<i64>())?;
            self.is_open = false;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_open) {
            execute(self.handle()?, "ROLLBACK", std::iter::empty::<i64>())?;
        }
        Ok(())
    }

    fn create_index(&mut self, table: &Table, index: usize) -> Attempt<bool> {
        let handle = self.handle()?;
        let ddl = statements::ddl(table); // the table, then its indexes
        handle.execute_batch(&ddl[1 + index])?;
        Ok(true)
    }

    fn get_row(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        _as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.row_value(table, key, value)
    }

    fn lock_row(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        _as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.row_value(table, key, value)
    }

    fn insert_row(
        &mut self,
        table: &Table,
        row: &[Value<'_>],
        _as_bytes: &EncodedRow,
    ) -> Attempt<()> {
        let sql = &self.target.statements(table.base).insert;
        Ok(execute(self.handle()?, sql, row.iter())?)
    }

    fn update_row(
        &mut self,
        table: &Table,
        columns: &[usize],
        row: &[Value<'_>],
        _: (&EncodedRow, &EncodedRow),
    ) -> Attempt<()> {
        let which = columns.iter().fold(0, |mask, column| mask | 1 << column);
        let sql = self.updates.entry((table.base, which));
        let sql = sql.or_insert_with(|| statements::update(table, columns));
        let parameters = columns.iter().chain(&table.primary).map(|&column| &row[column]);
        let none = || Failure("sqlite: the connection is gone".to_owned());
        Ok(execute(self.handle.as_ref().ok_or_else(none)?, sql, parameters)?)
    }

    fn delete_row(&mut self, table: &Table, row: &[Value<'_>], _: &EncodedRow) -> Attempt<()> {
        let sql = &self.target.statements(table.base).delete;
        let key = table.primary.iter().map(|&column| &row[column]);
        Ok(execute(self.handle()?, sql, key)?)
    }

    fn range(
        &mut self,
        table: &Table,
        keyspace: Keyspace,
        span: &Span<'_>,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        if table.is_raw() {
            let ((low, high), mut left) = (span.bounds(), span.limit);
            let bounds = (low.as_deref(), high.as_deref());
            return self.scan(table.base, bounds, span.direction, &mut |key, value| {
                left = left.saturating_sub(1);
                visit(key, value) && left > 0
            });
        }
        let shape = SpanShape::of(span);
        let sql = self.spans.entry((table.base + keyspace, shape));
        let sql = sql.or_insert_with(|| statements::range(table, keyspace, shape));
        let limit = Value::I64(i64::try_from(span.limit).unwrap_or(i64::MAX));
        let parameters = span.equal.iter().chain(span.from).chain(span.to).chain([&limit]);
        let none = || Failure("sqlite: the connection is gone".to_owned());
        let handle = self.handle.as_ref().ok_or_else(none)?;
        let key_columns = table.key_columns(keyspace);
        let rest = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
        let (mut key, mut out) = (Vec::new(), Vec::new());
        Ok(query(handle, sql, parameters, |row| {
            key.clear();
            out.clear();
            for (at, &column) in key_columns.iter().enumerate() {
                value(row, at, table.columns[column].kind)?.append_key(&mut key);
            }
            for (at, &column) in (key_columns.len()..).zip(&rest) {
                value(row, at, table.columns[column].kind)?.append_value(&mut out);
            }
            Ok(visit(&key, &out))
        })?)
    }
}

/// Runs a query for its side effects.
fn execute_query(handle: &Handle, sql: &str) -> rusqlite::Result<()> {
    query(handle, sql, std::iter::empty::<i64>(), |_| Ok(false))
}

/// Gives back to the system all memory that an idle connection does not need. With sixty idle
/// connections, the memory that the allocator keeps for them is more than the store may use.
fn release_memory(handle: &Handle) -> rusqlite::Result<()> {
    handle.execute_batch("PRAGMA shrink_memory")?;
    // SAFETY: it moves no live allocation and requires nothing of the caller.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    Ok(())
}

impl Drop for SqliteConnection<'_> {
    fn drop(&mut self) {
        let is_clean = self.rollback().is_ok();
        // A connection that cannot be cleaned is closed instead (Invariant 2).
        if let Some(handle) = self.handle.take()
            && is_clean
            && self.target.set_durability(&handle, self.target.durability).is_ok()
            && self.target.is_alone_or(|| release_memory(&handle).is_ok())
        {
            self.target.give_back(handle);
        }
    }
}
