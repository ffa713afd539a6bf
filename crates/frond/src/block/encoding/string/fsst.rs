//! Text as symbols (FSST): frequent pieces of one to eight bytes, each stored as one byte.
//!
//! A static symbol table (FSST: Boncz, Neumann, Leis, "Fast Random Access String Compression", VLDB
//! 2020): up to 255 symbols, found by `fsst_training.rs` on a sample, belong to the leaf's model.
//! Code 255 precedes a byte that is not part of a symbol. Every string is coded by itself, so any
//! one can be read without the others.
//!
//! ```text
//! table   count of symbols of 1, 2, … 8 bytes, a u8 each | their bytes
//! ```
//!
//! Codes number the symbols in that order, from 0.
//!
//! Invariants
//! 1. A [`Symbols`] has a word and a length for every code; a code without a symbol has length 0
//!    and decodes to nothing, which `check` refuses.
//! 2. A [`Matcher`] finds at each position the longest symbol that its tables hold.
//!
//! Implemented here rather than taken from the crate `fsst-rs` (0.7, maintained): its way to encode
//! without an allocation for each string is an `unsafe fn`, and until recently its decoder trusted
//! its input.

use std::ops::Range;

use super::{
    chunk::Chunked,
    raw::{self, Concatenated},
    scratch::Scratch,
    strings::Strings,
    traits::{StringColumn, push},
};
use crate::{
    block::{BadBlock, Codec},
    coding::Reader,
};

/// Code that precedes a byte which is no symbol.
pub(super) const ESCAPE: u8 = 255;
/// Maximum number of symbols in a table.
pub(super) const SYMBOLS_MAX: usize = 255;
/// Maximum length of a symbol, in bytes.
pub(super) const SYMBOL_BYTES_MAX: usize = 8;

const BAD: BadBlock = BadBlock("a symbol table does not fit");

/// One to eight bytes, the first in the lowest bits, the unused ones 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Symbol {
    pub len: u8,
    pub word: u64,
}

impl Symbol {
    /// The symbol of one byte.
    #[inline]
    pub fn of(byte: u8) -> Self {
        Self { len: 1, word: byte.into() }
    }

    /// This symbol followed by `next`, cut at eight bytes.
    #[inline]
    pub fn then(self, next: Symbol) -> Self {
        let room = SYMBOL_BYTES_MAX as u8 - self.len;
        if room == 0 {
            return self;
        }
        let taken = next.len.min(room);
        let word = next.word & (u64::MAX >> (64 - 8 * u32::from(taken)));
        Self { len: self.len + taken, word: self.word | word << (8 * u32::from(self.len)) }
    }

    fn bytes(&self) -> [u8; SYMBOL_BYTES_MAX] {
        self.word.to_le_bytes()
    }
}

/// A symbol table, for decoding.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Symbols {
    words: [u64; 256],
    lens: [u8; 256],
    count: usize,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Symbols({})", self.count)
    }
}

impl Symbols {
    /// Creates a table of these symbols, at most [`SYMBOLS_MAX`], ordered by length.
    pub fn new(mut symbols: Vec<Symbol>) -> Self {
        symbols.sort_unstable();
        symbols.truncate(SYMBOLS_MAX);
        let mut table = Self { words: [0; 256], lens: [0; 256], count: symbols.len() };
        for (code, symbol) in symbols.iter().enumerate() {
            table.words[code] = symbol.word;
            table.lens[code] = symbol.len;
        }
        table
    }

    /// The symbols, by code.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        let all = self.lens.iter().zip(&self.words).take(self.count);
        all.map(|(&len, &word)| Symbol { len, word })
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        let mut counts = [0u8; SYMBOL_BYTES_MAX];
        self.iter().for_each(|symbol| counts[usize::from(symbol.len) - 1] += 1);
        out.extend(counts);
        for symbol in self.iter() {
            out.extend_from_slice(&symbol.bytes()[..symbol.len.into()]);
        }
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, BadBlock> {
        let mut reader = Reader::new(bytes);
        let counts = reader.array::<SYMBOL_BYTES_MAX>().ok_or(BAD)?;
        let mut symbols = Vec::with_capacity(SYMBOLS_MAX);
        for (len, &count) in (1..).zip(&counts) {
            for _ in 0..count {
                let mut word = [0; SYMBOL_BYTES_MAX];
                word[..len].copy_from_slice(reader.take(len).ok_or(BAD)?);
                symbols.push(Symbol { len: len as u8, word: u64::from_le_bytes(word) });
            }
        }
        if symbols.len() > SYMBOLS_MAX || !reader.rest().is_empty() || !symbols.is_sorted() {
            return Err(BAD);
        }
        Ok(Self::new(symbols))
    }

