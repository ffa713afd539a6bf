//! The rank of a key within a block, for estimates. The block must be in memory: in the run's
//! frames, or in its slot, that is, in the cache and requested more than once (`cache/slots.rs`).
//!
//! A block of a secondary index holds a thousand entries. Without searching the block, `k = 5`
//! would be estimated at hundreds of rows, and an optimizer would prefer to scan a small table.
//!
//! Invariant: nothing is read from the file (Rule: I51).
//!
//! Threads: all. Cost: a search in one block. That is a few hundred nanoseconds, unless a column of
//! the key is under a codec: such a column is decoded for each search.

use super::{block_ref::BlockRef, reader::Run};

impl Run {
    /// Returns how many rows of block `index` have keys below `key`; `None` if the block is not in
    /// memory, or is damaged.
    pub(super) fn rows_below(&self, index: usize, key: &[u8]) -> Option<u32> {
        let block = self.resident_block(index)?;
        let rows = self.format().rows_below(&block, key).ok()?;
        u32::try_from(rows).ok()
    }

    fn resident_block(&self, index: usize) -> Option<BlockRef> {
        if let Some(block) = self.peek_slot(index) {
            return Some(BlockRef::InSlot(block));
        }
        let (data, part) = self.raw_in_frames(self.blocks().entry(index)?)?;
        Some(BlockRef::InFrames(data, part))
    }
}
