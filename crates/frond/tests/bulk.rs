//! Tests of bulk loads: rows in any order, many times more than fits into memory, become a tree
//! that has all of them, or the load leaves nothing. (With crashes: `bulk_campaigns.rs`. Memory
//! use: `bulk_memory.rs`.)

mod common;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use frond::{
    Batch, Db, Duplicate, Error, Options, Tree, TreeOptions, backup::Backup, check::CheckMode,
    feed::Change, load::BulkLoad,
};

/// Pieces of a few kilobytes: a few thousand rows make many pieces, and merges of merges.
fn open(dir: &Path) -> Db {
    Db::open(dir.join("store"), common::options()).unwrap()
}

fn unique() -> TreeOptions {
    TreeOptions::new().unique(true)
}

/// Every number below `count` once, in scrambled order.
fn scrambled(count: u64) -> impl Iterator<Item = u64> {
    // Odd, so that it has no factor in common with a power of two.
    let around = count.next_power_of_two();
    (0..around)
        .map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % around)
        .filter(move |&n| n < count)
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("{round} {:x}", number.wrapping_mul(0xbf58_476d_1ce4_e5b9)).into_bytes()
}

fn put(load: &mut BulkLoad, numbers: impl Iterator<Item = u64>, round: u64) {
    for number in numbers {
        load.put(&number.to_be_bytes(), &value(number, round)).unwrap();
    }
}

fn load(db: &Db, name: &str, numbers: impl Iterator<Item = u64>) -> Tree {
    let mut load = db.bulk_load(name, TreeOptions::default()).unwrap();
    put(&mut load, numbers, 0);
    load.finish().unwrap().tree
}

/// Asserts that the tree has every number below `count`, with the value of the round that `round`
/// gives.
fn assert_rows(tree: &Tree, count: u64, round: impl Fn(u64) -> u64) {
    let mut cursor = tree.scan(..).unwrap();
    let mut next = 0u64;
    while let Some((key, found)) = cursor.next().unwrap() {
        assert_eq!(key, next.to_be_bytes());
        assert_eq!(found, value(next, round(next)), "row {next}");
        next += 1;
    }
    assert_eq!(next, count);
    for number in (0..count).step_by(97) {
        assert!(tree.contains(&number.to_be_bytes()).unwrap());
    }
    assert!(!tree.contains(&count.to_be_bytes()).unwrap());
}

fn stat(db: &Db, name: &str) -> u64 {
    db.stats().get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Asserts that dropping trees frees their space; each checkpoint releases only some pages.
fn assert_space_is_reclaimed(db: &Db) {
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    let left = || stat(db, "space_live_bytes") + stat(db, "space_temporary_bytes");
    for round in 0..200u32 {
        other.put(b"k", &round.to_be_bytes()).unwrap();
        db.checkpoint().unwrap();
        if left() < 200_000 {
            return;
        }
    }
    panic!("{} bytes are left of nothing", left());
}

fn names(db: &Db) -> Vec<String> {
    db.trees().into_iter().map(|tree| tree.name).collect()
}

/// Rule: I20. Rows in scrambled order, in order, and in order except for a few; then the trees
/// behave like any others.
#[test]
fn rows_loaded_in_any_order_give_the_same_tree() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let count = 30_000;
    load(&db, "random", scrambled(count));
    assert!(stat(&db, "load_spilled_bytes") > 0, "more than one piece");
    let almost = (0..count).filter(|n| n % 5000 != 7).chain((0..count).filter(|n| n % 5000 == 7));
    load(&db, "almost", almost);
    load(&db, "falling", (0..count).rev());
    let spilled = stat(&db, "load_spilled_bytes");
    load(&db, "rising", 0..count);
    assert_eq!(stat(&db, "load_spilled_bytes"), spilled, "in order nothing is written twice");
    assert_eq!(stat(&db, "load_rows"), 4 * count);
    assert_eq!(stat(&db, "load_memory_bytes"), 0);
    let trees = ["random", "almost", "falling", "rising"];
    for name in trees {
        assert_rows(&db.open_tree(name).unwrap(), count, |_| 0);
    }
    assert_clean(&db);
    let mut batch = Batch::new();
    for name in trees {
        let tree = db.open_tree(name).unwrap();
        for number in (0..count).step_by(3) {
            batch.put(&tree, &number.to_be_bytes(), &value(number, 1)).unwrap();
        }
        batch.put(&tree, &count.to_be_bytes(), &value(count, 0)).unwrap();
        db.commit(&mut batch).unwrap();
    }
    db.checkpoint().unwrap();
    assert_clean(&db);
    db.close().unwrap();
    let db = open(dir.path());
    let round = |number: u64| u64::from(number.is_multiple_of(3) && number < count);
    for name in trees {
        assert_rows(&db.open_tree(name).unwrap(), count + 1, round);
    }
    assert_clean(&db);
    trees.iter().for_each(|name| db.drop_tree(name).unwrap());
    assert_space_is_reclaimed(&db);
    assert_clean(&db);
    db.close().unwrap();
}

