//! Queues in which writers of a tree record the rows that they change, while indexes of the tree
//! are built.
//!
//! A build registers a *queue*, a side tree. From then on every writer of a row puts the row's key
//! into it, in the same commit. Writers know nothing of the indexes. The build switches them to
//! another queue from time to time.
//!
//! Invariants
//! 1. A writer looks for the queue after the writer itself has become visible to the build (in the
//!    list of the tree's writers, or by passing the gate of batches), and the build sets the queue
//!    before it looks for writers there. So each writer that the build does not find has found the
//!    queue.
//! 2. A call that writes to a queue holds a reference to the queue until its transaction has the
//!    intent lock on the queue's tree. So a queue that no call refers to, and whose tree can be
//!    locked exclusively, gets no more entries.
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

/// A queue of the keys of changed rows.
#[derive(Debug)]
pub(crate) struct ChangeQueue {
    pub tree: TreeId,
    /// True if a range of rows was deleted, whose keys are therefore not in the queue.
    pub has_missed: AtomicBool,
}

impl QueueSlot {
    /// The current queue, for a writer (invariant 1).
    #[inline]
    pub fn get(&self) -> Option<Arc<ChangeQueue>> {
        // SeqCst, as the counters of the gate and the fence in the list of writers: it is part of
        // the same total order.
        if !self.is_set.load(Ordering::SeqCst) {
            return None;
        }
        self.queue.lock().unwrap().clone()
    }

    /// Switches writers to this queue.
    pub fn set(&self, queue: Option<Arc<ChangeQueue>>) {
        let mut slot = self.queue.lock().unwrap();
        let is_set = queue.is_some();
        *slot = queue;
        self.is_set.store(is_set, Ordering::SeqCst);
    }
}
