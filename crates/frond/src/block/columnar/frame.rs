//! The frame of a columnar block: its header, and the places of its columns.
//!
//! A block is parsed at every lookup, so parsing reads only its eight header bytes and the end of
//! the last column: the starts of the others are read when they are wanted. How a column that may
//! refer to others is read is in `difference.rs` and `reference.rs`, which build on this file.

use super::{
    super::{
        BLOCK_RAW_BYTES_MAX, BadBlock, DecodeMeter, NEWER,
        encoding::{
            PAD_BYTES,
            string::{StringModel, Strs},
        },
    },
    columns::{Column, Columns, Side},
};
use crate::{message::Tag, sync::Arc};

/// The models of a run, by number of column: key, value, other payloads. Shorter if the last ones
/// have none.
pub type Models = [Option<Arc<StringModel>>];

pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 8;

/// Flag: keys are one string column.
pub(super) const WHOLE_KEYS: u8 = 1;
/// Flag: the directory has four bytes per column.
pub(super) const WIDE: u8 = 2;
/// Flag: some value is in columns.
pub(super) const VALUES: u8 = 4;
/// Flag: some payload is among the others.
pub(super) const OTHERS: u8 = 8;

/// Longest placeholder, and most bytes of placeholders in all string columns: rows without a value
/// must not blow up a block when it is read.
pub(super) const FILLER_BYTES_MAX: usize = 64;
pub(super) const FILLERS_BYTES_MAX: usize = 1 << 20;

/// Flag in the tag column, in the byte of the tag: the value of this row is in the columns.
pub(super) const IN_COLUMNS: u64 = 0x80;

const SHORT: BadBlock = BadBlock("its header is cut off");
const OUTSIDE: BadBlock = BadBlock("a column lies outside");
pub(super) const TOO_LONG: BadBlock = BadBlock("its rows are longer than it says");

#[cold]
fn unknown(version: u8) -> BadBlock {
    if version > VERSION { NEWER } else { BadBlock("a columnar block of an unknown kind") }
}

/// A columnar block, and what is needed to read it.
#[derive(Clone, Copy, Debug)]
pub struct ColumnarBlock<'a> {
    block: &'a [u8],
    columns: &'a Columns,
    models: &'a Models,
    /// Notified of decoded chunks.
    meter: Option<&'a dyn DecodeMeter>,
    rows: u32,
    raw_bytes: u32,
    flags: u8,
}

impl<'a> ColumnarBlock<'a> {
    /// Parses a block of a run of a tree with these columns and these models. Takes some
    /// nanoseconds; the contents of columns are checked by [`check`](super::check).
    #[inline]
    pub fn parse(
        block: &'a [u8],
        columns: &'a Columns,
        models: &'a Models,
    ) -> Result<Self, BadBlock> {
        let header = block.first_chunk::<HEADER_BYTES>().ok_or(SHORT)?;
        let &[version, flags, rows_low, rows_high, ref raw @ ..] = header;
        if version != VERSION || flags & !(WHOLE_KEYS | WIDE | VALUES | OTHERS) != 0 {
            return Err(unknown(version));
        }
        let rows = u32::from(u16::from_le_bytes([rows_low, rows_high]));
        if rows == 0 {
            return Err(BadBlock("it has no rows"));
        }
        let raw_bytes = u32::from_le_bytes(*raw);
        let columnar = Self { block, columns, models, meter: None, rows, raw_bytes, flags };
        let last = columnar.column_count() - 1;
        if columnar.end(last)?.checked_add(PAD_BYTES) != Some(block.len()) {
            return Err(BadBlock("its columns do not fill it"));
        }
        Ok(columnar)
    }

    /// Makes `meter` be notified of the chunks that reading the block decodes.
    #[inline]
    pub fn metered(self, meter: Option<&'a dyn DecodeMeter>) -> Self {
        Self { meter, ..self }
    }

