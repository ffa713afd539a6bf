//! The basic public API: what is written is read, in order, also after reopening, with nodes so
//! small that a few thousand keys make a tree several levels deep.

use std::collections::BTreeMap;

use crate::common::options;
use frond::{Batch, Db, Error, Tree, TreeOptions};
use frond_testkit::Dice;

fn assert_same(tree: &Tree, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut cursor = tree.scan(..).unwrap();
    for (key, value) in model {
        let (k, v) = cursor.next().unwrap().expect("as many rows as the model");
        assert_eq!((k, v), (key.as_slice(), value.as_slice()));
    }
    assert!(cursor.next().unwrap().is_none(), "no more rows than the model");
    cursor.seek_last();
    for (key, value) in model.iter().rev() {
        let (k, v) = cursor.prev().unwrap().expect("as many rows as the model, backward");
        assert_eq!((k, v), (key.as_slice(), value.as_slice()));
    }
    assert!(cursor.prev().unwrap().is_none());
}

#[test]
fn random_changes_match_a_map_through_reopenings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut model = BTreeMap::new();
    let mut dice = Dice::new(7);
    for round in 0..6 {
        let db = Db::open(&path, options()).unwrap();
        let tree = match round {
            0 => db.create_tree("t", TreeOptions::default()).unwrap(),
            _ => db.open_tree("t").unwrap(),
        };
        assert_same(&tree, &model);
        let mut batch = Batch::new();
        for step in 0..3000 {
            let key = format!("key{:06}", dice.below(20_000)).into_bytes();
            match dice.below(10) {
                0..7 => {
                    let value = vec![b'v'; dice.below(60) as usize];
                    batch.put(&tree, &key, &value).unwrap();
                    model.insert(key, value);
                }
                7 => {
                    batch.merge(&tree, &key, frond::operator::APPEND, b"+").unwrap();
                    model.entry(key).or_default().push(b'+');
                }
                8 => {
                    batch.delete(&tree, &key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let mut to = key.clone();
                    to[8] = b'9';
                    to.push(0);
                    batch.delete_range(&tree, &key..&to).unwrap();
                    let gone: Vec<_> = model.range(key..to).map(|(k, _)| k.clone()).collect();
                    gone.iter().for_each(|key| drop(model.remove(key)));
                }
            }
            if step % 7 == 0 {
                db.commit(&mut batch).unwrap();
            }
            if step % 500 == 0 {
                db.commit(&mut batch).unwrap();
                let probe = format!("key{:06}", dice.below(20_000)).into_bytes();
                assert_eq!(tree.get(&probe).unwrap(), model.get(&probe).cloned());
            }
        }
        db.commit(&mut batch).unwrap();
        for _ in 0..300 {
            let probe = format!("key{:06}", dice.below(20_000)).into_bytes();
            assert_eq!(tree.get(&probe).unwrap(), model.get(&probe).cloned());
        }
        assert_same(&tree, &model);
        db.close().unwrap();
    }
}

#[test]
fn ascending_keys_append_leaves_without_rewriting_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut batch = Batch::new();
    for n in 0u64..20_000 {
        batch.put(&tree, &n.to_be_bytes(), b"a value of some length").unwrap();
        if n % 100 == 99 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.checkpoint().unwrap();
    let stats = db.stats();
    assert!(stats.leaves_appended > 10, "{stats:?}");
    let mut cursor = tree.scan(..).unwrap();
    for n in 0u64..20_000 {
        assert_eq!(cursor.next().unwrap().unwrap().0, n.to_be_bytes());
    }
    db.close().unwrap();
}

#[test]
fn a_checked_insert_of_a_present_key_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let unique = TreeOptions::new().unique(true);
    let tree = db.create_tree("t", unique).unwrap();
    let mut batch = Batch::new();
    batch.insert(&tree, b"a", b"1").unwrap();
    db.commit(&mut batch).unwrap();
    batch.put(&tree, b"b", b"2").unwrap();
    batch.insert(&tree, b"a", b"3").unwrap();
    let error = db.commit(&mut batch).unwrap_err();
    assert!(
        matches!(error, frond::Error::DuplicateKey(frond::Duplicate::InBatch { entry: 1, .. })),
        "{error}"
    );
    assert_eq!(tree.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(tree.get(b"b").unwrap(), None);
    db.close().unwrap();
}

#[test]
fn trees_are_created_renamed_and_dropped_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    let a = db.create_tree("a", TreeOptions::default()).unwrap();
    a.put(b"k", b"v").unwrap();
    db.rename_tree("a", "b").unwrap();
    db.create_tree("gone", TreeOptions::default()).unwrap().put(b"k", b"v").unwrap();
    db.drop_tree("gone").unwrap();
    db.close().unwrap();
    let db = Db::open(&path, options()).unwrap();
    let names: Vec<String> = db.trees().into_iter().map(|tree| tree.name).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(db.open_tree("b").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(db.open_tree("gone").is_err());
    db.close().unwrap();
}

/// Promise: P25. Rules: I4, I28.
#[test]
fn a_snapshot_reads_the_same_rows_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut held = Vec::new();
    let mut dice = Dice::new(11);
    for round in 0..40u64 {
        for _ in 0..200 {
            let key = format!("key{:05}", dice.below(3000)).into_bytes();
            if dice.below(4) == 0 {
                tree.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = format!("{round} {}", dice.below(1000)).into_bytes();
                tree.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        if round % 5 == 0 {
            held.push((db.snapshot(), model.clone()));
        }
        for (snapshot, model) in &held {
            let mut cursor = snapshot.scan(&tree, ..).unwrap();
            for row in model {
                let (key, value) = cursor.next().unwrap().expect("a row for each of the model's");
                assert_eq!((key, value), (row.0.as_slice(), row.1.as_slice()), "round {round}");
            }
            assert!(cursor.next().unwrap().is_none());
            let key = format!("key{:05}", dice.below(3000)).into_bytes();
            assert_eq!(snapshot.get(&tree, &key).unwrap(), model.get(&key).cloned());
        }
    }
    assert!(db.stats().checkpoints > 0);
    drop(held);
    db.close().unwrap();
}

/// A tree's number means something else in another store, so its handles are refused there.
#[test]
fn handles_of_another_store_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let stores = ["a", "b"].map(|name| Db::open(dir.path().join(name), options()).unwrap());
    let [a, b] = &stores;
    let tree = a.create_tree("t", TreeOptions::default()).unwrap();
    let other = b.create_tree("t", TreeOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&tree, b"key", b"value").unwrap();
    assert!(matches!(batch.put(&other, b"key", b"value"), Err(Error::InvalidArgument(_))));
    assert!(matches!(b.commit(&mut batch), Err(Error::InvalidArgument(_))));
    assert_eq!(other.get(b"key").unwrap(), None);
    a.commit(&mut batch).unwrap();
    assert!(batch.put(&tree, &[0; 70_000], b"value").is_err());
    batch.put(&other, b"key", b"value").unwrap(); // an empty batch belongs to no store
    assert!(matches!(a.snapshot().get(&other, b"key"), Err(Error::InvalidArgument(_))));
    assert!(matches!(a.snapshot().scan(&other, ..), Err(Error::InvalidArgument(_))));
    for store in stores {
        store.close().unwrap();
    }
}
