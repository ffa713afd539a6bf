//! The engine's counters of work that must not happen: whole rewrites, copies, leaks.

use crate::common;

use frond::{Batch, Db, Tree, TreeOptions, check::CheckMode, internals::Shape};

/// Leaves of eight blocks, a hundred leaves in a few megabytes.
fn open(dir: &std::path::Path) -> Db {
    let mut tuning = common::tiny();
    tuning.shape = Some(Shape {
        leaf_bytes: 32 << 10,
        fanout_max: 16,
        push_bytes: 8 << 10,
        block_bytes: 4096,
        run_bytes: 64 << 10,
        tiers_max: 4,
        tiers_max_bottom: 8,
        ..Shape::default()
    });
    if let Some(limits) = &mut tuning.limits {
        limits.memtable_bytes = 256 << 10;
        limits.unwritten_bytes = 4 << 20;
    }
    Db::open(dir.join("store"), common::options().cache_size(32 << 20).tuning(tuning)).unwrap()
}

fn scrambled(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn value(number: u64, round: u64) -> Vec<u8> {
    let random = [scrambled(number ^ round), scrambled(number + round), scrambled(!number)];
    random.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Puts rows of `numbers`, in commits of several rows.
fn put(db: &Db, tree: &Tree, numbers: impl Iterator<Item = u64>, round: u64) {
    let mut batch = Batch::new();
    for number in numbers {
        batch.put(tree, &number.to_be_bytes(), &value(number, round)).unwrap();
        if batch.len() == 500 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
}

fn stat(db: &Db, name: &str) -> u64 {
    db.stats().get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Twenty batches of random keys into a tree of a hundred leaves: each entry is encoded only a few
/// times on its way down, and no batch rewrites the tree.
#[test]
fn each_entry_is_encoded_only_a_few_times() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let rows = 100_000;
    put(&db, &tree, 0..rows, 0);
    db.checkpoint().unwrap();
    let before = stat(&db, "apply_entries_encoded");
    let per_batch = 4000;
    for round in 1..=20 {
        let numbers = (0..per_batch).map(|i| scrambled(i + round * per_batch) % rows);
        put(&db, &tree, numbers, round);
        db.checkpoint().unwrap();
    }
    let encoded = stat(&db, "apply_entries_encoded") - before;
    assert!(encoded <= 10 * 20 * per_batch, "{encoded} for {}", 20 * per_batch);
    assert!(stat(&db, "leaf_flushes") > 0, "leaves were merged: {:?}", db.stats());
    assert_clean(&db);
}

/// Changes in one corner of the tree rewrite neither other leaves nor other blocks of a leaf.
#[test]
fn untouched_leaves_and_blocks_are_not_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let rows = 100_000u64;
    put(&db, &tree, 0..rows, 0);
    db.checkpoint().unwrap();
    let whole = stat(&db, "space_live_bytes");
    let written = stat(&db, "checkpoint_bytes_written");
    let encoded = stat(&db, "leaf_entries_encoded");
    let carried = stat(&db, "leaf_blocks_carried");
    let corner = 50_000..50_040;
    let rounds = 200;
    for round in 1..=rounds {
        put(&db, &tree, corner.clone(), round);
        if round % 20 == 0 {
            db.checkpoint().unwrap();
        }
    }
    while db.drain_step().unwrap() {}
    db.checkpoint().unwrap();
    let written = stat(&db, "checkpoint_bytes_written") - written;
    assert!(written < whole / 4, "{written} of {whole}");
    let carried = stat(&db, "leaf_blocks_carried") - carried;
    assert!(carried > 0, "{:?}", db.stats());
    // A block of 4096 bytes holds about a hundred rows, and at most two blocks are affected.
    let encoded = stat(&db, "leaf_entries_encoded") - encoded;
    let flushes = stat(&db, "leaf_flushes");
    assert!(encoded < flushes * 40 * 20, "{encoded} rows in {flushes} flushes");
    assert_clean(&db);
    for number in 0..rows {
        let round = if corner.contains(&number) { rounds } else { 0 };
        let found = tree.get(&number.to_be_bytes()).unwrap();
        assert_eq!(found, Some(value(number, round)), "row {number}");
    }
}

/// A clone writes its catalog entry and its root directory, whatever the tree's size; and the space
/// of both trees is free again once both are dropped. Rule: I19.
#[test]
fn a_clone_copies_no_rows_and_leaves_no_pages() {
    for rows in [5_000u64, 100_000] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let empty = stat(&db, "space_live_bytes");
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        put(&db, &tree, 0..rows, 0);
        while db.drain_step().unwrap() {}
        db.checkpoint().unwrap();
        db.checkpoint().unwrap();
        let full = stat(&db, "space_live_bytes");
        let before = stat(&db, "store_written_bytes") + stat(&db, "log_written_bytes");
        db.clone_tree("t", "u").unwrap();
        let after = stat(&db, "store_written_bytes") + stat(&db, "log_written_bytes");
        assert!(after - before < 64 << 10, "{} bytes for {rows} rows", after - before);
        drop(tree);
        let clone = db.open_tree("u").unwrap();
        put(&db, &clone, 0..rows / 10, 1);
        drop(clone);
        db.drop_tree("t").unwrap();
        db.drop_tree("u").unwrap();
        // Both slots move on to versions without the trees.
        let other = db.create_tree("other", TreeOptions::default()).unwrap();
        for round in 0..3 {
            put(&db, &other, 0..1, round);
            db.checkpoint().unwrap();
        }
        let held = stat(&db, "space_live_bytes") + stat(&db, "space_kept_bytes");
        // What is left is root directories and catalog pages, whatever the trees held.
        assert!(held < empty + (64 << 10), "{held} bytes held, {full} were live");
        assert_clean(&db);
    }
}

/// A unique tree whose indexes and filters are far larger than the limit for open ones: they are
/// closed and read again, in the middle of reads, and memory stays bounded.
#[test]
fn footers_beyond_their_limit_are_evicted_and_reread() {
    const ROWS: u64 = 40_000;
    let dir = tempfile::tempdir().unwrap();
    let mut tuning = common::tiny();
    let limit = 64 << 10;
    if let Some(limits) = &mut tuning.limits {
        limits.footers_bytes = limit;
    }
    let options = || common::options().tuning(tuning.clone());
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let options_of_tree = TreeOptions::new().unique(true);
    let tree = db.create_tree("t", options_of_tree).unwrap();
    put(&db, &tree, (0..ROWS).map(|number| 2 * (number * 7919 % ROWS)), 0);
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    db.checkpoint().unwrap();
    let reading = std::sync::atomic::AtomicU64::new(3);
    let most = std::thread::scope(|scope| {
        for reader in 0..3 {
            let (tree, reading) = (&tree, &reading);
            scope.spawn(move || {
                for step in 0..ROWS {
                    let number = scrambled(step + reader * ROWS) % (2 * ROWS);
                    let expected = number.is_multiple_of(2).then(|| value(number, 0));
                    assert_eq!(tree.get(&number.to_be_bytes()).unwrap(), expected);
                }
                reading.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        let mut most = 0;
        while reading.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            most = most.max(stat(&db, "run_footers_bytes"));
        }
        most
    });
    assert!(most <= 2 * limit, "{most} bytes of footers were open at once");
    assert!(stat(&db, "run_footers_closed") > 1000, "{:?}", db.stats());
    // Unused ones are closed until the rest fits.
    let begun = std::time::Instant::now();
    while stat(&db, "run_footers_bytes") > limit {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", db.stats());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let rows = {
        let mut cursor = tree.scan(..).unwrap();
        std::iter::from_fn(|| cursor.next().unwrap().map(drop)).count() as u64
    };
    assert_eq!(rows, ROWS);
    assert_clean(&db);
    db.close().unwrap();
}
