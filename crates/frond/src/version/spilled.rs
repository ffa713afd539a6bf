//! What a commit brings that was written beyond memory: sorted runs, which stand in a memtable's place.
//!
//! A transaction that grows beyond its share of memory writes what it has as sorted runs, piece by piece, and its
//! commit names them in the log. They have the one seqno of that commit, so they cannot go into a memtable beside
//! others, nor before or behind one (Rule: I6): the sequencer freezes before such a commit and at it, and the memtable
//! between is this commit alone, its last piece in memory, and these runs below that.
//!
//! Invariants
//! 1. Of each tree the pieces stand newest first; of one key a newer one's message is over an older one's.
//! 2. The runs are there until the memtable is applied and gone, and the log's record that names them is (Rule: I11).
//!
//! Threads: all read.

use std::collections::BTreeMap;

use crate::{
    Publish, TreeId,
    store::{HeldPages, STORE_LINEAGE, Store},
    sync::Arc,
    tree::SortedRuns,
};

/// Sorted runs by tree.
#[derive(Debug, Default)]
pub(crate) struct SpilledWrites {
    trees: BTreeMap<TreeId, Vec<Arc<SortedRuns>>>,
}

impl SpilledWrites {
    /// Adds a piece older than those that the tree has.
    pub fn push_older(&mut self, tree: TreeId, piece: Arc<SortedRuns>) {
        self.trees.entry(tree).or_default().push(piece);
    }

    /// The pieces of a tree, newest first.
    pub fn of(&self, tree: TreeId) -> &[Arc<SortedRuns>] {
        self.trees.get(&tree).map_or(&[], Vec::as_slice)
    }

    /// Trees that have pieces, ascending.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        self.trees.keys().copied()
    }

    /// All pieces.
    pub fn iter(&self) -> impl Iterator<Item = (TreeId, &Arc<SortedRuns>)> {
        self.trees.iter().flat_map(|(tree, pieces)| pieces.iter().map(|piece| (*tree, piece)))
    }

    /// Entries, those of a key that is in several pieces more than once.
    pub fn entries(&self) -> u64 {
        self.iter().map(|(_, piece)| piece.entries()).sum()
    }

    /// Holds the extents once more, apart from the runs.
    pub fn hold_pages(&self, store: &Arc<Store>) -> HeldPages {
        let mut held = HeldPages::new(store, Publish(0), STORE_LINEAGE);
        for (kind, extent) in self.iter().flat_map(|(_, piece)| piece.pages().iter()) {
            held.hold(kind, extent);
        }
        held
    }

    /// Encoded bytes.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|(_, piece)| piece.bytes()).sum()
    }
}
