//! What long work looks at from time to time: whether it is to go on (Rule: I53), and where it says how far it is.
//!
//! Invariants
//! 1. Numbers of a progress only grow.
//!
//! Threads: all; numbers that are read together need not be of one moment.

use std::fmt;

use crate::{
    Error, Result,
    sync::{Arc, AtomicU64, Ordering},
};

/// How far a bulk load, a build of indexes or a check is, to be looked at from any thread while it goes on. Cheap to clone; may
/// outlive what it tells of.
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

/// What a [`Progress`] says at a moment. Nothing is counted twice but where it says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ProgressNow {
    /// Rows that were put into loads so far: of all indexes of a build together.
    pub rows: u64,
    /// Rows that went through a sort or a merge beyond memory, as often as they did.
    pub sorted: u64,
    /// So many of these are known to be done in all; from the begin of a load's end on.
    pub to_sort: u64,
    /// Rows that are in the new trees, of [`rows`](Self::rows), from the begin of a load's end on; fewer if keys came more than once.
    pub written: u64,
    /// Rounds of a build that have come to their end.
    pub rounds: u64,
    /// Rows that rounds have handed out.
    pub changes: u64,
    /// Bytes of the file that a check has read.
    pub checked_bytes: u64,
    /// Of so many in all, as far as it is known: older versions share most of theirs with the newest.
    pub to_check_bytes: u64,
}

impl Progress {
    /// What it says now.
    pub fn now(&self) -> ProgressNow {
        let Counts { rows, sorted, to_sort, written, rounds, changes, .. } = &*self.counts;
        let Counts { checked_bytes, to_check_bytes, .. } = &*self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProgressNow {
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

/// What one piece of work looks at.
#[derive(Clone, Default)]
pub(crate) struct Heed {
    pub progress: Progress,
    is_interrupted: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Heed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heed").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Heed {
    /// From here on it is to stop when `is_interrupted` says so.
    pub fn set(&mut self, is_interrupted: impl Fn() -> bool + Send + Sync + 'static) {
        self.is_interrupted = Some(Arc::new(is_interrupted));
    }

    /// An error if it is to stop.
    pub fn must_go_on(&self) -> Result<()> {
        match &self.is_interrupted {
            Some(is_interrupted) if is_interrupted() => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }
}
