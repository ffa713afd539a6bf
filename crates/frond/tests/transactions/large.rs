//! Transactions larger than memory: spilled rows are seen, found, locked and rolled back like those
//! in memory.

use std::collections::{BTreeMap, BTreeSet};

use frond::{Duplicate, ReadOptions, Savepoint, feed::Change};
use frond_testkit::{DbEngine, Dice, disk::SimVfs, effort};

use super::*;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options of a store whose transactions spill after a few rows.
pub(super) fn small_options(own_writes_bytes: u64) -> Options {
    let mut tuning = DbEngine::tiny(Durability::Lazy).tuning;
    if let Some(limits) = &mut tuning.limits {
        limits.own_writes_bytes = own_writes_bytes;
    }
    Options::new().cache_size(4 << 20).durability(Durability::Lazy).tuning(tuning)
}

pub(super) fn small_store(dir: &std::path::Path, own_writes_bytes: u64) -> Db {
    Db::open(dir.join("store"), small_options(own_writes_bytes)).unwrap()
}

fn rows_of(tree: &Tree) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = tree.scan(..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn scanned(txn: &Txn, tree: &Tree, forward: bool) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = txn.scan(tree, ..).unwrap();
    if !forward {
        cursor.seek_last();
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        let ordered = |last: &Vec<u8>| (last.as_slice() < key) == forward;
        assert!(last.as_ref().is_none_or(ordered), "in order, each once");
        last = Some(key.to_vec());
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

/// Panics with the first key in which they differ.
fn same(found: &Rows, expected: &Rows, what: &str) {
    let keys = found.keys().chain(expected.keys());
    if let Some(key) = keys.filter(|key| found.get(*key) != expected.get(*key)).min() {
        let short = |rows: &Rows| rows.get(key).map(|value| value[..value.len().min(12)].to_vec());
        let name = String::from_utf8_lossy(key);
        panic!("{what}: key {name} is {:?} instead of {:?}", short(found), short(expected));
    }
}

fn number(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The state that a statement of a transaction depends on.
#[derive(Clone, Default)]
struct Statement {
    /// The rows when it started, and the number of savepoints.
    rows: Rows,
    savepoints: usize,
    /// Keys deleted since.
    deleted: BTreeSet<Vec<u8>>,
}

impl Statement {
    /// What its scans are to find: not what was deleted, although it may have been put again.
    fn scanned(&self) -> Rows {
        let mut rows = self.rows.clone();
        self.deleted.iter().for_each(|key| drop(rows.remove(key)));
        rows
    }
}

/// Does one step in a transaction and in the model. Returns the key if it deletes one.
fn step(dice: &mut Dice, txn: &Txn, tree: &Tree, model: &mut Rows) -> Option<Vec<u8>> {
    let key = format!("key {:04}", dice.below(400)).into_bytes();
    match dice.below(8) {
        0..=3 => {
            let value: Vec<u8> = match dice.chance(1, 12) {
                // In an extent of its own.
                true => vec![dice.below(256) as u8; 700],
                false => number(dice.below(1 << 40)).to_vec(),
            };
            txn.put(tree, &key, &value).unwrap();
            model.insert(key, value);
        }
        4 | 5 => {
            txn.delete(tree, &key).unwrap();
            model.remove(&key);
            return Some(key);
        }
        6 => {
            let is_number = model.get(&key).is_none_or(|value| value.len() == 8);
            if is_number {
                let before = model
                    .get(&key)
                    .map_or(0, |value| u64::from_be_bytes(value.as_slice().try_into().unwrap()));
                txn.merge(tree, &key, operator::ADD, &number(5)).unwrap();
                model.insert(key, number(before.wrapping_add(5)).to_vec());
            }
        }
        _ => match txn.insert(tree, &key, b"inserted") {
            Ok(()) => assert_eq!(model.insert(key, b"inserted".to_vec()), None),
            Err(Error::DuplicateKey(Duplicate::Row { .. })) => assert!(model.contains_key(&key)),
            Err(error) => panic!("{error}"),
        },
    }
    None
}

/// Whatever is spilled, the transaction behaves like its model. Rules: I5, I7, I44, I45.
#[test]
fn spilling_does_not_change_a_transactions_results() {
    for seed in effort::seeds(6) {
        let dice = &mut Dice::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let own_writes_bytes = *dice.pick(&[0, 300, 2 << 10]);
        let mut db = small_store(dir.path(), own_writes_bytes);
        let unique = TreeOptions::new().unique(true);
        let mut tree = db.create_tree("t", unique).unwrap();
        let mut committed = Rows::new();
        for round in 0..8 {
            let isolation = *dice.pick(&LEVELS);
            let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
            let mut model = committed.clone();
            let mut savepoints: Vec<(Savepoint, Rows, Vec<BTreeSet<Vec<u8>>>)> = Vec::new();
            // The statement, and those nested in it.
            let mut statements: Vec<Statement> = Vec::new();
            for _ in 0..dice.between(20, 300) {
                match dice.below(40) {
                    0 | 1 => {
                        let deleted = statements.iter().map(|of| of.deleted.clone()).collect();
                        savepoints.push((txn.savepoint().unwrap(), model.clone(), deleted));
                    }
                    2 if !savepoints.is_empty() => {
                        let at = dice.below(savepoints.len() as u64) as usize;
                        txn.rollback_to(&savepoints[at].0).unwrap();
                        model = savepoints[at].1.clone();
                        for (number, statement) in statements.iter_mut().enumerate() {
                            if at < statement.savepoints {
                                // The statement starts again from the restored rows.
                                let (rows, savepoints) = (model.clone(), at + 1);
                                *statement = Statement { rows, savepoints, ..Default::default() };
                            } else {
                                statement.deleted = savepoints[at].2[number].clone();
                            }
                        }
                        savepoints.truncate(at + 1);
                    }
                    3 if !savepoints.is_empty() => {
                        let at = dice.below(savepoints.len() as u64) as usize;
                        txn.release(&savepoints[at].0).unwrap();
                        savepoints.truncate(at);
                        statements.iter_mut().for_each(|statement| {
                            statement.savepoints = statement.savepoints.min(at)
                        });
                    }
                    4 => {
                        let innermost = statements.last();
                        let expected = innermost.map_or(model.clone(), Statement::scanned);
                        let found = scanned(&txn, &tree, dice.chance(1, 2));
                        same(&found, &expected, &format!("seed {seed}, round {round}, scan"));
                        let mut ends = [0; 2].map(|_| format!("key {:04}", dice.below(400)));
                        ends.sort();
                        let [low, high] = ends;
                        let range = || low.as_bytes()..high.as_bytes();
                        let within = expected.keys().filter(|key| range().contains(&&key[..]));
                        let counted = txn.count(&tree, range()).unwrap();
                        assert_eq!(counted, within.count() as u64, "seed {seed}, round {round}");
                    }
                    9 => {
                        // A scan with writes between its steps, as far as it gets.
                        let innermost = statements.last();
                        let mut rows = innermost.map_or(model.clone(), Statement::scanned);
                        let forward = dice.chance(1, 2);
                        let mut cursor = txn.scan(&tree, ..).unwrap();
                        if !forward {
                            cursor.seek_last();
                        }
                        for _ in 0..dice.between(1, 60) {
                            let found = if forward { cursor.next() } else { cursor.prev() };
                            let found = found.unwrap().map(|(key, _)| key.to_vec());
                            let next = if forward { rows.pop_first() } else { rows.pop_last() };
                            let expected = next.map(|(key, _)| key);
                            assert_eq!(found, expected, "seed {seed}, round {round}, concurrently");
                            for _ in 0..dice.below(4) {
                                let deleted = step(dice, &txn, &tree, &mut model);
                                deleted.iter().for_each(|key| drop(rows.remove(key)));
                                statements
                                    .iter_mut()
                                    .for_each(|of| of.deleted.extend(deleted.clone()));
                            }
                        }
                    }
                    6 => {
                        txn.statement().begin().unwrap();
                        let (rows, savepoints) = (model.clone(), savepoints.len());
                        statements = vec![Statement { rows, savepoints, ..Default::default() }];
                    }
                    10 if statements.is_empty() => {
                        assert!(txn.statement().begin_substatement().is_err())
                    }
                    10 => {
                        txn.statement().begin_substatement().unwrap();
                        let (rows, savepoints) = (model.clone(), savepoints.len());
                        statements.push(Statement { rows, savepoints, ..Default::default() });
                    }
                    11 if statements.len() < 2 => {
                        assert!(txn.statement().end_substatement().is_err())
                    }
                    11 => {
                        txn.statement().end_substatement().unwrap();
                        statements.pop();
                    }
                    7 => match statements.first_mut() {
                        None => assert!(txn.statement().rollback().is_err()),
                        Some(statement) => {
                            txn.statement().rollback().unwrap();
                            model = statement.rows.clone();
                            savepoints.truncate(statement.savepoints);
                            statement.deleted.clear();
                            statements.truncate(1);
                        }
                    },
                    8 => {
                        txn.statement().begin().unwrap();
                        let (rows, savepoints) = (model.clone(), savepoints.len());
                        let mut begun = Statement { rows, savepoints, ..Default::default() };
                        let mut ends = [0; 2].map(|_| format!("key {:04}", dice.below(400)));
                        ends.sort();
                        let [low, high] = ends.map(String::into_bytes);
                        let within = model.range(low.clone()..high.clone());
                        let keys: Vec<_> = within.map(|(key, _)| key.clone()).collect();
                        let gone = txn.delete_range(&tree, &low[..]..&high[..]).unwrap();
                        assert_eq!(gone, keys.len() as u64, "seed {seed}, round {round}");
                        model.retain(|key, _| *key < low || *key >= high);
                        begun.deleted.extend(keys);
                        statements = vec![begun];
                    }
                    5 => {
                        let key = format!("key {:04}", dice.below(400)).into_bytes();
                        let found = txn.get(&tree, &key).unwrap();
                        assert_eq!(found.as_ref(), model.get(&key), "seed {seed}");
                    }
                    _ => {
                        let deleted = step(dice, &txn, &tree, &mut model);
                        statements.iter_mut().for_each(|of| of.deleted.extend(deleted.clone()));
                    }
                }
            }
            txn.statement().begin().unwrap();
            same(&scanned(&txn, &tree, true), &model, &format!("seed {seed}, round {round}"));
            same(&rows_of(&tree), &committed, "no other reader sees it");
            if dice.chance(2, 3) {
                txn.commit().unwrap();
                committed = model;
            } else {
                txn.rollback();
            }
            same(&rows_of(&tree), &committed, &format!("seed {seed}, round {round}, ended"));
            match dice.below(4) {
                0 => db.checkpoint().unwrap(),
                1 => {
                    drop(tree);
                    db.close().unwrap();
                    db = small_store(dir.path(), own_writes_bytes);
                    tree = db.open_tree("t").unwrap();
                    same(
                        &rows_of(&tree),
                        &committed,
                        &format!("seed {seed}, round {round}, ended"),
                    );
                }
                _ => {}
            }
        }
        assert_eq!(db.lock_stats().locks, 0);
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "seed {seed}: {report:?}");
    }
}

/// A scan sees the rows that existed when it started, also those spilled under it, and reports
/// correctly which rows fetched ahead it is still to return (Rule: I45).
#[test]
fn a_scan_continues_while_its_rows_are_spilled() {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 1 << 10);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for i in 0..300u32 {
        tree.put(&i.to_be_bytes(), b"old").unwrap();
    }
    let txn = db.begin(TxnOptions::default()).unwrap();
    for i in (0..600u32).step_by(3) {
        txn.put(&tree, &i.to_be_bytes(), b"own").unwrap();
    }
    let expected = scanned(&txn, &tree, true);
    let mut ahead = txn.scan(&tree, ..).unwrap();
    while ahead.next().unwrap().is_some() {}
    assert!(expected.keys().all(|key| ahead.still_gives(key).unwrap()));
    // Every row is rewritten, also ahead of the scan, and every fourth is deleted before it is
    // reached.
    let mut cursor = txn.scan(&tree, ..).unwrap();
    let mut met = Rows::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        let (key, value) = (key.to_vec(), value.to_vec());
        let i = u32::from_be_bytes(key.as_slice().try_into().unwrap());
        txn.put(&tree, &(i + 1000).to_be_bytes(), b"moved").unwrap();
        txn.put(&tree, &key, b"again").unwrap();
        if i % 4 == 1 {
            txn.delete(&tree, &(i + 3).to_be_bytes()).unwrap();
        }
        met.insert(key, value);
    }
    drop(cursor);
    let deleted = |key: &[u8]| {
        let i = u32::from_be_bytes(key.try_into().unwrap());
        i >= 3 && (i - 3) % 4 == 1 && met.contains_key(&(i - 3).to_be_bytes()[..])
    };
    for key in expected.keys() {
        assert_eq!(ahead.still_gives(key).unwrap(), !deleted(key), "{key:?}");
    }
    let expected: Rows = expected.into_iter().filter(|(key, _)| !deleted(key)).collect();
    same(&met, &expected, "met");
    let savepoint = txn.savepoint().unwrap();
    txn.rollback_to(&savepoint).unwrap();
    assert!(expected.keys().all(|key| !ahead.still_gives(key).unwrap()), "it has gone back");
    drop(ahead);
    txn.commit().unwrap();
}

