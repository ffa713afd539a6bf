//! Cancellation and progress of long work: whether it should go on (Rule: I53), and how far it is.
//!
//! Invariants
//! 1. The numbers of a [`Progress`] only grow.
//! 2. A sleeper that can be cancelled is woken by the cancellation. The sleeper is listed before it
//!    checks for a cancellation; the canceller sets its flag before it looks at the list. So at
//!    least one of the two sees the other.
//!
//! Threads: all. Numbers that are read together need not be from the same moment. Rank: no other
//! lock is taken while the list of sleepers is locked.

use std::fmt;

use crate::{
    Error, Result,
    sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering},
};

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
pub struct ProgressNow {
    /// Rows put into loads so far; for an index build, of all its indexes together.
    pub rows: u64,
    /// Rows that went through a sort or a merge beyond memory, counted once for each pass.
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

/// A thread that sleeps and can be woken.
pub(crate) trait Sleeper: Send + Sync {
    /// Wakes the sleeper so that it rechecks its condition.
    fn wake(&self);
}

/// The sleepers to wake on cancellation.
#[derive(Default)]
pub(crate) struct Sleepers {
    count: AtomicUsize,
    listed: Mutex<Vec<Arc<dyn Sleeper>>>,
}

impl fmt::Debug for Sleepers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleepers").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Sleepers {
    /// Wakes all sleepers. The canceller has set its flag before, with a sequentially consistent
    /// store.
    pub fn wake(&self) {
        // SeqCst, paired with `list`: either this load sees the sleeper, or the sleeper sees the
        // flag (invariant 2).
        if self.count.load(Ordering::SeqCst) == 0 || plant!("locks: who heeds is not woken") {
            return;
        }
        let listed: Vec<_> = self.listed.lock().unwrap().clone();
        listed.iter().for_each(|sleeper| sleeper.wake());
    }

    fn list(&self, sleeper: Arc<dyn Sleeper>) {
        self.listed.lock().unwrap().push(sleeper);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn forget(&self, sleeper: &Arc<dyn Sleeper>) {
        let mut listed = self.listed.lock().unwrap();
        if let Some(at) = listed.iter().position(|other| Arc::ptr_eq(other, sleeper)) {
            drop(listed.swap_remove(at));
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A source of cancellation.
pub(crate) trait Stops: Send + Sync {
    /// True if the work should stop. The load must be ordered so that [`Sleepers`] may rely on it.
    fn is_interrupted(&self) -> bool;
    /// The sleepers to wake when the flag is set.
    fn sleepers(&self) -> &Sleepers;
}

/// A sleeper's place in the list of a cancellation source; dropping it removes the sleeper.
pub(crate) struct Woken {
    by: Arc<dyn Stops>,
    sleeper: Arc<dyn Sleeper>,
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.by.sleepers().forget(&self.sleeper);
    }
}

/// A cancellation token and a progress report, as one piece of work carries them.
#[derive(Clone, Default)]
pub(crate) struct Heed {
    pub progress: Progress,
    by: Option<Arc<dyn Stops>>,
}

impl fmt::Debug for Heed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heed").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Heed {
    /// Makes the work stop when `by` is interrupted.
    pub fn set(&mut self, by: impl Stops + 'static) {
        self.by = Some(Arc::new(by));
    }

    /// Returns `Interrupted` if the work was cancelled.
    pub fn must_go_on(&self) -> Result<()> {
        match &self.by {
            Some(by) if by.is_interrupted() => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    /// Lists a thread that is about to sleep, so that a cancellation wakes it. The thread must
    /// check for a cancellation after this call.
    pub fn wakes(&self, sleeper: &Arc<impl Sleeper + 'static>) -> Option<Woken> {
        let (by, sleeper): (_, Arc<dyn Sleeper>) = (self.by.clone()?, sleeper.clone());
        by.sleepers().list(sleeper.clone());
        Some(Woken { by, sleeper })
    }
}
