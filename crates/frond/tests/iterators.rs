//! Iterators over ranges, taken from both ends: of trees, snapshots, transactions, temporary trees,
//! tables and indexes. Each row comes once, in whichever order the ends are taken.

use std::ops::Bound;

use frond::{
    Db, Durability, Error, IndexSpec, Isolation, Options, Reader, Table, TableSpec, TreeOptions,
    TxnOptions,
};

type Row = (Vec<u8>, Vec<u8>);

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    (dir, db)
}

/// Takes the rows of a range from both ends, in each possible order, and compares them with those
/// expected.
fn meets<I>(range: impl Fn() -> I, expected: &[Row])
where
    I: DoubleEndedIterator<Item = frond::Result<Row>>,
{
    let steps = expected.len() + 2;
    for pattern in 0u32..1 << steps {
        let mut rows = range();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for step in 0..steps {
            let is_front = pattern >> step & 1 == 0;
            let row = if is_front { rows.next() } else { rows.next_back() };
            assert_eq!(row.is_some(), step < expected.len(), "{pattern:b} step {step}");
            let side = if is_front { &mut low } else { &mut high };
            side.extend(row.map(|row| row.unwrap()));
        }
        high.reverse();
        assert_eq!([low, high].concat(), expected, "{pattern:b}");
    }
}

fn rows(keys: &[&str]) -> Vec<Row> {
    keys.iter().map(|key| (key.as_bytes().to_vec(), b"v".to_vec())).collect()
}

/// A range of each kind that has no keys.
const EMPTY: [(Bound<&str>, Bound<&str>); 5] = [
    (Bound::Included("z"), Bound::Excluded("a")),
    (Bound::Excluded("c"), Bound::Excluded("c")),
    (Bound::Excluded("c"), Bound::Included("c")),
    (Bound::Included("c"), Bound::Excluded("c")),
    (Bound::Included("x"), Bound::Unbounded),
];

#[test]
fn the_ends_of_a_range_meet_in_a_transaction_also_among_own_writes() {
    let (_dir, db) = store();
    let tree = db.create_tree("t", TreeOptions::new()).unwrap();
    for key in ["a", "b", "d", "f"] {
        tree.put(key, "v").unwrap();
    }
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        meets(|| txn.range(&tree, ..), &rows(&["a", "b", "d", "f"]));
        txn.put(&tree, "c", "v").unwrap();
        txn.put(&tree, "g", "v").unwrap();
        txn.delete(&tree, "f").unwrap();
        meets(|| txn.range(&tree, ..), &rows(&["a", "b", "c", "d", "g"]));
        meets(|| txn.range(&tree, "b".."g"), &rows(&["b", "c", "d"]));
        meets(|| Reader::range(&txn, &tree, "c"..="c"), &rows(&["c"]));
        meets(|| txn.range(&tree, frond::prefix("x")), &[]);
        for range in EMPTY {
            meets(|| txn.range(&tree, range), &[]);
            meets(|| Reader::range(&db, &tree, range), &[]);
            meets(|| db.snapshot().range(&tree, range), &[]);
        }
    }
}

/// What the transaction writes while it iterates is not seen at either end.
#[test]
fn an_iterator_of_a_transaction_shows_one_moment_at_both_ends() {
    let (_dir, db) = store();
    let tree = db.create_tree("t", TreeOptions::new()).unwrap();
    tree.put("b", "v").unwrap();
    tree.put("d", "v").unwrap();
    let txn = db.begin(TxnOptions::new()).unwrap();
    txn.put(&tree, "c", "v").unwrap();
    let mut range = txn.range(&tree, ..);
    let key = |row: Option<frond::Result<Row>>| String::from_utf8(row.unwrap().unwrap().0).unwrap();
    assert_eq!(key(range.next()), "b");
    for new in ["a", "b1", "c1", "e"] {
        txn.put(&tree, new, "v").unwrap();
    }
    assert_eq!(key(range.next_back()), "d");
    assert_eq!(key(range.next()), "c");
    assert!(range.next_back().is_none() && range.next().is_none());
}

