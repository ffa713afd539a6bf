//! Asking the processor to bring memory near before it is needed.
//!
//! A walk whose next address is in the memory it has yet to wait for takes a cache miss a step; one that
//! guesses the next addresses takes them together.

/// Length of a cache line.
pub const CACHE_LINE_BYTES: usize = 64;

/// Asks for the line that holds `at`; any address may be given, nothing is read.
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
