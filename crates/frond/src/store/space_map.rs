//! Writing the space map for a version, and loading it.
//!
//! The map is written while newer versions are being made, so it lists each extent *as of* version
//! V:
//! - born after V, or temporary: not listed, so free in the map. No durable page links it; if the
//!   log names it, recovery claims its place.
//! - dead after V, or alive: listed as live.
//! - dead at V or before: listed with its dates if the older slot, a pin in force, or the log keeps
//!   it; readers do not count, since they end with the process.
//!
//! So after a reopen from V the older slot's tree is whole too, and stays so until its slot is
//! overwritten (docs/safety.md §3.2).
//!
//! The directory is one page, so the maximum length of that page limits the length of the file. No
//! space is backed beyond `mapped_end`, as if the disk ended there, and commits are admitted only
//! while space is left below it. So no checkpoint reaches the limit (P13, I24).
//!
//! Invariants
//! 1. Only zones that changed are written; a zone with something newer than V counts as changed
//!    after that, too.
//! 2. A zone page that lists more kept extents than needed does no harm: loading frees those that
//!    nothing keeps.
//! 3. Loading checks that header + live + pending + free is the file's length, to the byte, that no
//!    two extents overlap, and that each zone's sums match the directory.
//!
//! Threads: writing by the one checkpoint; others may allocate and report deaths meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    alloc::{Allocator, Class},
    map::{MapDirectory, ZoneSums, decode_zone, encode_zone, zone_bytes},
    page::{Page, page_bytes},
    pins::NEVER,
    space::{
        Extent, Inner, Record, Refused, Request, STORE_LINEAGE, Zone, ZoneEntry, extent_bytes,
    },
    superblock::{DATA_START, Superblock, Totals, link_lies_below},
};
use crate::{
    bounds,
    error::{Error, Result},
    page::{Link, PageKind, StoreFile},
    types::{Lineage, VersionNumber},
};

/// A map page to be written.
pub(super) struct MapPage {
    pub extent: Extent,
    pub payload: Vec<u8>,
}

/// A zone page to be written, and its directory entry except for the hash.
pub(super) struct ZonePage {
    pub zone: u64,
    pub page: MapPage,
    sums: ZoneSums,
}

impl Inner {
    /// First step: builds the pages of the changed zones as of `at`, and allocates places for them.
    /// `previous` is the version in the newest slot, which will be the older one.
    pub fn plan_zones(
        &mut self,
        at: VersionNumber,
        previous: VersionNumber,
    ) -> Result<Vec<ZonePage>, Refused> {
        let standing = self.pins.standing(at, previous);
        let pins: BTreeSet<_> = standing.iter().map(|pin| (pin.lineage, pin.publish)).collect();

        let dirty: Vec<u64> =
            self.zones.iter().filter(|(_, zone)| zone.dirty).map(|(&zone, _)| zone).collect();
        let mut planned = Vec::new();
        // A zone may have 16,000 extents: one list is reused for all zones.
        let mut listed = Vec::new();
        for zone in dirty {
            listed.clear();
            let newer = self.list_zone(zone, at, previous, &pins, &mut listed);
            let (payload, sums) = encode_zone(zone, &listed);
            let old = self.zones.get(&zone).and_then(|zone| zone.written);
            if let Some(old) = old {
                self.die(&old.link, STORE_LINEAGE, at)?;
            }
            if listed.is_empty() {
                self.zones.insert(zone, Zone { written: None, dirty: newer });
                if !newer {
                    self.zones.remove(&zone);
                }
                continue;
            }
            self.zones.insert(zone, Zone { written: None, dirty: newer });
            let extent = self.allocate_map_page(payload.len(), at)?;
            planned.push(ZonePage { zone, page: MapPage { extent, payload }, sums });
        }
        Ok(planned)
    }