#[test]
fn an_error_ends_an_iterator_at_both_ends() {
    let (_dir, db) = store();
    let tree = db.create_tree("t", TreeOptions::new()).unwrap();
    for key in ["a", "b", "c", "d"] {
        tree.put(key, "v").unwrap();
    }
    let txn = db.begin(TxnOptions::new()).unwrap();
    for is_front in [true, false] {
        let before = txn.savepoint().unwrap();
        txn.put(&tree, "e", "v").unwrap();
        let mut range = txn.range(&tree, ..);
        assert!(range.next().unwrap().is_ok());
        assert!(range.next_back().unwrap().is_ok());
        txn.rollback_to(&before).unwrap();
        let row = if is_front { range.next() } else { range.next_back() };
        assert!(matches!(row, Some(Err(Error::InvalidArgument(_)))), "{row:?}");
        assert!(range.next_back().is_none() && range.next().is_none());
    }
    drop(txn);
    db.drop_tree("t").unwrap();
    let txn = db.begin(TxnOptions::new()).unwrap();
    let mut range = txn.range(&tree, ..);
    assert!(matches!(range.next_back(), Some(Err(Error::NoSuchTree(_)))));
    assert!(range.next().is_none() && range.next_back().is_none());
}

#[test]
fn the_ends_of_a_range_meet_in_a_temporary_tree() {
    let (_dir, db) = store();
    let tree = db.create_temporary(TreeOptions::new()).unwrap();
    let txn = db.begin(TxnOptions::new()).unwrap();
    meets(|| tree.range(..), &[]);
    for key in ["d", "a", "c", "b", "e"] {
        tree.put(&txn, key, "v").unwrap();
    }
    tree.delete(&txn, "d").unwrap();
    meets(|| tree.range(..), &rows(&["a", "b", "c", "e"]));
    meets(|| tree.range("a1".."c"), &rows(&["b"]));
    EMPTY.into_iter().for_each(|range| meets(|| tree.range(range), &[]));
    let last = tree.range(..).next_back().unwrap().unwrap();
    assert_eq!(last.0, b"e");
}

/// Both directions of a cursor that has moved begin at its position.
#[test]
fn an_iterator_of_a_moved_cursor_has_what_follows_its_position() {
    let (_dir, db) = store();
    let tree = db.create_tree("t", TreeOptions::new()).unwrap();
    let temporary = db.create_temporary(TreeOptions::new()).unwrap();
    let txn = db.begin(TxnOptions::new()).unwrap();
    for key in ["a", "b", "c", "d"] {
        tree.put(key, "v").unwrap();
        temporary.put(&txn, key, "v").unwrap();
    }
    macro_rules! moved {
        ($scan:expr) => {
            let stepped = || {
                let mut cursor = $scan.unwrap();
                cursor.next().unwrap();
                cursor.into_iter()
            };
            meets(stepped, &rows(&["b", "c", "d"]));
            let sought = || {
                let mut cursor = $scan.unwrap();
                cursor.seek("c");
                cursor.into_iter()
            };
            meets(sought, &rows(&["c", "d"]));
        };
    }
    moved!(tree.scan(..));
    moved!(txn.scan(&tree, ..));
    moved!(temporary.scan(..));
}

fn table(db: &Db, is_unique: bool) -> Table {
    let first = IndexSpec::new("value", |_, row, out| {
        out.extend_from_slice(row);
        Ok(true)
    });
    let index = if is_unique { first.unique() } else { first };
    db.table(TableSpec::new(if is_unique { "unique" } else { "plain" }).index(index)).unwrap()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<Row> {
    pairs.iter().map(|(key, row)| (key.as_bytes().to_vec(), row.as_bytes().to_vec())).collect()
}

#[test]
fn the_ends_of_a_range_meet_in_tables_and_indexes() {
    let (_dir, db) = store();
    for is_unique in [false, true] {
        let table = table(&db, is_unique);
        let index = table.index("value").unwrap();
        meets(|| index.range(&db, ..), &[]);
        db.transact(|txn| {
            table.put(txn, "1", "Rome")?;
            table.put(txn, "2", "Bonn")?;
            table.put(txn, "3", if is_unique { "Lima" } else { "Bonn" })
        })
        .unwrap();
        let all = match is_unique {
            true => pairs(&[("2", "Bonn"), ("3", "Lima"), ("1", "Rome")]),
            false => pairs(&[("2", "Bonn"), ("3", "Bonn"), ("1", "Rome")]),
        };
        meets(|| index.range(&db, ..), &all);
        let snapshot = db.snapshot();
        meets(|| index.range(&snapshot, "B"..="Rome"), &all);
        meets(|| index.range(&db, "Bonn"..="Bonn"), &all[..if is_unique { 1 } else { 2 }]);
        EMPTY.into_iter().for_each(|range| meets(|| index.range(&db, range), &[]));
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
            let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
            meets(|| index.range(&txn, ..), &all);
            table.put(&txn, "4", "Kyiv").unwrap();
            table.delete(&txn, "1").unwrap();
            let mut seen = all[..2].to_vec();
            seen.insert(if is_unique { 1 } else { 2 }, pairs(&[("4", "Kyiv")]).remove(0));
            meets(|| index.range(&txn, ..), &seen);
            meets(|| index.range(&txn, "z".."a"), &[]);
            let by_key = table.range(&txn, ..).rev().map(|row| row.unwrap().0);
            assert!(by_key.eq([b"4", b"3", b"2"]));
        }
    }
}

