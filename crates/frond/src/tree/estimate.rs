//! Estimates of how many rows lie in a range and how many bytes they take, from what nodes in
//! memory say about their runs.
//!
//! Below a child that lies wholly inside the range, only some nodes are sampled. Of a run, only the
//! index is used, and only if the run is open. A node that was not read yet is assumed to be as
//! large as its siblings: each gets an equal share of what its tree is known to hold; if that is
//! not known, a share of the estimate stored when the last checkpoint wrote the tree; and failing
//! that, as much as nodes of its level usually hold. Puts that wait in buffers are counted as
//! additional rows, though some are of existing rows (Rule: I40).
//!
//! Invariants
//! 1. Nothing is read from the file (Rule: I51), except for callers that read anyway ([`Look`]).
//! 2. What was not looked at is guessed: a range is reported as empty only if all of it was seen to
//!    be empty.
//!
//! Threads: all. Cost: a few hundred numbers per level.

use crate::{run::Run, sync::Arc};

use super::{
    TreeContext,
    apply::TreeRoot,
    node::{Child, Node, NodeRef, Root, RunHandle},
};

/// Number of children that are sampled for each node that lies inside the range.
const SAMPLED: usize = 3;
/// Assumed bytes of a row about which nothing is known.
const ROW_BYTES: f64 = 100.0;

/// An estimate of what a range holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub rows: f64,
    pub bytes: f64,
    /// True if something was not looked at: it is then not certain that the range is empty.
    pub is_guessed: bool,
}

type Range<'k> = (Option<&'k [u8]>, Option<&'k [u8]>);

/// What an estimate may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Only what is in memory.
    InMemory,
    /// Nodes, and indexes of runs that the range cuts, are read where they are not in memory: some
    /// of each level.
    Reading,
}

impl TreeRoot {
    /// Estimates what the tree holds in `[from, to)`.
    pub fn estimate(&self, cx: &TreeContext, range: Range<'_>, look: Look) -> Held {
        match &self.root {
            Root::Empty => Held::default(),
            Root::Leaf(leaf) => At { cx, look }.of_run(leaf, range),
            Root::Node(node) => {
                let all = match (self.rows(), self.stored) {
                    (Some(rows), _) => match self.known_sums() {
                        Some(sums) => Held {
                            rows: rows as f64,
                            bytes: sums.encoded.saturating_add(sums.waiting) as f64,
                            is_guessed: true,
                        },
                        None => Held::guessed(rows as f64),
                    },
                    (None, Some((rows, bytes))) => {
                        Held { rows: rows as f64, bytes: bytes as f64, is_guessed: true }
                    }
                    (None, None) => Held::of_level(cx, node.level),
                };
                At { cx, look }.of_node(node, range, all)
            }
        }
    }

    /// Estimates the whole tree, to be stored with it for the time when the number of rows is not
    /// known.
    pub fn estimate_to_store(&self, cx: &TreeContext) -> (u64, u64) {
        let held = self.estimate(cx, (None, None), Look::InMemory);
        (held.rows_at_least(), held.bytes.round() as u64)
    }
}

impl Held {
    /// A guess of this many rows, about which nothing else is known.
    fn guessed(rows: f64) -> Self {
        Self { rows, bytes: rows * ROW_BYTES, is_guessed: true }
    }

    /// A guess for a node of this level about which nothing is known: it and the nodes below it
    /// have half the children that they may have.
    fn of_level(cx: &TreeContext, level: u8) -> Self {
        let leaves = (cx.shape.fanout_max as f64 / 2.0).powi(level.into());
        Self::guessed(leaves * cx.shape.leaf_bytes as f64 / ROW_BYTES)
    }

    /// The number of rows, rounded; 0 only if there is certainly none.
    pub fn rows_at_least(&self) -> u64 {
        match self.rows == 0.0 && !self.is_guessed {
            true => 0,
            false => self.rows.round().max(1.0) as u64,
        }
    }

    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.is_guessed |= other.is_guessed;
    }

    fn times(self, share: f64) -> Self {
        Self { rows: self.rows * share, bytes: self.bytes * share, ..self }
    }

    /// The part of an estimate that lies in a range: half of it for each end that cuts it.
    fn cut(self, (from, to): Range<'_>) -> Self {
        let ends = i32::from(from.is_some()) + i32::from(to.is_some());
        match ends {
            0 => self,
            _ => Self { is_guessed: true, ..self.times(0.5f64.powi(ends)) },
        }
    }
}

/// Estimates one run, from what is in memory of it.
pub(super) fn of_run(run: &RunHandle, range: Range<'_>) -> Held {
    of_open(run, range, || run.resident())
}

