//! Tests of batches and transactions whose tree is dropped: each is there as a whole, or was
//! refused and has done nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::*;
use frond::{
    Seqno, TreeId,
    layout::{Hint, Layout, NewPart, Part},
};
use frond_testkit::effort;

/// Rows of one commit.
const ROWS: u64 = 3;
/// Commits between two changes.
const COMMITS: u64 = 60;

/// An acknowledged commit.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u64,
    tree: TreeId,
    seqno: Seqno,
}

/// What writers know of their commits.
#[derive(Default)]
struct Ledger {
    next: AtomicU64,
    /// Commits that may still be made before the next change: enough that some run concurrently
    /// with it, and no more than readers can follow.
    left: AtomicU64,
    acknowledged: Mutex<Vec<Entry>>,
    refused: Mutex<Vec<u64>>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug)]
enum Way {
    Batch,
    Txn,
    /// Long values, which are in the file before the commit.
    Long,
}

impl Ledger {
    /// Makes one commit into the tree of this name; every value begins with `before`.
    fn write(&self, db: &Db, name: &str, way: Way, before: &[u8]) {
        let take = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return thread::yield_now();
        }
        let Ok(tree) = db.open_tree(name) else { return };
        let first = self.next.fetch_add(ROWS, Ordering::Relaxed);
        let value = match way {
            Way::Long => [before, &[7; LONG_BYTES]].concat(),
            Way::Batch | Way::Txn => [before, &first.to_be_bytes()].concat(),
        };
        let keys = (first..first + ROWS).map(u64::to_be_bytes);
        let written = match way {
            Way::Batch | Way::Long => {
                let mut batch = Batch::new();
                let put = keys.clone().try_for_each(|key| batch.put(&tree, &key, &value));
                put.and_then(|()| db.commit(&mut batch))
            }
            Way::Txn => {
                let isolation = Isolation::ReadCommitted;
                let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
                let put = keys.clone().try_for_each(|key| txn.put(&tree, &key, &value));
                put.and_then(|()| txn.commit())
            }
        };
        match written {
            Ok(seqno) => {
                let entry = Entry { first, tree: tree.id(), seqno };
                self.acknowledged.lock().unwrap().push(entry);
            }
            Err(error) => {
                assert!(is_gone(&error, name) || is_retry(&error), "{way:?}: {error}");
                self.refused.lock().unwrap().push(first);
            }
        }
    }

    /// Checks that the rows of all trees are those acknowledged, once each, except rows of trees in
    /// `gone`: their last commit must come before the one that took the tree away.
    fn must_be_kept(&self, db: &Db, gone: &BTreeMap<TreeId, Seqno>) {
        let mut found = BTreeSet::new();
        let snapshot = db.snapshot();
        for info in db.trees().into_iter().filter(|info| info.name != "noise") {
            let tree = db.open_tree(&info.name).unwrap();
            for key in keys(&snapshot, &tree).unwrap() {
                let row = u64::from_be_bytes(key.try_into().unwrap());
                assert!(found.insert(row), "row {row} is there twice");
            }
        }
        let acknowledged = self.acknowledged.lock().unwrap();
        assert!(acknowledged.len() > 10, "only {} commits", acknowledged.len());
        let mut expected = BTreeSet::new();
        for entry in acknowledged.iter() {
            match gone.get(&entry.tree) {
                Some(end) => {
                    assert!(entry.seqno < *end, "{entry:?} into a tree that ended at {end}")
                }
                None => expected.extend(entry.first..entry.first + ROWS),
            }
        }
        let lost: Vec<_> = expected.difference(&found).take(5).collect();
        let unasked: Vec<_> = found.difference(&expected).take(5).collect();
        let refused = self.refused.lock().unwrap().len();
        assert!(
            lost.is_empty() && unasked.is_empty(),
            "lost: {lost:?}, unasked: {unasked:?}, of {} commits, {refused} refused",
            acknowledged.len()
        );
    }
}

impl Ledger {
    /// Checks that all trees of a snapshot together have each earlier acknowledged commit, once,
    /// and no commit in part.
    fn must_be_whole_at(&self, snapshot: &Snapshot, before: &[Entry]) {
        let mut found = BTreeSet::new();
        for info in snapshot.trees().unwrap().into_iter().filter(|info| info.name != "noise") {
            let tree = snapshot.open_tree(&info.name).unwrap();
            for key in keys(snapshot, &tree).unwrap() {
                let row = u64::from_be_bytes(key.try_into().unwrap());
                assert!(found.insert(row), "row {row} is there twice at {}", snapshot.seqno());
            }
        }
        for entry in before {
            assert!(found.contains(&entry.first), "{entry:?} is lost at {}", snapshot.seqno());
        }
        for row in &found {
            let first = row / ROWS * ROWS;
            let is_whole = (first..first + ROWS).all(|row| found.contains(&row));
            assert!(is_whole, "a part of commit {first} at {}", snapshot.seqno());
        }
    }
}

