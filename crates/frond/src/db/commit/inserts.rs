//! Checks of checked inserts at a commit: some inserts are refused because of the batch itself,
//! others because of what the store holds.
//!
//! `txn/write_set/inserts.rs` determines what each insert must check. This file checks the store,
//! with the keys locked.
//!
//! Threads: the committing one.

use crate::{
    Duplicate, Error, Result, TreeId,
    db::{Shared, read::View},
    txn::{Asks, Entry, WriteSet},
};

impl Shared {
    /// Fails with the first refused insert in the batch's order. Called for a batch that refuses
    /// one of its own inserts. Takes no locks: another commit may change which insert is refused
    /// first, but not that the batch is refused.
    pub(super) fn must_be_first_refused(&self, writes: &WriteSet) -> Result<()> {
        let view = View::latest(&self.engine);
        for (tree, Entry { key, position, .. }, asks) in writes.asked_inserts() {
            let is_refused = match asks {
                Asks::IsRefused => true,
                Asks::IsAbsent => false,
                Asks::Store => view.exists(tree, key)?,
            };
            if is_refused {
                let (tree, index) = (self.tree_name(tree), writes.index_of(position));
                return Err(Error::DuplicateKey(Duplicate::InBatch {
                    tree,
                    entry: index,
                    key: key.to_vec(),
                }));
            }
        }
        Ok(())
    }

    /// Fails if the store has any key that is inserted with a check. The error names the first
    /// refused insert in the batch's order.
    pub(super) fn must_be_absent(&self, writes: &WriteSet, trees: &[TreeId]) -> Result<()> {
        // Reads the newest inserted version, not the visible one: the locks keep others away until
        // their commits are visible.
        let view = View::latest(&self.engine);
        let mut refused: Option<(usize, TreeId, &[u8])> = None;
        for &tree in trees {
            for Entry { key, position, .. } in writes.inserts(tree) {
                if refused.is_some_and(|(first, ..)| first < position) {
                    continue;
                }
                if view.exists(tree, key)? && !plant!("db: insert does not look") {
                    refused = Some((position, tree, key));
                }
            }
        }
        let Some((position, tree, key)) = refused else { return Ok(()) };
        let (tree, index) = (self.tree_name(tree), writes.index_of(position));
        Err(Error::DuplicateKey(Duplicate::InBatch { tree, entry: index, key: key.to_vec() }))
    }
}