/// Spilled rows stay locked without taking lock entries. Rules: I32, I33, I47.
#[test]
fn spilled_rows_stay_locked_without_lock_entries() {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 4 << 10);
    let unique = TreeOptions::new().unique(true);
    let tree = db.create_tree("t", unique).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    for i in 0..5000u32 {
        txn.insert(&tree, &i.to_be_bytes(), b"large").unwrap();
    }
    let stats = db.lock_stats();
    assert!(stats.locks < 1000, "{stats:?}");
    let other = db.begin(TxnOptions::default()).unwrap();
    for i in [0, 17, 4999u32] {
        let busy = other
            .get_with(
                &tree,
                &i.to_be_bytes(),
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        assert!(matches!(busy, Err(Error::LockBusy { .. })), "{busy:?}");
    }
    other.put(&tree, &9000u32.to_be_bytes(), b"free").unwrap();
    // A scan that locks gaps waits for keys that are not visible.
    let options = TxnOptions::new().isolation(Isolation::Serializable);
    let locker = db.begin(options).unwrap();
    let mut cursor = locker
        .scan_with(
            &tree,
            &5u32.to_be_bytes()[..]..&9u32.to_be_bytes()[..],
            &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
        )
        .unwrap();
    assert!(matches!(cursor.next(), Err(Error::LockBusy { .. })));
    drop(cursor);
    drop(locker);
    // A waiter for the row continues when the transaction is over, and sees what it has done.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let key = 17u32.to_be_bytes();
            let waiter = db.begin(TxnOptions::default()).unwrap();
            let found = waiter.insert(&tree, &key, b"second");
            assert!(matches!(found, Err(Error::DuplicateKey(Duplicate::Row { .. }))), "{found:?}");
        });
        while db.lock_waits().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        txn.commit().unwrap();
        waiter.join().unwrap();
    });
    other.commit().unwrap();
    assert_eq!(rows_of(&tree).len(), 5001);
    assert_eq!(db.lock_stats().locks, 0);
}

