//! Scans: finding the runs that hold the entries around a key.
//!
//! A scan proceeds leaf by leaf. For the leaf at a position, the sources are the live slices of
//! every node on its path, newest first, each clipped to the range of the child on the path, and
//! the leaf itself; the reader merges them. Cost: one descent per leaf, that is, per about 20 000
//! entries.
//!
//! Threads: all.

use crate::{error::Result, sync::Arc};

use super::{
    TreeContext,
    apply::{TreeRoot, clip},
    node::{Bound, Child, Node, Root, RunHandle},
};

/// The range of one leaf and everything that has entries in it.
#[derive(Debug, Default)]
pub(crate) struct LeafStretch {
    /// First key of the leaf's range; `None`: unbounded.
    pub lo: Bound,
    /// End of the leaf's range; `None`: unbounded.
    pub hi: Bound,
    /// Newest first; runs of one age are disjoint, so their order does not matter.
    pub runs: Vec<StretchRun>,
}

/// A run, clipped to the part that counts here.
#[derive(Debug)]
pub(crate) struct StretchRun {
    pub run: Arc<RunHandle>,
    pub lo: Bound,
    pub hi: Bound,
}

/// A position of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position<'k> {
    /// At the first key of all.
    First,
    /// After the last key of all.
    Last,
    /// At a key, going up.
    At(&'k [u8]),
    /// Below a key, going down.
    Below(&'k [u8]),
}

impl TreeRoot {
    /// Returns the stretch of the leaf that contains `position`.
    pub fn stretch(&self, cx: &TreeContext, position: Position<'_>) -> Result<LeafStretch> {
        let mut stretch = LeafStretch::default();
        let mut node: &Node = match &self.root {
            Root::Empty => return Ok(stretch),
            Root::Leaf(leaf) => {
                stretch.push(leaf, None, None);
                return Ok(stretch);
            }
            Root::Node(node) => node.load(cx)?,
        };
        loop {
            let c = match position {
                Position::First => 0,
                Position::Last => node.children.len().saturating_sub(1),
                Position::At(key) => node.child_for(key),
                Position::Below(key) => node.pivots.partition_point(|pivot| &**pivot < key),
            };
            let (lo, hi) = node.child_range(c);
            // The range of a child lies inside its parent's, but its outer pivots are the parent's.
            let (lo, hi) =
                (lo.map(Box::from).or(stretch.lo.take()), hi.map(Box::from).or(stretch.hi.take()));
            (stretch.lo, stretch.hi) = (lo, hi);
            for tier in &node.tiers {
                for slice in &tier.slices {
                    if slice.live.get(c).is_some_and(|&bytes| bytes > 0) {
                        let bounds = (slice.lo.as_deref(), slice.hi.as_deref());
                        let (lo, hi) = clip(bounds, node.child_range(c));
                        stretch.push(&slice.run, lo, hi);
                    }
                }
            }
            match node.children.get(c) {
                Some(Child::Leaf(leaf)) => {
                    stretch.push(leaf, None, None);
                    return Ok(stretch);
                }
                Some(Child::Node(child)) => node = child.load(cx)?,
                None => return Ok(stretch),
            }
        }
    }
}

impl LeafStretch {
    fn push(&mut self, run: &Arc<RunHandle>, lo: Option<&[u8]>, hi: Option<&[u8]>) {
        if !run.is_placeholder() {
            let (lo, hi) = (lo.map(Box::from), hi.map(Box::from));
            self.runs.push(StretchRun { run: run.clone(), lo, hi });
        }
    }
}
