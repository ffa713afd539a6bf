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
//! Threads: the table is consulted when a node page is decoded or a run is written, never on a descent; the
//! hand belongs to whoever balances the memory.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use crate::{
    page::Link,
    sync::{Arc, AtomicU64, Mutex, Ordering, Weak},
};

use super::{
    TreeContext,
    node::{RunHandle, RunMeta},
};

/// Descriptors that the hand passes at once: some microseconds, during which nobody can add one.
const PASSED_AT_ONCE: usize = 512;

/// Descriptors of runs on disk, by their offset.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    runs: Mutex<BTreeMap<u64, Weak<RunHandle>>>,
    /// Where the hand stands.
    hand: AtomicU64,
    /// Tails closed so far.
    pub closed: AtomicU64,
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
        if runs.len() > 64 && runs.len().is_power_of_two() {
            runs.retain(|_, weak| weak.strong_count() > 0);
        }
        handle
    }

    /// Remembers the descriptor of a run that has just been written.
    pub fn remember(&self, handle: &Arc<RunHandle>) {
        if let Some(link) = handle.link() {
            self.descriptors.runs.lock().unwrap().insert(link.offset, Arc::downgrade(handle));
        }
    }

    /// Closes runs until their tails take no more than `limit` bytes, or the hand has gone round twice: once
    /// to see who is used, once to take who was not.
    pub fn close_tails(&self, limit: u64) {
        let descriptors = &self.descriptors;
        let mut rounds = 0;
        while self.resident.load(Ordering::Relaxed) > limit && rounds < 2 {
            let hand = descriptors.hand.load(Ordering::Relaxed);
            let passed: Vec<(u64, Option<Arc<RunHandle>>)> = {
                let runs = descriptors.runs.lock().unwrap();
                let behind = runs.range((Excluded(hand), Unbounded)).take(PASSED_AT_ONCE);
                behind.map(|(&offset, weak)| (offset, weak.upgrade())).collect()
            };
            let last = passed.last().map_or(0, |&(offset, _)| offset);
            descriptors.hand.store(last, Ordering::Relaxed);
            if passed.len() < PASSED_AT_ONCE {
                descriptors.hand.store(0, Ordering::Relaxed);
                rounds += 1;
            }
            for handle in passed.iter().filter_map(|(_, handle)| handle.as_ref()) {
                if self.resident.load(Ordering::Relaxed) <= limit {
                    break;
                }
                if handle.close_unused() {
                    descriptors.closed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
