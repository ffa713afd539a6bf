//! A database, and an example of a run and of a cell, for tests.

use tempfile::TempDir;

use super::cell::{CellResult, CounterSample, Latencies, State, StepResult, Verification};
use super::database::Database;
use super::write::{CellKey, RunHead};

/// A new database, and the directory that it is in.
pub fn a_database() -> (TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let database = Database::open(&dir.path().join("r")).expect("a new file");
    (dir, database)
}

/// An example of a run.
pub fn a_run(uid: &str) -> RunHead {
    RunHead {
        uid: uid.to_owned(),
        suite: "iibench".to_owned(),
        size: "quick".to_owned(),
        class: "host".to_owned(),
        durability: "safe".to_owned(),
        seed: 42,
        command: "lab run iibench".to_owned(),
        began: "2026-01-01T00:00:00Z".to_owned(),
        machine: "m1".to_owned(),
        environment: vec![("cpu".to_owned(), "a <fast> one".to_owned())],
    }
}

/// The key of a cell of that run.
pub fn a_key(target: &str, repeat: u32) -> CellKey {
    CellKey {
        workload: "iibench".to_owned(),
        variant: String::new(),
        face: "sql".to_owned(),
        target: target.to_owned(),
        repeat,
    }
}

/// A cell with something in every part.
pub fn a_cell() -> CellResult {
    let pair = |name: &str, value: f64| (name.to_owned(), value);
    let step = StepResult {
        name: "load".to_owned(),
        metrics: [pair("ops_s", 1000.5), pair("exit_velocity", 900.25)].into(),
        series: [("ops".to_owned(), vec![(1.0, 1000.0), (2.0, 2001.0)])].into(),
        latencies: [("commit".to_owned(), Latencies { count: 2, data: vec![0, 1, 254, 255] })]
            .into(),
        counters: vec![CounterSample {
            t: 0.0,
            source: "global_status".to_owned(),
            name: "Com_insert".to_owned(),
            value: 7.0,
        }],
    };
    CellResult {
        state: State::Done,
        began: "2026-01-01T00:00:01Z".to_owned(),
        seconds: 2.5,
        memory_b: 64 << 20,
        version: "InnoDB in MariaDB".to_owned(),
        log_tail: Some("ready".to_owned()),
        parameters: [("rows".to_owned(), "2001".to_owned())].into(),
        settings: [("innodb-x".to_owned(), "1".to_owned())].into(),
        metrics: [pair("disk_b", 4096.0)].into(),
        steps: vec![step],
        verified: vec![Verification {
            name: "rows of t".to_owned(),
            passed: true,
            detail: "2001 rows".to_owned(),
        }],
        ..CellResult::default()
    }
}
