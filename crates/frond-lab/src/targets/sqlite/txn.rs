//! SQLite's transactions: `BEGIN IMMEDIATE` for those that write, so that none has to be done again because it read
//! before it wrote.
//!
//! Invariants
//! 1. All connections of a step together have the cache that one has alone; those that wait for a step have none.
//! 2. A connection goes back without a transaction, and with the durability of the store.
//!
//! Threads: one session each.

use super::super::{Attempt, Begin, Clients, HeldSnapshot, Result, Stop, Transactions, Visit};
use super::Sqlite;
use super::connection::{Connection, Parameter};
use super::ffi;
use crate::targets::Failure;

/// Statements, written once.
struct Statements {
    put: String,
    delete: String,
    get: String,
    list: String,
}

impl Statements {
    fn new(name: &str) -> Self {
        Self {
            put: format!("INSERT OR REPLACE INTO {name} VALUES(?,?)"),
            delete: format!("DELETE FROM {name} WHERE k=?"),
            get: format!("SELECT v FROM {name} WHERE k=?"),
            list: format!("SELECT k,v FROM {name} WHERE k>=? AND k<? ORDER BY k"),
        }
    }
}

/// One thread's.
pub(super) struct SqliteTransactions<'a> {
    target: &'a Sqlite,
    connection: Option<Connection>,
    is_open: bool,
    sql: Statements,
}

fn get(connection: &mut Connection, sql: &str, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    value.clear();
    let mut found = false;
    connection.run(sql, std::iter::once(Parameter::Blob(key)), &mut |row| {
        value.extend_from_slice(row.bytes(0));
        found = true;
        false
    })?;
    Ok(found)
}

impl<'a> SqliteTransactions<'a> {
    pub(super) fn new(target: &'a Sqlite, clients: Clients) -> Result<Self> {
        let kib = target.cache_kib / clients.count.max(1); // Invariant 1
        let mut connection = target.take_idle().map_or_else(|| target.connect(kib), Ok)?;
        connection.execute(&format!("PRAGMA cache_size=-{kib}"))?;
        target.set_durability(&mut connection, clients.durability)?;
        let sql = Statements::new(target.table.name);
        Ok(Self { target, connection: Some(connection), is_open: false, sql })
    }

    /// Runs `call` on the connection; a lock that was not to be had is others in the way.
    fn with<T>(
        &mut self,
        call: impl FnOnce(&mut Connection, &Statements) -> Result<T>,
    ) -> Attempt<T> {
        let none = || Failure("sqlite: the connection is gone".to_owned());
        let connection = self.connection.as_mut().ok_or_else(none)?;
        call(connection, &self.sql).map_err(|failure| match connection.code() & 0xff {
            ffi::BUSY | ffi::LOCKED => Stop::Conflict,
            _ => Stop::Failed(failure),
        })
    }
}

impl Transactions for SqliteTransactions<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        let sql = match what {
            // A statement alone is a transaction.
            Begin::ReadOnce => return Ok(()),
            Begin::Read => "BEGIN",
            Begin::Write => "BEGIN IMMEDIATE",
        };
        self.with(|connection, _| connection.execute(sql))?;
        self.is_open = true;
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        self.with(|connection, sql| get(connection, &sql.get, key, value))
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        // A transaction that writes has the whole store for itself.
        self.get(key, value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()> {
        let parameters = [Parameter::Blob(key), Parameter::Blob(value)];
        self.with(|connection, sql| connection.run(&sql.put, parameters.into_iter(), &mut |_| true))
    }

    fn delete(&mut self, key: &[u8]) -> Attempt<()> {
        let parameters = std::iter::once(Parameter::Blob(key));
        self.with(|connection, sql| connection.run(&sql.delete, parameters, &mut |_| true))
    }

    fn list(&mut self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Attempt<()> {
        let parameters = [Parameter::Blob(from), Parameter::Blob(to)].into_iter();
        self.with(|connection, sql| {
            connection.run(&sql.list, parameters, &mut |row| visit(row.bytes(0), row.bytes(1)))
        })
    }

    fn commit(&mut self) -> Attempt<()> {
        if self.is_open {
            self.with(|connection, _| connection.execute("COMMIT"))?;
            self.is_open = false;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        match (std::mem::take(&mut self.is_open), &mut self.connection) {
            (true, Some(connection)) => connection.execute("ROLLBACK"),
            _ => Ok(()),
        }
    }
}

impl Drop for SqliteTransactions<'_> {
    fn drop(&mut self) {
        let is_clean = self.rollback().is_ok();
        // One that cannot be cleaned is closed instead (Invariant 2).
        if let Some(mut connection) = self.connection.take()
            && is_clean
            && self.target.set_durability(&mut connection, self.target.durability).is_ok()
            && connection.rest().is_ok()
        {
            self.target.give_back(connection);
        }
    }
}

/// A connection in a transaction that reads: its moment stays.
pub(super) struct Held {
    connection: Connection,
    sql: String,
}

impl Held {
    pub(super) fn new(target: &Sqlite) -> Result<Self> {
        let mut connection = target.connect(target.cache_kib / 8)?;
        let sql = Statements::new(target.table.name).get;
        connection.execute("BEGIN")?;
        // The moment is that of the first read.
        get(&mut connection, &sql, &[], &mut Vec::new())?;
        Ok(Self { connection, sql })
    }
}

impl HeldSnapshot for Held {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        get(&mut self.connection, &self.sql, key, value)
    }
}
