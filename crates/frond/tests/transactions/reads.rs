//! Reads with all their options: what they see, what they lock, how they treat others' locks, and
//! what they unlock.

use frond::{
    IndexSpec, ReadOptions, TableSpec,
    layout::{End, Hint, Layout, Part},
    transaction::{RowRead, Sees},
};

use super::*;

const ALL: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];
const ALONE: Option<RowLock> = Some(RowLock::Exclusive);

/// Options that lock, and read the last committed row where another transaction has it locked.
fn semi() -> ReadOptions<'static> {
    ReadOptions::new().lock(ALONE).if_locked(IfLocked::SemiConsistent)
}

/// Options with a timeout of zero: a lock that is not free at once is an error.
fn at_once() -> ReadOptions<'static> {
    ReadOptions::new().lock(ALONE).wait(Some(Duration::ZERO))
}

/// A session whose calls would wait forever.
fn patient(store: &Store, isolation: Isolation) -> Txn {
    store.db.begin(TxnOptions::new().isolation(isolation).lock_timeout(None)).unwrap()
}

fn row(value: &str, locked: bool) -> RowRead {
    RowRead { exists: true, locked, value: value.into() }
}

/// Whether a transaction has locked the row.
fn is_locked(store: &Store, key: &str) -> bool {
    let other = store.begin(Isolation::ReadCommitted);
    let met = other
        .get_with(
            &store.tree,
            key.as_bytes(),
            &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
        )
        .map(|row| row.into_value());
    match met {
        Ok(_) => false,
        Err(Error::LockBusy { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn locked_of<const N: usize>(store: &Store, keys: [&str; N]) -> [bool; N] {
    keys.map(|key| is_locked(store, key))
}

/// The rows that a cursor returns, with the key, the value, and whether each is locked.
fn given(cursor: &mut TxnCursor<'_>, forward: bool) -> Vec<(String, String, bool)> {
    let mut rows = Vec::new();
    loop {
        let row = if forward { cursor.next() } else { cursor.prev() };
        let Some((key, value)) = row.unwrap() else { return rows };
        let (key, value) = (text(key), text(value));
        rows.push((key, value, cursor.is_locked()));
    }
}

/// A read that skips locked rows does not report all rows as missing when another transaction has
/// locked the whole tree.
#[test]
fn a_skipping_read_waits_for_an_exclusive_tree_lock() {
    let store = store(false);
    let one = store.begin(Isolation::ReadCommitted);
    one.lock_tree(&store.tree, TreeLock::Exclusive, IfLocked::Wait).unwrap();
    let two = store.begin(Isolation::ReadCommitted);
    let skips = at_once().if_locked(IfLocked::SkipLocked);
    let met = two.get_many_with(&store.tree, &[b"1", b"2"], &skips);
    assert!(matches!(met, Err(Error::LockTimeout { .. })), "{met:?}");
    one.rollback();
    let met = two.get_many_with(&store.tree, &[b"1", b"2"], &skips).unwrap();
    assert_eq!(met, [row("10", true), row("20", true)]);
    two.rollback();
}

/// A row that another transaction has locked is read as last committed. Rule: I46.
#[test]
fn a_row_locked_by_another_is_read_as_last_committed() {
    for isolation in ALL {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let tree = &store.tree;
            let one = store.begin(isolation);
            one.put(tree, b"1", b"11").unwrap();
            one.insert(tree, b"3", b"30").unwrap();
            let two = patient(&store, isolation);
            let look = |key: &[u8]| two.get_with(tree, key, &semi().wait(Some(Duration::ZERO)));
            assert_eq!(look(b"2").unwrap(), row("20", true));
            if isolation == Isolation::Serializable {
                // What it decides by must be locked.
                assert!(matches!(look(b"1"), Err(Error::LockTimeout { .. })));
            } else {
                assert_eq!(look(b"1").unwrap(), row("10", false));
                assert_eq!(look(b"3").unwrap(), RowRead::default());
            }
            // A call without a way to report that waits.
            let short = TxnOptions::new().lock_timeout(Some(Duration::ZERO));
            let short = store.db.begin(short.isolation(isolation)).unwrap();
            let met = short.get_for_update(tree, b"1");
            assert!(matches!(met, Err(Error::LockTimeout { .. })));
            short.rollback();
            one.commit().unwrap();
            assert_eq!(look(b"1").unwrap(), row("11", true));
            two.rollback();
            store.is_idle();
        }
    }
}

#[test]
fn scans_report_unlocked_rows_and_lock_them_on_request() {
    for isolation in ALL {
        for (is_flushed, forward) in [(false, true), (false, false), (true, true), (true, false)] {
            let store = store(is_flushed);
            let tree = &store.tree;
            tree.put(b"3", b"30").unwrap();
            let one = store.begin(isolation);
            one.put(tree, b"2", b"21").unwrap();
            one.insert(tree, b"25", b"x").unwrap();
            let two = patient(&store, isolation);
            let options = semi().wait(Some(Duration::ZERO));
            let mut cursor = two.scan_with(tree, .., &options).unwrap();
            if !forward {
                cursor.seek_last();
            }
            if isolation == Isolation::Serializable {
                let step = |cursor: &mut TxnCursor<'_>| {
                    let row = if forward { cursor.next() } else { cursor.prev() };
                    row.map(|row| row.map(|(key, _)| text(key)))
                };
                let first = if forward { "1" } else { "3" };
                // Backwards, the key that does not exist yet comes first.
                let met = step(&mut cursor);
                assert!(met.is_err() || met.unwrap().as_deref() == Some(first));
                assert!(matches!(step(&mut cursor), Err(Error::LockTimeout { .. })));
                drop(cursor);
                two.rollback();
                one.rollback();
                continue;
            }
            let mut expected = [("1", "10", true), ("2", "20", false), ("3", "30", true)];
            if !forward {
                expected.reverse();
            }
            let expected: Vec<_> =
                expected.iter().map(|(k, v, is)| (k.to_string(), v.to_string(), *is)).collect();
            assert_eq!(given(&mut cursor, forward), expected, "{isolation:?}");
            // It locks the rows that it wants, in their current form.
            if forward {
                cursor.seek(b"2")
            } else {
                cursor.seek(b"21")
            }
            let stands = if forward { cursor.next() } else { cursor.prev() };
            assert_eq!(stands.unwrap().unwrap().0, b"2");
            assert!(matches!(cursor.relock(None), Err(Error::LockTimeout { .. })), "the scan's");
            assert!(!cursor.is_locked());
            one.commit().unwrap();
            let locked = cursor.relock(None).unwrap().map(|(key, value)| (text(key), text(value)));
            assert_eq!(locked, Some(("2".into(), "21".into())));
            assert!(cursor.is_locked() && is_locked(&store, "2"));
            two.control().unlock_last().unwrap();
            assert!(!is_locked(&store, "2"));
            let next = if forward { cursor.next() } else { cursor.prev() };
            let next = next.unwrap().map(|(key, _)| text(key));
            let beside = if forward { "25" } else { "1" };
            assert_eq!(next.as_deref(), Some(beside), "it stays where it is");
            drop(cursor);
            two.rollback();
            store.is_idle();
        }
    }
}

#[test]
fn a_row_deleted_during_the_lock_wait_is_not_returned() {
    let store = store(true);
    let tree = &store.tree;
    let one = store.begin(Isolation::ReadCommitted);
    one.delete(tree, b"2").unwrap();
    let two = patient(&store, Isolation::ReadCommitted);
    let mut cursor = two.scan_with(tree, &b"2"[..].., &semi()).unwrap();
    assert!(matches!(cursor.relock(None), Err(Error::InvalidArgument(_))), "it stands on no row");
    assert_eq!(cursor.next().unwrap(), Some((&b"2"[..], &b"20"[..])));
    // It waits as long as the call says, whatever its transaction's timeout is.
    assert!(matches!(cursor.relock(Some(Duration::ZERO)), Err(Error::LockTimeout { .. })));
    thread::scope(|scope| {
        let waits = scope.spawn(|| cursor.relock(None).unwrap().is_none());
        store.until_waiting(1);
        one.commit().unwrap();
        assert!(waits.join().unwrap(), "the row has gone");
    });
    assert!(is_locked(&store, "2"), "it is not created again");
    drop(cursor);
    let mut plain = two.scan(tree, ..).unwrap();
    plain.next().unwrap();
    assert!(matches!(plain.relock(None), Err(Error::InvalidArgument(_))), "it locks nothing");
    drop(plain);
    two.rollback();
    // A snapshot does not show the newest row: locking it is a conflict.
    let one = store.begin(Isolation::Snapshot);
    one.put(tree, b"1", b"11").unwrap();
    let two = patient(&store, Isolation::Snapshot);
    assert_eq!(get(&two, tree, "1").as_deref(), Some("10"));
    let mut cursor = two.scan_with(tree, .., &semi()).unwrap();
    assert_eq!(cursor.next().unwrap(), Some((&b"1"[..], &b"10"[..])));
    one.commit().unwrap();
    assert!(matches!(cursor.relock(None), Err(Error::Conflict { .. })));
    drop(cursor);
    assert!(two.is_over());
    store.is_idle();
}

#[test]
fn a_call_waits_up_to_its_own_timeout() {
    for isolation in ALL {
        let store = store(false);
        let tree = &store.tree;
        let one = store.begin(isolation);
        one.put(tree, b"1", b"11").unwrap();
        let two = patient(&store, isolation);
        assert!(matches!(two.get_with(tree, b"1", &at_once()), Err(Error::LockTimeout { .. })));
        let many = two.get_many_with(tree, &[b"2", b"1"], &at_once());
        assert!(matches!(many, Err(Error::LockTimeout { .. })));
        let mut cursor = two.scan_with(tree, .., &at_once()).unwrap();
        assert!(matches!(cursor.next(), Err(Error::LockTimeout { .. })));
        drop(cursor);
        // A call of a transaction that would not wait waits for as long as the call says.
        let hasty = TxnOptions::new().lock_timeout(Some(Duration::ZERO));
        let hasty = store.db.begin(hasty.isolation(isolation)).unwrap();
        let endless = at_once().wait(Some(Duration::MAX));
        thread::scope(|scope| {
            let waits = scope.spawn(|| hasty.get_with(tree, b"1", &endless).unwrap());
            store.until_waiting(1);
            one.commit().unwrap();
            assert_eq!(waits.join().unwrap(), row("11", true));
        });
        two.rollback();
        hasty.rollback();
        store.is_idle();
    }
}

#[test]
fn the_newest_value_is_readable_without_a_lock_despite_a_snapshot() {
    for isolation in ALL {
        let store = store(true);
        let tree = &store.tree;
        let reader = store.begin(isolation);
        reader.statement().begin().unwrap();
        let before = get(&reader, tree, "2");
        assert_eq!(before.as_deref(), Some("20"));
        // At `Serializable` this has locked it.
        tree.put(b"1", b"11").unwrap();
        reader.put(tree, b"4", b"own").unwrap();
        let newest = ReadOptions::new().sees(Sees::Newest);
        let locks = isolation == Isolation::Serializable;
        let read = |key: &[u8]| reader.get_with(tree, key, &newest).unwrap();
        assert_eq!(read(b"1"), row("11", locks));
        assert_eq!(read(b"4"), row("own", locks));
        let as_level = if locks { "11" } else { "10" };
        assert_eq!(reader.get_with(tree, b"1", &Default::default()).unwrap(), row(as_level, locks));
        let keys = [&b"4"[..], b"1", b"x"];
        let many = reader.get_many_with(tree, &keys, &newest).unwrap();
        let none = RowRead { locked: locks, ..Default::default() };
        assert_eq!(many, [row("own", locks), row("11", locks), none]);
        let mut cursor = reader.scan_with(tree, .., &newest).unwrap();
        // Scans of a statement do not return the statement's own writes.
        let expected = [("1", "11"), ("2", "20")];
        let expected = expected.map(|(key, value)| (key.to_string(), value.to_string(), locks));
        assert_eq!(given(&mut cursor, true), expected);
        drop(cursor);
        assert_eq!(is_locked(&store, "1"), locks);
        reader.rollback();
        store.is_idle();
    }
}

#[test]
fn many_rows_are_locked_in_one_call() {
    for isolation in ALL {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let tree = &store.tree;
            let txn = store.begin(isolation);
            let keys = [&b"9"[..], b"2", b"1", b"2"];
            let found = txn.get_many_with(tree, &keys, &at_once()).unwrap();
            let none = RowRead { locked: true, ..Default::default() };
            assert_eq!(found, [none, row("20", true), row("10", true), row("20", true)]);
            assert_eq!(locked_of(&store, ["1", "2", "9", "3"]), [true, true, true, false]);
            txn.control().unlock_last().unwrap();
            assert_eq!(locked_of(&store, ["1", "2", "9"]), [false; 3], "all of the call");
            // What was locked before stays locked.
            txn.get_for_update(tree, b"2").unwrap();
            txn.get_many_with(tree, &keys, &at_once()).unwrap();
            txn.control().unlock_last().unwrap();
            assert_eq!(locked_of(&store, ["1", "2", "9"]), [false, true, false]);
            txn.rollback();
            store.is_idle();
        }
    }
}

#[test]
fn a_read_of_many_rows_handles_rows_locked_by_others() {
    for isolation in ALL {
        let store = store(true);
        let tree = &store.tree;
        let one = store.begin(isolation);
        one.put(tree, b"2", b"21").unwrap();
        let two = patient(&store, isolation);
        let keys = [&b"3"[..], b"2", b"1"];
        let read = |if_locked| {
            let options = at_once().if_locked(if_locked);
            two.get_many_with(tree, &keys, &options)
        };
        two.get_with(tree, b"0", &ReadOptions::new().lock(RowLock::Shared))
            .map(|row| row.into_value())
            .unwrap();
        assert!(matches!(read(IfLocked::Wait), Err(Error::LockTimeout { .. })));
        assert!(matches!(read(IfLocked::NoWait), Err(Error::LockBusy { .. })));
        assert_eq!(locked_of(&store, ["0", "1", "3"]), [true, false, false], "nothing is kept");
        let three = RowRead { locked: true, ..Default::default() };
        let skipped = read(IfLocked::SkipLocked).unwrap();
        assert_eq!(skipped, [three.clone(), RowRead::default(), row("10", true)]);
        two.control().unlock_last().unwrap();
        if isolation != Isolation::Serializable {
            let seen = read(IfLocked::SemiConsistent).unwrap();
            assert_eq!(seen, [three, row("20", false), row("10", true)]);
        }
        one.rollback();
        two.rollback();
        store.is_idle();
    }
}

/// Rows are locked in key order, whatever the order of the keys in the call: two calls for the same
/// rows cause no deadlock.
#[test]
fn rows_are_locked_in_key_order_so_opposite_orders_do_not_deadlock() {
    let store = store(false);
    let (tree, rounds) = (&store.tree, 200);
    thread::scope(|scope| {
        for keys in [[&b"1"[..], b"2"], [b"2", b"1"]] {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..rounds {
                    let txn = patient(store, Isolation::ReadCommitted);
                    let options = at_once().wait(None);
                    assert!(
                        txn.get_many_with(tree, &keys, &options)
                            .unwrap()
                            .iter()
                            .all(|row| row.locked)
                    );
                    txn.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(store.db.lock_stats().deadlocks, 0);
    store.is_idle();
}

#[test]
fn the_last_row_of_a_cursor_can_be_unlocked() {
    for isolation in ALL {
        for forward in [true, false] {
            let store = store(true);
            let tree = &store.tree;
            tree.put(b"4", b"40").unwrap();
            let txn = store.begin(isolation);
            // Own rows are between others' rows, and after them.
            txn.put(tree, b"15", b"own").unwrap();
            txn.put(tree, if forward { b"5" } else { b"0" }, b"own").unwrap();
            let mut cursor =
                txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
            if !forward {
                cursor.seek_last();
            }
            let mut wanted = true;
            let mut kept = Vec::new();
            loop {
                let row = if forward { cursor.next() } else { cursor.prev() };
                let Some(key) = row.unwrap().map(|(key, _)| text(key)) else { break };
                wanted = !wanted;
                let is_own = key == "15" || key == "5" || key == "0";
                if wanted || is_own {
                    kept.push(key.clone());
                }
                if !wanted {
                    txn.control().unlock_last().unwrap();
                }
                let is_kept = wanted || is_own;
                assert_eq!(is_locked(&store, &key), is_kept, "{isolation:?} {forward} {key}");
            }
            // At the end the cursor is on no row.
            txn.control().unlock_last().unwrap();
            assert!(kept.len() > 2);
            assert!(kept.iter().all(|key| is_locked(&store, key)), "{isolation:?} {kept:?}");
            drop(cursor);
            txn.rollback();
            store.is_idle();
        }
    }
}

/// At `ReadCommitted` a row that a scan has waited for in vain is unlocked; where gaps are locked
/// it stays locked. Rule: I46.
#[test]
fn rows_deleted_while_a_scan_waited_are_unlocked_at_read_committed() {
    for (isolation, is_kept) in
        [(Isolation::ReadCommitted, false), (Isolation::RepeatableRead, true)]
    {
        let store = store(true);
        let tree = &store.tree;
        let one = store.begin(isolation);
        one.delete(tree, b"1").unwrap();
        let two = patient(&store, isolation);
        let mut cursor =
            two.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| text(cursor.next().unwrap().unwrap().0));
            store.until_waiting(1);
            one.commit().unwrap();
            assert_eq!(waits.join().unwrap(), "2");
        });
        assert_eq!(locked_of(&store, ["1", "2"]), [is_kept, true]);
        drop(cursor);
        two.rollback();
        store.is_idle();
    }
}

#[test]
fn an_index_entry_and_its_row_are_unlocked_together() {
    for isolation in ALL {
        let store = store(false);
        let index = store.db.create_tree("by value", TreeOptions::default()).unwrap();
        index.put(b"10", b"1").unwrap();
        index.put(b"20", b"2").unwrap();
        let txn = store.begin(isolation);
        let mut cursor =
            txn.scan_with(&index, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
        let with_last = at_once().with_last(true);
        let is_free = |key: &[u8]| {
            let other = store.begin(Isolation::ReadCommitted);
            other
                .get_with(
                    &index,
                    key,
                    &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
                )
                .map(|row| row.into_value())
                .is_ok()
        };
        let entry = cursor.next().unwrap().map(|(_, key)| key.to_vec()).unwrap();
        assert_eq!(txn.get_with(&store.tree, &entry, &with_last).unwrap(), row("10", true));
        assert!(!is_free(b"10") && is_locked(&store, "1"));
        txn.control().unlock_last().unwrap();
        assert!(is_free(b"10") && !is_locked(&store, "1"));
        // If others have locked the row, the entry is still the last lock.
        let other = store.begin(Isolation::ReadCommitted);
        other.get_for_update(&store.tree, b"2").unwrap();
        let entry = cursor.next().unwrap().map(|(_, key)| key.to_vec()).unwrap();
        assert!(txn.get_with(&store.tree, &entry, &with_last).is_err());
        assert!(!is_free(b"20"));
        txn.control().unlock_last().unwrap();
        assert!(is_free(b"20"));
        drop(cursor);
        other.rollback();
        txn.rollback();
        store.is_idle();
    }
}

#[test]
fn a_table_unlocks_a_row_found_through_an_index() {
    let store = store(false);
    let first = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.push(row[0]);
        Ok(true)
    };
    let spec = TableSpec::new("rows").index(IndexSpec::new("first", first).unique());
    let table = store.db.table(spec).unwrap();
    let txn = store.begin(Isolation::ReadCommitted);
    table.insert(&txn, b"a", b"1").unwrap();
    table.insert(&txn, b"b", b"2").unwrap();
    txn.commit().unwrap();
    let index = table.index("first").unwrap();
    let locks = || store.db.lock_stats().locks;
    let txn = store.begin(Isolation::ReadCommitted);
    assert!(index.get_for_update(&txn, b"1").unwrap().is_some());
    assert_eq!(locks(), 2);
    txn.control().unlock_last().unwrap();
    assert_eq!(locks(), 0);
    // A scan that skips a row skips its entry.
    let other = store.begin(Isolation::ReadCommitted);
    table.get_for_update(&other, b"a").unwrap();
    let mut scan = index
        .scan_with(&txn, .., &ReadOptions::new().lock(ALONE).if_locked(IfLocked::SkipLocked))
        .unwrap();
    assert_eq!(scan.next().unwrap().map(|found| found.key.to_vec()), Some(b"b".to_vec()));
    assert_eq!(locks(), 3);
    txn.control().unlock_last().unwrap();
    assert_eq!(locks(), 1);
    drop(scan);
    // A row that cannot be read without a lock is waited for.
    let short = TxnOptions::new().lock_timeout(Some(Duration::ZERO));
    let short = store.db.begin(short).unwrap();
    let mut scan = index
        .scan_with(
            &short,
            ..,
            &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::SemiConsistent),
        )
        .unwrap();
    assert!(matches!(scan.next(), Err(Error::LockTimeout { .. })));
    drop(scan);
    txn.rollback();
    other.rollback();
    short.rollback();
}

#[test]
fn projections_work_for_locked_and_unlocked_rows() {
    for is_flushed in [false, true] {
        let store = store(false);
        let layout = Layout::new(vec![Part::Fixed(1, Hint::None), Part::Var(End::Rest)]);
        let options = TreeOptions::new().value_layout(layout);
        let tree = store.db.create_tree("parts", options).unwrap();
        tree.put(b"1", b"abc").unwrap();
        tree.put(b"2", b"def").unwrap();
        if is_flushed {
            store.db.checkpoint().unwrap();
        }
        let parts = tree.projection(&[1]).unwrap();
        let one = store.begin(Isolation::ReadCommitted);
        one.put(&tree, b"1", b"xyz").unwrap();
        let two = store.begin(Isolation::ReadCommitted);
        let plain = ReadOptions::new().projection(&parts);
        let semi = semi().projection(&parts);
        for options in [plain, plain.sees(Sees::Newest), semi] {
            let locks = options.lock.is_some();
            assert_eq!(two.get_with(&tree, b"1", &options).unwrap(), row("bc", false));
            assert_eq!(two.get_with(&tree, b"2", &options).unwrap(), row("ef", locks));
            let many = two.get_many_with(&tree, &[b"2", b"1"], &options).unwrap();
            assert_eq!(many, [row("ef", locks), row("bc", false)]);
            let mut cursor = two.scan_with(&tree, .., &options).unwrap();
            let expected = [("1", "bc", false), ("2", "ef", locks)];
            let expected = expected.map(|(k, v, is)| (k.to_string(), v.to_string(), is));
            assert_eq!(given(&mut cursor, true), expected);
        }
        let mut cursor = two.scan_with(&tree, .., &semi).unwrap();
        assert_eq!(cursor.next().unwrap(), Some((&b"1"[..], &b"bc"[..])));
        one.commit().unwrap();
        assert_eq!(cursor.relock(None).unwrap(), Some((&b"1"[..], &b"yz"[..])));
        drop(cursor);
        let own = at_once().projection(&parts);
        assert_eq!(two.get_with(&tree, b"1", &own).unwrap(), row("yz", true));
        two.put(&tree, b"2", b"short").unwrap();
        assert_eq!(two.get_with(&tree, b"2", &plain).unwrap(), row("hort", false));
        // Parts of another tree are refused for this one.
        assert!(two.get_with(&store.tree, b"1", &plain).is_err());
        assert!(two.get_many_with(&store.tree, &[b"1"], &plain).is_err());
        assert!(two.scan_with(&store.tree, .., &plain).is_err());
        two.rollback();
    }
}

/// A failed call unlocks what it has locked, but not what was locked before.
#[test]
fn a_row_without_the_projected_parts_is_not_kept_locked() {
    let store = store(false);
    let layout = Layout::new(vec![Part::Fixed(1, Hint::None), Part::Var(End::Rest)]);
    let options = TreeOptions::new().value_layout(layout);
    let tree = store.db.create_tree("parts", options).unwrap();
    tree.put(b"1", b"abc").unwrap();
    tree.put(b"empty", b"").unwrap();
    let parts = tree.projection(&[1]).unwrap();
    let locks = || store.db.lock_stats().locks;
    for isolation in ALL {
        for with_last in [false, true] {
            let options = at_once().projection(&parts).with_last(with_last);
            let txn = store.begin(isolation);
            let misfit = |txn: &Txn| {
                let read = txn.get_with(&tree, b"empty", &options);
                assert!(matches!(read, Err(Error::InvalidArgument(_))), "{read:?}");
            };
            misfit(&txn);
            assert_eq!(locks(), 0, "{isolation:?}");
            assert_eq!(txn.get_with(&tree, b"1", &options).unwrap(), row("bc", true));
            misfit(&txn);
            assert_eq!(locks(), 1, "{isolation:?}");
            txn.get_for_update(&tree, b"empty").unwrap();
            misfit(&txn);
            assert_eq!(locks(), 2, "{isolation:?}: that was locked before");
            txn.rollback();
        }
    }
    store.is_idle();
}
