//! `SimVfs`: the simulated disk as the engine's file system, with its clock and randomness.
//!
//! Threads: any; one mutex orders all calls. The run is deterministic when the engine's workers are
//! `Workers::Manual`.

use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use frond::internals::io::{ALIGN, Clock, Env, File, LockKind, OpenMode, Rng, Vfs, Workers};

use super::{
    fault::{CallKind, Fault, FaultKind},
    image::Image,
    state::{Change, DiskState, Inode},
    world::{Call, Note, Point, World, WriteGuard, einval, eio, enospc},
};
use crate::Dice;

/// A simulated file system; clones share one disk.
#[derive(Clone, Default)]
pub struct SimVfs(Arc<Mutex<World>>);

impl fmt::Debug for SimVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimVfs").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl SimVfs {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine started on this disk: nothing locked, no faults, calls counted from 0.
    pub fn start(disk: DiskState) -> Self {
        Self(Arc::new(Mutex::new(World { disk, ..World::default() })))
    }

    // A test that panics inside a call must not hide its own message behind a poisoned lock.
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An environment on this disk with manual workers, a manual clock and seeded randomness.
    pub fn env(&self, seed: u64) -> Env {
        Env {
            vfs: Arc::new(self.clone()),
            clock: Arc::new(SimClock(self.clone())),
            rng: Arc::new(SimRng::new(seed)),
            workers: Workers::Manual,
        }
    }

    /// The current disk.
    pub fn disk(&self) -> DiskState {
        self.world().disk.clone()
    }

    /// Number of calls of all kinds.
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Number of calls that change something: those at which a crash is tried.
    pub fn changes(&self) -> u64 {
        self.world().changes
    }

    /// Number of calls of one kind.
    pub fn calls_of(&self, kind: CallKind) -> u64 {
        self.world().by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Hash over all calls with their places and data: equal for equal runs.
    pub fn trace(&self) -> u64 {
        self.world().trace
    }

    /// Records every call in words from now on, for [`SimVfs::log`].
    pub fn keep_log(&self) {
        self.world().log = Some(Vec::new());
    }

    /// The calls in words.
    pub fn log(&self) -> Vec<String> {
        self.world().log.clone().unwrap_or_default()
    }

    /// Plans a fault.
    pub fn plan(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Removes all faults.
    pub fn mend(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.failed_change = false;
    }

    /// Number of calls that faults have struck.
    pub fn struck(&self) -> u64 {
        self.world().struck
    }

    /// True if a sync has failed: what the page cache held may be gone, as after a power failure.
    pub fn sync_failed(&self) -> bool {
        self.world().sync_failed
    }

    /// Calls that changed something after a write or sync had failed (P12 allows none).
    pub fn changes_after_failure(&self) -> Vec<String> {
        self.world().changes_after_failure.clone()
    }

    /// Starts to record the disk before every call that changes something.
    pub fn record(&self) {
        self.world().points = Some(Vec::new());
    }

    /// Ends the recording. The last point is the disk as it is now.
    pub fn recorded(&self) -> Vec<Point> {
        let mut world = self.world();
        world.record(|_| "end".to_owned());
        world.points.take().unwrap_or_default()
    }

    /// Sets the note of the harness, which goes into recorded points from now on.
    pub fn set_note(&self, note: Note) {
        self.world().note = note;
    }

    /// Ends the process: every call fails from now on and changes nothing.
    pub fn halt(&self) {
        self.world().halted = true;
    }

    /// Sets the capacity of the device; `None`: unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Space in use, in bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.world().disk.allocated_bytes()
    }

    /// Makes direct I/O unavailable, as on tmpfs.
    pub fn without_direct_io(&self) {
        self.world().no_direct = true;
    }

    /// Counts an `fdatasync` after a change of size as a violation: a commit must never change
    /// metadata (docs/safety.md §3.4).
    pub fn be_strict_about_sizes(&self) {
        self.world().datasync_needs_size = true;
    }

    /// Registers a guard that knows what must not be overwritten.
    pub fn set_guard(&self, guard: Arc<dyn WriteGuard>) {
        self.world().guard = Some(guard);
    }

    /// Violations seen so far: guarded ranges written, unaligned direct I/O.
    pub fn violations(&self) -> Vec<String> {
        self.world().violations.clone()
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.world().now += time;
    }

    /// The simulated time.
    pub fn now(&self) -> Duration {
        self.world().now
    }

    /// Creates bad sectors: reads that touch these bytes of a file fail with EIO from now on. A
    /// write repairs what it touches, as a device remaps a sector.
    pub fn break_sectors(&self, path: &Path, range: Range<u64>) {
        self.world().bad_sectors.push((path.to_owned(), range));
    }

    /// Repairs all sectors.
    pub fn heal_sectors(&self) {
        self.world().bad_sectors.clear();
    }

    /// Flips a bit on the medium; the file may be open.
    pub fn flip(&self, path: &Path, offset: u64) {
        let mut world = self.world();
        let Some(inode) = world.disk.find(path) else { return };
        let Some(file) = world.disk.file(inode) else { return };
        let mut image = (*file.seen).clone();
        let mut byte = [0];
        image.read(offset, &mut byte);
        image.write(offset, &[byte[0] ^ 1]);
        world.disk.replace_content(inode, image);
    }

    /// Sets whether the file system hides how much is free.
    pub fn hide_free_bytes(&self, hidden: bool) {
        self.world().no_free_bytes = hidden;
    }

    /// Content of a file as reads would see it.
    pub fn content(&self, path: &Path) -> Option<Image> {
        let world = self.world();
        let inode = world.disk.find(path)?;
        world.disk.file(inode).map(|file| (*file.seen).clone())
    }
}

