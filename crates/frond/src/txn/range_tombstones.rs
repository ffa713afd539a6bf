//! Range deletes of one tree in a write set: the newest one that covers a key.
//!
//! Range deletes are numbered as they are added. Where they overlap, the newer one replaces the
//! older in that stretch; the replaced fragments are remembered, so that the newest range delete
//! can be undone. A key hidden by any range delete is hidden by the newest one that covers it: no
//! other is needed.
//!
//! Invariants
//! 1. Fragments are disjoint and not empty; each names the newest range delete that covers it.
//! 2. Undoing the newest range delete leaves the fragments as they were before it.
//!
//! Threads: one. Cost of adding a range delete: proportional to what it covers; each fragment is
//! taken once.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included, Unbounded},
};

/// A stretch `[from, to)`; `from` is its key in the map.
#[derive(Clone, Debug)]
struct Fragment {
    to: Vec<u8>,
    /// The newest range delete that covers it.
    newest: u32,
}

/// The range deletes of one tree.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeTombstones {
    fragments: BTreeMap<Vec<u8>, Fragment>,
    /// For each range delete, oldest first, the fragments that it took or cut.
    taken: Vec<Vec<(Vec<u8>, Fragment)>>,
}

impl RangeTombstones {
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    pub fn clear(&mut self) {
        self.fragments.clear();
        self.taken.clear();
    }

    /// Adds a range delete that is newer than all others.
    pub fn add(&mut self, from: &[u8], to: &[u8], number: u32) {
        let taken = if from < to { self.take(from, to) } else { Vec::new() };
        for (begin, fragment) in &taken {
            if begin.as_slice() < from {
                let left = Fragment { to: from.to_vec(), newest: fragment.newest };
                self.fragments.insert(begin.clone(), left);
            }
            if fragment.to.as_slice() > to {
                self.fragments.insert(to.to_vec(), fragment.clone());
            }
        }
        if from < to {
            self.fragments.insert(from.to_vec(), Fragment { to: to.to_vec(), newest: number });
        }
        self.taken.push(taken);
    }

    /// Undoes the newest range delete, which must be this one.
    pub fn undo(&mut self, from: &[u8], to: &[u8]) {
        let taken = self.taken.pop().unwrap_or_default();
        if from < to {
            self.fragments.remove(from);
        }
        if taken.last().is_some_and(|(_, fragment)| fragment.to.as_slice() > to) {
            self.fragments.remove(to);
        }
        self.fragments.extend(taken);
    }

    /// The newest range delete that covers a key.
    #[inline]
    pub fn newest(&self, key: &[u8]) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let (_, fragment) =
            self.fragments.range::<[u8], _>((Unbounded, Included(key))).next_back()?;
        (key < fragment.to.as_slice()).then_some(fragment.newest)
    }

    /// The deleted parts of `[lo, hi)`, ascending.
    pub fn clipped(&self, (lo, hi): (Option<&[u8]>, Option<&[u8]>)) -> Vec<(Vec<u8>, Vec<u8>)> {
        if lo.is_some_and(|lo| hi.is_some_and(|hi| lo >= hi)) {
            return Vec::new();
        }
        let before = lo
            .and_then(|lo| self.fragments.range::<[u8], _>((Unbounded, Excluded(lo))).next_back());
        let inside = (lo.map_or(Unbounded, Included), hi.map_or(Unbounded, Excluded));
        let clip = |(from, fragment): (&Vec<u8>, &Fragment)| {
            let from = lo.map_or(&**from, |lo| lo.max(from));
            let to = hi.map_or(&*fragment.to, |hi| hi.min(&fragment.to));
            (from < to).then(|| (from.to_vec(), to.to_vec()))
        };
        before.into_iter().chain(self.fragments.range::<[u8], _>(inside)).filter_map(clip).collect()
    }

    /// Removes all fragments that intersect `[from, to)`; returns them, ascending.
    fn take(&mut self, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Fragment)> {
        let before = self.fragments.range::<[u8], _>((Unbounded, Excluded(from))).next_back();
        let before = before.filter(|(_, fragment)| fragment.to.as_slice() > from);
        let inside = self.fragments.range::<[u8], _>((Included(from), Excluded(to)));
        let begins: Vec<Vec<u8>> =
            before.into_iter().chain(inside).map(|(begin, _)| begin.clone()).collect();
        begins.into_iter().filter_map(|begin| self.fragments.remove_entry(&begin)).collect()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Checks both invariants with random ranges over a few keys, added and undone.
    #[test]
    fn the_newest_covering_range_is_found_and_can_be_undone() {
        for seed in 1..300u64 {
            let mut random = seed;
            let mut toss = |end: u64| {
                random =
                    random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                ((random >> 33) % end) as u8
            };
            let (mut covers, mut ranges) = (RangeTombstones::default(), Vec::new());
            for _ in 0..30 {
                if toss(3) == 0
                    && let Some((from, to)) = ranges.pop()
                {
                    covers.undo(&[from], &[to]);
                } else {
                    let (from, to) = (toss(12), toss(12));
                    covers.add(&[from], &[to], ranges.len() as u32);
                    ranges.push((from, to));
                }
                for key in 0..12 {
                    let covering = |(from, to): &(u8, u8)| *from <= key && key < *to;
                    let expected = ranges.iter().rposition(covering).map(|at| at as u32);
                    assert_eq!(covers.newest(&[key]), expected, "seed {seed}, {ranges:?}, {key}");
                }
                let (lo, hi) = (toss(12), toss(12));
                let mut deleted = [false; 12];
                for (from, to) in covers.clipped((Some(&[lo]), Some(&[hi]))) {
                    deleted[usize::from(from[0])..usize::from(to[0])].fill(true);
                }
                for key in 0..12 {
                    let inside = lo <= key && key < hi;
                    let expected = inside && covers.newest(&[key]).is_some();
                    assert_eq!(deleted[usize::from(key)], expected, "seed {seed}");
                }
            }
        }
    }
}
