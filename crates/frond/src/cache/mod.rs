//! The one memory budget and what stays in it: frames, the block cache.

mod blocks;
mod frames;

pub use blocks::{BlockCache, BlockCacheStats, BlockKey, BlockSource, CachedBlock, NoCache};
pub(crate) use frames::FrameBytes;
pub use frames::{FRAME_BYTES, Frame, FrameBuf, FramePool};
