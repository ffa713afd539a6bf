//! Prepared transactions larger than memory: they wait in sorted runs, through checkpoints,
//! restarts and a full disk, and free the runs when they are rolled back.

use std::collections::BTreeMap;

use frond::{ReadOptions, TreeOptions, operator};
use frond_testkit::{DbEngine, Dice};

use super::*;

/// Options of a store whose transactions spill after a few rows.
fn tiny_options() -> Options {
    let mut tuning = DbEngine::tiny(Durability::Lazy).tuning;
    tuning.limits.iter_mut().for_each(|limits| limits.own_writes_bytes = 1 << 10);
    Options::new().cache_size(4 << 20).durability(Durability::Lazy).tuning(tuning)
}

fn tiny(dir: &Path) -> Db {
    Db::open(dir.join("store"), tiny_options()).unwrap()
}

/// Checks that nothing that a transaction left in the store's file is still used.
fn has_nothing_kept(db: &Db) {
    for _ in 0..3 {
        db.checkpoint().unwrap();
        db.open_tree("t").unwrap().put(b"another version", b"").unwrap();
    }
    db.checkpoint().unwrap();
    let kept = |name| db.stats().get(name).unwrap();
    assert_eq!(kept("space_temporary_bytes"), 0);
}

/// A transaction larger than memory is prepared, and the process killed: it is committed or rolled
/// back by its name, in another session. Promise: P4. Rules: I11, I12, I47.
#[test]
fn a_transaction_of_ten_times_the_memory_is_prepared() {
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value = |i: u64| {
        let mut value = vec![1; 120];
        value[..8].copy_from_slice(&i.wrapping_mul(0xd6e8_feb8_6659_fd93).to_be_bytes());
        value
    };
    let options = || Options::new().cache_size(4 << 20).durability(Durability::Lazy);
    let all = 330_000u64;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let empty = db.stats().space_temporary_bytes;
    let txn = begin(&db, Isolation::RepeatableRead);
    for i in 0..all {
        txn.put(&tree, &key(i), &value(i)).unwrap();
    }
    txn.prepare(&xid("large")).unwrap().detach();
    assert!(db.stats().space_temporary_bytes > empty + all * 8);
    // Other transactions use the memory.
    for number in 0..3u32 {
        let txn = begin(&db, Isolation::RepeatableRead);
        for row in 0..2000u32 {
            txn.put(&tree, format!("{number} {row}").as_bytes(), &[2; 100]).unwrap();
        }
        let name = xid(&format!("small {number}"));
        txn.prepare(&name).unwrap().detach();
        match number {
            0 => drop(db.commit_prepared(&name).unwrap()),
            1 => db.rollback_prepared(&name).unwrap(),
            _ => {}
        }
    }
    // The files of an open store, as a killed process leaves them.
    let copies = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    copies.iter().for_each(|copy| copy_store(dir.path(), copy.path()));
    drop((tree, db));
    for (copy, is_committed) in copies.iter().zip([true, false]) {
        // Opened for reading only, the transaction is there, and nothing is changed.
        let db = Db::open(copy.path().join("store"), options().read_only(true)).unwrap();
        assert_eq!(db.prepared().iter().map(|found| found.entries as u64).max(), Some(all));
        drop(db);
        for restart in 0..3 {
            let db = Db::open(copy.path().join("store"), options()).unwrap();
            let tree = db.open_tree("t").unwrap();
            let found: BTreeMap<_, _> = db
                .take_recovered()
                .into_iter()
                .map(|found| (found.xid.clone(), found.entries as u64))
                .collect();
            assert_eq!(found, [(xid("large"), all), (xid("small 2"), 2000)].into());
            assert_eq!(tree.get(&key(77)).unwrap(), None);
            assert!((0..all).step_by(99_991).all(|i| is_locked(&db, &tree, &key(i))));
            assert!(is_locked(&db, &tree, b"2 77") && !is_locked(&db, &tree, b"1 77"));
            assert!(db.lock_stats().locks < 10_000, "its runs are its locks");
            if restart == 1 {
                tree.put(&[restart], &[3; 300_000]).unwrap();
                db.checkpoint().unwrap();
            }
            is_clean(&db);
            db.close().unwrap();
        }
        let db = Db::open(copy.path().join("store"), options()).unwrap();
        let tree = db.open_tree("t").unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| match is_committed {
                true => drop(db.commit_prepared(&xid("large")).unwrap()),
                false => db.rollback_prepared(&xid("large")).unwrap(),
            });
            other.join().unwrap();
        });
        db.rollback_prepared(&xid("small 2")).unwrap();
        let expected = |i| is_committed.then(|| value(i));
        for i in (0..all).step_by(997) {
            assert_eq!(tree.get(&key(i)).unwrap(), expected(i));
        }
        has_nothing_kept(&db);
        is_idle(&db);
        drop(tree);
        db.close().unwrap();
        let db = Db::open(copy.path().join("store"), options()).unwrap();
        let tree = db.open_tree("t").unwrap();
        let (mut rows, mut cursor) = (0, tree.scan(..).unwrap());
        while let Some((_, value)) = cursor.next().unwrap() {
            rows += u64::from(value.len() == 120);
        }
        assert_eq!(rows, if is_committed { all } else { 0 });
        drop(cursor);
        is_idle(&db);
    }
}

