//! Template columns: for each row, the number of a template of the model, and the bits of its
//! slots.
//!
//! The bits of a row follow those of the previous row. Their number is known from the template, so
//! a row is found from the last row whose offset is stored, which is every eighth. Texts for which
//! a field has no code, and strings without a template, are in a separate list, by row.
//!
//! ```text
//! column  templates: integers, one a row | where the bits of rows 0, 8, 16, … begin: integers |
//!         length of the bits | bits, low bits first | length of the texts |
//!         texts, as exceptions: of each row that has some, one after the other
//! text    twice-doubled length, plus form: 0 bytes, 1 symbols; or 2 GUID, 3 GUID in upper case:
//!         16 bytes
//! ```
//!
//! The number after the last template means a string that is its row's only text.
//!
//! Invariants
//! 1. A row has a text for each of its slots whose code says so, and no others.
//! 2. A column that passed `check` has no code beyond what its field allows.

use std::ops::Range;

use super::{
    super::{
        IntKind, Ints, PAD_BYTES,
        bits::{load, mask_of},
    },
    exceptions::Exceptions,
    fsst::{Matcher, Symbols},
    raw::take_ints,
    scratch::Scratch,
    shape::{DIGITS as THREE_DIGITS, hex_digits},
    strings::Strings,
    template_index::TemplateIndex,
    templates::{
        FORM_BITS, FORM_BYTES, FORM_GUID_UPPER, FORM_SYMBOLS, Field, PIECE_BYTES, Span, Templates,
    },
    tokens::GUID_BYTES,
    traits::{StringColumn, TOO_LONG, push},
};
use crate::{
    block::BadBlock,
    coding::{Reader, put_bytes, put_varint},
};

/// The bit offset of one row in this many is stored.
pub(super) const RESTART_ROWS: usize = 8;

const BAD: BadBlock = BadBlock("a string does not fit its template");
const NO_TEXT: BadBlock = BadBlock("a row lacks a text that its template says it has");

/// Most memory of cached template indexes: two of the largest, which have 512 KiB for templates and
/// as much for words.
const INDEXES_BYTES_MAX: usize = 2 << 20;

/// Encodes template columns, and keeps the indexes of models.
#[derive(Debug, Default)]
pub(super) struct TemplateEncoder {
    /// For the templates of models, by their ids.
    indexes: Vec<(u64, TemplateIndex)>,
    /// Bit offsets of rows.
    restarts: Vec<u64>,
}

impl TemplateEncoder {
    /// Encodes with the templates of a model, given with its id.
    pub fn put(
        &mut self,
        strings: &Strings,
        (templates, id): (&Templates, u64),
        matcher: Option<&Matcher>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let Self { indexes, restarts } = self;
        let index = index_of(indexes, templates, id);
        let Scratch { ints, values, exceptions, bits, bytes, .. } = scratch;
        exceptions.clear();
        values.clear();
        restarts.clear();
        for (row, string) in strings.iter().enumerate() {
            if row % RESTART_ROWS == 0 {
                restarts.push(bits.bits() as u64);
            }
            bytes.clear();
            values.push(index.pack(templates, matcher, string, bits, bytes));
            if !bytes.is_empty() {
                exceptions.push(row, bytes);
            }
        }
        // The kinds that are read fastest: finding any row reads some of both.
        ints.encode_as(IntKind::BitPacked, None, values, out);
        ints.encode_as(IntKind::Linear, None, restarts, out);
        put_varint(out, bits.bits().div_ceil(8) as u64);
        bits.finish(out);
        bytes.clear();
        exceptions.put(ints, values, bytes);
        put_bytes(out, bytes);
    }
}

/// The index of the templates of the model `id`.
fn index_of<'a>(
    indexes: &'a mut Vec<(u64, TemplateIndex)>,
    templates: &Templates,
    id: u64,
) -> &'a mut TemplateIndex {
    let at = indexes.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
        let index = TemplateIndex::of(templates);
        let taken = |indexes: &[(u64, TemplateIndex)]| -> usize {
            indexes.iter().map(|(_, index)| index.memory_bytes()).sum()
        };
        while taken(indexes) + index.memory_bytes() > INDEXES_BYTES_MAX && indexes.pop().is_some() {
        }
        indexes.push((id, index));
        indexes.len() - 1
    });
    &mut indexes[at].1
}

/// A template column, in place.
#[derive(Clone, Debug)]
pub(super) struct Templated<'a> {
    rows: usize,
    templates: &'a Templates,
    symbols: Option<&'a Symbols>,
    numbers: Ints<'a>,
    restarts: Ints<'a>,
    /// The bits, and everything after them.
    bits: &'a [u8],
    bits_bytes: usize,
    /// As stored; most reads want none.
    texts: &'a [u8],
}

