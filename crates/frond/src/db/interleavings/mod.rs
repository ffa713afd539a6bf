//! The whole engine under the model checker: commits, snapshots, applies, drains and checkpoints
//! run concurrently on files in memory, followed by a full check and a restart.
//!
//! The engine's workers are manual here, and threads of the checker take its steps: what the worker
//! threads would do, in any order.
//!
//! Run: `make schedules`.

mod trees;

use std::time::Duration;

use super::*;
use crate::{
    Durability, Error, Result, Seqno, TreeId,
    check::CheckMode,
    io::{Clock, Env, MemoryVfs, Rng, Workers},
    pipeline::Limits,
    run::OPERATOR_APPEND,
    sync::{AtomicU64, Mutex, Ordering, explore, thread},
    tree::Shape,
    types::Xid,
};

/// A clock that stands still, so that only the scheduler determines the order of events.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn wall(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {
        thread::yield_now();
    }
}

#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Rng for Counting {
    fn next_u64(&self) -> u64 {
        (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

fn env() -> Env {
    Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(Still),
        rng: Arc::new(Counting::default()),
        workers: Workers::Manual,
    }
}

fn options(env: &Env) -> Options {
    let shape = Shape {
        leaf_bytes: 64,
        fanout_max: 3,
        push_bytes: 0,
        block_bytes: 64,
        run_bytes: 64,
        tiers_max: 1,
        tiers_max_bottom: 1,
        ..Shape::default()
    };
    let limits = Limits {
        memtable_bytes: 1,
        memtable_log_bytes: 1 << 20,
        unwritten_bytes: 1 << 20,
        // No run stays open for longer than it is used.
        footers_bytes: 0,
        checkpoint_log_bytes: 1 << 20,
        checkpoint_millis: 1 << 40,
        mini_run_entries: 3,
        own_writes_bytes: 1 << 10,
    };
    let tuning = Tuning {
        shape: Some(shape),
        limits: Some(limits),
        segment_bytes: Some(16 << 10),
        group_bytes: Some(4 << 10),
    };
    Options::new().durability(Durability::Lazy).env(env.clone()).tuning(tuning)
}

/// Commits a writer's rows one by one: a key of its own, and its number appended to a key shared by
/// all writers.
fn write(db: &Db, tree: &Tree, writer: u8) {
    let mut batch = Batch::new();
    for round in 0..3 {
        batch.put(tree, &[writer, round], &[round; 20]).unwrap();
        batch.merge(tree, b"all", OPERATOR_APPEND, &[writer]).unwrap();
        if round == 1 {
            // Enough for a mini-run.
            batch.put(tree, &[writer, 9], b"").unwrap();
        }
        db.commit(&mut batch).unwrap();
    }
}

/// Asserts that each writer's rows are a prefix of what it wrote, with as many as its numbers in
/// the shared key.
fn assert_whole(snapshot: &Snapshot, tree: &Tree) -> Vec<u8> {
    let all = snapshot.get(tree, b"all").unwrap().unwrap_or_default();
    for writer in 0..2 {
        let count = all.iter().filter(|&&by| by == writer).count();
        for round in 0..3 {
            let row = snapshot.get(tree, &[writer, round]).unwrap();
            assert_eq!(row.is_some(), usize::from(round) < count, "{all:?}: {writer}, {round}");
        }
    }
    all
}

/// Rules: I2, I4, I8, I9, I10, I18.
fn one_store_shared_by_all() {
    let env = env();
    let db = Db::open("/store", options(&env)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut threads = Vec::new();
    for writer in 0..2 {
        let (db, tree) = (db.clone(), tree.clone());
        threads.push(thread::spawn(move || write(&db, &tree, writer)));
    }
    let stepping = db.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..4 {
            stepping.step().unwrap();
        }
    }));
    let draining = db.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..2 {
            draining.drain_step().unwrap();
        }
    }));
    let checkpointing = db.clone();
    threads.push(thread::spawn(move || checkpointing.checkpoint().unwrap()));
    let snapshot = db.snapshot();
    let first = assert_whole(&snapshot, &tree);
    assert_eq!(assert_whole(&snapshot, &tree), first, "the snapshot moved");
    drop(snapshot);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(assert_whole(&db.snapshot(), &tree).len(), 6);
    drop(tree);
    db.close().unwrap();
    drop(db);
    let db = Db::open("/store", options(&env)).unwrap();
    let tree = db.open_tree("t").unwrap();
    assert_eq!(assert_whole(&db.snapshot(), &tree).len(), 6, "after a restart");
}

