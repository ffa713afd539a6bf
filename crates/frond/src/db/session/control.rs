//! What a server observes and controls of a transaction: its number, snapshot, locks, interrupts.
//!
//! Threads: as the transaction.

use crate::{Error, Result, Seqno};

use super::{Isolation, Txn};

/// Observes and controls a transaction ([`Txn::control`]), for a server or a monitor: its number in
/// reports, its snapshot, its locks, and interrupts.
#[derive(Clone, Copy, Debug)]
pub struct TxnControl<'t> {
    pub(super) txn: &'t Txn,
}

impl Txn {
    /// The calls of a server or a monitor: number, snapshot, locks, interrupts.
    pub fn control(&self) -> TxnControl<'_> {
        TxnControl { txn: self }
    }
}

impl TxnControl<'_> {
    /// The transaction's id in lock reports.
    pub fn id(&self) -> u64 {
        self.txn.id()
    }

    /// The isolation level.
    pub fn isolation(&self) -> Isolation {
        self.txn.options.isolation
    }

    /// Number of entries that the transaction would commit.
    pub fn writes(&self) -> usize {
        self.txn.len()
    }

    /// The last commit that plain reads see, once the transaction has a snapshot: at the levels
    /// that keep one, and at `ReadCommitted` for the current statement.
    pub fn snapshot_seqno(&self) -> Option<Seqno> {
        self.txn.state.lock().unwrap().snapshot.as_ref().map(|snapshot| snapshot.at)
    }

    /// Takes the snapshot for plain reads now instead of with the first of them. It includes all
    /// commits that have their place in the order, even those that are not visible yet. It does not
    /// wait, so that a server can call it where it blocks commits; the first read waits until all
    /// of them are visible. Returns the last commit that it shows. A transaction that has a
    /// snapshot keeps it.
    ///
    /// # Errors
    /// `InvalidArgument` at `ReadCommitted` and `Serializable`, which have no snapshot; `TxnEnded`,
    /// `Interrupted`.
    pub fn take_snapshot(&self) -> Result<Seqno> {
        let mut state = self.txn.go_on()?;
        if !matches!(self.txn.options.isolation, Isolation::RepeatableRead | Isolation::Snapshot) {
            let why = "a transaction of this level has no snapshot";
            return Err(Error::InvalidArgument(why.into()));
        }
        let engine = &self.txn.shared.engine;
        if state.snapshot.is_none() {
            let last = engine.enter().last();
            // What became visible meanwhile may be in trees already.
            let at = || last.max(engine.sequencer.visible());
            state.snapshot = Some(engine.snapshots.register_for(self.txn.reader(), at));
        }
        Ok(state.snapshot.as_ref().map_or(Seqno(0), |snapshot| snapshot.at))
    }

    /// Releases the locks that the last locking read acquired, and reverts the upgrades that it
    /// made: those of the row, or of the row that a cursor returned last together with the index
    /// entry that named it ([`ReadOptions::with_last`](super::ReadOptions::with_last)), or of all
    /// rows of a call that read many. Meant for rows that a statement has read and does not want,
    /// not for rows on which it based a decision. Gaps that a scan has locked stay.
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn unlock_last(&self) -> Result<()> {
        let mut state = self.txn.stay()?;
        if let Some(locks) = &mut state.locks {
            self.txn.shared.locking.table.unlock_last(locks);
        }
        state.seen.forget();
        Ok(())
    }
}
