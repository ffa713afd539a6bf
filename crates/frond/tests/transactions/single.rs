//! What a single transaction sees and leaves behind, whatever others have committed.

use super::*;
use frond::Duplicate;
use frond::ReadOptions;

#[test]
fn uncommitted_writes_are_visible_only_to_their_transaction() {
    for isolation in LEVELS {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let txn = store.begin(isolation);
            txn.put(tree, b"1", b"11").unwrap();
            txn.delete(tree, b"2").unwrap();
            txn.insert(tree, b"3", b"30").unwrap();
            txn.merge(tree, b"1", operator::APPEND, b"!").unwrap();
            txn.merge(tree, b"4", operator::APPEND, b"40").unwrap();
            txn.put(tree, b"0", &vec![b'x'; 100_000]).unwrap();
            assert_eq!(get(&txn, tree, "1").as_deref(), Some("11!"));
            assert_eq!(
                (get(&txn, tree, "2"), get(&txn, tree, "0").unwrap().len()),
                (None, 100_000)
            );
            let mut own = scanned(&txn, tree);
            assert_eq!(own.remove(0).1.len(), 100_000);
            assert_eq!(own, pairs(&[("1", "11!"), ("3", "30"), ("4", "40")]));
            let refused = txn.insert(tree, b"3", b"31").unwrap_err();
            assert!(matches!(refused, Error::DuplicateKey(Duplicate::Row { .. })), "{refused}");
            txn.insert(tree, b"2", b"22").unwrap();

            assert_eq!(store.rows(), pairs(&[("1", "10"), ("2", "20")]));
            let other = store.begin(isolation);
            assert_eq!(scanned(&other, tree), pairs(&[("1", "10"), ("2", "20")]));
            txn.commit().unwrap();
            let mut rows = store.rows();
            assert_eq!(rows.remove(0).1.len(), 100_000);
            let expected = pairs(&[("1", "11!"), ("2", "22"), ("3", "30"), ("4", "40")]);
            assert_eq!(rows, expected);
            let seen = scanned(&other, tree).len();
            assert_eq!(seen, if isolation == Isolation::ReadCommitted { 5 } else { 2 });
            drop(other);
            db.checkpoint().unwrap();
            assert_eq!(store.rows()[1..], expected);
            store.is_idle();
        }
    }
}

#[test]
fn a_scan_skips_rows_its_transaction_writes_or_deletes_ahead_of_it() {
    let store = store(true);
    let Store { tree, .. } = &store;
    let txn = store.begin(Isolation::Snapshot);
    txn.put(tree, b"15", b"x").unwrap();
    let mut cursor = txn.scan(tree, ..).unwrap();
    let mut met = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        met.push(text(key));
        txn.put(tree, &[key, b"+"].concat(), b"moved").unwrap_or_else(|error| panic!("{error}"));
        if met.len() == 1 {
            txn.delete(tree, b"15").unwrap();
        }
        assert!(met.len() < 10, "{met:?}");
    }
    assert_eq!(met, ["1", "2"]);
    let mut cursor = txn.scan(tree, &b"1"[..]..&b"2"[..]).unwrap();
    let keys = |row: Option<(&[u8], &[u8])>| row.map(|(key, _)| text(key));
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1"));
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1+"));
    assert_eq!(keys(cursor.prev().unwrap()).as_deref(), Some("1"));
    assert_eq!(keys(cursor.prev().unwrap()), None);
    assert_eq!(keys(cursor.next().unwrap()).as_deref(), Some("1"));
    cursor.seek(b"10");
    assert_eq!(keys(cursor.prev().unwrap()).as_deref(), Some("1+"));
}