/// At repeatable read, an index may show two rows with one value: the transaction's own, and the
/// one that had it in the snapshot.
#[test]
fn the_ends_of_a_range_meet_between_two_entries_of_one_key() {
    let (_dir, db) = store();
    let (table, key) = (table(&db, true), |value: &str| pairs(&[("k", value)]).remove(0).1);
    let index = table.index("value").unwrap();
    db.transact(|txn| {
        table.put(txn, "1", "Bonn")?;
        table.put(txn, "2", "Lima")?;
        table.put(txn, "3", "Rome")
    })
    .unwrap();
    let txn = db.begin(TxnOptions::new().isolation(Isolation::RepeatableRead)).unwrap();
    assert!(table.get(&txn, "2").unwrap().is_some());
    db.transact(|txn| table.put(txn, "2", "Oslo")).unwrap();
    table.put(&txn, "4", "Lima").unwrap();
    let seen = pairs(&[("1", "Bonn"), ("4", "Lima"), ("2", "Lima"), ("3", "Rome")]);
    meets(|| index.range(&txn, ..), &seen);
    meets(|| index.range(&txn, key("Lima")..), &seen[1..]);
}

/// An error of the index in the middle of a range: a row that belongs to another definition.
#[test]
fn an_error_ends_an_iterator_of_an_index_at_both_ends() {
    let (_dir, db) = store();
    let table = table(&db, false);
    db.transact(|txn| {
        table.put(txn, "1", "Bonn")?;
        table.put(txn, "2", "Lima")?;
        table.put(txn, "3", "Rome")
    })
    .unwrap();
    let (index, txn) = (table.index("value").unwrap(), db.begin(TxnOptions::new()).unwrap());
    let before = txn.savepoint().unwrap();
    table.put(&txn, "4", "Oslo").unwrap();
    let mut range = index.range(&txn, ..);
    assert_eq!(range.next().unwrap().unwrap().0, b"1");
    assert_eq!(range.next_back().unwrap().unwrap().0, b"3");
    txn.rollback_to(&before).unwrap();
    assert!(range.next().unwrap().is_err());
    assert!(range.next_back().is_none() && range.next().is_none());
}

/// Forwards and backwards over more rows than one fetch has, and in turn.
#[test]
fn long_ranges_meet_too() {
    let (_dir, db) = store();
    let tree = db.create_tree("t", TreeOptions::new()).unwrap();
    let mut batch = frond::Batch::new();
    for key in 0u32..3000 {
        batch.put(&tree, key.to_be_bytes(), "v").unwrap();
    }
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    let txn = db.begin(TxnOptions::new()).unwrap();
    txn.delete_range(&tree, 1000u32.to_be_bytes()..1010u32.to_be_bytes()).unwrap();
    let number = |row: frond::Result<Row>| u32::from_be_bytes(row.unwrap().0.try_into().unwrap());
    let back: Vec<u32> = txn.range(&tree, ..).rev().map(number).collect();
    assert!(back.iter().rev().copied().eq((0..1000).chain(1010..3000)));
    let (mut range, mut taken) = (txn.range(&tree, ..), Vec::new());
    while let Some(row) = range.next() {
        taken.push(number(row));
        taken.extend(range.by_ref().rev().take(7).map(number));
    }
    taken.sort_unstable();
    assert!(taken.into_iter().eq((0..1000).chain(1010..3000)));
}
