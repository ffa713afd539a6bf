//! Alphabets: strings over few characters, such as tokens in base 64 or random letters and digits.
//! Each character is stored as its number in the alphabet, in as few bits as the alphabet needs.
//!
//! A general codec finds no more in such strings than that they use few characters, and takes about
//! as much space (Huffman codes), but has to decode the whole column for a single string. Here
//! every string is read in place.
//!
//! An alphabet is a few ranges of bytes, so that numbers become characters without a table: the
//! first byte of the first range is added, then the length of each gap to what lies after the gap.
//! Both loops run over neighbouring bytes and are compiled to vector instructions.
//!
//! ```text
//! alphabet  each range: first byte, last byte
//! column    length of all strings + 1 | numbers                          (if they have one length)
//!           0 | exceptions | ends: integers, one a row, in characters | numbers
//! ```
//!
//! Invariants
//! 1. Ranges ascend, with a gap between any two; an alphabet has at most [`CHARACTERS_MAX`]
//!    characters. So numbers ascend as their characters do.
//! 2. A number that is not in the alphabet becomes some character: a block's checksum has to
//!    detect this. Other damage is detected when it is met.

use std::{cmp::Ordering, ops::Range};

use super::{
    super::{Ints, PAD_BYTES, bits},
    bit_writer::BitWriter,
    exceptions::Exceptions,
    raw::{for_each_range, take_ints},
    scratch::Scratch,
    strings::Strings,
    traits::{Apart, StringColumn, TOO_LONG, compare_start},
};
use crate::{
    block::BadBlock,
    coding::{Reader, put_varint},
};

/// Most ranges of an alphabet.
const RANGES_MAX: usize = 8;
/// Most characters of an alphabet: numbers of seven bits.
const CHARACTERS_MAX: usize = 128;
/// In the table of numbers: the byte is not in the alphabet.
const ABSENT: u8 = 0xff;
/// Characters that are packed and unpacked together, and compared together.
const GROUP: usize = 8;
const COMPARED: usize = 64;

const BAD: BadBlock = BadBlock("strings over an alphabet lie outside their column");
const BAD_ALPHABET: BadBlock = BadBlock("an alphabet's ranges do not ascend");

/// The characters that strings consist of.
#[derive(Clone, Debug)]
pub(super) struct Alphabet {
    /// First and last byte of each range.
    ranges: Vec<(u8, u8)>,
    /// Bits of a number, 1 to 7.
    width: usize,
    /// Number of each byte.
    numbers: Box<[u8; 256]>,
}

