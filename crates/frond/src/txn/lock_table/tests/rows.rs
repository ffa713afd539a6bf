//! Rows: modes, queues, upgrades, releases.

use std::ops::Bound;

use super::*;
use RowMode::{Exclusive, Shared, Write};
use WaitPolicy::NoWait;

#[test]
fn shared_locks_are_compatible_and_exclusive_ones_conflict() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    for (first, second, fits) in [
        (Shared, Shared, true),
        (Shared, Exclusive, false),
        (Exclusive, Shared, false),
        (Exclusive, Exclusive, false),
        (Write, Shared, false),
    ] {
        assert_eq!(table.lock_row(&mut a, TREE, b"k", first, NoWait), Ok(Taken::New));
        let second = table.lock_row(&mut b, TREE, b"k", second, NoWait);
        assert_eq!(second.is_ok(), fits);
        if let Err(denied) = second {
            assert_eq!(
                (denied.reason, denied.holder.map(|holder| holder.id)),
                (Reason::Busy, Some(1))
            );
        }
        table.release_all(&mut b);
        table.release_all(&mut a);
    }
    assert_empty(&table);
}

/// Rule: I32. Short keys of trees with adjacent numbers: a hash seeded with the tree would confuse
/// them.
#[test]
fn short_keys_of_many_trees_are_distinct_locks() {
    let table = table();
    let mut one = table.begin(1);
    for tree in 0..12 {
        for letter in 'a'..='z' {
            for number in 0..20 {
                let key = format!("{letter}{number:04}");
                let taken = table.lock_row(&mut one, TreeId(tree), key.as_bytes(), Write, NoWait);
                assert_eq!(taken, Ok(Taken::New), "tree {tree}, key {key}");
            }
        }
    }
    table.release_all(&mut one);
    assert_empty(&table);
}

#[test]
fn a_lock_is_identified_by_tree_and_key() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut b, OTHER, b"k", Exclusive, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut b, TREE, b"", Exclusive, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut b, TREE, b"kk", Exclusive, NoWait), Ok(Taken::New));
    assert_eq!(reason(table.lock_row(&mut b, TREE, b"k", Shared, NoWait)), Reason::Busy);
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert_empty(&table);
}

#[test]
fn a_holder_reacquires_its_lock_at_no_cost() {
    let table = table();
    let mut a = table.begin(1);
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Shared, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Shared, NoWait), Ok(Taken::AlreadyHeld));
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Write, NoWait), Ok(Taken::Upgraded));
    for mode in [Shared, Exclusive, Write] {
        assert_eq!(table.lock_row(&mut a, TREE, b"k", mode, NoWait), Ok(Taken::AlreadyHeld));
    }
    assert_eq!(a.len(), 1);
    table.release_all(&mut a);
    assert_empty(&table);
}

/// Rule: I46.
#[test]
pub(super) fn unlock_last_releases_only_what_the_last_call_acquired() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    let take = |locks: &mut LockSet, mode| table.lock_row(locks, TREE, b"k", mode, NoWait);
    // New: it is released, once.
    assert_eq!(take(&mut a, Exclusive), Ok(Taken::New));
    table.unlock_last(&mut a);
    table.unlock_last(&mut a);
    assert_eq!(take(&mut b, Exclusive), Ok(Taken::New));
    table.release_all(&mut b);
    // Upgraded: the former mode stays.
    assert_eq!(take(&mut a, Shared), Ok(Taken::New));
    assert_eq!(take(&mut a, Exclusive), Ok(Taken::Upgraded));
    table.unlock_last(&mut a);
    assert_eq!(reason(take(&mut b, Exclusive)), Reason::Busy);
    assert_eq!(take(&mut b, Shared), Ok(Taken::New));
    table.release_all(&mut b);
    // Already held: everything stays. Refused: nothing is released, either.
    assert_eq!(take(&mut a, Exclusive), Ok(Taken::Upgraded));
    assert_eq!(take(&mut a, Shared), Ok(Taken::AlreadyHeld));
    table.unlock_last(&mut a);
    assert_eq!(reason(take(&mut b, Shared)), Reason::Busy);
    table.unlock_last(&mut b);
    // After a lock on a tree, too.
    assert_eq!(table.lock_row(&mut b, TREE, b"l", Shared, NoWait), Ok(Taken::New));
    table.lock_table(&mut b, OTHER, TableMode::Exclusive, NoWait).unwrap();
    table.unlock_last(&mut b);
    assert_eq!(table.lock_row(&mut a, TREE, b"l", Exclusive, NoWait), Ok(Taken::New));
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert_empty(&table);
}

