//! Benchmark of a transaction's own writes: `cargo bench -p frond-db --bench writes [ENTRIES]`.
//!
//! Rows of an iiBench-like table, each a primary entry of 100 bytes and three secondary ones with
//! keys of 24 bytes in random order. Transactions of a few rows are the common case; one of all
//! entries is the worst: its index is in no cache, and its memory is touched for the first time.
//! Medians over transactions.

use std::{hint::black_box, time::Instant};

use frond::{
    TreeId,
    internals::{HashedKey, LiveWrites, Mark, OwnState, TxnWrites},
};

const BUDGET_APPEND_NS: f64 = 50.0;
const ROW: [u8; 100] = [7; 100];
const TREES: u32 = 4;

struct Entry {
    tree: TreeId,
    key: [u8; 24],
    bytes: usize,
    hash: u128,
}

impl Entry {
    fn key(&self) -> HashedKey<'_> {
        HashedKey { tree: self.tree, key: &self.key[..self.bytes], hash: self.hash }
    }
}

fn entries(count: usize) -> Vec<Entry> {
    let mut random = 88172645463325252u64;
    (0..count as u64)
        .map(|n| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let (tree, row) = (TreeId(n as u32 % TREES), n / u64::from(TREES));
            let mut key = [0; 24];
            key[..8].copy_from_slice(&row.to_be_bytes());
            let bytes = if tree.0 == 0 { 8 } else { 24 };
            if tree.0 > 0 {
                key[..8].copy_from_slice(&random.to_be_bytes());
                key[16..].copy_from_slice(&row.to_be_bytes());
            }
            let hash = HashedKey::new(tree, &key[..bytes]).hash;
            Entry { tree, key, bytes, hash }
        })
        .collect()
}

fn append(own: &mut TxnWrites, entry: &Entry) {
    let value = if entry.tree.0 == 0 { &ROW[..] } else { &[] };
    own.insert(entry.key(), value, 1).expect("room");
}

/// Wall-clock nanoseconds per item: one round is too short for the processor's own accounting.
fn time(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Collects many rounds for their median: other work on the machine distorts some.
#[derive(Default)]
struct Turns(Vec<f64>);

impl Turns {
    fn median(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn say(what: &str, nanos: f64) {
    println!("  {what:<52} {nanos:7.1} ns");
}

fn appends(all: &[Entry], transaction: usize) {
    let (live, mut own) = (LiveWrites::new(0), TxnWrites::default());
    let (mut alone, mut shared) = (Turns::default(), Turns::default());
    for entries in all.chunks_exact(transaction) {
        alone
            .0
            .push(time(transaction, || entries.iter().for_each(|entry| append(&mut own, entry))));
        own.clear();
        shared.0.push(time(transaction, || {
            entries.iter().for_each(|entry| append(&mut live.lock(), entry));
            live.lock().clear();
        }));
    }
    let append = alone.median();
    println!("{transaction} entries a transaction");
    say("append", append);
    println!("    {:.2} of the budget of {BUDGET_APPEND_NS} ns", append / BUDGET_APPEND_NS);
    say("append under its lock, and clear in the end", shared.median());
}

fn reads_and_rollbacks(all: &[Entry], transaction: usize) {
    let live = LiveWrites::new(0);
    let [mut gets, mut absent, mut rollbacks] = [(); 3].map(|()| Turns::default());
    for entries in all.chunks_exact(transaction) {
        entries.iter().for_each(|entry| append(&mut live.lock(), entry));
        gets.0.push(time(transaction, || {
            for entry in entries.iter().rev() {
                black_box(live.lock().messages(entry.key()).count());
            }
        }));
        absent.0.push(time(transaction, || {
            for entry in entries {
                let key = HashedKey { hash: entry.hash.wrapping_add(1), ..entry.key() };
                assert_eq!(live.lock().state_of(key), OwnState::Untouched);
            }
        }));
        rollbacks.0.push(time(transaction, || live.lock().rollback_to(Mark::default())));
        live.lock().clear();
    }
    say("own get, found", gets.median());
    say("own get, absent", absent.median());
    say("rollback, an entry", rollbacks.median());
}

/// Measures where a view is kept in order, from the first lookup on.
fn with_views(all: &[Entry]) {
    let live = LiveWrites::new(0);
    let (first, rest) = all.split_at(all.len() / 2);
    first.iter().for_each(|entry| append(&mut live.lock(), entry));
    let mut found = Vec::new();
    let made = time(first.len(), || {
        (0..TREES).for_each(|tree| {
            black_box(live.pending_key(TreeId(tree), &[], None, &mut found));
        });
    });
    let mark = live.lock().mark();
    let fed = time(rest.len(), || rest.iter().for_each(|entry| append(&mut live.lock(), entry)));
    let asked = time(rest.len(), || {
        for entry in rest {
            let key = entry.key();
            black_box(live.pending_key(key.tree, key.key, None, &mut found));
        }
    });
    let undone = time(rest.len(), || live.lock().rollback_to(mark));
    println!("{} entries, keys kept in order", all.len());
    say("putting them in order, an entry", made);
    say("append", fed);
    say("a question for pending keys", asked);
    say("rollback, an entry", undone);
}

fn main() {
    let count = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    let all = entries(count);
    for transaction in [4, 64, 4000, count] {
        appends(&all, transaction);
        reads_and_rollbacks(&all, transaction);
    }
    for transaction in [10_000, count] {
        with_views(&all[..transaction.min(count)]);
    }
    let live = LiveWrites::new(0);
    all.iter().for_each(|entry| append(&mut live.lock(), entry));
    let keys: usize = all.iter().map(|entry| entry.bytes).sum();
    let bytes = live.lock().bytes() - keys - all.len() / TREES as usize * ROW.len();
    println!("{:.1} bytes an entry beyond key and value", bytes as f64 / all.len() as f64);
}
