//! Encoding of numbers in map pages and the root directory.
//!
//! Invariants
//! 1. Reading never panics and never reads past the end: every step is checked (Promise: P20).
//! 2. A number has one encoding: overlong LEB128 is refused, so equal content has equal bytes.
//!
//! Threads: pure functions. Bytes: docs/format.md, "Numbers".

/// Why bytes do not decode, in words for [`Error::Malformed`](crate::Error::Malformed).
pub(super) type Decoded<T> = Result<T, String>;

/// A cursor over bytes from disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn take(&mut self, bytes: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(bytes).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a LEB128 number.
    pub fn number(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("a number has more than 64 bits".into());
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err("a number is overlong".into());
                }
                return Ok(value);
            }
        }
        Err("a number has more than 10 bytes".into())
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
        self.rest.is_empty()
    }

    pub fn end(&self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err("bytes are left over".into()) }
    }
}

/// Appends a number in LEB128.
pub(super) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_have_one_encoding() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, value);
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
