//! Threads that read ahead of long walks (`db/ahead.rs`), and the memory of what they have brought and nobody
//! has come for yet.
//!
//! Invariants
//! 1. All walks of a store together have at most a sixteenth of its budget brought or under way, and the block cache
//!    is that much smaller.
//! 2. There is no thread before the first long walk, none in a store without threads of its own, and none after
//!    [`Readers::close`].
//! 3. What a thread holds does not hold the pool: a thread that ends its pool would wait for itself.
//!
//! Threads: all.

use crate::{
    io::Workers,
    sync::{Arc, AtomicBool, AtomicU64, OnceLock, Ordering},
};

use super::pool::{Task, TaskPool};

/// However many cores there are: half of what they do is to wait for the device.
const READERS: usize = 4;

/// The threads, and what they may hold.
#[derive(Debug)]
pub(crate) struct Readers {
    pool: OnceLock<TaskPool>,
    threads: usize,
    closed: AtomicBool,
    held_bytes: Arc<AtomicU64>,
    held_bytes_max: u64,
}

/// Memory of a piece that is brought.
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

    /// Memory for a piece; `None` if there is no thread to bring it, or others have what there is.
    pub fn memory(&self, bytes: u64) -> Option<PieceMemory> {
        if self.threads == 0 || self.closed.load(Ordering::Acquire) {
            return None;
        }
        let memory = PieceMemory { held_bytes: self.held_bytes.clone(), bytes };
        let held = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        (held + bytes <= self.held_bytes_max).then_some(memory)
    }

    /// Has a reader do this soon; after [`close`](Self::close) nobody does.
    pub fn spawn(&self, task: Task) {
        self.pool.get_or_init(|| TaskPool::named("read", self.threads)).spawn(task);
    }

    /// Bytes that are brought or under way.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Ends the threads; what comes later is read by the walks themselves.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // A first walk may be making the pool just now: it gets one that has no threads any more.
        self.pool.get_or_init(|| TaskPool::named("read", 0)).close();
    }
}

impl Drop for PieceMemory {
    fn drop(&mut self) {
        self.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
