//! Tests of tables through the public API: rows and indexes in step, indexes built concurrently
//! with writers, and the state after crashes.

mod build;
mod columns;
mod concurrency;
mod crashes;
mod delete_range;
mod functions;
mod model;
mod moves;
mod raw;
mod readers;
mod threads;

use std::{ops::ControlFlow, path::Path};

use frond::{
    Db, Durability, Error, IfLocked, IndexSpec, Isolation, Options, ReadOptions, Reader, RowLock,
    Table, TableSpec, TreeOptions, Txn, TxnOptions,
    check::CheckMode,
    layout::{Hint, Part},
    lock::TreeLock,
    table::BuildProgress,
    table::{Column, ColumnChange},
    transaction::{Sees, Xid},
};

type Rows = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

/// A row is a text of parts separated by commas: mail (may be empty), city, number.
fn part(row: &[u8], number: usize) -> &[u8] {
    row.split(|byte| *byte == b',').nth(number).unwrap_or_default()
}

/// A unique index; rows without a mail have no entry.
fn mail() -> IndexSpec {
    let extract = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(part(row, 0));
        Ok(!out.is_empty())
    };
    IndexSpec::new("mail", extract).unique()
}

fn city() -> IndexSpec {
    IndexSpec::new("city", |_, row, out| {
        out.extend_from_slice(part(row, 1));
        Ok(true)
    })
}

/// An index that carries the row, of rows whose number is not "0" only.
fn number() -> IndexSpec {
    let extract = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(part(row, 2));
        Ok(out != b"0")
    };
    IndexSpec::new("number", extract).clustering()
}

/// A unique index that carries the row.
fn mail_and_row() -> IndexSpec {
    let extract = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(part(row, 0));
        Ok(!out.is_empty())
    };
    IndexSpec::new("mail and row", extract).unique().clustering()
}

fn all() -> [IndexSpec; 4] {
    [mail(), city(), number(), mail_and_row()]
}

fn spec(indexes: impl IntoIterator<Item = IndexSpec>) -> TableSpec {
    indexes.into_iter().fold(TableSpec::new("people"), TableSpec::index)
}

fn open(dir: &Path) -> Db {
    let options = Options::new().cache_size(32 << 20).durability(Durability::Lazy);
    Db::open(dir.join("store"), options).unwrap()
}

/// A store with a table without indexes.
fn people(rows: &[(&str, &str)]) -> (tempfile::TempDir, Db, Table) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table(TableSpec::new("people")).unwrap();
    put_all(&db, &table, rows);
    (dir, db, table)
}

fn put_all(db: &Db, table: &Table, rows: &[(&str, &str)]) {
    db.transact(|txn| {
        rows.iter()
            .try_for_each(|(key, row)| table.put(txn, key.as_bytes(), row.as_bytes()).map(drop))
    })
    .unwrap();
}

fn begin(db: &Db, isolation: Isolation) -> Txn {
    let lock_timeout = Some(std::time::Duration::from_millis(20));
    db.begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout)).unwrap()
}

/// Locks rows, and skips those that others have locked.
fn skipping(lock: RowLock) -> ReadOptions<'static> {
    ReadOptions::new().lock(lock).if_locked(IfLocked::SkipLocked)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The extracted part, key and row of all rows of an index, read in both directions.
fn by(table: &Table, reader: &impl Reader, index: &str) -> Vec<(String, String, String)> {
    let mut scan = table.index(index).unwrap().scan(reader, ..).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next().unwrap() {
        rows.push((text(row.extracted), text(row.key), text(row.row)));
    }
    scan.seek_last();
    let mut back = Vec::new();
    while let Some(row) = scan.prev().unwrap() {
        back.push((text(row.extracted), text(row.key), text(row.row)));
    }
    back.reverse();
    assert_eq!(rows, back, "both ways");
    rows
}

/// The names of all trees; a tree that belongs to a build counts as "of a build".
fn trees(db: &Db) -> Vec<String> {
    let mut names: Vec<String> = db.trees().into_iter().map(|tree| tree.name).collect();
    let all = db.stats().trees as usize;
    names.resize(all, "of a build".into());
    names
}

