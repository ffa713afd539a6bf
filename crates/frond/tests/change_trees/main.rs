//! Tests of changes of several trees in one commit: what each step does, what is refused, which
//! transactions are waited for, and what a log of changes may repeat.

#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod interactions;
mod repeated;

use std::{collections::BTreeMap, thread, time::Duration};

use frond::{
    Db, Error, ErrorKind, Snapshot, Tree, TreeId, TreeOptions,
    check::CheckMode,
    layout::{Hint, Layout, NewPart, Part},
    transaction::Xid,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    (dir, db)
}

/// A tree with one row, which holds the tree's first name.
fn tree(db: &Db, name: &str) -> Tree {
    let tree = db.create_tree(name, TreeOptions::default()).unwrap();
    tree.put(b"what", name.as_bytes()).unwrap();
    tree
}

fn what(tree: &Tree) -> Option<String> {
    tree.get(b"what").unwrap().map(|value| String::from_utf8(value).unwrap())
}

/// Names of trees, with the content of each tree's row.
fn all(db: &Db) -> BTreeMap<String, Option<String>> {
    let trees = db.trees().into_iter();
    trees.map(|info| (info.name.clone(), what(&db.open_tree(&info.name).unwrap()))).collect()
}

fn names<const N: usize>(list: [(&str, &str); N]) -> BTreeMap<String, Option<String>> {
    let said = |what: &str| (!what.is_empty()).then(|| what.to_owned());
    list.into_iter().map(|(name, what)| (name.to_owned(), said(what))).collect()
}

