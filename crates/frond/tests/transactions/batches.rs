//! Scans in batches and over several ranges one after another: they give the rows that a new cursor
//! gives one by one.

use std::ops::Bound;

use frond::{
    ReadOptions, RowBuf,
    layout::{End, Hint, Layout, Part},
};
use frond_testkit::Dice;

use super::*;

const ROWS: u32 = 3000;

fn key(row: u32) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

fn value(row: u32, text: &str) -> Vec<u8> {
    let text = format!("{text} {}", "x".repeat(row as usize % 40));
    [&row.to_be_bytes()[..], &[text.len() as u8], text.as_bytes()].concat()
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows of a range that a new cursor gives one by one.
fn one_by_one(txn: &Txn, tree: &Tree, range: (Bound<&[u8]>, Bound<&[u8]>), forward: bool) -> Rows {
    let mut cursor = txn.scan(tree, range).unwrap();
    if !forward {
        cursor.seek_last();
    }
    let mut rows = Rows::new();
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows
}

/// Columnar blocks and others; rows in the tree, in memtables over it, and of the transaction,
/// written before and after the scan started; from the first row of a range, from a key within it,
/// and on after a turn.
#[test]
fn batched_and_ranged_scans_return_the_same_rows_as_single_steps() {
    for is_columnar in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().cache_size(32 << 20).durability(Durability::Lazy);
        let db = Db::open(dir.path().join("store"), options).unwrap();
        let layout = |parts: &[Part]| is_columnar.then(|| Layout::new(parts.to_vec()));
        let key_layout = layout(&[Part::Fixed(4, Hint::Integer)]);
        let value_layout = layout(&[Part::Fixed(4, Hint::Integer), Part::Var(End::Prefixed)]);
        let options = TreeOptions::new().key_layout(key_layout).value_layout(value_layout);
        let tree = db.create_tree("t", options).unwrap();
        for row in 0..ROWS {
            tree.put(&key(row), &value(row, "first")).unwrap();
        }
        db.checkpoint().unwrap();
        let mut dice = Dice::new(27);
        for step in 0..120 {
            if step == 40 {
                for row in (0..ROWS).step_by(97) {
                    tree.put(&key(row), &value(row, "later")).unwrap();
                }
                tree.delete(&key(1000)).unwrap();
            }
            let txn = db.begin(TxnOptions::default()).unwrap();
            let writes_before = dice.below(3) == 0;
            if writes_before {
                for _ in 0..20 {
                    let row = dice.below(u64::from(ROWS) + 50) as u32;
                    txn.put(&tree, &key(row), &value(row, "own")).unwrap();
                }
            }
            let mut cursor = txn.scan(&tree, ..).unwrap();
            let mut batch = RowBuf::new();
            for _ in 0..6 {
                let (a, b) = (dice.below(u64::from(ROWS) + 20) as u32, dice.below(300) as u32);
                let (from, to) = (key(a), key(a + b));
                let from = if a % 9 == 0 { Bound::Unbounded } else { Bound::Included(&from[..]) };
                let to = if a % 7 == 0 { Bound::Unbounded } else { Bound::Excluded(&to[..]) };
                let forward = dice.below(5) < 3;
                let expected = one_by_one(&txn, &tree, (from, to), forward);
                cursor.set_range((from, to)).unwrap();
                if !forward {
                    cursor.seek_last();
                }
                let mut found = Rows::new();
                loop {
                    let count = *dice.pick(&[1, 7, 100, usize::MAX]);
                    if count == 1 {
                        let row = if forward { cursor.next() } else { cursor.prev() }.unwrap();
                        let Some((key, value)) = row else { break };
                        found.push((key.to_vec(), value.to_vec()));
                        continue;
                    }
                    if cursor.read_batch(forward, &mut batch, count).unwrap() == 0 {
                        break;
                    }
                    assert!(batch.len() <= count);
                    let mut rows: Rows =
                        batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                    if !forward {
                        rows.reverse();
                    }
                    found.append(&mut rows);
                }
                assert_eq!(
                    found, expected,
                    "step {step}, columnar {is_columnar}, forward {forward}"
                );
                // Backwards from the end.
                let count = cursor.read_batch(!forward, &mut batch, 5).unwrap();
                let mut last: Rows = expected.iter().rev().take(count).cloned().collect();
                if forward {
                    last.reverse();
                }
                assert!(count > 0 || expected.is_empty());
                assert!(batch.iter().eq(last.iter().map(|(key, value)| (&key[..], &value[..]))));
            }
            // The scan does not see later writes, except that deleted rows are gone.
            let range = (Bound::Included(&b"\0\0\x01"[..]), Bound::Excluded(&b"\0\0\x03"[..]));
            let before = one_by_one(&txn, &tree, range, true);
            cursor.set_range(range).unwrap();
            let mut found = Rows::new();
            cursor.read_batch(true, &mut batch, 10).unwrap();
            found.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            let gone = &before[before.len() / 2].0;
            txn.delete(&tree, gone).unwrap();
            let inserted = [&found.last().unwrap().0[..], b"new"].concat();
            txn.put(&tree, &inserted, &value(1, "unseen")).unwrap();
            while cursor.read_batch(true, &mut batch, 50).unwrap() > 0 {
                found.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            }
            let expected: Rows = before.iter().filter(|(key, _)| key != gone).cloned().collect();
            assert_eq!(found, expected);
            drop(cursor);
            txn.rollback();
        }
        db.close().unwrap();
    }
}

/// A locking scan locks in each of its ranges, and nothing between them.
#[test]
fn a_scan_moved_between_ranges_locks_only_within_them() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    for row in ["3", "4", "5", "6"] {
        tree.put(row.as_bytes(), b"x").unwrap();
    }
    let txn = store.begin(Isolation::RepeatableRead);
    let range = &b"1"[..]..&b"2"[..];
    let mut cursor =
        txn.scan_with(tree, range, &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
    let mut found = Vec::new();
    for (from, to) in [(b"1", b"2"), (b"4", b"5"), (b"6", b"7")] {
        cursor.set_range(&from[..]..&to[..]).unwrap();
        while let Some((key, _)) = cursor.next().unwrap() {
            found.push(text(key));
        }
    }
    assert_eq!(found, ["1", "4", "6"]);
    let misuse = cursor.set_range(&b"2"[..]..&b"1"[..]).unwrap_err();
    assert_eq!(misuse.kind(), ErrorKind::FixCall);
    drop(cursor);
    let quick = TxnOptions::new().lock_timeout(Some(Duration::ZERO));
    let other = db.begin(quick).unwrap();
    for inside in ["1", "15", "4", "45", "6", "65"] {
        let refused = other.put(tree, inside.as_bytes(), b"").unwrap_err();
        assert!(matches!(refused, Error::LockTimeout { .. }), "{inside}: {refused}");
    }
    for outside in ["2", "3", "35", "5", "55", "7"] {
        other.put(tree, outside.as_bytes(), b"").unwrap();
    }
    other.rollback();
    txn.rollback();
    store.is_idle();
}
