//! Which columns a tree's layouts make.
//!
//! A fixed part of up to eight bytes is a column of integers, whose order is that of the bytes. A wider one
//! that is said to be an integer (decimals, numbers of 128 bits) is as many such columns as it has words of
//! eight bytes, the last shorter; any other wide part is a column of strings, for which GUIDs, dates and
//! codes have short forms. Variable parts are strings: in a key as they stand, with what ends them, so that
//! no part is the beginning of another and comparing part by part is comparing keys; in a value a
//! length that stands before a part is left out.
//!
//! The version that values name is a column of one number; a row that names another does not fit, whatever else it holds,
//! so that a number of a column means the same part in all rows of a block.
//!
//! Invariants
//! 1. The bytes of the columns of a row that fits, one after the other, are the row's (with the lengths).
//! 2. No string that a column of a key may hold is a proper prefix of another, but in the last column.

use crate::{
    block::column::Float,
    layout::{End, Hint, Layout, Part, VERSION_BYTES},
    sync::Arc,
};

/// Widest integer that is cut into words.
const INTEGER_BYTES_MAX: u16 = 32;

/// What a column holds of each row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    /// So many bytes, 1 to 8, as a big-endian number; whether it is a float.
    Word(u8, Option<Float>),
    /// A part as it stands.
    String(Part),
    /// The content of a part that has its length before it.
    Content,
}

/// One column, and the part that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub part: u16,
    pub holds: Holds,
}

/// The columns of a key or of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Side {
    pub columns: Vec<Column>,
    /// Their numbers.
    pub all: Vec<u16>,
    /// Length of a row, and where each column begins in it, if all are words.
    pub width: Option<usize>,
    pub offsets: Vec<u32>,
    /// Of values that name their version: what every row begins with that fits. Column 0 has it.
    pub version: Option<u16>,
}

/// The columns of a tree's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Of keys and of values: what the columns follow from.
    layouts: (Layout, Layout),
    /// A hash of these: columns of different layouts have different ones.
    stamp: u64,
    pub(super) key: Side,
    /// Of keys that do not fit.
    pub(super) whole_key: Side,
    pub(super) value: Side,
}

/// Which parts of values are to be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Projection {
    /// All of them.
    #[default]
    All,
    /// None.
    Nothing,
    /// Those made by [`Columns::project`].
    Columns(Wanted),
}

/// Some columns of values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Of which columns; in blocks of others, whole values are read.
    stamp: u64,
    /// Their numbers, ascending; each cursor keeps them.
    numbers: Arc<[u16]>,
}

impl Column {
    /// How many bytes of a key or value the column takes, whose rest this is.
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

    /// Whether the column may hold this string.
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

    /// Whether a row names the version that all have which fit; true if none names one.
    #[inline]
    pub fn is_of_version(&self, row: &[u8]) -> bool {
        self.version.is_none_or(|version| {
            row.starts_with(&version.to_be_bytes()) || plant!("layout: a row of any version fits")
        })
    }

    /// Cuts a row at the ends of its columns, and appends these, counted from `base`, to `ends`. False,
    /// and `ends` as it was, if the row does not fit.
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

    /// Whether some column holds strings, so that a block has bytes for a codec.
    pub fn has_strings(&self) -> bool {
        self.key.width.is_none() || self.value.width.is_none()
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        let sides = [&self.key, &self.whole_key, &self.value];
        let columns = sides.iter().map(|side| side.columns.len()).sum::<usize>();
        size_of::<Self>() + columns * (size_of::<Column>() + size_of::<Part>() + 8)
    }

    /// How many columns have a number, and may have a model: those of the key, of the value, and that of
    /// other payloads.
    pub fn count(&self) -> usize {
        self.key.columns.len() + self.value.columns.len() + 1
    }

    /// Whether a value fits.
    #[cfg(test)]
    pub fn fits(&self, value: &[u8]) -> bool {
        self.value.cut(value, 0, &mut Vec::new())
    }

    /// Reads these parts of values only. A value is then these parts, in the order of the layout; one that
    /// did not fit the layout comes whole ([`TypedRows::is_whole`](super::TypedRows::is_whole)).
    pub fn project(&self, parts: &[u16]) -> Projection {
        let columns = (0..).zip(&self.value.columns);
        let wanted = columns.filter(|(_, column)| parts.contains(&column.part));
        match wanted.map(|(number, _)| number).collect::<Vec<_>>() {
            none if none.is_empty() => Projection::Nothing,
            numbers => Projection::Columns(Wanted { stamp: self.stamp, numbers: numbers.into() }),
        }
    }

    /// What a projection is in blocks with these columns: one made for others says nothing of them, and whole values
    /// are read.
    #[inline]
    pub fn projection<'a>(&self, projection: &'a Projection) -> &'a Projection {
        match projection {
            Projection::Columns(wanted) if wanted.stamp != self.stamp => &Projection::All,
            projection => projection,
        }
    }

    /// The columns of the value that a projection wants, which is one of these columns.
    #[inline]
    pub(super) fn wanted<'a>(&'a self, projection: &'a Projection) -> &'a [u16] {
        match projection {
            Projection::All => &self.value.all,
            Projection::Nothing => &[],
            Projection::Columns(wanted) => &wanted.numbers,
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
