//! The descriptors of runs, and which runs stay open.
//!
//! An open run keeps its tail in memory: block index and, in unique trees and buffers, its filter. That is a
//! percent or less of its blocks, which in a store of a thousand times its memory is more than there is. So
//! tails are closed again like pages: a hand goes round the descriptors, and what was not used since it came
//! by last is closed (the clock algorithm, F. Corbató 1968). Who holds the run goes on with it.
//!
//! Invariants
//! 1. One extent has one descriptor while anybody holds it (Rule: I31).
//! 2. Only runs with an address are closed: they can be read again.
//!
//! Threads: all. The table is consulted when a node page is decoded, a run is written, or one is opened while
//! tails take too much, never else on a descent. Two who move the hand at once pass the same runs: each is closed
//! by one of them.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use crate::{
    page::Link,
    sync::{Arc, AtomicU64, Mutex, Ordering, Weak},
};

use super::{TreeContext, meta::RunMeta, node::RunHandle};

/// Descriptors that the hand passes at once: some microseconds, during which nobody can add one.
const PASSED_AT_ONCE: usize = 512;

/// Descriptors of runs on disk, by their offset.
#[derive(Debug)]
pub(crate) struct Descriptors {
    runs: Mutex<BTreeMap<u64, Weak<RunHandle>>>,
    /// Where the hand stands: the offset that it passed last.
    hand: AtomicU64,
    /// What tails may take, bytes.
    limit: AtomicU64,
    /// Tails closed so far.
    pub closed: AtomicU64,
}

impl Default for Descriptors {
    fn default() -> Self {
        let (runs, hand, closed) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { runs, hand, limit: AtomicU64::new(u64::MAX), closed }
    }
}

impl Descriptors {
    /// About how many bytes of memory they take: each with its place in the map, and what the allocator adds.
    pub fn memory_bytes(&self) -> u64 {
        let each = size_of::<RunHandle>()
            + 2 * size_of::<usize>()
            + 2 * size_of::<(u64, Weak<RunHandle>)>();
        (self.runs.lock().unwrap().len() * each) as u64
    }
}

impl TreeContext {
    /// The one descriptor of a run extent.
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

    /// Remembers the descriptor of a run that has just been written.
    pub fn remember(&self, handle: &Arc<RunHandle>) {
        if let Some(link) = handle.link() {
            let mut runs = self.descriptors.runs.lock().unwrap();
            runs.insert(link.offset, Arc::downgrade(handle));
            prune(&mut runs);
        }
    }

    /// Sets what tails may take, and closes some of those that take more.
    pub fn limit_tails(&self, limit: u64) {
        self.descriptors.limit.store(limit, Ordering::Relaxed);
        self.close_tails(limit);
    }

    /// Somebody opened a run. Whoever opens them faster than they are closed in the background closes some himself:
    /// he has just read from the disk, beside which it is little.
    pub fn opened_tail(&self) {
        let limit = self.descriptors.limit.load(Ordering::Relaxed);
        if self.resident.load(Ordering::Relaxed) > limit.saturating_add(limit / 8) {
            self.close_tails(limit);
        }
    }

    /// Moves the hand on until tails take no more than `limit` bytes, at most past [`PASSED_AT_ONCE`]
    /// descriptors: who was used is passed by once.
    fn close_tails(&self, limit: u64) {
        if self.resident.load(Ordering::Relaxed) <= limit {
            return;
        }
        let descriptors = &self.descriptors;
        let hand = descriptors.hand.load(Ordering::Relaxed);
        let passed: Vec<(u64, Option<Arc<RunHandle>>)> = {
            let runs = descriptors.runs.lock().unwrap();
            let behind = runs.range((Excluded(hand), Unbounded)).take(PASSED_AT_ONCE);
            behind.map(|(&offset, weak)| (offset, weak.upgrade())).collect()
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

/// Forgets descriptors that nobody holds, now and then.
fn prune(runs: &mut BTreeMap<u64, Weak<RunHandle>>) {
    if runs.len() > 64 && runs.len().is_power_of_two() {
        runs.retain(|_, weak| weak.strong_count() > 0);
    }
}
