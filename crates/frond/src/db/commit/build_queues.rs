//! Queue entries for index builds: the keys of rows that a batch changes (`db/load/build/`).
//!
//! The keys are put into the batch itself before it is sealed. A build may start, or switch to
//! another queue, after that and before the batch is in a state where the build would wait for it
//! (past the gate, or in the list of writers). Then the batch starts over.
//!
//! Threads: as commits. Cost without a build: two atomic loads (`mod.rs`). While any tree has a
//! build: two look-ups for each tree of a batch, and a batch with rows of the tree being indexed is
//! sorted twice.

use crate::{
    Result, Seqno, TreeId,
    catalog::ChangeQueue,
    db::{Batch, Shared},
    message::Tag,
    sync::{Arc, Ordering},
    txn::WriteSet,
};

impl Shared {
    /// Calls `attempt` with the batch and the queues that its changed keys were put into. If
    /// `attempt` returns `None`, because an index build has started or switched to another queue
    /// meanwhile, queues the keys again and retries.
    pub(super) fn with_build_queues(
        &self,
        batch: &mut Batch,
        attempt: impl Fn(&mut Batch, &[TreeId]) -> Result<Option<Seqno>>,
    ) -> Result<Seqno> {
        loop {
            let queues = self.queue_changes(&mut batch.writes)?;
            let done = attempt(batch, &queues);
            if let Ok(Some(seqno)) = done {
                return Ok(seqno);
            }
            batch.writes.forget(&queues);
            done?;
        }
    }

    /// Adds the changed keys of trees that have a queue; returns the queues.
    fn queue_changes(&self, writes: &mut WriteSet) -> Result<Vec<TreeId>> {
        let mut queues = Vec::new();
        match self.put_changes(writes, &mut queues) {
            Ok(()) => Ok(queues),
            Err(error) => {
                writes.forget(&queues);
                Err(error)
            }
        }
    }

    fn put_changes(&self, writes: &mut WriteSet, queues: &mut Vec<TreeId>) -> Result<()> {
        for tree in writes.trees() {
            let Some(queue) = self.queue_of(tree) else { continue };
            self.seal_writes(writes)?;
            let mut keys: Vec<_> = writes.entries(tree).map(|entry| entry.key.to_vec()).collect();
            if let Some((from, _)) = writes.ranges(tree).next() {
                queue.has_missed.store(true, Ordering::Release);
                // So that the batch has an entry for this queue.
                if writes.entries(tree).all(|entry| entry.key != from) {
                    keys.push(from.to_vec());
                }
            }
            queues.push(queue.tree);
            for key in keys {
                writes.check_room(key.len())?;
                writes.push(queue.tree, &key, Tag::PUT, &[], false);
            }
        }
        Ok(())
    }

    /// True if a tree now has a queue for which a sealed batch of these trees has no entry, or if
    /// one of the `queues` that it has entries for is not its tree's any more.
    pub(super) fn lacks_queue(&self, trees: &[TreeId], queues: &[TreeId]) -> bool {
        let now: Vec<TreeId> =
            trees.iter().filter_map(|&tree| Some(self.queue_of(tree)?.tree)).collect();
        now.iter().any(|queue| !trees.contains(queue))
            || queues.iter().any(|queue| !now.contains(queue))
    }

    fn queue_of(&self, tree: TreeId) -> Option<Arc<ChangeQueue>> {
        // Tree 0 is not in the catalog.
        self.catalog.by_id(tree)?.queue.get()
    }
}
