//! Rows as they were pushed into a builder: one after the other, with the ends of their columns.
//!
//! Most blocks have keys of one length that are cut at the same places; then nothing is kept per
//! row, and a column of words is read at a fixed distance.
//!
//! Invariants
//! 1. The [`Cuts`] of rows are those that [`Side::cut`] computes for each row, however they were
//!    found.

use std::{convert::Infallible, ops::Range, slice::ChunksExact};

use super::{
    super::{
        bytes::copy_short,
        encoding::string::{Strings, equal_short},
    },
    columns::{Column, Holds, Side, word_at},
};
use crate::layout::{End, Part};

/// Longest length as LEB128: of 32 bits, since a row is below 4 GiB.
const LENGTH_BYTES_MAX: u32 = 5;

/// Byte strings one after the other.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Longer than the strings by at least eight bytes, so that words can be read whole.
    bytes: Vec<u8>,
    len: usize,
    /// Offset of the last string.
    last: usize,
    ends: Vec<u32>,
    length: Length,
}

/// Whether strings have one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Length {
    /// There are no strings.
    #[default]
    Unknown,
    /// All have this length.
    All(usize),
    Several,
}

impl Held {
    /// Appends a string.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.bytes.len() < end + 8 {
            self.grow(end + 8);
        }
        copy_short(&mut self.bytes[self.len..end], bytes);
        self.length = match self.length {
            Length::All(length) if length == bytes.len() => Length::All(length),
            Length::Unknown => Length::All(bytes.len()),
            _ => Length::Several,
        };
        self.last = self.len;
        self.len = end;
        self.ends.push(end as u32);
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        assert!(u32::try_from(bytes).is_ok(), "a block's rows are below 4 GiB");
        self.bytes.resize(bytes.next_power_of_two().max(4096), 0);
    }

    /// Number of strings.
    #[inline]
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Total length of the strings.
    #[inline]
    pub fn bytes_held(&self) -> usize {
        self.len
    }

    /// Whether the strings have one length.
    #[inline]
    pub fn length(&self) -> Length {
        self.length
    }

    /// All strings, followed by at least eight bytes.
    #[inline]
    pub fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// The last string pushed; empty if there is none.
    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.bytes[self.last..self.len]
    }

    /// Offset of string `row`.
    #[inline]
    pub fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// String `row`.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes[self.start(row)..self.ends[row] as usize]
    }

    /// True if `holds` is true for all strings.
    pub fn all(&self, holds: impl Fn(&[u8]) -> bool) -> bool {
        (0..self.rows()).all(|row| holds(self.row(row)))
    }

    /// A range of string `row`.
    #[inline]
    pub fn part(&self, row: usize, range: Range<usize>) -> &[u8] {
        &self.bytes[self.start(row)..][range]
    }

    /// Removes the strings, but keeps the memory.
    pub fn clear(&mut self) {
        (self.len, self.last, self.length) = (0, 0, Length::Unknown);
        self.ends.clear();
    }
}

/// The ends of columns in rows, each relative to its row's start.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    columns: usize,
    rows: usize,
    /// The ends in each row, or in the first one if all are cut alike.
    ends: Vec<u32>,
    alike: bool,
}

impl Cuts {
    /// Removes all rows; the next ones are of this side.
    pub fn clear(&mut self, side: &Side) {
        *self = Self { ends: std::mem::take(&mut self.ends), ..Self::default() };
        (self.columns, self.alike) = (side.columns.len(), true);
        self.ends.clear();
    }

    /// Cuts all strings; false if one does not fit.
    pub fn cut_all(&mut self, side: &Side, held: &Held) -> bool {
        self.clear(side);
        if side.version.is_some() && !held.all(|row| side.is_of_version(row)) {
            return false;
        }
        if let Some(width) = side.width {
            // Words only: if one row fits, all do.
            return held.length() == Length::All(width) && self.cut(side, held, 0);
        }
        if let Length::All(length) = held.length() {
            if self.cut_evenly(side, held, length) {
                return true;
            }
            self.clear(side);
        }
        (0..held.rows()).all(|row| self.cut(side, held, row))
    }

    /// Cuts strings of one length if all are cut at the same places; false if not, and the cuts are
    /// then invalid.
    fn cut_evenly(&mut self, side: &Side, held: &Held, length: usize) -> bool {
        if length == 0 || !self.cut(side, held, 0) {
            return false;
        }
        let (rows, own) = (held.bytes[..held.len].chunks_exact(length), self.columns);
        let telling = telling(&side.columns, &self.ends);
        rows.clone().zip(rows.skip(1)).all(|(last, row)| {
            telling.iter().all(|part| equal_short(&last[part.clone()], &row[part.clone()])) || {
                let fits = side.cut(row, 0, &mut self.ends);
                let (first, this) = self.ends.split_at(own);
                let alike = fits && first == this;
                self.ends.truncate(own);
                alike
            }
        })
    }

    /// Cuts the next row, which is string `row`; if it does not fit, returns false and changes
    /// nothing.
    #[inline]
    pub fn cut(&mut self, side: &Side, held: &Held, row: usize) -> bool {
        let before = self.ends.len();
        if !side.cut(held.row(row), 0, &mut self.ends) {
            return false;
        }
        if self.alike && self.rows > 0 {
            self.keep_alike(before);
        }
        self.rows += 1;
        true
    }

