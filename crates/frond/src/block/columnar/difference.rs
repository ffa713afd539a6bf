//! Word columns stored as the difference to another column, such as an end time as the difference
//! to the start time, or a time of change to the time of creation.
//!
//! Two times of a row may each need forty bits in a column of their own, but be only seconds apart.
//! The difference takes only the bits of those seconds, and costs one more read.
//!
//! ```text
//! difference = 71 | number of the other column in the directory u16 | differences, integers
//!            | 73 | number u16 | shift u8 | origin u64 | slope i64 | differences to the line,
//!              integers
//! ```
//!
//! The second form is the difference to a line (`line.rs`) over the other column: ids next to
//! times.
//!
//! Invariants
//! 1. The other column comes earlier and is no difference itself: a value takes two reads.
//! 2. A key column is a difference only to another key column. It is searched among rows that are
//!    equal in all previous columns: there the other column is a single number, and so is a line
//!    over it, and the differences ascend, except that those of words below that number come first,
//!    as they wrap around at 64 bits.

use std::ops::Range;

use super::{
    super::{
        BadBlock,
        encoding::{IntKind, Ints, partition},
    },
    columns::Holds,
    frame::ColumnarBlock,
    line::{Line, PAIRS_MAX, SHIFT_MAX},
};
use crate::{coding::Reader, message::Tag};

/// First byte of the column. No kind of integer column has it.
const TAG: u8 = 71;
const LINE_TAG: u8 = 73;
const HEAD_BYTES: usize = 3;
const LINE_HEAD_BYTES: usize = HEAD_BYTES + 1 + 8 + 8;

/// Number of words that are added to others at a time.
const DECODED_WORDS: usize = 64;
/// Fewest rows that are worth examining.
const ROWS_MIN: usize = 16;

/// What a column is stored as a difference to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// Another column.
    Column,
    /// A line over another column.
    Line,
}

impl<'a> ColumnarBlock<'a> {
    /// Integer column `at` of the directory.
    #[inline]
    pub(super) fn words(&self, at: usize) -> Result<Words<'a>, BadBlock> {
        Words::parse(self, at)
    }

    /// Opens an integer column of a key for a search among these rows, which are equal in all
    /// previous columns. It is not checked that the column is complete: a missing value reads as
    /// some number.
    #[inline]
    pub(super) fn searched(
        &self,
        at: usize,
        rows: &Range<usize>,
    ) -> Result<Searched<'a>, BadBlock> {
        Searched::open(self, at, rows)
    }

    /// Row `row` of integer column `at` of the directory. It is not checked that the column is
    /// complete.
    #[inline]
    pub(super) fn int(&self, at: usize, row: usize) -> Result<u64, BadBlock> {
        let bytes = self.bytes(at)?;
        match cut(self, at, bytes)? {
            None => Ints::read(bytes, self.rows(), row),
            Some(Cut { other, line, differences }) => {
                let other = Ints::read(other, self.rows(), row)?;
                Ok(Ints::read(differences, self.rows(), row)?.wrapping_add(line.at(other)))
            }
        }
    }

    /// The tag of row `row`, and whether its value is in the columns.
    #[inline]
    pub(super) fn tag(&self, row: usize) -> Result<(Tag, bool), BadBlock> {
        self.tag_of(self.int(0, row)?)
    }
}

/// A word column, for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    ints: Ints<'a>,
    /// If they are differences: the other column and the line over it that is added.
    other: Option<(Ints<'a>, Line)>,
}

impl<'a> Words<'a> {
    /// Parses column `at` of the directory.
    #[inline]
    pub fn parse(columnar: &ColumnarBlock<'a>, at: usize) -> Result<Self, BadBlock> {
        let bytes = columnar.bytes(at)?;
        let Some(Cut { other, line, differences }) = cut(columnar, at, bytes)? else {
            return Ok(Self { ints: Ints::parse(bytes, columnar.rows())?, other: None });
        };
        let ints = Ints::parse(differences, columnar.rows())?;
        Ok(Self { ints, other: Some((Ints::parse(other, columnar.rows())?, line)) })
    }

