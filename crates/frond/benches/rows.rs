//! Benchmark of rows with entries in three indexes, as a server inserts them: `cargo bench -p
//! frond-db --bench rows [ROWS] [STATEMENT]`.
//!
//! ROWS (a million) rows in transactions of STATEMENT (1,000) rows each, in key order, with random
//! keys in three non-unique indexes. Per row: the calls that write it, the commit, and all CPU time
//! of the process.

use std::time::{Duration, Instant};

use frond::{
    Db, Durability, Options, RowLock, Tree, TreeOptions, TxnOptions, transaction::RowEntry,
};

/// Medians are taken over this many parts.
const PARTS: u64 = 10;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let (rows, statement) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(1000));
    let dir = std::env::temp_dir().join(format!("frond-bench-rows-{}", std::process::id()));
    let options = Options::new().cache_size(256 << 20).durability(Durability::Lazy);
    let db = Db::open(&dir, options).expect("a new store");
    let unique = TreeOptions::new().unique(true);
    let table = db.create_tree("t", unique).expect("a new tree");
    let indexes =
        ["a", "b", "c"].map(|name| db.create_tree(name, Default::default()).expect("new"));

    let (mut random, mut next) = (0x9e37_79b9_7f4a_7c15_u64, 0_u64);
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        let (mut writing, mut committing) = (Duration::ZERO, Duration::ZERO);
        let (cpu, mut written) = (cpu_time(), 0);
        while written < rows / PARTS {
            let txn = db.begin(TxnOptions::default()).expect("the store is open");
            let start = Instant::now();
            for _ in 0..statement {
                insert(&txn, &table, &indexes, next, &mut random);
                next += 1;
            }
            let written_at = Instant::now();
            txn.commit().expect("room");
            writing += written_at - start;
            committing += written_at.elapsed();
            written += statement;
        }
        let per_row = |time: Duration| time.as_secs_f64() * 1e6 / written as f64;
        parts.push([per_row(writing), per_row(committing), per_row(cpu_time() - cpu)]);
    }
    for (at, name) in ["writing", "committing", "CPU of the process"].into_iter().enumerate() {
        let mut values: Vec<f64> = parts.iter().map(|part| part[at]).collect();
        values.sort_by(f64::total_cmp);
        println!("{name:<20} {:.2} us a row", values[values.len() / 2]);
    }
    drop((table, indexes, db));
    std::fs::remove_dir_all(&dir).expect("the directory made above");
}

fn insert(txn: &frond::Txn, table: &Tree, indexes: &[Tree; 3], id: u64, random: &mut u64) {
    let id = id.to_be_bytes();
    let mut keys = [[0; 20]; 3];
    for key in &mut keys {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        key[..8].copy_from_slice(&random.to_be_bytes());
        key[12..].copy_from_slice(&id);
    }
    let row = RowEntry { tree: table, key: &id, value: &keys[0], unique: true, absent: false };
    let entry = |at: usize| RowEntry {
        tree: &indexes[at],
        key: &keys[at],
        value: &[],
        unique: false,
        absent: false,
    };
    let found = txn.row_writer().insert(&[row, entry(0), entry(1), entry(2)], RowLock::Shared);
    assert_eq!(found.expect("room"), None);
}

/// User and system time of all threads.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
