//! Leaf flushes and merges of tiers: where bytes are rewritten.
//!
//! A leaf flush merges a leaf with everything that waits for it in its parent and writes the result
//! as new leaves of about `leaf_bytes`. Deletes and merge operands end here. A leaf that has become
//! small is merged with its right neighbour (or the left one) and what waits for that neighbour.
//!
//! Invariants
//! 1. A merge reads a slice only inside its range and the children that are flushed (Rule: I1).
//! 2. A range moves from one leaf to its neighbour only when nothing waits for either, so that no
//!    consumed entry becomes live again.
//!
//! Threads: as `apply.rs`.

use crate::{
    error::Result,
    message::Message,
    run::{Entry, EntrySource, Folded, MergeCursor, RangeDeletes, Run, RunBuilder, RunCursor},
    sync::{Arc, Ordering},
};

use super::{
    TreeContext,
    apply::{Batch, Job, clip},
    cut::SliceWriter,
    leaf_walk::{LeafWalk, Stop},
    node::{Bound, Child, Node, RunHandle, RunSlice, Tier},
};

/// A run slice that a merge reads, with the range to read.
type Stretch<'n> = (&'n RunSlice, Option<&'n [u8]>, Option<&'n [u8]>);

/// An input of a merge.
pub(super) enum Source<'a> {
    /// A batch from above.
    Batch(Box<dyn EntrySource + 'a>),
    /// Everything of one age.
    Chain(Chain),
}

/// Leaves being written.
struct LeafOutput {
    /// Encoded bytes at which the next leaf starts.
    cut_bytes: u64,
    builder: RunBuilder,
    leaves: Vec<Arc<RunHandle>>,
}

impl LeafOutput {
    fn is_full(&self) -> bool {
        self.builder.bytes_so_far() as u64 >= self.cut_bytes
    }

    /// Ends the leaf being written, if it has any entries, and starts the next, which may carry
    /// blocks of `base`.
    fn cut(&mut self, job: &mut Job<'_>, base: Option<&Run>) -> Result<()> {
        let full = std::mem::replace(&mut self.builder, job.leaf_builder(base));
        self.builder.continue_from(&full);
        self.leaves.extend(full.finish()?.map(|run| job.handle(run)));
        Ok(())
    }
}

