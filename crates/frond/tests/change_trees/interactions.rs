//! Changes of trees together with what follows them: the change feed, backups, named snapshots,
//! clones, tables.

use frond::{Options, backup::Backup, feed::Change};

use super::*;

/// A tree with its own row and `rows` more.
fn tree_of(db: &Db, name: &str, rows: u32) {
    let tree = tree(db, name);
    for row in 0..rows {
        tree.put(&row.to_be_bytes(), name.as_bytes()).unwrap();
    }
}

/// A follower's copy of the store, built from the feed: trees by number, with names and rows.
type Followed = BTreeMap<TreeId, (String, Rows)>;

fn follow(feed: &mut frond::feed::ChangeFeed, trees: &mut Followed) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(mut commit) = feed.next(Duration::ZERO).unwrap() {
        while let Some(change) = commit.next().unwrap() {
            match change {
                Change::Put { tree, key, value } => {
                    let (name, rows) = trees.get_mut(&tree.id).expect("it was defined before");
                    assert_eq!(tree.name, Some(&**name));
                    rows.insert(key.to_vec(), value.to_vec());
                }
                Change::TreeDefined { info, cloned_from, .. } => {
                    said.push(format!("{} is {}", info.id.0, info.name));
                    let parent = cloned_from.and_then(|of| trees.get(&of));
                    let rows = parent.map(|parent| parent.1.clone()).unwrap_or_default();
                    let place = trees.entry(info.id).or_insert((String::new(), rows));
                    place.0 = info.name;
                }
                Change::TreeDropped { id, name } => {
                    let (known, _) = trees.remove(&id).expect("it was defined before");
                    said.push(format!("{} was {known}", id.0));
                    assert_eq!(name, Some(known));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    said
}

fn is_followed(db: &Db, trees: &Followed) {
    let shown: Followed = db
        .trees()
        .into_iter()
        .map(|info| {
            let tree = db.open_tree(&info.name).unwrap();
            (info.id, (info.name, rows_at(&db.snapshot(), &tree)))
        })
        .collect();
    assert_eq!(trees, &shown);
}

/// Rules: I18, I19. A cloned tree may be dropped in the same commit, and its clone may get its
/// name. Nothing is lost, whatever was in memory, and dropping the last clone frees all of it.
#[test]
fn a_tree_is_cloned_and_dropped_in_one_change() {
    for rows in [1u32, 30, 3000] {
        for is_checkpointed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            // Checkpoints are frequent here, and would free the log before it is followed.
            let options = || common::options().keep_log(16 << 20);
            let mut db = Db::open(dir.path().join("store"), options()).unwrap();
            let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
            let mut followed = Followed::new();
            tree_of(&db, "t", rows);
            tree_of(&db, "queue", rows);
            if is_checkpointed {
                db.checkpoint().unwrap();
            }
            let old = db.open_tree("t").unwrap();
            old.put(b"last", b"in memory").unwrap();
            assert_eq!(old.reserve(0, 1, 70).unwrap().start, 1);
            let expected = rows_at(&db.snapshot(), &old);
            let queue = rows_at(&db.snapshot(), &db.open_tree("queue").unwrap());
            let before = db.snapshot();
            let changed = db
                .change_trees()
                .clone_tree("t", "copy")
                .clone_tree("copy", "second")
                .clone_tree("queue", "old queue")
                .truncate("queue")
                .drop_tree("t")
                .rename("second", "t")
                .commit()
                .unwrap();
            assert!(changed.steps.iter().all(|step| step.was_made));
            assert!(matches!(old.get(b"last"), Err(Error::NoSuchTree(_))));
            assert_eq!(rows_at(&before, &before.open_tree("t").unwrap()), expected);
            follow(&mut feed, &mut followed);
            is_followed(&db, &followed);
            drop((old, changed, before, feed));
            for round in 0..4 {
                let rows_of = |name: &str| rows_at(&db.snapshot(), &db.open_tree(name).unwrap());
                for name in ["copy", "t"] {
                    assert!(rows_of(name) == expected, "{rows} rows, round {round}: {name}");
                }
                assert!(rows_of("old queue") == queue && rows_of("queue").is_empty());
                assert!(
                    db.check(CheckMode::Full).unwrap().is_clean(),
                    "{rows} rows, round {round}"
                );
                // Reuses free space: pages of the clones, if they were freed.
                let other = db.create_tree("other", TreeOptions::default()).unwrap();
                for row in 0..2000u32 {
                    other.put(&row.to_be_bytes(), &[7; 50]).unwrap();
                }
                db.checkpoint().unwrap();
                drop(other);
                db.drop_tree("other").unwrap();
                if round % 2 == 1 {
                    db.close().unwrap();
                    db = Db::open(dir.path().join("store"), options()).unwrap();
                }
            }
            for name in ["copy", "t"] {
                assert_eq!(db.open_tree(name).unwrap().next_number(0).unwrap(), 71);
                db.drop_tree(name).unwrap();
            }
            db.drop_tree("old queue").unwrap();
            (0..3).for_each(|_| {
                db.create_tree("other", TreeOptions::default()).unwrap();
                db.checkpoint().unwrap();
                db.drop_tree("other").unwrap();
                db.checkpoint().unwrap();
            });
            assert!(db.check(CheckMode::Full).unwrap().is_clean());
            let live = db.stats().space_live_bytes;
            assert!(live < 200_000, "{rows} rows: {live} bytes live on");
            db.close().unwrap();
        }
    }
}

#[test]
fn a_follower_ends_with_the_same_trees() {
    let dir = tempfile::tempdir().unwrap();
    let options = || common::options().keep_log(1 << 20);
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    let mut trees = Followed::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| tree(&db, name).id().0);
    follow(&mut feed, &mut trees);
    db.change_trees().swap("a", "b").truncate("c").commit().unwrap();
    let said = follow(&mut feed, &mut trees);
    let new = db.open_tree("c").unwrap().id().0;
    assert_eq!(
        said,
        [format!("{a} is b"), format!("{b} is a"), format!("{c} was c"), format!("{new} is c")]
            .map(|said| said.to_string())
    );
    is_followed(&db, &trees);
    db.open_tree("c").unwrap().put(b"1", b"new").unwrap();
    db.change_trees().clone_tree("c", "d").clone_tree("d", "e").swap("a", "e").commit().unwrap();
    db.open_tree("a").unwrap().put(b"2", b"newer").unwrap();
    db.change_trees().drop_tree("c").drop_tree("d").rename("b", "c").commit().unwrap();
    follow(&mut feed, &mut trees);
    is_followed(&db, &trees);
    drop(feed);
    db.close().unwrap();
}

#[test]
fn backups_contain_changes_completely() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let db = Db::open(at("store"), common::options()).unwrap();
    for name in ["a", "b", "c"] {
        tree_of(&db, name, 2000);
    }
    let full = db.backup(at("full")).unwrap();
    db.change_trees().swap("a", "b").truncate("c").commit().unwrap();
    db.change_trees().clone_tree("a", "d").rename("b", "e").commit().unwrap();
    let expected = all(&db);
    db.backup_since(&full.id, at("increment")).unwrap();
    db.change_trees().drop_tree("a").drop_tree("d").truncate("e").commit().unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let backup = Backup::new(at("full")).increment(at("increment"));
    backup.restore(at("restored")).unwrap();
    let db = Db::open(at("restored"), Options::new()).unwrap();
    assert_eq!(all(&db), expected);
    assert_eq!(rows_at(&db.snapshot(), &db.open_tree("d").unwrap()).len(), 2001);
    db.change_trees().drop_tree("a").drop_tree("e").rename("d", "a").commit().unwrap();
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}

