//! Decoding many rows from their columns: column by column into a buffer of whole rows ([`Lines`]).
//!
//! Invariants
//! 1. Memory of a vector is bounded, whatever the columns say: by the length of rows that the block
//!    states, once for keys and once for payloads; and by that length plus
//!    [`ColumnarBlock::bytes_max`] for decoded columns. Rows of one length take at most eight
//!    additional bytes each, and a codec's chunk takes another [`ColumnarBlock::bytes_max`];
//!    strings with references take twice that, plus once for each of the four columns that they may
//!    refer to.

use std::ops::Range;

use super::{
    super::{BadBlock, Chunks, encoding::string::Strings},
    frame::ColumnarBlock,
    lines::{EvenLines, Lines, Scratch, Source, decode},
    spare::Memory,
};
use crate::message::Tag;

/// Most rows of a vector: four pages of numbers, which stay in the L1 cache while rows are
/// assembled from them.
pub(super) const VECTOR_ROWS_MAX: usize = 256;
/// About this many bytes of rows are decoded at a time: a few wide rows instead of hundreds, which
/// stay in the L1 cache while they are assembled and copied.
const VECTOR_BYTES: usize = 16 << 10;

/// Decoded rows of a block.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    /// The numbers of the rows.
    rows: Range<usize>,
    /// Their tags, and whether their values are in columns.
    tags: Vec<(Tag, bool)>,
    /// True if all values are in columns.
    all_in_columns: bool,
    keys: Lines,
    values: Lines,
    others: Strings,
    scratch: Scratch,
}

/// Rows whose keys have one length, and whose values have one length and are all in the columns, so
/// that all rows are Puts.
#[derive(Clone, Copy, Debug)]
pub struct Even<'a> {
    /// Number of rows.
    pub rows: usize,
    /// The keys.
    pub keys: EvenLines<'a>,
    /// The values, or their wanted fields.
    pub values: EvenLines<'a>,
}

/// Number of rows that are decoded at a time.
#[inline]
pub(super) fn rows_max(columnar: &ColumnarBlock<'_>) -> usize {
    let row_bytes = columnar.raw_bytes() / columnar.rows();
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
    /// The numbers of the decoded rows.
    #[inline]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The key of row `row`.
    #[inline]
    pub fn key(&self, row: usize) -> &[u8] {
        self.keys.get(row.wrapping_sub(self.rows.start))
    }

    /// The tag of row `row`, and whether its value is in the columns.
    #[inline]
    pub fn tag(&self, row: usize) -> (Tag, bool) {
        let tag = self.tags.get(row.wrapping_sub(self.rows.start));
        tag.copied().unwrap_or((Tag::DELETE, false))
    }

    /// The payload of row `row`.
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

    /// Rows from `row` to `end`, in place, if their keys have one length, and their values have one
    /// length and are all in the columns.
    #[inline]
    pub fn even(&self, row: usize, end: usize) -> Option<Even<'_>> {
        if !self.all_in_columns || !self.rows.contains(&row) || end <= row || end > self.rows.end {
            return None;
        }
        let rows = row - self.rows.start..end - self.rows.start;
        let (keys, values) = (self.keys.even(rows.clone())?, self.values.even(rows.clone())?);
        Some(Even { rows: rows.len(), keys, values })
    }

    /// Decodes these rows, which must exist.
    pub fn fill(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        rows: Range<usize>,
        wanted: &[u16],
    ) -> Result<(), BadBlock> {
        // Nothing is kept if decoding fails.
        self.rows = 0..0;
        let Self { tags, all_in_columns, keys, values, others, scratch, .. } = self;
        let words = scratch.words(rows.len());
        decode(columnar, 0, rows.start, words)?;
        tags.clear();
        let (mut some_in, mut some_out) = (false, false);
        for &number in &*words {
            let (tag, in_columns) = columnar.tag_of(number)?;
            (some_in, some_out) = (some_in | in_columns, some_out | !in_columns);
            tags.push((tag, in_columns));
        }
        *all_in_columns = !some_out;
        let key = columnar.key_side();
        let source =
            Source { columnar, columns: &key.columns, wanted: &key.all, at: columnar.key_at(0) };
        keys.fill(&source, rows.clone(), &[], scratch)?;
        if some_in && let Some(at) = columnar.value_at(0) {
            let columns = &columnar.columns().value.columns;
            values.fill(&Source { columnar, columns, wanted, at }, rows.clone(), tags, scratch)?;
        }
        others.clear();
        if some_out && let Some(at) = columnar.others_at() {
            columnar.strs(at, scratch.chunks.of(at))?.decode(rows.clone(), others)?;
        }
        self.rows = rows;
        Ok(())
    }

    /// Removes the rows.
    #[inline]
    pub fn clear(&mut self) {
        self.rows = 0..0;
    }

    /// Leaves the block: to be called before rows of another one are decoded, of which `known` is
    /// already decoded.
    #[inline]
    pub fn leave(&mut self, known: Chunks) {
        self.clear();
        match known.is_empty() {
            true => self.scratch.chunks.clear(),
            false => self.scratch.chunks = known,
        }
    }

    /// What codecs have decoded of this block.
    #[inline]
    pub fn chunks(&mut self) -> &mut Chunks {
        &mut self.scratch.chunks
    }
}
