// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at a store's state piece by piece, for the check: what opening does in one go, and stops at
//! the first fault, is done here for each slot by itself.
//!
//! Invariants
//! 1. Nothing is written, by whatever is called on a store that was opened here.
//! 2. Everything is read from the file; what the running engine remembers is not asked.
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
    io::{Env, OpenMode},
    page::{Link, PageKind, StoreFile},
    sync::Arc,
    types::{Lineage, Publish},
};

/// What a superblock slot turned out to be.
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
    /// Where.
    pub extent: Extent,
    /// What.
    pub kind: PageKind,
    /// Who wrote it.
    pub lineage: Lineage,
    /// The version that first linked it.
    pub birth: Publish,
    /// The first version that does not, if there is one.
    pub death: Option<Publish>,
    /// References from nodes, if it is a run; runs that list it, if it is a blob.
    pub refs: u32,
}

/// Versions kept from being reused while they are looked at.
#[derive(Debug)]
pub struct Held {
    store: Arc<Store>,
    versions: Vec<Publish>,
}

impl Held {
    /// Takes over pins that the caller has made.
    pub(super) fn new(store: Arc<Store>, versions: Vec<Publish>) -> Self {
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

/// Opens the store in `dir` to look at it: takes the lock, reads a slot for the store's id, and
/// nothing else. Its space is empty, it can allocate nothing.
pub fn examine(env: &Env, dir: &Path) -> Result<Arc<Store>> {
    let not_a_store = |why: &str| Err(Error::NotAStore { path: dir.into(), why: why.to_owned() });
    match probe(env, dir)? {
        Found::Store => {}
        Found::Nothing => return not_a_store("does not exist"),
        Found::Directory => return not_a_store("holds no store"),
        Found::LogOnly => return not_a_store("has log files but no store.frond"),
    }
    let path = dir.join(STORE_FILE);
    let mode = OpenMode { write: false, create_new: false, direct: true };
    let file = env.vfs.open(&path, mode).map_err(|e| Error::io(&path, "open", 0, e))?;
    let lock = FileLock::take(&file, dir)?;
    let guard = Guard::new(file.clone(), true).map_err(|e| Error::io(&path, "measure", 0, e))?;
    lock.keep();
    let slots = [read_slot(&guard, 0), read_slot(&guard, 1)];
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

    /// The same, with their versions held, so that running checkpoints let their pages be.
    pub fn hold_slots(self: &Arc<Self>) -> ([SlotState; 2], Held) {
        self.between_slots(|guard| {
            let slots = Self::slots_of(guard);
            let pinned = self.space().pinned_versions();
            let publishes = slots.iter().filter_map(|slot| match slot {
                SlotState::Good(superblock) => Some(superblock.publish),
                _ => None,
            });
            // A slot that the store passed over at opening is not pinned, and cannot be any more.
            let versions: Vec<Publish> =
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

    /// The root directory of a slot, and the pages that it lies in but for its head.
    pub fn examine_roots(&self, superblock: &Superblock) -> Result<(RootDirectory, Vec<Link>)> {
        let (roots, directory) = directory::load(superblock, &mut |link| {
            let page = self.read_page(link, PageKind::Directory, page_table::WHAT)?;
            Ok(Some((&**self.file(), page)))
        })?;
        let pages = directory.links().filter(|link| Some(**link) != superblock.roots);
        Ok((roots, pages.copied().collect()))
    }

    /// The extents that a slot's space map lists, ascending, its own pages among them. Those that
    /// nothing keeps are left out. All sums have been checked then.
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
