//! Blocked Bloom filter: one 64-byte line per key, so a probe costs one cache miss.
//!
//! The high half of the hash selects the line, and nine bits of a product of the hash select each
//! bit in it. 10 bits per key give about 1 % false positives, 14 about 0.25 %.
//!
//! Bytes: docs/format.md, "Run". Idea: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient
//! Bloom Filters", 2007.

use crate::{
    cache::{FramePool, Kept},
    sync::Arc,
};

/// The hash of a key for filters: computed once per read, tested against every run.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

const LINE_WORDS: usize = 8;
/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;
/// Nine bits of a 64-bit product choose one of 512 bits; seven such choices fit in a product.
const PROBES_PER_PRODUCT: u32 = 7;
const PROBES_MAX: u8 = 14;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// A filter over the keys of one run.
#[derive(Clone, Debug)]
pub struct Filter {
    lines: Lines,
    probes: u8,
}

/// The memory of its lines. Filters of open runs may take half of all memory, and are allocated and
/// freed with reads. Pool memory that they free can be used for anything; in the general allocator
/// it would leave holes.
#[derive(Debug)]
enum Lines {
    Own(Vec<Line>),
    Pooled(Kept),
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        match self {
            Self::Own(lines) => Self::Own(lines.clone()),
            Self::Pooled(kept) => Self::Own(kept.chunks_exact(LINE_BYTES).map(line).collect()),
        }
    }
}

/// Decodes a line.
fn line(bytes: &[u8]) -> Line {
    Line(std::array::from_fn(|word| word_of(bytes, word)))
}

/// One word of a line's bytes.
#[inline]
fn word_of(line: &[u8], word: usize) -> u64 {
    line[word * 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn bits(hash: u64, probes: u8) -> impl Iterator<Item = (usize, u64)> {
    let first = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (0..u32::from(probes)).map(move |probe| {
        let product = if probe < PROBES_PER_PRODUCT { first } else { second };
        let bit = (product >> (1 + 9 * (probe % PROBES_PER_PRODUCT))) & 511;
        ((bit >> 6) as usize, 1 << (bit & 63))
    })
}

/// The line of a hash, among `lines` lines.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

impl Filter {
    /// Builds a filter of these keys with about `bits_per_key` bits for each.
    pub fn build(hashes: &[u64], bits_per_key: usize) -> Self {
        let lines = (hashes.len() * bits_per_key).div_ceil(LINE_BYTES * 8).max(1);
        // The ideal number is 0.69 × bits; lines fill unevenly, so a little less is best.
        let probes = (bits_per_key * 6 / 10).clamp(1, PROBES_MAX.into()) as u8;
        let mut lines = vec![Line([0; LINE_WORDS]); lines];
        for &hash in hashes {
            let line = line_of(hash, lines.len());
            if let Some(line) = lines.get_mut(line) {
                for (word, bit) in bits(hash, probes) {
                    line.0[word] |= bit;
                }
            }
        }
        Self { lines: Lines::Own(lines), probes }
    }

    /// Moves the filter into memory of a pool, if it is not too long for that.
    pub fn pooled(self, pool: &Arc<FramePool>) -> Self {
        let Lines::Own(lines) = &self.lines else { return self };
        let Some(mut kept) = pool.keep(lines.len() * LINE_BYTES) else { return self };
        for (to, line) in kept.chunks_exact_mut(LINE_BYTES).zip(lines) {
            for (to, word) in to.chunks_exact_mut(8).zip(line.0) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
        Self { lines: Lines::Pooled(kept), probes: self.probes }
    }

    /// False only if no key with this hash is in the run.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        if plant!("run: filter says no to a key it has") && hash.is_multiple_of(16) {
            return false;
        }
        match &self.lines {
            Lines::Own(lines) => lines.get(line_of(hash, lines.len())).is_none_or(|line| {
                bits(hash, self.probes).all(|(word, bit)| line.0[word] & bit != 0)
            }),
            Lines::Pooled(kept) => {
                let at = line_of(hash, kept.len() / LINE_BYTES) * LINE_BYTES;
                kept.get(at..at + LINE_BYTES).is_none_or(|line| {
                    bits(hash, self.probes).all(|(word, bit)| word_of(line, word) & bit != 0)
                })
            }
        }
    }

    /// Length on disk.
    pub fn bytes(&self) -> usize {
        match &self.lines {
            Lines::Own(lines) => lines.len() * LINE_BYTES,
            Lines::Pooled(kept) => kept.len(),
        }
    }

    /// Bits set for each key.
    pub fn probes(&self) -> u8 {
        self.probes
    }

    /// Appends the filter's bytes.
    pub fn to_disk(&self, out: &mut Vec<u8>) {
        match &self.lines {
            Lines::Own(lines) => {
                out.reserve(self.bytes());
                for word in lines.iter().flat_map(|line| line.0) {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
            Lines::Pooled(kept) => out.extend_from_slice(kept),
        }
    }

    /// Reads a filter; `None` if the bytes cannot be one.
    pub fn from_disk(probes: u8, bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(LINE_BYTES) {
            return None;
        }
        if !(1..=PROBES_MAX).contains(&probes) || bytes.len() / LINE_BYTES > u32::MAX as usize {
            return None;
        }
        let lines = bytes.chunks_exact(LINE_BYTES).map(line).collect();
        Some(Self { lines: Lines::Own(lines), probes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_no_false_negatives_and_few_false_positives() {
        for (bits_per_key, most) in [(10, 0.014), (14, 0.004)] {
            let hash = |i: u64| key_hash(&i.to_be_bytes());
            let hashes: Vec<u64> = (0..20_000).map(hash).collect();
            let filter = Filter::build(&hashes, bits_per_key);
            assert!(hashes.iter().all(|&h| filter.may_contain(h)));
            let passed = (1 << 40..(1 << 40) + 100_000).filter(|&i| filter.may_contain(hash(i)));
            let share = passed.count() as f64 / 100_000.0;
            assert!(share < most, "{bits_per_key} bits: {share}");
            let mut bytes = Vec::new();
            filter.to_disk(&mut bytes);
            let again = Filter::from_disk(filter.probes(), &bytes).unwrap();
            assert!(hashes.iter().all(|&h| again.may_contain(h)));
            assert!(Filter::from_disk(filter.probes(), &bytes[1..]).is_none());
            let pool = FramePool::new(1 << 20);
            let pooled = again.pooled(&pool);
            assert_eq!(pool.kept_bytes(), pooled.bytes());
            let all = hashes.iter().copied().chain((1 << 40..(1 << 40) + 1000).map(hash));
            assert!({ all }.all(|hash| pooled.may_contain(hash) == filter.may_contain(hash)));
            for same in [pooled.clone(), pooled] {
                let mut again = Vec::new();
                same.to_disk(&mut again);
                assert_eq!(again, bytes);
            }
            assert_eq!(pool.kept_bytes(), 0);
        }
    }
}
