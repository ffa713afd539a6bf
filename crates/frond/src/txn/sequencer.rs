//! The sequencer: one short critical section gives a commit its seqno, its place in the log and its
//! memtable together (Rule: I2), and what is visible advances as commits finish inserting (Rule: I3).
//!
//! Invariants
//! 1. Seqno order = order of log reservations = order of memtable intervals.
//! 2. A memtable is frozen inside the section: no commit can be assigned to it afterwards.
//! 3. `visible` is the greatest seqno such that it and all lower ones are inserted.
//! 4. Nothing in the section blocks, allocates in the common case, or touches a file.
//!
//! Threads: committers, and the freezer. Cost: one uncontended lock and some twenty stores.

use crate::{
    Seqno,
    sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, hint, thread},
    version::MemSlot,
};

/// Commits that may be between their seqno and their end at once: more threads than that wait. (The
/// model checker gets few, so that its threads come to wait.)
const IN_FLIGHT_MAX: u64 = if cfg!(shuttle) { 4 } else { 4096 };

#[derive(Debug)]
pub(crate) struct Sequencer {
    section: Mutex<Section>,
    visible: AtomicU64,
    /// `done[s % IN_FLIGHT_MAX] == s` once commit `s` is inserted.
    done: Box<[AtomicU64]>,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    advanced: Condvar,
}

/// What only the holder of the section may touch.
#[derive(Debug)]
pub(crate) struct Section {
    next: Seqno,
    pub active: Arc<MemSlot>,
}

impl Section {
    /// Assigns the next seqno, in the active memtable.
    pub fn assign(&mut self) -> (Seqno, Arc<MemSlot>) {
        let seqno = self.next;
        self.next = seqno.next();
        self.active.writers.fetch_add(1, Ordering::Relaxed);
        (seqno, self.active.clone())
    }

    /// The last seqno assigned.
    pub fn last(&self) -> Seqno {
        Seqno(self.next.0 - 1)
    }

    /// Takes a given seqno, in recovery: the log's own.
    pub fn assign_replayed(&mut self, seqno: Seqno) -> Arc<MemSlot> {
        assert!(seqno >= self.next, "the log's seqnos ascend");
        self.next = seqno.next();
        self.active.writers.fetch_add(1, Ordering::Relaxed);
        self.active.clone()
    }
}

impl Sequencer {
    /// Goes on after `last`, all of which is visible.
    pub fn new(last: Seqno, active: Arc<MemSlot>) -> Self {
        Self {
            section: Mutex::new(Section { next: last.next(), active }),
            visible: AtomicU64::new(last.0),
            done: (0..IN_FLIGHT_MAX).map(|_| AtomicU64::new(0)).collect(),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            advanced: Condvar::new(),
        }
    }

    /// Enters the critical section; waits first while too many commits are in flight.
    pub fn enter(&self) -> MutexGuard<'_, Section> {
        loop {
            let section = self.section.lock().unwrap();
            let oldest = section.last().0.saturating_sub(IN_FLIGHT_MAX - 2);
            if self.visible.load(Ordering::SeqCst) >= oldest {
                return section;
            }
            drop(section);
            self.wait_visible(Seqno(oldest));
        }
    }

    /// The greatest seqno that readers may see.
    pub fn visible(&self) -> Seqno {
        Seqno(self.visible.load(Ordering::SeqCst))
    }

    /// Makes everything through `seqno` visible without commits in between: in recovery only, where
    /// seqnos may have gaps.
    pub fn jump_visible(&self, seqno: Seqno) {
        self.visible.store(seqno.0, Ordering::SeqCst);
    }

    /// Says that a commit is wholly inserted.
    pub fn finish(&self, seqno: Seqno, slot: &MemSlot) {
        // SeqCst: of two finishers, at least one sees the other's mark when it looks for the next
        // one; with less, both could stop below each other and nobody would advance.
        self.done[(seqno.0 % IN_FLIGHT_MAX) as usize].store(seqno.0, Ordering::SeqCst);
        slot.writers.fetch_sub(1, Ordering::Release);
        let mut moved = false;
        loop {
            let visible = self.visible.load(Ordering::SeqCst);
            let next = visible + 1;
            let mark = &self.done[(next % IN_FLIGHT_MAX) as usize];
            let jumps = plant!("txn: visible before those below are inserted") && next <= seqno.0;
            if mark.load(Ordering::SeqCst) != next && !jumps {
                break;
            }
            let exchanged =
                self.visible.compare_exchange(visible, next, Ordering::SeqCst, Ordering::SeqCst);
            moved |= exchanged.is_ok();
        }
        // Pairs with the increment in `wait_visible`: either the sleeper sees the new `visible`, or
        // it is counted here.
        if moved && self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.sleep.lock().unwrap());
            self.advanced.notify_all();
        }
    }

    /// Returns once `seqno` is visible.
    pub fn wait_visible(&self, seqno: Seqno) {
        for round in 0..64 {
            if self.visible() >= seqno {
                return;
            }
            // The commits below are in other threads' memtable inserts: microseconds.
            if round < 16 { hint::spin_loop() } else { thread::yield_now() }
        }
        let mut sleep = self.sleep.lock().unwrap();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.visible() < seqno {
            sleep = self.advanced.wait(sleep).unwrap();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
