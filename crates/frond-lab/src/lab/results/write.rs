//! Writes a run and its cells to the database of results.

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::cell::CellResult;
use super::database::Database;
use crate::measure::Owner;
use crate::targets::{Failure, Result};

/// Name of the process that runs the cells of a run, among the descriptions of its environment.
pub const OWNER: &str = "owner";

/// Description of a run at its start.
#[derive(Clone, Debug)]
pub struct RunHead {
    /// Random unique name.
    pub uid: String,
    /// Suite or workload.
    pub suite: String,
    /// Size.
    pub size: String,
    /// Storage class.
    pub class: String,
    /// Durability.
    pub durability: String,
    /// Seed.
    pub seed: u64,
    /// The command line as typed, without passwords.
    pub command: String,
    /// When it started.
    pub began: String,
    /// Hash of the properties that must be equal for results to be comparable.
    pub machine: String,
    /// Description of machine and software: name and value.
    pub environment: Vec<(String, String)>,
}

/// Identifies a cell of a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellKey {
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
}

impl Database {
    /// Starts a run; returns its id.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn begin_run(&mut self, head: &RunHead) -> Result<i64> {
        let begun = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute(
                "INSERT INTO run(uid, suite, size, class, durability, seed, command, began, machine) \
                 VALUES(?,?,?,?,?,?,?,?,?)",
                params![
                    head.uid,
                    head.suite,
                    head.size,
                    head.class,
                    head.durability,
                    head.seed as i64,
                    head.command,
                    head.began,
                    head.machine
                ],
            )?;
            let run = transaction.last_insert_rowid();
            for (name, value) in &head.environment {
                let row = params![run, name, value];
                transaction.execute("INSERT OR REPLACE INTO environment VALUES(?,?,?)", row)?;
            }
            transaction.commit()?;
            Ok(run)
        })();
        begun.map_err(|error| self.failure(&error))
    }

    /// Makes this process the one that runs the cells of a run, until it calls `release` or ends.
    ///
    /// # Errors
    /// Another process that is still running has the run. Errors of SQLite.
    pub fn acquire(&mut self, run: i64) -> Result<()> {
        let own = Owner::own();
        let other = (|| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = self.connection.transaction_with_behavior(immediate)?;
            let sql = "SELECT value FROM environment WHERE run=? AND name=?";
            let found = transaction.query_row(sql, params![run, OWNER], |row| row.get(0));
            let found: Option<String> = found.optional()?;
            let other = found.and_then(|name| Owner::of(&name, ""));
            if let Some(other) = other.filter(|other| *other != own && other.lives()) {
                return Ok(Some(other));
            }
            let row = params![run, OWNER, own.name("")];
            transaction.execute("INSERT OR REPLACE INTO environment VALUES(?,?,?)", row)?;
            transaction.commit()?;
            Ok(None)
        })();
        match other.map_err(|error| self.failure(&error))? {
            None => Ok(()),
            Some(other) => Err(Failure(format!(
                "this run is in progress in process {}: wait for it, or interrupt it with Ctrl-C",
                other.pid()
            ))),
        }
    }

    /// Lets another process resume a run.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn release(&mut self, run: i64) -> Result<()> {
        let sql = "DELETE FROM environment WHERE run=? AND name=?";
        let released = self.connection.execute(sql, params![run, OWNER]);
        released.map(drop).map_err(|error| self.failure(&error))
    }

    /// Marks a run as ended.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn end_run(&mut self, run: i64, ended: &str) -> Result<()> {
        let row = params![ended, run];
        let ended = self.connection.execute("UPDATE run SET ended=? WHERE id=?", row);
        ended.map(drop).map_err(|error| self.failure(&error))
    }

    /// Writes a finished cell in one transaction. Replaces an existing one, which had failed or was
    /// stopped.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn write_cell(
        &mut self,
        run: i64,
        key: &CellKey,
        position: usize,
        cell: &CellResult,
    ) -> Result<()> {
        let written = (|| {
            let transaction = self.connection.transaction()?;
            remove_cell(&transaction, run, key)?;
            insert(&transaction, run, key, position, cell)?;
            transaction.commit()
        })();
        written.map_err(|error| self.failure(&error))
    }
}

/// Tables whose rows belong to a cell.
pub const PARTS: [&str; 7] =
    ["parameter", "setting", "metric", "series", "histogram", "counter", "verification"];

