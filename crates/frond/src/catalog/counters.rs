//! Numbers that a tree hands out: hidden row ids, auto-increment (Rule: I35).
//!
//! Invariants
//! 1. A number is handed out once in the life of an opened store.
//! 2. Who commits to the tree logs how far its counters are, unless a record before says so: what a durable commit can have
//!    used is not handed out after a crash. A checkpoint writes how far they are with the tree's root.
//!
//! Threads: all, without a lock.

use std::ops::Range;

use crate::{
    sync::{AtomicU64, Ordering},
    types::{COUNTERS, Counts},
};

/// The counters of a tree.
#[derive(Debug, Default)]
pub struct Counters {
    next: [AtomicU64; COUNTERS],
    /// What a record of the log says already.
    logged: [AtomicU64; COUNTERS],
}

impl Counters {
    /// So many numbers, the first of them at least `least`; `None` if there are not so many left.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Option<Range<u64>> {
        let next = &self.next[counter];
        let mut first = 0;
        let reserved = next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| {
            first = next.max(least).max(1);
            first.checked_add(count)
        });
        reserved.ok().map(|_| first..first + count)
    }

    /// The number that comes next.
    pub fn next(&self, counter: usize) -> u64 {
        self.next[counter].load(Ordering::SeqCst).max(1)
    }

    /// How far they are.
    pub fn counts(&self) -> Counts {
        std::array::from_fn(|counter| self.next[counter].load(Ordering::SeqCst))
    }

    /// No number below these is handed out from now on.
    pub fn raise(&self, counts: Counts) {
        for (next, count) in self.next.iter().zip(counts) {
            next.fetch_max(count, Ordering::SeqCst);
        }
    }

    /// What the next record is to say: counter and number.
    pub fn unlogged(&self) -> impl Iterator<Item = (u8, u64)> {
        let numbered = (0u8..).zip(self.next.iter().zip(&self.logged));
        numbered.filter_map(|(counter, (next, logged))| {
            let next = next.load(Ordering::SeqCst);
            (next > logged.load(Ordering::SeqCst)).then_some((counter, next))
        })
    }

    /// A record that says so has its place in the log.
    pub fn are_logged(&self, counter: u8, next: u64) {
        if let Some(logged) = self.logged.get(usize::from(counter)) {
            logged.fetch_max(next, Ordering::SeqCst);
        }
    }
}
