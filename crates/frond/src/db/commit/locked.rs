//! Batches beside transactions: their rows are locked, and others find their keys.
//!
//! As long as no transaction holds a lock, a batch takes none ([`LockGate`](crate::txn::LockGate)). Else it is as a
//! transaction of one call: rows locked in the order of their keys, so that two batches never wait for each other in
//! a circle; then its keys are where others look for them; then the gaps that they go into must be free (Rule: I33).
//! A range delete wants its tree alone.
//!
//! Invariant: while a batch has locks the gate is shut, so that no batch without locks passes it by.
//!
//! Threads: the committing one.

use std::time::Duration;

use crate::{
    Result, TreeId,
    catalog::TreeEntry,
    pipeline::Insertion,
    sync::Arc,
    txn::{
        LiveWrites, WriteSet,
        lock_table::{Denied, LockMark, LockSet, Patience, RowMode, TableMode},
    },
};

use super::super::Shared;

/// How long a lock is waited for where nobody says: longer than any transaction of a program that is well, and no
/// longer than a user waits. Databases have 50 s (InnoDB) and less.
pub(in crate::db) const LOCK_WAIT: Duration = Duration::from_secs(10);
const PATIENCE: Patience = Patience::For(LOCK_WAIT);

/// What a batch holds.
pub(super) struct BatchLocks<'a> {
    shared: &'a Shared,
    locks: LockSet,
    /// When it held nothing.
    start: LockMark,
    /// Where its keys are found, and the trees that list it.
    live: Option<Arc<LiveWrites>>,
    entered: Vec<Arc<TreeEntry>>,
}

impl Shared {
    /// Locks the rows of a batch.
    pub(super) fn lock_batch(&self, writes: &WriteSet, trees: &[TreeId]) -> Result<BatchLocks<'_>> {
        self.gate.close();
        let locks = self.lock_table.begin(self.next_txn());
        locks.owner().set_writes(writes.len() as u64);
        let start = locks.mark();
        let mut held = BatchLocks { shared: self, locks, start, live: None, entered: Vec::new() };
        let table = &self.lock_table;
        for &tree in trees {
            let is_alone = writes.ranges(tree).next().is_some();
            let mode = if is_alone { TableMode::Exclusive } else { TableMode::IntentExclusive };
            let locks = &mut held.locks;
            table.lock_table(locks, tree, mode, PATIENCE).map_err(|no| self.lock_error(no))?;
            if !is_alone {
                for entry in writes.entries(tree) {
                    let taken = table.lock_row(locks, tree, entry.key, RowMode::Write, PATIENCE);
                    taken.map_err(|no| self.lock_error(no))?;
                }
            }
        }
        Ok(held)
    }

    /// What a caller is told who did not get a lock.
    pub(in crate::db) fn lock_error(&self, denied: Denied) -> crate::Error {
        let name = self.catalog.by_id(denied.tree).map(|tree| tree.name());
        denied.into_error(&name.unwrap_or_default())
    }
}

impl BatchLocks<'_> {
    /// Lets others find the keys, and waits for the gaps.
    pub fn publish(&mut self, insertion: &Arc<Insertion>) -> Result<()> {
        let Self { shared, locks, start, live, entered } = self;
        let own = live.insert(Arc::new(LiveWrites::new(locks.owner().id())));
        let mut writes = own.lock();
        writes.seal(&shared.engine.cx.folder())?;
        writes.gone_to(insertion.clone());
        drop(writes);
        for &tree in &insertion.trees {
            if let Some(entry) = shared.catalog.by_id(tree) {
                entry.writers.enter(own);
                entered.push(entry);
            }
        }
        let mut waited = false;
        for &tree in &insertion.trees {
            for entry in insertion.writes.entries(tree) {
                let table = &shared.lock_table;
                let gap = table.before_insert(locks, tree, entry.key, *start, PATIENCE);
                waited |= gap.map_err(|no| shared.lock_error(no))?;
            }
        }
        if waited && insertion.writes.has_inserts() {
            shared.must_be_absent(&insertion.writes, &insertion.trees)?;
        }
        Ok(())
    }
}

impl Drop for BatchLocks<'_> {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            self.entered.iter().for_each(|tree| tree.writers.leave(live));
        }
        self.shared.lock_table.release_all(&mut self.locks);
        self.shared.gate.open();
    }
}