    /// Appends what `codes` stand for: at most eight bytes each.
    #[inline]
    pub fn decode(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), BadBlock> {
        // Symbols are written as whole words, each over the unused bytes of the previous one. This
        // happens in a local buffer, since `out` would have to be filled first.
        const CODES: usize = 32;
        let mut piece = [0; CODES * SYMBOL_BYTES_MAX];
        let mut codes = codes.iter();
        while !codes.as_slice().is_empty() {
            let mut len = 0;
            for _ in 0..CODES {
                let Some(&code) = codes.next() else { break };
                let Some(to) = piece.get_mut(len..len + SYMBOL_BYTES_MAX) else { break };
                if code == ESCAPE {
                    to[0] = *codes.next().ok_or(BadBlock("a string ends in an escape"))?;
                    len += 1;
                } else {
                    to.copy_from_slice(&self.words[usize::from(code)].to_le_bytes());
                    len += usize::from(self.lens[usize::from(code)]);
                }
            }
            out.extend_from_slice(piece.get(..len).unwrap_or_default());
        }
        Ok(())
    }

    /// Checks that every code has its symbol, and every escape its byte.
    pub fn check(&self, codes: &[u8]) -> Result<(), BadBlock> {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            let fits = match code {
                ESCAPE => codes.next().is_some(),
                _ => usize::from(code) < self.count,
            };
            if !fits {
                return Err(BadBlock("a string has a code without symbol"));
            }
        }
        Ok(())
    }
}

/// A column of symbols: raw strings whose bytes are codes.
#[derive(Clone, Debug)]
pub(super) struct Fsst<'a> {
    pub codes: Concatenated<'a>,
    pub symbols: &'a Symbols,
}

impl StringColumn for Fsst<'_> {
    fn check(&self, bytes_max: usize) -> Result<(), BadBlock> {
        self.codes.check(bytes_max)?;
        self.codes.for_each(0..self.codes.rows(), |codes| self.symbols.check(codes))
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        self.symbols.decode(self.codes.string(row)?, out)
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        self.codes
            .for_each(rows, |codes| push(out, bytes_max, |bytes| self.symbols.decode(codes, bytes)))
    }
}

const NONE: u16 = u16::MAX;
/// A power of two, eight slots for each possible symbol: few symbols are lost to another one in
/// their slot.
const SLOTS: usize = 2048;

/// Encodes strings as symbols; `None` if that is not shorter.
pub(super) fn put(
    strings: &Strings,
    matcher: &Matcher,
    codec: Codec,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Option<Chunked> {
    let Scratch { ints, values, bytes, chunk, .. } = scratch;
    let room = 2 * strings.bytes().len();
    if bytes.len() < room {
        bytes.resize(room, 0);
    }
    values.clear();
    let mut end = 0;
    for string in strings.iter() {
        end += matcher.encode(string, &mut bytes[end..]);
        values.push(end as u64);
    }
    if end >= strings.bytes().len() {
        return None;
    }
    Some(raw::put_concatenated(codec, &bytes[..end], values, ints, chunk, out))
}

/// Most cached matchers, of about 180 KiB each.
pub(super) const MATCHERS_MAX: usize = 6;

/// Cached matchers. Each knows the symbols it was made for.
#[derive(Debug, Default)]
pub(super) struct Matchers(pub(super) Vec<Matcher>);

impl Matchers {
    /// The matcher of these symbols.
    pub fn of(&mut self, symbols: &Symbols) -> &Matcher {
        let is_of = |matcher: &Matcher| symbols.iter().eq(matcher.symbols().iter().copied());
        let at = self.0.iter().position(is_of).unwrap_or_else(|| {
            let newest = if self.0.len() < MATCHERS_MAX { None } else { self.0.pop() };
            let mut matcher = newest.unwrap_or_default();
            matcher.set(symbols);
            self.0.push(matcher);
            self.0.len() - 1
        });
        &self.0[at]
    }
}

/// Finds symbols in text. Takes about 180 KiB; rebuilding it for another table takes microseconds.
pub(super) struct Matcher {
    /// Symbols of three bytes or more, by a hash of their first three; one per slot.
    long: Vec<Slot>,
    /// Symbols of two bytes, indexed by them.
    two: Vec<u16>,
    one: [u16; 256],
    symbols: Vec<Symbol>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    word: u64,
    mask: u64,
    len: u32,
    code: u32,
}

/// Never matches: no text is nine bytes long here.
const EMPTY: Slot = Slot { word: 0, mask: 0, len: 9, code: 0 };

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matcher({})", self.symbols.len())
    }
}

impl Default for Matcher {
    fn default() -> Self {
        Self {
            long: vec![EMPTY; SLOTS],
            two: vec![NONE; 1 << 16],
            one: [NONE; 256],
            symbols: Vec::with_capacity(SYMBOLS_MAX),
        }
    }
}

