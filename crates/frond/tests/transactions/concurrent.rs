//! Concurrent transactions: which one waits, which one wins, and that nothing is lost.

use frond::Duplicate;
use frond::ReadOptions;
use frond_testkit::effort;

use super::*;

/// G0, and P4 by a locking read: the second waits, and continues from what the first has committed;
/// a snapshot transaction that has read before conflicts.
#[test]
fn writers_of_one_row_wait_for_each_other() {
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
                let refused = busy
                    .get_with(
                        tree,
                        b"1",
                        &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
                    )
                    .map(|row| row.into_value());
                assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
                drop(busy);
                one.commit().unwrap();
                second.join().unwrap();
            });
            let is_in_conflict = has_read && isolation == Isolation::Snapshot;
            let value = if is_in_conflict { "11" } else { "112" };
            assert_eq!(store.rows()[0].1, value, "{isolation:?}");
            store.is_idle();
        }
    }
}

#[test]
fn one_of_several_concurrent_inserts_of_a_key_succeeds() {
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
                            Err(Error::DuplicateKey(Duplicate::Row { .. })) => txn.rollback(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed), 200);
        store.is_idle();
    }
}

/// Batches, which take no locks by themselves, concurrently with transactions that do.
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
            batch.delete_range(tree, b"3"..b"9").unwrap();
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
        assert!(
            matches!(refused, Err(Error::DuplicateKey(Duplicate::InBatch { .. }))),
            "{refused:?}"
        );
    });
    store.is_idle();
}

/// A batch is in a cycle of waits with a transaction that has written more, through a row and
/// through a gap: the batch gives way, and its caller does not notice.
#[test]
fn a_batch_chosen_as_deadlock_victim_is_retried() {
    for by_gap in [false, true] {
        let store = store(true);
        let Store { db, tree, .. } = &store;
        let txn = store.begin(Isolation::RepeatableRead);
        ["7", "8", "9"].iter().for_each(|key| txn.put(tree, key.as_bytes(), b"txn").unwrap());
        if by_gap {
            let range = &b"2"[..]..&b"4"[..];
            let mut cursor =
                txn.scan_with(tree, range, &ReadOptions::new().lock(RowLock::Shared)).unwrap();
            while cursor.next().unwrap().is_some() {}
        } else {
            txn.put(tree, b"3", b"txn").unwrap();
        }
        thread::scope(|scope| {
            let batch = scope.spawn(|| {
                let mut batch = Batch::new();
                batch.put(tree, b"1", b"batch").unwrap();
                batch.put(tree, b"3", b"batch").unwrap();
                db.commit(&mut batch)
            });
            store.until_waiting(1);
            txn.put(tree, b"1", b"txn").unwrap();
            txn.commit().unwrap();
            batch.join().unwrap().unwrap();
        });
        let told = db.last_deadlock().unwrap();
        assert_eq!(told.parties.iter().find(|party| party.id == told.victim).unwrap().tag, 0);
        let rows = store.rows();
        assert!(rows.starts_with(&pairs(&[("1", "batch"), ("2", "20"), ("3", "batch")])));
        store.is_idle();
    }
}

#[test]
fn the_deadlock_victim_is_the_transaction_that_wrote_least() {
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
    assert_eq!((told.victim, told.parties.len()), (two.control().id(), 2));
    assert!(told.to_string().contains(&format!("transaction {}", one.control().id())), "{told}");
    assert!(matches!(two.put(tree, b"9", b""), Err(Error::TxnEnded)));
    one.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "11"), ("2", "21"), ("3", "31")]));
    drop(two);
    store.is_idle();
}

