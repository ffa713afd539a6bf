//! Page tables: payloads by number, each in a page of its own, under two levels of index pages.
//!
//! The simple form of a directory is one page with everything in it. A checkpoint then writes all
//! of it for one changed entry, and the page can outgrow the longest page that readers accept,
//! which is noticed only when it is read. With a page table, a checkpoint writes the payloads that
//! changed, the index pages above them, and nothing else. An older table stays readable as long as
//! its pages are kept, so a named snapshot is one link to a root.
//!
//! ```text
//! root page ─► index pages, 256 payloads each ─► payload pages
//! ```
//!
//! Invariants
//! 1. Pages are copied on write: a changed page gets a new place, its parents too, so that no child
//!    is born after its parent (Rule: I20).
//! 2. There is no empty index page; a table without payloads has no root.
//! 3. Arbitrary bytes yield a table or an error: there are two levels, numbers ascend, and a reader
//!    reads no more bytes of pages than the file has (P20).
//!
//! Threads: values. Cost of a change: one payload page and two index pages. Bytes: docs/format.md,
//! "Page table".

use std::collections::BTreeMap;

use super::{
    codec::{Decoded, Reader},
    page::Page,
    space::STORE_LINEAGE,
    space_map::root_fits,
    superblock::{PAGE_BYTES_MAX, Superblock},
};
use crate::{
    coding::put_varint,
    error::{Error, Result},
    io::ALIGN,
    page::{Link, StoreFile, sealed},
    sync::Arc,
    types::VersionNumber,
};

/// Payloads under one index page. (The root has all index pages.)
const FANOUT: u32 = 256;
/// Upper bound of the numbers, so that the root page stays below 8 MiB.
pub(super) const NUMBERS: u32 = 1 << 26;
/// First byte of an index page.
const INDEX_PAGE: u8 = 2;
const UNIT: u64 = ALIGN as u64;
/// The name of a table's page in errors.
pub(super) const WHAT: &str = "the root directory";

/// Reads the page of a link; `None` leaves it out.
pub(super) type ReadPage<'a, 'f> = dyn FnMut(&Link) -> Result<Option<(&'f StoreFile, Page)>> + 'a;

/// The places of the pages of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PageTable {
    /// By the number of the first payload divided by [`FANOUT`]. Shared with older tables, so a
    /// copy is cheap.
    indexes: BTreeMap<u32, Arc<Index>>,
    root: Option<Link>,
}

/// An index page.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Index {
    link: Link,
    payloads: BTreeMap<u32, Link>,
}

/// The pages that a checkpoint writes and replaces.
pub(super) trait PutPage {
    /// Writes a page.
    fn put(&mut self, payload: &[u8]) -> Result<Link>;
    /// Records that a page is in no later version.
    fn replaced(&mut self, link: Link);
}

impl PageTable {
    /// The root page; `None` if the table is empty.
    pub fn root(&self) -> Option<Link> {
        self.root
    }

    /// The numbers that have a payload.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.indexes.values().flat_map(|index| index.payloads.keys().copied())
    }

    /// Writes payloads in place of those of the same numbers; `None` removes one. All others stay.
    pub fn update(
        &mut self,
        changes: impl IntoIterator<Item = (u32, Option<Vec<u8>>)>,
        pages: &mut dyn PutPage,
    ) -> Result<()> {
        let mut by_index: BTreeMap<u32, Vec<(u32, Option<Vec<u8>>)>> = BTreeMap::new();
        for (number, payload) in changes {
            assert!(number < NUMBERS, "page tables have numbers below {NUMBERS}");
            by_index.entry(number / FANOUT).or_default().push((number, payload));
        }
        let mut is_changed = false;
        for (index, changes) in by_index {
            is_changed |= self.update_index(index, changes, pages)?;
        }
        if !is_changed {
            return Ok(());
        }
        self.root.take().into_iter().for_each(|link| pages.replaced(link));
        if !self.indexes.is_empty() {
            let indexes = self.indexes.iter().map(|(number, index)| (number, &index.link));
            let root = seal_index(indexes, 0..NUMBERS / FANOUT)?;
            self.root = Some(pages.put(&root)?);
        }
        Ok(())
    }

    /// Updates one index page and its payloads; false if nothing changed.
    fn update_index(
        &mut self,
        number: u32,
        changes: Vec<(u32, Option<Vec<u8>>)>,
        pages: &mut dyn PutPage,
    ) -> Result<bool> {
        let old = self.indexes.get(&number);
        let mut payloads = old.map(|index| index.payloads.clone()).unwrap_or_default();
        let mut is_changed = false;
        for (number, payload) in changes {
            let old = payloads.remove(&number);
            is_changed |= old.is_some() || payload.is_some();
            old.into_iter().for_each(|link| pages.replaced(link));
            if let Some(payload) = payload {
                payloads.insert(number, pages.put(&payload)?);
            }
        }
        if !is_changed {
            return Ok(false);
        }
        let old = self.indexes.remove(&number);
        old.into_iter().for_each(|index| pages.replaced(index.link));
        if !payloads.is_empty() {
            let first = number * FANOUT;
            let link = pages.put(&seal_index(&payloads, first..first + FANOUT)?)?;
            self.indexes.insert(number, Arc::new(Index { link, payloads }));
        }
        Ok(true)
    }

    /// Reads a table and passes each payload on with its number and link. Pages that `read` leaves
    /// out are not in the returned table, nor is anything below them.
    pub fn load(
        root: Option<Link>,
        bounds: &mut Bounds,
        read: &mut ReadPage<'_, '_>,
        payload: &mut dyn FnMut(u32, &Link, &[u8]) -> Decoded<()>,
    ) -> Result<Self> {
        let mut table = Self { root, ..Self::default() };
        let Some(root) = root else { return Ok(table) };
        let Some((file, page)) = read(&root)? else { return Ok(table) };
        let indexes = bounds.index(file, &root, &page, 0..NUMBERS / FANOUT)?;
        drop(page);
        for (index, link) in indexes {
            let mut payloads = BTreeMap::new();
            if let Some((file, page)) = read(&link)? {
                let first = index * FANOUT;
                payloads = bounds.index(file, &link, &page, first..first + FANOUT)?;
            }
            for (&number, link) in &payloads {
                let Some((file, page)) = read(link)? else { continue };
                payload(number, link, &page).map_err(|why| malformed(file, link, why))?;
            }
            table.indexes.insert(index, Arc::new(Index { link, payloads }));
        }
        Ok(table)
    }

    /// All pages of the table.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        let indexes = self.indexes.values();
        let below =
            indexes.flat_map(|index| std::iter::once(&index.link).chain(index.payloads.values()));
        self.root.iter().chain(below)
    }
}