    /// Appends what the page of a zone lists as of `at`; true if something there is newer.
    fn list_zone(
        &self,
        zone: u64,
        at: VersionNumber,
        previous: VersionNumber,
        pins: &BTreeSet<(Lineage, VersionNumber)>,
        listed: &mut Vec<(u64, Record)>,
    ) -> bool {
        let mut newer = false;
        for (&offset, record) in self.extents.range(zone * zone_bytes()..(zone + 1) * zone_bytes())
        {
            if record.temporary || record.is_map() {
                continue;
            }
            if record.birth > at {
                newer = true;
                continue;
            }
            let log = record.log.filter(|&lsn| lsn >= self.log_kept_from);
            let mut as_of = Record { log, ..*record };
            if record.death > at {
                newer |= record.death != NEVER;
                as_of.death = NEVER;
            } else {
                let in_previous = record.birth <= previous && previous < record.death;
                let is_pinned_in = |lineage| {
                    let lived = (lineage, record.birth)..(lineage, record.death);
                    pins.range(lived).next().is_some()
                };
                let pinned = record.birth < record.death
                    && (is_pinned_in(record.lineage) || is_pinned_in(STORE_LINEAGE));
                if !in_previous && !pinned && log.is_none() {
                    continue;
                }
            }
            listed.push((offset, as_of));
        }
        newer
    }

    fn allocate_map_page(&mut self, payload: usize, at: VersionNumber) -> Result<Extent, Refused> {
        let request = map_request(payload, at);
        let refused =
            || Refused { offset: 0, bytes: request.bytes, why: "a map page is too long".into() };
        let bytes = extent_bytes(request.bytes).ok_or_else(refused)?;
        Ok(self.allocate(&request, bytes, false))
    }

    /// Undoes `plan_zones` on a full disk: none of these pages was written, so their zones remain
    /// to be written.
    pub fn zones_refused(&mut self, pages: &[ZonePage]) {
        for page in pages {
            self.zones.entry(page.zone).or_default().dirty = true;
            self.undo_allocation(page.page.extent.offset);
        }
    }

    /// Second step: records the links of the zone pages, which are written.
    pub fn zones_written(&mut self, pages: &[(ZonePage, Link)]) {
        for (page, link) in pages {
            let ZoneSums { live, pending, end } = page.sums;
            let entry = ZoneEntry { link: *link, live, pending, end };
            self.zones.entry(page.zone).or_default().written = Some(entry);
        }
    }

    /// Third step: builds the directory as of `at`, and allocates a place for its page.
    pub fn plan_directory(
        &mut self,
        at: VersionNumber,
        previous: VersionNumber,
    ) -> Result<(MapDirectory, MapPage), Refused> {
        if let Some(old) = self.directory.take() {
            self.die(&old, STORE_LINEAGE, at)?;
        }
        let zones = self.zones.iter().filter_map(|(&zone, state)| Some((zone, state.written?)));
        let dead = self.dead_map_pages.iter();
        let pending =
            dead.filter_map(|offset| self.extents.get_key_value(offset)).filter(|(_, record)| {
                let kept = record.birth <= previous && previous < record.death;
                record.death <= at && kept
            });
        let directory = MapDirectory {
            pins: self.pins.standing(at, previous),
            zones: zones.collect(),
            pending: pending
                .map(|(&offset, r)| (Extent { offset, bytes: r.bytes }, r.birth, r.death))
                .collect(),
        };
        let payload = directory.encode();
        let extent = self.allocate_map_page(payload.len(), at)?;
        Ok((directory, MapPage { extent, payload }))
    }

    /// Pins the versions of both slots, as a reader would, and sets what they need of the log.
    ///
    /// Without an older slot nothing is pinned for one: if the lost slot was the newer, publishing
    /// it had already released the version before `newest`, and the log may name extents in its
    /// place.
    fn pin_slots(&mut self, newest: &Superblock, older: Option<&Superblock>) {
        self.older_slot = older.map_or(newest.publish, |_| newest.previous);
        self.log_kept_from =
            older.map_or(newest.log_from, |older| older.log_from.min(newest.log_from));
        self.pins.pin_version(newest.publish);
        self.pins.pin_version(self.older_slot);
    }

    /// Records that the slot of `newest` is durable: pages that only the overwritten slot linked
    /// become free.
    pub fn slot_published(&mut self, newest: &Superblock) {
        self.pins.pin_version(newest.publish);
        let overwritten = std::mem::replace(&mut self.older_slot, newest.previous);
        if plant!("store: reuse extents one checkpoint early") {
            self.pins.pin_version(overwritten);
            self.unpin_version(newest.previous);
        }
        self.unpin_version(overwritten);
    }

