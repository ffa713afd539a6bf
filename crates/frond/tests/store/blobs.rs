//! Long values: written once into extents of their own, found by every way of reading, kept as long
//! as anything may still show them, and freed after that.

use std::{fs, path::Path};

use frond::{
    Batch, Db, Duplicate, Durability, Error, ErrorKind, Options, RowBuf, Tree, TreeOptions,
    VALUE_BYTES_MAX, VALUE_INLINE_BYTES_MAX,
    check::CheckMode,
    internals::{Limits, Tuning},
    operator,
};
use frond_testkit::disk::{CrashOptions, SimVfs, crash_states};

const LONG: usize = VALUE_INLINE_BYTES_MAX + 1;

/// Bytes that no codec shrinks to less than two thirds.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|at| if at % 3 == 0 { b'-' } else { next() }).collect()
}

fn open(dir: &Path) -> Db {
    Db::open(dir.join("store"), Options::new().cache_size(16 << 20)).unwrap()
}

/// Bytes of the store file that are not free.
fn used(db: &Db) -> u64 {
    let stats = db.stats();
    let of = |name| stats.get(name).unwrap();
    of("space_live_bytes") + of("space_kept_bytes") + of("space_temporary_bytes")
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Small memtables and many checkpoints; runs and values of the default sizes.
fn small() -> Tuning {
    let limits = Limits {
        memtable_bytes: 64 << 10,
        memtable_log_bytes: 1 << 20,
        unwritten_bytes: 1 << 20,
        footers_bytes: 1 << 20,
        checkpoint_log_bytes: 400 << 10,
        checkpoint_millis: 10_000,
        mini_run_entries: 10_000,
        own_writes_bytes: 64 << 10,
    };
    Tuning { limits: Some(limits), ..Tuning::default() }
}

/// Makes checkpoints until no old version is kept.
fn settle(db: &Db, tree: &Tree) {
    for round in 0..4u8 {
        tree.put(b"~", &[round]).unwrap();
        db.checkpoint().unwrap();
    }
}

/// Checks a value in every way of reading.
fn expect(tree: &Tree, key: &[u8], expected: &[u8]) {
    assert!(tree.get(key).unwrap().as_deref() == Some(expected), "get");
    assert!(tree.contains(key).unwrap());
    let mut values = tree.get_many(&[key, b"\xff no such key"]).unwrap();
    assert!(values.pop() == Some(None) && values.pop().flatten().as_deref() == Some(expected));
    let end = [key, b"\0"].concat();
    let mut cursor = tree.scan(key..&end).unwrap();
    assert!(cursor.next().unwrap() == Some((key, expected)), "forward");
    assert!(cursor.next().unwrap().is_none());
    cursor.seek_last();
    assert!(cursor.prev().unwrap() == Some((key, expected)), "backward");
    cursor.seek_first();
    let mut rows = RowBuf::new();
    assert_eq!(cursor.read_batch(&mut rows, 10).unwrap(), 1);
    assert!(rows.get(0) == Some((key, expected)), "in batches");
    let mut part = vec![0; 1000];
    let from = expected.len() - 500;
    assert_eq!(tree.get_at(key, from, &mut part).unwrap(), Some(500));
    assert!(part[..500] == expected[from..], "in parts");
    assert_eq!(tree.get_at(b"\xff no such key", 0, &mut part).unwrap(), None);
}

/// Long values in the memtable, in the tree, after a restart, and next to short values. Promise:
/// P1, P2.
#[test]
fn long_values_are_found_before_and_after_checkpoint_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [LONG - 1, LONG, 256 << 10, (256 << 10) + 1, 1 << 20, (5 << 20) + 4095, 64 << 20];
    for round in 0..2 {
        let db = open(dir.path());
        let tree = match round {
            0 => db.create_tree("t", TreeOptions::default()).unwrap(),
            _ => db.open_tree("t").unwrap(),
        };
        let values: Vec<_> =
            (0..).zip(lengths).map(|(n, bytes)| (n, value(n + 1, bytes))).collect();
        if round == 0 {
            for (n, value) in &values {
                tree.put(&[*n as u8], value).unwrap();
                tree.put(&[*n as u8, 1], b"short").unwrap();
            }
        }
        for _ in 0..2 {
            for (n, value) in &values {
                expect(&tree, &[*n as u8], value);
            }
            db.checkpoint().unwrap();
        }
        assert_clean(&db);
        let mut cursor = tree.scan(..).unwrap();
        let mut rows = RowBuf::new();
        let (mut count, mut batches) = (0, 0);
        while cursor.read_batch(&mut rows, 100).unwrap() > 0 {
            (count, batches) = (count + rows.len(), batches + 1);
        }
        assert_eq!(count, 2 * lengths.len());
        assert!(batches > 1, "a batch of rows ends after 16 MiB");
        db.close().unwrap();
    }
}