impl<'a> Templated<'a> {
    #[inline]
    pub fn parse(
        reader: &mut Reader<'a>,
        rows: usize,
        templates: &'a Templates,
        symbols: Option<&'a Symbols>,
    ) -> Result<Self, BadBlock> {
        const SHORT: BadBlock = BadBlock("a string column ends early");
        let numbers = take_ints(reader, rows)?;
        let restarts = take_ints(reader, rows.div_ceil(RESTART_ROWS))?;
        let length = |reader: &mut Reader<'_>| {
            reader.varint().and_then(|bytes| usize::try_from(bytes).ok()).ok_or(SHORT)
        };
        let bits_bytes = length(reader)?;
        let bits = reader.rest();
        reader.take(bits_bytes).ok_or(SHORT)?;
        let texts_bytes = length(reader)?;
        // Includes the readable padding after a column: an integer column needs it.
        let texts = reader.rest();
        reader.take(texts_bytes).ok_or(SHORT)?;
        let texts = texts.get(..texts_bytes + PAD_BYTES).unwrap_or(texts);
        Ok(Self { rows, templates, symbols, numbers, restarts, bits, bits_bytes, texts })
    }

    /// Parses the texts; returns also their length with everything needed to read them.
    fn texts(&self) -> Result<(Exceptions<'a>, usize), BadBlock> {
        let mut reader = Reader::new(self.texts);
        let texts = Exceptions::parse(&mut reader, self.rows)?;
        Ok((texts, self.texts.len() - reader.rest().len()))
    }

    /// The bit offset of `row`.
    #[inline]
    fn place(&self, row: usize) -> usize {
        let restart = row / RESTART_ROWS;
        let mut bit = self.restarts.get(restart) as usize;
        let mut numbers = [0; RESTART_ROWS];
        let before = &mut numbers[..row % RESTART_ROWS];
        self.numbers.decode(restart * RESTART_ROWS, before);
        before.iter().for_each(|&number| bit = bit.wrapping_add(self.templates.bits(number)));
        bit
    }

    /// Writes a row of this template, whose bits start at `bit`. `list` is the list of texts, once
    /// a row has needed one.
    #[inline]
    fn write(
        &self,
        row: usize,
        number: u64,
        mut bit: usize,
        list: &mut Option<Exceptions<'a>>,
        line: &mut Line<'_>,
    ) -> Result<(), BadBlock> {
        let templates = self.templates;
        let mut texts = Texts { row, list, rest: None };
        let pieces = templates.pieces(usize::try_from(number).unwrap_or(usize::MAX));
        if pieces.is_empty() {
            return if number == templates.len() as u64 {
                texts.next(self, line)
            } else {
                Err(BAD)
            };
        }
        for piece in pieces {
            line.put_span(templates.bytes(), piece.literal);
            match piece.field {
                Field::Number { bits } => {
                    let (code, mask) = (self.code(bit, bits), mask_of(bits.into()));
                    bit = bit.wrapping_add(bits.into());
                    if code != mask {
                        line.put_number(code, 1);
                    } else {
                        texts.next(self, line)?;
                    }
                }
                Field::Words { first, count, bits } => {
                    let code = self.code(bit, bits);
                    bit = bit.wrapping_add(bits.into());
                    if code < count.into() {
                        let word = templates.word(first as usize + code as usize).ok_or(BAD)?;
                        line.put_span(templates.bytes(), word);
                    } else {
                        texts.next(self, line)?;
                    }
                }
                Field::Padded { digits, bits } => {
                    let (code, mask) = (self.code(bit, bits), mask_of(bits.into()));
                    bit = bit.wrapping_add(bits.into());
                    if code != mask {
                        line.put_number(code, digits.into());
                    } else {
                        texts.next(self, line)?;
                    }
                }
                Field::One { word } => {
                    let word = templates.word(word as usize).ok_or(BAD)?;
                    line.put_span(templates.bytes(), word);
                }
                Field::Text => texts.next(self, line)?,
                field => bit = self.write_digits(field, bit, line),
            }
        }
        Ok(())
    }

    /// Writes a field that consists of digits; returns the offset of the next bits.
    #[inline]
    fn write_digits(&self, field: Field, mut bit: usize, line: &mut Line<'_>) -> usize {
        match field {
            Field::Guid { letter } => {
                let eight = |at: usize| {
                    hex_digits(load_bits(self.bits, bit.wrapping_add(at)) as u32, letter)
                };
                line.put_guid([eight(0), eight(32), eight(64), eight(96)]);
            }
            Field::Hex { count, letter } => {
                let (mut at, mut left) = (bit, usize::from(count));
                while left > 0 {
                    let eight = hex_digits(load_bits(self.bits, at) as u32, letter);
                    line.put_front(eight, left.min(8));
                    (at, left) = (at.wrapping_add(32), left - left.min(8));
                }
            }
            Field::Digits { count } => {
                let (mut at, mut left) = (bit, usize::from(count));
                while left > 0 {
                    let now = left.min(3);
                    let (bits, shift) = [(0, 0), (4, 16), (7, 8), (10, 0)][now];
                    let code = load_bits(self.bits, at) & mask_of(bits);
                    let digits = THREE_DIGITS[(code & 1023) as usize] >> shift;
                    line.put_front(u64::from(digits).to_le_bytes(), now);
                    (at, left) = (at.wrapping_add(bits as usize), left - now);
                }
            }
            _ => {}
        }
        bit = bit.wrapping_add(field.bits());
        bit
    }

    #[inline]
    fn code(&self, bit: usize, bits: u8) -> u64 {
        load_bits(self.bits, bit) & mask_of(bits.into())
    }

    /// Checks that codes are valid for their fields, and that there are as many texts as required.
    fn check_row(&self, number: u64, mut bit: usize, texts: Option<&[u8]>) -> Result<(), BadBlock> {
        const BEYOND: BadBlock = BadBlock("a slot of a string has a code that there is not");
        let pieces = self.templates.pieces(usize::try_from(number).unwrap_or(usize::MAX));
        let mut wanted = usize::from(pieces.is_empty());
        for piece in pieces {
            match piece.field {
                Field::Number { bits } => {
                    wanted += usize::from(self.code(bit, bits) == mask_of(bits.into()));
                }
                Field::Padded { digits, bits } => {
                    let code = self.code(bit, bits);
                    let is_text = code == mask_of(bits.into());
                    if !is_text && code >= 10u64.pow(digits.into()) {
                        return Err(BEYOND);
                    }
                    wanted += usize::from(is_text);
                }
                Field::Words { count, bits, .. } => {
                    let code = self.code(bit, bits);
                    if code > count.into() {
                        return Err(BEYOND);
                    }
                    wanted += usize::from(code == u64::from(count));
                }
                Field::Digits { count } => self.check_digits(bit, count.into())?,
                Field::Text => wanted += 1,
                Field::Hex { .. } | Field::Guid { .. } | Field::One { .. } | Field::End => {}
            }
            bit += piece.field.bits();
        }
        let mut rest = Reader::new(texts.unwrap_or_default());
        for _ in 0..wanted {
            let text = Text::read(&mut rest).ok_or(NO_TEXT)?;
            if let Text::Symbols(codes) = text {
                self.symbols.ok_or(BAD)?.check(codes)?;
            }
        }
        if texts.is_some() != (wanted > 0) || !rest.rest().is_empty() {
            return Err(BadBlock("a row has a text that its template says nothing of"));
        }
        Ok(())
    }

    /// Codes of digits above the highest number of their group would be second representations of
    /// strings.
    fn check_digits(&self, mut bit: usize, mut digits: usize) -> Result<(), BadBlock> {
        while digits > 0 {
            let (mask, most, bits) = match digits {
                1 => (15, 10, 4),
                2 => (127, 100, 7),
                _ => (1023, 1000, 10),
            };
            if load_bits(self.bits, bit) & mask >= most {
                return Err(BadBlock("a digit of a string is above 9"));
            }
            bit += bits;
            digits -= digits.min(3);
        }
        Ok(())
    }
}

