//! Range deletes of a run: stored apart from its entries, fragmented, resident.
//!
//! Invariants
//! 1. Fragments are sorted, disjoint and not empty.
//! 2. Inside a run they are older than all its points (Rule: I26).

use crate::{
    block::common_prefix,
    coding::{Reader, put_bytes, put_varint},
};

use super::index::head;

/// Bytes that a fragment counts towards the length of a run, in addition to its keys.
const FRAGMENT_BYTES: usize = 32;
/// The least that a waiting fragment counts: what it costs to hand one down.
const FRAGMENT_BYTES_MIN: u64 = 64;

/// The deleted ranges `[from, to)` of one run.
///
/// The keys of all fragments are in one allocation. Lookups compare eight bytes of each lower
/// bound, after the prefix that all lower bounds share; these are stored side by side. A lookup
/// among 10,000 fragments costs about 100 ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes {
    keys: Box<[u8]>,
    /// Offsets of the ends of the keys, two for each fragment: `from` and `to`.
    ends: Box<[usize]>,
    /// Eight bytes of each `from`, after the first `skip`.
    heads: Box<[u64]>,
    /// Length of a prefix that all lower bounds share.
    skip: usize,
}

/// Fragments being collected, in ascending order.
#[derive(Debug, Default)]
struct Fragments {
    keys: Vec<u8>,
    ends: Vec<usize>,
}

impl Fragments {
    fn with_capacity(fragments: usize, bytes: usize) -> Self {
        Self { keys: Vec::with_capacity(bytes), ends: Vec::with_capacity(2 * fragments) }
    }

    fn push(&mut self, from: &[u8], to: &[u8]) {
        for key in [from, to] {
            self.keys.extend_from_slice(key);
            self.ends.push(self.keys.len());
        }
    }

    fn finish(self) -> RangeDeletes {
        let (keys, ends) = (self.keys.into_boxed_slice(), self.ends.into_boxed_slice());
        let mut made = RangeDeletes { keys, ends, ..RangeDeletes::default() };
        let Some(last) = made.len().checked_sub(1) else { return made };
        made.skip = common_prefix(made.from(0), made.from(last));
        made.heads = (0..=last).map(|i| head(made.from(i), made.skip)).collect();
        made
    }
}

impl RangeDeletes {
    /// The union of ranges in any order; empty ranges are dropped, touching ranges joined. n log n
    /// for n ranges.
    pub fn union<K: AsRef<[u8]> + Ord>(mut ranges: Vec<(K, K)>) -> Self {
        ranges.retain(|(from, to)| from < to);
        ranges.sort_unstable();
        let bytes = ranges.iter().map(|(from, to)| from.as_ref().len() + to.as_ref().len()).sum();
        let mut joined = Fragments::with_capacity(ranges.len(), bytes);
        let mut ranges = ranges.iter().map(|(from, to)| (from.as_ref(), to.as_ref()));
        let Some((mut from, mut to)) = ranges.next() else { return Self::default() };
        for (next_from, next_to) in ranges {
            if next_from <= to {
                to = to.max(next_to);
            } else {
                joined.push(from, to);
                (from, to) = (next_from, next_to);
            }
        }
        joined.push(from, to);
        joined.finish()
    }

