//! Packing strings by their templates.
//!
//! A string that is a template as a whole, as frequent strings are, is looked up by its hash.
//! Others are found by their literals (`template_walk.rs`), or else by the hash of their skeleton.
//! A template that is found by a hash is compared with the string before it is used.

use xxhash_rust::xxh3::xxh3_64;

use super::{
    super::bits::mask_of,
    bit_writer::BitWriter,
    fsst::Matcher,
    shape::{pack_digits, pack_hex},
    strings::equal_short,
    template_walk::TemplateWalk,
    templates::{
        FORM_BITS, FORM_BYTES, FORM_GUID, FORM_GUID_UPPER, FORM_SYMBOLS, Field, Templates,
    },
    tokens::{GUID_BYTES, Skeleton, Slot, SlotKind, Tokens},
};
use crate::{
    block::bytes::{leading_digits, short_word},
    coding::put_varint,
};

/// Packs strings with one set of templates, which must be passed to every call.
#[derive(Debug, Default)]
pub(super) struct TemplateIndex {
    walk: TemplateWalk,
    table: Table,
    tokens: Tokens,
    /// Buffer for a text as symbols.
    codes: Vec<u8>,
}

/// Finds templates and words.
#[derive(Debug, Default)]
struct Table {
    /// Hash, and number of the template + 1, or 0; open addressing, a power of two, at most half
    /// full.
    templates: Vec<(u64, u32)>,
    /// Number of the word + 1, or 0; open addressing in the same way.
    words: Vec<u32>,
    has_whole: bool,
}

impl TemplateIndex {
    /// Builds the index of these templates.
    pub fn of(templates: &Templates) -> Self {
        let slots = |count: usize| (2 * count).next_power_of_two().max(16);
        let mut table = Table {
            templates: vec![(0, 0); slots(templates.len())],
            words: vec![0; slots(templates.words())],
            has_whole: false,
        };
        for number in 0..templates.len() {
            let hash = match templates.pieces(number) {
                [whole] => {
                    table.has_whole = true;
                    xxh3_64(templates.text(whole.literal))
                }
                _ => templates.hash(number),
            };
            let mask = table.templates.len() - 1;
            let mut at = place(hash, mask);
            // A model may contain duplicates; the first is enough.
            while table.templates[at].1 != 0 && table.templates[at].0 != hash {
                at = (at + 1) & mask;
            }
            if table.templates[at].1 == 0 {
                table.templates[at] = (hash, number as u32 + 1);
            }
        }
        for (first, count) in templates.fields_with_words() {
            for number in first..first + count {
                let Some(word) = templates.word(number as usize) else { continue };
                let mask = table.words.len() - 1;
                let text = templates.text(word);
                let is_same = |held: u32| {
                    let held = templates.word(held as usize - 1);
                    held.is_some_and(|held| templates.text(held) == text)
                };
                let mut at = place(word_hash(first, text), mask);
                while table.words[at] != 0 && !(table.words[at] > first && is_same(table.words[at]))
                {
                    at = (at + 1) & mask;
                }
                if table.words[at] == 0 {
                    table.words[at] = number + 1;
                }
            }
        }
        Self { walk: TemplateWalk::of(templates), table, ..Self::default() }
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        let Table { templates, words, .. } = &self.table;
        let walk = self.walk.memory_bytes();
        size_of::<Self>() + walk + templates.len() * size_of::<(u64, u32)>() + 4 * words.len()
    }

    /// Packs a string and returns the number of its template. Values without a code are appended to
    /// `texts`, as symbols where that is shorter.
    pub fn pack(
        &mut self,
        templates: &Templates,
        matcher: Option<&Matcher>,
        string: &[u8],
        bits: &mut BitWriter,
        texts: &mut Vec<u8>,
    ) -> u64 {
        let Self { walk, table, tokens, codes } = self;
        if table.has_whole
            && let Some(number) = table.find_whole(templates, string)
        {
            return number.into();
        }
        let mut packing = Packing { templates, table, matcher, codes, bits, texts };
        let before = (packing.bits.mark(), packing.texts.len());
        if let Some(number) = walk.find(templates, string, tokens) {
            if packing.string::<true>(number, tokens.slots(), string).is_some() {
                return number.into();
            }
            packing.undo(before);
        }
        if !walk.is_complete()
            && tokens.find(string)
            && let Some(number) = table.find(tokens.hash())
        {
            if packing.string::<false>(number, tokens.slots(), string).is_some() {
                return number.into();
            }
            packing.undo(before);
        }
        packing.text(string);
        templates.len() as u64
    }
}