#[test]
fn rollback_undoes_everything_and_a_savepoint_everything_after_it() {
    for is_flushed in [false, true] {
        let store = store(is_flushed);
        let Store { db, tree, .. } = &store;
        let txn = db.begin(Default::default()).unwrap();
        txn.put(tree, b"1", b"11").unwrap();
        let first = txn.savepoint().unwrap();
        txn.put(tree, b"1", b"12").unwrap();
        txn.put(tree, b"3", b"30").unwrap();
        let second = txn.savepoint().unwrap();
        txn.delete(tree, b"1").unwrap();
        txn.put(tree, b"5", &vec![b'y'; 70_000]).unwrap();
        txn.rollback_to(&second).unwrap();
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "12"), ("2", "20"), ("3", "30")]));
        txn.rollback_to(&first).unwrap();
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "11"), ("2", "20")]));
        txn.rollback_to(&first).unwrap();
        let gone = txn.rollback_to(&second).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::FixCall, "{gone}");
        txn.put(tree, b"6", b"60").unwrap();
        txn.release(&first).unwrap();
        assert!(txn.rollback_to(&first).is_err());
        let foreign = db.begin(Default::default()).unwrap();
        let second = txn.savepoint().unwrap();
        assert!(foreign.rollback_to(&second).is_err());
        txn.commit().unwrap();
        let expected = pairs(&[("1", "11"), ("2", "20"), ("6", "60")]);
        assert_eq!(store.rows(), expected);
        for ends in [0, 1] {
            let txn = db.begin(Default::default()).unwrap();
            txn.delete(tree, b"1").unwrap();
            txn.put(tree, b"7", &vec![b'z'; 70_000]).unwrap();
            if ends == 0 { txn.rollback() } else { drop(txn) }
        }
        drop(foreign);
        assert_eq!(store.rows(), expected);
        store.is_idle();
    }
}

/// Lost update (P4) by a plain read: the level decides. Rule: I27, for rows in the memtable and in
/// the tree.
#[test]
fn a_row_written_back_after_a_plain_read_conflicts_as_the_level_requires() {
    for isolation in LEVELS {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let (one, two) = (store.begin(isolation), store.begin(isolation));
            assert_eq!(get(&one, tree, "1"), get(&two, tree, "1"));
            one.put(tree, b"1", b"11").unwrap();
            one.commit().unwrap();
            if is_flushed {
                db.checkpoint().unwrap();
            }
            let kept = if isolation == Isolation::ReadCommitted { "11" } else { "10" };
            assert_eq!(get(&two, tree, "1").as_deref(), Some(kept));
            let written = two.put(tree, b"1", b"12");
            if isolation == Isolation::Snapshot {
                assert!(matches!(written, Err(Error::Conflict { .. })), "{written:?}");
                assert_eq!(store.rows()[0].1, "11");
                continue;
            }
            written.unwrap();
            // A row that was not changed meanwhile causes no conflict.
            two.put(tree, b"2", b"22").unwrap();
            two.commit().unwrap();
            assert_eq!(store.rows(), pairs(&[("1", "12"), ("2", "22")]));
        }
    }
}

#[test]
fn flushing_other_rows_causes_no_snapshot_conflict() {
    let store = store(false);
    let Store { db, tree, .. } = &store;
    let txn = store.begin(Isolation::Snapshot);
    assert_eq!(scanned(&txn, tree).len(), 2);
    tree.put(b"3", b"30").unwrap();
    db.checkpoint().unwrap();
    txn.put(tree, b"1", b"11").unwrap();
    assert_eq!(txn.get_for_update(tree, b"2").unwrap().as_deref(), Some(&b"20"[..]));
    let unseen = txn
        .get_with(tree, b"3", &ReadOptions::new().lock(RowLock::Shared))
        .map(|row| row.into_value())
        .unwrap_err();
    assert!(matches!(unseen, Error::Conflict { .. }), "{unseen}");
}

/// An operator that panics, as an application's operator may.
struct Panics;

impl operator::MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn merge(&self, _base: Option<&[u8]>, _operand: &[u8]) -> Vec<u8> {
        panic!("an operator that panics");
    }

    fn combine(&self, _older: &[u8], _newer: &[u8]) -> Vec<u8> {
        panic!("an operator that panics");
    }
}

#[test]
fn a_panicking_operator_leaves_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).operator(200, Arc::new(Panics));
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    for reads in [true, false] {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let txn = db.begin(Default::default()).unwrap();
            txn.put(&tree, b"1", b"11").unwrap();
            txn.put(&tree, b"2", b"22").unwrap();
            txn.merge(&tree, b"1", 200, b"x").unwrap();
            if reads {
                let _ = txn.get(&tree, b"1");
            } else {
                let _ = txn.commit();
            }
        }));
        assert!(panicked.is_err());
        assert_eq!(db.lock_stats().locks, 0);
        let txn = db.begin(Default::default()).unwrap();
        assert_eq!(txn.get_for_update(&tree, b"1").unwrap(), None);
        txn.put(&tree, b"3", b"").unwrap();
        txn.commit().unwrap();
    }
}

