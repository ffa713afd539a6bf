//! Many trees, many named snapshots, long keys: everything acknowledged is there after a reopening,
//! or the call that would have exceeded a limit was refused with a specific error.
//!
//! In each turn a store gets thousands of trees with one row each, in some turns a row with a key
//! of maximum length, and then named snapshots until the time of the turn is over. Rows change in
//! between. A refusal (any error of a call that commits) ends the filling, and must leave the store
//! as it was: writable and complete. Then the store is closed and opened, and every tree and some
//! snapshots are read.
//!
//! Exit codes: 0 everything is there; 1 the store does not open, or rows, trees or snapshots are
//! missing.

use std::time::{Duration, Instant};

use frond::{Batch, Db, Durability, Error, KEY_BYTES_MAX, Options, TreeOptions};
use frond_break::{Dice, Run};

/// What fills a store in one turn.
struct Turn {
    trees: u64,
    key_bytes: usize,
    /// Rows are deleted again before the first snapshot, so that pages die in every tree.
    deletes: bool,
    until: Instant,
}

/// What was acknowledged.
#[derive(Default)]
struct Filled {
    /// For each tree, whether it has its row.
    rows: Vec<bool>,
    /// Named snapshots, and the number of trees that each shows with a row.
    snapshots: Vec<(String, usize)>,
}

fn options() -> Options {
    Options::new().cache_size(256 << 20).durability(Durability::Os)
}

fn name(tree: usize) -> String {
    format!("tree-{tree:06}")
}

fn key(turn: &Turn, tree: usize) -> Vec<u8> {
    let mut key = format!("customer-{tree:08}-").into_bytes();
    key.resize(turn.key_bytes.max(key.len()), b'k');
    key
}

/// Fills the store until the time is over or a call is refused.
fn fill(db: &Db, turn: &Turn, dice: &mut Dice, filled: &mut Filled) -> frond::Result<()> {
    while (filled.rows.len() as u64) < turn.trees {
        let first = filled.rows.len();
        let mut change = db.change_trees();
        for tree in first..first + 500 {
            change.create(&name(tree), TreeOptions::default());
        }
        change.commit()?;
        filled.rows.resize(first + 500, false);
        for tree in first..first + 500 {
            db.open_tree(&name(tree))?.put(&key(turn, tree), b"a row")?;
            filled.rows[tree] = true;
        }
    }
    db.checkpoint()?;
    if turn.deletes {
        let mut batch = Batch::new();
        for tree in 0..filled.rows.len() {
            batch.delete(&db.open_tree(&name(tree))?, &key(turn, tree))?;
        }
        db.commit(&mut batch)?;
        filled.rows.fill(false);
        db.checkpoint()?;
    }
    while Instant::now() < turn.until {
        let snapshot = format!("snapshot-{:06}", filled.snapshots.len());
        db.create_snapshot(&snapshot)?;
        let shown = filled.rows.iter().filter(|has| **has).count();
        filled.snapshots.push((snapshot, shown));
        for _ in 0..50 {
            let tree = dice.below(filled.rows.len() as u64) as usize;
            let handle = db.open_tree(&name(tree))?;
            if filled.rows[tree] {
                handle.delete(&key(turn, tree))?;
            } else {
                handle.put(&key(turn, tree), b"a row")?;
            }
            filled.rows[tree] = !filled.rows[tree];
        }
    }
    Ok(())
}

fn check(run: &Run, db: &Db, turn: &Turn, filled: &Filled, dice: &mut Dice) {
    if db.trees().len() < filled.rows.len() || db.snapshots().len() < filled.snapshots.len() {
        run.fails("trees or snapshots are missing");
    }
    for (tree, has) in filled.rows.iter().enumerate() {
        let handle = run.must(db.open_tree(&name(tree)), "open a tree");
        let found = run.must(handle.get(&key(turn, tree)), "get");
        if found.is_some() != *has {
            run.fails(format_args!("tree {tree}: a row was expected: {has}"));
        }
    }
    for _ in 0..4.min(filled.snapshots.len()) {
        let (name_of, shown) =
            &filled.snapshots[dice.below(filled.snapshots.len() as u64) as usize];
        let snapshot = run.must(db.open_snapshot(name_of), "open a snapshot");
        let mut found = 0;
        for tree in 0..filled.rows.len() {
            let handle = run.must(db.open_tree(&name(tree)), "open a tree");
            let got = run.must(snapshot.get(&handle, &key(turn, tree)), "get from a snapshot");
            found += usize::from(got.is_some());
        }
        if found != *shown {
            run.fails(format_args!("{name_of} shows {found} rows of {shown}"));
        }
    }
}

fn main() {
    let run = Run::begin("many_trees");
    let mut dice = run.dice(0);
    let (mut turns, mut most) = (0, (0, 0));
    let share = run.left() / 3;
    while run.goes_on() {
        let trees = 500 * (1 + dice.below(share.as_secs().clamp(1, 20)));
        let long = turns % 3 == 1;
        let turn = Turn {
            trees: if long { 1500 } else { trees },
            key_bytes: if long { KEY_BYTES_MAX - 1024 } else { 30 },
            deletes: turns % 3 == 2,
            until: Instant::now() + share.min(run.left()).max(Duration::from_secs(1)),
        };
        let dir = run.dir().join(format!("store-{turns}"));
        let db = run.must(Db::open(&dir, options()), "create a store");
        let mut filled = Filled::default();
        if let Err(refused) = fill(&db, &turn, &mut dice, &mut filled) {
            println!(
                "many_trees: refused after {} trees and {} snapshots: {refused}",
                filled.rows.len(),
                filled.snapshots.len()
            );
            if matches!(refused, Error::Failed(_) | Error::OutcomeUnknown(_)) {
                run.fails("the store has stopped");
            }
            run.must(
                db.create_tree("one more", TreeOptions::default())
                    .and_then(|tree| tree.put(b"a", b"")),
                "go on",
            );
        }
        run.must(db.close(), "close");
        drop(db);
        let db = run.must(Db::open(&dir, options()), "open again");
        check(&run, &db, &turn, &filled, &mut dice);
        run.must(db.close(), "close again");
        drop(db);
        run.must(std::fs::remove_dir_all(&dir), "remove a store");
        most = most.max((filled.rows.len(), filled.snapshots.len()));
        turns += 1;
    }
    run.ends(format_args!(
        "{turns} stores, one of them with {} trees and {} named snapshots",
        most.0, most.1
    ));
}