/// Rules: I18, I19, I43. What a named snapshot or a clone keeps stays unchanged, whatever the trees
/// are called later; and it is freed with them.
#[test]
fn named_snapshots_and_clones_keep_the_trees_they_show() {
    let (dir, mut db) = store();
    for name in ["a", "b"] {
        tree_of(&db, name, 3000);
    }
    let a = db.open_tree("a").unwrap().id();
    db.create_snapshot("then").unwrap();
    db.change_trees().swap("a", "b").clone_tree("a", "copy of b").commit().unwrap();
    for round in 0..3 {
        let then = db.open_snapshot("then").unwrap();
        for name in ["a", "b"] {
            let tree = then.open_tree(name).unwrap();
            let rows = rows_at(&then, &tree);
            assert_eq!((rows.len(), &rows[&b"what"[..]][..]), (3001, name.as_bytes()));
            let now = db.open_tree(name);
            let refused = now.and_then(|now| then.get(&now, b"what").map(drop)).unwrap_err();
            let is_gone = matches!(refused, Error::DefinitionChanged(_) | Error::NoSuchTree(_));
            assert!(is_gone, "{refused}");
        }
        assert_eq!(then.open_tree("a").unwrap().id(), a);
        let copy = db.open_tree("copy of b").unwrap();
        assert_eq!(what(&copy).as_deref(), Some("b"));
        drop((then, copy));
        match round {
            0 => drop(db.change_trees().truncate("b").drop_tree("a").commit().unwrap()),
            1 => drop(db.change_trees().truncate("b").rename("b", "c").commit().unwrap()),
            _ => {}
        }
        db.checkpoint().unwrap();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
        db.close().unwrap();
        db = Db::open(dir.path().join("store"), common::options()).unwrap();
    }
    db.drop_snapshot("then").unwrap();
    db.change_trees().drop_tree("copy of b").drop_tree("c").commit().unwrap();
    (0..8).for_each(|_| db.checkpoint().unwrap());
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}