/// In a tree that is not unique the row put last stays, wherever the earlier ones are: in the same
/// piece, in another, or in leaves that are written.
#[test]
fn the_last_row_of_a_key_wins() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let count = 8000;
    for (name, sorted) in [("random", false), ("rising", true)] {
        let mut load = db.bulk_load(name, TreeOptions::default()).unwrap();
        for round in 0..3 {
            let numbers = (0..count).filter(|number| number % 3 >= round);
            match sorted {
                true => put(&mut load, numbers.flat_map(|number| [number, number]), round),
                false => put(&mut load, scrambled(count).filter(|n| n % 3 >= round), round),
            }
        }
        let loaded = load.finish().unwrap();
        assert_eq!(loaded.rows, count);
        assert_rows(&loaded.tree, count, |number| number % 3);
    }
    assert_clean(&db);
    db.close().unwrap();
}

/// A duplicate key fails the load of a unique tree, and the error names it.
#[test]
fn a_load_of_a_unique_tree_refuses_duplicate_keys() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let count = 20_000;
    let rows = |twice: u64| scrambled(count).chain([twice]);
    let rising = |twice: u64| (0..=twice).chain(twice..count);
    for twice in [0, 77, count - 1] {
        let in_order: [Box<dyn Iterator<Item = u64>>; 3] =
            [Box::new(rows(twice)), Box::new(rising(twice)), Box::new([twice, twice].into_iter())];
        for numbers in in_order {
            let mut load = db.bulk_load("t", unique()).unwrap();
            let told = Arc::new(Mutex::new(Vec::new()));
            let rows = told.clone();
            load.on_duplicate(move |key, value| {
                rows.lock().unwrap().push((key.to_vec(), value.to_vec()))
            });
            let mut numbers = numbers;
            let put = numbers.try_for_each(|n| load.put(&n.to_be_bytes(), &value(n, 0)));
            let error = match put {
                Ok(()) => load.finish().map(drop).unwrap_err(),
                Err(error) => {
                    let again = load.put(b"another", b"").unwrap_err();
                    assert_eq!(again.to_string(), error.to_string(), "it stays failed");
                    assert_eq!(load.finish().unwrap_err().to_string(), error.to_string());
                    error
                }
            };
            let Error::DuplicateKey(Duplicate::InLoad { tree, key }) = &error else {
                panic!("{error}")
            };
            assert_eq!((&tree[..], &key[..]), ("t", &twice.to_be_bytes()[..]));
            assert_eq!(*told.lock().unwrap(), [(twice.to_be_bytes().to_vec(), value(twice, 0))]);
            assert!(!error.to_string().contains("77"), "messages hold no keys");
        }
    }
    assert!(names(&db).is_empty());
    assert_eq!(stat(&db, "space_temporary_bytes"), 0, "nothing is left of it");
    let mut load = db.bulk_load("t", unique()).unwrap();
    put(&mut load, scrambled(count), 0);
    let tree = load.finish().unwrap().tree;
    let mut batch = Batch::new();
    batch.insert(&tree, &7u64.to_be_bytes(), b"").unwrap();
    assert!(matches!(db.commit(&mut batch), Err(Error::DuplicateKey(Duplicate::InBatch { .. }))));
    batch.clear();
    batch.insert(&tree, &count.to_be_bytes(), &value(count, 0)).unwrap();
    db.commit(&mut batch).unwrap();
    assert_rows(&tree, count + 1, |_| 0);
    assert_clean(&db);
    drop((tree, batch));
    db.close().unwrap();
}

