//! The lock gate: batches use the lock table only while a transaction may hold locks.
//!
//! A batch is a transaction of one call. As long as there are only batches, the sequencer provides
//! all the order they need, and a lock per entry would cost more than the entry. So a batch checks
//! at commit whether there are transactions with locks. A transaction that is about to take its
//! first lock closes the gate and waits until the batches that passed it before are done.
//!
//! Invariant: between a transaction's `close` and its `open`, no batch that passed the gate
//! commits.
//!
//! Threads: all. Cost: two atomic additions per batch, on a line that few threads share; a few
//! loads per transaction. The idea is that of biased and distributed reader-writer locks: Calciu et
//! al., "NUMA-aware reader-writer locks", 2013.

use std::time::Duration;

use crate::{
    striped::Striped,
    sync::{AtomicUsize, Ordering, thread},
};

/// Number of counters over which batches are spread.
const COUNTS: usize = if cfg!(shuttle) { 2 } else { 16 };
/// Number of polls of a counter before the thread sleeps between polls: a batch takes microseconds,
/// unless it waits for the disk.
const LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// The batches that have passed, and whether the gate is closed.
#[derive(Debug)]
pub(crate) struct LockGate {
    transactions: AtomicUsize,
    batches: Striped<AtomicUsize, COUNTS>,
}

/// A batch that commits without locks, until this guard is dropped.
#[derive(Debug)]
pub(crate) struct Passed<'a>(&'a AtomicUsize);

impl Default for LockGate {
    fn default() -> Self {
        Self { transactions: AtomicUsize::new(0), batches: Striped::default() }
    }
}

impl LockGate {
    /// Passes the gate for a batch that is about to commit without locks, until the guard is
    /// dropped; `None` if the batch needs locks. `number` spreads batches over the counters.
    pub fn pass(&self, number: usize) -> Option<Passed<'_>> {
        let count = self.batches.at(number);
        // SeqCst, as in `close`: either the batch sees the transaction, or the transaction sees the
        // batch.
        count.fetch_add(1, Ordering::SeqCst);
        let passed = Passed(count);
        let is_open = self.transactions.load(Ordering::SeqCst) == 0;
        (is_open || plant!("txn: batches pass a closed gate")).then_some(passed)
    }

    /// Closes the gate for a transaction that is about to take locks. Waits for batches in progress
    /// as long as `goes_on` returns true; returns false if it gave up, in which case the gate is as
    /// before.
    pub fn close(&self, goes_on: impl Fn() -> bool) -> bool {
        self.transactions.fetch_add(1, Ordering::SeqCst);
        for count in self.batches.iter() {
            let mut looks = 0;
            while count.load(Ordering::SeqCst) > 0 {
                looks += 1;
                if looks < LOOKS {
                    thread::yield_now();
                } else if goes_on() {
                    thread::sleep(NAP);
                } else {
                    self.open();
                    return false;
                }
            }
        }
        true
    }

    /// Opens the gate again: the transaction has released its locks.
    pub fn open(&self) {
        self.transactions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
