//! Integer columns: reading one value, many values, or the row of a value.
//!
//! The first byte of a column is its kind: up to 64, or 128 to 192, is a packed column whose codes
//! have that many bits, modulo 128; other values from 65 on are the other kinds. A kind with more
//! than one list of numbers has them after its header, each at a whole byte. All kinds except runs
//! and delta frames read a value with one or two loads.
//!
//! | file | published name |
//! |---|---|
//! | `bit_packed.rs` | frame of reference (FOR) bit packing, with an optional line |
//! | `pfor.rs` | patched frame of reference (PFOR) |
//! | `single_outlier.rs` | FOR with a single outlier value |
//! | `dictionary.rs` | dictionary |
//! | `rle.rs` | run-length encoding (RLE) |
//! | `delta.rs` | delta encoding, in frames |
//! | `scaled.rs` | scaling by the greatest common divisor |
//! | `decimal.rs` | decimal floats (ALP) |
//!
//! Each has an `IntColumn` for readers and an `IntPlan` for the encoder (`traits.rs`). The last two
//! contain a column of another kind, and have a plan only for what precedes it: `decimal.rs` and
//! `scaled.rs` import [`Ints`], which imports them.
//!
//! Invariants
//! 1. [`Ints::parse`] reads the header only, and checks that everything which the header announces
//!    lies in the bytes, with the padding.
//! 2. After [`Ints::check`] every row has the value that was encoded, unless the bytes were forged
//!    with right checksums.

mod bit_packed;
mod decimal;
mod delta;
mod dictionary;
mod encoder;
mod head;
mod pfor;
mod rle;
mod scaled;
mod single_outlier;
mod traits;

use std::ops::Range;

use self::{
    bit_packed::BitPacked, decimal::Decimal, delta::Delta, dictionary::Dictionary, pfor::Pfor,
    rle::Rle, scaled::Scaled, single_outlier::SingleOutlier, traits::IntColumn,
};
use super::{super::BadBlock, ROWS_MAX};

pub use decimal::Float;
pub use encoder::{Chosen, IntEncoder};

/// The encodings of integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IntKind {
    /// One value.
    Constant,
    /// FOR bit packing: a base, and a code per row.
    BitPacked,
    /// FOR with a slope: a base, a line, and a code per row.
    Linear,
    /// One outlier value; a base, and a code per row for the others.
    SingleOutlier,
    /// PFOR: a base, a code per row, and a list of the rows that do not fit.
    Pfor,
    /// Dictionary: few values, and an index into them per row.
    Dictionary,
    /// RLE: one value for each run of equal rows.
    Rle,
    /// Delta: differences from row to row, in frames of 32.
    Delta,
    /// Floats as whole numbers divided by a power of ten.
    Decimal,
    /// A base, and multiples of a common step.
    Scaled,
}

/// First bytes of columns that are not packed. Those of differences between columns, 71 and 73,
/// are in `columnar/difference.rs`.
mod tag {
    pub const PFOR: u8 = 65;
    pub const RLE: u8 = 66;
    pub const DICTIONARY: u8 = 67;
    pub const DELTA: u8 = 68;
    pub const DECIMAL: u8 = 69;
    pub const SINGLE_OUTLIER: u8 = 70;
    pub const SCALED: u8 = 72;
}

/// An integer column, for reading. Rows that it does not have read as some number.
///
/// Only the header of a packed column is kept. Those of other kinds are long, and parsed again at
/// each call, which takes some nanoseconds: the call itself takes as many or decodes many values.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    bytes: &'a [u8],
    rows: u32,
    bytes_used: u32,
    packed: Option<BitPacked<'a>>,
}

/// Evaluates the expression for the non-packed column at the start of `rest`, which is opened;
/// `None` if it does not fit. Headers are long: they are used by reference.
macro_rules! rare {
    ($rest:expr, $rows:expr, $column:ident => $call:expr) => {
        match $rest.first() {
            Some(&tag::SINGLE_OUTLIER) => {
                SingleOutlier::open($rest, $rows).as_ref().map(|$column| $call)
            }
            Some(&tag::PFOR) => Pfor::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&tag::RLE) => Rle::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&tag::DICTIONARY) => Dictionary::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&tag::DELTA) => Delta::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&tag::DECIMAL) => Decimal::open($rest, $rows).as_ref().map(|$column| $call),
            Some(&tag::SCALED) => Scaled::open($rest, $rows).as_ref().map(|$column| $call),
            _ => None,
        }
    };
}

const DOES_NOT_FIT: BadBlock = BadBlock("an integer column does not fit");

