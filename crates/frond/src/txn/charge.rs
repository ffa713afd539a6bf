//! What is written and not committed takes memory that blocks would have (Promise: P15).
//!
//! Invariants
//! 1. A charge is given back when whoever has it is gone.
//! 2. Small transactions are not counted: each step is a line of memory that all threads write.
//!
//! Threads: each charge is one transaction's; their sum is read by all.

use crate::sync::{Arc, AtomicU64, Ordering};

/// Writes that are not counted, and by how much they may grow before they are counted anew.
const STEP: u64 = 256 << 10;

/// Memory of all that is written and not committed, bytes.
#[derive(Clone, Debug, Default)]
pub struct WritesMemory(Arc<AtomicU64>);

impl WritesMemory {
    /// About so much, all together.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One transaction's part of it.
#[derive(Debug, Default)]
pub struct Charge {
    all: Option<WritesMemory>,
    bytes: u64,
    /// What its writes came to when it was counted last.
    counted_at: u64,
}

impl Charge {
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
        let all = self.all.get_or_insert_with(|| all.clone());
        all.0.fetch_add(bytes, Ordering::Relaxed);
        all.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// It takes nothing any more. Says what it took.
    pub fn clear(&mut self) -> u64 {
        let took = self.bytes;
        if let Some(all) = self.all.take() {
            all.0.fetch_sub(took, Ordering::Relaxed);
        }
        (self.bytes, self.counted_at) = (0, 0);
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
}