/// Other transactions write, and checkpoints and restarts follow, so that space that was freed
/// wrongly would be used again. Rules: I10, I11, I12.
#[test]
fn spilled_runs_of_an_in_doubt_transaction_are_kept() {
    for is_committed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut db = tiny(dir.path());
        let mut tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let long = |seed: u32| (0..3000u32).map(|i| (i / 7 + seed) as u8).collect::<Vec<u8>>();
        let txn = begin(&db, Isolation::Snapshot);
        for row in 0..600u32 {
            txn.put(&tree, &row.to_be_bytes(), &[7; 40]).unwrap();
            if row % 50 == 0 {
                txn.put(&tree, format!("long {row}").as_bytes(), &long(row)).unwrap();
            }
            txn.merge(&tree, b"sum", operator::ADD, &1u64.to_be_bytes()).unwrap();
        }
        txn.prepare(&xid("x")).unwrap().detach();
        for round in 0..6u32 {
            for row in 0..300u32 {
                let key = format!("other {round} {row}");
                tree.put(key.as_bytes(), &long(round)[..200]).unwrap();
            }
            tree.put(b"other long", &long(round)).unwrap();
            db.checkpoint().unwrap();
            is_clean(&db);
            if round % 2 == 0 {
                drop(tree);
                db.close().unwrap();
                db = tiny(dir.path());
                tree = db.open_tree("t").unwrap();
            }
            assert_eq!(db.prepared().len(), 1, "round {round}");
            assert!(is_locked(&db, &tree, &599u32.to_be_bytes()), "round {round}");
        }
        match is_committed {
            true => drop(db.commit_prepared(&xid("x")).unwrap()),
            false => db.rollback_prepared(&xid("x")).unwrap(),
        }
        let look = |tree: &Tree| {
            for row in 0..600u32 {
                let found = tree.get(&row.to_be_bytes()).unwrap();
                assert_eq!(found, is_committed.then(|| vec![7; 40]));
                let found = tree.get(format!("long {row}").as_bytes()).unwrap();
                assert_eq!(found, (is_committed && row % 50 == 0).then(|| long(row)));
            }
            let sum = is_committed.then(|| 600u64.to_be_bytes().to_vec());
            assert_eq!(tree.get(b"sum").unwrap(), sum);
        };
        look(&tree);
        has_nothing_kept(&db);
        look(&tree);
        is_idle(&db);
        drop(tree);
        db.close().unwrap();
        let db = tiny(dir.path());
        look(&db.open_tree("t").unwrap());
        is_idle(&db);
    }
}

