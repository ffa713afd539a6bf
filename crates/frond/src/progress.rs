//! Progress of long operations: loads, index builds, checks (Rule: I53).
//!
//! Invariants
//! 1. The numbers of a [`Progress`] only grow.
//!
//! Threads: all. Numbers that are read together need not be from the same moment.

use crate::sync::{Arc, AtomicU64, Ordering};

/// How far a bulk load, an index build or a check is. It may be read from any thread while the work
/// goes on, is cheap to clone, and may outlive the work.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    rows: AtomicU64,
    sorted: AtomicU64,
    to_sort: AtomicU64,
    written: AtomicU64,
    rounds: AtomicU64,
    changes: AtomicU64,
    checked_bytes: AtomicU64,
    to_check_bytes: AtomicU64,
}

/// The numbers of a [`Progress`] at one moment. Nothing is counted twice unless a field says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ProgressSnapshot {
    /// Rows put into loads so far; for an index build, of all its indexes together.
    pub rows: u64,
    /// Rows that were sorted or merged on disk, counted once for each pass.
    pub sorted: u64,
    /// The final value of [`sorted`](Self::sorted), as far as it is known; set once the load starts
    /// to finish.
    pub to_sort: u64,
    /// Rows of [`rows`](Self::rows) that are in the new trees; set once the load starts to finish.
    /// Fewer than `rows` if keys were put more than once.
    pub written: u64,
    /// Completed rounds of an index build.
    pub rounds: u64,
    /// Rows that rounds have handed to the caller.
    pub changes: u64,
    /// Bytes of the file that a check has read.
    pub checked_bytes: u64,
    /// Bytes that the check will read in all, as far as it is known: older versions share most of
    /// their pages with the newest.
    pub to_check_bytes: u64,
}

impl Progress {
    /// The numbers now.
    pub fn now(&self) -> ProgressSnapshot {
        let Counts { rows, sorted, to_sort, written, rounds, changes, .. } = &*self.counts;
        let Counts { checked_bytes, to_check_bytes, .. } = &*self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProgressSnapshot {
            rows: read(rows),
            sorted: read(sorted),
            to_sort: read(to_sort).max(read(sorted)),
            written: read(written),
            rounds: read(rounds),
            changes: read(changes),
            checked_bytes: read(checked_bytes),
            to_check_bytes: read(to_check_bytes).max(read(checked_bytes)),
        }
    }

    pub(crate) fn note_rows(&self, rows: u64) {
        self.counts.rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn note_sorted(&self, rows: u64) {
        self.counts.sorted.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn note_to_sort(&self, rows: u64) {
        self.counts.to_sort.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn note_written(&self, rows: u64) {
        self.counts.written.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn note_round(&self) {
        self.counts.rounds.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_change(&self) {
        self.counts.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_checked(&self, bytes: u64) {
        self.counts.checked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_to_check(&self, bytes: u64) {
        self.counts.to_check_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
