//! Pages written before a version links them: sorted pieces that a bulk load reads again, and the
//! leaves and nodes that it makes.
//!
//! They lie in temporary extents, which no space map lists, and each is protected by a hold, as
//! blobs are (`blobs.rs`). Their owner decides whether a version adopts the pages. If none does,
//! they become free with their owner, and after a crash they are free anyway, unless the log names
//! them.
//!
//! Invariants
//! 1. Space is admitted as for a commit, with the disk measured each time: loads must not use the
//!    reserve (Rule: I24), and they would reach it between two measurements.
//! 2. All pages of one [`HeldPages`] have one birth and one lineage, which their hashes include.
//!
//! Threads: one owner; shared once complete.

use super::{
    alloc::Class,
    file::Store,
    space::{Extent, Request},
};
use crate::{
    error::Result,
    page::PageKind,
    sync::Arc,
    types::{Lineage, VersionNumber},
};

/// One extent that nothing links; freed with its owner.
#[derive(Debug)]
pub struct HeldExtent {
    store: Arc<Store>,
    extent: Extent,
}

impl HeldExtent {
    /// Allocates an extent for `request`, after admission.
    pub fn allocate(store: &Arc<Store>, request: &Request) -> Result<Self> {
        let extent = allocate(store, request)?;
        Ok(Self { store: store.clone(), extent })
    }

    /// Allocates an extent for background work, whose space was admitted with the commits that it
    /// serves.
    pub fn allocate_reserved(store: &Arc<Store>, request: &Request) -> Result<Self> {
        let extent = store.allocate_temporary(request)?;
        store.space().hold(extent.offset);
        Ok(Self { store: store.clone(), extent })
    }

    /// The extent.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

impl Drop for HeldExtent {
    fn drop(&mut self) {
        self.store.space().release_hold(self.extent.offset);
    }
}

/// Admits, then allocates, as a commit does: admission sets twice the bytes aside until the extent
/// is allocated.
fn allocate(store: &Store, request: &Request) -> Result<Extent> {
    let admitted = request.bytes.div_ceil(2);
    store.admit_measured(admitted)?;
    let extent = store.allocate_temporary(request);
    store.release_admitted(admitted);
    let extent = extent?;
    store.space().hold(extent.offset);
    Ok(extent)
}

/// Runs and nodes that one version adopts together, or none.
#[derive(Debug)]
pub struct HeldPages {
    store: Arc<Store>,
    birth: VersionNumber,
    lineage: Lineage,
    pages: Vec<(PageKind, Extent)>,
}

impl HeldPages {
    /// An empty set of pages.
    pub fn new(store: &Arc<Store>, birth: VersionNumber, lineage: Lineage) -> Self {
        Self { store: store.clone(), birth, lineage, pages: Vec::new() }
    }

    /// Takes over a page that the log names and recovery has claimed.
    pub fn hold(&mut self, kind: PageKind, extent: Extent) {
        self.store.space().hold(extent.offset);
        self.pages.push((kind, extent));
    }

    /// Takes over a run that an old log record names, if a run is still there. Whether it is the
    /// run that was meant, the caller finds out from its identity.
    pub fn hold_if_named(&mut self, extent: Extent) -> bool {
        let is_held = self.store.space().hold_named_run(extent);
        if is_held {
            self.pages.push((PageKind::Run, extent));
        }
        is_held
    }

    /// Allocates a place for one more page.
    pub fn allocate(&mut self, kind: PageKind, bytes: u64) -> Result<Extent> {
        let class = Class::of_page(kind);
        let (birth, lineage) = (self.birth, self.lineage);
        let extent = allocate(&self.store, &Request { class, kind, bytes, birth, lineage })?;
        self.pages.push((kind, extent));
        Ok(extent)
    }

    /// The version that is the pages' birth in their hashes.
    pub fn birth(&self) -> VersionNumber {
        self.birth
    }

    /// The lineage that wrote the pages.
    pub fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Kind and place of each page.
    pub fn iter(&self) -> impl Iterator<Item = (PageKind, Extent)> + '_ {
        self.pages.iter().copied()
    }

    /// Makes all pages part of the version that the next checkpoint writes.
    pub fn adopt(&self) -> Result<()> {
        self.pages
            .iter()
            .try_for_each(|(_, extent)| self.store.adopt(extent.offset, self.birth, self.lineage))
    }

    /// Records that the log record at `lsn` names all pages.
    pub fn name_in_log(&self, lsn: crate::types::Lsn) -> Result<()> {
        self.pages.iter().try_for_each(|(_, extent)| self.store.name_in_log(extent.offset, lsn))
    }

    /// The runs, each with an owner of its own, in the order in which they were made. The other
    /// pages are given up.
    pub fn into_runs(mut self) -> Vec<HeldExtent> {
        let mut runs = Vec::with_capacity(self.pages.len());
        for (kind, extent) in std::mem::take(&mut self.pages) {
            let held = HeldExtent { store: self.store.clone(), extent };
            if kind == PageKind::Run {
                runs.push(held);
            }
        }
        runs
    }
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        for (_, extent) in &self.pages {
            self.store.space().release_hold(extent.offset);
        }
    }
}
