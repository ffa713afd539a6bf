//! The block cache: blocks of runs in the form that readers search, so that a cached point read
//! costs one search. Row blocks are kept decompressed. Columnar blocks are kept as they are stored,
//! or unpacked where the cache has free space.
//!
//! Invariants
//! 1. A key names one content for ever: [`BlockKey`] holds the extent's hash, or a number that is
//!    never reused, so a reused extent needs no invalidation. Blocks of runs that die are
//!    removed all the same ([`BlockCache::forget`]): they would only push others out.
//! 2. A block enters the cache only after its checksum and its structure were checked.
//! 3. A block that a reader holds stays alive by its reference count, evicted or not.
//! 4. If the memory that the cache may have is too fragmented for the next block, the cache evicts
//!    some blocks, and holds that much less for a while, before more memory is taken from the
//!    system.
//!
//! Threads: all; the cache is sharded, and two threads that miss the same block read it once. Scan
//! resistance comes from `quick_cache` (S3-FIFO); bulk readers bypass the cache.

use std::{fmt, ops::Deref};

use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter, sync::Cache};

use super::{
    block_bytes::{BlockBytes, FromPool},
    frames::{FRAME_BYTES, FramePool, Memory},
    slots::{BlockSlots, CacheEntry, SlotBlock},
};
use crate::{
    error::{Error, Result},
    striped::Striped,
    sync::{Arc, AtomicU64, Mutex, Ordering},
};

/// The name of one block of one extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockKey {
    /// Offset of the extent, or a number above all offsets for one not yet written.
    pub extent: u64,
    /// Hash of the extent's footer; 0 for an extent not yet written.
    pub stamp: u64,
    /// Number of the block in the extent.
    pub block: u32,
}

/// How to load a block that is not cached.
pub struct Load<'a> {
    /// Length of the block as it is searched, before unpacking.
    pub raw_bytes: usize,
    /// Fills and checks that many bytes, and returns how many it read from the device.
    pub fill: &'a mut dyn FnMut(&mut [u8]) -> Result<u64>,
    /// Converts the block to a form that is faster to read and takes more memory, if there is one.
    pub unpack: &'a dyn Fn(&[u8]) -> Option<Box<[u8]>>,
    /// The slots of the block's run: the block is put there when it is asked for a second time.
    pub slots: Option<&'a Arc<BlockSlots>>,
}

/// A source of blocks in the form that readers search.
pub trait BlockSource: Send + Sync + fmt::Debug {
    /// Returns the block of this key, loading it if it is not cached. The block may be unpacked,
    /// and so longer than `raw_bytes`.
    fn block(&self, key: BlockKey, load: Load<'_>) -> Result<CachedBlock>;

    /// True if the block is not cached, and loading it now would cache it.
    fn wants(&self, key: &BlockKey) -> bool;

    /// Counts a block that was found in its slot, without the cache.
    fn found_in_slot(&self) {}
}

/// A block in the form that readers search, shared with the cache.
#[derive(Clone, Debug)]
pub struct CachedBlock(Arc<CacheEntry>);

/// What an entry costs in addition to its bytes: key, links and counters in the cache, and the
/// shared header.
const ENTRY_BYTES: u64 = 144;

fn as_much_as_it_takes(pool: &Arc<FramePool>, bytes: usize) -> Memory {
    pool.memory(bytes).unwrap_or_else(|| pool.memory_beyond(bytes))
}

impl CachedBlock {
    /// Fills a new block, and returns it with the number of bytes read from the device.
    pub fn load(
        pool: &Arc<FramePool>,
        raw_bytes: usize,
        load: &mut dyn FnMut(&mut [u8]) -> Result<u64>,
    ) -> Result<(CachedBlock, u64)> {
        Self::load_into(raw_bytes, &|bytes| as_much_as_it_takes(pool, bytes), load)
    }