impl Table {
    fn find_whole(&self, templates: &Templates, string: &[u8]) -> Option<u32> {
        let number = self.find(xxh3_64(string))?;
        match templates.pieces(number as usize) {
            [whole] if templates.text(whole.literal) == string => Some(number),
            _ => None,
        }
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<u32> {
        let mask = self.templates.len() - 1;
        let mut at = place(hash, mask);
        loop {
            let &(of, number) = self.templates.get(at)?;
            let number = number.checked_sub(1)?;
            if of == hash {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    fn find_word(&self, templates: &Templates, first: u32, count: u32, word: &[u8]) -> Option<u32> {
        let mask = self.words.len() - 1;
        let mut at = place(word_hash(first, word), mask);
        loop {
            let number = self.words.get(at)?.checked_sub(1)?;
            if (first..first + count).contains(&number)
                && templates.word(number as usize).is_some_and(|span| templates.text(span) == word)
            {
                return Some(number - first);
            }
            at = (at + 1) & mask;
        }
    }
}

/// The inputs and outputs of packing one string.
struct Packing<'a> {
    templates: &'a Templates,
    table: &'a Table,
    matcher: Option<&'a Matcher>,
    codes: &'a mut Vec<u8>,
    bits: &'a mut BitWriter,
    texts: &'a mut Vec<u8>,
}

impl Packing<'_> {
    /// Removes what was packed since the mark.
    fn undo(&mut self, (mark, texts): ((usize, u64, usize), usize)) {
        self.bits.reset(mark);
        self.texts.truncate(texts);
    }

    /// Packs the slots of `string`; `None` if it is no string of this template, and what was packed
    /// is then meaningless. Its literals are compared unless they were `FOUND` already.
    #[inline]
    fn string<const FOUND: bool>(
        &mut self,
        number: u32,
        slots: &[Slot],
        string: &[u8],
    ) -> Option<()> {
        let templates = self.templates;
        let (last, pieces) = templates.pieces(number as usize).split_last()?;
        if pieces.len() != slots.len() {
            return None;
        }
        let mut at = 0;
        for (piece, slot) in pieces.iter().zip(slots) {
            let (start, end) = (usize::from(slot.start), usize::from(slot.end));
            let text = string.get(start..end)?;
            if !FOUND && !equal_short(string.get(at..start)?, templates.text(piece.literal)) {
                return None;
            }
            at = end;
            match piece.field {
                Field::Number { bits } => {
                    self.code(number_of(text), mask_of(bits.into()), bits, text)
                }
                Field::Padded { digits, bits } => {
                    let code = digits_of(text).filter(|_| text.len() == usize::from(digits));
                    self.code(code, mask_of(bits.into()), bits, text);
                }
                Field::Words { first, count, bits } => {
                    let word = self.table.find_word(templates, first, count, text);
                    self.code(word.map(u64::from), count.into(), bits, text);
                }
                Field::One { word } => {
                    (templates.text(templates.word(word as usize)?) == text).then_some(())?;
                }
                Field::Text => self.text(text),
                Field::Digits { count } => {
                    (text.len() == usize::from(count) && pack_digits(text, self.bits))
                        .then_some(())?;
                }
                Field::Hex { count, letter } => {
                    let is_long = text.len() == usize::from(count);
                    (is_long && pack_hex(text, letter, self.bits)).then_some(())?;
                }
                Field::Guid { letter } => {
                    let digits = guid_digits(text).filter(|_| slot.kind == SlotKind::Guid)?;
                    pack_hex(&digits, letter, self.bits).then_some(())?;
                }
                Field::End => return None,
            }
        }
        (FOUND || equal_short(string.get(at..)?, templates.text(last.literal))).then_some(())
    }

    /// Packs a code below `end`; otherwise packs `end`, and adds the text.
    #[inline]
    fn code(&mut self, code: Option<u64>, end: u64, bits: u8, text: &[u8]) {
        match code.filter(|&code| code < end) {
            Some(code) => self.bits.put(code, bits.into()),
            None => {
                self.bits.put(end, bits.into());
                self.text(text);
            }
        }
    }

    /// Appends a text in its shortest form.
    #[inline(never)]
    fn text(&mut self, text: &[u8]) {
        let Self { matcher, codes, texts, .. } = self;
        if let Some((form, digits)) = guid_digits(text).and_then(|digits| guid_bytes(&digits)) {
            put_varint(texts, form);
            return texts.extend_from_slice(&digits);
        }
        let (mut form, mut bytes) = (FORM_BYTES, text);
        if let Some(matcher) = matcher {
            if codes.len() < 2 * text.len() {
                codes.resize(2 * text.len(), 0);
            }
            let len = matcher.encode(text, codes);
            if len < text.len() {
                (form, bytes) = (FORM_SYMBOLS, codes.get(..len).unwrap_or_default());
            }
        }
        put_varint(texts, (bytes.len() as u64) << FORM_BITS | form);
        texts.extend_from_slice(bytes);
    }
}

#[inline]
fn place(hash: u64, mask: usize) -> usize {
    // The upper bits depend on all bytes.
    (hash >> 32) as usize & mask
}

#[inline]
fn word_hash(field: u32, word: &[u8]) -> u64 {
    let mut hash = Skeleton(u64::from(field) ^ 0x1319_8a2e_0370_7344);
    hash.literal(word);
    hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Parses a number of at most nineteen digits, without leading zeros.
#[inline]
fn number_of(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', _, ..] => None,
        _ => digits_of(text),
    }
}

/// Parses a number of one to nineteen digits.
#[inline]
fn digits_of(text: &[u8]) -> Option<u64> {
    match text.len() {
        1..=8 => eight_digits(text),
        9..=19 => {
            let (first, last) = text.split_last_chunk::<8>()?;
            let (first, more) = match first.split_last_chunk::<8>() {
                Some((few, more)) if !few.is_empty() => (few, eight_digits(more)?),
                Some((_, more)) => (&more[..], 0),
                None => (first, 0),
            };
            let first = eight_digits(first)?;
            let is_long = text.len() > 16;
            let above = if is_long { first * 100_000_000 + more } else { first };
            // Nineteen nines are below 2^64.
            Some(above * 100_000_000 + eight_digits(last)?)
        }
        _ => None,
    }
}

/// Parses a number of one to eight digits, all at once: each byte of a word is one digit, and
/// neighbours are joined three times.
#[inline]
fn eight_digits(text: &[u8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    if leading_digits(text) < text.len() {
        return None;
    }
    let before = 8 * (8 - text.len() as u32);
    // Zeros before the first digit.
    let digits = (short_word(text) ^ ZEROS >> before) << before;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// The digits of a possible GUID, without its dashes.
#[inline]
fn guid_digits(text: &[u8]) -> Option<[u8; 32]> {
    let text = text.first_chunk::<GUID_BYTES>().filter(|_| text.len() == GUID_BYTES)?;
    let mut digits = [0; 32];
    digits[..8].copy_from_slice(&text[..8]);
    digits[8..12].copy_from_slice(&text[9..13]);
    digits[12..16].copy_from_slice(&text[14..18]);
    digits[16..20].copy_from_slice(&text[19..23]);
    digits[20..].copy_from_slice(&text[24..]);
    [8, 13, 18, 23].iter().all(|&at| text[at] == b'-').then_some(digits)
}

/// The value of a hexadecimal digit.
fn hex_digit(byte: u8, letter: u8) -> Option<u8> {
    let (decimal, above) = (byte.wrapping_sub(b'0'), byte.wrapping_sub(letter));
    if decimal < 10 { Some(decimal) } else { (above < 6).then_some(above + 10) }
}

/// The digits of a GUID in half as many bytes, and the form that says the case of its letters.
fn guid_bytes(digits: &[u8; 32]) -> Option<(u64, [u8; 16])> {
    let (pairs, _) = digits.as_chunks::<2>();
    [(FORM_GUID, b'a'), (FORM_GUID_UPPER, b'A')].into_iter().find_map(|(form, letter)| {
        let mut bytes = [0; 16];
        for (to, [low, high]) in bytes.iter_mut().zip(pairs) {
            *to = hex_digit(*low, letter)? | hex_digit(*high, letter)? << 4;
        }
        Some((form, bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_parsed_exactly() {
        let all = "9876543210123456789";
        for len in 1..=all.len() {
            for start in 0..=all.len() - len {
                let text = &all[start..start + len];
                assert_eq!(digits_of(text.as_bytes()), text.parse().ok(), "{text}");
                for at in 0..len {
                    for bad in [b'/', b':', b' ', 0, 0xb5, 255] {
                        let mut bytes = text.as_bytes().to_vec();
                        bytes[at] = bad;
                        assert_eq!(digits_of(&bytes), None, "{bad} at {at} of {text}");
                    }
                }
            }
        }
        assert_eq!(digits_of(b"0000000000000000000"), Some(0));
        assert_eq!(digits_of(&[b'9'; 19]), Some(9_999_999_999_999_999_999));
        assert_eq!((digits_of(b""), digits_of(&[b'9'; 20])), (None, None));
        assert_eq!((number_of(b"0"), number_of(b"07")), (Some(0), None));
    }
}
