//! The isolation table of docs/safety.md §4.6, every row at every level: deterministic sessions
//! find their rows by the table's key, by plain and unique indexes, and without an index; in
//! memory, from disk, and with every commit flushed before the next step.
//!
//! | file | what it does |
//! |---|---|
//! | `cases.rs` | the table: scripts, and their expected results |
//! | `mixed.rs` | scripts whose sessions have different levels |
//! | `script.rs` | parses and plays scripts |
//! | `session.rs` | statements, by each way to find a row |
//!
//! Promise: P23.

mod cases;
mod mixed;
mod script;
mod session;

use frond::{Db, Durability, Isolation, Options, Table, check::CheckMode, internals::io::Env};
use frond_testkit::disk::SimVfs;

use cases::CASES;
use mixed::MIXED;
use script::{parse, play, told};
use session::{Way, ways};

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// Where the rows are at the first step, and where later commits go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    InMemory,
    /// On disk, with the store freshly opened.
    OnDisk,
    /// On disk, and each commit is flushed before the next step: what was written since a snapshot
    /// must be detected in trees, which store no seqnos (Rule: I27).
    OnDiskAlways,
}

fn open(vfs: &SimVfs, way: Way) -> (Db, Table) {
    // The caller does the store's background work, so that none happens during a step.
    let env = Env { clock: Env::real().clock, ..vfs.env(0) };
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy).env(env);
    let db = Db::open("/store", options).unwrap();
    let table = session::open(&db, way);
    (db, table)
}

/// Plays a script; returns its course and the rows at the end.
fn course(steps: &str, way: Way, level: &dyn Fn(u32) -> Isolation, rows: Rows) -> String {
    let vfs = SimVfs::new();
    let (mut db, mut table) = open(&vfs, way);
    session::fill(&db, &table);
    if rows != Rows::InMemory {
        drop(table);
        db.close().unwrap();
        (db, table) = open(&vfs, way);
    }
    let after_commit = |db: &Db| {
        if rows == Rows::OnDiskAlways {
            db.checkpoint().unwrap();
        }
    };
    let course = play(&db, &table, (way, level), &parse(steps), after_commit);
    let stats = db.lock_stats();
    assert_eq!((stats.locks, stats.ranges), (0, 0), "locks are given back");
    assert_eq!(db.stats().snapshots, 0, "and snapshots");
    let end = told(&session::rows(&db, &table, way));
    assert!(table.check().unwrap().is_clean());
    assert!(db.check(CheckMode::Quick).unwrap().is_clean());
    format!("{course} | {end}")
}

fn hold(rows: Rows) {
    let mut wrong = Vec::new();
    for case in CASES {
        for isolation in LEVELS {
            for &way in ways(isolation) {
                let expected = case.said(isolation, way).next().unwrap_or_default();
                let found = course(case.steps, way, &|_| isolation, rows);
                if found != expected {
                    wrong.push(format!(
                        "{}: {isolation:?}, {way:?}\n  steps  {}\n  expected {expected}\n  found    {found}",
                        case.row, case.steps
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{rows:?}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_at_every_level_in_memory() {
    hold(Rows::InMemory);
}

#[test]
fn every_case_at_every_level_from_disk() {
    hold(Rows::OnDisk);
}

#[test]
fn every_case_at_every_level_with_each_commit_flushed() {
    hold(Rows::OnDiskAlways);
}

/// Promise: P23. The guarantees of a session do not depend on the levels of the others.
#[test]
fn sessions_of_different_levels_keep_their_guarantees() {
    let mut wrong = Vec::new();
    for case in MIXED {
        for (first, second) in case.pairs() {
            for &way in ways(Isolation::Serializable) {
                let level = |number: u32| if number == 1 { first } else { second };
                for rows in [Rows::InMemory, Rows::OnDiskAlways] {
                    let found = course(case.steps, way, &level, rows);
                    let expected = case.end;
                    if found != expected {
                        wrong.push(format!(
                            "{}: {first:?} with {second:?}, {way:?}, {rows:?}\n  steps  {}\n  expected {expected}\n  found    {found}",
                            case.row, case.steps
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Each case has exactly one result for each level and way.
#[test]
fn every_case_has_one_result_for_each_level() {
    for case in CASES {
        for isolation in LEVELS {
            for &way in ways(isolation) {
                let said = case.said(isolation, way).count();
                assert_eq!(said, 1, "{}: {isolation:?}, {way:?}", case.row);
            }
        }
    }
}
