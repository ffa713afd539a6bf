//! References that readers of a run hold: to decoded blocks, and to messages found in them.
//!
//! A point read looks at one block and releases it: an `arc_swap` guard of its thread keeps the
//! block alive, and touches no count that all readers share (`cache/slots.rs`). Scans hold blocks
//! longer, and take a reference count.
//!
//! Threads: all; blocks do not change.

use std::{
    fmt,
    ops::{Deref, Range},
};

use arc_swap::Guard;

use super::{Run, index::BlockEntry, reader::Data};
use crate::{
    block::{Chunks, Payload},
    cache::{BlockSource, CachedBlock, SlotBlock},
    error::Result,
    message::{Message, Tag},
    sync::Arc,
};

/// A decoded block that stays in place while this is held.
#[derive(Clone)]
pub struct BlockGuard(Pin);

#[derive(Clone)]
enum Pin {
    Cached(CachedBlock),
    InRun { data: Arc<Data>, part: Range<usize> },
}

impl Deref for BlockGuard {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pin::Cached(block) => block,
            Pin::InRun { data, part } => data.part(part),
        }
    }
}

impl Data {
    /// Contiguous bytes of an unwritten run's frames.
    fn part(&self, part: &Range<usize>) -> &[u8] {
        match self {
            Data::Unwritten(buf) => buf.contiguous(part.clone()).unwrap_or_default(),
            Data::Written { .. } => &[],
        }
    }
}

impl BlockGuard {
    pub(super) fn cached(block: CachedBlock) -> Self {
        Self(Pin::Cached(block))
    }

    /// A contiguous part of an unwritten run's frames.
    pub(super) fn in_run(data: Arc<Data>, part: Range<usize>) -> Self {
        Self(Pin::InRun { data, part })
    }

    /// True if it is held in the cache, and not in the frames of an unwritten run.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self.0, Pin::Cached(_))
    }
}

impl fmt::Debug for BlockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockGuard({} bytes)", self.len())
    }
}

/// A decoded block for brief use (a borrowed reference): neither finding nor releasing it writes
/// memory that other readers of it write.
pub(super) enum BlockRef {
    /// Found in the run's slot for it.
    InSlot(SlotBlock),
    /// In the frames of a run that is not written yet.
    InFrames(Guard<Arc<Data>>, Range<usize>),
    /// Just loaded, or requested only for the second time, so not yet in its slot.
    Pinned(BlockGuard),
}

impl Deref for BlockRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::InSlot(block) => block,
            Self::InFrames(data, part) => data.part(part),
            Self::Pinned(block) => block,
        }
    }
}

impl fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockRef({} bytes)", self.len())
    }
}

impl Run {
    /// Block `index`, if it is in its slot.
    #[inline]
    pub(super) fn slot_block(&self, index: usize, source: &dyn BlockSource) -> Option<SlotBlock> {
        let block = self.slots.get()?.get(index)?;
        source.found_in_slot();
        Some(block)
    }

    /// Block `index` if it is in its slot, for an estimate, which does not count as a use.
    pub(super) fn peek_slot(&self, index: usize) -> Option<SlotBlock> {
        self.slots.get()?.peek(index)
    }

    /// A block that lies raw and contiguous in the frames of a run that is not written yet.
    pub(super) fn raw_in_frames(
        &self,
        entry: &BlockEntry,
    ) -> Option<(Guard<Arc<Data>>, Range<usize>)> {
        if !entry.packing.is_raw() {
            return None;
        }
        let data = self.data.load();
        let start = entry.offset as usize;
        let part = start..start + entry.raw_bytes as usize;
        match &**data {
            Data::Unwritten(buf) if buf.contiguous(part.clone()).is_some() => Some((data, part)),
            _ => None,
        }
    }

    /// Returns block `index` decoded, as [`block`](Run::block) does, for brief use.
    #[inline]
    pub(super) fn borrow_block(
        &self,
        index: usize,
        source: &dyn BlockSource,
        chunks: &mut Chunks,
    ) -> Result<BlockRef> {
        if let Some(block) = self.slot_block(index, source) {
            return Ok(BlockRef::InSlot(block));
        }
        if let Some(entry) = self.blocks().entry(index)
            && let Some((data, part)) = self.raw_in_frames(entry)
        {
            return Ok(BlockRef::InFrames(data, part));
        }
        self.block(index, source, chunks).map(BlockRef::Pinned)
    }
}

/// A message found by a point read, in its block. Short-lived: see [`SlotBlock`].
#[derive(Debug)]
pub struct Found {
    /// Kind and fresh bit.
    pub tag: Tag,
    block: BlockRef,
    payload: Payload,
}

impl Found {
    pub(super) fn new(tag: Tag, block: BlockRef, payload: Payload) -> Self {
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

    /// The message that was found.
    #[inline]
    pub fn message(&self) -> Message<'_> {
        Message::new(self.tag, self.payload())
    }

    /// True if the payload is the whole value, and not only the wanted fields.
    #[inline]
    pub fn is_whole(&self) -> bool {
        !matches!(self.payload, Payload::Parts(_))
    }
}
