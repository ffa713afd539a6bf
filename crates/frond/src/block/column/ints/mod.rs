//! Integer columns: reading one value, many, or the row of a value.
//!
//! The first byte of a column says its kind: up to 64, or 128 to 192, a packed column whose codes have
//! that many bits, modulo 128; from 65 on the other kinds. A kind that keeps more than one list of
//! numbers has them behind its header, each at a whole byte. All but run ends and delta frames read a
//! value with one or two loads.
//!
//! Invariants
//! 1. [`Ints::parse`] looks at the header only, and proves that everything which the header announces
//!    lies in the bytes, with the padding.
//! 2. After [`Ints::check`] every row has the value that was encoded, or the bytes were made by
//!    somebody who knew the checksums.

mod decimal;
mod dictionary;
mod encoder;
mod frames;
mod head;
mod lone;
mod packed;
mod patched;
mod runs;
mod stepped;

use std::ops::Range;

use self::{
    decimal::Decimal, dictionary::Dictionary, frames::Frames, lone::Lone, packed::Packed,
    patched::Patched, runs::Runs, stepped::Stepped,
};
use super::{super::BadBlock, ROWS_MAX, bits::partition};

pub use decimal::Float;
pub use encoder::{Chosen, IntEncoder};

/// The ways to write integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IntKind {
    /// One value.
    Constant,
    /// A base, and a code a row.
    Level,
    /// A base, a line, and a code a row.
    Sloped,
    /// One value apart; a base, and a code a row for the others.
    Lone,
    /// A base, a code a row, and a list of rows that it does not hold.
    Patched,
    /// Few values, and a place among them a row.
    Dictionary,
    /// A value for all rows in a row that have it.
    Runs,
    /// Differences from row to row, in frames of 32.
    Frames,
    /// Whole numbers divided by a power of ten: floats.
    Decimal,
    /// A base, and numbers of equal steps.
    Stepped,
}

/// An integer column to read. Rows that it does not have read as some number.
///
/// Only the header of a packed column is kept; those of the others are long, and read anew at each
/// call: some nanoseconds, where the call itself takes as many or decodes many values.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    bytes: &'a [u8],
    rows: u32,
    bytes_used: u32,
    packed: Option<Packed<'a>>,
}

/// What follows for the column of another kind that `rest` begins with; `None` if it does not fit. Headers are
/// long: they stay where they were read.
macro_rules! rare {
    ($rest:expr, $rows:expr, $column:ident => $call:expr) => {
        match $rest.first() {
            Some(&lone::TAG) => Lone::cut($rest, $rows).as_ref().map(|$column| $call),
            Some(&patched::TAG) => Patched::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&runs::TAG) => Runs::cut($rest, $rows).as_ref().map(|$column| $call),
            Some(&dictionary::TAG) => Dictionary::cut($rest, $rows).as_ref().map(|$column| $call),
            Some(&frames::TAG) => Frames::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&decimal::TAG) => Decimal::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&stepped::TAG) => Stepped::open($rest, $rows).as_ref().map(|$column| $call),
            _ => None,
        }
    };
}

/// Codes that a check looks at at a time.
const CHECKED: usize = 64;

const DOES_NOT_FIT: BadBlock = BadBlock("an integer column does not fit");

impl<'a> Ints<'a> {
    /// The column of so many rows that `bytes` begin with; anything may follow it.
    #[inline]
    pub fn parse(bytes: &'a [u8], rows: usize) -> Result<Self, BadBlock> {
        if rows > ROWS_MAX {
            return Err(BadBlock("a column has too many rows"));
        }
        let mut rest = bytes;
        let packed = match bytes.first() {
            Some(0..=64 | 128..=192) => Some(Packed::cut(&mut rest, rows).ok_or(DOES_NOT_FIT)?),
            _ => {
                rest = Self::skip_rare(bytes, rows)?;
                None
            }
        };
        // At most nine bytes a row and a few lists: far below 4 GiB.
        let bytes_used = (bytes.len() - rest.len()) as u32;
        Ok(Self { bytes, rows: rows as u32, bytes_used, packed })
    }

