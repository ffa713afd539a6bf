//! Puts that are commits of their own, and changes of the lock timeout while a transaction
//! continues.

use super::*;
use frond::Duplicate;
use frond::RowCount;

const ALL: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn value(store: &Store, key: &str) -> Option<String> {
    store.tree.get(key.as_bytes()).unwrap().map(|value| text(&value))
}

/// A session that has read the number of a sequence increments it, and another session does too
/// without waiting; no rollback gives a number again.
#[test]
fn an_autonomous_put_does_not_wait_for_readers() {
    for isolation in ALL {
        let store = store(true);
        let (one, two) = (store.begin(isolation), store.begin(Isolation::Serializable));
        assert_eq!(get(&one, &store.tree, "1").as_deref(), Some("10"));
        assert_eq!(get(&two, &store.tree, "1").as_deref(), Some("10"));
        let first = one
            .row_writer()
            .put_autonomous(&store.tree, b"1", b"11")
            .unwrap()
            .expect("it is there");
        assert_eq!(value(&store, "1").as_deref(), Some("11"), "others see it");
        let second = two
            .row_writer()
            .put_autonomous(&store.tree, b"1", b"12")
            .unwrap()
            .expect("it is there");
        assert!(first < second);
        let seen = get(&one, &store.tree, "1");
        let shows_old = matches!(isolation, Isolation::RepeatableRead | Isolation::Snapshot);
        assert_eq!(seen.as_deref(), Some(if shows_old { "10" } else { "12" }), "{isolation:?}");
        one.rollback();
        two.rollback();
        assert_eq!(value(&store, "1").as_deref(), Some("12"), "no rollback takes it back");
        store.is_idle();
    }
}

#[test]
fn an_autonomous_put_is_durable_and_counts_stay_exact() {
    let Store { db, tree, _dir: dir } = store(false);
    let txn = db.begin(Default::default()).unwrap();
    txn.insert(&tree, b"3", b"30").unwrap();
    let long = vec![b'x'; 100_000];
    assert!(txn.row_writer().put_autonomous(&tree, b"2", &long).unwrap().is_some());
    assert_eq!(txn.row_writer().put_autonomous(&tree, b"4", b"never").unwrap(), None);
    txn.rollback();
    let counted = db.create_tree("counted", TreeOptions::new().unique(true));
    let counted = counted.unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.insert(&counted, b"1", b"10").unwrap();
    txn.commit().unwrap();
    let txn = db.begin(Default::default()).unwrap();
    assert!(txn.row_writer().put_autonomous(&counted, b"1", b"11").unwrap().is_some());
    drop(txn);
    assert_eq!(counted.row_count().unwrap(), RowCount { rows: 1, exact: true });
    drop((tree, counted));
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
    assert_eq!(db.open_tree("t").unwrap().get(b"2").unwrap(), Some(long));
    assert_eq!(db.open_tree("counted").unwrap().get(b"1").unwrap(), Some(b"11".to_vec()));
    db.close().unwrap();
}

/// A later write conflicts even in the transaction that made the put. Rule: I27.
#[test]
fn a_snapshot_write_after_an_autonomous_put_conflicts() {
    let store = store(true);
    let (one, two) = (store.begin(Isolation::Snapshot), store.begin(Isolation::Snapshot));
    assert_eq!(get(&one, &store.tree, "1").as_deref(), Some("10"));
    assert_eq!(get(&two, &store.tree, "2").as_deref(), Some("20"));
    assert!(one.row_writer().put_autonomous(&store.tree, b"1", b"11").unwrap().is_some());
    for txn in [one, two] {
        let written = txn.put(&store.tree, b"1", b"12");
        assert!(matches!(written, Err(Error::Conflict { .. })), "{written:?}");
        assert!(txn.is_over());
    }
    // A transaction that has read nothing yet cannot conflict.
    let three = store.begin(Isolation::Snapshot);
    three.put(&store.tree, b"1", b"13").unwrap();
    three.commit().unwrap();
    assert_eq!(value(&store, "1").as_deref(), Some("13"));
    store.is_idle();
}

