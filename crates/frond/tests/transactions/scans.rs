//! Locking scans, and the levels that depend on them.

use frond::{ReadOptions, transaction::RowRead};
use frond_testkit::{DbEngine, disk::SimVfs};

use frond::layout::{End, Hint, Layout, Part};

use super::*;

fn keys(cursor: &mut TxnCursor<'_>) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(text(key));
    }
    keys
}

const GAPPED: [Isolation; 2] = [Isolation::RepeatableRead, Isolation::Serializable];

/// PMP: rows and gaps scanned under locks stay unchanged, within the range and not beyond it.
#[test]
fn nothing_is_inserted_into_a_range_scanned_under_locks() {
    for isolation in GAPPED {
        for is_flushed in [false, true] {
            for forward in [true, false] {
                let store = store(is_flushed);
                let Store { db, tree, .. } = &store;
                tree.put(b"8", b"80").unwrap();
                let one = store.begin(isolation);
                let scan = |one: &Txn| {
                    let range = &b"1"[..]..&b"5"[..];
                    let mut cursor = one
                        .scan_with(tree, range, &ReadOptions::new().lock(RowLock::Shared))
                        .unwrap();
                    if forward {
                        return keys(&mut cursor);
                    }
                    cursor.seek_last();
                    let mut found = Vec::new();
                    while let Some((key, _)) = cursor.prev().unwrap() {
                        found.insert(0, text(key));
                    }
                    found
                };
                assert_eq!(scan(&one), ["1", "2"]);
                let quick = TxnOptions::new()
                    .isolation(isolation)
                    .lock_timeout(Some(Duration::from_millis(5)));
                let two = db.begin(quick).unwrap();
                for inside in [&b"1"[..], b"15", b"2", b"4", b"1\0"] {
                    let refused = two.put(tree, inside, b"").unwrap_err();
                    assert!(matches!(refused, Error::LockTimeout { .. }), "{refused}");
                }
                for outside in [&b"0"[..], b"5", b"7", b"8"] {
                    two.put(tree, outside, b"new").unwrap();
                }
                two.commit().unwrap();
                assert_eq!(scan(&one), ["1", "2"]);
                thread::scope(|scope| {
                    let waits = scope.spawn(|| {
                        let mut batch = Batch::new();
                        batch.put(tree, b"3", b"30").unwrap();
                        db.commit(&mut batch).unwrap();
                    });
                    store.until_waiting(1);
                    assert_eq!(scan(&one), ["1", "2"]);
                    one.put(tree, b"4", b"40").unwrap();
                    one.commit().unwrap();
                    waits.join().unwrap();
                });
                assert_eq!(store.rows().len(), 8);
                store.is_idle();
            }
        }
    }
}

/// A locking scan that reaches another's uncommitted key waits, and sees the outcome.
#[test]
fn a_locking_scan_waits_for_uncommitted_writes() {
    for isolation in GAPPED {
        for commits in [true, false] {
            let store = store(true);
            let Store { tree, .. } = &store;
            let one = store.begin(isolation);
            one.put(tree, b"15", b"new").unwrap();
            one.delete(tree, b"2").unwrap();
            thread::scope(|scope| {
                let second = scope.spawn(|| {
                    let two = store.begin(isolation);
                    let range = &b"1"[..]..;
                    let mut cursor = two
                        .scan_with(tree, range, &ReadOptions::new().lock(RowLock::Exclusive))
                        .unwrap();
                    let found = keys(&mut cursor);
                    drop(cursor);
                    two.commit().unwrap();
                    found
                });
                store.until_waiting(1);
                if commits {
                    assert!(one.commit().is_ok())
                } else {
                    one.rollback()
                }
                let expected = if commits { ["1", "15"] } else { ["1", "2"] };
                assert_eq!(second.join().unwrap(), expected);
            });
            store.is_idle();
        }
    }
}

