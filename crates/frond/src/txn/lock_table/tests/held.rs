//! The list of held locks.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::*;
use crate::{sync::AtomicBool, types::KeyStart};
use WaitPolicy::{Forever, NoWait};

fn row(tree: TreeId, key: &[u8], told: bool) -> HeldOn {
    let key_hash = LockTable::row_hash(tree, key);
    HeldOn::Row { key_hash, key: told.then(|| KeyStart::of(key)) }
}

fn told(held: &HeldLocks) -> Vec<(u64, u64, TreeId, HeldOn, LockMode)> {
    let told =
        held.locks.iter().map(|one| (one.owner, one.tag, one.tree, one.on.clone(), one.mode));
    told.collect()
}

#[test]
fn every_lock_is_listed_with_its_holder() {
    let table = table();
    assert_eq!(table.held(9), HeldLocks::default());
    let (mut a, mut b) = (table.begin(0), table.begin(0));
    a.renew(1, 11);
    b.renew(2, 22);
    table.lock_table(&mut a, TREE, TableMode::IntentExclusive, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"a", RowMode::Write, NoWait).unwrap();
    table.lock_row(&mut a, TREE, b"both", RowMode::Shared, NoWait).unwrap();
    table.lock_range(&mut a, TREE, (Excluded(b"a"), Included(b"both")));
    table.lock_range(&mut a, OTHER, (Unbounded, Excluded(b"x")));
    table.lock_table(&mut b, TREE, TableMode::IntentShared, NoWait).unwrap();
    table.lock_row(&mut b, TREE, b"both", RowMode::Shared, NoWait).unwrap();
    // From now on the first one's intents are in the table.
    table.lock_table(&mut b, OTHER, TableMode::Exclusive, NoWait).unwrap();

    let gap = |from, to| HeldOn::Gap { from, to };
    let start = |key: &[u8]| KeyStart::of(key);
    let between = gap(Excluded(start(b"a")), Included(start(b"both")));
    let of_a = [
        (1, 11, TREE, HeldOn::Tree, LockMode::IntentExclusive),
        (1, 11, TREE, between, LockMode::Shared),
        (1, 11, TREE, row(TREE, b"a", false), LockMode::Exclusive),
        (1, 11, TREE, row(TREE, b"both", false), LockMode::Shared),
        (1, 11, OTHER, gap(Unbounded, Excluded(start(b"x"))), LockMode::Shared),
    ];
    let of_b = [
        (2, 22, TREE, HeldOn::Tree, LockMode::IntentShared),
        (2, 22, TREE, row(TREE, b"both", false), LockMode::Shared),
        (2, 22, OTHER, HeldOn::Tree, LockMode::Exclusive),
    ];
    let all = table.held(100);
    assert_eq!(all.more, 0);
    let mut found = told(&all);
    // Rows of one tree are listed in table order.
    if found[2].4 == LockMode::Shared {
        found.swap(2, 3);
    }
    assert_eq!(found, [&of_a[..], &of_b[..]].concat());
    let mut own = told(&table.held_by(&a, 100));
    own.sort_by_key(|one| one.2);
    assert_eq!(own, of_a);
    assert_eq!(told(&table.held_by(&b, 100)).len(), 3);
    let words: Vec<_> = all.locks.iter().map(ToString::to_string).collect();
    assert!(words.contains(&"transaction 1 has shared access to the gap after key \"a\" up to key \"both\" of tree 7".into()), "{words:?}");

    // An intent that was moved into the table is listed once, with its mode there.
    table.release_all(&mut b);
    b.renew(3, 33);
    table.lock_table(&mut b, TREE, TableMode::IntentShared, NoWait).unwrap();
    assert_eq!(reason(table.lock_table(&mut b, TREE, TableMode::Exclusive, NoWait)), Reason::Busy);
    let trees = |held: &HeldLocks| told(held).iter().filter(|one| one.3 == HeldOn::Tree).count();
    assert_eq!(trees(&table.held(100)), 2);
    assert_eq!((trees(&table.held_by(&a, 100)), trees(&table.held_by(&b, 100))), (1, 1));
    table.release_all(&mut b);
    table.release_all(&mut a);
    assert_eq!(table.held(9), HeldLocks::default());
    assert_empty(&table);
}

