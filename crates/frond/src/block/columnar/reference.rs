//! String columns that refer to other columns of their row: a file name that contains the package's
//! name and version, an address with a user's name.
//!
//! A general codec does not know that both strings are in one row: it encodes where the other
//! string was, which takes more than the rest of the row. A reference is one byte, and rows that
//! differ only in the strings they refer to become equal strings, for whatever encoding the column
//! then gets. A column that is referred to is a target.
//!
//! ```text
//! column  = 15 | number of targets u8 | each: its number in the directory u16 | strings
//! strings   248 + i stands for the string of target i, 255 for the byte after it
//! ```
//!
//! Invariants
//! 1. Targets come earlier, have no references themselves, and use no codec: reading a string takes
//!    one read of its own, and one in place for each target.
//! 2. Key columns have no references: they are searched as they are.
//! 3. Numbers of targets ascend, and a block has at most [`REFERRING_MAX`] columns with references:
//!    so decoding a whole block decodes no column more often than that.
//! 4. The length of decoded strings is bounded as everything decoded is, by
//!    [`ColumnarBlock::bytes_max`]; with references, and with escaped bytes, they are at most twice
//!    as long.

use std::{convert::Infallible, ops::Range};

use super::{
    super::{
        BadBlock, Codec,
        encoding::string::{Strings, Strs},
    },
    columns::{Column, Holds},
    frame::{ColumnarBlock, TOO_LONG},
};
use crate::layout::{End, Part};

/// First byte of the column. No kind of string column has it.
const TAG: u8 = 15;
/// Most columns that one column refers to.
pub(super) const TARGETS_MAX: usize = 4;
/// Most columns of a block that refer to others.
pub(super) const REFERRING_MAX: usize = 16;
/// The first reference byte, and the escape byte: the byte after it is taken literally.
const FIRST: u8 = 248;
const LITERAL: u8 = 255;
/// Shorter strings are not worth a reference.
pub(super) const REFERENCE_BYTES_MIN: usize = 3;
/// Number of rows in the sample that is examined first.
const SAMPLES: usize = 32;

/// Number of strings of a row whose places are remembered: columns usually refer to those just
/// before them.
const PLACES: usize = 8;

const BAD: BadBlock = BadBlock("a column refers to one that it cannot");

/// A column that others refer to: its position in the directory, and the number of terminator bytes
/// of each of its strings, which a reference leaves out.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    at: usize,
    ending: usize,
}

impl<'a> ColumnarBlock<'a> {
    /// String column `at` of the directory, of values, which may refer to others.
    #[inline]
    pub(super) fn texts<'b>(&self, at: usize, chunk: &'b mut Vec<u8>) -> Result<Texts<'b>, BadBlock>
    where
        'a: 'b,
    {
        Texts::parse(self, at, chunk)
    }
}

/// Places, in what was read so far, of the strings of the current row.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By position in the directory.
    all: [(usize, Range<usize>); PLACES],
    count: usize,
}

impl Places {
    /// Records the place of the string of column `at`.
    #[inline]
    pub fn note(&mut self, at: usize, range: Range<usize>) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = (at, range);
            self.count += 1;
        }
    }

    /// The place of the string of column `at`, if it was read.
    #[inline]
    pub fn of(&self, at: usize) -> Option<Range<usize>> {
        let known = self.all.get(..self.count)?;
        known.iter().find(|(of, _)| *of == at).map(|(_, range)| range.clone())
    }
}

/// A string column, for reading.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    strs: Strs<'a>,
    targets: [Target; TARGETS_MAX],
    count: usize,
}

/// Buffers for decoding strings with references.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    strings: Strings,
    targets: [Strings; TARGETS_MAX],
}

/// The number of bytes that terminate the strings of a column and carry no content.
pub(super) fn ending_bytes(column: &Column) -> usize {
    match column.holds {
        Holds::String(Part::Var(End::Escaped | End::EscapedDescending)) => 2,
        Holds::String(_) | Holds::Content | Holds::Word(..) => 0,
    }
}

impl<'a> Texts<'a> {
    /// Parses column `at` of the directory; `chunk` receives its bytes if they are compressed.
    #[inline]
    pub fn parse(
        columnar: &ColumnarBlock<'a>,
        at: usize,
        chunk: &'a mut Vec<u8>,
    ) -> Result<Self, BadBlock> {
        let bytes = columnar.bytes(at)?;
        let mut targets = [Target::default(); TARGETS_MAX];
        let (bytes, count) = match bytes.first() {
            Some(&TAG) => cut(columnar, at, bytes, &mut targets)?,
            _ => (bytes, 0),
        };
        let bytes_max = columnar.bytes_max(1) * if count > 0 { 2 } else { 1 };
        Ok(Self { strs: columnar.strs_of(at, bytes, bytes_max, chunk)?, targets, count })
    }