/// A statement is rolled back alone, and its scans do not return what it writes. Rules: I44, I45.
#[test]
fn a_statement_rolls_back_alone_and_its_scans_skip_its_writes() {
    for isolation in LEVELS {
        let store = store(true);
        let Store { tree, .. } = &store;
        let txn = store.begin(isolation);
        assert_eq!(txn.statement().rollback().unwrap_err().kind(), ErrorKind::FixCall);
        txn.put(tree, b"3", b"30").unwrap();
        let before = txn.savepoint().unwrap();
        txn.statement().begin().unwrap();
        for round in 0..3 {
            // Like a server that reads the inner table of a join again for each row of the outer
            // one.
            let rows = scanned(&txn, tree);
            let expected = [("1", "10"), ("2", "20"), ("3", "30")];
            assert_eq!(rows, pairs(&expected[..3 - usize::from(round > 0)]), "{isolation:?}");
            txn.put(tree, &[b'4' + round], b"new").unwrap();
            txn.put(tree, b"2", b"changed").unwrap();
            txn.delete(tree, b"3").unwrap();
            assert_eq!(get(&txn, tree, "2").as_deref(), Some("changed"), "reads of rows see all");
        }
        let inner = txn.savepoint().unwrap();
        let mut open = txn.scan(tree, ..).unwrap();
        txn.statement().rollback().unwrap();
        assert!(txn.rollback_to(&inner).is_err(), "it was made in the statement");
        assert_eq!(open.next().unwrap().unwrap().0, b"1", "it sees nothing that was rolled back");
        drop(open);
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "10"), ("2", "20"), ("3", "30")]));
        txn.statement().begin().unwrap();
        txn.put(tree, b"4", b"40").unwrap();
        txn.statement().begin().unwrap();
        assert_eq!(scanned(&txn, tree).len(), 4, "the next one sees it");
        txn.statement().rollback().unwrap();
        assert_eq!(scanned(&txn, tree).len(), 4, "only the last is rolled back");
        txn.put(tree, b"5", b"50").unwrap();
        txn.rollback_to(&before).unwrap();
        assert_eq!(scanned(&txn, tree).len(), 3, "beyond its begin");
        txn.put(tree, b"6", b"60").unwrap();
        txn.statement().rollback().unwrap();
        txn.statement().begin().unwrap();
        txn.commit().unwrap();
        assert_eq!(store.rows(), pairs(&[("1", "10"), ("2", "20"), ("3", "30")]));
        let txn = store.begin(isolation);
        assert!(txn.statement().rollback().is_err(), "it was another's");
        txn.rollback();
        store.is_idle();
    }
}

#[test]
fn a_rollback_beyond_a_scans_start_ends_the_scan() {
    let store = store(true);
    let Store { tree, .. } = &store;
    let txn = store.begin(Isolation::Snapshot);
    let before = txn.savepoint().unwrap();
    for key in [b"3", b"4", b"5"] {
        txn.put(tree, key, &vec![b'x'; 70_000]).unwrap();
    }
    let mut cursor = txn.scan(tree, &b"3"[..]..).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().0, b"3");
    let since = txn.savepoint().unwrap();
    txn.put(tree, b"6", b"").unwrap();
    txn.delete(tree, b"4").unwrap();
    txn.rollback_to(&since).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().0, b"4", "what was behind it does not matter");
    txn.rollback_to(&before).unwrap();
    assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::FixCall);
    txn.put(tree, b"5", b"50").unwrap();
    assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::FixCall);
    drop(cursor);
    assert_eq!(scanned(&txn, tree), pairs(&[("1", "10"), ("2", "20"), ("5", "50")]));
}

#[test]
fn a_read_only_transaction_neither_writes_nor_locks() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let txn = db.begin(TxnOptions::new().read_only(true)).unwrap();
    assert_eq!(get(&txn, tree, "1").as_deref(), Some("10"));
    tree.put(b"1", b"11").unwrap();
    assert_eq!(get(&txn, tree, "1").as_deref(), Some("10"));
    for refused in [txn.put(tree, b"1", b""), txn.get_for_update(tree, b"1").map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::FixCall);
    }
    assert_eq!(
        txn.control().snapshot_seqno().map(|seqno| seqno < db.snapshot().seqno()),
        Some(true)
    );
    txn.commit().unwrap();
}

