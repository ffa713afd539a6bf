//! Deletes of all rows in a range.

use frond_testkit::{DbEngine, disk::SimVfs};

use super::*;

const ALL: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// Rows `1` to `6`, each with ten times its number.
fn six(is_flushed: bool) -> Store {
    let store = store(false);
    for key in ["3", "4", "5", "6"] {
        store.tree.put(key.as_bytes(), format!("{key}0").as_bytes()).unwrap();
    }
    if is_flushed {
        store.db.checkpoint().unwrap();
    }
    store
}

fn keys(rows: &[(String, String)]) -> String {
    rows.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn a_range_delete_removes_and_counts_committed_and_own_rows() {
    for isolation in ALL {
        for is_flushed in [false, true] {
            let store = six(is_flushed);
            let txn = store.begin(isolation);
            txn.put(&store.tree, b"25", b"own").unwrap();
            txn.delete(&store.tree, b"3").unwrap();
            txn.put(&store.tree, b"4", b"own").unwrap();
            let gone = txn.delete_range(&store.tree, &b"2"[..]..&b"5"[..]).unwrap();
            assert_eq!(gone, 3, "2, 25, 4");
            assert_eq!(txn.delete_range(&store.tree, &b"2"[..]..&b"5"[..]).unwrap(), 0);
            assert_eq!(keys(&scanned(&txn, &store.tree)), "156");
            txn.put(&store.tree, b"4", b"again").unwrap();
            txn.commit().unwrap();
            assert_eq!(keys(&store.rows()), "1456", "{isolation:?}");
            let txn = store.begin(isolation);
            assert_eq!(txn.delete_range(&store.tree, ..).unwrap(), 4);
            txn.commit().unwrap();
            assert_eq!(store.rows(), []);
            store.is_idle();
        }
    }
}

#[test]
fn inserts_into_a_deleted_range_wait_at_gap_locking_levels() {
    for isolation in ALL {
        let store = six(true);
        let txn = store.begin(isolation);
        txn.delete_range(&store.tree, &b"2"[..]..&b"5"[..]).unwrap();
        for (key, in_range) in [("25", true), ("15", false), ("55", false)] {
            let other = store.begin(Isolation::ReadCommitted);
            other.set_lock_timeout(Some(Duration::ZERO));
            let put = other.put(&store.tree, key.as_bytes(), b"phantom");
            let waits = in_range
                && matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable);
            let is_late = matches!(put, Err(Error::LockTimeout { .. }));
            assert_eq!(is_late, waits, "{isolation:?} {key}: {put:?}");
            // An existing row is locked at all levels.
            let put = other.put(&store.tree, b"3", b"");
            assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
        }
        txn.commit().unwrap();
        assert_eq!(keys(&store.rows()), "156");
        store.is_idle();
    }
}

/// A row of the range was changed since, deleted, or put where there was none: a conflict. Rule:
/// I27.
#[test]
fn a_snapshot_range_delete_conflicts_with_newer_commits() {
    for (key, change) in [("3", Some("new")), ("3", None), ("35", Some("new"))] {
        for isolation in ALL {
            let store = six(true);
            let txn = store.begin(isolation);
            let has_locked = isolation == Isolation::Serializable;
            if !has_locked {
                assert_eq!(get(&txn, &store.tree, "1").as_deref(), Some("10"));
            }
            match change {
                Some(value) => store.tree.put(key.as_bytes(), value.as_bytes()).unwrap(),
                None => store.tree.delete(key.as_bytes()).unwrap(),
            };
            let gone = txn.delete_range(&store.tree, &b"2"[..]..&b"5"[..]);
            if isolation == Isolation::Snapshot {
                assert!(matches!(gone, Err(Error::Conflict { .. })), "{key}: {gone:?}");
                assert!(txn.is_over());
            } else {
                let expected = 3 + u64::from(key == "35") - u64::from(change.is_none());
                assert_eq!(gone.unwrap(), expected, "{isolation:?} {key}");
                txn.commit().unwrap();
                assert_eq!(keys(&store.rows()), "156");
            }
            store.is_idle();
        }
    }
}

