//! Readers by an index that is repeatedly built and dropped, of a table that writers change.

use super::*;
use frond::{IndexSpec, ReadOptions, RowLock, Table, TableSpec, Txn};
use frond_testkit::effort;

/// Rows that stay. Other rows come and go with greater keys.
const ROWS: u8 = 50;
const NAME: &str = "index city of table people";

fn spec(kind: u64) -> IndexSpec {
    let is_unique = kind == 2;
    let spec = IndexSpec::new("city", move |key, row, out| {
        out.push(if is_unique { key[0] } else { row[0] });
        Ok(true)
    });
    match kind {
        0 => spec,
        1 => spec.clustering(),
        _ => spec.unique(),
    }
}

/// How many of the rows that stay the index shows, and how many the table shows, in one
/// transaction.
fn seen(txn: &Txn, table: &Table, locks: bool) -> Result<(usize, usize)> {
    let index = match table.index("city") {
        Ok(index) => index,
        // Not built yet, or dropped.
        Err(Error::TableMismatch { .. }) => return Ok((ROWS.into(), ROWS.into())),
        Err(error) => return Err(error),
    };
    let options = ReadOptions::new().lock(locks.then_some(RowLock::Shared));
    let mut scan = index.scan_with(txn, .., &options)?;
    let (mut by_index, mut rows) = (0, 0);
    while let Some(row) = scan.next()? {
        by_index += usize::from(row.key[0] < ROWS);
    }
    let mut scan = table.scan(txn, ..)?;
    while let Some((key, _)) = scan.next()? {
        rows += usize::from(key[0] < ROWS);
    }
    Ok((by_index, rows))
}

/// Rules: I34, I43.
#[test]
fn scans_of_an_index_created_and_dropped_see_all_rows_or_an_error() {
    for kind in effort::seeds(1).flat_map(|_| 0..3) {
        let (_dir, db) = store();
        let table = db.table(TableSpec::new("people")).unwrap();
        let put =
            |txn: &Txn| (0..ROWS).try_for_each(|row| table.insert(txn, [row], [row % 7, row, 1]));
        db.transact(put).unwrap();
        let read = |round: u64| {
            let (isolation, read_only) =
                (LEVELS[(round / 2 % 4) as usize], round.is_multiple_of(2));
            let txn =
                db.begin(TxnOptions::new().isolation(isolation).read_only(read_only)).unwrap();
            if round.is_multiple_of(3) {
                // The first read makes its snapshot older than what comes next.
                table.get(&txn, [1]).unwrap_or_else(|error| {
                    assert!(is_retry(&error), "{error}");
                    None
                });
            }
            for _ in 0..3 {
                match seen(&txn, &table, !read_only && round.is_multiple_of(5)) {
                    Ok(seen) => assert_eq!(seen, (ROWS.into(), ROWS.into()), "{isolation:?}"),
                    Err(error) => {
                        assert!(
                            is_gone(&error, NAME) || is_retry(&error),
                            "{isolation:?}: {error}"
                        );
                    }
                }
            }
        };
        let write = |round: u64| {
            let key = [ROWS + (round % 100) as u8];
            let written = db.transact(|txn| match round % 3 {
                0 => table.delete(txn, key).map(drop),
                _ => table.put(txn, key, [round as u8 % 7, 3]).map(drop),
            });
            written.unwrap_or_else(|error| assert!(is_retry(&error), "{error}"));
        };
        let changes = |turns: &dyn Fn()| {
            for _ in 0..8 {
                table.build_index(spec(kind)).unwrap();
                turns();
                while let Err(error) = table.drop_index("city") {
                    assert!(matches!(error, Error::LockTimeout { .. }), "{error}");
                }
            }
        };
        run_concurrently(&db, changes, &[&read, &read, &read, &write]);
        table.build_index(spec(kind)).unwrap();
        assert!(table.check().unwrap().is_clean());
        assert_clean(&db);
        drop(table);
        db.close().unwrap();
    }
}