/// Rows that are rolled back to a savepoint stay locked: the transaction may depend on what it has
/// read under their locks (Rule: I3).
#[test]
fn spilled_rows_stay_locked_after_a_rollback_to_a_savepoint() {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 1 << 10);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    tree.put(b"read", b"5").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get_for_update(&tree, b"read").unwrap().is_some());
    let savepoint = txn.savepoint().unwrap();
    txn.put(&tree, b"read", b"6").unwrap();
    for i in 0..500u32 {
        txn.put(&tree, &i.to_be_bytes(), b"row").unwrap();
    }
    txn.rollback_to(&savepoint).unwrap();
    let other = db.begin(TxnOptions::default()).unwrap();
    for key in [&b"read"[..], &7u32.to_be_bytes()] {
        let busy = other
            .get_with(
                &tree,
                key,
                &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        assert!(matches!(busy, Err(Error::LockBusy { .. })), "{busy:?}");
    }
    assert_eq!(txn.get(&tree, b"read").unwrap().as_deref(), Some(&b"5"[..]));
    txn.put(&tree, b"read", b"7").unwrap();
    txn.commit().unwrap();
    assert_eq!(rows_of(&tree).len(), 1);
}

/// Two transactions that have spilled and want each other's rows: one is ended at once.
#[test]
fn large_transactions_that_wait_for_each_other_are_a_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let db = small_store(dir.path(), 2 << 10);
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let begin = |from: u32| {
        let txn = db.begin(TxnOptions::default()).unwrap();
        for i in from..from + 500 {
            txn.put(&tree, &i.to_be_bytes(), b"row").unwrap();
        }
        txn
    };
    let (one, two) = (begin(0), begin(1000));
    let ended = thread::scope(|scope| {
        let waiter = scope.spawn(|| one.put(&tree, &1000u32.to_be_bytes(), b"other"));
        while db.lock_waits().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        let second = two.put(&tree, &0u32.to_be_bytes(), b"other");
        if second.is_err() {
            two.rollback();
        } else {
            two.commit().unwrap();
        }
        let first = waiter.join().unwrap();
        [first, second].into_iter().filter(|one| matches!(one, Err(Error::Deadlock { .. }))).count()
    });
    assert_eq!(ended, 1);
    one.rollback();
    assert_eq!(db.lock_stats().locks, 0);
}

