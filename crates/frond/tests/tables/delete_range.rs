//! Deleting ranges of rows with their index entries.

use std::sync::{Mutex, mpsc};

use frond_testkit::DbEngine;

use super::*;

fn key(number: u32) -> String {
    format!("{number:04}")
}

/// A store whose transactions spill after some hundred writes, and a table with an index of each
/// kind and this many rows.
fn many(rows: u32) -> (tempfile::TempDir, Db, Table) {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = DbEngine::tiny(Durability::Lazy);
    if let Some(limits) = &mut engine.tuning.limits {
        limits.own_writes_bytes = 10_000;
    }
    let options = Options::new().cache_size(engine.cache_bytes).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options.tuning(engine.tuning)).unwrap();
    let table = db.table(spec(all())).unwrap();
    for some in (0..rows).collect::<Vec<_>>().chunks(500) {
        db.transact(|txn| {
            some.iter().try_for_each(|row| {
                table.insert(txn, key(*row), format!("{row}@b,city {},{}", row % 7, row % 3))
            })
        })
        .unwrap();
    }
    (dir, db, table)
}

/// More than fits into the memory of a transaction. Rule: I32.
#[test]
fn deleting_a_range_keeps_indexes_in_step_over_spills() {
    let rows = 3000;
    let (_dir, db, table) = many(rows);
    let txn = begin(&db, Isolation::RepeatableRead);
    assert_eq!(table.delete_range(&txn, key(1)..=key(rows - 2)).unwrap(), u64::from(rows - 2));
    assert_eq!(by(&table, &txn, "mail").len(), 2);
    // No other transaction can insert into the range.
    let other = begin(&db, Isolation::ReadCommitted);
    let waits = table.insert(&other, format!("{}new", key(7)), "new@b,Oslo,1");
    assert!(matches!(waits, Err(Error::LockTimeout { .. })), "{waits:?}");
    other.rollback();
    txn.commit().unwrap();
    for index in table.indexes() {
        // Row 0 is not in the index of numbers.
        let left = if index.name == "number" { 1 } else { 2 };
        assert_eq!(by(&table, &db, &index.name).len(), left, "{}", index.name);
        let count = db.open_tree(&index.tree).unwrap().row_count().unwrap();
        assert_eq!((count.rows, count.exact), (left as u64, true), "{}", index.name);
    }
    assert_eq!(table.rows().row_count().unwrap(), frond::RowCount { rows: 2, exact: true });
    assert_consistent(&db, &table);
}

#[test]
fn deleting_an_inverted_or_empty_range_deletes_nothing() {
    let (_dir, db, table) = many(10);
    let txn = begin(&db, Isolation::Snapshot);
    assert_eq!(table.delete_range(&txn, key(3)..key(3)).unwrap(), 0);
    assert_eq!(table.delete_range(&txn, "x".."y").unwrap(), 0);
    let inverted = table.delete_range(&txn, key(4)..key(3));
    assert!(matches!(inverted, Err(Error::InvalidArgument(_))), "{inverted:?}");
    let read_only = TxnOptions::new().read_only(true);
    let refused = table.delete_range(&db.begin(read_only).unwrap(), ..);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert_eq!(table.range(&txn, ..).count(), 10);
}

/// Cursors of a statement do not show what it has written: the entries that are deleted are those
/// of the rows as they are now.
#[test]
fn a_statement_that_changed_rows_deletes_their_current_entries() {
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot] {
        let (_dir, db, table) = many(10);
        let txn = begin(&db, level);
        table.insert(&txn, key(20), "20@b,Oslo,1").unwrap();
        txn.statement().begin().unwrap();
        table.update(&txn, key(2), "new@b,Rome,2").unwrap();
        table.update(&txn, key(20), "newer@b,Rome,2").unwrap();
        table.delete(&txn, key(3)).unwrap();
        table.insert(&txn, key(30), "30@b,Oslo,1").unwrap();
        // Row 3 is gone already, and row 30 is of this statement.
        assert_eq!(table.delete_range(&txn, key(2)..).unwrap(), 8);
        txn.commit().unwrap();
        let left: Vec<_> = by(&table, &db, "mail").into_iter().map(|row| row.0).collect();
        assert_eq!(left, ["0@b", "1@b", "30@b"], "{level:?}");
        assert_consistent(&db, &table);
    }
}

/// A call that fails has deleted nothing, and the transaction continues.
#[test]
fn a_range_with_a_locked_row_is_not_deleted() {
    let (_dir, db, table) = many(600);
    let other = begin(&db, Isolation::ReadCommitted);
    table.get_for_update(&other, key(590)).unwrap();
    let txn = begin(&db, Isolation::ReadCommitted);
    let refused = table.delete_range(&txn, ..);
    assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    assert_eq!(table.range(&txn, ..).count(), 600);
    other.rollback();
    assert_eq!(table.delete_range(&txn, ..).unwrap(), 600);
    txn.commit().unwrap();
    assert_eq!(table.range(&db, ..).count(), 0);
    assert_consistent(&db, &table);
}

/// A call that waits for the table while an index is published deletes the entries of that index,
/// too.
#[test]
fn deleting_a_range_uses_the_definition_under_its_locks() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2")]);
    let (has_table, table_is_held) = mpsc::channel();
    let (goes_on, may_go_on) = mpsc::channel();
    let ends = Mutex::new(Some((has_table, may_go_on)));
    // The late row is seen only while the build holds the table.
    let index = IndexSpec::new("mail", move |_, row, out| {
        out.extend_from_slice(part(row, 0));
        if out == b"late@d"
            && let Some((has_table, may_go_on)) = ends.lock().unwrap().take()
        {
            has_table.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
        Ok(true)
    });
    std::thread::scope(|scope| {
        let (db, table) = (&db, &table);
        scope.spawn(move || {
            let watch = |progress| {
                if matches!(progress, BuildProgress::CatchingUp { round: 1, .. }) {
                    put_all(db, table, &[("2", "late@d,Oslo,2")]);
                }
                ControlFlow::Continue(())
            };
            table.build_index_with(index, watch).unwrap();
        });
        table_is_held.recv().unwrap();
        scope.spawn(move || {
            while db.lock_waits().is_empty() {
                std::thread::yield_now();
            }
            goes_on.send(()).unwrap();
        });
        assert_eq!(db.transact(|txn| table.delete_range(txn, ..)).unwrap(), 2);
    });
    assert_eq!(by(&table, &db, "mail"), []);
    assert_consistent(&db, &table);
}
