//! Links, page identities and the store file: what all modules that read pages share.
//!
//! A page is a node, a run, a map page, the root directory or a blob extent: contiguous bytes of
//! the store, written once. Its parent's [`Link`] holds its place and the hash of its bytes, so
//! that a lost, misdirected or stale write is detected (docs/safety.md §3.1).
//!
//! Invariants
//! 1. A page's hash covers its identity: store, kind, place, length, birth, lineage. The right
//!    bytes in the wrong place do not verify; zeros never do.
//! 2. Offsets and lengths of pages are multiples of [`ALIGN`](crate::io::ALIGN).
//! 3. Bytes are verified before they are parsed.
//! 4. What is written can be read: each page passes its reader's own checks before it is written
//!    ([`sealed`]).
//!
//! Threads: all. Bytes: docs/format.md, "Link" and "Checksums".

use std::path::{Path, PathBuf};

use crate::{
    error::{Error, Place, Result},
    io::{AlignedBuf, File},
    layout::DecodeError,
    sync::{Arc, AtomicU64, Ordering},
    types::{Lineage, StoreId, VersionNumber},
};

/// What a page is. The numbers are on disk, inside every checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// Inner node of a tree.
    Node = 1,
    /// Run: leaf, buffer run, spill.
    Run = 2,
    /// Page of the space map.
    Map = 3,
    /// Root directory.
    Directory = 4,
    /// Blob extent.
    Blob = 5,
    /// Superblock slot.
    Superblock = 6,
}

/// A parent's knowledge of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Link {
    /// Byte offset of the extent.
    pub offset: u64,
    /// Length of the extent.
    pub bytes: u32,
    /// Length of the hashed part, at the end of the extent: the footer of a run, or the table of a
    /// blob; for a whole page (`store/page.rs`), `bytes`.
    pub footer_bytes: u32,
    /// [`page_hash`] of the hashed part.
    pub hash: u64,
    /// The version that first linked the page.
    pub birth: VersionNumber,
    /// The lineage that wrote the page.
    pub lineage: Lineage,
}

/// Length of a link on disk.
pub const LINK_BYTES: usize = 36;

impl Link {
    /// The bytes on disk: all fields in order, little-endian.
    pub fn to_disk(&self) -> [u8; LINK_BYTES] {
        let mut out = [0; LINK_BYTES];
        out[0..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.footer_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.hash.to_le_bytes());
        out[24..32].copy_from_slice(&self.birth.0.to_le_bytes());
        out[32..36].copy_from_slice(&self.lineage.0.to_le_bytes());
        out
    }

    /// Reads a link; nothing about its content is checked.
    pub fn from_disk(b: &[u8; LINK_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Self {
            offset: long(0),
            bytes: word(8),
            footer_bytes: word(12),
            hash: long(16),
            birth: VersionNumber(long(24)),
            lineage: Lineage(word(32)),
        }
    }

    /// The identity of the page that this link names.
    pub fn identity(&self, store: StoreId, kind: PageKind) -> Identity {
        Identity {
            store,
            kind,
            offset: self.offset,
            bytes: self.bytes,
            birth: self.birth,
            lineage: self.lineage,
        }
    }
}

/// The identity of a page, which is mixed into its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The store that the page belongs to.
    pub store: StoreId,
    /// The kind of page.
    pub kind: PageKind,
    /// Byte offset of the extent.
    pub offset: u64,
    /// Length of the extent.
    pub bytes: u32,
    /// The version that first linked the page.
    pub birth: VersionNumber,
    /// The lineage that wrote the page.
    pub lineage: Lineage,
}

impl Identity {
    /// A seed that depends on every field and is never 0.
    pub fn seed(&self) -> u64 {
        let mut bytes = [0u8; 41];
        bytes[0..16].copy_from_slice(&self.store.0);
        bytes[16] = self.kind as u8;
        bytes[17..25].copy_from_slice(&self.offset.to_le_bytes());
        bytes[25..29].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[29..37].copy_from_slice(&self.birth.0.to_le_bytes());
        bytes[37..41].copy_from_slice(&self.lineage.0.to_le_bytes());
        xxhash_rust::xxh3::xxh3_64(&bytes) | 1
    }
}

