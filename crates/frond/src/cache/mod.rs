//! The one memory budget and what is kept in it: frames and the block cache.

mod blocks;
mod frames;
mod slab;
mod slots;
mod spans;

pub use blocks::{BlockCache, BlockCacheStats, BlockKey, BlockSource, CachedBlock, Load, NoCache};
pub use frames::{FRAME_BYTES, Frame, FrameBuf, FramePool};
pub(crate) use frames::{FrameMemory, Kept};
pub use slots::{BlockSlots, SlotBlock};
