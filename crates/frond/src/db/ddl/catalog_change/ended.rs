//! Tests of the interval between the commit of a change that removes a tree and the moment when the
//! catalog shows it.
//!
//! The commit is visible then and may be applied: the current version has no root for the tree,
//! which would look empty. From the commit on, every read of the tree must fail with `NoSuchTree`
//! and the tree's name; a reader at an older snapshot still sees all rows.
//!
//! The tests stop a change there: they commit it, apply it or not, and do not show it.

use super::*;
use crate::{
    Cursor, IfLocked, IndexSpec, Isolation, Options, ReadOptions, RowLock, Snapshot, TableSpec,
    Tree, Txn, TxnCursor, TxnOptions,
    db::{Sees, TreeLock},
    io::{Env, MemoryVfs, Workers},
    layout::{End, Hint, Layout, Part},
};

const ROWS: u8 = 50;
const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn store() -> Db {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs, workers: Workers::Manual, ..Env::real() };
    Db::open("/store", Options::new().cache_size(8 << 20).env(env)).unwrap()
}

/// A tree whose rows are counted, some of them in memory and some in the tree.
fn tree(db: &Db) -> Tree {
    let value_layout = Some(Layout::new(vec![Part::Fixed(1, Hint::None), Part::Var(End::Rest)]));
    let options = TreeOptions::new().unique(true).value_layout(value_layout);
    let tree = db.create_tree("t", options).unwrap();
    for rows in [0..ROWS / 2, ROWS / 2..ROWS] {
        let insert =
            |txn: &Txn| rows.clone().try_for_each(|row| txn.insert(&tree, &[row], &[row, 7, 7, 7]));
        if rows.start > 0 {
            db.checkpoint().unwrap();
        }
        db.transact(insert).unwrap();
    }
    tree
}

/// How a change removes the tree.
#[derive(Clone, Copy, Debug)]
enum How {
    Dropped,
    Truncated,
    /// A clone of the tree takes its name.
    Replaced,
    /// A load replaces it. The tree still has rows here, although a load requires an empty tree.
    Filled,
}

const WAYS: [How; 4] = [How::Dropped, How::Truncated, How::Replaced, How::Filled];

