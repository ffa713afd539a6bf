//! Layouts: what the engine may know about the bytes of a key or a value.
//!
//! A layout is a list of parts, each of a fixed width (a big-endian unsigned integer, sign bits
//! flipped by the caller) or variable. Key order is always memcmp of the whole; a layout changes
//! how blocks encode rows, never what they mean. The layout of an unknown key or value is one
//! variable part that takes everything.
//!
//! The end of a variable part follows from the bytes alone, in one of four ways ([`End`]):
//! - **the rest**: it is the last part and takes what is left;
//! - **escaped** (keys): every 00 of the content is written 00 FF, and 00 01 ends the part. A
//!   string sorts before longer strings that start with it, and no content can look like the end;
//! - **escaped, descending** (keys): the complement of the former: FF is written FF 00, and FF FE
//!   ends the part;
//! - **prefixed** (values, where order does not matter): LEB128 length, then the content unchanged.
//!
//! The first part of a value may be the **version** of its layout: two bytes that are the same in
//! every row that fits. Such a layout can be changed while rows of older versions stay as they are
//! (`layout/versions/mod.rs`).
//!
//! Invariants
//! 1. [`Layout::split`] of bytes that do not fit the layout reports that; it never panics and never
//!    reads past them. A row that does not fit its tree's layout is stored as one uninterpreted
//!    part.
//! 2. Encoded layouts are canonical: what decodes, encodes to the same bytes again.
//!
//! Threads: plain values. Bytes: docs/format.md, "Layouts".

mod versions;

use crate::bounds;
use std::{fmt, path::Path};

use crate::{Error, Place, coding::Reader};

pub use versions::NewPart;
pub(crate) use versions::{HISTORY_BYTES_MAX, History, RowVersions, Standing};

/// The type of a fixed part, as a hint to the encodings. It is never needed to decode the part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Hint {
    /// Nothing is known.
    #[default]
    None = 0,
    /// An integer.
    Integer = 1,
    /// An IEEE float in order-preserving form.
    Float = 2,
    /// A point in time or a duration, in microseconds.
    Microseconds = 3,
}

impl Hint {
    fn from_disk(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::None,
            1 => Self::Integer,
            2 => Self::Float,
            3 => Self::Microseconds,
            _ => return None,
        })
    }
}

/// How the end of a variable part is determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum End {
    /// It ends with the key or value; only for the last part.
    Rest = 2,
    /// It ends with 00 01; a 00 of the content is encoded as 00 FF.
    Escaped = 3,
    /// It ends with FF FE; an FF of the (complemented) content is encoded as FF 00.
    EscapedDescending = 4,
    /// A LEB128 length precedes it. Values only.
    Prefixed = 5,
}

/// One part of a key or value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// This many bytes, big-endian. A null flag is `Fixed(1)`.
    Fixed(u16, Hint),
    /// Any number of bytes.
    Var(End),
    /// The version of the layout, two bytes, big-endian, the same in every row. Only as the first
    /// part of a value: see [`Layout::versioned`].
    Version(u16),
}

/// Maximum number of parts of a layout.
pub const LAYOUT_PARTS_MAX: usize = bounds::LAYOUT_PARTS.default as usize;
/// Length of the version of a layout.
pub(crate) const VERSION_BYTES: usize = 2;
/// Longest encoded layout, bytes: version, count, and four bytes per part.
pub const LAYOUT_BYTES_MAX: usize = 3 + 4 * LAYOUT_PARTS_MAX;

const VERSION: u8 = 1;
const FIXED: u8 = 1;
const NAMED: u8 = 6;

