//! The simulated world inside the mutex: the disk, the count of calls, planned faults, recordings.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use frond::internals::io::SimulatedLock;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    fault::{CallKind, Fault, FaultKind, SyncFailure, When},
    image::Image,
    state::{Change, DiskState, Inode},
};

/// What the harness knew when a call was made; the disk does not interpret it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// State changes issued so far: nothing above this may be there after a crash.
    pub issued: u64,
    /// State changes that must survive a power failure.
    pub floor_power: u64,
    /// State changes that must survive a killed process.
    pub floor_kill: u64,
}

/// The disk just before a call that changes something (or at the end of a recording).
#[derive(Clone, Debug)]
pub struct Point {
    /// The disk.
    pub disk: DiskState,
    /// Number of the call among those that change something, from 0.
    pub change_number: u64,
    /// The call in words.
    pub call: String,
    /// What the harness knew.
    pub note: Note,
}

/// Knows which ranges of which file must not be written now, for example because the durable
/// superblock links them.
pub trait WriteGuard: Send + Sync {
    /// The reason why this range must not be overwritten, if there is one.
    fn forbids(&self, path: &Path, range: Range<u64>) -> Option<String>;
    /// A file became durable with this content.
    fn synced(&self, path: &Path, content: &Image);
}

/// The start of a call: its kind and place.
pub(super) struct Call<'a> {
    pub kind: CallKind,
    pub path: &'a Path,
    pub offset: u64,
    pub bytes: u64,
    pub data: u64,
}

impl<'a> Call<'a> {
    pub fn new(kind: CallKind, path: &'a Path) -> Self {
        Self { kind, path, offset: 0, bytes: 0, data: 0 }
    }

    pub fn range(mut self, offset: u64, bytes: u64) -> Self {
        (self.offset, self.bytes) = (offset, bytes);
        self
    }
}

#[derive(Default)]
pub(super) struct World {
    pub disk: DiskState,
    pub calls: u64,
    pub changes: u64,
    pub syncs: u64,
    pub by_kind: BTreeMap<CallKind, u64>,
    pub trace: u64,
    pub log: Option<Vec<String>>,
    pub faults: Vec<Fault>,
    pub struck: u64,
    pub failed_change: bool,
    pub sync_failed: bool,
    pub changes_after_failure: Vec<String>,
    pub points: Option<Vec<Point>>,
    pub note: Note,
    pub guard: Option<Arc<dyn WriteGuard>>,
    pub violations: Vec<String>,
    pub capacity: Option<u64>,
    /// Where reads fail.
    pub bad_sectors: Vec<(PathBuf, Range<u64>)>,
    pub no_free_bytes: bool,
    pub locks: BTreeMap<Inode, SimulatedLock>,
    pub halted: bool,
    pub no_direct: bool,
    pub datasync_needs_size: bool,
    pub now: Duration,
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// EIO.
pub(super) fn eio() -> io::Error {
    errno(5)
}

/// ENOSPC.
pub(super) fn enospc() -> io::Error {
    errno(28)
}

/// EINVAL.
pub(super) fn einval() -> io::Error {
    errno(22)
}

impl World {
    /// Counts, traces and records a call; returns the fault that strikes it. `Err` if the machine
    /// has halted.
    pub fn begin(&mut self, call: &Call<'_>) -> io::Result<Option<FaultKind>> {
        if self.halted {
            return Err(eio());
        }
        let kind = call.kind;
        let failed_before = self.failed_change;
        let fault = self.fault_for(kind);
        let name = call.path.file_name().unwrap_or_default().as_encoded_bytes();
        let facts = [self.trace, kind as u64, xxh3_64(name), call.offset, call.bytes, call.data];
        self.trace = xxh3_64(&facts.map(u64::to_le_bytes).concat());
        if self.log.is_some() || (kind.is_change() && failed_before) {
            let words = self.words(call, fault);
            // Removing an unfinished file again is no write.
            let tidies = kind == CallKind::Remove && name.ends_with(b".new");
            if kind.is_change() && failed_before && !tidies {
                self.changes_after_failure.push(words.clone());
            }
            if let Some(log) = &mut self.log {
                log.push(words);
            }
        }
        if kind.is_change() {
            self.record(|world| world.words(call, fault));
            self.changes += 1;
        }
        self.syncs += u64::from(kind.is_sync());
        *self.by_kind.entry(kind).or_default() += 1;
        self.calls += 1;
        if let Some(FaultKind::Slow(time)) = fault {
            self.now += time;
        }
        Ok(fault)
    }

    /// Records the current disk, if a recording is on.
    pub fn record(&mut self, call: impl FnOnce(&World) -> String) {
        if self.points.is_none() {
            return;
        }
        let point = Point {
            disk: self.disk.clone(),
            change_number: self.changes,
            call: call(self),
            note: self.note,
        };
        if let Some(points) = &mut self.points {
            points.push(point);
        }
    }

    fn words(&self, call: &Call<'_>, fault: Option<FaultKind>) -> String {
        let fault = fault.map(|fault| format!(" !{fault:?}")).unwrap_or_default();
        let Call { kind, path, offset, bytes, .. } = call;
        let path = path.display();
        format!("#{} {kind:?} {path} [{offset}, +{bytes}]{fault}", self.calls)
    }