fn rows_at(snapshot: &Snapshot, tree: &Tree) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = snapshot.scan(tree, ..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn until_waiting<T>(db: &Db, who: &thread::ScopedJoinHandle<'_, T>) {
    while db.lock_waits().is_empty() {
        assert!(!who.is_finished(), "it does not wait");
        thread::yield_now();
    }
}

/// Rules: I35, I43.
#[test]
fn each_step_takes_effect_and_survives_a_restart() {
    let (dir, db) = store();
    for name in ["a", "b", "c", "d", "e"] {
        tree(&db, name);
    }
    let (a, c) = (db.open_tree("a").unwrap(), db.open_tree("c").unwrap());
    let before = db.snapshot();
    let attributes = b"of a".to_vec();
    let changed = db
        .change_trees()
        .swap("a", "b")
        .truncate("c")
        .drop_tree("d")
        .rename("e", "d")
        .create("e", TreeOptions::new().unique(true))
        .set_attributes(&a, attributes.clone())
        .commit()
        .unwrap();
    let expected = names([("a", "b"), ("b", "a"), ("c", ""), ("d", "e"), ("e", "")]);
    assert_eq!(all(&db), expected);
    let [swapped, truncated, dropped, renamed, made, noted] = &changed.steps[..] else { panic!() };
    let id = |step: &frond::schema::ChangeStep| step.tree.as_ref().unwrap().id();
    assert_eq!((id(swapped), id(noted), a.name()), (a.id(), a.id(), "b".to_owned()));
    assert!(changed.steps.iter().all(|step| step.was_made) && dropped.tree.is_none());
    assert_eq!(renamed.tree.as_ref().unwrap().name(), "d");
    assert!(made.tree.as_ref().unwrap().info().options.unique);
    assert!(id(truncated) > c.id() && a.info().options.attributes == attributes);
    // Trees that are born with the change, and those that are not.
    let seqno = changed.seqno.unwrap();
    let birth = |name| db.open_tree(name).unwrap().info().birth;
    assert!(["a", "b", "c", "e"].into_iter().all(|name| birth(name) == seqno));
    assert!(birth("d") < seqno);
    for name in ["a", "b", "c", "e"] {
        let now = db.open_tree(name).unwrap();
        assert!(matches!(before.get(&now, b"what"), Err(Error::DefinitionChanged(_))), "{name}");
        assert!(matches!(before.scan(&now, ..), Err(Error::DefinitionChanged(_))), "{name}");
    }
    assert!(before.get(&db.open_tree("d").unwrap(), b"what").unwrap().is_some());
    // They can be read as they were then.
    for name in ["a", "b", "c", "d", "e"] {
        let then = before.open_tree(name).unwrap();
        assert_eq!(before.get(&then, b"what").unwrap(), Some(name.as_bytes().to_vec()));
        assert_eq!(rows_at(&before, &then).len(), 1);
    }
    assert!(matches!(c.put(b"1", b""), Err(Error::NoSuchTree(_))));
    drop((before, changed, a, c));
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    assert_eq!(all(&db), expected);
    db.close().unwrap();
}

#[test]
fn a_truncated_tree_is_like_the_old_one_but_empty() {
    let (dir, db) = store();
    let (number, text) = (Part::Fixed(4, Hint::Integer), Part::Var(frond::layout::End::Rest));
    let options = TreeOptions::new()
        .unique(true)
        .attributes(b"whose it is".to_vec())
        .key_layout(Layout::new(vec![number]))
        .value_layout(Layout::versioned([number, text]));
    db.create_tree("t", options).unwrap();
    let shoe = NewPart::Add { part: number, default: vec![0; 4] };
    let tree = db.change_layout("t", &[NewPart::Keep(1), shoe, NewPart::Keep(2)], None).unwrap();
    let row = [&[0, 1][..], &[0; 8], b"text"].concat();
    let ids = tree.reserve(0, 1, 3000).unwrap();
    for id in ids {
        tree.put(&(id as u32).to_be_bytes(), &row).unwrap();
    }
    db.checkpoint().unwrap();
    let (before, old, mut options) = (db.snapshot(), tree.id(), tree.info().options);
    db.create_snapshot("before").unwrap();
    let mut change = db.change_trees();
    let new = change.truncate(&tree).commit().unwrap().steps.remove(0).tree.unwrap();
    assert_eq!((new.info().options, new.layout_version()), (options.clone(), Some(1)));
    assert_eq!((new.reserve(0, 1, 1).unwrap(), new.row_count().unwrap().rows), (1..2, 0));
    assert!(new.scan(..).unwrap().next().unwrap().is_none());
    new.put(&[0, 0, 0, 1], &row).unwrap();
    drop(tree);
    db.checkpoint().unwrap();
    let then = before.open_tree("t").unwrap();
    assert_eq!((then.id(), rows_at(&before, &then).len()), (old, 3000));
    drop((before, then, new, change));
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), common::options()).unwrap();
    let tree = db.open_tree("t").unwrap();
    options.attributes = b"whose it is".to_vec();
    assert_eq!((tree.info().options, tree.row_count().unwrap().rows), (options, 1));
    assert!(tree.put(&[0, 0, 0, 2], &[0, 2]).is_err(), "it knows its versions");
    let named = db.open_snapshot("before").unwrap();
    assert_eq!(rows_at(&named, &named.open_tree("t").unwrap()).len(), 3000);
    assert!(matches!(named.get(&tree, b"what"), Err(Error::DefinitionChanged(_))));
    drop((named, tree));
    db.drop_snapshot("before").unwrap();
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}

