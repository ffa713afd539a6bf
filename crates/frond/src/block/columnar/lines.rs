//! Whole rows in one buffer, assembled from columns.
//!
//! Rows of words, and of strings of one length, have one length: each column is decoded once and
//! written through all rows. Other rows are assembled one by one from what each column decoded to.
//!
//! Invariants
//! 1. The bytes of a row are the same either way.
//! 2. In rows of one length a column may write some bytes beyond its place: into that of the next
//!    column, which is written later, or after the row.

use std::ops::Range;

use super::{
    super::{
        BLOCK_RAW_BYTES_MAX, BadBlock, Chunks,
        encoding::string::{Apart, Strings},
    },
    columns::{Column, Holds, put_word},
    frame::{ColumnarBlock, TOO_LONG},
    reference,
};
use crate::{block::varint_bytes, coding::put_varint, message::Tag};

/// Additional bytes after each row of one length, so that words are written whole.
const BEHIND_BYTES: usize = 8;
/// With fewer rows it does not pay to check whether their strings have one length.
const EVEN_ROWS_MIN: usize = 4;

/// Whole rows in one buffer, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// The length of the rows, if they have one; they are then eight bytes further apart, so that a
    /// word can be written whole.
    width: Option<usize>,
    /// Otherwise, the end of each row.
    ends: Vec<u32>,
}

/// Rows of one length, `apart` bytes from one to the next.
#[derive(Clone, Copy, Debug)]
pub struct EvenLines<'a> {
    /// The bytes from the first row to the end of the padding after the last.
    pub bytes: &'a [u8],
    /// Distance between the starts of neighbouring rows.
    pub apart: usize,
    /// Length of each row.
    pub width: usize,
}

/// Buffers for decoded columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub words: Vec<u64>,
    pub strings: Vec<Strings>,
    /// What codecs have decoded of this block: a walk decodes it once.
    pub chunks: Chunks,
    pub references: reference::Scratch,
}

impl Scratch {
    /// A buffer for `count` words.
    pub fn words(&mut self, count: usize) -> &mut [u64] {
        if self.words.len() < count {
            self.words.resize(count, 0);
        }
        &mut self.words[..count]
    }
}

/// The columns that rows are assembled from.
pub(super) struct Source<'a, 'b> {
    pub columnar: &'b ColumnarBlock<'a>,
    pub columns: &'a [Column],
    pub wanted: &'b [u16],
    /// Position in the directory of the first of `columns`.
    pub at: usize,
}

impl Lines {
    /// Creates an empty set of rows with this memory.
    pub fn with(bytes: Vec<u8>) -> Self {
        Self { bytes, width: None, ends: Vec::new() }
    }

    /// Takes the memory out.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Row `index`.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let range = match self.width {
            Some(width) => {
                let Some(start) = index.checked_mul(width + BEHIND_BYTES) else { return &[] };
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

    /// These rows, if all have one length.
    #[inline]
    pub fn even(&self, rows: Range<usize>) -> Option<EvenLines<'_>> {
        let width = self.width?;
        let apart = width + BEHIND_BYTES;
        let bytes = self.bytes.get(rows.start.checked_mul(apart)?..rows.end.checked_mul(apart)?)?;
        Some(EvenLines { bytes, apart, width })
    }

    /// Assembles rows from their columns; for values, only those of rows whose values are in
    /// columns.
    pub fn fill(
        &mut self,
        source: &Source<'_, '_>,
        rows: Range<usize>,
        tags: &[(Tag, bool)],
        scratch: &mut Scratch,
    ) -> Result<(), BadBlock> {
        self.width = source.width(rows.len(), tags, scratch)?;
        match self.width {
            Some(width) => self.fill_even(source, rows, width, scratch),
            None => self.fill_mixed(source, rows, tags, scratch),
        }
    }

