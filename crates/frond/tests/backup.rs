//! Tests of backups: each is a consistent snapshot whatever runs concurrently, complete or absent,
//! and a chain of increments restores every state of which it was made. Promise: P26.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use frond::{
    Batch, Db, Durability, Error, ErrorKind, Options, Result, Tree, TreeOptions,
    backup::{Backup, BackupId, BackupInfo, VersionNumber},
    check::CheckMode,
    internals::{
        Limits, Tuning,
        io::{Env, MemoryVfs, OpenMode, RealClock, RealRng, Vfs, Workers},
    },
};
use frond_testkit::{
    DbEngine,
    disk::{CrashOptions, Fault, FaultKind, SimVfs, When, crash_states},
    drive::{Engine, Store},
    effort,
    model::Everything,
    ops::{Op, Swarm, generate},
};

fn assert_clean(dir: &Path, env: &Env) {
    let report = frond::check::store_in(env, dir, CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{}: {report}", dir.display());
}

/// A full backup with its increments, among the files of an environment.
fn backup_in(env: &Env, full: &str, increments: &[impl AsRef<Path>]) -> Backup {
    Backup::new(full).increments(increments).env(env.clone())
}

fn restore_in(
    env: &Env,
    full: &str,
    increments: &[impl AsRef<Path>],
    target: impl AsRef<Path>,
) -> Result<BackupInfo> {
    backup_in(env, full, increments).restore(target)
}

/// The content of a store at `path`, opened under the name that the engine opens.
fn shown(engine: &DbEngine, vfs: &SimVfs, path: &Path) -> Everything {
    let world = SimVfs::start(vfs.disk());
    let env = world.env(99);
    assert_clean(path, &env);
    if world.exists(Path::new("/store")).unwrap() {
        world.rename(Path::new("/store"), Path::new("/former")).unwrap();
    }
    world.rename(path, Path::new("/store")).unwrap();
    let mut store = engine.open(&env).unwrap();
    let everything = store.read_everything().unwrap();
    store.check().unwrap();
    // The restored store is usable: it accepts commits, and opens again.
    store.apply(&Op::Create { tree: "after".into(), unique: false }).unwrap();
    store.close().unwrap();
    let mut store = engine.open(&env).unwrap();
    store.check().unwrap();
    assert_eq!(store.read_everything().unwrap().trees.len(), everything.trees.len() + 1);
    store.close().unwrap();
    everything
}

/// Scripts of all operations of a store, including drops, clones and named snapshots, with restarts
/// between the increments.
#[test]
fn a_chain_of_increments_restores_every_link() {
    let mut pages = (0, 0);
    for seed in effort::seeds(12) {
        let engine = DbEngine::random(seed);
        let vfs = SimVfs::new();
        let env = vfs.env(seed);
        let mut store = engine.open(&env).unwrap();
        let mut swarm = DbEngine::with_long_values(Swarm::random(seed, 60)).without_restarts();
        (swarm.named, swarm.clone) = (swarm.named.max(2), swarm.clone.max(2));
        let mut expected = Vec::new();
        let (mut last, mut increments) = (None, Vec::new());
        for link in 0..4u64 {
            for op in generate(seed * 10 + link, &swarm) {
                match op {
                    Op::Step(count) => {
                        (0..count).for_each(|_| assert!(store.step().is_ok()));
                    }
                    Op::Advance(millis) => vfs.advance(Duration::from_millis(millis.into())),
                    op => drop(store.apply(&op).unwrap()),
                }
            }
            let info = match last {
                None => store.db().backup("/full").unwrap(),
                Some(base) => {
                    let path = PathBuf::from(format!("/increment{link}"));
                    let info = store.db().backup_since(&base, &path).unwrap();
                    pages.1 += info.pages;
                    increments.push(path);
                    info
                }
            };
            last = Some(info.id);
            let newest = increments.last().map_or(Path::new("/full"), PathBuf::as_path);
            assert_eq!(BackupId::read_in(&env, newest).unwrap(), info.id);
            expected.push(store.read_everything().unwrap());
            if link % 2 == 1 {
                store.close().unwrap();
                store = engine.open(&env).unwrap();
            }
        }
        store.close().unwrap();
        assert_eq!(shown(&engine, &vfs, Path::new("/full")), expected[0], "seed {seed}");
        for (links, expected) in expected.iter().enumerate() {
            let target = PathBuf::from(format!("/restored{links}"));
            let info = restore_in(&env, "/full", &increments[..links], &target).unwrap();
            pages.0 += info.pages;
            assert_eq!(BackupId::read_in(&env, &target).unwrap(), info.id);
            assert_eq!(shown(&engine, &vfs, &target), *expected, "seed {seed}, {links} increments");
        }
    }
    println!("{} pages restored, {} in increments", pages.0, pages.1);
}

fn memory() -> (MemoryVfs, Env) {
    let vfs = MemoryVfs::new();
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    };
    (vfs, env)
}

