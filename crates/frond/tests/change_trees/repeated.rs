//! A server's log of changes that is repeated after a crash, from an entry that may have been made
//! already, as may those after it.

use super::*;

/// One entry of the log, with the numbers and names that the server saw before it made the change.
type Entry =
    for<'c> fn(&'c mut frond::schema::TreesChange, &[TreeId]) -> &'c mut frond::schema::TreesChange;

/// Every kind of step; each tree is given by its number and its name at that point. Trees 0 to 4
/// are a to e.
const LOG: &[Entry] = &[
    |change, ids| change.rename((ids[0], "a"), "f"),
    |change, ids| change.swap((ids[0], "f"), (ids[1], "b")).rename((ids[2], "c"), "a"),
    |change, ids| change.rename((ids[0], "b"), "c").rename((ids[3], "d"), "b"),
    |change, ids| change.set_attributes((ids[1], "f"), b"noted".to_vec()),
    |change, ids| change.drop_tree((ids[0], "c")).swap((ids[3], "b"), (ids[1], "f")),
    |change, ids| change.drop_tree((ids[4], "e")).rename((ids[1], "b"), "e"),
    |change, ids| change.swap((ids[1], "e"), (ids[3], "f")).truncate((ids[2], "a")),
    |change, _| {
        let attributes = b"uuid 1".to_vec();
        change.create("c", TreeOptions::new().attributes(attributes))
    },
];

fn begin(db: &Db) -> Vec<TreeId> {
    ["a", "b", "c", "d", "e"].map(|name| tree(db, name).id()).into()
}

fn do_entry(db: &Db, entry: Entry, ids: &[TreeId]) -> bool {
    let mut change = db.change_trees();
    entry(change.repeatable(), ids);
    change.commit().unwrap().seqno.is_some()
}

/// However much of the log was done, and wherever its repetition starts, the result is that of the
/// log.
#[test]
fn a_log_of_changes_can_be_repeated_from_any_entry() {
    let expected = names([("a", ""), ("e", "d"), ("f", "b"), ("c", "")]);
    for done in 0..=LOG.len() {
        for from in 0..=done {
            let (dir, db) = store();
            let ids = begin(&db);
            LOG[..done].iter().for_each(|&entry| assert!(do_entry(&db, entry, &ids)));
            let db = match (done + from) % 2 {
                0 => db,
                _ => {
                    db.close().unwrap();
                    Db::open(dir.path().join("store"), common::options()).unwrap()
                }
            };
            let again = LOG[from..].iter().map(|&entry| do_entry(&db, entry, &ids));
            let made = again.filter(|made| *made).count();
            assert_eq!(made, LOG.len() - done, "done {done}, again from {from}");
            assert_eq!(all(&db), expected, "done {done}, again from {from}");
            let noted = db.tree_of(ids[1]).info().options.attributes;
            assert_eq!(noted, b"noted");
            db.close().unwrap();
        }
    }
}

trait TreeOf {
    fn tree_of(&self, id: TreeId) -> Tree;
}

impl TreeOf for Db {
    fn tree_of(&self, id: TreeId) -> Tree {
        let info = self.trees().into_iter().find(|info| info.id == id).unwrap();
        self.open_tree(&info.name).unwrap()
    }
}

/// Steps that were made before are skipped, and what cannot be decided is refused.
#[test]
fn repeated_steps_are_skipped_and_ambiguous_ones_refused() {
    let (_dir, db) = store();
    let ids = begin(&db);
    let once = |change: &mut frond::schema::TreesChange| {
        let first = change.repeatable().commit();
        let again = change.commit();
        let (first, again) = (first.unwrap(), again.unwrap());
        assert!(first.seqno.is_some() && first.steps.iter().all(|step| step.was_made));
        assert!(again.seqno.is_none() && again.steps.iter().all(|step| !step.was_made));
        let id = |step: &frond::schema::ChangeStep| step.tree.as_ref().map(Tree::id);
        (first.steps.iter().map(id).collect::<Vec<_>>(), again.steps.iter().map(id).collect())
    };
    // By names alone, if nothing comes in between.
    let (first, again): (_, Vec<_>) = once(db.change_trees().rename("a", "f").drop_tree("e"));
    assert_eq!((first, again), (vec![Some(ids[0]), None], vec![Some(ids[0]), None]));
    // By number alone: it must have this name.
    let (_, again) = once(db.change_trees().rename(ids[0], "a").set_attributes("a", vec![1]));
    assert_eq!(again, vec![Some(ids[0]); 2]);
    let (first, again) = once(db.change_trees().clone_tree("a", "copy").clone_tree("copy", "more"));
    assert_eq!(first, again);
    let (first, again) = once(db.change_trees().truncate((ids[1], "b")));
    assert!(first[0].is_some() && again == [None]);
    // A clone still counts as made when its original is gone.
    db.drop_tree("a").unwrap();
    let mut change = db.change_trees();
    let passed = change.repeatable().clone_tree(ids[0], "copy").commit().unwrap();
    assert!(passed.seqno.is_none() && passed.steps[0].tree.is_some());
    // Part of it was made: the rest is made now.
    let options = || TreeOptions::new().attributes(b"uuid 2".to_vec());
    let mut change = db.change_trees();
    change.repeatable().create("g", options()).rename("c", "h");
    db.create_tree("g", options()).unwrap();
    let changed = change.commit().unwrap();
    assert_eq!(changed.steps.iter().map(|step| step.was_made).collect::<Vec<_>>(), [false, true]);
    // Publishing is repeated, which does no harm.
    let birth = || db.open_tree("h").unwrap().info().birth;
    let before = birth();
    db.change_trees().repeatable().publish("h").commit().unwrap();
    assert!(birth() > before);
    let refused = |change: &mut frond::schema::TreesChange, says: &str| {
        let error = change.repeatable().commit().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    refused(db.change_trees().create("g", TreeOptions::default()), "FRD-1005");
    refused(db.change_trees().clone_tree("g", "h"), "FRD-1005");
    refused(db.change_trees().clone_tree("x", "y"), "FRD-1004");
    refused(db.change_trees().rename("x", "y"), "FRD-1004");
    refused(db.change_trees().rename("g", "h"), "FRD-1005");
    refused(db.change_trees().set_attributes("x", Vec::new()), "FRD-1004");
    refused(db.change_trees().truncate("g"), "needs the number");
    refused(db.change_trees().swap("g", "h"), "needs the numbers and the names");
    refused(db.change_trees().swap(ids[0], (ids[2], "c")), "needs the numbers and the names");
    refused(db.change_trees().drop_tree(TreeId(1000)), "FRD-1004");
    db.close().unwrap();
}
