//! A meter for what reading blocks decodes. This module has no clock; the implementation has one.

use std::fmt;

/// Counts what general codecs decode.
pub trait DecodeMeter: Send + Sync + fmt::Debug {
    /// Called before a chunk is decoded; the result is passed to [`end`](Self::end).
    fn begin(&self) -> u64;
    /// Called after the chunk was decoded, with its length.
    fn end(&self, begun: u64, bytes: usize);
}
