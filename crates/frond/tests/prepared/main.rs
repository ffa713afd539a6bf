//! Tests of prepared transactions: what they keep, how they are decided, and that neither restarts
//! nor crashes lose or decide one.

mod crashes;
mod failed_syncs;
mod large;
mod log_space;

use std::{path::Path, thread, time::Duration};

use frond::{
    Batch, Db, Durability, Error, ErrorKind, IfLocked, Isolation, Options, ReadOptions, RowLock,
    Tree, Txn, TxnOptions, check::CheckMode, feed::Change, lock::TreeLock, transaction::Xid,
};
use frond_testkit::disk::SimVfs;

fn open(dir: &Path) -> Db {
    let options = Options::new().cache_size(64 << 20).durability(Durability::Lazy);
    Db::open(dir.join("store"), options).unwrap()
}

fn xid(name: &str) -> Xid {
    Xid::new(name.as_bytes()).unwrap()
}

fn begin(db: &Db, isolation: Isolation) -> Txn {
    let lock_timeout = Some(Duration::from_millis(20));
    db.begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout)).unwrap()
}

/// A store with a detached prepared transaction `name`, which puts a = 1 and deletes b.
fn with_prepared(dir: &Path, name: &str) -> (Db, Tree) {
    let db = open(dir);
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(b"b", b"0").unwrap();
    tree.put(b"read", b"0").unwrap();
    let txn = begin(&db, Isolation::RepeatableRead);
    txn.put(&tree, b"a", b"1").unwrap();
    txn.delete(&tree, b"b").unwrap();
    txn.get_for_update(&tree, b"read").unwrap();
    txn.prepare(&xid(name)).unwrap().detach();
    (db, tree)
}

fn get(tree: &Tree, key: &[u8]) -> Option<String> {
    tree.get(key).unwrap().map(|value| String::from_utf8(value).unwrap())
}

fn is_locked(db: &Db, tree: &Tree, key: &[u8]) -> bool {
    let txn = begin(db, Isolation::ReadCommitted);
    match txn
        .get_with(
            tree,
            key,
            &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
        )
        .map(|row| row.into_value())
    {
        Err(Error::LockBusy { .. }) => true,
        free => free.map(|_| false).unwrap(),
    }
}

fn is_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn is_idle(db: &Db) {
    assert_eq!(db.lock_stats().locks, 0);
    assert!(db.prepared().is_empty());
    is_clean(db);
}

#[test]
fn a_prepared_transaction_is_invisible_and_keeps_its_write_locks() {
    let dir = tempfile::tempdir().unwrap();
    let (db, tree) = with_prepared(dir.path(), "x");
    assert_eq!((get(&tree, b"a"), get(&tree, b"b").as_deref()), (None, Some("0")));
    assert!(is_locked(&db, &tree, b"a") && is_locked(&db, &tree, b"b"));
    assert!(!is_locked(&db, &tree, b"read"), "Rule I54: what it has only read is free");
    let mut batch = Batch::new();
    batch.put(&tree, b"other", b"1").unwrap();
    db.commit(&mut batch).unwrap();
    assert!(
        db.commit_prepared(&xid("x")).unwrap() > db.snapshot().seqno() || db.prepared().is_empty()
    );
    assert_eq!((get(&tree, b"a").as_deref(), get(&tree, b"b")), (Some("1"), None));
    assert!(matches!(db.commit_prepared(&xid("x")), Err(Error::NoSuchXid(_))));
    is_idle(&db);
    db.close().unwrap();
}

