//! Numbers of rows and estimates: a count that is reported as exact equals what a scan counts,
//! whatever has happened to the store (Rule: I51).

use std::collections::BTreeMap;

use frond::{
    Batch, Db, Durability, Error, Options, RowCount, RowLock, Tree, TreeOptions, Txn,
    backup::restore,
    check::CheckMode,
    internals::io::Env,
    operator,
    transaction::{RowChange, RowEntry, Xid},
};
use frond_testkit::{
    Dice,
    disk::{CrashOptions, SimVfs, crash_states},
};

const DIR: &str = "/store";

fn open(env: &Env) -> Db {
    let options = Options::new().cache_size(8 << 20).durability(Durability::Sync);
    let mut tuning = crate::common::tiny();
    if let Some(limits) = &mut tuning.limits {
        // Some transactions spill.
        limits.own_writes_bytes = 1500;
    }
    Db::open(DIR, options.env(env.clone()).tuning(tuning)).unwrap()
}

fn unique() -> TreeOptions {
    TreeOptions::new().unique(true)
}

fn walked(tree: &Tree) -> u64 {
    let (mut rows, mut cursor) = (0, tree.scan(..).unwrap());
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    rows
}

/// Checks that the count is exact and equals what a scan counts.
fn is_counted(tree: &Tree) {
    assert_eq!(tree.row_count().unwrap(), RowCount { rows: walked(tree), exact: true });
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// A statement that looks before it writes, so that its changes are counted.
fn statement(txn: &Txn, tree: &Tree, dice: &mut Dice) {
    let (key, other) = (key(dice.below(300)), key(dice.below(300)));
    let value = vec![dice.below(256) as u8; dice.below(600) as usize];
    let is_there = |key: &[u8]| txn.get_for_update(tree, key).unwrap().is_some();
    match dice.below(7) {
        0 | 1 => {
            let absent = dice.chance(1, 2) && !is_there(&key);
            let entry = RowEntry { tree, key: &key, value: &value, unique: true, absent };
            drop(txn.row_writer().insert(&[entry], RowLock::Exclusive).unwrap());
        }
        2 if is_there(&key) => txn.row_writer().delete(&[(tree, &key)]).unwrap(),
        3 if is_there(&key) => {
            let new = Some((&*other, &*value));
            let change = RowChange { tree, old: Some(&key), new, unique: true };
            drop(txn.row_writer().update(&[change], RowLock::Exclusive).unwrap());
        }
        4 => {
            is_there(&key);
            txn.put(tree, &key, &value).unwrap();
        }
        5 => {
            is_there(&key);
            txn.delete(tree, &key).unwrap();
        }
        _ => {
            is_there(&key);
            txn.merge(tree, &key, operator::APPEND, &value).unwrap();
        }
    }
}

fn work(db: &Db, tree: &Tree, dice: &mut Dice) {
    if dice.below(6) == 0 {
        let mut batch = Batch::new();
        batch.insert(tree, &key(1000 + dice.below(1 << 40)), b"batch").unwrap();
        batch.insert(tree, &key(1000 + dice.below(1 << 40)), b"batch").unwrap();
        db.commit(&mut batch).unwrap();
        return;
    }
    let txn = db.begin(Default::default()).unwrap();
    for _ in 0..1 + dice.below(6) {
        let savepoint = txn.savepoint().unwrap();
        statement(&txn, tree, dice);
        if dice.below(4) == 0 {
            // Also a change that cannot be counted.
            txn.delete(tree, &key(dice.below(300))).unwrap();
            txn.rollback_to(&savepoint).unwrap();
        }
    }
    let xid = Xid::new(b"x").unwrap();
    match dice.below(5) {
        0 => txn.rollback(),
        how @ 1..=2 => match txn.prepare(&xid) {
            Ok(prepared) if how == 1 => drop(prepared.commit().unwrap()),
            Ok(prepared) => prepared.rollback().unwrap(),
            Err(left_memory) => assert!(matches!(left_memory, Error::BatchTooLarge { .. })),
        },
        _ => drop(txn.commit().unwrap()),
    }
}

#[test]
fn a_row_count_equals_a_scan_through_changes_and_restarts() {
    for seed in 0..6 {
        let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
        let env = vfs.env(seed);
        let mut db = open(&env);
        let mut tree = db.create_tree("t", unique()).unwrap();
        for _ in 0..60 {
            match dice.below(12) {
                0 => db.checkpoint().unwrap(),
                1 => {
                    db.close().unwrap();
                    drop((tree, db));
                    db = open(&env);
                    tree = db.open_tree("t").unwrap();
                }
                2 => while db.step().unwrap() || db.drain_step().unwrap() {},
                _ => work(&db, &tree, dice),
            }
            is_counted(&tree);
        }
        let copy = db.clone_tree("t", "copy").unwrap();
        is_counted(&copy);
        work(&db, &copy, dice);
        is_counted(&copy);
        is_counted(&tree);
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
        db.close().unwrap();
    }
}

/// After a crash anywhere, the recovered rows are counted. Rule: I51.
#[test]
fn a_row_count_is_exact_after_a_crash_anywhere() {
    for seed in 0..3 {
        let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
        let db = open(&vfs.env(seed));
        let tree = db.create_tree("t", unique()).unwrap();
        let xid = Xid::new(b"left").unwrap();
        vfs.record();
        for round in 0..30 {
            work(&db, &tree, dice);
            if round == 15 {
                let txn = db.begin(Default::default()).unwrap();
                txn.insert(&tree, &key(9999), b"prepared").unwrap();
                txn.prepare(&xid).unwrap().detach();
            }
            if round % 10 == 9 {
                db.checkpoint().unwrap();
            }
        }
        let points = vfs.recorded();
        let every = points.len() / 40 + 1;
        let crash = CrashOptions::short().with_seed(seed);
        let states =
            points.iter().step_by(every).flat_map(|point| crash_states(&point.disk, &crash));
        for (number, state) in states.enumerate() {
            let after = SimVfs::start(state.disk);
            let db = open(&after.env(number as u64));
            let Ok(tree) = db.open_tree("t") else { continue };
            is_counted(&tree);
            for left in db.prepared() {
                db.commit_prepared(&left.xid).unwrap();
                is_counted(&tree);
            }
            work(&db, &tree, dice);
            is_counted(&tree);
            db.close().unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn counts_report_that_unchecked_writes_make_them_inexact() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, crate::common::options()).unwrap();
    let (seen, blind) = (db.create_tree("seen", unique()), db.create_tree("blind", unique()));
    let (seen, blind) = (seen.unwrap(), blind.unwrap());
    let number = |number: u32| number.to_be_bytes();
    for tree in [&seen, &blind] {
        let txn = db.begin(Default::default()).unwrap();
        (0..500).for_each(|row| txn.insert(tree, &number(row), b"value").unwrap());
        txn.commit().unwrap();
        is_counted(tree);
    }
    blind.put(&number(7), b"there already").unwrap();
    let before_restart = blind.row_count().unwrap();
    assert!(!before_restart.exact);
    assert!((400..=600).contains(&before_restart.rows), "{before_restart:?}");
    db.checkpoint().unwrap();
    assert!(!blind.row_count().unwrap().exact);
    // A backup contains the counts of its snapshot.
    let copy = dir.path().join("copy");
    db.backup(&copy).unwrap();
    db.close().unwrap();
    let at = dir.path().join("restored");
    restore(&copy, &at).unwrap();
    for path in [&path, &at] {
        let db = Db::open(path, crate::common::options()).unwrap();
        is_counted(&db.open_tree("seen").unwrap());
        let blind = db.open_tree("blind").unwrap();
        assert!(!blind.row_count().unwrap().exact);
        let mut batch = Batch::new();
        batch.delete_range(&blind, ..[0xff; 9]).unwrap();
        db.commit(&mut batch).unwrap();
        db.checkpoint().unwrap();
        assert_eq!(blind.estimate(..).unwrap().rows, 0);
        is_counted(&blind);
        db.close().unwrap();
    }
}

/// Blind deletes, and puts of existing keys, do not raise an estimated count. Rule: I51.
#[test]
fn blind_deletes_and_overwrites_do_not_raise_a_count() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new().cache_size(16 << 20)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let count = |tree: &Tree| tree.row_count().map(|count| (count.rows, count.exact)).unwrap();
    let key = |number: u32| number.to_be_bytes();
    for row in 0..10 {
        tree.put(&key(row), b"first").unwrap();
    }
    assert_eq!(count(&tree), (10, false));
    for row in 0..10 {
        tree.put(&key(row), b"second").unwrap();
    }
    assert_eq!(count(&tree), (10, false));
    for row in 0..5 {
        tree.delete(&key(row)).unwrap();
    }
    assert_eq!(count(&tree), (5, false));
    for row in 1000..1100 {
        tree.delete(&key(row)).unwrap();
    }
    assert_eq!(count(&tree), (5, false));
    db.checkpoint().unwrap();
    assert_eq!(count(&tree), (5, false));
    // Of rows in the tree, in one large commit, and by range.
    let mut batch = Batch::new();
    (0..20_000).for_each(|row| batch.delete(&tree, &key(row)).unwrap());
    batch.delete_range(&tree, key(5)..key(10)).unwrap();
    db.commit(&mut batch).unwrap();
    assert!(count(&tree).0 <= 5, "{:?}", count(&tree));
    db.checkpoint().unwrap();
    assert_eq!(count(&tree), (0, true));

    let tree = db.create_tree("unique", unique()).unwrap();
    let mut batch = Batch::new();
    (0..10).for_each(|row| batch.insert(&tree, &key(row), b"row").unwrap());
    db.commit(&mut batch).unwrap();
    assert_eq!(count(&tree), (10, true));
    let mut batch = Batch::new();
    (0..10).for_each(|row| batch.delete(&tree, &key(row)).unwrap());
    db.commit(&mut batch).unwrap();
    // Not 0: a snapshot may still show one.
    assert_eq!(count(&tree), (1, false));
    assert_eq!(tree.estimate(..).unwrap().rows, 1);
    db.checkpoint().unwrap();
    assert_eq!(count(&tree), (0, true));
    db.close().unwrap();
}

/// Deletes that wait in buffers of a tree of several levels do not count as rows. Rule: I51.
#[test]
fn deletes_in_buffers_and_spilled_deletes_do_not_raise_a_count() {
    let db = open(&SimVfs::new().env(0));
    let tree = db.create_tree("t", unique()).unwrap();
    for row in 0..3000 {
        db.transact(|txn| txn.put(&tree, &key(row), b"row")).unwrap();
    }
    db.checkpoint().unwrap();
    let before = tree.row_count().unwrap();
    assert!(!before.exact);
    // Blind, in commits that spill and in small ones.
    for first in (0..2000).step_by(500) {
        db.transact(|txn| (first..first + 500).try_for_each(|row| txn.delete(&tree, &key(row))))
            .unwrap();
        assert!(tree.row_count().unwrap().rows <= before.rows, "{before:?}");
    }
    for row in 2000..2500 {
        tree.delete(&key(row)).unwrap();
        assert!(tree.row_count().unwrap().rows <= before.rows, "{before:?}");
    }
    db.close().unwrap();
}

#[test]
fn a_loaded_tree_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
    let mut load = db.bulk_load("t", unique()).unwrap();
    for row in 0..3000u32 {
        load.put(&(row * 7919 % 3000).to_be_bytes(), b"loaded").unwrap();
    }
    let loaded = load.finish().unwrap();
    is_counted(&loaded.tree);
    db.transact(|txn| txn.insert(&loaded.tree, b"one more", b"")).unwrap();
    is_counted(&loaded.tree);
    db.close().unwrap();
    drop(loaded);
    let db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
    is_counted(&db.open_tree("t").unwrap());
    db.close().unwrap();
}

