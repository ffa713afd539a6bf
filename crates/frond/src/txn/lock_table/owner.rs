//! An owner of locks: one per transaction, known to all that may have to wait for it.
//!
//! What an owner holds is private to it ([`LockSet`](super::LockSet)). Here is what others need:
//! its id, how much it has written, whether it is interrupted, how to wake it, and its intents on
//! trees, which it records here instead of in the table (`tables.rs`).
//!
//! Invariants
//! 1. An owner keeps its number from its creation until it is dropped, and it is not dropped while
//!    it holds or waits for a lock. So a number found in a lock always belongs to an owner.
//! 2. An interrupt is never lost: it is stored first, and a thread that goes to sleep looks for it
//!    after it has announced that it sleeps.
//! 3. An owner is reused from one transaction to the next, whose id is greater. An interrupt names
//!    the transaction that it is for: a late one has no effect.
//!
//! Threads: all. Lock order: an owner's `wait` is taken last, after any mutex of the table.

use std::time::Duration;

use crate::{
    cancel::{CancelToken, ListedSleeper, Sleeper, Sleepers},
    sync::{
        Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, OnceLock, Ordering, Weak,
        thread_mark,
    },
};

/// Number of trees whose intents an owner records here; those of more trees are in the table.
pub(super) const INTENTS: usize = 8;

/// Number of shards of the registry, which assign owners' numbers; selected by the transaction's
/// id.
const REGISTRIES: usize = if cfg!(shuttle) { 1 } else { 16 };

/// Numbers have 28 bits in a lock's word.
pub(super) const NUMBERS: u32 = 1 << 28;

/// Stored in place of an id while an owner changes to another transaction.
const RENAMING: u64 = u64::MAX;

/// The state of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The wait continues, or there is none.
    On,
    /// The lock is granted and lies in this place.
    Granted(u32),
    /// A gap lock was released: check again.
    Look,
    /// The wait was ended, as the victim of a deadlock.
    Victim,
}

/// A transaction as seen by others.
#[derive(Debug)]
pub struct Owner {
    id: AtomicU64,
    /// The program's own name (tag) for the transaction.
    tag: AtomicU64,
    /// The thread that took its first lock, by [`thread_mark`]; 0 if that is not known. For display
    /// only: a transaction may be moved to another thread.
    thread: AtomicUsize,
    /// The transaction is prepared.
    is_prepared: AtomicBool,
    number: u32,
    writes: AtomicU64,
    /// The id of the last transaction that was interrupted, plus one.
    interrupted: AtomicU64,
    /// For an owner that does not belong to a transaction: another source of cancellation.
    cancel: OnceLock<CancelToken>,
    /// Other sleepers that observe this owner's interrupts.
    sleepers: Sleepers,
    /// The clock time in nanoseconds since which it has held locks, plus one; 0 if it holds none.
    since: AtomicU64,
    sleeps: AtomicBool,
    pub(super) wait: Mutex<Wait>,
    pub(super) woken: Condvar,
    /// The recorded intents; see `tables.rs`.
    pub(super) intents: [AtomicU64; INTENTS],
    registry: Arc<Owners>,
}

impl Owner {
    /// The transaction's id, as passed by its creator.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Reuses the owner for the next transaction, whose id is greater.
    pub(super) fn set_name(&self, id: u64, tag: u64) {
        if self.tag.load(Ordering::Relaxed) != tag {
            // In between, the owner has no id, so that no reader combines the tag of one
            // transaction with the id of the other.
            self.id.store(RENAMING, Ordering::SeqCst);
            self.tag.store(tag, Ordering::SeqCst);
        }
        self.id.store(id, Ordering::SeqCst);
        self.thread.store(thread_mark(), Ordering::Relaxed);
        self.is_prepared.store(false, Ordering::Relaxed);
    }

    /// Notes that the transaction is prepared.
    pub(super) fn set_prepared(&self) {
        self.is_prepared.store(true, Ordering::Relaxed);
    }

    /// The owner's current transaction, for an error that the calling thread gets.
    pub(super) fn as_holder(&self) -> Holder {
        let is_of_this_thread = self.thread.load(Ordering::Relaxed) == thread_mark();
        let is_prepared = self.is_prepared.load(Ordering::Relaxed);
        Holder { id: self.id(), is_of_this_thread, is_prepared }
    }

    /// The owner's current transaction, with the tag that the program gave it.
    pub(super) fn party(self: &Arc<Self>) -> LockParty {
        loop {
            let id = self.id.load(Ordering::SeqCst);
            let tag = self.tag.load(Ordering::SeqCst);
            // If the id changed in between, the tag may belong to another transaction.
            if id != RENAMING && self.id.load(Ordering::SeqCst) == id {
                return LockParty { owner: self.clone(), id, tag };
            }
            crate::sync::hint::spin_loop();
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// How much the transaction has written so far: the victim of a cycle is the one that has
    /// written least (Rule: I53).
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Sets how much it has written.
    pub fn set_writes(&self, writes: u64) {
        self.writes.store(writes, Ordering::Relaxed);
    }

    /// Sets since when it holds locks, or that it holds none any more. For display only: nothing
    /// depends on it.
    pub(super) fn set_since(&self, now: Option<Duration>) {
        let since = now.map_or(0, |now| now.as_nanos() as u64 + 1);
        self.since.store(since, Ordering::Relaxed);
    }

    /// Since when it holds locks, if it does.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }

    /// Interrupts the transaction with this id: a wait ends at once, and so does each later one
    /// until [`clear_interrupt`](Self::clear_interrupt). No effect if the transaction is over. May
    /// be called from any thread; takes no lock that a thread holds while it waits.
    pub fn interrupt(&self, id: u64) {
        // Ids grow, so an interrupt for an earlier id changes nothing (Invariant 3). SeqCst, as in
        // `sleep`: either the sleeper sees the interrupt, or this thread sees that it sleeps.
        self.interrupted.fetch_max(id + 1, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake();
        }
        self.sleepers.wake();
    }

    /// The sleepers to wake when it is interrupted, besides itself.
    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.sleepers
    }

    /// Whether the transaction was interrupted since the interrupt was last cleared.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst) == self.id.load(Ordering::Relaxed) + 1
    }

