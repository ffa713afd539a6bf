//! Benchmark of the cost of a commit to the committing thread: `cargo bench -p frond-db --bench
//! commit [ENTRIES]`.
//!
//! Small commits of one row each, as a batch and as a transaction; reads of one row in a
//! transaction, also by two threads concurrently. Then batches of random keys into a memtable that
//! is half full, with and without mini-runs, and the cost of point reads afterwards: where
//! mini-runs start to pay determines `MINI_RUN_ENTRIES_MIN`. Times are processor times of the
//! committing thread alone.

use std::{hint::black_box, thread};

use frond::{
    Batch, Db, Durability, Options, Tree, TxnOptions,
    internals::{Limits, Tuning},
};

const CACHE: u64 = 1 << 30;
const SMALL_COMMITS: u64 = 200_000;

fn main() {
    let entries = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(600_000);
    for _ in 0..3 {
        small();
    }
    for batch in [10_000, 30_000, 100_000] {
        for mini_run_entries in [usize::MAX, 1] {
            large(entries, batch, mini_run_entries);
        }
    }
}

/// Processor time of this thread, ns: meaningful even on a machine that does other work.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn per(start: u64, count: u64) -> f64 {
    (cpu_ns() - start) as f64 / count as f64
}

fn with_store(mini_run_entries: usize, run: impl FnOnce(&Db, &Tree)) {
    let dir = std::env::temp_dir().join(format!("frond-bench-commit-{}", std::process::id()));
    let limits = Limits { mini_run_entries, ..Limits::for_cache(CACHE) };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    let options = Options::new().cache_size(CACHE).durability(Durability::Lazy).tuning(tuning);
    let db = Db::open(&dir, options).expect("a new store");
    let tree = db.create_tree("t", Default::default()).expect("a new tree");
    run(&db, &tree);
    drop((tree, db));
    std::fs::remove_dir_all(&dir).expect("the directory made above");
}

fn key(random: &mut u64) -> [u8; 8] {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    random.to_be_bytes()
}

fn small() {
    with_store(usize::MAX, |db, tree| {
        let (mut batch, mut random) = (Batch::new(), 1);
        let start = cpu_ns();
        for _ in 0..SMALL_COMMITS {
            batch.put(tree, &key(&mut random), &[7; 24]).expect("room");
            db.commit(&mut batch).expect("committed");
        }
        println!("one row a commit: {:>7.1} ns/commit", per(start, SMALL_COMMITS));

        let start = cpu_ns();
        for _ in 0..SMALL_COMMITS {
            let txn = db.begin(TxnOptions::default()).expect("begun");
            txn.put(tree, &key(&mut random), &[7; 24]).expect("put");
            txn.commit().expect("committed");
        }
        println!("one row a transaction: {:>7.1} ns/commit", per(start, SMALL_COMMITS));

        let (mut random, mut value) = (1, Vec::new());
        let start = cpu_ns();
        for _ in 0..SMALL_COMMITS {
            black_box(tree.get_into(&key(&mut random), &mut value).expect("read"));
        }
        let plain = per(start, SMALL_COMMITS);
        let mut random = 1;
        let start = cpu_ns();
        for _ in 0..SMALL_COMMITS {
            let txn = db.begin(TxnOptions::default()).expect("begun");
            black_box(txn.get_into(tree, &key(&mut random), &mut value).expect("read"));
            txn.commit().expect("committed");
        }
        println!(
            "one row read: {plain:>7.1} ns, in a transaction {:>7.1} ns",
            per(start, SMALL_COMMITS)
        );

        // Data that only one thread uses costs as much as with a single thread; data that threads
        // share costs more.
        let times: Vec<f64> = thread::scope(|scope| {
            let reader = |seed| {
                scope.spawn(move || {
                    let (mut random, mut value) = (seed, Vec::new());
                    let start = cpu_ns();
                    for _ in 0..10 * SMALL_COMMITS {
                        let txn = db.begin(TxnOptions::default()).expect("begun");
                        black_box(txn.get_into(tree, &key(&mut random), &mut value).expect("read"));
                        txn.commit().expect("committed");
                    }
                    per(start, 10 * SMALL_COMMITS)
                })
            };
            let readers = [1, 1].map(reader);
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect()
        });
        println!("by two threads at once: {:>7.1} and {:>7.1} ns", times[0], times[1]);
    });
}

fn large(entries: u64, size: u64, mini_run_entries: usize) {
    with_store(mini_run_entries, |db, tree| {
        let (mut batch, mut random) = (Batch::new(), 1);
        let (mut filling, mut committing) = (0, 0);
        for _ in 0..entries / size {
            let start = cpu_ns();
            for _ in 0..size {
                batch.put(tree, &key(&mut random), &[7; 24]).expect("room");
            }
            filling += cpu_ns() - start;
            let start = cpu_ns();
            db.commit(&mut batch).expect("committed");
            committing += cpu_ns() - start;
        }
        let (mut random, mut value) = (1, Vec::new());
        let start = cpu_ns();
        let reads = entries.min(100_000);
        for _ in 0..reads {
            black_box(tree.get_into(&key(&mut random), &mut value).expect("read"));
        }
        let kind = if mini_run_entries == 1 { "mini-runs" } else { "one by one" };
        println!(
            "batches of {size:>6}, {kind:<10}: {:>6.1} ns/entry to fill, {:>6.1} to commit; {:>7.1} ns/get after {} batches",
            filling as f64 / entries as f64,
            committing as f64 / entries as f64,
            per(start, reads),
            entries / size,
        );
    });
}