#[test]
fn a_list_of_locks_is_truncated_as_requested_and_counts_the_rest() {
    let table = table();
    let mut sets: Vec<_> = (1..=3).map(|id| table.begin(id)).collect();
    for (at, set) in sets.iter_mut().enumerate() {
        table.lock_table(set, TREE, TableMode::IntentExclusive, NoWait).unwrap();
        for number in 0..100_u32 {
            let key = [&[at as u8][..], &number.to_be_bytes()].concat();
            table.lock_row(set, TREE, &key, RowMode::Write, NoWait).unwrap();
        }
        table.lock_range(set, TREE, (Included(&[at as u8][..]), Unbounded));
    }
    for max in [0, 1, 3, 4, 6, 7, 50, 305, 306, 307] {
        let held = table.held(max);
        assert_eq!((held.locks.len(), held.more), (max.min(306), 306 - max.min(306)));
        let own = table.held_by(&sets[1], max);
        assert_eq!((own.locks.len(), own.more), (max.min(102), 102 - max.min(102)));
    }
    // One row with many holders.
    for set in &mut sets {
        table.release_all(set);
        table.lock_row(set, TREE, b"all", RowMode::Shared, NoWait).unwrap();
    }
    assert_eq!((table.held(3).locks.len(), table.held(3).more), (3, 0));
    assert_eq!(table.held(2).locks.len(), 2);
    sets.iter_mut().for_each(|set| table.release_all(set));
    assert_empty(&table);
}

#[test]
fn the_key_of_a_contended_row_is_reported() {
    let table = table();
    let mut a = table.begin(1);
    table.lock_row(&mut a, TREE, b"wanted", RowMode::Write, NoWait).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut b = table.begin(2);
            let taken = table.lock_row(&mut b, TREE, b"wanted", RowMode::Shared, Forever);
            table.release_all(&mut b);
            taken
        });
        until_waiting(&table, 1);
        let of_a = (1, 0, TREE, row(TREE, b"wanted", true), LockMode::Exclusive);
        assert_eq!(told(&table.held(9)), std::slice::from_ref(&of_a), "a waiter holds nothing");
        assert_eq!(told(&table.held_by(&a, 9)), [of_a]);
        table.release_all(&mut a);
        waits.join().unwrap().unwrap();
    });
    assert_empty(&table);
}

/// Invariant 2 of `held.rs`: each transaction locks only what is named after it, and its owner is
/// then reused for another.
#[test]
fn no_transaction_is_listed_with_locks_of_another() {
    let table = table();
    let done = AtomicBool::new(false);
    let has_ended = || done.load(crate::sync::Ordering::SeqCst);
    thread::scope(|scope| {
        let lock_on = |first: u64| {
            let mut set = table.begin(first);
            let mut id = first;
            while !has_ended() {
                id += 2;
                set.renew(id, id * 3);
                let key = id.to_be_bytes();
                table
                    .lock_table(&mut set, TreeId(id as u32), TableMode::IntentShared, NoWait)
                    .unwrap();
                table.lock_row(&mut set, TREE, &key, RowMode::Write, NoWait).unwrap();
                table.lock_range(&mut set, TREE, (Included(&key), Included(&key)));
                table.release_all(&mut set);
            }
        };
        scope.spawn(move || lock_on(0));
        scope.spawn(move || lock_on(1));
        let (mut met, mut wrong) = (0, None);
        while met < 20_000 && wrong.is_none() {
            for lock in table.held(100).locks {
                let key = lock.owner.to_be_bytes();
                let on = match lock.on {
                    HeldOn::Tree => lock.tree == TreeId(lock.owner as u32),
                    HeldOn::Row { key_hash, .. } => key_hash == LockTable::row_hash(TREE, &key),
                    HeldOn::Gap { from, .. } => from == Included(KeyStart::of(&key)),
                };
                if !on || lock.tag != lock.owner * 3 {
                    wrong = Some((lock.owner, lock.tag, lock.tree));
                }
                met += 1;
            }
        }
        done.store(true, crate::sync::Ordering::SeqCst);
        assert_eq!(wrong, None, "owner, tag, tree");
    });
    assert_empty(&table);
}
