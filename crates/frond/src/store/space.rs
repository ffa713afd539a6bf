//! The extents of the file: their births and deaths, what keeps a dead one, and when its place
//! becomes free.
//!
//! A page belongs to the versions [birth, death) of its lineage. The naive way to free dead pages
//! is to search all of them whenever a reader ends. Instead a dead page waits on the list of *one*
//! pin that keeps it; when that pin ends, only its list is examined, and each page moves to the
//! list of another pin or becomes free (Rule: I23). The two superblock slots are version pins like
//! any reader. So a page that died in V is free again only when the slot in whose version it is
//! alive has been overwritten, which is after the *next* checkpoint.
//!
//! Invariants
//! 1. Every byte after the header is in one extent or free (Rule: I18, docs/safety.md §3.5).
//! 2. A dead extent is on exactly one list: of a lineage pin, of a version pin, or of the log.
//!    While it is held it is on none; the last hold puts it on one or frees it.
//! 3. An extent that is alive, pinned, named by the log or temporary is never allocated.
//! 4. A page dies only by a link that matches its record (place, length, birth, lineage). A wrong
//!    link is an error in release builds, too, and changes nothing.
//!
//! Threads: all; one lock, held for steps in ordered maps, never for I/O. Idea: dead lists per
//! snapshot, as in ZFS ("deadlists") and the reverse of Btrfs qgroups.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    alloc::{Allocator, Class},
    ending::Ending,
    map::zone_bytes,
    pins::{Keeper, LineagePin, NEVER, Pins},
    ranges::Ranges,
    superblock::OFFSET_MAX,
};
use crate::{
    bounds,
    io::ALIGN,
    page::{Link, PageKind},
    sync::{Mutex, MutexGuard},
    types::{Lineage, Lsn, VersionNumber},
};

/// The lineage of the store's own pages: the space map and the root directory.
pub const STORE_LINEAGE: Lineage = Lineage(u32::MAX);

/// Contiguous bytes of the store file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Length, a multiple of 4096.
    pub bytes: u32,
}

impl Extent {
    /// First byte after the extent.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// Parameters of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The size class, which selects the regions.
    pub class: Class,
    /// The kind of page that will be written there.
    pub kind: PageKind,
    /// Length; rounded up to 4096.
    pub bytes: u64,
    /// The version that first links it.
    pub birth: VersionNumber,
    /// The lineage that writes it.
    pub lineage: Lineage,
}

/// The state of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub bytes: u32,
    pub class: Class,
    pub kind: PageKind,
    pub lineage: Lineage,
    /// References from nodes, as of the version that the next checkpoint writes (Rule: I21).
    pub refs: u32,
    pub birth: VersionNumber,
    pub death: VersionNumber,
    /// The newest log record that names it.
    pub log: Option<Lsn>,
    /// Linked by no version yet: spills, bulk loads in progress.
    pub temporary: bool,
    /// Number of holders in memory that may still return a reference to it (blobs).
    pub holds: u32,
    /// Dead, and on no list because it is held.
    pub waits: bool,
}

impl Record {
    pub fn is_dead(&self) -> bool {
        self.death != NEVER
    }

    /// True for the map's own pages, which the map does not list in zones.
    pub(super) fn is_map(&self) -> bool {
        self.kind == PageKind::Map
    }
}

/// A refused change to the space: the tree and the map contradict each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub offset: u64,
    pub bytes: u64,
    pub why: String,
}

/// Current sums over all extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpaceStats {
    /// Bytes alive in the newest version.
    pub live: u64,
    /// Bytes dead and kept by a pin, a slot or the log.
    pub kept: u64,
    /// Bytes linked by no version yet.
    pub temporary: u64,
    /// Bytes free below the end of the last extent.
    pub free: u64,
    /// End of the last extent.
    pub end: u64,
    /// Number of extents.
    pub extents: u64,
}

/// The entry of a zone in the map on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ZoneEntry {
    pub link: Link,
    pub live: u64,
    pub pending: u64,
    /// End of the zone's last extent.
    pub end: u64,
}

