//! Lengths in LEB128 and a reader that cannot run past its end.

/// Length of the longest common prefix, found eight bytes at a time.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let differ = u64_le(x) ^ u64_le(y);
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

#[inline]
fn u64_le(eight: &[u8]) -> u64 {
    eight.try_into().map_or(0, u64::from_le_bytes)
}

/// Appends a length.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`put_varint`] appends.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads little-endian numbers and strings off the front of bytes that nobody vouches for.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length of at most five bytes.
    #[inline]
    pub fn varint32(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && byte > 0x0f {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A length, and that many bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.varint32()?;
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_back_and_overlong_ones_do_not() {
        for value in [0u32, 1, 127, 128, 16383, 16384, 1 << 28, u32::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value.into());
            assert_eq!(out.len(), varint_bytes(value.into()));
            assert_eq!(Reader::new(&out).varint32(), Some(value));
            out.pop();
            assert_eq!(Reader::new(&out).varint32(), None);
        }
        assert_eq!(Reader::new(&[0xff; 9]).varint32(), None);
        assert_eq!(Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x10]).varint32(), None);
    }

    #[test]
    fn common_prefix_is_exact_at_every_length() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..40 {
            for at in 0..len {
                let mut b = a[..len].to_vec();
                b[at] ^= 0x80;
                assert_eq!(common_prefix(&a, &b), at);
            }
            assert_eq!(common_prefix(&a, &a[..len]), len);
        }
    }
}
