//! Index scans that go on, turn and are repositioned while their transaction writes, compared with
//! a list of entries and a position in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use frond::table::IndexScan;
use frond_testkit::{DbEngine, Dice, disk::SimVfs, effort};

use super::*;

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// Where an entry is in the order of its index: what it is found by, whether it is the snapshot's,
/// which comes after the transaction's own if both have one key, and its row.
type At = (Vec<u8>, bool, Vec<u8>);

/// What a scan returns: the extracted part, the key and the row.
type Found = (Vec<u8>, Vec<u8>, Vec<u8>);

#[derive(Clone, Debug)]
enum Position {
    Low,
    High,
    Below(Vec<u8>),
    On(At),
}

/// The rows that a transaction has written, with the number of the write.
type Own = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

fn overlaid(base: &Rows, own: &Own) -> Rows {
    let mut rows = base.clone();
    for (key, (_, row)) in own {
        match row {
            Some(row) => drop(rows.insert(key.clone(), row.clone())),
            None => drop(rows.remove(key)),
        }
    }
    rows
}

/// A transaction, and what it should see.
struct Session<'t> {
    table: &'t Table,
    txn: &'t Txn,
    /// The committed rows now.
    newest: Rows,
    /// The committed rows that it reads.
    base: Rows,
    own: Own,
    writes: u64,
    log: Vec<String>,
}

/// A conflict has ended the transaction.
struct Ended;

impl Session<'_> {
    fn write(&mut self, dice: &mut Dice) -> Result<(), Ended> {
        let key = vec![b'1' + dice.below(6) as u8];
        self.writes += 1;
        let result = match dice.below(8) {
            0..=4 => {
                let new = row(dice);
                self.log.push(format!("put {} {}", text(&key), text(&new)));
                let put = match dice.chance(1, 4) {
                    true => self.table.insert(self.txn, &key, &new),
                    false => self.table.put(self.txn, &key, &new).map(drop),
                };
                put.map(|()| drop(self.own.insert(key, (self.writes, Some(new)))))
            }
            5 | 6 => {
                self.log.push(format!("delete {}", text(&key)));
                self.table.delete(self.txn, &key).map(|was_there| {
                    if was_there {
                        self.own.insert(key, (self.writes, None));
                    }
                })
            }
            _ => {
                let to = vec![key[0] + dice.below(3) as u8];
                self.log.push(format!("delete range {} {}", text(&key), text(&to)));
                let there = overlaid(&self.newest, &self.own);
                self.table.delete_range(self.txn, key.clone()..to.clone()).map(|_| {
                    for (key, _) in there.range(key..to) {
                        self.own.insert(key.clone(), (self.writes, None));
                    }
                })
            }
        };
        match result {
            Ok(()) => Ok(()),
            Err(Error::DuplicateKey(_)) => {
                self.log.push("refused".into());
                Ok(())
            }
            Err(Error::Conflict { .. }) => Err(Ended),
            Err(error) => panic!("{error}: {:?}", self.log),
        }
    }
}

fn row(dice: &mut Dice) -> Vec<u8> {
    let mail = ["", "a", "b", "c", "d"][dice.below(5) as usize];
    let city = ["Oslo", "Rome"][dice.below(2) as usize];
    format!("{mail},{city},{}", dice.below(3)).into_bytes()
}

/// What an index extracts from a row.
fn extracted<'r>(index: &str, row: &'r [u8]) -> Option<&'r [u8]> {
    match index {
        "city" => Some(part(row, 1)),
        "number" => Some(part(row, 2)).filter(|number| *number != b"0"),
        _ => Some(part(row, 0)).filter(|mail| !mail.is_empty()),
    }
}

/// What a scan should return: the entries as they were at its mark.
struct Expected {
    index: &'static str,
    at_mark: Own,
    entries: BTreeMap<At, Vec<u8>>,
    /// Bounds of what the index is ordered by.
    range: (Vec<u8>, Option<Vec<u8>>),
}

impl Expected {
    fn new(
        index: &'static str,
        base: &Rows,
        at_mark: &Own,
        range: (Vec<u8>, Option<Vec<u8>>),
    ) -> Self {
        let is_unique = index.starts_with("mail");
        let rows = overlaid(base, at_mark);
        let entries = rows.iter().filter_map(|(key, row)| {
            let by = extracted(index, row)?.to_vec();
            let is_in = by >= range.0 && range.1.as_ref().is_none_or(|to| by < *to);
            let is_base = is_unique && !at_mark.contains_key(key);
            is_in.then(|| ((by, is_base, key.clone()), row.clone()))
        });
        Self { index, at_mark: at_mark.clone(), entries: entries.collect(), range }
    }

