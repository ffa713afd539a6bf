//! Tests of what a server needs from a store in addition to transactions: reads of many keys at
//! once, a snapshot at a known place in the order of commits, and notification when the log is
//! synced.

mod common;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use frond::{Db, Durability, Error, Isolation, TreeOptions, TxnOptions};
use frond_testkit::disk::{Fault, FaultKind, Image, SimVfs, SyncFailure, When, WriteGuard};

fn open(level: Durability) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), common::options().durability(level)).unwrap();
    (dir, db)
}

fn key(row: u32) -> [u8; 4] {
    row.to_be_bytes()
}

#[test]
fn get_many_reads_one_snapshot_in_request_order() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for row in 0..2000 {
        tree.put(&key(row), &row.to_le_bytes()).unwrap();
    }
    let snapshot = db.snapshot();
    let asked: Vec<[u8; 4]> = (0..300).map(|n| key(n * 7919 % 2500)).collect();
    let expected: Vec<Option<Vec<u8>>> = asked
        .iter()
        .map(|asked| u32::from_be_bytes(*asked))
        .map(|row| (row < 2000).then(|| row.to_le_bytes().to_vec()))
        .collect();
    for isolation in [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Snapshot,
        Isolation::Serializable,
    ] {
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        assert_eq!(txn.get_many(&tree, &asked).unwrap(), expected);
        txn.put(&tree, &asked[0], b"own").unwrap();
        txn.delete(&tree, &asked[1]).unwrap();
        let found = txn.get_many(&tree, &asked).unwrap();
        assert_eq!(found[..2], [Some(b"own".to_vec()), None]);
        assert_eq!(found[2..], expected[2..]);
        txn.rollback();
    }
    tree.put(&asked[0], b"later").unwrap();
    assert_eq!(snapshot.get_many(&tree, &asked).unwrap(), expected);
    let none: [&[u8]; 0] = [];
    assert!(snapshot.get_many(&tree, &none).unwrap().is_empty());
    db.close().unwrap();
}

/// Rule: I29.
#[test]
fn take_snapshot_fixes_the_snapshot_at_the_call() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    tree.put(b"k", b"before").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let at = txn.control().take_snapshot().unwrap();
    let after = tree.put(b"k", b"after").unwrap();
    assert!(at < after);
    assert_eq!(txn.control().take_snapshot().unwrap(), at, "it has one");
    assert_eq!(txn.get(&tree, b"k").unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(txn.control().snapshot_seqno(), Some(at));
    assert!(matches!(txn.put(&tree, b"k", b""), Err(Error::Conflict { .. })));
    let isolation = Isolation::ReadCommitted;
    let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    assert!(txn.control().take_snapshot().is_err());
    drop(txn);
    db.close().unwrap();
}

/// A notification comes once the log is synced: at every level, also on an idle store, and for
/// requests made before the close. Rule: I42.
#[test]
fn when_synced_notifies_after_the_log_is_synced() {
    for level in [Durability::Sync, Durability::Os, Durability::Lazy] {
        let (_dir, db) = open(level);
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let (tell, told) = mpsc::channel();
        for request in 0..20u32 {
            tree.put(&key(request), b"row").unwrap();
            let tell = tell.clone();
            db.when_synced(move || tell.send(request).unwrap()).unwrap();
        }
        // A time limit, so that a hang becomes a failure; nothing is claimed about the duration.
        let since = Instant::now();
        for request in 0..20 {
            let wait_policy = Duration::from_secs(60).saturating_sub(since.elapsed());
            assert_eq!(told.recv_timeout(wait_policy).unwrap(), request);
        }
        let last = tell.clone();
        db.when_synced(move || last.send(99).unwrap()).unwrap();
        db.close().unwrap();
        assert_eq!(told.try_recv(), Ok(99), "closed is synced");
        assert!(matches!(db.when_synced(|| ()), Err(Error::Closed)));
    }
}

