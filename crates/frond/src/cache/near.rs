//! Blocks at hand: places beside a run, one for each of its blocks, where a reader finds a block of the cache without the
//! cache. A read of one row by way of the cache writes three words that all readers of the block share: the lock of a
//! shard, the count of the block, how often it was used. By way of its place it writes none.
//!
//! Invariants
//! 1. A place has a block only while the cache holds that block: a block that leaves takes itself out of its place, and one
//!    that has left is put nowhere any more. Both are done under the block's own lock.
//! 2. A place belongs to one run object, a block has one place at a time: the last that it was put into.
//! 3. What was read in a place stays alive for the reader by a debt of its thread (`arc_swap`), which costs no shared count.
//! 4. A block that was found in its place since the cache last thought of letting it go is not let go that time: what the
//!    cache does not see of its use it is told so.
//!
//! Threads: all. Ranks: a block's lock is taken last; no lock of the cache is held meanwhile.

use std::{fmt, ops::Deref};

use arc_swap::{ArcSwapOption, Guard};

use super::blocks::BlockBytes;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// The places of one run's blocks.
pub struct Near(Box<[ArcSwapOption<Block>]>);

/// A block that the cache holds, or has held.
#[derive(Debug)]
pub(super) struct Block {
    bytes: BlockBytes,
    /// Invariant 4. Readers write it once for each time that it is asked for.
    was_used: AtomicBool,
    /// A reader has asked for it.
    in_use: AtomicBool,
    home: Mutex<Home>,
}

#[derive(Debug)]
enum Home {
    /// These places, in which it may be.
    At(Weak<Near>),
    /// The cache has let it go.
    Gone,
}

/// A block found in its place. To be let go soon: a thread has few debts.
pub struct NearBlock(Guard<Option<Arc<Block>>>);

impl Near {
    /// Empty places.
    pub fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Self((0..blocks).map(|_| ArcSwapOption::empty()).collect()))
    }

    /// Memory of so many places.
    pub const fn bytes(blocks: usize) -> usize {
        blocks * size_of::<ArcSwapOption<Block>>()
    }

    /// The block of this place, if it is there.
    #[inline]
    pub fn get(&self, index: usize) -> Option<NearBlock> {
        let block = self.0.get(index)?.load();
        let was_used = &block.as_ref()?.was_used;
        // Relaxed: a hint. Asked first, for a word that is only read may be with all processors at once.
        if !was_used.load(Ordering::Relaxed) {
            was_used.store(true, Ordering::Relaxed);
        }
        Some(NearBlock(block))
    }

    /// The same of a look that is no use of the block: the cache does not keep it for that.
    pub fn peek(&self, index: usize) -> Option<NearBlock> {
        let block = self.0.get(index)?.load();
        block.is_some().then_some(NearBlock(block))
    }

    /// Puts a block into its place, unless the cache has let it go.
    pub(super) fn put(self: &Arc<Self>, index: usize, block: &Arc<Block>) {
        let Some(place) = self.0.get(index) else { return };
        let mut home = block.home.lock().unwrap();
        if let Home::At(places) = &mut *home {
            let before = std::mem::replace(places, Arc::downgrade(self));
            place.store(Some(block.clone()));
            // Of the same run, closed and opened again meanwhile.
            if let Some(before) = before.upgrade().filter(|before| !Arc::ptr_eq(before, self)) {
                before.empty(index);
            }
        }
    }

    /// How many count themselves at the block of this place.
    #[cfg(test)]
    pub fn counts(&self, index: usize) -> usize {
        // Its own is one of them.
        self.0[index].load_full().map_or(0, |block| Arc::strong_count(&block) - 1)
    }

    fn empty(&self, index: usize) {
        if let Some(place) = self.0.get(index) {
            place.store(None);
        }
    }

    /// Whether the place is taken.
    fn has(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|place| place.load().is_some())
    }
}

impl Block {
    pub fn new(bytes: BlockBytes, in_use: bool) -> Arc<Self> {
        let (was_used, home) = (AtomicBool::new(false), Mutex::new(Home::At(Weak::new())));
        Arc::new(Self { bytes, was_used, in_use: AtomicBool::new(in_use), home })
    }

    /// Whether a reader has asked for it.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// A reader asks for it.
    pub fn use_it(&self) {
        if !self.is_in_use() {
            self.in_use.store(true, Ordering::Relaxed);
        }
    }

    pub fn bytes(&self) -> &BlockBytes {
        &self.bytes
    }