/// A snapshot keeps what it shows, in memory and by name, through a restart. Promise: P2.
#[test]
fn snapshots_keep_long_values_that_were_overwritten_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let (one, two, three) = (value(1, 300_000), value(2, 300_000), value(3, LONG));
    tree.put(b"k", &one).unwrap();
    tree.put(b"gone", &three).unwrap();
    let unapplied = db.snapshot();
    db.create_snapshot("first").unwrap();
    let applied = db.snapshot();
    tree.put(b"k", &two).unwrap();
    tree.delete(b"gone").unwrap();
    for _ in 0..3 {
        settle(&db, &tree);
        for snapshot in [&unapplied, &applied, &db.open_snapshot("first").unwrap()] {
            assert!(snapshot.get(&tree, b"k").unwrap().as_ref() == Some(&one));
            let mut part = vec![0; 9];
            assert_eq!(snapshot.get_at(&tree, b"gone", LONG - 3, &mut part).unwrap(), Some(3));
            assert!(part[..3] == three[LONG - 3..]);
            let mut cursor = snapshot.scan(&tree, ..).unwrap();
            assert!(cursor.next().unwrap() == Some((&b"gone"[..], &three[..])));
            assert!(cursor.next().unwrap() == Some((&b"k"[..], &one[..])));
        }
        expect(&tree, b"k", &two);
        assert_eq!(tree.get(b"gone").unwrap(), None);
    }
    drop((unapplied, applied));
    assert_clean(&db);
    drop(tree);
    db.close().unwrap();
    let db = open(dir.path());
    let tree = db.open_tree("t").unwrap();
    let first = db.open_snapshot("first").unwrap();
    assert!(first.get(&tree, b"k").unwrap().as_ref() == Some(&one));
    assert!(first.get(&tree, b"gone").unwrap().as_ref() == Some(&three));
    drop(first);
    assert_clean(&db);
    db.drop_snapshot("first").unwrap();
    settle(&db, &tree);
    assert!(used(&db) < 500_000, "only what the tree has: {}", used(&db));
    assert_clean(&db);
    db.close().unwrap();
}

/// The memtable of a snapshot is spilled; the long values that it refers to stay where they are.
/// Rule: I28.
#[test]
fn a_spilled_snapshot_keeps_its_long_values() {
    let vfs = SimVfs::new();
    let options = Options::new().cache_size(8 << 20).env(vfs.env(1)).tuning(small());
    let db = Db::open("/store", options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let append = |key: &[u8], operand: &[u8]| {
        let mut batch = Batch::new();
        batch.merge(&tree, key, operator::APPEND, operand).unwrap();
        db.commit(&mut batch).unwrap();
    };
    tree.put(b"old", &value(1, LONG)).unwrap();
    db.checkpoint().unwrap();
    tree.put(b"new", &value(2, LONG)).unwrap();
    tree.put(b"grown", &value(3, LONG - 1)).unwrap();
    append(b"grown", b"end");
    append(b"old", b"end");
    let snapshot = db.snapshot();
    tree.put(b"after", b"x").unwrap(); // so that the snapshot lies inside of the memtable
    for round in 0..8 {
        for key in [&b"old"[..], b"new", b"grown"] {
            tree.put(key, &value(10 + round, LONG)).unwrap();
        }
        db.checkpoint().unwrap();
        while db.step().unwrap() {}
    }
    assert!(db.stats().snapshot_spills > 0);
    for (key, seed, bytes, end) in [
        (&b"old"[..], 1, LONG, &b"end"[..]),
        (b"new", 2, LONG, b""),
        (b"grown", 3, LONG - 1, b"end"),
    ] {
        let expected = [&value(seed, bytes)[..], end].concat();
        assert!(snapshot.get(&tree, key).unwrap().as_ref() == Some(&expected));
        let mut cursor = snapshot.scan(&tree, key..).unwrap();
        assert!(cursor.next().unwrap() == Some((key, &expected[..])));
    }
    assert_clean(&db);
    drop(snapshot);
    settle(&db, &tree);
    assert!(used(&db) < 5 * LONG as u64, "{}", used(&db));
    drop(tree);
    db.close().unwrap();
}

/// Long values are freed when deleted, overwritten, merged away, or dropped with their batch or
/// tree. Rules: I18, I22.
#[test]
fn the_space_of_long_values_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    settle(&db, &tree);
    let nothing = used(&db) + (100 << 10);

    let mut batch = Batch::new();
    batch.put(&tree, b"dropped with its batch", &value(9, 1 << 20)).unwrap();
    assert!(used(&db) > nothing && batch.bytes() < 1000, "on disk, not in memory");
    drop(batch);
    assert!(used(&db) < nothing, "{}", used(&db));

    let long = value(1, 4 << 20);
    tree.put(b"k", &long).unwrap();
    db.checkpoint().unwrap();
    let mut merged = Batch::new();
    merged.merge(&tree, b"k", operator::APPEND, b"end").unwrap();
    db.commit(&mut merged).unwrap();
    settle(&db, &tree);
    let expected = [&long[..], b"end"].concat();
    expect(&tree, b"k", &expected);
    assert!(used(&db) < nothing + (5 << 20), "one copy: {}", used(&db));
    for seed in 2..20 {
        tree.put(b"k", &value(seed, 4 << 20)).unwrap();
    }
    settle(&db, &tree);
    assert!(used(&db) < nothing + (5 << 20), "the last of many: {}", used(&db));
    tree.delete(b"k").unwrap();
    settle(&db, &tree);
    assert!(used(&db) < nothing, "{}", used(&db));

    for name in ["a", "b"] {
        let other = db.create_tree(name, TreeOptions::default()).unwrap();
        for key in 0..8 {
            other.put(&[key], &value(key.into(), 1 << 20)).unwrap();
        }
        db.clone_tree(name, "clone").unwrap();
        db.checkpoint().unwrap();
        db.drop_tree(name).unwrap();
        settle(&db, &tree);
        assert!(used(&db) > 5 << 20, "the clone has it all");
        let clone = db.open_tree("clone").unwrap();
        expect(&clone, &[7], &value(7, 1 << 20));
        clone.put(&[7], &value(8, 1 << 20)).unwrap();
        assert_clean(&db);
        db.drop_tree("clone").unwrap();
        settle(&db, &tree);
        assert!(used(&db) < nothing, "{}", used(&db));
    }
    assert_clean(&db);
    drop(tree);
    db.close().unwrap();
    let bytes = fs::metadata(dir.path().join("store/store.frond")).unwrap().len();
    assert!(bytes < nothing + (1 << 20), "the file shrinks: {bytes}");
}