impl Job<'_> {
    /// Flushes leaf `c` of a level-1 node, unless it or something that waits for it cannot be read.
    pub(super) fn flush_leaf(&mut self, node: &mut Node, c: usize) -> Result<()> {
        self.cx.counters.leaf_flushes.fetch_add(1, Ordering::Relaxed);
        let (first, last) = self.leaves_to_flush(node, c);
        let Some(leaves) = self.merge_readable(node, first, last)? else { return Ok(()) };
        let bytes: u64 = leaves.iter().map(|leaf| leaf.meta.bytes).sum();
        if bytes < self.cx.shape.leaf_bytes / 4 && first == last && node.children.len() > 1 {
            // Smaller than expected: flush again, with a neighbour.
            let (first, last) = if c + 1 < node.children.len() { (c, c + 1) } else { (c - 1, c) };
            if !self.is_stuck(node, if first == c { last } else { first })
                && let Some(leaves) = self.merge_readable(node, first, last)?
            {
                self.put_leaves(node, first, last, leaves);
                return Ok(());
            }
        }
        self.put_leaves(node, first, last, leaves);
        Ok(())
    }

    /// Calls [`merge_leaves`](Self::merge_leaves); `None` if something that it needs cannot be
    /// read.
    fn merge_readable(
        &mut self,
        node: &Node,
        first: usize,
        last: usize,
    ) -> Result<Option<Vec<Arc<RunHandle>>>> {
        let pages = node.pages_for(first, last);
        let range = node.range_of(first, last);
        self.contained(&pages, range, |job| job.merge_leaves(node, first, last))
    }

    fn is_stuck(&self, node: &Node, c: usize) -> bool {
        self.cx.damage.any() && node.is_stuck(c)
    }

    /// Returns the leaf, and a neighbour if both together make no more than one small leaf.
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
        let fits =
            |other: usize| expected(c) + expected(other) < room && !self.is_stuck(node, other);
        if c + 1 < node.children.len() && fits(c + 1) {
            (c, c + 1)
        } else if c > 0 && fits(c - 1) {
            (c - 1, c)
        } else {
            (c, c)
        }
    }

    /// Merges leaves `first..=last` with all that waits for them. Changes nothing in the node.
    fn merge_leaves(
        &mut self,
        node: &Node,
        first: usize,
        last: usize,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let mut sources = Vec::with_capacity(node.tiers.len() + 1);
        let mut expected = 0;
        for tier in &node.tiers {
            let chain = self.chain_of(node, tier, first, last)?;
            if let Some((chain, bytes)) = chain {
                // About what general codecs leave of a buffer run; columnar blocks keep their size.
                expected += if self.traits.schema.is_some() { bytes } else { bytes / 2 };
                sources.push(Source::Chain(chain));
            }
        }
        let children = node.children.get(first..=last).unwrap_or_default();
        let leaves: Vec<&Arc<RunHandle>> = children
            .iter()
            .filter_map(|child| match child {
                Child::Leaf(leaf) => Some(leaf),
                Child::Node(_) => None,
            })
            .collect();
        expected += leaves.iter().map(|leaf| leaf.meta.bytes).sum::<u64>();
        self.write_leaves(sources, &leaves, expected)
    }

    /// Returns the live entries of a tier for some children, and their approximate bytes; `None` if
    /// there are none.
    fn chain_of(
        &self,
        node: &Node,
        tier: &Tier,
        first: usize,
        last: usize,
    ) -> Result<Option<(Chain, u64)>> {
        let mut cursors = Vec::new();
        let mut ranges = Vec::new();
        let mut bytes = 0;
        for (slice, lo, hi) in live_stretches(node, tier, first, last) {
            let run = slice.run.open(self.cx)?;
            let inside = run.range_deletes().clipped(lo, hi);
            ranges.extend(inside.map(|(from, to)| (from.to_vec(), to.to_vec())));
            bytes += run.bytes_between(lo, hi);
            cursors.push(bulk_cursor(self.cx, &slice.run, lo, hi)?);
        }
        let some = !cursors.is_empty();
        Ok(some.then(|| (Chain::new(cursors, RangeDeletes::union(ranges)), bytes)))
    }

    fn put_leaves(
        &mut self,
        node: &mut Node,
        first: usize,
        last: usize,
        leaves: Vec<Arc<RunHandle>>,
    ) {
        for slice in node.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
            for live in slice.live.get_mut(first..=last).unwrap_or_default() {
                if plant!("tree: what was flushed waits again") {
                    continue;
                }
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

    /// Creates a placeholder leaf, for a range that must not move to a neighbour yet.
    pub(super) fn empty_leaf(&self) -> Arc<RunHandle> {
        RunHandle::placeholder(self.traits.lineage, self.publish)
    }

    /// Merges a batch with the only leaf of a tree, if it has one.
    pub(super) fn merge_batch(
        &mut self,
        batch: Batch<'_>,
        leaf: Option<&Arc<RunHandle>>,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let expected = batch.bytes / 2 + leaf.map_or(0, |leaf| leaf.meta.bytes);
        self.write_leaves(vec![Source::Batch(batch.source)], leaf.as_slice(), expected)
    }

    /// Writes the merge of leaves and of everything newer than they are as leaves of even size.
    fn write_leaves(
        &mut self,
        mut newer: Vec<Source<'_>>,
        leaves: &[&Arc<RunHandle>],
        expected: u64,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let leaf_bytes = self.cx.shape.leaf_bytes;
        let cut_bytes = if expected <= 2 * leaf_bytes {
            2 * leaf_bytes
        } else {
            expected / (expected / leaf_bytes).max(2)
        };
        let folder = self.cx.folder();
        newer.retain(|source| source.entry().is_some() || source.has_range_deletes());
        let ranges = newer.iter().filter_map(EntrySource::range_deletes);
        let ranges = RangeDeletes::union(ranges.flat_map(RangeDeletes::iter).collect());
        let mut walk = LeafWalk::new(self.cx, leaves, ranges)?;
        let mut merge = MergeCursor::new(newer);
        let builder = self.leaf_builder(walk.run());
        let mut out = LeafOutput { cut_bytes, builder, leaves: Vec::new() };
        let (mut folded, mut made, mut rows) = (Vec::new(), Vec::new(), 0);
        loop {
            let entry = merge.next_folded(&folder)?;
            let key = entry.map(|entry| entry.key);
            while walk.drain_below(key, &mut out.builder, cut_bytes)? == Stop::Full {
                out.cut(self, walk.run())?;
            }
            let Some(entry) = entry else { break };
            if out.is_full() {
                out.cut(self, walk.run())?;
            }
            // Everything older has been met: Deletes vanish, operands become values.
            let builder = &mut out.builder;
            let mut convert = |message: Message<'_>| {
                match folder.for_leaf(message, &mut made)? {
                    Folded::Newer(tag) => self.push(builder, entry.key, tag, message.payload)?,
                    Folded::Made(tag) => self.push(builder, entry.key, tag, &made)?,
                    Folded::Nothing => {}
                }
                Ok(())
            };
            let newer = entry.message();
            let met = walk.take_at(entry.key, &mut |older| match folder.fold(
                newer,
                older,
                &mut folded,
            )? {
                Folded::Newer(tag) => convert(Message::new(tag, newer.payload)),
                Folded::Made(tag) => convert(Message::new(tag, &folded)),
                Folded::Nothing => Ok(()),
            })?;
            if !met {
                convert(newer)?;
            }
            rows += 1;
            self.tick(1);
        }
        let walked = walk.counts();
        self.tick(walked.rows);
        rows += walked.rows;
        self.cx.counters.leaf_entries_encoded.fetch_add(rows, Ordering::Relaxed);
        self.cx.counters.blocks_carried.fetch_add(walked.blocks_carried, Ordering::Relaxed);
        out.cut(self, None)?;
        Ok(out.leaves)
    }

    /// Merges what is live of neighbouring tiers, or of slices of one tier, into one tier of slices
    /// inside [lo, hi).
    pub(super) fn merge_window(
        &mut self,
        node: &Node,
        window: &[Tier],
        bounds: (Bound, Bound),
    ) -> Result<Tier> {
        self.cx.counters.run_merges.fetch_add(1, Ordering::Relaxed);
        let last = node.children.len().saturating_sub(1);
        let mut sources = Vec::with_capacity(window.len());
        for tier in window {
            if let Some((chain, _)) = self.chain_of(node, tier, 0, last)? {
                sources.push(Source::Chain(chain));
            }
        }
        // The range deletes are kept: what they hide may lie below the window.
        let ranges = sources.iter().filter_map(EntrySource::range_deletes);
        let ranges = RangeDeletes::union(ranges.flat_map(RangeDeletes::iter).collect());
        let mut slices = SliceWriter::new(self, node, &ranges, bounds);
        let folder = self.cx.folder();
        let mut merge = MergeCursor::new(sources);
        let mut entries = 0;
        while let Some(entry) = merge.next_folded(&folder)? {
            if !(plant!("tree: tombstone dropped above older data")
                && entry.tag == crate::message::Tag::DELETE)
            {
                slices.push(self, entry.key, entry.tag, entry.payload)?;
            }
            self.tick(1);
            entries += 1;
        }
        let tier = slices.finish(self)?;
        self.cx.counters.run_merge_entries.fetch_add(entries, Ordering::Relaxed);
        Ok(tier)
    }
}