    fn fault_for(&mut self, call: CallKind) -> Option<FaultKind> {
        let of_kind = self.by_kind.get(&call).copied().unwrap_or(0);
        let (calls, changes, syncs) = (self.calls, self.changes, self.syncs);
        let struck = self.faults.iter().find(|fault| {
            let (counted, at, now) = match fault.when {
                When::Call(at) => (true, at, calls),
                When::Kind(kind, at) => (kind == call, at, of_kind),
                When::Change(at) => (call.is_change(), at, changes),
                When::Sync(at) => (call.is_sync(), at, syncs),
            };
            let hit = if fault.sticky { now >= at } else { now == at && counted };
            hit && fault.kind.strikes(call)
        })?;
        let kind = struck.kind;
        self.struck += 1;
        let failure = matches!(kind, FaultKind::Eio | FaultKind::Short | FaultKind::Sync(_))
            || (kind == FaultKind::Enospc && call.is_sync());
        if failure && call.is_change() {
            self.failed_change = true;
        }
        Some(kind)
    }

    /// True if a read of these bytes meets a bad sector.
    pub fn is_broken(&self, path: &Path, read: Range<u64>) -> bool {
        let mut bad = self.bad_sectors.iter();
        bad.any(|(own, bad)| own == path && bad.start < read.end && read.start < bad.end)
    }

    /// Fails with ENOSPC if this many more bytes do not fit.
    pub fn take_space(&self, bytes: u64) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if bytes > 0 && self.disk.allocated_bytes() + bytes > capacity => {
                Err(enospc())
            }
            _ => Ok(()),
        }
    }

    pub fn space_for(&self, file: Inode, offset: u64, bytes: u64) -> io::Result<()> {
        if self.capacity.is_none() {
            return Ok(());
        }
        let missing = self.disk.file(file).map_or(0, |file| file.seen.missing_bytes(offset, bytes));
        self.take_space(missing)
    }

    pub fn write(
        &mut self,
        file: Inode,
        path: &Path,
        offset: u64,
        data: Vec<u8>,
        fault: Option<FaultKind>,
    ) -> io::Result<()> {
        let bytes = data.len() as u64;
        let forbidden =
            self.guard.as_ref().and_then(|guard| guard.forbids(path, offset..offset + bytes));
        if let Some(why) = forbidden {
            let place = format!("{} [{offset}, +{bytes}]", path.display());
            self.violations.push(format!("write to {place}: {why}"));
        }
        self.space_for(file, offset, bytes)?;
        let touched = |bad: &Range<u64>| bad.start < offset + bytes && offset < bad.end;
        self.bad_sectors.retain(|(own, bad)| own != path || !touched(bad));
        let half = data.len() / 2 / super::SECTOR * super::SECTOR;
        match fault {
            None | Some(FaultKind::Slow(_)) => {}
            Some(FaultKind::LostWrite) => return Ok(()),
            Some(FaultKind::Misdirect(by)) => {
                let offset = offset.saturating_add_signed(by);
                self.disk.change(Change::Write { file, offset, data });
                return Ok(());
            }
            Some(FaultKind::TornWrite) => {
                let data = data[..half].to_vec();
                self.disk.change(Change::Write { file, offset, data });
                return Ok(());
            }
            Some(FaultKind::Short) => {
                let data = data[..half].to_vec();
                self.disk.change(Change::Write { file, offset, data });
                return Err(eio());
            }
            Some(FaultKind::Enospc) => return Err(enospc()),
            Some(_) => return Err(eio()),
        }
        self.disk.change(Change::Write { file, offset, data });
        Ok(())
    }

    pub fn read(
        &self,
        file: Inode,
        offset: u64,
        buf: &mut [u8],
        direct: bool,
        fault: Option<FaultKind>,
    ) -> io::Result<()> {
        let state = self.disk.file(file).ok_or_else(eio)?;
        let image = if direct { self.disk.direct_view(file) } else { None };
        let image = image.unwrap_or_else(|| state.seen.clone());
        if offset + buf.len() as u64 > image.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match fault {
            None | Some(FaultKind::Slow(_)) => image.read(offset, buf),
            Some(FaultKind::StaleRead) => state.older.read(offset, buf),
            Some(FaultKind::FlipRead(bit)) => {
                image.read(offset, buf);
                if !buf.is_empty() {
                    let bit = bit % (buf.len() as u64 * 8);
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
            Some(_) => return Err(eio()),
        }
        Ok(())
    }

    /// Syncs a file or directory, or fails as planned.
    pub fn sync(
        &mut self,
        owner: Inode,
        path: &Path,
        kind: CallKind,
        fault: Option<FaultKind>,
    ) -> io::Result<()> {
        let failure = match fault {
            None | Some(FaultKind::Slow(_)) => None,
            Some(FaultKind::Sync(failure)) => Some((failure, eio())),
            Some(FaultKind::Enospc) => Some((SyncFailure::CacheKeepsNew, enospc())),
            Some(_) => Some((SyncFailure::CacheKeepsNew, eio())),
        };
        if let Some((failure, error)) = failure {
            self.sync_failed = true;
            match failure {
                SyncFailure::CacheKeepsNew => self.disk.drop_pending(owner, false),
                SyncFailure::CacheReverts => self.disk.drop_pending(owner, true),
                SyncFailure::ErrorOnce => {}
            }
            return Err(error);
        }
        let grown = kind == CallKind::SyncData && self.datasync_needs_size && {
            let file = self.disk.file(owner);
            file.is_some_and(|file| file.seen.len() != file.durable.len())
        };
        if grown {
            // The strict reading of fdatasync: a file that has grown needs an fsync (docs/safety.md
            // §3.4).
            let path = path.display();
            self.violations.push(format!("{path}: fdatasync after the file's size changed"));
        }
        self.disk.sync(owner);
        if let (Some(guard), Some(file)) = (self.guard.clone(), self.disk.file(owner)) {
            guard.synced(path, &file.durable);
        }
        Ok(())
    }
}