#[test]
fn exactly_the_committed_writes_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::new().cache_size(16 << 20).durability(Durability::Sync);
    {
        let db = Db::open(&path, options()).unwrap();
        let (one, two) =
            (db.create_tree("a", Default::default()), db.create_tree("b", Default::default()));
        let (one, two) = (one.unwrap(), two.unwrap());
        let txn = db.begin(Default::default()).unwrap();
        for n in 0..1000u32 {
            txn.put(&one, &n.to_be_bytes(), b"v").unwrap();
            txn.put(&two, &n.to_le_bytes(), &[7; 100]).unwrap();
        }
        txn.commit().unwrap();
        let left = db.begin(Default::default()).unwrap();
        left.put(&one, b"left", b"").unwrap();
        drop(left);
        db.close().unwrap();
    }
    let db = Db::open(&path, options()).unwrap();
    for name in ["a", "b"] {
        let tree = db.open_tree(name).unwrap();
        let mut cursor = tree.scan(..).unwrap();
        let mut rows = 0;
        while cursor.next().unwrap().is_some() {
            rows += 1;
        }
        assert_eq!(rows, 1000);
    }
}

/// A tree that was made after a snapshot does not exist in that snapshot: to read it as empty would
/// be wrong for an index that was filled since, and for a table that was emptied by exchanging its
/// tree. Rule: I43.
#[test]
fn a_snapshot_older_than_a_tree_cannot_read_it() {
    let store = store(false);
    let (snapshot, early) = (store.db.snapshot(), store.begin(Isolation::RepeatableRead));
    assert_eq!(get(&early, &store.tree, "1").as_deref(), Some("10"));
    let before = store.tree.put(b"3", b"30").unwrap();
    let later = store.db.create_tree("later", TreeOptions::default()).unwrap();
    assert!(
        later.info().birth > before,
        "at its commit, not at what was visible when it was asked for"
    );
    assert_eq!(later.info().birth, store.db.snapshot().seqno());
    later.put(b"1", b"x").unwrap();
    early.put(&later, b"2", b"own").unwrap();
    let changed = |error: Option<Error>| {
        let error = error.expect("it is not there at that moment");
        assert!(matches!(error, Error::DefinitionChanged(_)), "{error}");
    };
    for key in [b"1", b"2"] {
        changed(early.get(&later, key).err());
        changed(snapshot.get(&later, key).err());
    }
    changed(early.scan(&later, ..).err());
    changed(snapshot.scan(&later, ..).err());
    // Reads of the newest rows read it.
    assert_eq!(early.get_for_update(&later, b"1").unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(get(&store.begin(Isolation::ReadCommitted), &later, "1").as_deref(), Some("x"));
    early.commit().unwrap();
    assert_eq!(store.db.snapshot().get(&later, b"2").unwrap().as_deref(), Some(&b"own"[..]));
    store.is_idle();
}

#[test]
fn invalid_calls_are_refused() {
    let (store, other) = (store(false), store(false));
    let txn = store.db.begin(Default::default()).unwrap();
    for refused in [
        txn.put(&other.tree, b"1", b""),
        txn.put(&store.tree, &vec![0; 70_000], b""),
        txn.merge(&store.tree, b"1", 99, b""),
        txn.get(&other.tree, b"1").map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::FixCall);
    }
    let born_later = store.db.create_tree("later", Default::default()).unwrap();
    let early = store.begin(Isolation::Snapshot);
    assert_eq!(get(&early, &store.tree, "1").as_deref(), Some("10"));
    let later = store.db.create_tree("latest", Default::default()).unwrap();
    assert!(matches!(early.get(&later, b"1"), Err(Error::DefinitionChanged(_))));
    assert!(matches!(early.scan(&later, ..), Err(Error::DefinitionChanged(_))));
    early.put(&born_later, b"1", b"").unwrap();
    // A drop of a tree waits for transactions that have locked its rows. Rule: I52.
    thread::scope(|scope| {
        let dropped = scope.spawn(|| store.db.drop_tree("later"));
        store.until_waiting(1);
        early.commit().unwrap();
        dropped.join().unwrap().unwrap();
    });
    let gone = txn.put(&born_later, b"1", b"").unwrap_err();
    assert!(matches!(gone, Error::NoSuchTree(_)), "{gone}");
    drop(txn);
    store.is_idle();
    let closed = Arc::new(store.db.clone());
    closed.close().unwrap();
    assert!(matches!(closed.begin(Default::default()), Err(Error::Closed)));
}

