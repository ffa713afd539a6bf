//! Superblock slots and pages for copying one durable version of a store.
//!
//! A copy has the pages of one version at the same places and under the same store id as the store,
//! so that they can be verified there unchanged. Nothing else is needed: no older version, no log.
//!
//! Invariants
//! 1. Both slots of a copy name the same version, as cleanly closed, and nothing before it.
//! 2. The log of a copy starts, empty, after every position that the version may name.
//! 3. What a link can make a reader allocate is bounded by the file's length.
//!
//! Threads: pure functions, except for [`Store::hold_newest`]. Bytes: docs/format.md, "Superblock".

use super::{
    directory::{self, Group},
    examine::Held,
    file::Store,
    map::MapDirectory,
    page_table::ReadPage,
    root_directory::{NamedSnapshot, RootDirectory},
    superblock::{SLOT_BYTES, SLOT_OFFSETS, SlotRead, Superblock, link_lies_below, slot_of},
};
use crate::{
    error::Result,
    io::AlignedBuf,
    page::{Link, StoreFile, sealed},
    sync::Arc,
    types::VersionNumber,
};

impl Store {
    /// The newest slot, with its version held, so that running checkpoints keep its pages.
    pub fn hold_newest(self: &Arc<Self>) -> (Superblock, Held) {
        self.between_slots(|_| {
            let newest = self.newest();
            self.space().pin_version(newest.publish);
            (newest, Held::new(self.clone(), vec![newest.publish]))
        })
    }
}

impl Superblock {
    /// The slot of a store that contains only this version.
    pub fn alone(&self) -> Self {
        let at = self.clean.unwrap_or(self.log_synced);
        Self { previous: self.publish, log_from: at, log_synced: at, clean: Some(at), ..*self }
    }

    /// True if nothing was written since [`alone`](Self::alone) made the slot.
    pub fn is_alone(&self) -> bool {
        *self == self.alone()
    }

    /// Encodes the slot. Fails if it could not be read again.
    pub fn to_slot(&self) -> Result<AlignedBuf> {
        let mut slot = AlignedBuf::try_zeroed(SLOT_BYTES, "a superblock")?;
        self.encode(&mut slot);
        let read = Self::from_slot(&slot);
        let other = || "it would be read as another".to_owned();
        sealed(
            "a superblock",
            read.and_then(|read| (read == *self).then_some(()).ok_or_else(other)),
        )?;
        Ok(slot)
    }

    /// Decodes the bytes of a slot, for either place; on failure, the reason in words.
    pub fn from_slot(slot: &[u8]) -> std::result::Result<Self, String> {
        let read = [0, 1].map(|index| Self::decode(index, slot));
        match read {
            [SlotRead::Good(superblock), _] | [_, SlotRead::Good(superblock)] => Ok(*superblock),
            [SlotRead::TooNew(what), _] | [_, SlotRead::TooNew(what)] => {
                Err(format!("needs {what}"))
            }
            [SlotRead::Bad { why, .. }, _] => Err(why),
        }
    }
}

/// Length of a slot.
pub const SUPERBLOCK_BYTES: usize = SLOT_BYTES;

/// Writes both slots of a copy. Everything that they link must be durable.
pub fn write_slots(file: &StoreFile, superblock: &Superblock) -> Result<()> {
    let twin = Superblock { sequence: superblock.sequence.saturating_sub(1), ..*superblock };
    for one in [&twin, superblock] {
        file.write_at(&one.to_slot()?, SLOT_OFFSETS[slot_of(one.sequence)])?;
    }
    Ok(())
}

/// Fails if the extent that a link names cannot be in the file.
pub fn check_extent(file: &StoreFile, link: &Link, what: &'static str) -> Result<()> {
    let end = file.file.len().unwrap_or(0);
    if !link_lies_below(link, end) {
        let why = format!("its place lies outside the file of {end} bytes");
        return Err(file.malformed(link.offset, u64::from(link.bytes), what, why));
    }
    Ok(())
}

/// Reads the root directory of a slot. What lies under a page that `read` leaves out is missing.
pub fn read_roots(superblock: &Superblock, read: &mut ReadPage<'_, '_>) -> Result<RootDirectory> {
    Ok(directory::load(superblock, read)?.0)
}

/// Reads the roots of the trees that a named snapshot shows. What lies under a page that `read`
/// leaves out is missing.
pub fn read_snapshot(
    superblock: &Superblock,
    snapshot: &NamedSnapshot,
    read: &mut ReadPage<'_, '_>,
) -> Result<Arc<Group>> {
    Ok(directory::load_snapshot(superblock, snapshot, read)?.0)
}

/// The zone pages of a space map, from its directory page.
pub fn zone_pages(
    file: &StoreFile,
    link: &Link,
    at: VersionNumber,
    page: &[u8],
) -> Result<Vec<Link>> {
    let bad = |why| file.malformed(link.offset, u64::from(link.bytes), "the space map", why);
    let directory = MapDirectory::decode(page, at).map_err(bad)?;
    Ok(directory.zones.into_iter().map(|(_, entry)| entry.link).collect())
}