/// Rule: I3: waiting requests are granted in the order of arrival, and none overtakes.
#[test]
pub(super) fn a_release_grants_requests_in_arrival_order() {
    let table = table();
    let mut holder = table.begin(0);
    table.lock_row(&mut holder, TREE, b"k", Exclusive, NoWait).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for (id, mode) in [(1, Shared), (2, Shared), (3, Exclusive), (4, Shared)] {
        let (table, order) = (table.clone(), order.clone());
        let shared = table.clone();
        threads.push(thread::spawn(move || {
            let mut locks = table.begin(id);
            table.lock_row(&mut locks, TREE, b"k", mode, WaitPolicy::Forever).unwrap();
            order.lock().unwrap().push(id);
            // Requests that are granted together may arrive in either order.
            let granted_too = |id: u64| id == 1 || id == 2;
            while granted_too(id) && order.lock().unwrap().len() < 2 {
                thread::yield_now();
            }
            table.release_all(&mut locks);
        }));
        until_waiting(&shared, id as usize);
    }
    let waits = table.waits();
    let last = waits.iter().find(|wait| wait.waiter == 4).unwrap();
    assert_eq!(last.holders, [0, 3], "behind the exclusive one");
    table.release_all(&mut holder);
    if !plant!("locks: a release wakes no waiter") {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        assert_eq!(table.waits().len(), 0, "a waiter was forgotten");
    }
    let mut order = order.lock().unwrap().clone();
    order[..2].sort_unstable();
    assert_eq!(order, [1, 2, 3, 4]);
    assert_empty(&table);
}

#[test]
fn a_new_request_never_overtakes_a_waiter() {
    let table = table();
    let (mut a, mut c) = (table.begin(1), table.begin(3));
    table.lock_row(&mut a, TREE, b"k", Shared, NoWait).unwrap();
    let waiter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut b = table.begin(2);
            table.lock_row(&mut b, TREE, b"k", Exclusive, WaitPolicy::Forever).unwrap();
            table.release_all(&mut b);
        })
    };
    until_waiting(&table, 1);
    let denied = table.lock_row(&mut c, TREE, b"k", Shared, NoWait).unwrap_err();
    assert_eq!((denied.reason, denied.holder.map(|holder| holder.id)), (Reason::Busy, Some(2)));
    // The holder passes.
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Shared, NoWait), Ok(Taken::AlreadyHeld));
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Write, NoWait), Ok(Taken::Upgraded));
    table.release_all(&mut a);
    waiter.join().unwrap();
    assert_empty(&table);
}

#[test]
pub(super) fn an_upgrade_is_granted_before_waiting_requests() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Shared, NoWait).unwrap();
    table.lock_row(&mut b, TREE, b"k", Shared, NoWait).unwrap();
    let stranger = {
        let table = table.clone();
        thread::spawn(move || {
            let mut c = table.begin(3);
            c.owner().set_writes(100);
            let granted = table.lock_row(&mut c, TREE, b"k", Exclusive, WaitPolicy::Forever);
            table.release_all(&mut c);
            granted
        })
    };
    until_waiting(&table, 1);
    let upgrader = table.clone();
    let release = {
        let table = table.clone();
        thread::spawn(move || {
            // Not until two wait: one of them may have been aborted by mistake.
            while table.stats().waits < 2 {
                thread::yield_now();
            }
            table.release_all(&mut b);
        })
    };
    // The stranger waits for this holder, which does not wait for the stranger: no cycle.
    let taken = upgrader.lock_row(&mut a, TREE, b"k", Write, WaitPolicy::Forever);
    // Asserted only after the others are released, or they would wait for ever.
    table.release_all(&mut a);
    release.join().unwrap();
    assert_eq!(stranger.join().unwrap(), Ok(Taken::New));
    assert_eq!(taken, Ok(Taken::Upgraded));
    assert_empty(&table);
}

#[test]
fn many_locks_are_acquired_and_released() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    for round in 0..2_u32 {
        for key in 0..100_000_u32 {
            let taken = table.lock_row(&mut a, TREE, &key.to_be_bytes(), Write, NoWait);
            assert_eq!(taken, Ok(Taken::New), "round {round}");
        }
        let stats = table.stats();
        assert_eq!(stats.locks, 100_000);
        let each = (stats.bytes + a.bytes()) as f64 / 100_000.0;
        println!("{each:.1} bytes a lock");
        assert!(each <= 60.0, "{each}");
        for key in (0..100_000_u32).step_by(997) {
            let asked = table.lock_row(&mut b, TREE, &key.to_be_bytes(), Shared, NoWait);
            assert_eq!(reason(asked), Reason::Busy);
        }
        table.release_all(&mut a);
        assert_empty(&table);
    }
    // The memory of one large transaction is not kept for ever.
    for key in 0..2_000_000_u32 {
        table.lock_row(&mut a, TREE, &key.to_be_bytes(), Write, NoWait).unwrap();
    }
    let large = table.stats().bytes;
    table.release_all(&mut a);
    assert!(table.stats().bytes < large / 4);
}

