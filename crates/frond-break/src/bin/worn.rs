//! Trees with tiny nodes and minimal memory, worn down from their edges, idle now and then, and
//! reopened at any moment.
//!
//! Two trees of each store are appended to, filled anywhere, and emptied from the right, from the
//! left, and in stretches. The store is idle until its buffers are drained, checkpoints, or
//! continues at once. After each step all rows are compared with a model, in memory and, in every
//! other step, after a reopening; a full check and a backup read everything from the disk.
//!
//! Nodes are made tiny by `Options::tuning`, which is hidden from the documentation: what otherwise
//! takes gigabytes happens in seconds.
//!
//! Exit codes: 0 everything is as in the models; 1 rows differ or cannot be read.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use frond::{
    Batch, Db, Durability, Options, Tree, TreeOptions,
    check::CheckMode,
    internals::{Limits, Shape, Tuning},
};
use frond_break::{Dice, Run, short};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(fanout: usize) -> Options {
    let shape = Shape {
        leaf_bytes: 2048,
        fanout_max: fanout,
        push_bytes: 1024,
        block_bytes: 512,
        run_bytes: 4096,
        tiers_max: 4,
        tiers_max_bottom: 3,
        ..Shape::default()
    };
    let limits = Limits {
        memtable_bytes: 64 << 10,
        memtable_log_bytes: 1 << 20,
        unwritten_bytes: 256 << 10,
        checkpoint_log_bytes: 1 << 20,
        checkpoint_millis: 50,
        footers_bytes: 8 << 10,
        mini_run_entries: 10_000,
        own_writes_bytes: 16 << 10,
    };
    let tuning = Tuning {
        shape: Some(shape),
        limits: Some(limits),
        segment_bytes: Some(64 << 10),
        group_bytes: Some(16 << 10),
    };
    Options::new().cache_size(4 << 20).durability(Durability::Lazy).tuning(tuning)
}

/// Makes one change of a tree and of its model.
fn change(run: &Run, db: &Db, tree: &Tree, dice: &mut Dice, model: &mut Rows) {
    let number = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("four bytes"));
    let last = model.last_key_value().map_or(0, |(key, _)| number(key));
    let most = if dice.one_in(4) { 400 } else { 100 };
    let count = 1 + dice.below(most);
    let mut batch = Batch::new();
    let set = |batch: &mut Batch, model: &mut Rows, key: u32, value: Option<Vec<u8>>| {
        let key = key.to_be_bytes().to_vec();
        match value {
            Some(value) => {
                run.must(batch.put(tree, &key, &value), "put");
                model.insert(key, value);
            }
            None => {
                run.must(batch.delete(tree, &key), "delete");
                model.remove(&key);
            }
        }
    };
    match dice.below(8) {
        0..3 => {
            for row in 0..count as u32 {
                let value = dice.bytes(24);
                set(&mut batch, model, last + 1 + row, Some(value));
            }
        }
        3 => {
            for _ in 0..count {
                let (key, value) = (dice.below(u64::from(last) + 100) as u32, dice.bytes(24));
                set(&mut batch, model, key, Some(value));
            }
        }
        4 | 5 => {
            let keys: Vec<_> = match dice.below(2) {
                0 => model.keys().rev().take(count as usize).map(|key| number(key)).collect(),
                _ => model.keys().take(count as usize).map(|key| number(key)).collect(),
            };
            keys.into_iter().for_each(|key| set(&mut batch, model, key, None));
        }
        6 => {
            let from = dice.below(u64::from(last) + 1) as u32;
            (from..from + count as u32).for_each(|key| set(&mut batch, model, key, None));
        }
        _ => {
            let (from, to) = (dice.below(u64::from(last) + 1) as u32, count as u32);
            let (from, to) = (from.to_be_bytes(), (from + to).to_be_bytes());
            run.must(batch.delete_range(tree, &from..&to), "delete a range");
            model.retain(|key, _| key[..] < from[..] || key[..] >= to[..]);
        }
    }
    run.must(db.commit(&mut batch), "commit");
}