/// Promise: P4.
#[test]
fn a_prepared_transaction_survives_a_restart_and_is_listed_once() {
    for is_closed in [true, false] {
        for is_committed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let (db, tree) = with_prepared(dir.path(), "x");
            drop(tree);
            if is_closed {
                db.close().unwrap();
            }
            // The files of an open store, as a killed process leaves them.
            let copy = tempfile::tempdir().unwrap();
            copy_store(dir.path(), copy.path());
            drop(db);
            for restart in 0..3 {
                let db = open(copy.path());
                let tree = db.open_tree("t").unwrap();
                let found = db.take_recovered();
                assert_eq!(found.len(), 1, "restart {restart}");
                assert_eq!((&found[0].xid, found[0].entries), (&xid("x"), 2));
                assert!(found[0].is_recovered && found[0].is_detached);
                assert!(db.take_recovered().is_empty(), "listed once");
                assert_eq!(db.prepared(), found);
                assert_eq!((get(&tree, b"a"), get(&tree, b"b").as_deref()), (None, Some("0")));
                assert!(is_locked(&db, &tree, b"a") && is_locked(&db, &tree, b"b"));
                assert!(!is_locked(&db, &tree, b"read"));
                is_clean(&db);
                if restart == 1 {
                    db.checkpoint().unwrap();
                }
                db.close().unwrap();
            }
            let db = open(copy.path());
            match is_committed {
                true => drop(db.commit_prepared(&xid("x")).unwrap()),
                false => db.rollback_prepared(&xid("x")).unwrap(),
            }
            is_idle(&db);
            db.close().unwrap();
            let db = open(copy.path());
            let tree = db.open_tree("t").unwrap();
            assert!(db.take_recovered().is_empty());
            let (a, b) = (get(&tree, b"a"), get(&tree, b"b"));
            match is_committed {
                true => assert_eq!((a.as_deref(), b), (Some("1"), None)),
                false => assert_eq!((a, b.as_deref()), (None, Some("0"))),
            }
            is_idle(&db);
        }
    }
}

/// Copies a store that is open, as a killed process would leave it. A checkpoint in the background
/// may write to the files and delete some of them; a copy made meanwhile would mix two states, so
/// it is made again.
fn copy_store(from: &Path, to: &Path) {
    let (from, to) = (from.join("store"), to.join("store"));
    let written = || -> std::io::Result<Vec<_>> {
        let mut files = vec![];
        for file in std::fs::read_dir(&from)? {
            let file = file?;
            let meta = file.metadata()?;
            files.push((file.file_name(), meta.len(), meta.modified()?));
        }
        files.sort();
        Ok(files)
    };
    let copy = || -> std::io::Result<bool> {
        std::fs::create_dir(&to)?;
        let before = written()?;
        for (name, ..) in &before {
            std::fs::copy(from.join(name), to.join(name))?;
        }
        Ok(written()? == before)
    };
    for _ in 0..1000 {
        match copy() {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
        std::fs::remove_dir_all(&to).unwrap();
        thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} is written to all the time", from.display());
}

/// Waiting for a prepared transaction cannot help: the error says so, also after a restart. A
/// later transaction that reuses its lock set is not called prepared.
#[test]
fn a_lock_error_says_that_its_holder_is_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let (db, tree) = with_prepared(dir.path(), "x");
    let waits = |db: &Db, tree: &Tree| {
        let error = begin(db, Isolation::ReadCommitted).put(tree, b"a", b"2").unwrap_err();
        assert_eq!(error.code(), 1101);
        let says = error.to_string();
        says.ends_with(", which is prepared: commit it or roll it back first")
    };
    assert!(waits(&db, &tree));
    db.close().unwrap();
    drop((db, tree));
    let db = open(dir.path());
    let tree = db.open_tree("t").unwrap();
    assert!(waits(&db, &tree));
    db.rollback_prepared(&xid("x")).unwrap();
    for _ in 0..3 {
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.put(&tree, b"a", b"3").unwrap();
        assert!(thread::scope(|scope| scope.spawn(|| !waits(&db, &tree)).join().unwrap()));
        txn.rollback();
    }
    db.close().unwrap();
}

#[test]
fn an_xid_can_be_reused_after_its_transaction_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (db, tree) = with_prepared(dir.path(), "x");
    let txn = begin(&db, Isolation::Snapshot);
    txn.put(&tree, b"c", b"1").unwrap();
    assert!(matches!(txn.prepare(&xid("x")), Err(Error::XidExists(_))));
    assert!(!is_locked(&db, &tree, b"c"), "it was rolled back");
    let held = db.attach_prepared(&xid("x")).unwrap();
    assert!(matches!(db.commit_prepared(&xid("x")), Err(Error::XidBusy(_))));
    assert!(!db.prepared()[0].is_detached);
    held.rollback().unwrap();
    for round in 0..3 {
        let txn = begin(&db, Isolation::Snapshot);
        txn.put(&tree, b"c", &[b'0' + round]).unwrap();
        let prepared = txn.prepare(&xid("x")).unwrap();
        if round == 1 {
            db.checkpoint().unwrap();
        }
        prepared.commit().unwrap();
        assert_eq!(tree.get(b"c").unwrap(), Some(vec![b'0' + round]));
    }
    assert!(Xid::new(b"").is_err() && Xid::new(&[0; 256]).is_err());
    // A transaction that wrote nothing has a name, and nothing to keep.
    begin(&db, Isolation::Snapshot).prepare(&xid("empty")).unwrap().detach();
    assert_eq!(db.prepared()[0].entries, 0);
    db.commit_prepared(&xid("empty")).unwrap();
    is_idle(&db);
}