#[test]
fn a_lock_timeout_leaves_the_transaction_usable() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let one = db.begin(Default::default()).unwrap();
    one.put(tree, b"1", b"11").unwrap();
    let options = TxnOptions::new().lock_timeout(Some(Duration::from_millis(20)));
    let two = db.begin(options).unwrap();
    two.put(tree, b"2", b"22").unwrap();
    let refused = two.put(tree, b"1", b"12").unwrap_err();
    assert!(matches!(refused, Error::LockTimeout { .. }), "{refused}");
    assert!(
        refused.to_string().contains(&format!("transaction {}", one.control().id())),
        "{refused}"
    );
    one.rollback();
    two.put(tree, b"1", b"12").unwrap();
    two.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "12"), ("2", "22")]));
    assert_eq!(db.lock_stats().timeouts, 1);
}

/// The contended counter, by plain reads of snapshots, by locking reads, and concurrently with
/// batches that add without reading.
#[test]
fn no_increment_is_lost() {
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
                            let options = TxnOptions::new().isolation(Isolation::ReadCommitted);
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
                            // Batches lock in key order, so they are in a cycle only by chance.
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
    store.is_idle();
}

/// Sessions, contended counters, and commits of each session at each level.
const SESSIONS: u64 = 32;
const COUNTERS: u64 = 16;
const COMMITS: u64 = 200;

/// Adds one to a counter. A plain read comes first, which takes a snapshot that may be old by the
/// time the row is locked; then a locking read follows, or none at levels that detect the conflict
/// anyway. Returns the new count.
fn count_one(tree: &Tree, txn: &Txn, key: &[u8], other: &[u8], plain: bool) -> Result<u64, Error> {
    let (seen, beside) = (txn.get(tree, key)?, txn.get(tree, other)?);
    let value = if plain { seen } else { txn.get_for_update(tree, key)? };
    let count = u64::from_be_bytes(value.unwrap().try_into().unwrap()) + 1;
    txn.put(tree, key, &count.to_be_bytes())?;
    assert_eq!(txn.get(tree, key)?.as_deref(), Some(&count.to_be_bytes()[..]), "its own");
    // A read without a lock does not change because something else was written.
    if txn.control().isolation() != Isolation::ReadCommitted {
        assert_eq!(txn.get(tree, other)?, beside, "{:?}", txn.control().isolation());
    }
    Ok(count)
}

/// Sessions at one level, and then at all levels, increment contended counters (docs/safety.md
/// §4.6). Nothing is lost, and no two commits have made the same number of a counter.
#[test]
fn contended_counters_lose_no_increment() {
    use Isolation::{ReadCommitted, RepeatableRead, Serializable, Snapshot};
    let levels = [ReadCommitted, RepeatableRead, Snapshot, Serializable];
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let key = |counter: u64| [b'c', (counter % COUNTERS) as u8];
    for counter in 0..COUNTERS {
        tree.put(&key(counter), &0u64.to_be_bytes()).unwrap();
    }
    let ways = levels.iter().map(std::slice::from_ref).chain([&levels[..]]);
    let made: Vec<AtomicU64> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    let (mut commits, rounds) = (0, COMMITS * effort::factor());
    for levels in ways {
        thread::scope(|scope| {
            for session in 0..SESSIONS {
                let made = &made;
                scope.spawn(move || {
                    let isolation = levels[session as usize % levels.len()];
                    for round in 0..rounds {
                        let plain = matches!(isolation, Snapshot | Serializable) && round % 2 == 0;
                        let counter = session * 7 + round * round;
                        let options = TxnOptions::new().isolation(isolation);
                        let add = |txn: &Txn| {
                            count_one(tree, txn, &key(counter), &key(counter + 1), plain)
                        };
                        let count = db.transact_with(options, add).unwrap();
                        made[(counter % COUNTERS) as usize].fetch_add(count, Ordering::Relaxed);
                    }
                });
            }
        });
        commits += SESSIONS * rounds;
        db.checkpoint().unwrap();
    }
    let mut counted = 0;
    for counter in 0..COUNTERS {
        let value = tree.get(&key(counter)).unwrap().unwrap();
        let count = u64::from_be_bytes(value.try_into().unwrap());
        // 1, 2, … were made, each once.
        assert_eq!(made[counter as usize].load(Ordering::Relaxed), count * (count + 1) / 2);
        counted += count;
    }
    assert_eq!(counted, commits);
    store.is_idle();
}

