//! Dictionary columns, for few distinct strings: a sorted dictionary and one number per row.
//!
//! The dictionary is sorted, so numbers compare as their strings do: a search looks its key up once
//! and then compares numbers. The dictionary is the block's own, or that of the leaf's model;
//! strings that are not in the model's are exceptions, with the number after the last.
//!
//! ```text
//! block's own  count | strings, concatenated | numbers: integers, one a row
//! model's      numbers: integers, one a row | exceptions
//! ```

use std::{cmp::Ordering, ops::Range};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    super::Ints,
    exceptions::Exceptions,
    raw::{self, Concatenated, take_ints},
    scratch::Scratch,
    strings::{Strings, equal_short},
    traits::{StringColumn, partition, push_bytes},
};
use crate::{
    block::BadBlock,
    coding::{Reader, put_varint},
};

const UNKNOWN: BadBlock = BadBlock("a row's string is not in the dictionary");

/// A column of numbers, and the words that they refer to.
#[derive(Clone, Debug)]
pub(super) struct Coded<'a> {
    rows: usize,
    words: Words<'a>,
    codes: Ints<'a>,
    exceptions: Exceptions<'a>,
}

#[derive(Clone, Debug)]
enum Words<'a> {
    Model(&'a Strings),
    Own(Concatenated<'a>),
}

impl<'a> Words<'a> {
    #[inline]
    fn count(&self) -> usize {
        match self {
            Words::Model(strings) => strings.len(),
            Words::Own(strings) => strings.rows(),
        }
    }

    /// Word `code`, which must exist.
    #[inline]
    fn get(&self, code: usize) -> Result<&'a [u8], BadBlock> {
        match self {
            Words::Model(strings) => Ok(strings.get(code)),
            Words::Own(strings) => strings.string(code),
        }
    }

    /// The first word not below `key`.
    fn lower_bound(&self, key: &[u8]) -> Result<usize, BadBlock> {
        partition(0..self.count(), |code| Ok(self.get(code)? < key))
    }
}

impl<'a> Coded<'a> {
    /// Parses a column with its own dictionary.
    #[inline]
    pub fn parse_own(reader: &mut Reader<'a>, rows: usize) -> Result<Self, BadBlock> {
        let count = reader.varint().and_then(|count| usize::try_from(count).ok());
        let count = count
            .filter(|&count| count <= rows)
            .ok_or(BadBlock("a dictionary has more words than there are rows"))?;
        let words = Words::Own(Concatenated::parse(reader, count)?);
        let codes = take_ints(reader, rows)?;
        Ok(Self { rows, words, codes, exceptions: Exceptions::default() })
    }

    /// Parses a column with the words of a model.
    #[inline]
    pub fn parse_model(
        reader: &mut Reader<'a>,
        rows: usize,
        words: &'a Strings,
    ) -> Result<Self, BadBlock> {
        let codes = take_ints(reader, rows)?;
        let exceptions = Exceptions::parse(reader, rows)?;
        Ok(Self { rows, words: Words::Model(words), codes, exceptions })
    }

    /// String `row`.
    #[inline]
    fn string(&self, row: usize) -> Result<&'a [u8], BadBlock> {
        if row >= self.rows {
            return Err(UNKNOWN);
        }
        self.word(row, self.codes.get(row))
    }

    #[inline]
    fn word(&self, row: usize, code: u64) -> Result<&'a [u8], BadBlock> {
        match code.cmp(&(self.words.count() as u64)) {
            Ordering::Less => self.words.get(code as usize),
            Ordering::Equal => self.exceptions.find(row)?.ok_or(UNKNOWN),
            Ordering::Greater => Err(UNKNOWN),
        }
    }

    /// Calls `each` with strings `rows`, in order.
    fn for_each(
        &self,
        rows: Range<usize>,
        mut each: impl FnMut(&'a [u8]) -> Result<(), BadBlock>,
    ) -> Result<(), BadBlock> {
        let mut codes = [0; 128];
        let mut at = rows.start;
        while at < rows.end {
            let count = (rows.end - at).min(codes.len());
            self.codes.decode(at, &mut codes[..count]);
            for (row, &code) in (at..).zip(&codes[..count]) {
                each(self.word(row, code)?)?;
            }
            at += count;
        }
        Ok(())
    }
}

