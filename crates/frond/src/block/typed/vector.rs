//! Many rows out of their columns: column by column into rows that lie side by side.
//!
//! Rows of words only have one length: each column is decoded once and written through all rows. Others
//! are put together row by row from what each column decoded to.
//!
//! Invariants
//! 1. A vector takes no more than the length that the block says its rows have, for keys and again for payloads,
//!    and as much and [`Typed::bytes_max`] for what their columns decode to, whatever the columns say. Rows of words
//!    only take their width, and a codec's chunk once more [`Typed::bytes_max`]; strings with quotes twice that, and
//!    once for each of the four columns that they may quote.

use std::ops::Range;

use super::{
    super::{BLOCK_RAW_BYTES_MAX, BadBlock, Chunks, column::string::Strings},
    columns::{Column, Holds, put_word},
    frame::{TOO_LONG, Typed},
    quotes,
};
use crate::{coding::put_varint, message::Tag};

/// Most rows of a vector: four pages of numbers, which stay in the nearest cache while rows are made of
/// them.
pub(super) const VECTOR_ROWS_MAX: usize = 256;
/// About so many bytes of rows are decoded at a time: a few wide rows, not hundreds.
const VECTOR_BYTES: usize = 64 << 10;

/// Rows of a block, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Vector {
    /// Which rows.
    rows: Range<usize>,
    /// Their tags, and whether their values are in columns.
    tags: Vec<(Tag, bool)>,
    keys: Lines,
    values: Lines,
    others: Strings,
    scratch: Scratch,
}

/// Rows side by side.
#[derive(Clone, Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Length of every row, if they have one; they are eight bytes more apart, so that a word is written
    /// whole.
    width: Option<usize>,
    /// Else where each ends.
    ends: Vec<u32>,
}

/// What columns decode to.
#[derive(Clone, Debug, Default)]
struct Scratch {
    words: Vec<u64>,
    strings: Vec<Strings>,
    /// What codecs gave of this block: a walk decodes it once.
    chunks: Chunks,
    quotes: quotes::Scratch,
}

/// The columns that rows are made of.
struct Source<'a, 'b> {
    typed: &'b Typed<'a>,
    columns: &'a [Column],
    wanted: &'b [u16],
    /// Where the directory has the first of `columns`.
    at: usize,
}

/// How many rows are decoded at a time.
#[inline]
pub(super) fn rows_max(typed: &Typed<'_>) -> usize {
    let row_bytes = typed.raw_bytes() / typed.rows();
    (VECTOR_BYTES / row_bytes.max(1)).clamp(1, VECTOR_ROWS_MAX)
}

impl Vector {
    /// Which rows it has.
    #[inline]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The key of row `row`.
    #[inline]
    pub fn key(&self, row: usize) -> &[u8] {
        self.keys.get(row.wrapping_sub(self.rows.start))
    }

    /// Its tag, and whether its value is in the columns.
    #[inline]
    pub fn tag(&self, row: usize) -> (Tag, bool) {
        let tag = self.tags.get(row.wrapping_sub(self.rows.start));
        tag.copied().unwrap_or((Tag::DELETE, false))
    }

    /// Its payload.
    #[inline]
    pub fn payload(&self, row: usize) -> &[u8] {
        let index = row.wrapping_sub(self.rows.start);
        match self.tags.get(index) {
            Some((_, true)) => self.values.get(index),
            _ => self.others.get(index),
        }
    }

    /// Key, tag and payload of row `row`, and whether its value is in the columns.
    #[inline]
    pub fn line(&self, row: usize) -> (&[u8], Tag, &[u8], bool) {
        let index = row.wrapping_sub(self.rows.start);
        let (tag, in_columns) = self.tags.get(index).copied().unwrap_or((Tag::DELETE, false));
        let payload = if in_columns { self.values.get(index) } else { self.others.get(index) };
        (self.keys.get(index), tag, payload, in_columns)
    }

    /// Decodes these rows, which exist.
    pub fn fill(
        &mut self,
        typed: &Typed<'_>,
        rows: Range<usize>,
        wanted: &[u16],
    ) -> Result<(), BadBlock> {
        // Nothing is kept of a vector that came to grief.
        self.rows = 0..0;
        let Self { tags, keys, values, others, scratch, .. } = self;
        let words = scratch.words(rows.len());
        decode(typed, 0, rows.start, words)?;
        tags.clear();
        let (mut some_in, mut some_out) = (false, false);
        for &number in &*words {
            let (tag, in_columns) = typed.tag_of(number)?;
            (some_in, some_out) = (some_in | in_columns, some_out | !in_columns);
            tags.push((tag, in_columns));
        }
        let key = typed.key_side();
        let source = Source { typed, columns: &key.columns, wanted: &key.all, at: typed.key_at(0) };
        keys.fill(&source, rows.clone(), &[], scratch)?;
        if some_in && let Some(at) = typed.value_at(0) {
            let columns = &typed.columns().value.columns;
            values.fill(&Source { typed, columns, wanted, at }, rows.clone(), tags, scratch)?;
        }
        others.clear();
        if some_out && let Some(at) = typed.others_at() {
            typed.strs(at, scratch.chunks.of(at))?.decode(rows.clone(), others)?;
        }
        self.rows = rows;
        Ok(())
    }

    /// Forgets the rows.
    #[inline]
    pub fn clear(&mut self) {
        self.rows = 0..0;
    }

    /// Forgets the block: before rows of another are decoded, of which codecs gave this.
    #[inline]
    pub fn leave(&mut self, known: Chunks) {
        self.clear();
        match known.is_empty() {
            true => self.scratch.chunks.clear(),
            false => self.scratch.chunks = known,
        }
    }