/// One 64 MiB zone: the page last written for it, and whether that page is out of date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Zone {
    pub written: Option<ZoneEntry>,
    pub dirty: bool,
}

/// Dead extents with the same keeper.
#[derive(Debug, Default)]
struct Kept {
    offsets: Vec<u64>,
    /// Total length of these extents.
    bytes: u64,
}

/// Everything under the lock of [`Space`].
#[derive(Debug)]
pub(super) struct Inner {
    pub extents: BTreeMap<u64, Record>,
    pub alloc: Allocator,
    pub pins: Pins,
    /// Dead extents by what keeps them.
    kept: BTreeMap<Keeper, Kept>,
    /// Dead extents that only the log keeps.
    kept_by_log: BTreeMap<Lsn, Vec<u64>>,
    /// The version pinned for the older slot.
    pub older_slot: VersionNumber,
    /// The position from which the log is needed.
    pub log_kept_from: Lsn,
    pub zones: BTreeMap<u64, Zone>,
    /// Dead, kept pages of the map; the next directory lists those that the older slot needs.
    pub dead_map_pages: BTreeSet<u64>,
    /// The directory page of the newest map.
    pub directory: Option<Link>,
    /// Lineages of dropped trees.
    pub ending: Ending,
    /// Places known to have disk space behind them.
    pub backed: Ranges,
    stats: SpaceStats,
}

/// The extents of a store.
#[derive(Debug)]
pub struct Space {
    inner: Mutex<Inner>,
}

impl Space {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Mutex::new(inner) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Keeps all pages of a version, which must be pinned already or be the newest.
    pub fn pin_version(&self, version: VersionNumber) {
        self.lock().pins.pin_version(version);
    }

    /// Ends one [`pin_version`](Self::pin_version).
    pub fn unpin_version(&self, version: VersionNumber) {
        self.lock().unpin_version(version);
    }

    /// Keeps the pages that `lineage` had in version `publish`, for a clone or named snapshot that
    /// exists in the versions from `from` on. That version must be pinned during this call.
    pub fn pin_lineage(&self, lineage: Lineage, publish: VersionNumber, from: VersionNumber) {
        self.lock().pins.pin_lineage(LineagePin { lineage, publish, from, until: NEVER });
    }

    /// Keeps everything that a reader of version `publish` may read, for a named snapshot that
    /// exists from that version on. That version must be pinned during this call.
    pub fn pin_named(&self, publish: VersionNumber) {
        self.pin_lineage(STORE_LINEAGE, publish, publish);
    }

    /// Ends one [`pin_named`](Self::pin_named), as [`unpin_lineage`](Self::unpin_lineage) does.
    #[must_use]
    pub fn unpin_named(&self, publish: VersionNumber, until: VersionNumber) -> bool {
        self.unpin_lineage(STORE_LINEAGE, publish, until)
    }

    /// Ends one [`pin_lineage`](Self::pin_lineage): from version `until` on its holder is gone.
    /// Takes effect when no pinned version contains the holder. False if there is no such pin.
    #[must_use]
    pub fn unpin_lineage(
        &self,
        lineage: Lineage,
        publish: VersionNumber,
        until: VersionNumber,
    ) -> bool {
        let mut inner = self.lock();
        let closed = inner.pins.close_lineage(lineage, publish, until);
        inner.expire_pins();
        closed
    }

    /// The pinned versions, oldest first, each once.
    pub fn pinned_versions(&self) -> Vec<VersionNumber> {
        self.lock().pins.versions().collect()
    }

    /// Number of lineage pins that the space map lists.
    pub fn lineage_pins(&self) -> usize {
        self.lock().pins.lineage_pins()
    }

    /// Records that the log before `from` is gone for both slots. Frees what only it named.
    pub fn log_trimmed(&self, from: Lsn) {
        self.lock().log_trimmed(from);
    }

    /// Current sums over all extents.
    pub fn stats(&self) -> SpaceStats {
        self.lock().stats()
    }

    /// Bytes of dead pages that are kept for one of these versions, and for no later one.
    pub fn kept_for(&self, versions: &[VersionNumber]) -> u64 {
        let inner = self.lock();
        let kept = |version: &VersionNumber| inner.kept.get(&Keeper::Version(*version));
        versions.iter().filter_map(kept).map(|kept| kept.bytes).sum()
    }
}

