//! Batches put in front of a root for readers of a snapshot only (Rule: I28): one node above the
//! root that a version links, with the batches as tiers of its buffer. Nothing is rebalanced, and
//! no version links the node.
//!
//! Threads: one makes it; the roots it returns are read by all.

use crate::{
    error::Result,
    sync::{Arc, OnceLock},
    types::{Lineage, VersionNumber},
};

use super::{
    apply::{Batch, Job, TreeRoot},
    node::{Child, NodeRef, Root, RunHandle},
    piece::Piece,
};

/// The node being made.
pub(crate) struct Front {
    top: Piece,
    base: TreeRoot,
    lineage: Lineage,
    birth: VersionNumber,
}

impl Front {
    /// Creates the node above `base`, with nothing in front of it yet.
    pub fn of(base: &TreeRoot, lineage: Lineage, birth: VersionNumber) -> Self {
        let child = match &base.root {
            Root::Empty => Child::Leaf(RunHandle::placeholder(lineage, birth)),
            Root::Leaf(leaf) => Child::Leaf(leaf.clone()),
            Root::Node(node) => Child::Node(node.clone()),
        };
        let top = Piece::above(child);
        Self { top, base: base.clone(), lineage, birth }
    }

    /// Returns the current root; later batches do not change it. Its maximum is that of the base:
    /// nothing is ever applied to it.
    pub fn root(&self) -> TreeRoot {
        if self.top.tiers.is_empty() {
            return self.base.clone();
        }
        let node = NodeRef::new(self.top.clone(), self.lineage, self.birth);
        TreeRoot { root: Root::Node(node), sums: OnceLock::new(), ..self.base.clone() }
    }
}

impl Job<'_> {
    /// Puts a batch, newer than all previous ones, in front. Returns its runs, which have no
    /// address yet. The job's effects on references must not be recorded.
    pub fn put_in_front(
        &mut self,
        front: &mut Front,
        batch: Batch<'_>,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let tier = self.build_tier(&front.top, batch)?;
        let runs = tier.slices.iter().map(|slice| slice.run.clone()).collect();
        front.top.put_in_front(tier);
        Ok(runs)
    }
}
