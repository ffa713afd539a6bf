//! The open store file: its pages, its space, and the last steps of a checkpoint.
//!
//! Invariants
//! 1. A slot is written only between two syncs, by one checkpoint at a time, for a version newer
//!    than the newest slot's.
//! 2. Every page is verified when read, before it is parsed (P9).
//! 3. After a failed write or sync every writing call returns `Failed` (P12).
//!
//! Threads: all, but `publish` one at a time (enforced by a lock). Lock order: checkpoint, slots,
//! resizing, space or reserve.

use std::{
    io::IoSlice,
    path::{Path, PathBuf},
};

use super::{
    alloc::Class,
    directory::{Directory, DirectoryChange, DirectoryPages},
    guard::{FailureHook, Guard, IoCounts},
    owner::HEADROOM,
    page::{self, Page, page_bytes},
    reserve::Reserving,
    space::{Extent, Inner, Request, STORE_LINEAGE, Space, SpaceStats, extent_bytes},
    space_map::{MapPage, map_request, refused},
    superblock::{
        DATA_START, PAGE_BYTES_MAX, SLOT_OFFSETS, Superblock, Totals, link_lies_below, slot_of,
    },
};
use crate::{
    error::{Error, Result},
    io::{ALIGN, AlignedBuf, Env, File, Vfs},
    page::{Identity, Link, PageKind, StoreFile, sealed},
    sync::{Arc, AtomicU64, Mutex, Ordering},
    types::{Lineage, Lsn, Seqno, StoreId, VersionNumber},
};

/// The state that a checkpoint makes durable; see [`Store::publish`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The version, newer than that of any slot.
    pub publish: VersionNumber,
    /// The boundary F.
    pub applied: Seqno,
    /// The log position at which replay starts.
    pub log_from: Lsn,
    /// The position up to which the log is known to be on disk; at least through F (Rule: I10).
    pub log_synced: Lsn,
    /// The exact end of the log, if this is the last step of a clean close.
    pub clean: Option<Lsn>,
    /// The changes of the root directory since the newest slot's version.
    pub roots: &'a DirectoryChange,
}

/// Counters and sums of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Whether I/O bypasses the page cache.
    pub direct: bool,
    /// Length of the file.
    pub file_bytes: u64,
    /// I/O since opening.
    pub io: IoCounts,
    /// Current sums over the extents.
    pub space: SpaceStats,
    /// Sums of the newest slot's version.
    pub durable: Totals,
    /// Slots written since opening.
    pub checkpoints: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SlotPair {
    newest: Superblock,
    older: Option<Superblock>,
    next_sequence: u64,
    /// A lower bound of the file's length, the greater of those in the two slots. A slot that was
    /// passed over because its roots were damaged still counts.
    file_bytes: u64,
}

/// An open store file.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    vfs: Arc<dyn Vfs>,
    guard: Arc<Guard>,
    data: Arc<StoreFile>,
    space: Space,
    checkpoint: Mutex<()>,
    slots: Mutex<SlotPair>,
    /// The pages of the newest slot's root directory.
    pub(super) directory: Mutex<Directory>,
    counts_from: VersionNumber,
    /// No page may be born above this version before the next slot is written (Rule: I20).
    birth_limit: AtomicU64,
    checkpoints: AtomicU64,
    pub(super) reserve: Reserving,
    /// Held while the file is backed, cut or punched.
    pub(super) resizing: Mutex<()>,
}

impl Store {
    pub(super) fn new(
        env: &Env,
        dir: &Path,
        guard: Arc<Guard>,
        data: Arc<StoreFile>,
        (space, directory): (Inner, Directory),
    ) -> Self {
        Self {
            dir: dir.into(),
            vfs: env.vfs.clone(),
            guard,
            data,
            space: Space::new(space),
            checkpoint: Mutex::new(()),
            slots: Mutex::new(SlotPair::default()),
            directory: Mutex::new(directory),
            counts_from: VersionNumber(0),
            birth_limit: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            reserve: Reserving::default(),
            resizing: Mutex::new(()),
        }
    }

    pub(super) fn adopt_slots(
        &mut self,
        newest: Superblock,
        older: Option<Superblock>,
        next_sequence: u64,
        file_bytes: u64,
    ) {
        self.slots = Mutex::new(SlotPair { newest, older, next_sequence, file_bytes });
        self.counts_from = newest.publish_limit;
    }

