//! What a write set knows of each tree it touches: how its rows changed, its greatest key, its range
//! deletes, and its keys in order once they were asked for.
//!
//! Invariants
//! 1. `maxima` names the entries that each put a greater key than all before, so the last one has the
//!    greatest, and taking the last entry back is dropping it from the end (Rule: I44).
//! 2. A view has all keys of its tree, if there is one (Rule: I45).
//!
//! Threads: one.

use crate::{Kind, Tag, TreeId, txn::WriteSet};

use super::view::View;
use crate::txn::covers::Covers;

/// Trees that are remembered for the next transaction, which is often about the same. Of a row and its
/// indexes all are.
const REMEMBERED_MAX: usize = 16;

/// Of a write of which nobody knows whether its key is there: by how much it changes the number of rows.
pub const ROWS_UNKNOWN: i8 = i8::MIN;

/// One tree.
#[derive(Debug, Default)]
pub(super) struct TreeWrites {
    /// Keys that have entries.
    pub keys: usize,
    /// By how much the number of rows changes.
    pub rows: i64,
    /// Entries of which that is not known.
    pub unknown: u32,
    /// Entries that put a key greater than all before.
    pub maxima: Vec<u32>,
    pub covers: Covers,
    pub view: Option<View>,
    /// The number of the last change to it, a rollback too; 0 if this transaction has not touched it.
    pub changed: u64,
}

impl TreeWrites {
    /// Counts by how much an entry changes the number of rows.
    #[inline]
    pub fn count(&mut self, rows: i8) {
        match rows {
            ROWS_UNKNOWN => self.unknown += 1,
            rows => self.rows += i64::from(rows),
        }
    }

    /// Takes that back.
    pub fn take_count_back(&mut self, rows: i8) {
        match rows {
            ROWS_UNKNOWN => self.unknown -= 1,
            rows => self.rows -= i64::from(rows),
        }
    }

    /// Notes an entry that was just appended.
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

    /// Forgets an entry that is about to be taken back, the last one.
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

    /// What it takes in memory, range deletes apart.
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

/// The trees of one write set, by number; also some that it touches no more.
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

    /// The tree's state; a new one at its first write.
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

    /// All entries leave memory, what they come to stays; `changes` is the number of this change.
    pub fn leave_memory(&mut self, changes: u64) {
        for state in self.states.iter_mut().filter(|state| state.changed > 0) {
            state.keys = 0;
            state.maxima = Vec::new();
            state.view = None;
            state.changed = changes;
        }
    }

    /// Forgets all trees and keeps at most `bytes_max` of memory.
    pub fn clear(&mut self, bytes_max: usize) {
        self.states.iter_mut().for_each(TreeWrites::clear);
        if self.states.len() > REMEMBERED_MAX || self.bytes() > bytes_max {
            self.ids.clear();
            self.states.clear();
        }
    }

    /// What they take in memory, range deletes apart.
    pub fn bytes(&self) -> usize {
        let own = self.states.capacity() * size_of::<TreeWrites>() + self.ids.capacity() * 4;
        own + self.states.iter().map(TreeWrites::bytes).sum::<usize>()
    }
}