#[test]
fn a_range_delete_is_undone_by_savepoints_and_deletes_nothing_on_failure() {
    for isolation in ALL {
        let store = six(false);
        let holder = store.begin(Isolation::ReadCommitted);
        holder.put(&store.tree, b"4", b"held").unwrap();
        let txn = store.begin(isolation);
        txn.set_lock_timeout(Some(Duration::ZERO));
        txn.put(&store.tree, b"25", b"own").unwrap();
        let before = txn.savepoint().unwrap();
        let gone = txn.delete_range(&store.tree, ..);
        assert!(matches!(gone, Err(Error::LockTimeout { .. })), "{gone:?}");
        let seen: Vec<_> = ["1", "2", "25", "3"].map(|key| get(&txn, &store.tree, key)).into();
        assert!(seen.iter().all(Option::is_some), "{isolation:?} {seen:?}");
        holder.rollback();
        assert_eq!(txn.delete_range(&store.tree, ..).unwrap(), 7);
        assert_eq!(scanned(&txn, &store.tree), []);
        txn.rollback_to(&before).unwrap();
        assert_eq!(keys(&scanned(&txn, &store.tree)), "12253456");
        txn.statement().begin().unwrap();
        assert_eq!(txn.delete_range(&store.tree, ..&b"3"[..]).unwrap(), 3);
        txn.statement().rollback().unwrap();
        let interrupter = txn.control().interrupter().unwrap();
        interrupter.interrupt();
        let gone = txn.delete_range(&store.tree, ..);
        assert!(matches!(gone, Err(Error::Interrupted)), "{gone:?}");
        txn.control().clear_interrupt();
        txn.commit().unwrap();
        assert_eq!(keys(&store.rows()), "12253456");
        let read_only = TxnOptions::new().read_only(true);
        let gone = store.db.begin(read_only).unwrap().delete_range(&store.tree, ..);
        assert!(matches!(gone, Err(Error::InvalidArgument(_))), "{gone:?}");
        store.is_idle();
    }
}

/// A range delete of more rows than memory has space for deletes of; rolled back, then done. Rules:
/// I44, I47.
#[test]
fn a_range_delete_may_exceed_memory() {
    for isolation in [Isolation::Snapshot, Isolation::RepeatableRead] {
        let mut tuning = DbEngine::tiny(Durability::Lazy).tuning;
        tuning.limits.iter_mut().for_each(|limits| limits.own_writes_bytes = 16 << 10);
        let options = Options::new().cache_size(4 << 20).durability(Durability::Lazy);
        let env = SimVfs::new().env(1);
        let db = Db::open("/store", options.tuning(tuning).env(env)).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        let key = |n: u32| [&[b'k'; 1000][..], &n.to_be_bytes()].concat();
        let mut batch = Batch::new();
        for n in 0..1200u32 {
            batch.put(&tree, &key(n), b"row").unwrap();
            if batch.len() == 50 {
                db.commit(&mut batch).unwrap();
            }
        }
        db.commit(&mut batch).unwrap();
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        // With puts among them, the writes are spilled early.
        for n in (0..1200u32).step_by(3) {
            txn.put(&tree, &key(n), b"own").unwrap();
        }
        let before = txn.savepoint().unwrap();
        assert_eq!(txn.delete_range(&tree, &key(100)[..]..&key(1100)[..]).unwrap(), 1000);
        assert_eq!(txn.get(&tree, &key(600)).unwrap(), None);
        let intervals = db.lock_stats().ranges;
        match isolation {
            Isolation::RepeatableRead => assert!((2..100).contains(&intervals), "{intervals}"),
            _ => assert_eq!(intervals, 0),
        }
        txn.rollback_to(&before).unwrap();
        assert_eq!(txn.get(&tree, &key(600)).unwrap().as_deref(), Some(&b"own"[..]));
        assert_eq!(txn.delete_range(&tree, &key(100)[..]..&key(1100)[..]).unwrap(), 1000);
        txn.commit().unwrap();
        let mut left = 0;
        let mut cursor = tree.scan(..).unwrap();
        while cursor.next().unwrap().is_some() {
            left += 1;
        }
        assert_eq!(left, 200);
        drop(cursor);
        db.checkpoint().unwrap();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
    }
}
