//! The sequencer: one short critical section gives a commit its seqno, its place in the log and its
//! memtable together (Rule: I2), and `visible` advances as commits finish inserting (Rule: I3).
//!
//! The naive way is that each commit inserts its own entries, and later ones wait for it. Then a
//! thread that is descheduled between taking its seqno and its last insert blocks all others. So a
//! commit registers what it inserts while it is in flight, and a thread that waits for it can
//! insert it on the owner's behalf (helping). `T` is the commit's payload; the waiting threads know
//! how to insert it.
//!
//! In the section each commit is also noted at the trees that it changes ([`LastCommits`], Rule:
//! I46), for scans that read rows before they lock them.
//!
//! Invariants
//! 1. Seqno order = order of log reservations = order of memtable intervals.
//! 2. A memtable is frozen inside the section: no commit can be assigned to it afterwards.
//! 3. `visible` is the greatest seqno such that it and all lower ones are inserted.
//! 4. Nothing in the section blocks, allocates in the common case, or touches a file.
//! 5. A commit is finished once, by the thread that takes it out of its place. By then it is wholly
//!    inserted; other threads may still be inserting it, without effect.
//!
//! Threads: committers, and the freezer; [`LastCommits`] is read by all. Cost: two uncontended
//! locks, about thirty stores, and one more per tree of the commit.

use std::time::Duration;

use crate::{
    Seqno, TreeId,
    striped::Striped,
    sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, hint, thread},
    version::MemtableRef,
};

/// Number of commits that may have a seqno and not be finished at the same time; further threads
/// wait. (The model checker gets few, so that its threads have to wait.)
const IN_FLIGHT_MAX: u64 = if cfg!(shuttle) { 4 } else { 1024 };

/// After this time, a thread that waits for a commit which another thread is helping inserts it,
/// too: the helper may be descheduled just like the owner.
const HELPER_TIME: Duration = Duration::from_millis(1);

/// Orders commits and makes them visible. `T` is what a commit inserts into its memtable.
#[derive(Debug)]
pub(crate) struct Sequencer<T> {
    section: Mutex<Section>,
    visible: AtomicU64,
    /// Commit `s` has place `s % IN_FLIGHT_MAX`.
    places: Box<[Place<T>]>,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    advanced: Condvar,
    pub last_commits: LastCommits,
}

/// The state that only the holder of the section may touch.
#[derive(Debug)]
pub(crate) struct Section {
    next: Seqno,
    pub active: Arc<MemtableRef>,
}

/// The place of one commit in flight.
#[derive(Debug)]
struct Place<T> {
    /// The seqno of the last commit with this place that is wholly inserted.
    done: AtomicU64,
    assigned: Mutex<Option<Assigned<T>>>,
}

/// A commit in flight: it has its seqno and is not finished.
#[derive(Debug)]
struct Assigned<T> {
    seqno: Seqno,
    slot: Arc<MemtableRef>,
    payload: Arc<T>,
    /// Another thread is inserting it on the owner's behalf.
    is_helped: bool,
}

impl Section {
    /// The last seqno assigned.
    pub fn last(&self) -> Seqno {
        Seqno(self.next.0 - 1)
    }

    /// Assigns the seqno that a log record has, during recovery. No thread waits for the commit
    /// there.
    pub fn assign_replayed(&mut self, seqno: Seqno) -> Arc<MemtableRef> {
        assert!(seqno >= self.next, "the log's seqnos ascend");
        self.next = seqno.next();
        self.active.writers.fetch_add(1, Ordering::Relaxed);
        self.active.clone()
    }
}

impl<T> Sequencer<T> {
    /// A sequencer that continues after `last`; everything through `last` is visible.
    pub fn new(last: Seqno, active: Arc<MemtableRef>) -> Self {
        let place = |_| Place { done: AtomicU64::new(0), assigned: Mutex::new(None) };
        Self {
            section: Mutex::new(Section { next: last.next(), active }),
            visible: AtomicU64::new(last.0),
            places: (0..IN_FLIGHT_MAX).map(place).collect(),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            advanced: Condvar::new(),
            last_commits: LastCommits::default(),
        }
    }