/// Runs writers of all kinds while `change` is called `changes` times; readers compare snapshots
/// with the ledger if all rows are to stay.
fn write_during_changes(
    db: &Db,
    changes: u64,
    all_stay: bool,
    mut change: impl FnMut(u64),
) -> Ledger {
    let ledger = Ledger::default();
    let read = |round: u64| {
        if !all_stay {
            return thread::yield_now();
        }
        let before = ledger.acknowledged.lock().unwrap().clone();
        let snapshot = db.snapshot();
        ledger.must_be_whole_at(&snapshot, &before);
        if round.is_multiple_of(3) {
            let name = format!("round {round}");
            db.create_snapshot(&name).unwrap();
            let named = db.open_snapshot(&name).unwrap();
            ledger.must_be_whole_at(&named, &before);
            db.drop_snapshot(&name).unwrap();
            ledger.must_be_whole_at(&named, &before);
        }
        ledger.must_be_whole_at(&snapshot, &before);
    };
    let write = |way| {
        let ledger = &ledger;
        move |_| ledger.write(db, "live", way, &[])
    };
    let (batches, txns, long) = (write(Way::Batch), write(Way::Txn), write(Way::Long));
    let changes = |turns: &dyn Fn()| {
        for round in 0..changes {
            turns();
            ledger.left.store(COMMITS, Ordering::Relaxed);
            change(round);
        }
    };
    run_concurrently(db, changes, &[&batches, &batches, &txns, &long, &read]);
    ledger
}

/// Closes the store and opens it again, from its log and slots.
fn reopened(db: Db, dir: &tempfile::TempDir) -> Db {
    db.close().unwrap();
    drop(db);
    Db::open(dir.path().join("store"), options()).unwrap()
}

/// One change clones the tree and takes it away, in each way that there is.
#[test]
fn commits_are_in_the_clone_or_refused_when_their_tree_is_removed() {
    for _ in effort::seeds(1) {
        let (dir, db) = store();
        db.create_tree("live", TreeOptions::default()).unwrap();
        let ledger = write_during_changes(&db, 40, true, |round| {
            let archive = format!("archive {round}");
            let mut change = db.change_trees();
            change.clone_tree("live", &archive);
            match round % 4 {
                0 => change.truncate("live"),
                1 => change.drop_tree("live").create("live", TreeOptions::default()),
                // As a copying ALTER does it: another tree takes its place.
                2 => change.drop_tree("live").rename(&archive, "live"),
                _ => change
                    .create("next", TreeOptions::default())
                    .swap("live", "next")
                    .drop_tree("next"),
            };
            change.commit().unwrap();
        });
        ledger.must_be_kept(&db, &BTreeMap::new());
        assert_clean(&db);
        ledger.must_be_kept(&reopened(db, &dir), &BTreeMap::new());
    }
}

/// Nothing keeps the rows of the old tree: all of them come before its end.
#[test]
fn no_commit_into_a_tree_follows_its_removal() {
    for _ in effort::seeds(1) {
        let (dir, db) = store();
        db.create_tree("live", TreeOptions::default()).unwrap();
        let mut gone = BTreeMap::new();
        let ledger = write_during_changes(&db, 40, false, |round| {
            let old = db.open_tree("live").unwrap().id();
            let mut change = db.change_trees();
            match round % 3 {
                0 => change.truncate(old),
                1 => change.drop_tree(old).create("live", TreeOptions::default()),
                _ => change
                    .create("next", TreeOptions::default())
                    .drop_tree(old)
                    .rename("next", "live"),
            };
            gone.insert(old, change.commit().unwrap().seqno.unwrap());
        });
        ledger.must_be_kept(&db, &gone);
        assert_clean(&db);
        ledger.must_be_kept(&reopened(db, &dir), &gone);
    }
}

/// A swap takes nothing away: a commit is in the tree of its handle, whatever its name is by then.
#[test]
fn commits_stay_in_their_trees_through_swaps_and_renames() {
    for _ in effort::seeds(1) {
        let (_dir, db) = store();
        let trees = ["live", "other"].map(|name| db.create_tree(name, Default::default()).unwrap());
        let ledger = write_during_changes(&db, 40, true, |round| {
            let mut change = db.change_trees();
            match round % 2 {
                0 => change.swap("live", "other"),
                _ => {
                    change.rename("live", "third").rename("other", "live").rename("third", "other")
                }
            };
            change.commit().unwrap();
        });
        ledger.must_be_kept(&db, &BTreeMap::new());
        let snapshot = db.snapshot();
        for tree in &trees {
            let found: BTreeSet<u64> = (keys(&snapshot, tree).unwrap().into_iter())
                .map(|key| u64::from_be_bytes(key.try_into().unwrap()))
                .collect();
            let acknowledged = ledger.acknowledged.lock().unwrap();
            let own = acknowledged.iter().filter(|entry| entry.tree == tree.id());
            let expected: BTreeSet<u64> =
                own.flat_map(|entry| entry.first..entry.first + ROWS).collect();
            assert!(found == expected, "{}: {} of {}", tree.name(), found.len(), expected.len());
        }
        drop((snapshot, trees));
        db.close().unwrap();
    }
}