impl Part {
    /// Length of this part at the start of `bytes`, with its terminator or length prefix; `None` if
    /// the bytes do not hold one.
    pub fn bytes_in(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Part::Fixed(width, _) => {
                let width = usize::from(width);
                (bytes.len() >= width).then_some(width)
            }
            Part::Var(End::Rest) => Some(bytes.len()),
            Part::Var(End::Escaped) => escaped_bytes(bytes, 0x00),
            Part::Var(End::EscapedDescending) => escaped_bytes(bytes, 0xff),
            Part::Var(End::Prefixed) => {
                let (content, prefix) = leb128(bytes)?;
                let whole = usize::try_from(content).ok()?.checked_add(prefix)?;
                (bytes.len() >= whole).then_some(whole)
            }
            Part::Version(version) => {
                bytes.starts_with(&version.to_be_bytes()).then_some(VERSION_BYTES)
            }
        }
    }
}

/// The parts of a key or a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    parts: Vec<Part>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { parts: vec![Part::Var(End::Rest)] }
    }
}

impl Layout {
    /// A layout of these parts.
    ///
    /// ```
    /// use frond::layout::{End, Hint, Layout, Part};
    ///
    /// // A value: an id of eight bytes, then a name with a length prefix.
    /// let layout = Layout::new(vec![Part::Fixed(8, Hint::Integer), Part::Var(End::Prefixed)]);
    /// assert_eq!(layout.parts().len(), 2);
    /// ```
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// A layout of values that can be changed later without touching any row
    /// ([`Db::change_layout`](crate::Db::change_layout)): the version comes before these parts.
    /// Every value starts with its two bytes, big-endian; in a new tree they are 0. A block stores
    /// them once for all its rows.
    pub fn versioned(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: std::iter::once(Part::Version(0)).chain(parts).collect() }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The version with which rows of this layout start, if any.
    pub fn version(&self) -> Option<u16> {
        match self.parts.first() {
            Some(Part::Version(version)) => Some(*version),
            _ => None,
        }
    }

    /// Checks whether a tree can have this layout.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: no part or more than [`LAYOUT_PARTS_MAX`], a fixed part of width
    /// 0, a part that takes the rest and is not the last, or a version that is not the first.
    pub fn validate(&self) -> crate::Result<()> {
        match self.flaw() {
            None => Ok(()),
            Some(why) => Err(Error::InvalidArgument(format!("layout: {why}"))),
        }
    }

    /// Splits `bytes` into parts, and appends the end of each to `ends`. False (and `ends`
    /// unchanged) if the bytes do not fit: they are too short for a part, or some are left over.
    pub fn split(&self, bytes: &[u8], ends: &mut Vec<usize>) -> bool {
        let before = ends.len();
        let mut at = 0;
        for part in &self.parts {
            let Some(length) = bytes.get(at..).and_then(|rest| part.bytes_in(rest)) else {
                ends.truncate(before);
                return false;
            };
            at += length;
            ends.push(at);
        }
        if at != bytes.len() {
            ends.truncate(before);
        }
        at == bytes.len()
    }

    /// Appends to `ends` the ends of the leading parts that `bytes` have, whether or not all fit.
    pub(crate) fn split_leading(&self, bytes: &[u8], ends: &mut Vec<usize>) {
        let mut at = 0;
        for part in &self.parts {
            let Some(length) = bytes.get(at..).and_then(|rest| part.bytes_in(rest)) else { return };
            at += length;
            ends.push(at);
        }
    }

