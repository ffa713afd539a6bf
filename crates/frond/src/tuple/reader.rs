//! Decoding a key from its front, ascending or complemented.
//!
//! Invariants
//! 1. Any bytes are decoded or refused; nothing panics (P20).
//! 2. Only what an encoder writes is accepted (invariant 2 of `tuple`).
//!
//! Threads: plain values. Bytes: docs/format.md, "Tuple keys".

use crate::{Error, Result};

/// The remaining bytes of a key that is being decoded. Created by [`decode`](super::decode) and
/// passed to each part.
#[derive(Debug)]
pub struct KeyReader<'a> {
    rest: &'a [u8],
    /// FF within a descending part: every byte read is XORed with it.
    flip: u8,
}

impl<'a> KeyReader<'a> {
    /// A reader for this key.
    pub fn new(key: &'a [u8]) -> Self {
        Self { rest: key, flip: 0 }
    }

    /// The bytes not read yet, as stored.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads a part of fixed width.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if fewer bytes are left.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| refused("it ends within a part"))?;
        self.rest = rest;
        Ok(bytes.map(|byte| byte ^ self.flip))
    }

    /// Reads an escaped part with its terminator, and returns its content.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no terminator follows, or a 00 is neither escaped nor part of
    /// one.
    pub fn escaped(&mut self) -> Result<Vec<u8>> {
        let zero = self.flip;
        let mut content = Vec::new();
        loop {
            let length = self
                .rest
                .iter()
                .position(|byte| *byte == zero)
                .ok_or_else(|| refused("a string in it has no end"))?;
            let (plain, rest) = self.rest.split_at(length);
            content.extend_from_slice(plain);
            let ([_, mark], rest) = rest
                .split_first_chunk::<2>()
                .ok_or_else(|| refused("it ends within the end of a string"))?;
            self.rest = rest;
            match mark ^ self.flip {
                0x01 => break,
                0xff => content.push(zero),
                _ => return Err(refused("a string in it has a zero that is not escaped")),
            }
        }
        if self.flip != 0 {
            content.iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        Ok(content)
    }

    /// Reads the filler of a null of fixed width.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not all zero.
    pub fn filler(&mut self, bytes: usize) -> Result<()> {
        let (filler, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or_else(|| refused("it ends within the filler of a null"))?;
        self.rest = rest;
        match filler.iter().all(|byte| *byte == self.flip) {
            true => Ok(()),
            false => Err(refused("a null in it has a value")),
        }
    }

    /// Reads with reversed order.
    pub(super) fn reversed<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.flip ^= 0xff;
        let out = read(self);
        self.flip ^= 0xff;
        out
    }

    /// Checks that the whole key was read.
    pub(super) fn finish(self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(refused(&format!("{left} bytes follow its last part"))),
        }
    }
}

/// The error for bytes that are not of the requested tuple type. They may be a key or a row.
pub(super) fn refused(why: &str) -> Error {
    Error::InvalidArgument(format!("the bytes are not of the tuple type: {why}"))
}
