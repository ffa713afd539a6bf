//! Recovery: what the log contains after a crash, and whether its end is a torn tail or damage.
//!
//! The naive way is to read groups until one is invalid and call that the end. But then damage in
//! the middle of a synced log would silently drop acknowledged commits. So recovery decides as
//! follows:
//!
//! 1. Start at the position that a superblock slot names and follow the groups through the
//!    segments.
//! 2. Stop at the first place X where no group verifies and fits its predecessor.
//! 3. Search what lies after X: every later segment header and group header that verifies alone is
//!    a *witness*.
//! 4. If a witness, or the slot, says that X was synced, acknowledged commits are damaged and
//!    recovery refuses (`WalDamaged`). Otherwise X is where the crash cut the log, and nothing
//!    acknowledged as synced is lost.
//!
//! Invariants
//! 1. Doubt is an error: an I/O error, a missing or short segment, or a segment of another store or
//!    a newer version is never taken for the end of the log (Promises: P11, P19).
//! 2. Records are handed out in log order, each only if its whole group verifies and fits the
//!    chain, and a large record only with its last fragment (Promises: P2, P3).
//! 3. No length read from disk is used for an allocation before it is bounded. Memory: one window
//!    of a group's maximum length, and one large record (Promise: P20). Time is O(length of the
//!    files).
//! 4. Reading changes nothing; the same files give the same answer (Promises: P5, P21).
//! 5. What is recovered is on disk before it is served, not only in a page cache that a failed sync
//!    left clean (Promise: P6). Files are read with direct I/O where possible; where not, the log
//!    that a slot needs is written again before anything else is. A checkpoint after the recovery
//!    would not suffice: the older slot still needs the log, and a store without it does not open.
//!
//! Threads: one. Bytes: docs/format.md, "Log".

use std::path::{Path, PathBuf};

use super::{
    assembly::Assembly,
    group::{GROUP_HEADER_BYTES, GroupHeader, GroupKind, salted_crc},
    reader::SegmentReader,
    recovered_tail::RecoveredTail,
    segment::{self, HeaderFault, SegmentHeader},
};
use crate::{
    error::{Error, Place, Result},
    io::{ALIGN, Env},
    types::{Lsn, StoreId},
};

/// What is known about the log's end before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// The store was closed cleanly and this was the exact end: anything less is damage.
    CleanEnd(Lsn),
    /// The store was not closed. The log was synced at least up to here.
    Crashed {
        /// Position up to which the log was synced when the slot was written.
        synced: Lsn,
    },
    /// The log is on disk up to here and is still growing. What lies after is not read, and the
    /// last segment need not have a successor. Files that disappear meanwhile were not needed any
    /// more; a file that was needed leaves a gap before this end.
    Known(Lsn),
}

impl Expect {
    fn synced(self) -> Lsn {
        match self {
            Expect::CleanEnd(synced) | Expect::Crashed { synced } | Expect::Known(synced) => synced,
        }
    }
}

/// A log file and what its header says.
struct Found {
    number: u64,
    header: Result<SegmentHeader, HeaderFault>,
}

impl Found {
    /// The header, if the segment was started under its current name.
    fn begun(&self) -> Option<&SegmentHeader> {
        self.header.as_ref().ok().filter(|header| header.number == self.number)
    }
}

/// Reads the log from `from` on and passes every record to `visit`, with its position, in order.
/// Changes nothing. The module documentation explains how it tells a torn tail from damage.
pub fn recover(
    env: &Env,
    dir: &Path,
    store: StoreId,
    from: Lsn,
    expect: Expect,
    visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
) -> Result<RecoveredTail> {
    let known = matches!(expect, Expect::Known(_));
    let files = headers(env, dir, store, known)?;
    let until = if known { expect.synced() } else { Lsn(u64::MAX) };
    let assembly = Assembly::default();
    let mut scan = Scan { env, dir, files: &files, assembly, groups: 0, until };
    let stop = scan.follow(from, visit)?;
    let witnesses = if known { Witnesses::default() } else { scan.witnesses(&stop)? };
    if stop.ended {
        scan.must_be_there(stop.header.number + 1)?;
    }
    let claim = witnesses.synced.max(expect.synced()).max(from);
    if claim > stop.at && !plant!("wal: stop silently at damage") {
        return Err(Error::WalDamaged {
            place: stop.place(dir),
            first_lost: stop.at.0,
            last_known: claim.0,
        });
    }
    let live = files.iter().filter(|file| file.number <= stop.header.number);
    Ok(RecoveredTail {
        end: stop.at,
        records: scan.assembly.records,
        groups: scan.groups,
        torn: witnesses.any,
        segment: stop.header.number,
        header: Some(stop.header),
        chain: stop.chain.unwrap_or(stop.header.predecessor),
        from,
        live: live.filter_map(|file| Some((file.number, file.begun()?.first))).collect(),
    })
}

