//! Building one block, row by row.

use super::{RESTART_ROWS, common_prefix, varint_bytes};
use crate::{coding::put_varint, message::Tag};

/// Builds a block in its raw form. Reusable: [`clear`](BlockBuilder::clear) keeps the memory.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    raw: Vec<u8>,
    restarts: Vec<u16>,
    last: Vec<u8>,
    rows: usize,
}

/// Bytes after the restart array: rows and restarts.
pub(super) const TRAILER_BYTES: usize = 4;

impl BlockBuilder {
    /// An empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of the block if it were finished now.
    pub fn raw_bytes(&self) -> usize {
        self.raw.len() + 2 * self.restarts.len() + TRAILER_BYTES
    }

    /// The key pushed last; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// Appends a row unless the block would then be longer than `bytes_max`; a first row always fits.
    /// Keys ascend strictly: the caller has seen to it (Invariant 1).
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> bool {
        let restart = self.rows.is_multiple_of(RESTART_ROWS);
        let shared = if restart { 0 } else { common_prefix(&self.last, key) };
        let suffix = &key[shared..];
        let small = shared < 128 && suffix.len() < 128 && payload.len() < 128;
        let lengths = if small {
            3
        } else {
            varint_bytes(shared as u64)
                + varint_bytes(suffix.len() as u64)
                + varint_bytes(payload.len() as u64)
        };
        let row_bytes = 1 + lengths + suffix.len() + payload.len();
        let grown = self.raw_bytes() + row_bytes + if restart { 2 } else { 0 };
        if grown > bytes_max && self.rows > 0 {
            return false;
        }
        if restart {
            // Only a block's single row reaches beyond 64 KiB, and that one begins at 0.
            self.restarts.push(self.raw.len() as u16);
        }
        if small {
            let lengths = [tag.to_disk(), shared as u8, suffix.len() as u8, payload.len() as u8];
            self.raw.extend_from_slice(&lengths);
        } else {
            self.raw.push(tag.to_disk());
            put_varint(&mut self.raw, shared as u64);
            put_varint(&mut self.raw, suffix.len() as u64);
            put_varint(&mut self.raw, payload.len() as u64);
        }
        self.raw.extend_from_slice(suffix);
        self.raw.extend_from_slice(payload);
        if restart {
            self.last.clear();
            self.last.extend_from_slice(key);
        } else {
            self.last.truncate(shared);
            self.last.extend_from_slice(suffix);
        }
        self.rows += 1;
        true
    }

    /// The block's bytes. Call [`clear`](BlockBuilder::clear) before the next row.
    pub fn finish(&mut self) -> &[u8] {
        for offset in &self.restarts {
            self.raw.extend_from_slice(&offset.to_le_bytes());
        }
        self.raw.extend_from_slice(&(self.rows as u16).to_le_bytes());
        self.raw.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
        &self.raw
    }

    /// Forgets the rows, not the memory.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.restarts.clear();
        self.last.clear();
        self.rows = 0;
    }
}
