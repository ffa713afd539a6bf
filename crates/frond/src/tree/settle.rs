//! Settling: how a node rebalances its buffer after new runs were put in front of it.
//!
//! - An upper node hands its fullest child everything that waits for it, by reference, once that is
//!   at least `push_bytes`; at most two children at a time, or more when the node is far over its
//!   limit (Rule: I39).
//! - A level-1 node flushes leaves *metered by bytes*: while more waits than the node's target, the
//!   fullest leaf is merged with all that waits for it. So each incoming batch is matched by
//!   outgoing bytes; thresholds alone would make all leaves due at once.
//! - Tiers of similar size are merged when there are too many for readers. A run of which little is
//!   live is rewritten, since its extent cannot be freed while anything of it is live.
//! - A node with too many children splits.
//! - A node whose page nears the size bound hands everything down, and splits. Keys of up to 64 KiB
//!   are in the page as pivots and as ends of slices, and a page that is too long could not be
//!   written although its rows were acknowledged long ago. At most `fanout_max` pivots remain: a
//!   sixteenth of the length at which a page nears its bound. Clipping at a pivot adds one key per
//!   tier.
//!
//! Invariants
//! 1. A child is handed *all* slices that are live for it, from all tiers, in age order (Rule: I1).
//! 2. Only tiers adjacent in age are merged; a merge reads a slice only through its range and its
//!    live children (Rule: I1).
//!
//! Threads: as `apply.rs`.

use crate::{bounds, error::Result, sync::Ordering};

use super::{
    apply::{Job, clip},
    context::{jitter, jitter_seed},
    damage::PageRef,
    node::{Bound, Child, Node, NodeRef, RunSlice, Tier},
    piece::{Piece, Pieces},
};
use crate::sync::Arc;

