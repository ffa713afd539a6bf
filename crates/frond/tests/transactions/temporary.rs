//! Temporary trees: written as part of transactions, private, and gone without a trace.

use std::collections::BTreeMap;

use frond::{
    Duplicate, RowBuf, RowCount, Savepoint, TemporaryTree,
    layout::{End, Hint, Layout, Part},
    transaction::{TemporaryEntry, Xid},
};
use frond_testkit::{Dice, effort};

use super::{large::small_store, *};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows_of(tree: &TemporaryTree, forward: bool) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = tree.scan(..).unwrap();
    if !forward {
        cursor.seek_last();
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        let ordered = |last: &Vec<u8>| (last.as_slice() < key) == forward;
        assert!(last.as_ref().is_none_or(ordered), "in order, each once");
        last = Some(key.to_vec());
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn same(tree: &TemporaryTree, expected: &Rows, forward: bool, what: &str) {
    let found = rows_of(tree, forward);
    let keys = found.keys().chain(expected.keys());
    let differs = keys.filter(|key| found.get(*key) != expected.get(*key)).min();
    assert!(
        differs.is_none(),
        "{what}: of {} and {} rows, {differs:?}",
        found.len(),
        expected.len()
    );
}

fn stat(db: &Db, name: &str) -> u64 {
    db.stats().get(name).unwrap()
}

/// An open transaction, and the content of the trees at each point to which it can roll back.
struct Going {
    txn: Txn,
    began: Vec<Rows>,
    statement: Option<Vec<Rows>>,
    savepoints: Vec<(Savepoint, Vec<Rows>)>,
}

/// Two temporary trees and a durable one, whose transactions spill all the time. Rules: I44, I50.
#[test]
fn temporary_trees_follow_commits_and_rollbacks() {
    for seed in effort::seeds(6) {
        let dice = &mut Dice::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let db = small_store(dir.path(), *dice.pick(&[300, 2000, 20_000]));
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let trees = [(); 2].map(|()| db.create_temporary(TreeOptions::default()).unwrap());
        let mut rows = vec![Rows::new(), Rows::new(), Rows::new()];
        let mut going: Option<Going> = None;
        for step in 0..1500 {
            let what = format!("seed {seed}, step {step}");
            let Some(Going { txn, statement, savepoints, .. }) = &mut going else {
                let txn = db.begin(TxnOptions::default()).unwrap();
                let began = rows.clone();
                going = Some(Going { txn, began, statement: None, savepoints: Vec::new() });
                continue;
            };
            let key = vec![b'a' + dice.below(26) as u8; dice.between(1, 3) as usize];
            // Now and then a value that goes to extents of its own.
            let length = if dice.chance(1, 40) { 90_000 } else { *dice.pick(&[3, 60]) };
            let value = vec![dice.below(250) as u8; length];
            let which = dice.below(3) as usize;
            match dice.below(40) {
                0 => {
                    savepoints.push((txn.savepoint().unwrap(), rows.clone()));
                }
                1 if !savepoints.is_empty() => {
                    let at = dice.below(savepoints.len() as u64) as usize;
                    let (savepoint, then) = savepoints[at].clone();
                    txn.rollback_to(&savepoint).unwrap();
                    savepoints.truncate(at + 1);
                    rows.clone_from(&then);
                    txn.statement().begin().unwrap();
                    *statement = Some(rows.clone());
                }
                2 if !savepoints.is_empty() => {
                    let at = dice.below(savepoints.len() as u64) as usize;
                    txn.release(&savepoints[at].0).unwrap();
                    savepoints.truncate(at);
                }
                3 => {
                    txn.statement().begin().unwrap();
                    *statement = Some(rows.clone());
                }
                4 if statement.is_some() => {
                    txn.statement().rollback().unwrap();
                    rows.clone_from(statement.as_ref().unwrap());
                    // The model does not know which of them were made in the statement.
                    savepoints.clear();
                }
                5 => {
                    let Going { txn, began, .. } = going.take().unwrap();
                    match dice.below(3) {
                        0 => drop(txn),
                        _ => {
                            txn.commit().unwrap();
                            continue;
                        }
                    }
                    rows = began;
                }
                6..=10 => {
                    let found = match which {
                        2 => txn.get(&tree, &key).unwrap(),
                        which => trees[which].get(&key).unwrap(),
                    };
                    assert!(found.as_ref() == rows[which].get(&key), "{what}: {key:?}");
                }
                11..=14 => {
                    match which {
                        2 => txn.delete(&tree, &key).unwrap(),
                        which => trees[which].delete(txn, &key).unwrap(),
                    }
                    rows[which].remove(&key);
                }
                15..=17 if which < 2 => match trees[which].insert(txn, &key, &value) {
                    Ok(()) => assert!(rows[which].insert(key, value).is_none(), "{what}"),
                    Err(Error::DuplicateKey(Duplicate::Row { .. })) => {
                        assert!(rows[which].contains_key(&key), "{what}");
                    }
                    Err(other) => panic!("{what}: {other}"),
                },
                _ => {
                    match which {
                        2 => txn.put(&tree, &key, &value).unwrap(),
                        which => trees[which].put(txn, &key, &value).unwrap(),
                    }
                    rows[which].insert(key, value);
                }
            }
            if dice.chance(1, 20) {
                if let Some(Going { txn, statement, .. }) = &mut going {
                    // Scans of a statement see what existed when it started.
                    txn.statement().begin().unwrap();
                    *statement = Some(rows.clone());
                }
                for (tree, rows) in trees.iter().zip(&rows) {
                    same(tree, rows, dice.chance(1, 2), &what);
                }
            }
        }
        if let Some(Going { txn, began, .. }) = going {
            drop(txn);
            rows = began;
        }
        for (tree, rows) in trees.iter().zip(&rows) {
            same(tree, rows, true, "at the end");
            tree.clear().unwrap();
            same(tree, &Rows::new(), true, "cleared");
        }
        // Applies what commits have left in the durable tree's memtables.
        db.checkpoint().unwrap();
        assert_eq!(stat(&db, "space_temporary_bytes"), 0);
        drop(trees);
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
    }
}

/// A temporary tree is not in log, catalog or checkpoint; what it had in the file is free again.
/// Rule: I50.
#[test]
fn a_temporary_tree_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 20_000);
    let counters = ["log_groups", "log_syncs", "store_syncs", "checkpoints"];
    let count = || counters.map(|name| stat(&db, name));
    let before = count();
    let tree = db.create_temporary(TreeOptions::default()).unwrap();
    assert_eq!(stat(&db, "space_temporary_bytes"), 0);
    for round in 0..20u64 {
        let txn = db.begin(TxnOptions::default()).unwrap();
        for row in 0..200u64 {
            tree.put(&txn, &row.to_be_bytes(), &[round as u8; 100]).unwrap();
        }
        match round % 2 {
            0 => assert!(txn.commit().is_ok()),
            _ => txn.rollback(),
        }
    }
    assert_eq!(count(), before, "{counters:?}");
    assert_eq!(db.trees().len(), 0);
    let held = stat(&db, "space_temporary_bytes");
    // The live rows take 20 KiB; overwritten ones are folded away now and then.
    assert!((1..2 << 20).contains(&held), "{held}");
    assert_eq!(tree.get(&7u64.to_be_bytes()).unwrap(), Some(vec![18; 100]));
    drop(tree);
    assert_eq!(stat(&db, "space_temporary_bytes"), 0);
    db.close().unwrap();
}

