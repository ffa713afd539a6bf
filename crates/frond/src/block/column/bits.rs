//! Codes of one width, one after the other, low bits first: how all columns keep their numbers.
//!
//! Code *i* of width *w* is the *w* bits from bit *i·w* on, where bit *b* is bit *b mod 8* of byte
//! *b / 8*. A code of up to 57 bits lies within the eight bytes from its first on, whatever bit it
//! begins at: one load, a shift and a mask. Wider ones need a second load.
//!
//! Many codes are read in groups of eight, which begin at the same bit of a byte, so that all shifts
//! of a group are known once the width is: there is one loop for each width.

use std::ops::Range;

/// Bytes after a column that can be read, whatever they are.
pub const PAD_BYTES: usize = 8;

/// Widest code that one load yields: with up to 7 bits before it, it fits into 64.
const ONE_LOAD_WIDTH_MAX: u32 = 57;

/// Bits that a number needs.
#[inline]
pub fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Bytes that a number needs; none for 0.
#[inline]
pub fn bytes_of(value: u64) -> u32 {
    width_of(value).div_ceil(8)
}

/// The largest number of so many bits.
#[inline]
pub fn mask_of(width: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS.wrapping_sub(width)).unwrap_or(0)
}

/// Length of so many codes of this width.
#[inline]
pub fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// The eight bytes at `at`, or 0 if they are not there.
#[inline]
pub fn load(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(0, |eight| u64::from_le_bytes(*eight))
}

/// Codes of one width. Reading one that does not exist yields some number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codes<'a> {
    /// The codes and all that follows them.
    bytes: &'a [u8],
    width: u32,
    mask: u64,
}

impl<'a> Codes<'a> {
    /// Cuts `count` codes off the front of `rest`; `None` if they are not there with the padding
    /// after them, or wider than 64 bits.
    #[inline]
    pub fn cut(rest: &mut &'a [u8], width: u32, count: usize) -> Option<Self> {
        let bytes = *rest;
        let (used, after) = (packed_bytes(count, width), bytes.len().checked_sub(PAD_BYTES)?);
        if width > u64::BITS || used > after {
            return None;
        }
        *rest = bytes.get(used..)?;
        Some(Self { bytes, width, mask: mask_of(width) })
    }

    /// Bits of a code.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The largest code.
    #[inline]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Code `index`.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        self.at_bit(index.wrapping_mul(self.width as usize))
    }

    #[inline]
    fn at_bit(&self, bit: usize) -> u64 {
        let low = load(self.bytes, bit / 8) >> (bit % 8);
        if self.width <= ONE_LOAD_WIDTH_MAX {
            return low & self.mask;
        }
        // A shift by 64 - (bit % 8) in two steps: by 64 at once is none.
        let high = load(self.bytes, bit / 8 + 8) << 1 << (63 - bit % 8);
        (low | high) & self.mask
    }

    /// Codes from `first` on, as many as `out` takes.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        self.decode_at_bit(first.wrapping_mul(self.width as usize), out);
    }

    /// As many codes as `out` takes, the first of them at bit `bit`.
    fn decode_at_bit(&self, bit: usize, out: &mut [u64]) {
        let done = if out.len() < 8 { 0 } else { unpack_groups(self, bit, out) };
        let mut bit = bit.wrapping_add(done.wrapping_mul(self.width as usize));
        for code in out.iter_mut().skip(done) {
            *code = self.at_bit(bit);
            bit = bit.wrapping_add(self.width as usize);
        }
    }

    /// The first of `range` whose code is not below `code`, its end if there is none, where the codes
    /// of the range ascend.
    pub fn lower_bound(&self, range: Range<usize>, code: u64) -> usize {
        partition(range, |index| self.get(index) < code)
    }
}

/// The first of `range` for which `below` is false, its end if there is none, where it is true up to
/// some point and false from there on.
#[inline]
pub fn partition(range: Range<usize>, mut below: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut count) = (range.start, range.len());
    while count > 0 {
        let half = count / 2;
        // Both arms are moves: which one it is cannot be guessed.
        let is_below = below(low + half);
        low = if is_below { low + half + 1 } else { low };
        count = if is_below { count - half - 1 } else { half };
    }
    low
}