    /// Last step: records the link of the directory, which is written.
    pub fn directory_written(&mut self, link: Link) {
        self.directory = Some(link);
    }
}

impl ZonePage {
    /// Decodes the page as [`load`] does; on failure, the reason.
    pub fn read_again(&self, at: VersionNumber) -> Result<(), String> {
        if u64::from(self.page.extent.bytes) > bounds::ZONE_PAGE_BYTES.max() {
            return Err(format!("a page of {} bytes is too long", self.page.extent.bytes));
        }
        let mut sums = ZoneSums::default();
        decode_zone(&self.page.payload, self.zone, at, |offset, record| sums.add(offset, &record))?;
        match sums == self.sums {
            true => Ok(()),
            false => Err("a zone's sums differ from the directory's".into()),
        }
    }
}

impl MapPage {
    /// Decodes this page of a directory as [`load`] does; on failure, the reason.
    pub fn read_directory_again(&self, at: VersionNumber) -> Result<(), String> {
        if u64::from(self.extent.bytes) > bounds::MAP_DIRECTORY_BYTES.max() {
            return Err(format!("a page of {} bytes is too long", self.extent.bytes));
        }
        MapDirectory::decode(&self.payload, at).map(drop)
    }
}

/// The allocation request for a map page with `payload` bytes.
pub(super) fn map_request(payload: usize, birth: VersionNumber) -> Request {
    Request {
        class: Class::Node,
        kind: PageKind::Map,
        bytes: page_bytes(payload),
        birth,
        lineage: STORE_LINEAGE,
    }
}

impl MapDirectory {
    /// The sums of the map whose directory lies in `own`.
    pub fn totals(&self, own: Extent) -> Totals {
        let (mut live, mut pending, mut end) = (u64::from(own.bytes), 0, own.end());
        for (_, entry) in &self.zones {
            // Hostile sums saturate, and then differ from the slot's.
            live = live.saturating_add(entry.live).saturating_add(u64::from(entry.link.bytes));
            pending = u64::saturating_add(pending, entry.pending);
            end = end.max(entry.end).max(entry.link.offset + u64::from(entry.link.bytes));
        }
        for (extent, ..) in &self.pending {
            pending += u64::from(extent.bytes);
            end = end.max(extent.end());
        }
        let free = end.saturating_sub(DATA_START).saturating_sub(live).saturating_sub(pending);
        Totals { live, pending, free, file_bytes: end }
    }
}

/// Loads the map that a superblock links; `older` is the other slot, if it is good. `read` reads
/// and verifies one page. Nothing below `floor` will be allocated.
pub(super) fn load(
    file: &StoreFile,
    superblock: &Superblock,
    older: Option<&Superblock>,
    floor: u64,
    read: impl Fn(&Link) -> Result<Page>,
) -> Result<Inner> {
    let Some(link) = superblock.map else {
        let mut inner = Inner::new(Allocator::new(floor));
        inner.pin_slots(superblock, older);
        return Ok(inner);
    };
    let at = superblock.publish;
    let bad = |link: &Link, why: String| {
        file.malformed(link.offset, u64::from(link.bytes), "the space map", why)
    };
    let too_long = |link: &Link| bad(link, format!("a page of {} bytes is too long", link.bytes));
    if u64::from(link.bytes) > bounds::MAP_DIRECTORY_BYTES.max() {
        return Err(too_long(&link));
    }
    let directory = MapDirectory::decode(&read(&link)?, at).map_err(|why| bad(&link, why))?;
    let own = Extent { offset: link.offset, bytes: link.bytes };
    if directory.totals(own) != superblock.totals {
        return Err(bad(&link, "its sums differ from the superblock's".into()));
    }
    let mut loader = Loader { used: BTreeMap::new(), end: superblock.totals.file_bytes };
    loader.add_map_page(own, link.birth, NEVER).map_err(|why| bad(&link, why))?;
    for (_, entry) in &directory.zones {
        let extent = Extent { offset: entry.link.offset, bytes: entry.link.bytes };
        let added = loader.add_map_page(extent, entry.link.birth, NEVER);
        added.map_err(|why| bad(&link, why))?;
    }
    for &(extent, birth, death) in &directory.pending {
        loader.add_map_page(extent, birth, death).map_err(|why| bad(&link, why))?;
    }
    // Map pages are disjoint now, so reading all of them reads the file at most once.
    for (zone, entry) in &directory.zones {
        if u64::from(entry.link.bytes) > bounds::ZONE_PAGE_BYTES.max() {
            return Err(too_long(&entry.link));
        }
        let page = read(&entry.link)?;
        let (mut listed, mut sums) = (Vec::new(), ZoneSums::default());
        let decoded = decode_zone(&page, *zone, at, |offset, record| {
            sums.add(offset, &record);
            listed.push((offset, record));
        });
        let added = decoded.and_then(|()| {
            if (sums.live, sums.pending, sums.end) != (entry.live, entry.pending, entry.end) {
                return Err("a zone's sums differ from the directory's".into());
            }
            listed.into_iter().try_for_each(|(offset, record)| loader.add(offset, record))
        });
        added.map_err(|why| bad(&entry.link, why))?;
    }
    loader.finish(superblock, older, floor, directory, link).map_err(|why| bad(&link, why))
}

