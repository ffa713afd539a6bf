//! Encoding of the space map: one page per 64 MiB zone, and a directory of them.
//!
//! A map that lists all pages of the store would have to list its own pages, too, and each write
//! would change it again. So **the map does not list its own pages** in zones. A zone page lists
//! the extents that start in its zone; the directory lists the zone pages, the map pages that are
//! dead and still kept, and the pins. Writing a zone page allocates space without changing any
//! zone, and writing the directory changes neither; the superblock links the directory.
//!
//! Invariants
//! 1. Extents of a zone page ascend, are disjoint and start in the zone.
//! 2. What is listed without a death was alive in the version for which the page was written.
//! 3. Arbitrary bytes decode to a value or an error, never to a panic or a large allocation (P20):
//!    each decoded entry takes bytes of the page.
//!
//! Threads: pure functions. Bytes: docs/format.md, "Space map".

use super::{
    alloc::Class,
    codec::{Decoded, Reader},
    pins::{LineagePin, NEVER},
    space::{Extent, Record, STORE_LINEAGE, ZoneEntry},
    superblock::{DATA_START, OFFSET_MAX},
};
use crate::{
    bounds::{LINEAGE_PINS, MAP_DIRECTORY_BYTES, ZONE_BYTES},
    coding::put_varint,
    io::ALIGN,
    page::{Link, PageKind},
    types::{Lineage, Lsn, VersionNumber},
};

/// Bytes of the file per zone page.
#[inline]
pub(super) fn zone_bytes() -> u64 {
    ZONE_BYTES.max()
}

/// Greatest length of a pin in the directory: a lineage and three versions.
const PIN_BYTES: u64 = 32;
/// Greatest length of a zone in the directory: its page, and the dead page that the older slot has
/// in its place.
const ZONE_ENTRY_BYTES: u64 = 45 + 27;
/// Greatest length of everything else: kind, counts, the directory page of the older slot, header
/// and padding of a page.
const REST_BYTES: u64 = 4 << 10;

/// Where the file must end so that the directory of its map can list all its zones, together with
/// as many pins as there may be. A store from before that bound may have more pins, of snapshots
/// that an older Frond made.
pub(super) fn mapped_end(pins: usize) -> u64 {
    let pins = LINEAGE_PINS.max().max(pins as u64) * PIN_BYTES;
    let left = MAP_DIRECTORY_BYTES.max().saturating_sub(pins + REST_BYTES);
    (left / ZONE_ENTRY_BYTES).saturating_mul(zone_bytes()).min(OFFSET_MAX)
}

const ZONE_PAGE: u8 = 1;
const DIRECTORY_PAGE: u8 = 2;
const UNIT: u64 = ALIGN as u64;

const DEAD: u8 = 0x20;
const IN_LOG: u8 = 0x40;
const REFS: u8 = 0x80;

/// Encodes a zone page from what it lists, ascending; returns its sums, too.
pub(super) fn encode_zone(zone: u64, listed: &[(u64, Record)]) -> (Vec<u8>, ZoneSums) {
    let mut sums = ZoneSums::default();
    let mut out = Vec::with_capacity(16 + listed.len() * 12);
    out.push(ZONE_PAGE);
    let is_another = plant!("store: a zone is encoded under another number");
    put_varint(&mut out, zone + u64::from(is_another));
    let base = listed.iter().map(|(_, record)| record.birth).min().unwrap_or_default();
    put_varint(&mut out, base.0);
    let mut at = zone * zone_bytes();
    for (offset, record) in listed {
        sums.add(*offset, record);
        put_varint(&mut out, (offset - at) / UNIT);
        put_varint(&mut out, u64::from(record.bytes) / UNIT);
        let dead = if record.death == NEVER { 0 } else { DEAD };
        let in_log = if record.log.is_some() { IN_LOG } else { 0 };
        let refs = if record.refs == 1 { 0 } else { REFS };
        out.push(record.kind as u8 | (record.class as u8) << 3 | dead | in_log | refs);
        put_varint(&mut out, record.birth.0 - base.0);
        put_varint(&mut out, u64::from(record.lineage.0));
        if dead != 0 {
            put_varint(&mut out, record.death.0 - record.birth.0);
        }
        if let Some(lsn) = record.log {
            put_varint(&mut out, lsn.0);
        }
        if refs != 0 {
            put_varint(&mut out, u64::from(record.refs));
        }
        at = offset + u64::from(record.bytes);
    }
    (out, sums)
}

