//! Steps of a cursor over many rows at once.
//!
//! A batch is nearly always a chunk as it was fetched; its buffer is swapped with the caller's, and
//! no row is copied.
//!
//! Threads: one.

use crate::{
    Result,
    db::{Repeats, RowBuf},
};

use super::{Cursor, Gap, ROWS_MAX};

/// Bytes at which a batch ends.
const BATCH_BYTES_MAX: usize = 16 << 20;

impl Cursor {
    /// Reads up to `rows_max` rows, going up, into a buffer that is cleared first. Returns fewer
    /// rows if they exceed 16 MiB together, or if more would have to be fetched; no row means the
    /// end. The cursor is on the last of them.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn read_batch(&mut self, out: &mut RowBuf, rows_max: usize) -> Result<usize> {
        self.read_batch_to(true, out, rows_max)
    }

    /// Reads rows in a direction, like [`read_batch`](Self::read_batch). Rows are in ascending
    /// order in either case: when going down, the nearest row is the last.
    pub(in crate::db) fn read_batch_to(
        &mut self,
        forward: bool,
        out: &mut RowBuf,
        rows_max: usize,
    ) -> Result<usize> {
        out.clear();
        self.turn(forward);
        // The rows are then fetched into the caller's memory.
        if self.rows.is_empty() {
            std::mem::swap(out, &mut self.rows);
        }
        while out.len() < rows_max && out.bytes() < BATCH_BYTES_MAX {
            let rest = if forward { self.rows.len() - self.index } else { self.index };
            // One descent fetches as many rows as the caller asks for.
            if rest == 0 && rows_max < ROWS_MAX {
                self.chunk_rows = self.chunk_rows.max(rows_max);
            }
            let met = if rest > 0 {
                Ok(true)
            } else if forward {
                self.fetch_up()
            } else {
                self.fetch_down()
            };
            match met {
                Ok(true) if out.is_empty() && self.is_whole_piece(forward, rows_max) => {
                    self.give_piece(forward, out);
                    self.is_on_row = true;
                    return Ok(out.len());
                }
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if out.is_empty() => return Err(error),
                // The next batch returns the error.
                Err(_) => break,
            }
            let at = if forward { self.index } else { self.index - 1 };
            match self.row(at) {
                Ok(Some((key, value))) => out.push(key, value),
                Ok(None) => {}
                Err(error) if out.is_empty() => return Err(error),
                Err(_) => break,
            }
            self.index = if forward { at + 1 } else { at };
        }
        self.is_on_row = !out.is_empty();
        if out.is_empty() {
            self.order.forget();
        }
        if !forward {
            out.reverse();
        }
        Ok(out.len())
    }

    /// True if nothing of the buffer was returned yet, and it can be returned as it is.
    fn is_whole_piece(&self, forward: bool, rows_max: usize) -> bool {
        let is_fresh = self.index == if forward { 0 } else { self.rows.len() };
        is_fresh && self.rows.len() <= rows_max && !self.rows.has_blobs()
    }

    /// Swaps the buffer with the caller's.
    fn give_piece(&mut self, forward: bool, out: &mut RowBuf) {
        std::mem::swap(out, &mut self.rows);
        self.rows.clear();
        self.index = 0;
        if cfg!(debug_assertions) {
            let in_order =
                (0..out.len()).map(|row| if forward { row } else { out.len() - 1 - row });
            let keys = in_order.filter_map(|row| out.get(row)).map(|(key, _)| key);
            keys.for_each(|key| self.order.hands_out(forward, key, Repeats::Never));
        }
        let last = if forward { out.len().checked_sub(1) } else { Some(0) };
        if let Some((key, _)) = last.and_then(|last| out.get(last)) {
            let key = key.to_vec();
            self.gap = if forward { Gap::Above(key) } else { Gap::Below(key) };
        }
    }

    /// Restricts the cursor to another range, starting at its first row.
    pub(in crate::db) fn set_range(&mut self, (from, to): (Option<Vec<u8>>, Option<Vec<u8>>)) {
        (self.from, self.to) = (from, to);
        self.seek_first();
    }
}
