//! Prefetch hints: ask the processor to load memory into its cache before it is needed.
//!
//! A walk whose next address is in memory that has yet to arrive takes one cache miss per step; a
//! walk that can guess the next addresses takes the misses together.

/// Length of a cache line.
pub const CACHE_LINE_BYTES: usize = 64;

/// Prefetches the cache line that holds `at`. Any address may be given; nothing is read.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