/// The put waits for a transaction that has found the key absent and inserts it: otherwise that
/// insert would be over a row that it claims is absent, and a delete of it would bring the put's
/// row back. Rules: I7, I32.
#[test]
fn an_autonomous_put_waits_for_pending_inserts() {
    let store = store(true);
    for has_written in [true, false] {
        let (one, two) = (store.begin(Isolation::ReadCommitted), store.begin(Isolation::Snapshot));
        if has_written {
            one.insert(&store.tree, b"9", b"inserted").unwrap();
        } else {
            assert_eq!(one.get_for_update(&store.tree, b"9").unwrap(), None);
        }
        two.set_lock_timeout(Some(Duration::ZERO));
        let put = two.row_writer().put_autonomous(&store.tree, b"9", b"put");
        assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
        two.set_lock_timeout(None);
        thread::scope(|scope| {
            let put = scope.spawn(|| two.row_writer().put_autonomous(&store.tree, b"9", b"put"));
            store.until_waiting(1);
            one.insert(&store.tree, b"8", b"also").unwrap();
            one.commit().unwrap();
            assert_eq!(put.join().unwrap().unwrap().is_some(), has_written);
        });
        two.commit().unwrap();
        assert_eq!(value(&store, "9").as_deref(), has_written.then_some("put"));
        for key in [b"8", b"9"] {
            store.tree.delete(key).unwrap();
        }
        store.db.checkpoint().unwrap();
        assert_eq!(value(&store, "9"), None, "nothing comes back");
        store.is_idle();
    }
}

#[test]
fn an_autonomous_put_of_an_own_row_is_refused() {
    let store = store(false);
    let txn = store.begin(Isolation::Snapshot);
    txn.put(&store.tree, b"1", b"own").unwrap();
    let put = txn.row_writer().put_autonomous(&store.tree, b"1", b"11");
    assert!(matches!(put, Err(Error::InvalidArgument(_))), "{put:?}");
    // The last lock is released as before.
    assert_eq!(txn.get_for_update(&store.tree, b"2").unwrap().as_deref(), Some(&b"20"[..]));
    assert!(txn.row_writer().put_autonomous(&store.tree, b"2", b"21").unwrap().is_some());
    txn.control().unlock_last().unwrap();
    let other = store.begin(Isolation::ReadCommitted);
    other.set_lock_timeout(Some(Duration::ZERO));
    assert_eq!(other.get_for_update(&store.tree, b"2").unwrap().as_deref(), Some(&b"21"[..]));
    other.rollback();
    txn.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "own"), ("2", "21")]));
    let read_only = TxnOptions::new().read_only(true);
    let put =
        store.db.begin(read_only).unwrap().row_writer().put_autonomous(&store.tree, b"1", b"x");
    assert!(matches!(put, Err(Error::InvalidArgument(_))), "{put:?}");
    store.is_idle();
}

/// The put waits in the transaction's name: a cycle through it is detected, and an interrupt ends
/// it.
#[test]
fn an_autonomous_put_waits_in_its_transactions_name() {
    let store = store(true);
    let (one, two) = (store.begin(Isolation::ReadCommitted), store.begin(Isolation::Snapshot));
    one.put(&store.tree, b"1", b"11").unwrap();
    two.set_lock_timeout(None);
    let interrupter = two.control().interrupter().unwrap();
    thread::scope(|scope| {
        let put = scope.spawn(|| two.row_writer().put_autonomous(&store.tree, b"1", b"12"));
        store.until_waiting(1);
        assert_eq!(store.db.lock_waits()[0].waiter, two.control().id());
        interrupter.interrupt();
        let put = put.join().unwrap();
        assert!(matches!(put, Err(Error::Interrupted)), "{put:?}");
        two.control().clear_interrupt();
        two.get_for_update(&store.tree, b"2").unwrap();
        let put = scope.spawn(|| two.row_writer().put_autonomous(&store.tree, b"1", b"12"));
        store.until_waiting(1);
        let written = one.put(&store.tree, b"2", b"21");
        // The transaction that has written less is ended.
        let put = put.join().unwrap();
        assert!(matches!(put, Err(Error::Deadlock { .. })), "{put:?}");
        written.unwrap();
    });
    assert!(two.is_over());
    one.commit().unwrap();
    assert_eq!(store.rows(), pairs(&[("1", "11"), ("2", "21")]));
    store.is_idle();
}

/// An index build sees an autonomous put. Rule: I34.
#[test]
fn an_index_build_sees_an_autonomous_put() {
    let store = store(true);
    let unique = TreeOptions::new().unique(true);
    let mut build = store.db.build_indexes(&store.tree, &[("by value", unique)]).unwrap();
    let snapshot = build.snapshot(Duration::from_secs(10)).unwrap();
    let mut rows = snapshot.scan(&store.tree, ..).unwrap();
    while let Some((key, value)) = rows.next().unwrap() {
        build.add(0, value, key).unwrap();
    }
    drop((rows, snapshot));
    // The transaction only reads otherwise: the put alone closes the gate.
    let reader = store.begin(Isolation::Serializable);
    assert_eq!(get(&reader, &store.tree, "1").as_deref(), Some("10"));
    assert!(reader.row_writer().put_autonomous(&store.tree, b"1", b"11").unwrap().is_some());
    reader.commit().unwrap();
    loop {
        while let Some(row) = build.next_change().unwrap() {
            let (key, old) = (row.key.to_vec(), row.old.map(<[u8]>::to_vec));
            let new = row.new.map(<[u8]>::to_vec);
            let new = new.as_deref().map(|value| (value, &key[..]));
            build.change(0, old.as_deref(), new).unwrap();
        }
        if build.is_locked() {
            break;
        }
        build.lock(Duration::from_secs(10)).unwrap();
    }
    let trees = build.publish(|_| {}).unwrap();
    assert_eq!(trees[0].get(b"11").unwrap(), Some(b"1".to_vec()));
    assert_eq!(trees[0].get(b"10").unwrap(), None);
    drop(trees);
    store.is_idle();
}

