//! What a closed or idle store keeps of its log and of its reserve, and that this loses nothing.

use crate::common;

use std::path::{Path, PathBuf};

use frond::{Batch, Db, Durability, Error, Options, Tree, TreeOptions, internals::Tuning};
use frond_testkit::{
    Dice,
    disk::{CrashOptions, SimVfs, crash_states},
};

const STORE: &str = "/store";
/// The length of the segment in which the log of a closed store ends.
const LAST_BYTES: u64 = 16 << 10;
/// The offsets of the superblock slots.
const SLOTS: [u64; 2] = [0, 64 << 10];

fn options(vfs: &SimVfs) -> Options {
    Options::new().env(vfs.env(3)).cache_size(8 << 20)
}

/// Options of a store with tiny limits, of durability `Sync`.
fn tiny(vfs: &SimVfs) -> Options {
    common::options().env(vfs.env(3)).durability(Durability::Sync)
}

/// Lengths of the log's segments, without its reserve.
fn log(vfs: &SimVfs) -> Vec<u64> {
    let is_log = |path: &PathBuf| path.to_string_lossy().contains("/log-0");
    let paths = vfs.disk().paths().into_iter().map(|(path, _)| path).filter(is_log);
    paths.map(|path| vfs.content(&path).expect("it is there").len()).collect()
}

fn put(tree: &Tree, rows: std::ops::Range<u32>) {
    for n in rows {
        tree.put(&n.to_be_bytes(), &[n as u8; 1000]).expect("written");
    }
}

fn assert_rows(db: &Db, rows: u32) {
    let tree = db.open_tree("t").expect("the tree");
    for n in 0..rows {
        let row = tree.get(&n.to_be_bytes()).expect("read").expect("present");
        assert!(row.len() == 1000 && row[0] == n as u8, "row {n}");
    }
    assert!(tree.get(&rows.to_be_bytes()).expect("read").is_none());
}

/// Several read-only opens of a store that was not closed replay its log, each for itself, and
/// change nothing. Promises: P18, P21.
#[test]
fn read_only_opens_share_a_crashed_store_and_change_nothing() {
    let vfs = SimVfs::new();
    let db = Db::open(STORE, tiny(&vfs)).expect("made");
    let tree = db.create_tree("t", TreeOptions::default()).expect("made");
    put(&tree, 0..100);
    // Also a commit whose writes have been spilled.
    db.transact(|txn| {
        (100..300u32).try_for_each(|n| txn.put(&tree, &n.to_be_bytes(), &[n as u8; 1000]))
    })
    .expect("committed");
    vfs.record();
    put(&tree, 300..301);
    let point = vfs.recorded().pop().expect("a write");
    let mut opened = 0;
    for state in crash_states(&point.disk, &CrashOptions::short()) {
        let vfs = SimVfs::start(state.disk);
        let before = vfs.changes();
        let read = || Db::open(STORE, tiny(&vfs).read_only(true)).expect(&state.what);
        let (one, two) = (read(), read());
        let writer = Db::open(STORE, tiny(&vfs));
        assert!(matches!(writer, Err(Error::Locked { .. })), "{}", state.what);
        for db in [&one, &two] {
            let rows = db.open_tree("t").expect("the tree").range(..).count();
            assert!((300..=301).contains(&rows), "{}: {rows} rows", state.what);
            assert!(matches!(db.checkpoint(), Err(Error::ReadOnly)));
        }
        one.close().expect("closed");
        drop((one, two));
        assert_eq!(vfs.changes(), before, "{}", state.what);
        drop(Db::open(STORE, tiny(&vfs)).expect("it is not open"));
        opened += 1;
    }
    assert!(opened > 0);
}

#[test]
fn a_closed_store_keeps_no_log_and_a_read_only_open_makes_none() {
    for level in [Durability::Sync, Durability::Lazy] {
        let vfs = SimVfs::new();
        let db = Db::open(STORE, options(&vfs).durability(level)).expect("made");
        put(&db.create_tree("t", TreeOptions::default()).expect("made"), 0..300);
        db.close().expect("closed");
        drop(db);
        assert_eq!(log(&vfs), [LAST_BYTES]);

        let before = vfs.changes();
        let db = Db::open(STORE, options(&vfs).read_only(true)).expect("opened");
        assert_rows(&db, 300);
        assert!(db.check(frond::check::CheckMode::Full).expect("checked").is_clean());
        db.close().expect("closed");
        drop(db);
        assert_eq!((log(&vfs), vfs.changes()), (vec![LAST_BYTES], before));

        // An open store has longer segments again; the closed store's segment is gone.
        let db = Db::open(STORE, options(&vfs).durability(level)).expect("opened");
        assert!(log(&vfs).iter().all(|&bytes| bytes >= 1 << 20), "{:?}", log(&vfs));
        put(&db.open_tree("t").expect("the tree"), 300..310);
        db.close().expect("closed");
        drop(db);
        assert_eq!(log(&vfs), [LAST_BYTES]);
        assert_rows(&Db::open(STORE, options(&vfs)).expect("opened"), 310);
    }
}

