//! Run cursors: a run's entries in order, forward and backward, within bounds.
//!
//! A cursor gets blocks in one of two ways: through the cache, for readers, where a long walk reads
//! ahead; or in bulk, for merges, which read pieces of [`BULK_BYTES`](super::BULK_BYTES) straight
//! from the file, decode into their own memory, and leave the cache alone.
//!
//! Invariants
//! 1. Keys ascend strictly over all blocks, each within its separators and the run's first and last
//!    key: whatever the bytes, a cursor returns ordered keys or an error. One exception: in a
//!    columnar block that a bulk cursor does not check, the order is up to the consumer of the
//!    rows; run builders check it.
//!
//! Threads: a cursor belongs to one thread; it keeps the run alive.

use super::{
    Direction, Entry, EntrySource, RangeDeletes, TakesEntries,
    block_ref::BlockGuard,
    pieces::{Bulk, piece},
    reader::Run,
};
use crate::{
    block::{BadBlock, Chunks, Position, columnar::ColumnSelection},
    cache::BlockSource,
    error::{Error, Result},
    sync::Arc,
};

/// Readahead for cursors, on other threads.
pub trait AheadOfCursor: Send + Sync + std::fmt::Debug {
    /// Called when a cursor needs this block, which is not in the cache. Waits if a thread is
    /// already reading it.
    fn wait_for(&self, run: &Run, block: usize) -> Option<(BlockGuard, Chunks)>;

    /// Returns the block, if readahead has already read it.
    fn loaded(&self, run: &Run, block: usize) -> Option<(BlockGuard, Chunks)>;
}

/// A position in a run.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    access: Access,
    lo: Option<Box<[u8]>>,
    hi: Option<Box<[u8]>>,
    /// Only these blocks can hold keys of the range.
    blocks_start: usize,
    blocks_end: usize,
    block: usize,
    bytes: Bytes,
    rows: Position,
    on_entry: bool,
    checking: bool,
}

#[derive(Debug)]
enum Access {
    Cached {
        source: Arc<dyn BlockSource>,
        /// Direction and length of reads when a block is not in the cache.
        ahead: (Direction, usize),
        others: Option<Arc<dyn AheadOfCursor>>,
    },
    Bulk(Bulk),
}

#[derive(Debug)]
enum Bytes {
    Pinned(BlockGuard),
    Own(Vec<u8>),
}

impl Bytes {
    #[inline]
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Pinned(block) => block,
            Bytes::Own(block) => block,
        }
    }
}

impl RunCursor {
    /// Creates a cursor that reads through the cache, without a position yet.
    pub fn new(run: Arc<Run>, source: Arc<dyn BlockSource>) -> Self {
        Self::with(run, Access::Cached { source, ahead: (Direction::Forward, 0), others: None })
    }

    /// Creates a cursor that reads in bulk and leaves the cache alone, without a position yet.
    pub fn bulk(run: Arc<Run>) -> Self {
        let bulk = Bulk::new(&run);
        Self::with(run, Access::Bulk(bulk))
    }

    fn with(run: Arc<Run>, access: Access) -> Self {
        Self {
            blocks_start: 0,
            blocks_end: run.block_count(),
            rows: Position::new(run.format()),
            run,
            access,
            lo: None,
            hi: None,
            block: 0,
            bytes: Bytes::Own(Vec::new()),
            on_entry: false,
            checking: false,
        }
    }

    /// Makes the cursor read, with each block that is not in the cache, this many bytes of the
    /// blocks that follow in this direction: for a walk that has already read several blocks.
    pub fn read_ahead(mut self, direction: Direction, bytes: usize) -> Self {
        if let Access::Cached { ahead, .. } = &mut self.access {
            *ahead = (direction, bytes);
        }
        self
    }

    /// Changes the readahead length of a cursor in use.
    pub fn set_ahead(&mut self, bytes: usize) {
        if let Access::Cached { ahead, .. } = &mut self.access {
            ahead.1 = bytes;
        }
    }

    /// Announces that the caller will request this many entries: a forward walk then decodes them
    /// together. To be called after [`project`](Self::project).
    pub fn expect(&mut self, entries: usize) {
        self.rows.expect(entries);
    }

    /// Lets other threads read ahead of the cursor from now on.
    pub fn set_others(&mut self, ahead: Arc<dyn AheadOfCursor>) {
        if let Access::Cached { others, .. } = &mut self.access {
            *others = Some(ahead);
        }
    }

    /// True if the cursor may be kept between two calls of a reader: it then holds a cached block
    /// and a run that is in the file, and not the frames of a run.
    pub fn may_stay(&self) -> bool {
        let is_cached = matches!(&self.bytes, Bytes::Pinned(block) if block.is_cached());
        self.on_entry && is_cached && self.run.link().is_some()
    }

