//! The rows of a cursor's batch, in memory that the cursor owns. A cursor that ends leaves its
//! memory to the next cursor of its thread: otherwise each short scan would allocate and free it.

use std::cell::Cell;

use frond::RowBuf;

use super::frond_row;

/// Maximum memory that a thread keeps: enough for 100 rows of 200 bytes.
const KEPT_BYTES_MAX: usize = 32 << 10;

thread_local! {
    static SPARE: Cell<Option<(RowBuf, Vec<frond_row>)>> = const { Cell::new(None) };
}

/// The rows that a cursor has returned.
pub(super) struct Batch {
    /// Keys and values, back to back, of rows that were stored one by one.
    pub(super) memory: Vec<u8>,
    /// The place of each row in `memory`.
    pub(super) places: Vec<Place>,
    /// Rows that the engine returned together, in ascending order; then `places` is empty.
    pub(super) piece: RowBuf,
    /// The rows in the order in which they are returned.
    rows: Vec<frond_row>,
}

impl Default for Batch {
    fn default() -> Self {
        let (piece, rows) = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        Self { memory: Vec::new(), places: Vec::new(), piece, rows }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let (mut piece, mut rows) =
            (std::mem::take(&mut self.piece), std::mem::take(&mut self.rows));
        piece.clear();
        rows.clear();
        let bytes = piece.memory_bytes() + rows.capacity() * size_of::<frond_row>();
        if (1..=KEPT_BYTES_MAX).contains(&bytes) {
            // Fails on a thread that is ending: then the memory is freed.
            let _ = SPARE.try_with(|spare| spare.set(Some((piece, rows))));
        }
    }
}

impl Batch {
    /// Removes the rows.
    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.places.clear();
        self.piece.clear();
        self.rows.clear();
    }

    /// Makes the fetched rows ready to be returned. Rows of a piece are returned in its order, or
    /// in reverse if the cursor moves backward.
    pub(super) fn finish(&mut self, forward: bool) {
        let Self { memory, places, piece, rows } = self;
        rows.clear();
        rows.extend(places.iter().map(|place| place.row(memory)));
        let row = |(key, value): (&[u8], &[u8])| frond_row {
            key: key.as_ptr(),
            key_length: key.len(),
            value: value.as_ptr(),
            value_length: value.len(),
            locked: false,
        };
        rows.extend(piece.iter().map(row));
        if !forward && !piece.is_empty() {
            rows.reverse();
        }
    }

    /// The rows as they are returned.
    pub(super) fn rows(&self) -> &[frond_row] {
        &self.rows
    }

    /// The key of a row.
    pub(super) fn key(&self, row: usize, forward: bool) -> Option<&[u8]> {
        if let Some(place) = self.places.get(row) {
            return self.memory.get(place.at..place.at + place.key_length);
        }
        let at = if forward { row } else { self.piece.len().checked_sub(row + 1)? };
        self.piece.get(at).map(|(key, _)| key)
    }
}

/// The place of a row in a cursor's memory, key before value.
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) key_length: usize,
    pub(super) value_length: usize,
    pub(super) locked: bool,
}

impl Place {
    /// Appends a row to the memory.
    pub(super) fn put(memory: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Self {
        let at = memory.len();
        memory.extend_from_slice(key);
        memory.extend_from_slice(value);
        Self { at, key_length: key.len(), value_length: value.len(), locked: false }
    }

    /// The row; valid until the memory is written to.
    fn row(&self, memory: &[u8]) -> frond_row {
        let Self { at, key_length, value_length, locked } = *self;
        let (key, rest) = memory[at..].split_at(key_length);
        frond_row { key: key.as_ptr(), key_length, value: rest.as_ptr(), value_length, locked }
    }
}
