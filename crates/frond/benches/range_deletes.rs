//! Benchmark of disjoint range deletes: `cargo bench -p frond-db --bench range_deletes [COUNT]`.
//!
//! A tree of 400,000 rows, and a million range deletes over all of it, none adjacent to another, in
//! batches of a thousand: in ascending order and in random order. Then reads of rows that none of
//! them deletes, with range deletes in memtables and in buffers, and again once all are in leaves.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use frond::{Batch, Db, Durability, Options, Tree, TreeOptions};

const ROWS: u64 = 400_000;
const BATCH: u64 = 1000;
/// A prime: its multiples form a pseudo-random order.
const STEP: u64 = 611_953;
/// Budget for a million, in seconds.
const BUDGET_SECONDS: f64 = 5.0;
/// Budget for how much longer a read may take with them.
const BUDGET_GET_NS: f64 = 2000.0;

/// Key of row `n`: rows and range deletes are spread over the same keys.
fn row(n: u64) -> [u8; 16] {
    let mut key = [b'r'; 16];
    key[..8].copy_from_slice(&(n * (u64::MAX / ROWS)).to_be_bytes());
    key
}

fn range(n: u64, count: u64) -> ([u8; 16], [u8; 16]) {
    let mut from = [b'a'; 16];
    // Just after the start of its stretch, which may be a row.
    from[..8].copy_from_slice(&(n * (u64::MAX / count) + 1).to_be_bytes());
    let mut to = from;
    to[15] = b'b';
    (from, to)
}

fn load(db: &Db, tree: &Tree) {
    let mut batch = Batch::new();
    for n in 0..ROWS {
        batch.put(tree, &row(n), &[7; 100]).expect("a batch has room");
        if batch.len() == 1000 {
            db.commit(&mut batch).expect("the store is open");
        }
    }
    db.commit(&mut batch).expect("the store is open");
    db.checkpoint().expect("the store is open");
}

/// Nanoseconds per read: the fastest of several rounds, since other work on the machine slows the
/// others.
fn get_nanos(tree: &Tree) -> f64 {
    const READS: u64 = 20_000;
    let rounds = (0..15).map(|round| {
        let start = Instant::now();
        for n in 0..READS {
            let row = row((n + round * READS).wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS);
            black_box(tree.get(&row).expect("the store is open"));
        }
        start.elapsed().as_nanos() as f64 / READS as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn delete(db: &Db, tree: &Tree, count: u64, order: impl Fn(u64) -> u64) -> Duration {
    let start = Instant::now();
    let mut batch = Batch::new();
    for n in 0..count {
        let (from, to) = range(order(n), count);
        batch.delete_range(tree, &from..&to).expect("a batch has room");
        if batch.len() as u64 == BATCH || n + 1 == count {
            db.commit(&mut batch).expect("the store is open");
        }
    }
    start.elapsed()
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    for (name, is_random) in [("ascending", false), ("random order", true)] {
        let dir = tempfile::tempdir().expect("a directory for temporary files");
        let options = Options::new().cache_size(1 << 30).durability(Durability::Os);
        let db = Db::open(dir.path().join("store"), options).expect("a new store");
        let tree = db.create_tree("rows", TreeOptions::default()).expect("a new tree");
        load(&db, &tree);
        get_nanos(&tree);
        let without = get_nanos(&tree);
        let order = |n: u64| if is_random { n * STEP % count } else { n };
        let took = delete(&db, &tree, count, order);
        let with = get_nanos(&tree);
        let applied = Instant::now();
        db.checkpoint().expect("the store is open");
        let applied = applied.elapsed();
        let in_buffers = get_nanos(&tree);
        println!("{count} range deletes, {name}");
        println!(
            "  committed in {took:.2?}, of {BUDGET_SECONDS} s for a million; then a checkpoint in {applied:.2?}"
        );
        for (what, nanos) in
            [("right behind the commits", with), ("behind the checkpoint", in_buffers)]
        {
            let more = nanos - without;
            println!(
                "  get without {without:5.0} ns, {what} {nanos:5.0}: {more:+5.0} of {BUDGET_GET_NS}"
            );
        }
        drop(tree);
        db.close().expect("it closes");
    }
}
