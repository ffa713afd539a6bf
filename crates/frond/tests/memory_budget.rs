//! Tests of a store's memory: `cache_size` for everything, with a snapshot held all the time, plus
//! a documented constant. This is a test program of its own because the kernel counts for the whole
//! process; for that reason other measured cases run in a process of their own, this test's binary
//! started again.

use std::{process::Command, time::Instant};

use frond::{Batch, Db, Durability, Options, ReadOptions, RowLock, Stats, Tree, Txn, TxnOptions};
use frond_testkit::Dice;

const CACHE: u64 = 64 << 20;
/// Stacks of threads, code that is first touched here, memory that the allocator keeps
/// (docs/operating.md, "Memory").
const CONSTANT: u64 = 12 << 20;
const ROWS: u64 = 600_000;

/// The process's peak memory so far, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a field");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Reads and writes on many threads, while memtables grow and shrink: memory that a thread frees
/// and that memtables give back is available to the blocks of all threads.
fn many_threads_read_and_write(db: &Db, trees: &[Tree]) {
    const THREADS: u64 = 24;
    const READS: usize = 600;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let (mut dice, mut batch) = (Dice::new(thread), Batch::new());
                for read in 0..READS {
                    let tree = &trees[dice.below(trees.len() as u64) as usize];
                    let at = dice.bits().to_be_bytes();
                    let mut cursor = tree.scan(&at[..]..).unwrap();
                    // Only beyond the last key is there no row.
                    assert!(cursor.next().unwrap().is_some() || at[0] == 0xff);
                    for _ in 0..8 {
                        let key = dice.bits().to_be_bytes();
                        batch.put(tree, &key, &[read as u8; 100]).unwrap();
                    }
                    db.commit(&mut batch).unwrap();
                }
            });
        }
    });
}

/// Promise: P15.
#[test]
fn rows_of_three_times_the_cache_stay_within_it() {
    let dir = tempfile::tempdir().unwrap();
    let before = peak();
    let options = Options::new().cache_size(CACHE).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let trees: Vec<_> =
        (0..3).map(|n| db.create_tree(&format!("t{n}"), Default::default()).unwrap()).collect();
    let (mut dice, mut batch, mut held) = (Dice::new(15), Batch::new(), None);
    let mut value = [0; 100];
    for row in 0..ROWS {
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
        for tree in &trees {
            batch.put(tree, &dice.bits().to_be_bytes(), &value).unwrap();
        }
        if row % 100 == 0 {
            db.commit(&mut batch).unwrap();
        }
        // The snapshot starts after a tenth of the rows. It keeps a memtable, until that is
        // spilled, and all pages of its version.
        if row == ROWS / 10 {
            held = Some(db.snapshot());
        }
    }
    db.commit(&mut batch).unwrap();
    let rows: usize = trees
        .iter()
        .map(|tree| {
            let mut cursor = tree.scan(..).unwrap();
            std::iter::from_fn(|| cursor.next().unwrap().map(drop)).count()
        })
        .sum();
    assert_eq!(rows as u64, 3 * ROWS);
    many_threads_read_and_write(&db, &trees);
    let took = peak() - before;
    println!("{:.2} of the cache", took as f64 / CACHE as f64);
    assert!(db.stats().checkpoints > 2, "nothing was written yet");
    assert!(took <= CACHE + CACHE / 10 + CONSTANT, "{took} bytes, of {CACHE}");
    drop(held);
    db.close().unwrap();
}

const LARGE: &str = "FROND_LARGE_TRANSACTIONS";
const LARGE_CACHE: u64 = 8 << 20;
/// The constant for a cache so small that some parts exceed it. A transaction held in memory would
/// take five times as much.
const LARGE_CONSTANT: u64 = CONSTANT + (4 << 20);
const LARGE_TIMES: u64 = 10;
const LARGE_ROW: usize = 1000;

/// Promise: P15. Rules: I44, I47.
#[test]
fn transactions_of_ten_times_the_cache_stay_within_it() {
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "large_transactions", "--nocapture"])
        .env(LARGE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    println!("{said}");
    assert!(ran.status.success() && said.contains("1 passed"), "{}", ran.status);
}

/// Writes new rows of many times the memory. Seeds differ, so rows of a rolled-back transaction
/// differ from later ones.
fn fill(txn: &Txn, tree: &Tree, seed: u64) -> u64 {
    let (mut dice, mut value) = (Dice::new(seed), [0; LARGE_ROW]);
    let rows = LARGE_TIMES * LARGE_CACHE / LARGE_ROW as u64;
    for _ in 0..rows {
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
        txn.put(tree, &dice.bits().to_be_bytes(), &value).unwrap();
    }
    rows
}

