//! Two-phase commit with a crash at every call: whatever was acknowledged is there, prepared or
//! decided as it was, with its locks, and the rest can be decided as if nothing had happened.

use std::collections::BTreeMap;

use frond::{
    Db, Durability, Error, IfLocked, Options, ReadOptions, RowLock, Tree, TxnOptions,
    check::CheckMode, internals::io::Env, transaction::Xid,
};
use frond_testkit::{
    DbEngine, Dice,
    disk::{CrashOptions, Note, SimVfs, crash_states},
    effort,
};

const DIR: &str = "/store";
/// The number of keys: few, so that transactions conflict.
const KEYS: u64 = 24;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// The writes of a transaction: a value, or none for a delete.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct State {
    rows: Rows,
    prepared: BTreeMap<Xid, Writes>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A batch.
    Put(Vec<u8>, Vec<u8>),
    Prepare(Xid, Writes),
    Commit(Xid),
    Rollback(Xid),
    Checkpoint,
    Restart,
}

impl State {
    fn is_free(&self, key: &[u8]) -> bool {
        !self.prepared.values().any(|writes| writes.contains_key(key))
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Put(key, value) => drop(self.rows.insert(key.clone(), value.clone())),
            Step::Prepare(xid, writes) => drop(self.prepared.insert(xid.clone(), writes.clone())),
            Step::Commit(xid) => {
                for (key, value) in self.prepared.remove(xid).unwrap() {
                    match value {
                        Some(value) => drop(self.rows.insert(key, value)),
                        None => drop(self.rows.remove(&key)),
                    }
                }
            }
            Step::Rollback(xid) => drop(self.prepared.remove(xid)),
            Step::Checkpoint | Step::Restart => {}
        }
    }
}