    /// Whether the transaction with this id was interrupted; the owner may already belong to a
    /// later transaction.
    pub fn was_interrupted(&self, id: u64) -> bool {
        self.interrupted.load(Ordering::SeqCst) == id + 1
    }

    /// Clears the interrupt: the statement has ended. Only the transaction's own thread calls this.
    pub fn clear_interrupt(&self) {
        self.interrupted.store(0, Ordering::SeqCst);
    }

    /// Clears the interrupt if it is for the transaction with this id.
    pub fn clear_interrupt_of(&self, id: u64) {
        // An interrupt for the next transaction stays.
        let _ = self.interrupted.compare_exchange(id + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Makes its waits end also when `cancel` is cancelled. Only for an owner that is never reused.
    pub(crate) fn cancel_on(&self, cancel: CancelToken) {
        let first = self.cancel.set(cancel);
        debug_assert!(first.is_ok(), "an owner has one token");
    }

    /// Whether an interrupter has cancelled its waits.
    pub(super) fn is_stopped(&self) -> bool {
        self.cancel.get().is_some_and(|cancel| cancel.check_cancelled().is_err())
    }

    /// Registers it to be woken by its interrupter while it sleeps.
    pub(super) fn list_sleeper(self: &Arc<Self>) -> Option<ListedSleeper> {
        self.cancel.get()?.list_sleeper(self)
    }

    /// Records whether this owner's thread is about to sleep, or has woken up.
    pub(super) fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::SeqCst);
    }

    /// Ends its wait with this state.
    pub(super) fn tell(&self, wait: Wait) {
        *self.wait.lock().unwrap() = wait;
        self.woken.notify_all();
    }
}

impl Sleeper for Owner {
    fn wake(&self) {
        drop(self.wait.lock().unwrap());
        self.woken.notify_all();
    }
}

/// The holder of a lock that another transaction was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    pub id: u64,
    /// It was begun by the thread that was refused the lock, which waits for itself then.
    pub is_of_this_thread: bool,
    /// It is prepared, so only a decision about it releases its locks.
    pub is_prepared: bool,
}

/// A transaction as passed to the program's [`Hooks`](super::Hooks). It may have ended since.
#[derive(Clone, Debug)]
pub struct LockParty {
    owner: Arc<Owner>,
    id: u64,
    tag: u64,
}

impl LockParty {
    pub(super) fn as_holder(&self) -> Holder {
        Holder { id: self.id, ..self.owner.as_holder() }
    }

    /// The id in reports of locks; unique while the store is open.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The program's own name for it, given when it was begun; 0 for a batch.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Approximate number of entries that it has written.
    pub fn writes(&self) -> u64 {
        self.owner.writes()
    }

    /// Interrupts it, as [`Interrupter`](crate::Interrupter) does.
    pub fn interrupt(&self) {
        self.owner.interrupt(self.id);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.registry.forget(self.number);
    }
}

/// The registry of owners by number.
#[derive(Debug)]
pub(super) struct Owners {
    registries: Box<[Mutex<Registry>]>,
}

#[derive(Debug, Default)]
struct Registry {
    owners: Vec<Weak<Owner>>,
    free: Vec<u32>,
}

impl Owners {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { registries: (0..REGISTRIES).map(|_| Mutex::default()).collect() })
    }

    pub fn register(self: &Arc<Self>, id: u64) -> Arc<Owner> {
        let place = id as usize % REGISTRIES;
        let mut registry = self.registries[place].lock().unwrap();
        let index = registry.free.pop().unwrap_or_else(|| {
            registry.owners.push(Weak::new());
            registry.owners.len() as u32 - 1
        });
        let number = index * REGISTRIES as u32 + place as u32;
        assert!(number < NUMBERS, "more transactions at once than a lock can name");
        let owner = Arc::new(Owner {
            id: AtomicU64::new(id),
            tag: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
            is_prepared: AtomicBool::new(false),
            number,
            writes: AtomicU64::new(0),
            interrupted: AtomicU64::new(0),
            cancel: OnceLock::new(),
            sleepers: Sleepers::default(),
            since: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            wait: Mutex::new(Wait::On),
            woken: Condvar::new(),
            intents: [const { AtomicU64::new(0) }; INTENTS],
            registry: self.clone(),
        });
        registry.owners[index as usize] = Arc::downgrade(&owner);
        owner
    }

    fn forget(&self, number: u32) {
        let (place, index) = (number as usize % REGISTRIES, number / REGISTRIES as u32);
        let mut registry = self.registries[place].lock().unwrap();
        registry.owners[index as usize] = Weak::new();
        registry.free.push(index);
    }

    pub fn find(&self, number: u32) -> Option<Arc<Owner>> {
        let (place, index) = (number as usize % REGISTRIES, number as usize / REGISTRIES);
        self.registries[place].lock().unwrap().owners.get(index)?.upgrade()
    }

    /// Calls `each` with every existing owner.
    pub fn each(&self, mut each: impl FnMut(&Arc<Owner>)) {
        for registry in &self.registries {
            // Collected first: this may be the last reference, and dropping it locks the registry.
            let owners: Vec<_> =
                registry.lock().unwrap().owners.iter().filter_map(Weak::upgrade).collect();
            owners.iter().for_each(&mut each);
        }
    }
}
