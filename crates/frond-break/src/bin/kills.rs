//! Kills with kill -9 at any moment, checked against a model: every acknowledged commit is there,
//! and any other commit is there completely or not at all.
//!
//! The program runs itself as a child that writes with four threads, and kills it. Each thread has
//! its own keys, and the `n`-th commit of a thread follows from its number: puts, appends, deletes,
//! range deletes and long values, as a batch or as a transaction with a savepoint that is rolled
//! back. The thread's progress is written to the store together with the rows and, after the
//! acknowledgement, to a file, which survives a kill. After each kill the parent opens the store
//! and compares all rows with a model that has made the same commits.
//!
//! Exit codes: 0 everything is there; 1 rows are lost, wrong or too many, or the store does not
//! open.

use std::{
    collections::BTreeMap,
    env,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, exit},
    thread,
    time::Duration,
};

use frond::{Batch, Db, Durability, Options, Tree, TreeOptions, Txn, check::CheckMode, operator};
use frond_break::{Dice, Run, short};

const THREADS: u64 = 4;
const CHILD: &str = "FROND_BREAK_CHILD";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

enum Write {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
}

fn key(thread: u64, dice: &mut Dice) -> Vec<u8> {
    // Most keys come again; some are far apart, and some are long.
    let number = if dice.one_in(4) { dice.below(1 << 40) } else { dice.below(500) };
    let mut key = format!("{thread}-{number:013}").into_bytes();
    if dice.one_in(100) {
        key.resize(1000, b'.');
    }
    key
}

/// The writes of the `number`-th commit of a thread.
fn plan(seed: u64, thread: u64, number: u64) -> Vec<Write> {
    let mut dice = Dice::new(seed, thread << 40 | number);
    let count = if dice.one_in(50) { 400 } else { 1 + dice.below(12) };
    (0..count)
        .map(|_| {
            let key = key(thread, &mut dice);
            match dice.below(20) {
                0..12 => {
                    let most = if dice.one_in(200) { 200_000 } else { 300 };
                    let length = dice.below(most) as usize;
                    Write::Put(key, dice.bytes(length))
                }
                12..14 => Write::Append(key, dice.bytes(10)),
                14..19 => Write::Delete(key),
                _ => {
                    let mut to = key.clone();
                    to.truncate(2 + 13 - dice.below(6) as usize);
                    to.push(b'~');
                    Write::Range(key, to)
                }
            }
        })
        .filter(|write| !matches!(write, Write::Range(from, to) if from >= to))
        .collect()
}

fn make(rows: &mut Rows, write: Write) {
    match write {
        Write::Put(key, value) => drop(rows.insert(key, value)),
        Write::Append(key, more) => rows.entry(key).or_default().extend(more),
        Write::Delete(key) => drop(rows.remove(&key)),
        Write::Range(from, to) => rows.retain(|key, _| *key < from || *key >= to),
    }
}

fn into_batch(batch: &mut Batch, tree: &Tree, writes: &[Write]) -> frond::Result<()> {
    writes.iter().try_for_each(|write| match write {
        Write::Put(key, value) => batch.put(tree, key, value),
        Write::Append(key, more) => batch.merge(tree, key, operator::APPEND, more),
        Write::Delete(key) => batch.delete(tree, key),
        Write::Range(from, to) => batch.delete_range(tree, from..to),
    })
}

fn into_txn(txn: &Txn, tree: &Tree, writes: &[Write]) -> frond::Result<()> {
    for write in writes {
        match write {
            Write::Put(key, value) => txn.put(tree, key, value)?,
            Write::Append(key, more) => txn.merge(tree, key, operator::APPEND, more)?,
            Write::Delete(key) => txn.delete(tree, key)?,
            Write::Range(from, to) => drop(txn.delete_range(tree, &from[..]..&to[..])?),
        }
    }
    Ok(())
}

fn options(round: u64) -> Options {
    // At `Lazy` a kill may lose acknowledged commits, so that level is not tried here.
    let level = [Durability::Os, Durability::Sync][round as usize % 2];
    Options::new().cache_size([4 << 20, 32 << 20][round as usize / 2 % 2]).durability(level)
}

fn ledger(dir: &Path) -> PathBuf {
    dir.join("ledger")
}