impl Inner {
    pub fn new(alloc: Allocator) -> Self {
        Self {
            extents: BTreeMap::new(),
            alloc,
            pins: Pins::default(),
            kept: BTreeMap::new(),
            kept_by_log: BTreeMap::new(),
            older_slot: VersionNumber(0),
            log_kept_from: Lsn(0),
            zones: BTreeMap::new(),
            dead_map_pages: BTreeSet::new(),
            directory: None,
            ending: Ending::default(),
            backed: Ranges::default(),
            stats: SpaceStats::default(),
        }
    }

    pub fn stats(&self) -> SpaceStats {
        let end = self.end();
        let free = (end - super::superblock::DATA_START).saturating_sub(self.used_bytes());
        SpaceStats { end, free, extents: self.extents.len() as u64, ..self.stats }
    }

    /// Total length of all extents.
    pub fn used_bytes(&self) -> u64 {
        self.stats.live + self.stats.kept + self.stats.temporary
    }

    /// Total length of the newest map's pages.
    pub fn map_bytes(&self) -> u64 {
        let zones = self.zones.values().filter_map(|zone| zone.written.map(|entry| entry.link));
        zones.chain(self.directory).map(|link| u64::from(link.bytes)).sum()
    }

    /// End of the last extent.
    pub fn end(&self) -> u64 {
        let last = self.extents.last_key_value();
        last.map_or(super::superblock::DATA_START, |(start, record)| {
            start + u64::from(record.bytes)
        })
    }

    /// Allocates a new extent. The length must be a multiple of the granularity.
    pub fn allocate(&mut self, request: &Request, bytes: u32, temporary: bool) -> Extent {
        let offset = self.alloc.allocate(request.class, u64::from(bytes));
        self.record_allocated(request, Extent { offset, bytes }, temporary)
    }

    /// Records an extent that the allocator has just returned.
    pub fn record_allocated(
        &mut self,
        request: &Request,
        extent: Extent,
        temporary: bool,
    ) -> Extent {
        assert!(extent.end() <= OFFSET_MAX, "the file has an end");
        let is_aligned = (extent.offset | u64::from(extent.bytes)).is_multiple_of(ALIGN as u64);
        assert!(is_aligned, "an extent is whole pages: {extent:?}");
        let record = Record {
            bytes: extent.bytes,
            class: request.class,
            kind: request.kind,
            lineage: request.lineage,
            refs: 1,
            birth: request.birth,
            death: NEVER,
            log: None,
            temporary,
            holds: 0,
            waits: false,
        };
        self.insert(extent, record);
        extent
    }

    /// Records an extent whose place is already taken out of the allocator.
    pub fn insert(&mut self, extent: Extent, record: Record) {
        let below = self.extents.range(..extent.end()).next_back();
        let clash = below.is_some_and(|(start, r)| start + u64::from(r.bytes) > extent.offset);
        assert!(!clash, "I18: an extent is handed out once ({extent:?} is in use)");
        self.count(&record, 1);
        self.touch(extent.offset, &record);
        self.note_map_page(extent.offset, &record);
        self.extents.insert(extent.offset, record);
    }

    fn note_map_page(&mut self, offset: u64, record: &Record) {
        if record.is_map() && record.is_dead() {
            self.dead_map_pages.insert(offset);
        }
    }

    /// Adds the record to the sums (+1) or subtracts it (−1).
    fn count(&mut self, record: &Record, sign: i64) {
        let sum = match record {
            record if record.is_dead() => &mut self.stats.kept,
            record if record.temporary => &mut self.stats.temporary,
            _ => &mut self.stats.live,
        };
        *sum =
            sum.checked_add_signed(sign * i64::from(record.bytes)).expect("sums never go below 0");
    }

    /// Marks the zone page that lists this place as out of date.
    fn touch(&mut self, offset: u64, record: &Record) {
        if !record.is_map() && !record.temporary {
            let zone = offset / zone_bytes();
            if zone > 0 {
                bounds::ZONE_BYTES.reached();
            }
            self.zones.entry(zone).or_default().dirty = true;
        }
    }

