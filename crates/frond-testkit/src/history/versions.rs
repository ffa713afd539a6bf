//! Determines which transaction wrote which version, and in which order. Lists are ordered as the
//! last reader saw them, registers by transactions that read one value and set the next. Also finds
//! the anomalies that need no cycle.
//!
//! 1. A transaction of unknown outcome was committed if another saw its writes after the restart,
//!    or saw them and wrote something itself. A transaction that only read, before the restart, may
//!    have seen a commit up to one sync before it was durable: if that commit is gone, its read
//!    proves nothing, and is left out.
//! 2. The order of a list is what the last reader saw. All others saw a prefix of it, followed by
//!    their own numbers.
//! 3. A reader that finds no register has seen it before its first write, or deleted. If it cannot
//!    be known which (`absent.rs`), the read proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use frond::Isolation;

use super::{
    Anomaly, Call, Finding, History, Key, Number, Outcome, Txn,
    absent::{Absent, Writes},
};

/// What a transaction saw of a key, except its own writes.
pub(super) struct Read<'h> {
    pub txn: usize,
    pub call: u32,
    pub locks: bool,
    pub is_glimpse: bool,
    pub key: Key,
    pub seen: Seen<'h>,
}

/// What was seen.
pub(super) enum Seen<'h> {
    List(&'h [Number]),
    Register(Option<Number>),
}

/// A history with its versions in order.
pub(super) struct Versions<'h> {
    pub history: &'h History,
    /// Whether each transaction counts: it is committed, and did not read a lost commit.
    pub counts: Vec<bool>,
    /// The writer of each number.
    pub writer: BTreeMap<Number, usize>,
    pub lists: BTreeMap<Key, Vec<Number>>,
    /// For registers: a value, and one that came later.
    pub registers: Vec<(Key, Option<Number>, Number)>,
    pub reads: Vec<Read<'h>>,
}

impl<'h> Versions<'h> {
    pub fn of(history: &'h History, findings: &mut Vec<Finding>) -> Self {
        let mut writer = BTreeMap::new();
        for (at, txn) in history.txns.iter().enumerate() {
            writer
                .extend(txn.written().chain(txn.undone.iter().copied()).map(|number| (number, at)));
        }
        let mut versions = Self {
            history,
            counts: Vec::new(),
            writer,
            lists: BTreeMap::new(),
            registers: Vec::new(),
            reads: Vec::new(),
        };
        versions.counts = versions.transactions_that_count();
        let writes = Writes::of(history, &versions.counts);
        for at in 0..history.txns.len() {
            if versions.counts[at] {
                versions.read(at, &writes, findings);
            }
        }
        versions.order_lists();
        versions.compare_lists(findings);
        versions.look_at_writers(findings);
        versions.look_for_lost(findings);
        versions.look_for_lost_updates(findings);
        versions
    }

