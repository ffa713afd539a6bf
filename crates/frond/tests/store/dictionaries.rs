//! A store of class `small`, whose leaves have dictionaries, compared with one of class `default`
//! with the same rows.

use std::{collections::BTreeMap, fs, path::Path};

use frond::{
    Batch, Db, Durability, Options, SizeClass, Tree, TreeOptions,
    check::{self, CheckMode},
    internals::page::FEATURE_DICTIONARIES,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const ROWS: u64 = 40_000;

fn random(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

/// One of three hundred names of sixty letters, and a number.
fn text(row: u64, round: u64) -> Vec<u8> {
    let dice = random(row * 31 + round);
    let letter = |at| (b'a' + (random(dice % 300 * 64 + at) % 26) as u8) as char;
    format!("{} {}", (0..60).map(letter).collect::<String>(), dice >> 30).into_bytes()
}

/// Keys of several lengths, so that blocks stay row blocks.
fn key(row: u64) -> Vec<u8> {
    format!("{row:07}{}", "+".repeat(row as usize % 3)).into_bytes()
}

fn open(dir: &Path) -> Db {
    Db::open(dir, Options::new().cache_size(64 << 20).durability(Durability::Lazy)).unwrap()
}

fn rows(tree: &Tree) -> Rows {
    let mut cursor = tree.scan(..).unwrap();
    let mut rows = Rows::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

/// The features that a reader must know, in each superblock slot.
fn features(dir: &Path) -> [u64; 2] {
    let store = fs::read(dir.join("store.frond")).unwrap();
    [16, (64 << 10) + 16].map(|at| u64::from_le_bytes(store[at..at + 8].try_into().unwrap()))
}

/// Loads a tree and changes it twice, once after it was opened again; returns its rows, and the
/// bytes of its leaves.
fn live(dir: &Path, size_class: SizeClass, model: &mut Rows) -> (Rows, u64) {
    let db = open(dir);
    let mut load = db.bulk_load("t", TreeOptions::new().size_class(size_class)).unwrap();
    for row in 0..ROWS {
        load.put(&key(row), &text(row, 0)).unwrap();
        model.insert(key(row), text(row, 0));
    }
    load.finish().unwrap();
    db.close().unwrap();
    for round in 1..3 {
        let db = open(dir);
        let tree = db.open_tree("t").unwrap();
        let mut batch = Batch::new();
        // Neighbours, single rows, new rows at the end, and some deletes.
        let near = (round * 3000..round * 3000 + 2000).chain((0..ROWS).step_by(611));
        for row in near.chain(ROWS * round..ROWS * round + 9000) {
            batch.put(&tree, &key(row), &text(row, round)).unwrap();
            model.insert(key(row), text(row, round));
        }
        db.commit(&mut batch).unwrap();
        for row in (7..ROWS).step_by(97) {
            batch.delete(&tree, &key(row)).unwrap();
            model.remove(&key(row));
        }
        db.commit(&mut batch).unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    let db = open(dir);
    let tree = db.open_tree("t").unwrap();
    let found = rows(&tree);
    for (key, value) in model.iter().step_by(101) {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
    }
    let columns = db.open_tree("t").unwrap().column_sizes(1).unwrap();
    let under = columns.row_blocks.encodings.get("zstd with dictionary").copied().unwrap_or(0);
    let blocks: u64 = columns.row_blocks.encodings.values().sum();
    match size_class {
        SizeClass::Small => {
            assert!(under * 3 > blocks, "{:?}", columns.row_blocks.encodings);
            assert!(columns.dictionary_bytes > 0);
        }
        _ => assert_eq!((under, columns.dictionary_bytes), (0, 0)),
    }
    db.close().unwrap();
    let report = check::store(dir, CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    (found, columns.bytes)
}

/// The superblock shows a reader without support for dictionaries that it needs them. Promise: P22.
#[test]
fn stores_with_and_without_dictionaries_have_the_same_rows() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [small, default] = [0, 1].map(|number| dirs[number].path().join("store"));
    let (mut model, mut again) = (Rows::new(), Rows::new());
    let (found, bytes) = live(&small, SizeClass::Small, &mut model);
    let (plainly, more) = live(&default, SizeClass::Default, &mut again);
    assert!(found == model && plainly == again && model == again);
    println!("{bytes} bytes of leaves, {more} without");
    assert!(bytes < more, "{bytes} bytes of leaves, {more} without");
    let dictionaries = |dir: &Path| features(dir).map(|features| features & FEATURE_DICTIONARIES);
    assert_eq!((dictionaries(&small), dictionaries(&default)), ([8, 8], [0, 0]));
}
