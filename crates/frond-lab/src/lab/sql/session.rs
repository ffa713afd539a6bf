//! A connection to a server: text statements, prepared statements, and classified errors.
//!
//! Threads: one.

use std::io::Write;
use std::path::Path;

use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Opts, OptsBuilder, Params};

use crate::lab::cell_spec::{split_engine, without_passwords};
use crate::targets::Failure;

pub use mysql::{Row, Statement, Value};

/// Why a statement failed.
#[derive(Debug)]
pub enum SqlError {
    /// The transaction was rolled back as a deadlock victim (1213), or a row that it read has
    /// changed since (1020).
    Deadlock,
    /// A lock wait timed out (1205).
    LockTimeout,
    /// The row exists already in a unique key (1062).
    Duplicate,
    /// KILL QUERY ended the statement (1317, or 1028 within a sort).
    Killed,
    /// Anything else.
    Other(Failure),
}

/// Result of a statement.
pub type SqlResult<T> = std::result::Result<T, SqlError>;

impl From<mysql::Error> for SqlError {
    fn from(error: mysql::Error) -> Self {
        match &error {
            mysql::Error::MySqlError(said) => match said.code {
                1213 | 1020 => Self::Deadlock,
                1205 => Self::LockTimeout,
                1062 => Self::Duplicate,
                1317 | 1028 => Self::Killed,
                _ => Self::Other(Failure(format!("server: {error}"))),
            },
            _ => Self::Other(Failure(format!("server: {error}"))),
        }
    }
}

impl From<Failure> for SqlError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Deadlock => Self("server: deadlock (1213)".to_owned()),
            SqlError::LockTimeout => Self("server: lock wait timeout (1205)".to_owned()),
            SqlError::Duplicate => Self("server: duplicate key (1062)".to_owned()),
            SqlError::Killed => Self("server: the statement was killed (1317)".to_owned()),
            SqlError::Other(failure) => failure,
        }
    }
}

/// A connection to a server.
pub struct Session {
    connection: Conn,
}