    fn place(&self, seqno: Seqno) -> &Place<T> {
        &self.places[(seqno.0 % IN_FLIGHT_MAX) as usize]
    }

    /// Enters the critical section; waits first while too many commits are in flight. `insert` is
    /// used as in [`wait_visible`](Self::wait_visible).
    pub fn enter(&self, insert: impl Fn(&T, Seqno, &MemtableRef)) -> MutexGuard<'_, Section> {
        loop {
            let section = self.section.lock().unwrap();
            let oldest = section.last().0.saturating_sub(IN_FLIGHT_MAX - 2);
            if self.visible.load(Ordering::SeqCst) >= oldest {
                return section;
            }
            drop(section);
            self.wait_visible(Seqno(oldest), &insert);
        }
    }

    /// Assigns the next seqno, in the active memtable, to a commit with this payload, which changes
    /// `trees`. From now on other threads may insert it.
    pub fn assign(
        &self,
        section: &mut Section,
        payload: &Arc<T>,
        trees: impl Iterator<Item = TreeId>,
    ) -> (Seqno, Arc<MemtableRef>) {
        let seqno = section.next;
        // Before another thread can make the commit visible.
        if !plant!("txn: a commit is not noted at its trees") {
            self.last_commits.note(trees, seqno);
        }
        section.next = seqno.next();
        let slot = section.active.clone();
        slot.writers.fetch_add(1, Ordering::Relaxed);
        // The place is free: `enter` saw its previous commit visible.
        *self.place(seqno).assigned.lock().unwrap() = Some(Assigned {
            seqno,
            slot: slot.clone(),
            payload: payload.clone(),
            is_helped: false,
        });
        (seqno, slot)
    }

    /// The greatest seqno that readers may see.
    pub fn visible(&self) -> Seqno {
        Seqno(self.visible.load(Ordering::SeqCst))
    }

    /// Makes everything through `seqno` visible at once: only in recovery, where seqnos may have
    /// gaps.
    pub fn jump_visible(&self, seqno: Seqno) {
        self.visible.store(seqno.0, Ordering::SeqCst);
    }

    /// Records that a commit is wholly inserted, by whichever thread.
    pub fn finish(&self, seqno: Seqno) {
        let place = self.place(seqno);
        let mut assigned = place.assigned.lock().unwrap();
        if assigned.as_ref().is_none_or(|assigned| assigned.seqno != seqno) {
            return;
        }
        let finished = assigned.take();
        if let Some(Assigned { slot, .. }) = &finished {
            slot.writers.fetch_sub(1, Ordering::Release);
        }
        // SeqCst: of two finishers, at least one sees the other's mark when it looks for the next
        // one. With a weaker ordering both could stop below each other, and `visible` would not
        // advance.
        place.done.store(seqno.0, Ordering::SeqCst);
        drop(assigned);
        // Dropped before any thread is woken: the owner reuses the memory of the payload.
        drop(finished);
        let mut moved = false;
        loop {
            let visible = self.visible.load(Ordering::SeqCst);
            let next = visible + 1;
            let jumps = plant!("txn: visible before those below are inserted") && next <= seqno.0;
            if self.place(Seqno(next)).done.load(Ordering::SeqCst) != next && !jumps {
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

    /// Returns once `seqno` is visible. `insert` inserts a commit's payload; it may be called while
    /// other threads insert the same, and for a commit that is long visible (Rule: I3).
    pub fn wait_visible(&self, seqno: Seqno, insert: impl Fn(&T, Seqno, &MemtableRef)) {
        for round in 0..64 {
            if self.visible() >= seqno {
                return;
            }
            // The commits below this one are being inserted by other threads: that takes
            // microseconds.
            if round < 16 { hint::spin_loop() } else { thread::yield_now() }
        }
        let mut helper_is_late = false;
        loop {
            let visible = self.visible();
            if visible >= seqno {
                return;
            }
            if self.help(visible.next(), helper_is_late, &insert) {
                continue;
            }
            let sleep = self.sleep.lock().unwrap();
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            helper_is_late = self.visible() == visible
                && self.advanced.wait_timeout(sleep, HELPER_TIME).unwrap().1.timed_out();
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Inserts and finishes a commit on its owner's behalf. Does nothing and returns false if the
    /// commit is finished; or if it has a helper already, unless `also` is set.
    fn help(&self, seqno: Seqno, also: bool, insert: impl Fn(&T, Seqno, &MemtableRef)) -> bool {
        let mut assigned = self.place(seqno).assigned.lock().unwrap();
        let (slot, payload) = match &mut *assigned {
            Some(assigned) if assigned.seqno == seqno && (also || !assigned.is_helped) => {
                assigned.is_helped = true;
                (assigned.slot.clone(), assigned.payload.clone())
            }
            _ => return false,
        };
        drop(assigned);
        if plant!("txn: waiting threads do not help") {
            return false;
        }
        if !plant!("txn: helped before it is inserted") {
            insert(&payload, seqno, &slot);
        }
        drop(payload);
        self.finish(seqno);
        true
    }
}

/// Number of words of [`LastCommits`]. Trees whose numbers differ by less have separate words. 32
/// KiB per store.
const WORDS: usize = if cfg!(shuttle) { 4 } else { 512 };

/// The last commit to each tree. It tells a scan whether a tree has changed since the scan read it
/// (Rule: I46).
///
/// A scan that locks rows would have to read each row again once it holds the row's lock. To avoid
/// that, it reads some rows before it locks them and, after acquiring a row's lock, checks here: if
/// the tree has had no commit after the snapshot that was read, the row that was read is still
/// current.
///
/// Why that is correct, for a row or a gap whose lock is held:
/// - A writer of the row holds its lock, or one of the tree; or it is a batch that passed the gate
///   before it was closed. A commit is noted within the section, before its seqno is assigned. So
///   the note precedes any insertion of the commit, its visibility, and the release of its locks or
///   of its passage of the gate. A thread that holds the lock afterwards acquired it under the
///   mutex under which it was released, or has seen the passage end: so it sees the note.
/// - All commits do this: batches, transactions, spilled ones included, queues of index builds, and
///   prepared transactions, whose decision lists the trees. Other threads may insert on behalf of a
///   stalled committer, but none notes for it or releases its locks.
/// - A commit that is noted and not yet visible only makes a scan read a row once more than
///   necessary: under the row's lock, the scan then reads what is visible.
/// - Replayed commits are not noted: all of them are below every snapshot.
/// - Changes of the catalog are no commits to the trees concerned: trees are new, renamed or
///   dropped. A reader separately checks whether its tree was dropped (`TreeEntry::check`), which
///   is recorded before the tree's lock is released.
///
/// Invariant: each word is at least the last commit that was assigned a seqno, over all trees that
/// share the word. Sharing only makes readers read some rows again; nothing has to be allocated or
/// looked up. Cost: one store per tree of a commit.
#[derive(Debug, Default)]
pub(crate) struct LastCommits {
    /// Each on a cache line of its own: indexes of one table have adjacent numbers.
    words: Striped<AtomicU64, WORDS>,
    /// Number of rows that had to be read again.
    looked_again: AtomicU64,
}

impl LastCommits {
    fn word(&self, tree: TreeId) -> &AtomicU64 {
        self.words.at(tree.0 as usize)
    }

    /// Notes a commit to these trees that is about to get its seqno. Called within the section, so
    /// that seqnos ascend.
    fn note(&self, trees: impl IntoIterator<Item = TreeId>, seqno: Seqno) {
        for tree in trees {
            // Release pairs with the Acquire in `none_since`; the reader is anyway ordered after it
            // by a mutex.
            self.word(tree).store(seqno.0, Ordering::Release);
        }
    }

    /// True if nothing was committed to a tree after `at`. Must be called while holding the locks
    /// that the answer is about.
    pub fn none_since(&self, tree: TreeId, at: Seqno) -> bool {
        self.word(tree).load(Ordering::Acquire) <= at.0
    }

    /// Counts a row that had to be read again.
    pub fn looks_again(&self) {
        self.looked_again.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of rows that were read again.
    pub fn looked_again(&self) -> u64 {
        self.looked_again.load(Ordering::Relaxed)
    }
}