/// How often the store has read its file.
fn file_reads(db: &Db) -> u64 {
    db.stats().store_reads
}

/// An estimate reads nothing, even on a store that was just opened and has nothing in memory, and
/// is never 0 for a range that has rows. Rule: I51.
#[test]
fn an_estimate_of_a_cold_store_reads_nothing() {
    for unique in [false, true] {
        let env = SimVfs::new().env(0);
        let db = open(&env);
        let tree = db.create_tree("t", TreeOptions::new().unique(unique)).unwrap();
        for row in 0..600 {
            match unique {
                true => db.transact(|txn| txn.insert(&tree, &key(row), &[7; 100])).unwrap(),
                false => tree.put(&key(row), &[7; 100]).map(drop).unwrap(),
            }
        }
        db.close().unwrap();
        drop((tree, db));
        let db = open(&env);
        let tree = db.open_tree("t").unwrap();
        let txn = db.begin(Default::default()).unwrap();
        let reads = file_reads(&db);
        for (from, to) in [(0, 600), (0, 1), (300, 301), (250, 350), (599, 600)] {
            let (from, to) = (key(from), key(to));
            let said = [
                tree.estimate(&from[..]..&to[..]).unwrap(),
                txn.estimate(&tree, &from[..]..&to[..]).unwrap(),
            ];
            assert!(said.iter().all(|said| said.rows > 0 && said.bytes > 0), "{said:?}");
        }
        let all = tree.estimate(..).unwrap();
        assert!(!unique || all.rows == 600, "counted: {all:?}");
        assert_eq!(file_reads(&db), reads);
        // What a read brings into memory stays there until it is evicted.
        for row in 0..600 {
            assert!(tree.get(&key(row)).unwrap().is_some());
        }
        let reads = file_reads(&db);
        let said = tree.estimate(&key(200)[..]..&key(400)[..]).unwrap();
        assert!((100..=400).contains(&said.rows), "{said:?}");
        assert_eq!(file_reads(&db), reads);
    }
}

