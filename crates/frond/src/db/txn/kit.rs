//! What transactions are made of, kept from one to the next.
//!
//! A transaction of one row needs a write set and its index, an owner of locks, lists, and what carries the set into
//! the memtable: some twenty pieces of memory, which cost about what the rest of its commit does. Threads take them
//! where they or others have left them.
//!
//! Invariants
//! 1. What lies here is of no transaction: it holds no locks and no snapshot, is on no list, and nobody else knows it.
//! 2. Nobody waits: a place that another thread is at is passed by, and then things are made anew.
//! 3. At most [`PLACES`] transactions' memory is kept, of each at most about [`KEPT_BYTES_MAX`] for writes, and as much
//!    for locks.
//!
//! Threads: all. Ranks: a place's mutex is taken by trying, below nothing and with nothing taken under it.

use std::{fmt, ops::Range};

use crate::{
    pipeline::Insertion,
    sync::{Arc, Mutex, thread_number},
    txn::LiveWrites,
};

use super::State;

/// As many threads as find a place of their own most of the time, where there are many more than processors.
const PLACES: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Of one transaction: some hundred rows. All places together then keep at most 8 MiB.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Numbers that a kit takes at once: threads then seldom meet where numbers come from.
pub(super) const NUMBERS: u64 = 64;

/// What a transaction leaves behind.
#[derive(Debug, Default)]
pub(super) struct Kit {
    pub live: Arc<LiveWrites>,
    pub state: State,
}

#[derive(Default)]
#[repr(align(64))]
struct Place(Mutex<Option<Kit>>);

/// Kits that nobody uses.
pub(in crate::db) struct Kits {
    places: Box<[Place]>,
}

impl fmt::Debug for Kits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kits").finish_non_exhaustive()
    }
}

impl Default for Kits {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Place::default()).collect() }
    }
}

impl Kits {
    /// The places where this thread looks: its own, and the one beside.
    fn places(&self) -> [&Place; 2] {
        let own = thread_number();
        [&self.places[own % PLACES], &self.places[(own + 1) % PLACES]]
    }

    /// A kit for a transaction. `numbers` gives out [`NUMBERS`] of them.
    pub(super) fn take(&self, numbers: impl FnOnce() -> Range<u64>) -> Kit {
        let found =
            self.places().into_iter().find_map(|Place(place)| place.try_lock().ok()?.take());
        let mut kit = found.unwrap_or_default();
        let numbers_left = &mut kit.state.spare.numbers;
        let number = numbers_left.next().unwrap_or_else(|| {
            *numbers_left = numbers();
            numbers_left.next().expect("some were asked for")
        });
        match Arc::get_mut(&mut kit.live) {
            Some(live) => live.renew(number),
            // Somebody who asked for pending keys has not let go yet (Invariant 1).
            None => kit.live = Arc::new(LiveWrites::new(number)),
        }
        kit
    }

    /// Keeps what a transaction has left, if it is small and there is room (Invariant 3).
    pub(super) fn keep(&self, mut kit: Kit) {
        kit.state.spare.locks.take_if(|locks| locks.bytes() > KEPT_BYTES_MAX);
        let has_grown = std::mem::take(&mut kit.state.has_written);
        if !kit.state.rest() || (has_grown && !kit.live.is_within(KEPT_BYTES_MAX)) {
            return;
        }
        for Place(place) in self.places() {
            if let Ok(mut place) = place.try_lock()
                && place.is_none()
            {
                *place = Some(kit);
                return;
            }
        }
    }
}

/// What a transaction may use instead of making it.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Locks that are none, with their owner.
    pub locks: Option<crate::txn::lock_table::LockSet>,
    /// Nobody else has it.
    pub insertion: Option<Arc<Insertion>>,
    /// Numbers for transactions.
    numbers: Range<u64>,
}

impl Spare {
    /// Something to carry writes, empty.
    pub fn insertion(&mut self) -> Arc<Insertion> {
        let mut spare = self.insertion.take().unwrap_or_default();
        if Arc::get_mut(&mut spare).is_none() { Arc::default() } else { spare }
    }
}

impl State {
    /// Makes it the next transaction's; false if it is not worth keeping.
    fn rest(&mut self) -> bool {
        let lists =
            self.savepoints.capacity() + self.rollbacks.capacity() + self.entered.capacity();
        let Self {
            locks, snapshot, entered, savepoints, rollbacks, cursor_marks, owner, seen, ..
        } = self;
        *owner = None;
        self.ended_by = None;
        self.memory.clear();
        seen.forget();
        savepoints.clear();
        rollbacks.clear();
        cursor_marks.clear();
        (self.savepoints_made, self.rollbacks_made, self.is_over) = (0, 0, false);
        (self.is_large, self.spills, self.row_calls) = (false, 0, 0);
        (self.statement, self.is_paced, self.locks_unwritten) = (None, false, false);
        self.substatements.clear();
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
    fn what_is_kept_is_used_again_under_another_number() {
        let kits = Kits::default();
        let kit = kits.take(numbers);
        let (first, place) = (kit.live.number(), Arc::as_ptr(&kit.live));
        kits.keep(kit);
        let again = kits.take(|| unreachable!("one number is left"));
        assert_eq!((again.live.number(), Arc::as_ptr(&again.live)), (first + 1, place));
        let other = kits.take(numbers);
        assert_ne!(Arc::as_ptr(&other.live), place, "no two have the same");
    }

    #[test]
    fn who_asks_for_the_keys_of_a_transaction_is_not_told_those_of_the_next() {
        let kits = Kits::default();
        let kit = kits.take(numbers);
        let asker = kit.live.clone();
        kits.keep(kit);
        let next = kits.take(numbers);
        assert!(!Arc::ptr_eq(&asker, &next.live));
    }

    #[test]
    fn what_a_large_transaction_has_left_is_not_kept() {
        let kits = Kits::default();
        let mut kit = kits.take(numbers);
        let key = crate::txn::HashedKey::new(crate::TreeId(7), b"key");
        kit.live.lock().put(key, &[0; KEPT_BYTES_MAX + 1], 0).unwrap();
        kit.live.clear();
        kit.state.has_written = true;
        let place = Arc::as_ptr(&kit.live);
        let number = kit.live.number();
        kits.keep(kit);
        let next = kits.take(numbers);
        assert!(next.live.number() <= number || Arc::as_ptr(&next.live) != place);
    }
}
