//! Scenarios of scans and of lock waits.

use super::*;
use frond::ReadOptions;
use frond::internals::io::Env;

/// A locking scan that has passed one of the transaction's own rows does not go back to rows that
/// others commit before it; and no cursor returns a row twice, neither at the end of a piece nor
/// after it turns.
pub fn cursors_never_go_back(seed: u64) {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        for forward in [true, false] {
            let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
            let tree = db.create_tree("t", Default::default()).unwrap();
            for key in [b"k1", b"k9"] {
                tree.put(key, b"").unwrap();
            }
            let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
            txn.put(&tree, b"k5", b"own").unwrap();
            let mut cursor =
                txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
            if !forward {
                cursor.seek_last();
            }
            let mut step = || {
                let row = if forward { cursor.next() } else { cursor.prev() };
                row.unwrap().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
            };
            let mut found = [step().unwrap(), step().unwrap()].to_vec();
            let mut batch = Batch::new();
            [b"k4", b"k6"].iter().for_each(|key| batch.put(&tree, *key, b"").unwrap());
            db.commit(&mut batch).unwrap();
            found.extend(std::iter::from_fn(step));
            let expected =
                if forward { ["k1", "k5", "k6", "k9"] } else { ["k9", "k5", "k4", "k1"] };
            assert_eq!(found, expected, "{isolation:?}");
        }
    }
    let db = Db::open("/store", options(&SimVfs::new(), seed)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    // More than the first piece of a cursor.
    for row in 0..200u8 {
        tree.put(&[row], b"").unwrap();
    }
    let (mut cursor, mut rows) = (tree.scan(..).unwrap(), 0);
    while cursor.next().unwrap().is_some() {
        rows += 1;
        assert!(rows <= 200, "a row comes twice");
    }
    let txn = db.begin(Default::default()).unwrap();
    let mut cursor = txn.scan(&tree, ..).unwrap();
    for _ in 0..3 {
        cursor.next().unwrap();
    }
    cursor.prev().unwrap();
    assert_eq!(cursor.next().unwrap().map(|(key, _)| key[0]), Some(2));
}

/// A batch that is chosen to break a cycle of lock waits has done nothing yet: it releases its
/// locks and commits later.
pub fn a_batch_chosen_as_deadlock_victim_is_retried(seed: u64) {
    let env = Env { clock: Env::real().clock, ..SimVfs::new().env(seed) };
    let db = Db::open("/store", options(&SimVfs::new(), seed).env(env)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = db.begin(TxnOptions::new().lock_timeout(None)).unwrap();
    // The transaction has written more than the batch, so the batch is chosen.
    (b'x'..=b'z').for_each(|key| txn.put(&tree, &[key], b"txn").unwrap());
    txn.put(&tree, b"b", b"txn").unwrap();
    let mut batch = Batch::new();
    batch.lock_timeout(None);
    batch.put(&tree, b"a", b"batch").unwrap();
    batch.put(&tree, b"b", b"batch").unwrap();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while db.lock_waits().is_empty() {
                std::thread::yield_now();
            }
            txn.put(&tree, b"a", b"txn").unwrap();
            txn.commit().unwrap();
        });
        db.commit(&mut batch)
    });
    assert!(done.is_ok(), "{done:?}");
    assert!(db.last_deadlock().is_some());
    let row = |key| tree.get(key).unwrap().unwrap();
    assert_eq!([row(b"a"), row(b"b")], [b"batch", b"batch"]);
}
