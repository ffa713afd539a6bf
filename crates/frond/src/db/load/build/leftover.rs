//! Leftovers of index builds that did not finish: trees that are marked as part of a build but
//! belong to none.
//!
//! They are dropped when the store is opened, when a build starts, and when one is abandoned. A
//! queue into which a transaction has put keys stays until that transaction has ended; a prepared
//! one may last over restarts.
//!
//! Threads: all.

use crate::{
    Error, Result,
    catalog::BUILD_ATTRIBUTES,
    db::{Db, ExclusiveTreeLock, ExclusiveWait, Tree},
};

impl Db {
    /// Drops leftovers of builds, except those of which a transaction may have rows.
    pub(crate) fn sweep_builds(&self) -> Result<()> {
        let ours = self.shared.catalog.building.lock().unwrap();
        let (mut gone, mut alone): (Vec<Tree>, Vec<ExclusiveTreeLock>) = (Vec::new(), Vec::new());
        for entry in self.shared.catalog.trees() {
            if ours.contains(&entry.id) || !entry.is_marked(BUILD_ATTRIBUTES) {
                continue;
            }
            let tree = Tree::new(self.shared.clone(), entry);
            match self.lock_tree(&tree, ExclusiveWait::NoWait) {
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