    fn load_into(
        raw_bytes: usize,
        from_pool: FromPool<'_>,
        load: &mut dyn FnMut(&mut [u8]) -> Result<u64>,
    ) -> Result<(CachedBlock, u64)> {
        let mut bytes = BlockBytes::new(raw_bytes, from_pool)?;
        let device_bytes = load(bytes.bytes_mut())?;
        // The block counts as in use: the caller that loads it is a reader.
        Ok((CachedBlock(CacheEntry::new(bytes, true)), device_bytes))
    }

    /// The shared block itself.
    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<CacheEntry> {
        &self.0
    }

    fn weight(&self) -> u64 {
        ENTRY_BYTES + self.0.bytes().held_bytes() as u64
    }
}

impl Deref for CachedBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Keeps a block that was found in its slot for longer than one call.
impl From<SlotBlock> for Option<CachedBlock> {
    fn from(block: SlotBlock) -> Self {
        block.keep().map(CachedBlock)
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

/// The cache's eviction hooks.
#[derive(Clone, Debug)]
struct Leaving;

/// Blocks that a call evicts. They leave their slots when this is dropped, after the cache's locks
/// are released.
#[derive(Default)]
struct Left(Vec<(BlockKey, CachedBlock)>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(key, block)| block.0.leave(key.block as usize));
    }
}

impl Lifecycle<BlockKey, CachedBlock> for Leaving {
    type RequestState = Left;

    /// A block that was used through its slot, where the cache does not see it, survives this round
    /// (`slots.rs`, invariant 4).
    fn is_pinned(&self, _: &BlockKey, block: &CachedBlock) -> bool {
        block.0.was_used()
    }

    fn on_evict(&self, left: &mut Left, key: BlockKey, block: CachedBlock) {
        left.0.push((key, block));
    }
}

impl Weighter<BlockKey, CachedBlock> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &CachedBlock) -> u64 {
        block.weight()
    }
}

/// What the cache has done since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCacheStats {
    /// Blocks found.
    pub hits: u64,
    /// Blocks that were not found and had to be loaded.
    pub misses: u64,
    /// Loads that went to the device.
    pub device_reads: u64,
    /// Bytes that these read.
    pub device_read_bytes: u64,
    /// Bytes held now.
    pub resident_bytes: u64,
    /// Bytes that may be held.
    pub capacity_bytes: u64,
    /// Blocks held now.
    pub blocks: u64,
}

/// How much the cache may hold.
#[derive(Debug)]
struct Share {
    /// The bytes that the memory budget grants to the cache.
    granted: u64,
    /// The part of them that the cache does without, because memory is fragmented.
    withheld: u64,
}

/// Each grant gives back 1/64 of what is withheld; each failure to find a free span withholds 1/32
/// of what is held.
const WITHHELD_SHRINKS: u64 = 64;
const WITHHELD_GROWS: u64 = 32;

/// Number of stripes of the hit counter: with one counter, each read of a cached row would move its
/// cache line from processor to processor.
const HITS: usize = 16;

/// The block cache.
pub struct BlockCache {
    blocks: Cache<BlockKey, CachedBlock, ByBytes, DefaultHashBuilder, Leaving>,
    pool: Arc<FramePool>,
    share: Mutex<Share>,
    hits: Striped<AtomicU64, HITS>,
    misses: AtomicU64,
    device_reads: AtomicU64,
    device_read_bytes: AtomicU64,
}

impl BlockCache {
    /// Creates a cache of at most `bytes`, with memory from `pool`.
    pub fn new(pool: Arc<FramePool>, bytes: usize) -> Arc<Self> {
        let items = bytes / FRAME_BYTES + 1;
        Arc::new(Self {
            blocks: Cache::with(items, bytes as u64, ByBytes, Default::default(), Leaving),
            pool,
            share: Mutex::new(Share { granted: bytes as u64, withheld: 0 }),
            hits: Striped::default(),
            misses: AtomicU64::new(0),
            device_reads: AtomicU64::new(0),
            device_read_bytes: AtomicU64::new(0),
        })
    }

