//! Tests of kill -9 at any moment, with sixteen writers: eight by batches, eight by transactions. A
//! ledger outside the store records what was acknowledged (docs/safety.md §4.4).
//!
//! The killed process is this test's own binary, run again for one of its tests. Each round
//! continues with the store that the last one has left. Commit `n` of a writer consists of rows in
//! two trees, its mark, and a transfer from one account to another. Some writers also change rows
//! of earlier commits, with their index entries ([`Fate`]); one now and then writes more than a
//! transaction may keep in memory. After a kill, for each writer:
//!
//! 1. What its ledger says is there, completely; the one commit that was not acknowledged is there
//!    completely or not at all (P1, P2).
//! 2. Its commits have no hole (P3).
//! 3. Nothing is there that a transaction has rolled back, to a savepoint or completely.
//!
//! Commits acknowledged at level `lazy` may be lost, but not partly. And the sum of all accounts is
//! unchanged, so that no transfer was made halfway or twice.
//!
//! `two_phases.rs` does the same with two-phase commits.

mod two_phases;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use frond::{
    Batch, Db, Durability, Error, ErrorKind, Isolation, Options, Tree, TreeOptions, Txn,
    TxnOptions, check::CheckMode, operator,
};
use frond_testkit::{Dice, effort};

const WRITERS: u64 = 16;
const ACCOUNTS: u64 = 40;
const START: i64 = 1000;
const PARTS: u64 = 3;
/// A part number in keys that are written only to be rolled back.
const NEVER: u64 = 99;
/// The writer that, every `LARGE_EVERY` commits, writes this many rows of this many bytes in one
/// transaction: more than stays in memory.
const LARGE_WRITER: u64 = 15;
const LARGE_EVERY: u64 = 4;
const LARGE_ROWS: u64 = 1200;
const LARGE_BYTES: usize = 1000;

const DIR: &str = "FROND_KILL_DIR";
const LEVEL: &str = "FROND_KILL_LEVEL";
/// The process ends by itself after this time, in case nothing kills it.
const ENDS_AFTER: Duration = Duration::from_secs(60);

fn options(level: Durability) -> Options {
    Options::new().cache_size(16 << 20).durability(level)
}

/// How later commits have changed a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    AsInserted,
    /// Updated, and its index entry, too.
    Updated,
    Deleted,
}

impl Fate {
    /// The fate of a row after commit `last` of its writer: the first part is updated by the next
    /// commit, the second is deleted by the one after that.
    fn of(writer: u64, commit: u64, part: u64, last: u64) -> Self {
        match (changes_rows(writer), part) {
            (true, 0) if commit < last => Fate::Updated,
            (true, 1) if commit + 1 < last => Fate::Deleted,
            _ => Fate::AsInserted,
        }
    }
}

/// Four of the batch writers, four of the transaction writers.
fn changes_rows(writer: u64) -> bool {
    matches!(writer % 4, 1 | 2)
}

/// Earlier rows that a commit changes: commit and part of their keys.
fn changed_by(writer: u64, commit: u64) -> impl Iterator<Item = (u64, u64)> {
    let rows = [(commit.wrapping_sub(1), 0), (commit.wrapping_sub(2), 1)];
    let is_there = move |&(of, _): &(u64, u64)| changes_rows(writer) && (1..commit).contains(&of);
    rows.into_iter().filter(is_there)
}

struct Trees {
    large: Tree,
    rows: Tree,
    index: Tree,
    marks: Tree,
    accounts: Tree,
}

impl Trees {
    fn open(db: &Db) -> frond::Result<Self> {
        let tree = |name: &str, unique| match db.open_tree(name) {
            Err(Error::NoSuchTree(_)) => db.create_tree(name, TreeOptions::new().unique(unique)),
            found => found,
        };
        let rows = tree("rows", true)?;
        let (index, marks) = (tree("index", false)?, tree("marks", false)?);
        let large = tree("large", false)?;
        Ok(Self { large, rows, index, marks, accounts: tree("accounts", false)? })
    }

