//! The spilled part of a commit: sorted runs on disk, which readers search as they search a
//! memtable.
//!
//! A transaction that exceeds its share of memory writes its messages to disk as sorted runs, piece
//! by piece, and its commit names them in the log. All these runs have the seqno of that commit. If
//! its memtable held older and newer commits too, the runs could be placed neither above nor below
//! that memtable (Rule: I6). Therefore the sequencer freezes a memtable before such a commit and
//! another one right after it: the memtable in between holds this commit alone, with its last piece
//! in memory and these runs below.
//!
//! Invariants
//! 1. The pieces of a tree are ordered newest first; a newer piece's message for a key applies on
//!    top of an older one's.
//! 2. The runs exist as long as the memtable or the log record that names them exists (Rule: I11).
//!
//! Threads: all read.

use std::collections::BTreeMap;

use crate::{
    TreeId,
    store::{HeldPages, STORE_LINEAGE, Store},
    sync::Arc,
    tree::SortedRuns,
    types::VersionNumber,
};

/// Pieces of sorted runs by tree.
#[derive(Debug, Default)]
pub(crate) struct SpilledWrites {
    trees: BTreeMap<TreeId, Vec<Arc<SortedRuns>>>,
}

impl SpilledWrites {
    /// Adds a piece that is older than those that the tree has.
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

    /// Number of entries; a key in several pieces counts once for each.
    pub fn entries(&self) -> u64 {
        self.iter().map(|(_, piece)| piece.entries()).sum()
    }

    /// Holds the extents a second time, independently of the runs.
    pub fn hold_pages(&self, store: &Arc<Store>) -> HeldPages {
        let mut held = HeldPages::new(store, VersionNumber(0), STORE_LINEAGE);
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
