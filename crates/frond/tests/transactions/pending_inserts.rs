//! Scans that lock gaps, and inserts of others ahead of them: a scan checks for these once, and
//! again only after an insert (Rule: I33).

use frond::ReadOptions;
use frond_testkit::DbEngine;

use super::*;

const ROWS: u8 = 40;

fn store_of_rows() -> Store {
    let dir = tempfile::tempdir().unwrap();
    let tuning = DbEngine::tiny(Durability::Lazy).tuning;
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy).tuning(tuning);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for row in 0..ROWS {
        tree.put(&[row], b"").unwrap();
    }
    Store { db, tree, _dir: dir }
}

fn step(cursor: &mut TxnCursor<'_>, forward: bool) -> frond::Result<Option<Vec<u8>>> {
    let row = if forward { cursor.next()? } else { cursor.prev()? };
    Ok(row.map(|(key, _)| key.to_vec()))
}

/// A writer of the tree is open all the time; once the scan has locked some rows, it inserts
/// between two that are not locked.
#[test]
fn a_locking_scan_waits_for_inserts_ahead_of_it() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        for (forward, is_large) in [(true, false), (false, false), (true, true), (false, true)] {
            for is_committed in [true, false] {
                let store = store_of_rows();
                let writer = store.begin(Isolation::ReadCommitted);
                // Rows outside the scan's range, on both sides; if there are many, they are
                // spilled.
                for row in 0..if is_large { 100 } else { 1 } {
                    writer.put(&store.tree, &[200, row], b"a row next to the scan").unwrap();
                    writer.put(&store.tree, &[1, row], b"a row next to the scan").unwrap();
                }
                let range = &[5][..]..&[30][..];
                let txn = store.begin(isolation);
                let lock = (RowLock::Exclusive, IfLocked::NoWait);
                let mut cursor = txn
                    .scan_with(
                        &store.tree,
                        range,
                        &ReadOptions::new().lock(lock.0).if_locked(lock.1),
                    )
                    .unwrap();
                if !forward {
                    cursor.seek_last();
                }
                let mut rows: Vec<u8> = (5..30).collect();
                if !forward {
                    rows.reverse();
                }
                for row in &rows[..3] {
                    assert_eq!(step(&mut cursor, forward).unwrap(), Some(vec![*row]));
                }
                let between = vec![if forward { 10 } else { 20 }, 0];
                writer.put(&store.tree, &between, b"between").unwrap();
                let before = rows.iter().position(|row| *row == between[0]).unwrap();
                // Backwards, the row below the insert comes after it.
                let before = before + usize::from(forward);
                for row in &rows[3..before] {
                    assert_eq!(step(&mut cursor, forward).unwrap(), Some(vec![*row]));
                }
                for _ in 0..2 {
                    let busy = step(&mut cursor, forward).unwrap_err();
                    assert!(matches!(busy, Error::LockBusy { .. }), "{busy}");
                }
                if is_committed {
                    writer.commit().unwrap();
                    assert_eq!(step(&mut cursor, forward).unwrap(), Some(between));
                } else {
                    writer.rollback();
                }
                for row in &rows[before..] {
                    assert_eq!(step(&mut cursor, forward).unwrap(), Some(vec![*row]));
                }
                assert_eq!(step(&mut cursor, forward).unwrap(), None);
                drop(cursor);
                txn.commit().unwrap();
                store.is_idle();
            }
        }
    }
}
