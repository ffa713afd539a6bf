//! Admission credit: disk space admitted ahead of commits, in stripes shared by a few threads each.
//!
//! Checking the space for a commit takes two locks of the store, which background work also takes
//! and holds. So that small commits need neither, space for many of them is admitted at once, and
//! each takes its part from a stripe.
//!
//! Invariant: credit is counted as admitted (`reserve.rs`). Code that needs to know how much is
//! reserved for commits, or that finds no space, drains it.
//!
//! Threads: all. Cost of taking a part: one change of a cache line that few threads share.

use crate::{
    striped::Striped,
    sync::{AtomicU64, Ordering},
};

/// Bytes admitted at once. A commit that needs a good part of them is admitted by itself.
pub(super) const CREDIT: u64 = 64 << 10;
const SMALL: u64 = CREDIT / 4;
const STRIPES: usize = if cfg!(shuttle) { 2 } else { 16 };

/// All stripes of credit, in bytes.
#[derive(Debug, Default)]
pub(super) struct AdmissionCredit(Striped<AtomicU64, STRIPES>);

impl AdmissionCredit {
    /// True if a commit that needs this many bytes may use credit.
    pub fn serves(needed: u64) -> bool {
        needed <= SMALL
    }

    /// Takes credit from this thread's stripe; false if there is not enough.
    pub fn take(&self, needed: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(needed);
        self.0.mine().fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Adds unused admission credit to this thread's stripe.
    pub fn put(&self, bytes: u64) {
        self.0.mine().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Drains all credit and returns it.
    pub fn drain(&self) -> u64 {
        self.0.iter().map(|credit| credit.swap(0, Ordering::Relaxed)).sum()
    }

    /// Total credit.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|credit| credit.load(Ordering::Relaxed)).sum()
    }
}