fn assert_consistent(db: &Db, table: &Table) {
    let report = table.check().unwrap();
    assert!(report.is_clean(), "{report:?}");
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn table_definitions_must_match_the_stored_ones() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    drop(db.table(spec([mail(), city()])).unwrap());
    for (wrong, what) in [
        (spec([mail()]), "which the definition lacks"),
        (spec([mail(), city(), number()]), "build_index"),
        (spec([mail(), city().unique()]), "is plain, and unique in the definition"),
        (spec([mail().clustering(), city()]), "is unique, and unique and clustering"),
    ] {
        for is_open in [false, true] {
            let _open = is_open.then(|| db.table(spec([city(), mail()])).unwrap());
            match db.table(wrong.clone()) {
                Err(Error::TableMismatch { why, .. }) => assert!(why.contains(what), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(matches!(db.table(spec([mail(), mail()])), Err(Error::InvalidArgument(_))));
    db.create_tree("plain", TreeOptions::default()).unwrap();
    assert!(matches!(db.table(TableSpec::new("plain")), Err(Error::TableMismatch { .. })));
    // A clone of the rows is not a table: it would share the indexes.
    db.clone_tree("people", "copy").unwrap();
    assert!(matches!(db.table(TableSpec::new("copy")), Err(Error::TableMismatch { .. })));
    db.drop_tree("copy").unwrap();
    // After a rename of its tree it is still this table.
    db.rename_tree("people", "persons").unwrap();
    let persons = TableSpec::new("persons").index(mail()).index(city());
    let table = db.table(persons).unwrap();
    let names: Vec<_> = table.indexes().into_iter().map(|index| index.name).collect();
    assert_eq!((names, table.name()), (vec!["mail".into(), "city".into()], "persons".into()));
    // A new table of the old name has trees of its own.
    let other = db.table(spec([mail()])).unwrap();
    put_all(&db, &other, &[("1", "a@b,Oslo,1")]);
    assert_eq!(by(&table, &begin(&db, Isolation::Snapshot), "mail"), []);
    assert_consistent(&db, &other);
}

#[test]
fn a_dropped_table_is_gone_and_its_name_is_free() {
    let (_dir, db, table) = people(&[]);
    drop(table);
    db.drop_table("people").unwrap();
    assert_eq!(trees(&db), [""; 0]);
    let table = db.table(spec(all())).unwrap();
    put_all(&db, &table, &[("1", "a@b,Oslo,1"), ("2", ",Rome,0")]);
    let index = table.index("city").unwrap();
    // Another transaction has locked rows of the table.
    let txn = begin(&db, Isolation::Snapshot);
    table.put(&txn, b"3", b",Paris,1").unwrap();
    let waits = std::thread::scope(|scope| {
        let dropping = scope.spawn(|| table.drop_index("city"));
        while db.lock_waits().is_empty() {
            std::thread::yield_now();
        }
        txn.commit().unwrap();
        dropping.join().unwrap()
    });
    waits.unwrap();
    assert_eq!(trees(&db).len(), 4);
    let txn = begin(&db, Isolation::Snapshot);
    assert!(matches!(index.scan(&txn, ..), Err(Error::NoSuchTree(_))));
    assert!(matches!(table.index("city"), Err(Error::TableMismatch { .. })));
    assert!(matches!(table.drop_index("city"), Err(Error::TableMismatch { .. })));
    drop(txn);
    put_all(&db, &table, &[("1", "a@b,Rome,1"), ("4", ",Rome,0")]);
    assert_consistent(&db, &table);
    // Without a handle, too.
    drop((table, index));
    db.drop_index("people", "mail").unwrap();
    let table = db.table(spec([number(), mail_and_row()])).unwrap();
    put_all(&db, &table, &[("1", "c@d,Rome,1")]);
    assert_consistent(&db, &table);
    table.build_index(mail()).unwrap();
    assert_eq!(by(&table, &begin(&db, Isolation::Snapshot), "mail").len(), 1);
    db.drop_table("people").unwrap();
    assert_eq!(trees(&db), [""; 0]);
    let txn = begin(&db, Isolation::Snapshot);
    assert!(matches!(table.put(&txn, b"1", b""), Err(Error::NoSuchTree(_))));
    assert!(matches!(table.build_index(city()), Err(Error::NoSuchTree(_))));
}

#[test]
fn locking_reads_lock_the_row_and_its_index_entry() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2"), ("3", ",Rome,3")]);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let (txn, other) = (begin(&db, level), begin(&db, level));
        let mails = table.index("mail").unwrap();
        let (key, row) = mails.get_for_update(&txn, b"a@b").unwrap().unwrap();
        assert_eq!((text(&key), text(&row)), ("1".into(), "a@b,Oslo,1".into()));
        assert!(matches!(table.put(&other, b"1", b""), Err(Error::LockTimeout { .. })));
        let shared = ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait);
        let busy = mails.get_with(&other, b"a@b", &shared);
        assert!(matches!(busy, Err(Error::LockBusy { .. })), "{busy:?}");
        // An absent key is locked, too.
        assert_eq!(mails.get_for_update(&txn, b"x@y").unwrap(), None);
        assert!(matches!(table.insert(&other, b"4", b"x@y,,"), Err(Error::LockTimeout { .. })));
        // Readers of a queue skip each other's rows.
        let cities = table.index("city").unwrap();
        let skip = |txn| cities.scan_with(txn, .., &skipping(RowLock::Exclusive)).unwrap();
        let (mut one, mut two) = (skip(&txn), skip(&other));
        assert_eq!(one.next().unwrap().unwrap().key, b"1");
        assert_eq!(two.next().unwrap().unwrap().key, b"2");
        assert_eq!(one.next().unwrap().unwrap().key, b"3");
        assert_eq!((one.next().unwrap(), two.next().unwrap()), (None, None));
    }
    let txn = begin(&db, Isolation::Snapshot);
    let not_unique = table.index("city").unwrap().get(&txn, b"Oslo");
    assert!(matches!(not_unique, Err(Error::InvalidArgument(_))), "{not_unique:?}");
    // The options that an index read does not have are refused, rather than ignored.
    for options in [
        ReadOptions::new().sees(Sees::Newest),
        ReadOptions::new().lock(RowLock::Shared).with_last(true),
    ] {
        let mails = table.index("mail").unwrap();
        let refused = mails.get_with(&txn, b"a@b", &options).map(drop);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
        let refused = mails.scan_with(&txn, .., &options).map(drop);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    drop(txn);
    assert_consistent(&db, &table);
}

/// A scan that skips locked rows waits if a transaction has locked the whole tree; it does not
/// report all rows as missing.
#[test]
fn a_skipping_scan_waits_for_an_exclusive_tree_lock() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2")]);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    let rows = db.open_tree("people").unwrap();
    for (level, lock) in [
        (Isolation::ReadCommitted, RowLock::Exclusive),
        (Isolation::RepeatableRead, RowLock::Exclusive),
        (Isolation::Serializable, RowLock::Shared),
    ] {
        let one = begin(&db, level);
        one.lock_tree(&rows, TreeLock::Exclusive, IfLocked::Wait).unwrap();
        let two = begin(&db, level);
        let cities = table.index("city").unwrap();
        let mut scan = cities.scan_with(&two, .., &skipping(lock)).unwrap();
        let met = scan.next();
        assert!(matches!(met, Err(Error::LockTimeout { .. })), "{level:?}: {met:?}");
        drop(scan);
        two.rollback();
        one.rollback();
        let two = begin(&db, level);
        let mut scan = cities.scan_with(&two, .., &skipping(lock)).unwrap();
        assert_eq!(scan.next().unwrap().unwrap().key, b"1");
        assert_eq!(scan.next().unwrap().unwrap().key, b"2");
        assert_eq!(scan.next().unwrap(), None);
    }
}

/// A row that was changed since its entry was read is not returned as if it still matched.
#[test]
fn index_entries_are_rechecked_against_their_row() {
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot] {
        let (_dir, db, table) = people(&[("1", ",Oslo,1"), ("2", ",Oslo,2"), ("3", ",Oslo,3")]);
        all().into_iter().for_each(|index| table.build_index(index).unwrap());
        let txn = begin(&db, level);
        let cities = table.index("city").unwrap();
        let mut scan = cities.scan(&txn, ..).unwrap();
        assert_eq!(scan.next().unwrap().unwrap().key, b"1");
        put_all(&db, &table, &[("2", ",Rome,2")]);
        db.transact(|txn| table.delete(txn, b"3").map(drop)).unwrap();
        let mut found = Vec::new();
        while let Some(row) = scan.next().unwrap() {
            found.push(text(row.row));
        }
        match level {
            Isolation::ReadCommitted => assert_eq!(found, [""; 0]),
            _ => assert_eq!(found, [",Oslo,2", ",Oslo,3"], "{level:?}"),
        }
        drop(scan);
        if level == Isolation::RepeatableRead {
            // It writes over the newest row, after its snapshot showed an older one.
            assert!(table.put(&txn, b"2", b",Paris,2").unwrap());
            assert!(!table.delete(&txn, b"3").unwrap());
            let found: Vec<_> = by(&table, &txn, "city").into_iter().map(|row| row.2).collect();
            assert_eq!(found, [",Oslo,1", ",Oslo,3", ",Paris,2"]);
            txn.commit().unwrap();
        } else {
            drop(txn);
        }
        assert_consistent(&db, &table);
    }
}

