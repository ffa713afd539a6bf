//! A position in one tree: a copied leaf and a slot in it.
//!
//! A leaf's slots are copied at one moment, validated by its version, and the next leaf is found by
//! the fence of the copy: the position holds nothing that an insert could disturb.
//!
//! Invariants
//! 1. A walk returns what was in the tree when a leaf was copied, and not what is added to that
//!    leaf's range later. Fences are only ever added between others, so walking by them returns
//!    every key once and in order.
//!
//! Threads: one at a time.

use super::{
    arena::{At, Record, RecordHead},
    tree::{Leaf, LeafCopy, Tree},
};

/// How many records are prefetched ahead of a walk.
const RECORDS_AHEAD: usize = 12;
/// Bytes of a record that are prefetched: a small record straddles two cache lines.
const RECORD_FETCH_BYTES: usize = 128;

/// The first or last key of a tree.
pub(super) fn outermost<'a>(tree: Tree<'a>, end: Leaf<'_>) -> Option<&'a [u8]> {
    let mut place = Place::nowhere();
    match end {
        Leaf::First => place.seek_first(tree),
        _ => place.seek_last(tree),
    }
    place.record(tree).map(|record| record.key())
}

/// A position in one tree.
pub(super) struct Place {
    copy: LeafCopy,
    slot: Option<usize>,
}

impl Place {
    pub(super) fn nowhere() -> Self {
        Self { copy: LeafCopy::empty(), slot: None }
    }

    #[inline]
    pub(super) fn at(&self) -> Option<At<RecordHead>> {
        self.copy.keys[self.slot?]
    }

    #[inline]
    pub(super) fn record<'a>(&self, tree: Tree<'a>) -> Option<Record<'a>> {
        Some(tree.arena.record(self.at()?))
    }

    pub(super) fn seek_first(&mut self, tree: Tree<'_>) {
        tree.copy_leaf(Leaf::First, &mut self.copy);
        self.stop_forward(tree, 0);
    }

    pub(super) fn seek_last(&mut self, tree: Tree<'_>) {
        let end = tree.copy_leaf(Leaf::Last, &mut self.copy);
        self.stop_backward(tree, end);
    }

    /// Moves to the first key not below `key`.
    pub(super) fn seek(&mut self, tree: Tree<'_>, key: &[u8]) {
        let slot = tree.copy_leaf(Leaf::With(key), &mut self.copy);
        self.stop_forward(tree, slot);
    }

    /// Moves to the last key below `key`.
    pub(super) fn seek_below(&mut self, tree: Tree<'_>, key: &[u8]) {
        let end = tree.copy_leaf(Leaf::Below(key), &mut self.copy);
        self.stop_backward(tree, end);
    }

    /// Moves to the last key not above `key`.
    pub(super) fn seek_for_prev(&mut self, tree: Tree<'_>, key: &[u8]) {
        self.seek(tree, key);
        if self.record(tree).is_none_or(|record| record.key() != key) {
            self.seek_below(tree, key);
        }
    }

    #[inline]
    pub(super) fn next(&mut self, tree: Tree<'_>) {
        if let Some(slot) = self.slot {
            if slot + 1 < self.copy.count {
                self.slot = Some(slot + 1);
                self.prefetch(tree, slot + 1 + RECORDS_AHEAD);
            } else {
                self.stop_forward(tree, slot + 1);
            }
        }
    }

    #[inline]
    pub(super) fn prev(&mut self, tree: Tree<'_>) {
        if let Some(slot) = self.slot {
            if slot > 0 {
                self.slot = Some(slot - 1);
                self.prefetch(tree, (slot - 1).wrapping_sub(RECORDS_AHEAD));
            } else {
                self.stop_backward(tree, 0);
            }
        }
    }

    #[inline]
    fn prefetch(&self, tree: Tree<'_>, slot: usize) {
        if slot < self.copy.count
            && let Some(at) = self.copy.keys[slot]
        {
            tree.arena.prefetch(at, RECORD_FETCH_BYTES);
        }
    }

    /// Stops at `slot`, or at the first slot of the next leaf that has one.
    fn stop_forward(&mut self, tree: Tree<'_>, mut slot: usize) {
        while slot >= self.copy.count {
            let Some(high) = self.copy.high else { return self.slot = None };
            slot = tree.copy_leaf(Leaf::With(tree.arena.record(high).key()), &mut self.copy);
        }
        self.slot = Some(slot);
        for ahead in slot..slot + RECORDS_AHEAD {
            self.prefetch(tree, ahead);
        }
    }

    /// Stops before `end`, or at the last slot of the previous leaf that has one.
    fn stop_backward(&mut self, tree: Tree<'_>, mut end: usize) {
        while end == 0 {
            let Some(low) = self.copy.low else { return self.slot = None };
            end = tree.copy_leaf(Leaf::Below(tree.arena.record(low).key()), &mut self.copy);
        }
        self.slot = Some(end - 1);
        for ahead in end.saturating_sub(RECORDS_AHEAD)..end {
            self.prefetch(tree, ahead);
        }
    }
}
