//! Locks on whole trees (Rule: I52): for a server's LOCK TABLES, and for changes that need a tree
//! exclusively.
//!
//! Calls on rows take intent locks on their tree by themselves; these calls let a program take
//! stronger locks. A lock is held until the transaction ends, even if a savepoint before it is
//! rolled back; a prepared transaction keeps it, also across a restart (Rule: I12).
//!
//! Threads: as the transaction.

use crate::{
    Error, Result,
    db::Tree,
    txn::lock_table::{RowMode, TableMode},
};

use super::{IfLocked, Meeting, Txn};

/// How a transaction locks a whole tree. Which locks of two transactions are compatible:
///
/// | | other `IntentShared` | `IntentExclusive` | `Shared` | `Exclusive` |
/// |---|---|---|---|---|
/// | `IntentShared` | compatible | compatible | compatible | waits |
/// | `IntentExclusive` | compatible | compatible | waits | waits |
/// | `Shared` | compatible | waits | compatible | waits |
/// | `Exclusive` | waits | waits | waits | waits |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeLock {
    /// Announces shared row locks; every locking read takes it by itself.
    IntentShared,
    /// Announces exclusive row locks or writes; every write takes it by itself.
    IntentExclusive,
    /// Excludes other writers.
    Shared,
    /// Excludes other writers and locking reads.
    Exclusive,
}

impl Txn {
    /// Locks a whole tree until the transaction ends. A transaction that holds a weaker lock on it
    /// gets the stronger one ahead of all waiters. Plain reads of others lock nothing and continue.
    /// Waits for transactions and batches that have locked rows of the tree.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{lock::TreeLock, IfLocked, ReadOptions, RowLock};
    ///
    /// let tree = db.create_tree("t", Default::default())?;
    /// let (one, two) = (db.begin(Default::default())?, db.begin(Default::default())?);
    /// one.lock_tree(&tree, TreeLock::Shared, IfLocked::Wait)?;
    /// two.get_with(&tree, "row", &ReadOptions::new().lock(RowLock::Shared))?;
    /// assert!(two.lock_tree(&tree, TreeLock::IntentExclusive, IfLocked::NoWait).is_err());
    /// one.commit()?;
    /// two.put(&tree, b"row", b"value")?;
    /// two.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `LockTimeout`, or `LockBusy` if it must not wait: nothing was done. `Deadlock`: the
    /// transaction is rolled back. `InvalidArgument` in a read-only transaction; `NoSuchTree`,
    /// `TxnEnded`, `Interrupted`.
    pub fn lock_tree(&self, tree: &Tree, lock: TreeLock, if_locked: IfLocked) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument(
                "a read-only transaction cannot lock rows or trees".into(),
            ));
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
        // It may have waited for a transaction that dropped the tree.
        tree.entry.check()
    }
}
