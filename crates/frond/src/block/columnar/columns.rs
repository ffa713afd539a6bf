//! The columns of a tree's blocks, derived from its layouts.
//!
//! A fixed field of up to eight bytes is an integer column, whose order is that of the bytes. A
//! wider field that is declared an integer (decimals, numbers of 128 bits) becomes one such column
//! per eight bytes, the last one shorter; any other wide field is a string column, for which GUIDs,
//! dates and codes have short encodings. Variable fields are strings. In a key they are stored as
//! they are, including their terminator, so that no field is a prefix of another and comparing
//! field by field is the same as comparing keys; in a value the length in front of a field is left
//! out.
//!
//! The version that values carry is a column of one number; a row of another version does not fit,
//! whatever else it holds, so that a column number means the same field in all rows of a block.
//!
//! Invariants
//! 1. For a row that fits, the bytes of its columns, one after the other and with the lengths put
//!    back, are those of the row.
//! 2. No string that a column of a key may hold is a proper prefix of another, except in the last
//!    column.

use crate::{
    block::encoding::Float,
    layout::{End, Hint, Layout, Part, VERSION_BYTES},
    sync::Arc,
};

/// Widest integer that is split into words.
const INTEGER_BYTES_MAX: u16 = 32;

/// What a column holds of each row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    /// A big-endian number of this many bytes, 1 to 8; and the type of float, if it is one.
    Word(u8, Option<Float>),
    /// A field as it is.
    String(Part),
    /// The content of a field that has its length in front.
    Content,
}

/// One column, and the field that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub part: u16,
    pub holds: Holds,
}

/// The columns of a key or of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Side {
    pub columns: Vec<Column>,
    /// The numbers of all columns.
    pub all: Vec<u16>,
    /// If all columns are words: the length of a row, and the offset of each column in it.
    pub width: Option<usize>,
    pub offsets: Vec<u32>,
    /// For values that carry their version: what every row that fits starts with. Column 0 holds
    /// it.
    pub version: Option<u16>,
}

/// The columns of a tree's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The layouts of keys and of values, from which the columns follow.
    layouts: (Layout, Layout),
    /// A hash of the layouts: columns of different layouts have different hashes.
    stamp: u64,
    pub(super) key: Side,
    /// The single column of keys that do not fit their layout.
    pub(super) whole_key: Side,
    pub(super) value: Side,
}

/// Which fields of values are to be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ColumnSelection {
    /// All of them.
    #[default]
    All,
    /// None.
    Nothing,
    /// The fields selected by [`Columns::project`].
    Columns(Wanted),
}

/// Some columns of values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The stamp of the columns; in blocks with other columns, whole values are read.
    stamp: u64,
    /// Their numbers, ascending; each cursor keeps them.
    numbers: Arc<[u16]>,
}

impl Column {
    /// The number of bytes that the column takes of a key or value, of which `rest` is the
    /// remainder.
    #[inline]
    pub fn bytes_in(&self, rest: &[u8]) -> Option<usize> {
        match self.holds {
            Holds::Word(bytes, _) => {
                let bytes = usize::from(bytes);
                (rest.len() >= bytes).then_some(bytes)
            }
            Holds::String(part) => part.bytes_in(rest),
            Holds::Content => Part::Var(End::Prefixed).bytes_in(rest),
        }
    }

    /// True if the column may hold this string.
    pub fn may_hold(&self, string: &[u8]) -> bool {
        match self.holds {
            Holds::Word(..) => false,
            Holds::String(part) => part.bytes_in(string) == Some(string.len()),
            Holds::Content => true,
        }
    }
}

impl Side {
    fn of(layout: &Layout, is_key: bool) -> Self {
        let mut columns = Vec::new();
        for (number, &part) in (0..).zip(layout.parts()) {
            let mut push = |holds| columns.push(Column { part: number, holds });
            match part {
                Part::Fixed(width @ 1..=8, hint) => {
                    push(Holds::Word(width as u8, float(width, hint)));
                }
                Part::Fixed(width, Hint::Integer) if width <= INTEGER_BYTES_MAX => {
                    let mut left = width;
                    while left > 0 {
                        push(Holds::Word(left.min(8) as u8, None));
                        left -= left.min(8);
                    }
                }
                Part::Var(End::Prefixed) if !is_key => push(Holds::Content),
                Part::Version(_) => push(Holds::Word(VERSION_BYTES as u8, None)),
                part => push(Holds::String(part)),
            }
        }
        let (mut offsets, mut end) = (Vec::new(), Some(0));
        for column in &columns {
            let Column { holds: Holds::Word(bytes, _), .. } = column else {
                end = None;
                break;
            };
            offsets.push(end.unwrap_or(0) as u32);
            end = end.map(|end: usize| end + usize::from(*bytes));
        }
        let all = (0..columns.len() as u16).collect();
        let version = layout.version().filter(|_| !is_key);
        Self { columns, all, width: end, offsets, version }
    }

