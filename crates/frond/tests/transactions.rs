//! Transactions through the public API: what they see of each other and of batches, how they end, and that
//! nothing is lost when they meet.
//!
//! Sessions that wait are threads; a test goes on once the store says that they wait.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use frond::{
    Batch, CheckMode, Db, Durability, Error, ErrorKind, IfLocked, Isolation, Options, RowLock,
    Tree, TreeOptions, Txn, TxnOptions, operator,
};

const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot];

struct Store {
    db: Db,
    tree: Tree,
    _dir: tempfile::TempDir,
}

/// A store with rows `1` = 10 and `2` = 20; with `is_flushed` they are in the tree, not in the memtable.
fn store(is_flushed: bool) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions { unique: true, ..Default::default() }).unwrap();
    tree.put(b"1", b"10").unwrap();
    tree.put(b"2", b"20").unwrap();
    if is_flushed {
        db.checkpoint().unwrap();
    }
    Store { db, tree, _dir: dir }
}

impl Store {
    fn begin(&self, isolation: Isolation) -> Txn {
        self.db.begin(TxnOptions { isolation, ..Default::default() }).unwrap()
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut cursor = self.tree.scan(..).unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            rows.push((text(key), text(value)));
        }
        rows
    }

    /// Returns once so many calls wait for locks.
    fn until_waiting(&self, count: usize) {
        while self.db.lock_waits().len() < count {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// All is as it is without transactions: no lock is left, no batch has to ask for one, and the store is whole.
    fn is_at_rest(&self) {
        let stats = self.db.lock_stats();
        assert_eq!((stats.locks, stats.ranges), (0, 0));
        assert!(self.db.lock_waits().is_empty());
        assert!(self.db.check(CheckMode::Full).unwrap().is_clean());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn get(txn: &Txn, tree: &Tree, key: &str) -> Option<String> {
    txn.get(tree, key.as_bytes()).unwrap().map(|value| text(&value))
}

fn scanned(txn: &Txn, tree: &Tree) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut cursor = txn.scan(tree, ..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((text(key), text(value)));
    }
    let mut back = Vec::new();
    cursor.seek_last();
    while let Some((key, value)) = cursor.prev().unwrap() {
        back.push((text(key), text(value)));
    }
    back.reverse();
    assert_eq!(back, rows, "both ways");
    rows
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn a_transaction_sees_its_own_writes_and_others_do_not() {
    for isolation in LEVELS {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let txn = store.begin(isolation);
            txn.put(tree, b"1", b"11").unwrap();
            txn.delete(tree, b"2").unwrap();
            txn.insert(tree, b"3", b"30").unwrap();
            txn.merge(tree, b"1", operator::APPEND, b"!").unwrap();
            txn.merge(tree, b"4", operator::APPEND, b"40").unwrap();
            txn.put(tree, b"0", &vec![b'x'; 100_000]).unwrap();
            assert_eq!(get(&txn, tree, "1").as_deref(), Some("11!"));
            assert_eq!(
                (get(&txn, tree, "2"), get(&txn, tree, "0").unwrap().len()),
                (None, 100_000)
            );
            let mut own = scanned(&txn, tree);
            assert_eq!(own.remove(0).1.len(), 100_000);
            assert_eq!(own, pairs(&[("1", "11!"), ("3", "30"), ("4", "40")]));
            let refused = txn.insert(tree, b"3", b"31").unwrap_err();
            assert!(matches!(refused, Error::RowExists { .. }), "{refused}");
            txn.insert(tree, b"2", b"22").unwrap();

            assert_eq!(store.rows(), pairs(&[("1", "10"), ("2", "20")]));
            let other = store.begin(isolation);
            assert_eq!(scanned(&other, tree), pairs(&[("1", "10"), ("2", "20")]));
            txn.commit().unwrap();
            let mut rows = store.rows();
            assert_eq!(rows.remove(0).1.len(), 100_000);
            let expected = pairs(&[("1", "11!"), ("2", "22"), ("3", "30"), ("4", "40")]);
            assert_eq!(rows, expected);
            let seen = scanned(&other, tree).len();
            assert_eq!(seen, if isolation == Isolation::ReadCommitted { 5 } else { 2 });
            drop(other);
            db.checkpoint().unwrap();
            assert_eq!(store.rows()[1..], expected);
            store.is_at_rest();
        }
    }
}

#[test]
fn a_scan_meets_nothing_that_is_written_ahead_of_it_and_nothing_deleted() {
    let store = store(true);
    let Store { tree, .. } = &store;
    let txn = store.begin(Isolation::Snapshot);
    txn.put(tree, b"15", b"x").unwrap();
    let mut cursor = txn.scan(tree, ..).unwrap();
    let mut met = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        met.push(text(key));
        txn.put(tree, &[key, b"+"].concat(), b"moved").unwrap_or_else(|error| panic!("{error}"));
        if met.len() == 1 {
            txn.delete(tree, b"15").unwrap();
        }
        assert!(met.len() < 10, "{met:?}");
    }
    assert_eq!(met, ["1", "2"]);
    let mut cursor = txn.scan(tree, &b"1"[..]..&b"2"[..]).unwrap();
    let keys = |row: Option<(&[u8], &[u8])>| row.map(|(key, _)| text(key));
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1"));
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1+"));
    assert_eq!(keys(cursor.prev().unwrap()).as_deref(), Some("1"));
    assert_eq!(keys(cursor.prev().unwrap()), None);
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1"));
    cursor.seek(b"10");
    assert_eq!(keys(cursor.prev().unwrap()).as_deref(), Some("1+"));
}

#[test]
fn a_rollback_leaves_nothing_and_a_savepoint_what_was_before_it() {
    for is_flushed in [false, true] {
        let store = store(is_flushed);
        let Store { db, tree, .. } = &store;
        let txn = db.begin(Default::default()).unwrap();
        txn.put(tree, b"1", b"11").unwrap();
        let first = txn.savepoint().unwrap();
        txn.put(tree, b"1", b"12").unwrap();
        txn.put(tree, b"3", b"30").unwrap();
        let second = txn.savepoint().unwrap();
        txn.delete(tree, b"1").unwrap();
        txn.put(tree, b"5", &vec![b'y'; 70_000]).unwrap();
        txn.rollback_to(&second).unwrap();
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "12"), ("2", "20"), ("3", "30")]));
        txn.rollback_to(&first).unwrap();
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "11"), ("2", "20")]));
        txn.rollback_to(&first).unwrap();
        let gone = txn.rollback_to(&second).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::FixCall, "{gone}");
        txn.put(tree, b"6", b"60").unwrap();
        txn.release(&first).unwrap();
        assert!(txn.rollback_to(&first).is_err());
        let foreign = db.begin(Default::default()).unwrap();
        let second = txn.savepoint().unwrap();
        assert!(foreign.rollback_to(&second).is_err());
        txn.commit().unwrap();
        let expected = pairs(&[("1", "11"), ("2", "20"), ("6", "60")]);
        assert_eq!(store.rows(), expected);
        for ends in [0, 1] {
            let txn = db.begin(Default::default()).unwrap();
            txn.delete(tree, b"1").unwrap();
            txn.put(tree, b"7", &vec![b'z'; 70_000]).unwrap();
            if ends == 0 { txn.rollback() } else { drop(txn) }
        }
        drop(foreign);
        assert_eq!(store.rows(), expected);
        store.is_at_rest();
    }
}