/// Checks and collects the extents read from the map.
struct Loader {
    used: BTreeMap<u64, Record>,
    end: u64,
}

impl Loader {
    fn add(&mut self, offset: u64, record: Record) -> Result<(), String> {
        let end = offset + u64::from(record.bytes);
        if end > self.end {
            return Err(format!("the extent at {offset} ends beyond the end of the file"));
        }
        let below = self.used.range(..end).next_back();
        if below.is_some_and(|(start, other)| start + u64::from(other.bytes) > offset) {
            return Err(format!("the extent at {offset} overlaps another"));
        }
        self.used.insert(offset, record);
        Ok(())
    }

    fn add_map_page(
        &mut self,
        extent: Extent,
        birth: VersionNumber,
        death: VersionNumber,
    ) -> Result<(), String> {
        let record = Record {
            bytes: extent.bytes,
            class: Class::Node,
            kind: PageKind::Map,
            lineage: STORE_LINEAGE,
            refs: 1,
            birth,
            death,
            log: None,
            temporary: false,
            holds: 0,
            waits: false,
        };
        self.add(extent.offset, record)
    }

    fn finish(
        self,
        superblock: &Superblock,
        older: Option<&Superblock>,
        floor: u64,
        directory: MapDirectory,
        own: Link,
    ) -> Result<Inner, String> {
        let used = self
            .used
            .iter()
            .map(|(&start, record)| (start, start + u64::from(record.bytes), record.class));
        let mut inner = Inner::new(Allocator::around(floor, used)?);
        let mut dead = Vec::new();
        for (offset, record) in self.used {
            inner.backed.insert(offset, offset + u64::from(record.bytes));
            if record.death != NEVER {
                dead.push((offset, offset + u64::from(record.bytes)));
            }
            inner.insert(Extent { offset, bytes: record.bytes }, record);
        }
        for pin in directory.pins {
            inner.pins.pin_lineage(pin);
        }
        inner.zones = directory
            .zones
            .into_iter()
            .map(|(zone, entry)| (zone, Zone { written: Some(entry), dirty: false }))
            .collect();
        inner.directory = Some(own);
        inner.pin_slots(superblock, older);
        for &(offset, _) in &dead {
            inner.free_or_keep(offset);
        }
        inner.expire_pins();
        // Where a copy of a store needs nothing, its file has holes without disk space.
        for (offset, end) in dead {
            if !inner.extents.contains_key(&offset) {
                inner.backed.remove(offset, end);
            }
        }
        Ok(inner)
    }
}

/// Turns a refusal into an error for the caller.
pub(super) fn refused(file: &StoreFile, refused: Refused) -> Error {
    file.malformed(refused.offset, refused.bytes, "the space map", refused.why)
}

/// True if a root link can be followed in this version.
pub(super) fn root_fits(superblock: &Superblock, link: &Link) -> bool {
    link_lies_below(link, superblock.totals.file_bytes) && link.birth <= superblock.publish
}