    /// Changes how much may be held, and evicts at once if that is less. To be called repeatedly:
    /// each call gives back a little of what the cache does without because memory is fragmented.
    pub fn set_capacity(&self, bytes: usize) {
        let mut share = self.share.lock().unwrap();
        share.granted = bytes as u64;
        let withheld = share.withheld - share.withheld.div_ceil(WITHHELD_SHRINKS);
        // Here and below, at least half is always kept, however fragmented memory is: blocks are
        // not to blame for memory that they do not fill.
        share.withheld = withheld.min(share.granted / 2);
        self.shrink_to(share.granted - share.withheld);
    }

    /// Evicts until at most `bytes` are held. This takes several rounds: in each, the cache keeps
    /// all blocks that were found in their slots since the round before.
    fn shrink_to(&self, bytes: u64) {
        const ROUNDS: usize = 3;
        for _ in 0..ROUNDS {
            self.blocks.set_capacity(bytes);
            if self.blocks.weight() <= self.blocks.capacity() {
                break;
            }
        }
    }

    /// Returns memory for a block, evicting blocks if necessary (invariant 4).
    fn make_room(&self, bytes: usize) -> Memory {
        if let Some(memory) = self.pool.memory(bytes) {
            return memory;
        }
        let mut share = self.share.lock().unwrap();
        // Another thread may have made room for more than itself while this one waited for the
        // lock.
        if let Some(memory) = self.pool.memory(bytes) {
            return memory;
        }
        let held = self.blocks.weight();
        // Withholding bytes that are granted but unused frees no memory: they are withheld in
        // addition.
        let idle = share.granted.saturating_sub(share.withheld).saturating_sub(held);
        let more = idle + (held / WITHHELD_GROWS).max(bytes as u64);
        share.withheld = (share.withheld + more).min(share.granted / 2);
        self.shrink_to(share.granted - share.withheld);
        as_much_as_it_takes(&self.pool, bytes)
    }

    /// True if the block is cached; does not count as a use.
    pub fn holds(&self, key: &BlockKey) -> bool {
        self.blocks.contains_key(key)
    }

    /// True if unpacked blocks still fit, as far as can be seen: nothing is evicted while a quarter
    /// of the capacity is free.
    fn has_room(&self) -> bool {
        self.blocks.weight() < self.blocks.capacity() / 4 * 3
    }

    /// True if the block is cached and a reader has asked for it.
    pub fn was_requested(&self, key: &BlockKey) -> bool {
        !cfg!(shuttle) && self.blocks.peek(key).is_some_and(|block| block.0.was_requested())
    }

    /// Caches a block that was made from blocks in use: its content as it is read, or unpacked. It
    /// counts as not yet asked for. Nothing is cached if more than half of the cache is full: the
    /// blocks it was made from stay cached until the merge is published, and both together must not
    /// force blocks that are loaded meanwhile to stay packed.
    pub fn take_over(
        &self,
        key: BlockKey,
        content: &[u8],
        unpack: &dyn Fn(&[u8]) -> Option<Box<[u8]>>,
    ) {
        if cfg!(shuttle) || self.blocks.weight() > self.blocks.capacity() / 2 {
            return;
        }
        let unpacked = unpack(content);
        let content = unpacked.as_deref().unwrap_or(content);
        // Without memory, the block is read when it is needed.
        if let Ok(mut bytes) = BlockBytes::new(content.len(), &|bytes| self.make_room(bytes)) {
            bytes.bytes_mut().copy_from_slice(content);
            self.blocks.insert(key, CachedBlock(CacheEntry::new(bytes, false)));
        }
    }

    /// Caches the content of a block in use under another key, as [`take_over`](Self::take_over)
    /// does.
    pub fn take_along(&self, from: &BlockKey, to: BlockKey) {
        if let Some(block) = self.blocks.peek(from).filter(|block| block.0.was_requested()) {
            self.take_over(to, &block, &|_| None);
        }
    }

