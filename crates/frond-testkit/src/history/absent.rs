//! Whose deletion it was that a reader found nothing of.
//!
//! A deletion's number is read by nobody. But what a reader sees was there at a moment between his begin and his end, so of
//! all deletions of a register, and the time before anybody wrote it, most cannot be it:
//!
//! 1. one whose transaction began after the reader had ended;
//! 2. one after which another transaction began, wrote the register, and had ended before the reader began; of the time
//!    before anybody wrote it, any that had ended before he began;
//! 3. one that its own transaction wrote over.
//!
//! If one is left it is that. If none is, the reader was told a lie. If several are, his read says nothing.

use std::collections::BTreeMap;

use super::{Call, History, Key, Number, Outcome, Txn};

/// What a reader of nothing has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Absent {
    /// Nobody had written it.
    Initial,
    /// This deletion.
    Deleted(Number),
    /// One of several.
    Unknown,
    /// There was something at all times.
    Impossible,
}

/// The last write of a transaction to a register.
#[derive(Clone, Copy, Debug)]
struct Write {
    txn: usize,
    number: Number,
    deletes: bool,
    begun: u64,
    ended: u64,
    /// It is there for certain.
    counts: bool,
    /// It was acknowledged when it ended.
    is_known: bool,
}

/// All writes to registers that may have come to something.
pub(super) struct Writes(BTreeMap<Key, Vec<Write>>);

impl Writes {
    pub fn of(history: &History, counts: &[bool]) -> Self {
        let mut writes: BTreeMap<Key, Vec<Write>> = BTreeMap::new();
        for (txn, done) in history.txns.iter().enumerate() {
            if done.outcome == Outcome::Aborted {
                continue;
            }
            let mut last: BTreeMap<Key, (Number, bool)> = BTreeMap::new();
            for (_, call) in &done.calls {
                match call {
                    Call::Set(key, number) => drop(last.insert(*key, (*number, false))),
                    Call::Delete(key, number) => drop(last.insert(*key, (*number, true))),
                    _ => {}
                }
            }
            for (key, (number, deletes)) in last {
                let Txn { begun, ended, outcome, .. } = *done;
                let is_known = outcome == Outcome::Committed;
                let write =
                    Write { txn, number, deletes, begun, ended, counts: counts[txn], is_known };
                writes.entry(key).or_default().push(write);
            }
        }
        Self(writes)
    }

    /// What a transaction has seen that found no such register, and has not written it itself.
    pub fn absent(&self, key: Key, reader: usize, txn: &Txn) -> Absent {
        let none = Vec::new();
        let writes = self.0.get(&key).unwrap_or(&none);
        let is_over = |after: u64| {
            let mut others = writes.iter().filter(|other| other.counts && other.is_known);
            others.any(|other| other.begun > after && other.ended < txn.begun)
        };
        let is_initial =
            !writes.iter().any(|write| write.counts && write.is_known && write.ended < txn.begun);
        let deletions = writes.iter().filter(|write| write.deletes && write.txn != reader);
        let mut possible =
            deletions.filter(|write| write.begun <= txn.ended && !is_over(write.ended));
        match (is_initial, possible.next(), possible.next()) {
            (true, None, None) => Absent::Initial,
            (false, Some(one), None) if one.counts => Absent::Deleted(one.number),
            (false, None, None) => Absent::Impossible,
            _ => Absent::Unknown,
        }
    }
}