impl Job<'_> {
    /// Brings a changed node within its limits.
    pub(super) fn settle(&mut self, mut node: Node) -> Result<Pieces> {
        if node.level == 1 {
            self.flush_leaves(&mut node)?;
        } else {
            self.push_down(&mut node)?;
            self.absorb_placeholders(&mut node);
        }
        node.drop_consumed();
        self.merge_tiers(&mut node)?;
        if node.children.is_empty() && plant!("tree: settling keeps a node without children") {
            return Ok(Pieces::planted(node));
        }
        Ok(self.split(node))
    }

    fn push_down(&mut self, node: &mut Node) -> Result<()> {
        let shape = self.cx.shape;
        let mut pushed = 0;
        loop {
            let pending = self.movable_by_child(node);
            let total: u64 = pending.iter().sum();
            let Some((c, &bytes)) = pending.iter().enumerate().max_by_key(|&(_, &bytes)| bytes)
            else {
                return Ok(());
            };
            let seed = jitter_seed(self.publish, c);
            let soft = match node.nears_its_bound() {
                true => 0,
                false => shape.push_bytes * node.children.len() as u64,
            };
            let far_over = total > 2 * soft;
            if bytes == 0 || (!far_over && (bytes < jitter(shape.push_bytes, seed) || pushed >= 2))
            {
                return Ok(());
            }
            if self.push_child(node, c)? {
                pushed += 1;
            }
        }
    }

    /// Hands child `c` all that waits for it; false if that cannot be done now, and nothing was
    /// changed.
    pub(super) fn push_child(&mut self, node: &mut Node, c: usize) -> Result<bool> {
        let range = node.range_of(c, c);
        let pieces =
            self.contained(&node.pages_for(c, c), range, |job| job.handed_down(node, c))?;
        let Some(pieces) = pieces else { return Ok(false) };
        self.cx.counters.pushes.fetch_add(1, Ordering::Relaxed);
        for slice in node.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
            if let Some(live) = slice.live.get_mut(c) {
                *live = 0;
            }
        }
        self.replace_node(node, c, pieces);
        Ok(true)
    }

    /// Returns child `c` with all that waits for it, rebalanced. Changes nothing in the node.
    fn handed_down(&mut self, node: &Node, c: usize) -> Result<Pieces> {
        let Some(Child::Node(child)) = node.children.get(c) else {
            unreachable!("node.rs invariant 2: push_child is for upper nodes")
        };
        let mut lower = self.reopen(child)?;
        self.rewrite_sparse(&mut lower)?;
        let mut handed = Vec::new();
        let (from, to) = node.child_range(c);
        for tier in &node.tiers {
            let mut moved = Tier::default();
            for slice in &tier.slices {
                if slice.live.get(c).is_none_or(|&bytes| bytes == 0) {
                    continue;
                }
                let (lo, hi) = clip((slice.lo.as_deref(), slice.hi.as_deref()), (from, to));
                let (lo, hi) = (lo.map(Box::from), hi.map(Box::from));
                if let Some(slice) = self.slice_of(&lower, slice.run.clone(), lo, hi)? {
                    moved.slices.push(slice);
                }
            }
            if !moved.slices.is_empty() {
                handed.push(moved);
            }
        }
        handed.append(&mut lower.tiers);
        if plant!("tree: flush a newer run past an older one") {
            handed.reverse();
        }
        lower.tiers = handed;
        self.within(node, c, |job| job.settle(lower))
    }

    /// Runs `act` inside child `c`, with the job's bounds set to the child's keys.
    pub(super) fn within<T>(
        &mut self,
        node: &Node,
        c: usize,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (low, high) = &self.bounds;
        let (from, to) = clip((low.as_deref(), high.as_deref()), node.child_range(c));
        let inner = (from.map(Box::from), to.map(Box::from));
        let outer = std::mem::replace(&mut self.bounds, inner);
        let done = act(self);
        self.bounds = outer;
        done
    }

    /// Puts the pieces of a changed child in its place. For an only child there may be none: then
    /// the node has no children, and becomes no piece.
    pub(super) fn replace_node(&mut self, node: &mut Node, c: usize, pieces: Pieces) {
        let mut children = Vec::with_capacity(pieces.len());
        let mut pivots = Vec::new();
        for (first_key, piece) in pieces {
            if !children.is_empty() {
                pivots.push(first_key);
            }
            children.push(Child::Node(self.seal(piece)));
        }
        if children.is_empty() && node.children.len() > 1 {
            // Everything below is deleted. Removing the child would let the neighbour's range grow
            // over slices that were consumed there, so an empty node stays until both are idle.
            children.push(Child::Node(self.empty_node(node.level - 1)));
        }
        node.replace_child(c, children, pivots);
    }

    /// Removes placeholder children where nothing waits for them or for their neighbour.
    fn absorb_placeholders(&mut self, node: &mut Node) {
        let placeholder = |child: Option<&Child>| match child {
            Some(Child::Node(child)) => {
                child.resident().is_some_and(|child| child.is_placeholder())
            }
            _ => false,
        };
        let mut c = 0;
        while c + 1 < node.children.len() {
            let (left, right) =
                (placeholder(node.children.get(c)), placeholder(node.children.get(c + 1)));
            if (left || right) && node.pending_bytes(c) + node.pending_bytes(c + 1) == 0 {
                if !right {
                    node.children.swap(c, c + 1);
                }
                if let Some(Child::Node(child)) = node.children.get(c + 1).cloned() {
                    self.unlink_subtree(&child);
                }
                node.absorb_right(c);
            } else {
                c += 1;
            }
        }
    }

    /// Counts a subtree of resident nodes as dead.
    fn unlink_subtree(&mut self, node: &Arc<NodeRef>) {
        // `is_placeholder` is true only for resident nodes.
        if let Some(content) = node.resident() {
            self.effects.unlink_node(node, content);
            for child in &content.children {
                if let Child::Node(child) = child {
                    self.unlink_subtree(child);
                }
            }
        }
    }

    /// Creates a chain of nodes down to one empty leaf.
    fn empty_node(&mut self, level: u8) -> Arc<NodeRef> {
        let child = if level == 1 {
            Child::Leaf(self.empty_leaf())
        } else {
            Child::Node(self.empty_node(level - 1))
        };
        self.seal(Piece::above(child))
    }

    /// Bytes that may wait in a level-1 node: on average half of the sum at which its leaves are
    /// due.
    fn leaf_pending_target(&self, node: &Node) -> u64 {
        let leaves: u64 = node.children.iter().map(|child| self.due_bytes(child)).sum();
        jitter(leaves / 2, jitter_seed(self.publish, node.children.len()))
    }

    /// Pending bytes at which a leaf is due.
    fn due_bytes(&self, child: &Child) -> u64 {
        let bytes = match child {
            Child::Leaf(run) => run.meta.bytes,
            Child::Node(_) => 0,
        };
        bytes.max(self.cx.shape.leaf_bytes / 4) * self.leaf_fill_sixteenths / 16
    }

    fn flush_leaves(&mut self, node: &mut Node) -> Result<()> {
        let target = if node.nears_its_bound() { 0 } else { self.leaf_pending_target(node) };
        loop {
            let pending = self.movable_by_child(node);
            let total: u64 = pending.iter().sum();
            if total <= target {
                return Ok(());
            }
            let fullest = pending.iter().enumerate().max_by_key(|&(_, &bytes)| bytes);
            let Some((c, &bytes)) = fullest else { return Ok(()) };
            let due = node.children.get(c).map_or(0, |child| self.due_bytes(child));
            // No leaf below a quarter of its due bytes, unless the node is far over its target.
            if bytes == 0 || (bytes < due / 4 && total <= 2 * target) {
                return Ok(());
            }
            self.flush_leaf(node, c)?;
        }
    }

    /// Merges tiers until there are few enough for readers. Each step merges the window of adjacent
    /// tiers that costs least and has no unreadable run.
    fn merge_tiers(&mut self, node: &mut Node) -> Result<()> {
        let shape = self.cx.shape;
        let max = if node.level == 1 { shape.tiers_max_bottom } else { shape.tiers_max };
        while node.tiers.len() > max {
            let sizes: Vec<u64> = node.tiers.iter().map(Tier::live_bytes).collect();
            let width = 4.min(sizes.len());
            let marks = self.cx.damage.any();
            let stuck: Vec<bool> = node.tiers.iter().map(|tier| marks && tier.is_stuck()).collect();
            let windows = sizes.windows(width).zip(stuck.windows(width)).enumerate();
            let readable = windows.filter(|(_, (_, stuck))| !stuck.contains(&true));
            let cheapest = readable.min_by_key(|(_, (bytes, _))| bytes.iter().sum::<u64>());
            let Some((first, _)) = cheapest else { return Ok(()) };
            let window = node.tiers.get(first..first + width).unwrap_or_default();
            let Some(merged) = self.merge_contained(node, window, (None, None))? else { continue };
            node.tiers.splice(first..first + width, (!merged.slices.is_empty()).then_some(merged));
        }
        Ok(())
    }

    /// Rewrites what is left of runs of which little is live, so that their extents can be freed
    /// (Rule: I21). Called before anything is put in front: a run that was just handed down is
    /// still the parent's as well, whatever its count says.
    pub(super) fn rewrite_sparse(&mut self, node: &mut Node) -> Result<()> {
        let lineage = self.traits.lineage;
        for t in 0..node.tiers.len() {
            let mut p = 0;
            loop {
                let slices = node.tiers.get(t).map_or(&[][..], |tier| &tier.slices);
                let Some(first) = slices.iter().skip(p).position(|slice| slice.is_sparse(lineage))
                else {
                    break;
                };
                let first = p + first;
                // Neighbouring slices of one run become one slice.
                let sparse: Vec<RunSlice> = slices
                    .iter()
                    .skip(first)
                    .take_while(|slice| slice.is_sparse(lineage))
                    .cloned()
                    .collect();
                let count = sparse.len();
                let lo = sparse.first().and_then(|slice| slice.lo.clone());
                let hi = sparse.last().and_then(|slice| slice.hi.clone());
                let window = [Tier { slices: sparse }];
                let written = self.merge_contained(node, &window, (lo, hi))?;
                p = first + count;
                if let (Some(written), Some(tier)) = (written, node.tiers.get_mut(t)) {
                    p = first + written.slices.len();
                    tier.slices.splice(first..first + count, written.slices);
                }
            }
        }
        node.drop_consumed();
        Ok(())
    }

    /// Calls [`merge_window`](Self::merge_window); `None` if one of the runs cannot be read.
    fn merge_contained(
        &mut self,
        node: &Node,
        window: &[Tier],
        bounds: (Bound, Bound),
    ) -> Result<Option<Tier>> {
        let pages: Vec<PageRef> = window.iter().flat_map(Tier::pages).collect();
        self.contained(&pages, (None, None), |job| job.merge_window(node, window, bounds))
    }

    /// Splits a node that has too many children, or whose page nears its bound.
    pub(super) fn split(&mut self, node: Node) -> Pieces {
        let max = self.cx.shape.fanout_max;
        let count = node.children.len();
        let is_long = count >= 4 && node.nears_its_bound();
        if count <= max && !is_long {
            return Pieces::of(node);
        }
        // At least two children per piece: with fewer, a level would be as wide as the one below
        // it.
        let pieces = count.div_ceil((max * 3 / 4).max(2)).max(2);
        self.split_at(node, (1..pieces).map(|i| i * count / pieces).collect())
    }

    /// Splits a node that grows at its right edge: the left piece stays full.
    pub(super) fn split_right(&mut self, node: Node) -> Pieces {
        let max = self.cx.shape.fanout_max;
        let count = node.children.len();
        self.split_at(node, (1..count.div_ceil(max)).map(|i| i * max).collect())
    }

    fn split_at(&mut self, node: Node, cuts: Vec<usize>) -> Pieces {
        self.cx.counters.node_splits.fetch_add(cuts.len() as u64, Ordering::Relaxed);
        Pieces::cut(node, &cuts)
    }
}