/// Simple errors for faults that do not concern data.
fn refuse(fault: Option<FaultKind>) -> io::Result<()> {
    match fault {
        None | Some(FaultKind::Slow(_)) => Ok(()),
        Some(FaultKind::Enospc) => Err(enospc()),
        Some(_) => Err(eio()),
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut world = self.world();
        let found = world.disk.find(path);
        let creates = mode.create_new && found.is_none();
        let kind = if creates { CallKind::Create } else { CallKind::Open };
        refuse(world.begin(&Call::new(kind, path))?)?;
        let inode = match found {
            Some(inode) if world.disk.is_dir(inode) => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Some(_) if mode.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(inode) => inode,
            None if !mode.create_new => return Err(io::ErrorKind::NotFound.into()),
            None => {
                let (dir, name) = world.disk.parent(path)?;
                world.take_space(1)?;
                let inode = world.disk.create(false);
                world.disk.change(Change::Names { dir, remove: None, insert: Some((name, inode)) });
                inode
            }
        };
        let direct = mode.direct && !world.no_direct;
        let path = path.to_owned();
        Ok(Arc::new(SimFile {
            vfs: self.clone(),
            inode,
            path,
            write: mode.write,
            direct,
            holds_lock: Mutex::new(None),
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::Exists, path))?)?;
        Ok(world.disk.find(path).is_some())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::List, dir))?)?;
        let inode = world.disk.find(dir).filter(|&inode| world.disk.is_dir(inode));
        let names = world.disk.names(inode.ok_or(io::ErrorKind::NotFound)?);
        Ok(names.into_iter().map(PathBuf::from).collect())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::CreateDir, path))?)?;
        if world.disk.find(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = world.disk.parent(path)?;
        let inode = world.disk.create(true);
        world.disk.change(Change::Names { dir, remove: None, insert: Some((name, inode)) });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::Rename, to))?)?;
        let inode = world.disk.find(from).ok_or(io::ErrorKind::NotFound)?;
        let (from_dir, from_name) = world.disk.parent(from)?;
        let (dir, name) = world.disk.parent(to)?;
        if from_dir != dir {
            return Err(io::ErrorKind::CrossesDevices.into()); // the engine has one directory
        }
        let insert = Some((name, inode));
        world.disk.change(Change::Names { dir, remove: Some(from_name), insert });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::Remove, path))?)?;
        world.disk.find(path).ok_or(io::ErrorKind::NotFound)?;
        let (dir, name) = world.disk.parent(path)?;
        world.disk.change(Change::Names { dir, remove: Some(name), insert: None });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        let fault = world.begin(&Call::new(CallKind::SyncDir, dir))?;
        let inode = world.disk.find(dir).ok_or(io::ErrorKind::NotFound)?;
        world.sync(inode, dir, CallKind::SyncDir, fault)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let mut world = self.world();
        refuse(world.begin(&Call::new(CallKind::FreeBytes, dir))?)?;
        if world.no_free_bytes {
            return Err(eio());
        }
        let capacity = world.capacity.unwrap_or(1 << 50);
        Ok(capacity.saturating_sub(world.disk.allocated_bytes()))
    }
}

