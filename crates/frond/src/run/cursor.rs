//! Walking a run's entries in order, forward and backward, within bounds.
//!
//! Two ways to the blocks: through the cache, for readers; or in bulk, for merges, which read pieces
//! of [`BULK_BYTES`] straight from the file, decode into memory of their own, and leave the cache alone.
//!
//! Invariants
//! 1. Keys ascend strictly over all blocks, each within its separators and the run's first and last
//!    key: whatever the bytes, a cursor gives ordered keys or an error.
//!
//! Threads: a cursor belongs to one thread; it keeps the run alive.

use super::{
    Direction, Entry, EntrySource, RangeDeletes,
    reader::{Data, PinnedBlock, ReadBuf, Run},
};
use crate::{
    block::{self, BadBlock, Rows, Shape},
    cache::BlockSource,
    error::{Error, Result},
    sync::Arc,
};

/// Least that a bulk cursor reads at once, unless the run or the range ends: 256 KiB take under a
/// millisecond and are sixteen blocks.
pub const BULK_BYTES: usize = 256 << 10;

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
    shape: Shape,
    rows: Rows,
    on_entry: bool,
    checking: bool,
}

#[derive(Debug)]
enum Access {
    Cached(Arc<dyn BlockSource>),
    Bulk(Bulk),
}

/// A piece of the file, read at once.
#[derive(Debug)]
struct Bulk {
    buf: ReadBuf,
    /// Blocks that the piece holds.
    blocks: std::ops::Range<usize>,
    /// Where the first of them lies in the piece, and in the run's data.
    skip: usize,
    start: usize,
    device_bytes: u64,
}

#[derive(Debug)]
enum Bytes {
    Pinned(PinnedBlock),
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
    /// A cursor that reads through the cache; it stands nowhere yet.
    pub fn new(run: Arc<Run>, source: Arc<dyn BlockSource>) -> Self {
        Self::with(run, Access::Cached(source))
    }

    /// A cursor that reads in bulk and leaves the cache alone; it stands nowhere yet.
    pub fn bulk(run: Arc<Run>) -> Self {
        let buf = ReadBuf::new(run.pool.clone());
        let bulk = Bulk { buf, blocks: 0..0, skip: 0, start: 0, device_bytes: 0 };
        Self::with(run, Access::Bulk(bulk))
    }

    fn with(run: Arc<Run>, access: Access) -> Self {
        Self {
            blocks_start: 0,
            blocks_end: run.block_count(),
            run,
            access,
            lo: None,
            hi: None,
            block: 0,
            bytes: Bytes::Own(Vec::new()),
            shape: Shape::default(),
            rows: Rows::default(),
            on_entry: false,
            checking: false,
        }
    }

    /// Makes a bulk cursor check what walking does not need of a block, its restarts above all.
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

    /// The run.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Number of the block stood in.
    pub fn block_index(&self) -> usize {
        self.block
    }

    /// Bytes that bulk reads took from the device.
    pub fn device_bytes(&self) -> u64 {
        match &self.access {
            Access::Cached(_) => 0,
            Access::Bulk(bulk) => bulk.device_bytes,
        }
    }

    /// Goes to the first entry of the range.
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

    /// Goes to the last entry of the range.
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