fn tiny(env: &Env, dir: &str) -> Db {
    let tuning = DbEngine::tiny(Durability::Sync).tuning;
    let options = Options::new().cache_size(4 << 20).tuning(tuning);
    Db::open(dir, options.env(env.clone())).unwrap()
}

fn fill(tree: &Tree, rows: std::ops::Range<u32>, what: &str) {
    for row in rows {
        let value = format!("{what} {:x}", u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        tree.put(&row.to_be_bytes(), value.as_bytes()).unwrap();
    }
}

fn rows(db: &Db) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let tree = db.open_tree("t")?;
    let mut cursor = tree.scan(..)?;
    let mut rows = BTreeMap::new();
    while let Some((key, value)) = cursor.next()? {
        rows.insert(key.to_vec(), value.to_vec());
    }
    Ok(rows)
}

/// An increment can be restored only onto the version for which it was made, and nothing is ever
/// overwritten.
#[test]
fn unrelated_backups_are_refused() {
    let (vfs, env) = memory();
    let (db, other) = (tiny(&env, "/store"), tiny(&env, "/other"));
    for db in [&db, &other] {
        fill(&db.create_tree("t", TreeOptions::default()).unwrap(), 0..200, "first");
    }
    let full = db.backup("/full").unwrap();
    let others = other.backup("/others").unwrap();
    let tree = db.open_tree("t").unwrap();
    let mut last = full.id;
    for name in ["/a", "/b", "/c"] {
        fill(&tree, 0..20, name);
        last = db.backup_since(&last, name).unwrap().id;
    }
    let wrong = |increments: &[&str]| {
        let error = restore_in(&env, "/full", increments, "/target").unwrap_err();
        assert!(matches!(error, Error::WrongBase { .. }), "{increments:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::FixCall);
        assert!(!vfs.exists(Path::new("/target")).unwrap());
    };
    for increments in
        [&["/b"][..], &["/a", "/c"], &["/b", "/a"], &["/a", "/a"], &["/a", "/b", "/c", "/a"]]
    {
        wrong(increments);
    }
    let foreign = restore_in(&env, "/others", &["/a"], "/target").unwrap_err();
    assert!(matches!(foreign, Error::WrongBase { .. }), "{foreign}");
    for base in [
        others.id,
        BackupId { version: VersionNumber(last.version.0 + 9), ..last },
        BackupId { store: others.id.store, ..full.id },
    ] {
        let error = db.backup_since(&base, "/d").unwrap_err();
        assert!(matches!(error, Error::WrongBase { .. }), "{error}");
    }
    for existing in ["/store", "/full", "/a"] {
        let refused = |result: Result<frond::backup::BackupInfo>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{existing}: {error}");
        };
        refused(db.backup(existing));
        refused(db.backup_since(&full.id, existing));
        refused(restore_in(&env, "/others", &[] as &[&str], existing));
    }
    // A store that is open, or was not closed, cannot be restored from.
    assert!(matches!(restore_in(&env, "/store", &["/a"], "/target"), Err(Error::Locked { .. })));
    // A backup that was written to is a different store.
    tiny(&env, "/full").close().unwrap();
    assert!(matches!(BackupId::read_in(&env, "/full"), Err(Error::InvalidArgument(_))));
    wrong(&["/a"]);
    for path in ["/nothing", "/a/b"] {
        let error = BackupId::read_in(&env, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FixMachine, "{path}: {error}");
    }
    drop(tree);
    db.close().unwrap();
    other.close().unwrap();
}

/// A copy of a closed store's directory, however it was made, is a full backup.
#[test]
fn a_closed_store_can_be_restored_from() {
    let (_, env) = memory();
    let db = tiny(&env, "/store");
    fill(&db.create_tree("t", TreeOptions::default()).unwrap(), 0..500, "some");
    let expected = rows(&db).unwrap();
    db.close().unwrap();
    drop(db);
    restore_in(&env, "/store", &[] as &[&str], "/target").unwrap();
    assert_clean(Path::new("/target"), &env);
    let db = tiny(&env, "/target");
    assert_eq!(rows(&db).unwrap(), expected);
    db.close().unwrap();
}

fn flip(vfs: &MemoryVfs, path: &str, bit: u64) {
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let file = vfs.open(Path::new(path), mode).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, bit / 8).unwrap();
    file.write_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
}

