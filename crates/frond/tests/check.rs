//! Tests of the check through the public API: stores of every shape are clean, and a damaged byte
//! is either found or not part of the state.

mod common;

use std::{collections::BTreeMap, path::Path};

use common::{options, tiny};
use frond::{
    Batch, Db, Durability, Tree, TreeOptions,
    check::{self, CheckMode, CheckReport},
    internals::{Limits, Tuning},
    operator,
};
use frond_testkit::Dice;

#[track_caller]
fn assert_clean(report: &CheckReport) {
    assert!(report.findings.is_empty(), "{report}");
}

#[track_caller]
fn assert_clean_closed(path: &Path) -> CheckReport {
    let before = files(path);
    assert_clean(&check::store(path, CheckMode::Quick).unwrap());
    let report = check::store(path, CheckMode::Full).unwrap();
    assert_clean(&report);
    assert!(files(path) == before, "a check writes nothing");
    report
}

fn files(path: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    names.map(|name| (name.clone(), std::fs::read(name).unwrap())).collect()
}

/// Random puts, deletes, merges and range deletes.
fn churn(db: &Db, tree: &Tree, dice: &mut Dice, steps: u64, keys: u64) {
    let mut batch = Batch::new();
    for step in 0..steps {
        let key = format!("key{:06}", dice.below(keys)).into_bytes();
        match dice.below(20) {
            0..13 => batch.put(tree, &key, &vec![b'v'; dice.below(60) as usize]).unwrap(),
            13..16 => batch.delete(tree, &key).unwrap(),
            16..19 => batch.merge(tree, &key, operator::APPEND, b"+").unwrap(),
            _ if dice.below(10) == 0 => {
                let start = dice.below(keys);
                let end = format!("key{:06}", start + 1 + dice.below(60)).into_bytes();
                batch.delete_range(tree, format!("key{start:06}").as_bytes()..&end[..]).unwrap();
            }
            _ => {}
        }
        if step % 7 == 0 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
}

#[test]
fn a_fresh_store_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    assert_clean(&db.check(CheckMode::Full).unwrap());
    assert!(check::store(&path, CheckMode::Quick).is_err(), "it is locked");
    db.close().unwrap();
    assert!(db.check(CheckMode::Quick).is_err(), "it is closed");
    assert_clean_closed(&path);
    assert!(check::store(dir.path().join("none"), CheckMode::Quick).is_err());
}

#[test]
fn deep_trees_are_clean_at_any_time() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let mut dice = Dice::new(seed);
        for round in 0..4 {
            let db = Db::open(&path, options()).unwrap();
            if round == 0 {
                db.create_tree("a", TreeOptions::default()).unwrap();
                let unique = TreeOptions::new().unique(true);
                db.create_tree("b", unique).unwrap();
            }
            let (a, b) = (db.open_tree("a").unwrap(), db.open_tree("b").unwrap());
            for part in 0..3 {
                churn(&db, &a, &mut dice, 1500, 8000);
                churn(&db, &b, &mut dice, 700, 300 << (3 * part));
                assert_clean(&db.check(CheckMode::Full).unwrap());
            }
            let shape = db.open_tree("a").unwrap().shape().unwrap();
            assert!(shape.levels.len() >= 2 || round == 0, "{shape}");
            assert!(shape.levels.windows(2).all(|pair| pair[0].children == pair[1].nodes));
            db.checkpoint().unwrap();
            assert_clean(&db.check(CheckMode::Full).unwrap());
            db.close().unwrap();
            let report = assert_clean_closed(&path);
            assert!(report.checked.entries > 100, "{report}");
        }
    }
}

#[test]
fn an_unclosed_store_is_clean() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let (path, crashed) = (dir.path().join("store"), dir.path().join("crashed"));
        let db = Db::open(&path, options().durability(Durability::Os)).unwrap();
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let mut dice = Dice::new(seed + 100);
        for round in 0..3 {
            churn(&db, &tree, &mut dice, 1000, 3000);
            if round == 1 {
                db.checkpoint().unwrap();
            }
            let _ = std::fs::remove_dir_all(&crashed);
            copy_quietly(&path, &crashed);
            assert_clean_closed(&crashed);
            let again = Db::open(&crashed, options()).unwrap();
            assert_clean(&again.check(CheckMode::Full).unwrap());
            churn(&again, &again.open_tree("t").unwrap(), &mut dice, 300, 3000);
            again.close().unwrap();
            assert_clean_closed(&crashed);
        }
    }
}

/// Copies the files as a killed process leaves them: repeated until two copies in a row are equal,
/// since background work may be writing.
fn copy_quietly(from: &Path, to: &Path) {
    let copy = || -> std::io::Result<BTreeMap<std::path::PathBuf, Vec<u8>>> {
        let names = std::fs::read_dir(from)?.map(|entry| Ok(entry?.path()));
        let names: std::io::Result<Vec<_>> = names.collect();
        names?.into_iter().map(|name| Ok((name.clone(), std::fs::read(name)?))).collect()
    };
    let mut before = copy();
    let files = loop {
        std::thread::sleep(std::time::Duration::from_millis(30));
        // A segment may be removed between listing and reading it.
        match (before, copy()) {
            (Ok(before), Ok(now)) if before == now => break now,
            (_, now) => before = now,
        }
    };
    std::fs::create_dir(to).unwrap();
    for (name, bytes) in files {
        std::fs::write(to.join(name.file_name().unwrap()), bytes).unwrap();
    }
}

