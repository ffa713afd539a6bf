//! Queries for runs and cells in the database of results.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension, Params, Row, params};

use super::database::Database;
use super::write::CellKey;
use crate::lab::run::Request;
use crate::lab::suggest::unknown;
use crate::targets::{Failure, Result};

impl Database {
    /// The id and uid of the latest unfinished run of the same request.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn find_unfinished(&self, request: &Request) -> Result<Option<(i64, String)>> {
        let sql = "SELECT id, uid FROM run JOIN environment ON run=id WHERE suite=? AND ended IS NULL \
                   AND name='request' AND value=? ORDER BY id DESC LIMIT 1";
        let which = params![request.suite, request.identity()];
        let found = self.connection.query_row(sql, which, |row| Ok((row.get(0)?, row.get(1)?)));
        found.optional().map_err(|error| self.failure(&error))
    }

    /// Cells of a run that need not run again, because they ended normally or at their time limit.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn done_cells(&self, run: i64) -> Result<BTreeSet<CellKey>> {
        let sql = "SELECT workload, variant, face, target, repeat FROM cell WHERE run=? AND failure IS NULL";
        Ok(self.select(sql, [run], key_of)?.into_iter().collect())
    }

    /// Facts, which must be equal on all targets, of the finished cells of a run: cell, name,
    /// value.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn facts(&self, run: i64) -> Result<Vec<(CellKey, String, String)>> {
        let sql = "SELECT workload, variant, face, target, repeat, SUBSTR(name, 7), detail FROM verification \
                   JOIN cell ON cell.id=verification.cell WHERE run=? AND state='done' AND name LIKE 'fact: %' \
                   ORDER BY position";
        self.select(sql, [run], |row| Ok((key_of(row)?, row.get(5)?, row.get(6)?)))
    }

    /// The environment value `name` of the latest run on this machine, with this class and size,
    /// whose environment contains the given pair.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn environment_of(
        &self,
        (machine, class, size): (&str, &str, &str),
        (key, value): (&str, &str),
        name: &str,
    ) -> Result<Option<String>> {
        let sql = "SELECT found.value FROM run JOIN environment has ON has.run=id JOIN environment found ON found.run=id \
                   WHERE machine=? AND class=? AND size=? AND has.name=? AND has.value=? AND found.name=? \
                   ORDER BY id DESC LIMIT 1";
        let which = params![machine, class, size, key, value, name];
        let found = self.connection.query_row(sql, which, |row| row.get(0));
        found.optional().map_err(|error| self.failure(&error))
    }

    /// Runs a query and converts all its rows.
    fn select<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare(sql)?.query_map(values, read)?.collect()
        };
        rows().map_err(|error| self.failure(&error))
    }
}

/// The key of a cell, from a row that starts with workload, variant, face, target and repeat.
fn key_of(row: &Row<'_>) -> rusqlite::Result<CellKey> {
    Ok(CellKey {
        workload: row.get(0)?,
        variant: row.get(1)?,
        face: row.get(2)?,
        target: row.get(3)?,
        repeat: row.get(4)?,
    })
}

/// The value of a metric of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Workload.
    pub workload: String,
    /// Parameters that `--set` changed.
    pub variant: String,
    /// Face: sql or embedded.
    pub face: String,
    /// Target.
    pub target: String,
    /// Repeat, from 1.
    pub repeat: u32,
    /// Name of the step; empty for the whole cell.
    pub step: String,
    /// Metric.
    pub metric: String,
    /// Value of the metric.
    pub value: f64,
    /// Memory of the target, bytes.
    pub memory_b: i64,
}

/// A parameter of the cells of a workload on a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellParameter {
    /// Workload.
    pub workload: String,
    /// Parameters that `--set` changed.
    pub variant: String,
    /// Face: sql or embedded.
    pub face: String,
    /// Target.
    pub target: String,
    /// Name of the parameter.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Description of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunInfo {
    /// Id in this file.
    pub id: i64,
    /// Unique name across files.
    pub uid: String,
    /// Suite or workload.
    pub suite: String,
    /// Size.
    pub size: String,
    /// Storage class.
    pub class: String,
    /// Durability.
    pub durability: String,
    /// Seed of the generators.
    pub seed: i64,
    /// The command line.
    pub command: String,
    /// When it started.
    pub began: String,
    /// When it ended; `None` if it is unfinished.
    pub ended: Option<String>,
    /// Hash of the properties that must be equal for runs to be comparable.
    pub machine: String,
}

