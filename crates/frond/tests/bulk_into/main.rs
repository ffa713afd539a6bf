//! Tests of loads into existing, empty trees: what the tree keeps, which transactions are waited
//! for, which errors waiting writers get, and that a refused load leaves nothing.

#[path = "../common/mod.rs"]
mod common;
mod crashes;

use std::{collections::BTreeMap, thread, time::Duration};

use frond::{
    Batch, Db, Duplicate, Error, ErrorKind, Interrupter, ReadOptions, RowLock, Snapshot, Tree,
    TreeOptions,
    backup::Backup,
    check::CheckMode,
    feed::Change,
    layout::{Hint, Layout, NewPart, Part},
    load::BulkLoad,
    lock::TreeLock,
    transaction::Xid,
};
use frond_testkit::effort;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    (dir, db)
}

fn create(db: &Db, name: &str) -> Tree {
    db.create_tree(name, TreeOptions::default()).unwrap()
}

fn rows_at(snapshot: &Snapshot, tree: &Tree) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = snapshot.scan(tree, ..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn rows_of(db: &Db, name: &str) -> Rows {
    rows_at(&db.snapshot(), &db.open_tree(name).unwrap())
}

/// Puts `count` rows, in descending order.
fn put(load: &mut BulkLoad, count: u32, value: &[u8]) {
    for row in (0..count).rev() {
        load.put(&row.to_be_bytes(), value).unwrap();
    }
}

fn loaded(count: u32, value: &[u8]) -> Rows {
    (0..count).map(|row| (row.to_be_bytes().to_vec(), value.to_vec())).collect()
}

fn load_into(db: &Db, tree: &Tree, count: u32, value: &[u8]) -> frond::Result<Tree> {
    let mut load = db.bulk_load_into(tree)?;
    put(&mut load, count, value);
    load.lock_timeout(Some(Duration::ZERO));
    load.finish().map(|loaded| loaded.tree)
}

/// Fills a tree with rows, and deletes them all.
fn put_and_delete_rows(db: &Db, tree: &Tree, count: u32) {
    let mut batch = Batch::new();
    (0..count).for_each(|row| batch.put(tree, &row.to_be_bytes(), b"of before").unwrap());
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    (0..count / 2).for_each(|row| batch.delete(tree, &row.to_be_bytes()).unwrap());
    db.commit(&mut batch).unwrap();
    batch.delete_range(tree, &(count / 2).to_be_bytes()[..]..&[0xff; 5][..]).unwrap();
    db.commit(&mut batch).unwrap();
}

fn until_waiting<T>(db: &Db, count: usize, who: &thread::ScopedJoinHandle<'_, T>) {
    while db.lock_waits().len() < count {
        assert!(!who.is_finished(), "it does not wait");
        thread::yield_now();
    }
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Rules: I35, I43. The filled tree keeps all options and counters of the empty one, as of the end
/// of the load; old handles become invalid.
#[test]
fn a_filled_tree_keeps_the_options_and_counters_of_the_empty_one() {
    let (dir, db) = store();
    let byte = Part::Fixed(1, Hint::Integer);
    let options = TreeOptions::new()
        .unique(true)
        .attributes(b"whose it is".to_vec())
        .key_layout(Layout::new(vec![Part::Fixed(4, Hint::Integer)]))
        .value_layout(Layout::versioned([byte]));
    let old = db.create_tree("t", options.clone()).unwrap();
    assert_eq!(old.reserve(0, 1, 70).unwrap(), 1..71);
    let before = db.snapshot();
    db.create_snapshot("before").unwrap();
    let mut load = db.bulk_load_into(&old).unwrap();
    put(&mut load, 3000, &[0, 0, 7]);
    // Until the end of the load the tree is usable like any other.
    db.rename_tree("t", "u").unwrap();
    let parts = [NewPart::Keep(1), NewPart::Add { part: byte, default: vec![9] }];
    db.change_layout("u", &parts, Some(b"another's".to_vec())).unwrap();
    assert_eq!(old.reserve(2, 500, 1).unwrap(), 500..501);
    old.put(&[0; 4], &[0, 0, 1]).unwrap();
    old.delete(&[0; 4]).unwrap();
    let seqno = db.snapshot().seqno();
    let done = load.finish().unwrap();
    assert_eq!((done.rows, db.snapshot().seqno()), (3000, seqno.next()));

    let new = done.tree;
    let expected = loaded(3000, &[0, 1, 7, 9]);
    let is_as_it_was = |db: &Db, new: &Tree| {
        let info = new.info();
        assert_eq!(info.name, "u");
        assert!(info.options.unique && info.options.attributes == b"another's");
        assert_eq!(info.options.key_layout, options.key_layout);
        assert_eq!(new.layout_version(), Some(1));
        assert_eq!(rows_at(&db.snapshot(), new), expected);
        assert_eq!((new.next_number(0).unwrap(), new.next_number(2).unwrap()), (71, 501));
        assert_clean(db);
    };
    is_as_it_was(&db, &new);
    assert_eq!(new.info().birth, seqno.next());
    assert_ne!(new.id(), old.id());
    let gone = [
        old.get(b"k").map(drop),
        old.put(b"k", &[0, 0, 1]).map(drop),
        old.reserve(0, 1, 1).map(drop),
        db.bulk_load_into(&old).map(drop),
    ];
    assert!(gone.iter().all(|gone| matches!(gone, Err(Error::NoSuchTree(_)))), "{gone:?}");
    assert!(matches!(before.get(&new, b"k"), Err(Error::DefinitionChanged(_))));
    assert!(before.get(&before.open_tree("t").unwrap(), b"k").unwrap().is_none());
    let mut batch = Batch::new();
    batch.insert(&new, &7u32.to_be_bytes(), &[0, 1, 0, 0]).unwrap();
    assert!(matches!(db.commit(&mut batch), Err(Error::DuplicateKey(Duplicate::InBatch { .. }))));
    drop((old, new, before, batch));
    db.close().unwrap();

    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    let new = db.open_tree("u").unwrap();
    is_as_it_was(&db, &new);
    assert_eq!(new.reserve(0, 1, 1).unwrap(), 71..72);
    let named = db.open_snapshot("before").unwrap();
    assert!(matches!(named.get(&new, b"k"), Err(Error::DefinitionChanged(_))));
    assert!(rows_at(&named, &named.open_tree("t").unwrap()).is_empty());
    drop((named, new));
    db.close().unwrap();
}

/// Deleted rows do not count, wherever they and their deletes are; and the space of both is freed.
#[test]
fn a_tree_whose_rows_were_all_deleted_counts_as_empty() {
    for (rows, is_checkpointed) in [(1, false), (40, true), (4000, false), (4000, true)] {
        let (dir, db) = store();
        let tree = create(&db, "t");
        put_and_delete_rows(&db, &tree, rows);
        if is_checkpointed {
            db.checkpoint().unwrap();
        }
        let new = load_into(&db, &tree, 100, b"new").unwrap();
        assert_eq!(rows_at(&db.snapshot(), &new), loaded(100, b"new"));
        let count = new.row_count().unwrap();
        assert!(count.exact && count.rows == 100, "{count:?}");
        drop((tree, new));
        for _ in 0..8 {
            create(&db, "other").put(b"k", b"v").unwrap();
            db.checkpoint().unwrap();
            db.drop_tree("other").unwrap();
            assert_clean(&db);
        }
        let live = db.stats().space_live_bytes;
        assert!(live < 150_000, "{rows} rows: {live} bytes live on");
        db.close().unwrap();
        let db = Db::open(dir.path().join("store"), common::options()).unwrap();
        assert_eq!(rows_of(&db, "t"), loaded(100, b"new"));
        db.close().unwrap();
    }
}

/// A load without rows changes nothing, and its result shows that: the handles stay valid.
#[test]
fn a_load_without_rows_changes_nothing() {
    let (_dir, db) = store();
    let (tree, other) = (create(&db, "t"), create(&db, "other"));
    let seqno = db.snapshot().seqno();
    let same = db.bulk_load_into(&tree).unwrap().finish().unwrap();
    assert_eq!((same.rows, same.tree.id(), db.snapshot().seqno()), (0, tree.id(), seqno));
    // Together with one that has rows.
    let (none, mut some) = (db.bulk_load_into(&tree).unwrap(), db.bulk_load_into(&other).unwrap());
    put(&mut some, 3, b"v");
    let both = BulkLoad::finish_all(vec![none, some]).unwrap();
    assert_eq!((both[0].rows, both[0].tree.id(), both[1].rows), (0, tree.id(), 3));
    assert_ne!(both[1].tree.id(), other.id());
    tree.put(b"k", b"v").unwrap();
    assert_eq!(rows_of(&db, "other"), loaded(3, b"v"));
    // The tree is checked nevertheless.
    db.bulk_load_into(&tree).unwrap_err();
    tree.delete(b"k").unwrap();
    let none = db.bulk_load_into(&tree).unwrap();
    tree.put(b"k", b"v").unwrap();
    assert!(matches!(none.finish(), Err(Error::TreeNotEmpty(name)) if name == "t"));
    assert_clean(&db);
}

/// A refused load has done nothing: neither its tree nor others of the same `finish_all` are
/// changed.
#[test]
fn a_refused_load_leaves_nothing() {
    let (_dir, db) = store();
    let tree = create(&db, "t");
    let unchanged = |before: &Vec<frond::TreeInfo>| {
        db.checkpoint().unwrap();
        assert_eq!(&db.trees(), before);
        assert_eq!(db.stats().space_temporary_bytes, 0);
        assert!(db.transactions().is_empty());
        assert_clean(&db);
    };

    // Not empty at the start, or no longer empty at the end.
    tree.put(b"k", b"v").unwrap();
    let refused = db.bulk_load_into(&tree).unwrap_err();
    assert!(matches!(&refused, Error::TreeNotEmpty(name) if name == "t"), "{refused}");
    assert_eq!((refused.kind(), refused.tree()), (ErrorKind::FixCall, Some("t")));
    assert!(refused.to_string().starts_with("FRD-1017"));
    tree.delete(b"k").unwrap();
    let before = db.trees();
    for by in 0..4 {
        let mut load = db.bulk_load_into(&tree).unwrap();
        let mut other = db.bulk_load("other", TreeOptions::default()).unwrap();
        put(&mut load, 2000, b"v");
        put(&mut other, 2000, b"v");
        match by {
            0 => drop(tree.put(b"k", b"v").unwrap()),
            1 => db.transact(|txn| txn.put(&tree, b"k", b"v")).unwrap(),
            2 => {
                let mut batch = Batch::new();
                batch.merge(&tree, b"k", frond::operator::ADD, &1i64.to_be_bytes()).unwrap();
                db.commit(&mut batch).unwrap();
            }
            _ => {
                let txn = db.begin(Default::default()).unwrap();
                txn.put(&tree, b"k", b"v").unwrap();
                txn.prepare(&Xid::new(b"x").unwrap()).unwrap().commit().unwrap();
                db.checkpoint().unwrap();
            }
        }
        let refused = BulkLoad::finish_all(vec![other, load]).unwrap_err();
        assert!(matches!(&refused, Error::TreeNotEmpty(name) if name == "t"), "{refused}");
        unchanged(&before);
        assert!(tree.contains(b"k").unwrap());
        tree.delete(b"k").unwrap();
    }

    // The tree is gone when the load ends.
    let mut taken = Vec::new();
    for by in 0..3 {
        let tree = create(&db, "gone");
        let mut load = db.bulk_load_into(&tree).unwrap();
        put(&mut load, 10, b"v");
        match by {
            0 => db.drop_tree("gone").unwrap(),
            1 => drop(db.change_trees().truncate("gone").commit().unwrap()),
            _ => taken.push(load_into(&db, &tree, 5, b"another's").unwrap()),
        }
        let before = db.trees();
        assert!(matches!(load.finish(), Err(Error::NoSuchTree(_))));
        unchanged(&before);
        if by > 0 {
            assert_eq!(rows_of(&db, "gone").len(), if by == 1 { 0 } else { 5 });
            db.drop_tree("gone").unwrap();
        }
    }

    // Invalid calls.
    let before = db.trees();
    let twice = [&tree, &tree].map(|tree| db.bulk_load_into(tree).unwrap()).into();
    assert!(matches!(BulkLoad::finish_all(twice), Err(Error::InvalidArgument(_))));
    let renamed = db.bulk_load_into(&tree).unwrap();
    db.rename_tree("t", "u").unwrap();
    let twice = vec![renamed, db.bulk_load_into(&tree).unwrap()];
    assert!(matches!(BulkLoad::finish_all(twice), Err(Error::InvalidArgument(_))));
    db.rename_tree("u", "t").unwrap();
    let other = store();
    assert!(matches!(other.1.bulk_load_into(&tree), Err(Error::InvalidArgument(_))));
    unchanged(&before);
    let unique = TreeOptions::new().unique(true);
    let unique = db.create_tree("unique", unique).unwrap();
    let mut load = db.bulk_load_into(&unique).unwrap();
    load.put(b"k", b"").unwrap();
    load.put(b"k", b"").unwrap();
    assert!(matches!(load.finish(), Err(Error::DuplicateKey(Duplicate::InLoad { .. }))));
    unique.put(b"k", b"").unwrap();
    db.table(frond::TableSpec::new("people")).unwrap();
    let people = db.open_tree("people").unwrap();
    assert!(matches!(db.bulk_load_into(&people), Err(Error::InvalidArgument(_))));
    drop(taken);
    assert_clean(&db);
    db.close().unwrap();
    assert!(matches!(db.bulk_load_into(&tree), Err(Error::Closed)));
}

/// Rules: I12, I52, I53. Transactions with rows of the tree are waited for, up to the timeout: only
/// their end decides whether it is empty.
#[test]
fn finishing_a_load_waits_for_transactions_with_rows_of_the_tree() {
    let (_dir, db) = store();
    let mut tree = create(&db, "t");
    let xid = Xid::new(b"x").unwrap();
    for round in 0..6 {
        let txn = db.begin(Default::default()).unwrap();
        match round {
            0 => drop(txn.get_for_update(&tree, b"k").unwrap()),
            5 => txn.lock_tree(&tree, TreeLock::Exclusive, Default::default()).unwrap(),
            _ => txn.put(&tree, b"k", b"v").unwrap(),
        }
        let late = load_into(&db, &tree, 10, b"v").unwrap_err();
        assert!(matches!(late, Error::LockTimeout { .. }), "{late}");
        assert_eq!((late.kind(), late.tree()), (ErrorKind::Retry, Some("t")));
        let mut load = db.bulk_load_into(&tree).unwrap();
        load.lock_timeout(None);
        put(&mut load, 10, b"v");
        let (interrupter, mut lasts) = (Interrupter::new(), None);
        load.set_interrupter(&interrupter);
        let ended = thread::scope(|scope| {
            let waits = scope.spawn(|| load.finish());
            until_waiting(&db, 1, &waits);
            match round {
                1 => drop(txn.commit().unwrap()),
                2 => {
                    interrupter.interrupt();
                    lasts = Some(txn);
                }
                3 => txn.prepare(&xid).unwrap().rollback().unwrap(),
                4 => drop(txn.prepare(&xid).unwrap().commit().unwrap()),
                _ => txn.rollback(),
            }
            waits.join().unwrap()
        });
        let holds = match round {
            1 | 4 => matches!(&ended, Err(Error::TreeNotEmpty(_))),
            2 => matches!(&ended, Err(Error::Interrupted)),
            _ => matches!(&ended, Ok(loaded) if loaded.rows == 10),
        };
        assert!(holds, "round {round}: {ended:?}");
        assert_eq!(rows_of(&db, "t").len(), [10, 1, 0, 10, 1, 10][round], "round {round}");
        drop(lasts);
        db.drop_tree("t").unwrap();
        assert!(db.lock_waits().is_empty() && db.transactions().is_empty());
        tree = create(&db, "t");
    }
}

/// No row is lost: a writer that waited for the load gets an error because its tree is gone,
/// whatever it was about to do.
#[test]
fn a_writer_that_waited_for_the_load_gets_an_error() {
    let (_dir, db) = store();
    let tree = create(&db, "t");
    let first = db.begin(Default::default()).unwrap();
    first.put(&tree, b"k", b"v").unwrap();
    let mut load = db.bulk_load_into(&tree).unwrap();
    put(&mut load, 10, b"v");
    thread::scope(|scope| {
        let finished = scope.spawn(|| load.finish().unwrap());
        until_waiting(&db, 1, &finished);
        let (db, tree) = (&db, &tree);
        let batch = scope.spawn(|| tree.put(b"batch", b"").map(drop));
        let range = scope.spawn(|| {
            let mut batch = Batch::new();
            batch.delete_range(tree, b"a"..b"b")?;
            db.commit(&mut batch).map(drop)
        });
        let written = scope.spawn(|| {
            let txn = db.begin(Default::default())?;
            txn.put(tree, b"txn", b"")?;
            txn.commit().map(drop)
        });
        let read = scope.spawn(|| {
            let txn = db.begin(Default::default())?;
            txn.get_with(tree, b"k", &ReadOptions::new().lock(RowLock::Shared))
                .map(|row| row.into_value())
                .map(drop)
        });
        let locked = scope.spawn(|| {
            let txn = db.begin(Default::default())?;
            txn.lock_tree(tree, TreeLock::Shared, Default::default())
        });
        until_waiting(db, 6, &finished);
        first.rollback();
        for told in [batch, range, written, read, locked].map(|who| who.join().unwrap()) {
            assert!(matches!(told, Err(Error::NoSuchTree(_))), "{told:?}");
        }
        drop(finished.join().unwrap());
    });
    assert_eq!(rows_of(&db, "t"), loaded(10, b"v"));

    // A batch that was filled before the load and commits after it.
    let tree = create(&db, "u");
    let (mut batch, other) = (Batch::new(), create(&db, "other"));
    batch.put(&other, b"k", b"v").unwrap();
    batch.put(&tree, b"k", b"v").unwrap();
    let new = load_into(&db, &tree, 1, b"v").unwrap();
    assert!(matches!(db.commit(&mut batch), Err(Error::NoSuchTree(_))));
    assert!(!other.contains(b"k").unwrap(), "all of it or nothing");
    batch.clear();
    batch.put(&new, b"k", b"v").unwrap();
    db.commit(&mut batch).unwrap();
    assert_clean(&db);
}

/// Batches that need no locks, concurrently with ends of loads: an acknowledged row is there.
#[test]
fn no_batch_is_lost_between_the_empty_check_and_the_commit() {
    let (_dir, db) = store();
    let (mut refused, mut filled) = (0, 0);
    for round in 0..effort::seeds(60).count() {
        let tree = create(&db, "t");
        let mut load = db.bulk_load_into(&tree).unwrap();
        put(&mut load, 5, b"loaded");
        let start = std::sync::Barrier::new(3);
        let (ended, first, second) = thread::scope(|scope| {
            let writer = |key: &'static [u8], pauses: usize| {
                let (tree, start) = (&tree, &start);
                scope.spawn(move || {
                    start.wait();
                    (0..pauses).for_each(|_| thread::yield_now());
                    tree.put(key, b"put")
                })
            };
            let (first, second) = (writer(b"a", round % 40), writer(b"b", round * 7 % 300));
            start.wait();
            let ended = load.finish();
            (ended, first.join().unwrap(), second.join().unwrap())
        });
        let rows = rows_of(&db, "t");
        for (key, told) in [(&b"a"[..], &first), (b"b", &second)] {
            match told {
                Ok(_) => assert!(rows.contains_key(key), "round {round}: it was acknowledged"),
                Err(Error::NoSuchTree(_)) => assert!(ended.is_ok(), "round {round}"),
                Err(error) => panic!("{error}"),
            }
        }
        match &ended {
            Ok(_) => {
                assert!(first.is_err() && second.is_err() && rows == loaded(5, b"loaded"));
                filled += 1;
            }
            Err(Error::TreeNotEmpty(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        drop((ended, tree));
        db.drop_tree("t").unwrap();
    }
    println!("{filled} filled, {refused} refused");
    assert_clean(&db);
}

/// Rules: I18, I19. Clones and named snapshots keep what they have of the empty tree, and clones
/// what they have of the filled one.
#[test]
fn clones_and_named_snapshots_keep_the_empty_tree() {
    let (dir, mut db) = store();
    let tree = create(&db, "t");
    put_and_delete_rows(&db, &tree, 3000);
    tree.reserve(0, 1, 9).unwrap();
    let copy = db.clone_tree("t", "copy").unwrap();
    db.create_snapshot("empty").unwrap();
    let new = load_into(&db, &tree, 2000, b"new").unwrap();
    let second = load_into(&db, &copy, 1000, b"second").unwrap();
    assert_eq!((new.next_number(0).unwrap(), second.next_number(0).unwrap()), (10, 10));
    db.clone_tree("t", "of the new").unwrap();
    db.create_snapshot("filled").unwrap();
    new.put(&[0; 4], b"newer").unwrap();
    drop((tree, copy, new, second));
    db.change_trees().drop_tree("t").commit().unwrap();
    for _ in 0..3 {
        assert_eq!(rows_of(&db, "copy"), loaded(1000, b"second"));
        assert_eq!(rows_of(&db, "of the new"), loaded(2000, b"new"));
        assert!(db.open_tree("t").is_err());
        for (name, count) in [("empty", 0), ("filled", 2000)] {
            let then = db.open_snapshot(name).unwrap();
            assert_eq!(rows_at(&then, &then.open_tree("t").unwrap()), loaded(count, b"new"));
        }
        // Reuses free space.
        let other = create(&db, "other");
        for row in 0..2000u32 {
            other.put(&row.to_be_bytes(), &[7; 50]).unwrap();
        }
        db.checkpoint().unwrap();
        drop(other);
        db.drop_tree("other").unwrap();
        assert_clean(&db);
        db.close().unwrap();
        db = Db::open(dir.path().join("store"), common::options()).unwrap();
    }
    db.close().unwrap();
}

/// Promise: P26. An increment contains what was loaded since its base, and a restored store is
/// complete.
#[test]
fn backups_contain_filled_trees() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let db = Db::open(at("store"), common::options()).unwrap();
    let tree = create(&db, "t");
    tree.reserve(0, 1, 9).unwrap();
    put_and_delete_rows(&db, &tree, 1000);
    let mut load = db.bulk_load_into(&tree).unwrap();
    put(&mut load, 3000, b"new");
    load.put(b"long", &[7; 100_000]).unwrap();
    let base = db.backup(at("full")).unwrap();
    let base = db.backup_since(&base.id, at("loading")).unwrap();
    load.finish().unwrap();
    db.backup_since(&base.id, at("loaded")).unwrap();
    db.close().unwrap();
    for (chain, count) in [(vec![at("loading")], 0), (vec![at("loading"), at("loaded")], 3001)] {
        let target = at(&format!("restored {count}"));
        Backup::new(at("full")).increments(&chain).restore(&target).unwrap();
        let db = Db::open(target, common::options()).unwrap();
        assert_eq!(rows_of(&db, "t").len(), count);
        assert_eq!(db.open_tree("t").unwrap().next_number(0).unwrap(), 10);
        assert_clean(&db);
        db.close().unwrap();
    }
}

/// A follower is notified that the tree was dropped, and that another replaces it, which it has to
/// read.
#[test]
fn the_feed_reports_a_filled_tree() {
    let dir = tempfile::tempdir().unwrap();
    // Checkpoints are frequent here, and would free the log before it is followed.
    let options = common::options().keep_log(16 << 20);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = create(&db, "t");
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    let new = load_into(&db, &tree, 1000, b"v").unwrap();
    let mut commit = feed.next(Duration::from_secs(2)).unwrap().expect("one commit");
    let Some(Change::TreeDropped { id, name }) = commit.next().unwrap() else { panic!() };
    assert_eq!((id, name.as_deref()), (tree.id(), Some("t")));
    let Some(Change::TreeDefined { info, is_loaded, cloned_from }) = commit.next().unwrap() else {
        panic!()
    };
    assert_eq!((info.id, &*info.name, is_loaded, cloned_from), (new.id(), "t", true, None));
    assert!(commit.next().unwrap().is_none());
}

/// An index build of the tree fails as it does if the tree is truncated.
#[test]
fn a_load_ends_an_index_build_of_its_tree() {
    let (_dir, db) = store();
    let tree = create(&db, "t");
    let mut build = db.build_indexes(&tree, &[("index", TreeOptions::default())]).unwrap();
    drop(build.snapshot(Duration::ZERO).unwrap());
    load_into(&db, &tree, 10, b"v").unwrap();
    assert!(matches!(build.lock(Duration::ZERO), Err(Error::NoSuchTree(_))));
    drop(build);
    let names: Vec<_> = db.trees().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["t"]);
    assert_clean(&db);
}