/// Estimates are of the right size wherever the rows are, once they were read, and 0 is certain.
#[test]
fn estimates_have_the_right_magnitude() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
    let mut tree = db.create_tree("t", unique()).unwrap();
    let mut rows: BTreeMap<u32, ()> = BTreeMap::new();
    let dice = &mut Dice::new(7);
    for round in 0..40 {
        let mut batch = Batch::new();
        for _ in 0..300 {
            // Leaves a gap in the middle.
            let row = dice.below(40_000) as u32;
            let row = if row < 20_000 { row } else { row + 40_000 };
            batch.put(&tree, &row.to_be_bytes(), &[row as u8; 30]).unwrap();
            rows.insert(row, ());
        }
        db.commit(&mut batch).unwrap();
        if round == 30 {
            db.close().unwrap();
            drop((tree, db));
            db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
            tree = db.open_tree("t").unwrap();
            assert_eq!(walked(&tree), rows.len() as u64);
        }
        for _ in 0..50 {
            let (a, b) = (dice.below(90_000) as u32, dice.below(90_000) as u32);
            let (from, to) = (a.min(b), a.max(b));
            let there = rows.range(from..to).count() as u64;
            let range = &from.to_be_bytes()[..]..&to.to_be_bytes()[..];
            let said = tree.estimate(range).unwrap();
            assert!(there == 0 || said.rows > 0, "{from}..{to}: 0 is said of {there}");
            // Rows that were rewritten may count twice, and what is cut at the ends is estimated.
            let (low, high) = (there / 4, there * 4 + 400);
            assert!((low..=high).contains(&said.rows), "{from}..{to}: {said:?} of {there}");
        }
    }
    assert_eq!(tree.estimate(&b"x"[..]..&b"x"[..]).unwrap(), Default::default());
    let empty = db.create_tree("empty", unique()).unwrap();
    assert_eq!(empty.estimate(..).unwrap(), Default::default());
    db.close().unwrap();
}