impl Database {
    /// All runs, oldest first.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn runs(&self) -> Result<Vec<RunInfo>> {
        let sql = "SELECT id, uid, suite, size, class, durability, seed, command, began, ended, machine FROM run ORDER BY began, id";
        self.select(sql, [], |row| {
            Ok(RunInfo {
                id: row.get(0)?,
                uid: row.get(1)?,
                suite: row.get(2)?,
                size: row.get(3)?,
                class: row.get(4)?,
                durability: row.get(5)?,
                seed: row.get(6)?,
                command: row.get(7)?,
                began: row.get(8)?,
                ended: row.get(9)?,
                machine: row.get(10)?,
            })
        })
    }

    /// Finds the run whose uid starts with `name`; `last` is the one that began last.
    ///
    /// # Errors
    /// No run or several runs match; errors of SQLite.
    pub fn find_run(&self, name: &str) -> Result<RunInfo> {
        let runs = self.runs()?;
        if name == "last" {
            return runs.last().cloned().ok_or_else(|| Failure("there are no runs yet".to_owned()));
        }
        if name.is_empty() {
            return Err(Failure("the name of a run is empty".to_owned()));
        }
        let found: Vec<&RunInfo> = runs.iter().filter(|run| run.uid.starts_with(name)).collect();
        match found[..] {
            [run] => Ok(run.clone()),
            [] => {
                let uids: Vec<&str> = runs.iter().map(|run| run.uid.as_str()).collect();
                Err(unknown("run", name, &uids))
            }
            _ => Err(Failure(format!(
                "{} runs begin with `{name}`: use a longer prefix",
                found.len()
            ))),
        }
    }

    /// Metrics of the cells of a run that did not fail, in the order of the run.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn measured(&self, run: i64) -> Result<Vec<Measured>> {
        let sql = "SELECT workload, variant, face, target, repeat, step, name, value, memory_b FROM metric \
                   JOIN cell ON cell.id=metric.cell WHERE run=? AND state<>'failed' ORDER BY position, step, name";
        self.select(sql, [run], |row| {
            Ok(Measured {
                workload: row.get(0)?,
                variant: row.get(1)?,
                face: row.get(2)?,
                target: row.get(3)?,
                repeat: row.get(4)?,
                step: row.get(5)?,
                metric: row.get(6)?,
                value: row.get(7)?,
                memory_b: row.get(8)?,
            })
        })
    }

    /// Parameters of the cells of a run, without repeats of the same value.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn parameters(&self, run: i64) -> Result<Vec<CellParameter>> {
        let sql = "SELECT DISTINCT workload, variant, face, target, name, value FROM parameter \
                   JOIN cell ON cell.id=parameter.cell WHERE run=?";
        self.select(sql, [run], |row| {
            Ok(CellParameter {
                workload: row.get(0)?,
                variant: row.get(1)?,
                face: row.get(2)?,
                target: row.get(3)?,
                name: row.get(4)?,
                value: row.get(5)?,
            })
        })
    }

    /// The environment of a run: name and value.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn environment(&self, run: i64) -> Result<BTreeMap<String, String>> {
        let sql = "SELECT name, value FROM environment WHERE run=?";
        let pairs = self.select(sql, [run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(pairs.into_iter().collect())
    }

    /// Settings of the targets of a run: target, name, value, and the workloads and repeats that
    /// have this value, if not all do.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn settings(&self, run: i64) -> Result<Vec<[String; 5]>> {
        let sql = "SELECT target, name, value, CASE WHEN COUNT(DISTINCT workload) < \
                   (SELECT COUNT(DISTINCT workload) FROM cell AS other WHERE other.run=cell.run AND other.target=cell.target) \
                   THEN GROUP_CONCAT(DISTINCT workload) ELSE '' END, CASE WHEN COUNT(DISTINCT repeat) < \
                   (SELECT COUNT(DISTINCT repeat) FROM cell AS other WHERE other.run=cell.run AND other.target=cell.target) \
                   THEN GROUP_CONCAT(DISTINCT repeat) ELSE '' END \
                   FROM setting JOIN cell ON cell.id=setting.cell WHERE run=? GROUP BY target, name, value ORDER BY 1, 2, 3";
        self.select(sql, [run], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
        })
    }

    /// Checksums of the rows of a run: workload with variant, table, and rows with checksum.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn checksums(&self, run: i64) -> Result<Vec<[String; 3]>> {
        let sql = "SELECT DISTINCT TRIM(workload || ' ' || variant), SUBSTR(name, 7), detail FROM verification \
                   JOIN cell ON cell.id=verification.cell WHERE run=? AND name LIKE 'fact: %' ORDER BY position, 2";
        self.select(sql, [run], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
    }

    /// Cells of a run that failed or were stopped, each with its state and the reason of a failure.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn unfinished(&self, run: i64) -> Result<Vec<(String, String, String)>> {
        let sql = "SELECT workload || ' on ' || target || ', repeat ' || repeat, state, \
                   COALESCE(failure, '') FROM cell WHERE run=? AND state<>'done' ORDER BY position";
        self.select(sql, [run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }
}
