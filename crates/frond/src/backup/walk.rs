//! Walking all pages of a version: each is read, verified and passed on, once.
//!
//! A parent is born no earlier than what it links (Rule: I20). So a walk for the pages that were
//! born after some version need not descend below an older page, except in trees that were
//! bulk-loaded since.
//!
//! Invariants
//! 1. A page is verified before it is passed on, and before a link in it is followed. A blob is
//!    passed on in pieces, and verified once the last one was: after an error, a caller must not
//!    complete its target.
//! 2. The walk ends, whatever the pages contain: levels decrease, and a page is entered once.

use std::collections::HashSet;

use crate::{
    blob::{BlobCheck, BlobRef},
    error::{Error, Place, Result},
    page::{Link, PageKind, StoreFile},
    run,
    store::{self, Extent, Page, Store, Superblock, TreeRoot},
    tree::{Child, OTHER_LEVEL, parse_node},
    types::VersionNumber,
};

/// Bytes of a blob that are in memory at once. 1 MiB: reads that suit a fast disk.
const PIECE_BYTES: u64 = 1 << 20;

/// Callback that receives a page: its kind, its link, an offset, and its extent from that offset
/// on: all of it from byte 0, or, for a blob, piece by piece.
pub(super) type Put<'a> = dyn FnMut(PageKind, &Link, u64, &[u8]) -> Result<()> + 'a;

/// A source of pages.
pub(super) trait Pages {
    /// The file that should contain the page of a link, and the offset of its extent in it.
    fn locate(&self, link: &Link, what: &'static str) -> Result<(&StoreFile, u64)>;

    /// The first version that listed a blob, if known: references do not contain it.
    fn birth_of_blob(&self, _extent: Extent) -> Option<VersionNumber> {
        None
    }
}

impl Pages for Store {
    fn locate(&self, link: &Link, what: &'static str) -> Result<(&StoreFile, u64)> {
        Pages::locate(&**self.file(), link, what)
    }

    fn birth_of_blob(&self, extent: Extent) -> Option<VersionNumber> {
        self.space().birth_of_blob(extent)
    }
}

impl Pages for StoreFile {
    fn locate(&self, link: &Link, what: &'static str) -> Result<(&StoreFile, u64)> {
        store::check_extent(self, link, what)?;
        Ok((self, link.offset))
    }
}

/// Counts of what was passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Copied {
    pub pages: u64,
    pub bytes: u64,
}

/// A walk over the pages of a version.
pub(super) struct Walk<'a> {
    pages: &'a dyn Pages,
    since: Option<VersionNumber>,
    put: &'a mut Put<'a>,
    /// Offset and hash of what was passed on.
    seen: HashSet<(u64, u64)>,
    copied: Copied,
}

impl<'a> Walk<'a> {
    /// A walk over what was born after `since`, or over everything.
    pub fn new(pages: &'a dyn Pages, since: Option<VersionNumber>, put: &'a mut Put<'a>) -> Self {
        Self { pages, since, put, seen: HashSet::new(), copied: Copied::default() }
    }

    /// Walks over everything that a slot links.
    pub fn version(mut self, superblock: &Superblock) -> Result<Copied> {
        if let Some(link) = &superblock.map
            && let Some((file, page)) = self.page(link, PageKind::Map, "the space map")?
        {
            for zone in store::zone_pages(file, link, superblock.publish, &page)? {
                self.page(&zone, PageKind::Map, "a page of the space map")?;
            }
        }
        let roots = store::read_roots(superblock, &mut |link| self.directory_page(link))?;
        for root in roots.trees.values() {
            self.tree(root)?;
        }
        for snapshot in &roots.snapshots {
            let read = &mut |link: &Link| self.directory_page(link);
            let trees = store::read_snapshot(superblock, snapshot, read)?;
            for root in trees.values() {
                self.tree(root)?;
            }
        }
        Ok(self.copied)
    }

    fn directory_page(&mut self, link: &Link) -> Result<Option<(&'a StoreFile, Page)>> {
        self.page(link, PageKind::Directory, "the root directory")
    }

    fn tree(&mut self, root: &TreeRoot) -> Result<()> {
        let since = self.since;
        // Pages that were loaded in bulk are older than the version that adopted them: in a tree
        // loaded since, every page may be new (Rule: I20).
        if !plant!("backup: a tree that was loaded is passed by") {
            self.since = since.filter(|&since| root.loaded <= since);
        }
        let walked = match &root.link {
            None => Ok(()),
            Some(link) if root.level == 0 => self.run(link),
            Some(link) => self.node(link, root.level),
        };
        self.since = since;
        walked
    }