/// Commits the change, without showing it.
fn commit_unshown(db: &Db, make: impl FnOnce(&mut CatalogChange<'_>)) -> Seqno {
    let mut change = db.change_catalog().unwrap();
    make(&mut change);
    let (records, keys, changes) = change.to_commit();
    let seqno = db.shared.change(&records, &keys, &changes).unwrap();
    // Keep what the change holds, as it would be until the change is shown.
    std::mem::forget(changes);
    seqno
}

fn take_away(db: &Db, tree: &Tree, how: How) -> Seqno {
    let id = tree.id();
    let mut load = None;
    if let How::Filled = how {
        let record = tree.entry.record();
        let new = db.change_catalog().unwrap().take_number().unwrap();
        let record = instead_of(record, new, tree.entry.birth());
        let mut filling = db.begin_load(record, Some(tree.clone()));
        filling.put(b"row", b"1").unwrap();
        let loader = filling.loader;
        load = Some((new, loader.finish().unwrap()));
        db.shared.engine.store.sync().unwrap();
    }
    commit_unshown(db, |change| match how {
        How::Dropped => change.drop_tree(id),
        How::Truncated => drop(change.truncate(id).unwrap()),
        How::Replaced => {
            let clone = change.clone_tree(id, "clone").unwrap();
            change.drop_tree(id);
            change.rename(clone, "t").unwrap();
        }
        How::Filled => {
            let (new, made) = load.take().unwrap();
            change.fill(id, new, made).unwrap();
        }
    })
}

fn count(mut cursor: Cursor) -> Result<u64> {
    let mut rows = 0;
    while cursor.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

fn count_back(mut cursor: TxnCursor<'_>) -> Result<u64> {
    let mut rows = 0;
    cursor.seek_last();
    while cursor.prev()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// The name of a way to read, and the result: the number of rows, or the error.
type Seen = (String, Result<u64>);

fn one<T>(found: Result<Option<T>>) -> Result<u64> {
    found.map(|found| u64::from(found.is_some()) * u64::from(ROWS))
}

fn all<T>(found: Result<Vec<Option<T>>>) -> Result<u64> {
    found.map(|found| found.iter().flatten().count() as u64)
}

fn keys() -> Vec<[u8; 1]> {
    (0..ROWS).map(|row| [row]).collect()
}

/// Every way to read with the handle alone.
fn by_handle(tree: &Tree) -> Vec<Seen> {
    let parts = tree.projection(&[0]).unwrap();
    let some = |found: bool| Some(()).filter(|()| found);
    let mut value = Vec::new();
    let mut seen = vec![
        ("get", one(tree.get(&[3]))),
        ("get of a row in memory", one(tree.get(&[33]))),
        ("get_into", one(tree.get_into(&[3], &mut value).map(some))),
        ("get_projected", one(tree.get_projected(&[3], &parts, &mut value).map(some))),
        ("get_at", one(tree.get_at(&[3], 1, &mut [0; 2]))),
        ("contains", one(tree.contains(&[33]).map(some))),
        ("get_many", all(tree.get_many(&keys()))),
        ("scan", tree.scan(..).and_then(count)),
        ("row_count", tree.row_count().map(|count| count.rows)),
        ("distinct_prefixes", tree.distinct_prefixes().map(|counts| counts[0])),
    ];
    // Estimates are only approximate.
    let about = |rows: u64| if rows > 0 { u64::from(ROWS) } else { 0 };
    seen.push(("estimate", tree.estimate(..).map(|held| about(held.rows))));
    seen.into_iter().map(|(what, seen)| (format!("tree: {what}"), seen)).collect()
}

fn at_snapshot(snapshot: &Snapshot, tree: &Tree) -> Vec<Seen> {
    let parts = tree.projection(&[0]).unwrap();
    let some = |found: bool| Some(()).filter(|()| found);
    let mut value = Vec::new();
    let seen = [
        ("get", one(snapshot.get(tree, &[3]))),
        ("get_many", all(snapshot.get_many(tree, &keys()))),
        ("get_projected", one(snapshot.get_projected(tree, &[33], &parts, &mut value).map(some))),
        ("get_at", one(snapshot.get_at(tree, &[3], 1, &mut [0; 2]))),
        ("scan", snapshot.scan(tree, ..).and_then(count)),
    ];
    seen.into_iter().map(|(what, seen)| (format!("snapshot: {what}"), seen)).collect()
}

/// Every way to read in a transaction, each in a new transaction, or in one made by `given`.
fn in_txns(db: &Db, tree: &Tree, given: Option<&dyn Fn(Isolation, bool) -> Txn>) -> Vec<Seen> {
    let parts = tree.projection(&[0]).unwrap();
    let newest = ReadOptions::new().sees(Sees::Newest);
    let of_parts = ReadOptions::new().projection(&parts);
    let last_commit = ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::SemiConsistent);
    let some = |found: bool| Some(()).filter(|()| found);
    let read = |txn: &Txn, options: &ReadOptions<'_>| {
        one(txn.get_with(tree, &[3], options).map(|row| some(row.exists)))
    };
    type Way<'a> = (&'a str, Box<dyn Fn(&Txn) -> Result<u64> + 'a>);
    let plain: Vec<Way<'_>> = vec![
        ("get", Box::new(|txn| one(txn.get(tree, &[3])))),
        ("get_many", Box::new(|txn| all(txn.get_many(tree, &keys())))),
        ("get_with", Box::new(|txn| read(txn, &Default::default()))),
        ("get_with, the newest", Box::new(|txn| read(txn, &newest))),
        ("get_with, parts", Box::new(|txn| read(txn, &of_parts))),
        (
            "get_many_with",
            Box::new(|txn| {
                let rows = txn.get_many_with(tree, &keys(), &newest)?;
                Ok(rows.iter().filter(|row| row.exists).count() as u64)
            }),
        ),
        ("scan back", Box::new(|txn| txn.scan(tree, ..).and_then(count_back))),
        ("scan, the newest", Box::new(|txn| txn.scan_with(tree, .., &newest).and_then(count_back))),
        (
            "estimate",
            Box::new(|txn| txn.estimate(tree, ..).map(|held| held.rows.min(1) * u64::from(ROWS))),
        ),
    ];
    let locking: Vec<Way<'_>> = vec![
        ("get_for_update", Box::new(|txn| one(txn.get_for_update(tree, &[33])))),
        ("get_with a lock", Box::new(|txn| read(txn, &ReadOptions::new().lock(RowLock::Shared)))),
        ("get_with, the last commit", Box::new(|txn| read(txn, &last_commit))),
        (
            "scan_with",
            Box::new(|txn| {
                let scan = txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Shared));
                scan.and_then(count_back)
            }),
        ),
        (
            "scan_with, skipping",
            Box::new(|txn| {
                let options = ReadOptions::new().lock(RowLock::Exclusive);
                let scan = txn.scan_with(tree, .., &options.if_locked(IfLocked::SkipLocked));
                scan.and_then(count_back)
            }),
        ),
        (
            "lock_tree",
            Box::new(|txn| {
                let locked = txn.lock_tree(tree, TreeLock::Shared, IfLocked::Wait);
                locked.map(|()| u64::from(ROWS))
            }),
        ),
    ];
    let mut seen = Vec::new();
    for isolation in LEVELS {
        for read_only in [false, true] {
            let begin = || {
                let options = TxnOptions::new().isolation(isolation).read_only(read_only);
                given
                    .map_or_else(|| db.begin(options).unwrap(), |given| given(isolation, read_only))
            };
            let ways = plain.iter().chain(locking.iter().filter(|_| !read_only));
            for (what, way) in ways {
                let txn = begin();
                seen.push((format!("{isolation:?}, read-only {read_only}: {what}"), way(&txn)));
            }
        }
    }
    seen
}

