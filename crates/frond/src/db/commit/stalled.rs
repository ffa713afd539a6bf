//! Tests of commits that stall between their seqno and their end while the store goes on.
//!
//! One thread plays all roles: it leaves a commit after step 3 of `commit/mod.rs`, does what other
//! threads would do, all of which would wait for ever without helping, and then resumes the commit.

use super::*;
use crate::{
    Db, Options, Tree,
    check::CheckMode,
    db::Tuning,
    io::{Env, MemoryVfs, Workers},
    pipeline::Limits,
};

fn options(vfs: &Arc<MemoryVfs>) -> Options {
    let env = Env { vfs: vfs.clone(), workers: Workers::Manual, ..Env::real() };
    let limits = Limits { mini_run_entries: 100, ..Limits::for_cache(8 << 20) };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    Options::new().cache_size(8 << 20).durability(Durability::Sync).env(env).tuning(tuning)
}

/// Does steps 1 to 3 and stalls there.
fn log_and_stall(db: &Db, batch: &mut Batch) -> (Arc<CommitPayload>, LoggedCommit) {
    let shared = &*db.shared;
    let engine = &*shared.engine;
    batch.writes.seal(&engine.cx.folder()).unwrap();
    engine.sync_blobs(&batch.blobs).unwrap();
    let trees = batch.writes.trees();
    let mut record = RecordBuilder::new();
    let payload = shared.take_writes(batch, trees);
    let commit = PendingCommit { admitted: 0, ..PendingCommit::new(&payload, &batch.blobs, &[]) };
    write_record(&mut record, &payload, &batch.blobs, &[]);
    let logged = shared.log_commit(&commit, record.finish()).unwrap();
    (payload, logged)
}

fn rows(tree: &Tree) -> Vec<(Vec<u8>, usize)> {
    let mut rows = Vec::new();
    let mut cursor = tree.scan(..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.len()));
    }
    rows
}

/// Rule: I3, at every size: a few entries and a range delete, a record too long to be copied inside
/// the section, a mini-run, a long value.
#[test]
fn a_stalled_commit_blocks_no_commit_apply_or_checkpoint() {
    for (count, bytes) in [(3u32, 10), (60, 1000), (500, 10), (2, 100_000)] {
        let vfs = Arc::new(MemoryVfs::new());
        let db = Db::open("/store", options(&vfs)).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.put(b"gone", b"").unwrap();
        let mut batch = Batch::new();
        batch.delete_range(&tree, b"g"..b"h").unwrap();
        for n in 0..count {
            batch.put(&tree, &n.to_be_bytes(), &vec![7; bytes]).unwrap();
        }
        let (payload, logged) = log_and_stall(&db, &mut batch);
        assert!(db.shared.engine.sequencer.visible() < logged.seqno);

        let after = tree.put(b"after", b"1").unwrap();
        assert!(after > logged.seqno);
        let mut expected: Vec<_> = (0..count).map(|n| (n.to_be_bytes().to_vec(), bytes)).collect();
        expected.push((b"after".to_vec(), 1));
        assert_eq!(rows(&tree), expected);
        db.checkpoint().unwrap();
        assert!(db.shared.engine.versions.current().applied >= after);
        tree.put(b"later", b"22").unwrap();
        expected.push((b"later".to_vec(), 2));

        db.shared.insert_and_make_visible(&payload, &logged);
        give_back_writes(&mut batch, payload);
        assert_eq!(batch.len(), count as usize + 1, "its memory is its own again");
        drop(logged);
        batch.clear();
        assert_eq!(rows(&tree), expected, "coming back it changes nothing");
        db.checkpoint().unwrap();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
        db.close().unwrap();
        drop((tree, batch, db));
        let db = Db::open("/store", options(&vfs)).unwrap();
        assert_eq!(rows(&db.open_tree("t").unwrap()), expected);
    }
}

/// Two stalled commits with a freeze between them are each in their own memtable (Rule: I2).
#[test]
fn commits_stalled_on_both_sides_of_a_freeze_stay_in_their_memtables() {
    let vfs = Arc::new(MemoryVfs::new());
    let db = Db::open("/store", options(&vfs)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batches = [Batch::new(), Batch::new()];
    let mut stalled = Vec::new();
    for (n, batch) in batches.iter_mut().enumerate() {
        batch.put(&tree, &[n as u8], b"v").unwrap();
        stalled.push(log_and_stall(&db, batch));
        db.shared.engine.freeze();
    }
    // The younger one is resumed first, and its owner helps the older.
    let (payload, logged) = stalled.pop().unwrap();
    db.shared.insert_and_make_visible(&payload, &logged);
    assert_eq!(rows(&tree).len(), 2);
    let engine = &db.shared.engine;
    while engine.apply_oldest().unwrap() {}
    assert_eq!(engine.versions.current().applied, logged.seqno);
    let (payload, logged) = stalled.pop().unwrap();
    db.shared.insert_and_make_visible(&payload, &logged);
    assert_eq!(rows(&tree).len(), 2);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}

/// A commit after the last freeze of a close would be in no checkpoint, so it must be refused (P1).
#[test]
fn a_commit_during_a_close_is_refused_or_durable() {
    let vfs = Arc::new(MemoryVfs::new());
    let db = Db::open("/store", options(&vfs)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&tree, b"early", b"").unwrap();
    let (payload, early) = log_and_stall(&db, &mut batch);
    // Simulates a close that starts after all earlier checks of the commit.
    assert!(db.shared.engine.health.begin_close());
    let mut record = RecordBuilder::new();
    record.tree(tree.id());
    let late = Arc::new(CommitPayload::default());
    let late = db.shared.log_commit(&PendingCommit::new(&late, &[], &[]), record.finish());
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    db.shared.engine.health.closing.store(false, Ordering::SeqCst);
    db.close().unwrap();
    db.shared.insert_and_make_visible(&payload, &early);
    drop((tree, batch, payload, early, db));
    let db = Db::open("/store", options(&vfs)).unwrap();
    assert_eq!(rows(&db.open_tree("t").unwrap()), [(b"early".to_vec(), 0)]);
}

/// Rule: I29. An ordered snapshot waits at its first read for commits that have their place in the
/// order but are not visible yet.
#[test]
fn an_ordered_snapshot_includes_commits_in_flight() {
    let db = Db::open("/store", options(&Arc::new(MemoryVfs::new()))).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&tree, b"k", b"on its way").unwrap();
    let (payload, logged) = log_and_stall(&db, &mut batch);
    let txn = db.begin(Default::default()).unwrap();
    assert_eq!(txn.control().take_snapshot().unwrap(), logged.seqno);
    assert!(db.shared.engine.sequencer.visible() < logged.seqno, "nothing was waited for");
    assert_eq!(txn.get(&tree, b"k").unwrap().as_deref(), Some(&b"on its way"[..]));
    db.shared.insert_and_make_visible(&payload, &logged);
    give_back_writes(&mut batch, payload);
}
