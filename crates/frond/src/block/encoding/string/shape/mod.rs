//! Shape columns: strings of one length that follow a pattern, in which each position is a
//! constant, a decimal digit, a hexadecimal digit, or any byte: numbers as text, GUIDs, hashes,
//! dates, phone numbers, zero-padded codes.
//!
//! Three digits take ten bits, a hexadecimal digit four; constants take none. Every row has the
//! same number of bits, so row *i* starts at bit *i* times that. Strings of another form are
//! exceptions, and their bits are 0.
//!
//! ```text
//! shape   string's bytes | row's bits | length of the runs | runs
//! run     class u8 | count u8 | if constant: count bytes
//! column  (shape, if its own) | exceptions | bits, row after row, low bits first
//! ```
//!
//! Invariants
//! 1. A run's groups are in the order of its positions, the first in the lowest bits; digits are in
//!    groups of three, with a last group of one (4 bits) or two (7 bits).
//! 2. Within a class the order of the codes is that of the bytes.
//!
//! A shape is interpreted in place, by walking its runs: nothing has to be built before a lookup.

use std::{cmp::Ordering, ops::Range};

use super::{
    bit_writer::{BitWriter, PUT_BITS_MAX},
    exceptions::Exceptions,
    scratch::Scratch,
    strings::Strings,
    traits::{Apart, StringColumn, TOO_LONG, compare_start},
};
use crate::{
    block::{BadBlock, bytes::copy_short},
    coding::Reader,
};

pub(super) const CONSTANT: u8 = 0;
pub(super) const DIGIT: u8 = 1;
pub(super) const HEX_LOWER: u8 = 2;
pub(super) const HEX_UPPER: u8 = 3;
pub(super) const ANY: u8 = 4;

mod check;
mod even;

pub(super) const BAD: BadBlock = BadBlock("a shape does not fit its strings");

/// Longer strings are treated as text.
pub(super) const SHAPE_BYTES_MAX: usize = 4096;

/// Most bytes that a run takes for each of its positions.
const RUN_BYTES_MAX: usize = 3;

/// A multiple of three, so that only the last run of many digits has a short group.
pub(super) const RUN_MAX: usize = 255;

/// Three digits by their number, the first in the lowest byte. Codes beyond 999 are damage, which
/// `check` finds; reading them still gives digits.
pub(super) static DIGITS: [u32; 1024] = {
    let mut all = [0x0030_3030; 1024];
    let mut code = 0;
    while code < 1000 {
        all[code as usize] += code / 100 + ((code / 10 % 10) << 8) + ((code % 10) << 16);
        code += 1;
    }
    all
};

/// Runs are written as whole words, each over the unused bytes of the previous one.
pub(super) const SLACK_BYTES: usize = 8;

/// A shape, in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) string_bytes: usize,
    pub(super) row_bits: usize,
    pub(super) runs: &'a [u8],
}

/// A run of consecutive positions of one class.
pub(super) struct Run<'a> {
    pub class: u8,
    pub count: usize,
    pub constant: &'a [u8],
}

impl Run<'_> {
    /// Number of bits of the run in each row.
    pub fn bits(&self) -> usize {
        match self.class {
            DIGIT => self.count / 3 * 10 + [0, 4, 7][self.count % 3],
            HEX_LOWER | HEX_UPPER => 4 * self.count,
            ANY => 8 * self.count,
            _ => 0,
        }
    }
}