/// An open simulated file.
struct SimFile {
    vfs: SimVfs,
    inode: Inode,
    path: PathBuf,
    write: bool,
    direct: bool,
    holds_lock: Mutex<Option<LockKind>>,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SimFile {
    fn call(&self, kind: CallKind) -> Call<'_> {
        Call::new(kind, &self.path)
    }

    /// Checks alignment: direct I/O needs everything aligned; otherwise the kernel returns EINVAL,
    /// and so does this, and records the violation.
    fn check_alignment(
        &self,
        world: &mut World,
        offset: u64,
        parts: impl Iterator<Item = (usize, usize)>,
    ) -> io::Result<()> {
        if !self.direct {
            return Ok(());
        }
        let align = ALIGN as u64;
        let bad = |number: usize| !(number as u64).is_multiple_of(align);
        let mut parts = parts;
        if !offset.is_multiple_of(align) || parts.any(|(at, bytes)| bad(at) || bad(bytes)) {
            let path = self.path.display();
            world.violations.push(format!("{path}: unaligned direct I/O at offset {offset}"));
            return Err(einval());
        }
        Ok(())
    }

    fn writable(&self) -> io::Result<()> {
        if self.write { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn sync(&self, kind: CallKind) -> io::Result<()> {
        let mut world = self.vfs.world();
        let fault = world.begin(&self.call(kind))?;
        world.sync(self.inode, &self.path, kind, fault)
    }

    fn change(&self, kind: CallKind, offset: u64, bytes: u64, change: Change) -> io::Result<()> {
        self.writable()?;
        let mut world = self.vfs.world();
        refuse(world.begin(&self.call(kind).range(offset, bytes))?)?;
        if kind == CallKind::Allocate {
            world.space_for(self.inode, offset, bytes)?;
        }
        world.disk.change(change);
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_vectored_at(&mut [io::IoSliceMut::new(buf)], offset)
    }

    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let mut world = self.vfs.world();
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        let fault = world.begin(&self.call(CallKind::Read).range(offset, bytes as u64))?;
        let parts = bufs.iter().map(|buf| (buf.as_ptr() as usize, buf.len()));
        self.check_alignment(&mut world, offset, parts)?;
        if world.is_broken(&self.path, offset..offset + bytes as u64) {
            return Err(eio());
        }
        let mut at = offset;
        for buf in bufs {
            world.read(self.inode, at, buf, self.direct, fault)?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_vectored_at(&[io::IoSlice::new(buf)], offset)
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.writable()?;
        let mut data = Vec::with_capacity(bufs.iter().map(|buf| buf.len()).sum());
        bufs.iter().for_each(|buf| data.extend_from_slice(buf));
        let mut world = self.vfs.world();
        let mut call = self.call(CallKind::Write).range(offset, data.len() as u64);
        call.data = xxhash_rust::xxh3::xxh3_64(&data);
        let fault = world.begin(&call)?;
        let parts = bufs.iter().map(|buf| (buf.as_ptr() as usize, buf.len()));
        self.check_alignment(&mut world, offset, parts)?;
        world.write(self.inode, &self.path, offset, data, fault)
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = self.vfs.world();
        refuse(world.begin(&self.call(CallKind::Len))?)?;
        Ok(world.disk.file(self.inode).map_or(0, |file| file.seen.len()))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(CallKind::SetLen, 0, bytes, Change::SetLen { file: self.inode, len: bytes })
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let change = Change::Allocate { file: self.inode, offset, bytes };
        self.change(CallKind::Allocate, offset, bytes, change)
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let change = Change::Punch { file: self.inode, offset, bytes };
        self.change(CallKind::Punch, offset, bytes, change)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(CallKind::SyncData)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(CallKind::SyncAll)
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        let mut world = self.vfs.world();
        refuse(world.begin(&self.call(CallKind::Lock))?)?;
        let taken = world.locks.entry(self.inode).or_default().try_take(kind);
        if taken {
            *self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind);
        }
        Ok(taken)
    }

    fn unlock(&self) -> io::Result<()> {
        let held = self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(kind) = held {
            self.vfs.world().locks.entry(self.inode).or_default().release(kind);
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        // It cannot fail.
        let _ = self.unlock();
    }
}

/// A clock that moves only on request.
#[derive(Debug)]
pub struct SimClock(SimVfs);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, time: Duration) {
        self.0.advance(time);
    }
}

/// Seeded randomness for the engine.
#[derive(Debug)]
pub struct SimRng(Mutex<Dice>);

impl SimRng {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Dice::new(seed)))
    }
}

impl Rng for SimRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bits()
    }
}