impl StringColumn for Templated<'_> {
    fn check(&self, bytes_max: usize) -> Result<(), BadBlock> {
        self.numbers.check()?;
        self.restarts.check()?;
        let mut with_texts = vec![false; self.rows];
        let (texts, texts_bytes) = self.texts()?;
        texts.check(self.rows, |row| with_texts[row] = true)?;
        let mut list = Some(texts.clone());
        if texts_bytes + PAD_BYTES != self.texts.len() {
            return Err(BadBlock("bytes of a string column belong to no text"));
        }
        let (mut bit, mut string, mut bytes) = (0usize, Vec::new(), 0);
        for (row, &has_texts) in with_texts.iter().enumerate() {
            if row % RESTART_ROWS == 0 && self.restarts.get(row / RESTART_ROWS) != bit as u64 {
                return Err(BadBlock("the rows of a string column begin elsewhere"));
            }
            let number = self.numbers.get(row);
            let texts = texts.find(row)?.filter(|_| has_texts);
            self.check_row(number, bit, texts)?;
            string.clear();
            let mut line = Line::new(&mut string);
            self.write(row, number, bit, &mut list, &mut line)?;
            line.finish();
            bytes += string.len();
            if bytes > bytes_max {
                return Err(TOO_LONG);
            }
            bit += self.templates.bits(number);
        }
        if bit.div_ceil(8) != self.bits_bytes {
            return Err(BadBlock("the bits of a string column are not those of its rows"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        let mut line = Line::new(out);
        self.write(row, self.numbers.get(row), self.place(row), &mut None, &mut line)?;
        line.finish();
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        let mut numbers = [0; 128];
        let mut at = rows.start;
        let mut bit = if rows.is_empty() { 0 } else { self.place(at) };
        let mut list = None;
        while at < rows.end {
            let count = (rows.end - at).min(numbers.len());
            self.numbers.decode(at, &mut numbers[..count]);
            for (row, &number) in (at..).zip(&numbers[..count]) {
                push(out, bytes_max, |bytes| {
                    let mut line = Line::new(bytes);
                    self.write(row, number, bit, &mut list, &mut line)?;
                    line.finish();
                    Ok(())
                })?;
                bit = bit.wrapping_add(self.templates.bits(number));
            }
            at += count;
        }
        Ok(())
    }
}

/// At least 57 bits from bit `at` on; zeros where there are none.
#[inline]
fn load_bits(bits: &[u8], at: usize) -> u64 {
    load(bits, at / 8) >> (at % 8)
}

/// A text outside the bits.
enum Text<'a> {
    Bytes(&'a [u8]),
    Symbols(&'a [u8]),
    Guid(&'a [u8; 16], u8),
}

impl<'a> Text<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let head = reader.varint()?;
        let len = usize::try_from(head >> FORM_BITS).ok()?;
        match head & ((1 << FORM_BITS) - 1) {
            FORM_BYTES => reader.take(len).map(Self::Bytes),
            FORM_SYMBOLS => reader.take(len).map(Self::Symbols),
            form => {
                let letter = if form == FORM_GUID_UPPER { b'A' } else { b'a' };
                let digits = reader.take(16).filter(|_| len == 0)?.first_chunk()?;
                Some(Self::Guid(digits, letter))
            }
        }
    }
}

/// Calls `each` with those of `texts` that are bytes.
pub(super) fn plain_texts(texts: &[u8], mut each: impl FnMut(&[u8])) {
    let mut reader = Reader::new(texts);
    while let Some(text) = Text::read(&mut reader) {
        if let Text::Bytes(bytes) = text {
            each(bytes);
        }
    }
}

/// The texts of a row, searched when the first is needed.
struct Texts<'a, 'l> {
    row: usize,
    /// The list of texts, parsed for the first row of a range that needs one.
    list: &'l mut Option<Exceptions<'a>>,
    rest: Option<Reader<'a>>,
}

impl<'a> Texts<'a, '_> {
    #[inline(never)]
    fn next(&mut self, column: &Templated<'a>, line: &mut Line<'_>) -> Result<(), BadBlock> {
        let rest = match &mut self.rest {
            Some(rest) => rest,
            none => {
                let list = match &mut *self.list {
                    Some(list) => list,
                    unknown => unknown.insert(column.texts()?.0),
                };
                none.insert(Reader::new(list.find(self.row)?.ok_or(NO_TEXT)?))
            }
        };
        match Text::read(rest).ok_or(NO_TEXT)? {
            Text::Bytes(bytes) => line.put(bytes),
            Text::Symbols(codes) => {
                line.flush();
                column.symbols.ok_or(BAD)?.decode(codes, line.out)?;
            }
            Text::Guid(digits, letter) => {
                let (four, _) = digits.as_chunks::<4>();
                let eight = |at: usize| {
                    let digits = four.get(at).map_or(0, |four| u32::from_le_bytes(*four));
                    hex_digits(digits, letter)
                };
                line.put_guid([eight(0), eight(1), eight(2), eight(3)]);
            }
        }
        Ok(())
    }
}

/// Bytes that a line may have before they are moved to the output.
const LINE_BYTES: usize = 256;
/// Longest piece that is written at once, including unused bytes.
const LINE_SLACK: usize = 48;

/// A string that is assembled from short pieces, each written over the unused bytes of the previous
/// one.
struct Line<'o> {
    out: &'o mut Vec<u8>,
    bytes: [u8; LINE_BYTES + LINE_SLACK],
    /// At most [`LINE_BYTES`] between two calls.
    len: usize,
}