    /// Whether an entry must be returned, and whether it may be.
    fn must_and_may(&self, session: &Session<'_>, (by, _, key): &At) -> (bool, bool) {
        let is_touched = session.own.get(key) != self.at_mark.get(key);
        let now = overlaid(&session.base, &session.own);
        let fits = now.get(key).and_then(|row| extracted(self.index, row)) == Some(by);
        (!is_touched, fits)
    }

    /// Checks a step from a position; returns where it leads.
    fn check(
        &self,
        session: &Session<'_>,
        (from, forward): (&Position, bool),
        found: Option<Found>,
    ) -> Result<Position, String> {
        let is_beyond = |at: &At| match from {
            Position::Low => forward,
            Position::High => !forward,
            Position::Below(by) => (at.0 >= *by) == forward,
            Position::On(on) if forward => at > on,
            Position::On(on) => at < on,
        };
        let mut ahead: Vec<_> = self.entries.keys().filter(|at| is_beyond(at)).collect();
        if !forward {
            ahead.reverse();
        }
        for at in ahead {
            let (must, may) = self.must_and_may(session, at);
            let is_it = found.as_ref().is_some_and(|(by, key, _)| (by, key) == (&at.0, &at.2));
            if is_it && may {
                let row = found.map(|found| found.2);
                let now = overlaid(&session.base, &session.own).remove(&at.2);
                return match row == now || !must && row.as_ref() == self.entries.get(at) {
                    true => Ok(Position::On(at.clone())),
                    false => Err(format!("row {row:?} instead of {now:?}")),
                };
            }
            if must {
                return Err(format!("{at:?} is missing before {found:?}"));
            }
        }
        match found {
            Some(found) => Err(format!("{found:?} is not beyond {from:?}")),
            None => Ok(if forward { Position::High } else { Position::Low }),
        }
    }
}

/// A step; `Ended` if a row was changed since the snapshot, and is to be locked.
fn step(scan: &mut IndexScan<'_>, forward: bool) -> Result<Option<Found>, Ended> {
    match if forward { scan.next() } else { scan.prev() } {
        Ok(found) => {
            Ok(found.map(|found| (found.extracted.into(), found.key.into(), found.row.into())))
        }
        Err(Error::Conflict { .. }) => Err(Ended),
        Err(error) => panic!("{error}"),
    }
}

/// Moves a scan at random, with writes between the moves.
fn move_about(
    session: &mut Session<'_>,
    (mut scan, expected): (IndexScan<'_>, Expected),
    dice: &mut Dice,
) -> Result<(), Ended> {
    let (mut position, mut forward) = (Position::Low, true);
    let mut savepoint = None;
    for _ in 0..dice.between(5, 30) {
        match dice.below(16) {
            0..=7 => {
                if dice.chance(1, 3) {
                    forward = !forward;
                }
                let found = step(&mut scan, forward)?;
                session.log.push(format!("{} {found:?}", if forward { "next" } else { "prev" }));
                let after = expected.check(session, (&position, forward), found);
                position = after.unwrap_or_else(|why| panic!("{why}: {:#?}", session.log));
            }
            8 => {
                let by = [&b"a"[..], b"b", b"c", b"bb", b"Oslo", b"1"][dice.below(6) as usize];
                scan.seek(by);
                session.log.push(format!("seek {}", text(by)));
                position = Position::Below(by.into());
            }
            9 if dice.chance(1, 2) => {
                scan.seek_first();
                session.log.push("first".into());
                position = Position::Low;
            }
            9 => {
                scan.seek_last();
                session.log.push("last".into());
                position = Position::High;
            }
            10 => {
                session.log.push("savepoint".into());
                savepoint = Some((session.txn.savepoint().unwrap(), session.own.clone()));
            }
            11 => {
                if let Some((mark, own)) = savepoint.take() {
                    session.log.push("rollback".into());
                    session.txn.rollback_to(&mark).unwrap();
                    session.own = own;
                }
            }
            _ => session.write(dice)?,
        }
    }
    Ok(())
}

/// Takes rows from both ends, with writes in between: each entry comes once.
fn take_from_both_ends(
    session: &mut Session<'_>,
    expected: &Expected,
    by: &frond::TableIndex,
    dice: &mut Dice,
) -> Result<(), Ended> {
    let (from, to) = expected.range.clone();
    let mut rows = match to {
        Some(to) => by.range(session.txn, from..to),
        None => by.range(session.txn, from..),
    };
    let (mut taken, mut was_touched) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let own = &session.own;
        let touched = own.iter().filter(|(key, own)| expected.at_mark.get(*key) != Some(*own));
        was_touched.extend(touched.map(|(key, _)| key.clone()));
        let is_front = dice.chance(1, 2);
        let row = if is_front { rows.next() } else { rows.next_back() };
        session.log.push(format!("{} {row:?}", if is_front { "front" } else { "back" }));
        let Some(row) = row else { break };
        let (key, _) = row.unwrap();
        assert!(taken.insert(key.clone()), "{key:?} again: {:#?}", session.log);
        for _ in 0..dice.below(3) {
            session.write(dice)?;
        }
    }
    for (_, _, key) in expected.entries.keys() {
        let is_there = was_touched.contains(key) || taken.contains(key);
        assert!(is_there, "{key:?} is missing: {:#?}", session.log);
    }
    Ok(())
}