/// After the prepare nothing that was rolled back to a savepoint is held: neither its rows nor its
/// space, also after a restart. Rule: I54.
#[test]
fn prepare_releases_what_savepoints_rolled_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    txn.put(&tree, b"kept", b"1").unwrap();
    let savepoint = txn.savepoint().unwrap();
    for row in 0..600u32 {
        txn.put(&tree, &row.to_be_bytes(), &[7; 40]).unwrap();
    }
    txn.rollback_to(&savepoint).unwrap();
    assert!(is_locked(&db, &tree, &77u32.to_be_bytes()), "as long as it goes on");
    txn.prepare(&xid("x")).unwrap().detach();
    assert!(is_locked(&db, &tree, b"kept"));
    // Rows that had not been spilled are locked like any row, by the transaction that asked to
    // write them.
    assert!((0..300u32).all(|row| !is_locked(&db, &tree, &row.to_be_bytes())));
    drop(tree);
    db.close().unwrap();
    let db = tiny(dir.path());
    let tree = db.open_tree("t").unwrap();
    assert!(is_locked(&db, &tree, b"kept"));
    assert!((0..600u32).all(|row| !is_locked(&db, &tree, &row.to_be_bytes())));
    db.commit_prepared(&xid("x")).unwrap();
    has_nothing_kept(&db);
    is_idle(&db);
}

/// A waiter for a row that a rollback to a savepoint released, in memory or spilled, gets it once
/// the rest is prepared; a waiter for a row that is written keeps waiting. Rule: I54.
#[test]
fn prepare_grants_rows_rolled_back_to_a_savepoint_to_waiters() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for rows in [2u32, 600] {
        let txn = begin(&db, Isolation::Snapshot);
        for row in 0..rows {
            txn.put(&tree, &[&b"kept"[..], &row.to_be_bytes()].concat(), &[1; 40]).unwrap();
        }
        let savepoint = txn.savepoint().unwrap();
        for row in 0..rows {
            txn.put(&tree, &row.to_be_bytes(), &[7; 40]).unwrap();
        }
        txn.rollback_to(&savepoint).unwrap();
        let begin = || {
            let lock_timeout = Some(Duration::from_secs(60));
            db.begin(TxnOptions::new().lock_timeout(lock_timeout)).unwrap()
        };
        let name = xid(&format!("{rows}"));
        thread::scope(|scope| {
            let waits = |key: Vec<u8>| {
                let (tree, other) = (&tree, begin());
                scope.spawn(move || {
                    let locked = other
                        .get_with(tree, &key, &ReadOptions::new().lock(RowLock::Exclusive))
                        .map(|row| row.into_value());
                    locked.map(drop).map(|()| other.control().id())
                })
            };
            let (row, kept) =
                (waits(1u32.to_be_bytes().to_vec()), waits(b"kept\0\0\0\x01".to_vec()));
            while db.lock_waits().len() < 2 {
                thread::yield_now();
            }
            txn.prepare(&name).unwrap().detach();
            row.join().unwrap().unwrap();
            // The other waiter checks again whether it has to wait, and waits again.
            while db.lock_waits().len() != 1 {
                assert!(!kept.is_finished(), "{rows} rows");
                thread::yield_now();
            }
            db.commit_prepared(&name).unwrap();
            kept.join().unwrap().unwrap();
        });
    }
    is_idle(&db);
}

/// A backup cannot contain in-doubt rows in runs: it waits for the decision, and fails if none
/// comes in time.
#[test]
fn a_backup_waits_for_spilled_in_doubt_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    for row in 0..300u32 {
        txn.put(&tree, &row.to_be_bytes(), &[7; 40]).unwrap();
    }
    txn.prepare(&xid("x")).unwrap().detach();
    let refused = db.backup(dir.path().join("early")).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)), "{refused}");
    thread::scope(|scope| {
        let backup = scope.spawn(|| db.backup(dir.path().join("late")).unwrap());
        thread::sleep(Duration::from_millis(20));
        db.commit_prepared(&xid("x")).unwrap();
        backup.join().unwrap();
    });
    let copy = Db::open(dir.path().join("late"), Options::new()).unwrap();
    let tree = copy.open_tree("t").unwrap();
    let mut rows = tree.scan(..).unwrap();
    let count = std::iter::from_fn(|| rows.next().unwrap().map(|_| ())).count();
    assert_eq!(count, 300);
    drop(rows);
    // Puts do not know whether they add rows; a checkpoint notes an estimate of their number.
    let said = tree.row_count().unwrap();
    assert!((75..=1200).contains(&said.rows) && !said.exact, "{said:?}");
    drop(tree);
    is_idle(&copy);
}