fn value(dice: &mut Dice) -> Vec<u8> {
    // Tiny stores put values of more than 250 bytes in extents of their own.
    let bytes = *dice.pick(&[0usize, 5, 40, 200, 700, 2000]);
    let seed = dice.below(256) as u8;
    (0..bytes).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

fn script(seed: u64, length: usize) -> Vec<Step> {
    let dice = &mut Dice::new(seed);
    let mut state = State::default();
    let mut steps = Vec::new();
    let mut names = 0;
    while steps.len() < length {
        let xids: Vec<Xid> = state.prepared.keys().cloned().collect();
        let key = |dice: &mut Dice| format!("key {}", dice.below(KEYS)).into_bytes();
        let step = match dice.below(10) {
            0..=2 => {
                let key = key(dice);
                if !state.is_free(&key) {
                    continue;
                }
                Step::Put(key, value(dice))
            }
            // The log of tiny stores has space for four.
            3..=5 if state.prepared.len() < 4 => {
                let mut writes = Writes::new();
                for _ in 0..dice.between(1, 8) {
                    let key = key(dice);
                    if state.is_free(&key) {
                        writes.insert(key, dice.chance(4, 5).then(|| value(dice)));
                    }
                }
                if writes.is_empty() {
                    continue;
                }
                // Names are used again.
                names += 1;
                let xid = Xid::new(format!("xid {}", names % 5).as_bytes()).unwrap();
                if state.prepared.contains_key(&xid) {
                    continue;
                }
                Step::Prepare(xid, writes)
            }
            6 | 7 if !xids.is_empty() => Step::Commit(dice.pick(&xids).clone()),
            8 if !xids.is_empty() => Step::Rollback(dice.pick(&xids).clone()),
            9 if dice.chance(1, 2) => Step::Checkpoint,
            9 if dice.chance(1, 2) => Step::Restart,
            _ => continue,
        };
        state.apply(&step);
        steps.push(step);
    }
    steps
}

fn open(engine: &DbEngine, env: Env) -> (Db, Tree) {
    let options = Options::new()
        .env(env)
        .cache_size(engine.cache_bytes)
        .durability(Durability::Sync)
        .tuning(engine.tuning.clone());
    let db = Db::open(DIR, options).expect("it opens");
    let tree = match db.open_tree("t") {
        Err(Error::NoSuchTree(_)) => db.create_tree("t", Default::default()),
        found => found,
    };
    (db, tree.expect("it has its tree"))
}

fn go(db: &Db, tree: &Tree, step: &Step) {
    match step {
        Step::Put(key, value) => drop(tree.put(key, value).unwrap()),
        Step::Prepare(xid, writes) => {
            let txn = db.begin(TxnOptions::default()).unwrap();
            for (key, value) in writes {
                match value {
                    Some(value) => txn.put(tree, key, value).unwrap(),
                    None => txn.delete(tree, key).unwrap(),
                }
            }
            txn.prepare(xid).unwrap().detach();
        }
        Step::Commit(xid) => drop(db.commit_prepared(xid).unwrap()),
        Step::Rollback(xid) => db.rollback_prepared(xid).unwrap(),
        Step::Checkpoint => db.checkpoint().unwrap(),
        Step::Restart => unreachable!("it is the caller's"),
    }
}

fn rows(tree: &Tree) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = tree.scan(..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

/// Checks that the store is in one of these states and works.
fn must_be_one_of(engine: &DbEngine, env: Env, states: &[State], seed: u64) {
    let (db, tree) = open(engine, env);
    let found: Vec<_> = db.take_recovered().into_iter().map(|found| found.xid).collect();
    let rows_found = rows(&tree);
    let is_it = |state: &&State| state.rows == rows_found && state.prepared.keys().eq(&found);
    let state = states.iter().rev().find(is_it);
    let mut state = state
        .unwrap_or_else(|| panic!("none of {} states: {found:?} prepared", states.len()))
        .clone();
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let looks = db.begin(TxnOptions::default()).unwrap();
    for number in 0..KEYS {
        let key = format!("key {number}").into_bytes();
        let locked = looks
            .get_with(
                &tree,
                &key,
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        let is_free = !matches!(locked, Err(Error::LockBusy { .. }));
        assert_eq!(is_free, state.is_free(&key), "key {number}");
    }
    drop(looks);
    let dice = &mut Dice::new(seed);
    for xid in found {
        let step = match dice.chance(1, 2) {
            true => Step::Commit(xid),
            false => Step::Rollback(xid),
        };
        go(&db, &tree, &step);
        state.apply(&step);
        if dice.chance(1, 3) {
            db.checkpoint().unwrap();
        }
    }
    assert_eq!(rows(&tree), state.rows, "once all is decided");
    assert_eq!((db.lock_stats().locks, db.prepared().len()), (0, 0));
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report:?}");
    db.close().unwrap();
}

/// Promises: P1, P4. Rules: I11, I12.
#[test]
fn prepared_transactions_survive_crashes_at_every_call() {
    let (mut points, mut tried) = (0, 0);
    for seed in effort::seeds(2) {
        let mut engine = DbEngine::tiny(Durability::Sync);
        // Of what is prepared, all, some or nothing is spilled.
        let own_writes_bytes = [1 << 10, 0, 64 << 10][seed as usize % 3];
        engine
            .tuning
            .limits
            .iter_mut()
            .for_each(|limits| limits.own_writes_bytes = own_writes_bytes);
        let steps = script(seed, 25);
        let vfs = SimVfs::new();
        let (mut db, mut tree) = open(&engine, vfs.env(seed));
        vfs.record();
        let mut states = vec![State::default()];
        for (number, step) in steps.iter().enumerate() {
            let floor = number as u64;
            vfs.set_note(Note { issued: floor + 1, floor_power: floor, floor_kill: floor });
            match step {
                Step::Restart => {
                    db.close().unwrap();
                    drop((db, tree));
                    (db, tree) = open(&engine, vfs.env(seed ^ floor));
                }
                _ => go(&db, &tree, step),
            }
            let mut state = states[number].clone();
            state.apply(step);
            assert_eq!(rows(&tree), state.rows, "seed {seed}, step {number}: {step:?}");
            states.push(state);
        }
        assert_eq!(vfs.violations(), Vec::<String>::new());
        for point in vfs.recorded() {
            points += 1;
            let options = CrashOptions::short().with_seed(seed ^ point.change_number);
            for state in crash_states(&point.disk, &options) {
                tried += 1;
                let possible =
                    &states[point.note.floor_power as usize..=point.note.issued as usize];
                let what = format!("seed {seed}, before {}: {}", point.call, state.what);
                let env = SimVfs::start(state.disk).env(seed ^ 7);
                let run = || must_be_one_of(&engine, env, possible, point.change_number);
                if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    eprintln!("{what}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    println!("{points} points, {tried} crashes");
}
