//! Decoding of map pages and of the root directory, with errors in words.
//!
//! Invariants
//! 1. Reading never panics and never reads past the end: every step is checked (Promise: P20).
//! 2. A number has one encoding: overlong LEB128 is refused, so equal content has equal bytes.
//!
//! Threads: pure functions. Bytes: docs/format.md, "Numbers".

use crate::coding;

/// Why bytes do not decode, in words for [`Error::Malformed`](crate::Error::Malformed).
pub(super) type Decoded<T> = Result<T, String>;

/// A cursor over bytes from disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(coding::Reader<'a>);

/// What was read, or the error that bytes are missing.
fn found<T>(read: Option<T>) -> Decoded<T> {
    read.ok_or_else(|| "it ends too early".into())
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(coding::Reader::new(bytes))
    }

    pub fn take(&mut self, bytes: usize) -> Decoded<&'a [u8]> {
        found(self.0.take(bytes))
    }

    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        found(self.0.array())
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        found(self.0.u8())
    }

    pub fn u64(&mut self) -> Decoded<u64> {
        found(self.0.u64())
    }

    /// Reads a LEB128 number.
    pub fn number(&mut self) -> Decoded<u64> {
        self.0.varint().ok_or_else(|| "a number is cut short, too long, or overlong".into())
    }

    pub fn number_u32(&mut self) -> Decoded<u32> {
        self.number()?.try_into().map_err(|_| "a number has more than 32 bits".into())
    }

    /// Reads a length, then that many bytes.
    pub fn bytes(&mut self, max: usize) -> Decoded<&'a [u8]> {
        let len = self.number()?;
        match usize::try_from(len) {
            Ok(len) if len <= max => self.take(len),
            _ => Err(format!("a length of {len} where {max} is the most")),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.rest().is_empty()
    }

    pub fn end(&self) -> Decoded<()> {
        if self.is_empty() { Ok(()) } else { Err("bytes are left over".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::put_varint;

    #[test]
    fn numbers_round_trip_and_have_one_encoding() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.number(), Ok(value));
            reader.end().unwrap();
        }
        assert!(Reader::new(&[0x80, 0x00]).number().is_err(), "overlong zero");
        assert!(Reader::new(&[0xff; 10]).number().is_err(), "too many bits");
        assert!(Reader::new(&[0x80; 11]).number().is_err(), "never ends");
        assert!(Reader::new(&[5, 1, 2]).bytes(8).is_err(), "ends early");
        assert!(Reader::new(&[3, 1, 2, 3]).bytes(2).is_err(), "longer than allowed");
    }
}
