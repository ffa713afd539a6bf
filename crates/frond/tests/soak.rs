//! Soak test: a constant load for a long time, with restarts; what the process and the store hold
//! must stay flat (docs/safety.md, "How it is tested"). Run by `make soak`. Also a disk that
//! another program repeatedly fills, on a real file system of its own (`make torture`).

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use frond::{Batch, Db, Durability, Error, Options, Tree, TreeOptions, check::CheckMode};
use frond_testkit::Dice;

const KEYS: u64 = 50_000;

fn options() -> Options {
    Options::new().cache_size(32 << 20).durability(Durability::Lazy)
}

/// Figures that must not grow.
#[derive(Clone, Copy, Debug)]
struct Sample {
    resident: u64,
    threads: u64,
    descriptors: u64,
    files: u64,
}

impl Sample {
    fn take(store: &Path) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
        };
        let names = std::fs::read_dir(store).expect("a store");
        let lengths =
            names.map(|name| name.and_then(|name| name.metadata()).map_or(0, |m| m.len()));
        Self {
            resident: field("VmRSS:") << 10,
            threads: field("Threads:"),
            descriptors: std::fs::read_dir("/proc/self/fd").expect("Linux").count() as u64,
            files: lengths.sum(),
        }
    }
}

/// Overwrites and deletes at random, so that the number of live keys stays constant.
fn churn(db: &Db, tree: &Tree, seed: u64, stop: &AtomicBool) {
    let mut dice = Dice::new(seed);
    let mut batch = Batch::new();
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..20 {
            let key = dice.below(KEYS).to_be_bytes();
            match dice.below(8) {
                0 => batch.delete(tree, &key).unwrap(),
                _ => batch.put(tree, &key, &[dice.bits() as u8; 200]).unwrap(),
            }
        }
        db.commit(&mut batch).unwrap();
    }
}

fn scan(db: &Db, tree: &Tree, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let snapshot = db.snapshot();
        let mut cursor = snapshot.scan(tree, ..).unwrap();
        let mut last: Option<Vec<u8>> = None;
        while let Some((key, value)) = cursor.next().unwrap() {
            assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
            assert!(value.iter().all(|byte| *byte == value[0]), "a value is whole");
            last = Some(key.to_vec());
        }
    }
}

#[test]
#[ignore = "minutes to hours: `make soak`"]
fn resource_use_is_stable_at_a_constant_live_size() {
    let seconds = std::env::var("FROND_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let total = Duration::from_secs(seconds.unwrap_or(600));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (start, rounds) = (Instant::now(), 9);
    let mut samples = Vec::new();
    for round in 0..rounds {
        let db = Db::open(&path, options()).unwrap();
        let tree = match round {
            0 => db.create_tree("t", TreeOptions::default()).unwrap(),
            _ => db.open_tree("t").unwrap(),
        };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (db, tree, stop) = (&db, &tree, &stop);
                scope.spawn(move || churn(db, tree, 100 * round + writer, stop));
            }
            scope.spawn(|| scan(&db, &tree, &stop));
            for sample in 1..=4 {
                let until = total * (4 * round as u32 + sample) / (4 * rounds as u32);
                std::thread::sleep(until.saturating_sub(start.elapsed()));
                samples.push(Sample::take(&path));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "round {round}: {report}");
        drop(tree);
        db.close().unwrap();
    }
    // The first third of the time fills the store and the cache.
    let third = samples.len() / 3;
    for (name, of, slack) in [
        ("resident bytes", (|s: &Sample| s.resident) as fn(&Sample) -> u64, 16 << 20),
        ("threads", |s| s.threads, 2),
        ("descriptors", |s| s.descriptors, 4),
        ("bytes of files", |s| s.files, 48 << 20),
    ] {
        let most = |samples: &[Sample]| samples.iter().map(of).max().unwrap_or_default();
        let (before, after) = (most(&samples[third..2 * third]), most(&samples[2 * third..]));
        println!("{name}: at most {before}, then {after}");
        assert!(after <= before + before / 8 + slack, "{name} grow: {samples:#?}");
    }
}

/// Promise: P13. `FROND_SMALL_DISK` is a directory on a file system of about 64 MiB.
#[test]
#[ignore = "needs a small file system: `make torture` mounts one"]
fn a_disk_filled_by_others_refuses_writes_and_recovers() {
    let disk = std::env::var_os("FROND_SMALL_DISK").map(PathBuf::from).expect("see above");
    let (path, filler) = (disk.join("store"), disk.join("filler"));
    let mut model = std::collections::BTreeMap::new();
    let mut refused = 0;
    let mut db = Db::open(&path, options().cache_size(4 << 20)).unwrap();
    db.create_tree("t", TreeOptions::default()).unwrap();
    let mut dice = Dice::new(7);
    for round in 0..50u64 {
        // Another program takes all the free space while rows are put.
        let fill = std::fs::File::create(&filler).unwrap();
        let mut taken = 0;
        while std::os::unix::fs::FileExt::write_all_at(&fill, &[1; 64 << 10], taken).is_ok() {
            taken += 64 << 10;
        }
        let tree = db.open_tree("t").unwrap();
        for _ in 0..200 {
            let (key, value) = (dice.below(2000).to_be_bytes(), vec![dice.bits() as u8; 3000]);
            match tree.put(&key, &value) {
                Ok(_) => drop(model.insert(key, value)),
                Err(Error::Full(_)) => refused += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        for (key, value) in &model {
            assert_eq!(tree.get(key).unwrap().as_ref(), Some(value), "reads go on");
        }
        drop(fill);
        std::fs::remove_file(&filler).unwrap();
        tree.put(b"after", b"space is back").expect("no restart is needed");
        if round % 10 == 9 {
            drop(tree);
            let report = db.check(CheckMode::Full).unwrap();
            assert!(report.is_clean(), "round {round}: {report}");
            db.close().unwrap();
            db = Db::open(&path, options().cache_size(4 << 20)).unwrap();
        }
    }
    println!("{refused} puts refused");
    assert!(refused > 0, "the disk was never full");
    db.close().unwrap();
}
