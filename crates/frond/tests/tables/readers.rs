//! Reads through the store, a snapshot and a transaction.

use super::*;

/// All reads of a table, as one list.
fn all_reads(table: &Table, reader: &impl Reader) -> Vec<String> {
    let mut found = Vec::new();
    let mut push = |what: &str, row: &[u8]| found.push(format!("{what} {}", text(row)));
    let get = |key: &str| table.get(reader, key).unwrap().unwrap_or_default();
    push("get", &get("1"));
    push("get", &get("2"));
    for row in table.get_many(reader, &["2", "1"]).unwrap() {
        push("get_many", &row.unwrap_or_default());
    }
    for row in table.range(reader, "1"..) {
        push("range", &row.unwrap().1);
    }
    for index in ["mail", "city", "number", "mail and row"] {
        let index_of = table.index(index).unwrap();
        for row in index_of.range(reader, ..) {
            push(index, &row.unwrap().1);
        }
        let mut scan = index_of.scan(reader, ..).unwrap();
        scan.seek_last();
        while let Some(row) = scan.prev().unwrap() {
            push(index, row.row);
        }
        if index.starts_with("mail") {
            push("by mail", &index_of.get(reader, "a@b").unwrap().unwrap_or_default().1);
        }
    }
    found
}

#[test]
fn all_readers_show_the_same_committed_rows() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1"), ("2", ",Rome,0")]);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    let (then, txn) = (db.snapshot(), begin(&db, Isolation::Snapshot));
    let before = all_reads(&table, &db);
    assert_eq!(before.len(), 18, "{before:?}");
    assert_eq!(all_reads(&table, &txn), before);
    put_all(&db, &table, &[("1", "c@d,Bonn,3"), ("2", "a@b,Bonn,4")]);
    assert_eq!(all_reads(&table, &txn), before);
    assert_eq!(all_reads(&table, &then), before);
    let after = all_reads(&table, &db);
    assert_ne!(after, before);
    assert_eq!(all_reads(&table, &begin(&db, Isolation::ReadCommitted)), after);
}

/// Errors are those of transactions: a snapshot from before an index does not show it, and a
/// dropped index is gone for new readers only.
#[test]
fn a_snapshot_shows_the_indexes_of_its_moment() {
    let (_dir, db, table) = people(&[("1", "a@b,Oslo,1")]);
    let before = db.snapshot();
    table.build_index(mail()).unwrap();
    let (then, index) = (db.snapshot(), table.index("mail").unwrap());
    let refused = index.get(&before, "a@b").unwrap_err();
    assert!(
        matches!(&refused, Error::DefinitionChanged(name) if name == "index mail of table people")
    );
    assert!(matches!(index.scan(&before, ..), Err(Error::DefinitionChanged(_))));
    let refused = index.range(&before, ..).collect::<Vec<_>>();
    assert!(matches!(&refused[..], [Err(Error::DefinitionChanged(_))]), "{refused:?}");
    table.drop_index("mail").unwrap();
    assert!(index.get(&then, "a@b").unwrap().is_some());
    let gone = index.get(&db, "a@b").unwrap_err();
    assert!(
        matches!(&gone, Error::NoSuchTree(name) if name == "index mail of table people"),
        "{gone}"
    );
}

#[test]
fn a_reader_of_another_store_is_refused() {
    let (_dir, _db, table) = people(&[("1", "a@b,Oslo,1")]);
    table.build_index(mail()).unwrap();
    let (_other_dir, other, _table) = people(&[]);
    let is_refused = |error: Error| assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    is_refused(table.get(&other, "1").unwrap_err());
    is_refused(table.get_many(&other, &["1"]).unwrap_err());
    is_refused(table.scan(&other, ..).unwrap_err());
    is_refused(table.range(&other, ..).next().unwrap().unwrap_err());
    is_refused(table.get(&other.snapshot(), "1").unwrap_err());
    is_refused(table.index("mail").unwrap().get(&other, "a@b").unwrap_err());
    is_refused(table.index("mail").unwrap().scan(&other, ..).unwrap_err());
    is_refused(table.get(&begin(&other, Isolation::Snapshot), "1").unwrap_err());
}
