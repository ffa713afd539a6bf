//! A session with the server: statements into it, rows out of it, over its socket in the text protocol.
//!
//! Threads: one.

use std::path::Path;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Value};

use crate::targets::{Failure, Result};

/// A connection.
pub struct Client {
    connection: Conn,
}

fn failed(error: mysql::Error) -> Failure {
    Failure(format!("mariadbd: {error}"))
}

impl Client {
    /// Connects to the server behind this socket.
    pub fn connect(socket: &Path, database: &str) -> Result<Self> {
        let options = OptsBuilder::new()
            .socket(Some(socket.display().to_string()))
            .prefer_socket(true)
            .user(Some("root"))
            .db_name((!database.is_empty()).then_some(database));
        Ok(Self { connection: Conn::new(options).map_err(failed)? })
    }

    /// Runs a statement that gives no rows.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        self.connection.query_drop(sql).map_err(failed)
    }

    /// Runs a statement; `visit` sees each row's columns as text, and ends it with false: the rest of the rows is
    /// passed over.
    pub fn query(
        &mut self,
        sql: &str,
        visit: &mut dyn FnMut(&[Option<&[u8]>]) -> bool,
    ) -> Result<()> {
        let mut wanted = true;
        for row in self.connection.query_iter(sql).map_err(failed)? {
            let row = row.map_err(failed)?;
            if !wanted {
                continue;
            }
            let column = |at| match row.as_ref(at) {
                Some(Value::Bytes(bytes)) => Some(bytes.as_slice()),
                _ => None, // the text protocol has nothing else but NULL
            };
            let columns: Vec<_> = (0..row.len()).map(column).collect();
            wanted = visit(&columns);
        }
        Ok(())
    }

    /// The first column of the first row, as text.
    pub fn value(&mut self, sql: &str) -> Result<String> {
        let mut text = None;
        self.query(sql, &mut |row| {
            text = row.first().copied().flatten().map(|v| String::from_utf8_lossy(v).into_owned());
            false
        })?;
        text.ok_or_else(|| Failure(format!("mariadbd: no answer to {sql}")))
    }
}