fn must_all_be(seen: Vec<Seen>, rows: u64, state: &str) {
    for (what, seen) in seen {
        assert!(matches!(seen, Ok(found) if found == rows), "{state}: {what}: {seen:?}");
    }
}

fn must_all_miss(seen: Vec<Seen>, state: &str) {
    for (what, seen) in seen {
        let is_missed = matches!(&seen, Err(Error::NoSuchTree(name)) if name == "t");
        assert!(is_missed, "{state}: {what}: {seen:?}");
    }
}

/// Asserts that each result is all rows, or the right error.
fn must_be_whole(seen: Vec<Seen>, state: &str) {
    for (what, seen) in seen {
        let is_whole = match &seen {
            Ok(rows) => *rows == u64::from(ROWS),
            Err(Error::NoSuchTree(name)) => name == "t",
            Err(_) => false,
        };
        assert!(is_whole, "{state}: {what}: {seen:?}");
    }
}

/// Rule: I43.
#[test]
fn no_read_finds_a_tree_whose_drop_is_committed_but_unpublished() {
    for how in WAYS {
        for is_applied in [false, true] {
            let state = format!("{how:?}, applied: {is_applied}");
            let db = store();
            let tree = tree(&db);
            must_all_be(by_handle(&tree), ROWS.into(), &state);
            must_all_be(in_txns(&db, &tree, None), ROWS.into(), &state);
            let before = db.snapshot();
            let mut half_read = tree.scan(..).unwrap();
            let mut went = 0;
            while went < 20 && half_read.next().unwrap().is_some() {
                went += 1;
            }
            let end = take_away(&db, &tree, how);
            if is_applied {
                db.shared.engine.apply_through(end).unwrap();
            }
            must_all_miss(by_handle(&tree), &state);
            let after = db.snapshot();
            assert!(after.seqno() >= end);
            must_all_miss(at_snapshot(&after, &tree), &state);
            must_all_miss(in_txns(&db, &tree, None), &state);
            assert!(matches!(db.open_tree("t"), Err(Error::NoSuchTree(_))), "{state}");
            // An older snapshot keeps what it shows.
            must_all_be(at_snapshot(&before, &tree), ROWS.into(), &state);
            let then = before.open_tree("t").unwrap();
            must_all_be(at_snapshot(&before, &then), ROWS.into(), &state);
            assert_eq!(went + count(half_read).unwrap(), u64::from(ROWS), "{state}");
        }
    }
}

/// A transaction that took its snapshot before the drop sees all rows, or gets the error.
#[test]
fn a_transaction_older_than_a_drop_sees_all_rows_or_an_error() {
    for is_applied in [false, true] {
        let state = format!("applied: {is_applied}");
        let db = store();
        let tree = tree(&db);
        let other = db.create_tree("other", Default::default()).unwrap();
        // One for each of the ways, with its snapshot.
        let begun = std::cell::RefCell::new(std::collections::VecDeque::new());
        let begin = |isolation, read_only| {
            let txn =
                db.begin(TxnOptions::new().isolation(isolation).read_only(read_only)).unwrap();
            if isolation != Isolation::Serializable {
                txn.get(&other, b"").unwrap();
            }
            txn
        };
        let first = |isolation, read_only| {
            begun.borrow_mut().push_back(begin(isolation, read_only));
            begin(isolation, read_only)
        };
        must_all_be(in_txns(&db, &tree, Some(&first)), ROWS.into(), &state);
        let holding: Vec<Txn> = LEVELS[..3].iter().map(|&level| begin(level, true)).collect();
        let mut cursors = Vec::new();
        for txn in &holding {
            let mut cursor = txn.scan(&tree, ..).unwrap();
            cursor.next().unwrap();
            cursors.push(cursor);
        }
        let end = take_away(&db, &tree, How::Dropped);
        if is_applied {
            db.shared.engine.apply_through(end).unwrap();
        }
        let next = |_, _| begun.borrow_mut().pop_front().unwrap();
        must_be_whole(in_txns(&db, &tree, Some(&next)), &state);
        for mut cursor in cursors {
            let mut rows = 1;
            while cursor.next().unwrap().is_some() {
                rows += 1;
            }
            assert_eq!(rows, ROWS, "{state}");
        }
    }
}