#[test]
fn locked_rows_are_skipped_on_request() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot] {
        let store = store(false);
        let Store { tree, .. } = &store;
        tree.put(b"3", b"30").unwrap();
        let one = store.begin(isolation);
        assert!(one.get_for_update(tree, b"2").unwrap().is_some());
        let two = store.begin(isolation);
        let scan = |if_locked| {
            two.scan_with(
                tree,
                ..,
                &ReadOptions::new().lock(RowLock::Exclusive).if_locked(if_locked),
            )
            .unwrap()
        };
        let mut skipping = scan(IfLocked::SkipLocked);
        assert_eq!(keys(&mut skipping), ["1", "3"]);
        let mut failing = scan(IfLocked::NoWait);
        assert_eq!(text(failing.next().unwrap().unwrap().0), "1");
        assert!(matches!(failing.next(), Err(Error::LockBusy { .. })));
        one.rollback();
        assert_eq!(text(failing.next().unwrap().unwrap().0), "2", "it goes on where it was");
        drop((skipping, failing));
        drop(two);
        store.is_idle();
    }
}

/// G2-item and G2, write skew: two read what both decide by, each writes what the other has read.
#[test]
fn serializable_transactions_show_no_write_skew() {
    for by_scan in [false, true] {
        let store = store(true);
        let Store { db, tree, .. } = &store;
        let (begin, refused) = (Barrier::new(2), AtomicU64::new(0));
        thread::scope(|scope| {
            for own in ["1", "2"] {
                let (begin, refused) = (&begin, &refused);
                scope.spawn(move || {
                    let options = TxnOptions::new().isolation(Isolation::Serializable);
                    let mut tries = 0;
                    db.transact_with(options, |txn| {
                        tries += 1;
                        let mut sum = 0;
                        if by_scan {
                            let mut cursor = txn.scan(tree, ..)?;
                            while let Some((_, value)) = cursor.next()? {
                                sum += text(value).parse::<u64>().unwrap();
                            }
                        } else {
                            for key in ["1", "2"] {
                                sum += get(txn, tree, key).unwrap().parse::<u64>().unwrap();
                            }
                        }
                        if tries == 1 {
                            begin.wait();
                        }
                        // While the sum is above twenty-five, one of them may give all it has.
                        if sum > 25 { txn.put(tree, own.as_bytes(), b"0") } else { Ok(()) }
                    })
                    .unwrap();
                    refused.fetch_add(tries - 1, Ordering::Relaxed);
                });
            }
        });
        let left: u64 = store.rows().iter().map(|(_, value)| value.parse::<u64>().unwrap()).sum();
        assert!(left > 0, "one of the two must have seen the other");
        assert!(refused.load(Ordering::Relaxed) > 0, "they met, and one began again");
        store.is_idle();
    }
}

#[test]
fn a_scan_locks_no_further_than_it_was_read() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    for key in 3..9u8 {
        tree.put(&[b'0' + key], b"").unwrap();
    }
    let one = store.begin(Isolation::Serializable);
    let mut cursor = one.scan(tree, ..).unwrap();
    assert_eq!(text(cursor.next().unwrap().unwrap().0), "1");
    assert_eq!(text(cursor.next().unwrap().unwrap().0), "2");
    let quick = TxnOptions::new().lock_timeout(Some(Duration::from_millis(5)));
    let two = db.begin(quick).unwrap();
    assert!(two.put(tree, b"2", b"").is_err() && two.put(tree, b"0", b"").is_err());
    two.put(tree, b"3", b"").unwrap();
    two.put(tree, b"25", b"").unwrap();
    two.commit().unwrap();
    assert_eq!(text(cursor.next().unwrap().unwrap().0), "25");
    drop(cursor);
    drop(one);
    store.is_idle();
}