    /// Gives each account its initial amount, all or none.
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

fn index_key(writer: u64, commit: u64, part: u64, fate: Fate) -> Vec<u8> {
    let part = if fate == Fate::Updated { part + 50 } else { part };
    [part, commit, writer].map(u64::to_be_bytes).concat()
}

/// The updated value of a row.
fn updated(mut value: Vec<u8>) -> Vec<u8> {
    value.reverse();
    value.push(0);
    value
}

/// The value of a row; now and then a long one.
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
        batch.put(&trees.index, &index_key(writer, commit, part, Fate::AsInserted), b"")?;
    }
    for (of, part) in changed_by(writer, commit) {
        batch.delete(&trees.index, &index_key(writer, of, part, Fate::AsInserted))?;
        let key = row_key(writer, of, part);
        match Fate::of(writer, of, part, commit) {
            Fate::Updated => {
                batch.put(&trees.rows, &key, &updated(row_value(writer, of, part)))?;
                batch.put(&trees.index, &index_key(writer, of, part, Fate::Updated), b"")?;
            }
            _ => batch.delete(&trees.rows, &key)?,
        }
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
        txn.put(&trees.index, &index_key(writer, commit, part, Fate::AsInserted), b"")
    };
    if writer == LARGE_WRITER && commit.is_multiple_of(LARGE_EVERY) {
        for row in 0..LARGE_ROWS {
            let key = [commit / LARGE_EVERY % 2, row].map(u64::to_be_bytes).concat();
            txn.put(&trees.large, &key, &commit.to_be_bytes().repeat(LARGE_BYTES / 8))?;
        }
    }
    put(0)?;
    let before = txn.savepoint()?;
    put(NEVER)?;
    txn.put(&trees.marks, &writer.to_be_bytes(), &u64::MAX.to_be_bytes())?;
    txn.rollback_to(&before)?;
    (1..PARTS).try_for_each(put)?;
    for (of, part) in changed_by(writer, commit) {
        let key = row_key(writer, of, part);
        let value = txn.get_for_update(&trees.rows, &key)?.expect("it was committed before");
        txn.delete(&trees.index, &index_key(writer, of, part, Fate::AsInserted))?;
        match Fate::of(writer, of, part, commit) {
            Fate::Updated => {
                txn.put(&trees.rows, &key, &updated(value))?;
                txn.put(&trees.index, &index_key(writer, of, part, Fate::Updated), b"")?;
            }
            _ => txn.delete(&trees.rows, &key)?,
        }
    }
    let amount = dice.between(1, 9) as i64;
    for amount in [-amount, amount] {
        let account = dice.below(ACCOUNTS).to_be_bytes();
        let value = txn.get_for_update(&trees.accounts, &account)?.expect("filled");
        let value = i64::from_be_bytes(value.try_into().expect("eight bytes"));
        txn.put(&trees.accounts, &account, &(value + amount).to_be_bytes())?;
    }
    txn.put(&trees.marks, &writer.to_be_bytes(), &commit.to_be_bytes())
}

/// Commits repeatedly, and records what was acknowledged.
fn write(db: &Db, trees: &Trees, writer: u64, mut ledger: File) -> frond::Result<()> {
    let begun = Instant::now();
    let mut commit = number(trees.marks.get(&writer.to_be_bytes())?);
    let dice = &mut Dice::new(writer ^ commit << 8);
    let levels = [
        Isolation::Snapshot,
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    while begun.elapsed() < ENDS_AFTER {
        commit += 1;
        if writer.is_multiple_of(2) {
            // A deadlock, or a row that is locked for long: nothing was done.
            while let Err(error) = by_batch(db, trees, writer, commit, dice) {
                if error.kind() != ErrorKind::Retry {
                    return Err(error);
                }
            }
        } else {
            let isolation = *dice.pick(&levels);
            let options = TxnOptions::new().isolation(isolation);
            if dice.chance(1, 10) {
                let taken_back = db.begin(options.clone())?;
                taken_back.put(&trees.rows, &row_key(writer, commit, NEVER), b"")?;
                taken_back.rollback();
            }
            db.transact_with(options, |txn| by_transaction(txn, trees, writer, commit, dice))?;
        }
        // One write: a line is there completely or not at all.
        ledger.write_all(format!("{commit}\n").as_bytes()).expect("the ledger");
    }
    Ok(())
}

fn ledger(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("ledger.{writer}"))
}