fn remove_dir(vfs: &MemoryVfs, dir: &str) {
    let dir = Path::new(dir);
    for name in vfs.list(dir).unwrap_or_default() {
        vfs.remove(&dir.join(name)).unwrap();
    }
    if vfs.exists(dir).unwrap() {
        vfs.remove(dir).unwrap();
    }
}

/// Incompressible bytes.
fn long(seed: u64, bytes: usize) -> Vec<u8> {
    let mut dice = frond_testkit::Dice::new(seed);
    let words = std::iter::repeat_with(|| dice.bits().to_le_bytes());
    words.flatten().take(bytes).collect()
}

/// Long values have extents of their own, which do not record a birth: an increment has the new
/// ones, and not the old ones to which a rewritten leaf still refers.
#[test]
fn an_increment_contains_only_new_long_values() {
    let (_, env) = memory();
    let db = tiny(&env, "/store");
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    fill(&tree, 0..50, "first");
    tree.put(b"old", &long(1, 3 << 20)).unwrap();
    let full = db.backup("/full").unwrap();
    assert!(full.bytes > 3 << 20);
    tree.put(b"omega", &long(2, 1 << 20)).unwrap();
    tree.put(b"o", b"next to them").unwrap();
    while db.drain_step().unwrap() {}
    let next = db.backup_since(&full.id, "/a").unwrap();
    assert!((1 << 20..2 << 20).contains(&next.bytes), "{} bytes", next.bytes);
    let expected = rows(&db).unwrap();
    restore_in(&env, "/full", &["/a"], "/restored").unwrap();
    assert_clean(Path::new("/restored"), &env);
    let copy = tiny(&env, "/restored");
    assert!(rows(&copy).unwrap() == expected, "every byte of every value");
    copy.close().unwrap();
    drop(tree);
    db.close().unwrap();
}

/// After any flipped bit, the restore either fails and restores nothing, or has every row
/// unchanged. Promise: P9.
#[test]
fn damaged_backups_are_found() {
    let (vfs, env) = memory();
    let db = tiny(&env, "/store");
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    fill(&tree, 0..400, "first");
    tree.put(b"long", &long(1, 30_000)).unwrap();
    db.create_snapshot("kept").unwrap();
    let full = db.backup("/full").unwrap();
    fill(&tree, 100..200, "second");
    tree.put(b"longer", &long(2, 40_000)).unwrap();
    db.backup_since(&full.id, "/a").unwrap();
    let expected = rows(&db).unwrap();
    drop(tree);
    db.close().unwrap();
    let (mut found, mut harmless) = (0, 0);
    let mut dice = frond_testkit::Dice::new(7);
    for round in 0..600 * effort::factor() {
        let path = if round % 2 == 0 { "/a" } else { "/full/store.frond" };
        let file = vfs.open(Path::new(path), OpenMode::default()).unwrap();
        let len = file.len().unwrap();
        // First each bit of the header.
        let bit = if path == "/a" && round < 512 { round } else { dice.below(len * 8) };
        flip(&vfs, path, bit);
        let verified = backup_in(&env, "/full", &["/a"]).verify();
        let restored = restore_in(&env, "/full", &["/a"], "/target");
        assert_eq!(verified.is_ok(), restored.is_ok(), "bit {bit} of {path}");
        match restored {
            Err(error) => {
                let kinds = [ErrorKind::Restore, ErrorKind::FixMachine, ErrorKind::FixCall];
                assert!(kinds.contains(&error.kind()), "bit {bit} of {path}: {error}");
                assert!(!vfs.exists(Path::new("/target")).unwrap());
                found += 1;
            }
            Ok(_) => {
                // A full backup contains free space; an increment has no byte too many.
                assert!(path != "/a", "bit {bit} of the increment means nothing");
                let db = tiny(&env, "/target");
                assert_eq!(rows(&db).unwrap(), expected, "bit {bit} of {path}");
                db.close().unwrap();
                harmless += 1;
            }
        }
        remove_dir(&vfs, "/target");
        remove_dir(&vfs, "/target.new");
        flip(&vfs, path, bit);
    }
    println!("{found} found, {harmless} harmless");
    assert!(found > 300 && harmless > 0);
    for cut in [0, 8, 63, 64, 200, 4159, 4160, 5000] {
        let mode = OpenMode { write: true, create_new: true, ..OpenMode::default() };
        let short = vfs.open(Path::new("/short"), mode).unwrap();
        let whole = vfs.open(Path::new("/a"), OpenMode::default()).unwrap();
        let mut bytes = vec![0; cut];
        whole.read_at(&mut bytes, 0).unwrap();
        short.write_at(&bytes, 0).unwrap();
        let error = restore_in(&env, "/full", &["/short"], "/target").unwrap_err();
        let told = matches!(error, Error::Truncated { .. } | Error::NotAStore { .. });
        assert!(told, "{cut} bytes: {error}");
        vfs.remove(Path::new("/short")).unwrap();
    }
}