/// An error names the failed step, and then nothing is done; invalid calls are refused, too.
#[test]
fn an_impossible_step_prevents_the_whole_change() {
    let (_dir, db) = store();
    let (a, b) = (tree(&db, "a"), tree(&db, "b"));
    db.table(frond::TableSpec::new("people")).unwrap();
    let before: Vec<_> = db.trees();
    let seqno = db.snapshot().seqno();
    let refused = |change: &mut frond::schema::TreesChange, step: usize, says: &str| {
        let error = change.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FixCall);
        let Error::Step { step: at, error } = &error else { panic!("{error}") };
        assert!(*at == step && error.to_string().contains(says), "step {at}: {error}");
        assert_eq!((&db.trees(), db.snapshot().seqno()), (&before, seqno));
    };
    let change = || {
        let mut change = db.change_trees();
        change.create("new", TreeOptions::default());
        change
    };
    refused(change().create("a", TreeOptions::default()), 1, "FRD-1005");
    refused(change().create("new", TreeOptions::default()), 1, "FRD-1005");
    refused(change().create("", TreeOptions::default()), 1, "FRD-1001");
    refused(change().rename("a", "b"), 1, "FRD-1005");
    refused(change().rename("a", "new"), 1, "FRD-1005");
    refused(change().rename("a", "a"), 1, "FRD-1005");
    refused(change().rename("a", "c").rename("a", "d"), 2, "FRD-1004");
    refused(change().rename("a", "line\nbreak"), 1, "FRD-1001");
    refused(change().drop_tree("c"), 1, "FRD-1004");
    refused(change().drop_tree(&a).truncate(&a), 2, "FRD-1004 no tree \"number");
    refused(change().drop_tree((a.id(), "b")), 1, "FRD-1004 no tree \"b (number");
    refused(change().drop_tree(TreeId(0)), 1, "FRD-1004");
    refused(change().drop_tree(TreeId(u32::MAX)), 1, "FRD-1004");
    refused(change().swap("a", "c"), 1, "FRD-1004");
    refused(change().swap("a", &a), 1, "with itself");
    refused(change().truncate("people"), 1, "is a table");
    refused(change().set_attributes("people", Vec::new()), 1, "is a table");
    refused(change().publish("c"), 1, "FRD-1004");
    refused(change().clone_tree("a", "b"), 1, "FRD-1005");
    refused(change().drop_tree("a").clone_tree(&a, "c"), 2, "FRD-1004");
    // A record that is too long is reported by the commit.
    let long = db.change_trees().set_attributes("a", vec![0; 2 << 20]).commit().unwrap_err();
    assert!(matches!(long, Error::InvalidArgument(_)), "{long}");
    assert_eq!((&db.trees(), db.snapshot().seqno()), (&before, seqno));
    // An empty list does nothing; and a list can be committed again after an error.
    let mut change = db.change_trees();
    assert!(change.commit().unwrap().seqno.is_none());
    assert!(change.rename("b", "c").rename("x", "y").commit().is_err());
    db.create_tree("x", TreeOptions::default()).unwrap();
    change.commit().unwrap();
    assert_eq!(b.name(), "c");
    let other = store();
    assert!(other.1.change_trees().drop_tree(&a).commit().is_err());
    db.close().unwrap();
    assert!(matches!(db.change_trees().drop_tree("a").commit(), Err(Error::Closed)));
}

/// A table gets a column, another name and new attributes in one commit; and only once, however
/// often the change is repeated.
#[test]
fn a_layout_changes_with_names_and_attributes() {
    let (_dir, db) = store();
    let byte = Part::Fixed(1, Hint::Integer);
    let value_layout = Some(Layout::versioned([byte]));
    let old = db.create_tree("t", TreeOptions::new().value_layout(value_layout)).unwrap();
    old.put(b"k", &[0, 0, 7]).unwrap();
    let begin = |from| {
        let mut change = db.change_trees();
        change.repeatable().rename((old.id(), "t"), "u");
        let parts = [NewPart::Add { part: byte, default: vec![9] }, NewPart::Keep(1)];
        change.change_layout(old.id(), from, &parts);
        change.set_attributes(old.id(), b"two columns".to_vec());
        change
    };
    for wrong in [None, Some(1)] {
        let refused = begin(wrong).commit().unwrap_err();
        assert!(matches!(refused, Error::Step { step: 1, .. }), "{refused}");
        assert_eq!(db.open_tree("t").unwrap().layout_version(), Some(0));
    }
    assert!(begin(Some(0)).commit().unwrap().steps.iter().all(|step| step.was_made));
    let new = db.open_tree("u").unwrap();
    assert_eq!(new.get(b"k").unwrap(), Some(vec![0, 1, 9, 7]));
    assert_eq!((new.id(), new.info().options.attributes), (old.id(), b"two columns".to_vec()));
    assert_eq!(begin(Some(0)).commit().unwrap().seqno, None, "it was made");
    assert_eq!(new.layout_version(), Some(1));

    // Together with a drop, and a clone.
    tree(&db, "other");
    let mut change = db.change_trees();
    change.drop_tree("other").change_layout("u", Some(1), &[NewPart::Keep(1)]);
    change.clone_tree("u", "copy").commit().unwrap();
    for name in ["u", "copy"] {
        let tree = db.open_tree(name).unwrap();
        assert_eq!(
            (tree.layout_version(), tree.get(b"k").unwrap()),
            (Some(2), Some(vec![0, 2, 9]))
        );
    }
    assert!(db.open_tree("other").is_err());
}

