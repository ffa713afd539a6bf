//! Writes the rows of a row block into a buffer of its length: byte for byte what [`BlockBuilder`]
//! produces.
//!
//! [`BlockBuilder`]: super::super::BlockBuilder

use super::super::{
    BadBlock, RESTART_ROWS,
    bytes::copy_short,
    row::{Head, TRAILER_BYTES},
};
use crate::message::Tag;

/// Writes rows one after the other.
pub struct RowWriter<'a> {
    rows: &'a mut [u8],
    at: usize,
    /// Number of the next row.
    row: usize,
    restarts: &'a mut [u8],
}

const TOO_LONG: BadBlock = BadBlock("its transposed rows are longer than its block");

impl<'a> RowWriter<'a> {
    /// Creates a writer for a block of `count` rows, at most 65 535.
    pub fn new(block: &'a mut [u8], count: usize) -> Result<Self, BadBlock> {
        let restarts = count.div_ceil(RESTART_ROWS);
        let rows_end = block.len().checked_sub(TRAILER_BYTES + 2 * restarts).ok_or(TOO_LONG)?;
        let (rows, rest) = block.split_at_mut(rows_end);
        let (restart_offsets, trailer) = rest.split_at_mut(2 * restarts);
        for (to, number) in trailer.chunks_exact_mut(2).zip([count, restarts]) {
            to.copy_from_slice(&(number as u16).to_le_bytes());
        }
        Ok(Self { rows, at: 0, row: 0, restarts: restart_offsets })
    }

    /// True if the key of the next row is whole.
    #[inline]
    pub fn is_restart(&self) -> bool {
        self.row.is_multiple_of(RESTART_ROWS)
    }

    /// Writes a row. The suffix of its key, after what it shares with the previous one, is in two
    /// parts.
    #[inline]
    pub fn put(
        &mut self,
        tag: Tag,
        shared: usize,
        suffix: [&[u8]; 2],
        payload: &[u8],
    ) -> Result<(), BadBlock> {
        if self.is_restart() {
            // Only the single row of a block may reach beyond 64 KiB, and it starts at 0.
            let offset = u16::try_from(self.at).map_err(|_| TOO_LONG)?;
            let at = 2 * (self.row / RESTART_ROWS);
            let to = self.restarts.get_mut(at..at + 2).ok_or(TOO_LONG)?;
            to.copy_from_slice(&offset.to_le_bytes());
        }
        let suffix_bytes = suffix[0].len() + suffix[1].len();
        let head = Head { tag, shared, suffix: suffix_bytes, payload: payload.len() };
        let head_bytes = head.bytes();
        let end = self.at + head_bytes + suffix_bytes + payload.len();
        let row = self.rows.get_mut(self.at..end).ok_or(TOO_LONG)?;
        let (to_head, rest) = row.split_at_mut(head_bytes);
        head.put(to_head);
        let (to_suffix, to_payload) = rest.split_at_mut(suffix_bytes);
        let (to_first, to_second) = to_suffix.split_at_mut(suffix[0].len());
        copy_short(to_first, suffix[0]);
        copy_short(to_second, suffix[1]);
        copy_short(to_payload, payload);
        self.at = end;
        self.row += 1;
        Ok(())
    }

    /// True if the rows fill the block.
    pub fn is_full(&self) -> bool {
        self.at == self.rows.len()
    }
}
