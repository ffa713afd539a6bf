//! Tests that spilled writes stay in a few dozen pieces, whatever scans are open, and that scans
//! see what they saw (Rules: I44, I45).

use std::collections::BTreeMap;

use super::*;
use crate::{
    Durability, Options,
    db::Tuning,
    io::{Env, MemoryVfs},
    pipeline::Limits,
};
use write_buffer::PIECES_MAX;

/// A store of `rows` rows, each with its own number as value.
fn store(rows: u32) -> (Db, Tree) {
    small_store(rows, |row| row.to_be_bytes().to_vec())
}

/// A store of `rows` rows, whose transactions spill after about ten writes.
pub(super) fn small_store(rows: u32, value: impl Fn(u32) -> Vec<u8>) -> (Db, Tree) {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
    let limits = Limits { own_writes_bytes: 300, ..Limits::for_cache(8 << 20) };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
    let db = Db::open("/store", options.env(env).tuning(tuning)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    for row in 0..rows {
        tree.put(&row.to_be_bytes(), &value(row)).unwrap();
    }
    (db, tree)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

fn pieces(txn: &Txn) -> usize {
    txn.buffer.live.lock().pieces().len()
}

fn spills(txn: &Txn) -> u64 {
    txn.state.lock().unwrap().buffer.spills
}

/// Updates every row through one scan, the next rows ahead of it, and as many others that it must
/// not meet.
#[test]
fn an_update_of_every_row_through_one_scan_leaves_few_pieces() {
    const ROWS: u32 = 3000;
    let (db, tree) = store(ROWS);
    let txn = db.begin(TxnOptions::default()).unwrap();
    let mut scan = txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap();
    let (mut met, mut most) = (0, 0);
    while let Some((key, value)) = scan.next().unwrap() {
        assert_eq!((number(key), number(value)), (met, met), "I45");
        for key in [met, met + 1, ROWS + met] {
            txn.put(&tree, &key.to_be_bytes(), &(key + ROWS).to_be_bytes()).unwrap();
        }
        met += 1;
        most = most.max(pieces(&txn));
    }
    assert_eq!(met, ROWS);
    // Less than eight of each size, and those that are about to be merged.
    assert!(spills(&txn) > 500 && most <= 4 * 8, "{} spills, {most} pieces", spills(&txn));
    drop(scan);
    txn.commit().unwrap();
    let mut rows = tree.scan(..).unwrap();
    let mut count = 0;
    while let Some((key, value)) = rows.next().unwrap() {
        assert_eq!((number(key), number(value)), (count, count + ROWS));
        count += 1;
    }
    assert_eq!(count, 2 * ROWS);
    assert_eq!(db.lock_stats().locks, 0);
}

/// Cuts at marks keep pieces of one size apart; once the marks are gone, only the bound on their
/// number makes them merge.
#[test]
fn successive_statements_leave_few_pieces() {
    let (db, tree) = store(0);
    let txn = db.begin(TxnOptions::default()).unwrap();
    let mut most = 0;
    for statement in 0..60u32 {
        txn.statement().begin().unwrap();
        let mut scan = txn.scan(&tree, ..).unwrap();
        for row in 0..100u32 {
            let met = scan.next().unwrap().map(|(key, _)| number(key));
            let there = if statement == 0 { None } else { Some(row) };
            assert_eq!(met, there, "I45: statement {statement}");
            txn.put(&tree, &row.to_be_bytes(), &statement.to_be_bytes()).unwrap();
            most = most.max(pieces(&txn));
        }
    }
    // Before the mark, and after it; and what one call may add.
    let bound = 2 * PIECES_MAX + 2;
    assert!(spills(&txn) > 300 && most <= bound, "{} spills, {most} pieces", spills(&txn));
    txn.commit().unwrap();
}

type Rows = BTreeMap<u32, u32>;

/// An open scan.
struct Open<'t> {
    scan: TxnCursor<'t>,
    forward: bool,
    /// Rows that it has still to return, as they were when it started.
    rows: Rows,
    /// Number of calls before it started.
    mark: usize,
}

/// What a transaction has done since it began and not rolled back.
#[derive(Default)]
struct Calls(Vec<(u32, Option<u32>)>);

impl Calls {
    fn rows(&self, before: &Rows) -> Rows {
        let mut rows = before.clone();
        for (key, value) in &self.0 {
            match value {
                Some(value) => rows.insert(*key, *value),
                None => rows.remove(key),
            };
        }
        rows
    }

    /// Whether a key was deleted since a mark, and whether that was the last change to it.
    fn is_deleted(&self, key: u32, mark: usize) -> (bool, bool) {
        let mut since = self.0[mark..].iter().filter(|(own, _)| *own == key);
        let is_last = since.clone().next_back().is_some_and(|(_, value)| value.is_none());
        (since.any(|(_, value)| value.is_none()), is_last)
    }
}

impl Open<'_> {
    /// Moves to the next row; false at the end.
    fn step(&mut self, calls: &Calls, what: &str) -> bool {
        let found = if self.forward { self.scan.next() } else { self.scan.prev() }.unwrap();
        let found = found.map(|(key, value)| (number(key), number(value)));
        loop {
            let next = if self.forward { self.rows.pop_first() } else { self.rows.pop_last() };
            if next == found {
                let gone = found.is_some_and(|(key, _)| calls.is_deleted(key, self.mark).1);
                assert!(!gone, "{what}: {found:?} was deleted");
                return found.is_some();
            }
            let passed_by = next.is_some_and(|(key, _)| calls.is_deleted(key, self.mark).0);
            assert!(passed_by, "{what}: {found:?} instead of {next:?}");
        }
    }
}

