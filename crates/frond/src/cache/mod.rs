//! The one memory budget and what stays in it: frames, the block cache.

mod blocks;
mod frames;
mod near;
mod slab;
mod spans;

pub use blocks::{BlockCache, BlockCacheStats, BlockKey, BlockSource, CachedBlock, Load, NoCache};
pub(crate) use frames::FrameMemory;
pub use frames::{FRAME_BYTES, Frame, FrameBuf, FramePool};
pub use near::{Near, NearBlock};
