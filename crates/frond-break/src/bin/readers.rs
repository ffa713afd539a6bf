//! Readers of every kind, concurrent with trees and indexes that are created and dropped: a read
//! shows all rows, or returns an error.
//!
//! A tree of fifty rows is loaded in one commit and dropped again, swapped, or truncated and loaded
//! again; an index of a table whose rows never change is built and dropped. Readers read the same
//! rows in one snapshot or transaction in several ways. Every answer is the same fifty rows, unless
//! a call fails.
//!
//! Exit codes: 0 all answers agree; 1 some show only some of the rows.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use frond::{
    Db, Durability, Error, IndexSpec, Isolation, Options, Table, TableSpec, Tree, TreeOptions,
    TxnOptions,
};
use frond_break::{Dice, Run};

const ROWS: u8 = 50;
const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn load(db: &Db, name: &str) -> frond::Result<()> {
    let mut load = db.bulk_load(name, TreeOptions::default())?;
    for row in 0..ROWS {
        load.put(&[row], &[row; 20])?;
    }
    load.finish().map(drop)
}

/// Creates and drops trees.
fn change_trees(db: &Db, stop: &AtomicBool) -> frond::Result<u64> {
    let mut changes = 0;
    load(db, "spare")?;
    while !stop.load(Relaxed) {
        load(db, "x")?;
        thread::sleep(Duration::from_micros(500));
        match changes % 3 {
            0 => db.drop_tree("x")?,
            1 => {
                db.change_trees().swap("x", "spare").commit()?;
                db.drop_tree("x")?;
            }
            _ => {
                db.change_trees()
                    .clone_tree("x", "next")
                    .drop_tree("x")
                    .rename("next", "x")
                    .commit()?;
                db.drop_tree("x")?;
            }
        }
        changes += 1;
    }
    Ok(changes)
}

/// Creates and drops an index.
fn change_indexes(table: &Table, stop: &AtomicBool) -> frond::Result<u64> {
    let mut changes = 0;
    while !stop.load(Relaxed) {
        let by_first = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
            out.push(row[0]);
            Ok(true)
        };
        let spec = IndexSpec::new("by first", by_first);
        table.build_index(if changes % 2 == 0 { spec.clustering() } else { spec })?;
        if changes % 3 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        while let Err(error) = table.drop_index("by first") {
            if !matches!(error, Error::LockBusy { .. } | Error::LockTimeout { .. }) {
                return Err(error);
            }
        }
        changes += 1;
    }
    Ok(changes)
}

/// How many rows each way of reading shows, within one snapshot and one transaction.
fn read_tree(db: &Db, tree: &Tree, dice: &mut Dice) -> frond::Result<Vec<(&'static str, usize)>> {
    let mut shown = Vec::new();
    if dice.one_in(2) {
        let snapshot = db.snapshot();
        for way in ["snapshot, first scan", "snapshot, second scan"] {
            let (mut cursor, mut rows) = (snapshot.scan(tree, ..)?, 0);
            while cursor.next()?.is_some() {
                rows += 1;
            }
            shown.push((way, rows));
        }
        let got = snapshot.get(tree, &[dice.below(ROWS.into()) as u8])?;
        shown.push(("snapshot, get", if got.is_some() { ROWS.into() } else { 0 }));
        return Ok(shown);
    }
    let isolation = LEVELS[dice.below(4) as usize];
    let txn = db.begin(
        TxnOptions::new()
            .isolation(isolation)
            .read_only(isolation != Isolation::Serializable && dice.one_in(2)),
    )?;
    let (mut cursor, mut rows) = (txn.scan(tree, ..)?, 0);
    while cursor.next()?.is_some() {
        rows += 1;
    }
    drop(cursor);
    shown.push(("transaction, scan up", rows));
    let got = txn.get(tree, &[dice.below(ROWS.into()) as u8])?;
    shown.push(("transaction, get", if got.is_some() { ROWS.into() } else { 0 }));
    let (mut cursor, mut rows) = (txn.scan(tree, ..)?, 0);
    cursor.seek_last();
    while cursor.prev()?.is_some() {
        rows += 1;
    }
    shown.push(("transaction, scan down", rows));
    Ok(shown)
}

fn read_index(
    db: &Db,
    table: &Table,
    dice: &mut Dice,
) -> frond::Result<Vec<(&'static str, usize)>> {
    let mut shown = Vec::new();
    let isolation = LEVELS[dice.below(4) as usize];
    let txn = db.begin(TxnOptions::new().isolation(isolation))?;
    if dice.one_in(3) {
        txn.get(table.rows(), &[1])?;
    }
    for way in ["index, first scan", "index, second scan"] {
        let index = table.index("by first")?;
        let (mut scan, mut rows) = (index.scan(&txn, ..)?, 0);
        while scan.next()?.is_some() {
            rows += 1;
        }
        shown.push((way, rows));
    }
    Ok(shown)
}

fn main() {
    let run = Run::begin("readers");
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
    let db = run.must(Db::open(run.dir().join("store"), options), "create a store");
    let table = run.must(db.table(TableSpec::new("t")), "create a table");
    let filled = db
        .transact(|txn| (0..ROWS).try_for_each(|row| table.insert(txn, [row], [row % 7, row, 1])));
    run.must(filled, "fill the table");
    let other = run.must(db.create_tree("other", TreeOptions::default()), "create a tree");
    let (stop, reads, errors) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let trees = scope.spawn(|| run.must(change_trees(&db, &stop), "a change of trees"));
        let indexes =
            scope.spawn(|| run.must(change_indexes(&table, &stop), "a change of indexes"));
        // Commits and checkpoints, so that memtables are applied all the time.
        scope.spawn(|| {
            for number in 0u64.. {
                run.must(other.put(&(number % 100).to_be_bytes(), b"x"), "put");
                run.must(db.checkpoint(), "checkpoint");
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        for reader in 0..4 {
            let (run, db, table, stop, reads, errors) = (&run, &db, &table, &stop, &reads, &errors);
            scope.spawn(move || {
                let mut dice = run.dice(reader);
                while !stop.load(Relaxed) {
                    let shown = if reader % 2 == 0 {
                        let Ok(tree) = db.open_tree("x") else { continue };
                        read_tree(db, &tree, &mut dice)
                    } else {
                        read_index(db, table, &mut dice)
                    };
                    match shown {
                        Ok(shown) if shown.iter().all(|(_, rows)| *rows == ROWS.into()) => {
                            reads.fetch_add(1, Relaxed);
                        }
                        Ok(shown) => run.fails(format_args!("of {ROWS} rows: {shown:?}")),
                        Err(_) => drop(errors.fetch_add(1, Relaxed)),
                    }
                }
            });
        }
        thread::sleep(run.left());
        stop.store(true, Relaxed);
        let (trees, indexes) = (trees.join().unwrap_or(0), indexes.join().unwrap_or(0));
        println!("readers: {trees} trees and {indexes} indexes came and went");
    });
    run.must(db.close(), "close");
    run.ends(format_args!("{} reads, {} errors", reads.into_inner(), errors.into_inner()));
}
