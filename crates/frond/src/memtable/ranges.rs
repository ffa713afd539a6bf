//! Range deletes of one tree: (range, seqno) intervals, kept apart from the keys (Rule: I26).
//!
//! A range delete of seqno s hides every version below s of every key in [from, to). A version of
//! seqno s itself is the same commit's and stands: within a commit the last word per key was decided
//! before (Rule: I5).
//!
//! Invariants
//! 1. The list only grows, at its front. A range delete and seqno come once.
//!
//! Threads: all.

use super::arena::{Arena, AtomicAt, Record, RecordHead, Writer};
use crate::{Seqno, Tag};

/// A range delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeDelete<'a> {
    /// When.
    pub seqno: Seqno,
    /// First key deleted.
    pub from: &'a [u8],
    /// First key no longer deleted.
    pub to: &'a [u8],
}

/// Adds a range delete; false if it was there, or is of no key.
pub(super) fn add<'a>(
    list: &AtomicAt<RecordHead>,
    writer: &mut Writer<'a>,
    range: RangeDelete<'_>,
) -> bool {
    if range.from >= range.to {
        return false;
    }
    let arena = writer.arena();
    let mut written = None;
    loop {
        let front = list.load();
        if all(arena, list).any(|present| present == range) {
            return false;
        }
        let new = *written
            .get_or_insert_with(|| writer.record(range.seqno, Tag::DELETE, range.from, range.to));
        arena.record(new).link().store(front);
        if list.replace(front, new).is_ok() {
            return true;
        }
    }
}

/// All range deletes, latest arrival first.
pub(super) fn all<'a>(
    arena: &'a Arena,
    list: &AtomicAt<RecordHead>,
) -> impl Iterator<Item = RangeDelete<'a>> {
    let next = |at| arena.record(at);
    std::iter::successors(list.load().map(next), move |record: &Record<'a>| {
        record.link().load().map(next)
    })
    .map(|record| RangeDelete {
        seqno: record.seqno(),
        from: record.key(),
        to: record.payload(),
    })
}

/// The newest range delete up to `at` that covers a key.
#[inline]
pub(super) fn cover(
    arena: &Arena,
    list: &AtomicAt<RecordHead>,
    key: &[u8],
    at: Seqno,
) -> Option<Seqno> {
    all(arena, list)
        .filter(|range| range.seqno <= at && range.from <= key && key < range.to)
        .map(|range| range.seqno)
        .max()
}