    /// So far rows were cut alike, and the ends of the next row follow at `at`: if they are the
    /// same they are dropped; otherwise each row gets its own from now on.
    fn keep_alike(&mut self, at: usize) {
        let (alike, own) = self.ends.split_at(at);
        if alike == own {
            return self.ends.truncate(at);
        }
        self.alike = false;
        self.ends.reserve(at * self.rows);
        (1..self.rows).for_each(|_| self.ends.extend_from_within(..at));
        // The new row's ends go after those of the rows before it.
        self.ends[at..].rotate_left(at);
    }

    /// Offset of column `index` in the `nth` row that was cut.
    #[inline]
    pub fn start(&self, nth: usize, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.end(nth, before))
    }

    /// End of column `index` in the `nth` row that was cut.
    #[inline]
    pub fn end(&self, nth: usize, index: usize) -> usize {
        let row = if self.alike { 0 } else { nth };
        self.ends[row * self.columns + index] as usize
    }

    /// The range of column `index` in all rows, if they are cut alike.
    #[inline]
    pub fn same_part(&self, index: usize) -> Option<Range<usize>> {
        self.alike.then(|| self.start(0, index)..self.end(0, index))
    }
}

/// The ranges of a row that determine where its columns end, which is at `ends`. Another row of the
/// same length, and with the same bytes in these ranges, is cut at the same places.
fn telling(columns: &[Column], ends: &[u32]) -> Vec<Range<usize>> {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let parts = columns.iter().zip(starts.zip(ends));
    let part = |(column, (start, &end)): (&Column, (u32, &u32))| match column.holds {
        Holds::Word(..) | Holds::String(Part::Fixed(..) | Part::Var(End::Rest)) => None,
        // A terminator is part of its field; a length prefix determines the end, and is short.
        Holds::String(_) => Some(start as usize..end as usize),
        Holds::Content => Some(start as usize..end.min(start + LENGTH_BYTES_MAX) as usize),
    };
    parts.filter_map(part).collect()
}

/// True if a key is above the previous one: compares eight bytes at a time, since a call costs more
/// than most keys do.
#[inline]
pub(super) fn ascends(mut last: &[u8], mut key: &[u8]) -> bool {
    while let (Some((a, after_a)), Some((b, after_b))) =
        (last.split_first_chunk::<8>(), key.split_first_chunk::<8>())
    {
        if a != b {
            return u64::from_be_bytes(*a) < u64::from_be_bytes(*b);
        }
        (last, key) = (after_a, after_b);
    }
    let (a, b) = (first_word(last), first_word(key));
    // Missing bytes read as zeros: if the words are equal, the shorter key is below.
    if a == b { last.len() < key.len() } else { a < b }
}

/// The first eight bytes as a big-endian number, with zeros for missing bytes.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    let half = |four: &[u8; 4]| u64::from(u32::from_be_bytes(*four));
    match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(eight), ..) => u64::from_be_bytes(*eight),
        // Two halves that may overlap.
        (_, Some(first), Some(last)) => half(first) << 32 | half(last) << (64 - 8 * bytes.len()),
        _ => {
            let place = |(at, byte): (u32, &u8)| u64::from(*byte) << (56 - 8 * at);
            (0..).zip(bytes).map(place).fold(0, |word, byte| word | byte)
        }
    }
}

/// Appends `count` words of `bytes` bytes, each at distance `apart` from the previous one, the
/// first at the front of `from`.
pub(super) fn words_apart(from: &[u8], apart: usize, count: usize, bytes: u8, out: &mut Vec<u64>) {
    // Less than `apart` bytes may follow the last word.
    let whole = count.saturating_sub(1).min(from.len() / apart.max(1));
    let rows = from[..whole * apart].chunks_exact(apart.max(1));
    match bytes {
        1 => gather(rows, |one: [u8; 1]| one[0].into(), out),
        2 => gather(rows, |two| u16::from_be_bytes(two).into(), out),
        4 => gather(rows, |four| u32::from_be_bytes(four).into(), out),
        8 => gather(rows, u64::from_be_bytes, out),
        _ if apart >= 8 => {
            let unused = 64 - 8 * u32::from(bytes);
            gather(rows, |eight| u64::from_be_bytes(eight) >> unused, out);
        }
        _ => out.extend((0..whole).map(|row| word_at(from, row * apart, bytes))),
    }
    out.extend((whole..count).map(|row| word_at(from, row * apart, bytes)));
}

#[inline]
fn gather<const N: usize>(
    rows: ChunksExact<'_, u8>,
    word: impl Fn([u8; N]) -> u64,
    out: &mut Vec<u64>,
) {
    out.extend(rows.map(|row| row.first_chunk().map_or(0, |bytes| word(*bytes))));
}

/// Appends `count` strings of `bytes` bytes, each at distance `apart` from the previous one.
pub(super) fn strings_apart(
    from: &[u8],
    apart: usize,
    count: usize,
    bytes: usize,
    out: &mut Strings,
) {
    if bytes == 0 {
        return (0..count).for_each(|_| out.push(&[]));
    }
    let Ok(()) = out.push_alike::<Infallible>(count, bytes, |all| {
        for (to, row) in all.chunks_exact_mut(bytes).zip(from.chunks(apart)) {
            copy_short(to, &row[..bytes]);
        }
        Ok(())
    });
}
