//! Accounting for uncommitted writes, whose memory is taken from cached blocks (Promise: P15).
//!
//! Invariants
//! 1. A reservation is released when its owner is dropped.
//! 2. Small transactions are not counted: each step writes a cache line that all threads share.
//! 3. When the total exceeds its limit, each counted transaction has an equal share, and what it
//!    has beyond that is spilled at its next write. So hundreds of sessions with open transactions
//!    take no more than a few large ones. Prepared transactions have no share, because they cannot
//!    spill.
//!
//! Threads: each reservation belongs to one transaction; all threads read the total.

use std::time::Duration;

use crate::sync::{Arc, AtomicU64, Ordering};

/// Writes up to this length are not counted, and a transaction is recounted after growing by this
/// much.
const STEP: u64 = 64 << 10;

/// Minimum time between two trims, in which the end of a large transaction makes the allocator
/// return memory.
const TRIMMED_EVERY: Duration = Duration::from_secs(10);

/// Memory of all uncommitted writes, bytes.
#[derive(Clone, Debug, Default)]
pub struct WritesMemory(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    bytes: AtomicU64,
    /// The part of `bytes` that belongs to prepared transactions.
    pinned: AtomicU64,
    /// Transactions that are counted and not prepared.
    writers: AtomicU64,
    /// Earliest time of the next trim, milliseconds of the clock.
    trims_at: AtomicU64,
}

impl WritesMemory {
    /// Approximate total, bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// The share of one transaction if the total is to stay within `max` bytes; unlimited while it
    /// does.
    #[inline]
    pub fn share_of(&self, max: u64) -> u64 {
        let pinned = self.0.pinned.load(Ordering::Relaxed);
        if self.bytes().saturating_sub(pinned) <= max {
            return u64::MAX;
        }
        let writers = self.0.writers.load(Ordering::Relaxed).max(1);
        (max / writers).max(STEP)
    }

    /// Whether the last trim is long enough ago; if so, records this one. A trim may stop all
    /// threads of the process for some milliseconds, so sessions that run one large transaction
    /// after the other must not cause many.
    pub fn is_trim_due(&self, now: Duration) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now, next) = (millis(now), millis(now + TRIMMED_EVERY));
        let trims_at = &self.0.trims_at;
        let last = trims_at.load(Ordering::Relaxed);
        now >= last
            && trims_at.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The part of [`WritesMemory`] that belongs to one transaction.
#[derive(Debug, Default)]
pub struct MemoryReservation {
    all: Option<WritesMemory>,
    bytes: u64,
    is_pinned: bool,
    /// Length of its writes when it was last counted.
    counted_at: u64,
}

impl MemoryReservation {
    /// The memory with which it is counted.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Recounts the transaction if its writes, measured as a batch, have grown by [`STEP`] or more.
    /// Writes that were spilled will be followed by as many, in the same memory.
    #[inline]
    pub fn grow(&mut self, all: &WritesMemory, writes_bytes: u64, memory: impl FnOnce() -> u64) {
        if writes_bytes.saturating_sub(self.counted_at) >= STEP {
            self.counted_at = writes_bytes;
            self.set(all, memory());
        }
    }

    /// Sets the memory with which the transaction is counted.
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

    /// Marks the reservation as that of a prepared transaction: it stays as it is until it is
    /// cleared.
    pub fn pin(&mut self) {
        if let Some(all) = self.all.as_ref().filter(|_| !self.is_pinned) {
            all.0.pinned.fetch_add(self.bytes, Ordering::Relaxed);
            all.0.writers.fetch_sub(1, Ordering::Relaxed);
            self.is_pinned = true;
        }
    }

    /// Releases the reservation; returns what it was.
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

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_is_released() {
        let all = WritesMemory::default();
        let (mut one, mut other) = (MemoryReservation::default(), MemoryReservation::default());
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
    fn equal_shares_apply_only_when_memory_is_over_budget() {
        let (all, max) = (WritesMemory::default(), 4 << 20);
        assert_eq!(all.share_of(max), u64::MAX);
        let mut charges: Vec<MemoryReservation> =
            (0..8).map(|_| MemoryReservation::default()).collect();
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
    fn trims_are_rate_limited() {
        let all = WritesMemory::default();
        let due = [0, 1, 9, 10, 19, 21].map(|at| all.is_trim_due(Duration::from_secs(at)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