    pub fn txn(&self, at: usize) -> &'h Txn {
        &self.history.txns[at]
    }

    /// Finds the transactions that count (rule 1).
    fn transactions_that_count(&self) -> Vec<bool> {
        let txns = &self.history.txns;
        let restart_after = |moment| self.history.restarts.iter().find(|at| **at > moment);
        let mut counts: Vec<bool> =
            txns.iter().map(|txn| txn.outcome == Outcome::Committed).collect();
        let mut seen_early = vec![Vec::new(); txns.len()];
        // A transaction that was seen by one that counts also counts, and so do those that it saw.
        let mut work: Vec<usize> = (0..txns.len()).filter(|at| counts[*at]).collect();
        while let Some(reader) = work.pop() {
            for number in txns[reader].seen() {
                let Some(&writer) = self.writer.get(&number) else { continue };
                if txns[writer].outcome != Outcome::Unknown || writer == reader {
                    continue;
                }
                let is_later = restart_after(txns[writer].begun)
                    .is_none_or(|restart| txns[reader].begun > *restart);
                let is_proof = is_later || txns[reader].written().next().is_some();
                if !is_proof {
                    seen_early[writer].push(reader);
                } else if !counts[writer] {
                    counts[writer] = true;
                    work.push(writer);
                }
            }
        }
        for (writer, readers) in seen_early.into_iter().enumerate() {
            if !counts[writer] {
                readers.into_iter().for_each(|reader| counts[reader] = false);
            }
        }
        counts
    }

    /// Collects what a transaction saw of others, and checks that it saw its own writes.
    fn read(&mut self, at: usize, writes: &Writes, findings: &mut Vec<Finding>) {
        let txn = self.txn(at);
        let mut own_lists: BTreeMap<Key, Vec<Number>> = BTreeMap::new();
        // Lists that it has rewritten: a read sees its own list, including what it has read of
        // others.
        let mut rewritten: BTreeSet<Key> = BTreeSet::new();
        // The number of its last write, and what a read of it must return.
        let mut own_registers: BTreeMap<Key, (Number, Option<Number>)> = BTreeMap::new();
        let mut seen_registers: BTreeMap<Key, Option<Number>> = BTreeMap::new();
        for (number, call) in &txn.calls {
            let (read_at, internal) = (*number, |what: String| Finding {
                anomaly: Anomaly::Internal,
                story: format!("{} {what}", self.name(at)),
            });
            match call {
                Call::Append(key, number) => own_lists.entry(*key).or_default().push(*number),
                Call::Rewrite(key, list) => {
                    own_lists.insert(*key, list.clone());
                    rewritten.insert(*key);
                }
                Call::Set(key, number) | Call::Delete(key, number) => {
                    let shows = matches!(call, Call::Set(..)).then_some(*number);
                    let before = own_registers.insert(*key, (*number, shows));
                    let before = before.map(|(number, _)| number);
                    let before = before.or(seen_registers.get(key).copied().flatten());
                    self.registers.push((*key, before, *number));
                }
                Call::List(key, seen, locks) => {
                    let own = own_lists.get(key).map_or(&[][..], Vec::as_slice);
                    let is_own = |others: &&[Number]| others.is_empty() || !rewritten.contains(key);
                    let Some(seen) = seen.strip_suffix(own).filter(is_own) else {
                        let what = format!("appended {own:?} to list {key} and read {seen:?}");
                        findings.push(internal(what));
                        continue;
                    };
                    if rewritten.contains(key) {
                        continue;
                    }
                    if seen.iter().any(|number| self.writer.get(number) == Some(&at)) {
                        let what = format!("wrote {own:?} to list {key} and read more: {seen:?}");
                        findings.push(internal(what));
                    }
                    // It has locked a list to which it has appended, and sees it as it will leave
                    // it.
                    let is_newest = !own.is_empty() && txn.isolation == Isolation::RepeatableRead;
                    let (seen, locks) = (Seen::List(seen), *locks || is_newest);
                    let (call, is_glimpse) = (read_at, false);
                    self.reads.push(Read { txn: at, call, locks, is_glimpse, key: *key, seen });
                }
                Call::Register(key, seen, _) | Call::Glimpse(key, seen) => {
                    let is_glimpse = matches!(call, Call::Glimpse(..));
                    let locks = matches!(call, Call::Register(_, _, true));
                    if let Some((_, own)) = own_registers.get(key) {
                        if seen != own {
                            let what = format!("set register {key} to {own:?} and read {seen:?}");
                            findings.push(internal(what));
                        }
                        continue;
                    }
                    let seen = match seen {
                        Some(_) => *seen,
                        None => match writes.absent(*key, at, txn) {
                            Absent::Initial => None,
                            Absent::Deleted(number) => Some(number),
                            Absent::Unknown => continue,
                            Absent::Impossible => {
                                let what = format!("found no register {key}, which was there");
                                findings.push(Finding { anomaly: Anomaly::Lost, ..internal(what) });
                                continue;
                            }
                        },
                    };
                    if !is_glimpse {
                        seen_registers.insert(*key, seen);
                    }
                    let (call, seen) = (read_at, Seen::Register(seen));
                    self.reads.push(Read { txn: at, call, locks, is_glimpse, key: *key, seen });
                }
            }
        }
    }

    /// Orders the lists (rule 2).
    fn order_lists(&mut self) {
        let mut last: BTreeMap<Key, (u64, &[Number])> = BTreeMap::new();
        for read in &self.reads {
            let Seen::List(seen) = read.seen else { continue };
            let begun = (self.history.txns[read.txn].begun, seen);
            let entry = last.entry(read.key).or_insert(begun);
            if (begun.0, seen.len()) > (entry.0, entry.1.len()) {
                *entry = begun;
            }
        }
        self.lists = last.into_iter().map(|(key, (_, seen))| (key, seen.to_vec())).collect();
        // Appends that the last reader did not see, at the levels that allow that, come after what
        // others saw, if those saw them.
        for read in &self.reads {
            let Seen::List(seen) = read.seen else { continue };
            let order = self.lists.entry(read.key).or_default();
            if seen.len() > order.len() && seen.starts_with(order) {
                *order = seen.to_vec();
            }
        }
    }

    fn compare_lists(&self, findings: &mut Vec<Finding>) {
        for read in &self.reads {
            let Seen::List(seen) = read.seen else { continue };
            let order = &self.lists[&read.key];
            if !order.starts_with(seen) {
                let (reader, key) = (self.name(read.txn), read.key);
                let story =
                    format!("{reader} saw list {key} as {seen:?}, the last reader {order:?}");
                findings.push(Finding { anomaly: Anomaly::Order, story });
            }
        }
        for (key, order) in &self.lists {
            let distinct: BTreeSet<_> = order.iter().collect();
            if distinct.len() < order.len() {
                let story = format!("list {key} has a number twice: {order:?}");
                findings.push(Finding { anomaly: Anomaly::Order, story });
            }
        }
    }

    /// Finds aborted reads, intermediate reads, and reads of numbers that were never written.
    fn look_at_writers(&self, findings: &mut Vec<Finding>) {
        for read in &self.reads {
            let numbers = match &read.seen {
                Seen::List(seen) => seen.to_vec(),
                Seen::Register(seen) => seen.iter().copied().collect(),
            };
            for number in &numbers {
                let (reader, key) = (self.name(read.txn), read.key);
                let Some(&writer) = self.writer.get(number) else {
                    let story = format!("{reader} read {number} at key {key}");
                    findings.push(Finding { anomaly: Anomaly::Unwritten, story });
                    continue;
                };
                let by = self.name(writer);
                if !self.counts[writer] || self.txn(writer).undone.contains(number) {
                    let story = format!("{reader} read {number} at key {key}, rolled back by {by}");
                    findings.push(Finding { anomaly: Anomaly::G1a, story });
                    continue;
                }
                let last = match read.seen {
                    Seen::List(_) => self.txn(writer).last_append(key),
                    Seen::Register(_) => self.txn(writer).last_set(key),
                };
                if writer != read.txn && last.is_some_and(|last| !numbers.contains(&last)) {
                    let story =
                        format!("{reader} read {number} at key {key}, not the last of {by}");
                    findings.push(Finding { anomaly: Anomaly::G1b, story });
                }
            }
        }
    }

    /// Finds what later readers of lists should have seen.
    fn look_for_lost(&self, findings: &mut Vec<Finding>) {
        let mut last: BTreeMap<Key, u64> = BTreeMap::new();
        for read in self.reads.iter().filter(|read| matches!(read.seen, Seen::List(_))) {
            let begun = self.txn(read.txn).begun;
            let at = last.entry(read.key).or_default();
            *at = begun.max(*at);
        }
        for (at, txn) in self.history.txns.iter().enumerate().filter(|(at, _)| self.counts[*at]) {
            for (_, call) in &txn.calls {
                let (Call::Append(key, _) | Call::Rewrite(key, _)) = call else { continue };
                let Some(number) = &call.written() else { continue };
                // If its outcome is unknown and it was seen, all of it is there at the latest since
                // the restart.
                let is_due = last.get(key).is_some_and(|begun| *begun > txn.ended);
                if is_due && !self.lists[key].contains(number) {
                    let by = self.name(at);
                    let story =
                        format!("{by} appended {number} to list {key}, and it is not there");
                    findings.push(Finding { anomaly: Anomaly::Lost, story });
                }
            }
        }
    }

    /// Finds registers of which two transactions have read the same version and set the next:
    /// whichever was first, the other has not seen it. If both reads had to be valid until the
    /// commit, that is a wrong answer of the store. Cycles do not show it, since the order of the
    /// two is unknown.
    fn look_for_lost_updates(&self, findings: &mut Vec<Finding>) {
        let mut first: BTreeMap<(Key, Option<Number>), usize> = BTreeMap::new();
        for read in &self.reads {
            let Seen::Register(seen) = read.seen else { continue };
            let isolation = self.txn(read.txn).isolation;
            let is_kept =
                read.locks || matches!(isolation, Isolation::Snapshot | Isolation::Serializable);
            let is_kept = is_kept && !read.is_glimpse;
            if !is_kept || self.txn(read.txn).last_set(read.key).is_none() {
                continue;
            }
            let first = *first.entry((read.key, seen)).or_insert(read.txn);
            if first != read.txn {
                let (one, other) = (self.name(first), self.name(read.txn));
                let key = read.key;
                let story =
                    format!("{one} and {other} have read {seen:?} of register {key} and set it");
                findings.push(Finding { anomaly: Anomaly::P4, story });
            }
        }
    }

    /// A transaction in words.
    pub fn name(&self, at: usize) -> String {
        let Txn { session, isolation, .. } = self.txn(at);
        format!("T{at} (session {session}, {isolation:?})")
    }
}