impl Alphabet {
    /// Parses an alphabet and checks it.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadBlock> {
        let (ranges, []) = bytes.as_chunks::<2>() else { return Err(BAD_ALPHABET) };
        Self::of(ranges.iter().map(|&[first, last]| (first, last)).collect()).ok_or(BAD_ALPHABET)
    }

    /// The alphabet of these ranges; `None` if they break a rule.
    fn of(ranges: Vec<(u8, u8)>) -> Option<Self> {
        let ascend = ranges.iter().all(|(first, last)| first <= last)
            && ranges.windows(2).all(|pair| usize::from(pair[0].1) + 1 < usize::from(pair[1].0));
        let characters = ranges.iter().flat_map(|&(first, last)| first..=last);
        let count = characters.clone().count();
        if !ascend || !(1..=RANGES_MAX).contains(&ranges.len()) || count > CHARACTERS_MAX {
            return None;
        }
        let mut numbers = Box::new([ABSENT; 256]);
        for (number, character) in characters.enumerate() {
            numbers[usize::from(character)] = number as u8;
        }
        let width = bits::width_of(count as u64 - 1).max(1) as usize;
        Some(Self { ranges, width, numbers })
    }

    /// The alphabet with the narrowest numbers that contains every byte of `strings`; `None` if
    /// there are too many different ones, or none.
    pub fn train(strings: &Strings) -> Option<Self> {
        let mut present = [false; 256];
        strings.bytes().iter().for_each(|&byte| present[usize::from(byte)] = true);
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|&byte| present[usize::from(byte)]) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == byte => *last = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        // The narrowest gaps are filled until there are few ranges.
        let gap = |ranges: &[(u8, u8)], at: usize| ranges[at + 1].0 - ranges[at].1;
        while ranges.len() > RANGES_MAX {
            let at = (0..ranges.len() - 1).min_by_key(|&at| gap(&ranges, at))?;
            ranges[at].1 = ranges.remove(at + 1).1;
        }
        Self::of(ranges)
    }

    /// Appends the bytes that [`parse`](Self::parse) takes.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.ranges.iter().flat_map(|&(first, last)| [first, last]));
    }

    /// Memory that it holds elsewhere.
    pub fn memory_bytes(&self) -> usize {
        2 * self.ranges.capacity() + size_of_val(&*self.numbers)
    }

    /// Appends the numbers of a string. Returns false if it has other characters; what was appended
    /// is then meaningless.
    fn pack<const WIDTH: usize>(&self, string: &[u8], bits: &mut BitWriter) -> bool {
        let mut all = 0;
        let mut number = |byte: u8| {
            let number = self.numbers[usize::from(byte)];
            all |= number;
            u64::from(number & ((1 << WIDTH) - 1))
        };
        let (groups, rest) = string.as_chunks::<GROUP>();
        for group in groups {
            let numbers = group.iter().rev().fold(0, |word, &byte| word << WIDTH | number(byte));
            bits.put(numbers, GROUP * WIDTH);
        }
        let numbers = rest.iter().rev().fold(0, |word, &byte| word << WIDTH | number(byte));
        bits.put(numbers, rest.len() * WIDTH);
        all != ABSENT
    }

    /// Turns numbers into their characters.
    #[inline]
    fn name(&self, numbers: &mut [u8]) {
        let mut before = None;
        for &(first, last) in &self.ranges {
            match before {
                None => numbers.iter_mut().for_each(|byte| *byte = byte.wrapping_add(first)),
                Some(before) => {
                    let gap = first.wrapping_sub(before).wrapping_sub(1);
                    for byte in &mut *numbers {
                        *byte = byte.wrapping_add(if *byte > before { gap } else { 0 });
                    }
                }
            }
            before = Some(last);
        }
    }
}

/// Evaluates the expression with the width as a constant.
macro_rules! with_width {
    ($width:expr, $constant:ident => $call:expr) => {
        match $width {
            1 => with_width!(@ 1, $constant => $call),
            2 => with_width!(@ 2, $constant => $call),
            3 => with_width!(@ 3, $constant => $call),
            4 => with_width!(@ 4, $constant => $call),
            5 => with_width!(@ 5, $constant => $call),
            6 => with_width!(@ 6, $constant => $call),
            _ => with_width!(@ 7, $constant => $call),
        }
    };
    (@ $width:literal, $constant:ident => $call:expr) => {{
        const $constant: usize = $width;
        $call
    }};
}

/// Encodes strings; those with other characters become exceptions.
pub(super) fn put(
    strings: &Strings,
    alphabet: &Alphabet,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let Scratch { ints, values, exceptions, bits, ends, .. } = scratch;
    exceptions.clear();
    ends.clear();
    let mut end = 0;
    for (row, string) in strings.iter().enumerate() {
        let mark = bits.mark();
        if with_width!(alphabet.width, WIDTH => alphabet.pack::<WIDTH>(string, bits)) {
            end += string.len() as u64;
        } else {
            bits.reset(mark);
            exceptions.push(row, string);
        }
        ends.push(end);
    }
    let length = strings.get(0).len();
    if exceptions.is_empty() && strings.iter().all(|string| string.len() == length) {
        put_varint(out, length as u64 + 1);
    } else {
        put_varint(out, 0);
        exceptions.put(ints, values, out);
        ints.encode_direct(ends, out);
    }
    bits.finish(out);
}

