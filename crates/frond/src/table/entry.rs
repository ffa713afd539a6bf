//! Encoding of index entries.
//!
//! | index | key | value |
//! |---|---|---|
//! | plain | extracted, escaped; row's key | – |
//! | plain, clustering | extracted, escaped; row's key | row |
//! | unique | extracted | row's key |
//! | unique, clustering | extracted | length of row's key, row's key, row |
//!
//! Invariants
//! 1. Entries of an index are ordered by their extracted bytes, then by the row's key.
//! 2. Any bytes are decoded or refused.
//!
//! Threads: plain functions. Bytes: docs/format.md, "Table definitions".

use std::ops::Bound;

use crate::{
    KeyRange,
    coding::{Reader, put_varint},
    layout::DecodeError,
    tuple::{KeyPart, KeyReader, prefix_end},
};

/// A range of keys of entries.
pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The properties of an index that determine the form of its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub unique: bool,
    pub clustering: bool,
}

/// A decoded entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry<'a> {
    pub extracted: std::borrow::Cow<'a, [u8]>,
    pub key: &'a [u8],
    /// The row, in a clustering index.
    pub row: Option<&'a [u8]>,
}

/// Appends the extracted bytes in a self-delimiting form.
pub(super) fn escape(extracted: &[u8], out: &mut Vec<u8>) {
    extracted.write(out);
}

/// Writes an entry's key that ends with the row's key.
pub(super) fn write_long_key(extracted: &[u8], key: &[u8], out: &mut Vec<u8>) {
    escape(extracted, out);
    out.extend_from_slice(key);
}

/// Decodes an entry's key that ends with the row's key.
pub(super) fn read_long_key(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), DecodeError> {
    let mut reader = KeyReader::new(bytes);
    let extracted = reader.escaped().map_err(|_| refused("a key is not delimited"))?;
    Ok((extracted.into_owned(), reader.rest()))
}

fn refused(why: &str) -> DecodeError {
    DecodeError::Malformed { what: "index entry", why: why.into() }
}

impl Form {
    pub fn write_key(self, extracted: &[u8], key: &[u8], out: &mut Vec<u8>) {
        match self.unique {
            true => out.extend_from_slice(extracted),
            false => write_long_key(extracted, key, out),
        }
    }

    pub fn write_value(self, key: &[u8], row: &[u8], out: &mut Vec<u8>) {
        if self.unique {
            if self.clustering {
                put_varint(out, key.len() as u64);
            }
            out.extend_from_slice(key);
        }
        if self.clustering {
            out.extend_from_slice(row);
        }
    }

    pub fn read<'a>(self, key: &'a [u8], value: &'a [u8]) -> Result<Entry<'a>, DecodeError> {
        if !self.unique {
            let (extracted, row_key) = read_long_key(key)?;
            let row = self.clustering.then_some(value);
            return match row.is_some() || value.is_empty() {
                true => Ok(Entry { extracted: extracted.into(), key: row_key, row }),
                false => Err(refused("an entry has a value that it should not have")),
            };
        }
        let extracted = key.into();
        if !self.clustering {
            return Ok(Entry { extracted, key: value, row: None });
        }
        let mut reader = Reader::new(value);
        let row_key = reader.bytes().ok_or_else(|| refused("a row's key is cut off"))?;
        Ok(Entry { extracted, key: row_key, row: Some(reader.rest()) })
    }

    /// The least possible key of an entry with these extracted bytes, for a cursor to seek.
    pub fn low(self, extracted: &[u8]) -> Vec<u8> {
        let mut low = Vec::new();
        self.write_key(extracted, &[], &mut low);
        low
    }

    /// A key after all entries with these extracted bytes.
    pub fn high(self, extracted: &[u8]) -> Vec<u8> {
        let mut low = self.low(extracted);
        if self.unique {
            low.push(0);
            return low;
        }
        // An escaped string ends with 01.
        prefix_end(&low).unwrap_or(low)
    }

    /// Converts a range of extracted bytes to a range of keys.
    pub fn bounds(self, range: &impl KeyRange) -> Bounds {
        let from = match range.lower() {
            Bound::Included(from) => Bound::Included(self.low(from)),
            Bound::Excluded(from) => Bound::Included(self.high(from)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match range.upper() {
            Bound::Included(to) => Bound::Excluded(self.high(to)),
            Bound::Excluded(to) => Bound::Excluded(self.low(to)),
            Bound::Unbounded => Bound::Unbounded,
        };
        (from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [Form; 4] = [
        Form { unique: false, clustering: false },
        Form { unique: false, clustering: true },
        Form { unique: true, clustering: false },
        Form { unique: true, clustering: true },
    ];
    const BYTES: [&[u8]; 7] = [b"", b"\0", b"\0\xff", b"\0\x01", b"a", b"a\0b", b"\xff\xff"];

    #[test]
    fn index_entries_round_trip() {
        for form in FORMS {
            for (extracted, key, row) in
                BYTES.iter().flat_map(|e| BYTES.iter().map(move |k| (*e, *k, &b"row"[..])))
            {
                let (mut at, mut value) = (Vec::new(), Vec::new());
                form.write_key(extracted, key, &mut at);
                form.write_value(key, row, &mut value);
                let row = form.clustering.then_some(row);
                let entry = Entry { extracted: extracted.into(), key, row };
                assert_eq!(form.read(&at, &value), Ok(entry));
            }
        }
    }

    #[test]
    fn index_entries_are_ordered_and_found_by_their_extracted_key() {
        for form in FORMS {
            let key_of = |extracted: &[u8], key: &[u8]| {
                let mut out = Vec::new();
                form.write_key(extracted, key, &mut out);
                out
            };
            for a in BYTES {
                for b in BYTES {
                    for key in BYTES {
                        let at = key_of(a, key);
                        assert_eq!(at < form.low(b), a < b, "{form:?} {a:?} {b:?}");
                        assert_eq!(at < form.high(b), a <= b, "{form:?} {a:?} {b:?}");
                    }
                }
            }
        }
    }
}