/// A commit that has its place in the order, but is completed later, is in a snapshot that is taken
/// in between: the first reader waits for it, or completes it. Rule: I29.
#[test]
fn a_snapshot_includes_commits_ordered_before_it_but_completed_later() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    tree.put(b"k", b"before").unwrap();
    for is_let_go in [false, true] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&tree, b"k", b"ordered").unwrap();
        let name = frond::transaction::Xid::new(b"x").unwrap();
        let mut prepared = txn.prepare_with(&name, Durability::Lazy).unwrap();
        let early = db.begin(TxnOptions::default()).unwrap();
        let at_first = early.control().take_snapshot().unwrap();
        let seqno = prepared.commit_ordered().unwrap();
        let reader = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(reader.control().take_snapshot().unwrap(), seqno);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| reader.get(&tree, b"k").unwrap());
            std::thread::sleep(Duration::from_millis(20));
            match is_let_go {
                true => prepared.detach(),
                false => assert_eq!(prepared.commit().unwrap(), seqno),
            }
            assert_eq!(read.join().unwrap().as_deref(), Some(&b"ordered"[..]));
        });
        assert!(at_first < seqno);
        assert_eq!(early.get(&tree, b"k").unwrap().as_deref(), Some(&b"before"[..]));
        assert_eq!(reader.control().snapshot_seqno(), Some(seqno));
        tree.put(b"k", b"before").unwrap();
        reader.rollback();
    }
    db.close().unwrap();
}

/// Records when a segment of the log became durable.
struct SyncsSeen(AtomicBool);

impl WriteGuard for SyncsSeen {
    fn forbids(&self, _: &Path, _: std::ops::Range<u64>) -> Option<String> {
        None
    }

    fn synced(&self, path: &Path, _: &Image) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// The notification does not come before the sync has ended; on an idle store the clock alone
/// triggers the sync, well within a second. Rule: I42.
#[test]
fn when_synced_never_notifies_early_and_an_idle_store_syncs_in_time() {
    let vfs = SimVfs::new();
    let seen = Arc::new(SyncsSeen(AtomicBool::new(false)));
    vfs.set_guard(seen.clone());
    let options = frond::Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open("/store", options.env(vfs.env(7))).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for round in 0..3u32 {
        while db.step().unwrap() {}
        tree.put(&key(round), b"row").unwrap();
        seen.0.store(false, Ordering::SeqCst);
        let told = Arc::new(AtomicBool::new(false));
        let (is_synced, tells) = (seen.clone(), told.clone());
        let tell = move || tells.store(is_synced.0.load(Ordering::SeqCst), Ordering::SeqCst);
        db.when_synced(tell).unwrap();
        while db.step().unwrap() {}
        assert!(!told.load(Ordering::SeqCst) && !seen.0.load(Ordering::SeqCst), "no thread synced");
        let since = vfs.now();
        while !seen.0.load(Ordering::SeqCst) {
            vfs.advance(Duration::from_millis(50));
            while db.step().unwrap() {}
        }
        db.step().unwrap();
        assert!(told.load(Ordering::SeqCst), "once it was synced");
        assert!(vfs.now() - since < Duration::from_secs(1));
    }
    // A failed sync notifies no caller.
    tree.put(b"last", b"row").unwrap();
    let told = Arc::new(AtomicBool::new(false));
    let tells = told.clone();
    db.when_synced(move || tells.store(true, Ordering::SeqCst)).unwrap();
    let failure = FaultKind::Sync(SyncFailure::CacheKeepsNew);
    vfs.plan(Fault::from_then_on(When::Call(vfs.calls()), failure));
    vfs.advance(Duration::from_secs(1));
    while db.step().is_ok_and(|goes_on| goes_on) {}
    drop((tree, db));
    assert!(!told.load(Ordering::SeqCst));
}

/// A batch that waits for a row is interrupted by another thread, or times out, and has done
/// nothing; it may be committed again. Rules: I53, I52.
#[test]
fn a_batch_waiting_for_a_row_can_be_cancelled() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let holder = db.begin(TxnOptions::default()).unwrap();
    holder.put(&tree, b"k", b"held").unwrap();
    let interrupter = frond::Interrupter::new();
    let mut batch = frond::Batch::new();
    batch.set_interrupter(&interrupter);
    batch.lock_timeout(None);
    batch.put(&tree, b"a", b"batch").unwrap();
    batch.put(&tree, b"k", b"batch").unwrap();
    let before = db.snapshot().seqno();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.commit(&mut batch));
        while db.lock_waits().is_empty() {
            assert!(!waits.is_finished(), "it does not wait");
            std::thread::yield_now();
        }
        interrupter.interrupt();
        let told = waits.join().unwrap();
        assert!(matches!(told, Err(Error::Interrupted)), "{told:?}");
    });
    assert!(matches!(db.commit(&mut batch), Err(Error::Interrupted)), "until it is cleared");
    interrupter.clear();
    batch.lock_timeout(Some(Duration::from_millis(5)));
    let told = db.commit(&mut batch);
    assert!(matches!(told, Err(Error::LockTimeout { .. })), "{told:?}");
    assert_eq!((db.snapshot().seqno(), batch.len()), (before, 2));
    assert_eq!(tree.get(b"a").unwrap(), None);
    holder.rollback();
    assert_eq!(db.lock_stats().locks, 0);
    db.commit(&mut batch).unwrap();
    assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"batch"[..]));
    drop(batch);
    db.close().unwrap();
}