impl<'a> Ints<'a> {
    /// Parses the column of `rows` rows at the start of `bytes`; anything may follow it.
    #[inline]
    pub fn parse(bytes: &'a [u8], rows: usize) -> Result<Self, BadBlock> {
        if rows > ROWS_MAX {
            return Err(BadBlock("a column has too many rows"));
        }
        let mut rest = bytes;
        let packed = match bytes.first() {
            Some(0..=64 | 128..=192) => Some(BitPacked::cut(&mut rest, rows).ok_or(DOES_NOT_FIT)?),
            _ => {
                rest = Self::skip_rare(bytes, rows)?;
                None
            }
        };
        // At most nine bytes per row and a few lists: far below 4 GiB.
        let bytes_used = (bytes.len() - rest.len()) as u32;
        Ok(Self { bytes, rows: rows as u32, bytes_used, packed })
    }

    /// Returns what follows a column of a kind other than packed.
    #[inline(never)]
    fn skip_rare(bytes: &'a [u8], rows: usize) -> Result<&'a [u8], BadBlock> {
        if let Some(71 | 73..=127 | 193..) = bytes.first() {
            return Err(BadBlock("an integer column is of no known kind"));
        }
        let rest = &mut { bytes };
        let fits = match bytes.first() {
            Some(&tag::PFOR) => Pfor::cut(rest, rows).map(|_| ()),
            Some(&tag::DELTA) => Delta::cut(rest, rows).map(|_| ()),
            Some(&tag::DECIMAL) => Decimal::cut(rest, rows).map(|_| ()),
            Some(&tag::SCALED) => Scaled::cut(rest, rows).map(|_| ()),
            // Columns of these kinds are complete once they are opened.
            _ => rare!(rest, rows, _column => ()),
        };
        fits.ok_or(DOES_NOT_FIT)?;
        Ok(rest)
    }

    /// Opens a column that [`parse`](Ints::parse) accepts, or has accepted, without checking it
    /// again; the result does not know its length.
    #[inline]
    pub fn open(bytes: &'a [u8], rows: usize) -> Option<Self> {
        let packed = match bytes.first() {
            Some(0..=64 | 128..=192) => Some(BitPacked::cut(&mut { bytes }, rows)?),
            _ => None,
        };
        Some(Self { bytes, rows: rows as u32, bytes_used: 0, packed })
    }

    /// Reads the value of one row of a column that [`parse`](Ints::parse) accepts: the fastest way
    /// if no other row is wanted.
    #[inline]
    pub fn read(bytes: &[u8], rows: usize, row: usize) -> Result<u64, BadBlock> {
        if rows > ROWS_MAX {
            return Err(BadBlock("a column has too many rows"));
        }
        let value = match bytes.first() {
            Some(0..=64 | 128..=192) => {
                BitPacked::cut(&mut { bytes }, rows).map(|packed| packed.get(row))
            }
            _ => Self::read_rare(bytes, rows, row),
        };
        value.ok_or(DOES_NOT_FIT)
    }

    #[inline(never)]
    fn read_rare(bytes: &[u8], rows: usize, row: usize) -> Option<u64> {
        rare!(&mut { bytes }, rows, column => column.get(row))
    }

    /// Checks everything that [`parse`](Ints::parse) does not.
    pub fn check(&self) -> Result<(), BadBlock> {
        let rows = self.rows();
        match self.packed {
            Some(packed) => packed.check(rows),
            None => rare!(&mut { self.bytes }, rows, column => column.check(rows))
                .unwrap_or(Err(DOES_NOT_FIT)),
        }
    }

    /// Length of the column, that is, the offset of the next one.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used as usize
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The kind of the column.
    pub fn kind(&self) -> IntKind {
        match &self.packed {
            Some(packed) => packed.kind(),
            None => rare!(&mut { self.bytes }, self.rows(), column => column.kind())
                .unwrap_or(IntKind::Constant),
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

    /// Decodes values from row `first` on into `out`.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        match &self.packed {
            Some(packed) => packed.decode(first, out),
            None => {
                let rest = &mut { self.bytes };
                rare!(rest, self.rows(), column => column.decode(first, out)).unwrap_or(());
            }
        }
    }

    /// The first row of `rows` whose value is not below `value`, the end of `rows` if there is
    /// none. The column must ascend there (otherwise: some row).
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

    /// The rows of `rows` whose value is `value`; an empty range where they would be if there are
    /// none. The column must ascend there. The header is read once, and some kinds know the end of
    /// the range from its start.
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

#[cfg(test)]
mod sizes;
#[cfg(test)]
mod tests;
