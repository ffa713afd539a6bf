//! Start of a chunk of a backward scan.
//!
//! Chunks are merged forward, so a chunk that is returned from its end needs a start. It should be
//! near enough that few rows are merged in vain, and no nearer than a block of the leaf, which is
//! decoded as a whole.
//!
//! Threads: one.

use crate::{
    Result,
    run::EntrySource,
    tree::{LeafStretch, SortedRunsCursor},
    version::Version,
};

use super::Cursor;

/// How many entries of a memtable are searched for the start of a backward chunk.
const BACK_STEPS: usize = 256;

impl Cursor {
    /// The start of a backward chunk that ends at `below`: the nearest start of a block of the
    /// stretch's largest run, or [`BACK_STEPS`] entries back in a memtable, whichever is nearer.
    pub(super) fn piece_start(
        &self,
        version: &Version,
        stretch: &LeafStretch,
        below: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let mut start: Option<Vec<u8>> = stretch.lo.as_deref().map(<[u8]>::to_vec);
        let largest = stretch.runs.iter().max_by_key(|part| part.run.meta.bytes);
        if let Some(part) = largest {
            let run = part.run.open(&self.snapshot.engine.cx)?;
            let blocks = run.blocks();
            let block = below.map_or(blocks.len().saturating_sub(1), |key| {
                let block = run.block_for(key);
                // A block that starts at the key itself has nothing below it.
                if blocks.separator(block) >= key { block.saturating_sub(1) } else { block }
            });
            if block > 0 {
                start = start.max(Some(blocks.separator(block).to_vec()));
            }
        }
        for slot in version.memtables() {
            let mut cursor = slot.table.cursor(self.tree, self.snapshot.seqno());
            match below {
                Some(key) => cursor.seek_below(key),
                None => cursor.seek_last(),
            }
            for _ in 0..BACK_STEPS {
                if !cursor.is_valid() {
                    break;
                }
                cursor.prev();
            }
            if let Some(key) = cursor.key() {
                start = start.max(Some(key.to_vec()));
            }
            for piece in slot.spilled_at(self.tree, self.snapshot.seqno()) {
                let mut cursor =
                    SortedRunsCursor::new(&self.snapshot.engine.cx, piece, (None, None));
                match below {
                    Some(key) => cursor.seek_before(key)?,
                    None => cursor.seek_last()?,
                }
                for _ in 0..BACK_STEPS {
                    cursor.retreat()?;
                }
                start = start.max(cursor.entry().map(|entry| entry.key.to_vec()));
            }
        }
        Ok(start)
    }
}