fn level_of(name: &str) -> Durability {
    match name {
        "os" => Durability::Os,
        "lazy" => Durability::Lazy,
        _ => Durability::Sync,
    }
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

/// Asserts that each half of the tree has all rows of the last transaction that wrote it.
fn must_have_large(trees: &Trees, there: u64) {
    let last = there / LARGE_EVERY;
    let mut cursor = trees.large.scan(..).unwrap();
    for half in 0..2 {
        let Some(wrote) = (1..=last).rev().take(2).find(|wrote| wrote % 2 == half) else {
            continue;
        };
        let value = (wrote * LARGE_EVERY).to_be_bytes().repeat(LARGE_BYTES / 8);
        for row in 0..LARGE_ROWS {
            let found = cursor.next().unwrap().expect("a row of a large transaction");
            assert!(found.0 == [half, row].map(u64::to_be_bytes).concat(), "{half}/{row}");
            assert!(found.1 == value, "{half}/{row} is of another transaction than {wrote}");
        }
    }
    assert!(cursor.next().unwrap().is_none());
}

/// Checks the store after a kill. Returns how many commits there are, and how many of them were not
/// acknowledged.
fn judge(dir: &Path, level: Durability) -> (u64, u64) {
    let db = Db::open(dir.join("store"), options(level)).unwrap();
    let trees = Trees::open(&db).unwrap();
    let (mut commits, mut unsaid, mut rows) = (0, 0, 0);
    for writer in 0..WRITERS {
        let said = acknowledged(dir, writer);
        let there = number(trees.marks.get(&writer.to_be_bytes()).unwrap());
        let is_lost = said > there;
        assert!(
            !is_lost || level == Durability::Lazy,
            "writer {writer}: commit {said} was acknowledged, {there} is there"
        );
        assert!(there <= said + 1, "writer {writer}: {there} is there, {said} was acknowledged");
        let range = &row_key(writer, 0, 0)[..]..&row_key(writer + 1, 0, 0)[..];
        let mut cursor = trees.rows.scan(range).unwrap();
        for commit in 1..=there {
            for part in 0..PARTS {
                let fate = Fate::of(writer, commit, part, there);
                if fate == Fate::Deleted {
                    continue;
                }
                let row = cursor.next().unwrap();
                let (key, value) = row.unwrap_or_else(|| panic!("{writer}/{commit} is missing"));
                assert!(key == row_key(writer, commit, part), "{writer}/{commit}: holes, or more");
                let inserted = row_value(writer, commit, part);
                let expected = if fate == Fate::Updated { updated(inserted) } else { inserted };
                assert!(value == expected, "{writer}/{commit}/{part}");
                let entry = trees.index.get(&index_key(writer, commit, part, fate)).unwrap();
                assert!(entry.is_some(), "{writer}/{commit}/{part} is not in the index");
                rows += 1;
            }
        }
        assert!(cursor.next().unwrap().is_none(), "writer {writer}: more than {there}");
        (commits, unsaid) = (commits + there, unsaid + there.saturating_sub(said));
        if writer == LARGE_WRITER {
            must_have_large(&trees, there);
        }
    }
    let mut cursor = trees.index.scan(..).unwrap();
    let mut entries = 0;
    while cursor.next().unwrap().is_some() {
        entries += 1;
    }
    assert_eq!(entries, rows, "the index has what the rows have");
    let balance = |account: u64| number(trees.accounts.get(&account.to_be_bytes()).unwrap()) as i64;
    assert_eq!((0..ACCOUNTS).map(balance).sum::<i64>(), START * ACCOUNTS as i64);
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    drop((cursor, trees));
    db.close().unwrap();
    (commits, unsaid)
}

/// Rounds on one store: killed soon after the first commit of the round, or later.
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
        assert!(found.0 > commits || level == "lazy", "round {round}: nothing was committed");
        (commits, unsaid) = (found.0, unsaid + found.1);
    }
    println!("{level}: {count} kills, {commits} commits, {unsaid} of them not acknowledged");
}

/// Promise: P1, P2, P3.
#[test]
fn commits_acknowledged_to_sixteen_writers_survive_kills() {
    rounds("sync", 4 * effort::factor(), 1);
    rounds("os", 2 * effort::factor(), 2);
    rounds("lazy", effort::factor(), 3);
}
