//! Tests of races between changes of the catalog and everything else: writers with a ledger of what
//! was acknowledged, readers that compare two answers from one snapshot, and memtables that are
//! applied all the time.
//!
//! A test ends after a number of changes, whatever time that takes. What it asserts does not depend
//! on the order of events.

#[path = "../common/mod.rs"]
mod common;
mod indexes;
mod ledger;
mod readers;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use frond::{Batch, Db, Error, Isolation, Result, Snapshot, Tree, TreeOptions, TxnOptions};

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// The length of long values, which have an extent of their own.
const LONG_BYTES: usize = 700;

fn options() -> frond::Options {
    let mut tuning = common::tiny();
    tuning.shape.iter_mut().for_each(|shape| shape.blob_bytes = LONG_BYTES - 100);
    common::options().tuning(tuning)
}

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    (dir, db)
}

/// Runs `changes` concurrently with `others`, which are called repeatedly until all changes are
/// made. `changes` gets a function to call before each change: it waits until each of the others
/// has had a whole turn since the last one.
fn run_concurrently(db: &Db, changes: impl FnOnce(&dyn Fn()), others: &[&(dyn Fn(u64) + Sync)]) {
    let is_over = AtomicBool::new(false);
    let turns: Vec<AtomicU64> = others.iter().map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for (at, other) in others.iter().enumerate() {
            let (is_over, own) = (&is_over, &turns[at]);
            scope.spawn(move || {
                let _over = Over(is_over);
                while !is_over.load(Ordering::Relaxed) {
                    other(at as u64 + own.load(Ordering::Relaxed) * others.len() as u64);
                    own.fetch_add(1, Ordering::Release);
                }
            });
        }
        // Memtables are applied, and checkpoints made.
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
        changes(&|| {
            // The first of two turns may have started before.
            let ends: Vec<u64> = turns.iter().map(|own| own.load(Ordering::Acquire) + 2).collect();
            let has_had =
                || turns.iter().zip(&ends).all(|(own, end)| own.load(Ordering::Acquire) >= *end);
            while !has_had() {
                assert!(!is_over.load(Ordering::Relaxed), "another thread has failed");
                thread::yield_now();
            }
        });
    });
}

/// Ends all threads when one ends, also on a failure: the others would never end otherwise.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// True if an error reports that the tree is gone or is another one, by the name that the caller
/// uses.
fn is_gone(error: &Error, name: &str) -> bool {
    match error {
        Error::NoSuchTree(told) | Error::DefinitionChanged(told) => told == name,
        _ => false,
    }
}

/// True if the transaction or batch is to be retried.
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
    let report = db.check(frond::check::CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}
