//! The builder of row blocks: builds one block, row by row.

use crate::{
    block::{
        RESTART_ROWS,
        bytes::{KeyBuf, copy_short},
        common_prefix, varint_bytes,
    },
    message::Tag,
};

/// The result of pushing a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Pushed {
    /// The row is in the block.
    Done,
    /// With the row, the block would be too long.
    Full,
    /// The row's key is not above the previous one.
    Unordered,
}

/// Builds a block in its raw form. Reusable: [`clear`](BlockBuilder::clear) keeps the memory.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    /// Longer than the block, so that rows are written without growing it for each.
    raw: Vec<u8>,
    len: usize,
    restarts: Vec<u16>,
    last: KeyBuf,
    rows: usize,
}

/// Bytes after the restart array: rows and restarts.
pub(in crate::block) const TRAILER_BYTES: usize = 4;

impl BlockBuilder {
    /// Creates an empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of the block if it were finished now.
    #[inline]
    pub fn raw_bytes(&self) -> usize {
        self.len + 2 * self.restarts.len() + TRAILER_BYTES
    }

    /// The last key pushed; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        self.last.get()
    }

    /// Appends a row, unless the block would then be longer than `bytes_max` (a first row always
    /// fits) or the key does not ascend (invariant 1).
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        let last = self.last.get();
        let common = common_prefix(last, key);
        let ascends = match (last.get(common), key.get(common)) {
            (Some(old), Some(new)) => new > old,
            (None, Some(_)) => true,
            (_, None) => self.rows == 0,
        };
        if !ascends {
            return Pushed::Unordered;
        }
        let restart = self.rows.is_multiple_of(RESTART_ROWS);
        let shared = if restart { 0 } else { common };
        let suffix = &key[shared..];
        let head = Head { tag, shared, suffix: suffix.len(), payload: payload.len() };
        let head_bytes = head.bytes();
        let row_bytes = head_bytes + suffix.len() + payload.len();
        let grown = self.raw_bytes() + row_bytes + if restart { 2 } else { 0 };
        if grown > bytes_max && self.rows > 0 {
            return Pushed::Full;
        }
        if restart {
            // Only the single row of a block reaches beyond 64 KiB, and that row starts at 0.
            self.restarts.push(self.len as u16);
        }
        let end = self.len + row_bytes;
        if self.raw.len() < end {
            self.raw.resize(end.next_power_of_two().max(4096), 0);
        }
        let row = &mut self.raw[self.len..end];
        head.put(&mut row[..head_bytes]);
        let (to_suffix, to_payload) = row[head_bytes..].split_at_mut(suffix.len());
        copy_short(to_suffix, suffix);
        copy_short(to_payload, payload);
        self.len = end;
        self.last.replace_after(common, &key[common..]);
        self.rows += 1;
        Pushed::Done
    }

    /// Finishes the block and returns its bytes. Call [`clear`](BlockBuilder::clear) before the
    /// next row.
    pub fn finish(&mut self) -> &[u8] {
        self.raw.truncate(self.len);
        for offset in &self.restarts {
            self.raw.extend_from_slice(&offset.to_le_bytes());
        }
        self.raw.extend_from_slice(&(self.rows as u16).to_le_bytes());
        self.raw.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
        &self.raw
    }

    /// Removes the rows, but keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.restarts.clear();
        self.last.clear();
        self.rows = 0;
    }
}

/// The head of a row: its tag, and the lengths of what its key shares, of the rest of the key, and
/// of its payload.
#[derive(Clone, Copy)]
pub(in crate::block) struct Head {
    pub tag: Tag,
    pub shared: usize,
    pub suffix: usize,
    pub payload: usize,
}

impl Head {
    /// True if all three lengths are below 128: nearly always.
    #[inline]
    fn is_small(self) -> bool {
        self.shared < 128 && self.suffix < 128 && self.payload < 128
    }

    /// Length of the head.
    #[inline]
    pub fn bytes(self) -> usize {
        if self.is_small() { 4 } else { self.long_bytes() }
    }

    /// Writes the head to `to`, which has exactly its length.
    #[inline]
    pub fn put(self, to: &mut [u8]) {
        if self.is_small() {
            let Self { tag, shared, suffix, payload } = self;
            to.copy_from_slice(&[tag.to_disk(), shared as u8, suffix as u8, payload as u8]);
        } else {
            self.put_long(to);
        }
    }

    #[cold]
    fn long_bytes(self) -> usize {
        let lengths = [self.shared, self.suffix, self.payload];
        1 + lengths.into_iter().map(|length| varint_bytes(length as u64)).sum::<usize>()
    }

    #[cold]
    fn put_long(self, to: &mut [u8]) {
        let mut bytes = to.iter_mut();
        let mut put = |byte: usize| bytes.next().map(|to| *to = byte as u8);
        put(self.tag.to_disk().into());
        for mut length in [self.shared, self.suffix, self.payload] {
            while length >= 0x80 {
                put(length & 0x7f | 0x80);
                length >>= 7;
            }
            put(length);
        }
    }
}
