//! Bit packing: codes of one width, one after the other, low bits first. All columns store their
//! numbers in this way.
//!
//! Code *i* of width *w* is the *w* bits from bit *i·w* on, where bit *b* is bit *b mod 8* of byte
//! *b / 8*. A code of up to 57 bits lies within eight bytes from its first byte on, whatever bit it
//! starts at: one load, a shift and a mask. Wider codes need a second load.
//!
//! Many codes are read in groups of eight. All groups start at the same bit of a byte, so that all
//! shifts of a group are known once the width is: there is one loop for each width.

use std::{hint::select_unpredictable, ops::Range};

/// Readable bytes of any value after a column.
pub const PAD_BYTES: usize = 8;

/// Widest code that one load yields: with up to 7 bits before it, it fits into 64.
const ONE_LOAD_WIDTH_MAX: u32 = 57;

/// How many codes of each width lie within one load, whatever bit the first starts at; at least
/// one, which may need a second load.
const LOAD_CODES: [u8; 65] = {
    let mut codes = [1; 65];
    let mut width = 1;
    while width <= ONE_LOAD_WIDTH_MAX as usize {
        codes[width] = (ONE_LOAD_WIDTH_MAX as usize / width) as u8;
        width += 1;
    }
    codes[0] = u8::MAX;
    codes
};

/// Number of bits of a value.
#[inline]
pub fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// The largest number of this width.
#[inline]
pub fn mask_of(width: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS.wrapping_sub(width)).unwrap_or(0)
}

/// Length of `count` codes of this width.
#[inline]
pub fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// The eight bytes at `at`, or 0 if they do not exist.
#[inline]
pub fn load(bytes: &[u8], at: usize) -> u64 {
    // A single comparison where the compiler knows that the sum does not overflow, as for an eighth
    // of a number.
    let eight = bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok());
    eight.map_or(0, u64::from_le_bytes)
}

/// Codes of one width. Reading one that does not exist yields some number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codes<'a> {
    /// The codes and everything after them.
    bytes: &'a [u8],
    width: u32,
}

impl<'a> Codes<'a> {
    /// Cuts `count` codes off the front of `rest`; `None` if they are not completely there with the
    /// padding after them, or wider than 64 bits.
    #[inline]
    pub fn cut(rest: &mut &'a [u8], width: u32, count: usize) -> Option<Self> {
        let bytes = *rest;
        let (used, after) = (packed_bytes(count, width), bytes.len().checked_sub(PAD_BYTES)?);
        if width > u64::BITS || used > after {
            return None;
        }
        *rest = bytes.get(used..)?;
        Some(Self { bytes, width })
    }

    /// Codes of at most 64 bits that start anywhere in `bytes`; what lies outside reads as 0.
    #[inline]
    pub fn over(bytes: &'a [u8], width: u32) -> Self {
        Self { bytes, width }
    }

    /// Bits of a code.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The largest code.
    #[inline]
    pub fn mask(&self) -> u64 {
        mask_of(self.width)
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
            return low & !(u64::MAX << self.width);
        }
        // A shift by 64 - (bit % 8) in two steps: a shift by 64 is not defined.
        let high = load(self.bytes, bit / 8 + 8) << 1 << (63 - bit % 8);
        (low | high) & mask_of(self.width)
    }

    /// Decodes codes from `first` on into `out`.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
        self.decode_at_bit(first.wrapping_mul(self.width as usize), out);
    }

    /// Decodes codes into `out`, the first of them at bit `bit`.
    pub fn decode_at_bit(&self, bit: usize, out: &mut [u64]) {
        let done = if out.len() < 8 { 0 } else { unpack_groups(self, bit, out) };
        let mut bit = bit.wrapping_add(done.wrapping_mul(self.width as usize));
        for code in out.iter_mut().skip(done) {
            *code = self.at_bit(bit);
            bit = bit.wrapping_add(self.width as usize);
        }
    }

    /// The sum of `count` codes, the first of them at bit `bit`.
    #[inline]
    pub fn sum_at_bit(&self, bit: usize, count: usize) -> u64 {
        let mut sum = 0u64;
        self.walk_from_bit(bit, count, |code| {
            sum = sum.wrapping_add(code);
            true
        });
        sum
    }

    /// Passes `count` codes, the first of them at bit `bit`, to `go_on` until it returns false.
    #[inline]
    pub fn walk_from_bit(&self, mut bit: usize, count: usize, mut go_on: impl FnMut(u64) -> bool) {
        let width = self.width as usize;
        // As many codes as one load is certain to hold.
        let codes_a_load = LOAD_CODES[width % LOAD_CODES.len()].into();
        let mut left = count;
        while left > 0 {
            let now = left.min(codes_a_load);
            if now == 1 {
                if !go_on(self.at_bit(bit)) {
                    return;
                }
            } else {
                let mut word = load(self.bytes, bit / 8) >> (bit % 8);
                let mask = !(u64::MAX << width);
                for _ in 0..now {
                    if !go_on(word & mask) {
                        return;
                    }
                    word >>= width;
                }
            }
            (bit, left) = (bit.wrapping_add(now * width), left - now);
        }
    }

    /// The first of `range` whose code is not below `code`, its end if there is none; the codes of
    /// the range must ascend.
    pub fn lower_bound(&self, range: Range<usize>, code: u64) -> usize {
        partition(range, |index| self.get(index) < code)
    }
}

/// The first of `range` for which `below` is false, its end if there is none; `below` must be true
/// up to some point and false from there on.
#[inline]
pub fn partition(range: Range<usize>, mut below: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut count) = (range.start, range.len());
    if count == 0 {
        return low;
    }
    // The number of iterations depends on the length alone, and which half comes next is
    // unpredictable: it is chosen without a branch.
    while count > 1 {
        let half = count / 2;
        low = select_unpredictable(below(low + half), low + half, low);
        count -= half;
    }
    low + usize::from(below(low))
}

