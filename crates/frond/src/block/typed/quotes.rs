//! Columns of strings that quote others of their row: a file's name that has the package's name and version in
//! it, an address with a user's name.
//!
//! A general codec cannot know that the two stand in one row: it codes where the other string was, which takes
//! more than the row does. A quote is one byte, and rows that are alike but for what they quote are the same
//! string, for whatever kind of column it is then written as.
//!
//! ```text
//! quoting = 15 | number of quoted columns u8 | each: its number in the directory u16 | strings
//! strings   248 + i stands for the string of quoted column i, 255 for the byte after it
//! ```
//!
//! Invariants
//! 1. Quoted columns stand earlier, quote nothing themselves, and are under no codec: a string is one read for
//!    itself, and one in place for each that it quotes.
//! 2. Columns of keys quote nothing: they are searched as they stand.
//! 3. Numbers of quoted columns ascend, and a block has no more than [`QUOTING_MAX`] columns that quote: decoding
//!    all of a block decodes no column more often than that.
//! 4. What strings become is bounded as all that is decoded is, by [`Typed::bytes_max`]; with quotes, and bytes that
//!    stand behind a mark, they are at most twice as long.

use std::{convert::Infallible, ops::Range};

use super::{
    super::{
        BadBlock, Codec,
        column::string::{Strings, Strs},
    },
    columns::{Column, Holds},
    frame::{TOO_LONG, Typed},
    row::Places,
};
use crate::layout::{End, Part};

/// First byte of the column. No kind of string column has it.
const TAG: u8 = 15;
/// Most columns that one quotes.
pub(super) const QUOTED_MAX: usize = 4;
/// Most columns of a block that quote others.
pub(super) const QUOTING_MAX: usize = 16;
/// The first byte that is no byte of the string itself, and the one that says that the next is.
const FIRST: u8 = 248;
const LITERAL: u8 = 255;
/// Shorter ones are not worth a quote.
pub(super) const QUOTE_BYTES_MIN: usize = 3;
/// Rows looked at before all are.
const SAMPLES: usize = 32;

const BAD: BadBlock = BadBlock("a column quotes none that it can");

/// A column that others may quote: where the directory has it, and how many bytes end each of its strings,
/// which are no part of what is quoted.
#[derive(Clone, Copy, Debug, Default)]
struct Quoted {
    at: usize,
    ending: usize,
}

/// A column of strings, to read.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    strs: Strs<'a>,
    quoted: [Quoted; QUOTED_MAX],
    count: usize,
}

/// What is decoded on the way to strings with quotes.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    strings: Strings,
    quoted: [Strings; QUOTED_MAX],
}

/// How many bytes end the strings of a column and say nothing.
pub(super) fn ending_bytes(column: &Column) -> usize {
    match column.holds {
        Holds::String(Part::Var(End::Escaped | End::EscapedDescending)) => 2,
        Holds::String(_) | Holds::Content | Holds::Word(..) => 0,
    }
}

impl<'a> Texts<'a> {
    /// Column `at` of the directory; `chunk` holds its bytes if they stand under a codec.
    #[inline]
    pub fn parse(typed: &Typed<'a>, at: usize, chunk: &'a mut Vec<u8>) -> Result<Self, BadBlock> {
        let bytes = typed.bytes(at)?;
        let mut quoted = [Quoted::default(); QUOTED_MAX];
        let (bytes, count) = match bytes.first() {
            Some(&TAG) => cut(typed, at, bytes, &mut quoted)?,
            _ => (bytes, 0),
        };
        let bytes_max = typed.bytes_max(1) * if count > 0 { 2 } else { 1 };
        Ok(Self { strs: typed.strs_of(at, bytes, bytes_max, chunk)?, quoted, count })
    }

