//! Many open transactions: what all of them have in memory is bounded.

use super::*;
use frond::ReadOptions;

/// Each of forty transactions stays below the limit for one; together they would have three times
/// what the store may have in memory. Promise: P15.
#[test]
fn many_open_transactions_share_the_memory_limit() {
    const WRITERS: u32 = 40;
    let cache = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(cache).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let txns: Vec<_> = (0..WRITERS).map(|_| db.begin(TxnOptions::default()).unwrap()).collect();
    let key = |writer: u32, row: u32| [writer.to_be_bytes(), row.to_be_bytes()].concat();
    let mut most = 0;
    for row in 0..3500u32 {
        for (writer, txn) in (0..).zip(&txns) {
            txn.put(&tree, &key(writer, row), &[row as u8; 1000]).unwrap();
        }
        most = most.max(db.stats().uncommitted_bytes);
    }
    assert!((4 << 20..cache / 2).contains(&most), "{most}");
    // Spilled rows are locked.
    let other = db.begin(TxnOptions::default()).unwrap();
    for row in (0..3500).step_by(97) {
        let busy = other
            .get_with(
                &tree,
                &key(row % WRITERS, row),
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        assert!(matches!(busy, Err(Error::LockBusy { .. })), "{busy:?}");
    }
    drop(other);
    for (writer, txn) in (0u32..).zip(txns) {
        if writer % 2 == 0 {
            txn.commit().unwrap();
        } else {
            txn.rollback();
        }
    }
    for writer in 0..WRITERS {
        let value = tree.get(&key(writer, 3499)).unwrap();
        assert_eq!(value.is_some(), writer % 2 == 0);
    }
    assert_eq!(db.stats().uncommitted_bytes, 0);
    db.close().unwrap();
}
