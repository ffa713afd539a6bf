//! Clones and named snapshots: what they show, what they cost, and that their space is freed.

use frond::{
    Db, Error, IndexSpec, Options, TableSpec, TreeOptions,
    check::CheckMode,
    layout::{Hint, Layout, NewPart, Part},
};

fn open(dir: &std::path::Path) -> Db {
    Db::open(dir.join("store"), Options::new().cache_size(16 << 20)).unwrap()
}

fn fill(db: &Db, tree: &str, rows: u32, what: &str) {
    let tree = db.open_tree(tree).unwrap();
    let mut batch = frond::Batch::new();
    for row in 0..rows {
        let value = format!("{what} {:x}", u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        batch.put(&tree, &row.to_be_bytes(), value.as_bytes()).unwrap();
        if batch.len() == 1000 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// A clone of a clone survives drops of the parent and of the clone, and restarts in between. Rule:
/// I19, I35.
#[test]
fn a_clone_of_a_clone_outlives_its_parents() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.create_tree("a", TreeOptions::default()).unwrap();
    fill(&db, "a", 20_000, "first");
    db.clone_tree("a", "b").unwrap();
    fill(&db, "a", 5_000, "second");
    db.clone_tree("b", "c").unwrap();
    fill(&db, "b", 10_000, "third");
    assert!(matches!(db.clone_tree("b", "c"), Err(Error::TreeExists(_))));
    assert!(matches!(db.clone_tree("x", "y"), Err(Error::NoSuchTree(_))));
    assert_clean(&db);
    db.drop_tree("a").unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    db.drop_tree("b").unwrap();
    db.checkpoint().unwrap();
    assert_clean(&db);
    let tree = db.open_tree("c").unwrap();
    let mut cursor = tree.scan(..).unwrap();
    let mut rows = 0;
    while let Some((_, value)) = cursor.next().unwrap() {
        assert!(value.starts_with(b"first "), "the clone has what its parent had then");
        rows += 1;
    }
    assert_eq!(rows, 20_000);
    drop((cursor, tree));
    db.close().unwrap();
}

/// A named snapshot shows trees that were dropped since, also after a restart. Rule: I43, I18.
#[test]
fn a_named_snapshot_shows_dropped_trees_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.create_tree("t", TreeOptions::default()).unwrap();
    db.create_tree("empty", TreeOptions::default()).unwrap();
    fill(&db, "t", 5_000, "then");
    let made = db.create_snapshot("s").unwrap();
    assert!(matches!(db.create_snapshot("s"), Err(Error::SnapshotExists(_))));
    fill(&db, "t", 5_000, "now");
    db.rename_tree("empty", "other").unwrap();
    db.drop_tree("t").unwrap();
    let younger = db.create_tree("t", TreeOptions::default()).unwrap();
    db.checkpoint().unwrap();
    let snapshot = db.open_snapshot("s").unwrap();
    let error = snapshot.get(&younger, b"k").unwrap_err();
    assert!(matches!(error, Error::DefinitionChanged(_)), "{error}");
    drop((snapshot, younger));
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(db.snapshots(), [made]);
    let snapshot = db.open_snapshot("s").unwrap();
    let names: Vec<String> = snapshot.trees().unwrap().into_iter().map(|tree| tree.name).collect();
    assert_eq!(names, ["empty", "t"]);
    let empty = snapshot.open_tree("empty").unwrap();
    assert_eq!(empty.name(), "other", "the same tree, by its name now");
    assert!(snapshot.scan(&empty, ..).unwrap().next().unwrap().is_none());
    let then = snapshot.open_tree("t").unwrap();
    assert!(matches!(then.get(b"k"), Err(Error::NoSuchTree(_))));
    assert_clean(&db);
    db.drop_snapshot("s").unwrap();
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    for row in 0..5_000u32 {
        let value = snapshot.get(&then, &row.to_be_bytes()).unwrap().unwrap();
        assert!(value.starts_with(b"then "), "an open snapshot outlives its name");
    }
    assert!(matches!(db.open_snapshot("s"), Err(Error::NoSuchSnapshot(_))));
    drop((snapshot, then, empty));
    db.close().unwrap();
}

/// A tree that is opened through a snapshot is described as the snapshot lists it, whether it still
/// exists or not, and has rows of the layout that it had.
#[test]
fn trees_of_a_snapshot_are_defined_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let part = Part::Fixed(1, Hint::Integer);
    let options = TreeOptions::new().attributes(*b"then").value_layout(Layout::versioned([part]));
    for name in ["t", "gone"] {
        db.create_tree(name, options.clone()).unwrap().put(b"k", [0, 0, 7]).unwrap();
    }
    let index = IndexSpec::new("all", |_, row, out| {
        out.extend_from_slice(row);
        Ok(true)
    });
    for name in ["users", "gone users"] {
        db.table(TableSpec::new(name).index(index.clone())).unwrap();
    }
    db.create_snapshot("named").unwrap();
    let held = db.snapshot();
    let added = NewPart::Add { part, default: vec![9] };
    let now = db.change_layout("t", &[added, NewPart::Keep(1)], Some(b"now".to_vec())).unwrap();
    now.put(b"later", [0, 1, 9, 7]).unwrap();
    db.rename_tree("t", "renamed").unwrap();
    db.drop_tree("gone").unwrap();
    db.drop_table("gone users").unwrap();
    db.checkpoint().unwrap();
    for snapshot in [&held, &db.open_snapshot("named").unwrap()] {
        let listed = snapshot.trees().unwrap();
        assert_eq!(listed.len(), 6);
        for info in listed {
            let tree = snapshot.open_tree(&info.name).unwrap();
            assert_eq!(tree.info(), info);
            let table = info.name.split_once('/').map_or(&*info.name, |(table, _)| table);
            assert_eq!(tree.table().as_deref(), Some(table).filter(|name| name.ends_with("users")));
        }
        for name in ["t", "gone"] {
            let tree = snapshot.open_tree(name).unwrap();
            assert_eq!(tree.info().options, options);
            assert_eq!(tree.layout_version(), Some(0));
            assert_eq!(snapshot.get(&tree, b"k").unwrap(), Some(vec![0, 0, 7]));
            assert_eq!(snapshot.count(&tree, ..).unwrap(), 1);
        }
        assert_eq!(snapshot.get(&now, b"k").unwrap(), Some(vec![0, 1, 9, 7]), "a current handle");
    }
    assert_eq!(now.info().options.attributes, b"now");
    assert_eq!((now.info().name, now.name()), ("renamed".into(), "renamed".into()));
    drop((held, now));
    db.close().unwrap();
}