impl Matcher {
    /// Removes all symbols.
    pub fn clear(&mut self) {
        for symbol in self.symbols.drain(..) {
            match symbol.len {
                1 => self.one[symbol.word as usize & 255] = NONE,
                2 => self.two[symbol.word as usize & 0xffff] = NONE,
                _ => self.long[slot(symbol.word)] = EMPTY,
            }
        }
    }

    /// Rebuilds the matcher for a table.
    pub fn set(&mut self, symbols: &Symbols) {
        self.clear();
        for symbol in symbols.iter() {
            self.add(symbol);
        }
    }

    /// Adds a symbol under the next code. A symbol whose slot is taken gets a code, but is never
    /// found.
    fn add(&mut self, symbol: Symbol) {
        let code = self.symbols.len() as u16;
        match symbol.len {
            1 => self.one[symbol.word as usize & 255] = code,
            2 => self.two[symbol.word as usize & 0xffff] = code,
            len => {
                let slot = &mut self.long[slot(symbol.word)];
                if slot.len == EMPTY.len {
                    let mask = u64::MAX >> (64 - 8 * u32::from(len));
                    *slot = Slot { word: symbol.word, mask, len: len.into(), code: code.into() };
                }
            }
        }
        self.symbols.push(symbol);
    }

    /// True if a symbol would be found, that is, its slot is free.
    pub fn has_room(&self, symbol: Symbol) -> bool {
        symbol.len < 3 || self.long[slot(symbol.word)].len == EMPTY.len
    }

    /// Adds a symbol for which there is room.
    pub fn push(&mut self, symbol: Symbol) {
        debug_assert!(self.has_room(symbol) && self.symbols.len() < SYMBOLS_MAX);
        self.add(symbol);
    }

    /// The symbols added so far.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The longest symbol at the start of `word`, of which `left` bytes are text, at least one: its
    /// code and length, or `None` and 1.
    #[inline]
    pub fn find(&self, word: u64, left: usize) -> (Option<u8>, usize) {
        let long = &self.long[slot(word)];
        if (word & long.mask) == long.word && long.len as usize <= left {
            return (Some(long.code as u8), long.len as usize);
        }
        let two = self.two[word as usize & 0xffff];
        if two != NONE && left >= 2 {
            return (Some(two as u8), 2);
        }
        let one = self.one[word as usize & 255];
        ((one != NONE).then_some(one as u8), 1)
    }

    /// Calls `each` for each position of `text` with the code or `None`, the length, and the word
    /// that starts there.
    #[inline]
    pub fn walk(&self, text: &[u8], mut each: impl FnMut(Option<u8>, usize, u64)) {
        let mut at = 0;
        while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            let (code, len) = self.find(word, 8);
            each(code, len, word);
            at += len;
        }
        let mut rest = text.get(at..).unwrap_or_default();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut word = u64::from_le_bytes(last);
        while !rest.is_empty() {
            let (code, len) = self.find(word, rest.len());
            each(code, len, word);
            rest = &rest[len..];
            word >>= 8 * len;
        }
    }

    /// Encodes `text` into the front of `to`, which is at least twice as long; returns the number
    /// of bytes.
    #[inline]
    pub fn encode(&self, text: &[u8], to: &mut [u8]) -> usize {
        let to = &mut to[..2 * text.len()];
        let mut len = 0;
        self.walk(text, |code, _, word| {
            // Both bytes at once; the second counts only after an escape.
            let pair = [code.unwrap_or(ESCAPE), word as u8];
            if let Some(to) = to.get_mut(len..len + 2) {
                to.copy_from_slice(&pair);
            }
            len += 1 + usize::from(code.is_none());
        });
        len
    }
}

#[inline]
fn slot(word: u64) -> usize {
    // The upper bits of a product depend on all three bytes.
    ((word & 0xff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::{
        super::{fsst_training, model::Parts, plan::StrKind, tests::holds},
        *,
    };

    /// Strings that consist of symbols, of none, and of both; the escape's own byte; symbols cut by
    /// the end of a string.
    #[test]
    fn bytes_without_a_symbol_are_escaped() {
        let text = "the quick brown fox jumps over the lazy dog, ".repeat(4);
        let rows: Vec<Vec<u8>> = (0..120u8)
            .map(|row| match row % 5 {
                0 => text.as_bytes()[usize::from(row)..].to_vec(),
                1 => text.as_bytes()[..usize::from(row)].to_vec(),
                2 => [&[ESCAPE, row, 0, ESCAPE], text.as_bytes()].concat(),
                3 => vec![ESCAPE; usize::from(row % 4)],
                _ => Vec::new(),
            })
            .collect();
        let strings: Strings = rows.iter().map(Vec::as_slice).collect();
        let symbols = fsst_training::train(&strings);
        let column = holds(&strings, Parts { symbols, ..Parts::default() }, StrKind::Symbols);
        assert!(column.len() * 2 < strings.bytes().len(), "{}", column.len());
    }
}