/// A full backup contains long values, and an increment the new ones, without the old ones next to
/// them in a rewritten leaf. Promise: P26.
#[test]
fn backups_contain_long_values() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let (old, replaced, new) = (value(1, 3 << 20), value(2, 1 << 20), value(3, 1 << 20));
    tree.put(b"old", &old).unwrap();
    tree.put(b"replaced", &replaced).unwrap();
    let full = db.backup(at("full")).unwrap();
    assert!(full.bytes > 3 << 20);
    tree.put(b"replaced", &new).unwrap();
    let increment = db.backup_since(&full.id, at("increment")).unwrap();
    assert!((600 << 10..2 << 20).contains(&increment.bytes), "{increment:?}");
    drop(tree);
    db.close().unwrap();
    let backup = frond::backup::Backup::new(at("full")).increment(at("increment"));
    backup.restore(at("again")).unwrap();
    for (name, second) in [("full", &replaced), ("again", &new)] {
        let report = frond::check::store(at(name), CheckMode::Full).unwrap();
        assert!(report.is_clean() && report.checked.blobs == 2, "{name}: {report}");
        let db = Db::open(at(name), Options::new().read_only(true)).unwrap();
        let tree = db.open_tree("t").unwrap();
        expect(&tree, b"old", &old);
        expect(&tree, b"replaced", second);
        drop(tree);
        db.close().unwrap();
    }
}

/// A value of one byte more than 1 GiB is refused before anything is written.
#[test]
fn a_value_of_more_than_a_gib_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    let before = used(&db);
    // Zeros that are never touched take no memory.
    let too_long = vec![0; VALUE_BYTES_MAX + 1];
    let mut batch = Batch::new();
    for refused in [
        tree.put(b"k", &too_long).map(drop),
        batch.put(&tree, b"k", &too_long),
        batch.insert(&tree, b"k", &too_long),
    ] {
        assert!(matches!(refused, Err(Error::ValueTooLong { max: VALUE_BYTES_MAX, .. })));
    }
    let operand = batch.merge(&tree, b"k", operator::APPEND, &too_long);
    assert_eq!(operand.unwrap_err().kind(), ErrorKind::FixCall);
    assert!(batch.is_empty());
    assert_eq!(used(&db), before);
    tree.put(b"k", b"short").unwrap();
    db.close().unwrap();
}