/// A follower receives what is in runs when it is committed, each key once.
#[test]
fn a_feed_delivers_spilled_prepared_writes() {
    let dir = tempfile::tempdir().unwrap();
    // Checkpoints are frequent here, and would free the log before it is followed.
    let options = tiny_options().keep_log(16 << 20);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    for row in 0..500u32 {
        txn.put(&tree, &(row % 400).to_be_bytes(), &row.to_be_bytes()).unwrap();
    }
    txn.prepare(&xid("x")).unwrap().detach();
    tree.put(b"between", b"1").unwrap();
    db.commit_prepared(&xid("x")).unwrap();
    let mut followed = Vec::new();
    while followed.len() < 401 {
        let mut commit = feed.next(Duration::from_secs(5)).unwrap().unwrap();
        while let Some(change) = commit.next().unwrap() {
            let Change::Put { key, value, .. } = change else { panic!("{change:?}") };
            followed.push((key.to_vec(), value.to_vec()));
        }
    }
    assert_eq!(followed[0], (b"between".to_vec(), b"1".to_vec()));
    for (row, (key, value)) in (0..400u32).zip(&followed[1..]) {
        let newest = if row < 100 { row + 400 } else { row };
        assert_eq!((&key[..], &value[..]), (&row.to_be_bytes()[..], &newest.to_be_bytes()[..]));
    }
}

/// The disk is full at some point of the prepare: then nothing is left of the transaction, or it is
/// prepared, and can be rolled back, or committed once there is space. Promise: P2.
#[test]
fn a_full_disk_leaves_nothing_half_prepared() {
    let (mut refused, mut prepared) = (0, 0);
    for spare in 0..16u64 {
        let vfs = SimVfs::new();
        let options = Options::new().cache_size(4 << 20).durability(Durability::Sync);
        let db = Db::open("/store", options.env(vfs.env(spare))).unwrap();
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let txn = begin(&db, Isolation::Snapshot);
        let dice = &mut Dice::new(spare);
        let mut put = Ok(());
        for row in 0..40_000u32 {
            let value: Vec<u8> = (0..38).flat_map(|_| dice.bits().to_le_bytes()).collect();
            put = put.and_then(|()| {
                txn.put(&tree, &row.wrapping_mul(0x9e37_79b9).to_be_bytes(), &value)
            });
            if row == 38_000 {
                // The disk's limit is set here, for what is spilled from now on.
                vfs.set_capacity(Some(vfs.allocated_bytes() + spare * (3 << 20)));
            }
        }
        match put.map(|()| txn.is_over()) {
            Ok(false) => {}
            Err(Error::Full(_)) => assert!(txn.is_over(), "nothing of it is left"),
            other => panic!("{other:?}"),
        }
        let is_over = txn.is_over();
        match txn.prepare(&xid("x")) {
            Ok(one) if spare % 2 == 0 => {
                one.rollback().unwrap();
                prepared += 1;
            }
            Ok(one) => {
                one.detach();
                vfs.set_capacity(None);
                db.commit_prepared(&xid("x")).unwrap();
                assert_eq!(tree.row_count().unwrap().rows, 40_000);
                prepared += 1;
            }
            Err(Error::TxnEnded) if is_over => {}
            Err(Error::Full(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        vfs.set_capacity(None);
        assert_eq!((db.prepared().len(), db.lock_stats().locks), (0, 0));
        tree.put(b"after", b"1").unwrap();
        has_nothing_kept(&db);
        is_idle(&db);
        db.close().unwrap();
    }
    assert!(refused > 2 && prepared > 2, "{refused} refused, {prepared} prepared");
}