impl<'a> Shape<'a> {
    /// Parses a shape. Checks only what later calls need for their bounds.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>) -> Result<Self, BadBlock> {
        let mut number = || reader.varint().and_then(|n| usize::try_from(n).ok());
        let (string_bytes, row_bits, runs) =
            (number().ok_or(BAD)?, number().ok_or(BAD)?, number().ok_or(BAD)?);
        if string_bytes > SHAPE_BYTES_MAX || row_bits > 8 * SHAPE_BYTES_MAX {
            return Err(BAD);
        }
        // A run has at least one position: otherwise as many empty runs as fit into a block would
        // be walked for each row.
        if runs > RUN_BYTES_MAX * string_bytes {
            return Err(BAD);
        }
        Ok(Self { string_bytes, row_bits, runs: reader.take(runs).ok_or(BAD)? })
    }

    /// Checks that the lengths match the runs.
    pub fn check(&self) -> Result<(), BadBlock> {
        let (mut runs, mut bytes, mut bits) = (self.runs, 0, 0);
        while let Some(run) = next_run(&mut runs)? {
            if run.class > ANY || run.count == 0 {
                return Err(BAD);
            }
            bytes += run.count;
            bits += run.bits();
        }
        if (bytes, bits) != (self.string_bytes, self.row_bits) {
            return Err(BAD);
        }
        Ok(())
    }

    /// Packs `string` after the bits so far; returns false, and writes nothing, if it has another
    /// form.
    #[inline]
    pub fn pack(&self, string: &[u8], bits: &mut BitWriter) -> bool {
        if string.len() != self.string_bytes {
            return false;
        }
        let before = bits.mark();
        let (mut runs, mut rest) = (self.runs, string);
        while let Ok(Some(run)) = next_run(&mut runs) {
            let Some((now, later)) = rest.split_at_checked(run.count) else { break };
            rest = later;
            let packed = match run.class {
                CONSTANT => match (now, run.constant) {
                    ([one], [constant]) => one == constant,
                    _ => now == run.constant,
                },
                DIGIT => pack_digits(now, bits),
                HEX_LOWER => pack_hex(now, b'a', bits),
                HEX_UPPER => pack_hex(now, b'A', bits),
                _ => {
                    now.iter().for_each(|&byte| bits.put(byte.into(), 8));
                    true
                }
            };
            if !packed {
                bits.reset(before);
                return false;
            }
        }
        true
    }

    /// Packs the bits of a row whose string is an exception.
    pub fn pack_nothing(&self, bits: &mut BitWriter) {
        for at in (0..self.row_bits).step_by(PUT_BITS_MAX) {
            bits.put(0, (self.row_bits - at).min(PUT_BITS_MAX));
        }
    }
}

/// Cuts the first run off.
#[inline]
pub(super) fn next_run<'a>(runs: &mut &'a [u8]) -> Result<Option<Run<'a>>, BadBlock> {
    let [class, count, rest @ ..] = *runs else {
        return if runs.is_empty() { Ok(None) } else { Err(BAD) };
    };
    let (class, count) = (*class, usize::from(*count));
    let (constant, rest) =
        if class == CONSTANT { rest.split_at_checked(count).ok_or(BAD)? } else { (&[][..], rest) };
    *runs = rest;
    Ok(Some(Run { class, count, constant }))
}

/// Packs hexadecimal digits, whose letters start at `letter`. Returns false if a byte is no such
/// digit; what was packed is then meaningless.
#[inline]
pub(super) fn pack_hex(digits: &[u8], letter: u8, bits: &mut BitWriter) -> bool {
    let mut bad = false;
    let (eights, rest) = digits.as_chunks::<8>();
    for eight in eights {
        let packed = hex_value(u64::from_le_bytes(*eight));
        // A byte that is none of these digits is decoded as another one.
        bad |= hex_digits(packed, letter) != *eight;
        bits.put(packed.into(), 32);
    }
    let mut word = 0;
    for (at, &byte) in rest.iter().enumerate() {
        let (decimal, above) = (byte.wrapping_sub(b'0'), byte.wrapping_sub(letter));
        let digit = if decimal < 10 { decimal } else { above.wrapping_add(10) };
        bad |= decimal >= 10 && above >= 6;
        word |= u64::from(digit & 15) << (4 * at);
    }
    bits.put(word, 4 * rest.len());
    !bad
}