struct Toss(u64);

impl Toss {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as u32 % end
    }
}

/// Scans that start at several moments, in both directions, concurrently with calls, spills, merges
/// and rollbacks.
#[test]
fn scans_stay_consistent_while_pieces_are_merged() {
    const KEYS: u32 = 300;
    let before: Rows = (0..KEYS / 2).map(|row| (row, row)).collect();
    let mut merged = 0;
    for seed in 0..12 {
        let mut toss = Toss(seed);
        let (db, tree) = store(KEYS / 2);
        let txn = db.begin(TxnOptions::default()).unwrap();
        let (mut calls, mut saved, mut open) = (Calls::default(), Vec::new(), Vec::new());
        for round in 0..1500u32 {
            let what = format!("I45: seed {seed}, round {round}");
            match toss.below(50) {
                0 if open.len() < 4 => {
                    let forward = toss.below(2) == 0;
                    let mut scan = match toss.below(2) {
                        0 => txn.scan(&tree, ..),
                        _ => txn.scan_with(&tree, .., &ReadOptions::new().lock(RowLock::Exclusive)),
                    }
                    .unwrap();
                    if !forward {
                        scan.seek_last();
                    }
                    open.push(Open {
                        scan,
                        forward,
                        rows: calls.rows(&before),
                        mark: calls.0.len(),
                    });
                }
                1 if saved.len() < 6 => saved.push((txn.savepoint().unwrap(), calls.0.len())),
                2 if toss.below(4) == 0 && !saved.is_empty() => {
                    saved.truncate(1 + toss.below(saved.len() as u32) as usize);
                    let (savepoint, mark) = saved.last().unwrap();
                    txn.rollback_to(savepoint).unwrap();
                    calls.0.truncate(*mark);
                    open.retain_mut(|open: &mut Open<'_>| {
                        let is_behind = open.mark > *mark;
                        assert!(!is_behind || open.scan.next().is_err(), "{what}");
                        // Of two marks with nothing between them, one may refer to memory that was
                        // reset since.
                        open.mark < *mark
                    });
                }
                3 if !saved.is_empty() => {
                    let (savepoint, _) = saved.remove(toss.below(saved.len() as u32) as usize);
                    // Savepoints made after it are released with it.
                    saved.retain(|(other, _)| other.number() < savepoint.number());
                    txn.release(&savepoint).unwrap();
                }
                4..=9 if !open.is_empty() => {
                    let at = toss.below(open.len() as u32) as usize;
                    let goes_on = (0..1 + toss.below(12)).all(|_| open[at].step(&calls, &what));
                    if !goes_on {
                        open.swap_remove(at);
                    }
                }
                _ => {
                    let key = toss.below(KEYS);
                    let value = (toss.below(4) > 0).then_some(round);
                    match value {
                        Some(value) => txn.put(&tree, &key.to_be_bytes(), &value.to_be_bytes()),
                        None => txn.delete(&tree, &key.to_be_bytes()),
                    }
                    .unwrap();
                    calls.0.push((key, value));
                    let own = txn.buffer.live.lock();
                    merged += usize::from(
                        !open.is_empty() && own.pieces().iter().any(|piece| piece.level > 0),
                    );
                }
            }
        }
        for mut open in open {
            while open.step(&calls, &format!("I45: seed {seed}, the rest")) {}
        }
        txn.commit().unwrap();
        let mut rows = Rows::new();
        let mut scan = tree.scan(..).unwrap();
        while let Some((key, value)) = scan.next().unwrap() {
            rows.insert(number(key), number(value));
        }
        assert_eq!(rows, calls.rows(&before), "I44: seed {seed}");
    }
    assert!(merged > 1000, "{merged}: scans were open, but few pieces were merged");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: pieces are merged over marks" => scans_stay_consistent_while_pieces_are_merged,
    };
    crate::plant::assert_claims_hold("pieces", claims);
}
