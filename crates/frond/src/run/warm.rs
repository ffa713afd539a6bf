//! Keeping blocks in use cached when a merge rewrites them.
//!
//! A merge gives rows new blocks. Readers for which the old blocks were in memory would then have
//! to read each new block from the device, although the merge has just had it in memory. So a
//! builder that knows which old blocks its rows come from puts the new ones into the cache, in the
//! form that readers search, if any reader has asked for the old ones since they were cached.
//! Blocks that no reader requests between two merges are not kept cached.
//!
//! Invariants
//! 1. A block enters the cache under the key that it will have in the run being built; no other run
//!    has that key, whether the run is finished or not.
//! 2. The cached bytes are those that a reader would decode from the stored bytes that the builder
//!    has just made.
//!
//! Threads: that of the merge. Cost of a block in use: a copy, and decoding its columns where the
//! cache has free space for the unpacked form; of any other block: one lookup.

use super::{Run, RunBuilder, builder::Warm};
use crate::{
    block::{Chunks, Codec, Format},
    cache::{BlockCache, BlockKey},
    sync::Arc,
};

impl RunBuilder {
    /// Also caches blocks that are made from blocks in use. To be called before the first row.
    pub fn keeps_warm(mut self, cache: &Arc<BlockCache>) -> Self {
        self.warm = Some(Warm { cache: cache.clone(), was_requested: false, block_in_use: false });
        self
    }

    /// Announces that rows pushed from here on come from block `index` of `from`, or lie between
    /// its rows.
    pub fn goes_through(&mut self, from: &Run, index: usize) {
        if let Some(warm) = &mut self.warm {
            warm.was_requested = warm.cache.was_requested(&from.block_key(index));
            warm.block_in_use |= warm.was_requested;
        }
    }

    /// Continues in the block in which another builder, now finished, stopped.
    pub fn continue_from(&mut self, before: &Self) {
        if let (Some(warm), Some(before)) = (&mut self.warm, &before.warm) {
            (warm.was_requested, warm.block_in_use) = (before.was_requested, before.was_requested);
        }
    }

    fn key_of(&self, index: usize) -> BlockKey {
        BlockKey { extent: self.extent, stamp: 0, block: index as u32 }
    }

    /// Called when block `index` of `from` was carried over as the last block.
    pub(super) fn carried_warm(&self, from: &Run, index: usize) {
        let Some(warm) = &self.warm else { return };
        if let Some(last) = self.index.len().checked_sub(1) {
            warm.cache.take_along(&from.block_key(index), self.key_of(last));
        }
    }

    /// True if the open block has rows of blocks in use.
    pub(super) fn makes_warm(&self) -> bool {
        self.warm.as_ref().is_some_and(|warm| warm.block_in_use)
    }

    /// Caches the last block, which has rows of blocks in use and is read as `block`.
    pub(super) fn made_warm(&mut self, block: &[u8], format: &Format) {
        let Some(last) = self.index.len().checked_sub(1) else { return };
        let key = self.key_of(last);
        let Some(warm) = &mut self.warm else { return };
        warm.block_in_use = warm.was_requested;
        let is_coded = self.options.codec != Codec::Raw;
        let unpack =
            |block: &[u8]| is_coded.then(|| format.unpack(block, &mut Chunks::default())).flatten();
        warm.cache.take_over(key, block, &unpack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::{BlockSource, FramePool, NoCache},
        message::Tag,
        run::{RunCursor, RunOptions, key_hash},
    };

    fn pool() -> Arc<FramePool> {
        FramePool::new(64 << 20)
    }

    fn builder(cache: &Arc<BlockCache>) -> RunBuilder {
        let options = RunOptions { codec: Codec::Zstd1, block_bytes: 1000, ..Default::default() };
        RunBuilder::new(pool(), options).keeps_warm(cache)
    }

    fn key(row: usize) -> Vec<u8> {
        format!("customer {row:07}").into_bytes()
    }

    /// Merges one change into every twentieth row, block by block as leaves are walked.
    fn merged(from: &Arc<Run>, cache: &Arc<BlockCache>, payload: &[u8], carry: bool) -> Arc<Run> {
        let mut builder = builder(cache);
        let mut cursor = RunCursor::bulk(from.clone());
        for index in 0..from.block_count() {
            if carry && index % 2 == 1 {
                let encoded = cursor.carried_block(index).unwrap().to_vec();
                builder.carry_block(from, index, &encoded).unwrap();
                continue;
            }
            builder.goes_through(from, index);
            cursor.start_at_block(index).unwrap();
            while let Some(entry) = cursor.entry() {
                let is_changed = entry.key.ends_with(b"10") || entry.key.ends_with(b"50");
                let payload = if is_changed { payload } else { entry.payload };
                builder.push(entry.key, Tag::PUT, payload).unwrap();
                cursor.advance_in_block().unwrap();
            }
        }
        builder.finish().unwrap().unwrap()
    }

    fn get(run: &Run, row: usize, source: &dyn BlockSource) -> Option<Vec<u8>> {
        let key = key(row);
        let found = run.get(&key, key_hash(&key), source).unwrap();
        found.map(|found| found.payload().to_vec())
    }

    #[test]
    fn a_merge_keeps_only_recently_read_blocks_in_the_cache() {
        for carry in [false, true] {
            let cache = BlockCache::new(pool(), 4 << 20);
            let mut first = builder(&cache);
            for row in 0..4000 {
                first.push(&key(row), Tag::PUT, format!("row {row}").as_bytes()).unwrap();
            }
            let first = first.finish().unwrap().unwrap();
            assert_eq!(cache.stats().blocks, 0, "none of its rows was read");
            for row in (0..1000).step_by(10) {
                get(&first, row, &*cache).unwrap();
            }
            let second = merged(&first, &cache, b"second", carry);
            let loaded = cache.stats().misses;
            for row in 0..1000 {
                let read = get(&second, row, &*cache);
                assert_eq!(read, get(&second, row, &NoCache(pool())), "row {row}, carry {carry}");
            }
            assert_eq!(cache.stats().misses, loaded, "all were there, carry {carry}");
            let held = |run: &Run| {
                let blocks = 0..run.block_count();
                blocks.filter(|&index| cache.holds(&run.block_key(index))).count()
            };
            let (some, all) = (held(&second), second.block_count());
            assert!((all / 5..all / 3).contains(&some), "{some} of {all}");
            // The third run is not read before the fourth is made from it.
            let third = merged(&second, &cache, b"third", carry);
            assert_eq!(held(&third), some);
            let fourth = merged(&third, &cache, b"fourth", carry);
            assert_eq!(held(&fourth), 0);
            assert_eq!(get(&fourth, 10, &*cache).unwrap(), b"fourth");
        }
    }
}