impl<'o> Line<'o> {
    #[inline]
    fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, bytes: [0; LINE_BYTES + LINE_SLACK], len: 0 }
    }

    /// Moves the bytes to the output.
    #[inline]
    fn flush(&mut self) {
        self.out.extend_from_slice(self.bytes.get(..self.len).unwrap_or_default());
        self.len = 0;
    }

    #[inline]
    fn finish(mut self) {
        self.flush();
    }

    /// Writes N bytes, of which the first `len` count.
    #[inline]
    fn put_array<const N: usize>(&mut self, from: [u8; N], len: usize) {
        if let Some(to) = self.bytes.get_mut(self.len..self.len + N) {
            to.copy_from_slice(&from);
        }
        self.len += len.min(N);
        if self.len > LINE_BYTES {
            self.flush();
        }
    }

    #[inline]
    fn put_front(&mut self, from: [u8; 8], len: usize) {
        self.put_array(from, len);
    }

    fn put(&mut self, text: &[u8]) {
        self.flush();
        self.out.extend_from_slice(text);
    }

    /// Writes the bytes of a span of `all`.
    #[inline]
    fn put_span(&mut self, all: &[u8], span: Span) {
        let (start, len) = (span.start as usize, usize::from(span.len));
        let front = all.get(start..start + PIECE_BYTES).and_then(|front| front.first_chunk());
        match front {
            Some(front) if len <= PIECE_BYTES => self.put_array::<PIECE_BYTES>(*front, len),
            _ => self.put_long(all.get(start..start + len).unwrap_or_default()),
        }
    }

    fn put_long(&mut self, text: &[u8]) {
        let (pieces, rest) = text.as_chunks::<PIECE_BYTES>();
        pieces.iter().for_each(|piece| self.put_array(*piece, PIECE_BYTES));
        let mut last = [0; PIECE_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        self.put_array(last, rest.len());
    }

    /// Writes a number with at least this many digits, at most 24.
    #[inline]
    fn put_number(&mut self, number: u64, digits_min: usize) {
        if number < 1000 && digits_min <= 3 {
            let digits = if number < 10 { 1 } else { 2 + usize::from(number >= 100) };
            let digits = digits.max(digits_min);
            let text = THREE_DIGITS[number as usize] >> (8 * (3 - digits));
            return self.put_array(text.to_le_bytes(), digits);
        }
        self.put_long_number(number, digits_min);
    }

    fn put_long_number(&mut self, number: u64, digits_min: usize) {
        // Three digits at a time, from the end.
        let mut all = [b'0'; 24];
        let (mut number, mut at) = (number, all.len());
        while number > 0 && at >= 3 {
            at -= 3;
            let [hundreds, tens, ones, _] = THREE_DIGITS[(number % 1000) as usize].to_le_bytes();
            all[at..at + 3].copy_from_slice(&[hundreds, tens, ones]);
            number /= 1000;
        }
        while at < all.len() && all[at] == b'0' {
            at += 1;
        }
        let digits = (all.len() - at).max(digits_min).min(all.len());
        let mut text = [0; 24];
        text[..digits].copy_from_slice(&all[all.len() - digits..]);
        self.put_array(text, digits);
    }

    /// Writes 32 hexadecimal digits with the dashes between them.
    #[inline]
    fn put_guid(&mut self, digits: [[u8; 8]; 4]) {
        let mut text = [b'-'; GUID_BYTES];
        let [first, second, third, fourth] = digits;
        text[..8].copy_from_slice(&first);
        text[9..13].copy_from_slice(&second[..4]);
        text[14..18].copy_from_slice(&second[4..]);
        text[19..23].copy_from_slice(&third[..4]);
        text[24..28].copy_from_slice(&third[4..]);
        text[28..].copy_from_slice(&fourth);
        self.put_array(text, GUID_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            model::Parts,
            plan::StrKind,
            template_training,
            tests::{fixture, holds},
        },
        *,
    };

    /// Rows without a template around those whose offset is stored.
    #[test]
    fn rows_without_a_template_are_texts() {
        let known = fixture("calls");
        let found = template_training::train(&[&known], 100 * known.len()).expect("it has some");
        let plain = |row: usize| [0, 1, RESTART_ROWS - 1, RESTART_ROWS, 40, 41].contains(&row);
        let strings: Strings = (known.iter().enumerate())
            .map(|(row, string)| if plain(row) { b"nothing of the kind" } else { string })
            .collect();
        let templates = Some((found.bytes, found.templates));
        holds(&strings, Parts { templates, ..Parts::default() }, StrKind::Templates);
    }
}