fn one_round(db: &Db, table: &Table, dice: &mut Dice) -> Result<(), Ended> {
    let level = *dice.pick(&LEVELS);
    // A commit of another transaction, unless locks prevent it.
    let commit = |rows: &mut Rows, dice: &mut Dice| {
        let key = vec![b'1' + dice.below(6) as u8];
        let new = dice.chance(2, 3).then(|| row(dice));
        let other = db.begin(TxnOptions::new().lock_timeout(Some(Duration::ZERO))).unwrap();
        let done = match &new {
            Some(new) => table.put(&other, &key, new).map(drop),
            None => table.delete(&other, &key).map(drop),
        };
        match done.and_then(|()| other.commit()) {
            Ok(_) => drop(match new {
                Some(new) => rows.insert(key, new),
                None => rows.remove(&key),
            }),
            Err(Error::DuplicateKey(_) | Error::LockTimeout { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let mut newest: Rows = table.range(db, ..).collect::<Result<_, _>>().unwrap();
    (0..4).for_each(|_| commit(&mut newest, dice));

    let txn = begin(db, level);
    let log = vec![format!("{level:?} {newest:?}")];
    let (base, own) = (newest.clone(), Own::new());
    let mut session = Session { table, txn: &txn, newest, base, own, writes: 0, log };
    for _ in 0..dice.below(3) {
        session.write(dice)?;
    }
    // Without a statement, read committed has no older rows to stand on.
    let is_statement = dice.chance(1, 3);
    let mut at_mark = None;
    if is_statement {
        session.log.push("statement".into());
        txn.statement().begin().unwrap();
        at_mark = Some(session.own.clone());
    }
    if level != Isolation::Serializable {
        table.get(&txn, b"none").unwrap();
        (0..dice.below(5)).for_each(|_| commit(&mut session.newest, dice));
        session.log.push(format!("newest {:?}", session.newest));
    }
    for _ in 0..dice.below(4) {
        session.write(dice)?;
    }
    let at_mark = at_mark.unwrap_or_else(|| session.own.clone());
    let index = *dice.pick(&["mail", "mail and row", "mail", "mail and row", "city", "number"]);
    let locks = dice.chance(1, 4);
    if locks || level == Isolation::ReadCommitted && !is_statement {
        session.base = session.newest.clone();
    }
    session.log.push(format!("scan of {index}, locks {locks}"));
    let to = dice.chance(1, 4).then(|| b"d".to_vec());
    let from = if dice.chance(1, 4) { b"b".to_vec() } else { Vec::new() };
    let expected = Expected::new(index, &session.base, &at_mark, (from.clone(), to.clone()));
    let by = table.index(index).unwrap();
    if !locks && dice.chance(1, 3) {
        return take_from_both_ends(&mut session, &expected, &by, dice);
    }
    let options = match locks {
        true => ReadOptions::new().lock(RowLock::Exclusive),
        false => ReadOptions::new(),
    };
    let scan = match to {
        Some(to) => by.scan_with(&txn, from..to, &options),
        None => by.scan_with(&txn, from.., &options),
    };
    move_about(&mut session, (scan.unwrap(), expected), dice)
}

/// Rules: I45, I48.
#[test]
fn index_scans_turn_and_seek_as_their_model_while_their_transaction_writes() {
    for seed in effort::seeds(8) {
        let dice = &mut Dice::new(seed);
        let mut engine = DbEngine::tiny(Durability::Lazy);
        if let (Some(limits), 0 | 2 | 3) = (&mut engine.tuning.limits, seed % 4) {
            // Only in a quarter of the runs transactions spill.
            limits.own_writes_bytes = 64 << 10;
        }
        let db = engine.store(SimVfs::new().env(seed));
        let table = db.table(spec(all())).unwrap();
        for round in 0..200 {
            println!("seed {seed}, round {round}");
            let _ended = one_round(&db, &table, dice);
        }
        assert_consistent(&db, &table);
    }
}
