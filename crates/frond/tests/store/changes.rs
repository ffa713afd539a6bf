//! The change feed: a follower that uses only the feed ends up with what the store has, through
//! restarts and crashes; a missing or damaged part of the log is an error and never a gap.

use std::{collections::BTreeMap, path::Path, time::Duration};

use frond::{
    Batch, Db, Durability, Error, Options, Result, Seqno, TreeId, TreeOptions,
    feed::{Change, ChangeFeed, ChangedTree},
    internals::Shape,
};
use frond_testkit::{
    DbEngine,
    disk::{CallKind, CrashOptions, Fault, FaultKind, SimVfs, When, crash_states},
    drive::{Engine, Store},
    effort,
    model::{Dump, operators::merge},
    ops::{Op, Swarm, generate},
};

const NOW: Duration = Duration::ZERO;
/// Longer than any level takes to make a commit durable.
const A_WHILE: Duration = Duration::from_secs(5);

/// The state that a follower built from the feed.
#[derive(Default)]
struct Follower {
    position: Seqno,
    trees: BTreeMap<TreeId, (String, BTreeMap<Vec<u8>, Vec<u8>>)>,
    commits: u64,
}

impl Follower {
    /// Takes all commits that are available; false if there were none.
    fn follow(&mut self, feed: &mut ChangeFeed, wait: Duration) -> Result<bool> {
        let before = self.commits;
        while let Some(mut commit) = feed.next(wait)? {
            assert_eq!(commit.seqno(), self.position, "in order, none twice, none left out");
            while let Some(change) = commit.next()? {
                self.take(change);
            }
            self.commits += 1;
            self.position = self.position.next();
            assert_eq!(feed.position(), self.position);
        }
        Ok(self.commits > before)
    }

    fn rows(&mut self, tree: ChangedTree<'_>) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        let (name, rows) = self.trees.get_mut(&tree.id).expect("a tree that was defined");
        assert_eq!(tree.name, Some(name.as_str()), "the name at that commit");
        rows
    }

    fn take(&mut self, change: Change<'_>) {
        match change {
            Change::Put { tree, key, value } => {
                self.rows(tree).insert(key.to_vec(), value.to_vec());
            }
            Change::Delete { tree, key } => drop(self.rows(tree).remove(key)),
            Change::Merge { tree, key, operands } => {
                let rows = self.rows(tree);
                for (operator, operand) in operands {
                    let value = merge(operator, rows.get(key).map(Vec::as_slice), operand);
                    rows.insert(key.to_vec(), value);
                }
            }
            Change::DeleteRange { tree, from, to } => {
                self.rows(tree).retain(|key, _| &key[..] < from || &key[..] >= to);
            }
            Change::TreeDefined { info, cloned_from, is_loaded } => {
                assert!(!is_loaded, "no script here loads in bulk");
                match self.trees.get_mut(&info.id) {
                    Some((name, _)) => *name = info.name,
                    None => {
                        let rows = cloned_from.map(|of| self.trees[&of].1.clone());
                        self.trees.insert(info.id, (info.name, rows.unwrap_or_default()));
                    }
                }
            }
            Change::TreeDropped { id, name } => {
                let (ours, _) = self.trees.remove(&id).expect("a tree that was defined");
                assert_eq!(name, Some(ours));
            }
            _ => {}
        }
    }

    fn dump(&self) -> Dump {
        let trees = self.trees.values();
        trees.map(|(name, rows)| (name.clone(), rows.clone().into_iter().collect())).collect()
    }
}

fn open_feed(db: &Db, follower: &Follower) -> ChangeFeed {
    db.changes(follower.position).unwrap()
}

