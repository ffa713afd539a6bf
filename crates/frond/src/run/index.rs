//! The block index of a run, resident with it: which block holds a key, and the properties of each
//! block.
//!
//! Invariants
//! 1. Separators ascend strictly; every key of block i lies in [separator i, separator i + 1).
//! 2. A separator is the shortest prefix of the block's first key that is above all keys before it;
//!    that of block 0 is empty.
//!
//! Estimates (`bytes_between`, `held_between`) count blocks at the ends of a range as half, unless
//! the caller can say how many of their rows lie below a key.

use crate::block::Packing;

/// The index entry of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEntry {
    /// Offset of its bytes in the run's data.
    pub offset: u32,
    /// Length of its stored bytes, including padding before the next block.
    pub encoded_bytes: u32,
    /// Length of the decoded block.
    pub raw_bytes: u32,
    /// Length of its keys and payloads; for a row block the length of the block.
    pub row_bytes: u32,
    /// Number of rows.
    pub rows: u32,
    /// Number of rows that are Deletes.
    pub deletes: u32,
    /// Number of rows that are Merges.
    pub merges: u32,
    /// CRC-32C of the bytes as stored.
    pub crc: u32,
    /// How it is stored.
    pub packing: Packing,
    /// True if rows refer to blob extents.
    pub has_blobs: bool,
}

/// All blocks of a run.
#[derive(Clone, Debug, Default)]
pub struct BlockIndex {
    entries: Vec<BlockEntry>,
    /// Eight bytes of each separator after the prefix that all share: most searches end here.
    heads: Vec<u64>,
    prefix: usize,
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
}

/// Eight bytes of a key from `skip` on, as a number with the same order; short keys are ordered as
/// if followed by zeros, so equal heads decide nothing.
#[inline]
pub fn head(key: &[u8], skip: usize) -> u64 {
    match key.get(skip..skip + 8) {
        Some(eight) => eight.try_into().map_or(0, u64::from_be_bytes),
        None => short_head(key.get(skip..).unwrap_or_default()),
    }
}

#[inline]
fn short_head(rest: &[u8]) -> u64 {
    rest.iter()
        .zip([56, 48, 40, 32, 24, 16, 8])
        .map(|(&byte, shift)| u64::from(byte) << shift)
        .sum()
}

impl BlockIndex {
    /// Appends a block; separators ascend.
    pub fn push(&mut self, separator: &[u8], entry: BlockEntry) {
        self.entries.push(entry);
        self.separators.extend_from_slice(separator);
        self.separator_ends.push(self.separators.len() as u32);
    }

    /// The last block's entry, while building.
    pub fn last_mut(&mut self) -> Option<&mut BlockEntry> {
        self.entries.last_mut()
    }

    /// Computes the heads once all blocks are there, and frees spare memory.
    pub fn seal(&mut self) {
        self.entries.shrink_to_fit();
        self.separators.shrink_to_fit();
        self.separator_ends.shrink_to_fit();
        // Separator 0 is empty, and never compared.
        let (first, last) = (self.separator(1), self.separator(self.len().saturating_sub(1)));
        self.prefix = crate::block::common_prefix(first, last);
        self.heads = (0..self.len()).map(|i| head(self.separator(i), self.prefix)).collect();
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The blocks in order.
    pub fn entries(&self) -> &[BlockEntry] {
        &self.entries
    }

    /// The entry of block `index`.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<&BlockEntry> {
        self.entries.get(index)
    }

