//! Range deletes in any number: more than a run may hold, wherever runs are made, and through
//! crashes.

use std::{collections::BTreeMap, ops::Bound, path::Path};

use frond::{Batch, Db, Durability, Error, Options, Snapshot, Tree, check::CheckMode};
use frond_testkit::{
    Dice,
    disk::{CrashOptions, SimVfs, crash_states},
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 3000;

fn key(n: u64) -> Vec<u8> {
    format!("row/{n:06}").into_bytes()
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

/// Deletes many short ranges and a few long ones, and puts rows between them, in one batch and in
/// the model.
fn change(dice: &mut Dice, tree: &Tree, rows: &mut Rows) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..dice.below(300) {
        let (from, long) = (dice.below(KEYS), dice.chance(1, 200));
        let to = from + 1 + dice.below(if long { KEYS / 4 } else { 3 });
        batch.delete_range(tree, key(from)..key(to)).unwrap();
        rows.retain(|row, _| *row < key(from) || *row >= key(to));
    }
    for _ in 0..dice.below(200) {
        let (row, value) = (key(dice.below(KEYS)), vec![b'v'; dice.below(40) as usize]);
        batch.put(tree, &row, &value).unwrap();
        rows.insert(row, value);
    }
    batch
}

fn options(vfs: &SimVfs, seed: u64) -> Options {
    // Several batches make a memtable, and a memtable several runs.
    let mut tuning = crate::common::tiny();
    tuning.limits.as_mut().unwrap().memtable_bytes = 100 << 10;
    tuning.shape.as_mut().unwrap().run_bytes = 1500;
    crate::common::options().durability(Durability::Os).env(vfs.env(seed)).tuning(tuning)
}

/// Range deletes that are applied, merged, drained, read by snapshots, and killed and replayed at
/// any moment. Rules: I1, I4, I9, I26.
#[test]
fn more_range_deletes_than_fit_in_a_run_match_the_model_through_kills() {
    for seed in 0..6 {
        let (mut vfs, dir, mut dice) = (SimVfs::new(), Path::new("/store"), Dice::new(seed));
        let mut db = Db::open(dir, options(&vfs, seed)).unwrap();
        let mut tree = db.create_tree("t", Default::default()).unwrap();
        let mut rows = Rows::new();
        let mut snapshots: Vec<(Snapshot, Rows)> = Vec::new();
        for round in 0..60 {
            db.commit(&mut change(&mut dice, &tree, &mut rows)).unwrap();
            for _ in 0..dice.below(6) {
                db.step().unwrap();
            }
            if dice.chance(1, 4) {
                snapshots.push((db.snapshot(), rows.clone()));
            }
            if dice.chance(1, 8) {
                while db.drain_step().unwrap() {}
            }
            if dice.chance(1, 6) && !snapshots.is_empty() {
                let (snapshot, then) =
                    snapshots.swap_remove(dice.below(snapshots.len() as u64) as usize);
                assert!(
                    rows_at(&snapshot, &tree) == then,
                    "seed {seed}, round {round}: a snapshot"
                );
            }
            if dice.chance(1, 10) {
                snapshots.clear();
                vfs = SimVfs::start(vfs.disk().after_kill());
                db = Db::open(dir, options(&vfs, seed + round)).unwrap();
                tree = db.open_tree("t").unwrap();
            }
            if round % 5 == 4 {
                assert!(rows_of(&tree) == rows, "seed {seed}, round {round}");
                for n in 0..KEYS {
                    let found = tree.get(&key(n)).unwrap();
                    assert!(
                        found.as_ref() == rows.get(&key(n)),
                        "seed {seed}, round {round}, row {n}"
                    );
                }
            }
        }
        snapshots.clear();
        while db.step().unwrap() {}
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "seed {seed}: {report}");
    }
}

