//! The lock table under a model checker: how waits end when several ends coincide, inserts and gaps
//! that are published and looked for, and whole trees against intents.
//!
//! Run: `make schedules`.

use std::ops::Bound;

use super::*;
use crate::sync::{AtomicU32, explore, thread};
use RowMode::{Exclusive, Shared, Write};
use WaitPolicy::{For, Forever, NoWait};

/// A grant, a timeout and an interrupt reach one waiter at once: exactly one ends the wait, nothing
/// is left of it, and no waiter after it is forgotten.
#[test]
fn a_wait_ends_exactly_once() {
    explore(1500, || {
        let (table, clock) = timed();
        let mut holder = table.begin(1);
        table.lock_row(&mut holder, TREE, b"k", Exclusive, NoWait).unwrap();
        let second = table.begin(2);
        let victim = second.owner().clone();
        let mut threads = Vec::new();
        for (mut locks, wait_policy) in
            [(second, For(Duration::from_millis(5))), (table.begin(3), Forever)]
        {
            let table = table.clone();
            threads.push(thread::spawn(move || {
                let taken = table.lock_row(&mut locks, TREE, b"k", Exclusive, wait_policy);
                match taken {
                    Ok(taken) => assert_eq!((taken, locks.len()), (Taken::New, 1)),
                    Err(denied) => {
                        assert!(matches!(denied.reason, Reason::Timeout | Reason::Interrupted));
                        assert!(locks.is_empty());
                        assert!(matches!(wait_policy, For(_)), "this one is granted, or never");
                    }
                }
                table.release_all(&mut locks);
            }));
        }
        threads.push(thread::spawn(move || victim.interrupt(2)));
        let timer = table.clone();
        threads.push(thread::spawn(move || {
            clock.sleep(Duration::from_millis(5));
            timer.expire();
        }));
        table.release_all(&mut holder);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_empty(&table);
    });
}

/// The interrupt is the only end of the wait: it must not be missed.
#[test]
fn an_interrupt_is_never_missed() {
    explore(1000, || {
        let table = table();
        let mut holder = table.begin(1);
        table.lock_row(&mut holder, TREE, b"k", Exclusive, NoWait).unwrap();
        let mut locks = table.begin(2);
        let victim = locks.owner().clone();
        let killer = thread::spawn(move || victim.interrupt(2));
        let denied = table.lock_row(&mut locks, TREE, b"k", Shared, Forever);
        assert_eq!(reason(denied), Reason::Interrupted);
        killer.join().unwrap();
        table.release_all(&mut holder);
        assert_empty(&table);
    });
}

/// The interrupt of another transaction, which this owner observes, is the only end of the wait.
#[test]
fn a_registered_sleeper_misses_no_interrupt() {
    explore(1000, || {
        let table = table();
        let mut holder = table.begin(1);
        table.lock_row(&mut holder, TREE, b"k", Exclusive, NoWait).unwrap();
        let stop = Arc::new(Stop::default());
        let mut cancel = CancelToken::default();
        cancel.set(stop.clone());
        let mut locks = table.begin(2);
        locks.owner().cancel_on(cancel);
        let killer = thread::spawn(move || stop.ask());
        let denied = table.lock_row(&mut locks, TREE, b"k", Shared, Forever);
        assert_eq!(reason(denied), Reason::Interrupted);
        killer.join().unwrap();
        table.release_all(&mut holder);
        assert_empty(&table);
    });
}