    /// Separator of block `index`; empty for block 0 and beyond the end.
    #[inline]
    pub fn separator(&self, index: usize) -> &[u8] {
        let Some(&end) = self.separator_ends.get(index) else { return &[] };
        let start = index.checked_sub(1).and_then(|i| self.separator_ends.get(i)).map_or(0, |&e| e);
        self.separators.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The only block that can hold `key`; 0 if the key is below all of them.
    #[inline]
    pub fn block_for(&self, key: &[u8]) -> usize {
        // The last separator not above the key.
        let prefix = self.prefix.min(key.len());
        let shared = self.separator(1).get(..self.prefix).unwrap_or_default();
        match key[..prefix].cmp(&shared[..prefix]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.len().saturating_sub(1),
            std::cmp::Ordering::Equal if prefix < self.prefix => return 0,
            std::cmp::Ordering::Equal => {}
        }
        let wanted = head(key, self.prefix);
        let (mut low, mut high) = (0, self.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let at = self.heads.get(middle).copied().unwrap_or(u64::MAX);
            let above = at > wanted || at == wanted && self.separator(middle) > key;
            if above { high = middle } else { low = middle }
        }
        low
    }

    /// Estimates entries that are no deletes, and stored bytes, of the blocks that [lo, hi) meets,
    /// each at least 1. The blocks at its ends count by the share that `rows_below` returns, or
    /// half where that is not known.
    pub fn estimate(
        &self,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
        rows_below: impl Fn(usize, &[u8]) -> Option<u32>,
    ) -> (u64, u64) {
        if self.is_empty() || matches!((lo, hi), (Some(lo), Some(hi)) if lo >= hi) {
            return (0, 0);
        }
        let first = lo.map_or(0, |key| self.block_for(key));
        let last = hi.map_or(self.len() - 1, |key| self.block_for(key));
        let cut_first = lo.is_some_and(|key| first == 0 || key > self.separator(first));
        let cut_last = hi.is_some();
        let (mut entries, mut bytes) = (0u64, 0u64);
        for (index, entry) in self.entries.iter().enumerate().take(last + 1).skip(first) {
            let cut = |key: Option<&[u8]>, is_cut: bool, whole: u32| match key.filter(|_| is_cut) {
                None => (whole, 0),
                Some(key) => rows_below(index, key).map_or((whole, 1), |rows| (rows, 0)),
            };
            let (from, below) = cut(lo, index == first && cut_first, 0);
            let (to, above) = cut(hi, index == last && cut_last, entry.rows);
            let rows = u64::from(to.saturating_sub(from));
            let puts = u64::from(entry.rows.saturating_sub(entry.deletes));
            entries += (rows * puts / u64::from(entry.rows.max(1))) >> (below + above);
            bytes += (u64::from(entry.encoded_bytes) * rows / u64::from(entry.rows.max(1)))
                >> (below + above);
        }
        (entries.max(1), bytes.max(1))
    }

    /// Length of all separators.
    pub fn separators_bytes(&self) -> usize {
        self.separators.len()
    }

    /// Memory held.
    pub fn resident_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<BlockEntry>()
            + self.heads.capacity() * 8
            + self.separators.capacity()
            + self.separator_ends.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_finds_the_block_whose_separators_enclose_it() {
        for prefix in ["", "a long common prefix "] {
            let mut index = BlockIndex::default();
            let entry = BlockEntry {
                offset: 0,
                encoded_bytes: 100,
                raw_bytes: 200,
                row_bytes: 200,
                rows: 10,
                deletes: 0,
                merges: 0,
                crc: 0,
                packing: Packing::RAW,
                has_blobs: false,
            };
            let ends = ["", "b", "bb", "bb\0", "cccccccccccc", "ccccccccccccd", "e"];
            let full = |end: &str| [prefix, end].concat().into_bytes();
            for (i, end) in ends.iter().enumerate() {
                index.push(if i == 0 { b"" } else { full(end).leak() }, entry);
            }
            index.seal();
            for end in ends.iter().chain(&["a", "bba", "bb\0a", "ccc", "cccccccccccc\0", "zz", "d"])
            {
                let key = full(end);
                let expected = (1..ends.len()).rev().find(|&i| full(ends[i]) <= key).unwrap_or(0);
                assert_eq!(index.block_for(&key), expected, "{end:?}");
            }
            assert_eq!(index.block_for(b""), 0);
            assert_eq!(index.block_for(&[0xff]), ends.len() - 1);
            assert_eq!(index.estimate(None, None, |_, _| None).0, 70);
            let (bba, d) = (full("bba"), full("d"));
            let range = (Some(&bba[..]), Some(&d[..]));
            assert_eq!(index.estimate(range.0, range.1, |_, _| None).0, 20);
            let below = |block: usize, _: &[u8]| Some([7, 2][block % 2]);
            let counted = index.estimate(range.0, range.1, below).0;
            let [first, last] = [&bba, &d].map(|key| index.block_for(key));
            let between = 10 * (last - first - 1) as u64;
            let (first, last) = ([7, 2][first % 2], [7, 2][last % 2]);
            assert_eq!(counted, 10 - first + between + last);
            assert_eq!(index.estimate(Some(b"q"), Some(b"q"), |_, _| None).0, 0);
        }
    }
}
