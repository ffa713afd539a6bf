//! Gap locks: what conflicts with an insert, and what does not.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::*;
use RowMode::{Shared, Write};
use WaitPolicy::NoWait;

/// Performs the steps of an insert: the row, then the gap.
fn insert(
    table: &LockTable,
    locks: &mut LockSet,
    key: &[u8],
    wait_policy: WaitPolicy,
) -> Result<bool, LockError> {
    let mark = locks.mark();
    table.lock_row(locks, TREE, key, Write, wait_policy)?;
    table.before_insert(locks, TREE, key, mark, wait_policy)
}

/// Rule: I33.
#[test]
pub(super) fn inserts_into_a_locked_gap_wait_for_its_holder() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_range(&mut a, TREE, (Excluded(b"b"), Included(b"d")));
    for (key, fits) in
        [("a", true), ("b", true), ("ba", false), ("c", false), ("d", false), ("da", true)]
    {
        let denied = insert(&table, &mut b, key.as_bytes(), NoWait);
        assert_eq!(denied.is_ok(), fits, "{key}");
        if let Err(denied) = denied {
            assert_eq!(
                (denied.on, denied.holder.map(|holder| holder.id)),
                (LockOn::Insert, Some(1))
            );
        }
    }
    // No conflict with the owner's own interval, with another tree's, or with a row lock.
    assert_eq!(insert(&table, &mut a, b"bb", NoWait), Ok(false));
    let mark = b.mark();
    assert_eq!(table.before_insert(&mut b, OTHER, b"c", mark, NoWait), Ok(false));
    assert!(table.lock_row(&mut b, TREE, b"bbb", Write, NoWait).is_ok());
    table.release_all(&mut a);
    assert_eq!(insert(&table, &mut b, b"c", NoWait), Ok(false));
    table.release_all(&mut b);
    assert_empty(&table);
}

/// Rules: I46, I47.
#[test]
pub(super) fn a_cursor_extends_a_single_interval() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    let up = table.lock_range(&mut a, TREE, (Excluded(b"m"), Included(b"m")));
    let down = table.lock_range(&mut a, TREE, (Included(b"f"), Excluded(b"f")));
    let mut probe = |key: &[u8]| {
        let fits = insert(&table, &mut b, key, NoWait).is_ok();
        table.release_all(&mut b);
        fits
    };
    assert!(probe(b"n") && probe(b"m") && probe(b"e"));
    table.grow_up(&mut a, up, Included(b"o"));
    table.grow_down(&mut a, down, Included(b"d"));
    assert!(!probe(b"n") && !probe(b"o") && probe(b"p") && probe(b"g") && probe(b"f"));
    assert!(!probe(b"e") && !probe(b"d") && probe(b"c"));
    table.grow_up(&mut a, up, Included(b"n"));
    assert!(!probe(b"o"), "it does not shrink");
    table.grow_up(&mut a, up, Unbounded);
    table.grow_down(&mut a, down, Unbounded);
    assert!(!probe(b"zzz") && !probe(b"") && probe(b"g"));
    assert_eq!(a.len(), 2);
    // Locking the gap again gives the same lock.
    assert_eq!(table.lock_range(&mut a, TREE, (Excluded(b"x"), Included(b"y"))), up);
    assert_eq!(a.len(), 2);
    table.release_all(&mut a);
    assert!(probe(b"n"));
    assert_empty(&table);
}

#[test]
fn gap_locks_do_not_conflict_with_each_other() {
    let table = table();
    let (mut a, mut b, mut c) = (table.begin(1), table.begin(2), table.begin(3));
    table.lock_range(&mut a, TREE, (Unbounded, Unbounded));
    table.lock_range(&mut b, TREE, (Unbounded, Unbounded));
    assert_eq!(reason(insert(&table, &mut a, b"k", NoWait)), Reason::Busy);
    table.release_all(&mut a);
    assert_eq!(insert(&table, &mut b, b"k", NoWait), Ok(false));
    assert_eq!(reason(insert(&table, &mut c, b"l", NoWait)), Reason::Busy);
    [a, b, c].iter_mut().for_each(|locks| table.release_all(locks));
    assert_empty(&table);
}

/// Two gaps over one key are released one after the other; the insert succeeds once both are, and
/// learns that it waited.
#[test]
fn an_insert_waits_until_every_gap_lock_is_released() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_range(&mut a, TREE, (Included(b"a"), Included(b"m")));
    table.lock_range(&mut b, TREE, (Included(b"f"), Unbounded));
    let inserter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut c = table.begin(3);
            let inserted = insert(&table, &mut c, b"g", WaitPolicy::Forever);
            let held = c.len();
            table.release_all(&mut c);
            (inserted, held)
        })
    };
    until_waiting(&table, 1);
    let wait = table.waits().remove(0);
    assert_eq!((wait.on, wait.waiter), (LockOn::Insert, 3));
    assert_eq!(wait.holders.iter().sum::<u64>(), 3, "both");
    table.release_all(&mut a);
    while table.waits().first().map(|wait| wait.holders.clone()) != Some(vec![2]) {
        thread::yield_now();
    }
    table.release_all(&mut b);
    assert_eq!(inserter.join().unwrap(), (Ok(true), 1), "it holds its row again");
    assert_empty(&table);
}

/// The holder of a gap reads and inserts in it while another's insert waits for it: no deadlock.
#[test]
fn a_gap_holder_is_not_blocked_by_an_insert_waiting_for_it() {
    let table = table();
    let mut a = table.begin(1);
    table.lock_range(&mut a, TREE, (Unbounded, Unbounded));
    let inserter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut b = table.begin(2);
            let inserted = insert(&table, &mut b, b"k", WaitPolicy::Forever);
            table.release_all(&mut b);
            inserted
        })
    };
    until_waiting(&table, 1);
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Shared, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut a, TREE, b"k", Write, NoWait), Ok(Taken::Upgraded));
    table.release_all(&mut a);
    assert_eq!(inserter.join().unwrap(), Ok(true));
    assert_eq!(table.stats().deadlocks, 0);
    assert_empty(&table);
}

/// A row that was held before the insert is not released for it.
#[test]
fn an_insert_keeps_its_earlier_row_lock_while_waiting() {
    let (table, clock) = timed();
    let (mut a, mut c) = (table.begin(1), table.begin(3));
    table.lock_range(&mut a, TREE, (Unbounded, Unbounded));
    let inserter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut b = table.begin(2);
            table.lock_row(&mut b, TREE, b"k", Shared, NoWait).unwrap();
            let denied = insert(&table, &mut b, b"k", WaitPolicy::For(Duration::from_secs(1)));
            let held = b.len();
            table.release_all(&mut b);
            (reason(denied), held)
        })
    };
    until_waiting(&table, 1);
    assert_eq!(reason(table.lock_row(&mut c, TREE, b"k", Shared, NoWait)), Reason::Busy);
    clock.sleep(Duration::from_secs(1));
    table.expire();
    assert_eq!(inserter.join().unwrap(), (Reason::Timeout, 1));
    table.release_all(&mut a);
    assert_empty(&table);
}
