//! Reading several blocks of a run together: a device takes little longer for sixteen blocks than
//! for one, and the system call alone costs as much as decoding one.
//!
//! Threads: a piece belongs to its cursor.

use std::ops::Range;

use super::{
    Direction,
    block_ref::BlockGuard,
    index::BlockEntry,
    reader::{Data, Filled, ReadBuf, Run},
};
use crate::{
    block::{BadBlock, Chunks, Codec},
    cache::{BlockCache, BlockSource},
    error::Result,
};

/// Minimum length of a bulk cursor's read, unless the run or the range ends: 256 KiB take under a
/// millisecond and are sixteen blocks.
pub const BULK_BYTES: usize = 256 << 10;

/// A piece of the file, read at once.
#[derive(Debug)]
pub(super) struct Bulk {
    buf: ReadBuf,
    /// Blocks that the piece holds.
    blocks: Range<usize>,
    /// Offset of the first of them in the piece, and in the run's data.
    skip: usize,
    start: usize,
    pub device_bytes: u64,
}

impl Bulk {
    pub fn new(run: &Run) -> Self {
        let buf = ReadBuf::new(run.pool.clone());
        Self { buf, blocks: 0..0, skip: 0, start: 0, device_bytes: 0 }
    }

    /// Decodes block `index` into `out`.
    pub fn decode(
        &mut self,
        run: &Run,
        index: usize,
        blocks: Range<usize>,
        direction: Direction,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let entry = run.blocks().entry(index).copied();
        out.resize(entry.map_or(0, |entry| entry.raw_bytes as usize), 0);
        decode(run, index, self.encoded(run, index, blocks, direction)?, out)
    }

    /// Returns block `index` as stored, not yet checked; if it is not in the piece, it is read
    /// together with those that follow in this direction.
    pub fn encoded(
        &mut self,
        run: &Run,
        index: usize,
        blocks: Range<usize>,
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
                let piece = piece(run, index, blocks, direction, BULK_BYTES);
                let entries = run.blocks().entries().get(piece.clone()).unwrap_or_default();
                self.blocks = 0..0;
                let filled = self.buf.fill_blocks(file, link, entries)?;
                (self.blocks, self.skip, self.start) = (piece, filled.skip, filled.start);
                self.device_bytes += filled.bytes as u64;
                Ok(self.buf.get(self.skip + start - self.start, len))
            }
        }
    }
}

impl Run {
    /// Trims a piece to the blocks that are not in `source`; empty if all of them are.
    pub(crate) fn wanted(&self, mut piece: Range<usize>, source: &dyn BlockSource) -> Range<usize> {
        while !piece.is_empty() && !self.wants(piece.start, source) {
            piece.start += 1;
        }
        while !piece.is_empty() && !self.wants(piece.end - 1, source) {
            piece.end -= 1;
        }
        piece
    }

    /// Reads these blocks together into `source`, if they lie in the file, and passes them to
    /// `take`, with what their codecs decoded if they were not there. Errors are ignored: the later
    /// reader of a block that cannot be read gets the error.
    pub(crate) fn load_together(
        &self,
        piece: Range<usize>,
        source: &dyn BlockSource,
        mut take: impl FnMut(usize, BlockGuard, Chunks),
    ) {
        let data = self.data.load_full();
        let Data::Written { file, link } = &*data else { return };
        let Some(entries) = self.blocks().entries().get(piece.clone()) else { return };
        let mut buf = ReadBuf::new(self.pool.clone());
        let Ok(Filled { skip, start, .. }) = buf.fill_blocks(file, link, entries) else {
            // The device may fail at only one of the blocks, so this is no error of the others.
            return;
        };
        let mut device_bytes = buf.device_bytes();
        for (block, entry) in piece.zip(entries) {
            let at = skip + entry.offset as usize - start;
            let mut chunks = Chunks::default();
            let brought = self.block_by(block, entry, source, &mut chunks, |out, chunks| {
                let encoded = buf.get(at, entry.encoded_bytes as usize);
                self.verify_block(block, encoded)?;
                self.decode_checked(block, encoded, out, chunks)?;
                Ok(std::mem::take(&mut device_bytes))
            });
            // Damage of a block is reported to its later reader.
            if let Ok(brought) = brought {
                take(block, brought, chunks);
            }
        }
    }

    /// Removes the run's blocks from a cache, once no reader will request them any more.
    pub fn forget_blocks(&self, cache: &BlockCache) {
        (0..self.block_count()).for_each(|index| cache.forget(&self.block_key(index)));
    }

    /// The blocks to read together from `first` on: about `stored_bytes` of stored bytes, and at
    /// most `decoded_bytes_max` once decoded; none if the first has more.
    pub(crate) fn piece_from(
        &self,
        first: usize,
        stored_bytes: usize,
        decoded_bytes_max: usize,
    ) -> Range<usize> {
        let (mut stored, mut decoded) = (0, 0);
        let blocks = self.blocks().entries().get(first..).unwrap_or_default().iter();
        let fits = blocks.take_while(|entry| {
            let is_full = stored >= stored_bytes;
            stored += entry.encoded_bytes as usize;
            decoded += self.decoded_bytes(entry) as usize;
            !is_full && decoded <= decoded_bytes_max
        });
        first..first + fits.count()
    }

    /// Bytes of a block once decoded, including what the codecs of its columns may decode.
    fn decoded_bytes(&self, entry: &BlockEntry) -> u64 {
        let has_chunks = !self.format().is_row() && self.codec() != Codec::Raw;
        let chunks = if has_chunks { entry.row_bytes } else { 0 };
        u64::from(entry.raw_bytes) + u64::from(chunks)
    }

    /// Bytes of these blocks as stored, and once decoded, including what the codecs of their
    /// columns decode.
    pub(crate) fn piece_bytes(&self, piece: Range<usize>) -> (u64, u64) {
        let entries = self.blocks().entries().get(piece).unwrap_or_default();
        let stored = entries.iter().map(|entry| u64::from(entry.encoded_bytes)).sum();
        (stored, entries.iter().map(|entry| self.decoded_bytes(entry)).sum())
    }
}

/// Blocks to read together: `index`, and more of `blocks` in this direction until they have
/// `bytes_min` bytes.
pub(super) fn piece(
    run: &Run,
    index: usize,
    blocks: Range<usize>,
    direction: Direction,
    bytes_min: usize,
) -> Range<usize> {
    let bytes = |block| run.blocks().entry(block).map_or(0, |entry| entry.encoded_bytes as usize);
    let (mut start, mut end, mut total) = (index, index + 1, bytes(index));
    while total < bytes_min {
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
    let packing = run.blocks().entry(index).map(|entry| entry.packing).unwrap_or_default();
    run.decode(packing, encoded, out).map_err(|bad| run.bad_block(index, bad))?;
    run.check_counts(index, out)
}