/// Scripts of everything that a store can do, with crashes, kills and restarts. What a follower
/// received before a power failure is in the store after it. Rule: I30. Promise: P3.
#[test]
fn a_follower_ends_with_the_rows_of_the_store() {
    let (mut commits, mut restarts) = (0, 0);
    for seed in effort::seeds(40) {
        let mut engine = DbEngine { keep_log_bytes: 1 << 30, ..DbEngine::random(seed) };
        // A kept log does not keep long values that were replaced: this follower is slow, so it
        // uses none.
        let shape = engine.tuning.shape.unwrap_or_default();
        engine.tuning.shape = Some(Shape { blob_bytes: 1 << 20, ..shape });
        let mut vfs = SimVfs::new();
        let mut store = engine.open(&vfs.env(seed)).unwrap();
        let mut follower = Follower { position: Seqno(1), ..Follower::default() };
        let mut feed = open_feed(store.db(), &follower);
        // Rows of bulk loads are not in the log: a follower reads them from the tree.
        let swarm = Swarm { bulk: 0, ..DbEngine::with_long_values(Swarm::random(seed, 120)) };
        for (step, op) in generate(seed, &swarm).iter().enumerate() {
            match op {
                Op::Step(count) => (0..*count).for_each(|_| {
                    store.step().unwrap();
                }),
                Op::Advance(millis) => vfs.advance(Duration::from_millis((*millis).into())),
                Op::Reopen | Op::Crash(_) | Op::Kill => {
                    drop(feed);
                    if matches!(op, Op::Reopen) {
                        store.close().unwrap();
                    } else {
                        vfs.halt();
                        drop(store);
                        let options = CrashOptions::random(1).with_seed(seed + step as u64);
                        let mut states = crash_states(&vfs.disk(), &options);
                        let state = if matches!(op, Op::Kill) { 0 } else { states.len() - 1 };
                        vfs = SimVfs::start(states.swap_remove(state).disk);
                    }
                    store = engine.open(&vfs.env(seed + step as u64)).unwrap();
                    feed = open_feed(store.db(), &follower);
                    restarts += 1;
                }
                op => drop(store.apply(op).unwrap()),
            }
            if step % 5 == 0 {
                follower.follow(&mut feed, NOW).unwrap();
            }
            if step % 40 == 39 {
                follower.follow(&mut feed, A_WHILE).unwrap();
                let found = store.read_everything().unwrap().trees;
                assert_eq!(follower.dump(), found, "seed {seed}, step {step}");
            }
        }
        follower.follow(&mut feed, A_WHILE).unwrap();
        assert_eq!(follower.dump(), store.read_everything().unwrap().trees, "seed {seed}");
        // A follower that starts late starts in the middle, and sees the same commits.
        let late = Seqno(follower.position.0 / 2 + 1);
        let mut second = store.db().changes(late).unwrap();
        let mut seqno = late;
        while let Some(commit) = second.next(NOW).unwrap() {
            assert_eq!(commit.seqno(), seqno);
            seqno = seqno.next();
        }
        assert_eq!(seqno, follower.position);
        commits += follower.commits;
    }
    println!("{commits} commits followed, {restarts} restarts");
    assert!(restarts > 20);
}

fn open(vfs: &SimVfs, keep: u64) -> Db {
    let tuning = DbEngine::tiny(Durability::Sync).tuning;
    let options = Options::new().cache_size(4 << 20).keep_log(keep).tuning(tuning);
    Db::open("/store", options.env(vfs.env(1))).unwrap()
}

fn put_some(db: &Db, numbers: std::ops::Range<u32>, value: &[u8]) {
    let tree = db.open_tree("t").unwrap();
    for number in numbers {
        tree.put(&number.to_be_bytes(), value).unwrap();
        while db.step().unwrap() {}
    }
}

fn drain(feed: &mut ChangeFeed) -> Result<Vec<u64>> {
    let mut seqnos = Vec::new();
    while let Some(commit) = feed.next(NOW)? {
        seqnos.push(commit.seqno().0);
    }
    Ok(seqnos)
}

/// Long values are not in the log: a follower that keeps up receives them; one that comes after
/// they were replaced and freed gets an error, and its position stays.
#[test]
fn a_feed_delivers_long_values_while_they_exist() {
    let vfs = SimVfs::new();
    let db = open(&vfs, 1 << 30);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let value = |number: u8| vec![number; 100_000];
    let from = db.snapshot().seqno().next();
    let mut feed = db.changes(from).unwrap();
    tree.put(b"k", &value(1)).unwrap();
    let mut first = feed.next(NOW).unwrap().expect("it is durable");
    // Replaced, and no longer kept by the log; the commit handed to the follower still keeps it.
    for number in 2..6 {
        tree.put(b"k", &value(number)).unwrap();
        db.checkpoint().unwrap();
    }
    let change = first.next().unwrap();
    assert!(matches!(change, Some(Change::Put { value: found, .. }) if found == value(1)));
    assert!(first.next().unwrap().is_none());
    drop(first);
    let mut late = db.changes(from).unwrap();
    for _ in 0..2 {
        let lost = late.next(NOW).unwrap_err();
        assert!(matches!(lost, Error::PositionLost { wanted, .. } if wanted == from.0), "{lost}");
        // Keeping more log would not have helped.
        assert!(lost.to_string().contains("a long value of it"), "{lost}");
        assert_eq!(late.position(), from);
    }
    tree.put(b"k", &value(6)).unwrap();
    let mut newest = db.changes(db.snapshot().seqno()).unwrap();
    let mut last = newest.next(NOW).unwrap().expect("it is durable");
    let change = last.next().unwrap();
    assert!(matches!(change, Some(Change::Put { value: found, .. }) if found == value(6)));
}

