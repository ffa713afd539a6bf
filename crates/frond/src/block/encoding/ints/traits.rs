//! The traits that each encoding of integers implements: [`IntColumn`] for readers, and [`IntPlan`]
//! for the encoder. Every encoding is one file that has both. They are dispatched statically, by
//! the one `match` of `mod.rs` and the one of `encoder.rs`.

use std::{cell::OnceCell, ops::Range};

use super::{
    super::{super::BadBlock, bits::partition},
    IntKind, delta, dictionary,
};

/// Number of codes that a check decodes at a time.
const CHECKED: usize = 64;

/// A stored column of one encoding. Rows that it does not have read as some number.
pub trait IntColumn<'a>: Sized {
    /// The kind of such columns.
    const KIND: IntKind;

    /// Cuts the column, of `rows` rows, off the front of `rest`; `None` if its header announces
    /// more than there is.
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self>;

    /// Reads the header of a column that [`cut`](Self::cut) accepts or has accepted; what follows
    /// the header may be incomplete.
    #[inline]
    fn open(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        Self::cut(rest, rows)
    }

    /// The kind of the column, which may be a special case of the encoding's.
    fn kind(&self) -> IntKind {
        Self::KIND
    }

    /// Checks everything that [`cut`](Self::cut) does not.
    fn check(&self, rows: usize) -> Result<(), BadBlock>;

    /// The value of a row.
    fn get(&self, row: usize) -> u64;

    /// Decodes values from row `first` on into `out`.
    fn decode(&self, first: usize, out: &mut [u64]);

    /// The first row of `rows` whose value is not below `value`; the column must ascend there.
    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        partition(rows, |row| self.get(row) < value)
    }

    /// The rows of `rows` whose value is `value`; the column must ascend there.
    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let (first, end) = (self.lower_bound(rows.clone(), value), rows.end);
        equal_rows(first, end, |row| self.get(row) == value)
    }
}

/// A plan to encode values in one encoding.
pub trait IntPlan: Copy {
    /// The kind of such columns.
    const KIND: IntKind;

    /// The plan, if the encoding can hold the values in less than `bytes_max` bytes.
    fn below(values: &Values<'_>, bytes_max: usize, scratch: &mut Scratch) -> Option<Self>;

    /// The kind of the column, which may be a special case of the encoding's.
    fn kind(&self) -> IntKind {
        Self::KIND
    }

    /// Length of the column.
    fn bytes(&self, rows: usize) -> usize;

    /// Appends the column; `scratch` must be unchanged since this was planned.
    fn write(&self, values: &[u64], scratch: &mut Scratch, out: &mut Vec<u8>);
}

/// Intermediate results of planning that writing needs. Their types are those of the encodings, so
/// this file and those of the encodings import each other.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Results of planning a dictionary.
    pub distinct: dictionary::Distinct,
    /// Results of planning deltas.
    pub frames: delta::Frames,
}

/// Values to be encoded, and properties of them, each computed when it is first asked for.
#[derive(Debug)]
pub struct Values<'v> {
    /// The values.
    pub all: &'v [u64],
    ends: OnceCell<(u64, u64)>,
    runs: OnceCell<usize>,
    falls: OnceCell<usize>,
}

impl<'v> Values<'v> {
    /// Values of which no property was computed yet.
    pub fn of(all: &'v [u64]) -> Self {
        Self { all, ends: OnceCell::new(), runs: OnceCell::new(), falls: OnceCell::new() }
    }

    /// The least and the largest value; 0 and 0 if there are none.
    pub fn ends(&self) -> (u64, u64) {
        *self.ends.get_or_init(|| ends_of(self.all))
    }

    /// Number of runs of equal values.
    pub fn runs(&self) -> usize {
        *self.runs.get_or_init(|| runs_of(self.all))
    }

    /// Number of values that are below their predecessor.
    pub fn falls(&self) -> usize {
        *self.falls.get_or_init(|| falls_of(self.all))
    }
}

fn runs_of(values: &[u64]) -> usize {
    let changes = values.iter().zip(values.iter().skip(1)).filter(|(a, b)| a != b).count();
    changes + usize::from(!values.is_empty())
}

fn falls_of(values: &[u64]) -> usize {
    values.iter().zip(values.iter().skip(1)).filter(|(a, b)| b < a).count()
}

fn ends_of(values: &[u64]) -> (u64, u64) {
    let Some(&first) = values.first() else { return (0, 0) };
    // Four values at a time, so that no comparison waits for the one before.
    let (mut least, mut most) = ([first; 4], [first; 4]);
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        for (value, (least, most)) in four.iter().zip(least.iter_mut().zip(&mut most)) {
            (*least, *most) = ((*least).min(*value), (*most).max(*value));
        }
    }
    let all = |ends: [u64; 4]| ends.into_iter().chain(rest.iter().copied());
    (all(least).min().unwrap_or(first), all(most).max().unwrap_or(first))
}

/// The rows from `first` on for which `is` holds without interruption, below `end`.
#[inline]
pub fn equal_rows(first: usize, end: usize, is: impl Fn(usize) -> bool) -> Range<usize> {
    if first >= end || !is(first) {
        return first..first;
    }
    // Usually one row or a few: the range is doubled until it contains the end.
    let mut reach = 1;
    while first + reach < end && is(first + reach) {
        reach *= 2;
    }
    first..partition(first + reach / 2 + 1..(first + reach).min(end), is)
}

/// True if `is` holds for a number that `decode` decodes, of `rows` of them.
pub fn any_decoded(
    rows: usize,
    decode: impl Fn(usize, &mut [u64]),
    is: impl Fn(u64) -> bool,
) -> bool {
    let mut numbers = [0; CHECKED];
    (0..rows).step_by(CHECKED).any(|first| {
        let numbers = numbers.get_mut(..CHECKED.min(rows - first)).unwrap_or_default();
        decode(first, numbers);
        numbers.iter().any(|number| is(*number))
    })
}
