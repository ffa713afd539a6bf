//! Changes of the catalog, concurrently with everything else: writers with a ledger of what was acknowledged, readers that compare two
//! answers from one moment, and memtables that are applied all the time.
//!
//! A test ends after a number of changes, whatever the time. What it asserts does not depend on the order of things.

#[path = "../common/mod.rs"]
mod common;
mod indexes;
mod ledger;
mod readers;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use frond::{Batch, Db, Error, Isolation, Result, Snapshot, Tree, TreeOptions, TxnOptions};

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    (dir, db)
}

/// Runs `changes` while the others run, until all changes are made. Those are called again and again.
fn beside(db: &Db, changes: impl FnOnce(), others: &[&(dyn Fn(u64) + Sync)]) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (at, other) in others.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                let _over = Over(is_over);
                let mut round = at as u64;
                while !is_over.load(Ordering::Relaxed) {
                    other(round);
                    round += others.len() as u64;
                }
            });
        }
        // Memtables are applied, and checkpoints are made.
        scope.spawn(|| {
            let _over = Over(&is_over);
            let noise = db.create_tree("noise", TreeOptions::default()).unwrap();
            let mut round = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                noise.put(&(round % 100).to_be_bytes(), &[7; 20]).unwrap();
                db.checkpoint().unwrap();
            }
        });
        let _over = Over(&is_over);
        changes();
    });
}

/// Ends all threads when one ends, also if it has failed: else the others would never end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether an error says that a tree is gone, or another, by a name that the caller knows.
fn is_gone(error: &Error, name: &str) -> bool {
    match error {
        Error::NoSuchTree(told) | Error::DefinitionChanged(told) => told == name,
        _ => false,
    }
}

/// Whether a transaction or batch is to be done again.
fn is_retry(error: &Error) -> bool {
    matches!(error, Error::Deadlock { .. } | Error::TxnEnded | Error::Conflict { .. })
}

fn keys(snapshot: &Snapshot, tree: &Tree) -> Result<Vec<Vec<u8>>> {
    let mut cursor = snapshot.scan(tree, ..)?;
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next()? {
        keys.push(key.to_vec());
    }
    Ok(keys)
}

fn assert_clean(db: &Db) {
    let report = db.check(frond::CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}