/// Wherever power fails, a prefix of the commits is there, each whole. Rules: I2, I9, I26.
#[test]
fn range_deletes_beyond_a_run_survive_power_failures_whole() {
    let (vfs, dir, mut dice) = (SimVfs::new(), Path::new("/store"), Dice::new(11));
    let db = Db::open(dir, options(&vfs, 1)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let (mut rows, mut states) = (Rows::new(), vec![Rows::new()]);
    vfs.record();
    for round in 0..8 {
        db.commit(&mut change(&mut dice, &tree, &mut rows)).unwrap();
        states.push(rows.clone());
        if round % 3 == 2 {
            while db.step().unwrap() {}
            db.checkpoint().unwrap();
        }
    }
    drop((tree, db));
    let mut opened = 0;
    for (step, point) in vfs.recorded().iter().enumerate().step_by(3) {
        for state in crash_states(&point.disk, &CrashOptions::short().with_seed(step as u64)) {
            let disk = SimVfs::start(state.disk);
            let db = Db::open(dir, options(&disk, 2)).unwrap();
            let found = match db.open_tree("t") {
                Ok(tree) => rows_of(&tree),
                Err(Error::NoSuchTree(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(states.contains(&found), "step {step}: no state that there ever was");
            opened += 1;
        }
    }
    assert!(opened > 20, "{opened}");
}

/// Rows of a tree of many leaves.
const ROWS: u64 = 40_000;

/// A value that no codec compresses.
fn scrambled(n: u64) -> Vec<u8> {
    let mut dice = Dice::new(n);
    (0..16).flat_map(|_| dice.bits().to_be_bytes()).collect()
}

/// Production sizes: a memtable has more range deletes than the footer of a run may hold. Nothing
/// stops, and the log of a store that was killed then is replayed.
#[test]
fn range_deletes_too_long_for_a_footer_are_applied_and_replayed() {
    let (vfs, dir) = (SimVfs::new(), Path::new("/store"));
    let options = |vfs: &SimVfs| {
        Options::new().cache_size(1 << 30).durability(Durability::Os).env(vfs.env(3))
    };
    let db = Db::open(dir, options(&vfs)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    // Many leaves: over a single leaf, nothing waits in runs.
    let mut batch = Batch::new();
    for n in 0..ROWS {
        batch.put(&tree, &n.to_be_bytes(), &scrambled(n)).unwrap();
    }
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    let long = |n: u64, last: u8| [&n.to_be_bytes()[..], &[b'x'; 60_000], &[last]].concat();
    for n in [0, 400] {
        // Keys of 48 MB each; a memtable is frozen at 64 MiB.
        let mut batch = Batch::new();
        for n in n..n + 400 {
            batch.delete_range(&tree, long(n, 1)..long(n, 2)).unwrap();
        }
        batch.delete_range(&tree, (n / 4).to_be_bytes()..(n / 4 + 10).to_be_bytes()).unwrap();
        assert!(batch.bytes() > 45 << 20, "range deletes count");
        db.commit(&mut batch).unwrap();
    }
    let killed = SimVfs::start(vfs.disk().after_kill());
    let as_it_is_to_be = |db: &Db| {
        let tree = db.open_tree("t").unwrap();
        assert_eq!(rows_of(&tree).len() as u64, ROWS - 20);
        for (n, exists) in [(0, false), (9, false), (10, true), (100, false), (110, true)] {
            assert_eq!(tree.get(&u64::to_be_bytes(n)).unwrap().is_some(), exists, "row {n}");
        }
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
    };
    db.checkpoint().unwrap();
    as_it_is_to_be(&db);
    drop(tree);
    db.close().unwrap();
    drop(db);
    for vfs in [killed, vfs] {
        let db = Db::open(dir, options(&vfs)).unwrap();
        as_it_is_to_be(&db);
        db.close().unwrap();
    }
}

/// Ranges that end with a key of the greatest length, or begin after it: the key above it is not
/// one with a byte more.
#[test]
fn ranges_may_name_keys_of_the_greatest_length() {
    let vfs = SimVfs::new();
    let db = Db::open("/store", Options::new().env(vfs.env(1)).cache_size(64 << 20)).unwrap();
    let longest = |byte: u8| vec![byte; frond::KEY_BYTES_MAX];
    let keys = [b"a".to_vec(), longest(b'k'), b"l".to_vec(), longest(0xff)];
    for (at, name) in ["batch", "txn"].into_iter().enumerate() {
        for (range, left) in [
            ((Bound::Unbounded, Bound::Included(longest(b'k'))), vec![2, 3]),
            ((Bound::Excluded(longest(b'k')), Bound::Unbounded), vec![0, 1]),
            ((Bound::Excluded(longest(b'k')), Bound::Included(longest(0xff))), vec![0, 1]),
            ((Bound::Excluded(longest(0xff)), Bound::Unbounded), vec![0, 1, 2, 3]),
            ((Bound::Unbounded, Bound::Included(longest(0xff))), vec![]),
        ] {
            let tree = db.tree(name, Default::default()).unwrap();
            keys.iter().for_each(|key| tree.put(key, b"").map(drop).unwrap());
            assert_eq!(tree.count(range.clone()).unwrap(), (keys.len() - left.len()) as u64);
            match at {
                0 => tree.delete_range(range.clone()).map(drop).unwrap(),
                _ => db.transact(|txn| txn.delete_range(&tree, range.clone())).map(drop).unwrap(),
            }
            let found: Vec<Vec<u8>> = rows_of(&tree).into_keys().collect();
            let expected: Vec<Vec<u8>> = left.iter().map(|&at| keys[at].clone()).collect();
            assert!(found == expected, "{name}, {left:?}: {} rows are left", found.len());
        }
    }
    db.close().unwrap();
}