/// A number that a durable commit can have used is not allocated again. Rule: I35.
#[test]
fn a_number_is_never_allocated_twice() {
    let (vfs, dice) = (SimVfs::new(), &mut Dice::new(5));
    let mut db = open(&vfs.env(0));
    let mut tree = db.create_tree("t", unique()).unwrap();
    let xid = Xid::new(b"left").unwrap();
    let (mut last, mut taken) = (0, 0);
    vfs.record();
    for round in 0..60 {
        let count = 1 + dice.below(3);
        let ids = tree.reserve(1, 1, count).unwrap();
        assert!(ids.start > last, "{ids:?} behind {last}");
        last = ids.end - 1;
        let txn = db.begin(Default::default()).unwrap();
        ids.for_each(|id| txn.insert(&tree, &id.to_be_bytes(), b"row").unwrap());
        match dice.below(5) {
            0 => txn.rollback(),
            1 if round == 30 => txn.prepare(&xid).unwrap().detach(),
            2 => drop(txn.prepare(&Xid::new(b"x").unwrap()).unwrap().commit().unwrap()),
            _ => drop(txn.commit().unwrap()),
        }
        match dice.below(10) {
            0 => db.checkpoint().unwrap(),
            1 => {
                db.close().unwrap();
                drop((tree, db));
                db = open(&vfs.env(round));
                tree = db.open_tree("t").unwrap();
                // It was closed cleanly: even numbers of rolled-back transactions are not reused.
                assert!(tree.next_number(1).unwrap() > last || round == 0);
            }
            _ => {}
        }
        taken += count;
    }
    assert!(taken > 60);
    let copy = db.clone_tree("t", "copy").unwrap();
    assert_eq!(copy.next_number(1).unwrap(), tree.next_number(1).unwrap());
    assert_eq!(copy.next_number(0).unwrap(), 1, "each counter by itself");
    assert!(tree.reserve(4, 1, 1).is_err() && tree.reserve(0, u64::MAX, 1).is_err());
    db.close().unwrap();
    let points = vfs.recorded();
    let every = points.len() / 60 + 1;
    let crash = CrashOptions::short();
    for state in points.iter().step_by(every).flat_map(|point| crash_states(&point.disk, &crash)) {
        let db = open(&SimVfs::start(state.disk).env(1));
        let Ok(tree) = db.open_tree("t") else { continue };
        let next = tree.next_number(1).unwrap();
        for left in db.prepared() {
            db.commit_prepared(&left.xid).unwrap();
        }
        let (mut greatest, mut cursor) = (0, tree.scan(..).unwrap());
        cursor.seek_last();
        if let Some((key, _)) = cursor.prev().unwrap() {
            greatest = u64::from_be_bytes(key.try_into().unwrap());
        }
        assert!(next > greatest, "{next} would be handed out again: {greatest} is there");
    }
}