/// A large commit holds its turn and locks of rows: a commit that has one of them does not wait for
/// the other.
#[test]
fn large_batches_and_large_transactions_do_not_deadlock() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let large = |byte: u8| {
        (0..400u32).map(move |n| ([b"x", &n.to_be_bytes()[..]].concat(), vec![byte; 2000]))
    };
    let txn = db.begin(Default::default()).unwrap();
    for (key, value) in large(1) {
        txn.put(tree, &key, &value).unwrap();
    }
    thread::scope(|scope| {
        let batch = scope.spawn(|| {
            let mut batch = Batch::new();
            large(2).for_each(|(key, value)| batch.put(tree, &key, &value).unwrap());
            db.commit(&mut batch).unwrap();
        });
        store.until_waiting(1);
        txn.commit().unwrap();
        batch.join().unwrap();
    });
    assert_eq!(tree.get(&large(2).next().unwrap().0).unwrap().unwrap()[0], 2);
    store.is_idle();
}

/// A transaction with a shared tree lock keeps writers out, one with an exclusive lock also locking
/// reads; plain reads continue. Batches count as writers. Whatever is rolled back, the lock is held
/// to the end. Rule: I52.
#[test]
fn tree_locks_exclude_writers_or_all_locking_reads() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let quick = || {
        let lock_timeout = Some(Duration::from_millis(5));
        db.begin(TxnOptions::new().lock_timeout(lock_timeout)).unwrap()
    };
    for lock in [TreeLock::Shared, TreeLock::Exclusive] {
        let (one, two) = (store.begin(Isolation::RepeatableRead), quick());
        let savepoint = one.savepoint().unwrap();
        one.lock_tree(tree, lock, IfLocked::Wait).unwrap();
        one.rollback_to(&savepoint).unwrap();
        assert_eq!(get(&two, tree, "1").unwrap(), "10", "a plain read");
        let shares = two
            .get_with(tree, b"1", &ReadOptions::new().lock(RowLock::Shared))
            .map(|row| row.into_value());
        assert_eq!(shares.is_ok(), lock == TreeLock::Shared, "{shares:?}");
        let refused = two.put(tree, b"3", b"30").unwrap_err();
        assert!(matches!(&refused, Error::LockTimeout { key: None, .. }), "{refused}");
        assert_eq!(refused.tree(), Some("t"));
        let told = "FRD-1101 lock wait timeout: the whole tree \"t\" is locked by transaction ";
        assert!(refused.to_string().starts_with(told), "{refused}");
        for asked in [TreeLock::IntentExclusive, TreeLock::Exclusive] {
            let refused = two.lock_tree(tree, asked, IfLocked::NoWait);
            assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
        }
        two.rollback();
        // Its own locks do not conflict with it: another tree lock, and rows.
        one.lock_tree(tree, TreeLock::Exclusive, IfLocked::NoWait).unwrap();
        one.put(tree, b"1", b"10").unwrap();
        thread::scope(|scope| {
            let batch = scope.spawn(|| tree.put(b"4", b"40").unwrap());
            store.until_waiting(1);
            let wait = db.lock_waits().remove(0);
            assert!(
                wait.key.is_none()
                    && wait.to_string().contains("access to the whole tree \"t\", behind ")
            );
            one.commit().unwrap();
            batch.join().unwrap();
        });
        let three = quick();
        three.put(tree, b"3", b"30").unwrap();
        three.rollback();
    }
    // A tree lock also waits for rows that others have locked.
    let (one, two) = (store.begin(Isolation::RepeatableRead), quick());
    one.get_with(tree, b"1", &ReadOptions::new().lock(RowLock::Shared))
        .map(|row| row.into_value())
        .unwrap();
    two.lock_tree(tree, TreeLock::Shared, IfLocked::Wait).unwrap();
    assert!(matches!(
        two.lock_tree(tree, TreeLock::Exclusive, IfLocked::Wait),
        Err(Error::LockTimeout { .. })
    ));
    drop((one, two));
    let reader = db.begin(TxnOptions::new().read_only(true)).unwrap();
    assert!(reader.lock_tree(tree, TreeLock::Shared, IfLocked::Wait).is_err());
    reader.rollback();
    store.is_idle();
}