    /// Removes a block, if it is cached: it will not be requested again. Readers that hold it keep
    /// it.
    pub fn forget(&self, key: &BlockKey) {
        drop(Left(self.blocks.remove(key).into_iter().collect()));
    }

    /// Removes all blocks.
    pub fn clear(&self) {
        drop(Left(self.blocks.drain().collect()));
    }

    /// Counters.
    pub fn stats(&self) -> BlockCacheStats {
        BlockCacheStats {
            hits: self.hits.iter().map(|hits| hits.load(Ordering::Relaxed)).sum(),
            misses: self.misses.load(Ordering::Relaxed),
            device_reads: self.device_reads.load(Ordering::Relaxed),
            device_read_bytes: self.device_read_bytes.load(Ordering::Relaxed),
            resident_bytes: self.blocks.weight(),
            capacity_bytes: self.blocks.capacity(),
            blocks: self.blocks.len() as u64,
        }
    }
}

impl BlockSource for BlockCache {
    fn block(&self, key: BlockKey, load: Load<'_>) -> Result<CachedBlock> {
        let Load { raw_bytes, fill, unpack, slots } = load;
        if cfg!(shuttle) {
            // `quick_cache` sees all threads of the model checker as one, and would sleep on its
            // own locks.
            return CachedBlock::load(&self.pool, raw_bytes, fill).map(|(block, _)| block);
        }
        if let Some(block) = self.blocks.get(&key) {
            self.hits.mine().fetch_add(1, Ordering::Relaxed);
            block.0.mark_requested();
            // Only a repeated use is worth a slot: a block used once, by a scan or by chance, is
            // not.
            if let Some(slots) = slots {
                slots.put(key.block as usize, &block.0);
            }
            return Ok(block);
        }
        let mut loaded = false;
        let block = self.blocks.get_or_insert_with(&key, || {
            loaded = true;
            let from_pool: FromPool<'_> = &|bytes| self.make_room(bytes);
            let (block, device_bytes) = CachedBlock::load_into(raw_bytes, from_pool, fill)?;
            if device_bytes > 0 {
                self.device_reads.fetch_add(1, Ordering::Relaxed);
                self.device_read_bytes.fetch_add(device_bytes, Ordering::Relaxed);
            }
            let unpacked = if self.has_room() { unpack(&block) } else { None };
            let Some(unpacked) = unpacked else { return Ok::<_, Error>(block) };
            drop(block);
            let mut copy = |out: &mut [u8]| {
                out.copy_from_slice(&unpacked);
                Ok(0)
            };
            CachedBlock::load_into(unpacked.len(), from_pool, &mut copy).map(|(block, _)| block)
        })?;
        // If it was not loaded here, another thread loaded it meanwhile: a hit.
        let counter = if loaded { &self.misses } else { self.hits.mine() };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(block)
    }

    fn wants(&self, key: &BlockKey) -> bool {
        !cfg!(shuttle) && !self.holds(key)
    }

    #[inline]
    fn found_in_slot(&self) {
        self.hits.mine().fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// A source without a cache: every block is loaded each time. For tests and one-off readers.
#[derive(Debug)]
pub struct NoCache(pub Arc<FramePool>);

impl BlockSource for NoCache {
    fn block(&self, _: BlockKey, load: Load<'_>) -> Result<CachedBlock> {
        CachedBlock::load(&self.0, load.raw_bytes, load.fill).map(|(block, _)| block)
    }

    fn wants(&self, _: &BlockKey) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u32) -> BlockKey {
        BlockKey { extent: 4096, stamp: 1, block }
    }

    fn loads(raw_bytes: usize, fill: &mut dyn FnMut(&mut [u8]) -> Result<u64>) -> Load<'_> {
        Load { raw_bytes, fill, unpack: &|_| None, slots: None }
    }