impl StringColumn for Coded<'_> {
    // Every row has its string, and the dictionary ascends.
    fn check(&self, bytes_max: usize) -> Result<(), BadBlock> {
        if let Words::Own(words) = &self.words {
            words.check(bytes_max)?;
            let mut last = None;
            words.for_each(0..words.rows(), |word| {
                if last.is_some_and(|last| last >= word) {
                    return Err(BadBlock("a dictionary does not ascend"));
                }
                last = Some(word);
                Ok(())
            })?;
        }
        self.codes.check()?;
        let mut strangers = true;
        self.exceptions.check(self.rows, |row| {
            strangers &= self.codes.get(row) == self.words.count() as u64;
        })?;
        if !strangers {
            return Err(BadBlock("an exception belongs to a row that has a word"));
        }
        // A row without a word must be an exception.
        self.for_each(0..self.rows, |_| Ok(()))
    }

    #[inline]
    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        out.extend_from_slice(self.string(row)?);
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        self.for_each(rows, |string| push_bytes(out, bytes_max, string))
    }

    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        Ok(self.string(row)?.cmp(key))
    }

    fn bound(&self, rows: Range<usize>, key: &[u8], after: bool) -> Result<usize, BadBlock> {
        let code = self.words.lower_bound(key)?;
        let found = code < self.words.count() && self.words.get(code)? == key;
        // Words from this one on are not below.
        let code = code + usize::from(found && after);
        if self.exceptions.is_empty() {
            return Ok(self.codes.lower_bound(rows, code as u64));
        }
        let words = self.words.count() as u64;
        partition(rows, |row| {
            let of_row = self.codes.get(row);
            if of_row != words {
                return Ok(of_row < code as u64);
            }
            let string = self.exceptions.find(row)?.ok_or(UNKNOWN)?;
            Ok(string < key || after && string == key)
        })
    }

    fn equal_range(&self, rows: Range<usize>, key: &[u8]) -> Result<Range<usize>, BadBlock> {
        if !self.exceptions.is_empty() {
            let start = self.bound(rows.clone(), key, false)?;
            return Ok(start..self.bound(start..rows.end, key, true)?);
        }
        let code = self.words.lower_bound(key)?;
        if code < self.words.count() && self.words.get(code)? == key {
            return Ok(self.codes.equal_range(rows, code as u64));
        }
        let start = self.codes.lower_bound(rows, code as u64);
        Ok(start..start)
    }
}

/// Most slots of all cached lookups: 1 MiB, enough for four models of 30 000 words or thousands of
/// small ones.
pub(super) const LOOKUP_SLOTS_MAX: usize = 1 << 18;

/// Encodes columns with a dictionary, and keeps the lookups of models.
#[derive(Debug, Default)]
pub(super) struct DictionaryEncoder {
    /// For the words of the block.
    lookup: Lookup,
    words: Strings,
    /// For models, by their ids. (Words are compared, so a wrong model's lookup could only produce
    /// exceptions.)
    pub(super) lookups: Vec<(u64, Lookup)>,
}