#[test]
fn one_transaction_at_a_time_writes_a_temporary_tree() {
    let Store { db, tree: rows, _dir } = store(false);
    let tree = db.create_temporary(TreeOptions::default()).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    tree.put(&txn, b"a", b"1").unwrap();
    let other = db.begin(TxnOptions::default()).unwrap();
    let refused = tree.put(&other, b"b", b"2");
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert!(tree.clear().is_err());
    let reads = TxnOptions::new().read_only(true);
    assert!(tree.put(&db.begin(reads).unwrap(), b"b", b"2").is_err());
    // A session sees what it has written, in reads without the transaction too.
    assert_eq!(tree.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(txn);
    assert_eq!(tree.get(b"a").unwrap(), None);
    tree.put(&other, b"b", b"2").unwrap();
    other.put(&rows, b"9", b"9").unwrap();
    // A prepared transaction outlives the session; the temporary tree does not.
    other.prepare(&Xid::new(b"x").unwrap()).unwrap().rollback().unwrap();
    assert_eq!(tree.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(rows.get(b"9").unwrap(), None);
    let elsewhere = store(false);
    assert!(tree.put(&elsewhere.db.begin(TxnOptions::default()).unwrap(), b"b", b"2").is_err());
    tree.clear().unwrap();
    assert_eq!(tree.get(b"b").unwrap(), None);
    // The tree keeps its store open, and can be used until it is dropped.
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(matches!(tree.insert(&txn, b"c", b"1"), Ok(())));
    assert!(matches!(
        tree.insert(&txn, b"c", b"1"),
        Err(Error::DuplicateKey(Duplicate::Row { .. }))
    ));
    txn.commit().unwrap();
}

/// A session may continue in another thread, whose transactions reach the store through another
/// handle.
#[test]
fn transactions_of_any_thread_write_a_temporary_tree() {
    let Store { db, tree: _, _dir } = store(false);
    let tree = db.create_temporary(TreeOptions::default()).unwrap();
    for key in 0..4u8 {
        let (db, shared) = (db.clone(), tree.clone());
        let thread = std::thread::spawn(move || {
            let txn = db.begin(TxnOptions::default()).unwrap();
            shared.put(&txn, &[key], b"v").unwrap();
            txn.commit().unwrap();
        });
        thread.join().unwrap();
        assert!(tree.get(&[key]).unwrap().is_some());
    }
}

/// An interrupt of a transaction reaches its work in temporary trees, but not the rollback of it.
#[test]
fn an_interrupt_reaches_work_in_temporary_trees() {
    let store = store(false);
    for asks_first in [true, false] {
        let tree = store.db.create_temporary(TreeOptions::default()).unwrap();
        let txn = store.begin(Isolation::Snapshot);
        let before = asks_first.then(|| txn.control().interrupter().unwrap());
        (0..10u8).for_each(|key| tree.put(&txn, &[key], b"v").unwrap());
        let interrupter = before.unwrap_or_else(|| txn.control().interrupter().unwrap());
        let is_interrupted = |failed: bool| assert!(failed, "asks first: {asks_first}");
        let mut cursor = tree.scan(..).unwrap();
        assert!(cursor.next().unwrap().is_some());
        interrupter.interrupt();
        is_interrupted(matches!(cursor.next(), Err(Error::Interrupted)));
        is_interrupted(matches!(tree.get(&[1]), Err(Error::Interrupted)));
        is_interrupted(matches!(tree.put(&txn, &[1], b"w"), Err(Error::Interrupted)));
        txn.control().clear_interrupt();
        assert_eq!(cursor.next().unwrap(), Some((&[1][..], &b"v"[..])));
        drop(cursor);
        interrupter.interrupt();
        txn.rollback();
        // The tree has no writer now.
        assert_eq!(tree.get(&[1]).unwrap(), None);
        let next = store.begin(Isolation::Snapshot);
        tree.put(&next, &[1], b"next").unwrap();
        interrupter.interrupt();
        assert_eq!(tree.get(&[1]).unwrap().as_deref(), Some(&b"next"[..]));
        next.commit().unwrap();
        assert_eq!(rows_of(&tree, true).len(), 1);
    }
}

/// Rows with unique entries are there whole or not at all, and are counted; numbers, reads of many
/// keys and estimates work as in durable trees.
#[test]
fn a_temporary_table_has_rows_indexes_and_numbers() {
    let store = store(false);
    let db = &store.db;
    let make = || db.create_temporary(TreeOptions::default()).unwrap();
    let (rows, names, towns) = (make(), make(), make());
    let txn = store.begin(Isolation::RepeatableRead);
    let insert = |id: u64, name: &[u8], town: &[u8]| {
        let id = id.to_be_bytes();
        let by_town = [town, &id].concat();
        let entry = |tree, key, value, unique| TemporaryEntry { tree, key, value, unique };
        txn.row_writer().insert_temporary(&[
            entry(&rows, &id, name, true),
            entry(&towns, &by_town, b"", false),
            entry(&names, name, &id, true),
        ])
    };
    let counts = || {
        let count =
            |tree: &TemporaryTree| (tree.row_count().unwrap(), rows_of(tree, true).len() as u64);
        for (counted, walked) in [count(&rows), count(&names), count(&towns)] {
            assert_eq!(counted, RowCount { rows: walked, exact: true });
        }
        rows.row_count().unwrap().rows
    };
    assert_eq!(counts(), 0);
    let ids = rows.reserve(1, 1, 100).unwrap();
    for id in ids {
        assert_eq!(insert(id, format!("name {id}").as_bytes(), b"town").unwrap(), None);
    }
    assert_eq!(
        (counts(), rows.next_number(1).unwrap(), rows.next_number(0).unwrap()),
        (100, 101, 1)
    );
    // Conflicts come in the order of the entries, and nothing is left of the row.
    let conflict = insert(7, b"name 8", b"city").unwrap().unwrap();
    assert_eq!((conflict.index, &conflict.value[..]), (0, &b"name 7"[..]));
    let conflict = insert(101, b"name 8", b"city").unwrap().unwrap();
    assert_eq!((conflict.index, &conflict.value[..]), (2, &8u64.to_be_bytes()[..]));
    assert_eq!(counts(), 100);
    // An invalid name is only detected after the row's own entry.
    assert!(matches!(
        insert(101, &vec![b'n'; (1 << 16) + 1], b"city"),
        Err(Error::KeyTooLong { .. })
    ));
    // A row with one entry twice conflicts with itself.
    let twice = TemporaryEntry { tree: &names, key: b"same", value: b"one", unique: true };
    let conflict =
        txn.row_writer().insert_temporary(&[twice, TemporaryEntry { value: b"two", ..twice }]);
    let conflict = conflict.unwrap().unwrap();
    assert_eq!((conflict.index, &conflict.value[..]), (1, &b"one"[..]));
    assert_eq!(counts(), 100);
    // Estimates are exact about existing and absent rows here.
    let of =
        |from: u64, to: u64| rows.estimate(&from.to_be_bytes()[..]..&to.to_be_bytes()[..]).unwrap();
    assert_eq!((of(101, 200).rows, of(10, 20).rows), (0, 10));
    assert!(of(1, 101).rows == 100 && of(1, 101).bytes > of(1, 20).bytes);
    let keys = [30u64, 500, 2].map(u64::to_be_bytes);
    let found = rows.get_many(&keys).unwrap();
    let expected = [Some(b"name 30".to_vec()), None, Some(b"name 2".to_vec())];
    assert_eq!(found, expected);
    // A rollback to a savepoint restores counts, but not allocated numbers.
    let before = txn.savepoint().unwrap();
    assert_eq!(insert(101, b"late", b"town").unwrap(), None);
    names.delete(&txn, b"name 1").unwrap();
    assert_eq!(names.get(b"name 1").unwrap(), None);
    txn.rollback_to(&before).unwrap();
    assert_eq!(counts(), 100);
    txn.commit().unwrap();
    assert_eq!(counts(), 100);
    rows.clear().unwrap();
    assert_eq!(rows.row_count().unwrap(), RowCount { rows: 0, exact: true });
    assert_eq!(rows.next_number(1).unwrap(), 101);
    let txn = store.begin(Isolation::RepeatableRead);
    rows.put(&txn, b"unknown", b"").unwrap();
    let count = rows.row_count().unwrap();
    assert!(count.rows >= 1 && !count.exact, "it was not counted");
    drop(txn);
    assert!(matches!(rows.reserve(4, 1, 1), Err(Error::InvalidArgument(_))));
    store.is_idle();
}

/// A temporary tree with so many rows that most are spilled, or few; and those rows.
fn filled(db: &Db, txn: &Txn, count: u64) -> (TemporaryTree, Rows) {
    let tree = db.create_temporary(TreeOptions::default()).unwrap();
    let mut rows = Rows::new();
    for number in 0..count {
        let (key, value) = (number.to_be_bytes().to_vec(), vec![number as u8; 40]);
        tree.put_absent(txn, &key, &value).unwrap();
        rows.insert(key, value);
    }
    (tree, rows)
}

/// Runs a check with rows in memory, and with spilled rows.
fn with_filled(check: impl Fn(&Txn, &TemporaryTree, Rows)) {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 16_000);
    for count in [20, 500] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        let (tree, rows) = filled(&db, &txn, count);
        assert_eq!(stat(&db, "space_temporary_bytes") > 0, count == 500);
        check(&txn, &tree, rows);
        txn.commit().unwrap();
    }
}

