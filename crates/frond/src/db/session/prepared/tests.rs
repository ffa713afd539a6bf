//! Tests of prepared transactions that need internals: decisions at exact points between
//! checkpoints, and hostile pieces.

use super::*;
use crate::{
    Duplicate, IfLocked, Isolation, Options, RowLock, Tree, TreeId, TxnOptions,
    catalog::{PreparedPiece, Record},
    check::CheckMode,
    db::{RowEntry, Tuning},
    io::{BadRanges, Env, MemoryVfs, OpenMode, Vfs, Workers},
    message::Tag,
    page::Link,
    pipeline::Limits,
    store::Extent,
    wal::LogUse,
};

fn open(vfs: &Arc<MemoryVfs>) -> Result<Db> {
    open_with(vfs, |options| options)
}

fn open_with(vfs: &Arc<MemoryVfs>, more: impl FnOnce(Options) -> Options) -> Result<Db> {
    let env = Env { vfs: vfs.clone(), workers: Workers::Manual, ..Env::real() };
    Db::open("/store", more(Options::new().cache_size(8 << 20).env(env)))
}

fn xid() -> Xid {
    Xid::new(b"x").unwrap()
}

/// A store with a prepared long value, which is in the trees through its boundary; written beyond
/// memory if `is_large`.
fn prepared_and_applied(vfs: &Arc<MemoryVfs>, is_large: bool) -> Db {
    let db = open(vfs).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&tree, b"long", &[7; 100_000]).unwrap();
    for row in 0..if is_large { 40_000u32 } else { 0 } {
        txn.put(&tree, &row.to_be_bytes(), &[3; 60]).unwrap();
    }
    let prepared = txn.prepare(&xid()).unwrap();
    assert_eq!(prepared.own().spilled.is_some(), is_large);
    assert!(db.shared.commit_bytes(prepared.own()) < 100, "I41: it is short, whatever it commits");
    prepared.detach();
    db.shared.engine.freeze();
    while db.shared.engine.apply_oldest().unwrap() {}
    db
}

/// Ends the process without closing anything.
fn kill(db: Db) {
    db.shared.engine.health.fail("it was killed");
    drop(db);
}

/// The decision is after the boundary of both slots, which need not name what is decided. Rules:
/// I10, I11.
#[test]
fn a_decision_after_the_boundary_of_both_slots_survives() {
    for (is_committed, is_large) in [(false, false), (false, true), (true, false), (true, true)] {
        let vfs = Arc::new(MemoryVfs::new());
        let db = prepared_and_applied(&vfs, is_large);
        match is_committed {
            true => drop(db.commit_prepared(&xid()).unwrap()),
            false => db.rollback_prepared(&xid()).unwrap(),
        }
        for _ in 0..3 {
            db.shared.engine.publish_unchanged();
            db.shared.engine.run_checkpoint().unwrap();
        }
        kill(db);
        let has_all = |db: &Db| {
            assert!(db.prepared().is_empty());
            let tree = db.open_tree("t").unwrap();
            assert_eq!(tree.get(b"long").unwrap(), is_committed.then(|| vec![7; 100_000]));
            let row = tree.get(&77u32.to_be_bytes()).unwrap();
            assert_eq!(row, (is_committed && is_large).then(|| vec![3; 60]));
            assert!(db.check(CheckMode::Full).unwrap().is_clean());
        };
        let alone = open_with(&vfs, |options| options.read_only(true)).unwrap();
        has_all(&alone);
        drop(alone);
        let db = open(&vfs).unwrap();
        has_all(&db);
        // What was replayed is named again by this opening's slots.
        for _ in 0..3 {
            db.shared.engine.publish_unchanged();
            db.shared.engine.run_checkpoint().unwrap();
        }
        kill(db);
        has_all(&open(&vfs).unwrap());
    }
}

/// Without a decision, each slot's own checkpoint has named it, or a record that the slot needs
/// did. Rule: I12.
#[test]
fn a_transaction_stays_in_doubt_through_many_slots() {
    let vfs = Arc::new(MemoryVfs::new());
    let mut db = prepared_and_applied(&vfs, false);
    for round in 0..6 {
        if round % 2 == 0 {
            db.open_tree("t").unwrap().put(&[round], &[1; 70_000]).unwrap();
            db.checkpoint().unwrap();
        }
        db.shared.engine.publish_unchanged();
        db.shared.engine.run_checkpoint().unwrap();
        kill(db);
        db = open(&vfs).unwrap();
        assert_eq!(db.prepared().len(), 1, "round {round}");
    }
    db.commit_prepared(&xid()).unwrap();
    let found = db.open_tree("t").unwrap().get(b"long").unwrap();
    assert_eq!(found, Some(vec![7; 100_000]));
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}

