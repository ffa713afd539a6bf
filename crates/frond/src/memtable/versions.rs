//! The versions of one key: its first record, and a chain of all others that starts there, newest
//! first.
//!
//! The first record is the one for which the tree's slot was created, whatever its seqno; readers
//! merge it into the chain. So a slot never changes its record, and adding a version is one
//! compare-and-swap without a lock.
//!
//! Invariants
//! 1. The chain descends strictly by seqno, and no member has the first record's seqno: the order
//!    is by seqno, not by arrival (Rule: I2), and inserting a version twice changes nothing
//!    (Rule: I3).
//! 2. Links only ever change from one member to a new one in front of it. Nothing is unlinked.
//!
//! Threads: all.

use super::arena::{Arena, At, Record, RecordHead};
use crate::{Seqno, message::Message};

/// Adds a version, written by `write`, to the chain of a key's first record. Returns by how much
/// that changes the number of keys whose newest version is a value; `None` if one of this seqno is
/// there.
pub(super) fn place(
    arena: &Arena,
    first: At<RecordHead>,
    (seqno, is_value): (Seqno, bool),
    write: impl FnOnce() -> At<RecordHead>,
) -> Option<isize> {
    let first = arena.record(first);
    if first.seqno() == seqno {
        return None;
    }
    let mut is_newest = first.seqno() < seqno;
    let mut write = Some(write);
    let mut written = None;
    let mut newer = first;
    loop {
        let next = newer.link().load();
        if let Some(at) = next {
            let record = arena.record(at);
            if record.seqno() == seqno {
                return None;
            }
            if record.seqno() > seqno && !plant!("memtable: newest version by arrival") {
                (newer, is_newest) = (record, false);
                continue;
            }
        }
        if let Some(write) = write.take() {
            written = Some(write());
        }
        let Some(new) = written else { unreachable!("written once, above") };
        arena.record(new).link().store(next);
        // Invariant 2 lets a failed swap continue from the same link: only newer members, or this
        // seqno itself, can have been added in between.
        if newer.link().replace(next, new).is_ok() {
            if !is_newest {
                return Some(0);
            }
            // The swap was at the start of the chain, so this was the newest version until now.
            let next = next.map(|at| arena.record(at));
            let before = next.filter(|next| next.seqno() > first.seqno()).unwrap_or(first);
            return Some(isize::from(is_value) - isize::from(before.is_value()));
        }
    }
}

/// The versions of a key up to a seqno, newest first.
#[derive(Clone, Copy)]
pub(super) struct Versions<'a> {
    arena: &'a Arena,
    first: Option<Record<'a>>,
    chain: Option<Record<'a>>,
    at: Seqno,
}

impl<'a> Versions<'a> {
    #[inline]
    pub(super) fn new(arena: &'a Arena, first: Record<'a>, at: Seqno) -> Self {
        let chain = first.link().load().map(|at| arena.record(at));
        Self { arena, first: Some(first), chain, at }
    }

    #[inline]
    fn pop(&mut self) -> Option<Record<'a>> {
        match (self.first, self.chain) {
            (Some(first), chain) if chain.is_none_or(|record| record.seqno() < first.seqno()) => {
                self.first.take()
            }
            (_, Some(record)) => {
                self.chain = record.link().load().map(|at| self.arena.record(at));
                Some(record)
            }
            (_, None) => None,
        }
    }
}

impl<'a> Iterator for Versions<'a> {
    type Item = (Seqno, Message<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.pop()?;
            if record.seqno() <= self.at {
                return Some((record.seqno(), record.message()));
            }
        }
    }
}
