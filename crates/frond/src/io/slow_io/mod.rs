//! The slow-I/O watchdog: file operations that take long are reported while they are still running
//! (P14).
//!
//! No time limit turns a slow disk into a failed one: the engine waits as long as the disk takes.
//! But the operator wants to know what it waits for. [`WatchedVfs`] wraps the files of a store and
//! records each operation ([`Operation`]) in a slot when it starts. A scan of the slots finds the
//! operations that have been running for long.
//!
//! Invariants
//! 1. An operation has a slot from before it starts until it has ended, unless all [`SLOTS`] are
//!    taken.
//! 2. Each slow operation is counted once: when it is first seen, or when it ends.
//!
//! Cost: two clock reads and three stores per system call. Threads: all; no locks except when an
//! operation is slow or a file is opened.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Clock, File, LockKind, OpenMode, Vfs};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Weak, fence};

/// An operation that has lasted this long is slow.
pub const SLOW: Duration = Duration::from_secs(10);

/// Number of operations watched at once; a store has some threads, and few of them wait for the
/// disk.
const SLOTS: usize = 256;

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Changes the length, reserves space or frees it.
    Resize,
    /// Opens, renames or removes.
    Name,
    /// Waits until what was written is on the device.
    Sync,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Resize => "resize",
            Self::Name => "open, renaming or removal",
            Self::Sync => "sync",
        })
    }
}

/// A slow operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowOperation {
    /// The file, or the directory if one is synced.
    pub file: PathBuf,
    /// The kind of operation.
    pub operation: Operation,
    /// Offset in the file; 0 for a sync.
    pub offset: u64,
    /// How long it has lasted so far.
    pub lasts: Duration,
}

impl fmt::Display for SlowOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, operation, offset, lasts } = self;
        let seconds = lasts.as_secs();
        write!(f, "{operation} of {} at {offset} lasts for {seconds} s", file.display())
    }
}

/// One operation in progress.
#[derive(Default)]
struct Slot {
    /// Clock time at its start in nanoseconds, at least 1; 0 if the slot is free.
    began: AtomicU64,
    /// The file's number, the kind of operation, and whether it was counted.
    what: AtomicU64,
    offset: AtomicU64,
}

const COUNTED: u64 = 1 << 8;
const FILE_SHIFT: u32 = 16;

/// The operations in progress on the files of a store.
pub struct Watch {
    clock: Arc<dyn Clock>,
    slots: Box<[Slot]>,
    /// Paths by number. A number is reused after its file is closed.
    files: Mutex<Vec<(PathBuf, Weak<()>)>>,
    slow: AtomicU64,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("slow", &self.slow).finish_non_exhaustive()
    }
}

impl Watch {
    fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Arc::new(Self { clock, slots, files: Mutex::default(), slow: AtomicU64::new(0) })
    }

    /// Number of slow operations so far, including those in progress.
    pub fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// The slow operations in progress.
    pub fn look(&self) -> Vec<SlowOperation> {
        let now = self.now();
        let mut found = Vec::new();
        for slot in &self.slots {
            let began = slot.began.load(Ordering::Acquire);
            let lasts = Duration::from_nanos(now.saturating_sub(began));
            if began == 0 || lasts < SLOW {
                continue;
            }
            let (what, offset) =
                (slot.what.load(Ordering::Relaxed), slot.offset.load(Ordering::Relaxed));
            // Pairs with the Release fence in `over`: if another operation has taken the slot
            // meanwhile, the load below sees it.
            fence(Ordering::Acquire);
            if slot.began.load(Ordering::Acquire) != began {
                continue;
            }
            self.count(slot, what);
            let operation = match what & 0xff {
                0 => Operation::Read,
                1 => Operation::Write,
                2 => Operation::Resize,
                3 => Operation::Name,
                _ => Operation::Sync,
            };
            let file = self.files.lock().unwrap().get((what >> FILE_SHIFT) as usize).cloned();
            let file = file.map(|(path, _)| path).unwrap_or_default();
            found.push(SlowOperation { file, operation, offset, lasts });
        }
        found
    }

    fn count(&self, slot: &Slot, what: u64) {
        let counted = what | COUNTED;
        let (set, fail) = (Ordering::Relaxed, Ordering::Relaxed);
        if what != counted && slot.what.compare_exchange(what, counted, set, fail).is_ok() {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        (self.clock.now().as_nanos() as u64).max(1)
    }

    /// Performs an operation under watch.
    fn over<T>(&self, file: u64, operation: Operation, offset: u64, work: impl FnOnce() -> T) -> T {
        let began = self.now();
        let what = file << FILE_SHIFT | operation as u64;
        // Few operations start at the same moment: a slot at or after this one is free.
        let first = (began >> 6) as usize % SLOTS;
        let slot = (0..SLOTS).map(|step| &self.slots[(first + step) % SLOTS]).find(|slot| {
            let (set, fail) = (Ordering::Acquire, Ordering::Relaxed);
            slot.began.load(Ordering::Relaxed) == 0
                && slot.began.compare_exchange(0, u64::MAX, set, fail).is_ok()
        });
        let Some(slot) = slot else { return work() };
        // Pairs with the Acquire fence in `look`: a thread that reads what is written below sees
        // that the slot has been reused.
        fence(Ordering::Release);
        slot.what.store(what, Ordering::Relaxed);
        slot.offset.store(offset, Ordering::Relaxed);
        slot.began.store(began, Ordering::Release);
        let _under_way = UnderWay { watch: self, slot, what, began };
        work()
    }

    fn number(&self, path: &Path, alive: &Arc<()>) -> u64 {
        let mut files = self.files.lock().unwrap();
        let named = (path.to_owned(), Arc::downgrade(alive));
        let free = files.iter().position(|(_, file)| file.strong_count() == 0);
        match free {
            Some(number) => files[number] = named,
            None => files.push(named),
        }
        free.unwrap_or(files.len() - 1) as u64
    }
}

