//! Queues: keys deleted at the left end are not scanned again, and no row is ever skipped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use frond::{Batch, Db, Tree, TreeOptions};
use frond_testkit::Dice;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn first(tree: &Tree) -> Option<u64> {
    let mut cursor = tree.scan(..).unwrap();
    cursor.next().unwrap().map(|(key, _)| u64::from_be_bytes(key.try_into().unwrap()))
}

/// Rows are put at the right, in between and at the left, and deleted at the left, in any order;
/// every reader finds the first row, from anywhere.
#[test]
fn the_first_row_of_a_queue_is_found_after_any_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
    let tree = db.create_tree("queue", TreeOptions::default()).unwrap();
    let mut model = BTreeMap::new();
    let mut dice = Dice::new(3);
    let mut right = 1_000_000u64;
    for turn in 0..30_000u32 {
        let mut batch = Batch::new();
        let number = if dice.chance(1, 200) { dice.below(right) } else { right };
        right += u64::from(number == right);
        batch.put(&tree, &key(number), b"value").unwrap();
        model.insert(number, ());
        let away = if turn % 1000 == 999 { 600 } else { dice.below(3) };
        for _ in 0..away {
            let oldest = model.keys().next().copied();
            if let Some(oldest) = oldest {
                batch.delete(&tree, &key(oldest)).unwrap();
                model.remove(&oldest);
            }
        }
        db.commit(&mut batch).unwrap();
        assert_eq!(first(&tree), model.keys().next().copied(), "turn {turn}");
        if dice.below(20) == 0 {
            let from = right.saturating_sub(dice.below(2000));
            let mut cursor = tree.scan(&key(from)[..]..).unwrap();
            let found = cursor.next().unwrap().map(|(key, _)| key.to_vec());
            let expected = model.range(from..).next().map(|(&number, ())| key(number).to_vec());
            assert_eq!(found, expected, "from {from} in turn {turn}");
            let mut cursor = tree.scan(..&key(from)[..]).unwrap();
            cursor.seek_last();
            let found = cursor.prev().unwrap().map(|(key, _)| key.to_vec());
            let expected =
                model.range(..from).next_back().map(|(&number, ())| key(number).to_vec());
            assert_eq!(found, expected, "below {from} in turn {turn}");
        }
    }
    db.close().unwrap();
}

/// While two threads turn the queue and read, another puts rows into the empty stretch and finds
/// each.
#[test]
fn a_row_put_into_an_empty_range_is_found_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), crate::common::options()).unwrap();
    let tree = db.create_tree("queue", TreeOptions::default()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice::new(5);
            for _ in 0..3000 {
                let number = dice.below(1_000_000);
                tree.put(&key(number), b"left").unwrap();
                assert_eq!(first(&tree), Some(number));
                tree.delete(&key(number)).unwrap();
                assert_ne!(first(&tree), Some(number));
            }
            over.store(true, Ordering::Release);
        });
        for thread in 0..2u64 {
            let (over, tree, db) = (&over, &tree, &db);
            scope.spawn(move || {
                let mut number = 2_000_000 + thread;
                while !over.load(Ordering::Acquire) {
                    let mut batch = Batch::new();
                    batch.put(tree, &key(number + 200), b"right").unwrap();
                    batch.delete(tree, &key(number)).unwrap();
                    db.commit(&mut batch).unwrap();
                    number += 2;
                    let found = first(tree);
                    assert!(found.is_none_or(|found| found <= number + 200), "{found:?}");
                }
            });
        }
    });
    db.close().unwrap();
}