/// Long values have extents of their own; those of replaced rows are free.
#[test]
fn long_values_can_be_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new().cache_size(8 << 20)).unwrap();
    let long = |number: u64, round: u64| {
        let word = |i: u64| (number << 40 | round << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..25_000).flat_map(|i| word(i).to_be_bytes()).collect::<Vec<u8>>()
    };
    let mut load = db.bulk_load("t", TreeOptions::default()).unwrap();
    for (round, step) in [(0, 1), (1, 2)] {
        for number in scrambled(100).filter(|number| number % step == 0) {
            load.put(&number.to_be_bytes(), &long(number, round)).unwrap();
            load.put(&(number + 1000).to_be_bytes(), b"short").unwrap();
        }
    }
    let loaded = load.finish().unwrap();
    assert_eq!(loaded.rows, 200);
    let check = |db: &Db| {
        let tree = db.open_tree("t").unwrap();
        for number in 0..100u64 {
            let found = tree.get(&number.to_be_bytes()).unwrap();
            assert!(found == Some(long(number, u64::from(number % 2 == 0))), "row {number}");
        }
        assert_clean(db);
    };
    check(&db);
    drop(loaded);
    // After one checkpoint the pages are in the space map, after two nothing that was replaced is
    // kept.
    (0..3).for_each(|_| db.checkpoint().unwrap());
    check(&db);
    let live = stat(&db, "space_live_bytes") + stat(&db, "space_temporary_bytes");
    assert!(live < 100 * 210_000, "{live} bytes: replaced values are still there");
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new().cache_size(8 << 20)).unwrap();
    check(&db);
    db.drop_tree("t").unwrap();
    assert_space_is_reclaimed(&db);
    assert_clean(&db);
    db.close().unwrap();
}

/// A load that is dropped or fails leaves neither a tree nor space in use.
#[test]
fn an_abandoned_load_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.create_tree("other", TreeOptions::default()).unwrap().put(b"k", b"v").unwrap();
    db.checkpoint().unwrap();
    let before = stat(&db, "space_live_bytes");
    let (mut random, mut rising) = (
        db.bulk_load("random", TreeOptions::default()).unwrap(),
        db.bulk_load("rising", TreeOptions::default()).unwrap(),
    );
    put(&mut random, scrambled(20_000), 0);
    put(&mut rising, 0..20_000, 0);
    rising.put(b"long", &vec![7; 1 << 20]).unwrap();
    assert!(stat(&db, "space_temporary_bytes") > 500_000, "{:?}", db.stats());
    assert!(matches!(rising.put(&vec![0; 1 << 20], b""), Err(Error::KeyTooLong { .. })));
    rising.put(b"short", b"it goes on after that").unwrap();
    // Checkpoints during the load ignore it.
    db.open_tree("other").unwrap().put(b"k", b"w").unwrap();
    db.checkpoint().unwrap();
    assert_clean(&db);
    assert_eq!(names(&db), ["other"]);
    drop((random, rising));
    assert_eq!(stat(&db, "space_temporary_bytes"), 0);
    assert_eq!(stat(&db, "load_memory_bytes"), 0);
    db.checkpoint().unwrap();
    assert!(stat(&db, "space_live_bytes") <= before + (64 << 10));
    assert_clean(&db);
    db.close().unwrap();
}

/// A closed store accepts no more rows, and the load is over.
#[test]
fn closing_the_store_ends_a_load() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut load = db.bulk_load("t", TreeOptions::default()).unwrap();
    put(&mut load, scrambled(10_000), 0);
    db.close().unwrap();
    assert!(matches!(load.put(b"k", b"v"), Err(Error::Closed)));
    assert!(matches!(load.finish(), Err(Error::Closed)));
    drop(db);
    let db = open(dir.path());
    assert!(names(&db).is_empty());
    assert_clean(&db);
    db.close().unwrap();
}

/// The name is taken when the tree is created, not before; the first load to finish gets it.
#[test]
fn the_first_load_to_finish_gets_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (mut a, mut b) = (
        db.bulk_load("t", TreeOptions::default()).unwrap(),
        db.bulk_load("t", TreeOptions::default()).unwrap(),
    );
    put(&mut a, 0..100, 0);
    put(&mut b, 0..200, 0);
    assert_rows(&b.finish().unwrap().tree, 200, |_| 0);
    assert!(matches!(a.finish(), Err(Error::TreeExists(name)) if name == "t"));
    assert!(matches!(db.bulk_load("t", TreeOptions::default()), Err(Error::TreeExists(_))));
    assert!(matches!(db.bulk_load("", TreeOptions::default()), Err(Error::InvalidArgument(_))));
    db.checkpoint().unwrap();
    assert_eq!(stat(&db, "space_temporary_bytes"), 0);
    let empty = db.bulk_load("empty", TreeOptions::default()).unwrap().finish().unwrap();
    assert_eq!(empty.rows, 0);
    assert_rows(&empty.tree, 0, |_| 0);
    empty.tree.put(&0u64.to_be_bytes(), &value(0, 0)).unwrap();
    assert_rows(&empty.tree, 1, |_| 0);
    assert_clean(&db);
    drop(empty);
    db.close().unwrap();
}