/// Decodes the page of a zone, written for version `at` or an earlier one, and passes on what it
/// lists, ascending.
pub(super) fn decode_zone(
    bytes: &[u8],
    zone: u64,
    at: VersionNumber,
    mut listed: impl FnMut(u64, Record),
) -> Decoded<()> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != ZONE_PAGE {
        return Err("it is no zone page".into());
    }
    if reader.number()? != zone {
        return Err("it is another zone's page".into());
    }
    let base = reader.number()?;
    let (start, end) = zone_range(zone)?;
    let mut place = start;
    while !reader.is_empty() {
        let extent = decode_extent(&mut reader, place)?;
        if extent.offset >= end {
            return Err("an extent begins after its zone".into());
        }
        place = extent.end();
        listed(extent.offset, decode_record(&mut reader, extent.bytes, base, at)?);
    }
    Ok(())
}

/// First address of a zone that can hold extents, and the first address after it.
fn zone_range(zone: u64) -> Decoded<(u64, u64)> {
    let start = zone.checked_mul(zone_bytes()).filter(|&start| start <= OFFSET_MAX);
    let start = start.ok_or("a zone beyond any file")?;
    Ok((start, start + zone_bytes()))
}

/// Decodes the place of an extent that starts at or after `from`.
fn decode_extent(reader: &mut Reader<'_>, from: u64) -> Decoded<Extent> {
    let gap = reader.number()?.checked_mul(UNIT);
    let offset = gap.and_then(|gap| from.checked_add(gap)).filter(|&offset| offset <= OFFSET_MAX);
    let offset = offset.ok_or("an extent beyond any file")?;
    let bytes = reader.number()?.checked_mul(UNIT).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.filter(|&bytes| bytes > 0).ok_or("an extent of impossible length")?;
    if offset < DATA_START {
        return Err("an extent in the header".into());
    }
    Ok(Extent { offset, bytes })
}

fn decode_record(
    reader: &mut Reader<'_>,
    bytes: u32,
    base: u64,
    at: VersionNumber,
) -> Decoded<Record> {
    let flags = reader.u8()?;
    let kinds = [PageKind::Node, PageKind::Run, PageKind::Directory, PageKind::Blob];
    let kind = kinds.into_iter().find(|kind| *kind as u8 == flags & 7);
    let kind = kind.ok_or("an extent of unknown kind")?;
    let class = Class::from_disk(flags >> 3 & 3).ok_or("an extent of unknown class")?;
    let birth = base.checked_add(reader.number()?).filter(|&birth| birth <= at.0);
    let birth = birth.ok_or("an extent born after the map")?;
    let lineage = Lineage(reader.number_u32()?);
    let mut death = NEVER.0;
    if flags & DEAD != 0 {
        let dead = birth.checked_add(reader.number()?).filter(|&death| death <= at.0);
        death = dead.ok_or("an extent that dies after the map")?;
    }
    let log = if flags & IN_LOG != 0 { Some(Lsn(reader.number()?)) } else { None };
    let refs = if flags & REFS != 0 { reader.number_u32()? } else { 1 };
    let (birth, death) = (VersionNumber(birth), VersionNumber(death));
    let (temporary, holds, waits) = (false, 0, false);
    Ok(Record { bytes, class, kind, lineage, refs, birth, death, log, temporary, holds, waits })
}

/// The directory page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct MapDirectory {
    /// Pins in force in this version or the older slot's.
    pub pins: Vec<LineagePin>,
    /// Zones that have extents, ascending.
    pub zones: Vec<(u64, ZoneEntry)>,
    /// Map pages that are dead and kept, ascending: place, birth, death.
    pub pending: Vec<(Extent, VersionNumber, VersionNumber)>,
}

