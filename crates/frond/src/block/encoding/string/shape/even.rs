//! Decoding strings of one shape into rows at a fixed distance.
//!
//! A walk over a column without exceptions needs no list of strings: each string is written
//! directly into its row. Digits are written six at a time, as a word of eight bytes, whose last
//! bytes are the constant after the run if they have room for it: groups of digits are usually
//! separated by a dash, a colon or a dot.
//!
//! Invariants
//! 1. What is written equals the result of [`decode`](super::StringColumn::decode), plus at most
//!    eight bytes after each string: bytes that the caller overwrites later, or does not read.

use std::ops::Range;

use super::{
    super::traits::Apart, ANY, BAD, CONSTANT, DIGIT, DIGITS, HEX_LOWER, HEX_UPPER, Run, Shaped,
    next_run,
};
use crate::block::{BadBlock, bytes::short_word};

/// Digits per word of eight bytes: two groups of three.
const PAIR_DIGITS: usize = 6;
const PAIR_BITS: usize = 20;

impl Shaped<'_> {
    /// Writes strings `rows`; what is written for an exception is meaningless.
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

    /// Writes the same bytes into all rows.
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

    /// Writes a run of digits into all rows: pairs of groups of three, then `REST` digits, and
    /// `tail` into the remaining bytes of that word.
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
                // Two pairs are 40 bits, of the 57 that a load is certain to contain.
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

    /// Writes a run with one pair, the usual case for seven to twelve digits, as
    /// [`put_digits`](Self::put_digits) does.
    fn put_pair<const REST: usize>(
        &self,
        bit: usize,
        tail: u64,
        to: &mut Apart<'_>,
    ) -> Result<(), BadBlock> {
        const BYTES: usize = PAIR_DIGITS + 8;
        let mut bit = bit;
        // The last row has as many bytes after the digits as the others.
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

/// The number of pairs of groups of three before the last one to six digits, and the number of
/// these.
fn groups(digits: usize) -> Result<(usize, usize), BadBlock> {
    let pairs = digits.checked_sub(1).ok_or(BAD)? / PAIR_DIGITS;
    Ok((pairs, digits - pairs * PAIR_DIGITS))
}

/// Cuts the next run off if it is a constant of at most `bytes_max` bytes.
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

/// Three digits from the low ten bits.
#[inline(always)]
fn three(word: u64) -> u64 {
    DIGITS[(word & 1023) as usize].into()
}

/// Six digits from the low twenty bits.
#[inline(always)]
fn six_digits(word: u64) -> u64 {
    three(word) | three(word >> 10) << 24
}

/// The last digits of a run, whose last group may be short: one digit takes four bits, two take
/// seven.
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