/// A server may set the lock timeout at the start of each statement.
#[test]
fn the_lock_timeout_can_change_during_a_transaction() {
    let store = store(true);
    let forever = TxnOptions::new().lock_timeout(None);
    let (holder, txn) = (store.begin(Isolation::Snapshot), store.db.begin(forever).unwrap());
    holder.put(&store.tree, b"1", b"11").unwrap();
    txn.set_lock_timeout(Some(Duration::ZERO));
    let late = |done: Result<(), Error>| {
        assert!(matches!(done, Err(Error::LockTimeout { .. })), "{done:?}");
    };
    late(txn.put(&store.tree, b"1", b"12"));
    late(txn.row_writer().delete(&[(&store.tree, b"1")]));
    late(txn.lock_tree(&store.tree, TreeLock::Shared, IfLocked::Wait));
    late(txn.get_for_update(&store.tree, b"1").map(drop));
    txn.set_lock_timeout(Some(Duration::from_millis(2)));
    late(txn.put(&store.tree, b"1", b"12"));
    txn.set_lock_timeout(None);
    thread::scope(|scope| {
        let waits = scope.spawn(|| txn.put(&store.tree, b"1", b"12"));
        store.until_waiting(1);
        holder.commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    txn.commit().unwrap();
    assert_eq!(value(&store, "1").as_deref(), Some("12"));
    // The next transaction has the timeout that it was started with.
    let (holder, next) = (store.begin(Isolation::Snapshot), store.begin(Isolation::Snapshot));
    next.set_lock_timeout(Some(Duration::ZERO));
    drop(next);
    holder.put(&store.tree, b"1", b"13").unwrap();
    let next = store.begin(Isolation::Snapshot);
    thread::scope(|scope| {
        let waits = scope.spawn(|| next.put(&store.tree, b"1", b"14"));
        store.until_waiting(1);
        holder.commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    next.commit().unwrap();
    store.is_idle();
}

/// Rows are inserted and deleted while autonomous puts set numbers in them: the counts stay right,
/// and no row comes back. Rules: I7, I51.
#[test]
fn autonomous_puts_among_inserts_and_deletes_keep_counts_exact() {
    let vfs = frond_testkit::disk::SimVfs::new();
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
    let db = Db::open("/store", options.env(vfs.env(1))).unwrap();
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    let ended = AtomicU64::new(0);
    let begin = |isolation| db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    thread::scope(|scope| {
        for number in 0..2 {
            let (tree, ended, begin) = (&tree, &ended, &begin);
            scope.spawn(move || {
                for n in number.. {
                    if ended.load(Ordering::Relaxed) > 0 {
                        break;
                    }
                    let (txn, key) = (begin(ALL[n % 4]), [b'k', (n % 3) as u8]);
                    let done = txn.delete_range(tree, &key[..]..=&key[..]).and_then(|gone| {
                        if gone == 0 { txn.insert(tree, &key, b"new") } else { Ok(()) }
                    });
                    match done {
                        Ok(()) => drop(txn.commit().unwrap()),
                        Err(Error::Deadlock { .. } | Error::Conflict { .. }) => {}
                        // The other thread was faster, where gaps are not locked.
                        Err(Error::DuplicateKey(Duplicate::Row { .. }))
                            if !matches!(n % 4, 1 | 3) => {}
                        Err(error) => panic!("{:?}: {error}", ALL[n % 4]),
                    }
                }
            });
        }
        for n in 0..500 {
            let txn = begin(ALL[n % 4]);
            txn.row_writer().put_autonomous(&tree, &[b'k', (n % 3) as u8], b"set").unwrap();
        }
        ended.store(1, Ordering::Relaxed);
    });
    let mut rows = 0;
    let mut cursor = tree.scan(..).unwrap();
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    drop(cursor);
    assert_eq!(tree.row_count().unwrap(), RowCount { rows, exact: true });
    for n in 0..3u8 {
        tree.delete(&[b'k', n]).unwrap();
    }
    db.checkpoint().unwrap();
    assert!(tree.scan(..).unwrap().next().unwrap().is_none(), "nothing comes back");
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}