impl MapDirectory {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.zones.len() * 32 + self.pending.len() * 12);
        let is_zone = plant!("store: a space map's directory is encoded as a zone");
        out.push(if is_zone { ZONE_PAGE } else { DIRECTORY_PAGE });
        put_varint(&mut out, self.pins.len() as u64);
        for pin in &self.pins {
            put_varint(&mut out, u64::from(pin.lineage.0));
            put_varint(&mut out, pin.publish.0);
            put_varint(&mut out, pin.from.0);
            // 0 stands for an open pin: no pin can end in version 0.
            put_varint(&mut out, if pin.until == NEVER { 0 } else { pin.until.0 });
        }
        put_varint(&mut out, self.zones.len() as u64);
        let mut expected = 0;
        for (zone, entry) in &self.zones {
            put_varint(&mut out, zone - expected);
            expected = zone + 1;
            put_varint(&mut out, entry.link.offset / UNIT);
            put_varint(&mut out, u64::from(entry.link.bytes) / UNIT);
            put_varint(&mut out, entry.link.birth.0);
            out.extend_from_slice(&entry.link.hash.to_le_bytes());
            put_varint(&mut out, entry.live / UNIT);
            put_varint(&mut out, entry.pending / UNIT);
            put_varint(&mut out, (entry.end - zone * zone_bytes()) / UNIT);
        }
        put_varint(&mut out, self.pending.len() as u64);
        let mut place = 0;
        for (extent, birth, death) in &self.pending {
            put_varint(&mut out, (extent.offset - place) / UNIT);
            put_varint(&mut out, u64::from(extent.bytes) / UNIT);
            put_varint(&mut out, birth.0);
            put_varint(&mut out, death.0 - birth.0);
            place = extent.end();
        }
        out
    }

    /// Decodes a directory written for version `at`.
    pub fn decode(bytes: &[u8], at: VersionNumber) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != DIRECTORY_PAGE {
            return Err("it is no map directory".into());
        }
        let mut directory = Self::default();
        for _ in 0..reader.number()? {
            directory.pins.push(decode_pin(&mut reader, at)?);
        }
        let mut zone = 0;
        for _ in 0..reader.number()? {
            let skipped = reader.number()?;
            zone = skipped.checked_add(zone).ok_or("a zone beyond any file")?;
            directory.zones.push((zone, decode_entry(&mut reader, zone, at)?));
            zone += 1;
        }
        let mut place = 0;
        for _ in 0..reader.number()? {
            let extent = decode_extent(&mut reader, place)?;
            place = extent.end();
            let birth = reader.number()?;
            let death = birth.checked_add(reader.number()?).filter(|&death| death <= at.0);
            let death = death.ok_or("a map page that dies after the map")?;
            directory.pending.push((extent, VersionNumber(birth), VersionNumber(death)));
        }
        reader.end()?;
        Ok(directory)
    }
}

fn decode_pin(reader: &mut Reader<'_>, at: VersionNumber) -> Decoded<LineagePin> {
    let lineage = Lineage(reader.number_u32()?);
    let publish = VersionNumber(reader.number()?);
    let from = VersionNumber(reader.number()?);
    let until = match reader.number()? {
        0 => NEVER,
        until => VersionNumber(until),
    };
    if from > at || until < from || (until != NEVER && until > at) {
        return Err("a pin of another version".into());
    }
    Ok(LineagePin { lineage, publish, from, until })
}

fn decode_entry(reader: &mut Reader<'_>, zone: u64, at: VersionNumber) -> Decoded<ZoneEntry> {
    let (start, _) = zone_range(zone)?;
    let extent = decode_extent(reader, 0)?;
    let birth = VersionNumber(reader.number()?);
    if birth > at {
        return Err("a zone page born after the map".into());
    }
    let link = Link {
        offset: extent.offset,
        bytes: extent.bytes,
        footer_bytes: extent.bytes,
        hash: reader.u64()?,
        birth,
        lineage: STORE_LINEAGE,
    };
    let mut sum = || -> Decoded<u64> {
        let sum = reader.number()?.checked_mul(UNIT).filter(|&sum| sum <= OFFSET_MAX);
        Ok(sum.ok_or("an impossible sum")?)
    };
    let (live, pending, length) = (sum()?, sum()?, sum()?);
    Ok(ZoneEntry { link, live, pending, end: start + length })
}

/// Sums over what a zone page lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ZoneSums {
    pub live: u64,
    pub pending: u64,
    /// End of the last extent.
    pub end: u64,
}

impl ZoneSums {
    /// Adds the next extent.
    pub fn add(&mut self, offset: u64, record: &Record) {
        let sum = if record.death == NEVER { &mut self.live } else { &mut self.pending };
        *sum += u64::from(record.bytes);
        self.end = offset + u64::from(record.bytes);
    }
}
