//! Runs: immutable sorted sequences of entries. Leaves, buffer runs, spills and pieces of bulk
//! loads are all runs.
//!
//! # Tour
//! Build (one thread; keys ascend strictly):
//! ```text
//! RunBuilder::new(pool: Arc<FramePool>, RunOptions { codec, filter_bits, block_bytes })
//! RunBuilder::row_blocks(pool, options, base: Option<&Run>)     // row blocks; may carry `base`'s
//! RunBuilder::columnar(pool, options, &Arc<RowSchema>, base: Option<&Format>)  // columnar blocks
//!   .push(&mut self, key: &[u8], tag: Tag, payload: &[u8]) -> Result<()>
//!   .carry_block(&mut self, from: &Run, index: usize, encoded: &[u8])       // an untouched block
//!   .add_range_delete(&mut self, from: &[u8], to: &[u8])
//!   .bytes_so_far(&self) -> usize; .entries(&self) -> u64; .is_empty(&self) -> bool
//!   .finish(self) -> Result<Option<Arc<Run>>>                 // None: nothing was pushed
//! ```
//! Blobs of pushed and carried rows are counted automatically.
//!
//! Share and read (`Arc<Run>`, never `&mut`):
//! ```text
//! run.entries() -> u64; .counts() -> Counts { entries, deletes, merges, raw_bytes }
//! run.data_bytes() -> u64
//! run.first_key(), .last_key() -> Option<&[u8]>               // None: only range deletes
//! run.bytes_between(lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64
//! run.held_between(lo, hi) -> (u64, u64)
//! run.may_contain(hash: u64) -> bool                          // hash = key_hash(key)
//! run.get(key, hash, source: &dyn BlockSource) -> Result<Option<Found>>   // .tag, .payload()
//! run.range_deletes() -> &RangeDeletes                      // .covers(key), .is_empty(), .iter()
//! run.blobs() -> &[BlobUse]; .codec(); .filter(); .resident_bytes() -> usize
//! run.blocks() -> &BlockIndex                 // .len(), .separator(i), .entry(i), .block_for(key)
//! run.block_for(key) -> usize; .block_count() -> usize // i holds [separator(i), separator(i + 1))
//! run.encoded_block(i, buf: &mut ReadBuf) -> Result<&[u8]>    // ReadBuf::new(pool); verified
//! ```
//! Write, once, by the checkpoint or by the job that built the run:
//! ```text
//! run.extent_bytes() -> u32                                   // what to allocate
//! run.write(file: &StoreFile, offset, birth, lineage) -> Result<Link>
//! run.set_written(file: Arc<StoreFile>, link)                 // from here on read from the file
//! run.link() -> Option<Link>                                  // None: unwritten
//! Run::open(file: Arc<StoreFile>, link, pool) -> Result<Arc<Run>>
//! ```
//! Walk and merge:
//! ```text
//! RunCursor::new(run, source: Arc<dyn BlockSource>) or RunCursor::bulk(run), then .range(lo, hi)
//!   .seek_first(), .seek(key), .start_at_block(i), .advance() -> Result<()>; .entry()
//!   .seek_last(), .seek_before(key), .retreat()            // strictly below key; range as above
//! trait EntrySource { entry(&self) -> Option<Entry>; advance, seek(key); optional: retreat,
//!     seek_before(key), bounds, range_deletes, covers(key), is_whole, make_whole }
//! MergeCursor::new(sources: Vec<impl EntrySource>)            // newest first, positioned
//! MergeCursor::backward(sources)    // on their last entries; .seek(key): first keys below it
//!   .next_folded(&Folder) -> Result<Option<Entry>>  // one message per key, range deletes applied
//!   .next_part_folded(&Folder) -> Result<Option<(Entry, bool)>>  // for projections; true: whole
//!   .next_group() -> Result<bool>, .group() -> (source, Entry)*  // or all messages, newest first
//! Folder::new(&Operators).fold(newer, older, out: &mut Vec<u8>) -> Result<Folded>
//!   .for_leaf(message, out) -> Result<Folded>        // at a leaf: no Delete, no Merge, not fresh
//! ```
//! A leaf merge carries the blocks that no message touches:
//! ```text
//! block i is untouched if no key of the batch has run.block_for(key) == i, and no range delete
//! overlaps it:
//!   builder.carry_block(&run, i, run.encoded_block(i, &mut buf)?)?
//! else merge RunCursor::bulk(run).range(lo_i, hi_i) [start_at_block(i)] with the batch's entries
//! in between
//! ```
//!
//! Invariants
//! 1. At most one message per key; keys ascend strictly.
//! 2. Range deletes of a run are older than all its entries (Rule: I26).
//! 3. What is read from a file is verified, then parsed with every length checked: arbitrary bytes
//!    yield rows or an error with its place, never a panic.
//! 4. A run has no level and no tree (Rule: I25).
//!
//! Threads: runs are shared by all; builders and cursors belong to one. Bytes: docs/format.md,
//! "Run".

