//! Writing a run and its cells.

use rusqlite::{Transaction, params};

use super::cell::CellResult;
use super::database::Database;
use crate::targets::Result;

/// What a run is, when it begins.
#[derive(Clone, Debug)]
pub struct RunHead {
    /// Random name.
    pub uid: String,
    /// Suite or workload.
    pub suite: String,
    /// Its size, class and durability.
    pub size: String,
    /// Storage class.
    pub class: String,
    /// Durability.
    pub durability: String,
    /// Seed.
    pub seed: u64,
    /// As it was typed.
    pub command: String,
    /// When it began.
    pub began: String,
    /// Hash of what must be equal for results to be compared.
    pub machine: String,
    /// Machine and software.
    pub environment: Vec<(String, String)>,
}

/// Which cell of a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellKey {
    /// Workload.
    pub workload: String,
    /// What `--set` changed.
    pub variant: String,
    /// sql or embedded.
    pub face: String,
    /// Target.
    pub target: String,
    /// From 1.
    pub repeat: u32,
}

impl Database {
    /// Begins a run; gives its number.
    ///
    /// # Errors
    /// SQLite's.
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

    /// Notes that a run has ended.
    ///
    /// # Errors
    /// SQLite's.
    pub fn end_run(&mut self, run: i64, ended: &str) -> Result<()> {
        let row = params![ended, run];
        let ended = self.connection.execute("UPDATE run SET ended=? WHERE id=?", row);
        ended.map(drop).map_err(|error| self.failure(&error))
    }

    /// Writes a cell that has ended: all of it, or nothing. One that was there is replaced: it had failed, or was stopped.
    ///
    /// # Errors
    /// SQLite's.
    pub fn write_cell(
        &mut self,
        run: i64,
        key: &CellKey,
        position: usize,
        cell: &CellResult,
    ) -> Result<()> {
        let written = (|| {
            let transaction = self.connection.transaction()?;
            remove(&transaction, run, key)?;
            insert(&transaction, run, key, position, cell)?;
            transaction.commit()
        })();
        written.map_err(|error| self.failure(&error))
    }
}

/// Tables with rows of cells.
pub const PARTS: [&str; 7] =
    ["parameter", "setting", "metric", "series", "histogram", "counter", "verification"];

fn remove(transaction: &Transaction<'_>, run: i64, key: &CellKey) -> rusqlite::Result<()> {
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