    /// A longer form is kept while nothing has to be evicted for it.
    #[test]
    fn blocks_are_unpacked_while_memory_is_free() {
        let cache = BlockCache::new(FramePool::new(1 << 20), 100_000);
        let longer = |block: &[u8]| Some(vec![block[0]; 10_000].into_boxed_slice());
        let mut lengths = Vec::new();
        for block in 0..40 {
            let mut fill = |out: &mut [u8]| {
                out.fill(7);
                Ok(1)
            };
            let load = Load { raw_bytes: 1000, fill: &mut fill, unpack: &longer, slots: None };
            lengths.push(cache.block(key(block), load).unwrap().len());
        }
        let long = lengths.iter().filter(|&&length| length == 10_000).count();
        assert!((5..=9).contains(&long), "{lengths:?}");
        assert_eq!(lengths[..long], vec![10_000; long]);
        assert_eq!(lengths[39], 1000);
    }

    #[test]
    fn a_block_is_loaded_once_and_the_capacity_holds() {
        let pool = FramePool::new(1 << 20);
        let cache = BlockCache::new(pool.clone(), 20 * FRAME_BYTES);
        for round in 0..2 {
            for block in 0..4 {
                let mut load = |bytes: &mut [u8]| {
                    assert_eq!(round, 0, "loaded twice");
                    bytes.fill(block as u8);
                    Ok(123)
                };
                let got = cache.block(key(block), loads(12_000, &mut load)).unwrap();
                assert!(got.len() == 12_000 && got.iter().all(|&b| b == block as u8));
            }
        }
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.device_read_bytes), (4, 4, 492));
        for block in 4..400 {
            cache.block(key(block), loads(12_000, &mut |_| Ok(0))).unwrap();
        }
        assert!(pool.taken_bytes() <= 20 * FRAME_BYTES);
        cache.set_capacity(0);
        assert_eq!(pool.taken_bytes(), 0);
    }

    /// Blocks of all lengths come and go, and the pool takes no more from the system than it may,
    /// though no hole is as long as the next block.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under an interpreter")]
    fn fragmentation_does_not_make_the_pool_exceed_its_limit() {
        let limit = 8 << 20;
        let pool = FramePool::new(limit);
        let cache = BlockCache::new(pool.clone(), limit);
        let mut held_least = u64::MAX;
        for block in 0..4000_u32 {
            // Lengths grow on the whole: holes that earlier blocks leave are too short.
            let bytes =
                2000 + block as usize * 10 + block.wrapping_mul(0x9e37_79b9) as usize % 9000;
            cache.block(key(block), loads(bytes, &mut |_| Ok(1))).unwrap();
            if block > 2000 {
                held_least = held_least.min(cache.stats().resident_bytes);
            }
            if block % 50 == 0 {
                cache.set_capacity(limit);
            }
        }
        assert!(pool.mapped_bytes() <= limit, "{pool:?}");
        assert!(held_least > limit as u64 / 2, "{held_least} bytes of blocks in {pool:?}");
        // A frame is always granted; the blocks make room for it at the next grant of the cache.
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).take(100).collect();
        assert_eq!(frames.len(), 100);
        assert!(pool.mapped_bytes() <= limit + 100 * FRAME_BYTES + (2 << 20));
    }

    #[test]
    fn a_failed_load_is_not_cached_and_a_pinned_block_outlives_eviction() {
        let pool = FramePool::new(1 << 20);
        let cache = BlockCache::new(pool, 8 * FRAME_BYTES);
        let failed = cache.block(key(0), loads(9000, &mut |_| Err(Error::Closed)));
        assert!(failed.is_err() && !cache.holds(&key(0)));
        let load = &mut |bytes: &mut [u8]| {
            bytes.fill(9);
            Ok(0)
        };
        let pinned = cache.block(key(0), loads(9000, load)).unwrap();
        cache.clear();
        assert!(!cache.holds(&key(0)) && pinned.iter().all(|&b| b == 9));
    }
}