/// Bounds on the pages of a table, given by the superblock that links them.
pub(super) struct Bounds {
    superblock: Superblock,
    /// Bytes of pages that may still be linked: pages do not overlap.
    bytes_left: u64,
}

impl Bounds {
    /// The bounds of the version in a slot.
    pub fn of(superblock: &Superblock) -> Self {
        Self { superblock: *superblock, bytes_left: superblock.totals.file_bytes }
    }

    /// The superblock from which the bounds come.
    pub fn superblock(&self) -> Superblock {
        self.superblock
    }

    /// Fails, with the reason in words, if a page born at `parent` cannot have this link.
    pub fn check(&mut self, link: &Link, parent: VersionNumber) -> Decoded<()> {
        let fits = root_fits(&self.superblock, link)
            && link.bytes <= PAGE_BYTES_MAX
            && link.birth <= parent
            && link.lineage == STORE_LINEAGE;
        let left = self.bytes_left.checked_sub(link.bytes.into()).filter(|_| fits);
        self.bytes_left = left.ok_or_else(|| format!("a page at {} cannot be", link.offset))?;
        Ok(())
    }

    fn index(
        &mut self,
        file: &StoreFile,
        own: &Link,
        page: &[u8],
        numbers: std::ops::Range<u32>,
    ) -> Result<BTreeMap<u32, Link>> {
        let decoded = decode_index(page, numbers).and_then(|below| {
            below.values().try_for_each(|link| self.check(link, own.birth))?;
            Ok(below)
        });
        decoded.map_err(|why| malformed(file, own, why))
    }
}

/// The error for a malformed page of a table.
pub(super) fn malformed(file: &StoreFile, link: &Link, why: String) -> Error {
    file.malformed(link.offset, u64::from(link.bytes), WHAT, why)
}

/// Appends a link to one of the store's own pages.
pub(super) fn put_page_link(out: &mut Vec<u8>, link: &Link) {
    put_varint(out, link.offset / UNIT);
    put_varint(out, u64::from(link.bytes) / UNIT);
    put_varint(out, link.birth.0);
    out.extend_from_slice(&link.hash.to_le_bytes());
}

/// Decodes what [`put_page_link`] wrote.
pub(super) fn page_link(reader: &mut Reader<'_>) -> Decoded<Link> {
    let in_units = |units: u64| units.checked_mul(UNIT).ok_or("a page beyond any file");
    let offset = in_units(reader.number()?)?;
    let bytes = u32::try_from(in_units(reader.number()?)?).map_err(|_| "a page of any length")?;
    let birth = VersionNumber(reader.number()?);
    let hash = reader.u64()?;
    Ok(Link { offset, bytes, footer_bytes: bytes, hash, birth, lineage: STORE_LINEAGE })
}

/// Returns the page, or an error if its reader would refuse it.
pub(super) fn seal<T>(page: Vec<u8>, read: impl FnOnce(&[u8]) -> Decoded<T>) -> Result<Vec<u8>> {
    if !plant!("store: the root directory is written unread") {
        sealed(WHAT, read(&page))?;
    }
    Ok(page)
}

fn seal_index<'a>(
    below: impl IntoIterator<Item = (&'a u32, &'a Link)>,
    numbers: std::ops::Range<u32>,
) -> Result<Vec<u8>> {
    seal(encode_index(below), |page| decode_index(page, numbers))
}

fn encode_index<'a>(below: impl IntoIterator<Item = (&'a u32, &'a Link)>) -> Vec<u8> {
    let mut out = vec![INDEX_PAGE];
    let mut expected = 0;
    for (&number, link) in below {
        put_varint(&mut out, u64::from(number - expected));
        expected = number + 1;
        put_page_link(&mut out, link);
    }
    out
}

fn decode_index(page: &[u8], numbers: std::ops::Range<u32>) -> Decoded<BTreeMap<u32, Link>> {
    let mut reader = Reader::new(page);
    if reader.u8()? != INDEX_PAGE {
        return Err("it is no index page".into());
    }
    let mut below = BTreeMap::new();
    let mut expected = 0;
    while !reader.is_empty() {
        let number = reader.number_u32()?.checked_add(expected);
        let number = number.filter(|number| numbers.contains(number));
        let number = number.ok_or("a number that belongs under another index page")?;
        expected = number + 1;
        below.insert(number, page_link(&mut reader)?);
    }
    if below.is_empty() {
        return Err("an index page without entries".into());
    }
    Ok(below)
}
