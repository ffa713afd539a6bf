//! One tree's part of a frozen memtable as a batch: one message per key, range deletes apart. An
//! apply uses all commits of the memtable, a spill those in an interval of seqnos.
//!
//! Invariants
//! 1. Versions of a key fold newest over older; what a newer range delete covers is left out (Rule:
//!    I26).
//! 2. Nothing is folded that a snapshot could still read separately: readers that need older
//!    versions hold the memtable itself, and the intervals of a spill end where snapshots are.
//! 3. The operands of a Merge take at most [`OPERANDS_PER_INLINE_VALUE`] times the length of the
//!    longest inline value. If they take more, the value below is read and the batch carries a Put
//!    of the result, unless it cannot be read (Rule: I38). So lists of operands stay short,
//!    wherever in the tree they meet: a hot key's part of a memtable is pushed down after a few
//!    batches, long before they reach the 64 MiB limit of a row.

use crate::{
    Result, Seqno, TreeId,
    memtable::{ApplyCursor, Memtable},
    message::{Message, Tag},
    run::{Entry, EntrySource, Folded, MergeCursor, RangeDeletes},
    sync::Arc,
    tree::{Batch, SortedRuns, SortedRunsCursor, TreeContext, TreeRoot},
    version::MemtableRef,
};

/// Maximum length of one key's operands in a batch, as a multiple of the longest inline value. This
/// is 256 KiB, where a read of the value below costs about as much as the operands do.
const OPERANDS_PER_INLINE_VALUE: usize = 4;

/// An iterator over one tree of a frozen memtable.
struct MemtableBatch<'a> {
    cursor: ApplyCursor,
    /// Commits up to and including this one are skipped.
    above: Seqno,
    cx: &'a TreeContext,
    /// The tree that the batch goes in front of. `None` if there is more than a tree below, or if
    /// it must not be read; then operands are not bounded.
    below: Option<&'a TreeRoot>,
    ranges: RangeDeletes,
    key: Vec<u8>,
    payload: Vec<u8>,
    spare: Vec<u8>,
    tag: Option<Tag>,
}

/// The commits above `above` up to `through` as a batch of one tree, to go in front of `below`;
/// `None` if the memtable has nothing at all for the tree.
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
    let cursor = table.apply_cursor(tree, through);
    let ranges = cursor.range_deletes(above);
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
        cursor,
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

/// A memtable's commits as a batch of one tree, like [`batch_of`]. If the memtable holds a single
/// commit that was spilled, its pieces are included.
pub(super) fn batch_of_slot<'a>(
    slot: &MemtableRef,
    tree: TreeId,
    commits: (Seqno, Seqno),
    cx: &'a Arc<TreeContext>,
    below: &'a TreeRoot,
) -> Result<Option<Batch<'a>>> {
    let pieces = slot.spilled().map_or(&[][..], |spilled| spilled.of(tree));
    if pieces.is_empty() {
        return batch_of(&slot.table, tree, commits, cx, below);
    }
    // The pieces lie between the memtable's part and the tree.
    let newest = batch_over(&slot.table, tree, commits, cx, None)?;
    merged_batch(newest, pieces, cx, Some(below)).map(Some)
}

/// Number of parts that [`part_of_slot`] can return.
pub(super) fn parts_of_slot(slot: &MemtableRef, tree: TreeId) -> usize {
    1 + slot.spilled().map_or(0, |spilled| spilled.of(tree).len())
}

/// One part of the batch that [`batch_of_slot`] returns; part 0 is the newest. Messages of
/// different parts are not folded with each other or with what is below, so invariant 3 does not
/// hold for them.
pub(super) fn part_of_slot<'a>(
    slot: &MemtableRef,
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

/// Merges pieces, newest first, and a batch newer than all of them, if there is one.
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

/// Several sources merged and folded into one. They have no range deletes.
struct Merged<'a> {
    merge: MergeCursor<Box<dyn EntrySource + 'a>>,
    cx: &'a TreeContext,
    /// See [`MemtableBatch::below`].
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

/// Keeps the operands of a key within their bound (invariant 3).
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
        // The operands wait above the damage, like everything else.
        Err(error) if error.concerns_a_page() => {
            *payload = own;
            Ok(())
        }
        put => put,
    }
}

/// Turns a Merge into a Put by folding it over what is below; without anything below, over nothing.
fn put_onto(
    cx: &TreeContext,
    below: Option<&TreeRoot>,
    key: &[u8],
    (tag, payload, spare): (&mut Option<Tag>, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<()> {
    // Newest first, starting with the batch's own.
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
    if let Folded::Made(_) = folder.for_leaf(Message::new(folded, payload), spare)? {
        std::mem::swap(payload, spare);
    }
    // Whatever is below stays there, hidden, so the Put is never fresh.
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
            let Some(next) = self.cursor.next() else { return Ok(()) };
            let (above, cover) = (self.above, next.cover);
            let counts = |seqno| seqno > above && cover.is_none_or(|cover| seqno >= cover);
            let versions = next.versions.take_while(|(seqno, _)| counts(*seqno));
            let versions = versions.map(|(_, message)| message);
            let (payload, spare) = (&mut self.payload, &mut self.spare);
            let tag = self.cx.folder().fold_versions(versions, false, payload, spare)?;
            if tag.is_some() {
                self.tag = tag;
                self.key.clear();
                self.key.extend_from_slice(next.key);
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