/// A closed store opens with either slot lost: both say that the store was closed, and where its
/// log ends. Promise: P10.
#[test]
fn a_closed_store_opens_from_either_slot() {
    for slot in SLOTS {
        let vfs = SimVfs::new();
        let db = Db::open(STORE, tiny(&vfs)).expect("made");
        put(&db.create_tree("t", TreeOptions::default()).expect("made"), 0..300);
        db.close().expect("closed");
        drop(db);
        vfs.flip(&Path::new(STORE).join("store.frond"), slot + 40);
        let db = Db::open(STORE, tiny(&vfs)).expect("opened");
        assert_eq!(db.warnings().len(), 1, "one slot is lost");
        assert_rows(&db, 300);
        db.close().expect("closed");
    }
}

/// Whatever the free space, a close succeeds and makes every commit durable, at each durability
/// level. Promises: P1, P13.
#[test]
fn a_full_disk_during_close_loses_no_row() {
    let mut recovered = 0;
    for (room, level) in (0..160)
        .flat_map(|pages| [Durability::Sync, Durability::Lazy].map(|level| (pages * 4096, level)))
    {
        let vfs = SimVfs::new();
        let db = Db::open(STORE, tiny(&vfs).durability(level)).expect("made");
        put(&db.create_tree("t", TreeOptions::default()).expect("made"), 0..200);
        vfs.set_capacity(Some(vfs.allocated_bytes() + room));
        db.close().unwrap_or_else(|error| panic!("{room} bytes of room, {level:?}: {error}"));
        drop(db);
        // What is not synced by now is lost with the power.
        let vfs = SimVfs::start(vfs.disk().after_power_loss(|_, _, _| ()));
        recovered += u64::from(log(&vfs) != [LAST_BYTES]);
        let db = Db::open(STORE, tiny(&vfs)).expect("opened");
        assert_rows(&db, 200);
        db.close().expect("closed");
        drop(db);
        assert_eq!(log(&vfs), [LAST_BYTES]);
    }
    assert!(recovered > 0, "every close had room for its checkpoint");
}

/// Power fails at any moment of closing, opening and closing again. Promise: P1, P5.
#[test]
fn a_store_survives_power_failures_during_close_and_open() {
    let vfs = SimVfs::new();
    let db = Db::open(STORE, tiny(&vfs)).expect("made");
    put(&db.create_tree("t", TreeOptions::default()).expect("made"), 0..100);
    vfs.record();
    db.close().expect("closed");
    drop(db);
    let db = Db::open(STORE, tiny(&vfs)).expect("opened");
    db.close().expect("closed");
    drop(db);
    let points = vfs.recorded();
    assert!(points.len() > 50, "{} points", points.len());
    let mut states = 0;
    for (seed, point) in points.iter().enumerate() {
        let choice = CrashOptions::random(2).with_seed(seed as u64);
        for state in crash_states(&point.disk, &choice) {
            let vfs = SimVfs::start(state.disk);
            let db = Db::open(STORE, tiny(&vfs)).expect("opened");
            assert_rows(&db, 100);
            db.close().expect("closed");
            drop(db);
            assert_eq!(log(&vfs), [LAST_BYTES]);
            states += 1;
        }
    }
    assert!(states > 200, "{states} states");
}

/// Whatever the log held, a checkpoint with no concurrent writer leaves one segment of the minimum
/// length.
#[test]
fn a_checkpoint_leaves_one_short_segment() {
    let vfs = SimVfs::new();
    let db = Db::open(STORE, tiny(&vfs)).expect("made");
    let tree = db.create_tree("t", TreeOptions::default()).expect("made");
    for round in 0..4 {
        put(&tree, round * 100..round * 100 + 100);
        assert!(log(&vfs).iter().sum::<u64>() > 100_000, "what was written");
        db.checkpoint().expect("written");
        assert_eq!(log(&vfs), [16 << 10]);
        assert!(vfs.content(Path::new("/store/log-reserve.new")).is_some());
        let crashed = SimVfs::start(vfs.disk().after_kill());
        assert_rows(&Db::open(STORE, tiny(&crashed)).expect("opened"), (round + 1) * 100);
    }
    put(&tree, 400..600);
    drop(tree);
    vfs.halt();
    drop(db);
    let vfs = SimVfs::start(vfs.disk().after_kill());
    assert_rows(&Db::open(STORE, tiny(&vfs)).expect("opened"), 600);
}

