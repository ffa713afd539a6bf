//! Encoding and decoding of the primitives of every format: fixed little-endian numbers, LEB128,
//! and length-prefixed bytes.
//!
//! A [`Reader`] never panics and never trusts a length: anything that is not there is `None`, and
//! the caller turns that into its own typed error. Bytes: docs/format.md, "Numbers".

/// Appends `n` as LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends bytes with their length as LEB128 in front.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an optional byte string: 0, or 1 and the bytes.
pub(crate) fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

/// Reads a little-endian `u32` at an offset of untrusted bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a little-endian `u64` at an offset of untrusted bytes.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads what the `put_` functions wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, later) = self.rest.split_at_checked(count)?;
        self.rest = later;
        Some(now)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, later) = self.rest.split_first_chunk::<N>()?;
        self.rest = later;
        Some(*now)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a LEB128 number in its shortest form; a longer form, or bits beyond 64, are `None`.
    pub fn varint(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return None;
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(n);
            }
        }
        None
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.varint()?).ok()?;
        self.take(count)
    }

    pub fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => self.bytes().map(Some),
            _ => None,
        }
    }

    /// Reads a count of items that each take at least `least` bytes; `None` if that many cannot
    /// follow.
    pub fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count.checked_mul(least)? <= self.rest.len()).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_round_trip() {
        let mut out = Vec::new();
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            put_varint(&mut out, n);
        }
        put_bytes(&mut out, b"frond");
        put_optional(&mut out, None);
        put_optional(&mut out, Some(b""));
        let mut reader = Reader::new(&out);
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(reader.varint(), Some(n));
        }
        assert_eq!(reader.bytes(), Some(&b"frond"[..]));
        assert_eq!(reader.optional(), Some(None));
        assert_eq!(reader.optional(), Some(Some(&b""[..])));
        assert_eq!(reader.u8(), None);
    }

    #[test]
    fn lengths_are_validated() {
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 11]).bytes(), None);
        assert_eq!(Reader::new(&[0x81, 0]).varint(), None, "longer than it must be");
        assert_eq!(Reader::new(&[200, 1, 7]).bytes(), None);
        assert_eq!(Reader::new(&[100, 0, 0]).count(4), None);
    }
}