impl Node {
    /// True if its page would be longer than half of the maximum.
    fn nears_its_bound(&self) -> bool {
        !bounds::NODE_PAGE_BYTES.admits(2 * self.page_bytes())
    }

    /// Splits off children `cut..`, with the slices that are live for them. Returns the pivot
    /// between.
    pub(super) fn split_off(&mut self, cut: usize) -> (Box<[u8]>, Node) {
        debug_assert!(cut > 0 && cut < self.children.len());
        let children = self.children.split_off(cut);
        let mut pivots = self.pivots.split_off(cut - 1);
        let pivot = pivots.remove(0);
        let mut tiers = Vec::new();
        for tier in &mut self.tiers {
            let mut right = Tier::default();
            for slice in &mut tier.slices {
                let live = slice.live.split_off(cut);
                // A node does not know the ends of its own range: its slices carry them
                // (`node/mod.rs`, invariant 5). Unclipped, the outermost child of either half would
                // read what belongs to the other, including consumed entries.
                if live.iter().any(|&bytes| bytes > 0) && !plant!("tree: drop a message at a split")
                {
                    let bounds = (slice.lo.as_deref(), slice.hi.as_deref());
                    let (lo, hi) = clip(bounds, (Some(&pivot), None));
                    let (lo, hi) = (lo.map(Box::from), hi.map(Box::from));
                    right.slices.push(RunSlice { run: slice.run.clone(), lo, hi, live });
                }
                let (lo, hi) =
                    clip((slice.lo.as_deref(), slice.hi.as_deref()), (None, Some(&pivot)));
                (slice.lo, slice.hi) = (lo.map(Box::from), hi.map(Box::from));
            }
            if !right.slices.is_empty() {
                tiers.push(right);
            }
        }
        self.drop_consumed();
        (pivot, Node { level: self.level, pivots, children, tiers })
    }
}
