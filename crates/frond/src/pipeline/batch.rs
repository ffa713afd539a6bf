//! A frozen memtable's part of one tree as a batch: one message a key, range deletes apart. All its
//! commits for an apply, those of an interval for a spill.
//!
//! Invariants
//! 1. Versions of a key fold newest over older; what a newer range delete covers is left out
//!    (Rule: I26).
//! 2. Nothing is folded that a snapshot could still ask for: who needs older versions holds the
//!    memtable itself, and the intervals of a spill end where snapshots stand.
//! 3. No Merge has more than [`OPERANDS_PER_INLINE_VALUE`] times the longest inline value of operands: what
//!    is below is read, and the value travels on, unless it cannot be read (Rule: I38). So lists of operands stay short, wherever in the tree they meet: a hot key's part of
//!    a memtable is pushed down after a few batches, long before the 64 MiB that a row may have.

use crate::{
    Message, Result, Seqno, Tag, TreeId,
    memtable::{DrainCursor, Memtable},
    run::{Entry, EntrySource, Folded, MergeCursor, RangeDeletes},
    sync::Arc,
    tree::{Batch, SortedRuns, SortedRunsCursor, TreeContext, TreeRoot},
    version::MemSlot,
};

/// Operands of one key that a batch carries, in lengths of the longest inline value: 256 KiB, where a
/// read of the value below costs about what they do.
const OPERANDS_PER_INLINE_VALUE: usize = 4;

/// The walk over one tree of a frozen memtable.
struct MemtableBatch<'a> {
    drain: DrainCursor,
    /// Commits up to this one do not count.
    above: Seqno,
    cx: &'a TreeContext,
    /// What the batch goes in front of; `None`: that is not a tree alone, or must not be read, and operands stay as many as
    /// they are.
    below: Option<&'a TreeRoot>,
    ranges: RangeDeletes,
    key: Vec<u8>,
    payload: Vec<u8>,
    spare: Vec<u8>,
    tag: Option<Tag>,
}

/// The commits above `above` up to `through` as a batch of one tree, to go in front of `below`; `None`
/// if the memtable has nothing at all for it.
pub(super) fn batch_of<'a>(
    table: &Arc<Memtable>,
    tree: TreeId,
    (above, through): (Seqno, Seqno),
    cx: &'a TreeContext,
    below: &'a TreeRoot,
) -> Result<Option<Batch<'a>>> {
    batch_over(table, tree, (above, through), cx, Some(below))
}

fn batch_over<'a>(
    table: &Arc<Memtable>,
    tree: TreeId,
    (above, through): (Seqno, Seqno),
    cx: &'a TreeContext,
    below: Option<&'a TreeRoot>,
) -> Result<Option<Batch<'a>>> {
    let drain = table.drain_cursor(tree, through);
    let ranges = drain.range_deletes(above);
    let ranges = RangeDeletes::union(ranges.iter().map(|range| (range.from, range.to)).collect());
    let first = ranges.get(0).map(|(from, _)| from);
    let last = ranges.len().checked_sub(1).and_then(|last| ranges.get(last)).map(|(_, to)| to);
    let lows = first.into_iter().chain(table.min_key(tree));
    let highs = last.into_iter().chain(table.max_key(tree));
    let (Some(min_key), Some(max_key)) =
        (lows.min().map(<[u8]>::to_vec), highs.max().map(<[u8]>::to_vec))
    else {
        return Ok(None);
    };
    let bytes = table.tree_entries(tree).1 as u64;
    let mut source = MemtableBatch {
        drain,
        above,
        cx,
        below,
        ranges,
        key: Vec::new(),
        payload: Vec::new(),
        spare: Vec::new(),
        tag: None,
    };
    source.advance()?;
    Ok(Some(Batch { source: Box::new(source), min_key, max_key, bytes }))
}

/// What a memtable's commits do to a tree, as [`batch_of`] gives it; with the pieces of the commit that is alone in it
/// and was written beyond memory.
pub(super) fn batch_of_slot<'a>(
    slot: &MemSlot,
    tree: TreeId,
    commits: (Seqno, Seqno),
    cx: &'a Arc<TreeContext>,
    below: &'a TreeRoot,
) -> Result<Option<Batch<'a>>> {
    let pieces = slot.spilled().map_or(&[][..], |spilled| spilled.of(tree));
    if pieces.is_empty() {
        return batch_of(&slot.table, tree, commits, cx, below);
    }
    // Between it and the tree are the pieces.
    let newest = batch_over(&slot.table, tree, commits, cx, None)?;
    merged_batch(newest, pieces, cx, Some(below)).map(Some)
}

/// How many parts [`part_of_slot`] has.
pub(super) fn parts_of_slot(slot: &MemSlot, tree: TreeId) -> usize {
    1 + slot.spilled().map_or(0, |spilled| spilled.of(tree).len())
}

/// The same in parts, the first of which is the newest: a message of one is not folded with those of another, nor with
/// what is below (invariant 3 has to wait).
pub(super) fn part_of_slot<'a>(
    slot: &MemSlot,
    tree: TreeId,
    commits: (Seqno, Seqno),
    cx: &'a Arc<TreeContext>,
    part: usize,
) -> Result<Option<Batch<'a>>> {
    let pieces = slot.spilled().map_or(&[][..], |spilled| spilled.of(tree));
    match part.checked_sub(1).and_then(|piece| pieces.get(piece)) {
        Some(piece) => merged_batch(None, std::slice::from_ref(piece), cx, None).map(Some),
        None => batch_over(&slot.table, tree, commits, cx, None),
    }
}