/// A table and its index: both or none.
#[test]
fn several_loads_are_published_in_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let begin = |name| db.bulk_load(name, unique()).unwrap();
    let fill = |index_has_twice: bool| {
        let (mut table, mut index) = (begin("t"), begin("t.by"));
        for number in scrambled(5000) {
            table.put(&number.to_be_bytes(), &value(number, 0)).unwrap();
            index.put(&value(number, 0), &number.to_be_bytes()).unwrap();
        }
        if index_has_twice {
            index.put(&value(9, 0), b"").unwrap();
        }
        BulkLoad::finish_all(vec![table, index])
    };
    assert!(matches!(fill(true), Err(Error::DuplicateKey(Duplicate::InLoad { .. }))));
    assert!(names(&db).is_empty());
    assert!(matches!(
        BulkLoad::finish_all(vec![begin("same"), begin("same")]),
        Err(Error::InvalidArgument(_))
    ));
    let before = db.snapshot().seqno();
    let loaded = fill(false).unwrap();
    assert_eq!(db.snapshot().seqno(), before.next(), "one commit");
    assert_eq!(loaded.iter().map(|one| one.rows).collect::<Vec<_>>(), [5000, 5000]);
    assert_rows(&loaded[0].tree, 5000, |_| 0);
    assert_eq!(loaded[1].tree.get(&value(77, 0)).unwrap(), Some(77u64.to_be_bytes().to_vec()));
    assert_clean(&db);
    drop(loaded);
    db.close().unwrap();
}

/// Rule: I43. A snapshot from before does not see the tree; one from after keeps it, through its
/// drop. Rule: I19. A clone keeps the pages that it shares.
#[test]
fn snapshots_and_clones_of_a_loaded_tree_keep_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let count = 10_000;
    let mut loading = db.bulk_load("t", TreeOptions::default()).unwrap();
    put(&mut loading, scrambled(count), 0);
    let before = db.snapshot();
    db.create_snapshot("before").unwrap();
    let tree = loading.finish().unwrap().tree;
    assert!(matches!(before.get(&tree, &7u64.to_be_bytes()), Err(Error::DefinitionChanged(_))));
    let named = db.open_snapshot("before").unwrap();
    assert!(matches!(named.get(&tree, &7u64.to_be_bytes()), Err(Error::DefinitionChanged(_))));
    let after = db.snapshot();
    db.create_snapshot("after").unwrap();
    let copy = db.clone_tree("t", "copy").unwrap();
    for number in (0..count).step_by(2) {
        tree.put(&number.to_be_bytes(), b"changed").unwrap();
    }
    db.checkpoint().unwrap();
    assert_clean(&db);
    let found = after.get(&tree, &8u64.to_be_bytes()).unwrap();
    assert_eq!(found, Some(value(8, 0)), "the snapshot after it sees what was loaded");
    db.drop_tree("t").unwrap();
    (0..3).for_each(|_| db.checkpoint().unwrap());
    assert_rows(&copy, count, |_| 0);
    let named_after = db.open_snapshot("after").unwrap();
    let then = named_after.open_tree("t").unwrap();
    assert_eq!(named_after.get(&then, &8u64.to_be_bytes()).unwrap(), Some(value(8, 0)));
    assert_clean(&db);
    drop((before, after, named, named_after, tree, copy, then));
    db.close().unwrap();
    let db = open(dir.path());
    assert_rows(&db.open_tree("copy").unwrap(), count, |_| 0);
    assert_clean(&db);
    db.close().unwrap();
}

