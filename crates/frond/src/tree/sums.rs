//! Sums over a tree: rows, bytes before and after encoding, bytes that wait in buffers.
//!
//! Usually the sums are known without reading anything. A node stores for each of its leaves what
//! the sums need, so the change that a job makes is the sum over the nodes that it seals minus the
//! sum over those that it replaces, and a root's sums are those of the previous root plus this
//! difference. A checkpoint stores them with the root. They are unknown only for a tree that was
//! written by an earlier version of Frond: then the first call that asks reads all of its nodes,
//! once.
//!
//! Invariants
//! 1. Known sums are those that a walk over all nodes would find.
//! 2. A leaf, or a run, that several nodes or trees link counts for each of them.
//!
//! Threads: all. Cost: for a job, some additions for each child and slice of the nodes that it
//! changes.

use crate::{error::Result, sync::OnceLock, types::Sums};

use super::{
    TreeContext,
    apply::TreeRoot,
    meta::Measured,
    node::{Child, Node, NodeRef, Root, RunHandle, Tier},
};

impl RunHandle {
    /// The sums of this run as a leaf.
    pub fn sums(&self) -> Sums {
        if self.is_placeholder() {
            return Sums::default();
        }
        let measured = self.meta.measured.unwrap_or_default();
        Sums {
            leaves: 1,
            rows: self.meta.entries,
            encoded: self.meta.bytes,
            extents: self.extent_bytes.into(),
            raw: measured.raw_bytes,
            unmeasured: if self.meta.measured.is_none() { self.meta.bytes } else { 0 },
            blobs: measured.blob_bytes,
            waiting: 0,
        }
    }
}

impl Measured {
    /// The metadata of the only leaf of a tree with these sums.
    pub fn of_root(sums: Sums) -> Option<Self> {
        let Sums { raw, blobs, unmeasured, .. } = sums;
        (unmeasured == 0).then_some(Self { raw_bytes: raw, blob_bytes: blobs })
    }
}

impl Node {
    /// The node's own sums: its leaves, and what waits in it; not what other nodes below it hold.
    pub fn sums(&self) -> Sums {
        let leaves = self.children.iter().filter_map(|child| match child {
            Child::Leaf(leaf) => Some(leaf.sums()),
            Child::Node(_) => None,
        });
        let sums = leaves.fold(Sums::default(), Sums::plus);
        Sums { waiting: self.tiers.iter().map(Tier::live_bytes).sum(), ..sums }
    }
}

impl TreeRoot {
    /// The tree's sums, if they are known. Reads nothing.
    pub fn known_sums(&self) -> Option<Sums> {
        match &self.root {
            Root::Empty => Some(Sums::default()),
            Root::Leaf(leaf) => Some(leaf.sums()),
            Root::Node(_) => self.sums.get().map(|sums| **sums),
        }
    }

    /// The tree's sums.
    ///
    /// # Errors
    /// If they were not known, and a node cannot be read.
    pub fn sums(&self, cx: &TreeContext) -> Result<Sums> {
        match (self.known_sums(), &self.root) {
            (Some(sums), _) => Ok(sums),
            (None, Root::Node(node)) => {
                let sums = sums_below(cx, node)?;
                Ok(**self.sums.get_or_init(|| Box::new(sums)))
            }
            (None, _) => Ok(Sums::default()),
        }
    }

    /// Number of levels, including the leaves; 0 if nothing is in pages.
    pub fn depth(&self) -> u8 {
        match &self.root {
            Root::Empty => 0,
            Root::Leaf(_) => 1,
            Root::Node(node) => node.level.saturating_add(1),
        }
    }

    /// Sets the sums to those of `old` plus a job's change, if the former are known.
    pub(super) fn count_sums(&mut self, old: &Self, more: Sums) {
        self.sums = OnceLock::new();
        let now = old.known_sums().map(|sums| sums.plus(more));
        if let (Root::Node(_), Some(now)) = (&self.root, now) {
            let _ = self.sums.set(Box::new(now));
        }
    }
}

/// Computes the sums by a walk over a node and all below it. Nodes that are not in memory do not
/// stay there.
///
/// # Errors
/// If a node cannot be read.
pub(crate) fn sums_below(cx: &TreeContext, node: &NodeRef) -> Result<Sums> {
    let content = node.glance(cx)?;
    let mut sums = content.sums();
    for child in &content.children {
        if let Child::Node(child) = child {
            sums = sums.plus(sums_below(cx, child)?);
        }
    }
    Ok(sums)
}
