//! Benchmark of transactions many times larger than memory: `cargo bench -p frond-db --bench
//! large_txn [MIB] [TIMES]`.
//!
//! Rows of 120 bytes at random keys, TIMES (10) as many bytes as `cache_size` of MIB (64) MiB, in
//! one transaction: the cost of a row as the transaction grows, the time of rollback and commit,
//! and the peak memory of the process.

use std::time::{Duration, Instant};

use frond::{Db, Durability, Options, Tree, TxnOptions};

const ROW_BYTES: u64 = 128;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let (cache, times) = (numbers.next().unwrap_or(64) << 20, numbers.next().unwrap_or(10));
    let dir = std::env::temp_dir().join(format!("frond-bench-large-{}", std::process::id()));
    let options = Options::new().cache_size(cache).durability(Durability::Lazy);
    let db = Db::open(&dir, options).expect("a new store");
    let tree = db.create_tree("t", Default::default()).expect("a new tree");
    let rows = cache * times / ROW_BYTES;
    for commits in [false, true] {
        run(&db, &tree, rows, commits);
    }
    let start = Instant::now();
    db.checkpoint().expect("room");
    println!("applied and checkpointed in {:.1} s more", start.elapsed().as_secs_f64());
    drop((tree, db));
    std::fs::remove_dir_all(&dir).expect("the directory made above");
}

fn run(db: &Db, tree: &Tree, rows: u64, commits: bool) {
    let txn = db.begin(TxnOptions::default()).expect("the store is open");
    let (mut random, mut slowest) = (0x9e37_79b9_7f4a_7c15_u64, Duration::ZERO);
    let mut tenths = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        for _ in 0..rows / 10 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut value = [7; ROW_BYTES as usize - 8];
            value[..8].copy_from_slice(&random.rotate_left(17).to_be_bytes());
            let before = Instant::now();
            txn.put(tree, &random.to_be_bytes(), &value).expect("room");
            slowest = slowest.max(before.elapsed());
        }
        tenths.push(format!("{:.1}", start.elapsed().as_secs_f64() * 1e7 / rows as f64));
    }
    let locks = db.lock_stats().locks;
    let start = Instant::now();
    let end = if commits { "commit" } else { "rollback" };
    match commits {
        true => {
            txn.commit().expect("room");
        }
        false => txn.rollback(),
    }
    let took = start.elapsed();
    println!(
        "{rows} rows; us a row by tenths of them: {}; longest put {} ms; {locks} locks at the end; {end} in {:.1} ms; at most {} MiB",
        tenths.join(" "),
        slowest.as_millis(),
        took.as_secs_f64() * 1e3,
        memory_peak() >> 20,
    );
}

/// Peak memory of the process, bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