/// A commit of many groups is returned whole, as one.
#[test]
fn a_feed_delivers_a_large_commit_as_one() {
    let vfs = SimVfs::new();
    let db = open(&vfs, 0);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    let mut batch = Batch::new();
    for number in 0..3000u32 {
        batch.put(&tree, &number.to_be_bytes(), &[7; 40]).unwrap();
    }
    let seqno = db.commit(&mut batch).unwrap();
    let mut commit = feed.next(NOW).unwrap().expect("it is durable");
    let mut found = 0u32;
    while let Some(change) = commit.next().unwrap() {
        assert!(matches!(change, Change::Put { key, .. } if key == found.to_be_bytes()));
        found += 1;
    }
    assert_eq!((commit.seqno(), found), (seqno, 3000));
    assert!(feed.next(NOW).unwrap().is_none());
}

/// Checkpoints trim the log; a follower that is behind gets an error, as does one with a position
/// that never existed.
#[test]
fn a_feed_position_missing_from_the_log_is_an_error() {
    let vfs = SimVfs::new();
    let db = open(&vfs, 0);
    db.create_tree("t", TreeOptions::default()).unwrap();
    let mut slow = db.changes(Seqno(0)).unwrap();
    put_some(&db, 0..2000, &[1; 100]);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    let lost = db.changes(Seqno(5)).unwrap_err();
    let Error::PositionLost { wanted: 5, oldest, .. } = lost else { panic!("{lost}") };
    let lost = drain(&mut slow).unwrap_err();
    assert!(matches!(lost, Error::PositionLost { wanted: 1.., .. }), "{lost}");
    assert!(lost.to_string().contains("the log does not hold it"), "{lost}");
    let last = db.snapshot().seqno();
    let mut feed = db.changes(Seqno(oldest)).unwrap();
    assert_eq!(drain(&mut feed).unwrap(), (oldest..=last.0).collect::<Vec<_>>());
    assert!(matches!(db.changes(Seqno(last.0 + 2)), Err(Error::InvalidArgument(_))));
    let mut next = db.changes(last.next()).unwrap();
    assert!(next.next(NOW).unwrap().is_none());
    put_some(&db, 0..1, b"one more");
    assert_eq!(next.next(NOW).unwrap().expect("it is durable").seqno(), last.next());
    db.close().unwrap();
    assert!(matches!(next.next(A_WHILE), Err(Error::Closed)));
}

/// `keep_log` keeps positions through checkpoints and restarts, up to the given size.
#[test]
fn a_kept_log_retains_old_positions() {
    let vfs = SimVfs::new();
    let db = open(&vfs, 256 << 10);
    db.create_tree("t", TreeOptions::default()).unwrap();
    let from = db.snapshot().seqno().next();
    put_some(&db, 0..30, &[1; 100]);
    for _ in 0..3 {
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = open(&vfs, 256 << 10);
    db.checkpoint().unwrap();
    let expected: Vec<u64> = (from.0..from.0 + 30).collect();
    assert_eq!(drain(&mut db.changes(from).unwrap()).unwrap(), expected);
    put_some(&db, 0..600, &[2; 1000]);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    let lost = db.changes(from).unwrap_err();
    let Error::PositionLost { oldest, .. } = lost else { panic!("{lost}") };
    // A synced commit takes a block of 4 KiB, so 64 are 256 KiB, less the marks of two checkpoints,
    // plus the segment that they begin in.
    let kept = db.snapshot().seqno().0 - oldest;
    assert!((54..75).contains(&kept), "{kept} commits are kept of 600");
    db.close().unwrap();
}

fn log_files(vfs: &SimVfs) -> usize {
    let paths = vfs.disk().paths();
    paths.iter().filter(|(path, _)| path.to_string_lossy().contains("/log-")).count()
}

/// Log kept for followers is freed before a commit is refused for lack of space.
#[test]
fn a_kept_log_is_freed_on_a_full_disk() {
    let vfs = SimVfs::new();
    let db = open(&vfs, 1 << 30);
    db.create_tree("t", TreeOptions::default()).unwrap();
    for round in 0..5 {
        put_some(&db, 0..100, &[round; 1000]);
        db.checkpoint().unwrap();
    }
    let before = log_files(&vfs);
    assert!(before > 30, "{before} segments for 500 kB of commits");
    // With the reserve, of which an idle store has little.
    put_some(&db, 0..1, &[6; 1000]);
    vfs.set_capacity(Some(vfs.allocated_bytes() + (512 << 10)));
    for round in 0..20 {
        put_some(&db, 0..100, &[round; 1000]);
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
}

/// Damage in the middle of the log: the feed returns everything before it, then a permanent error,
/// and leaves no gap. The store continues.
#[test]
fn a_feed_stops_at_damage_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::new().cache_size(16 << 20)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let from = db.snapshot().seqno().next();
    for number in 0..100u32 {
        tree.put(&number.to_be_bytes(), &[3; 5000]).unwrap();
    }
    damage(&path, 300_000);
    let mut feed = db.changes(from).unwrap();
    let mut seqno = from;
    let error = loop {
        match feed.next(NOW) {
            Ok(commit) => assert_eq!(commit.expect("an error comes first").seqno(), seqno),
            Err(error) => break error,
        }
        seqno = seqno.next();
    };
    assert!(matches!(error, Error::WalDamaged { .. }), "{error}");
    assert!(seqno.0 > from.0 + 10 && seqno.0 < from.0 + 90, "stopped at {seqno}");
    assert!(matches!(feed.next(NOW), Err(Error::WalDamaged { .. })), "and again");
    assert_eq!(feed.position(), seqno);
    tree.put(b"more", b"rows").unwrap();
    drop((feed, tree));
    db.close().unwrap();
}

fn damage(store: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let log = store.join("log-0000000001.frond");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(log).unwrap();
    let mut byte = [0];
    // More than one commit takes, so that not all of it is padding.
    for sector in 0..32 {
        file.read_exact_at(&mut byte, offset + sector * 512).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset + sector * 512).unwrap();
    }
    file.sync_all().unwrap();
}

