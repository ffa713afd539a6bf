//! The store file: extents, the space map, the superblock pair, page checksums.
//!
//! There is one file, `store.frond`. Two superblock slots at its head name the two newest durable
//! versions. Everything else is **extents**: pages and runs, each written whole, once, and never
//! changed in place.
//!
//! # A tour
//!
//! ```text
//! probe(env, dir) -> Found                          what the directory contains; writes nothing
//! create(env, dir, options) -> Opened               makes a new store, then opens it
//! open(env, dir, options) -> Opened { store, superblock, roots, warnings }
//! ```
//!
//! Births and publishes count from `store.counts_from().next()` on (Rule: I20).
//!
//! **Recovery**, before anything is allocated: scan the log from `store.log_needed_from()` and call
//! `store.claim(extent, class, kind, lsn)` for each extent that it names (Rule: I11); then replay
//! from `superblock.log_from`. Lineage pins (clones, named snapshots) are restored with the map;
//! nothing needs to be pinned again.
//!
//! **Pages**
//! ```text
//! store.put_page(kind, birth, lineage, &[payload…]) -> Link       node: allocate and write
//! store.allocate(&Request { class, kind, bytes, birth, lineage }) -> Extent
//! store.write_page(kind, extent, birth, lineage, &[payload…]) -> Link
//! store.write_extent(extent, birth, &[IoSlice…])                  run: bytes as they are
//! store.identity(kind, extent, birth, lineage) -> Identity        for hashing a run's footer
//! store.read_page(&link, kind, what) -> Page                      derefs to the verified payload
//! store.file() -> &Arc<StoreFile>                                 for modules that read directly
//! ```
//!
//! **Life of an extent.** A page lives in the versions [birth, death) of its lineage.
//! ```text
//! store.die(&link, by, at)          in no version from `at` on; ignored for inherited pages
//! store.end_lineage(lineage) / end_some(version, max)   a dropped tree's pages, in bounded steps
//! store.set_run_refs(&link, n)      run references in the version about to be checkpointed
//! store.run_refs(&link) -> u32      as loaded
//! store.allocate_temporary(..) / adopt(offset, birth, lineage) / abandon(offset) / name_in_log(..)
//! store.adopt_blob(extent, birth, lineage) / count_blob(extent, lineage, listed, at)
//! HeldPages::new(store, birth, lineage).allocate(kind, bytes), then adopt() or drop     bulk loads
//! store.space().hold(offset) / release_hold(offset)       for holders of a reference to a blob
//! store.space().pin_version(v) / unpin_version(v)         readers, jobs, checkpoints
//! store.space().pin_lineage(lineage, v, from) / unpin_lineage(.., until)     clones, snapshots
//! store.space().log_trimmed(lsn)                          after the log before `lsn` is removed
//! ```
//! A thread that reads or writes an extent holds a pin of a version in [birth, death), or owns the
//! extent as temporary. A clone pins what it inherits: its parent's lineage at the version cloned,
//! and whatever the parent inherits (`TreeRoot::inherits`); it releases the pins with the version
//! in which it is dropped. A named snapshot does the same for each of its trees. A page that is
//! written late, after it has died, is allocated, written, and only then given its death.
//!
//! **Checkpoint of version V**, in this order:
//! 1. `space().pin_version(V)`; V is newer than the newest slot's version.
//! 2. For each page of V without a place, children first: `allocate`, write. `die` for everything
//!    whose death is at or before V (later deaths may be reported as they happen); `set_run_refs`
//!    as of V.
//! 3. Sync the log through F.
//! 4. `publish(&Checkpoint { publish: V, applied: F, log_from, log_synced, clean, roots })`: root
//!    directory → zone pages of the map → directory page of the map → **sync** → slot → **sync**.
//! 5. From then on, pages that died at or before the version of the slot that was the newest
//!    before, and that are not pinned otherwise, can be reused. Trim the log before
//!    `log_needed_from()`, then call `space().log_trimmed(..)` with the same position.
//! 6. `space().unpin_version(V)`; `give_back()` returns free space to the file system: it truncates
//!    the file and punches holes.
//!
//! Each checkpoint needs a version of its own, including the one of a clean close.
//!
//! **Failure.** A write or sync that fails stops all writing permanently: `Failed` (P12). A link
//! that contradicts the map is refused with `Malformed`, and nothing changes.
//!
//! Invariants: see each file. Threads: any call from any thread; locks in `file.rs`.
//! Bytes: docs/format.md. Rules: I10, I16, I18–I25.

mod alloc;
mod blobs;
mod codec;
mod copy;
mod directory;
mod ending;
mod examine;
mod file;
mod guard;
mod held_pages;
mod map;
mod open;
mod owner;
mod page;
mod page_table;
mod passed_over;
mod pins;
mod ranges;
mod reserve;
mod root_directory;
mod space;
mod space_map;
mod superblock;
#[cfg(test)]
mod tests;

pub use alloc::Class;
pub use copy::{
    SUPERBLOCK_BYTES, check_extent, read_roots, read_snapshot, write_slots, zone_pages,
};
pub use directory::{DirectoryChange, Group, group_of, trees_of};
pub use examine::{Held, Listed, SlotState, examine};
pub use file::{Checkpoint, Store, StoreStats};
pub use guard::IoCounts;
pub use held_pages::{HeldExtent, HeldPages};
#[cfg(test)]
pub use open::create;
pub use open::{
    Found, NewLog, Opened, StoreOptions, create_with_log, lock_unfinished, no_store_file, open,
    probe,
};
pub use page::{Page, page_bytes, verify as verify_page};
pub use reserve::ReserveStats;
pub use root_directory::{NAME_BYTES_MAX, NamedSnapshot, RootDirectory, SnapshotTrees, TreeRoot};
pub use space::{Extent, Request, STORE_LINEAGE, Space, SpaceStats};
pub use superblock::{DATA_START, FORMAT, PAGE_BYTES_MAX, Superblock, Totals};

pub use crate::page::{Link, PageKind};

/// Name of the store file.
pub const STORE_FILE: &str = "store.frond";