/// G0, and P4 by a locking read: the second waits, and goes on by what the first has committed; a snapshot transaction
/// that has read before is in conflict.
#[test]
fn writers_of_a_row_wait_for_each_other() {
    for isolation in LEVELS {
        for has_read in [false, true] {
            let store = store(has_read);
            let Store { tree, .. } = &store;
            let one = store.begin(isolation);
            one.put(tree, b"1", b"11").unwrap();
            thread::scope(|scope| {
                let second = scope.spawn(|| {
                    let two = store.begin(isolation);
                    if has_read {
                        assert_eq!(get(&two, tree, "2").as_deref(), Some("20"));
                    }
                    let written = two.merge(tree, b"1", operator::APPEND, b"2");
                    if has_read && isolation == Isolation::Snapshot {
                        assert!(matches!(written, Err(Error::Conflict { .. })), "{written:?}");
                        assert!(matches!(two.get(tree, b"1"), Err(Error::TxnEnded)));
                        assert!(matches!(two.commit(), Err(Error::TxnEnded)));
                        return;
                    }
                    written.unwrap();
                    two.commit().unwrap();
                });
                store.until_waiting(1);
                let busy = store.begin(isolation);
                let refused = busy.get_locked(tree, b"1", RowLock::Shared, IfLocked::Fail);
                assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
                drop(busy);
                one.commit().unwrap();
                second.join().unwrap();
            });
            let is_in_conflict = has_read && isolation == Isolation::Snapshot;
            let value = if is_in_conflict { "11" } else { "112" };
            assert_eq!(store.rows()[0].1, value, "{isolation:?}");
            store.is_at_rest();
        }
    }
}