    /// The record of a link, if the link matches it.
    pub fn record(&self, link: &Link) -> Result<&Record, Refused> {
        let refused = |why: &str| Refused {
            offset: link.offset,
            bytes: u64::from(link.bytes),
            why: why.into(),
        };
        let record = self.extents.get(&link.offset).ok_or_else(|| refused("no extent is there"))?;
        if record.temporary {
            return Err(refused("no version links that extent yet"));
        }
        let same = record.bytes == link.bytes
            && record.birth == link.birth
            && record.lineage == link.lineage;
        if same { Ok(record) } else { Err(refused("another extent is there")) }
    }

    /// References to a run; 0 if no run of this link is known. A run that no checkpoint has adopted
    /// yet is identified by its place, since recovery finds nothing more in the log.
    pub fn run_refs(&self, link: &Link) -> u32 {
        let unadopted = self.extents.get(&link.offset).filter(|record| {
            record.temporary && record.kind == PageKind::Run && record.bytes == link.bytes
        });
        unadopted.or_else(|| self.record(link).ok()).map_or(0, |record| record.refs)
    }

    pub fn change(&mut self, offset: u64, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.extents.get_mut(&offset) else { return };
        let before = *record;
        change(record);
        let after = *record;
        self.count(&before, -1);
        self.count(&after, 1);
        self.touch(offset, &before);
        self.touch(offset, &after);
        self.note_map_page(offset, &after);
    }

    /// Records that the page is in no version of its lineage from `at` on. Pages of another lineage
    /// than `by` are inherited: their own lineage decides (Rule: I19).
    pub fn die(&mut self, link: &Link, by: Lineage, at: VersionNumber) -> Result<(), Refused> {
        if link.lineage != by {
            return Ok(());
        }
        let record = *self.record(link)?;
        let refused = |why: &str| Refused {
            offset: link.offset,
            bytes: u64::from(link.bytes),
            why: why.into(),
        };
        if record.is_dead() {
            return Err(refused("that extent is dead already"));
        }
        if at < record.birth || at == NEVER {
            return Err(refused("that extent cannot die before it was born"));
        }
        self.change(link.offset, |record| record.death = at);
        self.free_or_keep(link.offset);
        Ok(())
    }

    pub fn set_refs(&mut self, link: &Link, refs: u32) -> Result<(), Refused> {
        if self.record(link)?.refs != refs {
            self.change(link.offset, |record| record.refs = refs);
        }
        Ok(())
    }

    /// Makes a temporary extent part of a version.
    pub fn adopt(
        &mut self,
        offset: u64,
        birth: VersionNumber,
        lineage: Lineage,
    ) -> Result<(), Refused> {
        self.temporary(offset)?;
        self.change(offset, |record| {
            (record.temporary, record.birth, record.lineage) = (false, birth, lineage);
        });
        Ok(())
    }

    /// Gives up a temporary extent; the log may still name it.
    pub fn abandon(&mut self, offset: u64) -> Result<(), Refused> {
        self.temporary(offset)?;
        self.end_temporary(offset);
        Ok(())
    }

    /// Records that the log names this extent in the record at `lsn`.
    pub fn name_in_log(&mut self, offset: u64, lsn: Lsn) -> Result<(), Refused> {
        let why = || Refused { offset, bytes: 0, why: "no extent is there".into() };
        let record = self.extents.get_mut(&offset).ok_or_else(why)?;
        record.log = record.log.max(Some(lsn));
        let record = *record;
        self.touch(offset, &record);
        Ok(())
    }

    pub fn named_in_log(&self, offset: u64) -> Option<Lsn> {
        self.extents.get(&offset)?.log
    }

    pub fn temporary(&self, offset: u64) -> Result<(), Refused> {
        match self.extents.get(&offset) {
            Some(record) if record.temporary && !record.is_dead() => Ok(()),
            record => Err(Refused {
                offset,
                bytes: record.map_or(0, |record| u64::from(record.bytes)),
                why: "no temporary extent is there".into(),
            }),
        }
    }

