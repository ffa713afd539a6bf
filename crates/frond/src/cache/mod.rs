//! The memory of a store: one pool of slabs, from which frames and cached blocks are taken, and the
//! block cache.

mod block_bytes;
mod blocks;
mod frames;
mod slab;
mod slots;
mod spans;

pub use blocks::{BlockCache, BlockCacheStats, BlockKey, BlockSource, CachedBlock, Load, NoCache};
pub use frames::{FRAME_BYTES, Frame, FrameBuf, FramePool};
pub(crate) use frames::{FrameMemory, Kept};
pub use slots::{BlockSlots, SlotBlock};