/// A crash at any call while a backup is made: the name then refers to a complete backup or to
/// nothing, the store has lost nothing, and the interrupted attempt does not prevent the next one.
#[test]
fn a_backup_is_complete_or_absent_after_any_crash() {
    let engine = DbEngine::tiny(Durability::Sync);
    let vfs = SimVfs::new();
    let mut store = engine.open(&vfs.env(1)).unwrap();
    let swarm = DbEngine::with_long_values(Swarm::everything(40)).without_restarts();
    let run = |store: &mut <DbEngine as Engine>::Store, seed| {
        for op in generate(seed, &swarm) {
            if !matches!(op, Op::Step(_) | Op::Advance(_)) {
                store.apply(&op).unwrap();
            }
        }
    };
    run(&mut store, 1);
    vfs.record();
    let full = store.db().backup("/full").unwrap();
    let points = vfs.recorded();
    run(&mut store, 2);
    vfs.record();
    store.db().backup_since(&full.id, "/increment").unwrap();
    let later = vfs.recorded();
    let expected = store.read_everything().unwrap();
    store.close().unwrap();
    let (mut absent, mut there) = (0, 0);
    let options = CrashOptions { tears_per_write: 1, class_states_max: 2, ..CrashOptions::short() };
    let half = points.len();
    for (number, point) in points.iter().chain(&later).enumerate() {
        for state in crash_states(&point.disk, &options.with_seed(number as u64)) {
            let world = SimVfs::start(state.disk);
            let env = world.env(5);
            let (target, is_full) =
                if number < half { ("/full", true) } else { ("/increment", false) };
            let exists = world.exists(Path::new(target)).unwrap();
            let mut store = engine.open(&env).unwrap();
            store.check().unwrap();
            if exists && is_full {
                assert_clean(Path::new("/full"), &env);
                assert_eq!(BackupId::read_in(&env, "/full").unwrap(), full.id);
            } else if exists {
                restore_in(&env, "/full", &["/increment"], "/back").unwrap();
                assert_clean(Path::new("/back"), &env);
            } else if is_full {
                store.db().backup(target).unwrap();
            } else {
                store.db().backup_since(&full.id, target).unwrap();
                assert_eq!(store.read_everything().unwrap(), expected, "{}", state.what);
            }
            if exists {
                there += 1
            } else {
                absent += 1
            }
            store.close().unwrap();
        }
    }
    println!("{} calls, {absent} states without the backup, {there} with it", half + later.len());
    assert!(absent > 100 && there > 5);
}

/// The n-th call of a backup fails: an error, no backup, and another attempt succeeds. The store
/// continues, unless the failed call was one of its own writes. Promise: P11, P12.
#[test]
fn a_backup_that_fails_leaves_nothing() {
    let engine = DbEngine::tiny(Durability::Sync);
    let (mut failed, mut stopped, mut n) = (0, 0, 0);
    loop {
        let vfs = SimVfs::new();
        let mut store = engine.open(&vfs.env(1)).unwrap();
        for op in generate(3, &DbEngine::with_long_values(Swarm::everything(30)).without_restarts())
        {
            if !matches!(op, Op::Step(_) | Op::Advance(_)) {
                store.apply(&op).unwrap();
            }
        }
        let expected = store.read_everything().unwrap();
        let call = vfs.calls() + n;
        vfs.plan(Fault::once(When::Call(call), FaultKind::Eio));
        let outcome = store.db().backup("/full");
        if vfs.calls() <= call {
            outcome.unwrap();
            break;
        }
        vfs.mend();
        if let Err(error) = outcome {
            failed += 1;
            // The name may exist if only the last sync of its directory failed.
            if !vfs.exists(Path::new("/full")).unwrap() {
                match store.db().backup("/full") {
                    Ok(_) => {}
                    Err(again) => {
                        assert_eq!(again.kind(), ErrorKind::Reopen, "{error}, then {again}");
                        stopped += 1;
                        n += 1;
                        continue;
                    }
                }
            }
        }
        store.check().unwrap();
        store.close().unwrap();
        assert_eq!(shown(&engine, &vfs, Path::new("/full")), expected, "call {n}");
        n += 1;
    }
    println!("{n} calls, {failed} failed the backup, {stopped} the store");
    assert!(failed > stopped && stopped > 0);
}

