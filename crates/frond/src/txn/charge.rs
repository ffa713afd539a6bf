//! What is written and not committed takes memory that blocks would have (Promise: P15).
//!
//! Invariants
//! 1. A charge is given back when whoever has it is gone.
//! 2. Small transactions are not counted: each step is a line of memory that all threads write.
//! 3. Where all together take more than they may, each that is counted has an equal share, and what is beyond it leaves
//!    memory at the next write. So hundreds of sessions with open transactions take no more than some with large ones. What is
//!    prepared has no part in that: it cannot give anything back.
//!
//! Threads: each charge is one transaction's; their sum is read by all.

use std::time::Duration;

use crate::sync::{Arc, AtomicU64, Ordering};

/// Writes that are not counted, and by how much they may grow before they are counted anew.
const STEP: u64 = 64 << 10;

/// Between two ends of transactions beyond memory that give back what the allocator has of them.
const TRIMMED_EVERY: Duration = Duration::from_secs(10);

/// Memory of all that is written and not committed, bytes.
#[derive(Clone, Debug, Default)]
pub struct WritesMemory(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    bytes: AtomicU64,
    /// Of it, what is prepared.
    pinned: AtomicU64,
    /// Transactions that are counted and not prepared.
    writers: AtomicU64,
    /// When a trim may come next, milliseconds of the clock.
    trims_at: AtomicU64,
}

impl WritesMemory {
    /// About so much, all together.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// What one of them may have, if all together should stay within `max` bytes: no bound while they do.
    #[inline]
    pub fn share_of(&self, max: u64) -> u64 {
        let pinned = self.0.pinned.load(Ordering::Relaxed);
        if self.bytes().saturating_sub(pinned) <= max {
            return u64::MAX;
        }
        let writers = self.0.writers.load(Ordering::Relaxed).max(1);
        (max / writers).max(STEP)
    }

    /// Whether the last trim is long ago; then this one counts. It may keep all threads of the process waiting for some
    /// milliseconds, which sessions with one transaction beyond memory after the other should not do to others.
    pub fn is_trim_due(&self, now: Duration) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now, next) = (millis(now), millis(now + TRIMMED_EVERY));
        let trims_at = &self.0.trims_at;
        let last = trims_at.load(Ordering::Relaxed);
        now >= last
            && trims_at.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// One transaction's part of it.
#[derive(Debug, Default)]
pub struct Charge {
    all: Option<WritesMemory>,
    bytes: u64,
    is_pinned: bool,
    /// What its writes came to when it was counted last.
    counted_at: u64,
}

impl Charge {
    /// What it was counted with.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts it anew if its writes, as a batch, have grown by a good piece. What has left memory will be as much again, in the
    /// same memory.
    #[inline]
    pub fn grow(&mut self, all: &WritesMemory, writes_bytes: u64, memory: impl FnOnce() -> u64) {
        if writes_bytes.saturating_sub(self.counted_at) >= STEP {
            self.counted_at = writes_bytes;
            self.set(all, memory());
        }
    }

    /// It takes so much.
    #[cold]
    pub fn set(&mut self, all: &WritesMemory, bytes: u64) {
        let all = self.all.get_or_insert_with(|| {
            all.0.writers.fetch_add(1, Ordering::Relaxed);
            all.clone()
        });
        all.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        all.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// It stays as it is until it is cleared: it is prepared.
    pub fn pin(&mut self) {
        if let Some(all) = self.all.as_ref().filter(|_| !self.is_pinned) {
            all.0.pinned.fetch_add(self.bytes, Ordering::Relaxed);
            all.0.writers.fetch_sub(1, Ordering::Relaxed);
            self.is_pinned = true;
        }
    }

    /// It takes nothing any more. Says what it took.
    pub fn clear(&mut self) -> u64 {
        let took = self.bytes;
        if let Some(all) = self.all.take() {
            all.0.bytes.fetch_sub(took, Ordering::Relaxed);
            match self.is_pinned {
                true => all.0.pinned.fetch_sub(took, Ordering::Relaxed),
                false => all.0.writers.fetch_sub(1, Ordering::Relaxed),
            };
        }
        (self.bytes, self.counted_at, self.is_pinned) = (0, 0, false);
        took
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_given_back() {
        let all = WritesMemory::default();
        let (mut one, mut other) = (Charge::default(), Charge::default());
        one.grow(&all, STEP - 1, || unreachable!("small ones are not counted"));
        one.grow(&all, STEP, || 700);
        one.grow(&all, STEP + 9, || unreachable!("it has hardly grown"));
        other.set(&all, 50);
        assert_eq!(all.bytes(), 750);
        one.grow(&all, 2 * STEP, || 900);
        assert_eq!(all.bytes(), 950);
        assert_eq!(one.clear(), 900);
        one.grow(&all, STEP, || 20);
        assert_eq!(all.bytes(), 70);
        drop((one, other));
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn shares_are_equal_and_bind_only_where_all_take_too_much() {
        let (all, max) = (WritesMemory::default(), 4 << 20);
        assert_eq!(all.share_of(max), u64::MAX);
        let mut charges: Vec<Charge> = (0..8).map(|_| Charge::default()).collect();
        charges.iter_mut().for_each(|charge| charge.set(&all, max / 8));
        assert_eq!(all.share_of(max), u64::MAX);
        charges[0].set(&all, max / 8 + 1);
        assert_eq!(all.share_of(max), max / 8);
        charges.truncate(2);
        assert_eq!(all.share_of(max), u64::MAX);
        charges[1].set(&all, max);
        assert_eq!(all.share_of(max), max / 2);
        assert_eq!(all.share_of(STEP), STEP, "what is smaller is not counted");
        charges[1].pin();
        charges[1].pin();
        assert_eq!((all.share_of(max), all.bytes()), (u64::MAX, max + max / 8 + 1));
        charges[0].set(&all, 2 * max);
        assert_eq!(all.share_of(max), max, "what is prepared has no part in it");
        charges.clear();
        let sums = [&all.0.bytes, &all.0.pinned, &all.0.writers];
        assert_eq!(sums.map(|sum| sum.load(Ordering::Relaxed)), [0; 3]);
    }

    #[test]
    fn trims_are_seldom() {
        let all = WritesMemory::default();
        let due = [0, 1, 9, 10, 19, 21].map(|at| all.is_trim_due(Duration::from_secs(at)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
