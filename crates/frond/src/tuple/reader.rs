//! Decoding a key from its front, ascending or complemented.
//!
//! Invariants
//! 1. Any bytes are decoded or refused; nothing panics (P20).
//! 2. Only what an encoder writes is accepted (invariant 2 of `tuple`).
//!
//! Threads: plain values. Bytes: docs/format.md, "Tuple keys".

use std::borrow::Cow;

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

    /// Reads an escaped part with its terminator, and returns its content: borrowed from the key if
    /// that has it unchanged, that is, without a zero byte and in ascending order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no terminator follows, or a 00 is neither escaped nor part of
    /// one.
    pub fn escaped(&mut self) -> Result<Cow<'a, [u8]>> {
        let (plain, mut ends) = self.until_zero()?;
        if ends && self.flip == 0 {
            return Ok(Cow::Borrowed(plain));
        }
        let mut content = plain.to_vec();
        while !ends {
            content.push(self.flip);
            let (plain, last) = self.until_zero()?;
            content.extend_from_slice(plain);
            ends = last;
        }
        if self.flip != 0 {
            content.iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        Ok(Cow::Owned(content))
    }

    /// Reads an escaped part through its next zero. Returns the bytes before the zero, as stored,
    /// and whether the zero is the terminator.
    fn until_zero(&mut self) -> Result<(&'a [u8], bool)> {
        let zero = self.rest.iter().position(|byte| *byte == self.flip);
        let zero = zero.ok_or_else(|| refused("a string in it has no end"))?;
        let (plain, rest) = self.rest.split_at(zero);
        let ([_, mark], rest) = rest
            .split_first_chunk::<2>()
            .ok_or_else(|| refused("it ends within the end of a string"))?;
        self.rest = rest;
        match mark ^ self.flip {
            0x01 => Ok((plain, true)),
            0xff => Ok((plain, false)),
            _ => Err(refused("a string in it has a zero that is not escaped")),
        }
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
