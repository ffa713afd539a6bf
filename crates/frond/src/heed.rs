//! What long work looks at from time to time: whether it is to go on (Rule: I53), and where it says how far it is.
//!
//! Invariants
//! 1. Numbers of a progress only grow.
//! 2. Who sleeps, and heeds something, is woken when that asks to stop: he is listed before he looks whether it does, and
//!    it says so before it looks who is listed.
//!
//! Threads: all; numbers that are read together need not be of one moment. Rank: the list of sleepers is locked below nothing.

use std::fmt;

use crate::{
    Error, Result,
    sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering},
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

/// One who sleeps.
pub(crate) trait Sleeper: Send + Sync {
    /// Has him look around.
    fn wake(&self);
}

/// Who sleeps, and is to be woken when something asks to stop.
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
    /// Wakes all of them: what asks to stop has said so before, by an atomic that is sequentially consistent.
    pub fn wake(&self) {
        // SeqCst, as in `list`: either he is seen here, or he sees what was said (invariant 2).
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

/// What can ask work to stop.
pub(crate) trait Stops: Send + Sync {
    /// Whether it does; read so that [`Sleepers`] may rely on it.
    fn is_interrupted(&self) -> bool;
    /// Who is to be woken when it begins to.
    fn sleepers(&self) -> &Sleepers;
}

/// One who is woken by what he heeds, until this is dropped.
pub(crate) struct Woken {
    by: Arc<dyn Stops>,
    sleeper: Arc<dyn Sleeper>,
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.by.sleepers().forget(&self.sleeper);
    }
}

/// What one piece of work looks at.
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
    /// From here on it is to stop when this asks for it.
    pub fn set(&mut self, by: impl Stops + 'static) {
        self.by = Some(Arc::new(by));
    }

    /// An error if it is to stop.
    pub fn must_go_on(&self) -> Result<()> {
        match &self.by {
            Some(by) if by.is_interrupted() => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    /// Has one woken who is about to sleep, and looks whether he is to go on after this.
    pub fn wakes(&self, sleeper: &Arc<impl Sleeper + 'static>) -> Option<Woken> {
        let (by, sleeper): (_, Arc<dyn Sleeper>) = (self.by.clone()?, sleeper.clone());
        by.sleepers().list(sleeper.clone());
        Some(Woken { by, sleeper })
    }
}