/// Packs decimal digits in groups of three. Returns false if a byte is no digit; what was packed is
/// then meaningless.
#[inline]
pub(super) fn pack_digits(digits: &[u8], bits: &mut BitWriter) -> bool {
    let mut bad = false;
    let mut digit = |byte: u8| {
        let digit = byte.wrapping_sub(b'0');
        bad |= digit > 9;
        u64::from(digit & 15)
    };
    let (mut word, mut used) = (0, 0);
    let mut rest = digits;
    while let Some((&[hundreds, tens, ones], later)) = rest.split_first_chunk::<3>() {
        let number = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        word |= (number & 1023) << used;
        used += 10;
        if used == 50 {
            bits.put(word, used);
            (word, used) = (0, 0);
        }
        rest = later;
    }
    match *rest {
        [ones] => {
            word |= digit(ones) << used;
            used += 4;
        }
        [tens, ones] => {
            word |= ((digit(tens) * 10 + digit(ones)) & 127) << used;
            used += 7;
        }
        _ => {}
    }
    bits.put(word, used);
    !bad
}

/// The place of a run: the first row, and the bit and bytes within each row.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    bit: usize,
    at: usize,
    end: usize,
}

/// Encodes strings with a shape.
pub(super) fn put(strings: &Strings, shape: Shape<'_>, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { ints, values, exceptions, bits, .. } = scratch;
    exceptions.clear();
    for (row, string) in strings.iter().enumerate() {
        if !shape.pack(string, bits) {
            shape.pack_nothing(bits);
            exceptions.push(row, string);
        }
    }
    exceptions.put(ints, values, out);
    bits.finish(out);
}

/// A column of strings of one shape.
#[derive(Clone, Debug)]
pub(super) struct Shaped<'a> {
    pub(super) rows: usize,
    pub(super) shape: Shape<'a>,
    pub(super) exceptions: Exceptions<'a>,
    packed: &'a [u8],
}

