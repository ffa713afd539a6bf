//! String columns that quote other columns of their row: a file name that contains the package's
//! name and version, an address with a user's name.
//!
//! A general codec does not know that both strings are in one row: it encodes where the other
//! string was, which takes more than the rest of the row. A quote is one byte, and rows that differ
//! only in what they quote become equal strings, for whatever encoding the column then gets.
//!
//! ```text
//! quoting = 15 | number of quoted columns u8 | each: its number in the directory u16 | strings
//! strings   248 + i stands for the string of quoted column i, 255 for the byte after it
//! ```
//!
//! Invariants
//! 1. Quoted columns come earlier, quote nothing themselves, and use no codec: reading a string
//!    takes one read of its own, and one in place for each quote.
//! 2. Key columns quote nothing: they are searched as they are.
//! 3. Numbers of quoted columns ascend, and a block has at most [`QUOTING_MAX`] columns that quote:
//!    decoding the whole block decodes no column more often than that.
//! 4. The length of decoded strings is bounded as everything decoded is, by
//!    [`ColumnarBlock::bytes_max`]; with quotes, and with escaped bytes, they are at most twice as
//!    long.

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
/// Most columns that one column quotes.
pub(super) const QUOTED_MAX: usize = 4;
/// Most columns of a block that quote others.
pub(super) const QUOTING_MAX: usize = 16;
/// The first quote byte, and the escape byte: the byte after it is taken literally.
const FIRST: u8 = 248;
const LITERAL: u8 = 255;
/// Shorter strings are not worth a quote.
pub(super) const QUOTE_BYTES_MIN: usize = 3;
/// Number of rows in the sample that is examined first.
const SAMPLES: usize = 32;

/// Number of strings of a row whose places are remembered: quoting columns mostly quote those just
/// before them.
const PLACES: usize = 8;

const BAD: BadBlock = BadBlock("a column quotes none that it can");

/// A column that others may quote: its position in the directory, and the number of terminator
/// bytes of each of its strings, which are not quoted.
#[derive(Clone, Copy, Debug, Default)]
struct Quoted {
    at: usize,
    ending: usize,
}

impl<'a> ColumnarBlock<'a> {
    /// String column `at` of the directory, of values, which may quote others.
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
    /// Notes the place of the string of column `at`.
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
    quoted: [Quoted; QUOTED_MAX],
    count: usize,
}