/// P4, lost update, by a plain read: the level decides. Rule: I27, for rows in the memtable and in the tree.
#[test]
fn a_row_that_was_read_and_is_written_back() {
    for isolation in LEVELS {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let (one, two) = (store.begin(isolation), store.begin(isolation));
            assert_eq!(get(&one, tree, "1"), get(&two, tree, "1"));
            one.put(tree, b"1", b"11").unwrap();
            one.commit().unwrap();
            if is_flushed {
                db.checkpoint().unwrap();
            }
            let kept = if isolation == Isolation::ReadCommitted { "11" } else { "10" };
            assert_eq!(get(&two, tree, "1").as_deref(), Some(kept));
            let written = two.put(tree, b"1", b"12");
            if isolation == Isolation::Snapshot {
                assert!(matches!(written, Err(Error::Conflict { .. })), "{written:?}");
                assert_eq!(store.rows()[0].1, "11");
                continue;
            }
            written.unwrap();
            // A row that nobody touched meanwhile is in nobody's way.
            two.put(tree, b"2", b"22").unwrap();
            two.commit().unwrap();
            assert_eq!(store.rows(), pairs(&[("1", "12"), ("2", "22")]));
        }
    }
}

#[test]
fn a_snapshot_writes_rows_that_nobody_has_changed_whatever_else_was_flushed() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let txn = store.begin(Isolation::Snapshot);
    assert_eq!(scanned(&txn, tree).len(), 2);
    tree.put(b"3", b"30").unwrap();
    db.checkpoint().unwrap();
    txn.put(tree, b"1", b"11").unwrap();
    assert_eq!(txn.get_for_update(tree, b"2").unwrap().as_deref(), Some(&b"20"[..]));
    let unseen = txn.get_for_share(tree, b"3").unwrap_err();
    assert!(matches!(unseen, Error::Conflict { .. }), "{unseen}");
}

