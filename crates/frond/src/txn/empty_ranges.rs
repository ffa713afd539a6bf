//! Empty-range hints (vacancies): stretches of keys known to hold no row, so that scans do not walk
//! the same tombstones again and again.
//!
//! A program that uses a tree as a queue reads it from its low end, where everything has been
//! deleted. Until tombstones have reached the leaves, each read would walk all of them, and a queue
//! of n rounds costs n². A scan that walked many tombstones therefore reports it:
//!
//! 1. It *proposes* the stretch from where it started to its first row, and then reads the last
//!    seqno that was assigned: later commits report what they put into the stretch (step 3).
//! 2. A later scan whose snapshot has all commits through that seqno, and that finds the stretch
//!    empty, *confirms* the stretch as of its snapshot: it is then a vacancy, and scans at that
//!    snapshot or a later one skip it.
//! 3. Each commit, once its seqno is assigned and before it is visible, cuts the tree's vacancy and
//!    proposal at the first key that it puts there.
//!
//! Invariants
//! 1. A confirmed vacancy that a scan finds after it has its snapshot, and that is not younger than
//!    the snapshot, holds no row of the snapshot: a commit that put one between the two would have
//!    cut the vacancy before it became visible, so before the snapshot could include it.
//! 2. The empty range and the proposal change together by compare-and-swap: neither comes back once
//!    it was cut.
//!
//! Threads: all, without locks. Kept only in memory; one per tree, since a queue has one low end.
//! Cost for a commit: one load, while no tree has ever had a vacancy.

use arc_swap::ArcSwapOption;

use crate::{
    Seqno,
    sync::{Arc, AtomicU64, Ordering},
};

/// Number of consecutive tombstones in a scan from which a stretch is worth remembering.
pub(crate) const TOMBSTONES_MIN: u64 = 32;

/// A stretch of keys `[from, to)`; `None` is unbounded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
}

impl Stretch {
    /// True if `key` lies in the stretch.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key)
            && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// True if a walk over `other` passes all of this stretch.
    fn is_within(&self, other: &Stretch) -> bool {
        let begins = match (&other.from, &self.from) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(other), Some(own)) => other <= own,
        };
        let ends = match (&other.to, &self.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(other), Some(own)) => own <= other,
        };
        begins && ends
    }

    /// The part below `key`, which lies in the stretch; `None` if it is empty.
    fn below(&self, key: &[u8]) -> Option<Self> {
        let some = self.from.as_deref() != Some(key) && !key.is_empty();
        some.then(|| Self { from: self.from.clone(), to: Some(key.to_vec()) })
    }
}

#[derive(Clone, Debug)]
struct Confirmed {
    stretch: Stretch,
    at: Seqno,
}

#[derive(Clone, Debug)]
struct Proposed {
    stretch: Stretch,
    /// A confirming scan must have all commits through this one; `u64::MAX` while it is not known.
    after: Arc<AtomicU64>,
}

#[derive(Clone, Debug, Default)]
struct State {
    confirmed: Option<Confirmed>,
    proposed: Option<Proposed>,
}

/// The confirmed and the proposed vacancy of one tree.
#[derive(Debug, Default)]
pub(crate) struct EmptyRanges {
    state: ArcSwapOption<State>,
}

impl EmptyRanges {
    /// The stretch that a scan at snapshot `at` may skip. Must be called after the snapshot is
    /// taken.
    pub fn known(&self, at: Seqno) -> Option<Stretch> {
        let state = self.state.load();
        let confirmed = state.as_ref()?.confirmed.as_ref()?;
        (confirmed.at <= at).then(|| confirmed.stretch.clone())
    }

    /// Reports that a scan at snapshot `at` found no row in `walked`, which includes the stretch it
    /// jumped over. `last_assigned` reads the last seqno from the sequencer, in its section.
    pub fn found_empty(
        &self,
        walked: Stretch,
        at: Seqno,
        last_assigned: impl FnOnce() -> Seqno,
        any: &AtomicU64,
    ) {
        let old = self.state.load_full();
        let proposed = old.as_ref().and_then(|state| state.proposed.as_ref());
        let confirms = proposed.filter(|proposed| {
            proposed.after.load(Ordering::Acquire) <= at.0 && proposed.stretch.is_within(&walked)
        });
        let mut new = old.as_deref().cloned().unwrap_or_default();
        if let Some(proposed) = confirms {
            new.confirmed = Some(Confirmed { stretch: proposed.stretch.clone(), at });
            new.proposed = None;
            self.swap(&old, new);
            return;
        }
        if proposed.is_some_and(|proposed| at.0 < proposed.after.load(Ordering::Acquire)) {
            return; // to be confirmed by a scan to come
        }
        let after = Arc::new(AtomicU64::new(u64::MAX));
        new.proposed = Some(Proposed { stretch: walked, after: after.clone() });
        // From now on commits look here, including those that are assigned after the read below:
        // the sequencer's lock orders the two.
        any.store(1, Ordering::SeqCst);
        if self.swap(&old, new) {
            after.store(last_assigned().0, Ordering::Release);
        }
    }