/// A wait for a tree lock may close a cycle; the error names the trees and the starts of the keys.
#[test]
fn a_deadlock_through_a_tree_lock_is_resolved_and_reported() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let other = db.create_tree("other \"one\"", TreeOptions::default()).unwrap();
    let long = [b'k'; 100];
    let (one, two) =
        (store.begin(Isolation::RepeatableRead), store.begin(Isolation::RepeatableRead));
    one.lock_tree(tree, TreeLock::Shared, IfLocked::Wait).unwrap();
    two.put(&other, &long, b"").unwrap();
    two.put(&other, b"second", b"").unwrap();
    thread::scope(|scope| {
        let writes = scope.spawn(|| two.put(tree, b"1", b"11"));
        store.until_waiting(1);
        let closes = one.put(&other, &long, b"").unwrap_err();
        let Error::Deadlock { key: Some(key), .. } = &closes else { panic!("{closes}") };
        assert_eq!((key.as_bytes(), key.key_bytes()), (&long[..64], 100));
        assert_eq!(closes.key(), Some((&long[..64], 100)));
        assert!(!closes.to_string().contains("kkk"), "no keys in messages: {closes}");
        writes.join().unwrap().unwrap();
    });
    let told = db.last_deadlock().unwrap().to_string();
    for part in [
        "the whole tree \"t\", which transaction ",
        " holds or has requested earlier;",
        "of key \"kkkk",
        "… (100 bytes) of tree \"other",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    two.commit().unwrap();
    drop(one);
    store.is_idle();
}

/// The list of waits, and the error of a failed one, name the key.
#[test]
fn lock_waits_and_lock_errors_name_the_key() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let one = store.begin(Isolation::Snapshot);
    one.put(tree, b"1", b"11").unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| store.begin(Isolation::Snapshot).get_for_update(tree, b"1"));
        store.until_waiting(1);
        let wait = db.lock_waits().remove(0);
        assert_eq!((&*wait.tree_name, wait.key.as_ref().unwrap().as_bytes()), ("t", &b"1"[..]));
        assert!(wait.to_string().contains("the row of key \"1\" of tree \"t\""), "{wait}");
        let two = store.begin(Isolation::Snapshot);
        let busy = two
            .get_with(
                tree,
                b"1",
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value())
            .unwrap_err();
        assert_eq!((busy.tree(), busy.key()), (Some("t"), Some((&b"1"[..], 1))));
        let exists = two.insert(tree, b"2", b"").unwrap_err();
        assert_eq!((exists.tree(), exists.key()), (Some("t"), Some((&b"2"[..], 1))));
        one.commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    let two = store.begin(Isolation::Snapshot);
    assert_eq!(get(&two, tree, "1").unwrap(), "11");
    tree.put(b"1", b"12").unwrap();
    let conflict = two.put(tree, b"1", b"13").unwrap_err();
    assert_eq!((conflict.tree(), conflict.key()), (Some("t"), Some((&b"1"[..], 1))));
    let mut batch = Batch::new();
    batch.insert(tree, b"7", b"").unwrap();
    batch.insert(tree, b"2", b"").unwrap();
    let exists = db.commit(&mut batch).unwrap_err();
    assert!(
        matches!(&exists, Error::DuplicateKey(Duplicate::InBatch { entry: 1, key, .. }) if key == b"2"),
        "{exists:?}"
    );
    let mut batch = Batch::new();
    batch.put(tree, b"0", b"").unwrap();
    batch.insert(tree, b"7", b"").unwrap();
    batch.insert(tree, b"7", b"").unwrap();
    let twice = db.commit(&mut batch).unwrap_err();
    assert!(matches!(twice, Error::DuplicateKey(Duplicate::InBatch { entry: 2, .. })), "{twice:?}");
    assert_eq!((twice.tree(), twice.key()), (Some("t"), Some((&b"7"[..], 1))));
    store.is_idle();
}