/// Counts of commits by level and of lock waits, and the list of current lock holders.
#[test]
fn statistics_report_lock_waits_and_latencies() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let before = db.stats();
    for row in 0..10 {
        let mut batch = frond::Batch::new();
        batch.put(&tree, &key(row), b"row").unwrap();
        db.commit_with(&mut batch, Durability::Sync).unwrap();
    }
    let durability = Some(Durability::Os);
    for row in 0..5 {
        let txn = db.begin(TxnOptions::new().durability(durability)).unwrap();
        txn.put(&tree, &key(row), b"again").unwrap();
        txn.commit().unwrap();
    }
    let stats = db.stats();
    assert_eq!(stats.commits.count() - before.commits.count(), 15, "each that waits for the log");
    assert_eq!(stats.sync_waits.count() - before.sync_waits.count(), 10);
    let waited = stats.sync_waits.total() - before.sync_waits.total();
    assert!(waited <= stats.commits.total() - before.commits.total(), "a part of it");
    assert!(stats.commits.per_mille(1000) == stats.commits.longest());
    assert_eq!(stats.get("commits"), Some(stats.commits.count()));
    for row in 0..20_000 {
        tree.put(&key(row), b"lazy").unwrap();
    }
    let lazy = db.stats().commits.count() - stats.commits.count();
    assert!(lazy.abs_diff(20_000) <= 64, "about all, by samples: {lazy}");

    assert!(db.transactions().is_empty());
    let holder = db.begin(TxnOptions::new().tag(7)).unwrap();
    assert!(db.transactions().is_empty(), "it holds nothing yet");
    holder.put(&tree, &key(1), b"mine").unwrap();
    let waiter = db.begin(TxnOptions::new().tag(8)).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.put(&tree, &key(1), b"yours"));
        while db.lock_waits().is_empty() {
            std::thread::yield_now();
        }
        let wait = db.lock_waits().remove(0);
        assert_eq!(
            (wait.waiter, &wait.holders[..]),
            (waiter.control().id(), &[holder.control().id()][..])
        );
        assert_eq!((wait.tag, &wait.holder_tags[..]), (8, &[7][..]));
        assert!(
            wait.to_string()
                .starts_with(&format!("transaction {} has waited", waiter.control().id()))
        );
        let live = db.transactions();
        let seen: Vec<_> =
            live.iter().map(|one| (one.id, one.tag, one.writes, one.waits)).collect();
        assert_eq!(
            seen,
            [(holder.control().id(), 7, 1, false), (waiter.control().id(), 8, 0, true)]
        );
        assert!(live[0].to_string().contains("(tag 7) has held locks for"), "{}", live[0]);
        holder.rollback();
        waits.join().unwrap().unwrap();
    });
    waiter.rollback();
    assert!(db.transactions().is_empty());
    let stats = db.stats();
    assert_eq!((stats.lock_waits.count(), stats.get("lock_waits")), (1, Some(1)));
    assert!(stats.lock_waits.longest() >= stats.lock_waits.per_mille(500));
    db.close().unwrap();
}

