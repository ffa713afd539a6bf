//! Block slots: one slot per block of an open run, where a reader finds a cached block without
//! asking the cache (a form of pointer swizzling).
//!
//! Reading one row through the cache writes three words that all readers of the block share: the
//! lock of a shard, the reference count of the block, and its use counter. Reading it through its
//! slot writes none.
//!
//! Invariants
//! 1. A slot holds a block only while the cache holds that block: a block that is evicted removes
//!    itself from its slot, and is never put into a slot again. Both happen under the block's own
//!    lock.
//! 2. A slot belongs to one run object. A block has at most one slot at a time: the one it was put
//!    into last.
//! 3. A block read through a slot stays alive for the reader by an `arc_swap` debt of the reader's
//!    thread, which costs no shared count.
//! 4. A block that was found in its slot since the cache last considered evicting it is not evicted
//!    that time: this is how the cache learns of uses that it does not see.
//!
//! Threads: all. Ranks: a block's lock is taken last; no lock of the cache is held meanwhile.

use std::{fmt, ops::Deref};

use arc_swap::{ArcSwapOption, Guard};

use super::block_bytes::BlockBytes;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// The slots of one run's blocks.
pub struct BlockSlots(Box<[ArcSwapOption<CacheEntry>]>);

/// A block that the cache holds, or has held.
#[derive(Debug)]
pub(super) struct CacheEntry {
    bytes: BlockBytes,
    /// See invariant 4. Readers write it at most once after each time that the cache reads it.
    was_used: AtomicBool,
    /// True once a reader has asked for the block.
    was_requested: AtomicBool,
    home: Mutex<Home>,
}

#[derive(Debug)]
enum Home {
    /// The slots that may hold the block.
    At(Weak<BlockSlots>),
    /// The cache has evicted the block.
    Gone,
}

/// A block found in its slot. Short-lived: `arc_swap` has a small number of debt slots per thread.
pub struct SlotBlock(Guard<Option<Arc<CacheEntry>>>);

impl BlockSlots {
    /// Creates empty slots for `blocks` blocks.
    pub fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Self((0..blocks).map(|_| ArcSwapOption::empty()).collect()))
    }

    /// Memory that the slots of `blocks` blocks take.
    pub const fn bytes(blocks: usize) -> usize {
        blocks * size_of::<ArcSwapOption<CacheEntry>>()
    }

    /// Returns the block in this slot, if there is one, and marks it as used.
    #[inline]
    pub fn get(&self, index: usize) -> Option<SlotBlock> {
        let block = self.0.get(index)?.load();
        let was_used = &block.as_ref()?.was_used;
        // Relaxed: this is a hint. It is read first, since a word that is only read can be in the
        // caches of all processors at once.
        if !was_used.load(Ordering::Relaxed) {
            was_used.store(true, Ordering::Relaxed);
        }
        Some(SlotBlock(block))
    }

    /// Returns the block in this slot without counting a use: the cache does not keep the block
    /// because of it.
    pub fn peek(&self, index: usize) -> Option<SlotBlock> {
        let block = self.0.get(index)?.load();
        block.is_some().then_some(SlotBlock(block))
    }

    /// Puts a block into its slot, unless the cache has evicted it.
    pub(super) fn put(self: &Arc<Self>, index: usize, block: &Arc<CacheEntry>) {
        let Some(place) = self.0.get(index) else { return };
        let mut home = block.home.lock().unwrap();
        if let Home::At(places) = &mut *home {
            let before = std::mem::replace(places, Arc::downgrade(self));
            place.store(Some(block.clone()));
            // The slots of the same run before it was closed and opened again.
            if let Some(before) = before.upgrade().filter(|before| !Arc::ptr_eq(before, self)) {
                before.empty(index);
            }
        }
    }

    /// The reference count of the block in this slot.
    #[cfg(test)]
    pub fn counts(&self, index: usize) -> usize {
        // The slot's own reference is one of them.
        self.0[index].load_full().map_or(0, |block| Arc::strong_count(&block) - 1)
    }

    fn empty(&self, index: usize) {
        if let Some(place) = self.0.get(index) {
            place.store(None);
        }
    }

    /// True if the slot holds a block.
    fn has(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|place| place.load().is_some())
    }
}

impl CacheEntry {
    pub fn new(bytes: BlockBytes, was_requested: bool) -> Arc<Self> {
        let (was_used, home) = (AtomicBool::new(false), Mutex::new(Home::At(Weak::new())));
        Arc::new(Self { bytes, was_used, was_requested: AtomicBool::new(was_requested), home })
    }

    /// True if a reader has asked for the block.
    pub fn was_requested(&self) -> bool {
        self.was_requested.load(Ordering::Relaxed)
    }