#[test]
fn of_those_who_insert_one_key_one_wins() {
    for isolation in LEVELS {
        let store = store(true);
        let (tree, won, begin) = (&store.tree, AtomicU64::new(0), Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..200u32 {
                        begin.wait();
                        let txn = store.begin(isolation);
                        match txn.insert(tree, &n.to_be_bytes(), b"") {
                            Ok(()) => {
                                won.fetch_add(1, Ordering::Relaxed);
                                txn.commit().unwrap();
                            }
                            Err(Error::RowExists { .. }) => txn.rollback(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed), 200);
        store.is_at_rest();
    }
}

/// Batches, which take no locks by themselves, beside transactions that do.
#[test]
fn a_batch_waits_for_the_rows_of_a_transaction() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let txn = db.begin(Default::default()).unwrap();
    assert_eq!(txn.get_for_update(tree, b"1").unwrap().as_deref(), Some(&b"10"[..]));
    thread::scope(|scope| {
        let batch = scope.spawn(|| {
            let mut batch = Batch::new();
            batch.put(tree, b"2", b"batch").unwrap();
            batch.merge(tree, b"1", operator::APPEND, b"?").unwrap();
            db.commit(&mut batch).unwrap();
        });
        let range = scope.spawn(|| {
            let mut batch = Batch::new();
            batch.delete_range(tree, b"3", b"9").unwrap();
            db.commit(&mut batch).unwrap();
        });
        store.until_waiting(2);
        txn.put(tree, b"1", b"11").unwrap();
        txn.put(tree, b"5", b"50").unwrap();
        txn.commit().unwrap();
        batch.join().unwrap();
        range.join().unwrap();
    });
    assert_eq!(store.rows(), pairs(&[("1", "11?"), ("2", "batch")]));
    let txn = db.begin(Default::default()).unwrap();
    txn.insert(tree, b"7", b"").unwrap();
    thread::scope(|scope| {
        let insert = scope.spawn(|| {
            let mut batch = Batch::new();
            batch.insert(tree, b"7", b"").unwrap();
            db.commit(&mut batch)
        });
        store.until_waiting(1);
        txn.commit().unwrap();
        let refused = insert.join().unwrap();
        assert!(matches!(refused, Err(Error::KeyExists { .. })), "{refused:?}");
    });
    store.is_at_rest();
}

#[test]
fn a_circle_of_waits_ends_with_the_one_that_wrote_least() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let (one, two) = (db.begin(Default::default()).unwrap(), db.begin(Default::default()).unwrap());
    one.put(tree, b"1", b"11").unwrap();
    one.put(tree, b"3", b"31").unwrap();
    two.put(tree, b"2", b"22").unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| one.put(tree, b"2", b"21"));
        store.until_waiting(1);
        let ended = two.put(tree, b"1", b"12").unwrap_err();
        assert!(matches!(ended, Error::Deadlock { .. }), "{ended}");
        assert_eq!(ended.kind(), ErrorKind::Retry);
        first.join().unwrap().unwrap();
    });
    let told = db.last_deadlock().unwrap();
    assert_eq!((told.victim, told.parties.len()), (two.id(), 2));
    assert!(told.to_string().contains(&format!("transaction {}", one.id())), "{told}");
    assert!(matches!(two.put(tree, b"9", b""), Err(Error::TxnEnded)));
    one.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "11"), ("2", "21"), ("3", "31")]));
    drop(two);
    store.is_at_rest();
}

#[test]
fn a_wait_that_is_too_long_leaves_the_transaction_as_it_was() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let one = db.begin(Default::default()).unwrap();
    one.put(tree, b"1", b"11").unwrap();
    let options =
        TxnOptions { lock_timeout: Some(Duration::from_millis(20)), ..Default::default() };
    let two = db.begin(options).unwrap();
    two.put(tree, b"2", b"22").unwrap();
    let refused = two.put(tree, b"1", b"12").unwrap_err();
    assert!(matches!(refused, Error::LockTimeout { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("transaction {}", one.id())), "{refused}");
    one.rollback();
    two.put(tree, b"1", b"12").unwrap();
    two.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "12"), ("2", "22")]));
    assert_eq!(db.lock_stats().timeouts, 1);
}