    /// The strings as stored, with their references.
    pub fn strs(&self) -> &Strs<'a> {
        &self.strs
    }

    /// True if they refer to other columns.
    pub fn has_references(&self) -> bool {
        self.count > 0
    }

    /// The length of all strings, if each can be written directly into its place; this requires
    /// that they have no references.
    #[inline]
    pub fn even_bytes(&self) -> Option<usize> {
        if self.has_references() { None } else { self.strs.even_bytes() }
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.strs.bytes_used() + if self.has_references() { head_bytes(self.count) } else { 0 }
    }

    /// Appends string `row` of the block to `out`, in which other strings of the row are at
    /// `places`; on an error `out` may hold a part of it.
    #[inline]
    pub fn get(
        &self,
        columnar: &ColumnarBlock<'_>,
        row: usize,
        places: &Places,
        out: &mut Vec<u8>,
    ) -> Result<(), BadBlock> {
        match self.count {
            0 => self.strs.get(row, out),
            _ => self.get_resolved(columnar, row, places, out),
        }
    }

    #[inline(never)]
    fn get_resolved(
        &self,
        columnar: &ColumnarBlock<'_>,
        row: usize,
        places: &Places,
        out: &mut Vec<u8>,
    ) -> Result<(), BadBlock> {
        let mut string = Vec::new();
        self.strs.get(row, &mut string)?;
        let base = out.len();
        // The places of the targets' strings, either read before as a part of the row, or here,
        // since many are referred to twice.
        let mut found: [Option<Range<usize>>; TARGETS_MAX] = [const { None }; TARGETS_MAX];
        for (found, target) in found.iter_mut().zip(self.targets.iter().take(self.count)) {
            *found = places.of(target.at).map(|place| {
                let end = place.end.saturating_sub(target.ending).max(place.start);
                place.start..end
            });
        }
        spell(&string, |piece| {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Reference(index) => {
                    let target = self.targets.get(..self.count).and_then(|all| all.get(index));
                    let (target, found) = target.zip(found.get_mut(index)).ok_or(BAD)?;
                    match found {
                        Some(range) => out.extend_from_within(range.clone()),
                        None => {
                            let start = out.len();
                            columnar.strs(target.at, &mut Vec::new())?.get(row, out)?;
                            let end = out.len().saturating_sub(target.ending).max(start);
                            out.truncate(end);
                            *found = Some(start..end);
                        }
                    }
                }
            }
            if out.len() - base > columnar.bytes_max(1) { Err(TOO_LONG) } else { Ok(()) }
        })
    }

    /// Appends strings `rows`, in order; on an error `out` may hold some of them.
    pub fn decode(
        &self,
        columnar: &ColumnarBlock<'_>,
        rows: Range<usize>,
        scratch: &mut Scratch,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        let Some(targets) = self.targets.get(..self.count).filter(|all| !all.is_empty()) else {
            return self.strs.decode(rows, out);
        };
        let Scratch { strings, targets: decoded } = scratch;
        strings.clear();
        self.strs.decode(rows.clone(), strings)?;
        for (target, decoded) in targets.iter().zip(&mut *decoded) {
            decoded.clear();
            columnar.strs(target.at, &mut Vec::new())?.decode(rows.clone(), decoded)?;
        }
        let bytes_max = out.bytes().len() + columnar.bytes_max(1);
        for (index, string) in strings.iter().enumerate() {
            out.push_with(|bytes| {
                spell(string, |piece| {
                    match piece {
                        Piece::Bytes(piece) => bytes.extend_from_slice(piece),
                        Piece::Reference(to) => {
                            let target = targets.get(to).zip(decoded.get(to));
                            let (target, decoded) = target.ok_or(BAD)?;
                            bytes.extend_from_slice(without(decoded.get(index), target.ending));
                        }
                    }
                    if bytes.len() > bytes_max { Err(TOO_LONG) } else { Ok(()) }
                })
            })?;
        }
        Ok(())
    }
}

fn without(string: &[u8], ending: usize) -> &[u8] {
    string.get(..string.len().saturating_sub(ending)).unwrap_or_default()
}

pub(super) fn head_bytes(count: usize) -> usize {
    2 + 2 * count
}

/// Number of bytes of a value's string column before the strings.
pub(super) fn head_of(bytes: &[u8]) -> usize {
    match *bytes {
        [TAG, count, ..] => head_bytes(count.into()),
        _ => 0,
    }
}

/// Parses the targets of column `at`; returns the strings and the number of targets.
#[inline(never)]
fn cut<'a>(
    columnar: &ColumnarBlock<'a>,
    at: usize,
    bytes: &'a [u8],
    targets: &mut [Target; TARGETS_MAX],
) -> Result<(&'a [u8], usize), BadBlock> {
    let [_, count, ref rest @ ..] = *bytes else { return Err(BAD) };
    let count = usize::from(count);
    let (numbers, strings) = rest.split_at_checked(2 * count).ok_or(BAD)?;
    let slots = targets.get_mut(..count).filter(|slots| !slots.is_empty()).ok_or(BAD)?;
    let mut least = 0;
    for (slot, number) in slots.iter_mut().zip(numbers.as_chunks::<2>().0) {
        let number = usize::from(u16::from_le_bytes(*number));
        let column =
            columnar.column(number).filter(|_| least <= number && number < at).ok_or(BAD)?;
        least = number + 1;
        // The high half of a string column's first byte is its codec.
        let is_plain = columnar.bytes(number)?.first().is_some_and(|&first| first < TAG);
        if matches!(column.holds, Holds::Word(..)) || !is_plain {
            return Err(BAD);
        }
        *slot = Target { at: number, ending: ending_bytes(column) };
    }
    Ok((strings, count))
}

