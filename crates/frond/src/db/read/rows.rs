//! A buffer of rows that a cursor fetched.
//!
//! Invariant: only a cursor's own buffer holds blob references; a caller's buffer holds values.

use crate::{Result, block::columnar::Even};

/// Bit in a row's value length: the value is a blob reference. Lengths are smaller.
const IS_BLOB: u32 = 1 << 31;
/// Least capacity that is reserved for the first row.
const ROWS_RESERVED: usize = 16;
const BYTES_RESERVED: usize = 2 << 10;
/// Most capacity that is reserved, whatever is expected.
const ROWS_EXPECTED_MAX: usize = 512;
const BYTES_EXPECTED_MAX: usize = 64 << 10;

/// Bytes at which a batch ends that is built row by row.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Rows in one allocation.
#[derive(Clone, Debug, Default)]
pub struct RowBuf {
    bytes: Vec<u8>,
    rows: Vec<Placed>,
    expected: usize,
}

/// The position of a row in `bytes`.
#[derive(Clone, Copy, Debug)]
struct Placed {
    key: u32,
    key_bytes: u32,
    value: u32,
    /// Length, with [`IS_BLOB`].
    value_bytes: u32,
}

impl RowBuf {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Key and value of row `index`.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let &Placed { key, key_bytes, value, value_bytes } = self.rows.get(index)?;
        let bytes = |at: u32, bytes: u32| self.bytes.get(at as usize..at as usize + bytes as usize);
        Some((bytes(key, key_bytes)?, bytes(value, value_bytes & !IS_BLOB)?))
    }

    /// Rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Removes the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Bytes of memory that it holds, used or not.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<Placed>()
    }

    /// Bytes of keys and values.
    pub(in crate::db) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Announces how many rows are about to be pushed, so that memory is reserved once, assuming
    /// rows as long as the first.
    pub(in crate::db) fn expect(&mut self, rows: usize) {
        self.expected = rows.min(ROWS_EXPECTED_MAX);
    }

    #[inline]
    /// Fills the buffer row by row with up to `rows_max` rows, going up or down; they end up in
    /// ascending order. `next` adds one, or returns false at the end. If `next` fails after some
    /// rows and `keeps` is set, these rows are kept, and the next batch returns the error. Returns
    /// the number of rows.
    pub(in crate::db) fn fill(
        &mut self,
        forward: bool,
        rows_max: usize,
        keeps: bool,
        mut next: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<usize> {
        self.clear();
        while self.len() < rows_max && self.bytes() < BATCH_BYTES_MAX {
            match next(self) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if self.is_empty() || !keeps => {
                    self.clear();
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        if !forward {
            self.reverse();
        }
        Ok(self.len())
    }

    pub(in crate::db) fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        if self.rows.is_empty() {
            self.reserve(key.len() + value.len());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push(Placed {
            key: start as u32,
            key_bytes: key.len() as u32,
            value: (start + key.len()) as u32,
            value_bytes: value.len() as u32,
        });
    }

    /// Appends the first `count` rows of columns with fixed widths, in two copies: all keys, then
    /// all values.
    pub(in crate::db) fn push_even(&mut self, rows: &Even<'_>, count: usize) {
        let (keys, values) = (rows.keys, rows.values);
        if self.rows.is_empty() {
            self.expected = self.expected.max(count);
            self.reserve(keys.apart + values.apart);
        }
        let key_at = self.bytes.len();
        self.bytes.extend_from_slice(&keys.bytes[..count * keys.apart]);
        let value_at = self.bytes.len();
        self.bytes.extend_from_slice(&values.bytes[..count * values.apart]);
        self.rows.extend((0..count).map(|row| Placed {
            key: (key_at + row * keys.apart) as u32,
            key_bytes: keys.width as u32,
            value: (value_at + row * values.apart) as u32,
            value_bytes: values.width as u32,
        }));
    }

    /// Reserves memory for rows of this length.
    fn reserve(&mut self, row_bytes: usize) {
        let rows = self.expected.max(ROWS_RESERVED);
        self.rows.reserve(rows);
        self.bytes.reserve((rows * row_bytes).clamp(BYTES_RESERVED, BYTES_EXPECTED_MAX));
    }

    /// Reverses the order of the rows.
    pub(in crate::db) fn reverse(&mut self) {
        self.rows.reverse();
    }

    /// Appends a row with a blob reference; only in a cursor's own buffer.
    pub(in crate::db) fn push_blob(&mut self, key: &[u8], reference: &[u8]) {
        self.push(key, reference);
        if let Some(row) = self.rows.last_mut() {
            row.value_bytes |= IS_BLOB;
        }
    }

    pub(in crate::db) fn is_blob(&self, index: usize) -> bool {
        self.rows.get(index).is_some_and(|row| row.value_bytes & IS_BLOB != 0)
    }

    pub(in crate::db) fn has_blobs(&self) -> bool {
        self.rows.iter().any(|row| row.value_bytes & IS_BLOB != 0)
    }
}