/// Pages of a load are older than the version that links them. An increment whose base is between
/// the two contains them anyway, whatever was changed since. Promise: P26.
#[test]
fn an_increment_contains_loads_since_its_base() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let db = open(dir.path());
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    let count = 10_000;
    let mut loading = db.bulk_load("t", TreeOptions::default()).unwrap();
    put(&mut loading, scrambled(count), 0);
    loading.put(&count.to_be_bytes(), &vec![7; 100_000]).unwrap();
    let mut base = db.backup(at("full")).unwrap();
    let mut chain = Vec::new();
    let mut increment = |db: &Db, name: &str| {
        base = db.backup_since(&base.id, at(name)).unwrap();
        chain.push(at(name));
        let target = at(&format!("{name}-restored"));
        Backup::new(at("full")).increments(&chain).restore(&target).unwrap();
        let again = Db::open(target, common::options()).unwrap();
        assert_clean(&again);
        (again, base.pages)
    };
    other.put(b"k", b"v").unwrap();
    let (again, _) = increment(&db, "loading");
    assert_eq!(names(&again), ["other"]);
    again.close().unwrap();
    let tree = loading.finish().unwrap().tree;
    let copy = db.clone_tree("t", "copy").unwrap();
    tree.put(&7u64.to_be_bytes(), &value(7, 1)).unwrap();
    let (again, pages) = increment(&db, "loaded");
    assert!(pages > 100, "{pages} pages of a tree with so many leaves");
    for (name, round) in [("t", 1), ("copy", 0)] {
        let tree = again.open_tree(name).unwrap();
        assert_eq!(tree.get(&count.to_be_bytes()).unwrap(), Some(vec![7; 100_000]));
        tree.delete(&count.to_be_bytes()).unwrap();
        assert_rows(&tree, count, |number| if number == 7 { round } else { 0 });
    }
    again.close().unwrap();
    tree.put(&8u64.to_be_bytes(), &value(8, 1)).unwrap();
    let (again, few) = increment(&db, "later");
    assert!(few < pages / 2, "{few} of {pages} pages for one row more");
    again.close().unwrap();
    drop((tree, copy, other));
    db.close().unwrap();
}

/// A follower is notified that it has to read the tree.
#[test]
fn the_feed_reports_a_loaded_tree() {
    let dir = tempfile::tempdir().unwrap();
    // Checkpoints are frequent here, and would free the log before it is followed.
    let options = common::options().keep_log(16 << 20);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    db.create_tree("plain", TreeOptions::default()).unwrap();
    let tree = load(&db, "loaded", scrambled(3000));
    tree.put(b"k", b"v").unwrap();
    let mut told = Vec::new();
    while let Some(mut commit) = feed.next(Duration::from_secs(2)).unwrap() {
        while let Some(change) = commit.next().unwrap() {
            match change {
                Change::TreeDefined { info, is_loaded, cloned_from: None } => {
                    told.push((info.name, is_loaded));
                }
                Change::Put { tree, key: b"k", .. } => {
                    told.push((tree.name.unwrap_or_default().into(), false));
                }
                other => panic!("{other:?}"),
            }
        }
        if told.len() == 3 {
            break;
        }
    }
    let told: Vec<(&str, bool)> = told.iter().map(|(name, loaded)| (&name[..], *loaded)).collect();
    assert_eq!(told, [("plain", false), ("loaded", true), ("loaded", false)]);
    drop((feed, tree));
    db.close().unwrap();
}

/// Loads, commits, checkpoints and backups run concurrently.
#[test]
fn loads_run_concurrently_with_commits_checkpoints_and_backups() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let busy = db.create_tree("busy", TreeOptions::default()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rows = 0u64;
            while !done.load(Ordering::Relaxed) {
                busy.put(&(rows % 5000).to_be_bytes(), &value(rows, 0)).unwrap();
                rows += 1;
            }
            rows
        });
        let checkpointer = scope.spawn(|| {
            let mut backups = 0;
            while !done.load(Ordering::Relaxed) {
                db.checkpoint().unwrap();
                db.backup(dir.path().join(format!("backup {backups}"))).unwrap();
                backups += 1;
            }
            backups
        });
        let loaders: Vec<_> = (0..3)
            .map(|loader| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..3 {
                        let tree = load(db, &format!("{loader} {round}"), scrambled(6000));
                        assert_rows(&tree, 6000, |_| 0);
                        if round == 1 {
                            db.drop_tree(&tree.name()).unwrap();
                        }
                    }
                })
            })
            .collect();
        loaders.into_iter().for_each(|loader| loader.join().unwrap());
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0 && checkpointer.join().unwrap() > 0);
    });
    assert_eq!(names(&db).len(), 7);
    assert_clean(&db);
    db.checkpoint().unwrap();
    assert_eq!(stat(&db, "space_temporary_bytes"), 0);
    drop(busy);
    db.close().unwrap();
    let report = frond::check::store(dir.path().join("store"), CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}
