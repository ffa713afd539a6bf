//! Columns of words that are written as the difference to another: an end beside its begin, a change beside
//! a creation.
//!
//! Two times that each take forty bits beside a line of their own are seconds apart. The difference takes what
//! the seconds do, and one more read.
//!
//! ```text
//! difference = 71 | number of the other column in the directory u16 | differences, integers
//! ```
//!
//! Invariants
//! 1. The other column stands earlier and is no difference itself: a value is read with two reads.
//! 2. A column of a key is a difference to a column of the key only. It is searched among rows that are equal in all
//!    columns before it: there the other column is one number, and the differences ascend, but that those of words
//!    below that number, which come first, have gone round the end of 64 bits.

use std::ops::Range;

use super::{
    super::{
        BadBlock,
        column::{IntKind, Ints, partition},
    },
    columns::Holds,
    frame::Typed,
};

/// First byte of the column. No kind of integer column has it.
const TAG: u8 = 71;
pub(super) const HEAD_BYTES: usize = 3;

/// Words that are added to others at a time.
const DECODED_WORDS: usize = 64;
/// Rows looked at before all are.
const SAMPLES: usize = 32;
/// Fewest rows that are worth looking at.
const ROWS_MIN: usize = 16;

/// A column of words, to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    ints: Ints<'a>,
    /// What is added to them, if they are differences.
    other: Option<Ints<'a>>,
}

impl<'a> Words<'a> {
    /// Column `at` of the directory.
    #[inline]
    pub fn parse(typed: &Typed<'a>, at: usize) -> Result<Self, BadBlock> {
        let bytes = typed.bytes(at)?;
        let Some((other, differences)) = cut(typed, at, bytes)? else {
            return Ok(Self { ints: Ints::parse(bytes, typed.rows())?, other: None });
        };
        let ints = Ints::parse(differences, typed.rows())?;
        Ok(Self { ints, other: Some(Ints::parse(other, typed.rows())?) })
    }

    /// Words from row `first` on, as many as `out` takes.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        self.ints.decode(first, out);
        let Some(other) = &self.other else { return };
        let mut others = [0; DECODED_WORDS];
        for (number, words) in out.chunks_mut(DECODED_WORDS).enumerate() {
            let others = others.get_mut(..words.len()).unwrap_or_default();
            other.decode(first + number * DECODED_WORDS, others);
            words
                .iter_mut()
                .zip(others)
                .for_each(|(word, other)| *word = word.wrapping_add(*other));
        }
    }

    /// Checks all that parsing does not; of the other column, that is done where it stands.
    pub fn check(&self) -> Result<(), BadBlock> {
        self.ints.check()
    }

    /// How the integers are encoded that stand here.
    pub fn kind(&self) -> IntKind {
        self.ints.kind()
    }

    /// Whether these are differences to another column.
    pub fn is_difference(&self) -> bool {
        self.other.is_some()
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.ints.bytes_used() + if self.other.is_some() { HEAD_BYTES } else { 0 }
    }
}

/// A column of words of a key, to be searched among rows that are equal in all columns before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searched<'a> {
    ints: Ints<'a>,
    /// What is added to them in all those rows, if they are differences.
    other: Option<u64>,
}

impl<'a> Searched<'a> {
    /// Column `at` of the directory, and some of those rows.
    #[inline]
    pub fn open(typed: &Typed<'a>, at: usize, rows: &Range<usize>) -> Result<Self, BadBlock> {
        let bytes = typed.bytes(at)?;
        let (ints, other) = match cut(typed, at, bytes)? {
            None => (bytes, None),
            Some((other, differences)) => {
                (differences, Some(Ints::read(other, typed.rows(), rows.start)?))
            }
        };
        let ints = Ints::open(ints, typed.rows());
        let ints = ints.ok_or(BadBlock("an integer column does not fit"))?;
        Ok(Self { ints, other })
    }

    /// The first of `rows` whose word is not below `word`, their end if there is none.
    #[inline]
    pub fn lower_bound(&self, rows: Range<usize>, word: u64) -> usize {
        match self.other {
            None => self.ints.lower_bound(rows, word),
            Some(other) => {
                let rows = self.around(rows, other, word);
                match rows.is_empty() {
                    true => rows.start,
                    false => self.ints.lower_bound(rows, word.wrapping_sub(other)),
                }
            }
        }
    }

    /// Those of `rows` whose word is `word`; none, where they would be, if there are none.
    #[inline]
    pub fn equal_range(&self, rows: Range<usize>, word: u64) -> Range<usize> {
        match self.other {
            None => self.ints.equal_range(rows, word),
            Some(other) => {
                let rows = self.around(rows, other, word);
                match rows.is_empty() {
                    true => rows,
                    false => self.ints.equal_range(rows, word.wrapping_sub(other)),
                }
            }
        }
    }