/// At READ COMMITTED the reads of a statement see one snapshot, except a row with operands of the
/// transaction's own: that shows what the commit will make of it. The snapshot ends with the
/// statement.
#[test]
fn a_statement_adds_to_the_newest_row() {
    let store = store(false);
    let tree = &store.tree;
    let put = |key: &[u8], count: i64| tree.put(key, &count.to_be_bytes()).unwrap();
    put(b"c", 10);
    put(b"d", 1);
    let txn = store.begin(Isolation::ReadCommitted);
    let count = |key: &[u8]| {
        let value = txn.get(tree, key).unwrap().unwrap();
        i64::from_be_bytes(value.try_into().unwrap())
    };
    txn.statement().begin().unwrap();
    assert_eq!((count(b"c"), count(b"d")), (10, 1));
    put(b"c", 20);
    put(b"d", 2);
    txn.merge(tree, b"c", frond::operator::ADD, &1_i64.to_be_bytes()).unwrap();
    assert_eq!((count(b"c"), count(b"d")), (21, 1));
    txn.statement().end().unwrap();
    assert_eq!((count(b"c"), count(b"d")), (21, 2));
    txn.statement().rollback().unwrap();
    assert_eq!(count(b"c"), 20);
    txn.merge(tree, b"c", frond::operator::ADD, &1_i64.to_be_bytes()).unwrap();
    txn.commit().unwrap();
    assert_eq!(tree.get(b"c").unwrap().unwrap(), 21_i64.to_be_bytes());
    store.is_idle();
}

/// At `RepeatableRead`, too, a transaction adds to the newest row, in reads by key and in scans:
/// its commit makes what it has seen.
#[test]
fn a_repeatable_read_adds_to_the_newest_row() {
    for is_flushed in [false, true] {
        let store = store(false);
        store.tree.put(b"1", &10u64.to_be_bytes()).unwrap();
        let txn = store.begin(Isolation::RepeatableRead);
        assert!(txn.get(&store.tree, b"1").unwrap().is_some());
        store.tree.put(b"1", &20u64.to_be_bytes()).unwrap();
        store.tree.put(b"3", &30u64.to_be_bytes()).unwrap();
        store.tree.delete(b"2").unwrap();
        if is_flushed {
            store.db.checkpoint().unwrap();
        }
        for key in [b"1", b"2", b"3"] {
            txn.merge(&store.tree, key, operator::ADD, &1u64.to_be_bytes()).unwrap();
        }
        let expected = [(b"1", 21u64), (b"2", 1), (b"3", 31)];
        let expected = expected.map(|(key, sum)| (key.to_vec(), sum.to_be_bytes().to_vec()));
        for (key, sum) in &expected {
            assert_eq!(txn.get(&store.tree, key).unwrap().as_ref(), Some(sum));
        }
        let keys: Vec<&[u8]> = expected.iter().map(|(key, _)| key.as_slice()).collect();
        let many = txn.get_many(&store.tree, &keys).unwrap();
        assert!(many.iter().flatten().eq(expected.iter().map(|(_, sum)| sum)));
        for forward in [true, false] {
            let mut rows = Vec::new();
            let mut cursor = txn.scan(&store.tree, ..).unwrap();
            if !forward {
                cursor.seek_last();
            }
            while let Some((key, sum)) =
                if forward { cursor.next() } else { cursor.prev() }.unwrap()
            {
                rows.push((key.to_vec(), sum.to_vec()));
            }
            rows.sort();
            assert_eq!(rows, expected, "forward: {forward}");
        }
        txn.commit().unwrap();
        for (key, sum) in &expected {
            assert_eq!(store.tree.get(key).unwrap().as_ref(), Some(sum));
        }
        store.is_idle();
    }
}