    /// Writes each column into all rows, which have this length.
    fn fill_even(
        &mut self,
        source: &Source<'_, '_>,
        rows: Range<usize>,
        width: usize,
        scratch: &mut Scratch,
    ) -> Result<(), BadBlock> {
        let apart = width + BEHIND_BYTES;
        let bytes = rows.len() * apart;
        if bytes > BLOCK_RAW_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        let lines = &mut self.bytes[..bytes];
        scratch.words(rows.len());
        let Scratch { words, chunks, .. } = scratch;
        let words = &mut words[..rows.len()];
        let mut offset = 0;
        for (at, column) in source.wanted() {
            match column.holds {
                Holds::Word(bytes, _) => {
                    decode(source.columnar, at, rows.start, words)?;
                    let unused = 64 - 8 * u32::from(bytes);
                    for (line, &word) in lines.chunks_exact_mut(apart).zip(&*words) {
                        put_eight(
                            line,
                            offset,
                            word.checked_shl(unused).unwrap_or(0).to_be_bytes(),
                        );
                    }
                    offset += usize::from(bytes);
                }
                Holds::String(_) | Holds::Content => {
                    let texts = source.columnar.texts(at, chunks.of(at))?;
                    let bytes = texts.even_bytes().ok_or(TOO_LONG)?;
                    if column.holds == Holds::Content {
                        let length = length_bytes(bytes);
                        for line in lines.chunks_exact_mut(apart) {
                            put_eight(line, offset, length);
                        }
                        offset += varint_bytes(bytes as u64);
                    }
                    let mut to = Apart { lines, apart, at: offset };
                    texts.strs().decode_apart(rows.clone(), &mut to)?;
                    offset += bytes;
                }
            }
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
        let Scratch { words, strings, chunks, references } = scratch;
        let mut decoded_bytes = 0;
        for ((slot, (at, column)), strings) in source.wanted().enumerate().zip(&mut *strings) {
            match column.holds {
                Holds::Word(..) => {
                    let words = &mut words[slot * count..][..count];
                    decode(source.columnar, at, rows.start, words)?;
                }
                Holds::String(_) | Holds::Content => {
                    strings.clear();
                    let texts = source.columnar.texts(at, chunks.of(at))?;
                    texts.decode(source.columnar, rows.clone(), references, strings)?;
                    decoded_bytes += strings.bytes().len();
                    if decoded_bytes > source.columnar.bytes_max(columns) {
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
            if self.bytes.len() > source.columnar.raw_bytes() {
                return Err(TOO_LONG);
            }
            self.ends.push(self.bytes.len() as u32);
        }
        Ok(())
    }
}

/// Writes eight bytes; the bytes beyond the column's place are overwritten later.
#[inline(always)]
fn put_eight(line: &mut [u8], at: usize, eight: [u8; 8]) {
    if let Some(to) = line.get_mut(at..).and_then(|to| to.first_chunk_mut::<8>()) {
        *to = eight;
    }
}

/// Decodes values of column `at` from row `first` on. A single value, as a seek needs it, is read
/// without checking that the column is complete.
#[inline]
pub(super) fn decode(
    columnar: &ColumnarBlock<'_>,
    at: usize,
    first: usize,
    words: &mut [u64],
) -> Result<(), BadBlock> {
    match words {
        [word] => *word = columnar.int(at, first)?,
        words => columnar.words(at)?.decode(first, words),
    }
    Ok(())
}

/// A length as LEB128, padded with zeros.
fn length_bytes(bytes: usize) -> [u8; 8] {
    let mut length = Vec::with_capacity(8);
    put_varint(&mut length, bytes as u64);
    length.resize(8, 0);
    length.first_chunk().copied().unwrap_or_default()
}

impl<'a> Source<'a, '_> {
    /// The common length of these rows, if their columns guarantee one. If the values of some rows
    /// are elsewhere, only columns of words do, since every row has some word.
    fn width(
        &self,
        rows: usize,
        tags: &[(Tag, bool)],
        scratch: &mut Scratch,
    ) -> Result<Option<usize>, BadBlock> {
        let (mut width, mut has_strings) = (0, false);
        for (at, column) in self.wanted() {
            width += match column.holds {
                Holds::Word(bytes, _) => bytes.into(),
                Holds::String(_) | Holds::Content => {
                    if !has_strings
                        && (rows < EVEN_ROWS_MIN || tags.iter().any(|(_, in_columns)| !in_columns))
                    {
                        return Ok(None);
                    }
                    has_strings = true;
                    let texts = self.columnar.texts(at, scratch.chunks.of(at))?;
                    let Some(bytes) = texts.even_bytes() else { return Ok(None) };
                    let has_length = column.holds == Holds::Content;
                    bytes + if has_length { varint_bytes(bytes as u64) } else { 0 }
                }
            };
        }
        if has_strings && rows * width > self.columnar.raw_bytes() {
            return Err(TOO_LONG);
        }
        Ok(Some(width))
    }

    /// The wanted columns, and their positions in the directory.
    #[inline]
    fn wanted(&self) -> impl Iterator<Item = (usize, &'a Column)> {
        let columns = self.columns;
        let at = self.at;
        self.wanted.iter().filter_map(move |&index| {
            columns.get(usize::from(index)).map(|column| (at + usize::from(index), column))
        })
    }
}