    /// Goes to the last entry of the range that is below `key`.
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
        let found = self.rows.seek_before(self.bytes.get(), &self.shape, key);
        self.on_entry = found.map_err(|bad| self.run.bad_block(index, bad))?;
        if !self.on_entry && index > self.blocks_start {
            self.enter_last(index - 1)?;
        }
        self.stop_at_lo();
        Ok(())
    }

    /// Goes to the first entry of block `index`, bounds permitting (`lo` is not looked at).
    pub fn start_at_block(&mut self, index: usize) -> Result<()> {
        self.enter(index)?;
        self.stop_at_hi();
        Ok(())
    }

    /// Goes to the first entry of the range that is not below `key`.
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
        let found = self.rows.seek(self.bytes.get(), &self.shape, key);
        self.on_entry = found.map_err(|bad| self.run.bad_block(index, bad))?;
        if !self.on_entry {
            self.enter(index + 1)?;
        }
        self.stop_at_hi();
        Ok(())
    }

    /// The entry stood on.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.on_entry.then(|| Entry {
            key: self.rows.key(),
            tag: self.rows.tag(),
            payload: self.rows.payload(self.bytes.get()),
        })
    }

    /// Goes to the next entry.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if !self.on_entry {
            return Ok(());
        }
        match self.rows.next(self.bytes.get(), &self.shape) {
            Ok(true) => {}
            Ok(false) => self.next_block()?,
            Err(bad) => return Err(self.fail(bad)),
        }
        self.stop_at_hi();
        Ok(())
    }

    /// Goes to the next entry of the same block. At its end the cursor stands nowhere, and
    /// [`start_at_block`](Self::start_at_block) goes on. For cursors without bounds.
    #[inline]
    pub fn advance_in_block(&mut self) -> Result<()> {
        debug_assert!(self.lo.is_none() && self.hi.is_none());
        match self.rows.next(self.bytes.get(), &self.shape) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.check_last()?;
                self.on_entry = false;
                Ok(())
            }
            Err(bad) => Err(self.fail(bad)),
        }
    }

    /// Block `index` as stored, checked against its CRC, of a bulk cursor: where walking forward would
    /// decode it. The cursor stands nowhere afterwards.
    pub fn carried_block(&mut self, index: usize) -> Result<&[u8]> {
        self.on_entry = false;
        let Access::Bulk(bulk) = &mut self.access else {
            return Err(Error::InvalidArgument("blocks are carried by bulk cursors".into()));
        };
        let blocks = self.blocks_start..self.blocks_end;
        let encoded = bulk.encoded(&self.run, index, blocks, Direction::Forward)?;
        self.run.verify_block(index, encoded)?;
        Ok(encoded)
    }

    /// Goes to the entry before.
    #[inline]
    pub fn retreat(&mut self) -> Result<()> {
        if !self.on_entry {
            return Ok(());
        }
        match self.rows.prev(self.bytes.get(), &self.shape) {
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

    /// Goes to the first entry of a block.
    fn enter(&mut self, index: usize) -> Result<()> {
        if !self.load(index, Direction::Forward)? {
            return Ok(());
        }
        let first = self.rows.first(self.bytes.get(), &self.shape);
        first.map_err(|bad| self.fail(bad))?;
        self.check_first()?;
        self.on_entry = true;
        Ok(())
    }

    /// Goes to the last entry of a block.
    fn enter_last(&mut self, index: usize) -> Result<()> {
        if !self.load(index, Direction::Backward)? {
            return Ok(());
        }
        let last = self.rows.last(self.bytes.get(), &self.shape);
        last.map_err(|bad| self.fail(bad))?;
        self.check_last()?;
        self.on_entry = true;
        Ok(())
    }

    /// Standing on a block's first row: no key before it may belong here (Invariant 1).
    fn check_first(&mut self) -> Result<()> {
        let fits = if self.block == 0 {
            self.run.first_key() == Some(self.rows.key())
        } else {
            self.rows.key() >= self.run.blocks().separator(self.block)
        };
        if fits { Ok(()) } else { Err(self.fail(BadBlock("its first key lies outside it"))) }
    }

    /// Standing on a block's last row: it must be below what follows (Invariant 1).
    fn check_last(&mut self) -> Result<()> {
        let after = self.block + 1;
        let fits = if after == self.run.block_count() {
            self.run.last_key() == Some(self.rows.key())
        } else {
            self.rows.key() < self.run.blocks().separator(after)
        };
        if fits { Ok(()) } else { Err(self.fail(BadBlock("its last key lies outside it"))) }
    }

    /// Makes a block the current one; false if the range has none of that number.
    fn load(&mut self, index: usize, direction: Direction) -> Result<bool> {
        self.on_entry = false;
        if index >= self.blocks_end {
            return Ok(false);
        }
        self.block = index;
        match &mut self.access {
            Access::Cached(source) => {
                self.bytes = Bytes::Pinned(self.run.block(index, &**source)?);
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
        let shape = Shape::parse(self.bytes.get());
        self.shape = shape.map_err(|bad| self.run.bad_block(index, bad))?;
        if self.checking {
            let checked = block::check(self.bytes.get(), &self.shape);
            checked.map_err(|bad| self.run.bad_block(index, bad))?;
        }
        Ok(true)
    }
}

impl Bulk {
    /// Decodes block `index` into `out`.
    fn decode(
        &mut self,
        run: &Run,
        index: usize,
        blocks: std::ops::Range<usize>,
        direction: Direction,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let entry = run.blocks().entry(index).copied();
        out.resize(entry.map_or(0, |entry| entry.raw_bytes as usize), 0);
        decode(run, index, self.encoded(run, index, blocks, direction)?, out)
    }

    /// Block `index` as stored, not yet checked; if it is not at hand, it is read with those that come
    /// next in this direction.
    fn encoded(
        &mut self,
        run: &Run,
        index: usize,
        blocks: std::ops::Range<usize>,
        direction: Direction,
    ) -> Result<&[u8]> {
        let missing = || run.bad_block(index, BadBlock("there is none"));
        let entry = *run.blocks().entry(index).ok_or_else(missing)?;
        let (start, len) = (entry.offset as usize, entry.encoded_bytes as usize);
        if self.blocks.contains(&index) {
            return Ok(self.buf.get(self.skip + start - self.start, len));
        }
        let data = run.data.load_full();
        match &*data {
            Data::Unwritten(_) => run.encoded_block(index, &mut self.buf),
            Data::Written { file, link } => {
                let piece = piece(run, index, blocks, direction);
                let lengths = run.blocks().entries().get(piece.clone()).unwrap_or_default();
                let bytes = lengths.iter().map(|entry| entry.encoded_bytes as usize).sum();
                let first = lengths.first().map_or(start, |entry| entry.offset as usize);
                self.blocks = 0..0;
                self.skip = self.buf.fill(file, link.offset + first as u64, bytes)?;
                self.blocks = piece;
                self.start = first;
                self.device_bytes += bytes as u64;
                Ok(self.buf.get(self.skip + start - first, len))
            }
        }
    }
}

/// Blocks to read at once: `index`, and more in this direction until [`BULK_BYTES`] are together.
fn piece(
    run: &Run,
    index: usize,
    blocks: std::ops::Range<usize>,
    direction: Direction,
) -> std::ops::Range<usize> {
    let bytes = |block| run.blocks().entry(block).map_or(0, |entry| entry.encoded_bytes as usize);
    let (mut start, mut end, mut total) = (index, index + 1, bytes(index));
    while total < BULK_BYTES {
        match direction {
            Direction::Forward if end < blocks.end => {
                total += bytes(end);
                end += 1;
            }
            Direction::Backward if start > blocks.start => {
                start -= 1;
                total += bytes(start);
            }
            _ => break,
        }
    }
    start..end
}

fn decode(run: &Run, index: usize, encoded: &[u8], out: &mut [u8]) -> Result<()> {
    run.verify_block(index, encoded)?;
    let codec = run.blocks().entry(index).map(|entry| entry.codec).unwrap_or_default();
    codec.decode(encoded, out).map_err(|bad| run.bad_block(index, bad))
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

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        Some(self.run.range_deletes())
    }
}
