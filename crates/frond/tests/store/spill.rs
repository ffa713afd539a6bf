//! Long-lived snapshots: what they show, and that they hold neither memory nor disk space for good.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::common;

use frond::{Batch, Db, Options, Snapshot, Tree, TreeOptions, check::CheckMode, operator};
use frond_testkit::Dice;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Tiny limits, except memtables that several snapshots fit into.
fn options() -> Options {
    let mut tuning = common::tiny();
    if let Some(limits) = &mut tuning.limits {
        limits.memtable_bytes = 128 << 10;
    }
    common::options().tuning(tuning)
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A commit of every kind of message, in the store and in the model.
fn change(db: &Db, tree: &Tree, model: &mut Model, dice: &mut Dice) {
    let mut batch = Batch::new();
    for _ in 0..20 {
        let (at, value) = (dice.below(3000), format!("{:x}", dice.bits()).repeat(4).into_bytes());
        match dice.below(10) {
            0..=5 => {
                batch.put(tree, &key(at), &value).unwrap();
                model.insert(key(at), value);
            }
            6 | 7 => {
                batch.delete(tree, &key(at)).unwrap();
                model.remove(&key(at));
            }
            8 => {
                batch.merge(tree, &key(at), operator::APPEND, b"+").unwrap();
                model.entry(key(at)).or_default().push(b'+');
            }
            _ => {
                let to = at + 1 + dice.below(30);
                batch.delete_range(tree, key(at)..key(to)).unwrap();
                let gone: Vec<_> = model.range(key(at)..key(to)).map(|(k, _)| k.clone()).collect();
                gone.iter().for_each(|k| drop(model.remove(k)));
            }
        }
    }
    db.commit(&mut batch).unwrap();
}

fn assert_shows(snapshot: &Snapshot, tree: &Tree, model: &Model) {
    let mut cursor = snapshot.scan(tree, ..).unwrap();
    for (key, value) in model {
        let row = cursor.next().unwrap().map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(row, Some((key.clone(), value.clone())), "at {:?}", snapshot.seqno());
    }
    assert!(cursor.next().unwrap().is_none(), "no more rows than the model");
    cursor.seek_last();
    for (key, value) in model.iter().rev() {
        let row = cursor.prev().unwrap().map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(row, Some((key.clone(), value.clone())), "backward");
    }
    for number in 0..3000 {
        assert_eq!(snapshot.get(tree, &key(number)).unwrap().as_ref(), model.get(&key(number)));
    }
}

fn stat(db: &Db, name: &str) -> u64 {
    db.stats().get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// Waits for background work that is certain to be done.
fn wait(db: &Db, what: &str, done: impl Fn(&Db) -> bool) {
    let begin = Instant::now();
    while !done(db) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {:?}", db.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Snapshots between commits of one memtable and of several, some of them released early, read the
/// same rows from disk. Rule: I28.
#[test]
fn long_lived_snapshots_read_the_same_rows_from_disk() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let (mut model, mut dice) = (Model::new(), Dice::new(11));
    let mut held = vec![(db.snapshot(), model.clone())];
    for round in 0..1500u32 {
        change(&db, &tree, &mut model, &mut dice);
        if round % 20 == 0 {
            held.push((db.snapshot(), model.clone()));
        }
        if round % 50 == 0 {
            drop(held.swap_remove(dice.below(held.len() as u64) as usize));
        }
    }
    assert!(held.len() > 40, "{}", held.len());
    // What the newest snapshots keep is spilled after two more publishes.
    for _ in 0..2 {
        change(&db, &tree, &mut model, &mut dice);
        db.checkpoint().unwrap();
    }
    wait(&db, "spills", |db| stat(db, "snapshot_memtable_bytes") == 0);
    assert!(stat(&db, "snapshot_spills") > 0);
    assert!(stat(&db, "space_temporary_bytes") > 0);
    for (snapshot, model) in &held {
        assert_shows(snapshot, &tree, model);
    }
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    // Half of them are released; the others still read what they share with those.
    let mut index = 0;
    held.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    for (snapshot, model) in &held {
        assert_shows(snapshot, &tree, model);
    }
    drop(held);
    // The last reader frees what was spilled, and that may be the thread that spilled it.
    wait(&db, "frees what was spilled", |db| stat(db, "space_temporary_bytes") == 0);
    db.close().unwrap();
}

/// Snapshots after each commit of one memtable: their roots do not grow with each other. Rule: I28.
#[test]
fn hundreds_of_snapshots_of_one_memtable_are_spilled() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let (mut model, mut dice) = (Model::new(), Dice::new(12));
    change(&db, &tree, &mut model, &mut dice);
    db.checkpoint().unwrap();
    let mut held = Vec::new();
    for number in 0..300u64 {
        tree.put(&key(number), b"row").unwrap();
        model.insert(key(number), b"row".to_vec());
        held.push((db.snapshot(), model.clone()));
    }
    for _ in 0..3 {
        change(&db, &tree, &mut model, &mut dice);
        db.checkpoint().unwrap();
    }
    wait(&db, "spills", |db| stat(db, "snapshot_memtable_bytes") == 0);
    for (snapshot, model) in held.iter().step_by(37) {
        assert_shows(snapshot, &tree, model);
    }
    drop(held);
    wait(&db, "frees what was spilled", |db| stat(db, "space_temporary_bytes") == 0);
    db.close().unwrap();
}