/// The contended counter, by plain reads of snapshots, by locking reads, and beside batches that add without reading.
#[test]
fn no_count_is_lost() {
    const ROUNDS: u64 = 300;
    let store = store(true);
    let Store { db, tree, .. } = &store;
    db.create_tree("other", Default::default()).unwrap();
    for key in [b"a", b"b"] {
        tree.put(key, &0u64.to_be_bytes()).unwrap();
    }
    let add = |txn: &Txn, key: &[u8], locks: bool| {
        let value =
            if locks { txn.get_for_update(tree, key)? } else { txn.get(tree, key)? }.unwrap();
        let count = u64::from_be_bytes(value.try_into().unwrap());
        txn.put(tree, key, &(count + 1).to_be_bytes())
    };
    thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (first, second) = if round % 2 == 0 { (b"a", b"b") } else { (b"b", b"a") };
                    match number {
                        0..4 => db
                            .transact(|txn| {
                                add(txn, first, number % 2 == 0)?;
                                add(txn, second, number % 2 == 0)
                            })
                            .unwrap(),
                        4 => {
                            let options = TxnOptions {
                                isolation: Isolation::ReadCommitted,
                                ..Default::default()
                            };
                            db.transact_with(options, |txn| {
                                add(txn, first, true)?;
                                add(txn, second, true)
                            })
                            .unwrap();
                        }
                        _ => {
                            let mut batch = Batch::new();
                            for key in [first, second] {
                                let one = 1u64.to_be_bytes();
                                batch.merge(tree, key, operator::ADD, &one).unwrap();
                            }
                            // Batches lock in the order of keys, and are in nobody's circle but by chance.
                            while let Err(error) = db.commit(&mut batch) {
                                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                            }
                        }
                    }
                    if round % 50 == number {
                        db.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    for key in [b"a", b"b"] {
        let value = tree.get(key).unwrap().unwrap();
        assert_eq!(u64::from_be_bytes(value.try_into().unwrap()), 6 * ROUNDS);
    }
    store.is_at_rest();
}

#[test]
fn a_read_only_transaction_neither_writes_nor_locks() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let txn = db.begin(TxnOptions { read_only: true, ..Default::default() }).unwrap();
    assert_eq!(get(&txn, tree, "1").as_deref(), Some("10"));
    tree.put(b"1", b"11").unwrap();
    assert_eq!(get(&txn, tree, "1").as_deref(), Some("10"));
    for refused in [txn.put(tree, b"1", b""), txn.get_for_update(tree, b"1").map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::FixCall);
    }
    assert_eq!(txn.snapshot_seqno().map(|seqno| seqno < db.snapshot().seqno()), Some(true));
    txn.commit().unwrap();
}

#[test]
fn what_was_committed_is_there_after_a_restart_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::new().cache_size(16 << 20).durability(Durability::Sync);
    {
        let db = Db::open(&path, options()).unwrap();
        let (one, two) =
            (db.create_tree("a", Default::default()), db.create_tree("b", Default::default()));
        let (one, two) = (one.unwrap(), two.unwrap());
        let txn = db.begin(Default::default()).unwrap();
        for n in 0..1000u32 {
            txn.put(&one, &n.to_be_bytes(), b"v").unwrap();
            txn.put(&two, &n.to_le_bytes(), &[7; 100]).unwrap();
        }
        txn.commit().unwrap();
        let left = db.begin(Default::default()).unwrap();
        left.put(&one, b"left", b"").unwrap();
        drop(left);
        db.close().unwrap();
    }
    let db = Db::open(&path, options()).unwrap();
    for name in ["a", "b"] {
        let tree = db.open_tree(name).unwrap();
        let mut cursor = tree.scan(..).unwrap();
        let mut rows = 0;
        while cursor.next().unwrap().is_some() {
            rows += 1;
        }
        assert_eq!(rows, 1000);
    }
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    let (store, other) = (store(false), store(false));
    let txn = store.db.begin(Default::default()).unwrap();
    for refused in [
        txn.put(&other.tree, b"1", b""),
        txn.put(&store.tree, &vec![0; 70_000], b""),
        txn.merge(&store.tree, b"1", 99, b""),
        txn.get(&other.tree, b"1").map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::FixCall);
    }
    let born_later = store.db.create_tree("later", Default::default()).unwrap();
    let early = store.begin(Isolation::Snapshot);
    assert_eq!(get(&early, &store.tree, "1").as_deref(), Some("10"));
    let later = store.db.create_tree("latest", Default::default()).unwrap();
    assert!(matches!(early.get(&later, b"1"), Err(Error::DefinitionChanged(_))));
    assert!(matches!(early.scan(&later, ..), Err(Error::DefinitionChanged(_))));
    early.put(&born_later, b"1", b"").unwrap();
    store.db.drop_tree("later").unwrap();
    let gone = early.commit().unwrap_err();
    assert!(matches!(gone, Error::NoSuchTree(_)), "{gone}");
    store.is_at_rest();
    let closed = Arc::new(store.db.clone());
    closed.close().unwrap();
    assert!(matches!(closed.begin(Default::default()), Err(Error::Closed)));
}