    /// Makes a bulk cursor also check the parts of a block that walking does not use, above all its
    /// restarts.
    pub fn checking(mut self) -> Self {
        self.checking = true;
        self
    }

    /// Limits the cursor to `[lo, hi)`; `None` is unbounded.
    pub fn range(mut self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Self {
        self.lo = lo.map(Into::into);
        self.hi = hi.map(Into::into);
        self.blocks_start = lo.map_or(0, |lo| self.run.block_for(lo));
        let end = hi.map_or(usize::MAX, |hi| self.run.block_for(hi) + 1);
        self.blocks_end = end.min(self.run.block_count());
        self
    }

    /// From now on reads only these fields of values, where they lie in columns; cheap while the
    /// cursor has no position.
    pub fn project(&mut self, selection: &ColumnSelection) -> Result<()> {
        let row = self.rows.row();
        self.rows.project(selection, self.run.format());
        if !self.on_entry || self.run.format().is_row() {
            return Ok(());
        }
        let entered = self.rows.enter(self.bytes.get(), Chunks::default());
        let at = entered.and_then(|()| self.rows.row_at(self.bytes.get(), self.run.format(), row));
        at.map_err(|bad| self.fail(bad))
    }

    /// The run.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Number of the current block.
    pub fn block_index(&self) -> usize {
        self.block
    }

    /// Bytes that bulk reads took from the device.
    pub fn device_bytes(&self) -> u64 {
        match &self.access {
            Access::Cached { .. } => 0,
            Access::Bulk(bulk) => bulk.device_bytes,
        }
    }

    /// Moves to the first entry of the range.
    pub fn seek_first(&mut self) -> Result<()> {
        match self.lo.take() {
            Some(lo) => {
                let sought = self.seek_unbounded(&lo);
                self.lo = Some(lo);
                sought
            }
            None => self.start_at_block(0),
        }
    }

    /// Moves to the last entry of the range.
    pub fn seek_last(&mut self) -> Result<()> {
        match self.hi.take() {
            Some(hi) => {
                let sought = self.seek_before_unbounded(&hi);
                self.hi = Some(hi);
                sought
            }
            None => {
                self.on_entry = false;
                match self.blocks_end.checked_sub(1) {
                    Some(last) => self.enter_last(last)?,
                    None => return Ok(()),
                }
                self.stop_at_lo();
                Ok(())
            }
        }
    }

    /// Moves to the last entry of the range that is below `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match &self.hi {
            Some(hi) if **hi < *key => self.seek_last(),
            _ => self.seek_before_unbounded(key),
        }
    }

    fn seek_before_unbounded(&mut self, key: &[u8]) -> Result<()> {
        let index = self.run.block_for(key);
        let in_block = self.on_entry && self.block == index;
        if !in_block && !self.load(index, Direction::Backward)? {
            return Ok(());
        }
        self.on_entry = false;
        let found = self.rows.seek_before(self.bytes.get(), self.run.format(), key);
        self.on_entry = found.map_err(|bad| self.run.bad_block(index, bad))?;
        if !self.on_entry && index > self.blocks_start {
            self.enter_last(index - 1)?;
        }
        self.stop_at_lo();
        Ok(())
    }

    /// Moves to the first entry of block `index`, within the upper bound (`lo` is not checked).
    pub fn start_at_block(&mut self, index: usize) -> Result<()> {
        self.enter(index)?;
        self.stop_at_hi();
        Ok(())
    }

    /// Moves to the first entry of the range that is not below `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &self.lo {
            Some(lo) if **lo > *key => self.seek_first(),
            _ => self.seek_unbounded(key),
        }
    }

    fn seek_unbounded(&mut self, key: &[u8]) -> Result<()> {
        let index = self.run.block_for(key);
        let in_block = self.on_entry && self.block == index;
        if !in_block && !self.load(index, Direction::Forward)? {
            return Ok(());
        }
        self.on_entry = false;
        let found = self.rows.seek(self.bytes.get(), self.run.format(), key);
        self.on_entry = found.map_err(|bad| self.run.bad_block(index, bad))?;
        if !self.on_entry {
            self.enter(index + 1)?;
        }
        self.stop_at_hi();
        Ok(())
    }

    /// The current entry.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.on_entry.then(|| Entry {
            key: self.rows.key(),
            tag: self.rows.tag(),
            payload: self.rows.payload(self.bytes.get()),
        })
    }

    /// Moves to the next entry.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if !self.on_entry {
            return Ok(());
        }
        match self.rows.next(self.bytes.get(), self.run.format()) {
            Ok(true) => {}
            Ok(false) => self.next_block()?,
            Err(bad) => return Err(self.fail(bad)),
        }
        self.stop_at_hi();
        Ok(())
    }

    /// Passes the current entry and those after it to `take` until `take` stops or the range ends.
    /// If `take` stops, the cursor stays on the last entry taken; otherwise it has no position
    /// afterwards.
    #[inline]
    pub fn walk(&mut self, take: &mut impl TakesEntries) -> Result<()> {
        while self.on_entry {
            let block = self.bytes.get();
            // Keys of blocks before the one that holds `hi` are below it.
            let compares = self.block + 1 >= self.blocks_end && !self.rows.has_limit();
            let hi = self.hi.as_deref().filter(|_| compares);
            loop {
                let mut is_beyond = false;
                let taken = match hi {
                    None => self.rows.take_even(|rows, is_whole| take.take_even(&rows, is_whole)),
                    Some(_) => None,
                };
                let goes_on = match taken {
                    Some(goes_on) => goes_on,
                    None => self.rows.each_decoded(block, |key, tag, payload, is_whole| {
                        is_beyond = hi.is_some_and(|hi| key >= hi);
                        if is_beyond {
                            return Ok::<_, Error>(false);
                        }
                        take.take(Entry { key, tag, payload }, is_whole)
                    })?,
                };
                if is_beyond || (goes_on && self.rows.is_before_limit()) {
                    self.on_entry = false;
                    return Ok(());
                }
                if !goes_on {
                    return Ok(());
                }
                match self.rows.next(block, self.run.format()) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(bad) => return Err(self.run.bad_block(self.block, bad)),
                }
            }
            self.next_block()?;
            self.stop_at_hi();
        }
        Ok(())
    }

    /// Moves to the next entry of the same block. At its end the cursor has no position, and
    /// [`start_at_block`](Self::start_at_block) continues. For cursors without bounds.
    #[inline]
    pub fn advance_in_block(&mut self) -> Result<()> {
        debug_assert!(self.lo.is_none() && self.hi.is_none());
        match self.rows.next(self.bytes.get(), self.run.format()) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.check_last()?;
                self.on_entry = false;
                Ok(())
            }
            Err(bad) => Err(self.fail(bad)),
        }
    }

    /// Returns block `index` as stored, after a check of its CRC. Only for bulk cursors, where a
    /// forward walk would decode the block. The cursor has no position afterwards.
    pub fn carried_block(&mut self, index: usize) -> Result<&[u8]> {
        self.on_entry = false;
        let Access::Bulk(bulk) = &mut self.access else {
            return Err(Error::InvalidArgument("only a bulk cursor can carry blocks".into()));
        };
        let blocks = self.blocks_start..self.blocks_end;
        let encoded = bulk.encoded(&self.run, index, blocks, Direction::Forward)?;
        self.run.verify_block(index, encoded)?;
        Ok(encoded)
    }

    /// Moves to the previous entry.
    #[inline]
    pub fn retreat(&mut self) -> Result<()> {
        if !self.on_entry {
            return Ok(());
        }
        match self.rows.prev(self.bytes.get(), self.run.format()) {
            Ok(true) => {}
            Ok(false) => self.previous_block()?,
            Err(bad) => return Err(self.fail(bad)),
        }
        self.stop_at_lo();
        Ok(())
    }

    #[cold]
    fn fail(&mut self, bad: BadBlock) -> crate::Error {
        self.on_entry = false;
        self.run.bad_block(self.block, bad)
    }

    #[inline]
    fn stop_at_hi(&mut self) {
        // Keys of blocks before the one that holds `hi` are below it: no need to compare.
        if self.block + 1 >= self.blocks_end
            && let Some(hi) = &self.hi
            && self.on_entry
            && self.rows.key() >= &**hi
        {
            self.on_entry = false;
        }
    }

    #[inline]
    fn stop_at_lo(&mut self) {
        if self.block <= self.blocks_start
            && let Some(lo) = &self.lo
            && self.on_entry
            && self.rows.key() < &**lo
        {
            self.on_entry = false;
        }
    }

    /// Leaves a block at its end: its last key must be below what follows.
    fn next_block(&mut self) -> Result<()> {
        self.check_last()?;
        self.enter(self.block + 1)
    }

    /// Leaves a block at its start.
    fn previous_block(&mut self) -> Result<()> {
        self.check_first()?;
        match self.block.checked_sub(1) {
            Some(before) if before >= self.blocks_start => self.enter_last(before),
            _ => {
                self.on_entry = false;
                Ok(())
            }
        }
    }

    /// Moves to the first entry of a block.
    fn enter(&mut self, index: usize) -> Result<()> {
        if !self.load(index, Direction::Forward)? {
            return Ok(());
        }
        let first = self.rows.first(self.bytes.get(), self.run.format());
        first.map_err(|bad| self.fail(bad))?;
        self.check_first()?;
        self.on_entry = true;
        Ok(())
    }

    /// Moves to the last entry of a block.
    fn enter_last(&mut self, index: usize) -> Result<()> {
        if !self.load(index, Direction::Backward)? {
            return Ok(());
        }
        let last = self.rows.last(self.bytes.get(), self.run.format());
        last.map_err(|bad| self.fail(bad))?;
        self.check_last()?;
        self.on_entry = true;
        Ok(())
    }

    /// At a block's first row: its key must not be below the block's separator; in the first block
    /// it must be the run's first key (invariant 1).
    fn check_first(&mut self) -> Result<()> {
        let fits = if self.block == 0 {
            self.run.first_key() == Some(self.rows.key())
        } else {
            self.rows.key() >= self.run.blocks().separator(self.block)
        };
        if fits { Ok(()) } else { Err(self.fail(BadBlock("its first key lies outside it"))) }
    }

    /// At a block's last row: it must be below what follows (invariant 1).
    fn check_last(&mut self) -> Result<()> {
        let after = self.block + 1;
        let fits = if after == self.run.block_count() {
            self.run.last_key() == Some(self.rows.key())
        } else {
            self.rows.key() < self.run.blocks().separator(after)
        };
        if fits { Ok(()) } else { Err(self.fail(BadBlock("its last key lies outside it"))) }
    }

    /// Makes a block the current one; false if the range has no block of that number.
    fn load(&mut self, index: usize, direction: Direction) -> Result<bool> {
        self.on_entry = false;
        if index >= self.blocks_end {
            return Ok(false);
        }
        self.block = index;
        let mut chunks = Chunks::default();
        match &mut self.access {
            Access::Cached { source, ahead: (direction, bytes), others } => {
                let run = &self.run;
                let loaded = others.as_ref().and_then(|others| {
                    others.loaded(run, index).or_else(|| {
                        run.wants(index, &**source).then(|| others.wait_for(run, index))?
                    })
                });
                let block = match loaded {
                    Some((block, decoded)) => {
                        chunks = decoded;
                        block
                    }
                    None => {
                        // In a backward walk the range starts in this block, and the walk continues
                        // below it.
                        let is_up = *direction == Direction::Forward;
                        let start = if is_up { self.blocks_start } else { 0 };
                        let blocks = start..self.blocks_end;
                        let piece = piece(&self.run, index, blocks, *direction, *bytes);
                        self.run.block_of(index, piece, &**source, &mut chunks)?
                    }
                };
                self.bytes = Bytes::Pinned(block);
            }
            Access::Bulk(bulk) => {
                let mut own = match &mut self.bytes {
                    Bytes::Own(own) => std::mem::take(own),
                    Bytes::Pinned(_) => Vec::new(),
                };
                let blocks = self.blocks_start..self.blocks_end;
                bulk.decode(&self.run, index, blocks, direction, &mut own)?;
                self.bytes = Bytes::Own(own);
            }
        }
        if self.checking {
            self.run.check_block(index, self.bytes.get(), &mut chunks)?;
        }
        let entered = self.rows.enter(self.bytes.get(), chunks);
        entered.map_err(|bad| self.run.bad_block(index, bad))?;
        if index + 1 >= self.blocks_end
            && let (Some(hi), Access::Cached { .. }) = (&self.hi, &self.access)
        {
            let set = self.rows.set_limit(self.bytes.get(), self.run.format(), hi);
            set.map_err(|bad| self.run.bad_block(index, bad))?;
        }
        Ok(true)
    }
}

impl EntrySource for RunCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        RunCursor::entry(self)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        RunCursor::advance(self)
    }

    #[inline]
    fn retreat(&mut self) -> Result<()> {
        RunCursor::retreat(self)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        RunCursor::seek(self, key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        RunCursor::seek_before(self, key)
    }

    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        let (first, last) = (self.run.first_key()?, self.run.last_key()?);
        let lo = self.lo.as_deref().map_or(first, |lo| lo.max(first));
        let hi = self.hi.as_deref().map_or(last, |hi| hi.min(last));
        Some((lo, hi))
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.rows.is_whole()
    }

    fn make_whole(&mut self) -> Result<()> {
        self.project(&ColumnSelection::All)
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        Some(self.run.range_deletes())
    }

    /// Only range deletes inside the cursor's bounds count.
    fn has_range_deletes(&self) -> bool {
        self.run.range_deletes().meets(self.lo.as_deref(), self.hi.as_deref())
    }

    /// Only range deletes inside the cursor's bounds count.
    #[inline]
    fn covers(&self, key: &[u8]) -> bool {
        self.lo.as_deref().is_none_or(|lo| lo <= key)
            && self.hi.as_deref().is_none_or(|hi| key < hi)
            && self.run.range_deletes().covers(key)
    }
}
