//! The one memory budget and what stays in it: frames, the block cache.

mod frames;

pub(crate) use frames::FrameBytes;
pub use frames::{FRAME_BYTES, Frame, FrameBuf, FramePool};
