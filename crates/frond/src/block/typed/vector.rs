//! Many rows out of their columns: column by column into rows that lie side by side
//! ([`Lines`]).
//!
//! Invariants
//! 1. A vector takes no more than the length that the block says its rows have, for keys and again for payloads,
//!    and as much and [`Typed::bytes_max`] for what their columns decode to, whatever the columns say. Rows of
//!    one length take no more than eight bytes a row beyond it, and a codec's chunk once more
//!    [`Typed::bytes_max`]; strings with quotes twice that, and once for each of the four columns that they may
//!    quote.

use std::ops::Range;

use super::{
    super::{BadBlock, Chunks, column::string::Strings},
    frame::Typed,
    lines::{EvenLines, Lines, Source},
    quotes,
    spare::Memory,
};
use crate::message::Tag;

/// Most rows of a vector: four pages of numbers, which stay in the nearest cache while rows are made of
/// them.
pub(super) const VECTOR_ROWS_MAX: usize = 256;
/// About so many bytes of rows are decoded at a time: a few wide rows, not hundreds, which stay in the nearest
/// cache while they are put together and copied.
const VECTOR_BYTES: usize = 16 << 10;

/// Rows of a block, decoded.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    /// Which rows.
    rows: Range<usize>,
    /// Their tags, and whether their values are in columns.
    tags: Vec<(Tag, bool)>,
    /// All values are in columns.
    all_in_columns: bool,
    keys: Lines,
    values: Lines,
    others: Strings,
    scratch: Scratch,
}

/// What columns decode to.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub words: Vec<u64>,
    pub strings: Vec<Strings>,
    /// What codecs gave of this block: a walk decodes it once.
    pub chunks: Chunks,
    pub quotes: quotes::Scratch,
}

/// Rows of which all keys have one length, and all values, which are in the columns: puts.
#[derive(Clone, Copy, Debug)]
pub struct Even<'a> {
    /// How many.
    pub rows: usize,
    /// The keys.
    pub keys: EvenLines<'a>,
    /// The values, or the parts of them that are wanted.
    pub values: EvenLines<'a>,
}

/// How many rows are decoded at a time.
#[inline]
pub(super) fn rows_max(typed: &Typed<'_>) -> usize {
    let row_bytes = typed.raw_bytes() / typed.rows();
    (VECTOR_BYTES / row_bytes.max(1)).clamp(1, VECTOR_ROWS_MAX)
}

impl Default for Vector {
    fn default() -> Self {
        let Memory { tags, keys, values, words } = Memory::take();
        Self {
            rows: 0..0,
            tags,
            all_in_columns: false,
            keys: Lines::with(keys),
            values: Lines::with(values),
            others: Strings::new(),
            scratch: Scratch { words, ..Scratch::default() },
        }
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        let memory = Memory {
            tags: std::mem::take(&mut self.tags),
            keys: self.keys.take(),
            values: self.values.take(),
            words: std::mem::take(&mut self.scratch.words),
        };
        memory.leave();
    }
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

    /// Rows from `row` to `end` as they lie here, if all keys have one length, and all values, which are in the
    /// columns.
    #[inline]
    pub fn even(&self, row: usize, end: usize) -> Option<Even<'_>> {
        if !self.all_in_columns || !self.rows.contains(&row) || end <= row || end > self.rows.end {
            return None;
        }
        let rows = row - self.rows.start..end - self.rows.start;
        let (keys, values) = (self.keys.even(rows.clone())?, self.values.even(rows.clone())?);
        Some(Even { rows: rows.len(), keys, values })
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
        let Self { tags, all_in_columns, keys, values, others, scratch, .. } = self;
        let words = scratch.words(rows.len());
        decode(typed, 0, rows.start, words)?;
        tags.clear();
        let (mut some_in, mut some_out) = (false, false);
        for &number in &*words {
            let (tag, in_columns) = typed.tag_of(number)?;
            (some_in, some_out) = (some_in | in_columns, some_out | !in_columns);
            tags.push((tag, in_columns));
        }
        *all_in_columns = !some_out;
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
pub(super) fn decode(
    typed: &Typed<'_>,
    at: usize,
    first: usize,
    words: &mut [u64],
) -> Result<(), BadBlock> {
    match words {
        [word] => *word = typed.int(at, first)?,
        words => typed.words(at)?.decode(first, words),
    }
    Ok(())
}

impl Scratch {
    /// Room for so many words.
    pub fn words(&mut self, count: usize) -> &mut [u64] {
        if self.words.len() < count {
            self.words.resize(count, 0);
        }
        &mut self.words[..count]
    }
}
