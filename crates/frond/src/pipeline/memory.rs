//! The memory budget: one limit for all memory of a store, of which the block cache gets what
//! everything else leaves.
//!
//! Memtables, unwritten runs, indexes and filters of open runs, log buffers, readahead, the working
//! memory of jobs and bulk loads, locks, uncommitted writes, and the metadata of trees, runs and
//! extents come first, because commits wait for them. The rest of the budget holds blocks. The
//! split is recomputed several times a second. Frames and blocks share the memory that the pool has
//! taken from the system. That may be the whole budget, except for what is in the general
//! allocator's memory.
//!
//! Invariant: the block cache and the open runs keep a sixteenth of the budget each, whatever
//! everything else takes, so that reads continue. The rest has limits of its own (`Limits`), which
//! sum up to less than that. Uncommitted writes have one limit for each transaction and one for all
//! together (`txn/memory_reservation.rs`).
//!
//! Threads: the log thread, or the caller of `step`.

use crate::sync::{Arc, AtomicU64, Ordering};

use super::Engine;

/// Working memory of a tree job: it reads its sources in pieces of 256 KiB and builds one run.
const JOB_BYTES: u64 = 2 << 20;

/// Memory of an extent: 64 bytes in a map that is two thirds full.
const EXTENT_BYTES: u64 = 96;

/// The memory limit of all transactions together, as a multiple of the limit of one transaction.
const LARGE_WRITERS: u64 = 4;

/// The bulk loads of a store: their shared memory budget, and counters.
#[derive(Debug)]
pub(crate) struct Loads {
    /// Maximum of all buffers together, bytes.
    limit: u64,
    pub active: AtomicU64,
    /// Memory in use, bytes.
    memory: AtomicU64,
    pub rows: AtomicU64,
    pub spilled_bytes: AtomicU64,
}

impl Loads {
    pub fn new(limit: u64) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let (active, memory, rows, spilled_bytes) = (zero(), zero(), zero(), zero());
        Arc::new(Self { limit, active, memory, rows, spilled_bytes })
    }

    /// Memory that loads currently use, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }
}

/// One load's share of the memory.
#[derive(Debug)]
pub(crate) struct LoadShare {
    pub loads: Arc<Loads>,
    charged: u64,
}

impl LoadShare {
    pub fn new(loads: &Arc<Loads>) -> Self {
        loads.active.fetch_add(1, Ordering::Relaxed);
        Self { loads: loads.clone(), charged: 0 }
    }

    /// Bytes that this load may use. The value falls when another load starts. A load that uses
    /// more than that gives the excess back with its next row.
    pub fn limit(&self) -> u64 {
        self.loads.limit / self.loads.active.load(Ordering::Relaxed).max(1)
    }

    pub fn charge(&mut self, bytes: u64) {
        self.loads.memory.fetch_add(bytes, Ordering::Relaxed);
        self.loads.memory.fetch_sub(self.charged, Ordering::Relaxed);
        self.charged = bytes;
    }
}

impl Drop for LoadShare {
    fn drop(&mut self) {
        self.charge(0);
        self.loads.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Bytes of uncommitted writes that one transaction may keep in memory while all transactions
    /// together exceed their limit; unbounded otherwise.
    #[inline]
    pub(crate) fn share_of_writes(&self) -> u64 {
        self.writes_memory.share_of(self.limits.own_writes_bytes.saturating_mul(LARGE_WRITERS))
    }

    /// Bytes of the metadata of trees, runs and extents, which exists whether anything reads them
    /// or not. In a store of a few large trees it is a thousandth of the blocks; with 100,000 trees
    /// of one row each it is more than the blocks.
    pub(crate) fn known_bytes(&self) -> u64 {
        self.trees.memory_bytes()
            + self.cx.descriptors.memory_bytes()
            + self.store.space().stats().extents * EXTENT_BYTES
    }

    /// Gives the block cache what the rest of the budget leaves.
    pub(crate) fn balance_memory(&self) {
        let memtables = self.versions.memtables_bytes();
        let busy = !self.versions.current().frozen.is_empty();
        let pinned = self.snapshots.pinned_memtable_bytes();
        let jobs = if busy { JOB_BYTES * (1 + self.pool.threads() as u64) } else { 0 };
        let in_frames = memtables + pinned + self.readers.held_bytes() + self.unwritten_bytes();
        // Memory that is not the pool's: the log has frames of its own, and long records of
        // memtables have none.
        let elsewhere = jobs
            + self.loads.memory_bytes()
            + self.lock_table.memory_bytes() as u64
            + self.writes_memory.bytes()
            + self.known_bytes()
            + self.log.as_ref().map_or(0, |log| log.buffer_bytes() as u64);
        let budget = self.cache_bytes - self.cache_bytes / 16;
        let left = budget.saturating_sub(elsewhere + in_frames);
        let elsewhere = elsewhere + in_frames.saturating_sub(self.cx.pool.frames_bytes() as u64);
        // Blocks that cannot be found without reading their run's footer are worth less than the
        // footer.
        let least = (self.cache_bytes / 16).min(self.limits.footers_bytes);
        self.cx.limit_footers((left / 4 * 3).clamp(least, self.limits.footers_bytes));
        let footers = self.cx.resident.load(Ordering::Relaxed);
        let kept = self.cx.pool.kept_bytes() as u64;
        let footers_elsewhere = footers.saturating_sub(kept);
        // Memory that exists in any case, and the minimum for blocks.
        let floor = self.cx.pool.frames_bytes() as u64 + kept + self.cache_bytes / 16;
        let mapped = budget.saturating_sub(elsewhere + footers_elsewhere).max(floor);
        self.cx.pool.set_mapped_limit(mapped as usize);
        let blocks = left.saturating_sub(footers).max(self.cache_bytes / 16);
        self.cx.cache.set_capacity(blocks as usize);
    }
}
