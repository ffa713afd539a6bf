//! A pool of transaction state, reused from one transaction to the next.
//!
//! A one-row transaction needs a write set and its index, a lock owner, lists, and the payload that
//! carries the set into the memtable: about twenty allocations, which cost about as much as the
//! rest of its commit. So a thread takes them from a pool, where it or another thread has left
//! them.
//!
//! Invariants
//! 1. Pooled state belongs to no transaction: it holds no locks and no snapshot, is on no list, and
//!    nothing else refers to it.
//! 2. No thread waits: a slot that another thread is using is skipped, and then the state is
//!    allocated.
//! 3. At most [`SLOTS`] transactions' state is kept, each with at most about [`KEPT_BYTES_MAX`]
//!    for writes, and as much for locks.
//!
//! Threads: all. Ranks: a slot's mutex is only tried, and no lock is taken under it.

use std::{fmt, ops::Range};

use crate::{
    pipeline::CommitPayload,
    striped::Striped,
    sync::{Arc, Mutex, thread_number},
    txn::LiveWrites,
};

use super::State;

/// Number of slots: enough that most threads find one of their own, even if there are many more
/// threads than processors.
const SLOTS: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Bytes kept for one transaction: a few hundred rows. All slots together then keep at most 8 MiB.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Transaction numbers that pooled state reserves at once, so that threads seldom contend for the
/// number counter.
pub(super) const NUMBERS: u64 = 64;

/// Reusable state of an ended transaction.
#[derive(Debug, Default)]
pub(super) struct PooledTxn {
    pub live: Arc<LiveWrites>,
    pub state: State,
}

/// The pool.
#[derive(Default)]
pub(in crate::db) struct TxnPool {
    slots: Striped<Mutex<Option<PooledTxn>>, SLOTS>,
}

impl fmt::Debug for TxnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxnPool").finish_non_exhaustive()
    }
}

impl TxnPool {
    /// The slots that this thread uses: its own, and the next one.
    fn slots(&self) -> [&Mutex<Option<PooledTxn>>; 2] {
        let own = thread_number();
        [self.slots.at(own), self.slots.at(own.wrapping_add(1))]
    }

    /// Takes state for a transaction from the pool, or allocates it. `numbers` reserves [`NUMBERS`]
    /// transaction numbers.
    pub(super) fn take(&self, numbers: impl FnOnce() -> Range<u64>) -> PooledTxn {
        let found = self.slots().into_iter().find_map(|slot| slot.try_lock().ok()?.take());
        let mut pooled = found.unwrap_or_default();
        let numbers_left = &mut pooled.state.spare.numbers;
        let number = numbers_left.next().unwrap_or_else(|| {
            *numbers_left = numbers();
            numbers_left.next().expect("some were asked for")
        });
        match Arc::get_mut(&mut pooled.live) {
            Some(live) => live.renew(number),
            // A thread that searched for pending keys still has a reference (invariant 1).
            None => pooled.live = Arc::new(LiveWrites::new(number)),
        }
        pooled
    }

    /// Returns the state of an ended transaction to the pool, if it is small and there is a free
    /// slot (invariant 3).
    pub(super) fn keep(&self, mut pooled: PooledTxn) {
        pooled.state.spare.locks.take_if(|locks| locks.bytes() > KEPT_BYTES_MAX);
        let has_grown = std::mem::take(&mut pooled.state.buffer.has_written);
        if !pooled.state.reset() || (has_grown && !pooled.live.is_within(KEPT_BYTES_MAX)) {
            return;
        }
        for slot in self.slots() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                *slot = Some(pooled);
                return;
            }
        }
    }
}

/// Spare objects that a transaction may use instead of allocating them.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// An empty lock set, with its owner.
    pub locks: Option<crate::txn::lock_table::LockSet>,
    /// A payload with no other references.
    pub payload: Option<Arc<CommitPayload>>,
    /// Reserved transaction numbers.
    numbers: Range<u64>,
}

impl Spare {
    /// An empty payload.
    pub fn payload(&mut self) -> Arc<CommitPayload> {
        let mut spare = self.payload.take().unwrap_or_default();
        if Arc::get_mut(&mut spare).is_none() { Arc::default() } else { spare }
    }
}

impl State {
    /// Resets the state for the next transaction; false if it is not worth keeping.
    fn reset(&mut self) -> bool {
        let Self { locks, snapshot, entered, buffer, owner, seen, .. } = self;
        let lists = buffer.marks.capacity() + entered.capacity();
        *owner = None;
        self.ended_by = None;
        seen.forget();
        buffer.reset();
        self.row_calls.depth = 0;
        (self.is_over, self.is_paced, self.locks_unwritten) = (false, false, false);
        locks.is_none() && snapshot.is_none() && entered.is_empty() && lists <= 256
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn numbers() -> Range<u64> {
        7..9
    }

    #[test]
    fn pooled_state_is_reused_under_another_number() {
        let pool = TxnPool::default();
        let pooled = pool.take(numbers);
        let (first, place) = (pooled.live.number(), Arc::as_ptr(&pooled.live));
        pool.keep(pooled);
        let again = pool.take(|| unreachable!("one number is left"));
        assert_eq!((again.live.number(), Arc::as_ptr(&again.live)), (first + 1, place));
        let other = pool.take(numbers);
        assert_ne!(Arc::as_ptr(&other.live), place, "no two have the same");
    }

    #[test]
    fn a_reader_of_pending_keys_never_sees_those_of_the_next_transaction() {
        let pool = TxnPool::default();
        let pooled = pool.take(numbers);
        let asker = pooled.live.clone();
        pool.keep(pooled);
        let next = pool.take(numbers);
        assert!(!Arc::ptr_eq(&asker, &next.live));
    }

    #[test]
    fn the_state_of_a_large_transaction_is_not_pooled() {
        let pool = TxnPool::default();
        let mut pooled = pool.take(numbers);
        let key = crate::txn::HashedKey::new(crate::TreeId(7), b"key");
        pooled.live.lock().put(key, &[0; KEPT_BYTES_MAX + 1], 0).unwrap();
        pooled.live.clear();
        pooled.state.buffer.has_written = true;
        let place = Arc::as_ptr(&pooled.live);
        let number = pooled.live.number();
        pool.keep(pooled);
        let next = pool.take(numbers);
        assert!(next.live.number() <= number || Arc::as_ptr(&next.live) != place);
    }
}
