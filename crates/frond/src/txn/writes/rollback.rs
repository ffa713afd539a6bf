//! Marks, and rolling back to one: statements and savepoints (Rule: I44).
//!
//! Threads: one.

use super::TxnWrites;

/// How much a transaction had written at some moment: the start of a statement, or a savepoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Mark {
    /// How many times memory had been emptied by a spill; the other fields refer to what was in
    /// memory then.
    pub(super) generation: u32,
    /// Number of entries, and of range deletes.
    pub(super) entries: u32,
    pub(super) ranges: u32,
}

impl TxnWrites {
    /// The current mark.
    pub fn mark(&self) -> Mark {
        let entries = self.set.entry_count() as u32;
        let ranges = self.range_rows.len() as u32;
        Mark { generation: self.generation, entries, ranges }
    }

    /// The part of a mark that concerns memory: everything in memory came after a mark of an
    /// earlier generation.
    pub(super) fn in_memory(&self, mark: Mark) -> Mark {
        match mark.generation == self.generation {
            true => mark,
            false => Mark { generation: self.generation, entries: 0, ranges: 0 },
        }
    }

    /// Rolls back everything after a mark, which must still be valid. Costs what it rolls back in
    /// memory, and next to nothing for what has left it.
    pub fn rollback_to(&mut self, mark: Mark) {
        assert!(!self.is_sealed, "Rule I5: what is sealed does not change");
        self.changes += 1;
        self.drop_pieces(mark);
        let mark = self.in_memory(mark);
        assert!(mark.entries <= self.mark().entries && mark.ranges <= self.mark().ranges);
        while self.range_rows.len() > mark.ranges as usize {
            self.undo_range();
        }
        for slot in (mark.entries..self.set.entry_count() as u32).rev() {
            self.undo_entry(slot);
        }
        // Keys of entries are needed until here.
        self.set.truncate(mark.entries as usize);
        while self.blobs.last().is_some_and(|(slot, _)| *slot >= mark.entries) {
            self.blobs.pop();
        }
    }

    fn undo_range(&mut self) {
        let Some((rows, range)) = self.range_rows.pop().zip(self.set.pop_range()) else { return };
        self.range_bytes -= super::range_bytes(&range.from, &range.to);
        if let Some(state) = self.trees.get_mut(range.tree) {
            state.covers.undo(&range.from, &range.to);
            state.rows -= rows;
            state.changed = self.changes;
        }
    }

    fn undo_entry(&mut self, slot: u32) {
        let Self { set, chains, trees, .. } = self;
        let (tree, key) = (set.tree_at(slot), set.key_at(slot));
        let undone = chains.pop(|first| set.is_key_at(first, tree, key));
        if let Some((undone, state)) = undone.zip(trees.get_mut(tree)) {
            state.forget(set, slot, undone.was_first);
            if !plant!("txn: a rollback keeps the count of rows") {
                state.take_count_back(undone.rows);
            }
            state.changed = self.changes;
        }
    }
}