/// A handle from a snapshot reads at snapshots that show its tree, and at no others.
#[test]
fn a_handle_of_a_dropped_tree_reads_at_snapshots_that_show_it() {
    let db = store();
    let tree = tree(&db);
    db.create_snapshot("named").unwrap();
    let first = db.snapshot();
    tree.put(&[7], &[7]).unwrap();
    let second = db.snapshot();
    drop(tree);
    db.drop_tree("t").unwrap();
    let third = db.snapshot();
    let named = db.open_snapshot("named").unwrap();
    for from in [&first, &second, &named] {
        let tree = from.open_tree("t").unwrap();
        for at in [&first, &second, &named] {
            must_all_be(at_snapshot(at, &tree), ROWS.into(), "before the drop");
        }
        must_all_miss(at_snapshot(&third, &tree), "after the drop");
        must_all_miss(by_handle(&tree), "after the drop");
        must_all_miss(in_txns(&db, &tree, None), "after the drop");
    }
}

/// The error for a dropped index names it as its table does.
#[test]
fn no_index_read_finds_only_part_of_the_rows_during_a_drop() {
    for (is_clustering, is_unique) in [(true, false), (false, false), (false, true)] {
        for is_applied in [false, true] {
            let db = store();
            let table = db.table(TableSpec::new("people")).unwrap();
            let put =
                |txn: &Txn| (0..ROWS).try_for_each(|row| table.insert(txn, [row], [row % 7, row]));
            db.transact(put).unwrap();
            let mut spec = IndexSpec::new("city", move |_, row, out| {
                out.extend_from_slice(if is_unique { row } else { &row[..1] });
                Ok(true)
            });
            if is_clustering {
                spec = spec.clustering();
            }
            if is_unique {
                spec = spec.unique();
            }
            table.build_index(spec).unwrap();
            let index = table.index("city").unwrap();
            let before = db.begin(Default::default()).unwrap();
            before.get(table.rows(), &[1]).unwrap();
            let tree = db.trees().into_iter().find(|tree| tree.name.contains("city")).unwrap();
            let end = commit_unshown(&db, |change| change.drop_tree(tree.id));
            if is_applied {
                db.shared.engine.apply_through(end).unwrap();
            }
            let rows_by_index = |txn: &Txn| -> Result<u64> {
                let mut scan = index.scan(txn, ..)?;
                let mut rows = 0;
                while scan.next()?.is_some() {
                    rows += 1;
                }
                Ok(rows)
            };
            let must_be_named = |seen: Result<u64>| match seen {
                Err(Error::NoSuchTree(name)) => {
                    assert_eq!(name, "index city of table people", "clustering {is_clustering}");
                }
                seen => panic!("clustering {is_clustering}, applied {is_applied}: {seen:?}"),
            };
            for isolation in LEVELS {
                for read_only in [false, true] {
                    let options = TxnOptions::new().isolation(isolation).read_only(read_only);
                    let begin = || db.begin(options.clone()).unwrap();
                    must_be_named(rows_by_index(&begin()));
                    if is_unique {
                        must_be_named(one(index.get(&begin(), [3, 3])));
                    }
                    if !read_only {
                        let locked = |txn: &Txn| -> Result<u64> {
                            let options = ReadOptions::new().lock(RowLock::Shared);
                            let mut scan = index.scan_with(txn, .., &options)?;
                            Ok(u64::from(scan.next()?.is_some()))
                        };
                        must_be_named(locked(&begin()));
                    }
                }
            }
            match rows_by_index(&before) {
                Ok(rows) => assert_eq!(rows, u64::from(ROWS)),
                missed => must_be_named(missed),
            }
            assert!(matches!(table.index("city"), Err(Error::TableMismatch { .. })));
            assert!(table.indexes().is_empty());
            assert!(table.check().unwrap().is_clean());
        }
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "db: the end of a tree is not marked" =>
            no_read_finds_a_tree_whose_drop_is_committed_but_unpublished,
        "db: a get does not ask whether its tree has ended" =>
            no_read_finds_a_tree_whose_drop_is_committed_but_unpublished,
        "db: a scan does not ask whether its tree has ended" =>
            no_read_finds_a_tree_whose_drop_is_committed_but_unpublished,
        "db: a count does not ask whether its tree has ended" =>
            no_read_finds_a_tree_whose_drop_is_committed_but_unpublished,
        "db: the end of an index is not marked" =>
            no_index_read_finds_only_part_of_the_rows_during_a_drop,
        "db: the end of a tree that is gone is not known" =>
            a_handle_of_a_dropped_tree_reads_at_snapshots_that_show_it,
    };
    crate::plant::assert_claims_hold("ends of trees", claims);
}
