//! Long scans of what is not in the cache: it is read ahead, and the rows are unaffected.

use frond::{Cursor, Db, Durability, Error, Options, RowBuf, Tree};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const ROWS: u64 = 60_000;
const VALUE_BYTES: usize = 400;

fn options() -> Options {
    Options::new().cache_size(64 << 20).durability(Durability::Lazy)
}

fn key(number: u64) -> [u8; 8] {
    (number * 3).to_be_bytes()
}

/// Bytes that no codec shrinks, so that the rows fill many leaves.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(VALUE_BYTES);
    while bytes.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Makes a store of [`ROWS`] rows in leaves, and closes it.
fn make(dir: &Path) {
    let db = Db::open(dir, options()).unwrap();
    let tree = db.create_tree("rows", Default::default()).unwrap();
    for number in 0..ROWS {
        tree.put(&key(number), &value(number)).unwrap();
    }
    db.close().unwrap();
}

/// Scans from row `next` to the end or an error; returns the number of the row that would be next.
fn walk(cursor: &mut Cursor, mut next: u64) -> (u64, Option<Error>) {
    loop {
        match cursor.next() {
            Ok(Some((found, row))) => {
                assert_eq!((found, row), (&key(next)[..], &value(next)[..]), "row {next}");
                next += 1;
            }
            Ok(None) => return (next, None),
            Err(error) => return (next, Some(error)),
        }
    }
}

fn brought(db: &Db) -> u64 {
    db.stats().pieces_read_ahead
}

/// Checks that memory held for reading ahead is given back once no scan is left. A read may still
/// be in flight.
fn assert_nothing_is_held(db: &Db) {
    let begun = Instant::now();
    while db.stats().read_ahead_held_bytes != 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "readers hold blocks that no scan wants"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

fn reopen(dir: &Path) -> (Db, Tree) {
    let db = Db::open(dir, options()).unwrap();
    let tree = db.open_tree("rows").unwrap();
    (db, tree)
}

#[test]
fn a_cold_scan_uses_readahead_and_returns_every_row_once() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let (db, tree) = reopen(dir.path());
    let mut cursor = tree.scan(..).unwrap();
    let (rows, error) = walk(&mut cursor, 0);
    assert!(rows == ROWS && error.is_none(), "{rows} rows, {error:?}");
    // How many depends on timing; the scan itself reads what was not read ahead.
    let all = brought(&db);
    assert!(all > 0 && all <= 24_000_000 / (128 << 10), "{all} pieces of 24 MB were brought");
    drop(cursor);
    assert_nothing_is_held(&db);
    db.close().unwrap();

    // A scan with an end reads little beyond that end.
    let (db, tree) = reopen(dir.path());
    let (from, to) = (key(1000), key(ROWS / 4));
    let mut cursor = tree.scan(&from[..]..&to[..]).unwrap();
    assert!(matches!(walk(&mut cursor, 1000), (rows, None) if rows == ROWS / 4));
    let some = brought(&db);
    assert!(some <= 24_000_000 / 4 / (128 << 10), "{some} pieces of a quarter");
}

#[test]
fn an_abandoned_scan_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let (db, tree) = reopen(dir.path());
    let mut cursor = tree.scan(..).unwrap();
    for number in 0..ROWS / 3 {
        assert_eq!(cursor.next().unwrap().unwrap().0, key(number));
    }
    // After a seek, reading ahead starts anew.
    cursor.seek(&key(10));
    let (found, row) = cursor.next().unwrap().unwrap();
    assert_eq!((found, row), (&key(10)[..], &value(10)[..]));
    assert_nothing_is_held(&db);
    assert!(matches!(walk(&mut cursor, 11), (ROWS, None)));
    drop(cursor);
    assert_nothing_is_held(&db);
}

#[test]
fn a_scan_keeps_its_snapshot_while_versions_are_published() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let (db, tree) = reopen(dir.path());
    let mut cursor = tree.scan(..).unwrap();
    let published = || db.stats().publish;
    let (begun, walked) = (published(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Rows are deleted, inserted and changed, and pages move.
            for number in 0_u64.. {
                if walked.load(Ordering::Relaxed) {
                    break;
                }
                let number = number * 7919 % ROWS;
                tree.delete(&key(number)).unwrap();
                tree.put(&(number * 3 + 1).to_be_bytes(), b"between").unwrap();
                tree.put(&key((number + 1) % ROWS), b"changed").unwrap();
                if number.is_multiple_of(64) {
                    db.checkpoint().unwrap();
                }
            }
        });
        // Versions have passed before the scan is over.
        for number in 0..ROWS {
            let (found, row) = cursor.next().unwrap().expect("a row");
            assert_eq!((found, row), (&key(number)[..], &value(number)[..]), "row {number}");
            while number == ROWS / 2 && published() < begun + 3 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        walked.store(true, Ordering::Relaxed);
        assert_eq!(cursor.next().unwrap(), None);
    });
}

#[test]
fn batches_and_direction_changes_of_a_scan_leave_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let (_db, tree) = reopen(dir.path());
    let mut cursor = tree.scan(..).unwrap();
    let mut batch = RowBuf::new();
    let mut next = 0;
    // A batch, some rows one by one, some backwards, and forward again.
    loop {
        cursor.read_batch(&mut batch, 700).unwrap();
        if batch.is_empty() {
            break;
        }
        for (found, row) in batch.iter() {
            assert_eq!((found, row), (&key(next)[..], &value(next)[..]), "row {next}");
            next += 1;
        }
        for _ in 0..(ROWS - next).min(900) {
            assert_eq!(cursor.next().unwrap().map(|(found, _)| found), Some(&key(next)[..]));
            next += 1;
        }
        if next % 7 < 2 {
            for _ in 0..40 {
                next -= 1;
                let row = cursor.prev().unwrap();
                assert_eq!(row.map(|(found, _)| found), Some(&key(next - 1)[..]));
            }
        }
    }
    assert_eq!(next, ROWS);
}

#[test]
fn a_scan_continues_after_its_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    for warm_rows in [100, ROWS / 3] {
        let (db, tree) = reopen(dir.path());
        let mut cursor = tree.scan(..).unwrap();
        for number in 0..warm_rows {
            assert_eq!(cursor.next().unwrap().unwrap().0, key(number));
        }
        db.close().unwrap();
        let closed = brought(&db);
        assert!(matches!(walk(&mut cursor, warm_rows), (ROWS, None)));
        assert_eq!(brought(&db), closed, "nothing is read ahead of it any more");
    }
}

#[test]
fn a_scan_fails_exactly_at_a_damaged_block() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    // Damages a leaf's block in the middle of the rows.
    let file = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let store = file.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&store).unwrap();
    let needle = value(ROWS / 2);
    let at = bytes.windows(64).position(|window| window == &needle[8..72]).expect("plain bytes");
    bytes[at] ^= 1;
    std::fs::write(&store, &bytes).unwrap();

    let (db, tree) = reopen(dir.path());
    let mut cursor = tree.scan(..).unwrap();
    let (rows, error) = walk(&mut cursor, 0);
    assert!(rows <= ROWS / 2 && rows + 200 > ROWS / 2, "{rows} rows");
    assert!(matches!(error, Some(Error::Checksum { .. })), "{error:?}");
    // The scan reports the error again if repeated, and can continue after the damage.
    assert!(matches!(walk(&mut cursor, rows), (_, Some(Error::Checksum { .. }))));
    cursor.seek(&key(rows + 400));
    assert!(matches!(walk(&mut cursor, rows + 400), (ROWS, None)));
    drop(cursor);
    assert_nothing_is_held(&db);
}
