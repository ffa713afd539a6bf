//! Per-tree state of a write set: the change of the row count, the greatest key, range deletes, and
//! the ordered keys once they were requested.
//!
//! Invariants
//! 1. `maxima` lists the entries that each put a key greater than all before. So the last one has
//!    the greatest key, and undoing the last entry means dropping it from the end (Rule: I44).
//! 2. A view, if it exists, has all keys of its tree (Rule: I45).
//!
//! Threads: one.

use crate::{
    TreeId,
    message::{Kind, Tag},
    txn::WriteSet,
};

use super::view::View;
use crate::txn::range_tombstones::RangeTombstones;

/// Number of trees remembered for the next transaction, which often uses the same ones. A row and
/// its indexes fit.
const REMEMBERED_MAX: usize = 16;

/// Change of the row count for a write of a key that may or may not exist.
pub const ROWS_UNKNOWN: i8 = i8::MIN;

/// The state of one tree.
#[derive(Debug, Default)]
pub(super) struct TreeWrites {
    /// Number of keys that have entries.
    pub keys: usize,
    /// Known change of the row count.
    pub rows: i64,
    /// Number of entries whose change of the row count is unknown.
    pub unknown: u32,
    /// Entries that put a key greater than all before.
    pub maxima: Vec<u32>,
    pub covers: RangeTombstones,
    pub view: Option<View>,
    /// Number of the last change to the tree, rollbacks included; 0 if this transaction has not
    /// touched it.
    pub changed: u64,
}

impl TreeWrites {
    /// Adds an entry's change of the row count.
    #[inline]
    pub fn count(&mut self, rows: i8) {
        match rows {
            ROWS_UNKNOWN => self.unknown += 1,
            rows => self.rows += i64::from(rows),
        }
    }

    /// Subtracts an entry's change of the row count.
    pub fn take_count_back(&mut self, rows: i8) {
        match rows {
            ROWS_UNKNOWN => self.unknown -= 1,
            rows => self.rows -= i64::from(rows),
        }
    }

    /// Records an entry that was just appended.
    #[inline]
    pub fn note(&mut self, set: &WriteSet, slot: u32, tag: Tag, is_first: bool) {
        if tag.kind() != Kind::Delete
            && self.maxima.last().is_none_or(|&last| set.key_at(last) < set.key_at(slot))
        {
            self.maxima.push(slot);
        }
        if is_first {
            self.keys += 1;
            if let Some(view) = &mut self.view
                && !plant!("txn: a view is made and not fed")
            {
                view.insert(set, slot);
            }
        }
    }

    /// Undoes [`note`](Self::note) for the last entry, which is about to be removed.
    pub fn forget(&mut self, set: &WriteSet, slot: u32, was_first: bool) {
        if self.maxima.last() == Some(&slot) {
            self.maxima.pop();
        }
        if was_first {
            self.keys -= 1;
            if let Some(view) = &mut self.view
                && !plant!("txn: a rollback keeps the view")
            {
                view.remove(set, slot);
            }
        }
    }

    /// Memory used, except for range deletes.
    pub fn bytes(&self) -> usize {
        self.view.as_ref().map_or(0, View::bytes) + self.maxima.capacity() * 4
    }

    fn clear(&mut self) {
        if self.changed > 0 {
            (self.keys, self.rows, self.unknown, self.changed) = (0, 0, 0, 0);
            self.maxima.clear();
            self.covers.clear();
            self.view = None;
        }
    }
}

/// The trees of one write set, by number; may include trees that are no longer touched.
#[derive(Debug, Default)]
pub(super) struct Trees {
    ids: Vec<TreeId>,
    states: Vec<TreeWrites>,
}

impl Trees {
    #[inline]
    pub fn get(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.ids.binary_search(&tree).ok().map(|at| &self.states[at])
    }

    #[inline]
    pub fn get_mut(&mut self, tree: TreeId) -> Option<&mut TreeWrites> {
        self.ids.binary_search(&tree).ok().map(|at| &mut self.states[at])
    }

    /// The tree's state, created at its first write.
    #[inline]
    pub fn enter(&mut self, tree: TreeId) -> &mut TreeWrites {
        let at = self.ids.binary_search(&tree).unwrap_or_else(|at| {
            self.ids.insert(at, tree);
            self.states.insert(at, TreeWrites::default());
            at
        });
        &mut self.states[at]
    }

    pub fn iter(&self) -> impl Iterator<Item = (TreeId, &TreeWrites)> {
        self.ids.iter().copied().zip(&self.states).filter(|(_, state)| state.changed > 0)
    }

    /// Records that all entries were spilled; row counts stay. `changes` is the number of this
    /// change.
    pub fn leave_memory(&mut self, changes: u64) {
        for state in self.states.iter_mut().filter(|state| state.changed > 0) {
            state.keys = 0;
            state.maxima = Vec::new();
            state.view = None;
            state.changed = changes;
        }
    }

    /// Clears all trees and keeps at most `bytes_max` of memory.
    pub fn clear(&mut self, bytes_max: usize) {
        self.states.iter_mut().for_each(TreeWrites::clear);
        if self.states.len() > REMEMBERED_MAX || self.bytes() > bytes_max {
            self.ids.clear();
            self.states.clear();
        }
    }

    /// Memory used, except for range deletes.
    pub fn bytes(&self) -> usize {
        let own = self.states.capacity() * size_of::<TreeWrites>() + self.ids.capacity() * 4;
        own + self.states.iter().map(TreeWrites::bytes).sum::<usize>()
    }
}
