//! Statements nested in a statement: what their scans see, and what the outer statement still sees.

use super::*;

/// A trigger that writes to a table and counts its rows, for each row of a statement that scans
/// that table. Rule: I45.
#[test]
fn a_substatement_sees_writes_that_its_outer_statement_does_not() {
    for isolation in LEVELS {
        let store = store(true);
        let Store { tree, .. } = &store;
        let txn = store.begin(isolation);
        assert_eq!(txn.statement().begin_substatement().unwrap_err().kind(), ErrorKind::FixCall);
        txn.statement().begin().unwrap();
        assert_eq!(txn.statement().end_substatement().unwrap_err().kind(), ErrorKind::FixCall);
        let mut outer = txn.scan(tree, ..).unwrap();
        let mut met = 0;
        while let Some((key, _)) = outer.next().unwrap() {
            let key = key.to_vec();
            met += 1;
            txn.statement().begin_substatement().unwrap();
            txn.put(tree, &[&key[..], b"+"].concat(), b"of the trigger").unwrap();
            assert_eq!(scanned(&txn, tree).len(), 1 + met, "its own writes it does not meet");
            txn.statement().begin_substatement().unwrap();
            assert_eq!(scanned(&txn, tree).len(), 2 + met, "nor does it miss those before it");
            txn.statement().end_substatement().unwrap();
            assert_eq!(scanned(&txn, tree).len(), 1 + met);
            txn.statement().end_substatement().unwrap();
            assert_eq!(scanned(&txn, tree).len(), 2, "{isolation:?}");
        }
        drop(outer);
        assert_eq!(met, 2);
        txn.statement().begin_substatement().unwrap();
        txn.statement().rollback().unwrap();
        assert!(txn.statement().end_substatement().is_err(), "it went with the outer one");
        assert_eq!(scanned(&txn, tree), pairs(&[("1", "10"), ("2", "20")]), "all of it");
        txn.statement().begin().unwrap();
        txn.statement().begin_substatement().unwrap();
        txn.statement().begin().unwrap();
        assert!(txn.statement().end_substatement().is_err(), "another statement has begun");
        txn.commit().unwrap();
        store.is_idle();
    }
}

#[test]
fn a_substatement_shares_the_snapshot_of_its_outer_statement() {
    let store = store(true);
    let Store { tree, .. } = &store;
    let txn = store.begin(Isolation::ReadCommitted);
    txn.statement().begin().unwrap();
    assert_eq!(scanned(&txn, tree).len(), 2);
    tree.put(b"3", b"30").unwrap();
    txn.statement().begin_substatement().unwrap();
    assert_eq!(scanned(&txn, tree).len(), 2);
    assert_eq!(get(&txn, tree, "3"), None);
    txn.statement().end_substatement().unwrap();
    assert_eq!(scanned(&txn, tree).len(), 2);
    txn.statement().begin().unwrap();
    assert_eq!(scanned(&txn, tree).len(), 3);
}

#[test]
fn temporary_trees_support_substatements() {
    let store = store(true);
    let Store { db, tree, .. } = &store;
    let temporary = db.create_temporary(TreeOptions::default()).unwrap();
    let count = || {
        let (mut rows, mut count) = (temporary.scan(..).unwrap(), 0);
        while rows.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let txn = store.begin(Isolation::RepeatableRead);
    txn.statement().begin().unwrap();
    txn.put(tree, b"3", b"30").unwrap();
    txn.statement().begin_substatement().unwrap();
    // The transaction's first write to it.
    temporary.put(&txn, b"1", b"10").unwrap();
    assert_eq!(count(), 0);
    txn.statement().begin_substatement().unwrap();
    assert_eq!(count(), 1);
    txn.statement().end_substatement().unwrap();
    txn.statement().end_substatement().unwrap();
    assert_eq!(count(), 0);
    txn.statement().begin().unwrap();
    assert_eq!(count(), 1);
    txn.commit().unwrap();
}
