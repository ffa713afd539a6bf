//! A set of pages of the file, kept as disjoint ranges: the places that have disk space behind
//! them.
//!
//! The backed parts of free ranges are taken out of the allocator. A part that started within a
//! page would leave an allocator whose next extent starts within a page, too, and direct I/O
//! refuses to write that.
//!
//! Invariants
//! 1. Ranges are disjoint and do not touch; `total` is the sum of their lengths.
//! 2. Ranges are whole pages. A page that is only partly in the set is not in it.
//!
//! Threads: under the lock of [`Space`](super::Space).

use std::collections::BTreeMap;

use crate::io::ALIGN;

const PAGE: u64 = ALIGN as u64;

/// A set of page ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<u64, u64>,
    total: u64,
}

impl Ranges {
    /// Adds the whole pages of `[start, end)`; some of them may be in the set already.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (start, end) = if plant!("store: a part of a page is backed") {
            (start, end)
        } else {
            (start.next_multiple_of(PAGE), end - end % PAGE)
        };
        if start >= end {
            return;
        }
        let (mut from, mut to) = (start, end);
        while let Some((&s, &e)) =
            self.by_start.range(..=to).next_back().filter(|(_, e)| **e >= from)
        {
            self.by_start.remove(&s);
            self.total -= e - s;
            (from, to) = (from.min(s), to.max(e));
        }
        self.by_start.insert(from, to);
        self.total += to - from;
    }

    /// Removes every page of which `[start, end)` contains a byte.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (start, end) =
            (start - start % PAGE, end.checked_next_multiple_of(PAGE).unwrap_or(end));
        for (s, e) in self.within(start, end) {
            // `within` returns parts of ranges; look up the whole range.
            let Some((&whole, &whole_end)) = self.by_start.range(..=s).next_back() else {
                continue;
            };
            self.by_start.remove(&whole);
            self.total -= whole_end - whole;
            for (from, to) in [(whole, s), (e, whole_end)] {
                if from < to {
                    self.by_start.insert(from, to);
                    self.total += to - from;
                }
            }
        }
    }

    /// True if all of `[start, end)` is in the set.
    pub fn contains(&self, start: u64, end: u64) -> bool {
        let around = self.by_start.range(..=start).next_back();
        around.is_some_and(|(_, &e)| e >= end)
    }

    /// The parts of `[start, end)` that are in the set, ascending.
    pub fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let first = self.by_start.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let ranges = self.by_start.range(first..end.max(first));
        let parts = ranges.map(|(&s, &e)| (s.max(start), e.min(end)));
        parts.filter(|(s, e)| s < e).collect()
    }

    /// Total length, bytes.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0u64..64, 0u64..20), 0..40),
            probe in (0u64..64, 0u64..20),
        ) {
            let (mut ranges, mut model) = (Ranges::default(), [false; 96]);
            for (insert, start, length) in steps {
                let end = start + length;
                // A part of a page more or less makes a difference only in the safe direction.
                let part = if length > 0 { PAGE / 16 } else { 0 };
                if insert {
                    ranges.insert((start * PAGE).saturating_sub(part), end * PAGE + part);
                } else {
                    ranges.remove(start * PAGE + part, end * PAGE - part);
                }
                model[start as usize..end as usize].fill(insert);
            }
            let (start, end) = (probe.0, probe.0 + probe.1 + 1);
            let slice = &model[start as usize..end as usize];
            let (start, end) = (start * PAGE, end * PAGE);
            prop_assert_eq!(ranges.contains(start, end), slice.iter().all(|&set| set));
            let within = ranges.within(start, end);
            prop_assert!(within.iter().all(|(s, e)| s % PAGE == 0 && e % PAGE == 0));
            let within: u64 = within.iter().map(|(s, e)| (e - s) / PAGE).sum();
            prop_assert_eq!(within as usize, slice.iter().filter(|&&set| set).count());
            let pages = model.iter().filter(|&&set| set).count() as u64;
            prop_assert_eq!(ranges.total(), pages * PAGE);
        }
    }
}