    /// Sets the version above which births and publishes start.
    pub(super) fn count_from(&mut self, counts_from: VersionNumber) {
        self.counts_from = counts_from;
        self.birth_limit = AtomicU64::new(counts_from.0 + HEADROOM);
    }

    /// Records that a slot (the heir) has replaced one that could not be used at opening.
    pub(super) fn adopt_heir(&self, heir: Superblock) {
        let mut slots = self.slots.lock().unwrap();
        let (older, next_sequence) = (Some(slots.newest), heir.sequence + 1);
        *slots = SlotPair { newest: heir, older, next_sequence, ..*slots };
    }

    /// The id of the store.
    pub fn id(&self) -> StoreId {
        self.data.store
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file, for modules that write and read extents directly. Writes are guarded.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.data
    }

    /// The extents of the store.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// True if the store was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.guard.is_read_only()
    }

    /// The version above which births and publishes start.
    pub fn counts_from(&self) -> VersionNumber {
        self.counts_from
    }

    /// The newest slot.
    pub fn newest(&self) -> Superblock {
        self.slots.lock().unwrap().newest
    }

    /// The log position from which the slots need the log.
    pub fn log_needed_from(&self) -> Lsn {
        let slots = self.slots.lock().unwrap();
        slots.older.map_or(slots.newest.log_from, |older| older.log_from.min(slots.newest.log_from))
    }

    /// Bytes of dead pages that only the older slot's version still links: the next checkpoint
    /// frees them.
    pub fn kept_for_older_slot(&self) -> u64 {
        let older = self.slots.lock().unwrap().older.as_ref().map(|slot| slot.publish);
        older.map_or(0, |publish| self.space().kept_for(&[publish]))
    }

    /// Runs `act` while no slot is being written.
    pub(super) fn between_slots<T>(&self, act: impl FnOnce(&Guard) -> T) -> T {
        let _no_checkpoint = self.checkpoint.lock().unwrap();
        act(&self.guard)
    }

    /// The file length that the slots require: no slot requires a longer file.
    pub(super) fn slots_file_bytes(&self) -> u64 {
        self.slots.lock().unwrap().file_bytes
    }

    /// Current counters and sums.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            direct: self.guard.is_direct(),
            file_bytes: self.guard.len().unwrap_or(0),
            io: self.guard.counts(),
            space: self.space.stats(),
            durable: self.newest().totals,
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }

    /// Registers a function that is called when a write or sync of the file has failed.
    pub fn on_failure(&self, hook: FailureHook) {
        self.guard.on_failure(hook);
    }

    /// Gives up the store: writing stops, changes in progress end, and another process may own it.
    pub fn release(&self) -> Result<()> {
        self.guard.release().map_err(|e| Error::io(&self.data.path, "unlock", 0, e))
    }

    /// `Failed` if writing has stopped, `Closed` after [`release`](Self::release), `ReadOnly` if it
    /// was never allowed.
    pub fn check_writable(&self) -> Result<()> {
        self.guard.check()?;
        if self.guard.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    // Space -------------------------------------------------------------------------------------

    /// Allocates a place for a page that a version links.
    pub fn allocate(&self, request: &Request) -> Result<Extent> {
        self.allocate_as(request, false)
    }

    /// Allocates a place for pages that no version links yet (spills, bulk loads). It is never in
    /// the map, and free after a crash unless the log names it. Ends with [`adopt`](Self::adopt) or
    /// [`abandon`](Self::abandon).
    pub fn allocate_temporary(&self, request: &Request) -> Result<Extent> {
        self.allocate_as(request, true)
    }

    fn allocate_as(&self, request: &Request, temporary: bool) -> Result<Extent> {
        self.check_writable()?;
        let bytes = extent_bytes(request.bytes).ok_or_else(|| {
            Error::InvalidArgument(format!("an extent of {} bytes", request.bytes))
        })?;
        self.allocate_backed(request, bytes, temporary)
    }

    /// Records that the page is in no version of its lineage from `at` on. `by` is the lineage of
    /// the tree that releases the page; pages that it inherited are left alone (Rule: I19).
    pub fn die(&self, link: &Link, by: Lineage, at: VersionNumber) -> Result<()> {
        self.space.lock().die(link, by, at).map_err(|why| refused(&self.data, why))
    }

    /// References from nodes to a run, as of the newest map. A page that was loaded in bulk has one
    /// even before a checkpoint adopts it.
    pub fn run_refs(&self, link: &Link) -> u32 {
        self.space.lock().run_refs(link)
    }

    /// Sets the references from nodes to a run in the version that the next checkpoint writes
    /// (Rule: I21).
    pub fn set_run_refs(&self, link: &Link, refs: u32) -> Result<()> {
        self.space.lock().set_refs(link, refs).map_err(|why| refused(&self.data, why))
    }

    /// Makes a temporary extent part of version `birth`.
    pub fn adopt(&self, offset: u64, birth: VersionNumber, lineage: Lineage) -> Result<()> {
        let adopted = self.space.lock().adopt(offset, birth, lineage);
        adopted.map_err(|why| refused(&self.data, why))
    }

    /// Gives up a temporary extent that is no longer needed.
    pub fn abandon(&self, offset: u64) -> Result<()> {
        self.space.lock().abandon(offset).map_err(|why| refused(&self.data, why))
    }

    /// Adopts a blob that is listed by a run which version `birth` is the first to link (Rule:
    /// I20).
    pub fn adopt_blob(&self, extent: Extent, birth: VersionNumber, lineage: Lineage) -> Result<()> {
        let adopted = self.space.lock().adopt_blob(extent, birth, lineage);
        adopted.map_err(|why| refused(&self.data, why))
    }

    /// Records that a run of `lineage` lists a blob from version `at` on, or no longer does (Rules:
    /// I21, I22). With the last such run the blob dies.
    pub fn count_blob(
        &self,
        extent: Extent,
        lineage: Lineage,
        listed: bool,
        at: VersionNumber,
    ) -> Result<()> {
        let counted = self.space.lock().count_blob(extent, lineage, listed, at);
        counted.map_err(|why| refused(&self.data, why))
    }

    /// Records that the log record at `lsn` names the extent, which stays until
    /// [`log_trimmed`](Space::log_trimmed) passes that record (Rule: I11).
    pub fn name_in_log(&self, offset: u64, lsn: Lsn) -> Result<()> {
        self.space.lock().name_in_log(offset, lsn).map_err(|why| refused(&self.data, why))
    }

    /// True if this extent is aligned, lies after the header and ends within the file.
    pub fn may_hold(&self, extent: Extent) -> bool {
        let aligned = extent.offset.is_multiple_of(ALIGN as u64)
            && u64::from(extent.bytes).is_multiple_of(ALIGN as u64);
        let end = extent.offset.checked_add(u64::from(extent.bytes));
        let inside = end.is_some_and(|end| end <= self.guard.len().unwrap_or(0));
        extent.bytes > 0 && extent.offset >= DATA_START && aligned && inside
    }

    /// Claims an extent that recovery found named in the log: it is in use, as a temporary extent
    /// if the map does not list it. Must be called for all of them before anything is allocated
    /// (Rule: I11).
    pub fn claim(&self, extent: Extent, class: Class, kind: PageKind, lsn: Lsn) -> Result<()> {
        if !self.may_hold(extent) {
            let bytes = u64::from(extent.bytes);
            let why = "the log names an extent that cannot be";
            return Err(self.data.malformed(extent.offset, bytes, "the log", why));
        }
        let claimed = self.space.lock().claim(extent, class, kind, lsn);
        claimed.map_err(|why| refused(&self.data, why))
    }

    // Pages -------------------------------------------------------------------------------------

    /// Allocates a place for a whole page (node, root directory) and writes it. `payload` is the
    /// parts of its content, in order.
    pub fn put_page(
        &self,
        kind: PageKind,
        birth: VersionNumber,
        lineage: Lineage,
        payload: &[&[u8]],
    ) -> Result<Link> {
        let bytes = page_bytes(payload.iter().map(|part| part.len()).sum());
        let request = Request { class: Class::Node, kind, bytes, birth, lineage };
        let extent = self.allocate(&request)?;
        self.write_page(kind, extent, birth, lineage, payload)
    }

    /// Writes a whole page into its extent.
    pub fn write_page(
        &self,
        kind: PageKind,
        extent: Extent,
        birth: VersionNumber,
        lineage: Lineage,
        payload: &[&[u8]],
    ) -> Result<Link> {
        let identity = self.identity(kind, extent, birth, lineage);
        let (bytes, link) = page::seal(&self.data, &identity, payload)?;
        self.check_birth(birth)?;
        self.write(extent.offset, &[IoSlice::new(&bytes)])?;
        Ok(link)
    }

    /// The identity of a page in this extent.
    pub fn identity(
        &self,
        kind: PageKind,
        extent: Extent,
        birth: VersionNumber,
        lineage: Lineage,
    ) -> Identity {
        let Extent { offset, bytes } = extent;
        Identity { store: self.id(), kind, offset, bytes, birth, lineage }
    }

    /// Writes an extent from parts, which must fill it. With direct I/O the address and length of
    /// each part must be aligned, as those of frames are; unaligned parts are copied first.
    pub fn write_extent(
        &self,
        extent: Extent,
        birth: VersionNumber,
        parts: &[IoSlice<'_>],
    ) -> Result<()> {
        self.check_birth(birth)?;
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(bytes as u64, u64::from(extent.bytes), "the parts fill the extent");
        let align = |n: usize| n.is_multiple_of(ALIGN);
        let aligned = parts.iter().all(|part| align(part.as_ptr() as usize) && align(part.len()));
        if aligned || !self.guard.is_direct() {
            return self.write(extent.offset, parts);
        }
        let mut copy = AlignedBuf::try_zeroed(bytes, "an extent")?;
        let mut at = 0;
        for part in parts {
            copy[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.write(extent.offset, &[IoSlice::new(&copy)])
    }

    fn write(&self, offset: u64, parts: &[IoSlice<'_>]) -> Result<()> {
        self.check_writable()?;
        assert!(offset >= DATA_START, "pages never lie in the header");
        let written = self.guard.write_vectored_at(parts, offset);
        written.map_err(|e| Error::io(&self.data.path, "write", offset, e))
    }

    fn check_birth(&self, birth: VersionNumber) -> Result<()> {
        if birth.0 <= self.birth_limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.check_writable()?;
        Err(Error::InvalidArgument(format!("version {birth} is too far above the newest slot")))
    }

    /// Reads a whole page and verifies it against its link.
    pub fn read_page(&self, link: &Link, kind: PageKind, what: &'static str) -> Result<Page> {
        Self::read_page_of(&self.data, link, kind, what)
    }

    pub(super) fn read_page_of(
        data: &StoreFile,
        link: &Link,
        kind: PageKind,
        what: &'static str,
    ) -> Result<Page> {
        let end = data.file.len().unwrap_or(0);
        if link.bytes > PAGE_BYTES_MAX || !link_lies_below(link, end) {
            let why = format!("its place lies outside the file of {end} bytes");
            return Err(data.malformed(link.offset, u64::from(link.bytes), what, why));
        }
        let bytes = data.read(link.offset, link.bytes.into(), what)?;
        page::verify(data, link, kind, what, bytes)
    }

    // Checkpoint --------------------------------------------------------------------------------

    /// Makes all writes so far durable.
    pub fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.guard.sync_data().map_err(|e| Error::io(&self.data.path, "sync", 0, e))
    }

    /// Performs a checkpoint's last steps: root directory → space map → sync → slot → sync. The
    /// caller has pinned the version, written all its pages, reported all deaths through it, and
    /// synced the log through F. On return the version is durable; pages that only the former older
    /// slot linked can be reused; the log is needed from [`log_needed_from`](Self::log_needed_from)
    /// on.
    pub fn publish(&self, checkpoint: &Checkpoint<'_>) -> Result<Superblock> {
        let _one_at_a_time = self.checkpoint.lock().unwrap();
        self.check_writable()?;
        let SlotPair { newest, next_sequence, .. } = *self.slots.lock().unwrap();
        Self::check_advances(checkpoint, &newest)?;
        let finished = self.finish_publish(checkpoint, newest, next_sequence);
        finished.inspect_err(|error| {
            // A full disk leaves everything as it was, except for deaths that the directory
            // remembers (`directory.rs`, invariant 2). Any other error is a failed write or sync,
            // or a map that contradicts itself.
            if !matches!(error, Error::Full(_)) {
                self.guard.fail(&format!("a checkpoint failed: {error}"));
            }
        })
    }

    fn finish_publish(
        &self,
        checkpoint: &Checkpoint<'_>,
        newest: Superblock,
        next_sequence: u64,
    ) -> Result<Superblock> {
        let at = checkpoint.publish;
        let mut pages = DirectoryPages::new(self, at);
        let written = self.write_directory(checkpoint.roots, &mut pages, newest.publish);
        let (directory, roots, map, totals) = written.inspect_err(|_| pages.undo_allocation())?;
        let superblock = Superblock {
            sequence: next_sequence,
            incompat: newest.incompat | self.data.features(),
            publish: at,
            previous: newest.publish,
            publish_limit: VersionNumber(at.0 + HEADROOM),
            applied: checkpoint.applied,
            log_from: checkpoint.log_from,
            log_synced: checkpoint.log_synced,
            clean: checkpoint.clean,
            roots: Some(roots),
            map: Some(map),
            totals,
            ..newest
        };
        if !plant!("store: superblock before the pages are synced") {
            self.sync()?;
        }
        self.write_slot(&superblock)?;
        if !plant!("store: slot not synced") {
            self.sync()?;
        }
        *self.directory.lock().unwrap() = directory;
        self.slot_is_durable(superblock);
        Ok(superblock)
    }

    fn check_advances(checkpoint: &Checkpoint<'_>, newest: &Superblock) -> Result<()> {
        let advances = checkpoint.publish > newest.publish
            && checkpoint.applied >= newest.applied
            && checkpoint.log_from >= newest.log_from;
        if advances {
            return Ok(());
        }
        // A second map for one version would free the first one's pages while a slot needs them.
        Err(Error::InvalidArgument(format!(
            "a checkpoint of version {} (through commit {}, log from {}) after one of version {} \
             (through {}, from {})",
            checkpoint.publish,
            checkpoint.applied,
            checkpoint.log_from,
            newest.publish,
            newest.applied,
            newest.log_from
        )))
    }

    /// Writes the changed pages of the space map and its directory. No page of the map is listed in
    /// a zone, so no allocation here changes what is being written.
    pub(super) fn write_map(
        &self,
        at: VersionNumber,
        previous: VersionNumber,
    ) -> Result<(Link, Totals)> {
        let planned = self.space.lock().plan_zones(at, previous);
        let mut planned = planned.map_err(|why| refused(&self.data, why))?;
        for index in 0..planned.len() {
            let page = &planned[index].page;
            match self.secure(&map_request(page.payload.len(), at), page.extent, false) {
                Ok(extent) => planned[index].page.extent = extent,
                Err(error) => {
                    // The refused extent is already freed; no extent is at offset 0.
                    planned[index].page.extent.offset = 0;
                    self.space.lock().zones_refused(&planned);
                    return Err(error);
                }
            }
        }
        let mut written = Vec::with_capacity(planned.len());
        for zone in planned {
            sealed("a page of the space map", zone.read_again(at))?;
            let link = self.write_map_page(&zone.page, at)?;
            written.push((zone, link));
        }
        let planned = {
            let mut space = self.space.lock();
            space.zones_written(&written);
            space.plan_directory(at, previous)
        };
        let (directory, mut page) = planned.map_err(|why| refused(&self.data, why))?;
        page.extent = self.secure(&map_request(page.payload.len(), at), page.extent, false)?;
        sealed("the directory of the space map", page.read_directory_again(at))?;
        let totals = directory.totals(page.extent);
        assert!(totals.are_exact(), "superblock invariant 3: the sums are exact: {totals:?}");
        let link = self.write_map_page(&page, at)?;
        self.space.lock().directory_written(link);
        Ok((link, totals))
    }

    fn write_map_page(&self, page: &MapPage, at: VersionNumber) -> Result<Link> {
        self.write_page(PageKind::Map, page.extent, at, STORE_LINEAGE, &[&page.payload])
    }

    pub(super) fn write_slot(&self, superblock: &Superblock) -> Result<()> {
        self.check_writable()?;
        let slot = superblock.to_slot()?;
        let own = slot_of(superblock.sequence);
        let place = if plant!("store: always the same slot") { 0 } else { own };
        self.data.write_at(&slot, SLOT_OFFSETS[place])
    }

    /// Frees the pages that only the overwritten slot linked, now that the new slot is durable.
    fn slot_is_durable(&self, superblock: Superblock) {
        let mut slots = self.slots.lock().unwrap();
        let before = slots.newest;
        self.space.lock().slot_published(&superblock);
        *slots = SlotPair {
            newest: superblock,
            older: Some(before),
            next_sequence: superblock.sequence + 1,
            file_bytes: superblock.totals.file_bytes.max(before.totals.file_bytes),
        };
        self.birth_limit.fetch_max(superblock.publish_limit.0, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes free on the file system.
    pub fn disk_free(&self) -> Result<u64> {
        self.vfs.free_bytes(&self.dir).map_err(|e| Error::io(&self.dir, "measure", 0, e))
    }
}