/// Checksum of a page, or of a run's footer: XXH3-64 seeded with the identity.
pub fn page_hash(identity: &Identity, bytes: &[u8]) -> u64 {
    let seed = if plant!("store: identity not mixed in") { 1 } else { identity.seed() };
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// Passes on the result of the reader's own checks of a page that is about to be written; `what`
/// names the page. An error ends the work that would have written it, before anything links the
/// page (FRD-3205).
pub fn sealed<T>(what: &'static str, read: Result<T, impl Into<String>>) -> Result<T> {
    read.map_err(|why| Error::Unreadable(what, why.into()))
}

/// Feature that a reader of the store must know: columnar runs.
pub const FEATURE_COLUMNAR_RUNS: u64 = 1;
/// Feature that a reader must know: string models with templates.
pub const FEATURE_TEMPLATES: u64 = 2;
/// Feature that a reader must know: byte-shuffled (transposed) blocks in row runs.
pub const FEATURE_TRANSPOSED_BLOCKS: u64 = 4;
/// Feature that a reader must know: blocks compressed with a dictionary in row runs.
pub const FEATURE_DICTIONARIES: u64 = 8;
/// Feature that a reader must know: row counts in the root directory and in the log.
pub const FEATURE_ROW_COUNTS: u64 = 16;
/// Feature that a reader must know: a root directory of page tables, and pins of whole versions in
/// the space map.
pub const FEATURE_PAGED_DIRECTORY: u64 = 32;
/// Feature that a reader must know: sums of a tree's content in its root, and row lengths in the
/// nodes above leaves.
pub const FEATURE_SUMS: u64 = 64;
/// Feature that a reader must know: string models with alphabets.
pub const FEATURE_ALPHABETS: u64 = 128;

/// The store's file, with what is needed to read its pages and to report where they are bad.
#[derive(Debug)]
pub struct StoreFile {
    /// The open file.
    pub file: Arc<dyn File>,
    /// The name, for errors.
    pub path: PathBuf,
    /// Identity of the store.
    pub store: StoreId,
    /// Features that were required since opening.
    features: AtomicU64,
}

impl StoreFile {
    /// The file at `path` of this store.
    pub fn new(file: Arc<dyn File>, path: impl Into<PathBuf>, store: StoreId) -> Arc<Self> {
        Arc::new(Self { file, path: path.into(), store, features: AtomicU64::new(0) })
    }

    /// Requires these features of all later readers of the file: the next superblock lists them
    /// (Promise: P22). Called before the page that needs them can be linked.
    pub fn require(&self, features: u64) {
        if self.features() & features != features {
            self.features.fetch_or(features, Ordering::Relaxed);
        }
    }

    /// Features that were required since opening.
    pub fn features(&self) -> u64 {
        self.features.load(Ordering::Relaxed)
    }

    /// The name of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A location in this file, for errors.
    pub fn place(&self, offset: u64, bytes: u64) -> Place {
        Place { file: self.path.clone(), offset, bytes }
    }

    /// An [`Error::Malformed`] of this file.
    pub fn malformed(
        &self,
        offset: u64,
        bytes: u64,
        what: &'static str,
        why: impl Into<String>,
    ) -> Error {
        Error::Malformed { place: self.place(offset, bytes), what, why: why.into() }
    }

    /// The error for a page of this file that has this flaw.
    pub fn flawed(&self, offset: u64, bytes: u64, what: &'static str, flaw: DecodeError) -> Error {
        match flaw {
            DecodeError::Malformed { what: part, why } => {
                self.malformed(offset, bytes, what, format!("{part}: {why}"))
            }
            newer => newer.at(&self.path),
        }
    }

    /// Reads `bytes` bytes from `offset`; `what` names them if there is no memory for them.
    pub fn read(&self, offset: u64, bytes: u64, what: &'static str) -> Result<AlignedBuf> {
        let mut read = AlignedBuf::try_zeroed(usize::try_from(bytes).unwrap_or(usize::MAX), what)?;
        self.read_at(&mut read, offset)?;
        Ok(read)
    }

    /// Fills `buf` from `offset`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buf, offset).map_err(|e| Error::io(&self.path, "read", offset, e))
    }

    /// Writes all of `buf` at `offset`.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(buf, offset).map_err(|e| Error::io(&self.path, "write", offset, e))
    }

    /// Checks bytes of the page that `link` names against its hash.
    pub fn verify(
        &self,
        link: &Link,
        kind: PageKind,
        what: &'static str,
        footer: &[u8],
    ) -> Result<()> {
        let computed = page_hash(&link.identity(self.store, kind), footer);
        if computed == link.hash {
            return Ok(());
        }
        let skip = u64::from(link.bytes.saturating_sub(link.footer_bytes));
        Err(Error::Checksum {
            place: self.place(link.offset + skip, u64::from(link.footer_bytes)),
            what,
            stored: link.hash,
            computed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_identity_changes_the_hash() {
        let link = Link {
            offset: 1 << 33,
            bytes: 8192,
            footer_bytes: 4096,
            hash: 7,
            birth: VersionNumber(9),
            lineage: Lineage(3),
        };
        assert_eq!(Link::from_disk(&link.to_disk()), link);
        let base = link.identity(StoreId([1; 16]), PageKind::Run);
        let others = [
            Identity { store: StoreId([2; 16]), ..base },
            Identity { kind: PageKind::Node, ..base },
            Identity { offset: 1 << 32, ..base },
            Identity { bytes: 4096, ..base },
            Identity { birth: VersionNumber(8), ..base },
            Identity { lineage: Lineage(4), ..base },
        ];
        let zeros = [0u8; 512];
        for other in others {
            assert_ne!(page_hash(&base, &zeros), page_hash(&other, &zeros));
        }
        assert_ne!(page_hash(&base, &zeros), 0, "zeros do not verify by accident");
    }
}
