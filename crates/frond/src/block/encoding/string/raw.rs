//! Raw strings: strings one after the other, and the end of each.
//!
//! The ends are an integer column: for strings of one length it takes no bits (a line), otherwise
//! four to eight. With the bytes compressed or as symbols the form is the same (`chunk.rs`,
//! `fsst.rs`); dictionaries and exceptions store their strings in this form too.
//!
//! ```text
//! concatenated  lengths of the chunk | ends: integers, one a row | bytes
//! ```

use std::{cmp::Ordering, ops::Range};

use super::{
    super::{IntEncoder, Ints},
    chunk::{self, ChunkHead, Chunked},
    strings::Strings,
    traits::{StringColumn, push_bytes},
};
use crate::{
    block::{BLOCK_RAW_BYTES_MAX, BadBlock, Codec},
    coding::Reader,
};

const BAD: BadBlock = BadBlock("a string lies outside its column");

/// Raw strings in a block.
#[derive(Clone, Debug)]
pub(super) struct Concatenated<'a> {
    rows: usize,
    ends: Ints<'a>,
    bytes: &'a [u8],
}

/// Encodes strings; their bytes are compressed with `codec`.
pub(super) fn put(
    strings: &Strings,
    codec: Codec,
    (ints, values, chunk): (&mut IntEncoder, &mut Vec<u64>, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Chunked {
    take_ends(strings, values);
    put_concatenated(codec, strings.bytes(), values, ints, chunk, out)
}

/// Encodes strings that are a part of another encoding, without a codec.
pub(super) fn put_part(
    strings: &Strings,
    ints: &mut IntEncoder,
    values: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    put(strings, Codec::Raw, (ints, values, &mut Vec::new()), out);
}

fn take_ends(strings: &Strings, values: &mut Vec<u64>) {
    values.clear();
    values.extend(strings.ends().iter().map(|&end| u64::from(end)));
}

/// Encodes `bytes`, with the ends of the strings in them.
pub(super) fn put_concatenated(
    codec: Codec,
    bytes: &[u8],
    ends: &[u64],
    ints: &mut IntEncoder,
    chunk: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Chunked {
    let (codec, stored) = chunk::encode(codec, bytes, chunk);
    chunk::put_head(codec, bytes.len(), stored.len(), out);
    ints.encode_direct(ends, out);
    out.extend_from_slice(stored);
    Chunked { codec, bytes: bytes.len(), stored: stored.len() }
}

/// Appends a compressed form in its form without a codec, and returns the length of its decoded
/// bytes.
pub(super) fn unpack(
    reader: &mut Reader<'_>,
    rows: usize,
    codec: Codec,
    bytes_max: usize,
    chunk: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<usize, BadBlock> {
    let head = ChunkHead::parse(codec, reader, bytes_max)?;
    let before = reader.rest();
    take_ints(reader, rows)?;
    let ends = &before[..before.len() - reader.rest().len()];
    let stored = head.stored(reader)?;
    let bytes = head.decode(stored, chunk)?;
    chunk::put_head(Codec::Raw, bytes.len(), bytes.len(), out);
    out.extend_from_slice(ends);
    out.extend_from_slice(bytes);
    Ok(bytes.len())
}

impl<'a> Concatenated<'a> {
    /// Parses the form without codec.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>, rows: usize) -> Result<Self, BadBlock> {
        // The bytes are in place: callers that copy them check how much they copy.
        let head = ChunkHead::parse(Codec::Raw, reader, BLOCK_RAW_BYTES_MAX)?;
        let ends = take_ints(reader, rows)?;
        Ok(Self { rows, ends, bytes: head.stored(reader)? })
    }

    /// Parses the form with a codec, decoding the bytes into `buffer`.
    #[inline]
    pub fn parse_chunk(
        reader: &mut Reader<'a>,
        rows: usize,
        codec: Codec,
        bytes_max: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Self, BadBlock> {
        let head = ChunkHead::parse(codec, reader, bytes_max)?;
        let ends = take_ints(reader, rows)?;
        let stored = head.stored(reader)?;
        Ok(Self { rows, ends, bytes: head.decode(stored, buffer)? })
    }

    /// Number of strings.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of all strings.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// String `row`.
    #[inline]
    pub fn string(&self, row: usize) -> Result<&'a [u8], BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        let start = match row.checked_sub(1) {
            Some(before) => self.ends.get(before),
            None => 0,
        };
        let end = self.ends.get(row);
        usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or(BAD)
    }

    /// Calls `each` with strings `rows`, in order.
    pub fn for_each(
        &self,
        rows: Range<usize>,
        mut each: impl FnMut(&'a [u8]) -> Result<(), BadBlock>,
    ) -> Result<(), BadBlock> {
        for_each_range(&self.ends, rows, |_, range| each(self.bytes.get(range).ok_or(BAD)?))
    }
}

/// Calls `each` with each of `rows` and the range between its predecessor's end and its own.
pub(super) fn for_each_range(
    ends: &Ints<'_>,
    rows: Range<usize>,
    mut each: impl FnMut(usize, Range<usize>) -> Result<(), BadBlock>,
) -> Result<(), BadBlock> {
    let position = |end: u64| usize::try_from(end).map_err(|_| BAD);
    let mut start = match rows.start.checked_sub(1) {
        Some(before) => position(ends.get(before))?,
        None => 0,
    };
    let mut decoded = [0; 128];
    let mut at = rows.start;
    while at < rows.end {
        let count = (rows.end - at).min(decoded.len());
        ends.decode(at, &mut decoded[..count]);
        for (row, &end) in (at..).zip(&decoded[..count]) {
            let end = position(end)?;
            each(row, start..end)?;
            start = end;
        }
        at += count;
    }
    Ok(())
}

impl StringColumn for Concatenated<'_> {
    // Ends ascend to the last byte, so that all strings are in place.
    fn check(&self, _: usize) -> Result<(), BadBlock> {
        self.ends.check()?;
        let mut used = 0;
        self.for_each(0..self.rows, |string| {
            used += string.len();
            Ok(())
        })?;
        if used != self.bytes.len() {
            return Err(BadBlock("bytes of a string column belong to no row"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        out.extend_from_slice(self.string(row)?);
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        self.for_each(rows, |string| push_bytes(out, bytes_max, string))
    }

    #[inline]
    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        Ok(self.string(row)?.cmp(key))
    }
}

/// Cuts the integer column at the reader's position off.
#[inline]
pub(super) fn take_ints<'a>(reader: &mut Reader<'a>, rows: usize) -> Result<Ints<'a>, BadBlock> {
    let ints = Ints::parse(reader.rest(), rows)?;
    reader.take(ints.bytes_used()).ok_or(BadBlock("a string column ends early"))?;
    Ok(ints)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{model::Parts, plan::StrKind, tests::holds},
        *,
    };

    /// Ends of strings of one length take no bits, however many there are; empty strings have ends
    /// like others.
    #[test]
    fn strings_of_one_length_cost_only_their_bytes() {
        let even: Strings = (0..200u32)
            .map(|row| row.wrapping_mul(0x9e37_79b9).to_be_bytes())
            .collect::<Vec<_>>()
            .iter()
            .map(|row| &row[..])
            .collect();
        let column = holds(&even, Parts::default(), StrKind::Raw);
        assert!(column.len() < even.bytes().len() + 12, "{}", column.len());
        let empty: Strings = [&b""[..], b"a", b"", b"", b"bc", b""].into_iter().collect();
        holds(&empty, Parts::default(), StrKind::Raw);
        holds(&[&b""[..]; 70].into_iter().collect(), Parts::default(), StrKind::Raw);
    }
}