#[test]
fn reads_of_a_temporary_tree_are_those_of_other_trees() {
    with_filled(|txn, tree, rows| {
        let count = rows.len() as u64;
        let long = vec![b'y'; 100_000];
        tree.put(txn, b"long", &long).unwrap();
        tree.delete(txn, 3u64.to_be_bytes()).unwrap();
        let (mut value, mut piece) = (b"old".to_vec(), [0; 7]);
        for number in [0, 3, count - 1, count] {
            let key = number.to_be_bytes();
            let expected = rows.get(&key[..]).filter(|_| number != 3);
            assert_eq!(tree.get(key).unwrap().as_ref(), expected);
            assert_eq!(tree.contains(key).unwrap(), expected.is_some());
            assert_eq!(tree.get_into(key, &mut value).unwrap(), expected.is_some());
            assert_eq!(value, expected.cloned().unwrap_or_default());
            let found = tree.get_at(key, 38, &mut piece).unwrap();
            assert_eq!(found, expected.map(|_| 2));
        }
        assert_eq!(tree.get_at(b"long", 99_998, &mut piece).unwrap(), Some(2));
        assert_eq!(piece[..2], long[..2]);
        assert_eq!(tree.get(b"long").unwrap().as_deref(), Some(&long[..]));
        assert!(matches!(tree.get(vec![0; 1 << 17]), Err(Error::KeyTooLong { .. })));
    });
}

