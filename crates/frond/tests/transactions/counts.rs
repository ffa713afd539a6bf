//! Counts of the rows of a range, made within the store.

use super::*;

/// A count with and without the transaction's own writes, in memory and on disk, including long
/// values and deletes, is that of a scan.
#[test]
fn a_transactions_count_equals_its_scan() {
    for isolation in LEVELS {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let mut batch = Batch::new();
            for row in 0..5000u32 {
                batch.put(tree, format!("row {row:05}").as_bytes(), &[7; 50]).unwrap();
            }
            batch.put(tree, b"row", &vec![7; 100_000]).unwrap();
            db.commit(&mut batch).unwrap();
            if is_flushed {
                db.checkpoint().unwrap();
            }
            for row in (0..5000u32).step_by(7) {
                tree.delete(format!("row {row:05}").as_bytes()).unwrap();
            }
            let txn = store.begin(isolation);
            let count = || txn.count(tree, ..).unwrap();
            let left = 5000 - 5000_u64.div_ceil(7) + 3;
            assert_eq!((count(), scanned(&txn, tree).len() as u64), (left, left));
            if isolation != Isolation::Serializable {
                tree.put(b"of another", b"").unwrap();
            }
            let seen = left + u64::from(isolation == Isolation::ReadCommitted);
            assert_eq!(count(), seen, "{isolation:?}");
            assert_eq!(txn.count(tree, &b"row"[..]..).unwrap(), left - 2);
            assert_eq!(txn.count(tree, &b"s"[..]..&b"t"[..]).unwrap(), 0);
            txn.put(tree, b"own", b"").unwrap();
            txn.delete(tree, b"1").unwrap();
            txn.delete(tree, b"2").unwrap();
            assert_eq!(count(), seen - 1);
            txn.statement().begin().unwrap();
            txn.put(tree, b"of the statement", b"").unwrap();
            assert_eq!(count(), seen - 1, "as its scans");
        }
    }
}