/// Snapshots held by a transaction's scans are listed under the transaction; those of handles are
/// not, even if they are of one moment.
#[test]
fn snapshots_are_listed_under_their_transaction() {
    let store = store(false);
    let (db, tree) = (&store.db, &store.tree);
    let held = || -> Vec<(u64, bool, bool)> {
        let live = db.transactions();
        let mut held: Vec<_> =
            live.iter().map(|one| (one.id, one.locks.is_some(), one.snapshot.is_some())).collect();
        held.sort_unstable();
        held
    };
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let txn = store.begin(isolation);
        let mut scan =
            txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
        assert!(scan.next().unwrap().is_some());
        assert_eq!(held(), [(txn.control().id(), true, true)], "{isolation:?}");
        drop(scan);
        txn.rollback();
        let txn = store.begin(isolation);
        let newest = frond::ReadOptions::new().sees(frond::transaction::Sees::Newest);
        let scan = txn.scan_with(tree, .., &newest).unwrap();
        assert_eq!(held(), [(txn.control().id(), false, true)], "{isolation:?}");
        drop(scan);
        assert_eq!(held(), []);
        txn.rollback();
    }
    let handle = db.snapshot();
    let txn = store.begin(Isolation::Snapshot);
    txn.get(tree, b"1").unwrap();
    let scan = txn.scan(tree, ..).unwrap();
    assert_eq!(held(), [(0, false, true), (txn.control().id(), false, true)]);
    drop(handle);
    assert_eq!(held(), [(txn.control().id(), false, true)]);
    drop(scan);
    txn.rollback();
    assert_eq!(held(), []);
}

/// The error of a thread that waited for a transaction of its own says so; others' do not.
#[test]
fn a_timeout_names_a_holder_of_the_same_thread() {
    let Store { db, tree, .. } = &store(false);
    let holder = db.begin(TxnOptions::new()).unwrap();
    holder.put(tree, b"1", b"11").unwrap();
    let waits = || {
        let mut batch = Batch::new();
        batch.lock_timeout(Some(Duration::from_millis(5)));
        batch.put(tree, b"1", b"12").unwrap();
        db.commit(&mut batch).unwrap_err().to_string()
    };
    let own = format!(
        "transaction {}, which began on this thread: if it is still open here, commit it or drop it first",
        holder.control().id()
    );
    let error = waits();
    assert!(error.starts_with("FRD-1101 ") && error.ends_with(&own), "{error}");
    // Also without any wait, and for another transaction.
    let other = db.begin(TxnOptions::new().lock_timeout(Some(Duration::ZERO))).unwrap();
    let error = other.get_for_update(tree, b"1").unwrap_err().to_string();
    assert!(error.contains(&own), "{error}");
    let elsewhere = thread::scope(|scope| scope.spawn(waits).join().unwrap());
    assert!(
        elsewhere.ends_with(&format!(
            "by transaction {}; try again, or raise the lock timeout",
            holder.control().id()
        )),
        "{elsewhere}"
    );
    // The next transaction of the pool is another thread's.
    drop((holder, other));
    thread::scope(|scope| {
        let moved = scope.spawn(|| {
            let txn = db.begin(TxnOptions::new()).unwrap();
            txn.put(tree, b"1", b"13").unwrap();
            txn
        });
        let txn = moved.join().unwrap();
        let error = waits();
        assert!(error.contains(&format!("by transaction {};", txn.control().id())), "{error}");
    });
}

#[test]
fn handles_of_a_closed_store_fail_and_open_cursors_go_on() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let snapshot = db.snapshot();
    let (reader, writer) = (store.begin(Isolation::Snapshot), store.begin(Isolation::Snapshot));
    writer.put(tree, b"other", b"lost").unwrap();
    let mut cursor = tree.scan(..).unwrap();
    db.close().unwrap();
    db.clone().close().unwrap();

    let refused = |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::Closed)));
    refused(tree.put(b"1", b"w").map(drop));
    refused(tree.get(b"1").map(drop));
    refused(tree.scan(..).map(drop));
    refused(snapshot.get(tree, b"1").map(drop));
    refused(reader.get(tree, b"1").map(drop));
    refused(writer.put(tree, b"other", b"lost"));
    refused(writer.commit().map(drop));
    refused(db.begin(Default::default()).map(drop));
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, 2);
}
