//! Counters of a tree, which hand out numbers: hidden row ids, auto-increment (Rule: I35).
//!
//! Invariants
//! 1. A number is handed out at most once while a store is open.
//! 2. Each change is followed by a note in [`CountedTrees`], so that the next checkpoint writes the
//!    tree's counters.
//! 3. A commit to the tree logs its counters, unless an earlier record has logged the same: what a
//!    durable commit may have used is not handed out after a crash. A checkpoint writes the
//!    counters with the tree's root.
//!
//! Threads: all. Counters are atomic; only noting a tree in [`CountedTrees`] takes a lock.

use std::ops::Range;

use crate::{
    TreeId,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering},
    types::{COUNTERS, Counts},
};

/// Trees whose entry in the root directory must be written, though their root may not have changed.
#[derive(Debug, Default)]
pub(crate) struct CountedTrees(Mutex<Vec<TreeId>>);

impl CountedTrees {
    /// Notes a tree.
    pub fn note(&self, tree: TreeId) {
        self.0.lock().unwrap().push(tree);
    }

    /// Notes trees again that [`take`](Self::take) returned.
    pub fn put_back(&self, trees: Vec<TreeId>) {
        self.0.lock().unwrap().extend(trees);
    }

    /// Takes all noted trees, each once, ascending.
    pub fn take(&self) -> Vec<TreeId> {
        let mut trees = std::mem::take(&mut *self.0.lock().unwrap());
        trees.sort_unstable();
        trees.dedup();
        trees
    }
}

/// The counters of a tree.
#[derive(Debug)]
pub struct Counters {
    tree: TreeId,
    counted: Arc<CountedTrees>,
    /// True if the tree is noted in `counted`.
    is_noted: AtomicBool,
    next: [AtomicU64; COUNTERS],
    /// The counter values that are already in a log record.
    logged: [AtomicU64; COUNTERS],
}

impl Counters {
    /// The counters of a tree, of which no number was handed out.
    pub fn new(tree: TreeId, counted: Arc<CountedTrees>) -> Self {
        let is_noted = AtomicBool::new(false);
        Self { tree, counted, is_noted, next: Default::default(), logged: Default::default() }
    }

    fn note(&self) {
        // SeqCst, after the change: either a checkpoint that clears the flag later reads the
        // change, or the tree is noted again.
        if !self.is_noted.load(Ordering::SeqCst) && !self.is_noted.swap(true, Ordering::SeqCst) {
            self.counted.note(self.tree);
        }
    }

    /// Called when a checkpoint is about to read the counters.
    pub fn begin_writing(&self) {
        self.is_noted.store(false, Ordering::SeqCst);
    }

    /// Reserves `count` numbers, the first of them at least `least`; `None` if not as many are
    /// left.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Option<Range<u64>> {
        let next = &self.next[counter];
        let mut first = 0;
        let reserved = next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| {
            first = next.max(least).max(1);
            first.checked_add(count)
        });
        reserved.ok()?;
        self.note();
        Some(first..first + count)
    }

    /// The next number of a counter.
    pub fn next(&self, counter: usize) -> u64 {
        self.next[counter].load(Ordering::SeqCst).max(1)
    }

    /// The current values.
    pub fn counts(&self) -> Counts {
        std::array::from_fn(|counter| self.next[counter].load(Ordering::SeqCst))
    }

    /// Raises the counters: no number below these is handed out from now on.
    pub fn raise(&self, counts: Counts) {
        for (next, count) in self.next.iter().zip(counts) {
            next.fetch_max(count, Ordering::SeqCst);
        }
        if counts != Counts::default() {
            self.note();
        }
    }

    /// The counters that the next record must log, with their values.
    pub fn unlogged(&self) -> impl Iterator<Item = (u8, u64)> {
        let numbered = (0u8..).zip(self.next.iter().zip(&self.logged));
        numbered.filter_map(|(counter, (next, logged))| {
            let next = next.load(Ordering::SeqCst);
            (next > logged.load(Ordering::SeqCst)).then_some((counter, next))
        })
    }

    /// Records that a log record contains this value.
    pub fn mark_logged(&self, counter: u8, next: u64) {
        if let Some(logged) = self.logged.get(usize::from(counter)) {
            logged.fetch_max(next, Ordering::SeqCst);
        }
    }
}