/// Steps see the effects of those before them: a name is free after the step that frees it.
#[test]
fn steps_take_effect_in_order() {
    let (_dir, db) = store();
    let ids = ["a", "b", "c"].map(|name| tree(&db, name).id());
    // Rotates names, using one that is never visible.
    db.change_trees()
        .rename("a", "free")
        .rename("b", "a")
        .rename("c", "b")
        .rename("free", "c")
        .commit()
        .unwrap();
    assert_eq!(all(&db), names([("a", "b"), ("b", "c"), ("c", "a")]));
    // Likewise with swaps.
    db.change_trees().swap("a", "b").swap("b", "c").swap("a", "b").commit().unwrap();
    assert_eq!(all(&db), names([("a", "a"), ("b", "c"), ("c", "b")]));
    db.change_trees().swap("a", "b").commit().unwrap();
    // A tree that is created and dropped within a change never existed; a clone of a clone did.
    let changed = db
        .change_trees()
        .create("new", TreeOptions::default())
        .rename("new", "other")
        .truncate("other")
        .drop_tree("other")
        .clone_tree("a", "d")
        .clone_tree("d", "e")
        .swap("e", "a")
        .rename(ids[0], "f")
        .commit()
        .unwrap();
    let expected = [("a", "c"), ("c", "b"), ("d", "c"), ("e", "c"), ("f", "a")];
    assert_eq!(all(&db), names(expected));
    assert!(changed.steps[0].tree.is_none() && changed.steps[4].tree.is_some());
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    drop(changed);
    db.close().unwrap();
}

/// Rule: I53. A change that waits for a prepared transaction can be cancelled by another thread,
/// with nothing done; it may be committed again.
#[test]
fn a_waiting_change_can_be_cancelled() {
    let (_dir, db) = store();
    let (a, _b) = (tree(&db, "a"), tree(&db, "b"));
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&a, b"row", b"").unwrap();
    let name = Xid::new(b"x").unwrap();
    txn.prepare(&name).unwrap().detach();
    let before = (db.trees(), db.snapshot().seqno());
    let interrupter = frond::Interrupter::new();
    let mut change = db.change_trees();
    change.rename("b", "c").drop_tree("a").lock_timeout(None).set_interrupter(&interrupter);
    thread::scope(|scope| {
        let waits = scope.spawn(|| change.commit());
        until_waiting(&db, &waits);
        interrupter.interrupt();
        let told = waits.join().unwrap().unwrap_err();
        let Error::Step { step: 1, error } = &told else { panic!("{told}") };
        assert!(matches!(**error, Error::Interrupted), "{told}");
    });
    assert_eq!((db.trees(), db.snapshot().seqno()), before);
    assert!(db.lock_waits().is_empty());
    assert!(matches!(change.commit(), Err(Error::Interrupted)), "until it is cleared");
    interrupter.clear();
    db.commit_prepared(&name).unwrap();
    change.commit().unwrap();
    assert_eq!(all(&db), names([("c", "b")]));
    drop((change, a, _b));
    db.close().unwrap();
}

/// Rules: I52, I12. Transactions with rows of a removed tree are waited for, up to the timeout.
#[test]
fn a_change_waits_for_transactions_with_rows_of_its_trees() {
    let (_dir, db) = store();
    let (a, b) = (tree(&db, "a"), tree(&db, "b"));
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&b, b"row", b"of a transaction").unwrap();
    let mut change = db.change_trees();
    change.rename(&b, "c").drop_tree(&a).truncate("c");
    let late = change.lock_timeout(Some(Duration::ZERO)).commit().unwrap_err();
    assert!(
        matches!(&late, Error::Step { step: 2, error } if matches!(&**error, Error::LockTimeout { .. }))
    );
    assert_eq!((late.kind(), late.tree()), (ErrorKind::Retry, Some("b")));
    // Renames do not wait, and later writes of a transaction go to the tree that it had opened,
    // under its new name.
    db.change_trees().swap("a", "b").commit().unwrap();
    change.lock_timeout(None);
    thread::scope(|scope| {
        let waits = scope.spawn(|| change.commit().unwrap());
        until_waiting(&db, &waits);
        // Others change the catalog meanwhile: the change applies to the catalog as it is
        // afterwards.
        db.change_trees().create("d", TreeOptions::default()).swap("a", "b").commit().unwrap();
        txn.commit().unwrap();
        waits.join().unwrap();
    });
    assert_eq!(all(&db), names([("c", ""), ("d", "")]));
    assert!(a.put(b"1", b"").is_err() && b.put(b"1", b"").is_err());
    // Likewise for a prepared transaction.
    let (c, xid) = (db.open_tree("c").unwrap(), Xid::new(b"one").unwrap());
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&c, b"row", b"prepared").unwrap();
    let prepared = txn.prepare(&xid).unwrap();
    let mut change = db.change_trees();
    change.truncate("c").lock_timeout(Some(Duration::from_millis(1)));
    assert_eq!(change.commit().unwrap_err().kind(), ErrorKind::Retry);
    prepared.commit().unwrap();
    assert_eq!(rows_at(&db.snapshot(), &c).len(), 1);
    change.commit().unwrap();
    assert!(all(&db)["c"].is_none() && db.transactions().is_empty());
    drop((a, b, c));
    db.close().unwrap();
}