/// Commits take effect in the order in which `commit_ordered` placed them. Rule: I41.
#[test]
fn commits_take_effect_in_their_assigned_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", Default::default()).unwrap();
    let prepare = |name: &str| {
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.put(&tree, name.as_bytes(), b"").unwrap();
        txn.prepare_with(&xid(name), Durability::Lazy).unwrap()
    };
    let mut all: Vec<_> = (0..20).map(|number| prepare(&format!("x{number}"))).collect();
    all.reverse();
    let mut last = db.snapshot().seqno();
    for prepared in &mut all {
        let seqno = prepared.commit_ordered().unwrap();
        assert_eq!(seqno, last.next(), "nothing comes between");
        assert_eq!(prepared.commit_ordered().unwrap(), seqno, "once");
        last = seqno;
    }
    // They are finished from both ends, by threads, and some are not finished: those are committed
    // too.
    thread::scope(|scope| {
        for (number, prepared) in all.into_iter().enumerate() {
            scope.spawn(move || match number % 4 {
                0 => drop(prepared),
                1 => assert!(prepared.rollback().is_err(), "it is decided"),
                _ => drop(prepared.commit().unwrap()),
            });
        }
    });
    assert_eq!(db.snapshot().seqno(), last);
    let mut cursor = tree.scan(..).unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, 20);
    drop(cursor);
    is_idle(&db);
}

/// A transaction that must stay serializable keeps the locks of what it has read. Rule: I54.
#[test]
fn a_serializable_prepared_transaction_keeps_its_read_locks() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", Default::default()).unwrap();
    for key in [b"b", b"d"] {
        tree.put(key, b"0").unwrap();
    }
    let txn = begin(&db, Isolation::Serializable);
    let mut cursor = txn.scan(&tree, ..).unwrap();
    while cursor.next().unwrap().is_some() {}
    drop(cursor);
    txn.put(&tree, b"z", b"1").unwrap();
    txn.prepare(&xid("s")).unwrap().detach();
    drop(tree);
    db.close().unwrap();
    let db = open(dir.path());
    let tree = db.open_tree("t").unwrap();
    assert!(is_locked(&db, &tree, b"b") && is_locked(&db, &tree, b"z"));
    let other = begin(&db, Isolation::ReadCommitted);
    let into_gap = other.put(&tree, b"c", b"1");
    assert!(matches!(into_gap, Err(Error::LockTimeout { .. })), "{into_gap:?}");
    drop(other);
    db.commit_prepared(&xid("s")).unwrap();
    assert!(!is_locked(&db, &tree, b"b"));
    tree.put(b"c", b"1").unwrap();
    is_idle(&db);
}

/// A locking scan of a gap finds a prepared insert in it, also after a restart. Rule: I33.
#[test]
fn a_range_lock_waits_for_prepared_inserts() {
    let dir = tempfile::tempdir().unwrap();
    for is_restarted in [false, true] {
        let dir = dir.path().join(if is_restarted { "b" } else { "a" });
        std::fs::create_dir(&dir).unwrap();
        let (mut db, mut tree) = with_prepared(&dir, "x");
        if is_restarted {
            drop(tree);
            db.close().unwrap();
            db = open(&dir);
            tree = db.open_tree("t").unwrap();
        }
        let txn = begin(&db, Isolation::RepeatableRead);
        let mut cursor =
            txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Shared)).unwrap();
        let met = loop {
            match cursor.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no lock was in the way"),
                Err(error) => break error,
            }
        };
        assert!(matches!(met, Error::LockTimeout { .. }), "{met:?}");
        drop(cursor);
        drop(txn);
        db.rollback_prepared(&xid("x")).unwrap();
        is_idle(&db);
    }
}

