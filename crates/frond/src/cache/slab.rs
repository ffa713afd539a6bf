//! The memory under the frames: slabs from the system, with huge pages as soon as there is much of it.
//!
//! A frame from the general allocator would cost a page more than it has (its header lies in the page
//! before), a page fault for each 4 KiB, and an entry of the processor's address cache for each 4 KiB
//! that a reader touches. A large slab is one entry and one fault; the first slabs of a pool are small,
//! so that a small store stays small.
//!
//! Invariants
//! 1. A slab is zeros, aligned to 4096 at least, and goes back to the system when the last of its frames
//!    is dropped.
//! 2. A [`FrameMemory`] alone refers to its part of the slab: parts do not overlap, and each is handed
//!    out once.
//!
//! Threads: frames move freely between threads.

use std::ptr::NonNull;

use super::frames::{FRAME_BYTES, FrameBytes};
use crate::sync::Arc;

/// What the system is asked for at once: a huge page.
const LARGE_BYTES: usize = 2 << 20;
/// The same while a pool has less than `LARGE_BYTES`.
const SMALL_BYTES: usize = 256 << 10;

/// A piece of the system's memory.
struct Slab {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a slab is memory and nothing else; who may touch which part is said by invariant 2.
unsafe impl Send for Slab {}
// SAFETY: as above; the slab itself offers no access at all.
unsafe impl Sync for Slab {}

/// The memory of one frame.
pub(crate) struct FrameMemory {
    bytes: NonNull<FrameBytes>,
    /// Kept until the last frame goes.
    _slab: Arc<Slab>,
}

// SAFETY: it is the only reference to its bytes (invariant 2), as a box would be.
unsafe impl Send for FrameMemory {}
// SAFETY: shared, it gives shared access to plain bytes only.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// The frames of a new slab, for a pool that has `frames` frames.
    ///
    /// Without memory this ends the process, as every allocation of the standard library does.
    pub fn slab(frames: usize) -> impl Iterator<Item = FrameMemory> {
        let is_large = frames * FRAME_BYTES >= LARGE_BYTES;
        let bytes = if is_large { LARGE_BYTES } else { SMALL_BYTES };
        let slab = Arc::new(Slab { start: system::map(bytes), bytes });
        (0..bytes / FRAME_BYTES).map(move |index| {
            // SAFETY: inside the slab, which is so many frames long.
            let bytes = unsafe { slab.start.add(index * FRAME_BYTES) }.cast();
            FrameMemory { bytes, _slab: slab.clone() }
        })
    }

    /// Where it lies, for who shares it through pointers of its own while it keeps this.
    pub fn base(&mut self) -> *mut u8 {
        self.bytes.as_ptr().cast()
    }
}

impl std::ops::Deref for FrameMemory {
    type Target = FrameBytes;

    #[inline]
    fn deref(&self) -> &FrameBytes {
        // SAFETY: invariants 1 and 2: aligned, initialised, alive, and not borrowed mutably.
        unsafe { self.bytes.as_ref() }
    }
}

impl std::ops::DerefMut for FrameMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut FrameBytes {
        // SAFETY: as above, and this is the only reference.
        unsafe { self.bytes.as_mut() }
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

    /// A large slab is aligned to its length: a huge page lies nowhere else.
    pub fn map(bytes: usize) -> NonNull<u8> {
        // Twice as much holds an aligned slab; what is around it is given back untouched.
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
        // SAFETY: the parts before and after the slab belong to the mapping made above, and nobody
        // knows of them. A failed call leaves address space mapped that is never touched.
        unsafe {
            if before > 0 {
                let _ = munmap(start.as_ptr().cast(), before);
            }
            if before < bytes {
                let _ = munmap(slab.add(bytes).as_ptr().cast(), bytes - before);
            }
            // A kernel without huge pages refuses: pages of the usual size then.
            let _ = madvise(slab.as_ptr().cast(), bytes, Advice::LinuxHugepage);
        }
        slab
    }

    /// Gives a slab back.
    pub fn unmap(slab: NonNull<u8>, bytes: usize) {
        // SAFETY: mapped by `map`; the last frame of it is gone.
        let _ = unsafe { munmap(slab.as_ptr().cast(), bytes) };
    }
}

/// Miri knows no huge pages: the general allocator's memory, of the same size and alignment.
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

    pub fn unmap(slab: NonNull<u8>, bytes: usize) {
        // SAFETY: allocated by `map` with this layout.
        unsafe { dealloc(slab.as_ptr(), layout(bytes)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_slab_are_zero_apart_and_outlive_each_other() {
        for (had, wanted) in [(0, SMALL_BYTES), (LARGE_BYTES / FRAME_BYTES, LARGE_BYTES)] {
            let mut frames: Vec<FrameMemory> = FrameMemory::slab(had).collect();
            assert_eq!(frames.len(), wanted / FRAME_BYTES);
            assert_eq!(frames[0].base().align_offset(4096), 0);
            for (index, frame) in frames.iter_mut().enumerate() {
                assert!(frame.bytes().iter().all(|&byte| byte == 0));
                frame.bytes_mut().fill(index as u8);
            }
            let last = frames.pop().unwrap();
            assert!(frames.iter().zip(0..).all(|(frame, i)| frame.bytes().iter().all(|&b| b == i)));
            let count = frames.len();
            drop(frames);
            assert!(last.bytes().iter().all(|&byte| usize::from(byte) == count));
        }
    }
}
