//! A dictionary: bytes that the blocks of a run have in common, which zstd has before it reads a block.
//!
//! A block of 16 KiB is short for zstd: by itself it begins from nothing. The dictionary stands in the tail of each
//! run that has blocks under it, so that a run is read by itself.
//!
//! It is content and nothing else, what zstd calls a raw one: no tables of codes stand before it. So it takes no
//! preparing to decode with it, no memory but its own, and there is nothing in it that could be malformed.
//!
//! Invariants
//! 1. A dictionary never changes. What is under one can be read under an equal one.
//! 2. It has [`DICTIONARY_BYTES_MIN`] to [`DICTIONARY_BYTES_MAX`] bytes, and does not begin as one with tables does.
//!
//! Threads: all. Bytes: docs/format.md, "Run". Why: docs/design/018-dictionaries-for-small.md.

mod train;

use std::fmt;

use zstd::zstd_safe::CDict;

pub use self::train::train;
use super::Codec;
use crate::{
    coding::{Reader, put_bytes, put_varint},
    layout::Flaw,
    sync::Arc,
};

/// Longest dictionary that is read, and shortest.
const DICTIONARY_BYTES_MAX: usize = 64 << 10;
const DICTIONARY_BYTES_MIN: usize = 8;
/// How a dictionary begins that has tables.
const WITH_TABLES: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// A dictionary.
pub struct Dictionary {
    bytes: Box<[u8]>,
    /// As it stands in a tail.
    stored: Box<[u8]>,
}

/// How it stands in a tail may differ.
impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Dictionary {}

/// A dictionary, prepared for encoding: 100 us of work and some hundred KiB, so there is one while a run is written.
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
    /// The dictionary of these bytes, if they can be one.
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

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As the tail of a run keeps it.
    pub fn to_disk(&self) -> &[u8] {
        &self.stored
    }

    /// Reads what [`to_disk`](Self::to_disk) gave, which must fill `stored`.
    pub fn from_disk(stored: &[u8]) -> Result<Self, Flaw> {
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

fn unpacked(stored: &[u8]) -> Result<Vec<u8>, Flaw> {
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

fn flaw(why: &str) -> Flaw {
    Flaw::Malformed { what: "its dictionary", why: why.into() }
}