    /// What follows the column of another kind than packed.
    #[inline(never)]
    fn skip_rare(bytes: &'a [u8], rows: usize) -> Result<&'a [u8], BadBlock> {
        if let Some(71 | 73..=127 | 193..) = bytes.first() {
            return Err(BadBlock("an integer column is of no known kind"));
        }
        let rest = &mut { bytes };
        let fits = match bytes.first() {
            Some(&patched::TAG) => Patched::cut(rest, rows).map(|_| ()),
            Some(&frames::TAG) => Frames::cut(rest, rows).map(|_| ()),
            Some(&decimal::TAG) => Decimal::cut(rest, rows).map(|_| ()),
            Some(&stepped::TAG) => Stepped::cut(rest, rows).map(|_| ()),
            _ => rare!(rest, rows, _column => ()),
        };
        fits.ok_or(DOES_NOT_FIT)?;
        Ok(rest)
    }

    /// A column that [`parse`](Ints::parse) accepts, or has accepted, without proving it again; it does not
    /// know its length.
    #[inline]
    pub fn open(bytes: &'a [u8], rows: usize) -> Option<Self> {
        let packed = match bytes.first() {
            Some(0..=64 | 128..=192) => Some(Packed::cut(&mut { bytes }, rows)?),
            _ => None,
        };
        Some(Self { bytes, rows: rows as u32, bytes_used: 0, packed })
    }

    /// The value of one row of a column that [`parse`](Ints::parse) accepts, for who wants no other: the
    /// fastest way to it.
    #[inline]
    pub fn read(bytes: &[u8], rows: usize, row: usize) -> Result<u64, BadBlock> {
        if rows > ROWS_MAX {
            return Err(BadBlock("a column has too many rows"));
        }
        let value = match bytes.first() {
            Some(0..=64 | 128..=192) => {
                Packed::cut(&mut { bytes }, rows).map(|packed| packed.get(row))
            }
            _ => Self::read_rare(bytes, rows, row),
        };
        value.ok_or(DOES_NOT_FIT)
    }

    #[inline(never)]
    fn read_rare(bytes: &[u8], rows: usize, row: usize) -> Option<u64> {
        rare!(&mut { bytes }, rows, column => column.get(row))
    }

    /// Checks all that [`parse`](Ints::parse) does not.
    pub fn check(&self) -> Result<(), BadBlock> {
        let rows = self.rows();
        match self.packed {
            Some(packed) => packed.check(rows),
            None => rare!(&mut { self.bytes }, rows, column => column.check(rows))
                .unwrap_or(Err(DOES_NOT_FIT)),
        }
    }

    /// Length of the column: where the next one begins.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used as usize
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The kind of the column.
    pub fn kind(&self) -> IntKind {
        match (&self.packed, self.bytes.first()) {
            (Some(packed), _) => packed.kind(),
            (None, Some(&lone::TAG)) => IntKind::Lone,
            (None, Some(&patched::TAG)) => IntKind::Patched,
            (None, Some(&runs::TAG)) => IntKind::Runs,
            (None, Some(&dictionary::TAG)) => IntKind::Dictionary,
            (None, Some(&decimal::TAG)) => IntKind::Decimal,
            (None, Some(&stepped::TAG)) => IntKind::Stepped,
            (None, _) => IntKind::Frames,
        }
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        match &self.packed {
            Some(packed) => packed.get(row),
            None => Self::read_rare(self.bytes, self.rows(), row).unwrap_or(0),
        }
    }

    /// Values from row `first` on, as many as `out` takes.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        match &self.packed {
            Some(packed) => packed.decode(first, out),
            None => {
                let rest = &mut { self.bytes };
                rare!(rest, self.rows(), column => column.decode(first, out)).unwrap_or(());
            }
        }
    }

    /// The first row of `rows` whose value is not below `value`, the end of `rows` if there is none.
    /// The column ascends there (else: some row of it).
    pub fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let end = rows.end.min(self.rows());
        let rows = rows.start.min(end)..end;
        match &self.packed {
            Some(packed) => packed.lower_bound(rows, value),
            None => {
                let rest = &mut { self.bytes };
                rare!(rest, self.rows(), column => column.lower_bound(rows, value)).unwrap_or(end)
            }
        }
    }

    /// The rows of `rows` whose value is `value`, where the column ascends; an empty range where they
    /// would be if there are none. The header is read once, and kinds that say so know the end of the
    /// range from its beginning.
    #[inline]
    pub fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let end = rows.end.min(self.rows());
        let rows = rows.start.min(end)..end;
        match &self.packed {
            Some(packed) => packed.equal_range(rows, value),
            None => self.equal_range_rare(rows, value),
        }
    }

    #[inline(never)]
    fn equal_range_rare(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let (rest, end) = (&mut { self.bytes }, rows.end);
        let found = rare!(rest, self.rows(), column => column.equal_range(rows, value));
        found.unwrap_or(end..end)
    }
}

/// The rows from `first` on for which `is` holds, as long as it does and they are below `end`.
#[inline]
fn equal_rows(first: usize, end: usize, is: impl Fn(usize) -> bool) -> Range<usize> {
    if first >= end || !is(first) {
        return first..first;
    }
    // Mostly a row or a few: the range doubles until it holds the end.
    let mut reach = 1;
    while first + reach < end && is(first + reach) {
        reach *= 2;
    }
    first..partition(first + reach / 2 + 1..(first + reach).min(end), is)
}

#[cfg(test)]
mod sizes;
#[cfg(test)]
mod tests;
