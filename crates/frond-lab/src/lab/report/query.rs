//! Reads the results for the pages from the database: runs, cells and their metrics, all at once.
//! Series and histograms are large and are read cell by cell.
//!
//! Invariant: numbers are finite. A value that is not, or whose type is not that of the schema,
//! counts as not measured.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::natural::Natural;
use crate::lab::metric;
use crate::lab::results::Database;
use crate::lab::setup::Setup;
use crate::targets::Result;

/// A run: one `lab run`.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub id: i64,
    pub uid: String,
    pub suite: String,
    pub size: String,
    pub class: String,
    pub durability: String,
    pub seed: i64,
    pub command: String,
    pub began: String,
    pub ended: Option<String>,
    pub machine: String,
    /// Name and value.
    pub environment: Vec<(String, String)>,
    pub setup: Setup,
}

/// A cell: one repeat of one workload on one target.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub id: i64,
    pub run: i64,
    pub workload: String,
    pub variant: String,
    pub face: String,
    pub target: String,
    pub repeat: i64,
    pub state: String,
    pub failure: Option<String>,
    pub memory_b: f64,
    pub version: String,
    pub log_tail: Option<String>,
    /// Values by step and metric.
    pub metrics: BTreeMap<Natural, BTreeMap<String, f64>>,
    pub parameters: Vec<(String, String)>,
    pub settings: Vec<(String, String)>,
    /// Name, whether it passed, detail.
    pub verifications: Vec<(String, bool, String)>,
}

impl Cell {
    /// Whether the cell's values count: it is done or was stopped.
    pub fn is_usable(&self) -> bool {
        self.state == "done" || self.state == "stopped"
    }

    /// Whether the storage class limited only a part of the cell's I/O, as the setting `throttle`
    /// says.
    pub fn is_throttled_in_part(&self) -> bool {
        let throttle = self.settings.iter().find(|(name, _)| name == "throttle");
        throttle.is_some_and(|(_, value)| value.split_whitespace().next() == Some("partial"))
    }

    /// The value of a metric in a step, unless it was measured for too short a time to be exact.
    pub fn metric(&self, step: &str, name: &str) -> Option<f64> {
        self.value(step, name).filter(|_| !self.is_too_short(step, name))
    }

    /// Whether a metric was measured in a step, but for too short a time to be exact.
    pub fn is_too_short(&self, step: &str, name: &str) -> bool {
        let flag = metric::find(name).and_then(|metric| metric.unless);
        flag.is_some_and(|flag| self.value(step, flag).is_some_and(|flag| flag > 0.0))
            && self.value(step, name).is_some()
    }

    fn value(&self, step: &str, name: &str) -> Option<f64> {
        self.metrics.get(&Natural::new(step))?.get(name).copied()
    }
}

/// The results that a report shows.
pub struct Results<'a> {
    database: &'a Database,
    /// The runs, newest first.
    pub runs: Vec<Run>,
    /// The cells, ordered by run, and within a run by position.
    pub cells: Vec<Cell>,
}

impl<'a> Results<'a> {
    /// Reads the runs that these uids, prefixes of uids or `last` name; all runs if there are none.
    ///
    /// # Errors
    /// The database cannot be read, or has no such run.
    pub fn read(database: &'a Database, uids: &[String]) -> Result<Self> {
        let mut results = Self { database, runs: Vec::new(), cells: Vec::new() };
        let failure = |error| database.failure(&error);
        let connection = &database.connection;
        let all = runs(connection).map_err(failure)?;
        let mut wanted = Vec::new();
        for uid in uids {
            wanted.push(database.find_run(uid)?.id);
        }
        results.runs =
            all.into_iter().filter(|run| uids.is_empty() || wanted.contains(&run.id)).collect();
        for run in &mut results.runs {
            run.environment =
                pairs(connection, "SELECT name, value FROM environment WHERE run=?", run.id)
                    .map_err(failure)?;
            let of = |name: &str| {
                run.environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
            };
            run.setup = Setup::new(of, &run.command);
            let mut of_run = cells(connection, run.id).map_err(failure)?;
            for cell in &mut of_run {
                fill(connection, cell).map_err(failure)?;
            }
            results.cells.append(&mut of_run);
        }
        Ok(results)
    }

