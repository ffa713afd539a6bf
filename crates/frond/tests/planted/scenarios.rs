//! Short scenarios of calls that the campaigns seldom make, for planted bugs that only these
//! reveal.

mod long_keys;
mod walks;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use frond::{
    Batch, Db, Durability, Error, IfLocked, Isolation, Options, ReadOptions, RowLock, Snapshot,
    Tree, TxnOptions, check::CheckMode, internals::Limits, operator::MergeOperator,
    transaction::Xid,
};
use frond_testkit::{
    DbEngine, Dice,
    campaign::{CrashPlan, crash_everywhere},
    disk::{CrashOptions, SimVfs, crash_states},
    ops::{Key, Op, Value, Write},
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs all scenarios. Panics if one does not end as it must.
pub fn all(seed: u64) {
    a_store_demands_its_operators(seed);
    a_store_whose_log_is_lost_is_not_new(seed);
    clones_and_named_snapshots_keep_exactly_what_they_show(seed);
    a_snapshot_keeps_pages_inherited_by_a_dropped_clone(seed);
    every_changed_root_is_in_the_next_slot(seed);
    a_spilled_snapshot_shows_only_earlier_commits(seed);
    a_snapshot_transaction_overwrites_no_unseen_change(seed);
    a_reinserted_row_stays_deleted_after_a_second_delete(seed);
    an_autonomous_put_waits_for_a_writer_of_the_row(seed);
    a_prepared_transaction_outlives_restarts(seed);
    spilled_rows_are_locked(seed);
    a_locking_scan_rereads_rows_committed_since_its_snapshot(seed);
    the_gap_after_the_last_row_is_locked(seed);
    walks::cursors_never_go_back(seed);
    walks::a_batch_chosen_as_deadlock_victim_is_retried(seed);
    long_keys::a_tree_with_an_unknown_greatest_key_keeps_its_order(seed);
    an_xid_is_prepared_once_and_listed_once(seed);
    a_number_is_never_allocated_twice(seed);
    spilled_rows_are_split_at_savepoints(seed);
    a_change_of_trees_is_atomic(seed);
    only_an_empty_tree_is_filled(seed);
    backups_contain_everything(seed);
    backups_refuse_damage(seed);
    // Last, because it takes longest.
    the_log_keeps_the_long_values_that_it_names(seed);
}

/// A store that lost its log before the first checkpoint is not read as a new one. Promise: P1.
fn a_store_whose_log_is_lost_is_not_new(seed: u64) {
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    db.create_tree("t", Default::default()).unwrap().put(b"row", b"1").unwrap();
    let vfs = SimVfs::start(vfs.disk().after_kill());
    let files = vfs.env(seed).vfs;
    for name in files.list("/store".as_ref()).unwrap() {
        if name.to_string_lossy().starts_with("log-") {
            files.remove(&std::path::Path::new("/store").join(name)).unwrap();
        }
    }
    let opened = Db::open("/store", options(&vfs, seed));
    assert!(matches!(opened, Err(Error::WalMissing { .. })), "P1: {opened:?}");
}

/// A snapshot transaction overwrites no change that it has not seen. Rule: I27, of a row in the
/// memtable and of one in the tree.
fn a_snapshot_transaction_overwrites_no_unseen_change(seed: u64) {
    for is_flushed in [false, true] {
        let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.put(b"row", b"1").unwrap();
        let txn = db.begin(Default::default()).unwrap();
        assert_eq!(txn.get(&tree, b"row").unwrap().as_deref(), Some(&b"1"[..]));
        tree.put(b"row", b"2").unwrap();
        if is_flushed {
            db.checkpoint().unwrap();
        }
        let refused = txn.put(&tree, b"row", b"3");
        assert!(matches!(refused, Err(Error::Conflict { .. })), "I27: {refused:?}");
    }
}

/// A transaction that deleted a row and inserts it again knows that the row existed; a put by
/// another transaction in between would be lost. Rules: I7, I32.
fn an_autonomous_put_waits_for_a_writer_of_the_row(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(b"row", b"1").unwrap();
    let (reader, writer) = (db.begin(Default::default()).unwrap(), db.begin(Default::default()));
    let writer = writer.unwrap();
    reader
        .get_with(&tree, b"row", &ReadOptions::new().lock(RowLock::Shared))
        .map(|row| row.into_value())
        .unwrap();
    assert!(reader.row_writer().put_autonomous(&tree, b"row", b"2").unwrap().is_some());
    reader.control().unlock_last().unwrap();
    writer.delete(&tree, b"row").unwrap();
    reader.set_lock_timeout(Some(std::time::Duration::ZERO));
    let refused = reader.row_writer().put_autonomous(&tree, b"row", b"3");
    assert!(matches!(refused, Err(Error::LockTimeout { .. })), "I32: {refused:?}");
}

/// Trees are swapped atomically, and a reader that saw one does not read the other in its place.
/// Promise: P7. Rule: I43.
fn a_change_of_trees_is_atomic(seed: u64) {
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    for name in ["a", "b", "c"] {
        let tree = db.create_tree(name, Default::default()).unwrap();
        tree.put(b"name", name.as_bytes()).unwrap();
    }
    let names = |db: &Db| -> Vec<Vec<u8>> {
        let trees = db.trees().into_iter().map(|info| db.open_tree(&info.name).unwrap());
        trees.map(|tree| tree.get(b"name").unwrap().unwrap()).collect()
    };
    db.checkpoint().unwrap();
    let (before, snapshot) = (names(&db), db.snapshot());
    vfs.record();
    db.change_trees().swap("a", "b").swap("b", "c").commit().unwrap();
    let after = names(&db);
    let refused = snapshot.get(&db.open_tree("a").unwrap(), b"name");
    assert!(matches!(refused, Err(Error::DefinitionChanged(_))), "{refused:?}");
    for point in vfs.recorded() {
        for state in crash_states(&point.disk, &CrashOptions::short()) {
            let db = Db::open("/store", options(&SimVfs::start(state.disk), seed)).unwrap();
            let found = names(&db);
            assert!(found == before || found == after, "{}: {found:?}", state.what);
        }
    }
}

/// A load replaces an empty tree and its counters, and never a row. Rule: I35.
fn only_an_empty_tree_is_filled(seed: u64) {
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let begin = || {
        let mut load = db.bulk_load_into(&tree).unwrap();
        load.put(b"row", b"loaded").unwrap();
        load
    };
    // A row that is committed while the load puts rows.
    let load = begin();
    tree.put(b"row", b"put").unwrap();
    let refused = load.finish();
    assert!(matches!(refused, Err(Error::TreeNotEmpty(_))), "{refused:?}");
    assert_eq!(tree.get(b"row").unwrap().as_deref(), Some(&b"put"[..]));
    tree.delete(b"row").unwrap();
    // A batch that is built before the load's end and committed after it.
    let mut batch = Batch::new();
    batch.put(&tree, b"another", b"").unwrap();
    assert_eq!(tree.reserve(0, 1, 70).unwrap().start, 1);
    let new = begin().finish().unwrap().tree;
    let refused = db.commit(&mut batch);
    assert!(matches!(refused, Err(Error::NoSuchTree(_))), "{refused:?}");
    assert_eq!(new.next_number(0).unwrap(), 71);
    let db = Db::open("/store", options(&SimVfs::start(vfs.disk()), seed)).unwrap();
    let tree = db.open_tree("t").unwrap();
    assert_eq!(tree.next_number(0).unwrap(), 71, "I35: as the log says");
    assert_eq!(tree.get(b"row").unwrap().as_deref(), Some(&b"loaded"[..]));
}

/// Rows that are spilled are cut at savepoints. Rule: I44.
fn spilled_rows_are_split_at_savepoints(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&tree, &[0], b"before").unwrap();
    let savepoint = txn.savepoint().unwrap();
    for row in 1..100u8 {
        txn.put(&tree, &[row], b"a row that is rolled back").unwrap();
    }
    txn.rollback_to(&savepoint).unwrap();
    txn.commit().unwrap();
    assert_eq!(tree.get(&[0]).unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(tree.get(&[1]).unwrap(), None, "I44: it was rolled back");
}

/// Rows that were spilled stay locked. Rule: I47.
fn spilled_rows_are_locked(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let large = db.begin(Default::default()).unwrap();
    for row in 0..100u8 {
        large.put(&tree, &[row], b"a row of a large transaction").unwrap();
    }
    let other = db.begin(Default::default()).unwrap();
    let locked = other
        .get_with(
            &tree,
            &[1],
            &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
        )
        .map(|row| row.into_value());
    assert!(matches!(locked, Err(Error::LockBusy { .. })), "I47: {locked:?}");
    large.commit().unwrap();
    assert!(
        other
            .get_with(&tree, &[1], &ReadOptions::new().lock(RowLock::Shared))
            .map(|row| row.into_value())
            .unwrap()
            .is_some()
    );
}

/// A locking scan reads again what was committed since its snapshot. Rule: I46.
fn a_locking_scan_rereads_rows_committed_since_its_snapshot(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    for row in 0..4u8 {
        tree.put(&[row], b"old").unwrap();
    }
    let txn = db.begin(TxnOptions::new().isolation(Isolation::ReadCommitted));
    let txn = txn.unwrap();
    let mut scan = txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
    assert!(scan.next().unwrap().is_some());
    tree.put(&[1], b"new").unwrap();
    let second = scan.next().unwrap().map(|(_, value)| value.to_vec());
    assert_eq!(second.as_deref(), Some(&b"new"[..]), "I46: it was committed before the lock");
}

/// The gap above all rows is locked as those between rows are. Rule: I33.
fn the_gap_after_the_last_row_is_locked(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(&[1], b"the last row").unwrap();
    let begin = || {
        let (isolation, lock_timeout) = (Isolation::RepeatableRead, Some(Duration::ZERO));
        db.begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout)).unwrap()
    };
    let (scans, inserts) = (begin(), begin());
    let mut scan = scans.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Shared)).unwrap();
    while scan.next().unwrap().is_some() {}
    let behind = inserts.insert(&tree, &[2], b"a phantom");
    assert!(matches!(behind, Err(Error::LockTimeout { .. })), "I33: {behind:?}");
}

