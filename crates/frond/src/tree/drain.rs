//! Draining: idle compaction that empties buffers towards the leaves while the machine has nothing
//! else to do.
//!
//! A drain does one bounded piece of work, about one node's leaves, and returns; the next call
//! continues. Reads of a drained tree meet one run. Entries that cannot be moved because of damage
//! stay where they are (`damage.rs`). A node below which a drain deletes everything yields no piece
//! (`piece.rs`), and neither does a parent that had no other child.

use crate::{
    error::Result,
    sync::{Arc, Ordering},
};

use super::{
    apply::{Job, TreeRoot},
    damage::PageRef,
    node::{Child, NodeRef, Root},
    piece::Pieces,
};

impl Job<'_> {
    /// Moves some of what waits in buffers down; `None` if nothing waits anywhere. Expects a job
    /// with a leaf fill of 0, so that leaves take whatever waits for them.
    pub fn drain(&mut self, old: &TreeRoot) -> Result<Option<TreeRoot>> {
        let Root::Node(node) = &old.root else { return Ok(None) };
        let before = self.effects.sums;
        let Some(pieces) = self.drain_node(node)? else { return Ok(None) };
        self.cx.counters.drains.fetch_add(1, Ordering::Relaxed);
        let mut root = TreeRoot { root: self.root_of(pieces), ..old.clone() };
        root.count_sums(old, self.effects.sums.minus(before));
        Ok(Some(root))
    }

    fn drain_node(&mut self, node: &Arc<NodeRef>) -> Result<Option<Pieces>> {
        if node.is_marked() {
            return Ok(None);
        }
        let page = [PageRef::Node(node.clone())];
        let Some(content) =
            self.contained(&page, (None, None), |job| node.load(job.cx).cloned())?
        else {
            return Ok(None);
        };
        if !content.tiers.is_empty()
            && let Some(pieces) = self.drain_buffer(node)?
        {
            return Ok(Some(pieces));
        }
        for (c, child) in content.children.iter().enumerate() {
            let Child::Node(child) = child else { return Ok(None) };
            // What waits for this child could not be handed down, and must not become live for one
            // of the pieces that would replace the child.
            if content.pending_bytes(c) > 0
                && !plant!("tree: a drain passes what is stuck above it")
            {
                continue;
            }
            if let Some(pieces) = self.within(&content, c, |job| job.drain_node(child))? {
                let mut changed = self.reopen(node)?;
                self.replace_node(&mut changed, c, pieces);
                if changed.children.is_empty()
                    && plant!("tree: a drain keeps a node whose only child has gone")
                {
                    return Ok(Some(Pieces::planted(changed)));
                }
                return Ok(Some(self.split(changed)));
            }
        }
        Ok(None)
    }

    /// Moves some of what waits in a node; `None` if nothing can be moved.
    fn drain_buffer(&mut self, node: &Arc<NodeRef>) -> Result<Option<Pieces>> {
        let before = self.effects.mark();
        let mut changed = self.reopen(node)?;
        let waiting: u64 = changed.pending_by_child().iter().sum();
        if changed.level == 1 {
            let pieces = self.settle(changed)?;
            let left = pieces.nodes().flat_map(|node| node.pending_by_child()).sum::<u64>();
            if left < waiting {
                return Ok(Some(pieces));
            }
        } else {
            loop {
                let pending = self.movable_by_child(&changed);
                let fullest = pending.iter().enumerate().max_by_key(|&(_, &bytes)| bytes);
                let Some((c, 1..)) = fullest else { break };
                if self.push_child(&mut changed, c)? {
                    changed.drop_consumed();
                    if changed.children.is_empty()
                        && plant!("tree: a drain keeps a node that has handed all down")
                    {
                        return Ok(Some(Pieces::planted(changed)));
                    }
                    return Ok(Some(self.split(changed)));
                }
            }
        }
        self.effects.rewind(before);
        Ok(None)
    }
}
