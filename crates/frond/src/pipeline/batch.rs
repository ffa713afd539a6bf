//! A frozen memtable's part of one tree as a batch: one message a key, range deletes apart. All its
//! commits for an apply, those of an interval for a spill.
//!
//! Invariants
//! 1. Versions of a key fold newest over older; what a newer range delete covers is left out
//!    (Rule: I26).
//! 2. Nothing is folded that a snapshot could still ask for: who needs older versions holds the
//!    memtable itself, and the intervals of a spill end where snapshots stand.

use crate::{
    Result, Seqno, Tag, TreeId,
    memtable::{DrainCursor, Memtable},
    run::{Entry, EntrySource, Folder, RangeDeletes},
    sync::Arc,
    tree::{Batch, TreeContext},
};

/// The walk over one tree of a frozen memtable.
struct MemtableBatch<'a> {
    drain: DrainCursor,
    /// Commits up to this one do not count.
    above: Seqno,
    folder: Folder<'a>,
    ranges: RangeDeletes,
    key: Vec<u8>,
    payload: Vec<u8>,
    spare: Vec<u8>,
    tag: Option<Tag>,
}

/// The commits above `above` up to `through` as a batch of one tree; `None` if the memtable has
/// nothing at all for it.
pub(super) fn batch_of<'a>(
    table: &Arc<Memtable>,
    tree: TreeId,
    (above, through): (Seqno, Seqno),
    cx: &'a TreeContext,
) -> Result<Option<Batch<'a>>> {
    let drain = table.drain_cursor(tree, through);
    let owned: Vec<(Vec<u8>, Vec<u8>)> = drain
        .range_deletes()
        .iter()
        .filter(|range| range.seqno > above)
        .map(|range| (range.from.to_vec(), range.to.to_vec()))
        .collect();
    let lows = owned.iter().map(|(from, _)| from.as_slice()).chain(table.min_key(tree));
    let highs = owned.iter().map(|(_, to)| to.as_slice()).chain(table.max_key(tree));
    let (Some(min_key), Some(max_key)) =
        (lows.min().map(<[u8]>::to_vec), highs.max().map(<[u8]>::to_vec))
    else {
        return Ok(None);
    };
    let bytes = table.tree_entries(tree).1 as u64;
    let mut source = MemtableBatch {
        drain,
        above,
        folder: cx.folder(),
        ranges: RangeDeletes::union(owned),
        key: Vec::new(),
        payload: Vec::new(),
        spare: Vec::new(),
        tag: None,
    };
    source.advance()?;
    Ok(Some(Batch { source: Box::new(source), min_key, max_key, bytes }))
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
            let tag = self.folder.fold_versions(versions, false, payload, spare)?;
            if tag.is_some() {
                self.tag = tag;
                self.key.clear();
                self.key.extend_from_slice(drained.key);
                return Ok(());
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
