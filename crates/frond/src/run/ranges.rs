//! Range deletes of a run: kept apart from its entries, fragmented, resident.
//!
//! Invariants
//! 1. Fragments are sorted, disjoint and not empty.
//! 2. Inside a run they are older than all its points (Rule: I26).

use crate::coding::{Reader, put_bytes, put_varint};

/// The deleted ranges `[from, to)` of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes {
    fragments: Vec<Fragment>,
}

/// One range, from and to.
type Fragment = (Box<[u8]>, Box<[u8]>);

impl RangeDeletes {
    /// The union of ranges in any order; empty ones are dropped, touching ones joined.
    pub fn union(mut ranges: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        ranges.retain(|(from, to)| from < to);
        ranges.sort_unstable();
        let mut joined: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => {
                    if to > *end {
                        *end = to;
                    }
                }
                _ => joined.push((from, to)),
            }
        }
        let boxed = |(from, to): (Vec<u8>, Vec<u8>)| (from.into(), to.into());
        Self { fragments: joined.into_iter().map(boxed).collect() }
    }

    /// True if nothing is deleted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Number of fragments.
    pub fn len(&self) -> usize {
        self.fragments.len()
    }

    /// The fragments in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fragments.iter().map(|(from, to)| (&**from, &**to))
    }

    /// The fragments that meet `[lo, hi)`, cut to it.
    pub fn clipped(
        &self,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
    ) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.iter().filter_map(move |(from, to)| {
            let from = lo.map_or(from, |lo| from.max(lo));
            let to = hi.map_or(to, |hi| to.min(hi));
            (from < to).then(|| (from.to_vec(), to.to_vec()))
        })
    }

    /// True if `key` is deleted.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        if self.fragments.is_empty() {
            return false;
        }
        let after = self.fragments.partition_point(|(from, _)| &**from <= key);
        after.checked_sub(1).and_then(|i| self.fragments.get(i)).is_some_and(|(_, to)| key < &**to)
    }

    /// True if all of `[lo, hi)` is deleted; `None` is unbounded and never covered.
    pub fn covers_range(&self, lo: &[u8], hi: Option<&[u8]>) -> bool {
        let Some(hi) = hi else { return false };
        self.iter().any(|(from, to)| from <= lo && hi <= to)
    }

    /// Appends the fragments: count, then both ends of each with their lengths.
    pub(super) fn to_disk(&self, out: &mut Vec<u8>) {
        put_varint(out, self.fragments.len() as u64);
        for end in self.fragments.iter().flat_map(|(from, to)| [from, to]) {
            put_bytes(out, end);
        }
    }

    /// Reads fragments; `None` unless invariant 1 holds.
    pub(super) fn from_disk(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.count(3)?;
        let mut fragments: Vec<Fragment> = Vec::new();
        for _ in 0..count {
            let (from, to) = (reader.bytes()?, reader.bytes()?);
            let after = fragments.last().is_none_or(|(_, end)| **end < *from);
            if from >= to || !after {
                return None;
            }
            fragments.push((from.into(), to.into()));
        }
        Some(Self { fragments })
    }

    pub(super) fn resident_bytes(&self) -> usize {
        self.fragments.iter().map(|(from, to)| from.len() + to.len() + 32).sum()
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
        assert!(deletes.covers_range(b"a", Some(b"e")) && !deletes.covers_range(b"a", Some(b"f")));
        let mut bytes = Vec::new();
        deletes.to_disk(&mut bytes);
        assert_eq!(RangeDeletes::from_disk(&mut Reader::new(&bytes)), Some(deletes.clone()));
        let cut: Vec<_> = deletes.clipped(Some(b"b"), Some(b"n")).collect();
        assert_eq!(cut, [range("b", "e"), range("m", "n")]);
    }
}
