//! Finding the row of a key, column by column.
//!
//! The key is cut into fields as far as possible. Because keys ascend, the rows whose columns equal
//! the fields so far form a range. Within it the next column ascends, so a search of that column
//! alone narrows the range. A remainder that is no whole field is compared as bytes: a field that
//! starts with it is above it, and no field is a prefix of it, or it would have been cut there
//! (invariant 2 of `columns.rs`).

use std::{cmp::Ordering, ops::Range};

use super::{
    super::{BadBlock, Chunks, encoding::string::Strs},
    columns::{Holds, word_at},
    frame::ColumnarBlock,
};

/// Returns how many rows have keys below `key`.
pub fn rows_below(columnar: &ColumnarBlock<'_>, key: &[u8]) -> Result<usize, BadBlock> {
    place(columnar, key, &mut Chunks::default()).map(|(row, _)| row)
}

/// Returns the first row whose key is not below `key` (the number of rows if there is none), and
/// whether its key is `key`. `chunks` holds what codecs have decoded of the block before, or decode
/// now.
#[inline]
pub(super) fn place(
    columnar: &ColumnarBlock<'_>,
    key: &[u8],
    chunks: &mut Chunks,
) -> Result<(usize, bool), BadBlock> {
    let mut rest = key;
    let mut rows = 0..columnar.rows();
    for (index, column) in columnar.key_side().columns.iter().enumerate() {
        let at = columnar.key_at(index);
        match column.holds {
            Holds::Word(bytes, _) => {
                let word = word_at(rest, 0, bytes);
                if rest.len() < usize::from(bytes) {
                    // Missing bytes read as zeros, and a field is not below its own prefix.
                    return Ok((columnar.searched(at, &rows)?.lower_bound(rows, word), false));
                }
                rest = rest.get(usize::from(bytes)..).unwrap_or_default();
                rows = match rows.len() {
                    1 => one(rows.start, columnar.int(at, rows.start)?.cmp(&word)),
                    _ => columnar.searched(at, &rows)?.equal_range(rows, word),
                };
            }
            Holds::String(_) | Holds::Content => {
                let strs = columnar.strs(at, chunks.of(at));
                // The struct is large: it is used by reference.
                let strs = strs.as_ref().map_err(|bad| *bad)?;
                let Some((part, after)) =
                    column.bytes_in(rest).and_then(|bytes| rest.split_at_checked(bytes))
                else {
                    return Ok((strs.lower_bound(rows, rest)?, false));
                };
                rest = after;
                rows = equal_strings(strs, rows, part)?;
            }
        }
        if rows.is_empty() {
            return Ok((rows.start, false));
        }
    }
    // Rows that equal all fields are one row; a key with further bytes is above it.
    Ok(if rest.is_empty() { (rows.start, true) } else { (rows.end, false) })
}

#[inline]
fn equal_strings(
    strs: &Strs<'_>,
    rows: Range<usize>,
    part: &[u8],
) -> Result<Range<usize>, BadBlock> {
    match rows.len() {
        1 => Ok(one(rows.start, strs.cmp(rows.start, part)?)),
        _ => strs.equal_range(rows, part),
    }
}

/// What remains of a range of one row whose comparison with the key is `order`.
#[inline]
fn one(row: usize, order: Ordering) -> Range<usize> {
    match order {
        Ordering::Less => row + 1..row + 1,
        Ordering::Equal => row..row + 1,
        Ordering::Greater => row..row,
    }
}
