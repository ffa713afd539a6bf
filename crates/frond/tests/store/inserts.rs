//! Checked inserts among other changes of one key: every sequence of up to four changes, as a
//! batch, in a transaction and through a table, against a model that makes them one after the
//! other.

use std::time::Duration;

use frond::{
    Batch, Db, Duplicate, Durability, Error, Options, Table, TableSpec, Tree, TreeOptions, Txn,
    operator,
};
use frond_testkit::disk::SimVfs;

const KEY: &[u8] = b"k";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Insert,
    Put,
    Delete,
    Append,
    /// A range delete that covers the key.
    Range,
    /// A range delete that does not cover the key.
    RangeElsewhere,
}

const CHANGES: [Change; 6] = [
    Change::Insert,
    Change::Put,
    Change::Delete,
    Change::Append,
    Change::Range,
    Change::RangeElsewhere,
];

/// All sequences of these changes, of length one to `length`.
fn sequences(changes: &[Change], length: usize) -> Vec<Vec<Change>> {
    let mut all: Vec<Vec<Change>> = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|before| changes.iter().map(move |next| [&before[..], &[*next]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    all.split_off(1)
}

/// Makes one change of a row; false if it is an insert that is refused.
fn make(row: &mut Option<Vec<u8>>, change: Change, number: u8) -> bool {
    match change {
        Change::Insert if row.is_some() => return false,
        Change::Insert | Change::Put => *row = Some(vec![number]),
        Change::Delete | Change::Range => *row = None,
        Change::Append => row.get_or_insert_default().push(number),
        Change::RangeElsewhere => {}
    }
    true
}

fn store() -> (Db, Tree) {
    let vfs = SimVfs::new();
    let options = Options::new().env(vfs.env(0)).durability(Durability::Lazy);
    let db = Db::open("/store", options).unwrap();
    let unique = TreeOptions::new().unique(true);
    let tree = db.create_tree("t", unique).unwrap();
    (db, tree)
}

fn fill(batch: &mut Batch, tree: &Tree, changes: &[Change]) {
    for (change, number) in changes.iter().zip(b'a'..) {
        add(batch, tree, *change, number).unwrap();
    }
}

fn add(batch: &mut Batch, tree: &Tree, change: Change, number: u8) -> frond::Result<()> {
    match change {
        Change::Insert => batch.insert(tree, KEY, [number]),
        Change::Put => batch.put(tree, KEY, [number]),
        Change::Delete => batch.delete(tree, KEY),
        Change::Append => batch.merge(tree, KEY, operator::APPEND, [number]),
        Change::Range => batch.delete_range(tree, b"a"..b"z"),
        Change::RangeElsewhere => batch.delete_range(tree, b"x"..b"z"),
    }
}

/// The expected result of a batch, and the row after it.
fn expected(before: Option<&[u8]>, changes: &[Change]) -> (Option<usize>, Option<Vec<u8>>) {
    let mut row = before.map(<[u8]>::to_vec);
    for (index, (change, number)) in changes.iter().zip(b'a'..).enumerate() {
        if !make(&mut row, *change, number) {
            return (Some(index), before.map(<[u8]>::to_vec));
        }
    }
    (None, row)
}

#[test]
fn a_batch_checks_inserts_in_its_own_order() {
    let (db, tree) = store();
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    for is_flushed in [false, true] {
        // A transaction that holds a lock makes batches lock their rows.
        for is_locked in [false, true] {
            let length = if is_flushed { 3 } else { 4 };
            for changes in sequences(&CHANGES, length) {
                for before in [None, Some(&b"old"[..])] {
                    let what = format!("{changes:?}, before {before:?}, locked {is_locked}");
                    before.map_or_else(|| tree.delete(KEY), |row| tree.put(KEY, row)).unwrap();
                    if is_flushed {
                        db.checkpoint().unwrap();
                    }
                    let txn = is_locked.then(|| db.begin(Default::default()).unwrap());
                    txn.iter().for_each(|txn| drop(txn.get_for_update(&other, b"row").unwrap()));
                    let mut batch = Batch::new();
                    fill(&mut batch, &tree, &changes);
                    // This put is in another tree, so that it does not affect the order of the
                    // refused one.
                    batch.put(&other, b"done", what.as_bytes()).unwrap();
                    let done = db.commit(&mut batch);
                    drop(txn);
                    let (refused, row) = expected(before, &changes);
                    match (done, refused) {
                        (Ok(_), None) => {}
                        (
                            Err(Error::DuplicateKey(Duplicate::InBatch {
                                tree,
                                entry: index,
                                key,
                            })),
                            Some(expected),
                        ) => {
                            assert_eq!((&*tree, index, &*key), ("t", expected, KEY), "{what}");
                            // Nothing was done, and the batch is refused again as long as nothing
                            // changes.
                            let again = db.commit(&mut batch);
                            let same = |error: &Error| {
                                matches!(error, Error::DuplicateKey(Duplicate::InBatch { .. }))
                            };
                            assert!(again.as_ref().is_err_and(same), "{what}: {again:?}");
                        }
                        (done, refused) => panic!("{what}: {done:?}, expected {refused:?}"),
                    }
                    assert_eq!(tree.get(KEY).unwrap(), row, "{what}");
                    let done = other.get(b"done").unwrap();
                    assert_eq!(done.as_deref() == Some(what.as_bytes()), refused.is_none());
                }
            }
        }
    }
    assert!(db.check(frond::check::CheckMode::Full).unwrap().is_clean());
}

/// A refused batch is sealed; what is added afterwards comes after its content.
#[test]
fn a_refused_batch_filled_further_is_checked_in_its_own_order() {
    let (db, tree) = store();
    for first in sequences(&CHANGES, 2) {
        for second in sequences(&CHANGES, 2) {
            tree.put(KEY, b"old").unwrap();
            let mut batch = Batch::new();
            fill(&mut batch, &tree, &first);
            let mut changes = first.clone();
            if db.commit(&mut batch).is_err() {
                changes.extend(&second);
                // The numbers of `fill` start again, so rows are not compared.
                fill(&mut batch, &tree, &second);
                let done = db.commit(&mut batch);
                assert!(
                    matches!(done, Err(Error::DuplicateKey(Duplicate::InBatch { .. }))),
                    "{changes:?}: {done:?}"
                );
                // Without the row, everything depends on what the batch does itself.
                tree.delete(KEY).unwrap();
                let done = db.commit(&mut batch);
                let (refused, row) = expected(None, &changes);
                assert_eq!(done.is_err(), refused.is_some(), "{changes:?}: {done:?}");
                assert_eq!(tree.get(KEY).unwrap().is_some(), row.is_some(), "{changes:?}");
            }
        }
    }
}

/// A refusal names the first refused insert in the batch's order, whatever the order of keys.
#[test]
fn a_refusal_names_the_first_insert_that_is_refused() {
    let (db, tree) = store();
    for key in [b"a", b"b", b"c"] {
        tree.put(key, b"old").unwrap();
    }
    for with_range in [false, true] {
        let mut batch = Batch::new();
        batch.insert(&tree, b"d", b"").unwrap();
        batch.delete_range(&tree, b"x"..b"z").unwrap();
        [b"c", b"a", b"b"].iter().for_each(|key| batch.insert(&tree, *key, b"").unwrap());
        // An insert keeps its place when it is folded.
        batch.put(&tree, b"c", b"").unwrap();
        if with_range {
            batch.delete_range(&tree, b"a"..b"z").unwrap();
        }
        let refused = db.commit(&mut batch).unwrap_err();
        assert!(
            matches!(&refused, Error::DuplicateKey(Duplicate::InBatch { entry: 2, key, .. }) if key == b"c")
        );
    }
}

#[test]
fn a_non_unique_tree_refuses_inserts_at_once() {
    let (db, _) = store();
    let tree = db.create_tree("plain", TreeOptions::default()).unwrap();
    for changes in sequences(&CHANGES, 3) {
        let mut batch = Batch::new();
        for (change, number) in changes.iter().zip(b'a'..) {
            let done = add(&mut batch, &tree, *change, number);
            assert_eq!(done.is_err(), *change == Change::Insert, "{changes:?}: {done:?}");
            assert!(done.is_ok() || matches!(done, Err(Error::InvalidArgument(_))), "{done:?}");
        }
        // What the batch has taken can be committed.
        db.commit(&mut batch).unwrap();
    }
}

/// A refused insert in a transaction does nothing, and the transaction continues.
#[test]
fn a_transaction_checks_inserts_in_its_own_order() {
    let (db, tree) = store();
    let change = |txn: &Txn, change, number| match change {
        Change::Insert => txn.insert(&tree, KEY, &[number]),
        Change::Put => txn.put(&tree, KEY, &[number]),
        Change::Delete => txn.delete(&tree, KEY),
        Change::Append => txn.merge(&tree, KEY, operator::APPEND, &[number]),
        Change::Range => txn.delete_range(&tree, &b"a"[..]..b"z").map(drop),
        Change::RangeElsewhere => txn.delete_range(&tree, &b"x"[..]..b"z").map(drop),
    };
    for changes in sequences(&CHANGES, 4) {
        for before in [None, Some(&b"old"[..])] {
            before.map_or_else(|| tree.delete(KEY), |row| tree.put(KEY, row)).unwrap();
            let txn = db.begin(Default::default()).unwrap();
            txn.set_lock_timeout(Some(Duration::ZERO));
            let mut row = before.map(<[u8]>::to_vec);
            for (&one, number) in changes.iter().zip(b'a'..) {
                match (change(&txn, one, number), make(&mut row, one, number)) {
                    (Ok(()), true) | (Err(Error::DuplicateKey(Duplicate::Row { .. })), false) => {}
                    (done, _) => panic!("{changes:?}, before {before:?}: {one:?} is {done:?}"),
                }
            }
            txn.commit().unwrap();
            assert_eq!(tree.get(KEY).unwrap(), row, "{changes:?}, before {before:?}");
        }
    }
}

#[test]
fn a_table_checks_inserts_in_the_order_of_its_transaction() {
    let (db, _) = store();
    let table: Table = db.table(TableSpec::new("rows")).unwrap();
    for changes in sequences(&[Change::Insert, Change::Put, Change::Delete], 5) {
        for before in [None, Some(&b"old"[..])] {
            db.transact(|txn| match before {
                None => table.delete(txn, KEY).map(drop),
                Some(row) => table.put(txn, KEY, row).map(drop),
            })
            .unwrap();
            let txn = db.begin(Default::default()).unwrap();
            let mut row = before.map(<[u8]>::to_vec);
            for (&one, number) in changes.iter().zip(b'a'..) {
                let done = match one {
                    Change::Insert => table.insert(&txn, KEY, [number]),
                    Change::Put => table.put(&txn, KEY, [number]).map(drop),
                    _ => table.delete(&txn, KEY).map(drop),
                };
                match (done, make(&mut row, one, number)) {
                    (Ok(()), true) | (Err(Error::DuplicateKey(Duplicate::Row { .. })), false) => {}
                    (done, _) => panic!("{changes:?}, before {before:?}: {one:?} is {done:?}"),
                }
            }
            txn.commit().unwrap();
            assert_eq!(table.rows().get(KEY).unwrap(), row, "{changes:?}, before {before:?}");
        }
    }
}
