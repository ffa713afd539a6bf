//! How many locks there may be: their memory is bounded (Rules: I47, P15).
//!
//! What a transaction writes leaves memory with its locks (`spilled.rs`); what it has locked and not written stays until it
//! ends. So a transaction of many locks is asked every some thousand of them, before it locks more without writing, whether all
//! that there are take more than their part of memory, and refused if they do: nothing was done, and it goes on.
//!
//! Invariants
//! 1. A transaction of few locks is never refused, nor is a write, nor what is locked again after a restart.
//!
//! Threads: as the lock sets'. Cost: a comparison a lock; every [`LOOK_EVERY`], one passage through the shards.

use super::{
    LockTable,
    denied::{Denied, LockOn, Reason},
    lock_set::LockSet,
};
use crate::TreeId;

/// What each transaction may have, whatever others have: some 3 MB.
pub(super) const LOCKS_FREE: usize = 1 << 16;
const LOOK_EVERY: usize = 1 << 12;
/// About what a lock of the table takes (`mod.rs`), and an interval beside its keys.
const LOCK_BYTES: u64 = 45;
const RANGE_BYTES: u64 = 200;

impl LockTable {
    /// The same table, for locks that take so much memory.
    pub fn within(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Memory of locks, in bytes, but for queues.
    pub fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(|shard| shard.0.lock().unwrap().bytes()).sum();
        shards + self.ranges_live() * RANGE_BYTES as usize + self.spilled.bytes()
    }

    /// To be asked before something of a tree is locked that is not to be written: whether there is memory for it.
    pub fn must_have_room(&self, locks: &mut LockSet, tree: TreeId) -> Result<(), Denied> {
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
            return Err(Denied { reason, on, tree, key_hash: 0, key: None, holder: None });
        }
        locks.looks_at = own + LOOK_EVERY;
        Ok(())
    }
}