/// Ends an operation, even if it panics.
struct UnderWay<'a> {
    watch: &'a Watch,
    slot: &'a Slot,
    what: u64,
    began: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.watch.now().saturating_sub(self.began) >= SLOW.as_nanos() as u64 {
            self.watch.count(self.slot, self.what);
        }
        self.slot.began.store(0, Ordering::Release);
    }
}

/// A file system whose files are watched.
#[derive(Debug)]
pub struct WatchedVfs {
    vfs: Arc<dyn Vfs>,
    watch: Arc<Watch>,
}

impl WatchedVfs {
    /// Wraps `vfs`, and watches the files that are opened through the wrapper.
    pub fn new(vfs: Arc<dyn Vfs>, clock: Arc<dyn Clock>) -> Self {
        Self { vfs, watch: Watch::new(clock) }
    }

    fn over<T>(&self, operation: Operation, path: &Path, work: impl FnOnce() -> T) -> T {
        let alive = Arc::new(());
        let number = self.watch.number(path, &alive);
        self.watch.over(number, operation, 0, work)
    }

    /// The watch of these files.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
}

impl Vfs for WatchedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let alive = Arc::new(());
        let number = self.watch.number(path, &alive);
        let file = self.watch.over(number, Operation::Name, 0, || self.vfs.open(path, mode))?;
        Ok(Arc::new(WatchedFile { file, number, watch: self.watch.clone(), _alive: alive }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.vfs.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.vfs.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.vfs.create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.over(Operation::Name, to, || self.vfs.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.over(Operation::Name, path, || self.vfs.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.over(Operation::Sync, dir, || self.vfs.sync_dir(dir))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.vfs.free_bytes(dir)
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    number: u64,
    watch: Arc<Watch>,
    /// Keeps the number reserved.
    _alive: Arc<()>,
}

impl WatchedFile {
    fn over<T>(&self, operation: Operation, offset: u64, work: impl FnOnce() -> T) -> T {
        self.watch.over(self.number, operation, offset, work)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.over(Operation::Read, offset, || self.file.read_at(buf, offset))
    }

    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        self.over(Operation::Read, offset, || self.file.read_vectored_at(bufs, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.over(Operation::Write, offset, || self.file.write_at(buf, offset))
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.over(Operation::Write, offset, || self.file.write_vectored_at(bufs, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.over(Operation::Resize, bytes, || self.file.set_len(bytes))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.over(Operation::Resize, offset, || self.file.allocate(offset, bytes))
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.over(Operation::Resize, offset, || self.file.punch(offset, bytes))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.over(Operation::Sync, 0, || self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.over(Operation::Sync, 0, || self.file.sync_all())
    }

    fn evict(&self) {
        self.file.evict();
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.file.try_lock(kind)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn lock_holders(&self) -> Vec<u32> {
        self.file.lock_holders()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