/// Rules: I12, I54.
#[test]
fn prepared_transactions_keep_and_reacquire_their_write_locks() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_table(&mut a, OTHER, TableMode::IntentShared, NoWait).unwrap();
    table.lock_table(&mut a, TREE, TableMode::IntentExclusive, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"read", Shared, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"locked", Exclusive, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"written", Write, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"locked, then written", Exclusive, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"locked, then written", Write, NoWait).unwrap();
    let from = Bound::Excluded(&b"a"[..]);
    let range = table.lock_range(&mut a, TREE, (from, Bound::Included(b"b")));
    table.grow_up(&mut a, range, Bound::Unbounded);
    let all = table.list(&a);
    assert_eq!((all.rows.len(), all.tables.len()), (4, 2));
    assert_eq!(
        (all.ranges[0].from.clone(), &all.ranges[0].to),
        (from.map(<[u8]>::to_vec), &Bound::Unbounded)
    );

    // To stay serializable it keeps everything, and has everything again after a restart.
    let after = self::table();
    let mut again = after.restore(9, &all).unwrap();
    assert_eq!(after.list(&again), all);
    let denied = after.restore(10, &all).unwrap_err();
    assert_eq!(
        (denied.reason, denied.holder.map(|holder| holder.id)),
        (Reason::Busy, Some(9)),
        "two cannot have held it"
    );
    after.release_all(&mut again);
    assert_empty(&after);

    // One row was written, and rolled back.
    table.lock_row(&mut a, TREE, b"given up", Write, NoWait).unwrap();
    let taken_back = LockTable::row_hash(TREE, b"given up");
    table.release_at_prepare(&mut a, |tree, hash| (tree, hash) != (TREE, taken_back));
    let kept = table.list(&a);
    assert_eq!(kept.rows, all.rows[2..]);
    assert_eq!(kept.tables, [(TREE, TableMode::IntentExclusive)]);
    assert!(kept.ranges.is_empty());
    for (key, free) in
        [(&b"read"[..], true), (b"locked", true), (b"given up", true), (b"written", false)]
    {
        assert_eq!(table.lock_row(&mut b, TREE, key, Exclusive, NoWait).is_ok(), free);
    }
    assert!(table.lock_table(&mut b, OTHER, TableMode::Exclusive, NoWait).is_ok());
    assert_eq!(reason(table.lock_table(&mut b, TREE, TableMode::Shared, NoWait)), Reason::Busy);
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert_empty(&table);
}

#[test]
fn lock_errors_name_the_holder_and_the_row() {
    let table = table();
    let (mut a, mut b) = (table.begin(41), table.begin(42));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let busy = table.lock_row(&mut b, TREE, b"k", Shared, NoWait).unwrap_err();
    let error = busy.into_error("orders");
    assert_eq!(error.kind(), crate::ErrorKind::Retry);
    let text = error.to_string();
    assert!(text.starts_with("FRD-1105 the row of key hash "), "{text}");
    assert!(text.contains("\"orders\"") && text.contains("transaction 41"), "{text}");
    let late = table.lock_row(&mut b, TREE, b"k", Shared, WaitPolicy::For(Duration::ZERO));
    let text = late.unwrap_err().into_error("orders").to_string();
    assert!(text.starts_with("FRD-1101 ") && text.contains("transaction 41"), "{text}");
    b.owner().interrupt(b.owner().id());
    let ended = table.lock_row(&mut b, TREE, b"k", Shared, WaitPolicy::Forever).unwrap_err();
    assert!(ended.into_error("orders").to_string().starts_with("FRD-1106 "));
    table.release_all(&mut a);
    b.renew(43, 0);
    assert!(!b.owner().is_interrupted());
    table.release_all(&mut b);
    assert_empty(&table);
}

/// Rules: I47, P15. A transaction with few locks, and one that writes, is not refused.
#[test]
pub(super) fn locks_of_unwritten_rows_have_a_memory_limit() {
    const MAX: usize = 100_000;
    let table = LockTable::new(Arc::new(ManualClock::default())).within(45 * MAX as u64);
    let (mut many, mut few) = (table.begin(1), table.begin(2));
    let key = |row: usize| (row as u64).to_be_bytes();
    let lock =
        |locks: &mut LockSet, row, mode| table.lock_row(locks, TREE, &key(row), mode, NoWait);
    for round in 0..2 {
        let refused = (0..2 * MAX).find_map(|row| lock(&mut many, row, Shared).err());
        let refused = refused.expect("a bound");
        assert_eq!((refused.reason, refused.tree), (Reason::Full, TREE), "{round}");
        assert!(refused.into_error("orders").to_string().starts_with("FRD-1116 "));
        let held = many.len();
        assert!((MAX - 5_000..=MAX + 5_000).contains(&held), "{held}");
        assert_eq!(reason(lock(&mut many, 3 * MAX, Exclusive)), Reason::Full);
        assert_eq!(many.len(), held);
        lock(&mut many, 3 * MAX, Write).unwrap();
        lock(&mut few, 4 * MAX, Shared).unwrap();
        table.release_all(&mut many);
        table.release_all(&mut few);
        many.renew(3 + round, 0);
    }
    // Intervals count, too.
    let refused = (0..MAX).find_map(|row| {
        let key = key(row);
        table.lock_range(&mut many, TREE, (Bound::Included(&key), Bound::Included(&key)));
        table.must_have_room(&mut many, TREE).err()
    });
    assert_eq!(refused.map(|denied| denied.reason), Some(Reason::Full));
    table.release_all(&mut many);
    assert_empty(&table);
}
