//! Calls on the trees of a table, past the table: reads work; what would put rows and indexes out
//! of step is refused.

use frond::{
    Batch, Result, Tree, TreeId,
    load::BulkLoad,
    operator,
    transaction::{RowChange, RowEntry},
};

use super::*;

fn refused<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    match outcome {
        Err(Error::InvalidArgument(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// Every call that writes a row of a tree.
fn refuses_writes(db: &Db, tree: &Tree, what: &str) {
    refused(tree.put(b"k", b"v"), what);
    refused(tree.put(b"k", vec![7; 100 << 10]), what);
    refused(tree.delete(b"k"), what);
    let mut batch = Batch::new();
    refused(batch.put(tree, b"k", b"v"), what);
    refused(batch.insert(tree, b"k", b"v"), what);
    refused(batch.delete(tree, b"k"), what);
    refused(batch.delete_range(tree, "a".."z"), what);
    refused(batch.merge(tree, b"k", operator::APPEND, b"v"), what);
    assert!(batch.is_empty());
    let txn = begin(db, Isolation::Snapshot);
    refused(txn.put(tree, b"k", b"v"), what);
    refused(txn.put(tree, b"k", vec![7; 100 << 10]), what);
    refused(txn.insert(tree, b"k", b"v"), what);
    refused(txn.row_writer().put_absent(tree, b"k", b"v"), what);
    refused(txn.delete(tree, b"k"), what);
    refused(txn.delete_range(tree, ..), what);
    refused(txn.merge(tree, b"k", operator::APPEND, b"v"), what);
    refused(txn.row_writer().put_autonomous(tree, b"k", b"v"), what);
    let entry = RowEntry { tree, key: b"k", value: b"v", unique: true, absent: false };
    for lock in [RowLock::Shared, RowLock::Exclusive] {
        refused(txn.row_writer().insert(&[entry], lock), what);
        refused(txn.row_writer().insert(&[RowEntry { absent: true, ..entry }], lock), what);
        let change = RowChange { tree, old: None, new: Some((b"k", b"v")), unique: true };
        refused(txn.row_writer().update(&[change], lock), what);
    }
    refused(txn.row_writer().delete(&[(tree, b"k")]), what);
    txn.commit().unwrap();
    refused(db.bulk_load_into(tree), what.split(':').next().unwrap());
}

/// The error of a change of trees of one step.
fn change(outcome: Result<frond::schema::TreesChanged>) -> Result<()> {
    match outcome {
        Err(Error::Step { error, .. }) => Err(*error),
        other => other.map(drop),
    }
}

const ROWS: [(&str, &str); 2] = [("1", "a@b,Oslo,1"), ("2", ",Rome,0")];

#[test]
fn trees_of_tables_can_be_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let db = open(dir.path());
        // Opened before the table, if that is opened at all.
        let early = (round > 0).then(|| db.open_tree("people").unwrap());
        early.iter().for_each(|rows| refuses_writes(&db, rows, "\"people\" is a table"));
        let table = match round {
            0 => db.table(spec([mail(), city()])).unwrap(),
            _ => db.table(spec([mail(), city(), number()])).unwrap(),
        };
        if round == 0 {
            put_all(&db, &table, &ROWS);
        } else {
            table.drop_index("number").unwrap();
        }
        table.build_index(number()).unwrap();
        for rows in [&db.open_tree("people").unwrap(), table.rows()] {
            assert_eq!(rows.table().as_deref(), Some("people"));
            assert_eq!(rows.get(b"2").unwrap().unwrap(), b",Rome,0");
            refuses_writes(&db, rows, "\"people\" is a table: write rows by Table::put");
        }
        for index in table.indexes() {
            let entries = db.open_tree(&index.tree).unwrap();
            assert_eq!(entries.table().as_deref(), Some("people"));
            assert!(entries.range(..).next().is_some());
            let what = format!("\"{}\" is an index of table \"people\": write rows", index.tree);
            refuses_writes(&db, &entries, &what);
        }
        assert_consistent(&db, &table);
        // A clone is a tree like any other.
        for tree in ["people".to_owned(), table.indexes()[0].tree.clone()] {
            let clone = db.clone_tree(&tree, "clone").unwrap();
            assert_eq!(clone.table(), None);
            clone.put(b"k", b"v").unwrap();
            db.drop_tree("clone").unwrap();
        }
        drop((early, table));
        db.close().unwrap();
    }
}

#[test]
fn trees_of_tables_are_dropped_and_changed_with_the_table_only() {
    let (_dir, db, table) = people(&ROWS);
    table.build_index(mail()).unwrap();
    let index = table.indexes()[0].tree.clone();
    db.create_tree("other", TreeOptions::new()).unwrap();
    let is_index = "is an index of table \"people\"";
    for (tree, what) in [("people", "\"people\" is a table"), (&*index, is_index)] {
        refused(db.drop_tree(tree), &format!("{what}: Db::drop_table"));
        // With other options than its own it is not opened as a tree.
        let opened = db.tree(tree, TreeOptions::new()).map(drop);
        refused(opened, &format!("{what}: open the table with `Db::table`"));
        refused(change(db.change_trees().drop_tree(tree).commit()), "Db::drop_index");
        refused(change(db.change_trees().truncate(tree).commit()), "Table::delete_range");
        let attributes = |tree: &str| db.change_trees().set_attributes(tree, vec![]).commit();
        refused(change(attributes(tree)), what);
        refused(db.change_layout(tree, &[], None), what);
    }
    refused(db.rename_tree(&index, "renamed"), is_index);
    refused(change(db.change_trees().swap("other", &*index).commit()), is_index);
    assert_eq!(trees(&db).len(), 3);
    assert_consistent(&db, &table);
    // The table is where its rows are.
    db.rename_tree("people", "persons").unwrap();
    assert_eq!(db.open_tree(&index).unwrap().table().as_deref(), Some("persons"));
    db.drop_table("persons").unwrap();
    assert_eq!(trees(&db), ["other"]);
}

/// Trees of a table that are loaded into another store, where they have other numbers.
#[test]
fn copied_trees_of_a_table_are_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for name in ["before", "between"] {
        db.create_tree(name, TreeOptions::new()).unwrap();
    }
    let table = db.table(spec([mail(), city(), number()])).unwrap();
    put_all(&db, &table, &ROWS);
    table.drop_index("city").unwrap();
    let from: Vec<Tree> = db.trees().iter().map(|info| db.open_tree(&info.name).unwrap()).collect();
    let to = Db::open(dir.path().join("copy"), Options::new()).unwrap();
    let copy = |tree: &Tree| {
        let mut load = to.bulk_load(&tree.name(), tree.info().options).unwrap();
        load.copied_from(tree.id());
        tree.range(..).map(Result::unwrap).try_for_each(|(key, row)| load.put(key, row)).unwrap();
        load
    };
    let rows: Vec<BulkLoad> = vec![copy(&table.rows().clone())];
    refused(BulkLoad::finish_all(rows), "\"people\" is loaded without its index \"mail\"");
    BulkLoad::finish_all(from.iter().rev().map(copy).collect()).unwrap();
    let rows = to.open_tree("people").unwrap();
    assert!(rows.id() != table.rows().id() && rows.id() > TreeId(1));
    refuses_writes(&to, &rows, "is a table");
    let copied = to.table(spec([mail(), number()])).unwrap();
    assert_eq!(by(&copied, &to, "mail"), by(&table, &db, "mail"));
    put_all(&to, &copied, &[("1", "c@d,Bonn,3"), ("3", "a@b,Oslo,4")]);
    copied.build_index(city()).unwrap();
    assert_consistent(&to, &copied);
    drop((copied, rows));
    to.drop_table("people").unwrap();
    assert_eq!(trees(&to), ["before", "between"]);
}