/// The close is the only end of both waits, for a row and for a gap: neither is missed, whether it
/// began before or after.
#[test]
fn no_waiter_misses_a_close() {
    explore(1500, || {
        let table = table();
        let mut holder = table.begin(1);
        table.lock_row(&mut holder, TREE, b"k", Exclusive, NoWait).unwrap();
        table.lock_range(&mut holder, TREE, (Bound::Excluded(b"k"), Bound::Unbounded));
        let inserter = {
            let table = table.clone();
            thread::spawn(move || {
                let mut locks = table.begin(3);
                let mark = locks.mark();
                table.lock_row(&mut locks, TREE, b"m", Write, NoWait).unwrap();
                let denied = table.before_insert(&mut locks, TREE, b"m", mark, Forever);
                assert_eq!(reason(denied), Reason::Closed);
                table.release_all(&mut locks);
            })
        };
        let closer = {
            let table = table.clone();
            thread::spawn(move || table.close())
        };
        let mut locks = table.begin(2);
        let denied = table.lock_row(&mut locks, TREE, b"k", Shared, Forever);
        assert_eq!(reason(denied), Reason::Closed);
        inserter.join().unwrap();
        closer.join().unwrap();
        table.release_all(&mut holder);
        assert_empty(&table);
    });
}

/// A request concurrent with a release is granted: at once, or because it waits.
#[test]
fn a_release_never_misses_a_waiter() {
    explore(1500, || {
        let table = table();
        let alone = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..3)
            .map(|id| {
                let (table, alone) = (table.clone(), alone.clone());
                thread::spawn(move || {
                    let mut locks = table.begin(id);
                    for _ in 0..2 {
                        let taken = table.lock_row(&mut locks, TREE, b"k", Write, Forever);
                        assert_eq!(taken, Ok(Taken::New));
                        assert_eq!(alone.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                        thread::yield_now();
                        alone.fetch_sub(1, Ordering::SeqCst);
                        table.release_all(&mut locks);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_empty(&table);
    });
}

/// Rows taken in all orders, read and then written: every cycle is resolved, so every transaction
/// ends.
#[test]
fn every_cycle_is_resolved() {
    explore(1500, || {
        let table = table();
        let threads: Vec<_> = (0..3_u64)
            .map(|id| {
                let table = table.clone();
                thread::spawn(move || {
                    let mut locks = table.begin(id);
                    let rows = [[id as u8], [(id as u8 + 1) % 3]];
                    let shared = table.lock_row(&mut locks, TREE, &rows[0], Shared, Forever);
                    let done = shared
                        .and_then(|_| table.lock_row(&mut locks, TREE, &rows[1], Shared, Forever))
                        .and_then(|_| table.lock_row(&mut locks, TREE, &rows[0], Write, Forever));
                    if let Err(denied) = done {
                        assert_eq!(denied.reason, Reason::Deadlock);
                    }
                    table.release_all(&mut locks);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_empty(&table);
    });
}

/// The rows of a tree, and the pending ones.
#[derive(Default)]
struct Rows {
    pending: Mutex<Vec<u8>>,
    there: Mutex<Vec<u8>>,
}

impl Rows {
    fn count(&self) -> usize {
        self.there.lock().unwrap().len()
    }
}

fn insert(table: &LockTable, rows: &Rows, id: u64, key: u8) {
    let mut locks = table.begin(id);
    let mark = locks.mark();
    table.lock_row(&mut locks, TREE, &[key], Write, Forever).unwrap();
    rows.pending.lock().unwrap().push(key);
    let mut inserted = table.before_insert(&mut locks, TREE, &[key], mark, Forever).map(drop);
    if rows.there.lock().unwrap().contains(&key) {
        inserted = Ok(()); // another came first: the insert is refused
    } else if inserted.is_ok() {
        rows.there.lock().unwrap().push(key);
    }
    assert_eq!(inserted, Ok(()), "no thread here waits for an insert that waits for it");
    rows.pending.lock().unwrap().retain(|pending| *pending != key);
    table.release_all(&mut locks);
}

/// Looks for what is pending up to `end`, and waits for it; returns the first key after it.
fn wait_for(table: &LockTable, locks: &mut LockSet, rows: &Rows, end: u8) -> Option<u8> {
    let pending = rows.pending.lock().unwrap().clone();
    let (inside, behind): (Vec<u8>, Vec<u8>) = pending.into_iter().partition(|key| *key < end);
    for key in inside {
        table.lock_row(locks, TREE, &[key], Shared, Forever).unwrap();
    }
    behind.into_iter().min()
}

/// Scans all keys in two steps. What it has learned for the first step it believes for the second,
/// as long as no insert has looked for intervals.
fn scan(table: &LockTable, rows: &Rows, id: u64) {
    let mut locks = table.begin(id);
    let range = table.lock_range(&mut locks, TREE, (Bound::Unbounded, Bound::Excluded(&[8])));
    let looked = table.inserts_looked(TREE);
    let behind = wait_for(table, &mut locks, rows, 8);
    table.grow_up(&mut locks, range, Bound::Unbounded);
    if behind.is_some() || looked != table.inserts_looked(TREE) {
        wait_for(table, &mut locks, rows, u8::MAX);
    }
    let first = rows.count();
    thread::yield_now();
    assert_eq!(rows.count(), first, "Rule I33: a row that was not there");
    table.release_all(&mut locks);
}

/// Rules: I32, I33. Two inserts, one of them of a key that another inserts too, and two scans.
#[test]
fn concurrent_inserts_and_scans_do_not_miss_each_other() {
    explore(1500, || {
        let table = table();
        let rows = Arc::new(Rows::default());
        let mut threads = Vec::new();
        for (id, key) in [(1, 7), (2, 7), (3, 9)] {
            let (table, rows) = (table.clone(), rows.clone());
            threads.push(thread::spawn(move || insert(&table, &rows, id, key)));
        }
        for id in [4, 5] {
            let (table, rows) = (table.clone(), rows.clone());
            threads.push(thread::spawn(move || scan(&table, &rows, id)));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut there = rows.there.lock().unwrap().clone();
        there.sort_unstable();
        assert_eq!(there, [7, 9], "Rule I32: one of two inserts of a key");
        assert_eq!(table.stats().deadlocks, 0);
        assert_empty(&table);
    });
}

/// Rule: I52. No transaction holds an intent to change a tree that another has locked exclusively.
#[test]
fn an_exclusive_tree_lock_excludes_all_writers() {
    explore(1500, || {
        let table = table();
        let writers = Arc::new(AtomicU32::new(0));
        let is_changed = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for id in 0..3 {
            let (table, writers) = (table.clone(), writers.clone());
            let is_changed = is_changed.clone();
            threads.push(thread::spawn(move || {
                let mut locks = table.begin(id);
                if id == 0 {
                    table.lock_table(&mut locks, TREE, TableMode::Exclusive, Forever).unwrap();
                    is_changed.store(true, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0, "a writer is active");
                    thread::yield_now();
                    is_changed.store(false, Ordering::SeqCst);
                } else {
                    let first =
                        [TableMode::IntentShared, TableMode::IntentExclusive][id as usize - 1];
                    for mode in [first, TableMode::IntentExclusive] {
                        if table.lock_table(&mut locks, TREE, mode, Forever).is_err() {
                            break; // a cycle: it waits for more, and the other for what it has
                        }
                        writers.fetch_add(1, Ordering::SeqCst);
                        assert!(!is_changed.load(Ordering::SeqCst), "the tree is locked");
                        writers.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                table.release_all(&mut locks);
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_empty(&table);
    });
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "locks: a refusal is not looked at again" => a_release_never_misses_a_waiter,
        "locks: a sleeper is not announced" => an_interrupt_is_never_missed,
        "locks: a cancelled sleeper is not woken" => a_registered_sleeper_misses_no_interrupt,
        "locks: a close wakes no waiter" => no_waiter_misses_a_close,
        "locks: an insert that looks is not counted" =>
            concurrent_inserts_and_scans_do_not_miss_each_other,
    };
    crate::plant::assert_claims_hold("schedules of locks", claims);
}