#[test]
fn commits_applies_drains_checkpoints_and_reads_run_concurrently() {
    explore(400, one_store_shared_by_all);
}

/// Rule: I8. One part of a tree waits in its buffers, another in a frozen memtable: the drain of
/// the one and the apply of the other each start at the root that the other has left.
fn a_drain_concurrent_with_an_apply() {
    let env = env();
    let db = Db::open("/store", options(&env)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let put = |rows: std::ops::Range<u8>, value: u8| {
        let mut batch = Batch::new();
        for row in rows {
            batch.put(&tree, &[row, 0], &[value; 20]).unwrap();
        }
        db.commit(&mut batch).unwrap();
    };
    let apply = || {
        db.shared.engine.freeze();
        while db.shared.engine.apply_oldest().unwrap() {}
    };
    // Several leaves; then a little for which no leaf is due.
    put(0..12, 1);
    apply();
    put(3..4, 2);
    apply();
    put(3..5, 3);
    db.shared.engine.freeze();
    let before = db.stats().get("drains");
    let draining = {
        let db = db.clone();
        thread::spawn(move || while db.drain_step().unwrap() {})
    };
    let applying = {
        let db = db.clone();
        thread::spawn(move || while db.shared.engine.apply_oldest().unwrap() {})
    };
    draining.join().unwrap();
    applying.join().unwrap();
    while db.drain_step().unwrap() {}
    assert!(db.stats().get("drains") > before, "there was something to drain");
    for row in 0..12 {
        let value = if (3..5).contains(&row) { 3 } else { 1 };
        assert_eq!(tree.get(&[row, 0]).unwrap().as_deref(), Some(&[value; 20][..]), "{row}");
    }
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_drain_and_an_apply_of_one_tree_exclude_each_other() {
    explore(200, a_drain_concurrent_with_an_apply);
}

/// A store with two rows of each of `count` prepared transactions: row 0 is inserted by it, row 1
/// exists and gets the transaction's number appended.
fn with_prepared(env: &Env, count: u8) -> (Db, Tree) {
    let db = Db::open("/store", options(env)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for number in 0..count {
        tree.put(&[number, 1], b"").unwrap();
        let isolation = Isolation::RepeatableRead;
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        txn.put(&tree, &[number, 0], &[number; 20]).unwrap();
        txn.put(&tree, &[number, 1], &[number; 3]).unwrap();
        txn.prepare_with(&xid(number), Durability::Lazy).unwrap().detach();
    }
    (db, tree)
}

fn xid(number: u8) -> Xid {
    Xid::new(&[b'x', number]).unwrap()
}

/// True if the transaction is visible; asserts that it is visible completely or not at all.
fn sees(number: u8, get: impl Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
    let (new, changed) = (get(&[number, 0]), get(&[number, 1]).expect("it was there before"));
    assert_eq!(new.is_some(), !changed.is_empty(), "{number}: a part of it");
    new.is_some()
}

/// Two commits take their places in the order under a lock, as a server's do; a snapshot is taken
/// under the same lock; two sessions try to decide a third one; applies run concurrently.
///
/// Rules: I4, I29, I41.
fn ordered_commits_concurrent_with_snapshots() {
    let env = env();
    let (db, tree) = with_prepared(&env, 3);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for number in 0..2 {
        let (db, order) = (db.clone(), order.clone());
        threads.push(thread::spawn(move || {
            let mut prepared = db.attach_prepared(&xid(number)).unwrap();
            let mut order = order.lock().unwrap();
            let seqno = prepared.commit_ordered().unwrap();
            assert!(order.last().is_none_or(|(last, _)| *last < seqno), "in the order of calls");
            order.push((seqno, number));
            drop(order);
            // One is dropped by its owner after it was ordered: it is committed nevertheless.
            match number {
                0 => drop(prepared),
                _ => assert_eq!(prepared.commit_with(Durability::Lazy).unwrap(), seqno),
            }
        }));
    }
    let reading = {
        let (db, tree, order) = (db.clone(), tree.clone(), order.clone());
        thread::spawn(move || {
            let txn = db.begin(TxnOptions::default()).unwrap();
            let ordered = order.lock().unwrap();
            let at = txn.control().take_snapshot().unwrap();
            let before: Vec<(Seqno, u8)> = ordered.clone();
            drop(ordered);
            let seen = |number| sees(number, |key| txn.get(&tree, key).unwrap());
            for number in 0..2 {
                let is_before = before.iter().any(|(_, one)| *one == number);
                assert_eq!(seen(number), is_before, "{number} at {at}, after {before:?}");
            }
            assert!(before.iter().all(|(seqno, _)| *seqno <= at));
            let third = seen(2);
            thread::yield_now();
            assert_eq!(seen(2), third, "the snapshot moved");
        })
    };
    let deciding = [true, false].map(|commits| {
        let db = db.clone();
        thread::spawn(move || {
            let Ok(prepared) = db.attach_prepared(&xid(2)) else { return None };
            // Detached once: whichever session comes first then decides it.
            prepared.detach();
            let prepared = db.attach_prepared(&xid(2)).ok()?;
            match commits {
                true => drop(prepared.commit_with(Durability::Lazy).unwrap()),
                false => prepared.rollback().unwrap(),
            }
            Some(commits)
        })
    });
    let stepping = db.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..3 {
            stepping.step().unwrap();
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    reading.join().unwrap();
    let decided: Vec<bool> =
        deciding.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    assert!(decided.len() <= 1, "one decides");
    assert_eq!(db.prepared().len(), 1 - decided.len());
    let outcome = [true, true, decided.first().copied().unwrap_or(false)];
    let check = |db: &Db| {
        let tree = db.open_tree("t").unwrap();
        for (number, committed) in (0..).zip(outcome) {
            assert_eq!(sees(number, |key| tree.get(key).unwrap()), committed, "{number}");
        }
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
    };
    check(&db);
    drop(tree);
    db.close().unwrap();
    drop(db);
    let db = Db::open("/store", options(&env)).unwrap();
    assert_eq!(db.take_recovered().len(), 1 - decided.len());
    check(&db);
}

#[test]
fn ordered_commits_snapshots_and_decisions_run_concurrently() {
    explore(500, ordered_commits_concurrent_with_snapshots);
}

/// Owners of prepared transactions drop them, one after ordering its commit, one before;
/// concurrently another session decides each by name. The first is committed by its owner's drop;
/// the second by the other session, or not at all.
///
/// Rules: I12, I41.
fn decisions_by_name_concurrent_with_the_end_of_a_session() {
    let env = env();
    let (db, tree) = with_prepared(&env, 2);
    let in_hand = [0, 1].map(|number| db.attach_prepared(&xid(number)).unwrap());
    let owners: Vec<_> = in_hand
        .into_iter()
        .zip([true, false])
        .map(|(mut prepared, orders)| {
            thread::spawn(move || {
                if orders {
                    prepared.commit_ordered().unwrap();
                }
                prepared.detach();
            })
        })
        .collect();
    let others: Vec<_> = [0, 1, 1]
        .into_iter()
        .map(|number| {
            let db = db.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    match db.commit_prepared(&xid(number)) {
                        Ok(_) => return (number, true),
                        Err(Error::XidBusy(_)) => thread::yield_now(),
                        Err(Error::NoSuchXid(_)) => break,
                        Err(error) => panic!("{number}: {error}"),
                    }
                }
                (number, false)
            })
        })
        .collect();
    let stepping = db.clone();
    let stepping = thread::spawn(move || {
        stepping.step().unwrap();
    });
    owners.into_iter().for_each(|thread| thread.join().unwrap());
    stepping.join().unwrap();
    let decided: Vec<(u8, bool)> = others.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(decided.iter().all(|(number, made)| *number == 1 || !made), "its owner has decided it");
    let made = decided.iter().filter(|(_, made)| *made).count();
    assert!(made <= 1, "one decides");
    let check = |db: &Db| {
        let tree = db.open_tree("t").unwrap();
        for (number, committed) in [(0, true), (1, made == 1)] {
            assert_eq!(sees(number, |key| tree.get(key).unwrap()), committed, "{number}");
        }
        let left: Vec<Xid> = db.prepared().into_iter().map(|one| one.xid).collect();
        assert_eq!(left, if made == 1 { vec![] } else { vec![xid(1)] });
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
    };
    check(&db);
    assert_eq!(made == 1, db.lock_stats().locks == 0);
    drop(tree);
    db.close().unwrap();
    drop(db);
    check(&Db::open("/store", options(&env)).unwrap());
}

#[test]
fn a_decision_by_name_while_the_owner_ends_is_made_once() {
    explore(500, decisions_by_name_concurrent_with_the_end_of_a_session);
}

/// The store is closed while prepared transactions are decided: what was acknowledged is there
/// after reopening, and what was refused is still prepared.
///
/// Rules: I12, I41.
fn decisions_concurrent_with_a_close() {
    let env = env();
    let (db, tree) = with_prepared(&env, 3);
    let deciding: Vec<_> = (0..3)
        .map(|number| {
            let db = db.clone();
            thread::spawn(move || {
                let mut prepared = db.attach_prepared(&xid(number)).unwrap();
                match number {
                    0 => prepared.commit().is_ok().then_some(true),
                    // Ordered and then dropped: the close may come in between.
                    1 => prepared.commit_ordered().is_ok().then_some(true),
                    _ => prepared.rollback().is_ok().then_some(false),
                }
            })
        })
        .collect();
    let closing = {
        let db = db.clone();
        thread::spawn(move || db.close().unwrap())
    };
    let decided: Vec<Option<bool>> =
        deciding.into_iter().map(|thread| thread.join().unwrap()).collect();
    closing.join().unwrap();
    drop((tree, db));
    let db = Db::open("/store", options(&env)).unwrap();
    let tree = db.open_tree("t").unwrap();
    let left: Vec<Xid> = db.take_recovered().into_iter().map(|one| one.xid).collect();
    for (number, decided) in (0..).zip(decided) {
        let committed = sees(number, |key| tree.get(key).unwrap());
        assert_eq!(left.contains(&xid(number)), decided.is_none(), "{number}: {decided:?}");
        assert_eq!(committed, decided == Some(true), "{number}: {decided:?}");
    }
    for xid in &left {
        db.commit_prepared(xid).unwrap();
    }
    assert_eq!(db.lock_stats().locks, 0);
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_decision_during_a_close_takes_effect_or_stays_prepared() {
    explore(500, decisions_concurrent_with_a_close);
}

/// A scan that locks rows which it had read before, concurrently with writers of its tree, by
/// transactions and, before the gate closes, by batches, and with writers of another tree. Each
/// adds one to the value that it finds.
fn a_locking_scan_concurrent_with_commits() {
    let env = env();
    let db = Db::open("/store", options(&env)).unwrap();
    let [tree, other] =
        ["t", "other"].map(|name| db.create_tree(name, Default::default()).unwrap());
    let begin = || {
        let isolation = Isolation::ReadCommitted;
        db.begin(TxnOptions::new().isolation(isolation).lock_timeout(None)).unwrap()
    };
    for row in 0..2u8 {
        tree.put(&[row], &[0]).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let txn = begin();
            let mut rows = Vec::new();
            let mut scan =
                txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
            while let Some((key, value)) = scan.next().unwrap() {
                rows.push((key.to_vec(), value[0]));
            }
            drop(scan);
            for (key, value) in &rows {
                txn.put(&tree, key, &[value + 1]).unwrap();
            }
            txn.commit().unwrap();
        });
        scope.spawn(|| {
            let txn = begin();
            let value = txn.get_for_update(&tree, &[1]).unwrap().unwrap()[0];
            txn.put(&tree, &[1], &[value + 1]).unwrap();
            txn.commit().unwrap();
            other.put(&[2], b"").unwrap();
        });
        let mut batch = Batch::new();
        batch.put(&other, &[3], b"").unwrap();
        batch.put(&tree, &[7], &[1]).unwrap();
        db.commit(&mut batch).unwrap();
    });
    assert_eq!(tree.get(&[0]).unwrap(), Some(vec![1]));
    assert_eq!(tree.get(&[1]).unwrap(), Some(vec![2]), "I46: what it had read was old");
    let seven = tree.get(&[7]).unwrap();
    assert!(seven == Some(vec![1]) || seven == Some(vec![2]), "{seven:?}");
    assert_eq!(db.lock_stats().locks, 0);
}

/// Rules: I3, I46.
#[test]
fn a_locking_scan_loses_no_commit() {
    explore(300, a_locking_scan_concurrent_with_commits);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "pipeline: a memtable is applied before its commits are in it" =>
            commits_applies_drains_checkpoints_and_reads_run_concurrently,
        "pipeline: a drain concurrent with an apply" =>
            a_drain_and_an_apply_of_one_tree_exclude_each_other,
    };
    crate::plant::assert_claims_hold("schedules of db", claims);
}