/// In a deadlock, the change is the victim: the transaction in the cycle continues, and the change
/// is made after it.
#[test]
fn a_change_never_aborts_a_transaction() {
    let (_dir, db) = store();
    for round in 0..20 {
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        let txn = db.begin(Default::default()).unwrap();
        txn.put(&b, b"row", b"1").unwrap();
        thread::scope(|scope| {
            let change = scope.spawn(|| match round % 2 {
                0 => db.change_trees().drop_tree("b").drop_tree("a").commit(),
                _ => db.change_trees().truncate("a").truncate("b").commit(),
            });
            until_waiting(&db, &change);
            // The change has locked this tree by now, and waits for the other.
            txn.put(&a, b"row", b"2").unwrap();
            txn.commit().unwrap();
            change.join().unwrap().unwrap();
        });
        drop((a, b));
        let left: Vec<_> = db.trees().into_iter().map(|info| info.id).collect();
        left.into_iter().for_each(|id| drop(db.change_trees().drop_tree(id).commit().unwrap()));
    }
    db.close().unwrap();
}

/// Two changes want the same trees, named in opposite order, concurrently with transactions on
/// both.
#[test]
fn concurrent_changes_are_serialized() {
    let (_dir, db) = store();
    tree(&db, "a");
    tree(&db, "b");
    thread::scope(|scope| {
        for names in [["a", "b"], ["b", "a"]] {
            let (db, changed) = (db.clone(), db.clone());
            scope.spawn(move || {
                for _ in 0..60 {
                    let mut change = changed.change_trees();
                    change.truncate(names[0]).truncate(names[1]).commit().unwrap();
                }
            });
            scope.spawn(move || {
                for round in 0..200u32 {
                    let put = db.transact(|txn| {
                        let trees = [db.open_tree("a")?, db.open_tree("b")?];
                        let order = usize::from(round % 2 == 0);
                        txn.put(&trees[order], &round.to_be_bytes(), b"")?;
                        txn.put(&trees[1 - order], &round.to_be_bytes(), b"")
                    });
                    // A tree was truncated between its opening and the put.
                    assert!(matches!(put, Ok(()) | Err(Error::NoSuchTree(_))), "{put:?}");
                }
            });
        }
    });
    assert!(db.transactions().is_empty());
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}

/// A lookup of names finds each of them at any time.
#[test]
fn a_name_always_refers_to_a_tree_during_changes() {
    let (_dir, db) = store();
    let ids = ["a", "b", "c"].map(|name| tree(&db, name).id());
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0u64;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for name in ["a", "b", "c"] {
                    db.open_tree(name).unwrap();
                }
                assert_eq!(db.trees().len(), 3);
                looks += 1;
            }
            looks
        });
        for round in 0..300 {
            match round % 3 {
                0 => db.change_trees().swap("a", "b").commit(),
                1 => db.change_trees().truncate("c").commit(),
                _ => db
                    .change_trees()
                    .create("new", TreeOptions::default())
                    .drop_tree("c")
                    .rename("new", "c")
                    .commit(),
            }
            .unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        println!("{} looks", looks.join().unwrap());
    });
    let found: Vec<_> = db.trees().into_iter().map(|info| info.id).collect();
    assert!(found.contains(&ids[0]) && found.contains(&ids[1]) && !found.contains(&ids[2]));
    db.close().unwrap();
}