/// A column of strings over an alphabet.
#[derive(Clone, Debug)]
pub(super) struct Lettered<'a> {
    rows: usize,
    alphabet: &'a Alphabet,
    /// The length of all strings, if they have no ends.
    length: usize,
    /// The end of each string, in characters.
    ends: Option<Ints<'a>>,
    exceptions: Exceptions<'a>,
    characters: usize,
    /// The numbers, and at least [`PAD_BYTES`] after them.
    numbers: &'a [u8],
}

impl<'a> Lettered<'a> {
    /// Parses a column of at most `bytes_max` characters.
    #[inline]
    pub fn parse(
        reader: &mut Reader<'a>,
        rows: usize,
        alphabet: &'a Alphabet,
        bytes_max: usize,
    ) -> Result<Self, BadBlock> {
        const SHORT: BadBlock = BadBlock("a string column ends early");
        let (mut length, mut ends, mut exceptions) = (0, None, Exceptions::default());
        let characters = match reader.varint().ok_or(SHORT)?.checked_sub(1) {
            Some(even) => {
                length = usize::try_from(even).map_err(|_| TOO_LONG)?;
                rows.checked_mul(length)
            }
            None => {
                exceptions = Exceptions::parse(reader, rows)?;
                let ends = ends.insert(take_ints(reader, rows)?);
                usize::try_from(rows.checked_sub(1).map_or(0, |last| ends.get(last))).ok()
            }
        };
        let characters = characters.ok_or(TOO_LONG)?;
        if characters > bytes_max {
            return Err(TOO_LONG);
        }
        let numbers = reader.rest();
        reader.take(packed_bytes(characters, alphabet)).ok_or(SHORT)?;
        if reader.rest().len() < PAD_BYTES {
            return Err(SHORT);
        }
        Ok(Self { rows, alphabet, length, ends, exceptions, characters, numbers })
    }

    /// The characters of a row that is no exception.
    #[inline]
    fn range(&self, row: usize) -> Result<Range<usize>, BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        let (start, end) = match &self.ends {
            None => (row * self.length, row * self.length + self.length),
            Some(ends) => {
                let start = row.checked_sub(1).map_or(0, |before| ends.get(before));
                (start as usize, ends.get(row) as usize)
            }
        };
        self.inside(start..end)
    }

    /// The range, if it lies in the column.
    #[inline]
    fn inside(&self, range: Range<usize>) -> Result<Range<usize>, BadBlock> {
        if range.start > range.end || range.end > self.characters { Err(BAD) } else { Ok(range) }
    }

    /// Writes characters from `first` on over all of `to`.
    #[inline]
    fn unpack(&self, first: usize, to: &mut [u8]) {
        with_width!(self.alphabet.width, WIDTH => self.unpack_numbers::<WIDTH>(first, to));
        self.alphabet.name(to);
    }

    fn unpack_numbers<const WIDTH: usize>(&self, first: usize, to: &mut [u8]) {
        let (mut at, lead) = (first * WIDTH / 8, first * WIDTH % 8);
        let mut next = || {
            let group = spread::<WIDTH>(bits::load(self.numbers, at) >> lead);
            at += WIDTH;
            group.to_le_bytes()
        };
        let (groups, rest) = to.as_chunks_mut::<GROUP>();
        groups.iter_mut().for_each(|group| *group = next());
        if !rest.is_empty() {
            rest.copy_from_slice(&next()[..rest.len()]);
        }
    }
}

/// Length of this many numbers.
fn packed_bytes(characters: usize, alphabet: &Alphabet) -> usize {
    bits::packed_bytes(characters, alphabet.width as u32)
}

