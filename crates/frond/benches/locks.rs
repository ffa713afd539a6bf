//! Benchmark of locks, with their budgets: `cargo bench -p frond-db --bench locks [ROWS]`.
//!
//! Rows have keys of 16 bytes; a transaction takes `LOCKS` of them and releases them. Budgets:
//! Rules I33, I52. Times are processor times, except those of several threads.

use std::{
    hint::black_box,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use frond::{
    TreeId,
    internals::{
        io::RealClock,
        lock_table::{LockSet, LockTable, Reason, RowMode, TableMode, Taken, WaitPolicy},
    },
};

#[path = "locks/scans.rs"]
mod scans;

const TREE: TreeId = TreeId(5);
const LOCKS: usize = 100;

/// Processor time of this thread, ns: meaningful even on a machine that does other work.
fn processor_nanos() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
}

fn say(what: &str, measured: f64, budget: f64, unit: &str) {
    let verdict = if measured <= budget { "" } else { "  OVER" };
    println!("{what:<58} {measured:>9.1} {unit:<5} (budget {budget}){verdict}");
}

fn key(row: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}

/// Time per operation, the least of several rounds. The kernel counts in milliseconds: a round
/// takes many of them.
fn time(operations: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..5 {
        let before = processor_nanos();
        let (mut spent, mut times) = (0.0, 0);
        while spent < 200e6 {
            work();
            times += 1;
            spent = processor_nanos() - before;
        }
        least = least.min(spent / (operations * times) as f64);
    }
    least
}

fn rows(table: &LockTable, count: usize) {
    let keys: Vec<_> = (0..count as u64).map(key).collect();
    let mut locks = table.begin(1);
    for (what, mode) in [("shared", RowMode::Shared), ("for writing", RowMode::Write)] {
        let nanos = time(count, || {
            for keys in keys.chunks(LOCKS) {
                for key in keys {
                    let taken = table.lock_row(&mut locks, TREE, key, mode, WaitPolicy::Forever);
                    black_box(taken).unwrap();
                }
                table.release_all(&mut locks);
            }
        });
        say(&format!("row, {what}: take and release"), nanos, 120.0, "ns");
    }
    let again = time(count, || {
        for keys in keys.chunks(LOCKS) {
            let key = &keys[0];
            for _ in keys {
                black_box(table.lock_row(
                    &mut locks,
                    TREE,
                    key,
                    RowMode::Write,
                    WaitPolicy::NoWait,
                ))
                .unwrap();
            }
        }
    });
    say("row, held already", again, 120.0, "ns");
    table.release_all(&mut locks);

    let nanos = time(count, || {
        for keys in keys.chunks(LOCKS) {
            let open = (Bound::Excluded(&keys[0][..]), Bound::Excluded(&keys[0][..]));
            let range = table.lock_range(&mut locks, TREE, open);
            for key in keys {
                table.grow_up(&mut locks, range, Bound::Included(key));
                black_box(table.lock_row(
                    &mut locks,
                    TREE,
                    key,
                    RowMode::Write,
                    WaitPolicy::Forever,
                ))
                .unwrap();
            }
            table.release_all(&mut locks);
        }
    });
    say("next key: row and growing interval, take and release", nanos, 250.0, "ns");

    let insert = |table: &LockTable, locks: &mut _| {
        time(count, || {
            for keys in keys.chunks(LOCKS) {
                for key in keys {
                    let mark = LockSet::mark(locks);
                    black_box(table.before_insert(locks, TREE, key, mark, WaitPolicy::NoWait))
                        .unwrap();
                }
            }
        })
    };
    say("before an insert, no gap in the tree: a fence", insert(table, &mut locks), 30.0, "ns");
    let mut others: Vec<_> = (0..1000).map(|id| table.begin(1000 + id)).collect();
    for (at, other) in others.iter_mut().enumerate() {
        // Next to the keys, all over the tree.
        let (mut from, mut to) = (key(at as u64).to_vec(), key(at as u64).to_vec());
        from.push(1);
        to.push(2);
        table.lock_range(other, TREE, (Bound::Included(&from), Bound::Included(&to)));
    }
    say("before an insert, a thousand gaps of others", insert(table, &mut locks), 1000.0, "ns");
    others.iter_mut().for_each(|other| table.release_all(other));
}

/// As many trees as a statement of moderate size touches.
const TREES: u32 = 4;

fn tables(table: &LockTable) {
    let mut locks = table.begin(1);
    let count = 1_000_000;
    let take = |locks: &mut LockSet, tree| {
        let taken =
            table.lock_table(locks, TreeId(tree), TableMode::IntentExclusive, WaitPolicy::Forever);
        black_box(taken).unwrap();
    };
    let nanos = time(count, || {
        for _ in 0..count / TREES as usize {
            (0..TREES).for_each(|tree| take(&mut locks, tree));
            table.release_all(&mut locks);
        }
    });
    say("intent on one of four trees: take and release", nanos, 20.0, "ns");
    let nanos = time(count, || (0..count).for_each(|_| take(&mut locks, 0)));
    say("intent on a tree, again", nanos, 20.0, "ns");
    table.release_all(&mut locks);
    let nanos = time(count, || (0..count).for_each(|id| drop(black_box(table.begin(id as u64)))));
    say("a transaction's owner: made and dropped", nanos, 200.0, "ns");
}