#[test]
fn counts_of_a_temporary_tree_are_those_of_its_rows() {
    with_filled(|txn, tree, rows| {
        let count = rows.len() as u64;
        let exact = |rows| RowCount { rows, exact: true };
        assert_eq!(tree.row_count().unwrap(), exact(count));
        assert_eq!(tree.count(..).unwrap(), count);
        let (from, to) = (5u64.to_be_bytes(), 12u64.to_be_bytes());
        assert_eq!(tree.count(&from[..]..&to[..]).unwrap(), 7);
        tree.delete(txn, 6u64.to_be_bytes()).unwrap();
        assert_eq!(tree.count(&from[..]..&to[..]).unwrap(), 6);
        assert_eq!(tree.row_count().unwrap(), exact(count - 1));
        assert_eq!(tree.count(&to[..]..&to[..]).unwrap(), 0);
    });
}

#[test]
fn ranges_of_a_temporary_tree_are_deleted_whole_or_not_at_all() {
    with_filled(|txn, tree, mut rows| {
        let (from, to) = (5u64.to_be_bytes(), 15u64.to_be_bytes());
        let before = txn.savepoint().unwrap();
        assert_eq!(tree.delete_range(txn, &from[..]..&to[..]).unwrap(), 10);
        assert_eq!(tree.delete_range(txn, &from[..]..&to[..]).unwrap(), 0);
        assert_eq!(tree.row_count().unwrap().rows, rows.len() as u64 - 10);
        txn.rollback_to(&before).unwrap();
        same(tree, &rows, true, "rolled back");
        // A statement does not delete what it has put.
        txn.statement().begin().unwrap();
        tree.put(txn, b"new", b"").unwrap();
        assert_eq!(tree.delete_range(txn, ..).unwrap(), rows.len() as u64);
        same(tree, &Rows::new(), true, "what the statement sees");
        txn.statement().begin().unwrap();
        rows.clear();
        rows.insert(b"new".to_vec(), Vec::new());
        same(tree, &rows, false, "all but one deleted");
        let interrupter = txn.control().interrupter().unwrap();
        interrupter.interrupt();
        assert!(matches!(tree.delete_range(txn, ..), Err(Error::Interrupted)));
        txn.control().clear_interrupt();
        same(tree, &rows, true, "nothing deleted");
        assert!(tree.delete_range(txn, &b"b"[..]..&b"a"[..]).is_err());
    });
}

