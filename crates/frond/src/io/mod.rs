//! The four seams: files, clock, randomness, threads. Everything nondeterministic goes through
//! them.
//!
//! The engine holds one [`Env`]; production opens with [`Env::real`], tests substitute a simulated
//! disk, a manual clock or a seeded generator. Calls are dynamic: one indirect call per system call
//! is not measurable, and generics over four traits would appear in every signature.
//!
//! Invariants
//! 1. `read_at` and `write_at` transfer everything or fail; a short file is `UnexpectedEof`.
//! 2. An error is returned once; afterwards the descriptor must not be used for writing.
//! 3. A file with direct I/O accepts only offsets, lengths and addresses that are multiples of
//!    [`ALIGN`].
//! 4. `io` knows none of Frond's formats.
//!
//! Threads: all, concurrently.

mod aligned;
#[cfg(test)]
mod hooked;
mod memory;
mod real;
mod slow_io;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::sync::Arc;

pub(crate) use aligned::AlignedBuf;
#[cfg(test)]
pub use hooked::{Access, BadRanges, HookedFile, HookedVfs};
pub use memory::MemoryVfs;
pub use real::{RealClock, RealRng, RealVfs};
pub use slow_io::{Operation, SlowOperation};
pub(crate) use slow_io::{Watch, WatchedVfs};

/// The alignment that direct I/O requires, and the granularity of extents.
pub const ALIGN: usize = 4096;

/// Mode for opening a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// Writing is allowed.
    pub write: bool,
    /// Create the file; fail if it exists.
    pub create_new: bool,
    /// Bypass the page cache where the file system can; see [`File::is_direct`].
    pub direct: bool,
}

/// A lock on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Any number of open files may hold it at a time.
    Shared,
    /// No other open file may hold any lock.
    Exclusive,
}

/// An open file: one descriptor for its life.
pub trait File: Send + Sync + fmt::Debug {
    /// Fills `buf` from `offset`. Past the end: `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Fills all of `bufs` in turn from `offset`, in one call where the system can.
    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bufs` in turn from `offset`, in one call where the system can.
    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// The current length.
    fn len(&self) -> io::Result<u64>;
    /// Truncates the file, or extends it with a hole.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves space, so that writing there cannot hit a full disk.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Frees the space of a range, which then reads as zeros. May do nothing.
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;
    /// `fsync`.
    fn sync_all(&self) -> io::Result<()>;
    /// Removes the file's clean pages from the page cache, for a file that will hardly be read
    /// again. A hint: it may do nothing.
    fn evict(&self) {}
    /// True if the page cache is bypassed, so that invariant 3 applies.
    fn is_direct(&self) -> bool;
    /// Takes the lock on the open file description; false if another holds one that excludes it.
    fn try_lock(&self, kind: LockKind) -> io::Result<bool>;
    /// Releases the lock. Closing the last descriptor does so, too, but a closed store may still
    /// have handles.
    fn unlock(&self) -> io::Result<()>;
    /// Whether `path` names this file: another process may have renamed or removed it since it was
    /// opened. Always true in simulations, where no other process is.
    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }
    /// The processes that hold locks on the file, as far as the system reports them.
    fn lock_holders(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// The locks on a simulated file, of which the operating system knows nothing.
#[derive(Debug, Default)]
pub struct SimulatedLock {
    shared: usize,
    is_exclusive: bool,
}

impl SimulatedLock {
    /// Takes a lock; false if another excludes it.
    pub fn try_take(&mut self, kind: LockKind) -> bool {
        let is_free = !self.is_exclusive && (kind == LockKind::Shared || self.shared == 0);
        if is_free {
            match kind {
                LockKind::Shared => self.shared += 1,
                LockKind::Exclusive => self.is_exclusive = true,
            }
        }
        is_free
    }

    /// Releases a lock that was taken.
    pub fn release(&mut self, kind: LockKind) {
        match kind {
            LockKind::Shared => self.shared -= 1,
            LockKind::Exclusive => self.is_exclusive = false,
        }
    }
}

/// A file system.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// True if something with this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// The names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates one directory (mode 0700); `AlreadyExists` if it is there.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file or directory, replacing a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes available on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// Monotonic time. Only pacing, timers and statistics may depend on it (P17).
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Time of day, since 1970: for display only, never for decisions (P17).
    fn wall(&self) -> Duration;
    /// Sleeps, or lets simulated time pass.
    fn sleep(&self, time: Duration);
}

/// Randomness for identities and salts. Not for secrets.
pub trait Rng: Send + Sync + fmt::Debug {
    /// The next 64 bits.
    fn next_u64(&self) -> u64;
}

/// The threads that run background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workers {
    /// This many worker threads, and a log thread.
    Threads(usize),
    /// None: work runs step by step when a test requests it, or inside a call that would otherwise
    /// wait for it. The order of all I/O then depends only on the calls.
    Manual,
}

/// The environment of the engine: its access to the outside world.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files.
    pub vfs: Arc<dyn Vfs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Threads.
    pub workers: Workers,
}

impl Env {
    /// The real files, clock and randomness, with one worker per core (2 to 16).
    pub fn real() -> Self {
        let cores = crate::sync::available_parallelism().map_or(2, |n| n.get());
        Self {
            vfs: Arc::new(RealVfs),
            clock: Arc::new(RealClock::new()),
            rng: Arc::new(RealRng),
            workers: Workers::Threads(cores.clamp(2, 16)),
        }
    }
}