/// One arm for each width that has a loop of its own.
macro_rules! for_width {
    ($width:expr, $unpack:ident $args:tt, $($w:literal)*) => {
        match $width { $($w => $unpack::<$w> $args,)* _ => 0 }
    };
}

/// Reads groups of eight codes as long as there are any, and says how many codes that were.
fn unpack_groups(codes: &Codes<'_>, bit: usize, out: &mut [u64]) -> usize {
    let bytes = codes.bytes.get(bit / 8..).unwrap_or_default();
    if codes.width == 0 {
        out.fill(0);
        return out.len();
    }
    for_width!(codes.width, unpack(bytes, bit % 8, out),
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
        29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57)
}

/// Reads groups of eight codes of `W` bits that begin `lead` bits into `bytes`.
fn unpack<const W: usize>(bytes: &[u8], lead: usize, out: &mut [u64]) -> usize {
    let groups = out.chunks_exact_mut(8).enumerate();
    let mut done = 0;
    for (number, group) in groups {
        // A group takes W bytes; its last load begins in them.
        let Some(from) = bytes.get(number * W..number * W + W + 8) else { break };
        if lead == 0 {
            unpack_group::<W>(from, 0, group);
        } else {
            unpack_group::<W>(from, lead, group);
        }
        done += 8;
    }
    done
}

#[inline(always)]
fn unpack_group<const W: usize>(from: &[u8], lead: usize, group: &mut [u64]) {
    let mask = u64::MAX >> (64 - W);
    for (index, code) in group.iter_mut().enumerate() {
        let bit = lead + index * W;
        *code = (load(from, bit / 8) >> (bit % 8)) & mask;
    }
}

/// Appends codes of `width` bits; each is below 2^width. Bits after the last are zero.
pub fn pack(codes: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    // Bits that wait, and how many: fewer than 64.
    let (mut word, mut fill) = (0u64, 0);
    for code in codes {
        debug_assert!(width_of(code) <= width);
        word |= code << fill;
        fill += width;
        if fill >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            fill -= u64::BITS;
            // What of the code did not fit; all of it did if nothing is left.
            word = code.checked_shr(width - fill).unwrap_or(0);
        }
    }
    let last = word.to_le_bytes();
    out.extend_from_slice(last.get(..fill.div_ceil(8) as usize).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes that differ, the largest among them.
    fn codes(count: usize, width: u32) -> Vec<u64> {
        let noise = (0..count as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        noise
            .enumerate()
            .map(|(i, n)| if i % 7 == 3 { u64::MAX } else { n } & mask_of(width))
            .collect()
    }

    #[test]
    fn codes_of_every_width_come_back_one_by_one_and_together() {
        for width in 0..=64 {
            for count in [0, 1, 7, 8, 9, 64, 100] {
                let codes = codes(count, width);
                let mut bytes = Vec::new();
                pack(codes.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(count, width));
                // What follows is not zero: it must not leak into the last codes.
                bytes.extend_from_slice(&[0xff; PAD_BYTES]);
                let mut rest = &bytes[..];
                let read = Codes::cut(&mut rest, width, count).expect("they are there");
                assert_eq!(rest.len(), PAD_BYTES);
                assert!((0..count).all(|i| read.get(i) == codes[i]));
                for first in 0..count.min(20) {
                    let mut out = vec![1; count - first];
                    read.decode(first, &mut out);
                    assert_eq!(out, codes[first..], "width {width} from {first}");
                }
            }
        }
    }

    #[test]
    fn codes_that_are_not_there_are_refused_or_some_number() {
        let bytes = [0xff; 30];
        assert!(Codes::cut(&mut &bytes[..], 8, 23).is_none());
        assert!(Codes::cut(&mut &bytes[..], 65, 0).is_none());
        assert!(Codes::cut(&mut &bytes[..7], 0, 0).is_none());
        for width in 0..=64 {
            let count = 22 * 8 / width.max(1) as usize;
            let codes = Codes::cut(&mut &bytes[..], width, count).expect("they are there");
            for index in [count, count + 1, 1 << 20, usize::MAX] {
                assert!(codes.get(index) <= codes.mask());
                codes.decode(index, &mut [0; 40]);
            }
        }
    }

    #[test]
    fn partition_finds_every_point() {
        for count in 0..40 {
            for point in 0..=count {
                assert_eq!(partition(5..5 + count, |i| i < 5 + point), 5 + point);
            }
        }
    }
}
