// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of bytes of the file, kept as disjoint ranges: which places have disk space behind them.
//!
//! Invariant: ranges are disjoint and do not touch; `total` is the sum of their lengths.
//!
//! Threads: under the lock of [`Space`](super::Space).

use std::collections::BTreeMap;

/// The set.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<u64, u64>,
    total: u64,
}

impl Ranges {
    /// Adds `[start, end)`; some of it may be in already.
    pub fn insert(&mut self, start: u64, end: u64) {
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

    /// Takes `[start, end)` out, whatever of it is in.
    pub fn remove(&mut self, start: u64, end: u64) {
        for (s, e) in self.within(start, end) {
            // `within` gives parts of ranges; the whole range is found by its part.
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

    /// True if all of `[start, end)` is in.
    pub fn contains(&self, start: u64, end: u64) -> bool {
        let around = self.by_start.range(..=start).next_back();
        around.is_some_and(|(_, &e)| e >= end)
    }

    /// The parts of `[start, end)` that are in, ascending.
    pub fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let first = self.by_start.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let ranges = self.by_start.range(first..end.max(first));
        let parts = ranges.map(|(&s, &e)| (s.max(start), e.min(end)));
        parts.filter(|(s, e)| s < e).collect()
    }

    /// Bytes in it.
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
                if insert { ranges.insert(start, end) } else { ranges.remove(start, end) }
                model[start as usize..end as usize].fill(insert);
            }
            let (start, end) = (probe.0, probe.0 + probe.1 + 1);
            let slice = &model[start as usize..end as usize];
            prop_assert_eq!(ranges.contains(start, end), slice.iter().all(|&set| set));
            let within: u64 = ranges.within(start, end).iter().map(|(s, e)| e - s).sum();
            prop_assert_eq!(within as usize, slice.iter().filter(|&&set| set).count());
            prop_assert_eq!(ranges.total() as usize, model.iter().filter(|&&set| set).count());
        }
    }
}
