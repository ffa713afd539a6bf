//! Slabs: the memory under everything large, mapped from the system, with huge pages as soon as
//! there is much of it.
//!
//! Allocations of 4 KiB and more from the general allocator cost a page fault for each 4 KiB when
//! they are new, and a TLB entry for each 4 KiB that a reader touches. A large slab costs one fault
//! and one entry. The first slabs of a pool are small, so that a small store stays small. Slabs are
//! cut into spans ([`spans`](super::spans)).
//!
//! Invariant: a slab starts as zeros, is aligned to 4096 at least, and goes back to the system when
//! its last owner drops it.
//!
//! Threads: memory may be used by any.

use std::ptr::NonNull;

/// The size of a large slab: one huge page.
pub(super) const LARGE_BYTES: usize = 2 << 20;
/// The size of a slab while a pool has less than `LARGE_BYTES`.
pub(super) const SMALL_BYTES: usize = 256 << 10;

/// The system's page size: the least that it gives and takes; not everywhere 4 KiB.
pub(super) fn page_bytes() -> usize {
    if cfg!(miri) { 4096 } else { rustix::param::page_size() }
}

/// Length of the next slab of a pool that has mapped this many bytes.
pub(super) fn bytes_after(mapped: usize) -> usize {
    if mapped >= LARGE_BYTES { LARGE_BYTES } else { SMALL_BYTES }
}

/// A piece of memory from the system.
pub(super) struct Slab {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a slab is memory and nothing else; the invariants of spans say which code may touch
// which part.
unsafe impl Send for Slab {}
// SAFETY: as for `Send`; the slab itself offers no access at all.
unsafe impl Sync for Slab {}

impl Slab {
    /// Maps a new slab, `SMALL_BYTES` or `LARGE_BYTES` long.
    ///
    /// If there is no memory, this ends the process, as every allocation of the standard library
    /// does.
    pub fn map(bytes: usize) -> Self {
        Self { start: system::map(bytes), bytes }
    }

    /// The length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the `bytes` bytes at `offset`. Panics if they are not inside the slab.
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset + bytes <= self.bytes, "a span inside its slab");
        // SAFETY: inside the slab.
        unsafe { self.start.add(offset) }
    }

    /// Gives whole pages back to the system. They are zeros when they are touched again, which
    /// costs a fault each. Returns false if the system does not take them, for instance because
    /// memory is locked; then they are unchanged. Panics if they are not whole pages.
    ///
    /// # Safety
    /// There are no references to any of these bytes.
    pub unsafe fn discard(&self, offset: usize, bytes: usize) -> bool {
        let (start, page) = (self.at(offset, bytes), page_bytes());
        // The kernel rounds a length up to pages, which would take memory of another span.
        let are_whole = start.align_offset(page) == 0 && bytes.is_multiple_of(page);
        assert!(are_whole, "whole pages are given back");
        // SAFETY: inside the slab, which lives, whole pages, and the caller's promise.
        unsafe { system::discard(start, bytes) }
    }

    /// Disables huge pages for the slab. Otherwise it would refill the pages that were given back.
    pub fn split(&self) {
        system::split(self.start, self.bytes);
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        system::unmap(self.start, self.bytes);
    }
}

#[cfg(not(miri))]
mod system {
    use std::{alloc::Layout, ptr};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{LARGE_BYTES, NonNull};

