//! Compression dictionaries: bytes that the blocks of a run have in common, which zstd gets before
//! it reads a block.
//!
//! A block of 16 KiB is short for zstd: without a dictionary it starts from nothing. The dictionary
//! is in the footer of each run that has blocks which use it, so that a run can be read by itself.
//!
//! It is pure content, what zstd calls a raw dictionary: no entropy tables precede it. So decoding
//! with it needs no preparation and no memory but its own, and nothing in it can be malformed.
//!
//! Invariants
//! 1. A dictionary never changes. A block that uses one can be read with an equal one.
//! 2. It has [`DICTIONARY_BYTES_MIN`] to [`DICTIONARY_BYTES_MAX`] bytes, and does not start like a
//!    dictionary with tables.
//!
//! Threads: all. Bytes: docs/format.md, "Run". Why: docs/design/018-dictionaries-for-small.md.

mod train;

use std::fmt;

use zstd::zstd_safe::CDict;

pub use self::train::train;
use super::Codec;
use crate::{
    coding::{Reader, put_bytes, put_varint},
    layout::DecodeError,
    sync::Arc,
};

/// The longest dictionary that is read, and the shortest.
const DICTIONARY_BYTES_MAX: usize = 64 << 10;
const DICTIONARY_BYTES_MIN: usize = 8;
/// The magic number at the start of a dictionary with tables.
const WITH_TABLES: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// A raw zstd dictionary.
pub struct Dictionary {
    bytes: Box<[u8]>,
    /// The bytes as stored in a footer.
    stored: Box<[u8]>,
}

/// The stored forms of equal dictionaries may differ.
impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Dictionary {}

/// A dictionary prepared for encoding: this takes 100 us and a few hundred KiB, so it exists only
/// while a run is written.
pub struct DictionaryEncoder {
    dictionary: Arc<Dictionary>,
    pub(super) encoder: CDict<'static>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.bytes.len())
    }
}

impl fmt::Debug for DictionaryEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dictionary.fmt(f)
    }
}

impl Dictionary {
    /// Creates the dictionary of these bytes, if they can be one.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let mut encoded = Vec::new();
        let codec = Codec::Zstd3.encode(&bytes, &mut encoded);
        let mut stored = Vec::new();
        put_varint(&mut stored, bytes.len() as u64);
        stored.push(codec as u8);
        put_bytes(&mut stored, if codec == Codec::Raw { &bytes } else { &encoded });
        Self::of(bytes, stored.into())
    }

    fn of(bytes: Vec<u8>, stored: Box<[u8]>) -> Option<Self> {
        let fits = (DICTIONARY_BYTES_MIN..=DICTIONARY_BYTES_MAX).contains(&bytes.len())
            && !bytes.starts_with(&WITH_TABLES);
        fits.then(|| Self { bytes: bytes.into(), stored })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as the footer of a run keeps them.
    pub fn to_disk(&self) -> &[u8] {
        &self.stored
    }

    /// Reads what [`to_disk`](Self::to_disk) returned, which must fill `stored`.
    pub fn from_disk(stored: &[u8]) -> Result<Self, DecodeError> {
        let bytes = unpacked(stored)?;
        Self::of(bytes, stored.into()).ok_or_else(|| flaw("it is none that a run may have"))
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + self.stored.len()
    }
}

impl DictionaryEncoder {
    /// Prepares a dictionary for encoding blocks.
    pub fn new(dictionary: Arc<Dictionary>) -> Option<Self> {
        let encoder = CDict::try_create(&dictionary.bytes, Codec::DICTIONARY_LEVEL)?;
        Some(Self { dictionary, encoder })
    }

    /// The dictionary.
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }
}

fn unpacked(stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let short = || flaw("it is cut short");
    let mut reader = Reader::new(stored);
    let bytes = reader.varint().ok_or_else(short)?;
    let codec = reader.u8().and_then(Codec::from_disk);
    let codec = codec.ok_or_else(|| flaw("an unknown codec"))?;
    let encoded = reader.bytes().ok_or_else(short)?;
    if bytes > DICTIONARY_BYTES_MAX as u64 || !reader.rest().is_empty() {
        return Err(flaw("an impossible length"));
    }
    if codec == Codec::Raw && encoded.len() as u64 != bytes {
        return Err(flaw("an impossible length"));
    }
    let mut out = vec![0; bytes as usize];
    codec.decode(encoded, &mut out).map_err(|bad| flaw(bad.0))?;
    Ok(out)
}

fn flaw(why: &str) -> DecodeError {
    DecodeError::Malformed { what: "its dictionary", why: why.into() }
}
