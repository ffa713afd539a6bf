//! The trait that each encoding of strings implements for readers. Every encoding is one file;
//! `strs.rs` has the one `match` over them, which dispatches statically.

use std::{cmp::Ordering, ops::Range};

use super::strings::Strings;
use crate::block::BadBlock;

/// A stored column of one encoding, parsed. Callers pass only ranges of rows that exist; a single
/// row that does not exist is an error.
pub(super) trait StringColumn {
    /// Checks that every row has its string, in its only representation, and that all together
    /// have at most `bytes_max` bytes where this does not follow from the column's own length.
    fn check(&self, bytes_max: usize) -> Result<(), BadBlock>;

    /// Appends string `row`; on an error `out` may hold a part of it.
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock>;

    /// Appends strings `rows`, in order, while `out` has at most `bytes_max` bytes.
    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock>;

    /// [`decode`](Self::decode) by decoding each string on its own.
    fn decode_each(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        for row in rows {
            push(out, bytes_max, |bytes| self.get(row, bytes))?;
        }
        Ok(())
    }

    /// Compares string `row` with `key`: in place, or after decoding it.
    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        let mut string = Vec::new();
        self.get(row, &mut string)?;
        Ok(string[..].cmp(key))
    }

    /// The first of `rows` whose string is not below `key` (`after` false) or is above it (`after`
    /// true), if they ascend.
    fn bound(&self, rows: Range<usize>, key: &[u8], after: bool) -> Result<usize, BadBlock> {
        partition(rows, |row| {
            let order = self.cmp(row, key)?;
            Ok(order.is_lt() || after && order.is_eq())
        })
    }

    /// Those of `rows` whose string is `key`, if they ascend.
    fn equal_range(&self, rows: Range<usize>, key: &[u8]) -> Result<Range<usize>, BadBlock> {
        let start = self.bound(rows.clone(), key, false)?;
        Ok(start..self.bound(start..rows.end, key, true)?)
    }

    /// The length of each string, if the encoding guarantees that all have the same.
    #[inline]
    fn even_bytes(&self) -> Option<usize> {
        None
    }

    /// Writes strings `rows`, all of one [length](Self::even_bytes), each into its row.
    fn decode_apart(&self, _: Range<usize>, _: &mut Apart<'_>) -> Result<(), BadBlock> {
        Err(BadBlock("the strings of a column are of several lengths"))
    }
}

/// Rows that are being written, `apart` bytes from one to the next, and the offset of the string in
/// each.
pub struct Apart<'t> {
    /// All rows.
    pub lines: &'t mut [u8],
    /// Distance between the starts of neighbouring rows.
    pub apart: usize,
    /// Offset of the string in each row.
    pub at: usize,
}

pub(super) const TOO_LONG: BadBlock =
    BadBlock("the strings of a column are longer than its block's rows");

/// Appends a string to `out`, which has at most `bytes_max` bytes afterwards.
#[inline]
pub(super) fn push(
    out: &mut Strings,
    bytes_max: usize,
    append: impl FnOnce(&mut Vec<u8>) -> Result<(), BadBlock>,
) -> Result<(), BadBlock> {
    out.push_with(|bytes| {
        append(bytes)?;
        if bytes.len() > bytes_max { Err(TOO_LONG) } else { Ok(()) }
    })
}

/// Appends bytes to `out`, which has at most `bytes_max` bytes afterwards.
#[inline]
pub(super) fn push_bytes(
    out: &mut Strings,
    bytes_max: usize,
    string: &[u8],
) -> Result<(), BadBlock> {
    push(out, bytes_max, |bytes| {
        bytes.extend_from_slice(string);
        Ok(())
    })
}

/// Compares the next bytes of a string with the start of `key`, and cuts them off if they are
/// equal. A string whose pieces are all equal is at most `key`, and equal if nothing of `key` is
/// left.
#[inline]
pub(super) fn compare_start(piece: &[u8], key: &mut &[u8]) -> Ordering {
    let (wanted, later) = key.split_at_checked(piece.len()).unwrap_or((key, &[]));
    let order = piece.cmp(wanted);
    if order.is_eq() {
        *key = later;
    }
    order
}

/// The first of `rows` for which `below` is false; `below` must be true for all rows before it and
/// for none after it.
#[inline]
pub(super) fn partition(
    rows: Range<usize>,
    mut below: impl FnMut(usize) -> Result<bool, BadBlock>,
) -> Result<usize, BadBlock> {
    let Range { start: mut low, end: mut high } = rows;
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