/// Scans at every level of a table into which others insert all the time: a repeated scan gives the
/// same rows, and the counter of rows is right.
#[test]
fn repeated_locking_scans_return_the_same_count() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    tree.put(b"count", b"2").unwrap();
    thread::scope(|scope| {
        for writer in 0..3u32 {
            scope.spawn(move || {
                for n in 0..60u32 {
                    let options = TxnOptions::new().isolation(Isolation::Serializable);
                    db.transact_with(options, |txn| {
                        let before = txn.get_for_update(tree, b"count")?.unwrap();
                        let rows = {
                            let mut cursor = txn.scan(tree, ..&b"count"[..])?;
                            let mut rows = 0u64;
                            while cursor.next()?.is_some() {
                                rows += 1;
                            }
                            rows
                        };
                        assert_eq!(text(&before), rows.to_string());
                        txn.insert(
                            tree,
                            format!("a{:03}", n * 7 % 60 * 3 + writer).as_bytes(),
                            b"",
                        )?;
                        txn.put(tree, b"count", (rows + 1).to_string().as_bytes())
                    })
                    .unwrap();
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..40 {
                let options = TxnOptions::new().isolation(Isolation::RepeatableRead);
                let rows = db.transact_with(options, |txn| {
                    let count = |txn: &Txn| -> frond::Result<usize> {
                        let range = ..&b"count"[..];
                        let mut cursor =
                            txn.scan_with(tree, range, &ReadOptions::new().lock(RowLock::Shared))?;
                        let mut rows = 0;
                        while cursor.next()?.is_some() {
                            rows += 1;
                        }
                        Ok(rows)
                    };
                    let first = count(txn)?;
                    assert_eq!(count(txn)?, first, "what was scanned stays");
                    Ok(first)
                });
                assert!((2..=182).contains(&rows.unwrap()));
            }
        });
    });
    assert_eq!(text(&tree.get(b"count").unwrap().unwrap()), "182");
    store.is_idle();
}

/// A row has its own lock: its holder continues although a scan waiting for it locked the gap.
#[test]
fn a_row_lock_holder_writes_its_row_within_a_locked_gap() {
    for isolation in GAPPED {
        let store = store(true);
        let Store { tree, .. } = &store;
        let one = store.begin(isolation);
        assert!(one.get_for_update(tree, b"2").unwrap().is_some());
        one.put(tree, b"15", b"").unwrap();
        thread::scope(|scope| {
            let scan = scope.spawn(|| {
                let two = store.begin(isolation);
                let mut cursor =
                    two.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
                keys(&mut cursor)
            });
            store.until_waiting(1);
            one.put(tree, b"2", b"21").unwrap();
            one.put(tree, b"15", b"again").unwrap();
            // After the pending key that the scan waits for, the gap is free.
            one.insert(tree, b"16", b"").unwrap();
            one.commit().unwrap();
            assert_eq!(scan.join().unwrap(), ["1", "15", "16", "2"]);
        });
        assert_eq!(store.db.lock_stats().deadlocks, 0);
        store.is_idle();
    }
}

/// Two workers that take and delete unlocked jobs: neither waits for the other.
#[test]
fn a_queue_read_with_skip_locked_has_no_deadlocks() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let store = store(true);
        let Store { db, tree, .. } = &store;
        for job in 0..200u32 {
            tree.put(format!("a{job:03}").as_bytes(), b"").unwrap();
        }
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let txn = store.begin(isolation);
                        let range = &b"a"[..]..;
                        let mut cursor = txn
                            .scan_with(
                                tree,
                                range,
                                &ReadOptions::new()
                                    .lock(RowLock::Exclusive)
                                    .if_locked(IfLocked::SkipLocked),
                            )
                            .unwrap();
                        let Some(key) = cursor.next().unwrap().map(|(key, _)| key.to_vec()) else {
                            break;
                        };
                        drop(cursor);
                        txn.delete(tree, &key).unwrap();
                        txn.commit().unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 200, "each once");
        assert_eq!((store.rows().len(), db.lock_stats().deadlocks), (2, 0));
        store.is_idle();
    }
}