/// What a transaction saw of its own change is forgotten when the change is rolled back.
#[test]
fn a_row_count_is_exact_after_a_rollback_to_a_savepoint() {
    let db = open(&SimVfs::new().env(0));
    let tree = db.create_tree("t", unique()).unwrap();
    for is_there in [false, true] {
        let txn = db.begin(Default::default()).unwrap();
        let savepoint = txn.savepoint().unwrap();
        match is_there {
            false => txn.insert(&tree, b"key", b"own").unwrap(),
            true => txn.delete(&tree, b"key").unwrap(),
        }
        assert_eq!(txn.get_for_update(&tree, b"key").unwrap().is_some(), !is_there);
        txn.rollback_to(&savepoint).unwrap();
        txn.put(&tree, b"key", b"row").unwrap();
        txn.commit().unwrap();
        let count = tree.row_count().unwrap();
        assert!(!count.exact || count.rows == walked(&tree), "{count:?}");
        tree.put(b"key", b"row").unwrap();
    }
    db.close().unwrap();
}

/// Numbers of a tree to which nothing was applied yet are not allocated again. Rule: I35.
#[test]
fn a_number_of_an_empty_tree_is_never_allocated_twice() {
    let vfs = SimVfs::new();
    let db = open(&vfs.env(0));
    let tree = db.create_tree("t", unique()).unwrap();
    let xid = Xid::new(b"first").unwrap();
    let txn = db.begin(Default::default()).unwrap();
    for id in tree.reserve(0, 1, 3).unwrap() {
        txn.insert(&tree, &id.to_be_bytes(), b"row").unwrap();
    }
    txn.prepare(&xid).unwrap().detach();
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    vfs.record();
    db.commit_prepared(&xid).unwrap();
    let other = db.create_tree("other", unique()).unwrap();
    other.put(b"1", b"1").unwrap();
    let point = vfs.recorded().pop().unwrap();
    for state in crash_states(&point.disk, &CrashOptions::short()) {
        let db = open(&SimVfs::start(state.disk).env(1));
        let tree = db.open_tree("t").unwrap();
        assert_eq!(tree.next_number(0).unwrap(), 4, "{}", state.what);
    }
    drop((tree, other));
    db.close().unwrap();
}