    /// Decodes words from row `first` on into `out`.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        self.ints.decode(first, out);
        let Some((other, line)) = &self.other else { return };
        let mut others = [0; DECODED_WORDS];
        for (number, words) in out.chunks_mut(DECODED_WORDS).enumerate() {
            let others = others.get_mut(..words.len()).unwrap_or_default();
            other.decode(first + number * DECODED_WORDS, others);
            words
                .iter_mut()
                .zip(others)
                .for_each(|(word, other)| *word = word.wrapping_add(line.at(*other)));
        }
    }

    /// Checks everything that parsing does not; the other column is checked separately.
    pub fn check(&self) -> Result<(), BadBlock> {
        self.ints.check()
    }

    /// The encoding of the integers stored here.
    pub fn kind(&self) -> IntKind {
        self.ints.kind()
    }

    /// What they are differences to, if they are differences.
    pub fn against(&self) -> Option<Against> {
        let (_, line) = self.other?;
        Some(if line == Line::SAME { Against::Column } else { Against::Line })
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.ints.bytes_used() + self.other.map_or(0, |(_, line)| head_bytes(line))
    }
}

/// A word column of a key, to be searched among rows that are equal in all previous columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searched<'a> {
    ints: Ints<'a>,
    /// If they are differences: what is added to them in all those rows.
    other: Option<u64>,
}

impl<'a> Searched<'a> {
    /// Opens column `at` of the directory for a search among these rows.
    #[inline]
    pub fn open(
        columnar: &ColumnarBlock<'a>,
        at: usize,
        rows: &Range<usize>,
    ) -> Result<Self, BadBlock> {
        let bytes = columnar.bytes(at)?;
        let (ints, other) = match cut(columnar, at, bytes)? {
            None => (bytes, None),
            Some(Cut { other, line, differences }) => {
                let other = Ints::read(other, columnar.rows(), rows.start)?;
                (differences, Some(line.at(other)))
            }
        };
        let ints = Ints::open(ints, columnar.rows());
        let ints = ints.ok_or(BadBlock("an integer column does not fit"))?;
        Ok(Self { ints, other })
    }

    /// The first of `rows` whose word is not below `word`; their end if there is none.
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

    /// Those of `rows` whose word is `word`; if there are none, the empty range where they would
    /// be.
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

    /// Those of `rows` whose words are on the same side of `other` as `word`: below it, or not.
    fn around(&self, rows: Range<usize>, other: u64, word: u64) -> Range<usize> {
        let is_below = |row: usize| self.ints.get(row).wrapping_add(other) < other;
        let wants_below = word < other;
        // Usually all rows are on one side.
        let outermost = if wants_below { rows.end.saturating_sub(1) } else { rows.start };
        if rows.is_empty() || is_below(outermost) == wants_below {
            return rows;
        }
        let border = partition(rows.clone(), is_below);
        if wants_below { rows.start..border } else { border..rows.end }
    }
}

/// The parts of a difference.
struct Cut<'a> {
    other: &'a [u8],
    line: Line,
    differences: &'a [u8],
}

/// Splits column `at` into what it is the difference to, and the differences; `None` if it is no
/// difference.
#[inline]
fn cut<'a>(
    columnar: &ColumnarBlock<'a>,
    at: usize,
    bytes: &'a [u8],
) -> Result<Option<Cut<'a>>, BadBlock> {
    match bytes.first() {
        Some(&TAG | &LINE_TAG) => cut_difference(columnar, at, bytes).map(Some),
        _ => Ok(None),
    }
}