fn memory() {
    for count in [100_000_usize, 130_000, 1_000_000, 1_500_000] {
        let table = LockTable::new(Arc::new(RealClock::new()));
        let mut locks = table.begin(1);
        for row in 0..count as u64 {
            table
                .lock_row(&mut locks, TREE, &key(row), RowMode::Write, WaitPolicy::Forever)
                .unwrap();
        }
        let bytes = (table.stats().bytes + locks.bytes()) as f64 / count as f64;
        say(&format!("memory of a lock, {count} in one transaction"), bytes, 60.0, "bytes");
        table.release_all(&mut locks);
    }
}

/// Time from the call that closes a cycle of `count` until the call of the victim returns. In every
/// second round the victim is the caller, otherwise the thread that waits for it; the victim is the
/// one that has written least.
fn deadlocks(table: &Arc<LockTable>, count: u64) {
    let mut nanos = [Vec::new(), Vec::new()];
    for round in 0..400 {
        let victim = round % 2;
        let mut own = table.begin(0);
        own.owner().set_writes(9 * victim);
        table.lock_row(&mut own, TREE, &key(0), RowMode::Write, WaitPolicy::Forever).unwrap();
        let mut threads = Vec::new();
        for id in 1..count {
            let party = table.clone();
            let mut locks = party.begin(id);
            locks.owner().set_writes(if victim == id { 0 } else { 9 });
            party
                .lock_row(&mut locks, TREE, &key(id), RowMode::Write, WaitPolicy::Forever)
                .unwrap();
            threads.push(std::thread::spawn(move || {
                let next = key(id - 1);
                let taken =
                    party.lock_row(&mut locks, TREE, &next, RowMode::Write, WaitPolicy::Forever);
                let returned = Instant::now();
                party.release_all(&mut locks);
                taken.is_err_and(|denied| denied.reason == Reason::Deadlock).then_some(returned)
            }));
        }
        while table.waits().len() as u64 != count - 1 {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let last = key(count - 1);
        let taken = table.lock_row(&mut own, TREE, &last, RowMode::Write, WaitPolicy::Forever);
        let mut ended: Vec<_> = taken
            .is_err_and(|denied| denied.reason == Reason::Deadlock)
            .then(Instant::now)
            .into_iter()
            .collect();
        table.release_all(&mut own);
        ended.extend(threads.into_iter().filter_map(|thread| thread.join().unwrap()));
        assert_eq!(ended.len(), 1, "one is ended");
        nanos[victim as usize].push((ended[0] - start).as_nanos() as f64);
    }
    for (mut nanos, victim) in nanos.into_iter().zip(["the caller", "another"]) {
        nanos.sort_by(f64::total_cmp);
        let median = nanos[nanos.len() / 2] / 1000.0;
        say(&format!("deadlock of {count}, {victim} is ended: median"), median, 1000.0, "us");
    }
}

/// A wait that starts after `count` others on one row, without a cycle.
fn hot_row(table: &Arc<LockTable>, count: u64) {
    let mut holder = table.begin(0);
    table.lock_row(&mut holder, TREE, &key(0), RowMode::Write, WaitPolicy::Forever).unwrap();
    let mut threads = Vec::new();
    for id in 1..=count {
        let party = table.clone();
        threads.push(std::thread::spawn(move || {
            let mut locks = party.begin(id);
            party.lock_row(&mut locks, TREE, &key(0), RowMode::Write, WaitPolicy::Forever).unwrap();
            party.release_all(&mut locks);
        }));
    }
    while table.waits().len() as u64 != count {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut own = table.begin(999_999);
    let mut least = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        let patience = WaitPolicy::For(Duration::ZERO);
        let denied = table.lock_row(&mut own, TREE, &key(0), RowMode::Shared, patience);
        assert_eq!(denied.unwrap_err().reason, Reason::Timeout);
        least = least.min(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    say(&format!("begin and end of a wait behind {count} on one row"), least, 1000.0, "us");
    table.release_all(&mut holder);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Threads that lock disjoint rows: their total rate, and the processor time of each lock.
fn together(table: &Arc<LockTable>) {
    let rate = |threads: u64| {
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..threads)
            .map(|id| {
                let (table, stop) = (table.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut locks = table.begin(id);
                    let mut done = 0_u64;
                    let before = processor_nanos();
                    while !stop.load(Ordering::Relaxed) {
                        for row in 0..10 {
                            let key = key((id << 32) + (done + row) % 100_000);
                            let taken = table.lock_row(
                                &mut locks,
                                TREE,
                                &key,
                                RowMode::Write,
                                WaitPolicy::Forever,
                            );
                            assert_eq!(taken, Ok(Taken::New));
                        }
                        table.release_all(&mut locks);
                        done += 10;
                    }
                    (done as f64, processor_nanos() - before)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        let sums = workers.into_iter().map(|worker| worker.join().unwrap());
        sums.fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    };
    for threads in [1, 2, 16, 64] {
        let (done, nanos) = rate(threads);
        let rate = done / 0.5e6;
        println!("{threads:>3} threads, rows of their own: {rate:>8.2} million locks/s");
        say("    of a processor, a lock", nanos / done, 120.0, "ns");
    }
}

fn main() {
    let count = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(200_000);
    let table = Arc::new(LockTable::new(Arc::new(RealClock::new())));
    rows(&table, count);
    tables(&table);
    memory();
    for parties in [2, 8] {
        deadlocks(&table, parties);
    }
    scans::scans();
    scans::inserts();
    scans::temporary_trees();
    for waiters in [100, 1000] {
        hot_row(&table, waiters);
    }
    together(&table);
}