/// After a failed sync nothing more is returned, and nothing was returned that the medium does
/// not have. Rule: I30. Promise: P12.
#[test]
fn a_failed_sync_ends_the_feed() {
    for nth in 0..40 {
        let vfs = SimVfs::new();
        let db = open(&vfs, 1 << 30);
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let mut feed = db.changes(Seqno(1)).unwrap();
        let fault = When::Kind(CallKind::SyncData, vfs.calls_of(CallKind::SyncData) + nth);
        vfs.plan(Fault::from_then_on(fault, FaultKind::Eio));
        let (mut handed_out, mut acknowledged) = (0, db.snapshot().seqno().0);
        for number in 0..200u32 {
            let levels = [Durability::Sync, Durability::Os, Durability::Lazy];
            let level = levels[number as usize % 3];
            let mut batch = Batch::new();
            batch.put(&tree, &number.to_be_bytes(), &[4; 200]).unwrap();
            match db.commit_with(&mut batch, level) {
                Ok(seqno) if level == Durability::Sync => acknowledged = seqno.0,
                Ok(_) => {}
                Err(_) => break,
            }
            if db.step().is_err() {
                break;
            }
            match drain(&mut feed) {
                Ok(seqnos) => handed_out = seqnos.last().copied().unwrap_or(handed_out),
                Err(_) => break,
            }
        }
        assert!(vfs.struck() > 0, "sync {nth} is never made");
        assert!(matches!(feed.next(NOW), Err(Error::Failed(_))));
        vfs.halt();
        drop((feed, tree, db));
        let mut states = crash_states(&vfs.disk(), &CrashOptions::random(3).with_seed(nth));
        for state in states.drain(1..) {
            let vfs = SimVfs::start(state.disk);
            let db = open(&vfs, 1 << 30);
            let last = db.snapshot().seqno().0;
            assert!(last >= handed_out, "commit {handed_out} was handed out, {last} is the last");
            assert!(last >= acknowledged);
            let mut feed = db.changes(Seqno(1)).unwrap();
            assert_eq!(drain(&mut feed).unwrap(), (1..=last).collect::<Vec<_>>());
        }
    }
}

/// Threads commit while one follows; a wait ends as soon as there is a commit.
#[test]
fn a_follower_waits_concurrently_with_committers() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut follower = Follower { position: Seqno(1), ..Follower::default() };
    let mut feed = db.changes(Seqno(1)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let tree = tree.clone();
            scope.spawn(move || {
                for number in 0..2000u32 {
                    let key = [thread.to_be_bytes(), (number % 300).to_be_bytes()].concat();
                    tree.put(&key, &number.to_be_bytes()).unwrap();
                }
            });
        }
        while follower.commits < 8001 {
            assert!(
                follower.follow(&mut feed, Duration::from_millis(100)).unwrap()
                    || follower.commits < 8001
            );
        }
    });
    let mut rows = Vec::new();
    let mut cursor = tree.scan(..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    assert_eq!(follower.dump()["t"], rows);
    drop((cursor, tree, feed));
    db.close().unwrap();
}