    /// Reports that a commit puts `keys`, ascending. Called after its seqno is assigned and before
    /// it is visible.
    pub fn put<'k>(&self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        self.cut(|stretch| keys.clone().find(|key| stretch.holds(key)).map(<[u8]>::to_vec));
    }

    /// Reports, like [`put`](Self::put), a commit that puts unknown keys of each of these ranges,
    /// ends included.
    pub fn put_within<'k>(&self, ranges: impl Iterator<Item = (&'k [u8], &'k [u8])> + Clone) {
        self.cut(|stretch| {
            ranges.clone().find_map(|(first, last)| {
                let first = stretch.from.as_deref().map_or(first, |from| from.max(first));
                (first <= last && stretch.holds(first)).then(|| first.to_vec())
            })
        });
    }

    /// Cuts both stretches at the first key that is put; `first` finds that key in a stretch.
    fn cut(&self, first: impl Fn(&Stretch) -> Option<Vec<u8>>) {
        loop {
            let old = self.state.load_full();
            let Some(state) = old.as_deref() else { return };
            let cut = |stretch: &Stretch| match first(stretch) {
                Some(key) => (stretch.below(&key), true),
                None => (Some(stretch.clone()), false),
            };
            let mut new = state.clone();
            let mut any = false;
            if let Some(confirmed) = &state.confirmed {
                let (left, is_cut) = cut(&confirmed.stretch);
                new.confirmed = left.map(|stretch| Confirmed { stretch, ..confirmed.clone() });
                any |= is_cut;
            }
            if let Some(proposed) = &state.proposed {
                let (left, is_cut) = cut(&proposed.stretch);
                new.proposed = left.map(|stretch| Proposed { stretch, ..proposed.clone() });
                any |= is_cut;
            }
            if !any || self.swap(&old, new) {
                return;
            }
        }
    }

    /// Replaces the state if it is unchanged (invariant 2); false if not.
    fn swap(&self, old: &Option<Arc<State>>, new: State) -> bool {
        let found = self.state.compare_and_swap(old, Some(Arc::new(new)));
        match (&*found, old) {
            (Some(found), Some(old)) => Arc::ptr_eq(found, old),
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: &str, to: &str) -> Stretch {
        let bound = |key: &str| (!key.is_empty()).then(|| key.as_bytes().to_vec());
        Stretch { from: bound(from), to: bound(to) }
    }

    fn put(empty_ranges: &EmptyRanges, key: &str) {
        empty_ranges.put(std::iter::once(key.as_bytes()));
    }

    #[test]
    fn an_empty_range_is_known_once_a_later_snapshot_confirms_it() {
        let (empty_ranges, any) = (EmptyRanges::default(), AtomicU64::new(0));
        empty_ranges.found_empty(stretch("", "m"), Seqno(5), || Seqno(7), &any);
        assert_eq!(any.load(Ordering::Relaxed), 1, "commits look from now on");
        assert_eq!(empty_ranges.known(Seqno(9)), None, "proposed only");
        empty_ranges.found_empty(stretch("", "m"), Seqno(6), || Seqno(7), &any);
        assert_eq!(
            empty_ranges.known(Seqno(9)),
            None,
            "commits 6 and 7 may have missed the proposal"
        );
        empty_ranges.found_empty(stretch("", "p"), Seqno(7), || Seqno(8), &any);
        assert_eq!(
            empty_ranges.known(Seqno(7)),
            Some(stretch("", "m")),
            "no more than was proposed"
        );
        assert_eq!(empty_ranges.known(Seqno(6)), None, "an older snapshot may have rows there");
    }

    #[test]
    fn a_put_cuts_known_and_proposed_empty_ranges() {
        let (empty_ranges, any) = (EmptyRanges::default(), AtomicU64::new(0));
        empty_ranges.found_empty(stretch("b", "m"), Seqno(5), || Seqno(5), &any);
        empty_ranges.found_empty(stretch("b", "m"), Seqno(5), || Seqno(5), &any);
        put(&empty_ranges, "m");
        put(&empty_ranges, "a");
        assert_eq!(empty_ranges.known(Seqno(5)), Some(stretch("b", "m")), "neither lies in it");
        empty_ranges.found_empty(stretch("b", "x"), Seqno(6), || Seqno(6), &any);
        put(&empty_ranges, "k");
        assert_eq!(empty_ranges.known(Seqno(6)), Some(stretch("b", "k")));
        empty_ranges.found_empty(stretch("b", "x"), Seqno(7), || Seqno(7), &any);
        assert_eq!(
            empty_ranges.known(Seqno(7)),
            Some(stretch("b", "k")),
            "the proposal was cut as well"
        );
        put(&empty_ranges, "b");
        assert_eq!(empty_ranges.known(Seqno(7)), None, "nothing is left below its first key");
    }
}