/// A transaction's own writes count in its estimates, in memory, spilled, and rolled back; and no
/// range is estimated as empty in which one of its reads would find a row. Rule: I51.
#[test]
fn a_transaction_estimates_0_only_for_ranges_it_sees_as_empty() {
    let db = open(&SimVfs::new().env(0));
    let tree = db.create_tree("t", unique()).unwrap();
    let (low, high) = (key(100), key(200));
    let range = || &low[..]..&high[..];
    let txn = db.begin(Default::default()).unwrap();
    assert_eq!(txn.estimate(&tree, range()).unwrap().rows, 0, "proven");
    let savepoint = txn.savepoint().unwrap();
    txn.insert(&tree, &key(150), b"own").unwrap();
    assert_eq!(tree.estimate(range()).unwrap().rows, 0, "no other reader sees it");
    assert_eq!(txn.estimate(&tree, range()).unwrap().rows, 1);
    assert_eq!(txn.estimate(&tree, &high[..]..).unwrap().rows, 0);
    txn.rollback_to(&savepoint).unwrap();
    assert_eq!(txn.estimate(&tree, range()).unwrap().rows, 0);
    // Spilled, and some of it deleted again.
    for number in 0..400 {
        txn.insert(&tree, &key(number), &[7; 40]).unwrap();
    }
    for number in 0..50 {
        txn.delete(&tree, &key(number)).unwrap();
    }
    let all = txn.estimate(&tree, ..).unwrap();
    assert_eq!(all.rows, 350, "not more than there are");
    let inside = txn.estimate(&tree, range()).unwrap();
    assert!((20..400).contains(&inside.rows) && inside.bytes > 0, "{inside:?}");
    assert_eq!(txn.estimate(&tree, &b"later"[..]..).unwrap().rows, 0);
    txn.commit().unwrap();

    // A transaction that sees what has been deleted since.
    let older = db.begin(Default::default()).unwrap();
    assert!(older.get(&tree, &key(150)).unwrap().is_some());
    let mut batch = Batch::new();
    batch.delete_range(&tree, ..b"l").unwrap();
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    while db.step().unwrap() || db.drain_step().unwrap() {}
    assert_eq!(tree.estimate(range()).unwrap().rows, 0);
    assert!(older.get(&tree, &key(150)).unwrap().is_some());
    assert!(older.estimate(&tree, range()).unwrap().rows > 0);
    older.commit().unwrap();
    let newer = db.begin(Default::default()).unwrap();
    assert_eq!(newer.estimate(&tree, range()).unwrap().rows, 0);
    drop(newer);
    db.close().unwrap();
}

