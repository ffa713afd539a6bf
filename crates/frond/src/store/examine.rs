//! Examining a store's state piece by piece, for the check. Opening does it all at once and stops
//! at the first fault; here each slot is examined by itself.
//!
//! Invariants
//! 1. Nothing is written, whatever is called on a store that was opened here.
//! 2. Everything is read from the file; what the running engine has in memory is not used.
//!
//! Threads: all; slots are read while none is being written. Bytes: docs/format.md.

use std::path::Path;

use super::{
    STORE_FILE,
    alloc::Allocator,
    directory::{self, Directory},
    file::Store,
    guard::Guard,
    open::{FileLock, Found, no_slot, probe, read_slot},
    page_table,
    pins::NEVER,
    root_directory::RootDirectory,
    space::{Extent, Inner},
    space_map,
    superblock::{SlotRead, Superblock},
};
use crate::{
    error::{Error, Result},
    io::{Env, LockKind, OpenMode},
    page::{Link, PageKind, StoreFile},
    sync::Arc,
    types::{Lineage, VersionNumber},
};

/// The state of a superblock slot.
#[derive(Clone, Debug)]
pub enum SlotState {
    /// Intact.
    Good(Box<Superblock>),
    /// Not usable, with the reason in words.
    Bad(String),
    /// Intact, but it needs a newer Frond.
    TooNew(String),
}

/// An extent as a space map lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The place.
    pub extent: Extent,
    /// The page kind.
    pub kind: PageKind,
    /// The lineage that wrote it.
    pub lineage: Lineage,
    /// The version that first linked it.
    pub birth: VersionNumber,
    /// The first version that no longer links it, if there is one.
    pub death: Option<VersionNumber>,
    /// References from nodes for a run; runs that list it for a blob.
    pub refs: u32,
}

impl Listed {
    /// True if the page is alive, or lived in the version in which a holder keeps it.
    pub fn is_kept_for(&self, holder: Option<VersionNumber>) -> bool {
        self.death.is_none_or(|death| holder.is_some_and(|at| death > at))
    }
}

/// Versions whose pages are kept from reuse while they are examined.
#[derive(Debug)]
pub struct Held {
    store: Arc<Store>,
    versions: Vec<VersionNumber>,
}

impl Held {
    /// Takes over pins that the caller has made.
    pub(super) fn new(store: Arc<Store>, versions: Vec<VersionNumber>) -> Self {
        Self { store, versions }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for &version in &self.versions {
            self.store.space().unpin_version(version);
        }
    }
}

/// Opens the store in `dir` for examination: takes the shared lock, reads a slot for the store's
/// id, and nothing else. Its space is empty, so it cannot allocate.
pub fn examine(env: &Env, dir: &Path) -> Result<Arc<Store>> {
    let refused = |why| Err(Error::not_a_store(dir, why));
    match probe(env, dir)? {
        Found::Store => {}
        Found::Nothing => return refused("does not exist"),
        Found::Directory | Found::Unfinished(_) => return refused("holds no store"),
        Found::LogOnly => return refused("has log files but no store.frond"),
    }
    let path = dir.join(STORE_FILE);
    let mode = OpenMode { write: false, create_new: false, direct: true };
    let file = env.vfs.open(&path, mode).map_err(|e| Error::io(&path, "open", 0, e))?;
    let lock = FileLock::take(&file, dir, LockKind::Shared)?;
    let guard = Guard::new(file.clone(), true).map_err(|e| Error::io(&path, "measure", 0, e))?;
    lock.keep();
    let slots = [read_slot(&*guard, 0), read_slot(&*guard, 1)];
    let (mut id, mut ours, mut whys) = (None, false, Vec::new());
    for (index, slot) in slots.into_iter().enumerate() {
        match slot {
            SlotRead::Good(superblock) => {
                let other = id.replace(superblock.store).filter(|other| *other != superblock.store);
                if let Some(other) = other {
                    let (found, expected) = (superblock.store.to_string(), other.to_string());
                    return Err(Error::ForeignFile { file: path, found, expected });
                }
            }
            SlotRead::Bad { why, ours: magic } => {
                whys.push(format!("slot {index}: {why}"));
                ours |= magic;
            }
            SlotRead::TooNew(what) => return Err(Error::TooNew { file: path, what }),
        }
    }
    let Some(id) = id else { return Err(no_slot(&guard, &path, ours, whys.join("; "))) };
    let data = StoreFile::new(guard.clone(), &path, id);
    Ok(Arc::new(Store::new(
        env,
        dir,
        guard,
        data,
        (Inner::new(Allocator::new(0)), Directory::default()),
    )))
}

impl Store {
    /// Both slots as they are in the file.
    pub fn examine_slots(&self) -> [SlotState; 2] {
        self.between_slots(Self::slots_of)
    }

    /// Both slots, with their versions held, so that running checkpoints keep their pages.
    pub fn hold_slots(self: &Arc<Self>) -> ([SlotState; 2], Held) {
        self.between_slots(|guard| {
            let slots = Self::slots_of(guard);
            let pinned = self.space().pinned_versions();
            let publishes = slots.iter().filter_map(|slot| match slot {
                SlotState::Good(superblock) => Some(superblock.publish),
                _ => None,
            });
            // A slot that the store passed over at opening is not pinned, and cannot be pinned any
            // more.
            let versions: Vec<VersionNumber> =
                publishes.filter(|publish| pinned.contains(publish)).collect();
            versions.iter().for_each(|&version| self.space().pin_version(version));
            (slots, Held::new(self.clone(), versions))
        })
    }

    fn slots_of(guard: &Guard) -> [SlotState; 2] {
        [0, 1].map(|index| match read_slot(guard, index) {
            SlotRead::Good(superblock) => SlotState::Good(superblock),
            SlotRead::Bad { why, .. } => SlotState::Bad(why),
            SlotRead::TooNew(what) => SlotState::TooNew(what),
        })
    }

    /// The root directory of a slot, and the pages that contain it, except for its head.
    pub fn examine_roots(&self, superblock: &Superblock) -> Result<(RootDirectory, Vec<Link>)> {
        let (roots, directory) = directory::load(superblock, &mut |link| {
            let page = self.read_page(link, PageKind::Directory, page_table::WHAT)?;
            Ok(Some((&**self.file(), page)))
        })?;
        let pages = directory.links().filter(|link| Some(**link) != superblock.roots);
        Ok((roots, pages.copied().collect()))
    }

    /// The extents that a slot's space map lists, ascending, including its own pages. Those that
    /// nothing keeps are left out. All sums are checked.
    pub fn examine_space(
        &self,
        superblock: &Superblock,
        older: Option<&Superblock>,
    ) -> Result<Vec<Listed>> {
        let read = |link: &Link| self.read_page(link, PageKind::Map, "a page of the space map");
        let inner = space_map::load(self.file(), superblock, older, 0, read)?;
        let listed = inner.extents.iter().map(|(&offset, record)| Listed {
            extent: Extent { offset, bytes: record.bytes },
            kind: record.kind,
            lineage: record.lineage,
            birth: record.birth,
            death: (record.death != NEVER).then_some(record.death),
            refs: record.refs,
        });
        Ok(listed.collect())
    }
}