    /// True if a row has the version of the rows that fit; always true if rows carry none.
    #[inline]
    pub fn is_of_version(&self, row: &[u8]) -> bool {
        self.version.is_none_or(|version| {
            row.starts_with(&version.to_be_bytes()) || plant!("layout: a row of any version fits")
        })
    }

    /// Cuts a row at the ends of its columns, and appends these, relative to `base`, to `ends`.
    /// Returns false, with `ends` unchanged, if the row does not fit.
    pub fn cut(&self, row: &[u8], base: usize, ends: &mut Vec<u32>) -> bool {
        if !self.is_of_version(row) {
            return false;
        }
        let before = ends.len();
        let mut at = 0;
        for column in &self.columns {
            let bytes = row.get(at..).and_then(|rest| column.bytes_in(rest));
            let Some(bytes) = bytes else {
                ends.truncate(before);
                return false;
            };
            at += bytes;
            ends.push((base + at) as u32);
        }
        if at != row.len() {
            ends.truncate(before);
        }
        at == row.len()
    }
}

fn float(width: u16, hint: Hint) -> Option<Float> {
    match (hint, width) {
        (Hint::Float, 4) => Some(Float::Single),
        (Hint::Float, 8) => Some(Float::Double),
        _ => None,
    }
}

impl Columns {
    /// The columns of rows with these layouts.
    pub fn new(key: &Layout, value: &Layout) -> Self {
        let mut both = Vec::new();
        key.encode(&mut both);
        value.encode(&mut both);
        Self {
            layouts: (key.clone(), value.clone()),
            stamp: xxhash_rust::xxh3::xxh3_64(&both),
            key: Side::of(key, true),
            whole_key: Side::of(&Layout::default(), true),
            value: Side::of(value, false),
        }
    }

    /// The layouts of keys and of values.
    pub fn layouts(&self) -> (&Layout, &Layout) {
        (&self.layouts.0, &self.layouts.1)
    }

    /// True if some column holds strings, so that a block has bytes for a codec.
    pub fn has_strings(&self) -> bool {
        self.key.width.is_none() || self.value.width.is_none()
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        let sides = [&self.key, &self.whole_key, &self.value];
        let columns = sides.iter().map(|side| side.columns.len()).sum::<usize>();
        size_of::<Self>() + columns * (size_of::<Column>() + size_of::<Part>() + 8)
    }

    /// The number of columns that have a number, and may have a model: those of the key, of the
    /// value, and that of other payloads.
    pub fn count(&self) -> usize {
        self.key.columns.len() + self.value.columns.len() + 1
    }

    /// True if a value fits.
    #[cfg(test)]
    pub fn fits(&self, value: &[u8]) -> bool {
        self.value.cut(value, 0, &mut Vec::new())
    }

    /// The selection to these fields of values. A value is then these fields, in the order of the
    /// layout; one that did not fit the layout is returned whole
    /// ([`ColumnarRows::is_whole`](super::ColumnarRows::is_whole)).
    pub fn project(&self, parts: &[u16]) -> ColumnSelection {
        let columns = (0..).zip(&self.value.columns);
        let wanted = columns.filter(|(_, column)| parts.contains(&column.part));
        match wanted.map(|(number, _)| number).collect::<Vec<_>>() {
            none if none.is_empty() => ColumnSelection::Nothing,
            numbers => {
                ColumnSelection::Columns(Wanted { stamp: self.stamp, numbers: numbers.into() })
            }
        }
    }

    /// The effective selection in blocks with these columns: one made for other columns does not
    /// apply, and whole values are read.
    #[inline]
    pub fn selection<'a>(&self, selection: &'a ColumnSelection) -> &'a ColumnSelection {
        match selection {
            ColumnSelection::Columns(wanted) if wanted.stamp != self.stamp => &ColumnSelection::All,
            selection => selection,
        }
    }

    /// The columns of the value that a selection, made for these columns, selects.
    #[inline]
    pub(super) fn wanted<'a>(&'a self, selection: &'a ColumnSelection) -> &'a [u16] {
        match selection {
            ColumnSelection::All => &self.value.all,
            ColumnSelection::Nothing => &[],
            ColumnSelection::Columns(wanted) => &wanted.numbers,
        }
    }
}

/// The `bytes` bytes at `at` as a big-endian number; what lies outside reads as 0.
#[inline]
pub(super) fn word_at(from: &[u8], at: usize, bytes: u8) -> u64 {
    // Widths are 1 to 8.
    let unused = 64 - 8 * u32::from(bytes);
    let rest = from.get(at..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight) >> unused,
        None => {
            let mut eight = [0; 8];
            eight.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(eight) >> unused
        }
    }
}

/// Appends a number's last `bytes` bytes, big-endian: a move of eight bytes, whatever their number.
#[inline]
pub(super) fn put_word(word: u64, bytes: u8, out: &mut Vec<u8>) {
    let end = out.len() + usize::from(bytes);
    let unused = 64 - 8 * u32::from(bytes);
    out.extend_from_slice(&word.checked_shl(unused).unwrap_or(0).to_be_bytes());
    out.truncate(end);
}
