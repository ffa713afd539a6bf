//! What readers of a run hold: decoded blocks, and messages that were found in them.
//!
//! Threads: all; what is held stays as it is.

use std::{
    fmt,
    ops::{Deref, Range},
};

use super::reader::Data;
use crate::{
    block::Payload,
    cache::CachedBlock,
    message::{Message, Tag},
    sync::Arc,
};

/// A decoded block that stays where it is while this is held.
#[derive(Clone)]
pub struct PinnedBlock(Pin);

#[derive(Clone)]
enum Pin {
    Cached(CachedBlock),
    InRun { data: Arc<Data>, start: usize, len: usize },
}

impl Deref for PinnedBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pin::Cached(block) => block,
            Pin::InRun { data, start, len } => match &**data {
                Data::Unwritten(buf) => buf.contiguous(*start..*start + *len).unwrap_or_default(),
                Data::Written { .. } => &[],
            },
        }
    }
}

impl PinnedBlock {
    pub(super) fn cached(block: CachedBlock) -> Self {
        Self(Pin::Cached(block))
    }

    /// A part of an unwritten run's frames, in one piece.
    pub(super) fn in_run(data: Arc<Data>, part: Range<usize>) -> Self {
        Self(Pin::InRun { data, start: part.start, len: part.len() })
    }

    /// Whether it is held in the cache, and not in the frames of an unwritten run.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self.0, Pin::Cached(_))
    }
}

impl fmt::Debug for PinnedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBlock({} bytes)", self.len())
    }
}

/// A message found by a point read, in its pinned block.
#[derive(Clone, Debug)]
pub struct Found {
    /// Kind and fresh bit.
    pub tag: Tag,
    block: PinnedBlock,
    payload: Payload,
}

impl Found {
    pub(super) fn new(tag: Tag, block: PinnedBlock, payload: Payload) -> Self {
        Self { tag, block, payload }
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::InBlock(range) => self.block.get(range.clone()).unwrap_or_default(),
            Payload::Made(payload) | Payload::Parts(payload) => payload,
        }
    }

    /// What was found, as a message.
    #[inline]
    pub fn message(&self) -> Message<'_> {
        Message::new(self.tag, self.payload())
    }

    /// Whether that is all of it, and not the parts that were wanted.
    #[inline]
    pub fn is_whole(&self) -> bool {
        !matches!(self.payload, Payload::Parts(_))
    }
}