/// Estimates one run. If it is cut and not open: half of it for each end that cuts it.
fn of_open(
    run: &RunHandle,
    (from, to): Range<'_>,
    open: impl FnOnce() -> Option<Arc<Run>>,
) -> Held {
    let all =
        Held { rows: run.meta.rows() as f64, bytes: run.meta.bytes as f64, is_guessed: false };
    if run.is_placeholder() || (from.is_none() && to.is_none()) {
        return all;
    }
    let Some(open) = open() else { return all.cut((from, to)) };
    let (rows, bytes) = open.held_between(from, to);
    Held { rows: rows as f64, bytes: bytes as f64, is_guessed: false }
}

/// A view of a tree for one estimate.
#[derive(Clone, Copy)]
struct At<'a> {
    cx: &'a TreeContext,
    look: Look,
}

impl At<'_> {
    /// Opens a run to use its index. If it cannot be read, its size is guessed; later readers of
    /// its rows get the error.
    fn open(self, run: &RunHandle) -> Option<Arc<Run>> {
        match self.look {
            Look::InMemory => run.resident(),
            Look::Reading => run.open(self.cx).ok().map(|open| (*open).clone()),
        }
    }

    fn load(self, node: &NodeRef) -> Option<&Arc<Node>> {
        match self.look {
            Look::InMemory => node.resident(),
            Look::Reading => node.load(self.cx).ok(),
        }
    }

    fn of_run(self, run: &RunHandle, range: Range<'_>) -> Held {
        of_open(run, range, || self.open(run))
    }

    /// Estimates a node and all below it, which hold about `all` if nothing says more.
    fn of_node(self, node: &NodeRef, range: Range<'_>, all: Held) -> Held {
        let Some(node) = self.load(node) else { return all.cut(range) };
        let each = all.times(1.0 / node.children.len().max(1) as f64);
        if range == (None, None) {
            return self.of_children(node, 0..node.children.len(), each);
        }
        let first = range.0.map_or(0, |key| node.child_for(key));
        let last = range.1.map_or(node.children.len().saturating_sub(1), |key| {
            // A child that starts at the end of the range has nothing in it.
            node.pivots.partition_point(|pivot| &**pivot < key)
        });
        let mut held = self.of_children(node, first + 1..last, each);
        for c in first..=last {
            if c > first && c < last {
                continue;
            }
            let (low, high) = node.child_range(c);
            let from = range.0.filter(|from| low.is_none_or(|low| *from > low));
            let to = range.1.filter(|to| high.is_none_or(|high| *to < high));
            held.add(match node.children.get(c) {
                Some(Child::Leaf(leaf)) => self.of_run(leaf, (from, to)),
                Some(Child::Node(child)) => self.of_node(child, (from, to), each),
                None => each,
            });
            held.add(self.waiting(node, c, (from, to)));
        }
        held
    }

    /// Estimates children that lie wholly inside, and what waits for them. `each` is what one holds
    /// if nothing says more.
    fn of_children(self, node: &Node, children: std::ops::Range<usize>, each: Held) -> Held {
        let mut held = Held::default();
        let all = node.children.get(children.clone()).unwrap_or_default();
        children.for_each(|c| held.add(self.waiting(node, c, (None, None))));
        // The parent's links say what leaves hold; nodes have to be opened.
        let every = if node.level > 1 { all.len().div_ceil(SAMPLED).max(1) } else { 1 };
        let (mut sum, mut looked_at) = (Held::default(), 0);
        for child in all.iter().skip((every - 1) / 2).step_by(every) {
            looked_at += 1;
            sum.add(match child {
                Child::Leaf(leaf) => self.of_run(leaf, (None, None)),
                Child::Node(child) => self.of_node(child, (None, None), each),
            });
        }
        held.add(sum.times(all.len() as f64 / f64::from(looked_at.max(1))));
        held.is_guessed |= every > 1;
        held
    }

    /// Estimates what waits for a child in its node's buffer, within a range of the child's.
    fn waiting(self, node: &Node, c: usize, range: Range<'_>) -> Held {
        let mut held = Held::default();
        for slice in node.tiers.iter().flat_map(|tier| &tier.slices) {
            let live = slice.live.get(c).copied().unwrap_or(0);
            if live == 0 {
                continue;
            }
            let meta = &slice.run.meta;
            let share = f64::from(live) / (meta.bytes as f64).max(1.0);
            let all =
                Held { rows: share * meta.rows() as f64, bytes: live.into(), is_guessed: false };
            if range == (None, None) {
                held.add(all);
                continue;
            }
            held.add(match (self.open(&slice.run), range) {
                (Some(open), (from, to)) => {
                    let (low, high) = node.child_range(c);
                    let (rows, bytes) = open.held_between(from.or(low), to.or(high));
                    Held {
                        rows: all.rows.min(rows as f64),
                        bytes: all.bytes.min(bytes as f64),
                        is_guessed: false,
                    }
                }
                (None, _) => Held { is_guessed: true, ..all.times(0.5) },
            });
        }
        held
    }
}