    /// Appends the layout in the catalog's encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.flaw().is_none(), "layouts are validated before they are kept");
        out.push(VERSION);
        out.extend_from_slice(&(self.parts.len() as u16).to_le_bytes());
        for part in &self.parts {
            match *part {
                Part::Fixed(width, hint) => {
                    out.push(FIXED);
                    out.extend_from_slice(&width.to_le_bytes());
                    out.push(hint as u8);
                }
                Part::Var(end) => out.push(end as u8),
                Part::Version(version) => {
                    out.push(NAMED);
                    out.extend_from_slice(&version.to_le_bytes());
                }
            }
        }
    }

    /// Decodes a layout, which must fill `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let malformed = |why: &str| DecodeError::Malformed { what: "layout", why: why.to_owned() };
        let too_new = |what: String| DecodeError::TooNew { what };
        let (version, rest) = bytes.split_first().ok_or_else(|| malformed("it is empty"))?;
        if *version != VERSION {
            return Err(too_new(format!("layout version {version}")));
        }
        let (count, mut rest) =
            rest.split_first_chunk::<2>().ok_or_else(|| malformed("its count is cut off"))?;
        let count = usize::from(u16::from_le_bytes(*count));
        if count > bounds::LAYOUT_PARTS.len() || count > rest.len() {
            return Err(malformed("its number of parts exceeds the limit or its length"));
        }
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let (kind, after) = rest.split_first().ok_or_else(|| malformed("a part is cut off"))?;
            rest = after;
            parts.push(match kind {
                &FIXED => {
                    let ([low, high, hint], after) = rest
                        .split_first_chunk::<3>()
                        .ok_or_else(|| malformed("a fixed part is cut off"))?;
                    rest = after;
                    let hint = Hint::from_disk(*hint)
                        .ok_or_else(|| too_new(format!("layout hint {hint}")))?;
                    Part::Fixed(u16::from_le_bytes([*low, *high]), hint)
                }
                2 => Part::Var(End::Rest),
                3 => Part::Var(End::Escaped),
                4 => Part::Var(End::EscapedDescending),
                5 => Part::Var(End::Prefixed),
                &NAMED => {
                    let (version, after) = rest
                        .split_first_chunk()
                        .ok_or_else(|| malformed("a version is cut off"))?;
                    rest = after;
                    Part::Version(u16::from_le_bytes(*version))
                }
                other => return Err(too_new(format!("layout part kind {other}"))),
            });
        }
        if !rest.is_empty() {
            return Err(malformed("bytes follow its last part"));
        }
        let layout = Self { parts };
        match layout.flaw() {
            None => Ok(layout),
            Some(why) => Err(malformed(why)),
        }
    }

    fn flaw(&self) -> Option<&'static str> {
        let before_last = self.parts.split_last().map(|(_, before)| before);
        match before_last {
            None => Some("it has no part"),
            Some(_) if !bounds::LAYOUT_PARTS.admits(self.parts.len()) => {
                Some("it has more parts than a layout can have")
            }
            Some(_) if self.parts.iter().any(|part| matches!(part, Part::Fixed(0, _))) => {
                Some("a fixed part has width 0")
            }
            Some(before) if before.contains(&Part::Var(End::Rest)) => {
                Some("a part that takes the rest is not the last")
            }
            Some(_) if self.parts.iter().skip(1).any(|part| matches!(part, Part::Version(_))) => {
                Some("a version is not the first part")
            }
            Some(_) => None,
        }
    }
}

/// The reason why stored definitions cannot be read; code that knows the file turns it into an
/// [`Error`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The bytes are malformed.
    Malformed {
        /// What was read.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A newer Frond wrote them.
    TooNew {
        /// The version or feature needed.
        what: String,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Malformed { what, why } => write!(f, "{what}: {why}"),
            DecodeError::TooNew { what } => write!(f, "it needs {what}"),
        }
    }
}

impl DecodeError {
    /// The flaw of a version that is 0 or above the known one; `None` if there is none.
    pub(crate) fn version(what: &'static str, found: u8, known: u8) -> Option<Self> {
        if found == 0 {
            Some(DecodeError::Malformed { what, why: "it has no version".into() })
        } else if found > known {
            Some(DecodeError::TooNew { what: format!("{what} version {found}") })
        } else {
            None
        }
    }

    /// The error for definitions that were read from this file.
    pub fn at(self, file: &Path) -> Error {
        match self {
            DecodeError::Malformed { what, why } => Error::Malformed {
                place: Place { file: file.to_owned(), offset: 0, bytes: 0 },
                what,
                why,
            },
            DecodeError::TooNew { what } => Error::TooNew { file: file.to_owned(), what },
        }
    }
}

/// Length of an escaped part with its terminator. `zero` is 00, or FF in a descending part.
fn escaped_bytes(bytes: &[u8], zero: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == zero)?;
        match *bytes.get(at + 1)? ^ zero {
            0x01 => return Some(at + 2),
            0xff => at += 2,
            _ => return None,
        }
    }
}

