//! Trees as a whole: intents recorded at their owners, and transactions that want a whole tree.

use super::*;
use TableMode::{Exclusive, IntentExclusive, IntentShared, Shared};
use WaitPolicy::NoWait;

const MODES: [TableMode; 4] = [IntentShared, IntentExclusive, Shared, Exclusive];

#[test]
pub(super) fn tables_are_locked_in_the_standard_modes() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    let fits = ["yyyn", "yynn", "ynyn", "nnnn"];
    for (first, row) in MODES.into_iter().zip(fits) {
        for (second, fits) in MODES.into_iter().zip(row.chars()) {
            assert_eq!(table.lock_table(&mut a, TREE, first, NoWait), Ok(Taken::New));
            let asked = table.lock_table(&mut b, TREE, second, NoWait);
            assert_eq!(asked.is_ok(), fits == 'y', "{first:?}, then {second:?}");
            assert!(table.lock_table(&mut b, OTHER, second, NoWait).is_ok(), "another tree");
            table.release_all(&mut a);
            table.release_all(&mut b);
            assert_empty(&table);
        }
    }
}

#[test]
fn a_transaction_upgrades_its_tree_lock_step_by_step() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    assert_eq!(table.lock_table(&mut a, TREE, IntentShared, NoWait), Ok(Taken::New));
    assert_eq!(table.lock_table(&mut a, TREE, IntentExclusive, NoWait), Ok(Taken::Upgraded));
    assert_eq!(table.lock_table(&mut a, TREE, IntentShared, NoWait), Ok(Taken::AlreadyHeld));
    assert_eq!(table.lock_table(&mut a, TREE, Shared, NoWait), Ok(Taken::Upgraded));
    // It holds the tree shared with an intent to change rows: no other may change any.
    assert!(table.lock_table(&mut b, TREE, IntentShared, NoWait).is_ok());
    assert_eq!(reason(table.lock_table(&mut b, TREE, IntentExclusive, NoWait)), Reason::Busy);
    assert_eq!(reason(table.lock_table(&mut a, TREE, Exclusive, NoWait)), Reason::Busy);
    table.release_all(&mut b);
    assert_eq!(table.lock_table(&mut a, TREE, Exclusive, NoWait), Ok(Taken::Upgraded));
    assert_eq!(reason(table.lock_table(&mut b, TREE, IntentShared, NoWait)), Reason::Busy);
    assert_eq!(table.list(&a).tables.len(), 1 + a.held.len(), "each stands once or twice");
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert_empty(&table);
}

/// Intents recorded at their owners are seen by a transaction that wants the tree, and released
/// where they were put.
#[test]
fn a_tree_lock_waits_for_earlier_intents() {
    let table = table();
    let mut others: Vec<LockSet> = (1..=20).map(|id| table.begin(id)).collect();
    for (at, locks) in others.iter_mut().enumerate() {
        let mode = if at % 2 == 0 { IntentShared } else { IntentExclusive };
        // More trees than an owner has slots.
        for tree in 0..12 {
            table.lock_table(locks, TreeId(tree), mode, NoWait).unwrap();
        }
    }
    for tree in [TreeId(1), TreeId(11)] {
        let ddl = {
            let table = table.clone();
            thread::spawn(move || {
                let mut locks = table.begin(99);
                let taken = table.lock_table(&mut locks, tree, Exclusive, WaitPolicy::Forever);
                table.release_all(&mut locks);
                taken
            })
        };
        until_waiting(&table, 1);
        assert_eq!(table.waits()[0].holders.len(), 20);
        // While it waits, no new owner gets an intent.
        let mut late = table.begin(77);
        assert_eq!(reason(table.lock_table(&mut late, tree, IntentShared, NoWait)), Reason::Busy);
        others.iter_mut().for_each(|locks| table.release_all(locks));
        assert_eq!(ddl.join().unwrap(), Ok(Taken::New));
        assert!(table.lock_table(&mut late, tree, IntentShared, NoWait).is_ok());
        table.release_all(&mut late);
        for locks in &mut others {
            table.lock_table(locks, TreeId(11), IntentShared, NoWait).unwrap();
        }
    }
    others.iter_mut().for_each(|locks| table.release_all(locks));
    assert_empty(&table);
}
