//! Values stored outside the trees, and when transactions need not read them.

use super::*;

/// The reference of a long value shows whether it has changed since the snapshot (Rule: I27).
#[test]
fn conflict_checks_do_not_read_long_values() {
    let store = store(true);
    let long = vec![7; 1 << 20];
    for key in [&b"still"[..], b"changed", b"folded"] {
        store.tree.put(key, &long).unwrap();
    }
    store.db.checkpoint().unwrap();
    let reads = || store.db.stats().store_reads;
    let begun = || {
        let txn = store.begin(Isolation::Snapshot);
        assert!(txn.get(&store.tree, b"1").unwrap().is_some());
        txn
    };
    let txns = [begun(), begun(), begun()];
    store.tree.put(b"changed", &[&long[..], &[8]].concat()).unwrap();
    store.db.transact(|txn| txn.merge(&store.tree, b"folded", operator::APPEND, b"8")).unwrap();
    store.tree.put(b"2", b"another row").unwrap();
    store.db.checkpoint().unwrap();
    // Reads the blocks that hold the references.
    for key in [&b"still"[..], b"changed", b"folded"] {
        assert!(store.tree.contains(key).unwrap());
    }
    let before = reads();
    txns[0].put(&store.tree, b"still", b"short").unwrap();
    let changed = txns[1].put(&store.tree, b"changed", b"short");
    assert!(matches!(changed, Err(Error::Conflict { .. })), "{changed:?}");
    assert_eq!(reads(), before);
    let folded = txns[2].put(&store.tree, b"folded", b"short");
    assert!(matches!(folded, Err(Error::Conflict { .. })), "{folded:?}");
    let before = reads();
    assert_eq!(store.tree.get(b"still").unwrap().unwrap(), long);
    assert!(reads() > before, "the count counts them");
    let [first, ..] = txns;
    first.commit().unwrap();
    assert_eq!(store.tree.get(b"still").unwrap().unwrap(), b"short");
}