    /// Maps memory. A large slab is aligned to its length: a huge page can lie nowhere else.
    pub fn map(bytes: usize) -> NonNull<u8> {
        // Twice the length always contains an aligned slab; what is around it is unmapped
        // untouched.
        let wide = if bytes == LARGE_BYTES { 2 * bytes } else { bytes };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the system likes has no other user.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), wide, access, MapFlags::PRIVATE) };
        let start = mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>()));
        let Some(start) = start else {
            std::alloc::handle_alloc_error(Layout::new::<[u8; LARGE_BYTES]>())
        };
        if wide == bytes {
            return start;
        }
        let before = start.as_ptr().align_offset(bytes);
        // SAFETY: inside the mapping: `before` is below `bytes`.
        let slab = unsafe { start.add(before) };
        // SAFETY: the parts before and after the slab belong to the mapping made above, and no
        // other code knows them. A failed call leaves address space mapped that is never touched.
        unsafe {
            if before > 0 {
                let _ = munmap(start.as_ptr().cast(), before);
            }
            if before < bytes {
                let _ = munmap(slab.add(bytes).as_ptr().cast(), bytes - before);
            }
            // A kernel without huge pages refuses; the slab then has pages of the usual size.
            let _ = madvise(slab.as_ptr().cast(), bytes, Advice::LinuxHugepage);
        }
        slab
    }

    /// Gives whole pages of a slab back.
    ///
    /// # Safety
    /// They are inside the slab, and there are no references to them.
    pub unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: mapped by `map`, and the caller's promise.
        unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) }.is_ok()
    }

    /// Disables huge pages for the slab.
    pub fn split(slab: NonNull<u8>, bytes: usize) {
        // SAFETY: mapped by `map`; its content stays. A kernel without huge pages refuses.
        let _ = unsafe { madvise(slab.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
    }

    /// Unmaps a slab.
    pub fn unmap(slab: NonNull<u8>, bytes: usize) {
        // SAFETY: mapped by `map`; the last span of it is gone.
        let _ = unsafe { munmap(slab.as_ptr().cast(), bytes) };
    }
}

/// Miri knows no huge pages: it gets memory of the general allocator, of the same size and
/// alignment.
#[cfg(miri)]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

    use super::NonNull;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, bytes).expect("a power of two")
    }

    pub fn map(bytes: usize) -> NonNull<u8> {
        let layout = layout(bytes);
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    pub unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { start.write_bytes(0, bytes) };
        true
    }

    pub fn split(_slab: NonNull<u8>, _bytes: usize) {}

    pub fn unmap(slab: NonNull<u8>, bytes: usize) {
        // SAFETY: allocated by `map` with this layout.
        unsafe { dealloc(slab.as_ptr(), layout(bytes)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_zeroed_and_page_aligned() {
        for bytes in [SMALL_BYTES, LARGE_BYTES] {
            let slab = Slab::map(bytes);
            assert_eq!(slab.at(0, bytes).align_offset(4096), 0);
            // SAFETY: all of the slab, which no other code uses.
            let content = unsafe { std::slice::from_raw_parts(slab.at(0, bytes).as_ptr(), bytes) };
            assert!(content.iter().all(|&byte| byte == 0));
        }
        assert_eq!((bytes_after(0), bytes_after(LARGE_BYTES)), (SMALL_BYTES, LARGE_BYTES));
    }

    #[test]
    fn discarded_pages_read_as_zeros_and_others_are_unchanged() {
        let (slab, page) = (Slab::map(SMALL_BYTES), page_bytes());
        // SAFETY: all of the slab, which no other code uses; the slice is not used beyond this
        // line.
        unsafe { std::slice::from_raw_parts_mut(slab.at(0, SMALL_BYTES).as_ptr(), SMALL_BYTES) }
            .fill(7);
        // SAFETY: there are no references.
        assert!(unsafe { slab.discard(2 * page, page) });
        // SAFETY: as above.
        let content =
            unsafe { std::slice::from_raw_parts(slab.at(0, SMALL_BYTES).as_ptr(), SMALL_BYTES) };
        let of = |at: usize| if (2 * page..3 * page).contains(&at) { 0 } else { 7 };
        assert!(content.iter().enumerate().all(|(at, &byte)| byte == of(at)));
    }

    #[test]
    #[should_panic(expected = "whole pages")]
    fn partial_pages_cannot_be_discarded() {
        let slab = Slab::map(SMALL_BYTES);
        // SAFETY: there are no references.
        unsafe { slab.discard(0, page_bytes() + 1024) };
    }

    #[test]
    #[should_panic(expected = "inside its slab")]
    fn a_span_cannot_exceed_its_slab() {
        Slab::map(SMALL_BYTES).at(SMALL_BYTES - 1024, 2048);
    }
}
