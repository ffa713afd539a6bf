//! Tests of kill -9 between the steps of two-phase commits: prepare, the coordinator's decision,
//! order, commit.
//!
//! Each writer records every completed step in a ledger of its own, which is also its coordinator's
//! log. In each round one writer stops for good after a certain step, and the process is killed
//! while that writer stands there and others go on. After the kill, for each writer's last
//! transaction:
//!
//! 1. If it was prepared, it is there, prepared or committed, whenever the kill came. It is listed
//!    once, with the rows that it writes locked, also by the next opening if this one decides
//!    nothing (P4).
//! 2. If it was decided and ordered, it is there: committed, or still prepared and then committed
//!    by its name. What was acknowledged as committed is committed, and what was acknowledged as
//!    rolled back is gone.
//! 3. All transactions before it are as they were decided, without a hole (P1, P2).

use std::collections::BTreeMap;

use frond::{IfLocked, ReadOptions, RowLock, transaction::Xid};

use super::*;

const COMMITTERS: u64 = 8;
const STANDS: &str = "FROND_KILL_STANDS";
/// A writer rolls back one transaction in this many.
const ROLLED_BACK: u64 = 4;

/// Steps of a transaction, in this order; transactions that are rolled back end with the last two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Begins,
    Prepared,
    Decided,
    Ordered,
    Committed,
    RollsBack,
    RolledBack,
}

const STEPS: [Step; 7] = [
    Step::Begins,
    Step::Prepared,
    Step::Decided,
    Step::Ordered,
    Step::Committed,
    Step::RollsBack,
    Step::RolledBack,
];

fn xid(writer: u64, number: u64) -> Xid {
    Xid::new(format!("{writer}/{number}").as_bytes()).unwrap()
}

fn is_rolled_back(writer: u64, number: u64) -> bool {
    (writer + number).is_multiple_of(ROLLED_BACK)
}

fn place(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("steps.{writer}"))
}

/// The last step of each transaction of a writer, from its ledger.
fn all_steps(dir: &Path, writer: u64) -> BTreeMap<u64, Step> {
    let text = std::fs::read_to_string(place(dir, writer)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let read = |line: &str| {
        let (number, step) = line.split_once(' ').expect("two words");
        (number.parse().expect("a number"), STEPS[step.parse::<usize>().expect("a step")])
    };
    whole.lines().map(read).collect()
}

/// The last of them.
fn last_step(dir: &Path, writer: u64) -> (u64, Step) {
    all_steps(dir, writer).pop_last().unwrap_or((0, Step::RolledBack))
}

struct Writer<'a> {
    db: &'a Db,
    trees: &'a Trees,
    writer: u64,
    ledger: File,
    /// The step after which it stops for good.
    stands: Option<Step>,
    /// As on a server: commits take their place one at a time.
    order: &'a std::sync::Mutex<()>,
}

impl Writer<'_> {
    fn note(&mut self, number: u64, step: Step) {
        let line = format!("{number} {}\n", step as usize);
        self.ledger.write_all(line.as_bytes()).expect("the ledger");
        if self.stands == Some(step) && number > 3 {
            std::thread::sleep(ENDS_AFTER);
        }
    }

    fn one(&mut self, number: u64) -> frond::Result<()> {
        self.note(number, Step::Begins);
        let txn = self.db.begin(TxnOptions::default())?;
        for part in 0..PARTS {
            let value = row_value(self.writer, number, part);
            txn.insert(&self.trees.rows, &row_key(self.writer, number, part), &value)?;
            txn.put(
                &self.trees.index,
                &index_key(self.writer, number, part, Fate::AsInserted),
                b"",
            )?;
        }
        txn.put(&self.trees.marks, &self.writer.to_be_bytes(), &number.to_be_bytes())?;
        let mut prepared = txn.prepare(&xid(self.writer, number))?;
        self.note(number, Step::Prepared);
        if is_rolled_back(self.writer, number) {
            self.note(number, Step::RollsBack);
            prepared.rollback()?;
            self.note(number, Step::RolledBack);
            return Ok(());
        }
        let order = self.order;
        // The stopped writer must not block the others.
        let in_order = (self.stands != Some(Step::Decided)).then(|| order.lock().unwrap());
        self.note(number, Step::Decided);
        prepared.commit_ordered()?;
        drop(in_order);
        self.note(number, Step::Ordered);
        prepared.commit()?;
        self.note(number, Step::Committed);
        Ok(())
    }
}

