//! Two-phase commit and kill -9: each transaction is in both of two stores or in neither, whenever
//! the kill happens.
//!
//! The program runs itself as a child with three threads, each a coordinator of transactions that
//! write one row to each of two stores: prepare in both, decide in a log of its own, decide in
//! both. The parent kills it, opens both stores, and ends in-doubt transactions as the log of
//! decisions says; one without a decision is rolled back. Then both stores have the rows of all
//! transactions that were decided to commit, and no others; nothing stays prepared.
//!
//! Exit codes: 0 both stores agree; 1 a transaction is in only one of them, is lost, or stays
//! prepared.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, exit},
    thread,
    time::Duration,
};

use frond::{Db, Durability, Options, TreeOptions, TxnOptions, transaction::Xid};
use frond_break::{Dice, Run};

const THREADS: u64 = 3;
const STORES: [&str; 2] = ["one", "two"];
const CHILD: &str = "FROND_BREAK_CHILD";

fn options() -> Options {
    Options::new().cache_size(8 << 20).durability(Durability::Os)
}

fn open(dir: &Path) -> frond::Result<[Db; 2]> {
    Ok([Db::open(dir.join(STORES[0]), options())?, Db::open(dir.join(STORES[1]), options())?])
}

fn decisions(dir: &Path, thread: u64) -> PathBuf {
    dir.join(format!("decisions-{thread}"))
}

/// Coordinates transactions until it is killed.
fn coordinate(dir: &Path, seed: u64, round: u64) -> frond::Result<()> {
    let stores = open(dir)?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            let stores = &stores;
            threads.push(scope.spawn(move || -> frond::Result<()> {
                let mut dice = Dice::new(seed, round << 8 | thread);
                let mut log = File::options()
                    .append(true)
                    .create(true)
                    .open(decisions(dir, thread))
                    .expect("the log opens");
                for number in 0u64.. {
                    let row = [round, thread, number].map(u64::to_be_bytes).concat();
                    let xid = Xid::new(&row)?;
                    let length = if dice.one_in(30) { 100_000 } else { dice.below(200) };
                    let value = dice.bytes(length as usize);
                    let mut prepared = Vec::new();
                    for db in stores {
                        let txn = db.begin(TxnOptions::default())?;
                        txn.put(&db.open_tree("rows")?, &row, &value)?;
                        prepared.push(txn.prepare(&xid)?);
                    }
                    let commits = !dice.one_in(4);
                    if commits {
                        // Written to the page cache, which survives a kill.
                        log.write_all(&row).expect("a decision is written");
                    }
                    for (at, one) in prepared.into_iter().enumerate() {
                        // Some stay in doubt, to be decided by name.
                        match (commits, dice.one_in(5)) {
                            (true, false) => drop(one.commit()?),
                            (false, false) => one.rollback()?,
                            (true, true) => {
                                one.detach();
                                stores[at].commit_prepared(&xid)?;
                            }
                            (false, true) => {
                                one.detach();
                                stores[at].rollback_prepared(&xid)?;
                            }
                        }
                    }
                }
                Ok(())
            }));
        }
        threads.into_iter().try_for_each(|one| one.join().expect("no coordinator panics"))
    })
}

fn main() {
    if let Ok(child) = env::var(CHILD) {
        let mut words = child.split(' ').map(|word| word.parse().expect("a number"));
        let (seed, round) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let dir = PathBuf::from(env::args_os().nth(1).expect("the directory"));
        let error = coordinate(&dir, seed, round).expect_err("it goes on until it is killed");
        println!("two_phase: the coordinators ended: {error}");
        exit(1)
    }
    let run = Run::begin("two_phase");
    let mut dice = run.dice(0);
    for db in run.must(open(run.dir()), "create the stores") {
        run.must(db.create_tree("rows", TreeOptions::default()), "create a tree");
        run.must(db.close(), "close");
    }
    let (mut round, mut in_doubt, mut committed) = (0, 0, BTreeSet::new());
    while run.goes_on() {
        let mut command = Command::new(run.must(env::current_exe(), "find this program"));
        command.arg(run.dir()).env(CHILD, format!("{} {round}", run.seed));
        let mut child = run.must(command.spawn(), "run this program");
        thread::sleep(Duration::from_millis(20 + dice.below(1000)));
        if let Some(status) = run.must(child.try_wait(), "look at the child") {
            run.fails(format_args!(
                "round {round}: the coordinators ended by themselves: {status}"
            ));
        }
        run.must(child.kill().and_then(|()| child.wait()), "kill");
        for thread in 0..THREADS {
            let log = fs::read(decisions(run.dir(), thread)).unwrap_or_default();
            committed.extend(log.chunks_exact(24).map(<[u8]>::to_vec));
        }
        let mut stores = run.must(open(run.dir()), "open after a kill");
        if dice.one_in(3) {
            // An in-doubt transaction survives a checkpoint and another opening.
            stores.iter().for_each(|db| run.must(db.checkpoint(), "checkpoint"));
            drop(stores);
            stores = run.must(open(run.dir()), "open once more");
        }
        for db in &stores {
            for prepared in db.take_recovered() {
                let commits = committed.contains(prepared.xid.as_bytes());
                let decided = match commits {
                    true => db.commit_prepared(&prepared.xid).map(drop),
                    false => db.rollback_prepared(&prepared.xid),
                };
                run.must(decided, "decide");
                in_doubt += 1;
            }
            if !db.prepared().is_empty() {
                run.fails(format_args!("round {round}: {} stay prepared", db.prepared().len()));
            }
        }
        let rows = stores.each_ref().map(|db| {
            let tree = run.must(db.open_tree("rows"), "open a tree");
            let (mut rows, mut cursor) = (BTreeSet::new(), run.must(tree.scan(..), "scan"));
            while let Some((key, _)) = run.must(cursor.next(), "scan") {
                rows.insert(key.to_vec());
            }
            rows
        });
        for (store, rows) in STORES.iter().zip(&rows) {
            let (lost, many) =
                (committed.difference(rows).count(), rows.difference(&committed).count());
            if lost + many > 0 {
                run.fails(format_args!(
                    "round {round}, store {store}: {lost} lost, {many} too many"
                ));
            }
        }
        round += 1;
    }
    run.ends(format_args!("{round} kills, {} transactions, {in_doubt} in doubt", committed.len()));
}