    /// What codecs gave of this block.
    #[inline]
    pub fn chunks(&mut self) -> &mut Chunks {
        &mut self.scratch.chunks
    }
}

/// Values of column `at` from row `first` on. A single one, as a seek asks for, is read without a proof that
/// the column is whole.
#[inline]
fn decode(typed: &Typed<'_>, at: usize, first: usize, words: &mut [u64]) -> Result<(), BadBlock> {
    match words {
        [word] => *word = typed.int(at, first)?,
        words => typed.words(at)?.decode(first, words),
    }
    Ok(())
}

impl Scratch {
    fn words(&mut self, count: usize) -> &mut [u64] {
        if self.words.len() < count {
            self.words.resize(count, 0);
        }
        &mut self.words[..count]
    }
}

impl Lines {
    #[inline]
    fn get(&self, index: usize) -> &[u8] {
        let range = match self.width {
            Some(width) => {
                let Some(start) = index.checked_mul(width + 8) else { return &[] };
                start..start + width
            }
            None => {
                let Some(&end) = self.ends.get(index) else { return &[] };
                let before = index.checked_sub(1).and_then(|before| self.ends.get(before));
                before.map_or(0, |&end| end as usize)..end as usize
            }
        };
        self.bytes.get(range).unwrap_or_default()
    }

    /// Makes rows of their columns; of values only those of rows that have theirs there.
    fn fill(
        &mut self,
        source: &Source<'_, '_>,
        rows: Range<usize>,
        tags: &[(Tag, bool)],
        scratch: &mut Scratch,
    ) -> Result<(), BadBlock> {
        let mut width = Some(0);
        for column in source.wanted() {
            width = match column.1.holds {
                Holds::Word(bytes, _) => width.map(|width: usize| width + usize::from(bytes)),
                Holds::String(_) | Holds::Content => None,
            };
        }
        self.width = width;
        match width {
            Some(width) => self.fill_words(source, rows, width, scratch),
            None => self.fill_mixed(source, rows, tags, scratch),
        }
    }

    fn fill_words(
        &mut self,
        source: &Source<'_, '_>,
        rows: Range<usize>,
        width: usize,
        scratch: &mut Scratch,
    ) -> Result<(), BadBlock> {
        let apart = width + 8;
        let bytes = rows.len() * apart;
        if bytes > BLOCK_RAW_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        let lines = &mut self.bytes[..bytes];
        let words = scratch.words(rows.len());
        let mut offset = 0;
        for (at, column) in source.wanted() {
            let Holds::Word(bytes, _) = column.holds else { continue };
            decode(source.typed, at, rows.start, words)?;
            let unused = 64 - 8 * u32::from(bytes);
            for (line, &word) in lines.chunks_exact_mut(apart).zip(&*words) {
                // Beyond the column it writes what the next one writes over.
                if let Some(to) = line.get_mut(offset..).and_then(|to| to.first_chunk_mut::<8>()) {
                    *to = word.checked_shl(unused).unwrap_or(0).to_be_bytes();
                }
            }
            offset += usize::from(bytes);
        }
        Ok(())
    }

    fn fill_mixed(
        &mut self,
        source: &Source<'_, '_>,
        rows: Range<usize>,
        tags: &[(Tag, bool)],
        scratch: &mut Scratch,
    ) -> Result<(), BadBlock> {
        let count = rows.len();
        let columns = source.wanted.len();
        scratch.words(columns * count);
        if scratch.strings.len() < columns {
            scratch.strings.resize_with(columns, Strings::new);
        }
        let Scratch { words, strings, chunks, quotes } = scratch;
        let mut decoded_bytes = 0;
        for ((slot, (at, column)), strings) in source.wanted().enumerate().zip(&mut *strings) {
            match column.holds {
                Holds::Word(..) => {
                    let words = &mut words[slot * count..][..count];
                    decode(source.typed, at, rows.start, words)?;
                }
                Holds::String(_) | Holds::Content => {
                    strings.clear();
                    let texts = source.typed.texts(at, chunks.of(at))?;
                    texts.decode(source.typed, rows.clone(), quotes, strings)?;
                    decoded_bytes += strings.bytes().len();
                    if decoded_bytes > source.typed.bytes_max(columns) {
                        return Err(TOO_LONG);
                    }
                }
            }
        }
        self.bytes.clear();
        self.ends.clear();
        for row in 0..count {
            if tags.get(row).is_none_or(|(_, in_columns)| *in_columns) {
                for (slot, (_, column)) in source.wanted().enumerate() {
                    match column.holds {
                        Holds::Word(bytes, _) => {
                            put_word(words[slot * count + row], bytes, &mut self.bytes);
                        }
                        Holds::String(_) => self.bytes.extend_from_slice(strings[slot].get(row)),
                        Holds::Content => {
                            let content = strings[slot].get(row);
                            put_varint(&mut self.bytes, content.len() as u64);
                            self.bytes.extend_from_slice(content);
                        }
                    }
                }
            }
            if self.bytes.len() > source.typed.raw_bytes() {
                return Err(TOO_LONG);
            }
            self.ends.push(self.bytes.len() as u32);
        }
        Ok(())
    }
}

impl<'a> Source<'a, '_> {
    /// The columns wanted, and where the directory has them.
    #[inline]
    fn wanted(&self) -> impl Iterator<Item = (usize, &'a Column)> {
        let columns = self.columns;
        let at = self.at;
        self.wanted.iter().filter_map(move |&index| {
            columns.get(usize::from(index)).map(|column| (at + usize::from(index), column))
        })
    }
}
