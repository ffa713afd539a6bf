//! Where writers of a tree leave word of the rows that they change, while indexes of it are built.
//!
//! A build registers a *queue*, a side tree, and from then on whoever writes a row puts the row's key into it, in the same
//! commit. Writers know nothing of the indexes. The build turns them to another queue from time to time.
//!
//! Invariants
//! 1. A writer looks after it is where the build looks for writers (in the list of the tree's writers, or past the gate of
//!    batches), and the build sets the queue before it looks there: so each writer that the build does not find has found the
//!    queue.
//! 2. A call that writes to a queue holds it until its transaction has the intent on that tree: a queue that nobody holds, and
//!    whose tree is to be had alone, gets no more.
//!
//! Threads: all. Cost without a build: one load.

use crate::{
    TreeId,
    sync::{Arc, AtomicBool, Mutex, Ordering},
};

/// The queue of a tree, if it has one.
#[derive(Debug, Default)]
pub(crate) struct QueueSlot {
    is_set: AtomicBool,
    queue: Mutex<Option<Arc<ChangeQueue>>>,
}

/// Keys of rows that change.
#[derive(Debug)]
pub(crate) struct ChangeQueue {
    pub tree: TreeId,
    /// Rows went as a range, whose keys nobody has named.
    pub has_missed: AtomicBool,
}

impl QueueSlot {
    /// For a writer: invariant 1.
    #[inline]
    pub fn get(&self) -> Option<Arc<ChangeQueue>> {
        // SeqCst, as the counts of the gate and the fence of the list of writers: it has its place among them.
        if !self.is_set.load(Ordering::SeqCst) {
            return None;
        }
        self.queue.lock().unwrap().clone()
    }

    /// Writers turn to this one.
    pub fn set(&self, queue: Option<Arc<ChangeQueue>>) {
        let mut slot = self.queue.lock().unwrap();
        let is_set = queue.is_some();
        *slot = queue;
        self.is_set.store(is_set, Ordering::SeqCst);
    }
}
