//! The table at the end of a blob's extent: the length of the value, and its pieces.
//!
//! Invariants
//! 1. The table is verified against the reference before one byte of it is parsed.
//! 2. Pieces are contiguous from the start of the extent, all before the table, and all of the same
//!    raw length except the last, which is not longer.

use super::BlobRef;
use crate::{
    block::{BLOCK_RAW_BYTES_MAX, Codec},
    bounds,
    coding::Reader,
    error::{Error, Result},
    page::{StoreFile, page_hash},
};

const MAGIC: [u8; 4] = *b"FBlb";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
pub(super) const WHAT: &str = "a blob";

/// Length of a table with this many pieces.
pub(super) fn bytes(pieces: u32) -> usize {
    HEADER_BYTES + pieces as usize * ENTRY_BYTES
}

/// One piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// XXH3-64 of the stored bytes, seeded with the piece's number plus 1.
    pub hash: u64,
    pub stored_bytes: u32,
    pub codec: Codec,
}

/// The decoded table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub value_bytes: u32,
    pub piece_bytes: u32,
    pub entries: Vec<Entry>,
}

/// The hash of piece `index` as stored. Its place is covered by the hash of the table, through the
/// identity.
pub(super) fn piece_hash(index: usize, stored: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(stored, index as u64 + 1)
}

impl Table {
    pub fn stored_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.stored_bytes)).sum()
    }

    /// Raw bytes of piece `index`.
    pub fn raw_bytes(&self, index: usize) -> usize {
        let before = index as u64 * u64::from(self.piece_bytes);
        u64::from(self.value_bytes).saturating_sub(before).min(self.piece_bytes.into()) as usize
    }

    pub fn to_disk(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.entries.len() * ENTRY_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, 0, 0, 0]);
        out.extend_from_slice(&self.value_bytes.to_le_bytes());
        out.extend_from_slice(&self.piece_bytes.to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.hash.to_le_bytes());
            out.extend_from_slice(&entry.stored_bytes.to_le_bytes());
            out.extend_from_slice(&[entry.codec as u8, 0, 0, 0]);
        }
        out
    }

    /// Verifies and decodes the last bytes of the extent that `reference` names.
    pub fn from_disk(file: &StoreFile, reference: &BlobRef, table: &[u8]) -> Result<Self> {
        let extent = reference.extent;
        let at = extent.end() - table.len() as u64;
        let computed = page_hash(&BlobRef::identity(file, extent), table) >> 8;
        if computed != reference.hash {
            let place = file.place(at, table.len() as u64);
            return Err(Error::Checksum { place, what: WHAT, stored: reference.hash, computed });
        }
        let parsed = Self::parse(table).filter(|table| {
            let room = u64::from(extent.bytes) - bytes(reference.pieces) as u64;
            table.entries.len() as u32 == reference.pieces && table.stored_bytes() <= room
        });
        parsed.ok_or_else(|| {
            file.malformed(at, table.len() as u64, WHAT, "its table contradicts itself")
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != MAGIC || reader.array()? != [VERSION, 0, 0, 0] {
            return None;
        }
        let (value_bytes, piece_bytes) = (reader.u32()?, reader.u32()?);
        let mut table = Self { value_bytes, piece_bytes, entries: Vec::new() };
        while !reader.rest().is_empty() {
            let hash = u64::from_le_bytes(reader.array()?);
            let stored_bytes = reader.u32()?;
            let [codec, 0, 0, 0] = reader.array()? else { return None };
            let codec = Codec::from_disk(codec)?;
            table.entries.push(Entry { hash, stored_bytes, codec });
        }
        let pieces = value_bytes.div_ceil(piece_bytes.max(1));
        let fits = (1..=BLOCK_RAW_BYTES_MAX).contains(&(piece_bytes as usize))
            && value_bytes <= bounds::VALUE_BYTES.max() as u32
            && u64::from(pieces) <= bounds::BLOB_PIECES.max()
            && pieces as usize == table.entries.len();
        // A piece that a codec did not shrink is stored raw.
        let none_grew = (0..table.entries.len())
            .zip(&table.entries)
            .all(|(index, entry)| entry.stored_bytes as usize <= table.raw_bytes(index));
        (fits && none_grew).then_some(table)
    }
}
