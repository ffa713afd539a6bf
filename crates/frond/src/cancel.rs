//! Cancellation of long operations and waits (Rule: I53).
//!
//! Invariants
//! 1. A sleeper that can be cancelled is woken by the cancellation. The sleeper is listed before it
//!    checks for a cancellation; the canceller sets its flag before it looks at the list. So at
//!    least one of the two sees the other.
//!
//! Threads: all. Rank: no other lock is taken while the list of sleepers is locked.

use std::fmt;

use crate::{
    Error, Result,
    sync::{Arc, AtomicUsize, Mutex, Ordering},
};

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
        // flag (invariant 1).
        if self.count.load(Ordering::SeqCst) == 0
            || plant!("locks: a cancelled sleeper is not woken")
        {
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
pub(crate) trait CancelSource: Send + Sync {
    /// True if the work should stop. The load must be ordered so that [`Sleepers`] may rely on it.
    fn is_interrupted(&self) -> bool;
    /// The sleepers to wake when the flag is set.
    fn sleepers(&self) -> &Sleepers;
}

/// A sleeper's place in the list of a cancellation source; dropping it removes the sleeper.
pub(crate) struct ListedSleeper {
    by: Arc<dyn CancelSource>,
    sleeper: Arc<dyn Sleeper>,
}

impl Drop for ListedSleeper {
    fn drop(&mut self) {
        self.by.sleepers().forget(&self.sleeper);
    }
}

/// A cancellation token, as a long operation carries it. The default is never cancelled.
#[derive(Clone, Default)]
pub(crate) struct CancelToken {
    by: Option<Arc<dyn CancelSource>>,
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("is_set", &self.by.is_some()).finish()
    }
}

impl CancelToken {
    /// Makes the work stop when `by` is interrupted.
    pub fn set(&mut self, by: impl CancelSource + 'static) {
        self.by = Some(Arc::new(by));
    }

    /// Returns `Interrupted` if the work was cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        match &self.by {
            Some(by) if by.is_interrupted() => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    /// Lists a thread that is about to sleep, so that a cancellation wakes it. The thread must
    /// check for a cancellation after this call.
    pub fn list_sleeper(&self, sleeper: &Arc<impl Sleeper + 'static>) -> Option<ListedSleeper> {
        let (by, sleeper): (_, Arc<dyn Sleeper>) = (self.by.clone()?, sleeper.clone());
        by.sleepers().list(sleeper.clone());
        Some(ListedSleeper { by, sleeper })
    }
}
