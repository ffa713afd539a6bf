//! Locks on trees as a whole (Rule: I52): a server's LOCK TABLES, and changes that want a tree to themselves.
//!
//! Calls on rows say by themselves what they mean to do in a tree; here a program says more. A lock stays until the
//! transaction ends, whatever of it is taken back, and one that is prepared keeps it, over a restart, too (Rule: I12).
//!
//! Threads: as the transaction.

use crate::{
    Error, Result,
    txn::lock_table::{RowMode, TableMode},
};

use super::{super::Tree, IfLocked, Meeting, Txn};

/// How a transaction locks a tree as a whole.
///
/// | | another's `IntentShared` | `IntentExclusive` | `Shared` | `Exclusive` |
/// |---|---|---|---|---|
/// | `IntentShared` | may be | may be | may be | waits |
/// | `IntentExclusive` | may be | may be | waits | waits |
/// | `Shared` | may be | waits | may be | waits |
/// | `Exclusive` | waits | waits | waits | waits |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeLock {
    /// Rows of it will be locked shared: every locking read does this by itself.
    IntentShared,
    /// Rows of it will be locked exclusively, or written: every write does this by itself.
    IntentExclusive,
    /// Nobody else writes it.
    Shared,
    /// Nobody else writes it, nor reads it under locks.
    Exclusive,
}

impl Txn {
    /// Locks a tree as a whole until the transaction ends. Who holds a lesser lock on it gets the greater one, ahead of all
    /// who wait; plain reads of others lock nothing, and go on. Waits for those who have locked rows of it, batches
    /// included.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{IfLocked, TreeLock};
    ///
    /// let tree = db.create_tree("t", Default::default())?;
    /// let (one, two) = (db.begin(Default::default())?, db.begin(Default::default())?);
    /// one.lock_tree(&tree, TreeLock::Shared, IfLocked::Wait)?;
    /// two.get_for_share(&tree, b"row")?;
    /// assert!(two.lock_tree(&tree, TreeLock::IntentExclusive, IfLocked::Fail).is_err());
    /// one.commit()?;
    /// two.put(&tree, b"row", b"value")?;
    /// two.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `LockTimeout`, or `LockBusy` if it was not to wait: nothing was done. `Deadlock`: it is rolled back.
    /// `InvalidArgument` of a read-only transaction; `NoSuchTree`, `TxnEnded`, `Interrupted`.
    pub fn lock_tree(&self, tree: &Tree, lock: TreeLock, if_locked: IfLocked) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument("a read-only transaction locks nothing".into()));
        }
        let (lock, mode) = match lock {
            TreeLock::IntentShared => (TableMode::IntentShared, RowMode::Shared),
            TreeLock::IntentExclusive => (TableMode::IntentExclusive, RowMode::Write),
            TreeLock::Shared => (TableMode::Shared, RowMode::Shared),
            TreeLock::Exclusive => (TableMode::Exclusive, RowMode::Write),
        };
        let mut state = self.enter_tree(tree)?;
        let meeting = Meeting::from(if_locked).that_locks();
        self.take_tree(&mut state, tree.entry.id, (lock, mode), meeting)?;
        // It may have waited for who dropped the tree.
        tree.entry.check()
    }
}
