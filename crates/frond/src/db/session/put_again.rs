//! Tests that scans skip rows that were deleted since their mark, even if they were put again and
//! spilled (Rule: I45).

use super::*;

const ROWS: u32 = 120;

/// A store whose transactions spill after a few rows.
fn small_store() -> (Db, Tree) {
    pieces::small_store(ROWS, |_| b"old".to_vec())
}

/// Deletes every third row, and puts it again `apart` other rows later.
fn change(txn: &Txn, tree: &Tree, (from, to): (u32, u32), apart: u32) {
    let is_third = |row: &u32| row.is_multiple_of(3) && (from..to).contains(row);
    for i in from..to + apart {
        if is_third(&i) {
            txn.delete(tree, &i.to_be_bytes()).unwrap();
        }
        if let Some(row) = i.checked_sub(apart).filter(is_third) {
            txn.put(tree, &row.to_be_bytes(), b"again").unwrap();
        }
        txn.put(tree, &(i + 1000).to_be_bytes(), b"other").unwrap();
    }
}

/// The rows that existed before, without the deleted ones with keys below `to`.
fn left(to: u32) -> Vec<(u32, Vec<u8>)> {
    let left = (0..ROWS).filter(|row| !row.is_multiple_of(3) || *row >= to);
    left.map(|row| (row, b"old".to_vec())).collect()
}

fn rest(cursor: &mut TxnCursor<'_>, forward: bool) -> Vec<(u32, Vec<u8>)> {
    let mut rows = Vec::new();
    if !forward {
        cursor.seek_last();
    }
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        rows.push((u32::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
    }
    if !forward {
        rows.reverse();
    }
    rows
}

fn must_scan(txn: &Txn, tree: &Tree, expected: &[(u32, Vec<u8>)]) {
    for forward in [true, false] {
        let found = rest(&mut txn.scan(tree, ..).unwrap(), forward);
        assert_eq!(found, expected, "I45, up: {forward}");
    }
}

/// Number of pieces of the transaction, and of keys that they remember as deleted.
fn pieces(txn: &Txn) -> (usize, u64) {
    let own = txn.buffer.live.lock();
    (own.pieces().len(), own.pieces().iter().map(|piece| piece.hidden_deletes.entries()).sum())
}

fn a_statement_skips_rows_put_again(apart: u32) {
    let (db, tree) = small_store();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.statement().begin().unwrap();
    change(&txn, &tree, (0, 60), apart);
    let savepoint = txn.savepoint().unwrap();
    change(&txn, &tree, (60, ROWS), apart);
    must_scan(&txn, &tree, &left(ROWS));
    // A rolled back delete does not count.
    txn.rollback_to(&savepoint).unwrap();
    must_scan(&txn, &tree, &left(60));
    // The next statement sees the current rows, and what was remembered for the last one is
    // dropped.
    txn.statement().begin().unwrap();
    let now = rest(&mut txn.scan(&tree, ..).unwrap(), true);
    assert_eq!(now.len() as u32, ROWS + 60 + apart);
    assert_eq!(now[0], (0, b"again".to_vec()));
    for row in 2000..2020u32 {
        txn.put(&tree, &row.to_be_bytes(), b"other").unwrap();
    }
    assert_eq!(pieces(&txn).1, 0);
    txn.commit().unwrap();
    assert_eq!(tree.get(&0u32.to_be_bytes()).unwrap().as_deref(), Some(&b"again"[..]));
    db.checkpoint().unwrap();
    assert_eq!(db.stats().space_temporary_bytes, 0);
}

/// Both in one spilled piece.
#[test]
fn a_scan_skips_rows_deleted_and_put_again_in_one_piece() {
    a_statement_skips_rows_put_again(0);
}

/// In two pieces, which are merged later on, or are not.
#[test]
fn a_scan_skips_rows_deleted_and_put_again_across_pieces() {
    [7, 40].into_iter().for_each(a_statement_skips_rows_put_again);
}

/// Pieces are merged while a scan is open, and the result still knows what was deleted since its
/// mark.
#[test]
fn an_open_scan_skips_rows_put_again() {
    for apart in [0, 7, 40] {
        let (db, tree) = small_store();
        let txn = db.begin(TxnOptions::default()).unwrap();
        let mut open = txn.scan(&tree, ..).unwrap();
        let first = open.next().unwrap().map(|(_, value)| value.to_vec());
        assert_eq!(first.as_deref(), Some(&b"old"[..]));
        change(&txn, &tree, (0, ROWS), apart);
        assert!(pieces(&txn).0 < 16, "they are merged");
        let later = rest(&mut txn.scan(&tree, ..).unwrap(), true);
        assert_eq!(later.len() as u32, 2 * ROWS + apart, "it sees all there is");
        for row in 0..ROWS {
            let gives = open.still_gives(&row.to_be_bytes()).unwrap();
            assert_eq!(gives, !row.is_multiple_of(3), "I45: {row}");
        }
        assert_eq!(rest(&mut open, true), left(ROWS)[..]);
    }
}

/// A transaction without scans or statements writes no more than before.
#[test]
fn deletions_are_remembered_only_if_a_scan_may_need_them() {
    for has_statement in [false, true] {
        let (db, tree) = small_store();
        let txn = db.begin(TxnOptions::default()).unwrap();
        if has_statement {
            txn.statement().begin().unwrap();
        }
        change(&txn, &tree, (0, ROWS), 0);
        let (count, remembered) = pieces(&txn);
        assert!(count > 0);
        assert_eq!(remembered > 0, has_statement, "{remembered}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: what leaves memory forgets what it hides" =>
            a_scan_skips_rows_deleted_and_put_again_in_one_piece,
        "txn: merged pieces forget what they hide" =>
            a_scan_skips_rows_deleted_and_put_again_across_pieces,
    };
    crate::plant::assert_claims_hold("put again", claims);
}