/// At repeatable read a transaction writes over the newest row, while its snapshot's entries are of
/// older rows: each row that it has written is found once, in its new form.
#[test]
fn index_reads_return_own_writes_over_newer_rows_once() {
    let rows = [("1", "a,Oslo,1"), ("2", "b,Oslo,2"), ("3", "c,Oslo,3"), ("4", "d,Oslo,4")];
    let (_dir, db, table) = people(&rows);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    let txn = begin(&db, Isolation::RepeatableRead);
    assert!(table.get(&txn, b"1").unwrap().is_some());
    put_all(&db, &table, &[("1", "aa,Rome,11"), ("2", "bb,Rome,12"), ("3", "cc,Rome,13")]);
    // One entry moves to a new value, one to the value that the newest row has already, and one
    // goes.
    for (key, row) in [(b"1", &b"aaa,Paris,21"[..]), (b"2", b"bb,Rome,22"), (b"4", b"d,Oslo,5")] {
        assert!(table.put(&txn, key, row).unwrap());
    }
    assert!(table.delete(&txn, b"3").unwrap());
    for index in ["mail", "city", "number", "mail and row"] {
        let mut found: Vec<_> = by(&table, &txn, index).into_iter().map(|row| row.2).collect();
        found.sort_unstable();
        assert_eq!(found, ["aaa,Paris,21", "bb,Rome,22", "d,Oslo,5"], "{index}");
    }
    for (mail, is_there) in [("a", false), ("bb", true), ("cc", false), ("aaa", true), ("d", true)]
    {
        for index in ["mail", "mail and row"] {
            let found = table.index(index).unwrap().get(&txn, mail.as_bytes()).unwrap();
            assert_eq!(found.is_some(), is_there, "{index}: {mail}");
        }
    }
    txn.commit().unwrap();
    assert_consistent(&db, &table);
}

