//! Blobs: values too long to travel through log, memtables and merges.
//!
//! A long value is written once, into an extent of its own, before the commit that needs it is in
//! the log. The commit carries a [`BlobRef`] of 16 bytes, the payload of a PutBlob.
//!
//! ```text
//! extent = pieces, each encoded by itself | zeros | table
//! table  = header 16 | 16 for each piece: hash 8, stored length 4, codec 1, 0 0 0
//! ```
//!
//! The zeros fill the extent: less than a page.
//!
//! Life of a blob
//! 1. [`Blob::write`] allocates a *temporary* extent, in no space map, and a [`BlobHold`] on it.
//!    Everything that may still hand the reference out keeps the hold: a batch, then the memtable,
//!    a tree job.
//! 2. The commit's record names the extent, so that recovery finds it in use; it stays until that
//!    record is trimmed for the older slot, too (Rule: I11).
//! 3. The first publish whose runs list it makes it part of that version (Rule: I20). From then on
//!    it lives as a page does: the space map counts the runs that list it, and with the last of
//!    them it dies (Rules: I18, I22).
//! 4. A blob that no run ever listed becomes free when its last hold is dropped and the log
//!    releases it.
//!
//! Invariants
//! 1. What a reference names is never changed; its bytes are synced before a record that names it
//!    can reach the disk.
//! 2. The reference contains a hash of the table, the table one of each piece: every byte is
//!    verified before it is decoded, and former or misdirected content does not verify.
//! 3. Memory is bounded by pieces, except for a value that a caller requests whole.
//!
//! Threads: all. Bytes: docs/format.md, "Blob extent".

mod hold;
mod read;
mod table;
#[cfg(test)]
mod tests;
mod verify;
mod write;

pub use hold::BlobHold;
pub use read::Blob;
pub use verify::BlobCheck;
pub use write::BlobOptions;

use crate::{
    bounds,
    error::Result,
    io::ALIGN,
    page::{Identity, Link, PageKind, StoreFile},
    store::Extent,
    types::{Lineage, VersionNumber},
};

/// Length of an encoded reference.
pub const BLOB_REF_BYTES: usize = 16;
/// Raw bytes of a piece, except in tests. 256 KiB: long enough for codec and disk, short enough for
/// a reader's memory; 1 GiB has as many pieces as a reference can count.
pub const BLOB_PIECE_BYTES: usize = 256 << 10;
/// Maximum number of pages of an extent: 1 GiB that no codec shrinks, and its table.
const PAGES_MAX: u32 = bounds::BLOB_PAGES.default as u32;
/// References can name pages below this number: files of 4 PiB.
const PAGE_NUMBER_MAX: u64 = bounds::BLOB_PAGE_NUMBER.default;

/// The place of a blob, and the hash of its table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlobRef {
    extent: Extent,
    pieces: u32,
    /// The upper 56 bits of the table's hash.
    hash: u64,
}

impl BlobRef {
    /// The extent.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The extent and its table as a link, for copies, which identify pages by their links. It
    /// differs from the space map's record, since neither version nor lineage is known here.
    pub fn link(&self) -> Link {
        let Extent { offset, bytes } = self.extent;
        let footer_bytes = table::bytes(self.pieces) as u32;
        Link {
            offset,
            bytes,
            footer_bytes,
            hash: self.hash,
            birth: VersionNumber(0),
            lineage: Lineage(0),
        }
    }

    /// Encodes the reference: page number (5 bytes), pages and pieces (4), hash (7).
    pub fn to_disk(&self) -> [u8; BLOB_REF_BYTES] {
        let page = self.extent.offset / ALIGN as u64;
        let pages = self.extent.bytes / ALIGN as u32;
        let counts = pages | (self.pieces - 1) << 20;
        let mut out = [0; BLOB_REF_BYTES];
        out[..5].copy_from_slice(&page.to_le_bytes()[..5]);
        out[5..9].copy_from_slice(&counts.to_le_bytes());
        out[9..].copy_from_slice(&self.hash.to_le_bytes()[..7]);
        out
    }

    /// Decodes a reference; `None` if no blob can have it.
    pub fn from_disk(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOB_REF_BYTES] = bytes.try_into().ok()?;
        let number = |from: usize, to: usize| {
            let mut long = [0; 8];
            long[..to - from].copy_from_slice(&bytes[from..to]);
            u64::from_le_bytes(long)
        };
        let (page, counts, hash) = (number(0, 5), number(5, 9) as u32, number(9, 16));
        let (pages, pieces) = (counts & PAGES_MAX, (counts >> 20) + 1);
        let extent = Extent { offset: page * ALIGN as u64, bytes: pages * ALIGN as u32 };
        (page > 0 && table::bytes(pieces) <= extent.bytes as usize).then_some(Self {
            extent,
            pieces,
            hash,
        })
    }

    /// Decodes a reference; fails with an error of the store file if no blob can have it.
    pub fn read(file: &StoreFile, bytes: &[u8]) -> Result<Self> {
        Self::from_disk(bytes).ok_or_else(|| {
            file.malformed(0, bytes.len() as u64, "a reference to a blob", "no blob can have it")
        })
    }

    /// The identity of the blob's extent. It has no version or lineage, since it is written before
    /// any version links it.
    fn identity(file: &StoreFile, extent: Extent) -> Identity {
        Identity {
            store: file.store,
            kind: PageKind::Blob,
            offset: extent.offset,
            bytes: extent.bytes,
            birth: VersionNumber(0),
            lineage: Lineage(0),
        }
    }
}
