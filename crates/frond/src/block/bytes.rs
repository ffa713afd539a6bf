//! Prefixes and lengths.

use crate::coding::Reader;

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

/// How many bytes [`put_varint`] appends.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The next number, if it is below 2^32: sums of a few of them cannot overflow a `usize`.
#[inline]
pub fn varint32(reader: &mut Reader<'_>) -> Option<u32> {
    reader.varint()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_long_as_they_say() {
        for value in [0u64, 1, 127, 128, 16383, 16384, 1 << 28, u32::MAX.into()] {
            let mut out = Vec::new();
            crate::coding::put_varint(&mut out, value);
            assert_eq!(out.len(), varint_bytes(value));
            assert_eq!(varint32(&mut Reader::new(&out)), Some(value as u32));
        }
        assert_eq!(varint32(&mut Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x10])), None);
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
