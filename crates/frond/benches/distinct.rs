//! Benchmark of estimating the number of distinct values of the first field of a tree's keys, in
//! time and precision: `cargo bench -p frond-db --bench distinct [ROWS]`. Design note 034 says why
//! nothing is counted as leaves are written.
//!
//! Next to each answer is the sum of counts per leaf: a value whose rows are in several leaves
//! counts in each of them.

use std::{
    collections::HashSet,
    hint::black_box,
    time::{Duration, Instant},
};

use frond::{
    Batch, Db, Durability, Options, Tree, TreeOptions,
    layout::{Hint, Layout, Part},
};

const ROWS: u32 = 2_000_000;
const CACHE: u64 = 256 << 20;
/// Bytes of a row in this benchmark, key and value, before any compression; determines the number
/// of rows per leaf.
const ROW_BYTES: usize = 16;
const LEAF_BYTES: usize = 512 << 10;
const NUMBER: Part = Part::Fixed(4, Hint::None);

/// A pseudo-random number, the same for the same `of`.
fn scattered(of: u32) -> u32 {
    let mixed = u64::from(of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// The value of a row.
type Value = fn(row: u32, rows: u32) -> u32;

const CASES: [(&str, Value); 9] = [
    ("each row its own", |row, _| row),
    ("10 rows each", |row, rows| scattered(row) % (rows / 10)),
    ("1000 rows each", |row, rows| scattered(row) % (rows / 1000)),
    ("50 values", |row, _| scattered(row) % 50),
    ("the n-th an n-th of the first's, of 10000", |row, _| {
        (f64::from(scattered(row)) / f64::from(u32::MAX) * 10_000_f64.ln()).exp() as u32
    }),
    ("half the rows one, others their own", |row, _| if row.is_multiple_of(2) { 7 } else { row }),
    ("one row in 20 its own, others one", |row, _| if !row.is_multiple_of(20) { 7 } else { row }),
    ("one row in 100 its own, others one", |row, _| if !row.is_multiple_of(100) { 7 } else { row }),
    (
        "one row in 1000 its own, others one",
        |row, _| if !row.is_multiple_of(1000) { 7 } else { row },
    ),
];

fn options() -> Options {
    Options::new().cache_size(CACHE).durability(Durability::Lazy)
}

/// The sum of distinct values per leaf, for rows in order.
fn in_leaves(values: &mut [u32]) -> usize {
    values.sort_unstable();
    let leaves = values.chunks(LEAF_BYTES / ROW_BYTES);
    leaves.map(|leaf| leaf.chunk_by(|a, b| a == b).count()).sum()
}

fn ask(tree: &Tree) -> frond::Result<(u64, Duration)> {
    let begin = Instant::now();
    let found = black_box(tree.distinct_prefixes()?);
    Ok((found[0], begin.elapsed()))
}

fn main() -> frond::Result<()> {
    let rows = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ROWS);
    let dir = tempfile::tempdir().expect("a directory for the store");
    let path = dir.path().join("store");
    let db = Db::open(&path, options())?;
    let mut expected = Vec::new();
    for (name, value) in CASES {
        let key_layout = Some(Layout::new(vec![NUMBER, NUMBER]));
        let tree = db.create_tree(name, TreeOptions::new().key_layout(key_layout))?;
        let mut batch = Batch::new();
        for row in 0..rows {
            let key = [value(row, rows).to_be_bytes(), row.to_be_bytes()].concat();
            batch.put(&tree, &key, &[1; 8])?;
            if batch.len() == 10_000 {
                db.commit(&mut batch)?;
            }
        }
        db.commit(&mut batch)?;
        let mut values: Vec<u32> = (0..rows).map(|row| value(row, rows)).collect();
        let exact = values.iter().collect::<HashSet<_>>().len();
        expected.push((exact, in_leaves(&mut values)));
    }
    db.close()?;
    println!(
        "{rows} rows in each tree; times of a store just opened, and of the same question again"
    );
    println!(
        "{:<42} {:>8} {:>8} {:>6} {:>10} {:>10} {:>10}",
        "values", "exact", "said", "times", "first", "again", "in leaves"
    );
    let db = Db::open(&path, options())?;
    for ((name, _), (exact, in_leaves)) in CASES.into_iter().zip(expected) {
        let tree = db.open_tree(name)?;
        let (said, first) = ask(&tree)?;
        let mut again: Vec<Duration> =
            (0..5).map(|_| ask(&tree).map(|asked| asked.1)).collect::<frond::Result<_>>()?;
        again.sort_unstable();
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        println!(
            "{name:<42} {exact:>8} {said:>8} {:>6.2} {:>10} {:>10} {:>10.2}",
            said as f64 / exact as f64,
            ms(first),
            ms(again[2]),
            in_leaves as f64 / exact as f64
        );
    }
    db.close()
}