/// Snapshot holders that only read are listed too, transactions and snapshots; and what snapshots
/// keep is counted.
#[test]
fn snapshot_holders_are_listed_with_what_they_retain() {
    let (_dir, db) = open(Durability::Lazy);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let fill = |value: &[u8]| {
        for row in 0..2000 {
            tree.put(&key(row), value).unwrap();
        }
        db.checkpoint().unwrap();
    };
    fill(&[1; 100]);
    let begin = |tag, read_only, isolation| {
        db.begin(TxnOptions::new().tag(tag).read_only(read_only).isolation(isolation)).unwrap()
    };
    let reader = begin(7, true, Isolation::Snapshot);
    let writer = begin(8, false, Isolation::RepeatableRead);
    let of_calls = begin(9, true, Isolation::ReadCommitted);
    assert!(db.transactions().is_empty(), "they hold nothing yet");
    let numbers = |db: &Db| {
        let stats = db.stats();
        ["snapshots", "snapshot_oldest_seqno", "snapshot_kept_bytes"]
            .map(|name| stats.get(name).unwrap())
    };
    assert_eq!(numbers(&db), [0, 0, 0]);
    let at = db.snapshot().seqno();
    reader.get(&tree, &key(1)).unwrap();
    of_calls.get(&tree, &key(1)).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let later = tree.put(b"later", b"").unwrap();
    writer.get(&tree, &key(1)).unwrap();
    writer.put(&tree, b"mine", b"").unwrap();
    let held = db.snapshot();
    let after = tree.put(b"last", b"").unwrap();
    let (also, cursor) = (db.snapshot(), tree.scan(..).unwrap());
    let live = db.transactions();
    let seen: Vec<_> = live
        .iter()
        .map(|one| (one.id, one.tag, one.locks.is_some(), one.snapshot.map(|(at, _)| at)))
        .collect();
    assert_eq!(seen.len(), 4, "{live:?}");
    // The first of them has waited longest; the order of the others is not specified.
    assert_eq!(seen[0], (reader.control().id(), 7, false, Some(at)));
    assert!(seen.contains(&(writer.control().id(), 8, true, Some(later))), "{live:?}");
    assert!(seen.contains(&(0, 0, false, Some(later))), "of a handle, with a writer: {live:?}");
    assert!(seen.contains(&(0, 0, false, Some(after))), "of a handle and a cursor: {live:?}");
    assert!(live.is_sorted_by_key(|one| std::cmp::Reverse(one.lasts())));
    let said: Vec<_> = live.iter().map(ToString::to_string).collect();
    let begins = format!(
        "transaction {} (tag 7) has been reading as of commit {at} for 0.",
        reader.control().id()
    );
    assert!(said[0].starts_with(&begins), "{said:?}");
    assert!(
        said.iter().any(|line| line.starts_with("a snapshot has been reading as of")),
        "{said:?}"
    );
    assert!(said.iter().any(|line| line.contains(" 1 writes, has been reading as of")), "{said:?}");
    drop((also, cursor));
    assert_eq!(numbers(&db)[..2], [3, at.0], "the reader's, the writer's and what is held");
    assert!(db.stats().get("snapshot_oldest_millis") >= Some(20), "a tick of the clock ago");

    // Every page has been replaced by now, and the old ones stay.
    writer.rollback();
    drop(held);
    fill(&[2; 100]);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    let kept = numbers(&db)[2];
    assert!(kept > 20_000, "{kept} bytes");
    assert_eq!(reader.get(&tree, &key(1)).unwrap().as_deref(), Some(&[1; 100][..]));
    reader.rollback();
    assert_eq!(numbers(&db), [0, 0, 0]);
    assert!(db.transactions().is_empty());
    drop((of_calls, tree));
    db.close().unwrap();
}