/// Rewrites every row through one locking scan, so that its value begins with its key; returns the
/// number of rows.
fn update_all(txn: &Txn, tree: &Tree) -> u64 {
    let mut scan = txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
    let (mut rows, mut updated) = (0, Vec::new());
    while let Some((key, value)) = scan.next().unwrap() {
        let key: [u8; 8] = key.try_into().unwrap();
        assert_ne!(value[..8], key, "a row is met once, and as it was");
        updated.clear();
        updated.extend_from_slice(&key);
        updated.extend_from_slice(&value[8..]);
        txn.put(tree, &key, &updated).unwrap();
        rows += 1;
    }
    rows
}

/// The number of rows, all of which must have been updated.
fn updated(tree: &Tree) -> u64 {
    let (mut rows, mut scan) = (0, tree.scan(..).unwrap());
    while let Some((key, value)) = scan.next().unwrap() {
        assert_eq!(value[..8], *key);
        rows += 1;
    }
    rows
}

/// Work on files so far: reads and writes of the store file, and bytes of the log.
fn work(stats: &Stats) -> [u64; 3] {
    ["store_reads", "store_writes", "log_written_bytes"].map(|name| stats.get(name).unwrap())
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn large_transactions() {
    if std::env::var_os(LARGE).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let before = peak();
    let options = Options::new().cache_size(LARGE_CACHE).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let took = |what: &str| {
        let took = peak() - before;
        println!("{what}: {:.2} of the cache", took as f64 / LARGE_CACHE as f64);
        assert!(took <= LARGE_CACHE + LARGE_CACHE / 10 + LARGE_CONSTANT, "{what}: {took} bytes");
    };
    let txn = db.begin(TxnOptions::default()).unwrap();
    fill(&txn, &tree, 1);
    took("before the rollback");
    // A rollback reads, writes and logs nothing, however large the transaction: none of it is in a
    // tree or in the log. The log may concurrently write its mark that it is idle, one page.
    let stats = db.stats();
    assert!(stats.store_written_bytes > LARGE_CACHE, "it has left memory");
    let before_rollback = work(&stats);
    txn.rollback();
    let after = work(&db.stats());
    let did = [0, 1, 2].map(|which| after[which] - before_rollback[which]);
    println!("the rollback: {did:?} reads, writes, bytes of log");
    assert!(did[0] == 0 && did[1] == 0 && did[2] <= 8192, "{did:?}");
    assert_eq!(db.lock_stats().locks, 0);
    assert!(tree.scan(..).unwrap().next().unwrap().is_none());
    took("after the rollback");

    let txn = db.begin(TxnOptions::default()).unwrap();
    let rows = fill(&txn, &tree, 2);
    txn.commit().unwrap();
    took("after the commit");
    db.checkpoint().unwrap();
    let mut cursor = tree.scan(..).unwrap();
    let found = std::iter::from_fn(|| cursor.next().unwrap().map(drop)).count();
    assert_eq!(found as u64, rows);
    drop(cursor);
    took("once it is in the tree");

    let txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(update_all(&txn, &tree), rows);
    took("once every row was updated through a scan");
    txn.commit().unwrap();
    took("after that commit");
    db.checkpoint().unwrap();
    assert_eq!(updated(&tree), rows);
    took("once the updates are in the tree");
    // Their space on disk is free and can be used again.
    let space = |stats: &Stats| stats.space_temporary_bytes;
    assert!(space(&db.stats()) < LARGE_CACHE, "nothing of them is left over");
    drop(tree);
    db.close().unwrap();
}

/// Environment variable with the number of rows to use instead of 50 million.
const UPDATED_ROWS: &str = "FROND_UPDATED_ROWS";
const UPDATED_CACHE: u64 = 256 << 20;

/// Updates ten times the cache in one transaction, in rows of 48 bytes. Rule: I47.
#[test]
#[ignore = "long, and needs twenty gibibytes of disk: `scripts/torture.sh large`"]
fn fifty_million_rows_are_updated_in_one_transaction() {
    let rows = std::env::var(UPDATED_ROWS).map_or(50_000_000, |rows| rows.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let before = peak();
    let options = Options::new().cache_size(UPDATED_CACHE).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let mut started = Instant::now();
    let mut took = |what: &str| {
        let (took, seconds) = (peak() - before, started.elapsed().as_secs_f64());
        println!("{what}: {seconds:.1} s; at most {} MiB", took >> 20);
        assert!(took <= UPDATED_CACHE + UPDATED_CACHE / 10 + CONSTANT, "{what}: {took} bytes");
        started = Instant::now();
    };
    let (mut load, mut dice) = (db.bulk_load("t", Default::default()).unwrap(), Dice::new(47));
    let mut value = [0; 40];
    for row in 0..rows {
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
        load.put(&u64::to_be_bytes(row), &value).unwrap();
    }
    load.finish().unwrap();
    took("loaded");
    let tree = db.open_tree("t").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(update_all(&txn, &tree), rows);
    println!("{rows} rows, {} locks", db.lock_stats().locks);
    took("updated");
    txn.commit().unwrap();
    took("committed");
    db.checkpoint().unwrap();
    took("applied, and a checkpoint");
    assert_eq!(updated(&tree), rows);
    took("read");
    drop(tree);
    db.close().unwrap();
}