#[test]
fn operands_fold_into_rows_of_a_temporary_tree() {
    with_filled(|txn, tree, mut rows| {
        let add = |key: &[u8], number: u64| {
            tree.merge(txn, key, operator::ADD, number.to_be_bytes()).unwrap();
        };
        let number = |number: u64| number.to_be_bytes().to_vec();
        (0..30u64).for_each(|times| add(b"sum", times));
        tree.put(txn, b"known", 7u64.to_be_bytes()).unwrap();
        add(b"known", 5);
        add(b"gone", 1);
        tree.delete(txn, b"gone").unwrap();
        add(b"gone", 2);
        // More writes, so that operands are spilled before the last of them.
        for (key, value) in &rows {
            tree.put(txn, key, value).unwrap();
        }
        add(b"sum", 1000);
        for (key, sum) in [("sum", 1435), ("gone", 2), ("known", 12)] {
            rows.insert(key.into(), number(sum));
        }
        for key in [&b"sum"[..], b"gone", b"known"] {
            assert_eq!(tree.get(key).unwrap().as_ref(), rows.get(key));
            assert!(tree.contains(key).unwrap());
        }
        same(tree, &rows, true, "merged");
        same(tree, &rows, false, "merged");
        let unknown = tree.merge(txn, b"sum", 200, b"");
        assert!(matches!(unknown, Err(Error::MissingOperator(200))), "{unknown:?}");
    });
}