#[test]
#[ignore = "the process that is killed: see the test below"]
fn eight_committers() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let level = level_of(&std::env::var(LEVEL).unwrap_or_default());
    let stands = std::env::var(STANDS).ok().and_then(|step| step.parse::<usize>().ok());
    let db = Db::open(dir.join("store"), options(level)).unwrap();
    let trees = Trees::open(&db).unwrap();
    let (begun, order) = (Instant::now(), std::sync::Mutex::new(()));
    std::thread::scope(|scope| {
        for writer in 0..COMMITTERS {
            let file = OpenOptions::new().create(true).append(true).open(place(&dir, writer));
            let stands = stands.filter(|_| writer == 0).map(|step| STEPS[step]);
            let mut number = last_step(&dir, writer).0;
            let ledger = file.unwrap();
            let (db, trees, order) = (&db, &trees, &order);
            let mut writer = Writer { db, trees, writer, ledger, stands, order };
            scope.spawn(move || {
                while begun.elapsed() < ENDS_AFTER {
                    number += 1;
                    writer.one(number).unwrap();
                }
            });
        }
    });
}

fn is_locked(db: &Db, tree: &Tree, key: &[u8]) -> bool {
    let isolation = Isolation::ReadCommitted;
    let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
    match txn
        .get_with(
            tree,
            key,
            &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
        )
        .map(|row| row.into_value())
    {
        Err(Error::LockBusy { .. }) => true,
        free => free.map(|_| false).unwrap(),
    }
}

fn is_there(trees: &Trees, writer: u64, number: u64) -> bool {
    let parts = (0..PARTS).map(|part| {
        let row = trees.rows.get(&row_key(writer, number, part)).unwrap();
        if let Some(row) = &row {
            assert!(*row == row_value(writer, number, part), "{writer}/{number}/{part}");
        }
        let entry = trees.index.get(&index_key(writer, number, part, Fate::AsInserted)).unwrap();
        assert_eq!(row.is_some(), entry.is_some(), "{writer}/{number}/{part}: a row, or its entry");
        row.is_some()
    });
    let parts: Vec<bool> = parts.collect();
    assert!(parts.iter().all(|part| *part == parts[0]), "{writer}/{number}: a part of it");
    parts[0]
}