    /// Records that a reader asks for the block.
    pub fn mark_requested(&self) {
        if !self.was_requested() {
            self.was_requested.store(true, Ordering::Relaxed);
        }
    }

    pub fn bytes(&self) -> &BlockBytes {
        &self.bytes
    }

    /// True if the block was found in its slot since the last call.
    pub fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed) && self.was_used.swap(false, Ordering::Relaxed)
    }

    /// Called when the cache has evicted the block: removes it from its slot `index`, if it is in
    /// one.
    pub fn leave(&self, index: usize) {
        let left = std::mem::replace(&mut *self.home.lock().unwrap(), Home::Gone);
        // From here on nothing puts it into a slot. If another block has been put into the slot
        // meanwhile, it is removed too and comes back with its next use.
        if let Home::At(places) = left
            && let Some(places) = places.upgrade()
        {
            places.empty(index);
        }
    }
}

impl SlotBlock {
    /// Turns it into an owned reference, at the cost of one count.
    pub(super) fn keep(self) -> Option<Arc<CacheEntry>> {
        Guard::into_inner(self.0)
    }
}

impl Deref for SlotBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |block| &block.bytes)
    }
}

impl fmt::Debug for SlotBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotBlock({} bytes)", self.len())
    }
}

impl fmt::Debug for BlockSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = (0..self.0.len()).filter(|&index| self.has(index)).count();
        write!(f, "BlockSlots({taken} of {})", self.0.len())
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
    fn ask(cache: &BlockCache, slots: &Arc<BlockSlots>, block: usize) -> CachedBlock {
        let mut fill = |out: &mut [u8]| -> Result<u64> {
            out.fill(block as u8);
            Ok(1)
        };
        let slots = Some(slots);
        let load = Load { raw_bytes: BYTES, fill: &mut fill, unpack: &|_| None, slots };
        cache.block(key(block), load).unwrap()
    }

    #[test]
    fn a_repeated_read_finds_its_block_in_the_slot_without_counting() {
        let (cache, slots) = (cache(16), BlockSlots::new(4));
        drop(ask(&cache, &slots, 2));
        assert!(slots.get(2).is_none(), "once is by chance");
        drop(ask(&cache, &slots, 2));
        let before = slots.counts(2);
        assert_eq!(before, 2, "the cache has it, and its place");
        let found = slots.get(2).unwrap();
        assert!(found.len() == BYTES && found.iter().all(|&byte| byte == 2));
        assert_eq!(slots.counts(2), before);
        assert!(slots.get(1).is_none() && slots.get(4).is_none());
    }

    #[test]
    fn an_evicted_block_leaves_its_slot_but_lives_for_its_readers() {
        let (cache, slots) = (cache(16), BlockSlots::new(4));
        for block in [0, 0, 1, 1, 2, 2] {
            ask(&cache, &slots, block);
        }
        let found = slots.get(0).unwrap();
        cache.forget(&key(0));
        assert!(slots.get(0).is_none() && found.iter().all(|&byte| byte == 0));
        let held = ask(&cache, &slots, 1);
        cache.clear();
        assert!((0..3).all(|block| slots.get(block).is_none()));
        // A reader that still holds the evicted block does not put it into a slot either.
        slots.put(1, &slots_arc(&held));
        assert!(slots.get(1).is_none());
    }

    fn slots_arc(block: &CachedBlock) -> Arc<CacheEntry> {
        block.shared().clone()
    }

    #[test]
    fn a_reopened_run_has_the_only_slots() {
        let (cache, before, after) = (cache(16), BlockSlots::new(1), BlockSlots::new(1));
        ask(&cache, &before, 0);
        ask(&cache, &before, 0);
        ask(&cache, &after, 0);
        assert!(before.get(0).is_none() && after.get(0).is_some());
        cache.clear();
        assert!(after.get(0).is_none());
    }

    /// The cache sees none of the uses through a slot, and yet does not evict the block as unused;
    /// but a block that was used only once is not kept for ever.
    #[test]
    fn blocks_read_through_slots_stay_cached_and_unused_ones_are_evicted() {
        let (cache, slots) = (cache(64), BlockSlots::new(4000));
        for block in [0, 0, 1, 1] {
            ask(&cache, &slots, block);
        }
        assert!(slots.peek(1).is_some() && slots.get(1).is_some());
        for block in 2..4000 {
            ask(&cache, &slots, block);
            ask(&cache, &slots, block);
            assert!(slots.get(0).is_some(), "lost when block {block} came");
            // A `peek` does not keep the block.
            drop(slots.peek(1));
        }
        assert!(!cache.holds(&key(1)) && slots.get(1).is_none());
        cache.set_capacity(0);
        assert_eq!((cache.stats().blocks, slots.get(0).is_none()), (0, true));
    }
}