mod block_ref;
mod block_writer;
mod builder;
mod cursor;
mod dictionaries;
mod filter;
mod fold;
mod footer;
#[cfg(test)]
pub(crate) mod forge;
mod fullness;
#[cfg(test)]
mod incompressible_tests;
mod index;
mod merge;
#[cfg(test)]
mod model_tests;
mod pieces;
mod ranges;
mod rank;
mod reader;
mod row_block_writer;
mod schema;
mod takes;
#[cfg(test)]
mod tests;
mod undone_dictionary;
mod verify;
mod warm;
mod work;
mod write;

pub use block_ref::{BlockGuard, Found};
pub use builder::{RunBuilder, RunOptions};
pub use cursor::{AheadOfCursor, RunCursor};
pub use filter::{Filter, key_hash};
pub use fold::{
    BlobReader, Folded, Folder, MergeOperator, OPERATOR_ADD, OPERATOR_APPEND, OPERATOR_MAX,
    OPERATOR_MIN, OPERATOR_NAME_BYTES_MAX, OPERATOR_USER_MIN, Operators, operands, put_operand,
};
pub use footer::{BlobUse, Counts};
pub use index::{BlockEntry, BlockIndex, head};
pub use merge::MergeCursor;
pub use pieces::BULK_BYTES;
pub use ranges::RangeDeletes;
pub use reader::{ReadBuf, Run};
pub use schema::RowSchema;
pub use takes::TakesEntries;
pub use verify::verify_extent;
pub use work::{DecodeStats, EncodeStats, Work, WorkByTree};

use crate::{
    error::{Error, Result},
    message::{Message, Tag},
};

/// A borrowed entry: a key and its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Kind and fresh bit.
    pub tag: Tag,
    /// The payload; its meaning depends on the kind.
    pub payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry's message.
    pub fn message(&self) -> Message<'a> {
        Message::new(self.tag, self.payload)
    }
}

/// A source of entries in key order, at most one per key: a run, a frozen memtable, a batch.
pub trait EntrySource {
    /// The current entry; `None` at the end.
    fn entry(&self) -> Option<Entry<'_>>;
    /// Moves to the next entry.
    fn advance(&mut self) -> Result<()>;
    /// Moves to the first entry not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the previous entry. Fails for sources that only walk forward.
    fn retreat(&mut self) -> Result<()> {
        Err(forward_only())
    }
    /// Moves to the last entry below `key`. Fails for sources that only walk forward.
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        Err(forward_only())
    }
    /// Inclusive bounds of the keys at which the source can be positioned, if they are known.
    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        None
    }
    /// Range deletes, older than all entries of the source. A source that can only say which keys
    /// it [`covers`](Self::covers) returns `None`.
    fn range_deletes(&self) -> Option<&RangeDeletes> {
        None
    }
    /// True if the source deletes any range.
    #[inline]
    fn has_range_deletes(&self) -> bool {
        self.range_deletes().is_some_and(|ranges| !ranges.is_empty())
    }
    /// True if the source deletes `key` in older sources.
    #[inline]
    fn covers(&self, key: &[u8]) -> bool {
        self.range_deletes().is_some_and(|ranges| ranges.covers(key))
    }
    /// True if the current payload is the whole value, and not only the wanted fields.
    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
    /// Makes the source return whole payloads, from the current entry on.
    fn make_whole(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<S: EntrySource + ?Sized> EntrySource for Box<S> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        (**self).entry()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }

    #[inline]
    fn retreat(&mut self) -> Result<()> {
        (**self).retreat()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }

    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        (**self).bounds()
    }

    #[inline]
    fn is_whole(&self) -> bool {
        (**self).is_whole()
    }

    fn make_whole(&mut self) -> Result<()> {
        (**self).make_whole()
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        (**self).range_deletes()
    }

    fn has_range_deletes(&self) -> bool {
        (**self).has_range_deletes()
    }

    fn covers(&self, key: &[u8]) -> bool {
        (**self).covers(key)
    }
}

/// The direction in which a cursor walks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Keys ascend.
    #[default]
    Forward,
    /// Keys descend.
    Backward,
}

#[cold]
fn forward_only() -> Error {
    Error::InvalidArgument("this source walks forward only".into())
}
