//! One row from its columns, and point lookups, which read no other row.

use super::{
    super::{BadBlock, Chunks},
    columns::{Column, ColumnSelection, Holds, put_word},
    frame::{ColumnarBlock, TOO_LONG},
    reference::Places,
    search::place,
};
use crate::{coding::put_varint, message::Tag};

/// Most bytes that are reserved at once for a row, whatever the block says about its length.
const ROW_RESERVED_MAX: usize = 4096;

/// Looks up `key`: returns its tag, if the block has the key, and whether its value is in the
/// columns. Puts the payload into `payload`; of a value in the columns, only the wanted fields.
/// Reads no column of the value that is not wanted, and no other row. `chunks` holds what codecs
/// have decoded of the block before, or decode now.
pub fn find_selected(
    columnar: &ColumnarBlock<'_>,
    key: &[u8],
    selection: &ColumnSelection,
    chunks: &mut Chunks,
    payload: &mut Vec<u8>,
) -> Result<Option<(Tag, bool)>, BadBlock> {
    let (row, is_here) = place(columnar, key, chunks)?;
    if !is_here {
        return Ok(None);
    }
    let (tag, in_columns) = columnar.tag(row)?;
    payload.clear();
    // Usually one allocation, of about a row.
    payload.reserve((columnar.raw_bytes() / columnar.rows()).min(ROW_RESERVED_MAX) + 16);
    let wanted = columnar.columns().wanted(selection);
    append_payload(columnar, row, in_columns, wanted, chunks, payload)?;
    Ok(Some((tag, in_columns)))
}

/// Looks up `key` as [`find_selected`] does, without saying where the value is.
#[cfg(test)]
pub fn find(
    columnar: &ColumnarBlock<'_>,
    key: &[u8],
    selection: &ColumnSelection,
    payload: &mut Vec<u8>,
) -> Result<Option<Tag>, BadBlock> {
    Ok(find_selected(columnar, key, selection, &mut Chunks::default(), payload)?
        .map(|(tag, _)| tag))
}

/// Appends the payload of row `row`; `in_columns` says where it is.
pub(super) fn append_payload(
    columnar: &ColumnarBlock<'_>,
    row: usize,
    in_columns: bool,
    wanted: &[u16],
    chunks: &mut Chunks,
    out: &mut Vec<u8>,
) -> Result<(), BadBlock> {
    if !in_columns {
        let Some(at) = columnar.others_at() else { return Ok(()) };
        return columnar.strs(at, chunks.of(at))?.get(row, out);
    }
    let bytes_max = out.len() + columnar.raw_bytes();
    let mut places = Places::default();
    for &index in wanted {
        let index = usize::from(index);
        if let (Some(column), Some(at)) =
            (columnar.columns().value.columns.get(index), columnar.value_at(index))
        {
            append_part(columnar, at, column, row, (&mut places, chunks), out)?;
        }
        if out.len() > bytes_max {
            return Err(TOO_LONG);
        }
    }
    Ok(())
}

#[inline]
fn append_part(
    columnar: &ColumnarBlock<'_>,
    at: usize,
    column: &Column,
    row: usize,
    (places, chunks): (&mut Places, &mut Chunks),
    out: &mut Vec<u8>,
) -> Result<(), BadBlock> {
    let start = out.len();
    match column.holds {
        Holds::Word(bytes, _) => put_word(columnar.int(at, row)?, bytes, out),
        Holds::String(_) => {
            append_text(columnar, at, row, (places, chunks), out)?;
            places.note(at, start..out.len());
        }
        Holds::Content => {
            out.push(0);
            append_text(columnar, at, row, (places, chunks), out)?;
            let length = out.len() - start - 1;
            put_length_at(start, out);
            places.note(at, out.len() - length..out.len());
        }
    }
    Ok(())
}

#[inline]
fn append_text(
    columnar: &ColumnarBlock<'_>,
    at: usize,
    row: usize,
    (places, chunks): (&Places, &mut Chunks),
    out: &mut Vec<u8>,
) -> Result<(), BadBlock> {
    if columnar.read_string(at, row, out)? {
        return Ok(());
    }
    columnar.texts(at, chunks.of(at))?.get(columnar, row, places, out)
}

/// Writes the length of what follows the byte at `start` there: usually it fits that byte, else
/// what follows is moved.
fn put_length_at(start: usize, out: &mut Vec<u8>) {
    let length = out.len() - start - 1;
    if let (0..0x80, Some(byte)) = (length, out.get_mut(start)) {
        *byte = length as u8;
        return;
    }
    put_varint(out, length as u64);
    if let Some(content) = out.get_mut(start..) {
        let length_bytes = content.len() - length - 1;
        content.rotate_right(length_bytes);
        // The byte that was reserved for the length is now after it.
        content.copy_within(length_bytes + 1.., length_bytes);
    }
    out.pop();
}