/// The headers of all log files, by number. In a log that is growing, files may be trimmed or
/// renumbered between the directory listing and the open.
fn headers(env: &Env, dir: &Path, store: StoreId, grows: bool) -> Result<Vec<Found>> {
    let names = env.vfs.list(dir).map_err(|error| Error::io(dir, "list", 0, error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter_map(|number| match SegmentReader::open(env, dir, number) {
            Err(Error::WalMissing { .. }) if grows => None,
            opened => Some((number, opened)),
        })
        .map(|(number, opened)| {
            let mut reader = opened?;
            let path = reader.path().to_owned();
            if reader.len() < segment::SEGMENT_BYTES_MIN {
                // A segment gets its full length before its name.
                return Err(Error::WalMissing { file: path, what: "cut short" });
            }
            let header = SegmentHeader::decode(reader.head()?);
            match &header {
                Err(HeaderFault::TooNew(format)) => {
                    Err(Error::TooNew { file: path, what: format!("log format {format}") })
                }
                Ok(found) if found.store != store => Err(Error::ForeignFile {
                    file: path,
                    found: found.store.to_string(),
                    expected: store.to_string(),
                }),
                Ok(found) if found.number == number && reader.len() < found.segment_bytes => {
                    Err(Error::WalMissing { file: path, what: "cut short" })
                }
                _ => Ok(Found { number, header }),
            }
        })
        .collect()
}

/// The place where reading stopped.
struct Stop {
    at: Lsn,
    header: SegmentHeader,
    /// Checksum of the last group read, if any.
    chain: Option<u32>,
    /// The segment states that the next one exists.
    ended: bool,
}

/// The evidence found after the stop.
#[derive(Default)]
struct Witnesses {
    /// Some header of this log verifies.
    any: bool,
    /// The highest position that a witness says was synced.
    synced: Lsn,
}

impl Witnesses {
    fn note(&mut self, synced: Lsn) {
        self.any = true;
        self.synced = self.synced.max(synced);
    }
}

impl Stop {
    fn offset(&self) -> u64 {
        (self.at.0 - self.header.first.0).saturating_add(segment::SEGMENT_HEADER_BYTES)
    }

    fn place(&self, dir: &Path) -> Place {
        let file = dir.join(segment::file_name(self.header.number));
        Place { file, offset: self.offset(), bytes: ALIGN as u64 }
    }
}

struct Scan<'a> {
    env: &'a Env,
    dir: &'a Path,
    files: &'a [Found],
    assembly: Assembly,
    groups: u64,
    /// Where to stop reading, if that is known.
    until: Lsn,
}

impl Scan<'_> {
    /// The segment that contains `from`: the last one that starts at or before it.
    fn start(&self, from: Lsn) -> Result<SegmentHeader> {
        let mut begun = self.files.iter().filter_map(Found::begun);
        if let Some(header) = begun.rfind(|header| header.first <= from) {
            return Ok(*header);
        }
        // There is no such segment: report what there is instead.
        match self.files.first() {
            Some(Found { number, header: Err(fault) }) => {
                let file = self.dir.join(segment::file_name(*number));
                Err(header_error(file, fault))
            }
            Some(Found { number, .. }) => Err(missing(self.dir, number.saturating_sub(1))),
            None if from == Lsn(0) => Err(missing(self.dir, 1)),
            // The number of the last segment is not known.
            None => Err(Error::WalMissing { file: self.dir.join("log-*.frond"), what: "missing" }),
        }
    }

    /// Fails if a segment that its predecessor names is missing. In a log that is growing, files
    /// that are no longer needed disappear.
    fn must_be_there(&self, number: u64) -> Result<()> {
        let grows = self.until < Lsn(u64::MAX);
        match grows || self.files.iter().any(|file| file.number == number) {
            true => Ok(()),
            false => Err(missing(self.dir, number)),
        }
    }

    fn next_begun(&self, number: u64) -> Option<&SegmentHeader> {
        let next = self.files.iter().find(|file| Some(file.number) == number.checked_add(1))?;
        next.begun()
    }

    /// Reads groups from `from` on until one is invalid or does not fit.
    fn follow(
        &mut self,
        from: Lsn,
        visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Stop> {
        let header = self.start(from)?;
        let chain = (header.first == from).then_some(header.predecessor);
        let mut stop = Stop { at: from, header, chain, ended: false };
        let aligned = from.0.is_multiple_of(ALIGN as u64);
        if !aligned {
            return Err(damaged(&stop, self.dir, from));
        }
        loop {
            let mut reader = SegmentReader::open(self.env, self.dir, stop.header.number)?;
            self.follow_segment(&mut stop, &mut reader, visit)?;
            if stop.at == from && from > stop.header.first {
                // Nothing follows the start. Then the log must at least reach up to it.
                stop.chain = Some(self.reach(&stop.header, &mut reader, from)?);
            }
            match self.next_begun(stop.header.number) {
                Some(next) if next.first == stop.at && stop.at < self.until => {
                    if stop.chain.is_some_and(|chain| chain != next.predecessor) {
                        return Ok(stop);
                    }
                    let chain = Some(next.predecessor);
                    stop = Stop { header: *next, chain, ended: false, ..stop };
                }
                _ => return Ok(stop),
            }
        }
    }

    fn follow_segment(
        &mut self,
        stop: &mut Stop,
        reader: &mut SegmentReader,
        visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let limit = self.next_begun(stop.header.number).map_or(u64::MAX, |next| next.first.0);
        while stop.at.0 < limit.min(self.until.0) {
            let Some(group) = read_group(reader, &stop.header, stop.at)? else { break };
            let chained = stop.chain.is_none_or(|chain| chain == group.header.predecessor)
                || plant!("wal: chain not checked");
            if !chained || stop.at.0 + group.header.log_bytes() > limit {
                break;
            }
            if group.header.kind == GroupKind::End {
                stop.ended = true;
                return Ok(());
            }
            let offset = stop.offset();
            let body = offset + GROUP_HEADER_BYTES as u64;
            let bytes = reader.bytes(body, group.header.bytes as usize - GROUP_HEADER_BYTES)?;
            let number = stop.header.number;
            let place = || Place {
                file: self.dir.join(segment::file_name(number)),
                offset,
                bytes: group.header.bytes.into(),
            };
            self.assembly.take(&group.header, bytes, place, visit)?;
            self.groups += 1;
            stop.chain = Some(group.checksum);
            stop.at = Lsn(stop.at.0 + group.header.log_bytes());
        }
        Ok(())
    }

    /// Follows the group headers of a segment from its start: they must lead to `from`. Returns the
    /// checksum of the last one.
    fn reach(&self, header: &SegmentHeader, reader: &mut SegmentReader, from: Lsn) -> Result<u32> {
        let (mut at, mut chain) = (header.first, header.predecessor);
        while at < from {
            let group = read_header(reader, header, at)?;
            let fits = group.filter(|(group, _)| group.predecessor == chain);
            match fits.map(|(group, checksum)| (group.log_bytes(), checksum)) {
                Some((bytes, checksum)) if bytes > 0 => {
                    (at, chain) = (Lsn(at.0 + bytes), checksum);
                }
                _ if fits.is_some_and(|(group, _)| group.kind == GroupKind::End) => {
                    self.must_be_there(header.number + 1)?;
                    break;
                }
                _ => break,
            }
        }
        let stop = Stop { at, header: *header, chain: None, ended: false };
        if at == from { Ok(chain) } else { Err(damaged(&stop, self.dir, from)) }
    }

    /// Collects all witnesses after the stop.
    fn witnesses(&self, stop: &Stop) -> Result<Witnesses> {
        let mut found = Witnesses::default();
        self.collect_witnesses(stop.header.number, stop.header.salt, stop.offset(), &mut found)?;
        for file in self.files.iter().filter(|file| file.number != stop.header.number) {
            match &file.header {
                // Other headers lie before the stop, or are what a spare held before it was
                // recycled.
                Ok(header) if header.first >= stop.at => {
                    found.note(header.synced);
                    let start = segment::SEGMENT_HEADER_BYTES;
                    self.collect_witnesses(file.number, header.salt, start, &mut found)?;
                }
                _ => {}
            }
            let is_next = file.number.checked_sub(1) == Some(stop.header.number);
            if is_next && file.begun().is_none() {
                // Its header may be damaged, or its write may be lost; but its salt is known.
                let salt = segment::salt_after(stop.header.secret, stop.at);
                self.collect_witnesses(
                    file.number,
                    salt,
                    segment::SEGMENT_HEADER_BYTES,
                    &mut found,
                )?;
            }
        }
        Ok(found)
    }

    /// Collects the group headers of one segment from an offset on. It does not matter whether a
    /// group belongs where it lies: its writer knew the salt, so what it states is true, and a
    /// group in the wrong place is one more sign of damage.
    fn collect_witnesses(
        &self,
        number: u64,
        salt: u64,
        start: u64,
        found: &mut Witnesses,
    ) -> Result<()> {
        let mut reader = SegmentReader::open(self.env, self.dir, number)?;
        let mut offset = start;
        while offset.saturating_add(ALIGN as u64) <= reader.len() {
            let header = GroupHeader::decode(reader.bytes(offset, GROUP_HEADER_BYTES)?, salt);
            if let Some((group, _)) = header
                && group.kind != GroupKind::End
            {
                found.note(group.synced);
            }
            offset += ALIGN as u64;
        }
        Ok(())
    }
}

pub(super) struct Group {
    pub header: GroupHeader,
    pub checksum: u32,
}

/// The header of the group at `at`, if one for that position is there.
fn read_header(
    reader: &mut SegmentReader,
    segment: &SegmentHeader,
    at: Lsn,
) -> Result<Option<(GroupHeader, u32)>> {
    let Some(offset) = at.0.checked_sub(segment.first.0) else { return Ok(None) };
    let offset = offset.saturating_add(segment::SEGMENT_HEADER_BYTES);
    if offset.saturating_add(ALIGN as u64) > segment.segment_bytes {
        return Ok(None);
    }
    let header = GroupHeader::decode(reader.bytes(offset, GROUP_HEADER_BYTES)?, segment.salt);
    Ok(header.filter(|(header, _)| {
        header.first == at && offset + u64::from(header.bytes) <= segment.segment_bytes
    }))
}

/// The group at `at`, if header and body verify.
pub(super) fn read_group(
    reader: &mut SegmentReader,
    segment: &SegmentHeader,
    at: Lsn,
) -> Result<Option<Group>> {
    let Some((header, checksum)) = read_header(reader, segment, at)? else { return Ok(None) };
    let offset = segment::SEGMENT_HEADER_BYTES + at.0 - segment.first.0;
    let body = reader
        .bytes(offset + GROUP_HEADER_BYTES as u64, header.bytes as usize - GROUP_HEADER_BYTES)?;
    let whole = salted_crc(segment.salt, body) == header.body_crc;
    Ok(whole.then_some(Group { header, checksum }))
}

fn missing(dir: &Path, number: u64) -> Error {
    Error::WalMissing { file: dir.join(segment::file_name(number)), what: "missing" }
}

fn damaged(stop: &Stop, dir: &Path, known: Lsn) -> Error {
    Error::WalDamaged { place: stop.place(dir), first_lost: stop.at.0, last_known: known.0 }
}

fn header_error(file: PathBuf, fault: &HeaderFault) -> Error {
    let place = Place { file, offset: 0, bytes: segment::SEGMENT_HEADER_BYTES };
    let what = "log segment header";
    match *fault {
        HeaderFault::Checksum { stored, computed } => {
            Error::Checksum { place, what, stored: stored.into(), computed: computed.into() }
        }
        HeaderFault::TooNew(format) => {
            Error::TooNew { file: place.file, what: format!("log format {format}") }
        }
        HeaderFault::Malformed(why) => Error::Malformed { place, what, why: why.into() },
    }
}
