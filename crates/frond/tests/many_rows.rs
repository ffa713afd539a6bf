//! Tests that reading many rows in one call gives the same as single reads: in memtables, in
//! buffers and in leaves, with deletes over them, long values, and the transaction's own writes.

mod common;

use frond::{
    Batch, Db, Isolation, ReadOptions, RowLock, TreeOptions, TxnOptions,
    layout::{End, Hint, Layout, Part},
    transaction::ManyRows,
};

const ROWS: u32 = 6000;

fn key(row: u32) -> Vec<u8> {
    (row * 3).to_be_bytes().to_vec()
}

fn value(row: u32, round: u32) -> Vec<u8> {
    let mut value = (row ^ round).to_be_bytes().to_vec();
    let text = format!("{:011}-{:05}-{round}", u64::from(row) * 7919, row % 977);
    value.push(text.len() as u8);
    value.extend_from_slice(text.as_bytes());
    let rest = vec![row as u8; (row % 90) as usize];
    value.push(rest.len() as u8);
    value.extend_from_slice(&rest);
    value
}

/// A value that is not stored in the leaf, with a long last part.
fn long_value(row: u32) -> Vec<u8> {
    let mut value = value(row, 9);
    let rest = value[4] as usize + 5;
    value.truncate(rest);
    let bytes = 100_000u32;
    let (low, middle, high) = (bytes & 127 | 128, bytes >> 7 & 127 | 128, bytes >> 14);
    value.extend([low as u8, middle as u8, high as u8]);
    value.resize(value.len() + bytes as usize, row as u8);
    value
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

#[test]
fn a_read_of_many_rows_equals_single_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut db = Db::open(&path, common::options()).unwrap();
    let options = TreeOptions::new()
        .key_layout(Layout::new(vec![Part::Fixed(4, Hint::Integer)]))
        .value_layout(Layout::new(vec![
            Part::Fixed(4, Hint::Integer),
            Part::Var(End::Prefixed),
            Part::Var(End::Prefixed),
        ]));
    let mut tree = db.create_tree("t", options).unwrap();
    for row in 0..ROWS {
        tree.put(&key(row), &value(row, 0)).unwrap();
    }
    let mut dice = Dice(5);
    for round in 1..5 {
        for _ in 0..400 {
            let row = dice.below(ROWS);
            match dice.below(4) {
                0 => {
                    tree.delete(&key(row)).unwrap();
                }
                _ => {
                    tree.put(&key(row), &value(row, round)).unwrap();
                }
            }
        }
        tree.put(&key(dice.below(ROWS)), &long_value(round)).unwrap();
        let from = dice.below(ROWS);
        let mut batch = Batch::new();
        batch.delete_range(&tree, key(from)..key(from + 20)).unwrap();
        db.commit(&mut batch).unwrap();
        if round % 2 == 0 {
            // Nothing of it is in memory, so blocks are read in parallel.
            db.close().unwrap();
            db = Db::open(&path, common::options()).unwrap();
            tree = db.open_tree("t").unwrap();
        }
        for isolation in [
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::Serializable,
        ] {
            let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
            let some = tree.projection(&[1]).unwrap();
            let none = tree.projection(&[]).unwrap();
            let mut rows = ManyRows::default();
            for own in [false, true] {
                if own {
                    for _ in 0..20 {
                        let row = dice.below(ROWS);
                        txn.put(&tree, &key(row), &value(row, 77)).unwrap();
                        txn.delete(&tree, &key(dice.below(ROWS))).unwrap();
                    }
                }
                for (parts, lock) in [
                    (None, None),
                    (Some(&some), None),
                    (Some(&none), None),
                    (Some(&some), Some(RowLock::Exclusive)),
                ] {
                    let count = 1 + dice.below(200);
                    // Unordered, with some keys that never existed, and some twice.
                    let keys: Vec<Vec<u8>> = (0..count)
                        .map(|_| match dice.below(8) {
                            0 => (dice.below(3 * ROWS) + 1).to_be_bytes().to_vec(),
                            1 => key(dice.below(10)),
                            _ => key(dice.below(ROWS + 5)),
                        })
                        .collect();
                    let options = ReadOptions::new().projection(parts).lock(lock);
                    rows.read(&txn, &tree, &keys, &options).unwrap();
                    assert_eq!(rows.len(), keys.len());
                    for (number, key) in keys.iter().enumerate() {
                        let alone = txn.get_with(&tree, key, &options).unwrap();
                        let expected = alone.exists.then_some(&alone.value[..]);
                        assert_eq!(rows.get(number), expected, "{key:?} {isolation:?} {own}");
                        assert_eq!(rows.is_locked(number), alone.locked);
                    }
                }
            }
            txn.rollback();
        }
    }
    db.close().unwrap();
}

#[test]
fn an_invalid_read_of_many_rows_returns_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let other = db
        .create_tree(
            "other",
            TreeOptions::new().value_layout(Layout::new(vec![Part::Fixed(1, Hint::None)])),
        )
        .unwrap();
    tree.put(b"a", b"1").unwrap();
    let parts = other.projection(&[0]).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let mut rows = ManyRows::with(vec![1, 2, 3]);
    rows.read(&txn, &tree, &[b"a"], &ReadOptions::default()).unwrap();
    assert_eq!((rows.get(0), rows.get(1)), (Some(&b"1"[..]), None));
    let options = ReadOptions::new().projection(&parts);
    assert!(rows.read(&txn, &tree, &[b"a"], &options).is_err());
    assert_eq!((rows.len(), rows.get(0)), (0, None));
    txn.rollback();
    db.close().unwrap();
}