/// An idle store keeps little in reserve. Another program fills the disk meanwhile: deletes find
/// space, and what they free can be used by rows again. Promise: P13. Rule: I24.
#[test]
fn an_idle_store_on_a_filled_disk_accepts_deletes() {
    const ROWS: u32 = 40_000;
    let vfs = SimVfs::new();
    let db = Db::open(STORE, options(&vfs).durability(Durability::Sync)).expect("made");
    let tree = db.create_tree("t", TreeOptions::default()).expect("made");
    // Bytes that no codec compresses.
    let noise = |n: u32| -> Vec<u8> {
        let mut dice = Dice::new(n.into());
        (0..300).map(|_| dice.bits() as u8).collect()
    };
    for n in 0..ROWS {
        tree.put(&n.to_be_bytes(), &noise(n)).expect("written");
    }
    let loaded = vfs.allocated_bytes();
    db.checkpoint().expect("written");
    let rests = vfs.allocated_bytes();
    let live = db.stats().space_live_bytes;
    // This includes a short segment and the log's reserve.
    assert!(rests < live + live / 32 + (4 << 20), "{rests} bytes for {live}, {loaded} before");

    vfs.set_capacity(Some(rests));
    assert!(matches!(tree.put(b"more", &[1]), Err(Error::Full(_))), "there is no room");
    for first in (0..ROWS / 2).step_by(500) {
        let mut batch = Batch::new();
        (first..first + 500).for_each(|n| batch.delete(&tree, &n.to_be_bytes()).expect("taken"));
        db.commit(&mut batch).expect("deletes need no room that others have");
        db.checkpoint().expect("written");
    }
    while db.drain_step().expect("drained") {
        db.checkpoint().expect("written");
    }
    db.checkpoint().expect("written");
    for n in 0..ROWS / 80 {
        tree.put(&n.to_be_bytes(), &noise(n + 1)).expect("there is room again");
    }
    for n in 0..ROWS {
        let row = (n < ROWS / 80).then(|| noise(n + 1)).or((n >= ROWS / 2).then(|| noise(n)));
        assert_eq!(tree.get(&n.to_be_bytes()).expect("read"), row, "row {n}");
    }
    vfs.set_capacity(None);
    db.close().expect("closed");
}

/// With threads of its own, an idle store comes to rest in this way too. A store that keeps its log
/// for followers has more of it, and is as silent.
#[test]
fn an_idle_store_shrinks() {
    // What is written on the way to rest, marks and checkpoints' records, fits the short segment;
    // it may be enough that the next segment is prepared.
    const SHORT: u64 = 64 << 10;
    const NEXT: u64 = 2 * SHORT;
    let options =
        || common::options().tuning(Tuning { segment_bytes: Some(2 * NEXT), ..common::tiny() });
    let dir = tempfile::tempdir().expect("a directory");
    let kept = Db::open(dir.path().join("kept"), options().keep_log(1 << 30)).expect("made");
    put(&kept.create_tree("t", TreeOptions::default()).expect("made"), 0..300);
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).expect("made");
    put(&db.create_tree("t", TreeOptions::default()).expect("made"), 0..300);
    let log_bytes = || -> u64 {
        let files = std::fs::read_dir(&path).expect("listed").map(|file| file.expect("a file"));
        // Without the reserve.
        let segments = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-0"));
        segments.map(|file| file.metadata().map_or(0, |meta| meta.len())).sum()
    };
    assert!(log_bytes() > SHORT + NEXT);
    // Some seven seconds, on a machine that is not busy.
    for _ in 0..600 {
        if log_bytes() <= SHORT + NEXT {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(log_bytes() <= SHORT + NEXT, "{} bytes of log", log_bytes());
    // The other store came to rest earlier, so it is silent too, or soon will be.
    let checkpoints = |db: &Db| db.stats().checkpoints;
    for db in [&db, &kept] {
        let mut silent = 0;
        for _ in 0..120 {
            let before = checkpoints(db);
            std::thread::sleep(std::time::Duration::from_millis(500));
            silent = if checkpoints(db) == before { silent + 1 } else { 0 };
            if silent == 3 {
                break;
            }
        }
        assert_eq!(silent, 3, "an idle store writes checkpoints for ever");
    }
    assert_rows(&kept, 300);
    kept.close().expect("closed");
    assert_rows(&db, 300);
    db.close().expect("closed");
    drop(db);
    assert_rows(&Db::open(&path, options()).expect("opened"), 300);
}

/// The store drains its buffers when it becomes idle, after its last checkpoint. What that frees
/// comes back to the file system without another write.
#[test]
fn an_idle_store_frees_space_that_only_the_older_slot_needs() {
    const ROWS: u32 = 12_000;
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).expect("made");
    let tree = db.create_tree("t", TreeOptions::default()).expect("made");
    for round in 0..3 {
        let mut dice = Dice::new(round);
        let mut row = vec![0; 1000];
        for n in 0..ROWS {
            row.fill_with(|| dice.bits() as u8); // no codec compresses it
            tree.put(&(n * 7919 % ROWS).to_be_bytes(), &row).expect("written");
        }
        db.checkpoint().expect("written");
    }
    let stat = |name| db.stats().get(name).expect("a counter");
    let kept_max = || (1 << 20) + stat("space_live_bytes") / 64;
    let is_drained = || stat("space_live_bytes") < u64::from(ROWS) * 1200;
    // Some two seconds, on a machine that is not busy.
    for _ in 0..600 {
        if is_drained() && stat("space_kept_bytes") <= kept_max() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let (live, kept) = (stat("space_live_bytes"), stat("space_kept_bytes"));
    assert!(is_drained() && kept <= kept_max(), "{kept} bytes kept, {live} live");
    db.close().expect("closed");
}