/// A scan returns the transaction's own row before a committed one that another has locked.
#[test]
fn an_own_row_is_returned_before_a_row_locked_by_another() {
    for isolation in [Isolation::Snapshot, Isolation::RepeatableRead] {
        let store = store(false);
        let Store { tree, .. } = &store;
        let one = store.begin(isolation);
        assert!(one.get_for_update(tree, b"2").unwrap().is_some());
        let two = store.begin(isolation);
        two.put(tree, b"15", b"").unwrap();
        let mut cursor = two
            .scan_with(
                tree,
                ..,
                &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
            )
            .unwrap();
        assert_eq!(text(cursor.next().unwrap().unwrap().0), "1");
        assert_eq!(text(cursor.next().unwrap().unwrap().0), "15");
        assert!(matches!(cursor.next(), Err(Error::LockBusy { .. })));
        one.rollback();
        assert_eq!(text(cursor.next().unwrap().unwrap().0), "2");
        assert!(cursor.next().unwrap().is_none());
        let mut back = Vec::new();
        cursor.seek(b"9");
        while let Some((key, _)) = cursor.prev().unwrap() {
            back.push(text(key));
        }
        assert_eq!(back, ["2", "15", "1"]);
    }
}

/// A tree's row is deleted and inserted again in one memtable, and deleted in the next: an insert
/// above a delete is not one of an absent key. Both once cancelled out: the tree's row came back.
#[test]
fn a_reinserted_row_stays_deleted_after_a_second_delete() {
    let engine = DbEngine::tiny(Durability::Lazy);
    let options = Options::new().env(SimVfs::new().env(0)).cache_size(engine.cache_bytes);
    let db = Db::open("/store", options.tuning(engine.tuning)).unwrap();
    let unique = TreeOptions::new().unique(true);
    let [tree, other] = ["t", "other"].map(|name| db.create_tree(name, unique.clone()).unwrap());
    tree.put(b"row", b"old").unwrap();
    db.checkpoint().unwrap();
    db.transact(|txn| txn.delete(&tree, b"row")).unwrap();
    db.transact(|txn| txn.insert(&tree, b"row", b"new")).unwrap();
    // The memtable is full, and nothing applies it.
    let is_frozen = || db.stats().memtables_frozen > 0;
    for number in 0u32.. {
        if is_frozen() {
            break;
        }
        other.put(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    db.transact(|txn| txn.delete(&tree, b"row")).unwrap();
    assert_eq!(tree.get(b"row").unwrap(), None);
    assert!(tree.scan(..).unwrap().next().unwrap().is_none());
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(scanned(&txn, &tree), []);
}

/// Of columnar blocks and memtables, committed rows and own writes: parts are equal everywhere.
#[test]
fn projected_parts_are_the_same_from_every_source() {
    let dir = tempfile::tempdir().unwrap();
    let db =
        Db::open(dir.path().join("store"), Options::new().durability(Durability::Lazy)).unwrap();
    let value_layout = Layout::new(vec![
        Part::Fixed(4, Hint::Integer),
        Part::Var(End::Prefixed),
        Part::Fixed(2, Hint::Integer),
    ]);
    let (key_layout, value_layout) = (Some(Layout::default()), Some(value_layout));
    let tree = db
        .create_tree("t", TreeOptions::new().key_layout(key_layout).value_layout(value_layout))
        .unwrap();
    let value = |row: u32, text: &str| {
        let (length, row) = ([text.len() as u8], row.to_be_bytes());
        [&row[..], &length, text.as_bytes(), &row[2..]].concat()
    };
    for row in 0..400u32 {
        tree.put(&row.to_be_bytes(), &value(row, "committed")).unwrap();
    }
    db.checkpoint().unwrap();
    for row in (0..400u32).step_by(7) {
        tree.put(&row.to_be_bytes(), &value(row, "later")).unwrap();
    }
    let parts = tree.projection(&[2, 0]).unwrap();
    let cut = |value: &[u8]| [&value[..4], &value[value.len() - 2..]].concat();
    for isolation in [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Snapshot,
        Isolation::Serializable,
    ] {
        for writes in [false, true] {
            let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
            let early = txn.scan(&tree, ..).unwrap().project(&parts).unwrap();
            let whole = txn.scan(&tree, ..).unwrap();
            if writes {
                for row in (0..500u32).step_by(3) {
                    txn.put(&tree, &row.to_be_bytes(), &value(row + 1, "own")).unwrap();
                }
                txn.merge(&tree, &500u32.to_be_bytes(), operator::APPEND, &value(9, "operand"))
                    .unwrap();
            }
            let (now, all) = (txn.scan(&tree, ..).unwrap(), txn.scan(&tree, ..).unwrap());
            for (mut cursor, mut whole) in [(early, whole), (now.project(&parts).unwrap(), all)] {
                let mut rows = 0;
                while let Some((key, value)) = whole.next().unwrap() {
                    assert_eq!(cursor.next().unwrap(), Some((key, &cut(value)[..])));
                    rows += 1;
                }
                assert!(cursor.next().unwrap().is_none() && rows >= 400);
                cursor.seek(&7u32.to_be_bytes());
                whole.seek(&7u32.to_be_bytes());
                let (key, value) = whole.prev().unwrap().unwrap();
                assert_eq!(cursor.prev().unwrap(), Some((key, &cut(value)[..])));
            }
            let options = ReadOptions::new().projection(&parts);
            let (mut found, mut expected) = (RowRead::default(), Vec::new());
            for row in (0..510u32).step_by(5) {
                let key = row.to_be_bytes();
                found.read(&txn, &tree, &key, &options).unwrap();
                assert_eq!(found.exists, txn.get_into(&tree, &key, &mut expected).unwrap());
                assert_eq!(found.value, if found.exists { cut(&expected) } else { Vec::new() });
            }
            txn.put(&tree, b"misfit", b"x").unwrap();
            let misfit = found.read(&txn, &tree, b"misfit", &options).unwrap_err();
            assert!(misfit.kind() == ErrorKind::FixCall && found.value.is_empty(), "{misfit}");
            let mut cursor = txn.scan(&tree, &b"m"[..]..).unwrap().project(&parts).unwrap();
            for _ in 0..2 {
                assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::FixCall, "each time");
            }
            cursor.seek(b"n");
            assert_eq!(cursor.next().unwrap(), None);
            drop(cursor);
            txn.rollback();
        }
    }
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get_with(&other, b"1", &ReadOptions::new().projection(&parts)).is_err());
    assert!(txn.scan(&other, ..).unwrap().project(&parts).is_err());
}

