//! The four seams: files, clock, randomness, threads. Everything nondeterministic goes through them.
//!
//! The engine holds one [`Env`]; production opens with [`Env::real`], tests put a simulated disk, a
//! manual clock or a seeded generator in its place. Calls are dynamic: one indirect call beside a
//! system call is not measurable, and generics over four traits would be in every signature.
//!
//! Invariants
//! 1. `read_at` and `write_at` transfer everything or fail; a short file is `UnexpectedEof`.
//! 2. An error is returned once and means the descriptor is not to be used for writing again.
//! 3. A direct file takes offsets, lengths and addresses that are multiples of [`ALIGN`].
//! 4. `io` knows no format of Frond's.
//!
//! Threads: all of them, at once.

mod memory;
mod real;
mod watch;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::sync::Arc;

pub use memory::MemoryVfs;
pub use real::{RealClock, RealRng, RealVfs};
pub use watch::{Operation, SlowOperation};
pub(crate) use watch::{Watch, WatchedVfs};

/// Alignment that direct I/O needs, and the granularity of extents.
pub const ALIGN: usize = 4096;

/// How to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// Writing is allowed.
    pub write: bool,
    /// Create the file; fail if it exists.
    pub create_new: bool,
    /// Bypass the page cache where the file system can; see [`File::is_direct`].
    pub direct: bool,
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
    /// Length now.
    fn len(&self) -> io::Result<u64>;
    /// Cuts the file down, or extends it by a hole.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves space, so that writing there cannot meet a full disk.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Gives the space of a range back; it reads as zeros. May do nothing.
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;
    /// `fsync`.
    fn sync_all(&self) -> io::Result<()>;
    /// True if the page cache is bypassed, so that invariant 3 binds.
    fn is_direct(&self) -> bool;
    /// Takes the exclusive lock on the open file description; false if another holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Gives the lock back. Closing the last descriptor does, too; a closed store may have handles
    /// left.
    fn unlock(&self) -> io::Result<()>;
}

/// A file system.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// True if there is something of that name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates one directory (mode 0700); `AlreadyExists` if it is there.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames over whatever is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes free for us on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// Monotonic time. Nothing but pacing, timers and statistics may depend on it (P17).
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Time of day, since 1970: for people to read, never to decide by (P17).
    fn wall(&self) -> Duration;
    /// Sleeps, or lets simulated time pass.
    fn sleep(&self, time: Duration);
}

/// Randomness for identities and salts. Not for secrets.
pub trait Rng: Send + Sync + fmt::Debug {
    /// The next 64 bits.
    fn next_u64(&self) -> u64;
}

/// Who runs background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workers {
    /// This many worker threads, and a log thread.
    Threads(usize),
    /// None: work runs step by step when a test says so, or inside a call that would otherwise wait
    /// for it. The order of all I/O is then a function of the calls alone.
    Manual,
}

/// The world as the engine sees it.
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
    /// The real files, clock and randomness, with a worker for each core.
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