/// Rule: I35. A swapped tree, which is born again, continues its counters.
#[test]
fn a_swapped_tree_continues_its_counters() {
    let (dir, db) = store();
    let (a, _b) = (tree(&db, "a"), tree(&db, "b"));
    a.reserve(0, 1, 70).unwrap();
    a.put(b"row", b"").unwrap();
    a.delete(b"row").unwrap();
    db.change_trees().swap("a", "b").commit().unwrap();
    db.checkpoint().unwrap();
    drop((a, _b));
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    assert_eq!(db.open_tree("b").unwrap().next_number(0).unwrap(), 71);
    let mut change = db.change_trees();
    let copy = change.clone_tree("b", "c").commit().unwrap().steps.remove(0).tree.unwrap();
    assert_eq!(copy.next_number(0).unwrap(), 71);
    drop((copy, change));
    db.close().unwrap();
}

/// Tables are identified by the tree of their rows: renaming or swapping it renames or swaps the
/// table.
#[test]
fn tables_are_swapped_with_their_row_trees() {
    let (_dir, db) = store();
    let spec = |name: &str| {
        frond::TableSpec::new(name).index(
            frond::IndexSpec::new("value", |_, row, out| {
                out.extend_from_slice(row);
                Ok(true)
            })
            .unique(),
        )
    };
    for name in ["people", "rebuilt"] {
        let table = db.table(spec(name)).unwrap();
        db.transact(|txn| table.insert(txn, b"1", name.as_bytes())).unwrap();
    }
    db.change_trees().swap("people", "rebuilt").commit().unwrap();
    db.drop_table("rebuilt").unwrap();
    let people = db.table(spec("people")).unwrap();
    let txn = db.begin(Default::default()).unwrap();
    let found = people.index("value").unwrap().get(&txn, b"rebuilt").unwrap();
    assert_eq!(found, Some((b"1".to_vec(), b"rebuilt".to_vec())));
    drop(txn);
    assert!(people.check().unwrap().is_clean());
    assert_eq!(db.trees().len(), 2);
    drop(people);
    db.close().unwrap();
}