    /// The run of a cell.
    pub fn run(&self, cell: &Cell) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == cell.run)
    }

    /// A series of a step as (seconds, value), ordered by time.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn series(&self, cell: i64, step: &str, name: &str) -> Result<Vec<(f64, f64)>> {
        let sql = "SELECT t, value FROM series WHERE cell=? AND step=? AND name=? ORDER BY t";
        self.rows(sql, (cell, step, name), |row| {
            Ok(number(row, 0)?.zip(number(row, 1)?).filter(|(t, _)| *t >= 0.0))
        })
    }

    /// The sum of the counters of a step whose source and name match one of these pairs (`*` in a
    /// name is any text), as (seconds, value) at each time at which counters were sampled. Empty if
    /// the engine has none of them.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn counter(
        &self,
        cell: i64,
        step: &str,
        counters: &[(&str, &str)],
    ) -> Result<Vec<(f64, f64)>> {
        let mut changes: Vec<(f64, String, f64)> = Vec::new();
        let sql = "SELECT t, name, value FROM counter WHERE cell=? AND step=? AND source=? AND name GLOB ?";
        for (source, pattern) in counters {
            changes.extend(self.rows(sql, (cell, step, source, pattern), |row| {
                let (t, value) = (number(row, 0)?, number(row, 2)?);
                Ok(t.zip(value).map(|(t, value)| (t, format!("{source}.{}", text(row, 1)), value)))
            })?);
        }
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        // A value that has not changed is not stored again, nor is a zero at the start.
        let times = "SELECT DISTINCT t FROM counter WHERE cell=? AND step=? ORDER BY t";
        let times = self.rows(times, (cell, step), |row| number(row, 0))?;
        let (mut last, mut points) = (BTreeMap::new(), Vec::new());
        let mut changes = changes.into_iter().peekable();
        for t in times {
            while let Some((_, name, value)) = changes.next_if(|(at, ..)| *at <= t) {
                last.insert(name, value);
            }
            points.push((t, last.values().sum()));
        }
        Ok(points)
    }

    /// The operations of a step, each with its latencies in ns. Histograms that cannot be decoded
    /// are left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn histograms(&self, cell: i64, step: &str) -> Result<Vec<(String, Histogram<u64>)>> {
        let sql =
            "SELECT operation, data FROM histogram WHERE cell=? AND step=? ORDER BY operation";
        self.rows(sql, (cell, step), |row| {
            let data: Vec<u8> = match row.get_ref(1)? {
                ValueRef::Blob(data) => data.to_vec(),
                _ => return Ok(None),
            };
            let histogram = Deserializer::new().deserialize(&mut data.as_slice()).ok();
            Ok(histogram.map(|histogram| (text(row, 0), histogram)))
        })
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let query = || {
            let mut statement = self.database.connection.prepare(sql)?;
            let rows = statement.query_map(parameters, &mut read)?;
            rows.filter_map(rusqlite::Result::transpose).collect()
        };
        let read: rusqlite::Result<Vec<T>> = query();
        read.map_err(|error| self.database.failure(&error))
    }
}

/// A column as text. Numbers are formatted, NULL is empty, and bytes that are not UTF-8 are
/// replaced.
fn text(row: &Row<'_>, at: usize) -> String {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Ok(ValueRef::Integer(value)) => value.to_string(),
        Ok(ValueRef::Real(value)) => value.to_string(),
        Ok(ValueRef::Null) | Err(_) => String::new(),
    }
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<f64>> {
    let value = match row.get_ref(at)? {
        ValueRef::Integer(value) => value as f64,
        ValueRef::Real(value) => value,
        _ => return Ok(None),
    };
    Ok(value.is_finite().then_some(value))
}

fn optional(row: &Row<'_>, at: usize) -> Option<String> {
    Some(text(row, at)).filter(|text| !text.is_empty())
}

fn runs(connection: &Connection) -> rusqlite::Result<Vec<Run>> {
    let mut statement = connection.prepare(
        "SELECT id, uid, suite, size, class, durability, seed, command, began, ended, machine FROM run \
         ORDER BY began DESC, id DESC",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Run {
            id: row.get(0)?,
            uid: text(row, 1),
            suite: text(row, 2),
            size: text(row, 3),
            class: text(row, 4),
            durability: text(row, 5),
            seed: row.get(6).unwrap_or_default(),
            command: text(row, 7),
            began: text(row, 8),
            ended: optional(row, 9),
            machine: text(row, 10),
            environment: Vec::new(),
            setup: Setup::default(),
        })
    })?;
    rows.collect()
}

fn cells(connection: &Connection, run: i64) -> rusqlite::Result<Vec<Cell>> {
    let mut statement = connection.prepare(
        "SELECT id, run, workload, variant, face, target, repeat, state, failure, memory_b, version, \
         log_tail FROM cell WHERE run=? ORDER BY position, id",
    )?;
    let rows = statement.query_map([run], |row| {
        Ok(Cell {
            id: row.get(0)?,
            run: row.get(1)?,
            workload: text(row, 2),
            variant: text(row, 3),
            face: text(row, 4),
            target: text(row, 5),
            repeat: row.get(6).unwrap_or_default(),
            state: text(row, 7),
            failure: optional(row, 8),
            memory_b: number(row, 9)?.unwrap_or_default(),
            version: text(row, 10),
            log_tail: optional(row, 11),
            ..Cell::default()
        })
    })?;
    rows.collect()
}

fn fill(connection: &Connection, cell: &mut Cell) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT step, name, value FROM metric WHERE cell=?")?;
    let mut rows = statement.query([cell.id])?;
    while let Some(row) = rows.next()? {
        if let Some(value) = number(row, 2)? {
            let step = cell.metrics.entry(Natural::new(&text(row, 0))).or_default();
            step.insert(text(row, 1), value);
        }
    }
    cell.parameters = pairs(connection, "SELECT name, value FROM parameter WHERE cell=?", cell.id)?;
    cell.settings = pairs(connection, "SELECT name, value FROM setting WHERE cell=?", cell.id)?;
    let mut statement = connection
        .prepare("SELECT name, passed, detail FROM verification WHERE cell=? ORDER BY name")?;
    let rows = statement.query_map([cell.id], |row| {
        Ok((text(row, 0), row.get::<_, i64>(1).unwrap_or_default() != 0, text(row, 2)))
    })?;
    cell.verifications = rows.collect::<rusqlite::Result<_>>()?;
    Ok(())
}

fn pairs(connection: &Connection, sql: &str, id: i64) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([id], |row| Ok((text(row, 0), text(row, 1))))?;
    rows.collect()
}