/// Moves eight numbers from the low bits of a word into a byte each.
#[inline(always)]
fn spread<const WIDTH: usize>(numbers: u64) -> u64 {
    let low = |count: usize| (1u64 << (count * WIDTH)) - 1;
    // Four numbers in each half, two in each quarter, then one in each byte.
    let halves = (numbers & low(4)) | (numbers >> (4 * WIDTH) & low(4)) << 32;
    let two = low(2) * 0x1_0000_0001;
    let quarters = (halves & two) | (halves >> (2 * WIDTH) & two) << 16;
    let one = low(1) * 0x1_0001_0001_0001;
    (quarters & one) | (quarters >> WIDTH & one) << 8
}

impl StringColumn for Lettered<'_> {
    // Ends ascend, exceptions have no characters, and the last bits are zeros.
    fn check(&self, _: usize) -> Result<(), BadBlock> {
        if let Some(ends) = &self.ends {
            ends.check()?;
            let mut bad = false;
            for_each_range(ends, 0..self.rows, |_, range| self.inside(range).map(drop))?;
            self.exceptions.check(self.rows, |row| {
                bad |= self.range(row).is_ok_and(|characters| !characters.is_empty());
            })?;
            if bad {
                return Err(BadBlock("an exception has characters in the column"));
            }
        }
        let used = self.characters * self.alphabet.width % 8;
        let last = packed_bytes(self.characters, self.alphabet).wrapping_sub(1);
        let last = self.numbers.get(last).copied().unwrap_or(0);
        if used > 0 && last >> used != 0 {
            return Err(BadBlock("a string column ends with bits of no string"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if let Some(string) = self.exceptions.find(row)? {
            out.extend_from_slice(string);
            return Ok(());
        }
        let (characters, start) = (self.range(row)?, out.len());
        out.resize(start + characters.len(), 0);
        self.unpack(characters.start, &mut out[start..]);
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        let Some(length) = self.even_bytes() else {
            return self.decode_each(rows, bytes_max, out);
        };
        if rows.end > self.rows {
            return Err(BAD);
        }
        if out.bytes().len() + rows.len() * length > bytes_max {
            return Err(TOO_LONG);
        }
        out.push_alike(rows.len(), length, |to| {
            self.unpack(rows.start * length, to);
            Ok(())
        })
    }

    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        if let Some(string) = self.exceptions.find(row)? {
            return Ok(string.cmp(key));
        }
        let (mut characters, mut key) = (self.range(row)?, key);
        let mut piece = [0; COMPARED];
        while !characters.is_empty() {
            let piece = &mut piece[..characters.len().min(COMPARED)];
            self.unpack(characters.start, piece);
            let order = compare_start(piece, &mut key);
            if order.is_ne() {
                return Ok(order);
            }
            characters.start += piece.len();
        }
        Ok(if key.is_empty() { Ordering::Equal } else { Ordering::Less })
    }

    #[inline]
    fn even_bytes(&self) -> Option<usize> {
        self.ends.is_none().then_some(self.length)
    }

    fn decode_apart(&self, rows: Range<usize>, to: &mut Apart<'_>) -> Result<(), BadBlock> {
        let Some(length) = self.even_bytes() else { return Err(BAD) };
        if rows.end > self.rows {
            return Err(BAD);
        }
        let mut first = rows.start * length;
        for line in to.lines.chunks_exact_mut(to.apart).take(rows.len()) {
            self.unpack(first, line.get_mut(to.at..to.at + length).ok_or(BAD)?);
            first += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            model::{Parts, StringModel},
            plan::StrKind,
            tests::holds,
        },
        *,
    };

    fn strings(rows: &[&str]) -> Strings {
        rows.iter().map(|row| row.as_bytes()).collect()
    }

    fn alphabet(ranges: &[u8]) -> Option<Alphabet> {
        Alphabet::parse(ranges).ok()
    }

    /// Alphabets of every width, strings of one length and of several, and exceptions.
    #[test]
    fn strings_over_every_alphabet_take_as_many_bits_as_it_needs() {
        for width in 1..=7u32 {
            let last = (1u32 << width) - 1;
            for gap in [0, 60] {
                // Characters in two ranges, with a gap between them.
                let of =
                    |number: u32| (50 + number + if number > last / 2 { gap } else { 0 }) as u8;
                let row = |row: u32, length: u32| -> Vec<u8> {
                    let number = |at: u32| (row * 7919 + at * 104_729) >> 4 & last;
                    (0..length).map(|at| of(number(at))).collect()
                };
                let even: Vec<Vec<u8>> = (0..100).map(|at| row(at, 37)).collect();
                let mut uneven: Vec<Vec<u8>> = (0..100).map(|at| row(at, at * 13 % 50)).collect();
                let all: Strings = even.iter().map(Vec::as_slice).collect();
                let trained = Alphabet::train(&all).expect("few characters");
                assert_eq!(trained.width, width as usize);
                let parts = || Parts { alphabet: Some(trained.clone()), ..Parts::default() };
                let column = holds(&all, parts(), StrKind::Alphabet);
                assert_eq!(column.len(), 2 + (3700 * width as usize).div_ceil(8));
                for (at, other) in [(0, &[0xff; 3][..]), (17, b"\0"), (99, b"0123456789\n")] {
                    uneven[at] = other.to_vec();
                }
                let all: Strings = uneven.iter().map(Vec::as_slice).collect();
                holds(&all, parts(), StrKind::Alphabet);
            }
        }
    }

    /// The bytes that docs/format.md shows.
    #[test]
    fn the_documented_alphabet_matches_the_written_bytes() {
        let text = include_str!("../../../../../../docs/format.md");
        let shown = text.split("A model of the alphabet").nth(1).expect("documented");
        let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
        let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hexadecimal");
        let lines = lines.map(|line| line[..49].split_whitespace().map(byte).collect::<Vec<u8>>());
        let lines: Vec<Vec<u8>> = lines.take(2).collect();
        let parts = || Parts { alphabet: alphabet(b"acxz"), ..Parts::default() };
        assert_eq!(StringModel::new(parts()).as_bytes(), lines[0]);
        assert_eq!(holds(&strings(&["ab", "zx"]), parts(), StrKind::Alphabet), lines[1]);
    }

    #[test]
    fn an_alphabet_has_few_ranges() {
        let letters = strings(&["The quick brown fox", "0123456789", "+/"]);
        let found = Alphabet::train(&letters).expect("few characters");
        assert!(found.ranges.len() <= RANGES_MAX && found.width <= 7);
        let mut bytes = Vec::new();
        found.put(&mut bytes);
        assert_eq!(Alphabet::parse(&bytes).map(|read| read.ranges), Ok(found.ranges));
        let base64: Vec<u8> = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').collect();
        let base64 = [&base64[..], b"+/"].concat();
        let found = Alphabet::train(&[&base64[..]].into_iter().collect()).expect("64");
        let ranges = [(b'+', b'+'), (b'/', b'9'), (b'A', b'Z'), (b'a', b'z')];
        assert_eq!((found.width, &found.ranges[..]), (6, &ranges[..]));
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert!(Alphabet::train(&[&all[..]].into_iter().collect()).is_none());
        assert!(Alphabet::train(&[&all[..128]].into_iter().collect()).is_some());
        assert!(Alphabet::train(&[&all[..129]].into_iter().collect()).is_none());
        assert!(Alphabet::train(&strings(&["", ""])).is_none());
    }

    #[test]
    fn ranges_that_break_a_rule_are_refused() {
        assert!(alphabet(b"az").is_some() && alphabet(b"AZaz").is_some());
        assert!(alphabet(&[0, 127]).is_some() && alphabet(&[128, 255]).is_some());
        for bad in
            [&b""[..], b"a", b"za", b"azAZ", b"amnz", b"azaz", &[0, 128], &[0, 100, 200, 250]]
        {
            assert!(alphabet(bad).is_none(), "{bad:?}");
        }
        let many: Vec<u8> = (0..18).map(|at| at / 2 * 3).collect();
        assert!(alphabet(&many[..16]).is_some() && alphabet(&many).is_none());
    }
}
