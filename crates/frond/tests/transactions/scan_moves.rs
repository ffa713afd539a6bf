//! Scans of trees that go on, turn and are repositioned while their transaction writes, compared
//! with a map and a position in it.

use std::collections::{BTreeMap, BTreeSet};

use frond::{ReadOptions, RowBuf};
use frond_testkit::{DbEngine, Dice, disk::SimVfs, effort};

use super::*;

const ALL_LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];
const KEYS: u64 = 12;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Position {
    Low,
    High,
    Below(Vec<u8>),
    On(Vec<u8>),
}

fn key(dice: &mut Dice) -> Vec<u8> {
    format!("{:02}", dice.below(KEYS)).into_bytes()
}

/// A transaction's writes.
#[derive(Clone, Default)]
struct Own {
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys that were deleted since the mark of the scan.
    deleted: BTreeSet<Vec<u8>>,
}

impl Own {
    fn over(&self, base: &Rows) -> Rows {
        let mut rows = base.clone();
        for (key, row) in &self.rows {
            match row {
                Some(row) => drop(rows.insert(key.clone(), row.clone())),
                None => drop(rows.remove(key)),
            }
        }
        rows
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.deleted.insert(key.clone());
        self.rows.insert(key, None);
    }

    /// Writes something; false if a conflict has ended the transaction.
    fn write(
        &mut self,
        (txn, tree): (&Txn, &Tree),
        newest: &Rows,
        dice: &mut Dice,
        log: &mut Vec<String>,
    ) -> bool {
        let key = key(dice);
        let shown = text(&key);
        let result = match dice.below(8) {
            0 => {
                log.push(format!("insert {shown}"));
                txn.insert(tree, &key, b"inserted").map(|()| {
                    self.rows.insert(key, Some(b"inserted".to_vec()));
                })
            }
            1..=3 => {
                log.push(format!("put {shown}"));
                let value = format!("own {}", log.len()).into_bytes();
                txn.put(tree, &key, &value).map(|()| drop(self.rows.insert(key, Some(value))))
            }
            4..=6 => {
                log.push(format!("delete {shown}"));
                txn.delete(tree, &key).map(|()| self.delete(key))
            }
            _ => {
                let to = self::key(dice).max(key.clone());
                log.push(format!("delete {shown} to {}", text(&to)));
                let there = self.over(newest);
                txn.delete_range(tree, key.clone()..to.clone()).map(|_| {
                    there.range(key..to).for_each(|(key, _)| self.delete(key.clone()));
                })
            }
        };
        match result {
            Ok(()) | Err(Error::DuplicateKey(_)) => true,
            Err(Error::Conflict { .. }) => false,
            Err(error) => panic!("{error}: {log:#?}"),
        }
    }
}

/// What a scan should return next from a position: the rows as they were at its mark, without those
/// that were deleted since.
fn expected<'r>(
    at_mark: &'r Rows,
    own: &Own,
    position: &Position,
    forward: bool,
) -> Option<(&'r Vec<u8>, &'r Vec<u8>)> {
    let is_beyond = |key: &Vec<u8>| match position {
        Position::Low => forward,
        Position::High => !forward,
        Position::Below(below) => (key >= below) == forward,
        Position::On(on) if forward => key > on,
        Position::On(on) => key < on,
    };
    let mut rows = at_mark.iter().filter(|(key, _)| is_beyond(key) && !own.deleted.contains(*key));
    if forward { rows.next() } else { rows.next_back() }
}

/// Takes a step, or several at once: the rows in the order of the steps.
fn steps(
    cursor: &mut TxnCursor<'_>,
    forward: bool,
    at_once: bool,
) -> frond::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let owned = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    if !at_once {
        let found = if forward { cursor.next()? } else { cursor.prev()? };
        return Ok(found.map(owned).into_iter().collect());
    }
    let mut rows = RowBuf::new();
    cursor.read_batch(forward, &mut rows, 3)?;
    let mut found: Vec<_> = rows.iter().map(owned).collect();
    if !forward {
        found.reverse();
    }
    Ok(found)
}

