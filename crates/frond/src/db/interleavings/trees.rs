//! Changes that remove trees, concurrently with batches, readers and applies.
//!
//! Each scenario runs one change; a writer keeps a ledger of what was acknowledged, a reader
//! compares answers from one snapshot, and a third thread applies memtables, so that the tree's
//! root can vanish at any moment.

use super::*;
use crate::{
    IndexSpec, TableSpec,
    layout::{Hint, Layout, NewPart, Part},
};

/// Rows that exist from the start.
const ROWS: u8 = 3;

fn open(env: &Env) -> Db {
    Db::open("/store", options(env)).unwrap()
}

/// A tree whose rows all stay.
fn filled(db: &Db, name: &str, options: TreeOptions) -> Tree {
    let tree = db.create_tree(name, options).unwrap();
    let mut batch = Batch::new();
    for row in 0..ROWS {
        batch.put(&tree, &[row], &[0, 0, row]).unwrap();
    }
    db.commit(&mut batch).unwrap();
    tree
}

/// Puts pairs of rows into the tree that has this name at the time. Returns which pairs were
/// acknowledged, and the tree that each went into.
fn write_pairs(db: &Db, name: &str, writer: u8) -> Vec<(u8, TreeId)> {
    let mut acknowledged = Vec::new();
    for round in 0..2u8 {
        let pair = 10 * (writer + 1) + 2 * round;
        let Ok(tree) = db.open_tree(name) else { continue };
        let put = |batch: &mut Batch| -> Result<Seqno> {
            batch.put(&tree, &[pair], &[0, 0, pair])?;
            batch.put(&tree, &[pair + 1], &[0, 0, pair])?;
            db.commit(batch)
        };
        match put(&mut Batch::new()) {
            Ok(_) => acknowledged.push((pair, tree.id())),
            Err(Error::NoSuchTree(told)) => assert_eq!(told, name, "a name that the caller knows"),
            // A batch is a transaction of one call while a change is made.
            Err(Error::Deadlock { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

fn keys(snapshot: &Snapshot, tree: &Tree) -> Result<Vec<u8>> {
    let mut cursor = snapshot.scan(tree, ..)?;
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next()? {
        keys.push(key[0]);
    }
    Ok(keys)
}

/// Asserts that all of the first rows are found by each way to read, or that the tree is not.
fn must_see_all_or_none(db: &Db, tree: &Tree) {
    let is_missed = |error: &Error| match error {
        Error::NoSuchTree(name) => name == "t",
        Error::DefinitionChanged(name) => name == "t",
        _ => false,
    };
    let must_be_whole = |what: &str, rows: Result<u64>| match rows {
        Ok(rows) => assert!(rows >= u64::from(ROWS), "{what}: {rows} rows"),
        Err(error) => assert!(is_missed(&error), "{what}: {error}"),
    };
    let snapshot = db.snapshot();
    let first = keys(&snapshot, tree);
    thread::yield_now();
    match (&first, keys(&snapshot, tree)) {
        // A snapshot never changes its answer.
        (Ok(first), Ok(again)) => assert_eq!(*first, again),
        (Err(first), Err(again)) => assert!(is_missed(first) && is_missed(&again), "{again}"),
        // The tree was born again, under the same handle, by a later change (I43).
        (Ok(_), Err(Error::DefinitionChanged(_))) => {}
        (first, again) => panic!("{first:?}, then {again:?}"),
    }
    must_be_whole("snapshot", first.map(|keys| keys.len() as u64));
    must_be_whole("row count", tree.row_count().map(|count| count.rows));
    must_be_whole("get", tree.get(&[1]).map(|row| if row.is_some() { 9 } else { 0 }));
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        let scanned = || -> Result<u64> {
            let mut cursor = txn.scan(tree, ..)?;
            let mut rows = 0;
            while cursor.next()?.is_some() {
                rows += 1;
            }
            Ok(rows)
        };
        must_be_whole("transaction", scanned());
        must_be_whole("its get", txn.get(tree, &[1]).map(|row| if row.is_some() { 9 } else { 0 }));
    }
}

/// Like [`must_see_all_or_none`], for a locking scan, which locks nothing where it finds no rows.
fn must_lock_all_or_none(db: &Db, tree: &Tree) {
    let isolation = Isolation::ReadCommitted;
    let txn = db.begin(TxnOptions::new().isolation(isolation).lock_timeout(None)).unwrap();
    let scanned = || -> Result<u8> {
        let mut cursor = txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Shared))?;
        let mut rows = 0;
        while cursor.next()?.is_some() {
            rows += 1;
        }
        Ok(rows)
    };
    match scanned() {
        Ok(rows) => assert!(rows >= ROWS, "{rows} rows"),
        Err(Error::NoSuchTree(name)) => assert_eq!(name, "t"),
        Err(error) => panic!("{error}"),
    }
}

/// Makes a change. Returns the trees that may then have rows of the old tree and its successor, and
/// whether the old tree's rows still exist.
type Changed = fn(&Db) -> (&'static [&'static str], bool);

/// Runs a writer, a reader, a thread that applies, and one change concurrently.
fn change_concurrently_with_all(changed: Changed) {
    let env = env();
    let db = open(&env);
    let tree = filled(&db, "t", TreeOptions::default());
    let writing = {
        let db = db.clone();
        thread::spawn(move || write_pairs(&db, "t", 0))
    };
    let applying = {
        let db = db.clone();
        thread::spawn(move || {
            for _ in 0..3 {
                db.step().unwrap();
            }
        })
    };
    let reading = {
        let (db, tree) = (db.clone(), tree.clone());
        thread::spawn(move || {
            must_see_all_or_none(&db, &tree);
            must_lock_all_or_none(&db, &tree);
        })
    };
    let (places, old_is_kept) = changed(&db);
    let acknowledged = writing.join().unwrap();
    applying.join().unwrap();
    reading.join().unwrap();
    must_have(&db, places, &acknowledged, (!old_is_kept).then(|| tree.id()));
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(db.lock_stats().locks, 0);
}

/// Asserts that each acknowledged pair is in one of the trees and no other pair is, except those
/// put into the tree that is gone.
fn must_have(db: &Db, places: &[&str], acknowledged: &[(u8, TreeId)], gone: Option<TreeId>) {
    let mut found = Vec::new();
    for name in places {
        let tree = db.open_tree(name).unwrap();
        found.extend(keys(&db.snapshot(), &tree).unwrap());
    }
    found.sort_unstable();
    let expected = acknowledged.iter().filter(|(_, into)| Some(*into) != gone);
    let mut expected: Vec<u8> = expected.flat_map(|(pair, _)| [*pair, pair + 1]).collect();
    if gone.is_none() {
        expected.extend(0..ROWS);
    }
    expected.sort_unstable();
    assert_eq!(found, expected, "acknowledged: {acknowledged:?}");
}

fn a_clone_and_a_truncation() {
    change_concurrently_with_all(|db| {
        db.change_trees().clone_tree("t", "archive").truncate("t").commit().unwrap();
        (&["archive", "t"], true)
    });
}

#[test]
fn a_batch_is_in_the_clone_or_is_refused_when_its_tree_is_truncated() {
    explore(400, a_clone_and_a_truncation);
}

fn a_clone_and_a_drop() {
    change_concurrently_with_all(|db| {
        let mut change = db.change_trees();
        change.clone_tree("t", "archive").drop_tree("t").create("t", TreeOptions::default());
        change.commit().unwrap();
        (&["archive", "t"], true)
    });
}

#[test]
fn a_batch_is_in_the_clone_or_is_refused_when_its_tree_is_dropped() {
    explore(300, a_clone_and_a_drop);
}

/// A clone takes the tree's name, as in an ALTER that copies the table.
fn a_clone_that_takes_the_name() {
    change_concurrently_with_all(|db| {
        let mut change = db.change_trees();
        change.clone_tree("t", "next").drop_tree("t").rename("next", "t").commit().unwrap();
        (&["t"], true)
    });
}

#[test]
fn a_batch_is_in_the_clone_that_takes_over_its_trees_name() {
    explore(300, a_clone_that_takes_the_name);
}

fn a_drop() {
    change_concurrently_with_all(|db| {
        db.drop_tree("t").unwrap();
        (&[], false)
    });
}

#[test]
fn readers_see_all_rows_of_a_tree_or_that_it_is_dropped() {
    explore(400, a_drop);
}

fn a_truncation() {
    change_concurrently_with_all(|db| {
        db.change_trees().truncate("t").commit().unwrap();
        (&["t"], false)
    });
}

#[test]
fn readers_see_all_rows_of_a_tree_or_that_it_is_truncated() {
    explore(300, a_truncation);
}

/// Two trees exchange their names; the other one has as many rows.
fn a_swap() {
    let env = env();
    let db = open(&env);
    let trees = ["t", "u"].map(|name| filled(&db, name, TreeOptions::default()));
    let writing = [0, 1].map(|writer| {
        let db = db.clone();
        let name = ["t", "u"][usize::from(writer)];
        thread::spawn(move || write_pairs(&db, name, writer))
    });
    let reading = {
        let (db, tree) = (db.clone(), trees[0].clone());
        thread::spawn(move || {
            let snapshot = db.snapshot();
            for _ in 0..2 {
                match keys(&snapshot, &tree) {
                    Ok(keys) => assert!(keys.len() >= usize::from(ROWS)),
                    Err(error) => assert!(matches!(error, Error::DefinitionChanged(_)), "{error}"),
                }
                assert!(tree.row_count().unwrap().rows >= u64::from(ROWS));
                assert!(tree.get(&[1]).unwrap().is_some());
            }
        })
    };
    let stepping = db.clone();
    let applying = thread::spawn(move || {
        for _ in 0..3 {
            stepping.step().unwrap();
        }
    });
    db.change_trees().swap("t", "u").commit().unwrap();
    let acknowledged: Vec<_> =
        writing.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    reading.join().unwrap();
    applying.join().unwrap();
    for tree in &trees {
        let own = acknowledged.iter().filter(|(_, into)| *into == tree.id());
        let mut expected: Vec<u8> = own.flat_map(|(pair, _)| [*pair, pair + 1]).collect();
        expected.extend(0..ROWS);
        expected.sort_unstable();
        assert_eq!(keys(&db.snapshot(), tree).unwrap(), expected);
    }
}

#[test]
fn swapped_trees_keep_all_rows() {
    explore(300, a_swap);
}

/// The layout changes: readers of the old layout see all rows, or get an error that it has changed.
fn a_change_of_layout() {
    let env = env();
    let db = open(&env);
    let part = Part::Fixed(1, Hint::Integer);
    let value_layout = Some(Layout::versioned([part]));
    let tree = filled(&db, "t", TreeOptions::new().value_layout(value_layout));
    let writing = {
        let (db, tree) = (db.clone(), tree.clone());
        thread::spawn(move || {
            let mut batch = Batch::new();
            batch.put(&tree, &[20], &[0, 0, 20]).unwrap();
            batch.put(&tree, &[21], &[0, 0, 20]).unwrap();
            db.commit(&mut batch).unwrap();
        })
    };
    let reading = {
        let (db, tree) = (db.clone(), tree.clone());
        thread::spawn(move || must_see_all_or_none(&db, &tree))
    };
    let stepping = db.clone();
    let applying = thread::spawn(move || {
        for _ in 0..3 {
            stepping.step().unwrap();
        }
    });
    let parts = [NewPart::Add { part, default: vec![7] }, NewPart::Keep(1)];
    let now = db.change_layout("t", &parts, None).unwrap();
    now.put(&[30], &[0, 1, 8, 30]).unwrap();
    writing.join().unwrap();
    reading.join().unwrap();
    applying.join().unwrap();
    let expected: Vec<u8> = (0..ROWS).chain([20, 21, 30]).collect();
    assert_eq!(keys(&db.snapshot(), &now).unwrap(), expected);
    assert_eq!(now.get(&[20]).unwrap(), Some(vec![0, 1, 7, 20]));
}

#[test]
fn readers_of_an_older_layout_see_all_rows_or_that_it_has_changed() {
    explore(300, a_change_of_layout);
}

/// A load fills a tree that is empty when the load starts. A batch commits before the load ends:
/// then either the load is refused, or the batch, because its tree is gone.
fn a_load_into_an_empty_tree() {
    let env = env();
    let db = open(&env);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut load = db.bulk_load_into(&tree).unwrap();
    for row in 0..ROWS {
        load.put(&[row], &[0, 0, row]).unwrap();
    }
    let writing = {
        let db = db.clone();
        thread::spawn(move || write_pairs(&db, "t", 0))
    };
    let reading = {
        let (db, tree) = (db.clone(), tree.clone());
        thread::spawn(move || {
            let snapshot = db.snapshot();
            let first = keys(&snapshot, &tree);
            thread::yield_now();
            match (first, keys(&snapshot, &tree)) {
                (Ok(first), Ok(again)) => assert_eq!(first, again),
                (Err(Error::NoSuchTree(_)), Err(Error::NoSuchTree(_))) => {}
                (first, again) => panic!("{first:?}, then {again:?}"),
            }
        })
    };
    let stepping = db.clone();
    let applying = thread::spawn(move || {
        for _ in 0..3 {
            stepping.step().unwrap();
        }
    });
    let finished = load.finish();
    let acknowledged = writing.join().unwrap();
    reading.join().unwrap();
    applying.join().unwrap();
    let mut expected: Vec<u8> =
        acknowledged.iter().flat_map(|(pair, _)| [*pair, pair + 1]).collect();
    match &finished {
        Ok(_) => {
            assert!(acknowledged.iter().all(|(_, into)| *into != tree.id()), "{acknowledged:?}");
            expected.extend(0..ROWS);
        }
        Err(error) => assert!(matches!(error, Error::TreeNotEmpty(_)), "{error}"),
    }
    expected.sort_unstable();
    let now = db.open_tree("t").unwrap();
    assert_eq!(keys(&db.snapshot(), &now).unwrap(), expected, "{finished:?}");
}

#[test]
fn a_batch_prevents_a_load_into_its_tree_or_is_refused() {
    explore(300, a_load_into_an_empty_tree);
}

/// An index is built and dropped while others read by it and write the table.
fn an_index_built_and_dropped() {
    let env = env();
    let db = open(&env);
    let table = db.table(TableSpec::new("t")).unwrap();
    let begin = |isolation| {
        let options = TxnOptions::new().isolation(isolation).lock_timeout(None);
        db.begin(options).unwrap()
    };
    let txn = begin(Isolation::RepeatableRead);
    (0..ROWS).for_each(|row| table.insert(&txn, &[row], &[row % 2]).unwrap());
    txn.commit().unwrap();
    let spec = || {
        IndexSpec::new("i", |_, row, out| {
            out.extend_from_slice(row);
            Ok(true)
        })
    };
    table.build_index(spec()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
                let txn = begin(isolation);
                let index = match table.index("i") {
                    Ok(index) => index,
                    Err(Error::TableMismatch { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let scanned = || -> Result<u8> {
                    let mut scan = index.scan(&txn, ..)?;
                    let mut rows = 0;
                    while scan.next()?.is_some() {
                        rows += 1;
                    }
                    Ok(rows)
                };
                match scanned() {
                    Ok(rows) => assert!(rows >= ROWS, "{isolation:?}: {rows} rows by the index"),
                    Err(Error::NoSuchTree(name) | Error::DefinitionChanged(name)) => {
                        assert_eq!(name, "index i of table t");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        scope.spawn(|| {
            let txn = begin(Isolation::ReadCommitted);
            table.insert(&txn, &[20], &[1]).unwrap();
            txn.commit().unwrap();
        });
        scope.spawn(|| {
            for _ in 0..3 {
                db.step().unwrap();
            }
        });
        table.drop_index("i").unwrap();
        table.build_index(spec()).unwrap();
    });
    assert!(table.check().unwrap().is_clean());
    let txn = begin(Isolation::ReadCommitted);
    let index = table.index("i").unwrap();
    let mut scan = index.scan(&txn, ..).unwrap();
    let mut rows = 0;
    while scan.next().unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, ROWS + 1);
}

#[test]
fn scans_by_an_index_see_all_rows_or_that_it_is_dropped() {
    explore(150, an_index_built_and_dropped);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "db: batches run concurrently with changes of trees" =>
            a_batch_is_in_the_clone_or_is_refused_when_its_tree_is_truncated,
        "db: trees are given back before their change is made" =>
            a_batch_is_in_the_clone_that_takes_over_its_trees_name,
    };
    crate::plant::assert_claims_hold("schedules of trees", claims);
}
