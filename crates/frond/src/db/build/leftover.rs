//! What builds of indexes leave behind that have not come to their end: trees with the mark of one, which no build has.
//!
//! They are dropped when the store is opened, when a build begins, and when one is given up. A queue that a transaction has put into
//! stays until that has ended: one that is prepared may do so over restarts.
//!
//! Threads: all.

use crate::{Error, Result, catalog::BUILD_ATTRIBUTES};

use super::super::{Alone, Db, Tree, WaitAlone};

impl Db {
    /// Drops what builds have left behind, as far as nobody can have rows of it.
    pub(crate) fn sweep_builds(&self) -> Result<()> {
        let ours = self.shared.catalog.building.lock().unwrap();
        let (mut gone, mut alone): (Vec<Tree>, Vec<Alone>) = (Vec::new(), Vec::new());
        for entry in self.shared.catalog.trees() {
            if ours.contains(&entry.id) || !entry.is_marked(BUILD_ATTRIBUTES) {
                continue;
            }
            let tree = Tree::new(self.shared.clone(), entry);
            match self.lock_tree(&tree, WaitAlone::Not) {
                Ok(locked) => {
                    alone.push(locked);
                    gone.push(tree);
                }
                Err(Error::LockBusy { .. } | Error::LockTimeout { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let mut change = self.change_catalog()?;
        gone.iter().for_each(|tree| change.drop_tree(tree.id()));
        change.commit().map(drop)
    }
}