fn one_round(db: &Db, tree: &Tree, dice: &mut Dice) {
    let level = *dice.pick(&ALL_LEVELS);
    let log = &mut vec![format!("{level:?}")];
    let mut newest: Rows = tree.range(..).collect::<Result<_, _>>().unwrap();
    let commit = |newest: &mut Rows, dice: &mut Dice| {
        let key = key(dice);
        let mut batch = Batch::new();
        batch.lock_timeout(Some(Duration::ZERO));
        let value = dice.chance(1, 2).then(|| b"other".to_vec());
        match &value {
            Some(value) => batch.put(tree, &key, value).unwrap(),
            None => batch.delete(tree, &key).unwrap(),
        }
        match (db.commit(&mut batch), value) {
            (Ok(_), Some(value)) => drop(newest.insert(key, value)),
            (Ok(_), None) => drop(newest.remove(&key)),
            (Err(Error::LockTimeout { .. }), _) => {}
            (Err(error), _) => panic!("{error}"),
        }
    };
    (0..8).for_each(|_| commit(&mut newest, dice));
    let txn = db.begin(TxnOptions::new().isolation(level)).unwrap();
    let mut own = Own::default();
    let mut base = newest.clone();
    let locks = dice.chance(1, 3);
    if matches!(level, Isolation::RepeatableRead | Isolation::Snapshot) {
        txn.get(tree, b"none").unwrap();
        (0..dice.below(4)).for_each(|_| commit(&mut newest, dice));
    }
    if locks {
        base = newest.clone();
    }
    log.push(format!("base {base:?}, newest {newest:?}"));
    for _ in 0..dice.below(6) {
        if !own.write((&txn, tree), &newest, dice, log) {
            return;
        }
    }
    if dice.chance(1, 4) {
        log.push("statement".into());
        txn.statement().begin().unwrap();
    }
    own.deleted.clear();
    let (mut from, mut to) = (key(dice), key(dice));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    if dice.chance(1, 2) {
        (from, to) = (Vec::new(), b"x".to_vec());
    }
    log.push(format!("scan {}..{}, locks {locks}", text(&from), text(&to)));
    let mut at_mark = own.over(&base);
    at_mark.retain(|key, _| (&from..&to).contains(&key));
    let options = ReadOptions::new().lock(locks.then_some(RowLock::Exclusive));
    let mut cursor = txn.scan_with(tree, from..to, &options).unwrap();
    let (mut position, mut forward, mut savepoint) = (Position::Low, true, None);
    for _ in 0..dice.between(5, 30) {
        match dice.below(16) {
            0..=7 => {
                if dice.chance(1, 3) {
                    forward = !forward;
                }
                let found = match steps(&mut cursor, forward, dice.chance(1, 4)) {
                    Ok(found) => found,
                    Err(Error::Conflict { .. }) => return,
                    Err(error) => panic!("{error}: {log:#?}"),
                };
                log.push(format!("{} {found:?}", if forward { "next" } else { "prev" }));
                let count = found.len().max(1);
                for row in found.into_iter().map(Some).chain([None]).take(count) {
                    let expected = expected(&at_mark, &own, &position, forward);
                    let row = row.as_ref().map(|(key, value)| (key, value));
                    assert_eq!(row, expected, "{position:?}: {log:#?}");
                    position = match row {
                        Some((key, _)) => Position::On(key.clone()),
                        None if forward => Position::High,
                        None => Position::Low,
                    };
                }
            }
            8 => {
                let key = key(dice);
                log.push(format!("seek {}", text(&key)));
                cursor.seek(&key);
                position = Position::Below(key);
            }
            9 if dice.chance(1, 2) => {
                log.push("first".into());
                cursor.seek_first();
                position = Position::Low;
            }
            9 => {
                log.push("last".into());
                cursor.seek_last();
                position = Position::High;
            }
            10 => {
                log.push("savepoint".into());
                savepoint = Some((txn.savepoint().unwrap(), own.clone()));
            }
            11 => {
                if let Some((mark, before)) = savepoint.take() {
                    log.push("rollback".into());
                    txn.rollback_to(&mark).unwrap();
                    own = before;
                }
            }
            12 if !locks && level != Isolation::Serializable => commit(&mut newest, dice),
            _ => {
                if !own.write((&txn, tree), &newest, dice, log) {
                    return;
                }
            }
        }
    }
}

/// Rule: I45.
#[test]
fn scans_turn_and_seek_as_their_model_while_their_transaction_writes() {
    for seed in effort::seeds(8) {
        let dice = &mut Dice::new(seed);
        let mut engine = DbEngine::tiny(Durability::Lazy);
        if let (Some(limits), 0 | 2 | 3) = (&mut engine.tuning.limits, seed % 4) {
            // Only in a quarter of the runs transactions spill.
            limits.own_writes_bytes = 64 << 10;
        }
        let db = engine.store(SimVfs::new().env(seed));
        let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
        for round in 0..300 {
            println!("seed {seed}, round {round}");
            one_round(&db, &tree, dice);
        }
    }
}
