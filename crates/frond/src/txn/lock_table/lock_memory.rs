//! Limiting the number of locks: their memory is bounded (Rules: I47, P15).
//!
//! Locks on written rows leave the table when the writes are spilled (`spilled.rs`); locks on rows
//! that are not written stay until the transaction ends. So a transaction with many locks is
//! checked every few thousand of them, before it locks more without writing: if all existing locks
//! exceed their share of memory, the request is refused. Nothing was done then, and the transaction
//! can continue.
//!
//! Invariants
//! 1. A transaction with few locks is never refused, nor is a write, nor a lock that is restored
//!    after a restart.
//!
//! Threads: as for lock sets. Cost: one comparison per lock; every [`LOOK_EVERY`] locks, one pass
//! over the shards.

use super::{
    LockTable,
    lock_error::{LockError, LockOn, Reason},
    lock_set::LockSet,
};
use crate::TreeId;

/// Number of locks that each transaction may always have: about 3 MB.
pub(super) const LOCKS_FREE: usize = 1 << 16;
const LOOK_EVERY: usize = 1 << 12;
/// Approximate size of a lock of the table (`mod.rs`), and of an interval without its keys.
const LOCK_BYTES: u64 = 45;
const RANGE_BYTES: u64 = 200;

impl LockTable {
    /// Limits the memory of the locks.
    pub fn within(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Memory of the locks, bytes, except for queues.
    pub fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(|shard| shard.0.lock().unwrap().bytes()).sum();
        shards + self.ranges_live() * RANGE_BYTES as usize + self.spilled.bytes()
    }

    /// Checks whether there is memory for a lock that is not for writing. Called before it is
    /// taken.
    pub fn must_have_room(&self, locks: &mut LockSet, tree: TreeId) -> Result<(), LockError> {
        let own = locks.held.len() + locks.ranges.len();
        if own < locks.looks_at {
            return Ok(());
        }
        let rows: u64 = self.shards.iter().map(|shard| shard.0.lock().unwrap().live() as u64).sum();
        let ranges = self.ranges_live() as u64;
        if rows * LOCK_BYTES + ranges * RANGE_BYTES > self.bytes_max
            && !plant!("locks: a transaction locks all that there is")
        {
            let (reason, on) = (Reason::Full, LockOn::Row);
            return Err(LockError { reason, on, tree, key_hash: 0, key: None, holder: None });
        }
        locks.looks_at = own + LOOK_EVERY;
        Ok(())
    }
}
