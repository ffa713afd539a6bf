//! Rows that a cursor fetched, in one buffer.
//!
//! Invariant: only a cursor's own buffer holds references to blobs; what a caller gets holds values.

/// Bit of a row's value length: the value is a reference to a blob. Lengths are below it.
const IS_BLOB: u32 = 1 << 31;
/// What a buffer has room for from its first row on.
const ROWS_RESERVED: usize = 16;
const BYTES_RESERVED: usize = 2 << 10;
/// No more is asked for than this, whatever is expected.
const ROWS_EXPECTED_MAX: usize = 512;
const BYTES_EXPECTED_MAX: usize = 64 << 10;

/// Rows in one allocation: keys and values back to back.
#[derive(Clone, Debug, Default)]
pub struct RowBuf {
    bytes: Vec<u8>,
    rows: Vec<(u32, u32, u32)>,
    expected: usize,
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
        let &(start, key, value) = self.rows.get(index)?;
        let (start, key, value) = (start as usize, key as usize, (value & !IS_BLOB) as usize);
        let row = self.bytes.get(start..start + key + value)?;
        row.split_at_checked(key)
    }

    /// Rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// So many rows are about to be pushed, of which a first one is as long as the others: memory is asked for once.
    pub(super) fn expect(&mut self, rows: usize) {
        self.expected = rows.min(ROWS_EXPECTED_MAX);
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len() as u32;
        if self.rows.is_empty() {
            let rows = self.expected.max(ROWS_RESERVED);
            self.rows.reserve(rows);
            self.bytes.reserve(
                (rows * (key.len() + value.len())).clamp(BYTES_RESERVED, BYTES_EXPECTED_MAX),
            );
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push((start, key.len() as u32, value.len() as u32));
    }

    /// Turns the order of the rows round.
    pub(super) fn reverse(&mut self) {
        self.rows.reverse();
    }

    /// Only in a cursor's own buffer.
    pub(super) fn push_blob(&mut self, key: &[u8], reference: &[u8]) {
        self.push(key, reference);
        if let Some((_, _, value)) = self.rows.last_mut() {
            *value |= IS_BLOB;
        }
    }

    pub(super) fn is_blob(&self, index: usize) -> bool {
        self.rows.get(index).is_some_and(|(_, _, value)| value & IS_BLOB != 0)
    }

    pub(super) fn has_blobs(&self) -> bool {
        self.rows.iter().any(|(_, _, value)| value & IS_BLOB != 0)
    }
}
