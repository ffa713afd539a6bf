//! Tests of transactions through the public API: what they see of each other and of batches, how
//! they end, and that nothing is lost between concurrent ones.
//!
//! Sessions that wait are threads; a test continues once the store reports that they wait.

mod aborted;
mod absent_keys;
mod autonomous;
mod batches;
mod closing;
mod concurrent;
mod counts;
mod interrupts;
mod large;
mod long_values;
mod memory_shares;
mod one_step_inserts;
mod pending_inserts;
mod ranges;
mod reads;
mod rechecks;
mod rows;
mod scan_moves;
mod scan_order;
mod scans;
mod shared_syncs;
mod single;
mod substatements;
mod temporary;

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use frond::{
    Batch, Db, Durability, Error, ErrorKind, IfLocked, Isolation, Options, RowLock, Tree,
    TreeOptions, Txn, TxnCursor, TxnOptions, check::CheckMode, lock::TreeLock, operator,
};

const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot];

struct Store {
    db: Db,
    tree: Tree,
    _dir: tempfile::TempDir,
}

/// A store with rows `1` = 10 and `2` = 20; with `is_flushed` they are in the tree, not in the
/// memtable.
fn store(is_flushed: bool) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    tree.put(b"1", b"10").unwrap();
    tree.put(b"2", b"20").unwrap();
    if is_flushed {
        db.checkpoint().unwrap();
    }
    Store { db, tree, _dir: dir }
}

impl Store {
    fn begin(&self, isolation: Isolation) -> Txn {
        self.db.begin(TxnOptions::new().isolation(isolation)).unwrap()
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut cursor = self.tree.scan(..).unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            rows.push((text(key), text(value)));
        }
        rows
    }

    /// Returns once this many calls wait for locks.
    fn until_waiting(&self, count: usize) {
        while self.db.lock_waits().len() < count {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks that the store is as without transactions: no lock is left, no batch has to take one,
    /// and the check is clean.
    fn is_idle(&self) {
        let stats = self.db.lock_stats();
        assert_eq!((stats.locks, stats.ranges), (0, 0));
        assert!(self.db.lock_waits().is_empty());
        assert!(self.db.check(CheckMode::Full).unwrap().is_clean());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn get(txn: &Txn, tree: &Tree, key: &str) -> Option<String> {
    txn.get(tree, key.as_bytes()).unwrap().map(|value| text(&value))
}

fn scanned(txn: &Txn, tree: &Tree) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut cursor = txn.scan(tree, ..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((text(key), text(value)));
    }
    let mut back = Vec::new();
    cursor.seek_last();
    while let Some((key, value)) = cursor.prev().unwrap() {
        back.push((text(key), text(value)));
    }
    back.reverse();
    assert_eq!(back, rows, "both ways");
    rows
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
