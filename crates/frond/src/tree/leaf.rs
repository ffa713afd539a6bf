//! Leaf flushes and merges of tiers: where bytes are rewritten.
//!
//! A leaf flush merges a leaf with everything that waits for it in its parent and writes the outcome
//! as new leaves of about `leaf_bytes`. Deletes and merge operands end here. A leaf that has become
//! small takes its right neighbour (or the left one) along, with what waits for that.
//!
//! Invariants
//! 1. A merge reads a part only inside its range and the children that are flushed (Rule: I1).
//! 2. A range changes hands between neighbours only when nothing waits for either, so that no
//!    consumed entry becomes live again.
//!
//! Threads: as `apply.rs`.

use std::borrow::Cow;

use crate::{
    Kind, Tag,
    error::Result,
    run::{EntrySource, MergeCursor, RunCursor},
    sync::{Arc, Ordering},
};

use super::{
    apply::{Batch, Job, clip},
    node::{Child, Node, Part, RunHandle, Tier},
};

/// Parts of one age that take part in a merge, each with the range to read.
type Stretch<'n> = (&'n Part, Option<&'n [u8]>, Option<&'n [u8]>);

impl Job<'_> {
    /// Flushes leaf `c` of a level-1 node.
    pub(super) fn flush_leaf(&mut self, node: &mut Node, c: usize) -> Result<()> {
        self.cx.counters.leaf_flushes.fetch_add(1, Ordering::Relaxed);
        let (first, last) = self.leaves_to_flush(node, c);
        let leaves = self.merge_leaves(node, first, last)?;
        let bytes: u64 = leaves.iter().map(|leaf| leaf.meta.bytes).sum();
        if bytes < self.cx.shape.leaf_bytes / 4 && first == last && node.children.len() > 1 {
            // Smaller than expected: once more, with a neighbour.
            let (first, last) = if c + 1 < node.children.len() { (c, c + 1) } else { (c - 1, c) };
            let leaves = self.merge_leaves(node, first, last)?;
            self.put_leaves(node, first, last, leaves);
            return Ok(());
        }
        self.put_leaves(node, first, last, leaves);
        Ok(())
    }

    /// The leaf, and a neighbour if the two make no more than one small leaf.
    fn leaves_to_flush(&self, node: &Node, c: usize) -> (usize, usize) {
        let expected = |c: usize| {
            let leaf = match node.children.get(c) {
                Some(Child::Leaf(run)) => run.meta.bytes,
                _ => return u64::MAX / 2,
            };
            leaf + node.pending_bytes(c) / 2
        };
        let small = self.cx.shape.leaf_bytes / 4;
        if expected(c) >= small {
            return (c, c);
        }
        let room = self.cx.shape.leaf_bytes;
        if c + 1 < node.children.len() && expected(c) + expected(c + 1) < room {
            (c, c + 1)
        } else if c > 0 && expected(c) + expected(c - 1) < room {
            (c - 1, c)
        } else {
            (c, c)
        }
    }

    /// Merges leaves `first..=last` with all that waits for them. Changes nothing in the node.
    fn merge_leaves(&mut self, node: &Node, first: usize, last: usize) -> Result<Vec<Arc<RunHandle>>> {
        let range = (node.child_range(first).0, node.child_range(last).1);
        let tiers: Vec<Vec<Stretch<'_>>> = (node.tiers.iter())
            .map(|tier| live_stretches(node, tier, first, last))
            .filter(|stretches| !stretches.is_empty())
            .collect();
        let mut out = Vec::new();
        // Neighbours are merged one after the other into one sequence of leaves.
        let leaves: Vec<&Arc<RunHandle>> = (node.children.get(first..=last).unwrap_or_default().iter())
            .filter_map(|child| match child {
                Child::Leaf(run) => Some(run),
                Child::Node(_) => None,
            })
            .collect();
        out.extend(self.merge_run_stretches(&tiers, &leaves, range)?);
        Ok(out)
    }

    fn put_leaves(&mut self, node: &mut Node, first: usize, last: usize, leaves: Vec<Arc<RunHandle>>) {
        for part in node.tiers.iter_mut().flat_map(|tier| &mut tier.parts) {
            for live in part.live.get_mut(first..=last).unwrap_or_default() {
                *live = 0;
            }
        }
        // Two flushed neighbours become one child before it is replaced.
        for _ in first..last {
            node.absorb_right(first);
        }
        let pivots = self.pivots_between(&leaves);
        let mut children: Vec<Child> = leaves.into_iter().map(Child::Leaf).collect();
        if children.is_empty() && node.children.len() > 1 {
            children.push(Child::Leaf(self.empty_leaf()));
        }
        node.replace_child(first, children, pivots);
    }

    /// A leaf without entries, holding a range that must not change hands yet.
    pub(super) fn empty_leaf(&self) -> Arc<RunHandle> {
        self.handle(self.leaf_builder().finish_empty())
    }

    /// Merges a batch (a tree of one leaf at most) or stretches of tiers with a leaf into new leaves.
    pub(super) fn merge_into_leaves(
        &mut self,
        batch: Option<Batch<'_>>,
        tiers: &[Vec<Stretch<'_>>],
        leaf: Option<&Arc<RunHandle>>,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Vec<Arc<RunHandle>>> {
        let leaves: Vec<&Arc<RunHandle>> = leaf.into_iter().collect();
        let Some(batch) = batch else { return self.merge_run_stretches(tiers, &leaves, range) };
        let mut pending = batch.bytes / 2;
        let mut merge = MergeCursor::new(self.cx.operators.clone());
        merge.push_range_deletes(0, &batch.range_deletes);
        merge.push(batch.entries);
        let mut cursors = self.leaf_cursors(&leaves, range)?;
        for (cursor, leaf) in cursors.iter_mut().zip(&leaves) {
            pending += leaf.meta.bytes;
            merge.push(cursor);
        }
        self.write_leaves(&mut merge, pending)
    }

    fn merge_run_stretches(
        &mut self,
        tiers: &[Vec<Stretch<'_>>],
        leaves: &[&Arc<RunHandle>],
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Vec<Arc<RunHandle>>> {
        let mut expected = 0;
        let mut ages = Vec::new();
        let mut range_deletes = Vec::new();
        for stretches in tiers {
            let age = ages.len();
            let mut cursors = Vec::new();
            for (part, lo, hi) in stretches {
                let run = part.run.open(self.cx)?;
                for (from, to) in run.range_deletes() {
                    let (from, to) = clip((Some(from), Some(to)), (*lo, *hi));
                    if let (Some(from), Some(to)) = (from, to)
                        && from < to
                    {
                        range_deletes.push((age, vec![(from.to_vec(), to.to_vec())]));
                    }
                }
                expected += run.bytes_between(*lo, *hi) / 2;
                cursors.push(RunCursor::bulk(run.clone(), &self.cx.cache, *lo, *hi)?);
            }
            ages.push(Chain::new(cursors)?);
        }
        let mut leaf_cursors = self.leaf_cursors(leaves, range)?;
        let mut merge = MergeCursor::new(self.cx.operators.clone());
        for (age, ranges) in &range_deletes {
            merge.push_range_deletes(*age, ranges);
        }
        for chain in &mut ages {
            merge.push(chain);
        }
        for (cursor, leaf) in leaf_cursors.iter_mut().zip(leaves) {
            expected += leaf.meta.bytes;
            merge.push(cursor);
        }
        self.write_leaves(&mut merge, expected)
    }

    fn leaf_cursors(
        &self,
        leaves: &[&Arc<RunHandle>],
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Vec<RunCursor>> {
        leaves
            .iter()
            .map(|leaf| RunCursor::bulk(leaf.open(self.cx)?.clone(), &self.cx.cache, range.0, range.1))
            .collect()
    }

    /// Writes what a merge yields as leaves of even size.
    fn write_leaves(
        &mut self,
        merge: &mut MergeCursor<'_>,
        expected: u64,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let leaf_bytes = self.cx.shape.leaf_bytes;
        let cut_bytes = if expected <= 2 * leaf_bytes {
            2 * leaf_bytes
        } else {
            let pieces = (expected / leaf_bytes).max(2);
            expected / pieces
        };
        let mut leaves = Vec::new();
        let mut builder = self.leaf_builder();
        let mut entries = 0;
        while merge.next_folded()? {
            if builder.data_bytes() as u64 >= cut_bytes {
                let full = std::mem::replace(&mut builder, self.leaf_builder());
                leaves.extend(full.finish()?.map(|run| self.handle(run)));
            }
            if let Some((tag, payload)) = self.at_bottom(merge.tag(), merge.payload())? {
                builder.push(merge.key(), tag, &payload)?;
            }
            self.tick(1);
            entries += 1;
        }
        self.cx.counters.leaf_entries_encoded.fetch_add(entries, Ordering::Relaxed);
        leaves.extend(builder.finish()?.map(|run| self.handle(run)));
        Ok(leaves)
    }

    /// A message that has met everything older: Deletes vanish, operands become values.
    pub(super) fn at_bottom<'p>(
        &self,
        tag: Tag,
        payload: &'p [u8],
    ) -> Result<Option<(Tag, Cow<'p, [u8]>)>> {
        Ok(match tag.kind() {
            Kind::Delete => None,
            Kind::Merge => {
                Some((Tag::PUT, Cow::Owned(self.cx.operators.resolve(None, payload)?)))
            }
            _ => Some((tag, Cow::Borrowed(payload))),
        })
    }

    /// Merges `width` tiers from `first` on into one.
    pub(super) fn merge_window(&mut self, node: &Node, first: usize, width: usize) -> Result<Tier> {
        self.cx.counters.run_merges.fetch_add(1, Ordering::Relaxed);
        let window = node.tiers.get(first..first + width).unwrap_or_default();
        let last = node.children.len().saturating_sub(1);
        let mut chains = Vec::new();
        let mut range_deletes = Vec::new();
        for tier in window {
            let mut cursors = Vec::new();
            for (part, lo, hi) in live_stretches(node, tier, 0, last) {
                let run = part.run.open(self.cx)?;
                for (from, to) in run.range_deletes() {
                    if let (Some(from), Some(to)) = clip((Some(from), Some(to)), (lo, hi))
                        && from < to
                    {
                        range_deletes.push((chains.len(), vec![(from.to_vec(), to.to_vec())]));
                    }
                }
                cursors.push(RunCursor::bulk(run.clone(), &self.cx.cache, lo, hi)?);
            }
            chains.push(Chain::new(cursors)?);
        }
        let mut merge = MergeCursor::new(self.cx.operators.clone());
        for (age, ranges) in &range_deletes {
            merge.push_range_deletes(*age, ranges);
        }
        for chain in &mut chains {
            merge.push(chain);
        }
        let ranges: Vec<(Vec<u8>, Vec<u8>)> =
            range_deletes.iter().flat_map(|(_, ranges)| ranges.clone()).collect();
        let mut tier = Tier::default();
        let mut builder = self.buffer_builder();
        for (from, to) in &ranges {
            builder.add_range_delete(from, to);
        }
        let mut lo: Option<Box<[u8]>> = None;
        let mut entries = 0;
        while merge.next_folded()? {
            if ranges.is_empty() && builder.data_bytes() as u64 >= self.cx.shape.run_bytes {
                let full = std::mem::replace(&mut builder, self.buffer_builder());
                let hi: Box<[u8]> = merge.key().into();
                let start = lo.replace(hi.clone());
                if let Some(run) = full.finish()? {
                    tier.parts.extend(self.part_of(node, self.handle(run), start, Some(hi))?);
                }
            }
            builder.push(merge.key(), merge.tag(), merge.payload())?;
            self.tick(1);
            entries += 1;
        }
        if let Some(run) = builder.finish()? {
            tier.parts.extend(self.part_of(node, self.handle(run), lo, None)?);
        }
        self.cx.counters.run_merge_entries.fetch_add(entries, Ordering::Relaxed);
        Ok(tier)
    }
}

/// The stretches of a tier that are live for children `first..=last`: neighbouring live children of
/// one part are read in one go.
fn live_stretches<'n>(node: &'n Node, tier: &'n Tier, first: usize, last: usize) -> Vec<Stretch<'n>> {
    let mut stretches: Vec<Stretch<'n>> = Vec::new();
    for part in &tier.parts {
        let mut open = false;
        for c in first..=last {
            let live = part.live.get(c).is_some_and(|&bytes| bytes > 0);
            if live {
                let bounds = (part.lo.as_deref(), part.hi.as_deref());
                let (lo, hi) = clip(bounds, node.child_range(c));
                match stretches.last_mut() {
                    Some(stretch) if open => stretch.2 = hi,
                    _ => stretches.push((part, lo, hi)),
                }
            }
            open = live;
        }
    }
    stretches
}

/// Cursors over disjoint ascending ranges, one after the other.
pub(super) struct Chain {
    cursors: Vec<RunCursor>,
    current: usize,
}

impl Chain {
    pub(super) fn new(cursors: Vec<RunCursor>) -> Result<Self> {
        let mut chain = Self { cursors, current: 0 };
        chain.skip_ended();
        Ok(chain)
    }

    fn skip_ended(&mut self) {
        while self.cursors.get(self.current).is_some_and(|cursor| !cursor.is_valid()) {
            self.current += 1;
        }
    }

    fn cursor(&self) -> &RunCursor {
        self.cursors.get(self.current).expect("read only while valid")
    }
}

impl EntrySource for Chain {
    fn is_valid(&self) -> bool {
        self.current < self.cursors.len()
    }

    fn key(&self) -> &[u8] {
        self.cursor().key()
    }

    fn tag(&self) -> Tag {
        self.cursor().tag()
    }

    fn payload(&self) -> &[u8] {
        self.cursor().payload()
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = self.cursors.get_mut(self.current) {
            cursor.advance()?;
        }
        self.skip_ended();
        Ok(())
    }
}
