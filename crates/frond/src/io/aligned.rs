//! Byte buffers at an aligned address, as direct I/O requires, without `unsafe`.
//!
//! A buffer is a vector with [`ALIGN`] extra bytes, used from its first aligned byte on. It never
//! grows, so the bytes never move.

use std::ops::{Deref, DerefMut};

use super::ALIGN;
use crate::error::{Error, Result};

/// A byte buffer of fixed length whose address is a multiple of [`ALIGN`].
#[derive(Debug)]
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` zeros, for a length of a few MiB at most.
    pub fn zeroed(len: usize) -> Self {
        Self::from_zeros(vec![0; len + ALIGN], len)
    }

    /// `len` zeros, or `NoMemory`; `what` names the purpose in the error.
    pub fn try_zeroed(len: usize, what: &'static str) -> Result<Self> {
        let mut bytes = Vec::new();
        let room = len.saturating_add(ALIGN);
        bytes.try_reserve_exact(room).map_err(|_| Error::NoMemory { bytes: len, what })?;
        bytes.resize(room, 0);
        Ok(Self::from_zeros(bytes, len))
    }

    fn from_zeros(bytes: Vec<u8>, len: usize) -> Self {
        let start = bytes.as_ptr().align_offset(ALIGN);
        assert!(start <= ALIGN, "a byte pointer can be aligned by adding less than the alignment");
        Self { bytes, start, len }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_stay_aligned_when_moved() {
        for len in [0, 1, 4096, 5000, 1 << 20] {
            let fallible = AlignedBuf::try_zeroed(len, "a test").unwrap();
            for buf in [fallible, AlignedBuf::zeroed(len)] {
                assert_eq!((buf.len(), buf.as_ptr() as usize % ALIGN), (len, 0));
                assert!(buf.iter().all(|&byte| byte == 0));
                let moved = Box::new(buf);
                assert_eq!(moved.as_ptr() as usize % ALIGN, 0);
            }
        }
        assert!(AlignedBuf::try_zeroed(usize::MAX / 2, "a test").is_err());
    }
}