/// A refused checked insert leaves its long value in the batch; it is freed with the batch.
#[test]
fn a_refused_insert_releases_its_space() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    tree.put(b"k", &value(1, LONG)).unwrap();
    let mut batch = Batch::new();
    batch.insert(&tree, b"k", &value(2, 1 << 20)).unwrap();
    assert!(matches!(db.commit(&mut batch), Err(Error::DuplicateKey(Duplicate::InBatch { .. }))));
    tree.delete(b"k").unwrap();
    db.commit(&mut batch).unwrap();
    expect(&tree, b"k", &value(2, 1 << 20));
    batch.insert(&tree, b"k", &value(3, 1 << 20)).unwrap();
    assert!(matches!(db.commit(&mut batch), Err(Error::DuplicateKey(Duplicate::InBatch { .. }))));
    batch.clear();
    settle(&db, &tree);
    assert!(used(&db) < 3 << 19, "{}", used(&db));
    assert_clean(&db);
    db.close().unwrap();
}

/// After a power failure, at each level, a long value is there as it was committed or not at all,
/// and what was acknowledged under `sync` is there. Promises: P1, P3, P4.
#[test]
fn long_values_survive_power_failure() {
    for level in [Durability::Sync, Durability::Os, Durability::Lazy] {
        let vfs = SimVfs::new();
        let options = |vfs: &SimVfs, seed| {
            let options = Options::new().cache_size(8 << 20).durability(level);
            options.env(vfs.env(seed)).tuning(small())
        };
        let db = Db::open("/store", options(&vfs, 1)).unwrap();
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        for step in 0u8..12 {
            let key = [step % 4];
            if step == 7 {
                tree.delete(&key).unwrap();
            } else {
                tree.put(&key, &value(step.into(), LONG + usize::from(step) * 9000)).unwrap();
            }
            while db.step().unwrap() {}
            let disk = vfs.disk();
            let states = CrashOptions { class_states_max: 3, ..CrashOptions::short() };
            for state in crash_states(&disk, &states.with_seed(step.into())) {
                let after = SimVfs::start(state.disk);
                let db = Db::open("/store", options(&after, 2)).unwrap();
                let tree = db.open_tree("t").ok();
                let mut lost = 0;
                for key in 0u8..4 {
                    let found = tree.as_ref().and_then(|tree| tree.get(&[key]).unwrap());
                    let versions = (0..=step).filter(|step| step % 4 == key);
                    let versions = versions.map(|step| {
                        (step != 7).then(|| value(step.into(), LONG + usize::from(step) * 9000))
                    });
                    let states: Vec<_> = [None].into_iter().chain(versions).collect();
                    let at = states.iter().rposition(|state| *state == found);
                    let at = at.unwrap_or_else(|| panic!("{}: no such value was put", state.what));
                    lost += states.len() - 1 - at;
                }
                let may_lose = match level {
                    Durability::Sync => false,
                    Durability::Os => !state.kill,
                    Durability::Lazy => true,
                };
                assert!(lost == 0 || may_lose, "{level:?}, step {step}, {}: {lost}", state.what);
                let report = db.check(CheckMode::Full).unwrap();
                assert!(report.is_clean(), "{}: {report}", state.what);
                db.close().unwrap();
            }
        }
    }
}

/// A flipped byte is an error of that value alone, and the check reports the place. Promises: P9,
/// P10.
#[test]
fn damage_in_a_long_value_is_an_error_of_that_value() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    // Noise is stored uncompressed, so that it can be found in the file.
    let noise: Vec<u8> = value(5, 3 << 20).into_iter().filter(|&byte| byte != b'-').collect();
    tree.put(b"damaged", &noise).unwrap();
    tree.put(b"whole", &value(6, 1 << 20)).unwrap();
    drop(tree);
    db.close().unwrap();
    let path = dir.path().join("store/store.frond");
    let mut bytes = fs::read(&path).unwrap();
    let mark = &noise[1_000_000..1_000_032];
    let at = bytes.windows(32).position(|window| window == mark).unwrap();
    bytes[at] ^= 4;
    fs::write(&path, &bytes).unwrap();

    let report = frond::check::store(dir.path().join("store"), CheckMode::Full);
    let report = report.unwrap();
    let finding = report.findings.iter().find(|finding| finding.code == "checksum").unwrap();
    assert!((finding.offset..finding.offset + finding.bytes).contains(&(at as u64)), "{report}");
    assert_eq!((finding.tree.as_deref(), report.findings.len()), (Some("t"), 1), "{report}");
    let db = open(dir.path());
    let tree = db.open_tree("t").unwrap();
    assert_eq!(tree.get(b"damaged").unwrap_err().kind(), ErrorKind::Restore);
    let mut part = vec![0; 10];
    assert!(tree.get_at(b"damaged", 1_000_000, &mut part).is_err());
    assert_eq!(tree.get_at(b"damaged", 5, &mut part).unwrap(), Some(10), "an other piece");
    assert!(tree.contains(b"damaged").unwrap());
    expect(&tree, b"whole", &value(6, 1 << 20));
    tree.delete(b"damaged").unwrap();
    settle(&db, &tree);
    assert_clean(&db);
    db.close().unwrap();
}
