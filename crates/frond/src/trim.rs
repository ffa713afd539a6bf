//! Returns freed memory to the operating system where the allocator would keep it.
//!
//! Each time that a block larger than ever before is freed, the GNU C library raises two
//! thresholds: the size from which it maps blocks separately, and how much free memory it keeps, up
//! to 64 MiB (mallopt(3), "dynamic mmap threshold"). After a transaction or a load larger than
//! memory it would keep about as much as that work took, outside of any budget. Programs with
//! another allocator lose nothing.
//!
//! Closing a store of very many trees leaves as much free memory, in pieces that the next store to
//! be opened does not fill.
//!
//! Cost: some milliseconds, during which allocations of other threads may wait; more in a program
//! with much memory of its own. So it is called seldom, without locks that others wait for, and
//! after megabytes were freed: when a store is opened or closed, and after work that did not fit
//! into memory.

use crate::sync::{AtomicU64, Ordering};

/// If fewer bytes than this were freed, the allocator may keep them.
const FREED_MIN: u64 = 4 << 20;

/// Returns the allocator's free memory to the system if `freed_bytes`, freed just now, is large
/// enough.
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

/// Returns memory that was freed before this value is dropped: make it the last field of something
/// large.
#[derive(Debug, Default)]
pub struct FreedBefore(AtomicU64);

impl FreedBefore {
    /// Announces that about `bytes` bytes are going to be freed.
    pub fn expect(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for FreedBefore {
    fn drop(&mut self) {
        give_freed_back(self.0.load(Ordering::Relaxed));
    }
}
