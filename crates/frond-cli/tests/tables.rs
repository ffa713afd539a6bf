//! The command on stores with tables, whose indexes only the program that defines them knows.

mod common;

use common::Place;
use frond::{
    Db, IndexSpec, Options, TableSpec,
    layout::{Hint, Part},
    table::{Column, ColumnChange},
};

fn users() -> TableSpec {
    TableSpec::new("users").index(IndexSpec::new("all", |_, row, out| {
        out.extend_from_slice(row);
        Ok(true)
    }))
}

/// A store with a table of two rows, after a tree that was dropped.
fn with_table() -> Place {
    let place = Place::new();
    let db = Db::open(place.path("store"), Options::new()).expect("a store");
    db.create_tree("first", Default::default()).expect("a tree");
    let table = db.table(users()).expect("a table");
    let rows = [("k1", "row1"), ("k2", "row2")];
    db.transact(|txn| rows.iter().try_for_each(|(key, row)| table.put(txn, key, row).map(drop)))
        .expect("rows");
    db.drop_tree("first").expect("dropped");
    drop(table);
    db.close().expect("closed");
    place
}

#[test]
fn tables_are_read_and_not_written() {
    let place = with_table();
    let index = "users/all#2.0";
    assert_eq!(place.ok(&["get", "STORE", "users", "k1"]), "row1\n");
    assert_eq!(place.ok(&["scan", "STORE", index, "--count"]), "2\n");
    for words in [&["put", "STORE", "users", "k3", "row3"][..], &["delete", "STORE", "users", "k1"]]
    {
        assert_eq!(
            place.fails(2, words),
            "\"users\" is a table: only the program that defines its indexes can change its rows"
        );
    }
    for words in [
        &["put", "STORE", index, "k", "v"][..],
        &["delete", "STORE", index, "k"],
        &["drop", "STORE", index],
    ] {
        assert_eq!(
            place.fails(2, words),
            format!(
                "\"{index}\" is an index of table \"users\": only the program that defines it can change it"
            )
        );
    }
    assert_eq!(
        place.fails(2, &["scan", "STORE", "users", "--by", "all"]),
        "\"users\" is a table, whose indexes only the program that defines them can read"
    );
    let file = place.write("users.csv", "id,v\n1,a\n");
    place.fails(2, &["load", "STORE", "users", &file, "--key", "id"]);
    assert_eq!(place.ok(&["drop", "STORE", "users"]), "dropped \"users\" and its index\n");
    assert_eq!(place.ok(&["trees", "STORE", "--json"]), "");
}

#[test]
fn a_dump_keeps_tables() {
    let place = with_table();
    let dump = place.write("dump", place.ok(&["dump", "STORE"]));
    let copy = place.path("copy");
    let copied = copy.display().to_string();
    assert_eq!(place.ok(&["load", &copied, "--dump", &dump]), "4 entries in 2 trees\n");
    let db = Db::open(&copy, Options::new().create(false)).expect("a store");
    let table = db.table(users()).expect("a table");
    assert!(table.check().expect("checked").is_clean());
    db.transact(|txn| table.put(txn, "k3", "row3")).expect("a row");
    assert_eq!(table.index("all").expect("an index").range(&db, ..).count(), 3);
    assert!(table.check().expect("checked").is_clean());
    drop(table);
    db.close().expect("closed");
    // The tree of the rows alone is a tree.
    let rows = place.write("rows", place.ok(&["dump", "STORE", "users"]));
    let alone = place.path("alone").display().to_string();
    assert_eq!(place.ok(&["load", &alone, "--dump", &rows]), "2 entries in 1 tree\n");
    place.ok(&["put", &alone, "users", "k3", "row3"]);
}

/// Tables in a snapshot, whose columns have changed since, or which were dropped.
#[test]
fn a_dump_of_a_snapshot_has_its_tables() {
    let place = with_table();
    let age = Column::new("age", Part::Fixed(1, Hint::Integer));
    let spec = || TableSpec::new("people").columns(vec![age.clone()]);
    let change = |what: &dyn Fn(&Db)| {
        let db = Db::open(place.path("store"), Options::new()).expect("a store");
        what(&db);
        db.close().expect("closed");
    };
    change(&|db| {
        let people = db.table(spec()).expect("a table");
        db.transact(|txn| people.put(txn, "ada", [0, 0, 36]).map(drop)).expect("a row");
    });
    let then = place.ok(&["dump", "STORE"]);
    place.ok(&["snapshot", "create", "STORE", "s"]);
    change(&|db| {
        let column = Column::new("shoe", Part::Fixed(1, Hint::Integer));
        let added = ColumnChange::Add { column, default: vec![7], at: None };
        let people = db.table(spec()).expect("a table");
        let people = people.change_columns(&[added], vec![]).expect("changed");
        db.transact(|txn| people.put(txn, "bob", [0, 1, 20, 9]).map(drop)).expect("a row");
        db.drop_table("users").expect("dropped");
    });
    let dump = place.ok(&["dump", "STORE", "--snapshot", "s"]);
    assert_eq!(dump, then);
    let (dump, copy) = (place.write("dump", dump), place.path("copy"));
    let copied = copy.display().to_string();
    assert_eq!(place.ok(&["load", &copied, "--dump", &dump]), "5 entries in 3 trees\n");
    let db = Db::open(&copy, Options::new().create(false)).expect("a store");
    for spec in [users(), spec()] {
        let table = db.table(spec).expect("a table");
        assert!(table.check().expect("checked").is_clean());
    }
    let people = db.open_tree("people").expect("a tree");
    assert_eq!(people.get("ada").expect("read"), Some(vec![0, 0, 36]));
    drop(people);
    db.close().expect("closed");
}

