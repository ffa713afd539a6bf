//! Changes between the moment that is copied and the end of the copy.

use std::path::{Path, PathBuf};

use super::*;
use crate::{
    Options,
    check::CheckMode,
    io::{HookedVfs, LockKind, MemoryVfs, OpenMode, RealClock, RealRng, Workers},
    store::STORE_FILE,
    sync::{Arc, Mutex},
};

fn open(env: &Env, dir: &str) -> Db {
    Db::open(dir, Options::new().cache_size(4 << 20).env(env.clone())).unwrap()
}

fn env() -> Env {
    Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    }
}

/// Bytes that no codec shrinks, so that there are many pages.
fn value(row: u32, what: u8) -> Vec<u8> {
    let word = |i: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&[what], u64::from(row) << 8 | i);
    (0..12).flat_map(|i| word(i).to_le_bytes()).collect()
}

fn fill(db: &Db, what: u8) {
    let tree = db.open_tree("t").unwrap();
    let mut batch = crate::Batch::new();
    for row in 0..2000u32 {
        batch.put(&tree, &row.to_be_bytes(), &value(row, what)).unwrap();
    }
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
}

/// Everything is replaced, several times, before the first page is copied: the copy still shows the
/// moment that was held, and its space is freed afterwards. Rule: I18.
#[test]
fn pages_are_kept_until_the_copy_ends() {
    let env = env();
    let db = open(&env, "/store");
    db.create_tree("t", Default::default()).unwrap();
    fill(&db, 0);
    let (superblock, held) = db.shared.hold_for_backup().unwrap();
    for round in 1..8 {
        fill(&db, round);
        while db.drain_step().unwrap() {}
        db.checkpoint().unwrap();
    }
    let kept = db.shared.engine.store.space().stats().kept;
    Target::make(&env, Path::new("/full"), &superblock, |target| {
        let mut put = |_, link: &Link, at, bytes: &[u8]| target.put(link, at, bytes);
        db.shared.copy(&superblock, None, &mut put)
    })
    .unwrap();
    drop(held);
    assert!(db.shared.engine.store.space().stats().kept < kept - 100_000, "of {kept}");
    let report = crate::check::store_in(&env, "/full", CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    let copy = open(&env, "/full");
    let found = copy.open_tree("t").unwrap().get(&7u32.to_be_bytes()).unwrap();
    assert_eq!(found, Some(value(7, 0)));
    copy.close().unwrap();
    // After a close, the store may have another owner.
    let (superblock, _held) = db.shared.hold_for_backup().unwrap();
    db.close().unwrap();
    let closed = db.shared.copy(&superblock, None, &mut |_, _, _, _| Ok(()));
    assert!(matches!(closed, Err(Error::Closed)));
}

/// The load began before the base, so its pages are older than the base; they became part of the
/// store after it. Rule: I20.
#[test]
fn an_increment_includes_a_tree_that_was_loading_during_its_base() {
    let env = env();
    let db = open(&env, "/store");
    db.create_tree("t", Default::default()).unwrap();
    let mut load = db.bulk_load("loaded", Default::default()).unwrap();
    // In order, so that leaves are written long before the end.
    (0..10_000u32).for_each(|row| load.put(&row.to_be_bytes(), &value(row, 0)).unwrap());
    fill(&db, 0);
    let full = db.backup("/full").unwrap();
    assert!(load.finish().unwrap().rows == 10_000);
    db.backup_since(&full.id, "/increment").unwrap();
    let backup = Backup::new("/full").increment("/increment").env(env.clone());
    let restored = backup.restore("/again").unwrap();
    assert!(restored.pages > 0);
    let again = open(&env, "/again");
    let tree = again.open_tree("loaded").unwrap();
    assert_eq!(tree.get(&7u32.to_be_bytes()).unwrap(), Some(value(7, 0)));
    let report = again.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    drop(tree);
    again.close().unwrap();
    db.close().unwrap();
}

/// A backup that another process is making to the same target loses no file. Its log segment comes
/// before the locked file in the order of names.
#[test]
fn an_unfinished_backup_of_another_process_is_not_touched() {
    let env = env();
    let db = open(&env, "/store");
    env.vfs.create_dir(Path::new("/full.new")).unwrap();
    let create = OpenMode { write: true, create_new: true, direct: false };
    let open_in = |name: &str| env.vfs.open(&Path::new("/full.new").join(name), create).unwrap();
    drop(open_in("log-0000000000000001.frond"));
    let store = open_in(STORE_FILE);
    assert!(store.try_lock(LockKind::Exclusive).unwrap());
    let refused = db.backup("/full");
    assert!(matches!(&refused, Err(Error::Locked { .. })), "{refused:?}");
    assert_eq!(env.vfs.list(Path::new("/full.new")).unwrap().len(), 2);
    store.unlock().unwrap();
    db.backup("/full").unwrap();
}

/// Another process makes a backup to the same target at the moment at which this one gets its name:
/// it is refused, and this one is whole.
#[test]
fn a_backup_that_is_being_named_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let vfs = Arc::new(HookedVfs::new(Env::real().vfs));
    let env = Env { vfs: vfs.clone(), workers: Workers::Manual, ..Env::real() };
    let options = Options::new().cache_size(4 << 20).env(env.clone());
    let db = Db::open(path("store"), options).unwrap();
    db.create_tree("t", Default::default()).unwrap();
    fill(&db, 0);
    let intrude = |target: PathBuf, base: Option<BackupId>| {
        let (db, refused) = (db.clone(), Arc::new(Mutex::new(None)));
        let said = refused.clone();
        vfs.before_next_rename(move || {
            let made = match base {
                None => db.backup(&target).map(drop),
                Some(base) => db.backup_since(&base, &target).map(drop),
            };
            *said.lock().unwrap() = Some(made);
        });
        refused
    };
    let refused = intrude(path("full"), None);
    let full = db.backup(path("full")).unwrap();
    let refused = refused.lock().unwrap().take();
    assert!(matches!(refused, Some(Err(Error::Locked { .. }))), "{refused:?}");
    let report = crate::check::store_in(&env, path("full"), CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    fill(&db, 1);
    let refused = intrude(path("more"), Some(full.id));
    db.backup_since(&full.id, path("more")).unwrap();
    let refused = refused.lock().unwrap().take();
    assert!(matches!(refused, Some(Err(Error::Locked { .. }))), "{refused:?}");
    let restored =
        Backup::new(path("full")).increment(path("more")).env(env).restore(path("again"));
    assert!(restored.unwrap().pages > 0);
    db.close().unwrap();
}

/// A file that was renamed while a process waited for its lock is not the one to write.
#[test]
fn a_file_knows_whether_a_path_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let create = OpenMode { write: true, create_new: true, direct: false };
    let vfs = Env::real().vfs;
    let file = vfs.open(&old, create).unwrap();
    assert!(file.is_at(&old).unwrap() && !file.is_at(&new).unwrap());
    vfs.rename(&old, &new).unwrap();
    let other = vfs.open(&old, create).unwrap();
    assert!(file.is_at(&new).unwrap() && !file.is_at(&old).unwrap() && other.is_at(&old).unwrap());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "backup: a tree that was loaded is passed by" =>
            an_increment_includes_a_tree_that_was_loading_during_its_base,
    };
    crate::plant::assert_claims_hold("backup", claims);
}