fn bulk_cursor(
    cx: &TreeContext,
    run: &RunHandle,
    lo: Option<&[u8]>,
    hi: Option<&[u8]>,
) -> Result<RunCursor> {
    let mut cursor = RunCursor::bulk(run.open(cx)?.clone()).range(lo, hi);
    cursor.seek_first()?;
    Ok(cursor)
}

/// Returns the stretches of a tier that are live for children `first..=last`: neighbouring live
/// children of one slice are read together.
fn live_stretches<'n>(
    node: &'n Node,
    tier: &'n Tier,
    first: usize,
    last: usize,
) -> Vec<Stretch<'n>> {
    let mut stretches: Vec<Stretch<'n>> = Vec::new();
    for slice in &tier.slices {
        let mut open = false;
        for c in first..=last {
            let live = slice.live.get(c).is_some_and(|&bytes| bytes > 0);
            if live {
                let bounds = (slice.lo.as_deref(), slice.hi.as_deref());
                let (lo, hi) = clip(bounds, node.child_range(c));
                match stretches.last_mut() {
                    Some(stretch) if open => stretch.2 = hi,
                    _ => stretches.push((slice, lo, hi)),
                }
            }
            open = live;
        }
    }
    stretches
}

/// Cursors over disjoint ascending ranges, one after the other: the entries of one age.
pub(super) struct Chain {
    cursors: Vec<RunCursor>,
    current: usize,
    ranges: RangeDeletes,
}

impl Chain {
    pub(super) fn new(cursors: Vec<RunCursor>, ranges: RangeDeletes) -> Self {
        let mut chain = Self { cursors, current: 0, ranges };
        chain.skip_ended();
        chain
    }

    fn skip_ended(&mut self) {
        while self.cursors.get(self.current).is_some_and(|cursor| cursor.entry().is_none()) {
            self.current += 1;
        }
    }
}

impl EntrySource for Source<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Source::Batch(batch) => batch.entry(),
            Source::Chain(chain) => chain.cursors.get(chain.current)?.entry(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Batch(batch) => batch.advance(),
            Source::Chain(chain) => {
                if let Some(cursor) = chain.cursors.get_mut(chain.current) {
                    cursor.advance()?;
                    if cursor.entry().is_none() {
                        chain.skip_ended();
                    }
                }
                Ok(())
            }
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Source::Batch(batch) => batch.seek(key),
            Source::Chain(chain) => {
                chain.current = 0;
                chain.cursors.iter_mut().try_for_each(|cursor| cursor.seek(key))?;
                chain.skip_ended();
                Ok(())
            }
        }
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        match self {
            Source::Batch(batch) => batch.range_deletes(),
            Source::Chain(chain) => Some(&chain.ranges),
        }
    }
}