/// Promise: P20. Pieces that no prepare writes, with right checksums.
#[test]
fn malformed_prepared_content_is_refused() {
    let with = |body: &[u8], has_runs| content(Seqno(1), None, (body, has_runs));
    let content = |body: &[u8]| with(body, false);
    // A run where nothing is, or where the catalog's own leaf may be.
    let runs_at = |tree, offset, has_runs| {
        let mut record = RecordBuilder::new();
        let link = Link { offset, bytes: 4096, ..Link::default() };
        record.runs(tree, [link].into_iter());
        with(record.finish(), has_runs)
    };
    let run_at = |tree, offset| runs_at(tree, offset, true);
    let mut record = RecordBuilder::new();
    record.tree(TreeId(1));
    record.entry(b"key", Tag::PUT, b"value");
    record.runs(TreeId(1), [Link { offset: 1 << 20, bytes: 4096, ..Link::default() }].into_iter());
    let late = record.finish().to_vec();
    let mut record = RecordBuilder::new();
    record.tree(CATALOG_TREE);
    record.entry(b"key", Tag::PUT, b"value");
    let catalog = content(record.finish());
    let piece = |number, count, content: &[u8]| {
        let (xid, content) = (xid(), content.to_vec());
        PreparedPiece { xid, number, count, content, carried: Default::default() }
    };
    let bad = [
        ("the catalog", piece(0, 1, &catalog)),
        ("no content", piece(0, 1, b"")),
        ("an unknown version", piece(0, 1, &[9, 0, 0])),
        ("a piece is missing", piece(0, 2, &catalog)),
        ("no body", piece(0, 1, &content(b"\xff\xff"))),
        ("a run that is not there", piece(0, 1, &run_at(TreeId(1), 1 << 30))),
        ("a run in no place", piece(0, 1, &run_at(TreeId(1), 4097))),
        ("a run over others", piece(0, 1, &run_at(TreeId(1), 32 << 10))),
        ("runs after rows", piece(0, 1, &with(&late, true))),
        ("runs of one that says it has none", piece(0, 1, &runs_at(TreeId(1), 1 << 20, false))),
        ("runs of the catalog", piece(0, 1, &run_at(CATALOG_TREE, 1 << 30))),
    ];
    for (what, piece) in bad {
        let vfs = Arc::new(MemoryVfs::new());
        let db = open(&vfs).unwrap();
        let record = Record::Prepared(piece);
        let (key, value) = (record.key(), record.encode().unwrap());
        let mut payload = CommitPayload { trees: vec![CATALOG_TREE], ..CommitPayload::default() };
        payload.writes.push(CATALOG_TREE, &key, Tag::PUT, &[&value], false);
        let level = Durability::Sync;
        let put = {
            let payload = Arc::new(payload);
            db.shared.commit_pending(&PendingCommit::new(&payload, &[], &[]), level, ())
        };
        put.unwrap();
        kill(db);
        let refused = open(&vfs).map(drop).unwrap_err();
        let is_typed = matches!(refused, Error::Malformed { .. } | Error::TooNew { .. });
        assert!(is_typed, "{what}: {refused}");
    }
}

/// Promise: P20. A prepared transaction's run that cannot be read makes the opening fail with its
/// location, whichever rows are requested meanwhile.
#[test]
fn damage_in_runs_is_reported_with_its_location() {
    let vfs = Arc::new(MemoryVfs::new());
    let db = prepared_and_applied(&vfs, true);
    let tree = db.open_tree("t").unwrap();
    let other = db.begin(Default::default()).unwrap();
    other.put(&tree, b"row", b"another's").unwrap();
    // It takes its locks after the other transaction.
    other.prepare(&Xid::new(b"y").unwrap()).unwrap().detach();
    let large = db.attach_prepared(&xid()).unwrap();
    let spilled = large.own().spilled.as_ref().and_then(Change::spilled).unwrap();
    let pages = spilled.iter().flat_map(|(_, runs)| runs.pages().iter().collect::<Vec<_>>());
    let extents: Vec<Extent> = pages.map(|(_, extent)| extent).collect();
    large.detach();
    drop(tree);
    kill(db);
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let file = vfs.open("/store/store.frond".as_ref(), mode).unwrap();
    for Extent { offset, bytes } in &extents {
        file.write_at(&vec![0xaa; *bytes as usize], *offset).unwrap();
    }
    drop(file);
    let refused = open(&vfs).map(drop).unwrap_err();
    let at = refused.offset().unwrap_or_else(|| panic!("{refused}"));
    let is_there =
        |&Extent { offset, bytes }: &Extent| (offset..offset + u64::from(bytes)).contains(&at);
    assert!(
        extents.iter().any(is_there) && refused.to_string().contains("store.frond"),
        "{refused}"
    );
}

