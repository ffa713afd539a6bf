// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room on the disk that is admitted ahead of commits, a little for each few threads.
//!
//! Whether there is room for a commit is known under two locks of the store, which background work takes, too, and holds. So
//! that commits of some rows need neither, room for many of them is admitted at once, and each takes its part.
//!
//! Invariant: what lies here is counted as admitted (`reserve.rs`). Who needs to know how much is promised to commits, or finds
//! no room, takes it out.
//!
//! Threads: all. Cost of a part: one change of a line that few threads share.

use crate::sync::{AtomicU64, Ordering, thread_number};

/// What is admitted at once. A commit that needs a good part of it asks for itself.
pub(super) const CREDIT: u64 = 64 << 10;
const SMALL: u64 = CREDIT / 4;
const PURSES: usize = if cfg!(shuttle) { 2 } else { 16 };

/// One on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Purse(AtomicU64);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Credits([Purse; PURSES]);

impl Credits {
    /// True if a commit that needs so much is served from here.
    pub fn serves(needed: u64) -> bool {
        needed <= SMALL
    }

    /// Takes a part out; false if there is not so much.
    pub fn take(&self, needed: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(needed);
        self.own().fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Puts in what was admitted.
    pub fn put(&self, bytes: u64) {
        self.own().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes all out.
    pub fn drain(&self) -> u64 {
        self.0.iter().map(|purse| purse.0.swap(0, Ordering::Relaxed)).sum()
    }

    /// What lies here.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|purse| purse.0.load(Ordering::Relaxed)).sum()
    }

    fn own(&self) -> &AtomicU64 {
        &self.0[thread_number() % PURSES].0
    }
}