impl<'a> Shaped<'a> {
    /// Parses what follows the shape.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>, rows: usize, shape: Shape<'a>) -> Result<Self, BadBlock> {
        let exceptions = Exceptions::parse(reader, rows)?;
        let bytes = (rows * shape.row_bits).div_ceil(8);
        let packed = reader.take(bytes).ok_or(BadBlock("a string column ends early"))?;
        Ok(Self { rows, shape, exceptions, packed })
    }

    /// Writes strings none of which is an exception: each run for all strings, and then the next
    /// run.
    fn decode_alike(&self, rows: Range<usize>, to: &mut [u8]) -> Result<(), BadBlock> {
        let mut runs = self.shape.runs;
        let (mut at, mut bit) = (0, 0);
        while let Some(run) = next_run(&mut runs)? {
            let end = at + run.count;
            let place = Place { first: rows.start, bit, at, end };
            match run.class {
                CONSTANT => self.unpack_rows::<CONSTANT>(&run, place, to)?,
                DIGIT => self.unpack_rows::<DIGIT>(&run, place, to)?,
                HEX_LOWER => self.unpack_rows::<HEX_LOWER>(&run, place, to)?,
                HEX_UPPER => self.unpack_rows::<HEX_UPPER>(&run, place, to)?,
                ANY => self.unpack_rows::<ANY>(&run, place, to)?,
                _ => return Err(BAD),
            }
            at = end;
            bit += run.bits();
        }
        Ok(())
    }

    /// Writes one run for all rows that `to` has room for.
    fn unpack_rows<const CLASS: u8>(
        &self,
        run: &Run<'_>,
        place: Place,
        to: &mut [u8],
    ) -> Result<(), BadBlock> {
        let Shape { string_bytes, row_bits, .. } = self.shape;
        let mut bit = place.first * row_bits + place.bit;
        let mut piece = [0; RUN_MAX + SLACK_BYTES];
        for string in to.chunks_exact_mut(string_bytes.max(1)) {
            if place.end + SLACK_BYTES <= string_bytes {
                self.unpack_as::<CLASS>(run, bit, string, place.at)?;
            } else {
                // The unused bytes would overwrite the next row's first runs, which are already
                // written.
                self.unpack_as::<CLASS>(run, bit, &mut piece, 0)?;
                let to = string.get_mut(place.at..place.end).ok_or(BAD)?;
                copy_short(to, piece.get(..run.count).ok_or(BAD)?);
            }
            bit += row_bits;
        }
        Ok(())
    }

    /// Writes a run, which starts at bit `bit`, at `at`, perhaps overwriting what follows it.
    #[inline]
    fn unpack(&self, run: &Run<'_>, bit: usize, to: &mut [u8], at: usize) -> Result<(), BadBlock> {
        match run.class {
            CONSTANT => self.unpack_as::<CONSTANT>(run, bit, to, at),
            DIGIT => self.unpack_as::<DIGIT>(run, bit, to, at),
            HEX_LOWER => self.unpack_as::<HEX_LOWER>(run, bit, to, at),
            HEX_UPPER => self.unpack_as::<HEX_UPPER>(run, bit, to, at),
            ANY => self.unpack_as::<ANY>(run, bit, to, at),
            _ => Err(BAD),
        }
    }

    #[inline(always)]
    pub(super) fn unpack_as<const CLASS: u8>(
        &self,
        run: &Run<'_>,
        bit: usize,
        to: &mut [u8],
        at: usize,
    ) -> Result<(), BadBlock> {
        let (mut bit, mut at, end) = (bit, at, at + run.count);
        match CLASS {
            CONSTANT => copy_short(to.get_mut(at..end).ok_or(BAD)?, run.constant),
            DIGIT => {
                while at < end {
                    // Five groups of three are 50 bits: one load.
                    let mut word = self.bits(bit);
                    let mut left = (end - at).min(15);
                    while left >= 3 {
                        put_word(to, at, DIGITS[(word & 1023) as usize].to_le_bytes())?;
                        word >>= 10;
                        at += 3;
                        left -= 3;
                    }
                    // One or two digits are the last of a group of three.
                    match left {
                        0 => {}
                        1 => put_word(to, at, (DIGITS[(word & 15) as usize] >> 16).to_le_bytes())?,
                        _ => put_word(to, at, (DIGITS[(word & 127) as usize] >> 8).to_le_bytes())?,
                    }
                    at += left;
                    bit += 50;
                }
            }
            HEX_LOWER | HEX_UPPER => {
                let letter = if CLASS == HEX_LOWER { b'a' } else { b'A' };
                while at < end {
                    put_word(to, at, hex_digits(self.bits(bit) as u32, letter))?;
                    at += 8;
                    bit += 32;
                }
            }
            ANY => {
                while at < end {
                    // A load is certain to contain seven bytes.
                    put_word(to, at, self.bits(bit).to_le_bytes())?;
                    at += 7;
                    bit += 56;
                }
            }
            _ => return Err(BAD),
        }
        Ok(())
    }

    /// At least 57 bits from bit `at` on; zeros after the last.
    #[inline]
    pub(super) fn bits(&self, at: usize) -> u64 {
        let byte = at / 8;
        let word = match self.packed.get(byte..byte + 8).and_then(|word| word.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word),
            None => last_word(self.packed, byte),
        };
        word >> (at % 8)
    }
}