    /// The meter that is notified of decoded chunks.
    pub(super) fn meter(&self) -> Option<&'a dyn DecodeMeter> {
        self.meter
    }

    /// The flags of its header.
    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    /// Number of rows, at least 1.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Length of all keys and payloads.
    pub fn raw_bytes(&self) -> usize {
        self.raw_bytes as usize
    }

    /// The columns of the key.
    #[inline]
    pub(super) fn key_side(&self) -> &'a Side {
        if self.flags & WHOLE_KEYS == 0 { &self.columns.key } else { &self.columns.whole_key }
    }

    pub(super) fn has_whole_keys(&self) -> bool {
        self.flags & WHOLE_KEYS != 0
    }

    /// The columns of the tree.
    pub(super) fn columns(&self) -> &'a Columns {
        self.columns
    }

    /// Position in the directory of column `index` of the key.
    #[inline]
    pub(super) fn key_at(&self, index: usize) -> usize {
        1 + index
    }

    /// Position in the directory of column `index` of the value, if the block has values.
    #[inline]
    pub(super) fn value_at(&self, index: usize) -> Option<usize> {
        (self.flags & VALUES != 0).then(|| 1 + self.key_side().columns.len() + index)
    }

    /// Position in the directory of the other payloads, if the block has any.
    #[inline]
    pub(super) fn others_at(&self) -> Option<usize> {
        (self.flags & OTHERS != 0).then(|| self.column_count() - 1)
    }

    /// Number of columns of the block.
    #[inline]
    pub(super) fn column_count(&self) -> usize {
        let values = if self.flags & VALUES == 0 { 0 } else { self.columns.value.columns.len() };
        1 + self.key_side().columns.len() + values + usize::from(self.flags & OTHERS != 0)
    }

    /// Offset of the end of column `at` of the directory.
    #[inline]
    fn end(&self, at: usize) -> Result<usize, BadBlock> {
        let directory = self.block.get(HEADER_BYTES..).ok_or(SHORT)?;
        if self.flags & WIDE == 0 {
            let end = directory.get(2 * at..).and_then(|rest| rest.first_chunk::<2>());
            end.map(|end| usize::from(u16::from_le_bytes(*end))).ok_or(SHORT)
        } else {
            let end = directory.get(4 * at..).and_then(|rest| rest.first_chunk::<4>());
            end.map(|end| u32::from_le_bytes(*end) as usize).ok_or(SHORT)
        }
    }

    /// The bytes of column `at` of the directory, followed by eight readable bytes.
    #[inline]
    pub(super) fn bytes(&self, at: usize) -> Result<&'a [u8], BadBlock> {
        let start = match at.checked_sub(1) {
            Some(before) => self.end(before)?,
            None => HEADER_BYTES + self.column_count() * if self.flags & WIDE == 0 { 2 } else { 4 },
        };
        let end = self.end(at)?.checked_add(PAD_BYTES).ok_or(OUTSIDE)?;
        self.block.get(start..end).ok_or(OUTSIDE)
    }

    /// The description of column `at` of the directory, if it is one of the key or of the value.
    pub(super) fn column(&self, at: usize) -> Option<&'a Column> {
        let key = &self.key_side().columns;
        let value = self.value_at(0).map_or(&[][..], |_| &self.columns.value.columns);
        key.iter().chain(value).nth(at.checked_sub(1)?)
    }

    /// Appends string `row` of column `at`, if its encoding is read in a few steps; else returns
    /// false, and appends nothing.
    #[inline]
    pub(super) fn read_string(
        &self,
        at: usize,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, BadBlock> {
        Strs::read(self.bytes(at)?, self.rows(), self.model(at), row, out)
    }

    /// String column `at` of the directory; `chunk` receives its bytes if they are compressed.
    #[inline]
    pub(super) fn strs<'b>(&self, at: usize, chunk: &'b mut Vec<u8>) -> Result<Strs<'b>, BadBlock>
    where
        'a: 'b,
    {
        self.strs_of(at, self.bytes(at)?, self.bytes_max(1), chunk)
    }

    /// Parses a string column from `bytes`, without the head of one with references; its strings
    /// have at most `bytes_max` bytes.
    #[inline]
    pub(super) fn strs_of<'b>(
        &self,
        at: usize,
        bytes: &'b [u8],
        bytes_max: usize,
        chunk: &'b mut Vec<u8>,
    ) -> Result<Strs<'b>, BadBlock>
    where
        'a: 'b,
    {
        let (rows, model) = (self.rows(), self.model(at));
        // What was decoded of this column before is used again.
        match self.meter.filter(|_| chunk.is_empty() && Strs::is_coded(bytes)) {
            None => Strs::parse(bytes, rows, model, bytes_max, chunk),
            Some(meter) => {
                let begun = meter.begin();
                let strs = Strs::parse(bytes, rows, model, bytes_max, chunk)?;
                meter.end(begun, strs.chunk_bytes());
                Ok(strs)
            }
        }
    }

    /// Maximum number of bytes that this many string columns have together: those of the rows, and
    /// the placeholders.
    #[inline]
    pub(super) fn bytes_max(&self, columns: usize) -> usize {
        let fillers = (FILLER_BYTES_MAX * columns * self.rows()).min(FILLERS_BYTES_MAX);
        self.raw_bytes().min(BLOCK_RAW_BYTES_MAX) + fillers
    }

    fn model(&self, at: usize) -> Option<&'a StringModel> {
        let key = self.key_side().columns.len();
        let number = match at.checked_sub(1)? {
            // The model of key columns does not apply to keys that do not fit their layout.
            number if number < key => (!self.has_whole_keys()).then_some(number)?,
            _ if Some(at) == self.others_at() => self.columns.count() - 1,
            number => self.columns.key.columns.len() + number - key,
        };
        self.models.get(number)?.as_deref()
    }

    /// Decodes a number of the tag column.
    #[inline]
    pub(super) fn tag_of(&self, number: u64) -> Result<(Tag, bool), BadBlock> {
        const BAD: BadBlock = BadBlock("a row has an unknown tag");
        let in_columns = number & IN_COLUMNS != 0;
        let tag = u8::try_from(number & !IN_COLUMNS).ok().and_then(Tag::from_disk).ok_or(BAD)?;
        if in_columns && (self.flags & VALUES == 0 || tag.without_fresh() != Tag::PUT) {
            return Err(BAD);
        }
        Ok((tag, in_columns))
    }
}
