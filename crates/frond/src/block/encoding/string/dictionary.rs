//! Dictionary columns, for few distinct strings: a sorted dictionary and one number per row.
//!
//! The dictionary is sorted, so numbers compare as their strings do: a search looks its key up once
//! and then compares numbers. The dictionary is the block's own, or that of the leaf's model;
//! strings that are not in the model's are exceptions, with the number after the last.
//!
//! ```text
//! block's own  count | strings, laid | numbers: integers, one a row
//! model's      numbers: integers, one a row | exceptions
//! ```

use std::{cmp::Ordering, ops::Range};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    super::Ints,
    exceptions::Exceptions,
    raw::{Laid, take_ints},
    strings::{Strings, equal_short},
    traits::{StringColumn, partition, push_bytes},
};
use crate::{block::BadBlock, coding::Reader};

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
    Own(Laid<'a>),
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
        let words = Words::Own(Laid::parse(reader, count)?);
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