    /// How the strings are written, their quotes in them.
    pub fn strs(&self) -> &Strs<'a> {
        &self.strs
    }

    /// Whether they quote others.
    pub fn quotes(&self) -> bool {
        self.count > 0
    }

    /// The length of all strings, where each can be written into a line of its own: they quote nothing.
    #[inline]
    pub fn even_bytes(&self) -> Option<usize> {
        if self.quotes() { None } else { self.strs.even_bytes() }
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.strs.bytes_used() + if self.quotes() { head_bytes(self.count) } else { 0 }
    }

    /// Appends string `row` of the block to `out`, which has others of the row in these places; on an error `out`
    /// may hold a part of it.
    #[inline]
    pub fn get(
        &self,
        typed: &Typed<'_>,
        row: usize,
        places: &Places,
        out: &mut Vec<u8>,
    ) -> Result<(), BadBlock> {
        match self.count {
            0 => self.strs.get(row, out),
            _ => self.get_quoting(typed, row, places, out),
        }
    }

    #[inline(never)]
    fn get_quoting(
        &self,
        typed: &Typed<'_>,
        row: usize,
        places: &Places,
        out: &mut Vec<u8>,
    ) -> Result<(), BadBlock> {
        let mut string = Vec::new();
        self.strs.get(row, &mut string)?;
        let base = out.len();
        // Where each quoted string stands: read before as a part of the row, or here, for many are quoted twice.
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
                            typed.strs(quoted.at, &mut Vec::new())?.get(row, out)?;
                            let end = out.len().saturating_sub(quoted.ending).max(start);
                            out.truncate(end);
                            *found = Some(start..end);
                        }
                    }
                }
            }
            if out.len() - base > typed.bytes_max(1) { Err(TOO_LONG) } else { Ok(()) }
        })
    }

    /// Appends strings `rows`, in order; on an error `out` may hold some of them.
    pub fn decode(
        &self,
        typed: &Typed<'_>,
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
            typed.strs(of.at, &mut Vec::new())?.decode(rows.clone(), quoted)?;
        }
        let bytes_max = out.bytes().len() + typed.bytes_max(1);
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

/// How many bytes of a column of values stand before the strings.
pub(super) fn head_of(bytes: &[u8]) -> usize {
    match *bytes {
        [TAG, count, ..] => head_bytes(count.into()),
        _ => 0,
    }
}

/// What column `at`, with these bytes, quotes, and how many columns that is; and the strings.
#[inline(never)]
fn cut<'a>(
    typed: &Typed<'a>,
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
        let column = typed.column(number).filter(|_| least <= number && number < at).ok_or(BAD)?;
        least = number + 1;
        // The high half of a string column's first byte is its codec.
        let is_plain = typed.bytes(number)?.first().is_some_and(|&first| first < TAG);
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

/// Takes a string apart.
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
    /// Its number among all columns of the tree, and in this block's directory.
    pub number: usize,
    pub at: u16,
    /// Bytes that end its strings.
    pub ending: usize,
    pub strings: Strings,
}

impl Quotable {
    #[inline]
    fn get(&self, row: usize) -> &[u8] {
        without(self.strings.get(row), self.ending)
    }
}

/// Whether a column written so may be quoted.
pub(super) fn may_be_quoted(codec: Codec) -> bool {
    codec == Codec::Raw
}

/// Appends what stands before strings that quote these.
pub(super) fn put_head(quoted: &[&Quotable], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TAG, quoted.len() as u8]);
    quoted.iter().for_each(|quoted| out.extend_from_slice(&quoted.at.to_le_bytes()));
}

/// Puts `strings` into `out` with quotes of these, where any is found.
pub(super) fn quote(strings: &Strings, quoted: &[&Quotable], out: &mut Strings) {
    out.clear();
    for (row, string) in strings.iter().enumerate() {
        quote_row(string, row, quoted, out);
    }
}

fn quote_row(string: &[u8], row: usize, quoted: &[&Quotable], out: &mut Strings) {
    let mut wanted: [&[u8]; QUOTED_MAX] = [&[]; QUOTED_MAX];
    // Of what is quoted the first bytes, one bit each: most positions begin none of it.
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

/// Which of those columns these strings should quote, by a sample; none, unless that saves them a quarter of
/// their bytes. Each next one has to save a sixteenth of what is left.
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

/// Whether strings of so many bytes, header included, are worth the reads of what they quote.
pub(super) fn worth_it(quoting_bytes: usize, plain_bytes: usize) -> bool {
    quoting_bytes < plain_bytes - plain_bytes / 10
}