/// Long values that only the log names until they are committed. Rules: I11, I12.
#[test]
fn prepared_long_values_and_rows_survive_checkpoints_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", Default::default()).unwrap();
    let long = |seed: u8| (0..300_000u32).map(|i| (i / 7) as u8 ^ seed).collect::<Vec<u8>>();
    for name in ["keep", "drop"] {
        let txn = begin(&db, Isolation::Snapshot);
        txn.put(&tree, format!("{name} long").as_bytes(), &long(name.len() as u8)).unwrap();
        for row in 0..20_000u32 {
            let key = [name.as_bytes(), &row.to_be_bytes()].concat();
            txn.put(&tree, &key, &row.to_le_bytes()).unwrap();
        }
        txn.prepare(&xid(name)).unwrap().detach();
    }
    drop(tree);
    let mut db = db;
    for round in 0..4 {
        let tree = db.open_tree("t").unwrap();
        for row in 0..3000u32 {
            tree.put(&row.to_be_bytes(), &[round; 1000]).unwrap();
        }
        db.checkpoint().unwrap();
        // Takes free space: were the prepared values freed, this would overwrite them.
        tree.put(b"other long", &long(100 + round)).unwrap();
        db.checkpoint().unwrap();
        is_clean(&db);
        drop(tree);
        if round % 2 == 0 {
            db.close().unwrap();
            db = open(dir.path());
        }
    }
    assert_eq!(db.prepared().len(), 2);
    db.rollback_prepared(&xid("drop")).unwrap();
    db.commit_prepared(&xid("keep")).unwrap();
    let before_rest = db.stats();
    drop(before_rest);
    db.close().unwrap();
    let db = open(dir.path());
    let tree = db.open_tree("t").unwrap();
    assert_eq!(tree.get(b"keep long").unwrap(), Some(long(4)));
    assert_eq!(tree.get(b"drop long").unwrap(), None);
    for row in (0..20_000u32).step_by(77) {
        let key = [&b"keep"[..], &row.to_be_bytes()].concat();
        assert_eq!(tree.get(&key).unwrap(), Some(row.to_le_bytes().to_vec()));
        let key = [&b"drop"[..], &row.to_be_bytes()].concat();
        assert_eq!(tree.get(&key).unwrap(), None);
    }
    is_idle(&db);
}

#[test]
fn the_change_feed_delivers_a_prepared_transaction_when_it_commits() {
    let dir = tempfile::tempdir().unwrap();
    let (db, tree) = with_prepared(dir.path(), "x");
    // More than a feed keeps in memory.
    let txn = begin(&db, Isolation::Snapshot);
    for row in 0..6000u32 {
        txn.put(&tree, &row.to_be_bytes(), &[1; 1000]).unwrap();
    }
    txn.prepare(&xid("large")).unwrap().detach();
    let mut before = db.changes(db.snapshot().seqno().next()).unwrap();
    let mut from_first = db.changes(frond::Seqno(1)).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    txn.put(&tree, b"gone", b"1").unwrap();
    txn.prepare(&xid("y")).unwrap().rollback().unwrap();
    let seqno = db.commit_prepared(&xid("x")).unwrap();
    for feed in [&mut before, &mut from_first] {
        let mut found = Vec::new();
        while let Some(mut commit) = feed.next(Duration::from_secs(5)).unwrap() {
            let is_it = commit.seqno() == seqno;
            while let Some(change) = commit.next().unwrap() {
                match change {
                    Change::Put { key, value, .. } if is_it => {
                        found.push((key.to_vec(), value.to_vec()))
                    }
                    Change::Delete { key, .. } if is_it => {
                        found.push((key.to_vec(), b"-".to_vec()))
                    }
                    Change::Put { key, .. } => assert!(key != b"gone" && key != b"a"),
                    _ => assert!(!is_it),
                }
            }
            if is_it {
                break;
            }
        }
        assert_eq!(found, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"-".to_vec())]);
    }
    db.commit_prepared(&xid("large")).unwrap();
    for feed in [&mut before, &mut from_first] {
        let mut commit = feed.next(Duration::from_secs(5)).unwrap().unwrap();
        let mut puts = 0;
        while let Some(change) = commit.next().unwrap() {
            assert!(matches!(change, Change::Put { value: [1, ..], .. }));
            puts += 1;
        }
        assert_eq!(puts, 6000);
    }
}

