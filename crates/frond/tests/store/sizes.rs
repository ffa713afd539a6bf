//! The sizes that a tree reports, compared with what its pages hold and a scan counts: after
//! writes, drains, splits, merges, loads, restarts and crashes.

use frond::{
    Batch, Db, Tree, TreeOptions, VALUE_INLINE_BYTES_MAX,
    check::CheckMode,
    internals::io::Env,
    layout::{End, Hint, Layout, Part},
    stats::TreeSizes,
};
use frond_testkit::{
    Dice,
    disk::{CrashOptions, SimVfs, crash_states},
};

use crate::{common::options, sizes_of_pages};

fn open(env: &Env) -> Db {
    Db::open("/store", options().env(env.clone())).unwrap()
}

fn columnar() -> TreeOptions {
    TreeOptions::new()
        .key_layout(Layout::new(vec![Part::Fixed(4, Hint::Integer)]))
        .value_layout(Layout::new(vec![Part::Var(End::Rest)]))
}

fn key(number: u64) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

/// Like `sizes_of_pages::expect`, for stores in which every leaf is measured.
fn expect(db: &Db, name: &str) -> TreeSizes {
    let (sizes, row_bytes) = sizes_of_pages::expect(db, name);
    assert_eq!(sizes.raw_bytes, row_bytes, "{name}");
    sizes
}

fn drain(db: &Db) {
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    db.checkpoint().unwrap();
}

/// The number of rows of a tree, and the bytes of their keys and short values.
fn scanned(tree: &Tree) -> (u64, u64) {
    let (mut rows, mut bytes, mut cursor) = (0, 0, tree.scan(..).unwrap());
    while let Some((key, value)) = cursor.next().unwrap() {
        rows += 1;
        bytes += (key.len() + value.len()) as u64;
    }
    (rows, bytes)
}

fn work(db: &Db, tree: &Tree, dice: &mut Dice, longest: usize) {
    let mut batch = Batch::new();
    for _ in 0..dice.below(300) {
        let at = dice.below(3000);
        match dice.below(12) {
            0..8 => batch.put(tree, &key(at), &vec![at as u8; dice.below(40) as usize]).unwrap(),
            8..11 => batch.delete(tree, &key(at)).unwrap(),
            _ if dice.below(20) == 0 => {
                batch.put(tree, &key(at), &vec![at as u8; longest]).unwrap();
            }
            _ => batch.delete_range(tree, key(at)..key(at + 1 + dice.below(60))).unwrap(),
        }
    }
    db.commit(&mut batch).unwrap();
}

#[test]
fn reported_sizes_match_the_pages_after_any_changes() {
    let (mut deepest, mut most_blobs, mut waited) = (0, 0, 0);
    for seed in 0..6 {
        let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
        let mut db = open(&vfs.env(seed));
        db.create_tree("columnar", columnar()).unwrap();
        db.create_tree("plain", TreeOptions::default()).unwrap();
        let longest = VALUE_INLINE_BYTES_MAX + 1 + 70_000 * (seed as usize % 2);
        for round in 0..40 {
            for name in ["columnar", "plain"] {
                work(&db, &db.open_tree(name).unwrap(), dice, longest);
            }
            match dice.below(8) {
                0 => db.checkpoint().unwrap(),
                1 => {
                    db.close().unwrap();
                    db = open(&vfs.env(seed * 100 + round));
                }
                2 => drain(&db),
                3 => {
                    let _ = db.drop_tree("copy");
                    db.clone_tree("columnar", "copy").unwrap();
                    expect(&db, "copy");
                }
                _ => {}
            }
            for name in ["columnar", "plain"] {
                let sizes = expect(&db, name);
                deepest = deepest.max(sizes.depth);
                most_blobs = most_blobs.max(sizes.blob_bytes);
                waited = waited.max(sizes.buffered_bytes);
            }
        }
        drain(&db);
        for name in ["columnar", "plain"] {
            let (sizes, tree) = (expect(&db, name), db.open_tree(name).unwrap());
            let (rows, bytes) = scanned(&tree);
            let waits = (sizes.buffered_bytes, sizes.memory_bytes);
            assert_eq!((sizes.leaf_rows, waits), (rows, (0, 0)), "{name}: {sizes:?}");
            if name == "columnar" && sizes.blob_bytes == 0 {
                assert_eq!(sizes.raw_bytes, bytes, "{sizes:?}");
            }
        }
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }
    assert!(deepest >= 3 && most_blobs > 0 && waited > 0, "{deepest}, {most_blobs}, {waited}");
}