/// A name can be prepared only once and is listed once. Rule: I12.
fn an_xid_is_prepared_once_and_listed_once(seed: u64) {
    let (vfs, xid) = (SimVfs::new(), Xid::new(b"x").unwrap());
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let prepare = |row: u8| {
        let txn = db.begin(Default::default()).unwrap();
        txn.put(&tree, &[row], b"prepared").unwrap();
        txn.prepare(&xid).map(|prepared| prepared.detach())
    };
    prepare(1).unwrap();
    let second = prepare(2);
    assert!(matches!(second, Err(Error::XidExists(_))), "I12: {second:?}");
    drop((tree, db));
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let listed: Vec<Xid> = db.take_recovered().into_iter().map(|one| one.xid).collect();
    assert_eq!(listed, [xid], "I12: all that is left, once");
    assert!(db.take_recovered().is_empty(), "I12: it was listed");
}

/// A number that a durable commit has used is not allocated again. Rule: I35.
fn a_number_is_never_allocated_twice(seed: u64) {
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    vfs.record();
    let number = tree.reserve(1, 1, 1).unwrap().start;
    tree.put(&number.to_be_bytes(), b"row").unwrap();
    let point = vfs.recorded().pop().unwrap();
    for state in crash_states(&point.disk, &CrashOptions::short()) {
        let db = Db::open("/store", options(&SimVfs::start(state.disk), seed)).unwrap();
        let tree = db.open_tree("t").unwrap();
        if tree.get(&number.to_be_bytes()).unwrap().is_some() {
            assert!(tree.next_number(1).unwrap() > number, "I35: {}", state.what);
        }
    }
}