#[test]
fn dropped_trees_leave_no_pages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    let mut dice = Dice::new(5);
    for round in 0..6 {
        let name = format!("t{round}");
        let tree = db.create_tree(&name, TreeOptions::default()).unwrap();
        churn(&db, &tree, &mut dice, 1200, 2000);
        if round % 2 == 0 {
            db.checkpoint().unwrap();
        }
        if round > 0 {
            db.drop_tree(&format!("t{}", round - 1)).unwrap();
        }
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
    }
    db.drop_tree("t5").unwrap();
    for _ in 0..3 {
        let keep =
            db.create_tree(&format!("k{}", dice.below(1 << 30)), Default::default()).unwrap();
        keep.put(b"k", b"v").unwrap();
        db.checkpoint().unwrap();
        assert_clean(&db.check(CheckMode::Full).unwrap());
    }
    let live = db.stats().get("space_live_bytes");
    assert!(live.is_none_or(|bytes| bytes < 64 << 10), "{live:?} bytes for three rows");
    db.close().unwrap();
    assert_clean_closed(&path);
}

#[test]
fn a_check_runs_concurrently_with_commits_and_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice::new(77);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                churn(&db, &tree, &mut dice, 500, 4000);
            }
        });
        for round in 0..30 {
            let mode = if round % 3 == 0 { CheckMode::Quick } else { CheckMode::Full };
            let report = db.check(mode).unwrap();
            if !report.findings.is_empty() {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{report}");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    db.close().unwrap();
}

/// Whatever byte is damaged: the check reports it, or the store opens and every row is right.
#[test]
fn a_flipped_byte_is_detected_or_irrelevant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut dice = Dice::new(9);
    churn(&db, &tree, &mut dice, 4000, 3000);
    db.close().unwrap();
    let rows = |path: &Path| -> frond::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let db = Db::open(path, options().read_only(true))?;
        let mut rows = Vec::new();
        let mut cursor = db.open_tree("t")?.scan(..)?;
        while let Some((key, value)) = cursor.next()? {
            rows.push((key.to_vec(), value.to_vec()));
        }
        Ok(rows)
    };
    let expected = rows(&path).unwrap();
    assert!(expected.len() > 500);
    // How much of the file is dead pages depends on the time of checkpoints: so the test continues
    // until enough live ones were hit.
    let (mut found, mut harmless, mut round) = (0, 0, 0);
    while found < 100 || round < 300 {
        assert!(round < 3000, "{found} found, {harmless} harmless");
        round += 1;
        let all = files(&path);
        let (name, bytes) = if round % 4 == 0 {
            all.iter().nth(dice.below(all.len() as u64) as usize).unwrap()
        } else {
            all.iter().find(|(name, _)| name.ends_with("store.frond")).unwrap()
        };
        // Mostly non-zero bytes, because pages lie far apart.
        let start = dice.below(bytes.len() as u64) as usize;
        let at = match round % 8 {
            0 => start,
            _ => (start..bytes.len()).find(|&at| bytes[at] != 0).unwrap_or(start),
        };
        let mut bad = bytes.clone();
        bad[at] ^= 1 << dice.below(8);
        std::fs::write(name, &bad).unwrap();
        match check::store(&path, CheckMode::Full) {
            Ok(report) if report.findings.is_empty() => {
                harmless += 1;
                let rows =
                    rows(&path).unwrap_or_else(|error| panic!("{}: {at}: {error}", name.display()));
                assert!(rows == expected, "byte {at} of {}", name.display());
            }
            _ => found += 1,
        }
        std::fs::write(name, bytes).unwrap();
    }
    assert_clean_closed(&path);
}

/// A crash during recovery, or right after it: checkpoints during a long replay must record log
/// positions from which recovery can start.
#[test]
fn a_recovery_longer_than_a_memtable_leaves_valid_slots() {
    let dir = tempfile::tempdir().unwrap();
    let (path, crashed) = (dir.path().join("store"), dir.path().join("crashed"));
    let lazy = Tuning {
        limits: Some(Limits {
            memtable_bytes: 4 << 20,
            unwritten_bytes: 64 << 20,
            footers_bytes: 1 << 20,
            checkpoint_log_bytes: 64 << 20,
            checkpoint_millis: 1 << 40,
            mini_run_entries: 100,
            ..tiny().limits.unwrap()
        }),
        ..tiny()
    };
    let db = Db::open(&path, options().tuning(lazy).durability(Durability::Os)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut dice = Dice::new(3);
    churn(&db, &tree, &mut dice, 8000, 5000);
    copy_quietly(&path, &crashed);
    for _ in 0..2 {
        // Small memtables: the replay fills many, and makes checkpoints in between.
        let mut limits = tiny().limits.unwrap();
        limits.unwritten_bytes = 32 << 10;
        let small = Tuning { limits: Some(limits), ..tiny() };
        let again = Db::open(&crashed, options().tuning(small)).unwrap();
        let copy = dir.path().join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        copy_quietly(&crashed, &copy);
        assert_clean(&again.check(CheckMode::Full).unwrap());
        assert_clean_closed(&copy);
        let opened = Db::open(&copy, options()).unwrap();
        assert_clean(&opened.check(CheckMode::Full).unwrap());
        drop(again);
        std::fs::remove_dir_all(&crashed).unwrap();
        copy_quietly(&path, &crashed);
    }
}