/// After a crash anywhere, the sums are those of the pages that recovery finds and makes.
#[test]
fn reported_sizes_match_the_pages_after_a_crash_anywhere() {
    for seed in 0..2 {
        let (vfs, dice) = (SimVfs::new(), &mut Dice::new(seed));
        let db = open(&vfs.env(seed));
        let tree = db.create_tree("columnar", columnar()).unwrap();
        vfs.record();
        for round in 0..20 {
            work(&db, &tree, dice, VALUE_INLINE_BYTES_MAX + 1);
            match round {
                7 | 13 => db.checkpoint().unwrap(),
                10 => {
                    let mut load = db.bulk_load("loaded", columnar()).unwrap();
                    (0..2000).for_each(|row| load.put(&key(row), b"a loaded row").unwrap());
                    load.finish().unwrap();
                }
                _ => {}
            }
        }
        let points = vfs.recorded();
        let every = points.len() / 15 + 1;
        let crash = CrashOptions::short().with_seed(seed);
        let states =
            points.iter().step_by(every).flat_map(|point| crash_states(&point.disk, &crash));
        let mut loads = 0;
        for (number, state) in states.enumerate() {
            let after = SimVfs::start(state.disk);
            let db = open(&after.env(number as u64));
            for tree in db.trees() {
                expect(&db, &tree.name);
                work(&db, &db.open_tree(&tree.name).unwrap(), dice, VALUE_INLINE_BYTES_MAX + 1);
                db.checkpoint().unwrap();
                let sizes = expect(&db, &tree.name);
                loads += u64::from(tree.name == "loaded" && sizes.depth > 1);
            }
            db.close().unwrap();
        }
        assert!(loads > 0, "no load was there after a crash");
        db.close().unwrap();
    }
}

/// Rows in memory are reported in addition to those in pages; a dropped tree has no size.
#[test]
fn rows_in_memory_are_counted_in_sizes() {
    let vfs = SimVfs::new();
    let db = open(&vfs.env(1));
    let tree = db.create_tree("t", columnar()).unwrap();
    assert_eq!(tree.sizes().unwrap(), TreeSizes { rows_exact: true, ..TreeSizes::default() });
    for row in 0..10 {
        tree.put(&key(row), b"value").unwrap();
    }
    let sizes = tree.sizes().unwrap();
    // Background work may have started.
    assert_eq!(sizes.memory_bytes + sizes.raw_bytes, 90, "{sizes:?}");
    assert_eq!(sizes.memory_bytes / 9 + sizes.leaf_rows, 10, "{sizes:?}");
    assert!(sizes.memory_bytes > 0, "{sizes:?}");
    assert_eq!((sizes.rows, sizes.rows_exact), (10, false));
    for row in 10..100 {
        tree.put(&key(row), b"value").unwrap();
    }
    drain(&db);
    let sizes = expect(&db, "t");
    assert_eq!((sizes.leaf_rows, sizes.memory_bytes, sizes.raw_bytes), (100, 0, 900));
    let estimate = tree.estimate(..).unwrap();
    assert_eq!(estimate.bytes, sizes.encoded_bytes);
    db.drop_tree("t").unwrap();
    assert!(tree.sizes().is_err());
    db.close().unwrap();
}
