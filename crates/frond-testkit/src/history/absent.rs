//! Determines which deletion a reader saw when it found nothing.
//!
//! No reader sees the number of a deletion. But what a reader sees existed at some moment between
//! its start and its end. So of all deletions of a register, and the time before its first write,
//! most can be ruled out:
//!
//! 1. a deletion whose transaction began after the reader had ended;
//! 2. a deletion after which another transaction began, wrote the register, and had ended before
//!    the reader began; the time before the first write, if any write had ended before the reader
//!    began;
//! 3. a deletion that its own transaction has overwritten.
//!
//! If one candidate is left, it is that one. If none is, the store has answered wrongly. If several
//! are, the read proves nothing.

use std::collections::BTreeMap;

use super::{Call, History, Key, Number, Outcome, Txn};

/// What a reader saw that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Absent {
    /// The register had not been written yet.
    Initial,
    /// This deletion.
    Deleted(Number),
    /// One of several.
    Unknown,
    /// The register existed at all times, so the answer is wrong.
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
    /// Whether the write is certainly there.
    counts: bool,
    /// Whether it was acknowledged when it ended.
    is_known: bool,
}

/// All writes to registers that may be there.
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

    /// Returns what a transaction has seen that found no register under `key` and has not written
    /// it itself.
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
