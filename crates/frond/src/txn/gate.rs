//! Whether batches have to ask the lock table: only while a transaction may hold locks.
//!
//! A batch is a transaction of one call. As long as there are only batches, the sequencer is all the order they
//! need, and a lock for each entry would cost more than the entry. So a batch that commits looks whether there
//! are transactions with locks; a transaction that is about to take its first lock says so, and waits until the
//! batches are done that had looked before.
//!
//! Invariant: between a transaction's `close` and its `open` no batch commits that passed the gate.
//!
//! Threads: all. Cost: two atomic additions a batch, on a line that few threads share; a few loads a
//! transaction. The idea is that of biased and distributed reader-writer locks: Calciu et al., "NUMA-aware
//! reader-writer locks", 2013.

use std::time::Duration;

use crate::sync::{AtomicUsize, Ordering, thread};

/// Batches are spread over so many counts.
const COUNTS: usize = if cfg!(shuttle) { 2 } else { 16 };
/// Looks at a count before sleeping between them: a batch takes microseconds, unless it waits for the disk.
const LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// A count on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicUsize);

/// Who has passed, and whether it is shut.
#[derive(Debug)]
pub(crate) struct LockGate {
    transactions: AtomicUsize,
    batches: Box<[Count]>,
}

/// A batch that commits without locks.
#[derive(Debug)]
pub(crate) struct Passed<'a>(&'a AtomicUsize);

impl Default for LockGate {
    fn default() -> Self {
        let batches = (0..COUNTS).map(|_| Count::default()).collect();
        Self { transactions: AtomicUsize::new(0), batches }
    }
}

impl LockGate {
    /// A batch is about to commit, and does not need locks until the guard goes; `None`: it needs them.
    /// `number` spreads batches over the counts.
    pub fn pass(&self, number: usize) -> Option<Passed<'_>> {
        let count = &self.batches[number % COUNTS].0;
        // SeqCst, as in `close`: either the batch sees the transaction, or it is seen.
        count.fetch_add(1, Ordering::SeqCst);
        let passed = Passed(count);
        let is_open = self.transactions.load(Ordering::SeqCst) == 0;
        (is_open || plant!("txn: batches pass a closed gate")).then_some(passed)
    }

    /// A transaction is about to take locks. Waits for batches that are on their way, as long as `goes_on` says so;
    /// false if it gave up, and then the gate is as it was.
    pub fn close(&self, goes_on: impl Fn() -> bool) -> bool {
        self.transactions.fetch_add(1, Ordering::SeqCst);
        for Count(count) in &self.batches {
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

    /// It has given its locks back.
    pub fn open(&self) {
        self.transactions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