/// Opens the store that the kill has left, and checks it; decides transactions if `decides`.
/// Returns how many were prepared.
fn look(dir: &Path, level: Durability, decides: bool) -> usize {
    let db = Db::open(dir.join("store"), options(level)).unwrap();
    let trees = Trees::open(&db).unwrap();
    let found = db.take_recovered();
    assert!(db.take_recovered().is_empty(), "listed once");
    let mut known = 0;
    for writer in 0..COMMITTERS {
        let (number, step) = last_step(dir, writer);
        let its = found.iter().find(|one| one.xid == xid(writer, number));
        let is_there_now = is_there(&trees, writer, number);
        known += usize::from(its.is_some());
        match step {
            // The ledger does not show whether the next step was made.
            Step::Begins => assert!(!is_there_now, "{writer}/{number}: no decision was made"),
            Step::Prepared => {
                assert!(its.is_some() && !is_there_now, "{writer}/{number} was prepared: {its:?}");
            }
            Step::Decided | Step::Ordered => {
                assert!(its.is_some() != is_there_now, "{writer}/{number} {step:?}: {its:?}");
            }
            Step::Committed => assert!(is_there_now && its.is_none(), "{writer}/{number}: {its:?}"),
            Step::RollsBack => assert!(!is_there_now, "{writer}/{number}"),
            Step::RolledBack => assert!(!is_there_now && its.is_none(), "{writer}/{number}"),
        }
        for (before, step) in all_steps(dir, writer).range(..number) {
            let committed = *step == Step::Committed;
            assert_eq!(is_there(&trees, writer, *before), committed, "{writer}/{before} {step:?}");
        }
        let Some(its) = its else {
            note_end(dir, writer, number, is_there_now);
            continue;
        };
        assert!(its.is_recovered && its.is_detached, "{its:?}");
        for part in 0..PARTS {
            let (row, entry) =
                (row_key(writer, number, part), index_key(writer, number, part, Fate::AsInserted));
            assert!(is_locked(&db, &trees.rows, &row) && is_locked(&db, &trees.index, &entry));
        }
        if !decides {
            continue;
        }
        // By the coordinator's log, in any session; sometimes through an attached handle.
        let commits = matches!(step, Step::Decided | Step::Ordered);
        match (commits, writer.is_multiple_of(2)) {
            (true, true) => drop(db.commit_prepared(&its.xid).unwrap()),
            (true, false) => drop(db.attach_prepared(&its.xid).unwrap().commit().unwrap()),
            (false, true) => db.rollback_prepared(&its.xid).unwrap(),
            (false, false) => db.attach_prepared(&its.xid).unwrap().rollback().unwrap(),
        }
        assert_eq!(is_there(&trees, writer, number), commits, "as it was decided");
        assert!(!is_locked(&db, &trees.rows, &row_key(writer, number, 0)));
        note_end(dir, writer, number, commits);
    }
    assert_eq!(known, found.len(), "no other transaction is prepared");
    if decides {
        assert!(db.prepared().is_empty() && db.lock_stats().locks == 0);
    }
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    drop(trees);
    db.close().unwrap();
    found.len()
}

/// Records the decision in the ledger.
fn note_end(dir: &Path, writer: u64, number: u64, is_committed: bool) {
    let step = if is_committed { Step::Committed } else { Step::RolledBack };
    let file = OpenOptions::new().create(true).append(true).open(place(dir, writer));
    file.unwrap().write_all(format!("{number} {}\n", step as usize).as_bytes()).unwrap();
}

/// Kills the process while the first writer stands after a step; returns how many transactions were
/// prepared.
fn round(dir: &Path, level: &str, stands: Step) -> usize {
    let mut writers = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "two_phases::eight_committers"])
        .env(DIR, dir)
        .env(LEVEL, level)
        .env(STANDS, (stands as usize).to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let first = last_step(dir, 0).0;
    loop {
        let (number, step) = last_step(dir, 0);
        if step == stands && number > first.max(3) && stood(dir, number) {
            break;
        }
        let ended = writers.try_wait().unwrap();
        assert!(ended.is_none(), "the writers have ended by themselves");
        std::thread::sleep(Duration::from_millis(2));
    }
    writers.kill().unwrap();
    writers.wait().unwrap();
    let level = level_of(level);
    assert_eq!(last_step(dir, 0).1, stands, "it stood");
    let prepared = look(dir, level, false);
    assert_eq!(look(dir, level, true), prepared, "and again: nothing was decided");
    assert_eq!(look(dir, level, true), 0);
    prepared
}

/// True if the first writer stands at this transaction, and others continued meanwhile.
fn stood(dir: &Path, number: u64) -> bool {
    let before: Vec<u64> = (1..COMMITTERS).map(|writer| last_step(dir, writer).0).collect();
    std::thread::sleep(Duration::from_millis(15));
    let after = (1..COMMITTERS).map(|writer| last_step(dir, writer).0);
    last_step(dir, 0).0 == number && after.zip(before).any(|(after, before)| after > before)
}

/// Promises: P1, P2, P4.
#[test]
fn prepared_transactions_survive_kills_between_any_two_steps() {
    let mut prepared = 0;
    for level in ["sync", "os"] {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..effort::factor() {
            for stands in [Step::Prepared, Step::Decided, Step::Ordered, Step::RollsBack] {
                prepared += round(dir.path(), level, stands);
            }
        }
    }
    println!("{prepared} were prepared when they were killed");
    // The one that stands after its prepare, or before its rollback, always is.
    assert!(prepared as u64 >= 6 * effort::factor());
}
