//! Byte utilities: prefixes, lengths, and copies of a few bytes.
//!
//! Keys and payloads are short: a call to `memcpy` or `memcmp` for each would cost as much as
//! everything else that a row needs, so copies up to 32 bytes are two moves of a fixed width that
//! may overlap.

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

/// The first up to eight bytes as a little-endian number.
#[inline]
pub fn short_word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Two loads that may overlap: where they do, they agree.
        (Some(first), Some(last)) => {
            let last = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
            u64::from(u32::from_le_bytes(*first)) | last
        }
        _ => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Counts the decimal digits at the start of a text, up to eight.
#[inline]
pub fn leading_digits(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    // Bytes beyond the end of the text do not count as digits.
    let digits = short_word(text) ^ (ONES * u64::from(b'0'));
    let is_none = ((digits & (ONES * 0x7f)) + ONES * (0x7f - 9)) | digits;
    (is_none & (ONES << 7)).trailing_zeros() as usize / 8
}

/// Length of a number as LEB128.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Copies `from` to the front of `to`, which is no shorter.
#[inline]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    let to = &mut to[..from.len()];
    match from.len() {
        0 => {}
        1..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => copy_ends::<4>(to, from),
        8..16 => copy_ends::<8>(to, from),
        16..=32 => copy_ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies N to 2N bytes.
#[inline]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// A key in a reusable buffer, assembled from what it shares with the previous one.
#[derive(Clone, Debug, Default)]
pub struct KeyBuf {
    /// Longer than the key: only growing it looks at its length.
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    /// The key.
    #[inline]
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Keeps the first `shared` bytes, which must exist, and appends `suffix`.
    #[inline]
    pub fn replace_after(&mut self, shared: usize, suffix: &[u8]) {
        debug_assert!(shared <= self.len);
        let len = shared + suffix.len();
        if self.bytes.len() < len {
            self.bytes.resize(len.next_power_of_two().max(64), 0);
        }
        copy_short(&mut self.bytes[shared..], suffix);
        self.len = len;
    }

    /// Makes the key empty.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Reads a number below 2^32: sums of a few of them cannot overflow a `usize`.
#[inline]
pub fn varint32(reader: &mut Reader<'_>) -> Option<u32> {
    reader.varint()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_lengths_match_their_encoding() {
        for value in [0u64, 1, 127, 128, 16383, 16384, 1 << 28, u32::MAX.into()] {
            let mut out = Vec::new();
            crate::coding::put_varint(&mut out, value);
            assert_eq!(out.len(), varint_bytes(value));
            assert_eq!(varint32(&mut Reader::new(&out)), Some(value as u32));
        }
        assert_eq!(varint32(&mut Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x10])), None);
    }

    #[test]
    fn short_copies_are_whole_at_every_length() {
        let from: Vec<u8> = (1..80).collect();
        let mut key = KeyBuf::default();
        for len in 0..from.len() {
            let mut to = vec![0; 90];
            copy_short(&mut to, &from[..len]);
            assert_eq!(to[..len], from[..len]);
            assert!(to[len..].iter().all(|&byte| byte == 0));
            let shared = key.get().len() / 2;
            let expected = [&key.get()[..shared], &from[..len]].concat();
            key.replace_after(shared, &from[..len]);
            assert_eq!(key.get(), expected);
        }
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
