//! Strings of one shape, decoded into rows that lie at one distance.
//!
//! A walk that reads a column of which no string is an exception needs no list of strings: each is written where its
//! row has it. Digits go six at a time, as one word of eight bytes, whose last bytes are the constant behind
//! the run if they have room for it: between groups of digits stands a dash, a colon or a dot.
//!
//! Invariants
//! 1. What is written is what [`Shaped::decode`] gives, and at most eight bytes behind each string: bytes that the
//!    caller writes afterwards, or does not read.

use std::ops::Range;

use super::shape::{
    ANY, BAD, CONSTANT, DIGIT, DIGITS, HEX_LOWER, HEX_UPPER, Run, Shaped, next_run,
};
use crate::block::{BadBlock, bytes::short_word};

/// Digits of a word of eight bytes: two groups of three.
const PAIR_DIGITS: usize = 6;
const PAIR_BITS: usize = 20;

/// Lines that are being written, `apart` bytes from one to the next, and where a string begins in each.
pub struct Apart<'t> {
    /// All lines.
    pub lines: &'t mut [u8],
    /// From the start of one to that of the next.
    pub apart: usize,
    /// Where the string begins in each.
    pub at: usize,
}

impl Shaped<'_> {
    /// The length of each string, if all have the same because none is an exception.
    pub fn even_bytes(&self) -> Option<usize> {
        self.exceptions.is_empty().then_some(self.shape.string_bytes)
    }

    /// Writes strings `rows`, of which none is an exception, each into its line, which has eight bytes behind it.
    pub fn decode_apart(&self, rows: Range<usize>, to: &mut Apart<'_>) -> Result<(), BadBlock> {
        if !self.exceptions.is_empty() {
            return Err(BAD);
        }
        self.write(rows, to)
    }

    /// The same of rows that are none: what is written for an exception is worth nothing.
    pub(super) fn write(&self, rows: Range<usize>, to: &mut Apart<'_>) -> Result<(), BadBlock> {
        if rows.end > self.rows {
            return Err(BAD);
        }
        let mut runs = self.shape.runs;
        let mut bit = rows.start * self.shape.row_bits;
        while let Some(run) = next_run(&mut runs)? {
            let mut written = run.count;
            match run.class {
                CONSTANT => self.put_constant(run.constant, to)?,
                DIGIT => {
                    let (pairs, rest) = groups(run.count)?;
                    let tail = tail_of(&mut runs, 8 - rest);
                    written += tail.len();
                    let word = short_word(tail) << ((8 * rest) & 63);
                    match rest {
                        1 => self.put_digits::<1>(bit, pairs, word, to)?,
                        2 => self.put_digits::<2>(bit, pairs, word, to)?,
                        3 => self.put_digits::<3>(bit, pairs, word, to)?,
                        4 => self.put_digits::<4>(bit, pairs, word, to)?,
                        5 => self.put_digits::<5>(bit, pairs, word, to)?,
                        _ => self.put_digits::<6>(bit, pairs, word, to)?,
                    }
                }
                HEX_LOWER => self.put_run::<HEX_LOWER>(&run, bit, to)?,
                HEX_UPPER => self.put_run::<HEX_UPPER>(&run, bit, to)?,
                ANY => self.put_run::<ANY>(&run, bit, to)?,
                _ => return Err(BAD),
            }
            to.at += written;
            bit += run.bits();
        }
        Ok(())
    }

    /// Writes the same bytes into all lines.
    fn put_constant(&self, constant: &[u8], to: &mut Apart<'_>) -> Result<(), BadBlock> {
        let word = short_word(constant).to_le_bytes();
        let is_short = constant.len() <= word.len();
        for line in to.lines.chunks_exact_mut(to.apart) {
            let string = line.get_mut(to.at..).ok_or(BAD)?;
            if is_short {
                *string.first_chunk_mut::<8>().ok_or(BAD)? = word;
            } else {
                string.get_mut(..constant.len()).ok_or(BAD)?.copy_from_slice(constant);
            }
        }
        Ok(())
    }

    /// Writes a run of digits into all lines: pairs of groups of three, then `REST` digits, and `tail` over what is
    /// behind them in that word.
    fn put_digits<const REST: usize>(
        &self,
        bit: usize,
        pairs: usize,
        tail: u64,
        to: &mut Apart<'_>,
    ) -> Result<(), BadBlock> {
        if pairs == 1 {
            return self.put_pair::<REST>(bit, tail, to);
        }
        let mut bit = bit;
        for line in to.lines.chunks_exact_mut(to.apart) {
            let mut string = line.get_mut(to.at..).ok_or(BAD)?;
            let mut word = self.bits(bit);
            for pair in 0..pairs {
                // Two pairs are 40 bits, of the 57 that are sure to be there.
                if pair > 0 && pair.is_multiple_of(2) {
                    word = self.bits(bit + PAIR_BITS * pair);
                }
                *string.first_chunk_mut::<8>().ok_or(BAD)? = six_digits(word).to_le_bytes();
                string = string.get_mut(PAIR_DIGITS..).ok_or(BAD)?;
                word >>= PAIR_BITS;
            }
            if pairs > 0 && pairs.is_multiple_of(2) {
                word = self.bits(bit + PAIR_BITS * pairs);
            }
            let digits = last_digits::<REST>(word) | tail;
            *string.first_chunk_mut::<8>().ok_or(BAD)? = digits.to_le_bytes();
            bit += self.shape.row_bits;
        }
        Ok(())
    }

    /// The same of one pair, as most runs of digits have it: seven to twelve.
    fn put_pair<const REST: usize>(
        &self,
        bit: usize,
        tail: u64,
        to: &mut Apart<'_>,
    ) -> Result<(), BadBlock> {
        const BYTES: usize = PAIR_DIGITS + 8;
        let mut bit = bit;
        // The last line has as much behind the digits as the others.
        for line in to.lines.get_mut(to.at..).ok_or(BAD)?.chunks_mut(to.apart) {
            let string = line.first_chunk_mut::<BYTES>().ok_or(BAD)?;
            let word = self.bits(bit);
            let last = last_digits::<REST>(word >> PAIR_BITS) | tail;
            string[..8].copy_from_slice(&six_digits(word).to_le_bytes());
            string[PAIR_DIGITS..].copy_from_slice(&last.to_le_bytes());
            bit += self.shape.row_bits;
        }
        Ok(())
    }

    fn put_run<const CLASS: u8>(
        &self,
        run: &Run<'_>,
        bit: usize,
        to: &mut Apart<'_>,
    ) -> Result<(), BadBlock> {
        let mut bit = bit;
        for line in to.lines.chunks_exact_mut(to.apart) {
            self.unpack_as::<CLASS>(run, bit, line, to.at)?;
            bit += self.shape.row_bits;
        }
        Ok(())
    }
}