/// Rows, and those in entries of a clustering index, that are older than a change of the columns.
#[test]
fn a_dump_keeps_rows_of_older_columns() {
    let by_age = || {
        IndexSpec::new("by_age", |_, row, out| {
            out.push(row[row.len() - 1]);
            Ok(true)
        })
        .clustering()
    };
    let age = Column::new("age", Part::Fixed(1, Hint::Integer));
    let spec = || TableSpec::new("people").index(by_age());
    let place = Place::new();
    let db = Db::open(place.path("store"), Options::new()).expect("a store");
    let people = db.table(spec().columns(vec![age.clone()])).expect("a table");
    db.transact(|txn| people.put(txn, "ada", [0, 0, 36]).map(drop)).expect("a row");
    let born = |name: &str, default: u8| ColumnChange::Add {
        column: Column::new(name, Part::Fixed(1, Hint::Integer)),
        default: vec![default],
        at: Some(0),
    };
    let people = people.change_columns(&[born("shoe", 7)], vec![by_age()]).expect("changed");
    db.transact(|txn| people.put(txn, "bob", [0, 1, 9, 20]).map(drop)).expect("a row");
    drop(people);
    db.close().expect("closed");

    let text = place.ok(&["dump", "STORE"]);
    let dump = place.write("dump", &text);
    let copy = place.path("copy");
    let copied = copy.display().to_string();
    assert_eq!(place.ok(&["load", &copied, "--dump", &dump]), "4 entries in 2 trees\n");
    let db = Db::open(&copy, Options::new().create(false)).expect("a store");
    let shoe = Column::new("shoe", Part::Fixed(1, Hint::Integer));
    let people = db.table(spec().columns(vec![shoe, age])).expect("a table");
    assert!(people.check().expect("checked").is_clean());
    let rows: Vec<_> = people
        .index("by_age")
        .expect("an index")
        .range(&db, ..)
        .map(|row| row.expect("read"))
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(people.rows().get("ada").expect("read"), Some(vec![0, 1, 7, 36]));
    let people = people.change_columns(&[born("hat", 1)], vec![by_age()]).expect("changed");
    assert_eq!(people.rows().get("bob").expect("read"), Some(vec![0, 2, 1, 9, 20]));
    db.transact(|txn| people.put(txn, "cid", [0, 2, 1, 9, 21]).map(drop)).expect("a row");
    assert!(people.check().expect("checked").is_clean());
    drop(people);
    db.close().expect("closed");
    let other = place.path("other").display().to_string();
    let broken = place
        .write("broken", text.replace("layout_history\":\"\\\\x01", "layout_history\":\"\\\\x02"));
    let message = place.fails(2, &["load", &other, "--dump", &broken]);
    assert!(message.contains("layout"), "{message}");
}

/// Removes the files of a store whose names begin so.
fn remove(place: &Place, start: &str) {
    for file in std::fs::read_dir(place.path("store")).expect("a store").flatten() {
        if file.file_name().to_string_lossy().starts_with(start) {
            std::fs::remove_file(file.path()).expect("removed");
        }
    }
}

#[test]
fn files_that_are_missing_are_named() {
    let place = with_table();
    remove(&place, "store.frond");
    let message = place.fails(2, &["trees", "STORE"]);
    assert!(message.ends_with("put it back, or restore from a backup"), "{message}");
    remove(&place, "log-");
    let message = place.fails(2, &["trees", "STORE"]);
    assert!(message.ends_with("`frond load` and `frond put --create` create one"), "{message}");
    let place = with_table();
    remove(&place, "log-");
    let message = place.fails(2, &["trees", "STORE"]);
    assert!(message.contains("log-*.frond: a log segment that is needed is missing"), "{message}");
}
