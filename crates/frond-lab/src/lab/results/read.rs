//! Reading what runs and cells there are.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use super::database::Database;
use super::write::CellKey;
use crate::lab::run::Request;
use crate::targets::Result;

impl Database {
    /// The last run of the same request that has not ended: its number and uid.
    ///
    /// # Errors
    /// SQLite's.
    pub fn find_unfinished(&self, request: &Request) -> Result<Option<(i64, String)>> {
        let sql = "SELECT id, uid FROM run WHERE suite=? AND size=? AND class=? AND durability=? AND seed=? \
                   AND ended IS NULL ORDER BY id DESC LIMIT 1";
        let which = params![
            request.suite,
            request.size.to_string(),
            request.class,
            request.durability.to_string(),
            request.seed as i64
        ];
        let found = self.connection.query_row(sql, which, |row| Ok((row.get(0)?, row.get(1)?)));
        found.optional().map_err(|error| self.failure(&error))
    }

    /// Cells of a run that need not be run again: they ended by themselves, or at their time limit.
    ///
    /// # Errors
    /// SQLite's.
    pub fn done_cells(&self, run: i64) -> Result<BTreeSet<CellKey>> {
        let read = || -> rusqlite::Result<BTreeSet<CellKey>> {
            let mut statement = self.connection.prepare(
                "SELECT workload, variant, face, target, repeat FROM cell WHERE run=? AND failure IS NULL",
            )?;
            let cells = statement.query_map([run], |row| {
                Ok(CellKey {
                    workload: row.get(0)?,
                    variant: row.get(1)?,
                    face: row.get(2)?,
                    target: row.get(3)?,
                    repeat: row.get(4)?,
                })
            })?;
            cells.collect()
        };
        read().map_err(|error| self.failure(&error))
    }
}
