//! Threads that read ahead of long scans (`db/read/readahead.rs`), and the memory of blocks they
//! have read that no scan has taken yet.
//!
//! Invariants
//! 1. All scans of a store together have at most a sixteenth of its budget read ahead or in flight,
//!    and the block cache is that much smaller.
//! 2. There are no threads before the first long scan, none in a store without threads of its own,
//!    and none after [`Readers::close`].
//! 3. A task must not hold the pool: a thread that drops the last reference to its own pool would
//!    join itself.
//!
//! Threads: all.

use crate::{
    io::Workers,
    sync::{Arc, AtomicBool, AtomicU64, OnceLock, Ordering},
};

use super::pool::{Task, TaskPool};

/// Number of threads, however many cores there are: half of the time they wait for the device.
const READERS: usize = 4;

/// The readahead threads, and their memory limit.
#[derive(Debug)]
pub(crate) struct Readers {
    pool: OnceLock<TaskPool>,
    threads: usize,
    closed: AtomicBool,
    held_bytes: Arc<AtomicU64>,
    held_bytes_max: u64,
}

/// The memory of a piece that is read ahead; released on drop.
#[derive(Debug)]
pub(crate) struct PieceMemory {
    held_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Readers {
    pub fn new(workers: Workers, cache_bytes: u64) -> Self {
        let threads = match workers {
            Workers::Threads(_) => READERS,
            Workers::Manual => 0,
        };
        Self {
            pool: OnceLock::new(),
            threads,
            closed: AtomicBool::new(false),
            held_bytes: Arc::default(),
            held_bytes_max: cache_bytes / 16,
        }
    }

    /// Reserves memory for a piece. `None` if there is no thread to read it, or if other scans use
    /// up the limit.
    pub fn memory(&self, bytes: u64) -> Option<PieceMemory> {
        if self.threads == 0 || self.closed.load(Ordering::Acquire) {
            return None;
        }
        let memory = PieceMemory { held_bytes: self.held_bytes.clone(), bytes };
        let held = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        (held + bytes <= self.held_bytes_max).then_some(memory)
    }

    /// Queues a task for a reader thread; after [`close`](Self::close) the task is dropped.
    pub fn spawn(&self, task: Task) {
        self.pool.get_or_init(|| TaskPool::named("read", self.threads)).spawn(task);
    }

    /// Bytes that are read ahead or in flight.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Ends the threads; from now on scans read for themselves.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // A first scan may be creating the pool right now; then `close` reaches that one. Otherwise
        // the pool created here has no threads.
        self.pool.get_or_init(|| TaskPool::named("read", 0)).close();
    }
}

impl Drop for PieceMemory {
    fn drop(&mut self) {
        self.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