/// Rows that were locked for writing but not written are released like rows that were only read
/// (Rule: I54).
#[test]
fn rows_locked_but_not_written_are_released() {
    let db = open(&Arc::new(MemoryVfs::new())).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let index = db.create_tree("i", Default::default()).unwrap();
    tree.put(b"there", b"0").unwrap();
    index.put(b"taken", b"there").unwrap();
    let isolation = Isolation::RepeatableRead;
    let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    txn.put(&tree, b"a", b"1").unwrap();
    assert!(matches!(
        txn.insert(&tree, b"there", b"1"),
        Err(Error::DuplicateKey(Duplicate::Row { .. }))
    ));
    // A row that is undone with its call: its other entry is not new.
    let entry = |tree, key, unique| RowEntry { tree, key, value: b"new", unique, absent: false };
    let entries = [entry(&tree, b"new", true), entry(&index, b"taken", true)];
    assert!(txn.row_writer().insert(&entries, RowLock::Exclusive).unwrap().is_some());
    txn.prepare(&xid()).unwrap().detach();
    let other = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    let is_locked = |tree: &Tree, key: &[u8]| {
        let read = other.get_locked(tree, key, RowLock::Exclusive, IfLocked::NoWait);
        matches!(read, Err(Error::LockBusy { .. }))
    };
    assert!(is_locked(&tree, b"a"));
    assert!(
        !is_locked(&tree, b"there") && !is_locked(&tree, b"new") && !is_locked(&index, b"taken")
    );
    other.rollback();
    db.commit_prepared(&xid()).unwrap();
    assert_eq!(db.lock_stats().locks, 0);
    db.close().unwrap();
}

/// A row stays locked until the decision even if its write was spilled, rolled back to a savepoint
/// and written again (Rules: I41, I47). Otherwise another transaction could read its old value and
/// overwrite it, and the update would be lost. Found by random histories.
#[test]
fn rows_written_again_after_their_piece_was_dropped_stay_locked() {
    let limits = Limits { own_writes_bytes: 300, ..Limits::for_cache(8 << 20) };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let vfs = Arc::new(MemoryVfs::new());
        let db = open_with(&vfs, |options| options.tuning(tuning.clone())).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        let savepoint = txn.savepoint().unwrap();
        for row in 0..20u32 {
            txn.put(&tree, &row.to_be_bytes(), &[7; 40]).unwrap();
        }
        assert!(
            db.lock_stats().locks < 20,
            "most rows have left memory, and their locks the table"
        );
        txn.rollback_to(&savepoint).unwrap();
        let again = [0u32, 3];
        for row in again {
            txn.put(&tree, &row.to_be_bytes(), b"again").unwrap();
        }
        let is_locked = |row: u32| {
            let other = db.begin(Default::default()).unwrap();
            let (lock, if_locked) = (RowLock::Exclusive, IfLocked::NoWait);
            let read = other.get_locked(&tree, &row.to_be_bytes(), lock, if_locked);
            matches!(read, Err(Error::LockBusy { .. }))
        };
        assert!(again.into_iter().all(is_locked), "{isolation:?}, before");
        txn.prepare(&xid()).unwrap().detach();
        assert!(again.into_iter().all(is_locked), "{isolation:?}, prepared");
        let keeps_all = isolation == Isolation::Serializable;
        assert_eq!(is_locked(1), keeps_all, "{isolation:?}, rolled back");
        db.commit_prepared(&xid()).unwrap();
        assert!(!again.into_iter().any(is_locked), "{isolation:?}, decided");
        assert_eq!(db.lock_stats().locks, 0);
        drop(tree);
        db.close().unwrap();
    }
}

/// Promise: P12. A commit at level `lazy` that is logged when the store fails is not acknowledged:
/// no thread will write its record.
#[test]
fn a_lazy_commit_is_not_acknowledged_once_the_store_has_failed() {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), workers: Workers::Manual, ..Env::real() };
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy).env(env);
    let db = Db::open("/store", options).unwrap();
    let log = db.shared.engine.log();
    let reservation = log.try_reserve(7, LogUse::Rows).unwrap();
    log.fill(&reservation, &[b"payload"]);
    db.shared.wait_durable(&reservation, Durability::Lazy).unwrap();
    db.shared.engine.health.fail("a test");
    let outcome = db.shared.wait_durable(&reservation, Durability::Lazy);
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: a prepare forgets rows written again" =>
            rows_written_again_after_their_piece_was_dropped_stay_locked,
        "txn: a prepare keeps rows that it does not write" =>
            rows_locked_but_not_written_are_released,
        "pipeline: what is committed is named no more" =>
            a_decision_after_the_boundary_of_both_slots_survives,
    };
    crate::plant::assert_claims_hold("prepared", claims);
}

/// Promise: P12. Neither a decision nor a small commit writes to the store file, so only the state
/// of the whole store can refuse them.
#[test]
fn nothing_is_acknowledged_after_a_write_of_the_store_file_has_failed() {
    let bad = BadRanges::default();
    let env = Env {
        vfs: Arc::new(bad.over(Arc::new(MemoryVfs::new()))),
        workers: Workers::Manual,
        ..Env::real()
    };
    let db = Db::open("/store", Options::new().cache_size(8 << 20).env(env)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&tree, b"in doubt", b"1").unwrap();
    txn.prepare(&xid()).unwrap().detach();
    tree.put(b"before", b"1").unwrap();
    let far = 1 << 40;
    *bad.writes.lock().unwrap() = Some(far..far + 1);
    let written = db.shared.engine.store.file().file.write_at(&[0; 4096], far);
    assert!(written.is_err());
    assert!(matches!(tree.put(b"after", b"1"), Err(Error::Failed(_))));
    assert!(matches!(db.commit_prepared(&xid()), Err(Error::Failed(_))));
}