    /// Those of `rows` whose words are below `other`, if `word` is, or else those whose words are not.
    fn around(&self, rows: Range<usize>, other: u64, word: u64) -> Range<usize> {
        let is_below = |row: usize| self.ints.get(row).wrapping_add(other) < other;
        let wants_below = word < other;
        // Mostly all are on one side.
        let outermost = if wants_below { rows.end.saturating_sub(1) } else { rows.start };
        if rows.is_empty() || is_below(outermost) == wants_below {
            return rows;
        }
        let border = partition(rows.clone(), is_below);
        if wants_below { rows.start..border } else { border..rows.end }
    }
}

/// The word of one row of column `at`, the fastest way.
#[inline]
pub(super) fn read(typed: &Typed<'_>, at: usize, row: usize) -> Result<u64, BadBlock> {
    let bytes = typed.bytes(at)?;
    match cut(typed, at, bytes)? {
        None => Ints::read(bytes, typed.rows(), row),
        Some((other, differences)) => {
            let other = Ints::read(other, typed.rows(), row)?;
            Ok(Ints::read(differences, typed.rows(), row)?.wrapping_add(other))
        }
    }
}

/// What column `at`, with these bytes, is the difference to, and the differences; `None` if it is none.
#[inline]
fn cut<'a>(
    typed: &Typed<'a>,
    at: usize,
    bytes: &'a [u8],
) -> Result<Option<(&'a [u8], &'a [u8])>, BadBlock> {
    if bytes.first() == Some(&TAG) { cut_difference(typed, at, bytes).map(Some) } else { Ok(None) }
}

#[inline(never)]
fn cut_difference<'a>(
    typed: &Typed<'a>,
    at: usize,
    bytes: &'a [u8],
) -> Result<(&'a [u8], &'a [u8]), BadBlock> {
    const BAD: BadBlock = BadBlock("a column is the difference to none that it can be");
    let [_, low, high, ref differences @ ..] = *bytes else { return Err(BAD) };
    let number = usize::from(u16::from_le_bytes([low, high]));
    let column = typed.column(number).filter(|_| number < at);
    if !column.is_some_and(|column| matches!(column.holds, Holds::Word(..))) {
        return Err(BAD);
    }
    let other = typed.bytes(number)?;
    if other.first() == Some(&TAG) {
        return Err(BAD);
    }
    Ok((other, differences))
}

/// A column of the block being built that a later one may be the difference to.
#[derive(Debug)]
pub(super) struct Earlier {
    /// Its number among all columns of the tree, and in this block's directory.
    pub number: usize,
    pub at: u16,
    pub words: Vec<u64>,
}

impl Earlier {
    /// Appends what stands before the differences to it.
    pub fn put_head(&self, out: &mut Vec<u8>) {
        out.push(TAG);
        out.extend_from_slice(&self.at.to_le_bytes());
    }

    /// Puts the differences of `words` to it into `out`.
    pub fn differences(&self, words: &[u64], out: &mut Vec<u64>) {
        out.clear();
        out.extend(words.iter().zip(&self.words).map(|(word, other)| word.wrapping_sub(*other)));
    }

    /// Whether the differences of `words` to it may be much shorter than a column of so many bytes, by a
    /// sample. A few rows that are far off do not count, for they may be exceptions.
    pub fn promises(&self, words: &[u64], bytes: usize) -> bool {
        if words.len() < ROWS_MIN || words.len() != self.words.len() {
            return false;
        }
        let every = words.len().div_ceil(SAMPLES);
        let mut sample = [0i64; SAMPLES];
        let mut count = 0;
        let pairs = words.iter().zip(&self.words).step_by(every);
        for ((word, other), slot) in pairs.zip(&mut sample) {
            *slot = word.wrapping_sub(*other) as i64;
            count += 1;
        }
        let Some(sample) = sample.get_mut(..count) else { return false };
        sample.sort_unstable();
        let [low, high] = [count / 8, count - 1 - count / 8].map(|at| sample[at]);
        let bits = u64::BITS - high.wrapping_sub(low).leading_zeros();
        bits as usize * words.len() / 8 < bytes - bytes / 10
    }
}

/// Whether differences of so many bytes, header included, are worth the second read.
pub(super) fn worth_it(difference_bytes: usize, plain_bytes: usize) -> bool {
    difference_bytes < plain_bytes - plain_bytes / 10
}
