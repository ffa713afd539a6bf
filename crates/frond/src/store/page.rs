//! Whole pages: nodes, map pages, the root directory. (Runs hash only their footer: see `run`.)
//!
//! Invariants
//! 1. A page is verified before one byte of it is parsed: the checksum in its header and the one in
//!    its parent's link are the same number, taken over all bytes after it and the page's identity.
//! 2. What a link can make a reader allocate is bounded by
//!    [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX) and by the file's length.
//!
//! Threads: pure functions. Bytes: docs/format.md, "Pages".

use std::ops::Deref;

use super::{codec::Reader, superblock::PAGE_BYTES_MAX};
use crate::{
    error::{Error, Result},
    io::{ALIGN, AlignedBuf},
    page::{Identity, Link, PageKind, StoreFile, page_hash, sealed},
    types::{Lineage, VersionNumber},
};

const MAGIC: [u8; 4] = *b"FrPg";
const VERSION: u8 = 1;
/// Length of the header before the payload.
pub(super) const HEADER_BYTES: usize = 40;
/// Start of the hashed bytes: the checksum comes first and covers everything after it.
const HASHED_FROM: usize = 8;

/// Length of the extent for a page with this many bytes of payload.
pub fn page_bytes(payload: usize) -> u64 {
    (payload as u64).saturating_add(HEADER_BYTES as u64).next_multiple_of(ALIGN as u64)
}

/// A page that was read and verified; derefs to its payload.
#[derive(Debug)]
pub struct Page {
    bytes: AlignedBuf,
    payload: usize,
}

impl Page {
    /// The whole extent, header and padding included.
    pub fn extent(&self) -> &[u8] {
        &self.bytes
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.payload]
    }
}

/// Builds the bytes of a page from the parts of its payload, and the link to it. The length in
/// `identity` must be that of the extent, and large enough for the payload.
pub(super) fn build(identity: &Identity, payload: &[&[u8]]) -> Result<(AlignedBuf, Link)> {
    let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
    assert!(page_bytes(payload_bytes) <= u64::from(identity.bytes), "the page fits its extent");
    let mut bytes = AlignedBuf::try_zeroed(identity.bytes as usize, "a page")?;
    bytes[8..12].copy_from_slice(&MAGIC);
    bytes[12] = identity.kind as u8;
    bytes[13] = VERSION;
    bytes[16..20].copy_from_slice(&identity.bytes.to_le_bytes());
    bytes[20..24].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    bytes[24..32].copy_from_slice(&identity.birth.0.to_le_bytes());
    bytes[32..36].copy_from_slice(&identity.lineage.0.to_le_bytes());
    let mut at = HEADER_BYTES;
    for part in payload {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let hash = page_hash(identity, &bytes[HASHED_FROM..]);
    bytes[..HASHED_FROM].copy_from_slice(&hash.to_le_bytes());
    let link = Link {
        offset: identity.offset,
        bytes: identity.bytes,
        footer_bytes: identity.bytes,
        hash,
        birth: identity.birth,
        lineage: identity.lineage,
    };
    Ok((bytes, link))
}

/// Builds a page as [`build`] does. Fails if it is longer than a page that readers accept; debug
/// builds also verify it.
pub(super) fn seal(
    file: &StoreFile,
    identity: &Identity,
    payload: &[&[u8]],
) -> Result<(AlignedBuf, Link)> {
    if identity.bytes > PAGE_BYTES_MAX {
        let why =
            format!("it has {} bytes, and a page has at most {PAGE_BYTES_MAX}", identity.bytes);
        return sealed("a page", Err(why));
    }
    let (bytes, link) = build(identity, payload)?;
    match cfg!(debug_assertions) {
        true => Ok((verify(file, &link, identity.kind, "a page", bytes)?.bytes, link)),
        false => Ok((bytes, link)),
    }
}

/// Verifies the bytes of a whole page that was read where `link` points. Errors name `file`.
pub fn verify(
    file: &StoreFile,
    link: &Link,
    kind: PageKind,
    what: &'static str,
    bytes: AlignedBuf,
) -> Result<Page> {
    let computed =
        page_hash(&link.identity(file.store, kind), bytes.get(HASHED_FROM..).unwrap_or_default());
    let header = Header::read(&bytes);
    let place = file.place(link.offset, u64::from(link.bytes));
    let stored = header.as_ref().map_or(0, |header| header.hash);
    let is_own = computed == link.hash && stored == link.hash;
    if !is_own && !plant!("store: checksum not verified") {
        // The bytes are a whole page that belongs at this place, but not the one that the link
        // names: it is stale, so a later write was lost.
        return Err(match header {
            Some(header) if header.verifies(file, link, &bytes) => Error::WrongPage { place, what },
            _ => Error::Checksum { place, what, stored: link.hash, computed },
        });
    }
    let malformed = |why: &str| file.malformed(link.offset, u64::from(link.bytes), what, why);
    let header = header.ok_or_else(|| malformed("no page header"))?;
    if header.is_another(link, kind) {
        return Err(malformed("its header names another page"));
    }
    let payload = header.payload as usize;
    if payload > bytes.len().saturating_sub(HEADER_BYTES) {
        return Err(malformed("its payload is longer than the page"));
    }
    Ok(Page { bytes, payload })
}

struct Header {
    hash: u64,
    kind: u8,
    version: u8,
    bytes: u32,
    payload: u32,
    birth: VersionNumber,
    lineage: Lineage,
}

impl Header {
    /// Reads a header; `None` if there is none.
    fn read(page: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(page);
        let hash = reader.u64().ok()?;
        if reader.array().ok()? != MAGIC {
            return None;
        }
        let [kind, version, _, _] = reader.array().ok()?;
        Some(Self {
            hash,
            kind,
            version,
            bytes: u32::from_le_bytes(reader.array().ok()?),
            payload: u32::from_le_bytes(reader.array().ok()?),
            birth: VersionNumber(reader.u64().ok()?),
            lineage: Lineage(u32::from_le_bytes(reader.array().ok()?)),
        })
    }

    fn is_another(&self, link: &Link, kind: PageKind) -> bool {
        self.version != VERSION
            || self.kind != kind as u8
            || self.bytes != link.bytes
            || self.birth != link.birth
            || self.lineage != link.lineage
    }

    /// True if the bytes verify as a page at this place with the identity that this header states.
    fn verifies(&self, file: &StoreFile, link: &Link, bytes: &[u8]) -> bool {
        let kinds = [PageKind::Node, PageKind::Run, PageKind::Map, PageKind::Directory];
        let Some(kind) = kinds.into_iter().find(|kind| *kind as u8 == self.kind) else {
            return false;
        };
        let identity = Identity {
            store: file.store,
            kind,
            offset: link.offset,
            bytes: self.bytes,
            birth: self.birth,
            lineage: self.lineage,
        };
        // A stale page may have been shorter than the one that should be here.
        let whole = bytes.get(HASHED_FROM..self.bytes as usize);
        whole.is_some_and(|whole| page_hash(&identity, whole) == self.hash)
    }
}