    /// Whether it was found in its place since this was last asked.
    pub fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed) && self.was_used.swap(false, Ordering::Relaxed)
    }

    /// The cache has let go of it, which was in this place if in any.
    pub fn leave(&self, index: usize) {
        let left = std::mem::replace(&mut *self.home.lock().unwrap(), Home::Gone);
        // Behind this nobody puts it anywhere. Another block may be in the place by now, and comes again.
        if let Home::At(places) = left
            && let Some(places) = places.upgrade()
        {
            places.empty(index);
        }
    }
}

impl NearBlock {
    /// The block for as long as it takes: one count.
    pub(super) fn keep(self) -> Option<Arc<Block>> {
        Guard::into_inner(self.0)
    }
}

impl Deref for NearBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |block| &block.bytes)
    }
}

impl fmt::Debug for NearBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NearBlock({} bytes)", self.len())
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = (0..self.0.len()).filter(|&index| self.has(index)).count();
        write!(f, "Near({taken} of {})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::{BlockCache, BlockKey, BlockSource, CachedBlock, FRAME_BYTES, FramePool, Load},
        error::Result,
    };

    const BYTES: usize = 9000;

    fn cache(blocks: usize) -> Arc<BlockCache> {
        BlockCache::new(FramePool::new(8 << 20), blocks * FRAME_BYTES)
    }

    fn key(block: usize) -> BlockKey {
        BlockKey { extent: 4096, stamp: 1, block: block as u32 }
    }

    /// Asks the cache for a block, which is filled with its number.
    fn ask(cache: &BlockCache, near: &Arc<Near>, block: usize) -> CachedBlock {
        let mut fill = |out: &mut [u8]| -> Result<u64> {
            out.fill(block as u8);
            Ok(1)
        };
        let near = Some(near);
        let load = Load { raw_bytes: BYTES, fill: &mut fill, unpack: &|_| None, near };
        cache.block(key(block), load).unwrap()
    }

    #[test]
    fn what_is_asked_for_again_is_found_in_its_place_without_a_count() {
        let (cache, near) = (cache(16), Near::new(4));
        drop(ask(&cache, &near, 2));
        assert!(near.get(2).is_none(), "once is by chance");
        drop(ask(&cache, &near, 2));
        let before = near.counts(2);
        assert_eq!(before, 2, "the cache has it, and its place");
        let found = near.get(2).unwrap();
        assert!(found.len() == BYTES && found.iter().all(|&byte| byte == 2));
        assert_eq!(near.counts(2), before);
        assert!(near.get(1).is_none() && near.get(4).is_none());
    }

    #[test]
    fn what_the_cache_lets_go_is_in_no_place_and_lives_for_who_looks_at_it() {
        let (cache, near) = (cache(16), Near::new(4));
        for block in [0, 0, 1, 1, 2, 2] {
            ask(&cache, &near, block);
        }
        let found = near.get(0).unwrap();
        cache.forget(&key(0));
        assert!(near.get(0).is_none() && found.iter().all(|&byte| byte == 0));
        let held = ask(&cache, &near, 1);
        cache.clear();
        assert!((0..3).all(|block| near.get(block).is_none()));
        // Nor is it put there by who has it from before.
        near.put(1, &near_arc(&held));
        assert!(near.get(1).is_none());
    }

    fn near_arc(block: &CachedBlock) -> Arc<Block> {
        block.shared().clone()
    }

    #[test]
    fn a_run_that_is_opened_again_has_the_only_place() {
        let (cache, before, after) = (cache(16), Near::new(1), Near::new(1));
        ask(&cache, &before, 0);
        ask(&cache, &before, 0);
        ask(&cache, &after, 0);
        assert!(before.get(0).is_none() && after.get(0).is_some());
        cache.clear();
        assert!(after.get(0).is_none());
    }

    /// The cache hears of none of its uses, and yet does not take it for unused; nor does it keep for ever what was used once.
    #[test]
    fn what_is_used_in_its_place_stays_and_what_is_not_goes() {
        let (cache, near) = (cache(64), Near::new(4000));
        for block in [0, 0, 1, 1] {
            ask(&cache, &near, block);
        }
        assert!(near.peek(1).is_some() && near.get(1).is_some());
        for block in 2..4000 {
            ask(&cache, &near, block);
            ask(&cache, &near, block);
            assert!(near.get(0).is_some(), "lost when block {block} came");
            // A look that is no use does not keep it.
            drop(near.peek(1));
        }
        assert!(!cache.holds(&key(1)) && near.get(1).is_none());
        cache.set_capacity(0);
        assert_eq!((cache.stats().blocks, near.get(0).is_none()), (0, true));
    }
}