/// Removes a cell with all that belongs to it, if it exists.
///
/// # Errors
/// Errors of SQLite.
pub fn remove_cell(transaction: &Transaction<'_>, run: i64, key: &CellKey) -> rusqlite::Result<()> {
    let which = "run=?1 AND workload=?2 AND variant=?3 AND face=?4 AND target=?5 AND repeat=?6";
    let values = params![run, key.workload, key.variant, key.face, key.target, key.repeat];
    for table in PARTS {
        let sql = format!("DELETE FROM {table} WHERE cell IN (SELECT id FROM cell WHERE {which})");
        transaction.execute(&sql, values)?;
    }
    transaction.execute(&format!("DELETE FROM cell WHERE {which}"), values)?;
    Ok(())
}

fn insert(
    transaction: &Transaction<'_>,
    run: i64,
    key: &CellKey,
    position: usize,
    cell: &CellResult,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO cell(run, workload, variant, face, target, repeat, position, state, failure, began, seconds, \
         memory_b, version, log_tail) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        params![
            run,
            key.workload,
            key.variant,
            key.face,
            key.target,
            key.repeat,
            position as i64,
            cell.state.name(),
            cell.failure,
            cell.began,
            cell.seconds,
            cell.memory_b as i64,
            cell.version,
            cell.log_tail
        ],
    )?;
    let id = transaction.last_insert_rowid();
    for (table, pairs) in [("parameter", &cell.parameters), ("setting", &cell.settings)] {
        let sql = format!("INSERT INTO {table} VALUES(?,?,?)");
        let mut statement = transaction.prepare(&sql)?;
        for (name, value) in pairs {
            statement.execute(params![id, name, value])?;
        }
    }
    let mut metric = transaction.prepare("INSERT INTO metric VALUES(?,?,?,?)")?;
    let finite = |value: &&f64| value.is_finite();
    for (name, value) in cell.metrics.iter().filter(|(_, value)| finite(value)) {
        metric.execute(params![id, "", name, value])?;
    }
    let mut series = transaction.prepare("INSERT OR REPLACE INTO series VALUES(?,?,?,?,?)")?;
    let mut histogram = transaction.prepare("INSERT INTO histogram VALUES(?,?,?,?,?)")?;
    let mut counter = transaction.prepare("INSERT OR REPLACE INTO counter VALUES(?,?,?,?,?,?)")?;
    for step in &cell.steps {
        for (name, value) in step.metrics.iter().filter(|(_, value)| finite(value)) {
            metric.execute(params![id, step.name, name, value])?;
        }
        for (name, points) in &step.series {
            for (t, value) in points {
                series.execute(params![id, step.name, name, t, value])?;
            }
        }
        for (kind, latencies) in &step.latencies {
            let row = params![id, step.name, kind, latencies.count as i64, latencies.data];
            histogram.execute(row)?;
        }
        for sample in &step.counters {
            let row = params![id, step.name, sample.t, sample.source, sample.name, sample.value];
            counter.execute(row)?;
        }
    }
    let mut verification =
        transaction.prepare("INSERT OR REPLACE INTO verification VALUES(?,?,?,?)")?;
    for found in &cell.verified {
        verification.execute(params![id, found.name, found.passed, found.detail])?;
    }
    for (name, value) in &cell.facts {
        verification.execute(params![id, format!("fact: {name}"), true, value])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::testing::{a_database, a_run};

    #[test]
    fn a_run_has_one_process_at_a_time() {
        let (_dir, mut database) = a_database();
        let run = database.begin_run(&a_run("u1")).expect("begun");
        database.acquire(run).expect("it is free");
        database.acquire(run).expect("it is its own");

        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let other = Owner::of_process(child.id()).expect("it lives");
        let row = params![run, OWNER, other.name("")];
        let sql = "INSERT OR REPLACE INTO environment VALUES(?,?,?)";
        database.connection.execute(sql, row).expect("written");
        let failure = database.acquire(run).expect_err("the other process lives");
        assert!(failure.0.contains(&child.id().to_string()), "{failure}");
        child.kill().and_then(|()| child.wait()).expect("killed");
        database.acquire(run).expect("the other process has ended");

        database.release(run).expect("released");
        let sql = "SELECT COUNT(*) FROM environment WHERE name='owner'";
        let left: i64 = database.connection.query_row(sql, [], |row| row.get(0)).expect("counted");
        assert_eq!(left, 0);
    }
}