/// A row that was inserted again stays deleted: the insert is above a delete of its own memtable,
/// and below one of the next. Rule: I7.
fn a_reinserted_row_stays_deleted_after_a_second_delete(seed: u64) {
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let (tree, other) = (db.create_tree("t", Default::default()).unwrap(), "other");
    let other = db.create_tree(other, Default::default()).unwrap();
    tree.put(b"row", b"old").unwrap();
    db.checkpoint().unwrap();
    tree.delete(b"row").unwrap();
    db.transact(|txn| txn.insert(&tree, b"row", b"new")).unwrap();
    for number in 0u32..1000 {
        if db.stats().memtables_frozen > 0 {
            break;
        }
        other.put(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    tree.delete(b"row").unwrap();
    assert!(tree.scan(..).unwrap().next().unwrap().is_none(), "I7: it is deleted");
}

/// A prepared long value, and prepared rows in runs, survive checkpoints that trim the log and
/// other commits that take free space. Rules: I11, I12.
fn a_prepared_transaction_outlives_restarts(seed: u64) {
    for is_large in [false, true] {
        let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
        let xid = Xid::new(b"x").unwrap();
        let (db, long) = (Db::open("/store", options(&vfs, seed)).unwrap(), random(dice, 3000));
        let tree = db.create_tree("t", Default::default()).unwrap();
        let txn = db.begin(Default::default()).unwrap();
        txn.put(&tree, b"row", if is_large { &long[..100] } else { &long }).unwrap();
        // Rows after the first few are spilled.
        let many = random(dice, 60);
        for row in 0..if is_large { 80u8 } else { 0 } {
            txn.put(&tree, &[b"many", &[row][..]].concat(), &many).unwrap();
        }
        txn.prepare(&xid).unwrap().detach();
        for _ in 0..4 {
            fill(&db, &tree, dice, 60, 100);
            db.checkpoint().unwrap();
        }
        let (mut db, mut tree) = (db, tree);
        // After the first opening, its own checkpoints must name what it found, for the second.
        for _ in 0..2 {
            drop((tree, db));
            db = Db::open("/store", options(&vfs, seed)).unwrap();
            tree = db.open_tree("t").unwrap();
            tree.put(b"other", &random(dice, 3000)).unwrap();
            for _ in 0..4 {
                fill(&db, &tree, dice, 60, 100);
                db.checkpoint().unwrap();
            }
        }
        let txn = db.begin(Default::default()).unwrap();
        let locked = txn
            .get_with(
                &tree,
                b"row",
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        assert!(matches!(locked, Err(Error::LockBusy { .. })), "I54: {locked:?}");
        drop(txn);
        db.commit_prepared(&xid).unwrap();
        db.checkpoint().unwrap();
        let expected = if is_large { &long[..100] } else { &long[..] };
        assert!(tree.get(b"row").unwrap().as_deref() == Some(expected), "I12: the value");
        for row in 0..if is_large { 80u8 } else { 0 } {
            let found = tree.get(&[b"many", &[row][..]].concat()).unwrap();
            assert!(found.as_ref() == Some(&many), "I12: what lay in runs");
        }
        assert_clean(&db);
        db.close().unwrap();
    }
}

fn options(vfs: &SimVfs, seed: u64) -> Options {
    let engine = DbEngine::tiny(Durability::Sync);
    Options::new().cache_size(engine.cache_bytes).tuning(engine.tuning).env(vfs.env(seed))
}

fn random(dice: &mut Dice, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| dice.below(256) as u8).collect()
}

/// Puts that many random rows, in one commit.
fn fill(db: &Db, tree: &Tree, dice: &mut Dice, rows: u32, bytes: usize) -> Rows {
    let mut filled = Rows::new();
    let mut batch = Batch::new();
    for row in 0..rows {
        let (key, value) = (row.to_be_bytes().to_vec(), random(dice, bytes));
        batch.put(tree, &key, &value).unwrap();
        filled.insert(key, value);
    }
    db.commit(&mut batch).unwrap();
    filled
}

/// Writes and checkpoints so much that free space is used again.
fn churn(db: &Db, dice: &mut Dice) {
    let tree = db.open_tree("churn").or_else(|_| db.create_tree("churn", Default::default()));
    let tree = tree.unwrap();
    for _ in 0..6 {
        fill(db, &tree, dice, 150, 240);
        fill(db, &tree, dice, 3, 2000);
        db.checkpoint().unwrap();
        while db.step().unwrap() {}
    }
}

fn rows_of(tree: &Tree) -> Rows {
    let mut cursor = tree.scan(..).unwrap();
    let mut rows = Rows::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn rows_at(snapshot: &Snapshot, tree: &Tree) -> Rows {
    let mut cursor = snapshot.scan(tree, ..).unwrap();
    let mut rows = Rows::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Takes the newer operand.
struct Newest;

impl MergeOperator for Newest {
    fn name(&self) -> &str {
        "newest"
    }
    fn merge(&self, _: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        operand.to_vec()
    }
    fn combine(&self, _: &[u8], newer: &[u8]) -> Vec<u8> {
        newer.to_vec()
    }
}

/// A store does not open without the operators that it uses. Rule: I17.
fn a_store_demands_its_operators(seed: u64) {
    let vfs = SimVfs::new();
    let with = options(&vfs, seed).operator(64, Arc::new(Newest));
    let db = Db::open("/store", with).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batch = Batch::new();
    batch.merge(&tree, b"k", 64, b"v").unwrap();
    db.commit(&mut batch).unwrap();
    db.close().unwrap();
    drop((tree, db));
    let without = Db::open("/store", options(&vfs, seed)).map(drop);
    assert!(matches!(without, Err(Error::OperatorNeeded { .. })), "opened: {without:?}");
}

/// A long value is appended to within one memtable: no run ever lists it, and only the log names
/// it. Replay needs it, wherever the power fails; so its extent must not be used again until then.
/// Rule: I11.
fn the_log_keeps_the_long_values_that_it_names(seed: u64) {
    let tree = || "t".to_owned();
    let long = |key, seed| {
        let value = Value { seed, bytes: 1800 };
        Op::Commit(None, vec![Write::Put(tree(), Key::plain(key), value)])
    };
    let mut ops = vec![Op::Create { tree: tree(), unique: false }, long(1, 1)];
    let operand = Value { seed: 2, bytes: 10 };
    ops.push(Op::Commit(None, vec![Write::Append(tree(), Key::plain(1), operand)]));
    for row in 0..12u32 {
        let value = |n: u32| Value { seed: 3 + n, bytes: 200 };
        let put = |n: u32| Write::Put(tree(), Key::plain(10 + row * 5 + n), value(n));
        ops.push(Op::Commit(None, (0..5).map(put).collect()));
    }
    ops.push(Op::Step(2));
    ops.extend([long(2, 4), long(3, 5), Op::Step(2), long(4, 6)]);
    let engine = DbEngine::tiny(Durability::Sync);
    let states = CrashOptions::short();
    let plan = CrashPlan { states, threads: 1, nested_one_in: 0, ..CrashPlan::default() };
    if let Err(failure) = crash_everywhere(&engine, &ops, seed, &plan) {
        panic!("{failure}");
    }
}

/// A clone of a clone and a named snapshot show their first content, even when everything they came
/// from is dropped; and when they go, what they kept is freed. Rules: I18, I19.
fn clones_and_named_snapshots_keep_exactly_what_they_show(seed: u64) {
    let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let tree = db.create_tree("first", Default::default()).unwrap();
    let rows = fill(&db, &tree, dice, 300, 240);
    db.checkpoint().unwrap();
    db.clone_tree("first", "second").unwrap();
    let last = db.clone_tree("second", "last").unwrap();
    db.create_snapshot("then").unwrap();
    drop(tree);
    db.drop_tree("first").unwrap();
    db.drop_tree("second").unwrap();
    churn(&db, dice);
    let then = db.open_snapshot("then").unwrap();
    assert!(rows_at(&then, &then.open_tree("first").unwrap()) == rows, "the name's tree");
    drop(then);
    db.drop_snapshot("then").unwrap();
    churn(&db, dice);
    assert!(rows_of(&last) == rows, "the clone's clone");
    assert_clean(&db);
    let used = |db: &Db| {
        churn(db, &mut Dice::new(seed));
        db.stats().space_live_bytes + db.stats().space_kept_bytes
    };
    let with = used(&db);
    drop(last);
    db.drop_tree("last").unwrap();
    let without = used(&db);
    assert!(without + 300 * 240 / 2 < with, "{with} bytes with the clone, {without} without");
    assert_clean(&db);
    db.close().unwrap();
}

/// The clone is dropped, its parent has other rows by then, and only the snapshot shows what the
/// clone inherited. Rule: I19.
fn a_snapshot_keeps_pages_inherited_by_a_dropped_clone(seed: u64) {
    let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let parent = db.create_tree("parent", Default::default()).unwrap();
    let rows = fill(&db, &parent, dice, 300, 240);
    db.checkpoint().unwrap();
    db.clone_tree("parent", "clone").unwrap();
    fill(&db, &parent, dice, 300, 240);
    db.checkpoint().unwrap();
    db.create_snapshot("then").unwrap();
    db.drop_tree("clone").unwrap();
    churn(&db, dice);
    assert_clean(&db);
    drop(parent);
    db.close().unwrap();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    churn(&db, dice);
    let then = db.open_snapshot("then").unwrap();
    assert!(rows_at(&then, &then.open_tree("clone").unwrap()) == rows, "the clone's rows");
    assert_clean(&db);
}

/// A checkpoint writes the roots that changed, including those of trees far apart in the catalog.
/// Rule: I16.
fn every_changed_root_is_in_the_next_slot(seed: u64) {
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let mut change = db.change_trees();
    let names: Vec<String> = (0..300).map(|tree| format!("tree {tree}")).collect();
    for name in &names {
        change.create(name, Default::default());
    }
    change.commit().unwrap();
    for round in 0..3u8 {
        for at in [0, 70, 140, 299] {
            db.open_tree(&names[at]).unwrap().put(&[round], &[at as u8]).unwrap();
            db.checkpoint().unwrap();
        }
    }
    db.drop_tree(&names[140]).unwrap();
    db.checkpoint().unwrap();
    // Two checkpoints, so that no slot needs the log in which the rows are.
    db.checkpoint().unwrap();
    let db = Db::open("/store", options(&SimVfs::start(vfs.disk().after_kill()), seed)).unwrap();
    for at in [0, 70, 299] {
        let found = rows_of(&db.open_tree(&names[at]).unwrap());
        assert_eq!(found.len(), 3, "tree {at}: {found:?}");
    }
    assert!(matches!(db.open_tree(&names[140]), Err(Error::NoSuchTree(_))));
    assert_clean(&db);
}

/// The memtable in the middle of which a snapshot was taken is spilled: what was committed to it
/// before stays readable, long values too, and nothing else does. Rule: I28.
fn a_spilled_snapshot_shows_only_earlier_commits(seed: u64) {
    let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
    let engine = DbEngine::tiny(Durability::Lazy);
    let mut tuning = engine.tuning;
    let limits = tuning.limits.take().unwrap();
    tuning.limits = Some(Limits { memtable_bytes: 256 << 10, ..limits });
    let options = Options::new().cache_size(engine.cache_bytes).tuning(tuning).env(vfs.env(seed));
    let db = Db::open("/store", options.durability(Durability::Lazy)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut rows = fill(&db, &tree, dice, 40, 100);
    let long = random(dice, 3000);
    tree.put(b"long", &long).unwrap();
    rows.insert(b"long".to_vec(), long);
    let snapshot = db.snapshot();
    fill(&db, &tree, dice, 50, 100);
    tree.put(b"long", &random(dice, 3000)).unwrap();
    for _ in 0..50 {
        tree.put(b"more", b"").unwrap();
        db.checkpoint().unwrap();
        while db.step().unwrap() {}
        if db.stats().snapshot_spills > 0 {
            break;
        }
    }
    assert!(db.stats().snapshot_spills > 0, "spilled");
    churn(&db, dice);
    assert!(rows_at(&snapshot, &tree) == rows, "the snapshot moved");
    drop(snapshot);
    assert_eq!(db.stats().space_temporary_bytes, 0);
    db.close().unwrap();
}

/// A full backup and an increment contain every row, short and long.
fn backups_contain_everything(seed: u64) {
    let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
    let db = Db::open("/store", options(&vfs, seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    fill(&db, &tree, dice, 200, 100);
    tree.put(b"long", &random(dice, 3000)).unwrap();
    let full = db.backup("/full").unwrap();
    fill(&db, &tree, dice, 60, 100);
    tree.put(b"longer", &random(dice, 5000)).unwrap();
    db.backup_since(&full.id, "/more").unwrap();
    let rows = rows_of(&tree);
    db.close().unwrap();
    drop((tree, db));
    let backup = frond::backup::Backup::new("/full").increment("/more").env(vfs.env(seed));
    backup.restore("/again").unwrap();
    let db = Db::open("/again", options(&vfs, seed)).unwrap();
    assert!(rows_of(&db.open_tree("t").unwrap()) == rows, "the restored store");
    assert_clean(&db);
    db.close().unwrap();
}

/// A backup of a damaged store fails instead of copying the damage as if it were sound. Promise:
/// P9.
fn backups_refuse_damage(seed: u64) {
    use frond::internals::io::{Env, Workers};
    let dir = tempfile::tempdir().unwrap();
    let dice = &mut Dice::new(seed);
    let env = Env { workers: Workers::Manual, ..Env::real() };
    let engine = DbEngine::tiny(Durability::Lazy);
    let options = Options::new().tuning(engine.tuning).durability(Durability::Lazy).env(env);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let value = random(dice, 200);
    tree.put(b"k", &value).unwrap();
    db.checkpoint().unwrap();
    let path = dir.path().join("store").join("store.frond");
    let mut bytes = std::fs::read(&path).unwrap();
    let found: Vec<usize> =
        (0..bytes.len() - 32).filter(|&at| bytes[at..at + 32] == value[..32]).collect();
    assert!(!found.is_empty(), "an incompressible value stands in its block as it is");
    found.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(&path, &bytes).unwrap();
    let copied = db.backup(dir.path().join("copy"));
    assert!(copied.is_err(), "damage was copied");
    drop(tree);
    let _ = db.close();
}
