//! Who is told of what reading blocks decodes. This room has no clock; whoever counts has one.

use std::fmt;

/// Counts what general codecs decode.
pub trait DecodeMeter: Send + Sync + fmt::Debug {
    /// A chunk is about to be decoded; what it gives goes to [`end`](Self::end).
    fn begin(&self) -> u64;
    /// The chunk is decoded, and so long.
    fn end(&self, begun: u64, bytes: usize);
}
