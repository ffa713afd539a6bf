//! A database of results that tests fill by hand.

use std::path::PathBuf;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use rusqlite::params;

use crate::lab::results::Database;

/// A database of results in a temporary folder of its own.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub database: Database,
    run: i64,
    position: i64,
}

/// A cell of the database, with methods that fill it.
pub struct Filling<'a> {
    lab: &'a Lab,
    id: i64,
}

impl Lab {
    /// Makes an empty database.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let database = Database::open(&folder.path().join("r.sqlite")).expect("a database");
        database.connection.execute_batch("BEGIN").expect("one transaction, or filling is slow");
        Self { folder, database, run: 0, position: 0 }
    }

    /// The folder for the pages of its report.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> i64 {
        self.database.connection.execute(sql, parameters).expect(sql);
        self.database.connection.last_insert_rowid()
    }

    /// Adds a run, newer than those before.
    pub fn run(&mut self, uid: &str, suite: &str, size: &str, durability: &str) {
        let began = format!("2026-11-{:02}T08:00:00Z", self.run + 1);
        let command = format!("lab run {suite} --size {size} --repeat 3");
        self.run = self.execute(
            "INSERT INTO run (uid, suite, size, class, durability, seed, command, began, ended, machine) \
             VALUES (?,?,?,'host',?,42,?,?,?,'c0ffee12')",
            params![uid, suite, size, durability, command, began, began],
        );
        for (name, value) in [
            ("cpu", "AMD EPYC 7B13 (2 cores)"),
            ("memory_b", "24696061952"),
            ("kernel", "6.18.0"),
            ("device", "virtio, 256 GB"),
            ("file_system", "ext4"),
            ("commit", "9d66a4b464f0"),
            ("fio.randread_4k_qd1_us", "84"),
        ] {
            self.execute("INSERT INTO environment VALUES (?,?,?)", params![self.run, name, value]);
        }
    }

    /// Changes the last run.
    pub fn change_run(&self, assignment: &str) {
        self.execute(&format!("UPDATE run SET {assignment} WHERE id=?"), [self.run]);
    }

    /// Adds an entry to the environment of the last run.
    pub fn environment(&self, name: &str, value: &str) {
        self.execute("INSERT INTO environment VALUES (?,?,?)", params![self.run, name, value]);
    }

    /// Adds a cell to the last run.
    pub fn cell(
        &mut self,
        face: &str,
        workload: &str,
        variant: &str,
        target: &str,
        repeat: i64,
    ) -> Filling<'_> {
        self.position += 1;
        let id = self.execute(
            "INSERT INTO cell (run, workload, variant, face, target, repeat, position, state, began, seconds, \
             memory_b, version) VALUES (?,?,?,?,?,?,?,'done','2026-11-20T08:00:00Z',60.0,214958080,?)",
            params![self.run, workload, variant, face, target, repeat, self.position, format!("{target} 10.11.19")],
        );
        Filling { lab: self, id }
    }
}

impl Filling<'_> {
    /// Sets the cell's state: it failed, or was stopped.
    pub fn state(&self, state: &str, failure: Option<&str>, log: Option<&str>) -> &Self {
        self.lab.execute(
            "UPDATE cell SET state=?, failure=?, log_tail=? WHERE id=?",
            params![state, failure, log, self.id],
        );
        self
    }

    /// Adds a metric.
    pub fn metric(&self, step: &str, name: &str, value: f64) -> &Self {
        self.lab
            .execute("INSERT INTO metric VALUES (?,?,?,?)", params![self.id, step, name, value]);
        self
    }

    /// Adds metrics of a step.
    pub fn metrics(&self, step: &str, metrics: &[(&str, f64)]) -> &Self {
        metrics.iter().for_each(|(name, value)| {
            self.metric(step, name, *value);
        });
        self
    }

    /// Adds a series with one value per second.
    pub fn series(&self, step: &str, name: &str, values: impl IntoIterator<Item = f64>) -> &Self {
        for (t, value) in values.into_iter().enumerate() {
            self.lab.execute(
                "INSERT INTO series VALUES (?,?,?,?,?)",
                params![self.id, step, name, t as f64, value],
            );
        }
        self
    }

    /// Adds a histogram of these latencies in ns.
    pub fn histogram(&self, step: &str, operation: &str, values: &[u64]) -> &Self {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        values.iter().for_each(|value| histogram.saturating_record(*value));
        let mut data = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut data).expect("bytes in memory");
        self.bytes(step, operation, &data)
    }

    /// Adds a histogram with these bytes as its data.
    pub fn bytes(&self, step: &str, operation: &str, data: &[u8]) -> &Self {
        self.lab.execute(
            "INSERT INTO histogram VALUES (?,?,?,1,?)",
            params![self.id, step, operation, data],
        );
        self
    }

    /// Adds the value of a counter, `t` seconds after the start of the step.
    pub fn counter(&self, step: &str, t: f64, source: &str, name: &str, value: f64) -> &Self {
        self.lab.execute(
            "INSERT INTO counter VALUES (?,?,?,?,?,?)",
            params![self.id, step, t, source, name, value],
        );
        self
    }

    /// Adds a parameter.
    pub fn parameter(&self, name: &str, value: &str) -> &Self {
        self.lab.execute("INSERT INTO parameter VALUES (?,?,?)", params![self.id, name, value]);
        self
    }

    /// Adds a setting.
    pub fn setting(&self, name: &str, value: &str) -> &Self {
        self.lab.execute("INSERT INTO setting VALUES (?,?,?)", params![self.id, name, value]);
        self
    }

    /// Sets the memory that the target was given, in bytes.
    pub fn memory(&self, bytes: i64) -> &Self {
        self.lab.execute("UPDATE cell SET memory_b=? WHERE id=?", params![bytes, self.id]);
        self
    }

    /// Adds a parameter, a setting and a verification.
    pub fn conditions(
        &self,
        parameter: (&str, &str),
        setting: (&str, &str),
        passed: bool,
    ) -> &Self {
        self.parameter(parameter.0, parameter.1).setting(setting.0, setting.1);
        let detail =
            if passed { "2,500,000 rows, 0x4d5a90e1" } else { "2,499,999 rows of 2,500,000" };
        self.lab.execute(
            "INSERT INTO verification VALUES (?,'counts',?,?)",
            params![self.id, passed, detail],
        );
        self
    }
}