/// Dispatches on the width: each width has a loop of its own.
macro_rules! for_width {
    ($width:expr, $unpack:ident $args:tt, $($w:literal)*) => {
        match $width { $($w => $unpack::<$w> $args,)* _ => 0 }
    };
}

/// Decodes whole groups of eight codes while there are any, and returns the number of codes.
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

/// Decodes groups of eight codes of `W` bits that start `lead` bits into `bytes`.
fn unpack<const W: usize>(bytes: &[u8], lead: usize, out: &mut [u64]) -> usize {
    let groups = out.chunks_exact_mut(8).enumerate();
    let mut done = 0;
    for (number, group) in groups {
        // A group takes W bytes; its last load starts within them.
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

/// Number of codes packed at a time: they end at a whole byte, whatever their width.
const BATCH_CODES: usize = 64;

/// Appends codes of `width` bits; each must be below 2^width.
pub fn pack(mut codes: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    // Producing codes and packing them are two loops, so that the second is compiled once per width
    // and not once more per kind of codes.
    let mut batch = [0; BATCH_CODES];
    loop {
        let mut count = 0;
        for (slot, code) in batch.iter_mut().zip(&mut codes) {
            debug_assert!(width_of(code) <= width);
            *slot = code;
            count += 1;
        }
        if count < BATCH_CODES {
            let mut packer = Packer::new(out);
            batch.iter().take(count).for_each(|&code| packer.put(code, width));
            return packer.finish();
        }
        pack_batch(&batch, width, out);
    }
}

/// Appends a batch of codes of `width` bits, 1 to 64.
fn pack_batch(codes: &[u64; BATCH_CODES], width: u32, out: &mut Vec<u8>) {
    let mut packed = [0; BATCH_CODES * 8 + 8];
    for_width!(width, pack_groups(codes, &mut packed),
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63 64);
    out.extend_from_slice(packed.get(..BATCH_CODES / 8 * width as usize).unwrap_or_default());
}

/// Writes groups of eight codes of `W` bits, which take `W` bytes; returns the number of codes.
fn pack_groups<const W: usize>(
    codes: &[u64; BATCH_CODES],
    packed: &mut [u8; BATCH_CODES * 8 + 8],
) -> usize {
    let (groups, _) = codes.as_chunks::<8>();
    for (number, group) in groups.iter().enumerate() {
        // The last word of a group reaches into the next one, which is written after it.
        let Some(to) = packed.get_mut(number * W..number * W + W + 8) else { break };
        let (mut word, mut fill, mut at) = (0u64, 0, 0);
        for &code in group {
            word |= code << fill;
            fill += W;
            if fill >= 64 {
                store(to, at, word);
                at += 8;
                fill -= 64;
                // The part of the code that did not fit.
                word = if fill == 0 { 0 } else { code >> (W - fill) };
            }
        }
        store(to, at, word);
    }
    codes.len()
}

#[inline(always)]
fn store(to: &mut [u8], at: usize, word: u64) {
    if let Some(to) = to.get_mut(at..at + 8) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// Appends codes, of one width or of several.
#[derive(Debug)]
pub struct Packer<'o> {
    out: &'o mut Vec<u8>,
    /// Pending bits, and their number: fewer than 64.
    word: u64,
    fill: u32,
}

impl<'o> Packer<'o> {
    /// Creates a packer that appends to these bytes.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, word: 0, fill: 0 }
    }

    /// Appends a code below 2^width.
    #[inline]
    pub fn put(&mut self, code: u64, width: u32) {
        debug_assert!(width_of(code) <= width);
        self.word |= code << self.fill;
        self.fill += width;
        if self.fill >= u64::BITS {
            self.out.extend_from_slice(&self.word.to_le_bytes());
            self.fill -= u64::BITS;
            // The part of the code that did not fit; if all of it did, this shifts by its whole
            // width.
            self.word = code.checked_shr(width - self.fill).unwrap_or(0);
        }
    }

    /// Appends the last bits, padded with zeros to a whole byte.
    pub fn finish(self) {
        let last = self.word.to_le_bytes();
        self.out.extend_from_slice(last.get(..self.fill.div_ceil(8) as usize).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes that differ, the largest one among them.
    fn codes(count: usize, width: u32) -> Vec<u64> {
        let noise = (0..count as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        noise
            .enumerate()
            .map(|(i, n)| if i % 7 == 3 { u64::MAX } else { n } & mask_of(width))
            .collect()
    }

    #[test]
    fn codes_of_every_width_round_trip_singly_and_in_bulk() {
        for width in 0..=64 {
            for count in [0, 1, 7, 8, 9, 63, 64, 100, 129] {
                let codes = codes(count, width);
                let mut bytes = Vec::new();
                pack(codes.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(count, width));
                // The following bytes are not zero: they must not leak into the last codes.
                bytes.extend_from_slice(&[0xff; PAD_BYTES]);
                let mut rest = &bytes[..];
                let read = Codes::cut(&mut rest, width, count).expect("they are there");
                assert_eq!(rest.len(), PAD_BYTES);
                assert!((0..count).all(|i| read.get(i) == codes[i]));
                for first in 0..count.min(20) {
                    let sum = codes[first..].iter().fold(0, |sum: u64, c| sum.wrapping_add(*c));
                    assert_eq!(read.sum_at_bit(first * width as usize, count - first), sum);
                    let mut out = vec![1; count - first];
                    read.decode(first, &mut out);
                    assert_eq!(out, codes[first..], "width {width} from {first}");
                }
            }
        }
    }

    #[test]
    fn out_of_range_codes_are_refused_or_arbitrary() {
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