/// A row that a snapshot shows and another has deleted conflicts with a locking scan, as a changed
/// row does, in both directions and whatever rows of its own are there.
#[test]
fn a_locking_snapshot_scan_conflicts_with_deleted_rows() {
    for is_flushed in [false, true] {
        for forward in [true, false] {
            for (end, own, conflicts) in [
                ("9", None, true),
                ("9", Some("17"), true),
                ("9", Some("3"), true),
                ("2", None, false),
            ] {
                let store = store(is_flushed);
                let Store { db, tree, .. } = &store;
                let one = store.begin(Isolation::Snapshot);
                assert_eq!(get(&one, tree, "1").as_deref(), Some("10"));
                // Inserted and deleted again: no snapshot shows it.
                tree.put(b"15", b"").unwrap();
                tree.delete(b"15").unwrap();
                tree.delete(b"2").unwrap();
                if is_flushed {
                    db.checkpoint().unwrap();
                }
                own.map_or(Ok(()), |own: &str| one.put(tree, own.as_bytes(), b"own")).unwrap();
                let range = &b"1"[..]..end.as_bytes();
                let mut cursor = one
                    .scan_with(
                        tree,
                        range,
                        &ReadOptions::new()
                            .lock(RowLock::Exclusive)
                            .if_locked(IfLocked::SkipLocked),
                    )
                    .unwrap();
                if !forward {
                    cursor.seek_last();
                }
                let scanned = loop {
                    let found = if forward { cursor.next() } else { cursor.prev() };
                    match found.map(|row| row.is_some()) {
                        Ok(true) => {}
                        Ok(false) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                match conflicts {
                    true => assert!(matches!(scanned, Err(Error::Conflict { .. })), "{scanned:?}"),
                    false => scanned.unwrap(),
                }
                drop(cursor);
                assert_eq!(one.is_over(), conflicts, "{end}, {own:?}");
                drop(one);
                store.is_idle();
            }
        }
    }
}

/// At READ COMMITTED all plain reads of a statement see one snapshot; a locking read sees the
/// newest, and without statements each call takes a new snapshot.
#[test]
fn reads_of_a_statement_see_one_snapshot() {
    for is_flushed in [false, true] {
        let store = store(is_flushed);
        let Store { db, tree, .. } = &store;
        let one = store.begin(Isolation::ReadCommitted);
        let set = |value: &[u8]| {
            tree.put(b"1", value).unwrap();
            if is_flushed {
                db.checkpoint().unwrap();
            }
        };
        let seen = |one: &Txn| {
            let many = one.get_many(tree, &[b"1"]).unwrap().remove(0).map(|value| text(&value));
            assert_eq!(many, get(one, tree, "1"));
            assert_eq!(many, scanned(one, tree).first().map(|(_, value)| value.clone()));
            many.unwrap()
        };
        assert_eq!(seen(&one), "10");
        set(b"11");
        assert_eq!(seen(&one), "11", "there is no statement yet");
        one.statement().begin().unwrap();
        set(b"12");
        assert_eq!(seen(&one), "12", "its first read");
        set(b"13");
        assert_eq!(seen(&one), "12");
        assert_eq!(
            one.get_with(tree, b"2", &ReadOptions::new().lock(RowLock::Shared))
                .map(|row| row.into_value())
                .unwrap()
                .unwrap(),
            b"20"
        );
        assert_eq!(one.get_for_update(tree, b"1").unwrap().unwrap(), b"13");
        assert_eq!(seen(&one), "12");
        one.statement().rollback().unwrap();
        assert_eq!(seen(&one), "13");
        one.put(tree, b"1", b"own").unwrap();
        assert_eq!(get(&one, tree, "1").unwrap(), "own", "over the snapshot");
        one.statement().begin().unwrap();
        assert_eq!(seen(&one), "own");
        one.commit().unwrap();
        store.is_idle();
    }
}

/// A scan returns a restored row that it had skipped ahead of its position (Rule: I45).
#[test]
fn an_open_scan_returns_rows_restored_by_a_savepoint() {
    for isolation in LEVELS {
        for (forward, locks) in [(true, false), (false, false), (true, true), (false, true)] {
            let store = store(true);
            let txn = store.begin(isolation);
            for key in ["11", "12", "13", "14", "15"] {
                txn.put(&store.tree, key.as_bytes(), b"own").unwrap();
            }
            let mut cursor = match locks {
                true => txn
                    .scan_with(&store.tree, .., &ReadOptions::new().lock(RowLock::Shared))
                    .unwrap(),
                false => txn.scan(&store.tree, ..).unwrap(),
            };
            if !forward {
                cursor.seek_last();
            }
            let mut step = || {
                let row = if forward { cursor.next() } else { cursor.prev() };
                row.unwrap().map(|(key, _)| text(key))
            };
            let mut expected = ["1", "11", "12", "13", "14", "15", "2"];
            if !forward {
                expected.reverse();
            }
            assert_eq!(step().as_deref(), Some(expected[0]));
            let savepoint = txn.savepoint().unwrap();
            for key in ["12", "13", "14"] {
                txn.delete(&store.tree, key.as_bytes()).unwrap();
            }
            assert_eq!(step().as_deref(), Some(expected[1]));
            txn.rollback_to(&savepoint).unwrap();
            for key in &expected[2..] {
                assert_eq!(step().as_deref(), Some(*key), "{isolation:?} {forward} {locks}");
            }
            assert_eq!(step(), None);
        }
    }
}