/// Decodes a LEB128 number; returns it with its length. Over-long forms are refused: one number,
/// one form.
pub(crate) fn leb128(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut reader = Reader::new(bytes);
    let value = reader.varint()?;
    let taken = bytes.len() - reader.rest().len();
    let over_long = taken > 1 && bytes.get(taken - 1) == Some(&0);
    (!over_long).then_some((value, taken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::put_varint;

    fn any_part() -> impl Strategy<Value = Part> {
        prop_oneof![
            (1u16.., 0u8..4).prop_map(|(width, hint)| {
                Part::Fixed(width, Hint::from_disk(hint).expect("a known hint"))
            }),
            Just(Part::Var(End::Escaped)),
            Just(Part::Var(End::EscapedDescending)),
            Just(Part::Var(End::Prefixed)),
        ]
    }

    fn any_layout() -> impl Strategy<Value = Layout> {
        let parts = prop::collection::vec(any_part(), 1..20);
        (parts, any::<bool>(), any::<Option<u16>>()).prop_map(|(mut parts, rest, version)| {
            if rest {
                parts.push(Part::Var(End::Rest));
            }
            if let Some(version) = version {
                parts.insert(0, Part::Version(version));
            }
            Layout::new(parts)
        })
    }

    proptest! {
        #[test]
        fn layout_round_trips(layout in any_layout()) {
            let mut bytes = Vec::new();
            layout.encode(&mut bytes);
            prop_assert!(bytes.len() <= LAYOUT_BYTES_MAX);
            prop_assert_eq!(Layout::decode(&bytes), Ok(layout));
        }

        /// Promise: P20. Invariant 2: what decodes is canonical.
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(layout) = Layout::decode(&bytes) {
                let mut again = Vec::new();
                layout.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        /// Invariant 1.
        #[test]
        fn split_stays_within_the_bytes(
            layout in any_layout(),
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..60),
        ) {
            let mut ends = Vec::new();
            if layout.split(&bytes, &mut ends) {
                prop_assert_eq!(ends.len(), layout.parts().len());
                prop_assert_eq!(ends.last(), Some(&bytes.len()));
                prop_assert!(ends.is_sorted());
            } else {
                prop_assert!(ends.is_empty());
            }
        }

        #[test]
        fn leb128_round_trips(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(leb128(&bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn every_cut_and_flip_of_an_encoded_layout_is_handled() {
        let layout = Layout::new(vec![
            Part::Fixed(8, Hint::Integer),
            Part::Var(End::Escaped),
            Part::Fixed(1, Hint::None),
            Part::Var(End::Rest),
        ]);
        let mut bytes = Vec::new();
        layout.encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(Layout::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        bytes.push(0);
        assert!(Layout::decode(&bytes).is_err());
        assert_eq!(
            Layout::decode(&[9, 0, 0]),
            Err(DecodeError::TooNew { what: "layout version 9".to_owned() })
        );
    }

    #[test]
    fn invalid_layouts_are_refused() {
        let rest_first = Layout::new(vec![Part::Var(End::Rest), Part::Var(End::Escaped)]);
        for layout in [
            Layout::new(vec![]),
            Layout::new(vec![Part::Fixed(0, Hint::None)]),
            rest_first,
            Layout::new(vec![Part::Fixed(1, Hint::None), Part::Version(0)]),
            Layout::new(vec![Part::Var(End::Prefixed); LAYOUT_PARTS_MAX + 1]),
        ] {
            assert!(matches!(layout.validate(), Err(Error::InvalidArgument(_))));
        }
        assert!(Layout::default().validate().is_ok());
    }

    #[test]
    fn over_long_leb128_is_refused() {
        assert_eq!(leb128(&[0x80, 0x00]), None);
        assert_eq!(leb128(&[0xff; 12]), None);
        assert_eq!(leb128(&[0x80]), None);
        assert_eq!(leb128(&[]), None);
    }
}
