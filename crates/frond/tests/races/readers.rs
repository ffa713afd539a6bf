//! Readers of a tree that comes and goes: they see all rows or get an error, and two answers from
//! one snapshot agree.

use super::*;
use frond::{IfLocked, ReadOptions, RowLock, Txn, TxnCursor, transaction::Sees};
use frond_testkit::effort;

/// Rows of the tree, whichever tree has the name.
const ROWS: u8 = 50;

/// Makes the tree with all its rows, in one commit.
fn load(db: &Db, name: &str) {
    let mut load = db.bulk_load(name, TreeOptions::default()).unwrap();
    (0..ROWS).for_each(|row| load.put(&[row], &[row; 20]).unwrap());
    load.finish().unwrap();
}

fn count(mut cursor: TxnCursor<'_>, forward: bool) -> Result<usize> {
    let mut rows = 0;
    if !forward {
        cursor.seek_last();
    }
    while (if forward { cursor.next()? } else { cursor.prev()? }).is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// What one reader sees, in several ways, all in one snapshot or through one handle: each is the
/// number of rows.
fn seen(db: &Db, tree: &Tree, round: u64) -> Result<Vec<usize>> {
    let all = usize::from(ROWS);
    let one = |found: bool| if found { all } else { 0 };
    let every: Vec<[u8; 1]> = (0..ROWS).map(|row| [row]).collect();
    let level = LEVELS[(round % 4) as usize];
    Ok(match round % 3 {
        0 => vec![
            one(tree.get(&[9])?.is_some()),
            tree.row_count()?.rows.min(1) as usize * all,
            one(tree.contains(&[8])?),
            tree.get_many(&every)?.iter().flatten().count(),
            one(tree.estimate(..)?.rows > 0),
        ],
        1 => {
            let snapshot = db.snapshot();
            let scanned = keys(&snapshot, tree)?.len();
            thread::yield_now();
            let many = snapshot.get_many(tree, &every)?.iter().flatten().count();
            let got = snapshot.get(tree, &[7])?.is_some();
            // A snapshot that has shown a tree continues to show it, however long it lasts.
            thread::sleep(std::time::Duration::from_millis(2));
            vec![scanned, many, one(got), keys(&snapshot, tree).unwrap().len()]
        }
        _ => {
            let read_only = round.is_multiple_of(2);
            let txn = db.begin(TxnOptions::new().isolation(level).read_only(read_only)).unwrap();
            let newest = ReadOptions::new().sees(Sees::Newest);
            let mut seen = vec![
                count(txn.scan(tree, ..)?, true)?,
                one(txn.get(tree, &[7])?.is_some()),
                count(txn.scan(tree, ..)?, false)?,
                txn.get_many(tree, &every)?.iter().flatten().count(),
                one(txn.get_with(tree, &[3], &newest)?.exists),
                one(txn.estimate(tree, ..)?.rows > 0),
            ];
            if !read_only {
                seen.extend(locked(&txn, tree)?);
            }
            seen
        }
    })
}

fn locked(txn: &Txn, tree: &Tree) -> Result<Vec<usize>> {
    let last_commit =
        ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::SemiConsistent);
    let all = usize::from(ROWS);
    let one = |found: bool| if found { all } else { 0 };
    Ok(vec![
        one(txn.get_with(tree, &[2], &last_commit)?.exists),
        one(txn
            .get_with(tree, &[4], &ReadOptions::new().lock(RowLock::Shared))
            .map(|row| row.into_value())?
            .is_some()),
        count(txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Shared))?, true)?,
    ])
}

/// Rule: I43.
#[test]
fn readers_see_all_rows_or_an_error_while_their_tree_is_replaced() {
    for _ in effort::seeds(1) {
        let (_dir, db) = store();
        load(&db, "t");
        let read = |round| {
            let Ok(tree) = db.open_tree("t") else { return };
            match seen(&db, &tree, round) {
                Ok(seen) => {
                    let is_whole = seen.iter().all(|rows| *rows == usize::from(ROWS));
                    assert!(is_whole, "round {round}: {seen:?} of {ROWS}");
                }
                Err(error) => {
                    let is_told = is_gone(&error, "t") || is_gone(&error, "u") || is_retry(&error);
                    assert!(is_told, "round {round}: {error}");
                }
            }
        };
        let changes = |turns: &dyn Fn()| {
            for round in 0..60u64 {
                turns();
                match round % 4 {
                    0 => {
                        db.drop_tree("t").unwrap();
                        load(&db, "t");
                    }
                    // Another tree takes its place, in one change.
                    1 => {
                        load(&db, "u");
                        db.change_trees().swap("t", "u").drop_tree("u").commit().unwrap();
                    }
                    2 => {
                        let mut change = db.change_trees();
                        change.clone_tree("t", "u").drop_tree("t").rename("u", "t");
                        change.commit().unwrap();
                    }
                    _ => {
                        load(&db, "u");
                        db.change_trees().drop_tree("t").rename("u", "t").commit().unwrap();
                    }
                }
            }
        };
        run_concurrently(&db, changes, &[&read, &read, &read, &read]);
        assert_clean(&db);
        db.close().unwrap();
    }
}

/// A truncated tree is a new tree: the old handle shows all rows or an error.
#[test]
fn readers_see_all_rows_of_a_tree_or_that_it_was_truncated() {
    for _ in effort::seeds(1) {
        let (_dir, db) = store();
        let current = std::sync::RwLock::new(None);
        let read = |round| {
            let tree: Option<Tree> = current.read().unwrap().clone();
            let Some(tree) = tree else { return };
            match seen(&db, &tree, round) {
                Ok(seen) => {
                    let is_whole = seen.iter().all(|rows| *rows == usize::from(ROWS));
                    assert!(is_whole, "round {round}: {seen:?} of {ROWS}");
                }
                Err(error) => {
                    assert!(is_gone(&error, "t") || is_retry(&error), "round {round}: {error}");
                }
            }
        };
        let changes = |turns: &dyn Fn()| {
            let mut tree = db.create_tree("t", TreeOptions::default()).unwrap();
            for _ in 0..40 {
                // Half of the rows are in leaves, half in memory.
                let mut load = db.bulk_load_into(&tree).unwrap();
                (0..ROWS / 2).for_each(|row| load.put(&[row], &[row; 20]).unwrap());
                tree = load.finish().unwrap().tree;
                let mut batch = Batch::new();
                (ROWS / 2..ROWS).for_each(|row| batch.put(&tree, &[row], &[row; 20]).unwrap());
                db.commit(&mut batch).unwrap();
                *current.write().unwrap() = Some(tree.clone());
                turns();
                let changed = db.change_trees().truncate("t").commit().unwrap();
                tree = changed.steps[0].tree.clone().unwrap();
                *current.write().unwrap() = None;
            }
        };
        run_concurrently(&db, changes, &[&read, &read, &read, &read]);
        assert_clean(&db);
        *current.write().unwrap() = None;
        db.close().unwrap();
    }
}