    /// True if nothing is deleted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of fragments.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Key number `end`: fragment n has 2n as its lower bound, and 2n + 1 as its upper bound.
    #[inline]
    fn end(&self, end: usize) -> &[u8] {
        let start = end.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[end]]
    }

    #[inline]
    fn from(&self, fragment: usize) -> &[u8] {
        self.end(2 * fragment)
    }

    #[inline]
    fn to(&self, fragment: usize) -> &[u8] {
        self.end(2 * fragment + 1)
    }

    /// Fragment number `fragment`.
    pub fn get(&self, fragment: usize) -> Option<(&[u8], &[u8])> {
        (fragment < self.len()).then(|| (self.from(fragment), self.to(fragment)))
    }

    /// The fragments in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|i| (self.from(i), self.to(i)))
    }

    /// The number of fragments that start at or below `key`. Whole keys are compared only where
    /// heads are equal.
    #[inline]
    fn count_from_at_or_below(&self, key: &[u8]) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let prefix = &self.keys[..self.skip];
        let Some(rest) = key.strip_prefix(prefix) else {
            // All fragments are on one side of the key.
            return if key < prefix { 0 } else { self.len() };
        };
        let wanted = head(rest, 0);
        let mut low = self.heads.partition_point(|&head| head < wanted);
        if self.heads.get(low) != Some(&wanted) {
            return low;
        }
        let mut high = low + self.heads[low..].partition_point(|&head| head == wanted);
        while low < high {
            let middle = low.midpoint(high);
            if self.from(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The numbers of the fragments that overlap `[lo, hi)`.
    fn meeting(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> std::ops::Range<usize> {
        let first = lo.map_or(0, |lo| match self.count_from_at_or_below(lo) {
            0 => 0,
            count => count - usize::from(lo < self.to(count - 1)),
        });
        let end = hi.map_or(self.len(), |hi| match self.count_from_at_or_below(hi) {
            0 => 0,
            // A fragment that starts at `hi` is outside.
            count => count - usize::from(self.from(count - 1) == hi),
        });
        first..end.max(first)
    }

    /// True if any key of `[lo, hi)` is deleted.
    pub fn meets(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> bool {
        !self.is_empty()
            && lo.is_none_or(|lo| hi.is_none_or(|hi| lo < hi))
            && !self.meeting(lo, hi).is_empty()
    }

    /// Approximate bytes of the fragments that overlap `[lo, hi)`; 0 if and only if there are none.
    pub fn bytes_between(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        if !self.meets(lo, hi) {
            return 0;
        }
        let meeting = self.meeting(lo, hi);
        let start = (2 * meeting.start).checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = (self.ends[2 * meeting.end - 1] - start) as u64;
        bytes.max(meeting.len() as u64 * FRAGMENT_BYTES_MIN)
    }

    /// The fragments that overlap `[lo, hi)`, clipped to it.
    pub fn clipped<'k>(
        &'k self,
        lo: Option<&'k [u8]>,
        hi: Option<&'k [u8]>,
    ) -> impl Iterator<Item = (&'k [u8], &'k [u8])> {
        let meeting = if self.meets(lo, hi) { self.meeting(lo, hi) } else { 0..0 };
        meeting.map(move |i| {
            let from = lo.map_or(self.from(i), |lo| self.from(i).max(lo));
            let to = hi.map_or(self.to(i), |hi| self.to(i).min(hi));
            (from, to)
        })
    }

    /// True if `key` is deleted. Costs a binary search.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        if self.is_empty() {
            // The usual case for runs and memtables; checked for each entry of a drain.
            return false;
        }
        match self.count_from_at_or_below(key) {
            0 => false,
            count => key < self.to(count - 1),
        }
    }

    /// The end of the fragment that covers `key`, if there is one.
    #[inline]
    pub fn covered_to(&self, key: &[u8]) -> Option<&[u8]> {
        let before = self.count_from_at_or_below(key).checked_sub(1)?;
        Some(self.to(before)).filter(|to| key < *to)
    }

    /// Appends the fragments: count, then both ends of each with their lengths.
    pub(super) fn to_disk(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        (0..self.ends.len()).for_each(|end| put_bytes(out, self.end(end)));
    }

    /// Reads fragments; `None` unless invariant 1 holds.
    pub(super) fn from_disk(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.count(3)?;
        let mut fragments = Fragments::default();
        let mut before: Option<&[u8]> = None;
        for _ in 0..count {
            let (from, to) = (reader.bytes()?, reader.bytes()?);
            if from >= to || before.is_some_and(|before| before >= from) {
                return None;
            }
            fragments.push(from, to);
            before = Some(to);
        }
        Some(fragments.finish())
    }

    pub(super) fn resident_bytes(&self) -> usize {
        self.keys.len() + self.ends.len() * size_of::<usize>() + self.heads.len() * size_of::<u64>()
    }

    /// Bytes that a fragment adds to the length of a run.
    pub fn fragment_bytes(from: &[u8], to: &[u8]) -> usize {
        from.len() + to.len() + FRAGMENT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_become_fragments_that_cover_the_same_keys() {
        let range = |from: &str, to: &str| (from.into(), to.into());
        let given = vec![
            range("m", "p"),
            range("a", "c"),
            range("b", "d"),
            range("d", "e"),
            range("x", "x"),
        ];
        let deletes = RangeDeletes::union(given.clone());
        assert_eq!(deletes.len(), 2);
        for key in ["", "a", "b", "cz", "d", "e", "f", "m", "oz", "p", "x", "z"] {
            let expected = given.iter().any(|(from, to): &(Vec<u8>, Vec<u8>)| {
                from.as_slice() <= key.as_bytes() && key.as_bytes() < to.as_slice()
            });
            assert_eq!(deletes.covers(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(deletes.covered_to(b"a"), Some(&b"e"[..]));
        assert_eq!(deletes.covered_to(b"e"), None);
        let mut bytes = Vec::new();
        deletes.to_disk(&mut bytes);
        assert_eq!(RangeDeletes::from_disk(&mut Reader::new(&bytes)), Some(deletes.clone()));
        let cut: Vec<_> = deletes.clipped(Some(b"b"), Some(b"n")).collect();
        assert_eq!(cut, [(&b"b"[..], &b"e"[..]), (b"m", b"n")]);
    }

    /// Lookups by heads agree with a linear search, for keys that share prefixes, end early, or lie
    /// beyond both ends.
    #[test]
    fn range_lookups_agree_with_a_linear_search() {
        let mut random = 7u64;
        let mut toss = |end: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) as usize % end
        };
        let beginnings = ["", "a/common/beginning/", "a/common/beginning/of/many/"];
        for _ in 0..200 {
            let mut key = || {
                let mut key = beginnings[toss(3)].as_bytes().to_vec();
                (0..toss(4)).for_each(|_| key.push([0, 1, b'm', 255][toss(4)]));
                key
            };
            let given: Vec<(Vec<u8>, Vec<u8>)> = (0..30).map(|_| (key(), key())).collect();
            let deletes = RangeDeletes::union(given.clone());
            let keys: Vec<Vec<u8>> = (0..60).map(|_| key()).collect();
            for key in &keys {
                let expected = given.iter().any(|(from, to)| from <= key && key < to);
                assert_eq!(deletes.covers(key), expected, "{key:?} in {given:?}");
            }
            for pair in keys.windows(2) {
                let bounds = [None, Some(&pair[0][..])];
                let ends = [None, Some(&pair[1][..])];
                for (lo, hi) in bounds.into_iter().flat_map(|lo| ends.map(|hi| (lo, hi))) {
                    let clip = |(from, to)| {
                        (lo.map_or(from, |lo| lo.max(from)), hi.map_or(to, |hi| hi.min(to)))
                    };
                    let expected: Vec<_> =
                        deletes.iter().map(clip).filter(|(from, to)| from < to).collect();
                    let cut: Vec<_> = deletes.clipped(lo, hi).collect();
                    assert_eq!(cut, expected, "{lo:?} to {hi:?} of {given:?}");
                    assert_eq!(deletes.meets(lo, hi), !expected.is_empty());
                    assert_eq!(deletes.bytes_between(lo, hi) > 0, !expected.is_empty());
                }
            }
        }
    }
}
