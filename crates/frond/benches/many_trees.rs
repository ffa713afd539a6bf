//! Benchmark of many trees and many named snapshots: `cargo bench -p frond-db --bench many_trees
//! [TREES] [SNAPSHOTS]`.
//!
//! 100,000 trees with one row each and one tree larger than the cache, then 1,000 named snapshots
//! with a row changed before each. Prints the time of an open, the bytes that a checkpoint after
//! one row writes, the time of a named snapshot, and the resident memory after the large tree was
//! read, each with its budget; before the snapshots and after them.
//!
//! Fails if a budget other than a time is missed: bytes and memory are the same on every machine.

use std::{
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use frond::{Batch, Db, Durability, Options, TreeOptions};

const CACHE_BYTES: u64 = 256 << 20;
const CHANGE_TREES: u64 = 500;
/// The large tree: its name, number of rows, and bytes per row, which are incompressible.
const LARGE: &str = "large";
const LARGE_ROWS: u64 = 90_000;
const LARGE_ROW_BYTES: usize = 4000;
/// Budget of an open, seconds.
const BUDGET_OPEN_SECONDS: f64 = 2.0;
/// Budget of a checkpoint after one row, KiB written.
const BUDGET_CHECKPOINT_KIB: f64 = 1024.0;
/// Budget of a named snapshot, milliseconds.
const BUDGET_SNAPSHOT_MILLIS: f64 = 10.0;
/// Budget of resident memory, as a multiple of the cache's size.
const BUDGET_MEMORY: f64 = 1.15;

fn name(tree: u64) -> String {
    format!("tree-{tree:06}")
}

fn open(dir: &Path) -> Db {
    let options = Options::new().cache_size(CACHE_BYTES).durability(Durability::Os);
    Db::open(dir, options).expect("the store opens")
}

/// Bytes that this process has written to files.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux counts what a process writes");
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("a line with the bytes written")
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux tells a process's memory");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a line with the resident memory") << 10
}

/// Processor seconds of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells a process's time");
    let fields = stat.rsplit(')').next().expect("fields after the name").split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// True once a budget other than a time was missed.
static MISSED: AtomicBool = AtomicBool::new(false);

fn print(what: &str, measured: f64, budget: f64, unit: &str) {
    let verdict = if measured <= budget { "met" } else { "not met" };
    println!("{what:<52} {measured:>9.2} {unit} ({budget} budgeted: {verdict})");
}

fn demand(what: &str, measured: f64, budget: f64, unit: &str) {
    print(what, measured, budget, unit);
    if measured > budget {
        MISSED.store(true, Ordering::Relaxed);
    }
}

/// Fills the large tree.
fn fill_large(db: &Db) {
    let tree = db.create_tree(LARGE, TreeOptions::default()).expect("the store is open");
    let (mut batch, mut value, mut state) = (Batch::new(), [0; LARGE_ROW_BYTES], 1u64);
    for row in 0..LARGE_ROWS {
        for part in value.chunks_exact_mut(8) {
            // An xorshift generator.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            part.copy_from_slice(&state.to_le_bytes());
        }
        batch.put(&tree, &row.to_be_bytes(), &value).expect("a row of 4 KB");
        if row % 100 == 99 {
            db.commit(&mut batch).expect("the store is open");
        }
    }
    db.commit(&mut batch).expect("the store is open");
}

/// Reads the large tree, so that the cache fills up.
fn read_large(db: &Db) {
    let tree = db.open_tree(LARGE).expect("it was created");
    let mut rows = 0;
    for key in 0..LARGE_ROWS {
        rows += u64::from(tree.get(&key.to_be_bytes()).expect("it is read").is_some());
    }
    assert_eq!(rows, LARGE_ROWS, "the large tree has all rows");
}

/// Closes the store and opens it again; then writes one row and makes a checkpoint.
fn measure(db: Db, dir: &Path, trees: u64, when: &str) -> Db {
    db.close().expect("the store closes");
    drop(db);
    let start = Instant::now();
    let db = open(dir);
    print(&format!("opening, {when}"), start.elapsed().as_secs_f64(), BUDGET_OPEN_SECONDS, "s");
    let kib: Vec<f64> = (0..5)
        .map(|round| {
            change_row(&db, trees, round);
            let before = bytes_written();
            db.checkpoint().expect("the disk has room");
            (bytes_written() - before) as f64 / 1024.0
        })
        .collect();
    let most = kib.iter().copied().fold(0.0, f64::max);
    demand(&format!("checkpoint after one row, {when}"), most, BUDGET_CHECKPOINT_KIB, "KiB");
    read_large(&db);
    let memory = resident() as f64 / CACHE_BYTES as f64;
    demand(&format!("memory, times the cache, {when}"), memory, BUDGET_MEMORY, "");
    db
}

fn change_row(db: &Db, trees: u64, round: u64) {
    let tree = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % trees;
    let tree = db.open_tree(&name(tree)).expect("it was created");
    tree.put(b"row", &round.to_le_bytes()).expect("the store is open");
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let trees = numbers.first().copied().unwrap_or(100_000);
    let snapshots = numbers.get(1).copied().unwrap_or(1000);
    let dir = tempfile::tempdir().expect("a folder can be made");
    let dir = dir.path();

    let start = Instant::now();
    let db = open(dir);
    for first in (0..trees).step_by(CHANGE_TREES as usize) {
        let mut change = db.change_trees();
        let last = (first + CHANGE_TREES).min(trees);
        for tree in first..last {
            change.create(&name(tree), TreeOptions::default());
        }
        change.commit().expect("the store is open");
        for tree in first..last {
            let tree = db.open_tree(&name(tree)).expect("it was created");
            tree.put(b"row", b"first").expect("the store is open");
        }
    }
    fill_large(&db);
    db.checkpoint().expect("the disk has room");
    println!("{trees} trees with a row each: {:.1} s", start.elapsed().as_secs_f64());
    let db = measure(db, dir, trees, "no snapshots");

    let (start, cpu, bytes) = (Instant::now(), cpu_seconds(), bytes_written());
    let mut times = Vec::new();
    for snapshot in 0..snapshots {
        change_row(&db, trees, snapshot);
        let start = Instant::now();
        db.create_snapshot(&format!("snapshot-{snapshot:04}")).expect("the store is open");
        times.push(start.elapsed());
    }
    println!("{snapshots} named snapshots: {:.1} s", start.elapsed().as_secs_f64());
    let each = |sum: f64| sum / snapshots.max(1) as f64;
    println!("{:<52} {:>9.2} ms", "named snapshot, CPU", each(cpu_seconds() - cpu) * 1000.0);
    let kib = each((bytes_written() - bytes) as f64 / 1024.0);
    demand("named snapshot, written", kib, BUDGET_CHECKPOINT_KIB, "KiB");
    times.sort_unstable();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    if let (Some(last), middle) = (times.last(), times.len() / 2) {
        print("named snapshot, median", millis(times[middle]), BUDGET_SNAPSHOT_MILLIS, "ms");
        print(
            "named snapshot, 99 of 100",
            millis(times[times.len() * 99 / 100]),
            BUDGET_SNAPSHOT_MILLIS,
            "ms",
        );
        println!("{:<52} {:>9.2} ms", "named snapshot, slowest", millis(*last));
    }
    let db = measure(db, dir, trees, "with snapshots");
    let bytes = std::fs::metadata(dir.join("store.frond")).map_or(0, |data| data.len());
    println!("store: {} MiB", bytes >> 20);
    db.close().expect("the store closes");
    if MISSED.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
