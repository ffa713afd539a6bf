//! A byte buffer whose start is aligned for direct I/O.
//!
//! Invariants
//! 1. The slice handed out starts at a multiple of [`ALIGN`].
//!
//! Threads: one owner. Has no `unsafe`: the vector is [`ALIGN`] bytes longer than needed, and the
//! slice starts at the first aligned byte in it.

use crate::io::ALIGN;

/// `len` aligned bytes, zero at first.
pub(super) struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    pub(super) fn zeroed(len: usize) -> Self {
        let bytes = vec![0u8; len + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        assert!(start <= ALIGN, "byte pointers can be aligned");
        Self { bytes, start, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_at_the_alignment() {
        for len in [0, 1, 4096, 4097, 1 << 20] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.as_ptr() as usize % ALIGN, 0);
            assert_eq!((buf.len(), buf.iter().all(|&byte| byte == 0)), (len, true));
        }
    }
}