impl Session {
    /// Connects through a Unix socket as root.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn connect(socket: &Path, database: &str) -> SqlResult<Self> {
        let options = OptsBuilder::new()
            .socket(Some(socket.display().to_string()))
            .prefer_socket(true)
            .user(Some("root"))
            .max_allowed_packet(Some(1 << 30))
            .stmt_cache_size(Some(0)) // a cache closes the least recently used statement
            .db_name((!database.is_empty()).then_some(database));
        Ok(Self { connection: Conn::new(options)? })
    }

    /// Connects to `mysql://user:password@host:port/database`, whose parameter `engine` is ignored.
    ///
    /// # Errors
    /// The URL is invalid; errors of the server.
    pub fn connect_url(url: &str) -> SqlResult<Self> {
        let options = Opts::from_url(&split_engine(url).0).map_err(|error| {
            SqlError::Other(Failure(format!("{}: {error}", without_passwords(url))))
        })?;
        let options = OptsBuilder::from_opts(options).stmt_cache_size(Some(0));
        Ok(Self { connection: Conn::new(options)? })
    }

    /// The server's id of the connection.
    pub fn id(&self) -> u32 {
        self.connection.connection_id()
    }

    /// Runs a statement in the text protocol; returns the number of affected rows.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn run(&mut self, sql: &str) -> SqlResult<u64> {
        self.connection.query_drop(sql)?;
        Ok(self.connection.affected_rows())
    }

    /// Runs several statements in one round trip and reads all their results. Fails if any of them
    /// fails.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn run_all(&mut self, sql: &str) -> SqlResult<()> {
        let mut answers = self.connection.query_iter(sql)?;
        while let Some(answer) = answers.iter() {
            for row in answer {
                row?;
            }
        }
        Ok(())
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn prepare(&mut self, sql: &str) -> SqlResult<Statement> {
        Ok(self.connection.prep(sql)?)
    }

    /// Executes a prepared statement that returns no rows; returns the number of affected rows
    /// ("changed", not "found").
    ///
    /// # Errors
    /// Errors of the server.
    pub fn execute(&mut self, statement: &Statement, values: impl Into<Params>) -> SqlResult<u64> {
        self.connection.exec_drop(statement, values)?;
        Ok(self.connection.affected_rows())
    }

    /// Executes a prepared query and reads all its rows; returns their number.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn query(
        &mut self,
        statement: &Statement,
        values: impl Into<Params>,
        mut visit: impl FnMut(&Row),
    ) -> SqlResult<u64> {
        let mut rows = 0;
        for row in self.connection.exec_iter(statement, values)? {
            visit(&row?);
            rows += 1;
        }
        Ok(rows)
    }

    /// Executes a prepared query and discards its rows; returns their number.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn skim(&mut self, statement: &Statement, values: impl Into<Params>) -> SqlResult<u64> {
        self.query(statement, values, |_| ())
    }

    /// Runs a query in the text protocol and reads all its rows; returns their number.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn rows(&mut self, sql: &str, mut visit: impl FnMut(&Row)) -> SqlResult<u64> {
        let mut rows = 0;
        for row in self.connection.query_iter(sql)? {
            visit(&row?);
            rows += 1;
        }
        Ok(rows)
    }

    /// Runs `body` with these values of session variables, and then sets the variables to their
    /// global values, in reverse order.
    ///
    /// # Errors
    /// Errors of the server and of `body`.
    pub fn with_variables<T>(
        &mut self,
        variables: &[(String, String)],
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        for (name, value) in variables {
            self.run(&format!("SET SESSION {name} = {value}"))?;
        }
        let done = body(self);
        for (name, _) in variables.iter().rev() {
            let reset = self.run(&format!("SET SESSION {name} = @@GLOBAL.{name}"));
            if done.is_ok() {
                reset?;
            }
        }
        done
    }

    /// Runs LOAD DATA LOCAL INFILE with what `source` writes as the file; returns the number of
    /// rows loaded.
    ///
    /// # Errors
    /// Errors of the server and of `source`.
    pub fn load_data(
        &mut self,
        sql: &str,
        mut source: impl FnMut(&mut dyn Write) -> std::io::Result<()> + Send + 'static,
    ) -> SqlResult<u64> {
        let handler = LocalInfileHandler::new(move |_, file| source(file));
        self.connection.set_local_infile_handler(Some(handler));
        let rows = self.run(sql);
        self.connection.set_local_infile_handler(None);
        rows
    }

    /// Runs a query; returns the first column of the first row as text.
    ///
    /// # Errors
    /// Errors of the server; there is no row, or its value is NULL.
    pub fn value(&mut self, sql: &str) -> SqlResult<String> {
        let mut found = None;
        self.rows(sql, |row| {
            if found.is_none() {
                found = text_of(row, 0);
            }
        })?;
        found.ok_or_else(|| SqlError::Other(Failure(format!("server: no answer to {sql}"))))
    }
}

/// A column by its name, as text; `None` if it is NULL or does not exist. Servers differ in the
/// columns of SHOW and EXPLAIN, and in the case of their names.
pub fn text_named(row: &Row, name: &str) -> Option<String> {
    let is_named = |column: &mysql::Column| column.name_str().eq_ignore_ascii_case(name);
    text_of(row, row.columns_ref().iter().position(is_named)?)
}

/// A column as a whole number; `None` if it is NULL, not a number, or does not exist.
pub fn number_of(row: &Row, column: usize) -> Option<i64> {
    match row.as_ref(column)? {
        Value::Int(number) => Some(*number),
        Value::UInt(number) => i64::try_from(*number).ok(),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// A column as text; `None` if it is NULL or does not exist.
pub fn text_of(row: &Row, column: usize) -> Option<String> {
    match row.as_ref(column)? {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Int(number) => Some(number.to_string()),
        Value::UInt(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Double(number) => Some(number.to_string()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