    /// Claims an extent that the log names, in recovery (Rule: I11). An extent that is known
    /// already is only marked.
    pub fn claim(
        &mut self,
        extent: Extent,
        class: Class,
        kind: PageKind,
        lsn: Lsn,
    ) -> Result<(), Refused> {
        if let Some(record) = self.extents.get(&extent.offset)
            && record.bytes == extent.bytes
            && record.kind == kind
        {
            return self.name_in_log(extent.offset, lsn);
        }
        let below = self.extents.range(..extent.end()).next_back();
        let clash = below.is_some_and(|(start, r)| start + u64::from(r.bytes) > extent.offset);
        if clash || !self.alloc.claim(class, extent.offset, extent.end()) {
            return Err(Refused {
                offset: extent.offset,
                bytes: u64::from(extent.bytes),
                why: "the log names an extent that another page occupies".into(),
            });
        }
        let record = Record {
            bytes: extent.bytes,
            class,
            kind,
            lineage: STORE_LINEAGE,
            refs: 1,
            birth: VersionNumber(0),
            death: NEVER,
            log: Some(lsn),
            temporary: true,
            holds: 0,
            waits: false,
        };
        self.backed.insert(extent.offset, extent.end());
        self.insert(extent, record);
        Ok(())
    }

    /// Puts a dead extent on the list of what keeps it, or frees it.
    pub fn free_or_keep(&mut self, offset: u64) {
        let Some(&record) = self.extents.get(&offset) else { return };
        assert!(record.is_dead(), "space invariant 2: only dead extents are listed");
        if record.holds > 0 {
            self.change(offset, |record| record.waits = true);
        } else if let Some(keeper) = self.keeper(&record) {
            let kept = self.kept.entry(keeper).or_default();
            kept.offsets.push(offset);
            kept.bytes += u64::from(record.bytes);
        } else if let Some(lsn) = record.log.filter(|&lsn| lsn >= self.log_kept_from) {
            self.kept_by_log.entry(lsn).or_default().push(offset);
        } else {
            self.free(offset, record);
        }
    }

    fn keeper(&self, record: &Record) -> Option<Keeper> {
        match record.is_map() {
            true => self.pins.keeper_of_map(record.birth, record.death),
            false => self.pins.keeper(record.lineage, record.birth, record.death),
        }
    }

    pub fn free(&mut self, offset: u64, record: Record) {
        let end = offset + u64::from(record.bytes);
        let freed = plant!("store: a freed extent is kept")
            || self.alloc.release(record.class, offset, end);
        assert!(freed, "I18: an extent is freed once (offset {offset})");
        self.extents.remove(&offset);
        self.dead_map_pages.remove(&offset);
        self.count(&record, -1);
        self.touch(offset, &record);
    }

    pub fn unpin_version(&mut self, version: VersionNumber) {
        if self.pins.unpin_version(version) {
            // Lineage pins first: pages of the version's list may be kept by a pin that ends, too.
            self.expire_pins();
            self.reconsider_kept(Keeper::Version(version));
        }
    }

    pub fn expire_pins(&mut self) {
        for keeper in self.pins.expire() {
            self.reconsider_kept(keeper);
        }
    }

    fn reconsider_kept(&mut self, keeper: Keeper) {
        for offset in self.kept.remove(&keeper).unwrap_or_default().offsets {
            self.free_or_keep(offset);
        }
    }

    fn log_trimmed(&mut self, from: Lsn) {
        if from <= self.log_kept_from {
            return;
        }
        self.log_kept_from = from;
        let kept = self.kept_by_log.split_off(&from);
        for offset in std::mem::replace(&mut self.kept_by_log, kept).into_values().flatten() {
            self.free_or_keep(offset);
        }
    }
}

/// The length of an extent for `bytes`; `None` if it is 0 or too long.
pub(super) fn extent_bytes(bytes: u64) -> Option<u32> {
    let rounded = bytes.checked_next_multiple_of(ALIGN as u64)?;
    u32::try_from(rounded).ok().filter(|&bytes| bytes > 0)
}