/// How many pairs of groups of three stand before the last one to six digits, of which there is one at least.
fn groups(digits: usize) -> Result<(usize, usize), BadBlock> {
    let pairs = digits.checked_sub(1).ok_or(BAD)? / PAIR_DIGITS;
    Ok((pairs, digits - pairs * PAIR_DIGITS))
}

/// Takes the next run off if it is a constant of no more than so many bytes.
fn tail_of<'a>(runs: &mut &'a [u8], bytes_max: usize) -> &'a [u8] {
    let mut rest = *runs;
    match next_run(&mut rest) {
        Ok(Some(run)) if run.class == CONSTANT && run.count <= bytes_max => {
            *runs = rest;
            run.constant
        }
        _ => &[],
    }
}

/// Three digits by the low ten bits.
#[inline(always)]
fn three(word: u64) -> u64 {
    DIGITS[(word & 1023) as usize].into()
}

/// Six digits by the low twenty bits.
#[inline(always)]
fn six_digits(word: u64) -> u64 {
    three(word) | three(word >> 10) << 24
}

/// The last digits of a run, whose last group may be short: one digit takes four bits, two take seven.
#[inline(always)]
fn last_digits<const REST: usize>(word: u64) -> u64 {
    let one = |word: u64| three(word & 15) >> 16;
    let two = |word: u64| three(word & 127) >> 8;
    match REST {
        1 => one(word),
        2 => two(word),
        3 => three(word),
        4 => three(word) | one(word >> 10) << 24,
        5 => three(word) | two(word >> 10) << 24,
        _ => six_digits(word),
    }
}
