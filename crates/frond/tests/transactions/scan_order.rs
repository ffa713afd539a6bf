//! Scans of every kind go in one direction, whatever is written ahead of their position, at it and
//! before it.
//!
//! Debug builds check the order of every cursor (`db/read/key_order.rs`); these tests check it in
//! all builds, and check which rows are returned.

use std::collections::{BTreeMap, BTreeSet};

use frond::{ReadOptions, Tree};
use frond_testkit::{Dice, disk::SimVfs};

use super::*;

const ALL_LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];
const GAPPED: [Isolation; 2] = [Isolation::RepeatableRead, Isolation::Serializable];
const KEYS: u64 = 40;

/// True for rows that only the scanning transaction writes.
fn is_quiet(key: &[u8]) -> bool {
    (key[1] - b'0').is_multiple_of(3)
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:02}").into_bytes()
}

/// A row that others commit just before one of the transaction's own is already passed by the scan.
#[test]
fn a_locking_scan_does_not_go_back_past_an_own_row() {
    for isolation in ALL_LEVELS {
        for forward in [true, false] {
            for deletes in [false, true] {
                let store = store(false);
                let Store { tree, .. } = &store;
                tree.put(b"9", b"").unwrap();
                let txn = store.begin(isolation);
                txn.put(tree, b"5", b"own").unwrap();
                if deletes {
                    // A row that the transaction has written and deleted again is passed in this
                    // way, too.
                    txn.put(tree, b"4", b"own").unwrap();
                    txn.put(tree, b"6", b"own").unwrap();
                    txn.delete(tree, b"4").unwrap();
                    txn.delete(tree, b"6").unwrap();
                }
                let mut cursor =
                    txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
                if !forward {
                    cursor.seek_last();
                }
                let mut found = Vec::new();
                let mut step = |found: &mut Vec<String>| {
                    let row = if forward { cursor.next() } else { cursor.prev() };
                    row.unwrap().map(|(key, _)| found.push(text(key))).is_some()
                };
                while found.last().is_none_or(|last| last != "5") {
                    assert!(step(&mut found));
                }
                let mut batch = Batch::new();
                batch.lock_timeout(Some(Duration::ZERO));
                batch.put(tree, b"3", b"other").unwrap();
                batch.put(tree, b"7", b"other").unwrap();
                // Levels with gap locks keep the insert out.
                let came = store.db.commit(&mut batch).is_ok();
                assert_eq!(came, !GAPPED.contains(&isolation));
                while step(&mut found) {}
                let expected: &[&str] = match (forward, came) {
                    (true, true) => &["1", "2", "5", "7", "9"],
                    (false, true) => &["9", "5", "3", "2", "1"],
                    (true, false) => &["1", "2", "5", "9"],
                    (false, false) => &["9", "5", "2", "1"],
                };
                assert_eq!(found, expected, "{isolation:?}, forward {forward}");
            }
        }
    }
}

/// Random rows, own writes before the scan, own writes and commits of others during it: keys come
/// in order, each quiet row that existed all the time is returned, and none that never did.
#[test]
fn scans_at_every_level_go_in_one_direction() {
    for seed in 0..150 {
        for isolation in ALL_LEVELS {
            for forward in [true, false] {
                for locks in [false, true] {
                    scan_among_writes(seed, isolation, forward, locks);
                }
            }
        }
    }
}

fn scan_among_writes(seed: u64, isolation: Isolation, forward: bool, locks: bool) {
    let mut dice = Dice::new(seed);
    let what = format!("seed {seed}, {isolation:?}, forward {forward}, locks {locks}");
    let vfs = SimVfs::new();
    let options = Options::new().env(vfs.env(seed)).durability(Durability::Lazy);
    let db = Db::open("/store", options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut quiet = BTreeMap::new();
    for number in 0..KEYS {
        if dice.below(2) == 0 {
            tree.put(&key(number), b"old").unwrap();
            quiet.insert(key(number), b"old".to_vec());
        }
    }
    if dice.below(2) == 0 {
        db.checkpoint().unwrap();
    }
    let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    txn.set_lock_timeout(Some(Duration::ZERO));
    let own_write = |dice: &mut Dice, quiet: &mut BTreeMap<Vec<u8>, Vec<u8>>| {
        let key = key(dice.below(KEYS));
        match dice.below(3) {
            0 => {
                quiet.remove(&key);
                txn.delete(&tree, &key)
            }
            _ => {
                quiet.insert(key.clone(), b"own".to_vec());
                txn.put(&tree, &key, b"own")
            }
        }
    };
    for _ in 0..dice.below(12) {
        own_write(&mut dice, &mut quiet).unwrap();
    }
    quiet.retain(|key, _| is_quiet(key));
    // Rows that the transaction writes during the scan may come in their old form, or not at all
    // once deleted.
    let mut touched = BTreeSet::new();
    let lock = locks.then_some(RowLock::Exclusive);
    let options = ReadOptions::new().lock(lock);
    let mut cursor = txn.scan_with(&tree, .., &options).unwrap();
    if !forward {
        cursor.seek_last();
    }
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    loop {
        let row = if forward { cursor.next() } else { cursor.prev() };
        match row {
            Ok(Some((key, value))) => found.push((key.to_vec(), value.to_vec())),
            Ok(None) => break,
            // At `Snapshot`, a row that another has changed ends the transaction.
            Err(Error::Conflict { .. }) => return assert_in_order(&found, forward, &what),
            Err(error) => panic!("{what}: {error}"),
        }
        match dice.below(4) {
            0 => {
                let key = key(dice.below(KEYS));
                let done = match dice.below(2) {
                    0 => txn.delete(&tree, &key),
                    _ => txn.put(&tree, &key, b"late"),
                };
                touched.insert(key);
                match done {
                    Err(Error::Conflict { .. }) => return assert_in_order(&found, forward, &what),
                    done => done.unwrap(),
                }
            }
            1 => commit_of_another(&db, &tree, &mut dice),
            _ => {}
        }
    }
    assert_in_order(&found, forward, &what);
    let found: BTreeMap<_, _> = found.into_iter().filter(|(key, _)| is_quiet(key)).collect();
    for (key, value) in &quiet {
        if !touched.contains(key) {
            assert_eq!(found.get(key), Some(value), "{what}: {}", key.escape_ascii());
        }
    }
    for key in found.keys() {
        assert!(quiet.contains_key(key), "{what}: {} was not there", key.escape_ascii());
    }
}

/// Commits some rows that are not quiet; nothing if locks prevent it.
fn commit_of_another(db: &Db, tree: &Tree, dice: &mut Dice) {
    for _ in 0..3 {
        let mut batch = Batch::new();
        batch.lock_timeout(Some(Duration::ZERO));
        let key = key(dice.below(KEYS));
        if is_quiet(&key) {
            continue;
        }
        match dice.below(2) {
            0 => batch.delete(tree, &key).unwrap(),
            _ => batch.put(tree, &key, b"other").unwrap(),
        }
        match db.commit(&mut batch) {
            Ok(_) | Err(Error::LockTimeout { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn assert_in_order(found: &[(Vec<u8>, Vec<u8>)], forward: bool, what: &str) {
    let is_ordered = |pair: &[(Vec<u8>, Vec<u8>)]| (pair[0].0 < pair[1].0) == forward;
    let keys: Vec<_> = found.iter().map(|(key, _)| text(key)).collect();
    assert!(found.windows(2).all(is_ordered), "{what}: {keys:?}");
}