/// A batch, if there is one, over pieces, newest first.
fn merged_batch<'a>(
    newest: Option<Batch<'a>>,
    pieces: &[Arc<SortedRuns>],
    cx: &'a Arc<TreeContext>,
    below: Option<&'a TreeRoot>,
) -> Result<Batch<'a>> {
    let (mut bytes, mut ends) = (0, Vec::new());
    let mut sources: Vec<Box<dyn EntrySource + 'a>> = Vec::with_capacity(pieces.len() + 1);
    if let Some(Batch { source, min_key, max_key, bytes: newest }) = newest {
        bytes += newest;
        ends.extend([min_key, max_key]);
        sources.push(source);
    }
    for piece in pieces {
        let mut cursor = SortedRunsCursor::bulk(cx, piece);
        cursor.seek_first()?;
        bytes += piece.bytes();
        ends.extend(
            piece.ends().into_iter().flat_map(|(first, last)| [first.to_vec(), last.to_vec()]),
        );
        sources.push(Box::new(cursor));
    }
    let (min_key, max_key) = (ends.iter().min().cloned(), ends.iter().max().cloned());
    let (key, payload, spare) = Default::default();
    let mut merged =
        Merged { merge: MergeCursor::new(sources), cx, below, key, payload, spare, tag: None };
    merged.advance()?;
    let (min_key, max_key) = (min_key.unwrap_or_default(), max_key.unwrap_or_default());
    Ok(Batch { source: Box::new(merged), min_key, max_key, bytes })
}

/// Several sources as one, folded. They have no range deletes.
struct Merged<'a> {
    merge: MergeCursor<Box<dyn EntrySource + 'a>>,
    cx: &'a TreeContext,
    /// As of a [`MemtableBatch`].
    below: Option<&'a TreeRoot>,
    key: Vec<u8>,
    payload: Vec<u8>,
    spare: Vec<u8>,
    tag: Option<Tag>,
}

impl EntrySource for Merged<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.tag.map(|tag| Entry { key: &self.key, tag, payload: &self.payload })
    }

    fn advance(&mut self) -> Result<()> {
        self.tag = None;
        let Some(entry) = self.merge.next_folded(&self.cx.folder())? else { return Ok(()) };
        self.tag = Some(entry.tag);
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.payload.clear();
        self.payload.extend_from_slice(entry.payload);
        let Some(below) = self.below else { return Ok(()) };
        let (payload, spare) = (&mut self.payload, &mut self.spare);
        bound_operands(self.cx, Some(below), &self.key, (&mut self.tag, payload, spare))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.entry().is_some_and(|entry| entry.key < key) {
            self.advance()?;
        }
        Ok(())
    }
}

/// Invariant 3.
fn bound_operands(
    cx: &TreeContext,
    below: Option<&TreeRoot>,
    key: &[u8],
    (tag, payload, spare): (&mut Option<Tag>, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<()> {
    let bytes_max = OPERANDS_PER_INLINE_VALUE * cx.shape.blob_bytes;
    if *tag != Some(Tag::MERGE) || payload.len() <= bytes_max {
        return Ok(());
    }
    let own = payload.clone();
    match put_onto(cx, below, key, (tag, payload, spare)) {
        // It waits above the damage like everything else.
        Err(error) if error.is_of_a_page() => {
            *payload = own;
            Ok(())
        }
        put => put,
    }
}

/// Makes a Put of a Merge over what is below, if anything can be.
fn put_onto(
    cx: &TreeContext,
    below: Option<&TreeRoot>,
    key: &[u8],
    (tag, payload, spare): (&mut Option<Tag>, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<()> {
    // Newest first, the batch's own in front.
    let mut versions = vec![(Tag::MERGE, std::mem::take(payload))];
    if let Some(below) = below {
        below.get(cx, key, &mut |lookup| {
            let message = lookup.message();
            versions.push((message.tag, message.payload.to_vec()));
            Ok(())
        })?;
    }
    let folder = cx.folder();
    let versions = versions.iter().map(|(tag, payload)| Message::new(*tag, payload));
    let folded = folder.fold_versions(versions, true, payload, spare)?;
    let folded = folded.unwrap_or(Tag::MERGE);
    if let Folded::Made(_) = folder.settle(Message::new(folded, payload), spare)? {
        std::mem::swap(payload, spare);
    }
    // Whatever is below stays there, hidden: never fresh.
    *tag = Some(Tag::PUT);
    Ok(())
}

impl EntrySource for MemtableBatch<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.tag.map(|tag| Entry { key: &self.key, tag, payload: &self.payload })
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            self.tag = None;
            let Some(drained) = self.drain.next() else { return Ok(()) };
            let (above, cover) = (self.above, drained.cover);
            let counts = |seqno| seqno > above && cover.is_none_or(|cover| seqno >= cover);
            let versions = drained.versions.take_while(|(seqno, _)| counts(*seqno));
            let versions = versions.map(|(_, message)| message);
            let (payload, spare) = (&mut self.payload, &mut self.spare);
            let tag = self.cx.folder().fold_versions(versions, false, payload, spare)?;
            if tag.is_some() {
                self.tag = tag;
                self.key.clear();
                self.key.extend_from_slice(drained.key);
                let Some(below) = self.below else { return Ok(()) };
                // What a range delete of the batch covers is gone from below (Rule: I26).
                let below = (!self.ranges.covers(&self.key)).then_some(below);
                let (payload, spare) = (&mut self.payload, &mut self.spare);
                return bound_operands(self.cx, below, &self.key, (&mut self.tag, payload, spare));
            }
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.entry().is_some_and(|entry| entry.key < key) {
            self.advance()?;
        }
        Ok(())
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        Some(&self.ranges)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
