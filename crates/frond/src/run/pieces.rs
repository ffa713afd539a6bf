//! Reading several blocks of a run at once: a device takes little longer for sixteen than for one, and
//! the call alone costs as much as decoding one.
//!
//! Threads: a piece belongs to its cursor.

use std::ops::Range;

use super::{
    Direction,
    reader::{Data, ReadBuf, Run},
};
use crate::{block::BadBlock, error::Result};

/// Least that a bulk cursor reads at once, unless the run or the range ends: 256 KiB take under a
/// millisecond and are sixteen blocks.
pub const BULK_BYTES: usize = 256 << 10;

/// A piece of the file, read at once.
#[derive(Debug)]
pub(super) struct Bulk {
    buf: ReadBuf,
    /// Blocks that the piece holds.
    blocks: Range<usize>,
    /// Where the first of them lies in the piece, and in the run's data.
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

    /// Block `index` as stored, not yet checked; if it is not at hand, it is read with those that come
    /// next in this direction.
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

/// Blocks to read at once: `index`, and more of `blocks` in this direction until `bytes_min` are
/// together.
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
    let codec = run.blocks().entry(index).map(|entry| entry.codec).unwrap_or_default();
    run.decode(codec, encoded, out).map_err(|bad| run.bad_block(index, bad))?;
    run.check_counts(index, out)
}