/// If a row is committed to an empty tree during a load, either the load is refused or that commit
/// is.
#[test]
fn commits_prevent_a_load_into_their_tree_or_are_refused() {
    for _ in effort::seeds(1) {
        let (_dir, db) = store();
        db.create_tree("live", TreeOptions::default()).unwrap();
        let (mut gone, mut filled, mut refused) = (BTreeMap::new(), 0, 0);
        let loaded = Mutex::new(Vec::new());
        let ledger = Ledger::default();
        // One of them writes only now and then, so that the tree is empty for some loads.
        let write = |way, often: u64| {
            let (ledger, db) = (&ledger, &db);
            move |round| match round / 2 % often {
                0 => ledger.write(db, "live", way, &[]),
                _ => thread::sleep(std::time::Duration::from_micros(300)),
            }
        };
        let (batches, txns) = (write(Way::Batch, 4), write(Way::Txn, 20));
        let changes = |turns: &dyn Fn()| {
            for _ in 0..60 {
                turns();
                ledger.left.store(COMMITS, Ordering::Relaxed);
                let old = db.open_tree("live").unwrap();
                let load = db.bulk_load_into(&old).and_then(|mut load| {
                    let first = ledger.next.fetch_add(ROWS, Ordering::Relaxed);
                    for row in first..first + ROWS {
                        load.put(&row.to_be_bytes(), b"loaded")?;
                    }
                    load.finish().map(|done| (first, done.tree))
                });
                match load {
                    Ok((first, tree)) => {
                        filled += 1;
                        let entry = Entry { first, tree: tree.id(), seqno: tree.info().birth };
                        assert!(keys(&db.snapshot(), &tree).unwrap().len() >= ROWS as usize);
                        loaded.lock().unwrap().push(entry);
                        // The old tree was empty, so a commit acknowledged into it is lost: an end
                        // of 0 makes the check fail.
                        gone.insert(old.id(), Seqno(0));
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::TreeNotEmpty(_)), "{error}");
                        refused += 1;
                    }
                }
                let old = db.open_tree("live").unwrap().id();
                let end = db.change_trees().truncate("live").commit().unwrap().seqno.unwrap();
                gone.insert(old, end);
            }
        };
        run_concurrently(&db, changes, &[&batches, &txns]);
        assert_eq!(filled + refused, 60);
        ledger.acknowledged.lock().unwrap().append(&mut loaded.lock().unwrap());
        ledger.must_be_kept(&db, &gone);
        assert_clean(&db);
        db.close().unwrap();
    }
}

/// Values of all layouts are there, and the handle that the change returns reads them in the newest
/// layout.
#[test]
fn commits_survive_layout_changes_of_their_tree() {
    let (_dir, db) = store();
    let part = Part::Fixed(8, Hint::None);
    let value_layout = Some(Layout::versioned([part]));
    let options = TreeOptions::new().value_layout(value_layout);
    let first = db.create_tree("live", options).unwrap();
    let ledger = Ledger::default();
    // Writers use the layout that the tree began with: older versions may be written.
    let write = |way| {
        let (ledger, db) = (&ledger, &db);
        move |_| ledger.write(db, "live", way, &[0, 0])
    };
    let (batches, txns) = (write(Way::Batch), write(Way::Txn));
    let read = |_| {
        let snapshot = db.snapshot();
        match (keys(&snapshot, &first), keys(&snapshot, &first)) {
            (Ok(one), Ok(again)) => assert_eq!(one, again),
            (_, Err(error)) | (Err(error), _) => assert!(is_gone(&error, "live"), "{error}"),
        }
    };
    let changes = |turns: &dyn Fn()| {
        for round in 0..20u8 {
            turns();
            ledger.left.store(COMMITS, Ordering::Relaxed);
            let add = NewPart::Add { part: Part::Fixed(1, Hint::Integer), default: vec![round] };
            let keep = (1..2 + usize::from(round)).map(NewPart::Keep);
            let parts: Vec<NewPart> = keep.chain([add]).collect();
            db.change_layout("live", &parts, None).unwrap();
        }
    };
    run_concurrently(&db, changes, &[&batches, &txns, &read]);
    ledger.must_be_kept(&db, &BTreeMap::new());
    let now = db.open_tree("live").unwrap();
    let mut rows = now.scan(..).unwrap();
    while let Some((_, value)) = rows.next().unwrap() {
        assert_eq!(value.len(), 2 + 8 + 20);
        assert!(value[10..].iter().copied().eq(0..20));
    }
    drop((rows, now, first));
    assert_clean(&db);
    db.close().unwrap();
}
