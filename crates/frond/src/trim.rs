//! What was freed goes back to the system, where the allocator would keep it.
//!
//! The GNU C library raises two bounds each time that something larger than ever is freed: what it has mapped by itself,
//! and what it keeps for later, up to 64 MiB (mallopt(3), "dynamic mmap threshold"). After a transaction or a load beyond memory it
//! would keep about as much as that had taken, outside of any budget. Programs with another allocator lose nothing.
//!
//! A store of very many trees leaves as much when it is closed, in pieces that the next one to be opened does not fill.
//!
//! Cost: some milliseconds, more in a program with much memory of its own, in which allocations of other threads may wait. So only
//! those call it whose work did not fit into memory, or that open or close a store, seldom, without locks that others wait for, and
//! after megabytes were freed.

use crate::sync::{AtomicU64, Ordering};

/// Of less the allocator may keep what it likes.
const FREED_MIN: u64 = 4 << 20;

/// Gives back what the allocator has free, if so many bytes that were just freed are many.
#[cold]
pub fn give_freed_back(freed_bytes: u64) {
    if freed_bytes < FREED_MIN {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: the call takes no pointers, and may be made by any thread at any time.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Gives back what was freed before it is dropped: the last field of something large.
#[derive(Debug, Default)]
pub struct FreedBefore(AtomicU64);

impl FreedBefore {
    /// About so many bytes are going to be freed.
    pub fn expect(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for FreedBefore {
    fn drop(&mut self) {
        give_freed_back(self.0.load(Ordering::Relaxed));
    }
}