/// Transfers between two trees continue while backups are made. Each backup is a consistent
/// snapshot, in which the sum is right, and has everything that was committed before. Its pages are
/// kept although checkpoints replace them all the time. Rule: I18.
#[test]
fn backups_during_writes_are_consistent_snapshots() {
    const ACCOUNTS: u32 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        memtable_bytes: 256 << 10,
        memtable_log_bytes: 1 << 20,
        unwritten_bytes: 1 << 20,
        footers_bytes: 1 << 20,
        checkpoint_log_bytes: 1 << 20,
        checkpoint_millis: 10,
        mini_run_entries: 100,
        own_writes_bytes: 64 << 10,
    };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    let options = || Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options().tuning(tuning)).unwrap();
    let trees = ["left", "right"].map(|name| db.create_tree(name, TreeOptions::default()).unwrap());
    let mut batch = Batch::new();
    for tree in &trees {
        for account in 0..ACCOUNTS {
            let value = [&100u64.to_be_bytes()[..], &[7; 200]].concat();
            batch.put(tree, &account.to_be_bytes(), &value).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
    db.clone_tree("left", "clone").unwrap();
    db.create_snapshot("then").unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, trees, stop, done) = (&db, &trees, &stop, &done);
            scope.spawn(move || {
                let mut dice = frond_testkit::Dice::new(thread);
                let lock = |tree: &Tree, key: &[u8], by: i64| {
                    let value = tree.get(key).unwrap().unwrap();
                    let sum = u64::from_be_bytes(value[..8].try_into().unwrap());
                    [&sum.wrapping_add_signed(by).to_be_bytes()[..], &[7; 200]].concat()
                };
                while !stop.load(Ordering::Relaxed) {
                    // Each thread has accounts of its own, so that reading needs no lock.
                    let account = dice.below(u64::from(ACCOUNTS) / 3) as u32 * 3 + thread as u32;
                    let key = account.to_be_bytes();
                    let by = dice.below(100) as i64 - 50;
                    let mut batch = Batch::new();
                    for (tree, by) in trees.iter().zip([by, -by]) {
                        batch.put(tree, &key, &lock(tree, &key, by)).unwrap();
                    }
                    db.commit(&mut batch).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let pause = |commits: u64| {
            let until = done.load(Ordering::Relaxed) + commits;
            while done.load(Ordering::Relaxed) < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for round in 0..4 {
            pause(3000);
            let before = db.snapshot().seqno();
            let full = db.backup(dir.path().join(format!("full{round}"))).unwrap();
            assert!(full.seqno >= before);
            pause(500);
            let increment = dir.path().join(format!("increment{round}"));
            let next = db.backup_since(&full.id, &increment).unwrap();
            assert!(next.seqno > full.seqno && next.pages < full.pages * 2);
            backups.push((full, next));
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(trees);
    db.close().unwrap();
    for (round, (full, next)) in backups.into_iter().enumerate() {
        let path = |name: &str| dir.path().join(format!("{name}{round}"));
        let backup = Backup::new(path("full")).increment(path("increment"));
        backup.restore(path("restored")).unwrap();
        for (name, seqno) in [("full", full.seqno), ("restored", next.seqno)] {
            assert_clean(&path(name), &Env::real());
            let db = Db::open(path(name), options()).unwrap();
            assert_eq!(db.snapshot().seqno(), seqno);
            let sum: u64 = ["left", "right"].iter().map(|name| sum(&db, name)).sum();
            assert_eq!(sum, 200 * u64::from(ACCOUNTS), "{name} {round}");
            assert_eq!(sum_of_clone(&db), 100 * u64::from(ACCOUNTS));
            assert!(db.check(CheckMode::Full).unwrap().is_clean());
            db.close().unwrap();
        }
    }
}

fn sum(db: &Db, tree: &str) -> u64 {
    let mut cursor = db.open_tree(tree).unwrap().scan(..).unwrap();
    let mut sum = 0u64;
    while let Some((_, value)) = cursor.next().unwrap() {
        sum = sum.wrapping_add(u64::from_be_bytes(value[..8].try_into().unwrap()));
    }
    sum
}

/// Nothing writes to the clone, and the snapshot was made at once.
fn sum_of_clone(db: &Db) -> u64 {
    let then = db.open_snapshot("then").unwrap();
    let left = then.open_tree("left").unwrap();
    let mut cursor = then.scan(&left, ..).unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, 3000);
    sum(db, "clone")
}
