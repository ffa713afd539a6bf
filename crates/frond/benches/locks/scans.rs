//! Locking scans of a store: the cost of next-key locks per row in addition to reading it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use frond::{
    Batch, Db, Durability, Isolation, Options, ReadOptions, RowLock, Tree, TreeOptions, Txn,
    TxnOptions,
};

use super::{key, processor_nanos, say};

/// Rows that one transaction locks.
const ROWS: u64 = 10_000;
/// A key above all of them.
const END: &[u8] = &[0xff; 8];

struct Store {
    db: Db,
    tree: Tree,
    other: Tree,
    _dir: tempfile::TempDir,
}

fn unique() -> TreeOptions {
    TreeOptions::new().unique(true)
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().cache_size(256 << 20).durability(Durability::Lazy);
        let db = Db::open(dir.path().join("store"), options).unwrap();
        let [tree, other] = ["t", "other"].map(|name| db.create_tree(name, unique()).unwrap());
        let mut batch = Batch::new();
        for row in 0..ROWS {
            batch.put(&tree, &key(row), &[7; 100]).unwrap();
        }
        db.commit(&mut batch).unwrap();
        db.checkpoint().unwrap();
        Self { db, tree, other, _dir: dir }
    }

    fn begin(&self) -> Txn {
        let isolation = Isolation::RepeatableRead;
        self.db.begin(TxnOptions::new().isolation(isolation)).unwrap()
    }

    /// Scans all rows with locks, then releases the locks.
    fn locked(&self) {
        let txn = self.begin();
        let mut scan =
            txn.scan_with(&self.tree, ..END, &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
        let mut rows = 0;
        while scan.next().unwrap().is_some() {
            rows += 1;
        }
        assert_eq!(rows, ROWS);
        drop(scan);
        txn.rollback();
    }

    fn plain(&self) {
        let txn = self.begin();
        let mut scan = txn.scan(&self.tree, ..END).unwrap();
        while scan.next().unwrap().is_some() {}
        drop(scan);
        txn.rollback();
    }

    /// Nanoseconds per row; the least of several rounds.
    fn time(&self, scan: impl Fn(&Self)) -> f64 {
        let mut least = f64::MAX;
        for _ in 0..5 {
            let (before, mut spent, mut times) = (processor_nanos(), 0.0, 0);
            while spent < 60e6 {
                scan(self);
                times += 1;
                spent = processor_nanos() - before;
            }
            least = least.min(spent / (ROWS * times) as f64);
        }
        least
    }

    fn say(&self, where_: &str) {
        let (locked, plain) = (self.time(Self::locked), self.time(Self::plain));
        say(&format!("next key by a cursor, {where_}"), locked - plain, 250.0, "ns");
        println!("    of {locked:.0} ns a row; without locks {plain:.0}");
    }
}

pub fn scans() {
    let store = Store::new();
    store.say("alone");
    // After the rows, where no scan waits for them; but each is asked what it has written.
    let writing = |number: u8| {
        let txn = store.begin();
        txn.put(&store.tree, &[END, &[number]].concat(), b"").unwrap();
        txn
    };
    let others: Vec<Txn> = (0..16).map(writing).collect();
    store.say("16 others writing the tree");
    drop(others);
    let stop = Arc::new(AtomicBool::new(false));
    let commits = {
        let (stop, db, other) = (stop.clone(), store.db.clone(), store.other.clone());
        std::thread::spawn(move || {
            let mut row = 0;
            while !stop.load(Ordering::Relaxed) {
                db.transact(|txn| txn.put(&other, &key(row % 1000), b"")).unwrap();
                row += 1;
            }
        })
    };
    store.say("commits to another tree");
    stop.store(true, Ordering::Relaxed);
    commits.join().unwrap();
    let again = store.db.stats().locked_rows_looked_again;
    println!("    rows that were looked for again, of all: {again}");
}

/// From the call that creates a temporary tree to the end of its drop (Rule: I50).
pub fn temporary_trees() {
    let store = Store::new();
    let mut nanos: Vec<f64> = (0..500)
        .map(|_| {
            let before = Instant::now();
            drop(store.db.create_temporary(Default::default()).unwrap());
            before.elapsed().as_nanos() as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    let median = nanos[nanos.len() / 2] / 1000.0;
    say("a temporary tree, made and dropped, median", median, 100.0, "us");
}

/// Rows inserted in ascending order by one transaction: one entry each in the lock table (design
/// note 032).
pub fn inserts() {
    const INSERTS: u64 = 100_000;
    let store = Store::new();
    let txn = store.begin();
    let before = processor_nanos();
    for row in 0..INSERTS {
        txn.insert(&store.other, &row.to_be_bytes(), &[7; 100]).unwrap();
    }
    let nanos = (processor_nanos() - before) / INSERTS as f64;
    let stats = store.db.lock_stats();
    assert!(stats.locks >= INSERTS as usize, "they have not left memory");
    let bytes = stats.bytes as f64 / INSERTS as f64;
    say("locks of rows inserted in order, 100000 in a transaction", bytes, 60.0, "bytes");
    println!("    plus four bytes a lock in the transaction's list; {nanos:.0} ns an insert");
    txn.rollback();
}