fn compare(run: &Run, tree: &Tree, model: &Rows, when: &str) {
    let what = format!("{when}, tree {}", tree.name());
    let mut cursor = run.must(tree.scan(..), &what);
    let mut expected = model.iter();
    for row in 0.. {
        let found = run.must(cursor.next(), &what);
        let expected = expected.next().map(|(key, value)| (&key[..], &value[..]));
        if found != expected {
            let key_of = |row: Option<(&[u8], &[u8])>| row.map(|(key, _)| short(key));
            let (found, expected) = (key_of(found), key_of(expected));
            run.fails(format_args!(
                "{what}, row {row} of {}: found {found:?}, expected {expected:?}",
                model.len()
            ));
        }
        if found.is_none() {
            return;
        }
    }
}

/// Appends `batches` batches of rows, each of which becomes leaves of its own.
fn append(run: &Run, db: &Db, tree: &Tree, dice: &mut Dice, batches: u64, model: &mut Rows) {
    for number in 0..batches * 50 {
        let (key, value) = ((number as u32).to_be_bytes().to_vec(), dice.bytes(24));
        run.must(tree.put(&key, &value), "put");
        model.insert(key, value);
        if number % 50 == 49 {
            run.must(db.checkpoint(), "checkpoint");
        }
    }
}

/// Creates one store and wears it down.
fn wear(run: &Run, number: u64, steps: &AtomicU64) {
    let mut dice = run.dice(number);
    let fanout = [4, 8, 16][number as usize % 3];
    let (dir, backup) =
        (run.dir().join(format!("store-{number}")), run.dir().join(format!("backup-{number}")));
    let mut db = run.must(Db::open(&dir, options(fanout)), "create a store");
    let mut models = [("a", Rows::new()), ("b", Rows::new())];
    for (name, model) in &mut models {
        let tree = run.must(db.create_tree(name, TreeOptions::default()), "create a tree");
        let batches = dice.below(60);
        append(run, &db, &tree, &mut dice, batches, model);
    }
    for _ in 0..8 {
        for (name, model) in &mut models {
            let tree = run.must(db.open_tree(name), "open a tree");
            (0..=dice.below(2)).for_each(|_| change(run, &db, &tree, &mut dice, model));
        }
        match dice.below(4) {
            // The store drains its buffers once nothing was committed for a second.
            0 | 1 => {
                run.must(db.checkpoint(), "checkpoint");
                thread::sleep(Duration::from_millis(1300));
            }
            2 => run.must(db.checkpoint(), "checkpoint"),
            _ => {}
        }
        let all = |db: &Db, when: &str| {
            for (name, model) in &models {
                let when = format!("store {number}, {when}");
                compare(run, &run.must(db.open_tree(name), "open a tree"), model, &when);
            }
        };
        all(&db, "at once");
        if dice.one_in(2) {
            let report = run.must(db.check(CheckMode::Full), "check");
            if !report.is_clean() {
                run.fails(report);
            }
            run.must(db.backup(&backup), "back up");
            run.must(std::fs::remove_dir_all(&backup), "remove the backup");
            // Otherwise the last handle closes it, and reports no errors.
            if dice.one_in(2) {
                run.must(db.close(), "close");
            }
            drop(db);
            db = run.must(Db::open(&dir, options(fanout)), "open again");
            all(&db, "opened again");
        }
        steps.fetch_add(1, Relaxed);
        if !run.goes_on() {
            break;
        }
    }
    run.must(db.close(), "close");
    drop(db);
    run.must(std::fs::remove_dir_all(&dir), "remove a store");
}

fn main() {
    let run = Run::begin("worn");
    let (stores, steps) = (AtomicU64::new(0), AtomicU64::new(0));
    // Most of them wait for a store to drain.
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while run.goes_on() {
                    wear(&run, stores.fetch_add(1, Relaxed), &steps);
                }
            });
        }
    });
    run.ends(format_args!("{} stores, {} steps", stores.into_inner(), steps.into_inner()));
}
