//! Changes of trees concurrent with writers, and a ledger: every acknowledged row is in one of the
//! trees.
//!
//! Writers put numbered rows into the tree named `live`. Meanwhile one change of trees after
//! another clones it under another name and, in the same commit, truncates it, drops and creates
//! it, or gives its name to the clone. So a row is written before a change and is in the clone, or
//! after it and is in the new tree; a batch whose tree is gone gets `NoSuchTree` and has done
//! nothing. Half of the runs end with a reopening.
//!
//! Exit codes: 0 everything is there; 1 acknowledged rows are lost, or refused ones are there.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use frond::{Batch, Db, Durability, Error, Options, TreeOptions};
use frond_break::{Dice, Run};

const WRITERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Rotates {
    Truncate,
    Drop,
    Swap,
}

fn options() -> Options {
    Options::new().cache_size(16 << 20).durability(Durability::Lazy)
}

/// The results that one writer got: rows acknowledged, and rows refused.
type Told = (Vec<u64>, Vec<u64>);

fn write(db: &Db, next: &AtomicU64, stop: &AtomicBool, mut dice: Dice) -> frond::Result<Told> {
    let (mut acknowledged, mut refused) = Told::default();
    let mut tree = None;
    while !stop.load(Relaxed) {
        let Some(live) = &tree else {
            tree = db.open_tree("live").ok();
            continue;
        };
        // Some values are long; they are synced between the filling and the commit of a batch.
        let value = vec![7; if dice.one_in(20) { 80 << 10 } else { 20 }];
        let mut rows = Vec::new();
        let mut batch = Batch::new();
        let filled = (0..=dice.below(3)).try_for_each(|_| {
            let row = next.fetch_add(1, Relaxed);
            rows.push(row);
            batch.put(live, &row.to_be_bytes(), &value)
        });
        match filled.and_then(|()| db.commit(&mut batch)) {
            Ok(_) => acknowledged.extend(rows),
            Err(Error::NoSuchTree(_)) => {
                refused.extend(rows);
                tree = None;
            }
            Err(error) => return Err(error),
        }
    }
    Ok((acknowledged, refused))
}

fn rotate(db: &Db, how: Rotates, number: u64) -> frond::Result<()> {
    let archive = format!("archive-{number}");
    let mut change = db.change_trees();
    match how {
        Rotates::Truncate => change.clone_tree("live", &archive).truncate("live"),
        Rotates::Drop => change
            .clone_tree("live", &archive)
            .drop_tree("live")
            .create("live", TreeOptions::default()),
        // The clone takes the name, as when a table is altered by a copy.
        Rotates::Swap => change.clone_tree("live", "next").drop_tree("live").rename("next", "live"),
    };
    change.commit().map(drop)
}

/// In how many trees each row is.
fn rows(db: &Db) -> frond::Result<BTreeMap<u64, u32>> {
    let mut rows = BTreeMap::new();
    for info in db.trees() {
        let tree = db.open_tree(&info.name)?;
        let mut cursor = tree.scan(..)?;
        while let Some((key, _)) = cursor.next()? {
            *rows.entry(u64::from_be_bytes(key.try_into().expect("eight bytes"))).or_default() += 1;
        }
    }
    Ok(rows)
}

fn main() {
    let run = Run::begin("rotation");
    let (mut turn, mut rotations, mut all) = (0, 0u64, 0);
    while run.goes_on() {
        let how = [Rotates::Truncate, Rotates::Drop, Rotates::Swap][turn as usize % 3];
        let dir = run.dir().join(format!("store-{turn}"));
        let db = run.must(Db::open(&dir, options()), "create a store");
        run.must(db.create_tree("live", TreeOptions::default()), "create a tree");
        let (next, stop, told) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::default());
        let until = Instant::now() + Duration::from_secs(3).min(run.left());
        thread::scope(|scope| {
            for writer in 0..WRITERS as u64 {
                let (db, run, next, stop, told) = (&db, &run, &next, &stop, &told);
                let dice = run.dice(turn * 100 + writer);
                scope.spawn(move || {
                    let one = run.must(write(db, next, stop, dice), "a commit");
                    let mut told: std::sync::MutexGuard<'_, Vec<Told>> =
                        told.lock().expect("no writer panics");
                    told.push(one);
                });
            }
            while Instant::now() < until {
                run.must(rotate(&db, how, rotations), "a change of trees");
                rotations += 1;
                thread::sleep(Duration::from_millis(2));
            }
            stop.store(true, Relaxed);
        });
        let (mut acknowledged, mut refused) = Told::default();
        for (yes, no) in told.into_inner().expect("no writer panics") {
            acknowledged.extend(yes);
            refused.extend(no);
        }
        let check = |db: &Db, when: &str| {
            let found = run.must(rows(db), "read all rows");
            let lost = acknowledged.iter().filter(|row| !found.contains_key(row)).count();
            let undead = refused.iter().filter(|row| found.contains_key(row)).count();
            let twice = found.values().filter(|count| **count > 1).count();
            if lost + undead + twice > 0 {
                run.fails(format_args!(
                    "{how:?}, {when}: of {} acknowledged rows {lost} are lost, {twice} are there twice, and {undead} of {} \
                     refused ones are there",
                    acknowledged.len(),
                    refused.len()
                ));
            }
        };
        check(&db, "at once");
        run.must(db.close(), "close");
        drop(db);
        if turn % 2 == 1 {
            check(&run.must(Db::open(&dir, options()), "open again"), "opened again");
        }
        run.must(std::fs::remove_dir_all(&dir), "remove a store");
        all += acknowledged.len();
        turn += 1;
    }
    run.ends(format_args!("{rotations} changes, {all} acknowledged rows"));
}
