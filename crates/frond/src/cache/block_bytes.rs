//! The memory of a cached block: pages of the pool, or the heap for a short one.

use std::ops::Deref;

use super::frames::{FramePool, Memory};
use crate::error::{Error, Result};

/// Shorter blocks come from the general allocator: most of a unit of the pool's memory would be
/// wasted on them.
const POOL_BYTES_MIN: usize = 1 << 8;

/// Takes memory for a block of the given length from a pool.
pub(super) type FromPool<'a> = &'a dyn Fn(usize) -> Memory;

/// The bytes of one block.
#[derive(Debug)]
pub(super) enum BlockBytes {
    Pool(Memory),
    Heap(Box<[u8]>),
}

impl BlockBytes {
    /// Allocates `bytes` bytes of unspecified content.
    pub fn new(bytes: usize, from_pool: FromPool<'_>) -> Result<Self> {
        if (POOL_BYTES_MIN..=FramePool::MEMORY_BYTES_MAX).contains(&bytes) {
            return Ok(Self::Pool(from_pool(bytes)));
        }
        let mut heap = Vec::new();
        heap.try_reserve_exact(bytes).map_err(|_| Error::NoMemory { bytes, what: "a block" })?;
        heap.resize(bytes, 0);
        Ok(Self::Heap(heap.into_boxed_slice()))
    }

    /// Bytes of memory that the block takes: its length, or that of its part of the pool.
    pub fn held_bytes(&self) -> usize {
        match self {
            BlockBytes::Pool(memory) => memory.held_bytes(),
            BlockBytes::Heap(bytes) => bytes.len(),
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            BlockBytes::Pool(memory) => memory,
            BlockBytes::Heap(bytes) => bytes,
        }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            BlockBytes::Pool(memory) => memory,
            BlockBytes::Heap(bytes) => bytes,
        }
    }
}
