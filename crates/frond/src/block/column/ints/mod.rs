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

mod encoder;
mod packed;

use std::ops::Range;

use self::packed::Packed;
use super::{super::BadBlock, ROWS_MAX};

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
}

/// An integer column to read. Rows that it does not have read as some number.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    rows: u32,
    bytes_used: u32,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Packed(Packed<'a>),
}

impl<'a> Ints<'a> {
    /// The column of so many rows that `bytes` begin with; all that follows it may follow.
    #[inline]
    pub fn parse(bytes: &'a [u8], rows: usize) -> Result<Self, BadBlock> {
        const BAD: BadBlock = BadBlock("an integer column does not fit");
        if rows > ROWS_MAX {
            return Err(BadBlock("a column has too many rows"));
        }
        let mut rest = bytes;
        let body = match bytes.first() {
            Some(0..=64 | 128..=192) => Body::Packed(Packed::cut(&mut rest, rows).ok_or(BAD)?),
            Some(_) => return Err(BadBlock("an integer column is of no known kind")),
            None => return Err(BAD),
        };
        // At most nine bytes a row and a few lists: far below 4 GiB.
        Ok(Self { rows: rows as u32, bytes_used: (bytes.len() - rest.len()) as u32, body })
    }

    /// Checks all that [`parse`](Ints::parse) does not.
    pub fn check(&self) -> Result<(), BadBlock> {
        match &self.body {
            Body::Packed(_) => Ok(()),
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
        match &self.body {
            Body::Packed(packed) => packed.kind(),
        }
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        match &self.body {
            Body::Packed(packed) => packed.get(row),
        }
    }

    /// Values from row `first` on, as many as `out` takes.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        match &self.body {
            Body::Packed(packed) => packed.decode(first, out),
        }
    }

    /// The first row of `rows` whose value is not below `value`, the end of `rows` if there is none.
    /// The column ascends there (else: some row of it).
    pub fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let end = rows.end.min(self.rows());
        let rows = rows.start.min(end)..end;
        match &self.body {
            Body::Packed(packed) => packed.lower_bound(rows, value),
        }
    }

    /// The rows of `rows` whose value is `value`, where the column ascends; an empty range where they
    /// would be if there are none.
    pub fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let end = rows.end.min(self.rows());
        let first = self.lower_bound(rows, value);
        if first >= end || self.get(first) != value {
            return first..first;
        }
        let Some(above) = value.checked_add(1) else { return first..end };
        // Mostly a row or a few: the range doubles until it holds the end.
        let mut reach = 1;
        while first + reach < end && self.get(first + reach) == value {
            reach *= 2;
        }
        first..self.lower_bound(first + reach / 2..(first + reach).min(end), above)
    }
}

#[cfg(test)]
mod tests;
