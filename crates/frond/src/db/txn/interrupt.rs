//! Asking a transaction to stop what it does, from another thread (Rule: I53).
//!
//! Invariants
//! 1. An interrupt is of one transaction: where it comes late, it is no other's (`lock_table/owner.rs`).
//! 2. It stays until it is cleared. Waits end by it, and calls that read, write or go on with a scan fail; what ends a
//!    transaction or takes some of it back does not.
//! 3. Once the commit has its place in the log nothing looks at it.
//!
//! Threads: an [`Interrupter`] is anybody's; all else is the transaction's own.

use crate::{Error, Result, sync::Arc, txn::lock_table::Owner};

use super::{State, Txn};

/// Asks one transaction to stop: see [`Txn::interrupter`]. May outlive it.
#[derive(Clone, Debug)]
pub struct Interrupter {
    owner: Arc<Owner>,
    id: u64,
}

impl Interrupter {
    /// The call that the transaction is in ends with [`Error::Interrupted`], if it waits for a lock or for room or walks
    /// over rows, and so does every later one until [`Txn::clear_interrupt`]. Never waits; does nothing if the transaction
    /// is over.
    pub fn interrupt(&self) {
        self.owner.interrupt(self.id);
    }
}

impl Txn {
    /// What another thread can have this transaction stopped by. To be asked for before it is given calls that wait.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// # let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// let interrupter = txn.interrupter()?;
    /// std::thread::spawn(move || interrupter.interrupt()).join().unwrap();
    /// assert!(matches!(txn.put(&tree, b"k", b""), Err(frond::Error::Interrupted)));
    /// txn.clear_interrupt();
    /// txn.put(&tree, b"k", b"")?;
    /// txn.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn interrupter(&self) -> Result<Interrupter> {
        let mut state = self.stay()?;
        let owner = match (&state.locks, &state.owner) {
            (Some(locks), _) => locks.owner().clone(),
            (None, Some(owner)) => owner.clone(),
            (None, None) => {
                let locks = self.lock_set(&mut state);
                let owner = locks.owner().clone();
                state.spare.locks = Some(locks);
                owner
            }
        };
        state.owner = Some(owner.clone());
        Ok(Interrupter { owner, id: self.id() })
    }

    /// Says that what it was asked to do is done: the statement has ended. Interrupts that come from now on count anew.
    pub fn clear_interrupt(&self) {
        let state = self.state.lock().unwrap();
        state.known().inspect(|owner| owner.clear_interrupt());
    }

    /// Whether it was asked to stop. For loops of the program's own.
    pub fn is_interrupted(&self) -> bool {
        self.state.lock().unwrap().is_interrupted()
    }
}

impl State {
    /// The transaction as those know it who may interrupt it, if there can be any.
    fn known(&self) -> Option<&Arc<Owner>> {
        let of_locks = self.locks.as_ref().map(|locks| locks.owner());
        of_locks.or(self.owner.as_ref())
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.known().is_some_and(|owner| owner.is_interrupted())
    }

    /// An error if it was asked to stop.
    pub(super) fn must_go_on(&self) -> Result<()> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
