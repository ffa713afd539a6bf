//! The run cache: one descriptor per run, and the choice of the runs that stay open.
//!
//! An open run keeps its footer in memory: the block index and, in unique trees and buffers, the
//! filter. Its size is a percent of that of the blocks or less; in a store a thousand times as
//! large as its memory, even that does not fit. So footers are evicted like pages: a clock hand
//! moves over the descriptors, and a run that was not used since the hand last passed is closed
//! (the clock algorithm, F. Corbató 1968). Readers that hold the run can continue to use it.
//!
//! Invariants
//! 1. One extent has one descriptor while anything holds it (Rule: I31).
//! 2. Only runs with an address are closed: they can be read again.
//!
//! Threads: all. The table is consulted when a node page is decoded, a run is written, or one is
//! opened while footers take too much memory, and never otherwise on a descent. Two threads that
//! move the hand concurrently pass the same runs: each run is closed by one of them.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use crate::{
    page::Link,
    sync::{Arc, AtomicU64, Mutex, Ordering, Weak},
};

use super::{TreeContext, meta::RunMeta, node::RunHandle};

/// Number of descriptors that the hand passes per hold of the lock: some microseconds, during which
/// none can be added.
const PASSED_AT_ONCE: usize = 512;

/// Descriptors of runs on disk, by their offset.
#[derive(Debug)]
pub(crate) struct Descriptors {
    runs: Mutex<BTreeMap<u64, Weak<RunHandle>>>,
    /// The position of the hand: the offset that it passed last.
    hand: AtomicU64,
    /// Bytes that footers may take.
    limit: AtomicU64,
    /// Number of footers evicted so far.
    pub closed: AtomicU64,
}

impl Default for Descriptors {
    fn default() -> Self {
        let (runs, hand, closed) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { runs, hand, limit: AtomicU64::new(u64::MAX), closed }
    }
}

impl Descriptors {
    /// Approximate bytes of memory that the descriptors take, including their map entries and the
    /// allocator's overhead.
    pub fn memory_bytes(&self) -> u64 {
        let each = size_of::<RunHandle>()
            + 2 * size_of::<usize>()
            + 2 * size_of::<(u64, Weak<RunHandle>)>();
        (self.runs.lock().unwrap().len() * each) as u64
    }
}

impl TreeContext {
    /// Returns the one descriptor of a run extent.
    pub fn run_handle(&self, link: Link, meta: RunMeta) -> Arc<RunHandle> {
        let mut runs = self.descriptors.runs.lock().unwrap();
        if let Some(handle) = runs.get(&link.offset).and_then(Weak::upgrade)
            && handle.birth == link.birth
            && handle.lineage == link.lineage
        {
            return handle;
        }
        let refs = self.store.run_refs(&link);
        let handle = RunHandle::on_disk(link, meta, refs);
        runs.insert(link.offset, Arc::downgrade(&handle));
        prune(&mut runs);
        handle
    }

    /// Adds the descriptor of a run that was just written.
    pub fn remember(&self, handle: &Arc<RunHandle>) {
        if let Some(link) = handle.link() {
            let mut runs = self.descriptors.runs.lock().unwrap();
            runs.insert(link.offset, Arc::downgrade(handle));
            prune(&mut runs);
        }
    }

    /// Sets how much memory footers may take, and closes runs if they take more.
    pub fn limit_footers(&self, limit: u64) {
        self.descriptors.limit.store(limit, Ordering::Relaxed);
        self.close_footers(limit);
    }

    /// Called after a run was opened. A thread that opens runs faster than the background closes
    /// them closes some itself. That costs little compared to the disk read that it has just done.
    pub fn opened_footer(&self) {
        let limit = self.descriptors.limit.load(Ordering::Relaxed);
        if self.resident.load(Ordering::Relaxed) > limit.saturating_add(limit / 8) {
            self.close_footers(limit);
        }
    }

    /// Moves the hand until footers take at most `limit` bytes, past at most [`PASSED_AT_ONCE`]
    /// descriptors: a run that was used is skipped once.
    fn close_footers(&self, limit: u64) {
        if self.resident.load(Ordering::Relaxed) <= limit {
            return;
        }
        let descriptors = &self.descriptors;
        let hand = descriptors.hand.load(Ordering::Relaxed);
        let passed: Vec<(u64, Option<Arc<RunHandle>>)> = {
            let runs = descriptors.runs.lock().unwrap();
            let next = runs.range((Excluded(hand), Unbounded)).take(PASSED_AT_ONCE);
            next.map(|(&offset, weak)| (offset, weak.upgrade())).collect()
        };
        let is_last = passed.len() < PASSED_AT_ONCE;
        for (offset, handle) in &passed {
            if self.resident.load(Ordering::Relaxed) <= limit {
                return;
            }
            descriptors.hand.store(*offset, Ordering::Relaxed);
            if handle.as_ref().is_some_and(|handle| handle.close_unused()) {
                descriptors.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if is_last {
            descriptors.hand.store(0, Ordering::Relaxed);
        }
    }
}

/// Removes descriptors that nothing holds, from time to time.
fn prune(runs: &mut BTreeMap<u64, Weak<RunHandle>>) {
    if runs.len() > 64 && runs.len().is_power_of_two() {
        runs.retain(|_, weak| weak.strong_count() > 0);
    }
}
