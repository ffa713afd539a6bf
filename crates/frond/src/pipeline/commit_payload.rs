//! The payload of a commit: what it inserts into its memtable.
//!
//! Invariants
//! 1. A payload does not change while another thread can reach it: the write set is sealed before,
//!    and its owner takes the memory back only when it holds the last reference.
//!
//! Threads: all; several may read one payload.

use crate::{
    TreeId,
    memtable::MemRun,
    sync::Arc,
    txn::{HoldsWrites, WriteSet},
};

/// The payload of a commit: a sealed write set and what goes with it.
#[derive(Debug, Default)]
pub(crate) struct CommitPayload {
    pub writes: WriteSet,
    /// Trees touched, ascending.
    pub trees: Vec<TreeId>,
    /// Changes of the row counts of trees, ascending; a tree that is not listed has an unknown
    /// change.
    pub rows: Vec<(TreeId, i64)>,
    /// New values of trees' counters, as the record says: tree, counter, and the next number.
    pub counters: Vec<(TreeId, u8, u64)>,
    /// Mini-runs that hold the entries of some of the trees.
    pub runs: Vec<(TreeId, Arc<MemRun>)>,
    /// Catalog rows that the decision of a prepared transaction removes: sorted, point entries
    /// only.
    pub decided: WriteSet,
    /// The commit frees space in the end, so it is admitted to a full disk as deletes are.
    pub relieves: bool,
}

impl CommitPayload {
    /// Change of a tree's row count, if it is known.
    pub fn rows_of(&self, tree: TreeId) -> Option<i64> {
        let at = self.rows.binary_search_by_key(&tree, |(tree, _)| *tree).ok()?;
        Some(self.rows[at].1)
    }
}

impl HoldsWrites for CommitPayload {
    fn writes(&self) -> &WriteSet {
        &self.writes
    }
}
