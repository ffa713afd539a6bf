//! Functions of indexes that fail, and indexes that are built when a table is opened.

use frond::Duplicate;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use frond::tuple;

use super::*;

/// An index of rows that are tuples of a city and a number.
fn by_number() -> IndexSpec {
    IndexSpec::new("by number", |_, row, out| {
        let (_city, number): (String, u32) = tuple::decode(row)?;
        out.extend(number.to_be_bytes());
        Ok(true)
    })
}

/// Whether it is the error of the index's function for row 1.
fn is_of_function<T: std::fmt::Debug>(result: frond::Result<T>) -> bool {
    match result {
        Err(ref error @ Error::IndexFunction { ref table, ref index, ref row, ref source }) => {
            let is_decoding = source.downcast_ref::<Error>();
            let is_decoding = matches!(is_decoding, Some(Error::InvalidArgument(_)));
            (&table[..], &index[..], &row[..]) == ("people", "by number", b"1")
                && is_decoding
                && error.tree() == Some("people")
                && error.key() == Some((&b"1"[..], 1))
                && error.kind() == frond::ErrorKind::FixCall
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_for_which_a_function_fails_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table(spec([city(), by_number()])).unwrap();
    let good = tuple::encode(&("Oslo", 7u32));
    let txn = begin(&db, Isolation::Snapshot);
    assert!(is_of_function(table.insert(&txn, "1", "no tuple")));
    assert!(is_of_function(table.put(&txn, "1", "no tuple")));
    assert_eq!(table.get(&txn, "1").unwrap(), None);
    table.insert(&txn, "1", &good).unwrap();
    assert!(is_of_function(table.update(&txn, "1", "no tuple")));
    // The transaction continues.
    assert_eq!(table.get(&txn, "1").unwrap(), Some(good));
    txn.commit().unwrap();
    assert_consistent(&db, &table);
}

#[test]
fn an_index_whose_function_fails_is_not_built() {
    let (_dir, db, table) = people(&[("0", ""), ("1", "no tuple")]);
    db.transact(|txn| table.put(txn, "0", tuple::encode(&("Oslo", 7u32)))).unwrap();
    assert!(is_of_function(table.build_index(by_number())));
    assert_eq!(trees(&db), ["people"]);
    // Nor if it fails for a row that is written meanwhile.
    put_all(&db, &table, &[("2", "no tuple")]);
    db.transact(|txn| table.put(txn, "1", tuple::encode(&("Rome", 8u32)))).unwrap();
    db.transact(|txn| table.delete(txn, "2")).unwrap();
    let watch = |progress| {
        if matches!(progress, BuildProgress::Loading { .. }) {
            put_all(&db, &table, &[("1", "no tuple")]);
        }
        ControlFlow::Continue(())
    };
    assert!(is_of_function(table.build_index_with(by_number(), watch)));
    assert_eq!(trees(&db), ["people"]);
    assert_consistent(&db, &table);
}

/// If a function that used to succeed fails for an existing row, reads and writes report it, and a
/// check finds it.
#[test]
fn a_function_that_fails_for_an_existing_row_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let fails = Arc::new(AtomicBool::new(false));
    let index = {
        let fails = fails.clone();
        IndexSpec::new("city", move |_, row, out| {
            out.extend_from_slice(row);
            if fails.load(Relaxed) { Err("as the test wants it".into()) } else { Ok(true) }
        })
    };
    let table = db.table(spec([index])).unwrap();
    put_all(&db, &table, &[("1", "Oslo"), ("2", "Rome")]);
    fails.store(true, Relaxed);
    let is_told = |error: Error| {
        let text = error.to_string();
        assert!(matches!(error, Error::IndexFunction { .. }), "{text}");
        assert!(
            text.contains("\"city\" of table \"people\" failed for a row: as the test"),
            "{text}"
        );
    };
    let txn = begin(&db, Isolation::Snapshot);
    is_told(table.delete(&txn, "1").unwrap_err());
    is_told(table.delete_range(&txn, ..).unwrap_err());
    is_told(table.index("city").unwrap().scan(&txn, ..).unwrap().next().unwrap_err());
    is_told(table.index("city").unwrap().scan(&db, ..).unwrap().next().unwrap_err());
    assert_eq!(table.range(&txn, ..).count(), 2);
    drop(txn);
    let report = table.check().unwrap();
    assert_eq!(
        (report.count, report.findings[0].what),
        (2, "the index's function fails for the row")
    );
    fails.store(false, Relaxed);
    assert_consistent(&db, &table);
}

#[test]
fn missing_indexes_are_built_when_the_table_is_opened() {
    let rows = [("1", "a@b,Oslo,1"), ("2", "c@d,Rome,2")];
    let (dir, db, first) = people(&rows);
    let wanted = || spec([city()]).build_missing(true);
    // Also while another handle is open, which finds the index, too.
    let table = db.table(wanted()).unwrap();
    assert_eq!(by(&table, &db, "city").len(), 2);
    assert_eq!(by(&first, &db, "city").len(), 2);
    // The indexes that are there must be as they were made, and all of them listed.
    for wrong in [spec([city().unique()]), spec([mail()])] {
        let refused = db.table(wrong.build_missing(true));
        assert!(matches!(refused, Err(Error::TableMismatch { .. })), "{refused:?}");
    }
    assert_eq!(table.indexes().len(), 1);
    drop((first, table));
    // One after the other, and an error of a build is that of the opening.
    let table = db.table(spec(all()).build_missing(true)).unwrap();
    assert_eq!(table.indexes().len(), 4);
    put_all(&db, &table, &[("3", "e@f,Rome,2")]);
    let twice = IndexSpec::new("twice", |_, row, out| {
        out.extend_from_slice(part(row, 1));
        Ok(true)
    });
    let more = || all().into_iter().chain([twice.clone().unique()]);
    let refused = db.table(spec(more()).build_missing(true));
    assert!(
        matches!(refused, Err(Error::DuplicateKey(Duplicate::InIndexBuild { .. }))),
        "{refused:?}"
    );
    assert_consistent(&db, &table);
    drop(table);
    db.close().unwrap();
    drop(db);
    // A store that is open read-only builds nothing.
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::new().read_only(true)).unwrap();
    assert!(matches!(db.table(spec(more()).build_missing(true)), Err(Error::ReadOnly)));
    assert_eq!(by(&db.table(spec(all()).build_missing(true)).unwrap(), &db, "city").len(), 3);
}

/// Handles that are opened at once share one build.
#[test]
fn threads_that_open_a_table_build_a_missing_index_once() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1")]);
    drop(table);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    match db.table(spec([city()]).build_missing(true)) {
                        Ok(table) => break assert_eq!(by(&table, &db, "city").len(), 1),
                        Err(Error::LockBusy { .. }) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!(trees(&db).len(), 2);
}