/// Ten times the memory, in a store of default shape.
#[test]
fn a_transaction_of_ten_times_the_memory_commits_or_rolls_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(4 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value = |i: u64, of: u8| {
        let mut value = vec![of; 120];
        value[..8].copy_from_slice(&i.wrapping_mul(0xd6e8_feb8_6659_fd93).to_be_bytes());
        value
    };
    let all = 330_000u64;
    for (round, count, ends) in [(1, all / 6, "rollback"), (2, all, "commit")] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        for i in 0..count {
            txn.put(&tree, &key(i), &value(i, round)).unwrap();
            if i % 50_000 == 0 {
                tree.put(format!("between {round} {i}").as_bytes(), b"batch").unwrap();
            }
        }
        assert_eq!(txn.get(&tree, &key(77)).unwrap(), Some(value(77, round)));
        assert_eq!(tree.get(&key(77)).unwrap(), None);
        assert_eq!(txn.control().writes(), count as usize);
        match ends {
            "rollback" => txn.rollback(),
            _ => assert!(txn.commit().unwrap().0 > 0),
        }
    }
    let mut rows = 0;
    let mut cursor = tree.scan(..).unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows += u64::from(value.len() == 120 && !key.starts_with(b"between"));
    }
    drop(cursor);
    assert_eq!(rows, all);
    for i in (0..all).step_by(997) {
        assert_eq!(tree.get(&key(i)).unwrap(), Some(value(i, 2)));
    }
    drop(tree);
    db.close().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}