/// Entries of non-unique indexes disappear with their row as if they had never existed: applying
/// has nothing to write, and the counts of their trees stay exact. Rule: I7, last sentence.
#[test]
fn index_entries_of_a_row_inserted_and_deleted_are_never_applied() {
    // With memtables of the default size: a row comes and goes within one.
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(DIR, options.env(SimVfs::new().env(0))).unwrap();
    let rows = db.create_tree("rows", unique()).unwrap();
    let names = db.create_tree("names", TreeOptions::default()).unwrap();
    fn entry<'a>(tree: &'a Tree, key: &'a [u8], unique: bool) -> RowEntry<'a> {
        RowEntry { tree, key, value: b"of a row", unique, absent: false }
    }
    let encoded = || db.stats().apply_entries_encoded;
    let put = |id: u64, is_row_call: bool| {
        let (own, name) = (key(id), [&b"name "[..], &key(id)].concat());
        let txn = db.begin(Default::default()).unwrap();
        if is_row_call {
            let entries = [entry(&rows, &own[..], true), entry(&names, &name[..], false)];
            assert_eq!(txn.row_writer().insert(&entries, RowLock::Exclusive).unwrap(), None);
        } else {
            txn.insert(&rows, &own, b"of a row").unwrap();
            txn.put(&names, &name, b"of a row").unwrap();
        }
        txn.commit().unwrap();
        (own, name)
    };
    for id in 0..1000 {
        put(id * 2, true);
    }
    is_counted(&names);
    db.checkpoint().unwrap();
    let come_and_go = |is_row_call| {
        let before = encoded();
        for id in 0..50 {
            let (own, name) = put(id * 40 + 1, is_row_call);
            let txn = db.begin(Default::default()).unwrap();
            txn.row_writer().delete(&[(&rows, &own[..]), (&names, &name[..])]).unwrap();
            txn.commit().unwrap();
        }
        db.checkpoint().unwrap();
        encoded() - before
    };
    assert_eq!(come_and_go(true), 0);
    is_counted(&names);
    assert!(come_and_go(false) > 0, "deletes of what may be there");
    assert!(!names.row_count().unwrap().exact);

    // What the transaction itself has deleted may be in the tree: a put over it is not a put of an
    // absent key.
    let (own, name) = (key(2), [&b"name "[..], &key(2)].concat());
    let txn = db.begin(Default::default()).unwrap();
    txn.row_writer().delete(&[(&rows, &own[..]), (&names, &name[..])]).unwrap();
    let entries = [entry(&rows, &own[..], true), entry(&names, &name[..], false)];
    assert_eq!(txn.row_writer().insert(&entries, RowLock::Exclusive).unwrap(), None);
    txn.commit().unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.row_writer().delete(&[(&rows, &own[..]), (&names, &name[..])]).unwrap();
    txn.commit().unwrap();
    for _ in 0..2 {
        assert_eq!((rows.get(&own).unwrap(), names.get(&name).unwrap()), (None, None));
        db.checkpoint().unwrap();
    }

    // The key is known to be absent without a read.
    let serial = db.create_tree("serial", TreeOptions::default()).unwrap();
    for _ in 0..10 {
        let id = serial.reserve(0, 1, 1).unwrap().start;
        db.transact(|txn| txn.row_writer().put_absent(&serial, &id.to_be_bytes(), b"row")).unwrap();
    }
    is_counted(&serial);
    drop((rows, names, serial));
    db.close().unwrap();
}
