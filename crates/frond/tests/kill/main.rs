//! kill -9 at any moment, with sixteen who write: eight by batches, eight by transactions. A ledger outside of the
//! store says what was acknowledged (RELIABILITY §4.4).
//!
//! The process that is killed is this test's own binary, run again for one test of it. Rounds go on with what the
//! last one has left. Commit `n` of a writer is: rows of it in two trees, its mark, and an amount that goes from one
//! account to another. After a kill, of each writer:
//!
//! 1. What its ledger says is there, whole; of the one commit that was not acknowledged, all or nothing (P1, P2).
//! 2. Its commits are there without a hole (P3).
//! 3. Nothing is there that a transaction had taken back, by a savepoint or as a whole.
//!
//! And the accounts together have what they had, so that no amount was taken and not given, or counted twice.
//!
//! `two_phases.rs` does the same to those who commit in two phases.

mod two_phases;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use frond::{
    Batch, CheckMode, Db, Durability, Error, ErrorKind, Isolation, Options, Tree, TreeOptions, Txn,
    TxnOptions, operator,
};
use frond_testkit::{Dice, effort};

const WRITERS: u64 = 16;
const ACCOUNTS: u64 = 40;
const START: i64 = 1000;
const PARTS: u64 = 3;
/// Of what is written to be taken back.
const NEVER: u64 = 99;

const DIR: &str = "FROND_KILL_DIR";
const LEVEL: &str = "FROND_KILL_LEVEL";
/// Should nobody be there any more to kill it.
const ENDS_AFTER: Duration = Duration::from_secs(60);

fn options(level: Durability) -> Options {
    Options::new().cache_size(16 << 20).durability(level)
}

struct Trees {
    rows: Tree,
    index: Tree,
    marks: Tree,
    accounts: Tree,
}

impl Trees {
    fn open(db: &Db) -> frond::Result<Self> {
        let tree = |name: &str, unique| match db.open_tree(name) {
            Err(Error::NoSuchTree(_)) => {
                db.create_tree(name, TreeOptions { unique, ..Default::default() })
            }
            found => found,
        };
        let rows = tree("rows", true)?;
        let (index, marks) = (tree("index", false)?, tree("marks", false)?);
        Ok(Self { rows, index, marks, accounts: tree("accounts", false)? })
    }

    /// Gives each account its start, all or none.
    fn fill(&self, db: &Db) -> frond::Result<()> {
        if self.accounts.get(&0u64.to_be_bytes())?.is_none() {
            let mut batch = Batch::new();
            for account in 0..ACCOUNTS {
                batch.put(&self.accounts, &account.to_be_bytes(), &START.to_be_bytes())?;
            }
            db.commit_with(&mut batch, Durability::Sync)?;
        }
        Ok(())
    }
}

/// Key of a row: writer, commit, part.
fn row_key(writer: u64, commit: u64, part: u64) -> Vec<u8> {
    [writer, commit, part].map(u64::to_be_bytes).concat()
}

fn index_key(writer: u64, commit: u64, part: u64) -> Vec<u8> {
    [part, commit, writer].map(u64::to_be_bytes).concat()
}

/// Now and then a long one.
fn row_value(writer: u64, commit: u64, part: u64) -> Vec<u8> {
    let bytes = if part == 1 && commit % 40 == writer { 70_000 } else { 20 + commit % 200 };
    let mut dice = Dice::new(writer << 40 | commit << 8 | part);
    (0..bytes).map(|_| dice.bits() as u8).collect()
}

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}

fn by_batch(
    db: &Db,
    trees: &Trees,
    writer: u64,
    commit: u64,
    dice: &mut Dice,
) -> frond::Result<()> {
    let mut batch = Batch::new();
    for part in 0..PARTS {
        let value = row_value(writer, commit, part);
        batch.insert(&trees.rows, &row_key(writer, commit, part), &value)?;
        batch.put(&trees.index, &index_key(writer, commit, part), b"")?;
    }
    batch.put(&trees.marks, &writer.to_be_bytes(), &commit.to_be_bytes())?;
    let amount = dice.between(1, 9) as i64;
    for amount in [-amount, amount] {
        let account = dice.below(ACCOUNTS).to_be_bytes();
        batch.merge(&trees.accounts, &account, operator::ADD, &amount.to_be_bytes())?;
    }
    db.commit(&mut batch).map(drop)
}

fn by_transaction(
    txn: &Txn,
    trees: &Trees,
    writer: u64,
    commit: u64,
    dice: &mut Dice,
) -> frond::Result<()> {
    let put = |part| {
        let value = row_value(writer, commit, part);
        txn.insert(&trees.rows, &row_key(writer, commit, part), &value)?;
        txn.put(&trees.index, &index_key(writer, commit, part), b"")
    };
    put(0)?;
    let before = txn.savepoint()?;
    put(NEVER)?;
    txn.put(&trees.marks, &writer.to_be_bytes(), &u64::MAX.to_be_bytes())?;
    txn.rollback_to(&before)?;
    (1..PARTS).try_for_each(put)?;
    let amount = dice.between(1, 9) as i64;
    for amount in [-amount, amount] {
        let account = dice.below(ACCOUNTS).to_be_bytes();
        let value = txn.get_for_update(&trees.accounts, &account)?.expect("filled");
        let value = i64::from_be_bytes(value.try_into().expect("eight bytes"));
        txn.put(&trees.accounts, &account, &(value + amount).to_be_bytes())?;
    }
    txn.put(&trees.marks, &writer.to_be_bytes(), &commit.to_be_bytes())
}