/// A follower receives each key once, as it was committed.
#[test]
fn a_feed_delivers_spilled_writes() {
    let dir = tempfile::tempdir().unwrap();
    // Checkpoints are frequent here, and would free the log before it is followed.
    let options = small_options(2 << 10).keep_log(16 << 20);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let trees = ["a", "b"].map(|name| db.create_tree(name, TreeOptions::default()).unwrap());
    let mut feed = db.changes(db.snapshot().seqno().next()).unwrap();
    let dice = &mut Dice::new(3);
    let mut models = [Rows::new(), Rows::new()];
    let txn = db.begin(TxnOptions::default()).unwrap();
    for _ in 0..800 {
        let which = dice.below(2) as usize;
        step(dice, &txn, &trees[which], &mut models[which]);
    }
    txn.commit().unwrap();
    trees[0].put(b"last", b"1").unwrap();
    let mut followed: BTreeMap<String, Rows> = BTreeMap::new();
    let mut commits = 0;
    while let Some(mut commit) = feed.next(Duration::from_secs(2)).unwrap() {
        let mut before: Option<(String, Vec<u8>)> = None;
        while let Some(change) = commit.next().unwrap() {
            let (tree, key) = match &change {
                Change::Put { tree, key, .. }
                | Change::Delete { tree, key }
                | Change::Merge { tree, key, .. } => (tree.name.unwrap().to_owned(), key.to_vec()),
                other => panic!("{other:?}"),
            };
            let rows = followed.entry(tree.clone()).or_default();
            match change {
                Change::Put { value, .. } => drop(rows.insert(key.clone(), value.to_vec())),
                Change::Delete { .. } => drop(rows.remove(&key)),
                Change::Merge { operands, .. } => {
                    let mut sum = 0u64;
                    for (_, operand) in operands {
                        sum += u64::from_be_bytes(operand.try_into().unwrap());
                    }
                    rows.insert(key.clone(), number(sum).to_vec());
                }
                _ => unreachable!(),
            }
            let now = Some((tree, key));
            assert!(before < now, "in order, each once");
            before = now;
        }
        commits += 1;
        if commits == 2 {
            break;
        }
    }
    models[0].insert(b"last".to_vec(), b"1".to_vec());
    same(&followed["a"], &models[0], "a");
    same(&followed["b"], &models[1], "b");
}

/// A full disk may end a transaction (`prepared/large.rs`), or leave it as it was: `is_over` tells.
#[test]
fn a_call_refused_on_a_full_disk_leaves_its_transaction_usable() {
    let vfs = SimVfs::new();
    let options = Options::new().cache_size(4 << 20).durability(Durability::Lazy);
    let db = Db::open("/store", options.env(vfs.env(1))).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&tree, b"short", b"1").unwrap();
    vfs.set_capacity(Some(vfs.allocated_bytes()));
    let refused = txn.put(&tree, b"long", &vec![7; 16 << 20]);
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    assert!(!txn.is_over());
    assert_eq!(get(&txn, &tree, "short").as_deref(), Some("1"));
    vfs.set_capacity(None);
    txn.commit().unwrap();
    assert_eq!(tree.get(b"short").unwrap(), Some(b"1".to_vec()));
    assert_eq!(tree.get(b"long").unwrap(), None);
}