impl DictionaryEncoder {
    /// Encodes with the words of these strings.
    pub fn put_own(&mut self, strings: &Strings, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let Self { lookup, words, .. } = self;
        let Scratch { values, ints, .. } = scratch;
        lookup.reset(strings.len());
        words.clear();
        values.clear();
        let mut last: Option<(&[u8], u64)> = None;
        for string in strings.iter() {
            // In an index the same string is often repeated.
            let word = match last {
                Some((same, word)) if equal_short(same, string) => word,
                _ => {
                    let word = lookup.find(words, string).unwrap_or_else(|place| {
                        lookup.insert(place);
                        words.push(string);
                        words.len() as u32 - 1
                    });
                    word.into()
                }
            };
            last = Some((string, word));
            values.push(word);
        }
        let mut order: Vec<u32> = (0..words.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| words.get(a as usize).cmp(words.get(b as usize)));
        let sorted: Strings = order.iter().map(|&word| words.get(word as usize)).collect();
        let mut codes = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&word, code)| codes[word as usize] = code);
        let codes: Vec<u64> = values.iter().map(|&word| codes[word as usize]).collect();
        put_varint(out, sorted.len() as u64);
        raw::put_part(&sorted, ints, values, out);
        ints.encode(&codes, out);
    }

    /// Encodes with the words of a model, given with its id.
    pub fn put_model(
        &mut self,
        strings: &Strings,
        (words, id): (&Strings, u64),
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let lookup = self.lookup_of(words, id);
        let Scratch { ints, values, exceptions, .. } = scratch;
        exceptions.clear();
        values.clear();
        for (row, string) in strings.iter().enumerate() {
            let code = lookup.find(words, string).unwrap_or_else(|_| {
                exceptions.push(row, string);
                words.len() as u32
            });
            values.push(code.into());
        }
        ints.encode(values, out);
        exceptions.put(ints, values, out);
    }

    /// The lookup of the words of the model `id`.
    fn lookup_of(&mut self, words: &Strings, id: u64) -> &Lookup {
        let lookups = &mut self.lookups;
        let at = lookups.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
            let slots = |lookups: &[(u64, Lookup)]| -> usize {
                lookups.iter().map(|(_, lookup)| lookup.slots()).sum()
            };
            let mut lookup = Lookup::default();
            while slots(lookups) + Lookup::slots_for(words.len()) > LOOKUP_SLOTS_MAX {
                match lookups.pop() {
                    Some((_, newest)) => lookup = newest,
                    None => break,
                }
            }
            lookup.reset(words.len());
            for word in words.iter() {
                if let Err(place) = lookup.find(words, word) {
                    lookup.insert(place);
                }
            }
            lookups.push((id, lookup));
            lookups.len() - 1
        });
        &lookups[at].1
    }
}

/// Finds words by hash while a column is encoded. It stores numbers, not strings: the words are in
/// a [`Strings`] that the caller passes each time.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Number of the word + 1, or 0; open addressing, a power of two, at most half full.
    slots: Vec<u32>,
    words: usize,
}

impl Lookup {
    /// Removes the words, and makes room for `words` of them.
    pub fn reset(&mut self, words: usize) {
        self.slots.clear();
        self.slots.resize(Self::slots_for(words), 0);
        self.words = 0;
    }

    /// Number of slots for this many words.
    pub fn slots_for(words: usize) -> usize {
        (words * 2).next_power_of_two().max(64)
    }

    /// Number of slots it holds, four bytes each.
    pub fn slots(&self) -> usize {
        self.slots.capacity()
    }

    /// The number of `string` among `words`; if it is not there, the slot for it.
    #[inline]
    pub fn find(&self, words: &Strings, string: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = xxh3_64(string) as usize & mask;
        loop {
            match self.slots[at].checked_sub(1) {
                None => return Err(at),
                Some(word)
                    if (word as usize) < words.len()
                        && equal_short(words.get(word as usize), string) =>
                {
                    return Ok(word);
                }
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Records that the next word has the slot that `find` returned.
    pub fn insert(&mut self, at: usize) {
        self.words += 1;
        self.slots[at] = self.words as u32;
        debug_assert!(self.words * 2 <= self.slots.len());
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            model::Parts,
            plan::StrKind,
            tests::{fixture, holds},
        },
        *,
    };

    #[test]
    fn words_are_found_by_their_hash() {
        let words = fixture("guids");
        let mut lookup = Lookup::default();
        lookup.reset(words.len());
        for (number, word) in words.iter().enumerate() {
            let place = lookup.find(&words, word).unwrap_err();
            lookup.insert(place);
            assert_eq!(lookup.find(&words, word), Ok(number as u32));
        }
        assert!(lookup.find(&words, b"another").is_err());
    }

    /// Rows of words that the model lacks, at both ends of the column and in a run, and words that
    /// sort before, between and after those of the model.
    #[test]
    fn strings_that_the_model_lacks_are_exceptions() {
        let of = |row: usize| match row {
            0 => "before all others",
            150..153 => "in between, three times",
            299 => "zz, after all others",
            _ if row.is_multiple_of(2) => "common word one",
            _ => "rather common word two",
        };
        let strings: Strings = (0..300).map(|row| of(row).as_bytes()).collect();
        let known = [&b"common word one"[..], b"never used", b"rather common word two"];
        let parts = Parts { dictionary: Some(known.into_iter().collect()), ..Parts::default() };
        let model = holds(&strings, parts, StrKind::ModelDictionary);
        // The block's own dictionary has no exceptions, and has its words in the block.
        let own = holds(&strings, Parts::default(), StrKind::Dictionary);
        assert!(model.len() < own.len() && own.len() < strings.bytes().len() / 10);
    }
}