    fn node(&mut self, link: &Link, level: u8) -> Result<()> {
        const WHAT: &str = "node page";
        let Some((file, page)) = self.page(link, PageKind::Node, WHAT)? else { return Ok(()) };
        let node = parse_node(file, link, &page)?;
        drop(page);
        if node.level != level {
            return Err(file.malformed(link.offset, u64::from(link.bytes), WHAT, OTHER_LEVEL));
        }
        for run in node.run_refs() {
            // A leaf without entries has no extent.
            run.link().map_or(Ok(()), |link| self.run(link))?;
        }
        for child in &node.children {
            if let Child::Node(child) = child
                && let Some(link) = child.link()
            {
                self.node(link, level - 1)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, link: &Link) -> Result<()> {
        if self.passes_by(link) {
            return Ok(());
        }
        let (file, offset) = self.pages.locate(link, "a run")?;
        let bytes = file.read(offset, link.bytes.into(), "a run")?;
        let blobs = match run::verify_extent(file, link, &bytes) {
            Err(_) if plant!("backup: damage is copied") => Vec::new(),
            verified => verified.map_err(|error| lying_at(error, link.offset, offset))?,
        };
        self.hand_on(PageKind::Run, link, 0, &bytes)?;
        drop(bytes);
        for listed in blobs.into_iter().filter(|_| !plant!("backup: long values are left out")) {
            self.blob(BlobRef::read(file, &listed.reference)?)?;
        }
        Ok(())
    }

    /// Passes on a blob that a run lists. A young run may list old blobs.
    fn blob(&mut self, reference: BlobRef) -> Result<()> {
        const WHAT: &str = "a blob";
        let link = reference.link();
        let birth = self.since.and_then(|_| self.pages.birth_of_blob(reference.extent()));
        let is_old = birth.zip(self.since).is_some_and(|(birth, since)| birth <= since);
        if is_old || !self.seen.insert((link.offset, link.hash)) {
            return Ok(());
        }
        let (file, offset) = self.pages.locate(&link, WHAT)?;
        let located = |error| lying_at(error, link.offset, offset);
        let footer_bytes = reference.footer_bytes() as u64;
        let footer_at = offset + u64::from(link.bytes) - footer_bytes;
        let footer = file.read(footer_at, footer_bytes, WHAT)?;
        let mut check = BlobCheck::new(file, reference, &footer).map_err(located)?;
        let mut at = 0;
        while at < u64::from(link.bytes) {
            let bytes = PIECE_BYTES.min(u64::from(link.bytes) - at);
            let piece = file.read(offset + at, bytes, WHAT)?;
            check.take(&piece).map_err(located)?;
            self.hand_on(PageKind::Blob, &link, at, &piece)?;
            at += bytes;
        }
        check.end().map_err(located)
    }

    /// Reads and passes on a whole page; `None` if it was passed on before, or is left out.
    fn page(
        &mut self,
        link: &Link,
        kind: PageKind,
        what: &'static str,
    ) -> Result<Option<(&'a StoreFile, Page)>> {
        if self.passes_by(link) {
            return Ok(None);
        }
        let (file, offset) = self.pages.locate(link, what)?;
        let bytes = file.read(offset, link.bytes.into(), what)?;
        let page = store::verify_page(file, link, kind, what, bytes);
        let page = page.map_err(|error| lying_at(error, link.offset, offset))?;
        self.hand_on(kind, link, 0, page.extent())?;
        Ok(Some((file, page)))
    }

    fn passes_by(&mut self, link: &Link) -> bool {
        let late = u64::from(plant!("backup: an increment begins one version late"));
        self.since.is_some_and(|since| link.birth.0 <= since.0 + late)
            || !self.seen.insert((link.offset, link.hash))
    }

    fn hand_on(&mut self, kind: PageKind, link: &Link, at: u64, bytes: &[u8]) -> Result<()> {
        (self.put)(kind, link, at, bytes)?;
        self.copied.pages += u64::from(at == 0);
        self.copied.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Adjusts an error about a page that belongs at `offset` in the store but lies at `found` in the
/// file that was read.
fn lying_at(mut error: Error, offset: u64, found: u64) -> Error {
    if let Error::Checksum { place, .. }
    | Error::Malformed { place, .. }
    | Error::WrongPage { place, .. } = &mut error
    {
        let Place { offset: named, .. } = place;
        *named = found.saturating_add(named.saturating_sub(offset));
    }
    error
}