/// The log reaches back to the prepare, over a restart: the follower has lost nothing.
#[test]
fn the_change_feed_delivers_commits_prepared_before_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().cache_size(16 << 20).keep_log(8 << 20);
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    txn.put(&tree, b"a", b"1").unwrap();
    txn.prepare(&xid("x")).unwrap().detach();
    drop(tree);
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    db.commit_prepared(&xid("x")).unwrap();
    let mut commit = feed.next(Duration::from_secs(5)).unwrap().unwrap();
    let change = commit.next().unwrap();
    assert!(matches!(change, Some(Change::Put { key: b"a", value: b"1", .. })), "{change:?}");
}

#[test]
fn a_backup_contains_prepared_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _tree) = with_prepared(dir.path(), "x");
    let (file, restored) = (dir.path().join("backup"), dir.path().join("restored"));
    db.backup(&file).unwrap();
    std::fs::create_dir(&restored).unwrap();
    frond::backup::restore(&file, restored.join("store")).unwrap();
    let copy = open(&restored);
    assert_eq!(copy.take_recovered().len(), 1);
    copy.commit_prepared(&xid("x")).unwrap();
    assert_eq!(get(&copy.open_tree("t").unwrap(), b"a").as_deref(), Some("1"));
    is_idle(&copy);
}

/// Rows that were spilled stay where they are when prepared, and stay locked.
#[test]
fn spilled_rows_are_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let mut tuning = frond_testkit::DbEngine::tiny(Durability::Lazy).tuning;
    tuning.limits.iter_mut().for_each(|limits| limits.own_writes_bytes = 1 << 10);
    let open = || {
        let options = Options::new().cache_size(4 << 20).tuning(tuning.clone());
        Db::open(dir.path().join("store"), options).unwrap()
    };
    let mut db = open();
    let mut tree = db.create_tree("t", Default::default()).unwrap();
    let txn = begin(&db, Isolation::Snapshot);
    let savepoint = txn.savepoint().unwrap();
    for row in 0..400u32 {
        txn.put(&tree, &row.to_be_bytes(), b"given up").unwrap();
    }
    txn.rollback_to(&savepoint).unwrap();
    for row in (0..400u32).step_by(2) {
        txn.put(&tree, &row.to_be_bytes(), &[7; 300]).unwrap();
        txn.merge(&tree, b"sum", frond::operator::ADD, &1u64.to_be_bytes()).unwrap();
    }
    txn.prepare(&xid("large")).unwrap().detach();
    let other = begin(&db, Isolation::Snapshot);
    let busy = other
        .get_with(
            &tree,
            &6u32.to_be_bytes(),
            &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
        )
        .map(|row| row.into_value());
    assert!(matches!(busy, Err(Error::LockBusy { .. })), "{busy:?}");
    drop(other);
    for round in 0..2 {
        if round == 1 {
            db.commit_prepared(&xid("large")).unwrap();
        }
        drop(tree);
        db.close().unwrap();
        db = open();
        tree = db.open_tree("t").unwrap();
    }
    assert_eq!(tree.get(&8u32.to_be_bytes()).unwrap(), Some(vec![7; 300]));
    assert_eq!(tree.get(&9u32.to_be_bytes()).unwrap(), None);
    assert_eq!(tree.get(b"sum").unwrap(), Some(200u64.to_be_bytes().to_vec()));
    is_idle(&db);
}

/// Trees that are locked as a whole stay locked, over a restart too; locks for reading alone are
/// released. Rules: I12, I52.
#[test]
fn prepared_transactions_keep_their_tree_locks() {
    let dir = tempfile::tempdir().unwrap();
    for lock in [TreeLock::Shared, TreeLock::Exclusive] {
        let (name, store) = (xid(&format!("{lock:?}")), dir.path().join(format!("{lock:?}")));
        std::fs::create_dir(&store).unwrap();
        let db = open(&store);
        let trees =
            ["t", "locked", "read"].map(|name| db.create_tree(name, Default::default()).unwrap());
        let [tree, locked, read] = &trees;
        let txn = begin(&db, Isolation::RepeatableRead);
        txn.put(tree, b"a", b"1").unwrap();
        txn.lock_tree(locked, lock, IfLocked::Wait).unwrap();
        txn.lock_tree(read, TreeLock::IntentShared, IfLocked::Wait).unwrap();
        txn.prepare(&name).unwrap().detach();
        let holds = |db: &Db| {
            let [tree, locked, read] =
                ["t", "locked", "read"].map(|name| db.open_tree(name).unwrap());
            let txn = begin(db, Isolation::ReadCommitted);
            let shares = txn.lock_tree(&locked, TreeLock::IntentShared, IfLocked::NoWait);
            assert_eq!(shares.is_ok(), lock == TreeLock::Shared);
            assert!(txn.lock_tree(&locked, TreeLock::IntentExclusive, IfLocked::NoWait).is_err());
            assert!(txn.lock_tree(&tree, TreeLock::Shared, IfLocked::NoWait).is_err());
            txn.lock_tree(&read, TreeLock::Exclusive, IfLocked::NoWait).unwrap();
            assert!(is_locked(db, &tree, b"a"));
        };
        holds(&db);
        drop(trees);
        db.close().unwrap();
        let db = open(&store);
        holds(&db);
        db.commit_prepared(&name).unwrap();
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.lock_tree(&db.open_tree("locked").unwrap(), TreeLock::Exclusive, IfLocked::NoWait)
            .unwrap();
        drop(txn);
        is_idle(&db);
        db.close().unwrap();
    }
}