impl Call {
    /// The number that it wrote.
    pub(super) fn written(&self) -> Option<Number> {
        match self {
            Call::Append(_, number) | Call::Set(_, number) | Call::Delete(_, number) => {
                Some(*number)
            }
            Call::Rewrite(_, list) => list.last().copied(),
            Call::List(..) | Call::Register(..) | Call::Glimpse(..) => None,
        }
    }
}

impl Txn {
    /// Numbers that it wrote and did not roll back.
    pub(super) fn written(&self) -> impl Iterator<Item = Number> {
        self.calls.iter().filter_map(|(_, call)| call.written())
    }

    fn seen(&self) -> impl Iterator<Item = Number> {
        self.calls.iter().flat_map(|(_, call)| match call {
            Call::List(_, seen, _) => seen.clone(),
            Call::Register(_, Some(seen), _) | Call::Glimpse(_, Some(seen)) => vec![*seen],
            _ => Vec::new(),
        })
    }

    pub(super) fn last_append(&self, of: Key) -> Option<Number> {
        self.calls.iter().rev().find_map(|(_, call)| match call {
            Call::Append(key, _) | Call::Rewrite(key, _) if *key == of => call.written(),
            _ => None,
        })
    }

    pub(super) fn last_set(&self, of: Key) -> Option<Number> {
        self.calls.iter().rev().find_map(|(_, call)| match call {
            Call::Set(key, number) | Call::Delete(key, number) if *key == of => Some(*number),
            _ => None,
        })
    }

    /// True if it reads without locks, so that reads may come before its commit.
    pub(super) fn reads_plainly(&self) -> bool {
        self.calls
            .iter()
            .any(|(_, call)| matches!(call, Call::List(_, _, false) | Call::Register(_, _, false)))
    }
}