#[inline(never)]
fn cut_difference<'a>(
    columnar: &ColumnarBlock<'a>,
    at: usize,
    bytes: &'a [u8],
) -> Result<Cut<'a>, BadBlock> {
    const BAD: BadBlock = BadBlock("a column is the difference to none that it can be");
    let [tag, low, high, ref rest @ ..] = *bytes else { return Err(BAD) };
    let number = usize::from(u16::from_le_bytes([low, high]));
    let column = columnar.column(number).filter(|_| number < at);
    if !column.is_some_and(|column| matches!(column.holds, Holds::Word(..))) {
        return Err(BAD);
    }
    let other = columnar.bytes(number)?;
    if matches!(other.first(), Some(&TAG | &LINE_TAG)) {
        return Err(BAD);
    }
    if tag == TAG {
        return Ok(Cut { other, line: Line::SAME, differences: rest });
    }
    let mut reader = Reader::new(rest);
    let shift = reader.u8().filter(|shift| *shift <= SHIFT_MAX);
    let (Some(shift), Some(origin), Some(slope)) = (shift, reader.u64(), reader.u64()) else {
        return Err(BadBlock("a column is the difference to no line"));
    };
    let line = Line { origin, slope: slope as i64, shift };
    Ok(Cut { other, line, differences: reader.rest() })
}

/// Length of the head of differences to this line.
pub(super) fn head_bytes(line: Line) -> usize {
    if line == Line::SAME { HEAD_BYTES } else { LINE_HEAD_BYTES }
}

/// A column of the block being built to which later ones may be stored as differences.
#[derive(Debug)]
pub(super) struct Earlier {
    /// Its number among all columns of the tree; `at` is its position in this block's directory.
    pub number: usize,
    pub at: u16,
    pub words: Vec<u64>,
}

impl Earlier {
    /// Appends the head of differences to this line over the column.
    pub fn put_head(&self, line: Line, out: &mut Vec<u8>) {
        if line == Line::SAME {
            out.push(TAG);
            return out.extend_from_slice(&self.at.to_le_bytes());
        }
        out.push(LINE_TAG);
        out.extend_from_slice(&self.at.to_le_bytes());
        out.push(line.shift);
        out.extend_from_slice(&line.origin.to_le_bytes());
        out.extend_from_slice(&line.slope.to_le_bytes());
    }

    /// Computes the differences of `words` to a line over the column.
    pub fn differences(&self, line: Line, words: &[u64], out: &mut Vec<u64>) {
        out.clear();
        let pairs = words.iter().zip(&self.words);
        out.extend(pairs.map(|(word, other)| word.wrapping_sub(line.at(*other))));
    }

    /// The line of these words over the column, from a sample.
    pub fn line_of(&self, words: &[u64]) -> Option<Line> {
        let mut pairs = [(0, 0); PAIRS_MAX];
        Line::through(self.sample(words, &mut pairs)?)
    }

    /// Returns the lines over the column to which differences may be much shorter than a column of
    /// `bytes` bytes, judging by a sample of `words`. A few outliers do not count, since they may
    /// become exceptions.
    pub fn promising(&self, words: &[u64], bytes: usize) -> impl Iterator<Item = Line> {
        let mut lines = [None; 2];
        let mut pairs = [(0, 0); PAIRS_MAX];
        if let Some(pairs) = self.sample(words, &mut pairs) {
            let line = Line::through(pairs);
            let promises = |line: &Line| {
                let bits = u64::BITS - line.spread(pairs).leading_zeros();
                bits as usize * words.len() / 8 < bytes - bytes / 10
            };
            lines = [Some(Line::SAME), line].map(|line| line.filter(promises));
        }
        lines.into_iter().flatten()
    }

    /// Samples pairs of the column's words and these words, spread over the rows; `None` if there
    /// are too few.
    fn sample<'a>(
        &self,
        words: &[u64],
        pairs: &'a mut [(u64, u64); PAIRS_MAX],
    ) -> Option<&'a mut [(u64, u64)]> {
        if words.len() < ROWS_MIN || words.len() != self.words.len() {
            return None;
        }
        let every = words.len().div_ceil(PAIRS_MAX);
        let mut count = 0;
        let all = self.words.iter().zip(words).step_by(every);
        for ((other, word), pair) in all.zip(&mut *pairs) {
            *pair = (*other, *word);
            count += 1;
        }
        pairs.get_mut(..count)
    }
}

/// True if differences of this many bytes, including the head, are worth the second read.
pub(super) fn worth_it(difference_bytes: usize, plain_bytes: usize) -> bool {
    difference_bytes < plain_bytes - plain_bytes / 10
}