/// A piece of a string with references.
enum Piece<'a> {
    Bytes(&'a [u8]),
    Reference(usize),
}

/// Splits a string into its pieces.
#[inline]
fn spell<'a>(
    mut string: &'a [u8],
    mut each: impl FnMut(Piece<'a>) -> Result<(), BadBlock>,
) -> Result<(), BadBlock> {
    while let Some(&first) = string.first() {
        match first {
            LITERAL => {
                let literal = string.get(1..2).ok_or(BadBlock("a string ends within a byte"))?;
                each(Piece::Bytes(literal))?;
                string = string.get(2..).unwrap_or_default();
            }
            FIRST.. => {
                each(Piece::Reference(usize::from(first - FIRST)))?;
                string = string.get(1..).unwrap_or_default();
            }
            _ => {
                let end = string.iter().position(|&byte| byte >= FIRST).unwrap_or(string.len());
                let (bytes, rest) = string.split_at(end);
                each(Piece::Bytes(bytes))?;
                string = rest;
            }
        }
    }
    Ok(())
}

/// A column of the block being built that a later one may refer to.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Its number among all columns of the tree; `at` is its position in this block's directory.
    pub number: usize,
    pub at: u16,
    /// Bytes that terminate its strings.
    pub ending: usize,
    pub strings: Strings,
}

impl Candidate {
    #[inline]
    fn get(&self, row: usize) -> &[u8] {
        without(self.strings.get(row), self.ending)
    }
}

/// True if others may refer to a column with this codec.
pub(super) fn may_be_target(codec: Codec) -> bool {
    codec == Codec::Raw
}

/// Appends the head of a column whose strings refer to these columns.
pub(super) fn put_head(targets: &[&Candidate], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TAG, targets.len() as u8]);
    targets.iter().for_each(|target| out.extend_from_slice(&target.at.to_le_bytes()));
}

/// Copies `strings` to `out`, with occurrences of the targets' strings replaced by references.
pub(super) fn replace(strings: &Strings, targets: &[&Candidate], out: &mut Strings) {
    out.clear();
    for (row, string) in strings.iter().enumerate() {
        replace_in_row(string, row, targets, out);
    }
}

fn replace_in_row(string: &[u8], row: usize, targets: &[&Candidate], out: &mut Strings) {
    let mut wanted: [&[u8]; TARGETS_MAX] = [&[]; TARGETS_MAX];
    // A bit set of the first bytes of these strings: at most positions none of them starts.
    let mut firsts = [0u64; 4];
    for (slot, target) in wanted.iter_mut().zip(targets) {
        let string = target.get(row);
        if let Some(&first) = string.first().filter(|_| string.len() >= REFERENCE_BYTES_MIN) {
            *slot = string;
            firsts[usize::from(first >> 6)] |= 1 << (first & 63);
        }
    }
    let Ok(()) = out.push_with(|out| {
        let mut rest = string;
        while let Some((&first, after)) = rest.split_first() {
            if firsts[usize::from(first >> 6)] >> (first & 63) & 1 != 0 {
                let found = wanted.iter().position(|is| !is.is_empty() && rest.starts_with(is));
                if let Some(found) = found {
                    out.push(FIRST + found as u8);
                    rest = rest.get(wanted[found].len()..).unwrap_or_default();
                    continue;
                }
            }
            if first >= FIRST {
                out.push(LITERAL);
            }
            out.push(first);
            rest = after;
        }
        Ok::<(), Infallible>(())
    });
}

/// Chooses which of these columns the strings should refer to, based on a sample; none, unless that
/// saves a quarter of their bytes. Each further column must save a sixteenth of what is left.
pub(super) fn choose<'a>(strings: &Strings, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
    let every = strings.len().div_ceil(SAMPLES).max(1);
    let rows = || (0..strings.len()).step_by(every);
    let length_with = |targets: &[&Candidate]| {
        let mut sample = Strings::new();
        rows().for_each(|row| replace_in_row(strings.get(row), row, targets, &mut sample));
        sample.bytes().len()
    };
    let all = length_with(&[]);
    let (mut chosen, mut left) = (Vec::new(), all);
    while chosen.len() < TARGETS_MAX {
        let tried = candidates.iter().map(|more| {
            let with: Vec<&Candidate> = chosen.iter().copied().chain([more]).collect();
            (length_with(&with), more)
        });
        match tried.min_by_key(|&(length, _)| length) {
            Some((length, more)) if length < left - left / 16 => {
                chosen.push(more);
                left = length;
            }
            _ => break,
        }
    }
    if left < all - all / 4 { chosen } else { Vec::new() }
}

/// True if strings of this many bytes, including the head, are worth the reads of their targets.
pub(super) fn worth_it(with_references: usize, plain_bytes: usize) -> bool {
    with_references < plain_bytes - plain_bytes / 10
}