/// Writes until it is killed.
fn write_on(dir: &Path, seed: u64, round: u64) -> frond::Result<()> {
    let db = Db::open(dir.join("store"), options(round))?;
    let (tree, progress) = (db.open_tree("rows")?, db.open_tree("progress")?);
    let acknowledged = File::options().write(true).open(ledger(dir)).expect("the parent made it");
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for thread in 0..THREADS {
            let (db, tree, progress, acknowledged) = (&db, &tree, &progress, &acknowledged);
            writers.push(scope.spawn(move || -> frond::Result<()> {
                let mark = thread.to_be_bytes();
                let done = progress.get(&mark)?.map_or(0, |done| u64_of(&done));
                for number in done + 1.. {
                    let (writes, said) = (plan(seed, thread, number), number.to_be_bytes());
                    if number % 3 == 0 {
                        db.transact(|txn| {
                            into_txn(txn, tree, &writes)?;
                            let savepoint = txn.savepoint()?;
                            txn.put(tree, format!("{thread}-never").as_bytes(), b"")?;
                            txn.rollback_to(&savepoint)?;
                            txn.put(progress, &mark, &said)
                        })?;
                    } else {
                        let mut batch = Batch::new();
                        into_batch(&mut batch, tree, &writes)?;
                        batch.put(progress, &mark, &said)?;
                        db.commit(&mut batch)?;
                    }
                    acknowledged.write_all_at(&said, thread * 8).expect("the ledger is written");
                }
                Ok(())
            }));
        }
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panics"))
    })
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

fn compare(run: &Run, tree: &Tree, thread: u64, model: &Rows) {
    let (from, to) = (format!("{thread}-").into_bytes(), format!("{thread}.").into_bytes());
    let mut cursor = run.must(tree.scan(&from[..]..&to[..]), "scan");
    let mut expected = model.iter();
    loop {
        let found = run.must(cursor.next(), "scan");
        let expected = expected.next().map(|(key, value)| (&key[..], &value[..]));
        if found != expected {
            let short =
                |row: Option<(&[u8], &[u8])>| row.map(|(key, value)| (short(key), short(value)));
            let (found, expected) = (short(found), short(expected));
            run.fails(format_args!("thread {thread}: found {found:?}, expected {expected:?}"));
        }
        if found.is_none() {
            return;
        }
    }
}

fn main() {
    if let Ok(child) = env::var(CHILD) {
        let mut words = child.split(' ').map(|word| word.parse().expect("a number"));
        let (seed, round) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let dir = PathBuf::from(env::args_os().nth(1).expect("the directory"));
        let error = write_on(&dir, seed, round).expect_err("it writes until it is killed");
        println!("kills: the writer ended: {error}");
        exit(1)
    }
    let run = Run::begin("kills");
    let mut dice = run.dice(0);
    let db = run.must(Db::open(run.dir().join("store"), options(0)), "create the store");
    for name in ["rows", "progress"] {
        run.must(db.create_tree(name, TreeOptions::default()), "create a tree");
    }
    run.must(db.close(), "close");
    drop(db);
    run.must(std::fs::write(ledger(run.dir()), [0; 8 * THREADS as usize]), "make the ledger");
    let mut models: Vec<(u64, Rows)> = (0..THREADS).map(|_| (0, Rows::new())).collect();
    let mut round = 0;
    while run.goes_on() {
        let program = run.must(env::current_exe(), "find this program");
        let mut command = Command::new(program);
        command.arg(run.dir()).env(CHILD, format!("{} {round}", run.seed));
        let mut child = run.must(command.spawn(), "run this program");
        thread::sleep(Duration::from_millis(20 + dice.below(1500)));
        if let Some(status) = run.must(child.try_wait(), "look at the child") {
            run.fails(format_args!("round {round}: the writers ended by themselves: {status}"));
        }
        run.must(child.kill().and_then(|()| child.wait()), "kill");
        let db = run.must(Db::open(run.dir().join("store"), options(round)), "open after a kill");
        let acknowledged = run.must(std::fs::read(ledger(run.dir())), "read the ledger");
        let (rows, progress) = (
            run.must(db.open_tree("rows"), "open a tree"),
            run.must(db.open_tree("progress"), "open a tree"),
        );
        for (thread, (made, model)) in (0..).zip(&mut models) {
            let mark = run.must(progress.get(&u64::to_be_bytes(thread)), "read progress");
            let found = mark.map_or(0, |done| u64_of(&done));
            let said = u64_of(&acknowledged[thread as usize * 8..][..8]);
            if found < said || found > said + 1 {
                run.fails(format_args!(
                    "thread {thread}: {said} commits acknowledged, {found} found"
                ));
            }
            for number in *made + 1..=found {
                plan(run.seed, thread, number).into_iter().for_each(|write| make(model, write));
            }
            *made = found;
            compare(&run, &rows, thread, model);
        }
        if round % 4 == 3 {
            let report = run.must(db.check(CheckMode::Full), "check");
            if !report.is_clean() {
                run.fails(format_args!("round {round}: {report}"));
            }
        }
        drop(db);
        round += 1;
    }
    let commits: u64 = models.iter().map(|(made, _)| made).sum();
    run.ends(format_args!("{round} kills, {commits} commits"));
}