/// Commits again and again, and writes down what was acknowledged.
fn write(db: &Db, trees: &Trees, writer: u64, mut ledger: File) -> frond::Result<()> {
    let begun = Instant::now();
    let mut commit = number(trees.marks.get(&writer.to_be_bytes())?);
    let dice = &mut Dice::new(writer ^ commit << 8);
    let levels = [Isolation::Snapshot, Isolation::ReadCommitted, Isolation::RepeatableRead];
    while begun.elapsed() < ENDS_AFTER {
        commit += 1;
        if writer.is_multiple_of(2) {
            // A deadlock or a row that is busy for long: nothing was done.
            while let Err(error) = by_batch(db, trees, writer, commit, dice) {
                if error.kind() != ErrorKind::Retry {
                    return Err(error);
                }
            }
        } else {
            let isolation = *dice.pick(&levels);
            let options = TxnOptions { isolation, ..Default::default() };
            if dice.chance(1, 10) {
                let taken_back = db.begin(options.clone())?;
                taken_back.put(&trees.rows, &row_key(writer, commit, NEVER), b"")?;
                taken_back.rollback();
            }
            db.transact_with(options, |txn| by_transaction(txn, trees, writer, commit, dice))?;
        }
        // One call: a line is there or not.
        ledger.write_all(format!("{commit}\n").as_bytes()).expect("the ledger");
    }
    Ok(())
}

fn ledger(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("ledger.{writer}"))
}

fn level_of(name: &str) -> Durability {
    if name == "os" { Durability::Os } else { Durability::Sync }
}

#[test]
#[ignore = "the process that is killed: see the test below"]
fn sixteen_writers() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let level = level_of(&std::env::var(LEVEL).unwrap_or_default());
    let db = Db::open(dir.join("store"), options(level)).unwrap();
    let trees = Trees::open(&db).unwrap();
    trees.fill(&db).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let file = OpenOptions::new().create(true).append(true).open(ledger(&dir, writer));
            let (db, trees, file) = (&db, &trees, file.unwrap());
            scope.spawn(move || write(db, trees, writer, file).unwrap());
        }
    });
}

/// The last commit that was acknowledged to a writer.
fn acknowledged(dir: &Path, writer: u64) -> u64 {
    let text = std::fs::read_to_string(ledger(dir, writer)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().next_back().map_or(0, |line| line.parse().expect("a number"))
}

fn all_acknowledged(dir: &Path) -> u64 {
    (0..WRITERS).map(|writer| acknowledged(dir, writer)).sum()
}

/// Returns how many commits there are, and how many of them were not acknowledged.
fn judge(dir: &Path, level: Durability) -> (u64, u64) {
    let db = Db::open(dir.join("store"), options(level)).unwrap();
    let trees = Trees::open(&db).unwrap();
    let (mut commits, mut unsaid) = (0, 0);
    for writer in 0..WRITERS {
        let said = acknowledged(dir, writer);
        let there = number(trees.marks.get(&writer.to_be_bytes()).unwrap());
        assert!(said <= there, "writer {writer}: commit {said} was acknowledged, {there} is there");
        assert!(there <= said + 1, "writer {writer}: {there} is there, {said} was acknowledged");
        let range = &row_key(writer, 0, 0)[..]..&row_key(writer + 1, 0, 0)[..];
        let mut cursor = trees.rows.scan(range).unwrap();
        for commit in 1..=there {
            for part in 0..PARTS {
                let row = cursor.next().unwrap();
                let (key, value) = row.unwrap_or_else(|| panic!("{writer}/{commit} is missing"));
                assert!(key == row_key(writer, commit, part), "{writer}/{commit}: holes, or more");
                assert!(value == row_value(writer, commit, part), "{writer}/{commit}/{part}");
                let entry = trees.index.get(&index_key(writer, commit, part)).unwrap();
                assert!(entry.is_some(), "{writer}/{commit}/{part} is not in the index");
            }
        }
        assert!(cursor.next().unwrap().is_none(), "writer {writer}: more than {there}");
        (commits, unsaid) = (commits + there, unsaid + there - said);
    }
    let mut cursor = trees.index.scan(..).unwrap();
    let mut entries = 0;
    while cursor.next().unwrap().is_some() {
        entries += 1;
    }
    assert_eq!(entries, commits * PARTS, "the index has what the rows have");
    let balance = |account: u64| number(trees.accounts.get(&account.to_be_bytes()).unwrap()) as i64;
    assert_eq!((0..ACCOUNTS).map(balance).sum::<i64>(), START * ACCOUNTS as i64);
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    drop((cursor, trees));
    db.close().unwrap();
    (commits, unsaid)
}

/// Rounds of one store: killed soon after the first commit of the round, or later.
fn rounds(level: &str, count: u64, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let dice = &mut Dice::new(seed);
    let (mut commits, mut unsaid) = (0, 0);
    for round in 0..count {
        let before = all_acknowledged(dir.path());
        let mut writers = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "sixteen_writers"])
            .env(DIR, dir.path())
            .env(LEVEL, level)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while all_acknowledged(dir.path()) == before {
            let ended = writers.try_wait().unwrap();
            assert!(ended.is_none(), "round {round}: the writers have ended by themselves");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(dice.below(150)));
        writers.kill().unwrap();
        writers.wait().unwrap();
        let found = judge(dir.path(), level_of(level));
        assert!(found.0 > commits, "round {round}: nothing was committed");
        (commits, unsaid) = (found.0, unsaid + found.1);
    }
    println!("{level}: {count} kills, {commits} commits, {unsaid} of them not acknowledged");
}

/// Promise: P1, P2, P3.
#[test]
fn what_sixteen_writers_were_told_survives_kills() {
    rounds("sync", 4 * effort::factor(), 1);
    rounds("os", 2 * effort::factor(), 2);
}