/// More transactions are prepared than a segment has space for: each has space of its own for its
/// commit, and takes it without a call to the disk. A transaction for which the log can reserve
/// none is refused. Rule: I41.
#[test]
fn each_prepared_transaction_has_reserved_log_space() {
    const MANY: u32 = 1500;
    let vfs = SimVfs::new();
    let options = || {
        let env = vfs.env(0);
        Options::new().cache_size(64 << 20).durability(Durability::Lazy).env(env)
    };
    let db = Db::open("/store", options()).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut prepared = Vec::new();
    for number in 0..MANY {
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.put(&tree, &number.to_be_bytes(), b"row").unwrap();
        let name = xid(&format!("{number:-<40}"));
        prepared.push(txn.prepare_with(&name, Durability::Lazy).unwrap());
    }
    let changes = vfs.changes();
    let mut last = None;
    for one in &mut prepared {
        let seqno = one.commit_ordered().unwrap();
        assert!(last.is_none_or(|last| seqno > last));
        last = Some(seqno);
    }
    assert_eq!(vfs.changes(), changes, "nothing is written");
    for one in prepared {
        one.commit().unwrap();
    }
    assert_eq!(tree.row_count().unwrap().rows, u64::from(MANY));

    // Names of the greatest length: at some point there is no space for one more, and that is an
    // error.
    let mut prepared = Vec::new();
    let refused = loop {
        let number = prepared.len() as u32;
        assert!(number < 100_000, "all that memory has room for");
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.put(&tree, &number.to_be_bytes(), b"new").unwrap();
        match txn.prepare_with(&xid(&format!("{number:-<255}")), Durability::Lazy) {
            Ok(one) => prepared.push(one),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::TooMuchPrepared { .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Retry, "others may be decided");
    assert!(prepared.len() > 500, "{}", prepared.len());
    assert_eq!(db.prepared().len(), prepared.len());
    let changes = vfs.changes();
    for one in &mut prepared {
        one.commit_ordered().unwrap();
    }
    assert_eq!(vfs.changes(), changes, "nothing is written");
    for one in prepared {
        one.commit().unwrap();
    }
    drop(tree);
    db.close().unwrap();
    let db = Db::open("/store", options()).unwrap();
    assert_eq!(db.open_tree("t").unwrap().get(&7u32.to_be_bytes()).unwrap().unwrap(), b"new");
    is_idle(&db);
    db.close().unwrap();
}

/// A prepared transaction for which other prepared ones leave no memory is spilled.
#[test]
fn a_prepared_transaction_is_spilled_if_memory_is_short() {
    let dir = tempfile::tempdir().unwrap();
    // A quarter of the cache is for everything that is prepared.
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("number {number}")).collect();
    for name in &names {
        let txn = begin(&db, Isolation::ReadCommitted);
        for row in 0..700u32 {
            txn.put(&tree, format!("{name} {row}").as_bytes(), &[7; 1024]).unwrap();
        }
        txn.prepare_with(&xid(name), Durability::Lazy).unwrap().detach();
    }
    assert!(names.iter().all(|name| is_locked(&db, &tree, format!("{name} 77").as_bytes())));
    for (number, name) in names.iter().enumerate() {
        match number % 2 {
            0 => drop(db.commit_prepared(&xid(name)).unwrap()),
            _ => db.rollback_prepared(&xid(name)).unwrap(),
        }
    }
    assert_eq!(tree.row_count().unwrap().rows, 6 * 700);
    is_idle(&db);
    db.close().unwrap();
}