impl StringColumn for Shaped<'_> {
    fn check(&self, _: usize) -> Result<(), BadBlock> {
        self.check_rows()
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        if let Some(string) = self.exceptions.find(row)? {
            out.extend_from_slice(string);
            return Ok(());
        }
        let start = out.len();
        let end = start + self.shape.string_bytes;
        out.resize(end + SLACK_BYTES, 0);
        let (lines, apart) = (&mut out[start..], end + SLACK_BYTES - start);
        self.write(row..row + 1, &mut Apart { lines, apart, at: 0 })?;
        out.truncate(end);
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        if !self.exceptions.is_empty() {
            return self.decode_each(rows, bytes_max, out);
        }
        let bytes = self.shape.string_bytes;
        if out.bytes().len() + rows.len() * bytes > bytes_max {
            return Err(TOO_LONG);
        }
        out.push_alike(rows.len(), bytes, |to| self.decode_alike(rows, to))
    }

    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        if let Some(string) = self.exceptions.find(row)? {
            return Ok(string.cmp(key));
        }
        let mut piece = [0; RUN_MAX + SLACK_BYTES];
        let mut bit = row * self.shape.row_bits;
        let mut runs = self.shape.runs;
        let mut key = key;
        while let Some(run) = next_run(&mut runs)? {
            self.unpack(&run, bit, &mut piece, 0)?;
            bit += run.bits();
            let order = compare_start(piece.get(..run.count).ok_or(BAD)?, &mut key);
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(if key.is_empty() { Ordering::Equal } else { Ordering::Less })
    }

    fn even_bytes(&self) -> Option<usize> {
        self.exceptions.is_empty().then_some(self.shape.string_bytes)
    }

    fn decode_apart(&self, rows: Range<usize>, to: &mut Apart<'_>) -> Result<(), BadBlock> {
        if !self.exceptions.is_empty() {
            return Err(BAD);
        }
        self.write(rows, to)
    }
}

#[inline]
fn put_word<const N: usize>(to: &mut [u8], at: usize, word: [u8; N]) -> Result<(), BadBlock> {
    to.get_mut(at..at + N).ok_or(BAD)?.copy_from_slice(&word);
    Ok(())
}

/// The value of eight hexadecimal digits, the first in the lowest bits; for other bytes, some
/// number.
#[inline]
fn hex_value(eight: u64) -> u32 {
    const ONES: u64 = u64::MAX / 255;
    // Letters have this bit, and their value is nine more than their low bits.
    let letters = eight >> 6 & ONES;
    let word = ((eight & (ONES * 15)) + 9 * letters) & (ONES * 15);
    let word = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    (word | word >> 16) as u32
}

/// Eight digits of four bits each, the first in the lowest bits.
#[inline]
pub(super) fn hex_digits(digits: u32, letter: u8) -> [u8; 8] {
    // Moves each digit into the low half of its byte.
    let word = u64::from(digits);
    let word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    let word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    let word = (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in the bytes above 9.
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_letter = u64::from(letter - b'0' - 10);
    (word + 0x3030_3030_3030_3030 + letters * to_letter).to_le_bytes()
}

#[cold]
fn last_word(packed: &[u8], byte: usize) -> u64 {
    let rest = packed.get(byte..).unwrap_or_default();
    rest.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{model::Parts, plan::StrKind, shape_training::shape_of, tests::holds},
        *,
    };

    /// Digits in groups of one, two and three, hexadecimal digits of both cases, constants; and
    /// rows that differ from the shape in their length, in one digit's class, and at both ends.
    #[test]
    fn rows_of_another_shape_are_exceptions() {
        let row = |row: u32| {
            format!("N{:05}-{:08x}/{:04X}:{:01}", row % 99_991, row * 77, row % 65_536, row % 10)
        };
        let mut rows: Vec<String> = (0..200).map(|at| row(at * 7919)).collect();
        let strings: Strings = rows.iter().map(String::as_bytes).collect();
        let shape = shape_of(&strings).expect("all have one shape");
        let own = holds(&strings, Parts::default(), StrKind::Shape);
        for (at, other) in [(0, ""), (63, "N0000x-00000000/0000:0"), (64, "n"), (199, "N1")] {
            rows[at] = other.to_string();
        }
        let strings: Strings = rows.iter().map(String::as_bytes).collect();
        let parts = Parts { shape: Some(shape), ..Parts::default() };
        let model = holds(&strings, parts, StrKind::ModelShape);
        assert!(own.len() * 2 < strings.bytes().len(), "{}", own.len());
        assert!(model.len() < own.len() + 50, "{} and {}", model.len(), own.len());
    }
}