/// Buffers for decoding strings with quotes.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    strings: Strings,
    quoted: [Strings; QUOTED_MAX],
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
        let mut quoted = [Quoted::default(); QUOTED_MAX];
        let (bytes, count) = match bytes.first() {
            Some(&TAG) => cut(columnar, at, bytes, &mut quoted)?,
            _ => (bytes, 0),
        };
        let bytes_max = columnar.bytes_max(1) * if count > 0 { 2 } else { 1 };
        Ok(Self { strs: columnar.strs_of(at, bytes, bytes_max, chunk)?, quoted, count })
    }

    /// The strings as stored, with their quotes.
    pub fn strs(&self) -> &Strs<'a> {
        &self.strs
    }

    /// True if they quote other columns.
    pub fn quotes(&self) -> bool {
        self.count > 0
    }

    /// The length of all strings, if each can be written directly into its place; this requires
    /// that they quote nothing.
    #[inline]
    pub fn even_bytes(&self) -> Option<usize> {
        if self.quotes() { None } else { self.strs.even_bytes() }
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.strs.bytes_used() + if self.quotes() { head_bytes(self.count) } else { 0 }
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
            _ => self.get_quoting(columnar, row, places, out),
        }
    }

    #[inline(never)]
    fn get_quoting(
        &self,
        columnar: &ColumnarBlock<'_>,
        row: usize,
        places: &Places,
        out: &mut Vec<u8>,
    ) -> Result<(), BadBlock> {
        let mut string = Vec::new();
        self.strs.get(row, &mut string)?;
        let base = out.len();
        // The places of quoted strings, either read before as a part of the row, or here, since
        // many are quoted twice.
        let mut found: [Option<Range<usize>>; QUOTED_MAX] = [const { None }; QUOTED_MAX];
        for (found, quoted) in found.iter_mut().zip(self.quoted.iter().take(self.count)) {
            *found = places.of(quoted.at).map(|place| {
                let end = place.end.saturating_sub(quoted.ending).max(place.start);
                place.start..end
            });
        }
        spell(&string, |piece| {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Quote(index) => {
                    let quoted = self.quoted.get(..self.count).and_then(|all| all.get(index));
                    let (quoted, found) = quoted.zip(found.get_mut(index)).ok_or(BAD)?;
                    match found {
                        Some(range) => out.extend_from_within(range.clone()),
                        None => {
                            let start = out.len();
                            columnar.strs(quoted.at, &mut Vec::new())?.get(row, out)?;
                            let end = out.len().saturating_sub(quoted.ending).max(start);
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
        let Some(of) = self.quoted.get(..self.count).filter(|of| !of.is_empty()) else {
            return self.strs.decode(rows, out);
        };
        let Scratch { strings, quoted } = scratch;
        strings.clear();
        self.strs.decode(rows.clone(), strings)?;
        for (of, quoted) in of.iter().zip(&mut *quoted) {
            quoted.clear();
            columnar.strs(of.at, &mut Vec::new())?.decode(rows.clone(), quoted)?;
        }
        let bytes_max = out.bytes().len() + columnar.bytes_max(1);
        for (index, string) in strings.iter().enumerate() {
            out.push_with(|bytes| {
                spell(string, |piece| {
                    match piece {
                        Piece::Bytes(piece) => bytes.extend_from_slice(piece),
                        Piece::Quote(quote) => {
                            let (of, quoted) = of.get(quote).zip(quoted.get(quote)).ok_or(BAD)?;
                            bytes.extend_from_slice(without(quoted.get(index), of.ending));
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

/// Parses what column `at` quotes, and the number of quoted columns; returns also the strings.
#[inline(never)]
fn cut<'a>(
    columnar: &ColumnarBlock<'a>,
    at: usize,
    bytes: &'a [u8],
    quoted: &mut [Quoted; QUOTED_MAX],
) -> Result<(&'a [u8], usize), BadBlock> {
    let [_, count, ref rest @ ..] = *bytes else { return Err(BAD) };
    let count = usize::from(count);
    let (numbers, strings) = rest.split_at_checked(2 * count).ok_or(BAD)?;
    let slots = quoted.get_mut(..count).filter(|slots| !slots.is_empty()).ok_or(BAD)?;
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
        *slot = Quoted { at: number, ending: ending_bytes(column) };
    }
    Ok((strings, count))
}

/// A piece of a string with quotes.
enum Piece<'a> {
    Bytes(&'a [u8]),
    Quote(usize),
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
                each(Piece::Quote(usize::from(first - FIRST)))?;
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

/// A column of the block being built that a later one may quote.
#[derive(Debug)]
pub(super) struct Quotable {
    /// The number among all columns of the tree, and in this block's directory.
    pub number: usize,
    pub at: u16,
    /// Bytes that terminate its strings.
    pub ending: usize,
    pub strings: Strings,
}

impl Quotable {
    #[inline]
    fn get(&self, row: usize) -> &[u8] {
        without(self.strings.get(row), self.ending)
    }
}

/// True if a column with this codec may be quoted.
pub(super) fn may_be_quoted(codec: Codec) -> bool {
    codec == Codec::Raw
}

/// Appends the head of a column whose strings quote these columns.
pub(super) fn put_head(quoted: &[&Quotable], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TAG, quoted.len() as u8]);
    quoted.iter().for_each(|quoted| out.extend_from_slice(&quoted.at.to_le_bytes()));
}

/// Copies `strings` to `out`, with occurrences of these columns' strings replaced by quotes.
pub(super) fn quote(strings: &Strings, quoted: &[&Quotable], out: &mut Strings) {
    out.clear();
    for (row, string) in strings.iter().enumerate() {
        quote_row(string, row, quoted, out);
    }
}

fn quote_row(string: &[u8], row: usize, quoted: &[&Quotable], out: &mut Strings) {
    let mut wanted: [&[u8]; QUOTED_MAX] = [&[]; QUOTED_MAX];
    // A bit set of the first bytes of what is quoted: at most positions none of it starts.
    let mut firsts = [0u64; 4];
    for (slot, quoted) in wanted.iter_mut().zip(quoted) {
        let string = quoted.get(row);
        if let Some(&first) = string.first().filter(|_| string.len() >= QUOTE_BYTES_MIN) {
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

/// Chooses which of these columns the strings should quote, based on a sample; none, unless that
/// saves a quarter of their bytes. Each further column must save a sixteenth of what is left.
pub(super) fn choose<'a>(strings: &Strings, quotable: &'a [Quotable]) -> Vec<&'a Quotable> {
    let every = strings.len().div_ceil(SAMPLES).max(1);
    let rows = || (0..strings.len()).step_by(every);
    let length_with = |quoted: &[&Quotable]| {
        let mut sample = Strings::new();
        rows().for_each(|row| quote_row(strings.get(row), row, quoted, &mut sample));
        sample.bytes().len()
    };
    let all = length_with(&[]);
    let (mut chosen, mut left) = (Vec::new(), all);
    while chosen.len() < QUOTED_MAX {
        let tried = quotable.iter().map(|more| {
            let with: Vec<&Quotable> = chosen.iter().copied().chain([more]).collect();
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

/// True if strings of this many bytes, including the head, are worth the reads of what they quote.
pub(super) fn worth_it(quoting_bytes: usize, plain_bytes: usize) -> bool {
    quoting_bytes < plain_bytes - plain_bytes / 10
}