#[test]
fn scans_of_a_temporary_tree_have_the_calls_of_other_scans() {
    with_filled(|txn, tree, rows| {
        let count = rows.len();
        let listed: Result<Rows, Error> = tree.range(..).collect();
        assert_eq!(listed.unwrap(), rows);
        let mut cursor = tree.scan(..).unwrap();
        let (mut found, mut piece) = (0, RowBuf::new());
        while cursor.read_batch(true, &mut piece, 7).unwrap() > 0 {
            let expected = rows.iter().skip(found).take(piece.len());
            let expected = expected.map(|(key, value)| (&key[..], &value[..]));
            assert!(piece.iter().eq(expected));
            found += piece.len();
        }
        assert_eq!(found, count);
        // The nearest row is the last of a batch that goes down.
        assert_eq!(cursor.read_batch(false, &mut piece, 2).unwrap(), 2);
        let last = rows.keys().next_back().unwrap();
        assert_eq!(piece.get(1).unwrap().0, &last[..]);
        assert!(cursor.still_gives(last).unwrap());
        tree.delete(txn, last).unwrap();
        assert!(!cursor.still_gives(last).unwrap());
        let (from, to) = (5u64.to_be_bytes(), 8u64.to_be_bytes());
        cursor.set_range(&from[..]..&to[..]).unwrap();
        let rest: Result<Vec<_>, Error> = cursor.into_iter().collect();
        assert!(rest.unwrap().iter().map(|(key, _)| key).eq(rows.keys().skip(5).take(3)));
    });
}

#[test]
fn parts_of_values_are_read_in_a_temporary_tree() {
    let Store { db, _dir, .. } = store(false);
    let layout = Layout::new(vec![
        Part::Fixed(2, Hint::Integer),
        Part::Fixed(1, Hint::Integer),
        Part::Var(End::Rest),
    ]);
    let tree = db.create_temporary(TreeOptions::new().value_layout(layout)).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    tree.put(&txn, b"a", b"12345").unwrap();
    tree.put(&txn, b"b", b"1").unwrap();
    let parts = tree.projection(&[2, 0]).unwrap();
    let mut value = Vec::new();
    assert!(tree.get_projected(b"a", &parts, &mut value).unwrap());
    assert_eq!(value, b"1245");
    assert!(!tree.get_projected(b"c", &parts, &mut value).unwrap() && value.is_empty());
    let misfit = tree.get_projected(b"b", &parts, &mut value);
    assert!(matches!(misfit, Err(Error::InvalidArgument(_))) && value.is_empty(), "{misfit:?}");
    let mut cursor = tree.scan(..).unwrap().project(&parts).unwrap();
    assert_eq!(cursor.next().unwrap(), Some((&b"a"[..], &b"1245"[..])));
    assert!(cursor.next().is_err());
    drop(cursor);
    let other = db.create_temporary(TreeOptions::default()).unwrap();
    assert!(other.projection(&[0]).is_err());
    assert!(other.get_projected(b"a", &parts, &mut value).is_err());
}