/// At repeatable read a transaction writes a unique entry for a row that is newer than its
/// snapshot, where the snapshot shows another row's entry: both rows are found, or only the other
/// one once the first is deleted again.
#[test]
fn a_unique_index_shows_rows_hidden_by_own_entries() {
    let (_dir, db, table) = people(&[("1", "a,Oslo,1"), ("2", "b,Oslo,2"), ("3", "c,Oslo,3")]);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    let txn = begin(&db, Isolation::RepeatableRead);
    assert!(table.get(&txn, b"1").unwrap().is_some());
    put_all(&db, &table, &[("2", "bb,Oslo,2"), ("3", "cc,Oslo,3")]);
    let found = |index: &str| -> Vec<String> {
        by(&table, &txn, index).into_iter().map(|(_, key, row)| key + ":" + &row).collect()
    };
    assert!(table.put(&txn, b"1", b"b,Rome,1").unwrap());
    for index in ["mail", "mail and row"] {
        assert_eq!(found(index), ["1:b,Rome,1", "2:b,Oslo,2", "3:c,Oslo,3"], "{index}");
        let mail = table.index(index).unwrap();
        let found = |text: &[u8]| mail.get(&txn, text).unwrap().map(|(key, _)| key);
        let keys = [b"a", b"b", b"c"].map(|text| found(text));
        assert_eq!(keys, [None, Some(b"1".to_vec()), Some(b"3".to_vec())]);
        // From any position, and in both directions.
        let mut scan = mail.scan(&txn, &b"b"[..]..).unwrap();
        assert_eq!(scan.next().unwrap().unwrap().key, b"1");
        assert_eq!(scan.next().unwrap().unwrap().key, b"2");
        assert_eq!(scan.next().unwrap().unwrap().key, b"3");
        assert_eq!(scan.next().unwrap(), None);
        assert_eq!(scan.prev().unwrap().unwrap().key, b"3");
        scan.seek(b"c");
        assert_eq!(scan.prev().unwrap().unwrap().extracted, b"b");
    }
    assert!(table.delete(&txn, b"1").unwrap());
    for index in ["mail", "mail and row"] {
        assert_eq!(found(index), ["2:b,Oslo,2", "3:c,Oslo,3"], "{index}");
        let (key, row) = table.index(index).unwrap().get(&txn, b"b").unwrap().unwrap();
        assert_eq!((text(&key), text(&row)), ("2".into(), "b,Oslo,2".into()));
    }
    txn.commit().unwrap();
    assert_consistent(&db, &table);
}
