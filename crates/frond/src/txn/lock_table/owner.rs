//! An owner of locks: one a transaction, known to all who may have to wait for it.
//!
//! What an owner holds is its own business ([`LockSet`](super::LockSet)); here is what others need:
//! who it is, how much it has written, whether somebody wants it to stop, where to wake it, and its
//! intents on trees, which it writes down here instead of in the table (`tables.rs`).
//!
//! Invariants
//! 1. An owner has its number from its creation until it is dropped; while it holds or waits for a lock
//!    that is not before it holds nothing, so a number found in a lock is somebody's.
//! 2. An interrupt is never lost: it is written down first, and whoever goes to sleep looks for it after it
//!    said that it sleeps.
//! 3. An owner goes from one transaction to the next, whose id is greater. An interrupt names the transaction that it is
//!    for: one that comes late does nothing.
//!
//! Threads: all. Ranks: an owner's `wait` is taken below every mutex of the table.

use std::time::Duration;

use crate::{
    heed::{Heed, Sleeper, Sleepers, Woken},
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, OnceLock, Ordering, Weak},
};

/// Trees whose intents an owner writes down here; those of more trees stand in the table.
pub(super) const INTENTS: usize = 8;

/// Numbers are given out by so many shards of the registry, chosen by the transaction's id.
const REGISTRIES: usize = if cfg!(shuttle) { 1 } else { 16 };

/// Numbers have 28 bits in a lock's word.
pub(super) const NUMBERS: u32 = 1 << 28;

/// In place of an id while an owner goes over to another transaction.
const RENAMING: u64 = u64::MAX;

/// How a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// It goes on, or there is none.
    On,
    /// The lock is granted; it lies in this place.
    Granted(u32),
    /// Somebody has gone: look again.
    Look,
    /// It was ended, because of a deadlock.
    Victim,
}

/// A transaction, as others see it.
#[derive(Debug)]
pub struct Owner {
    id: AtomicU64,
    /// What the program calls it.
    tag: AtomicU64,
    number: u32,
    writes: AtomicU64,
    /// One more than the id of the last transaction that was asked to stop.
    interrupted: AtomicU64,
    /// What it looks at beside, of one that is no transaction's.
    heed: OnceLock<Heed>,
    /// Others who sleep, and heed its interrupts.
    heeding: Sleepers,
    /// One more than the nanoseconds of the clock when it began to hold locks; 0: it holds none.
    since: AtomicU64,
    sleeps: AtomicBool,
    pub(super) wait: Mutex<Wait>,
    pub(super) woken: Condvar,
    /// See `tables.rs`.
    pub(super) intents: [AtomicU64; INTENTS],
    registry: Arc<Owners>,
}

impl Owner {
    /// The transaction's id, as its maker gave it.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Makes it that of the next transaction, whose id is greater.
    pub(super) fn set_name(&self, id: u64, tag: u64) {
        if self.tag.load(Ordering::Relaxed) != tag {
            // Between the two names it has none: no reader takes the tag of one for that of the other.
            self.id.store(RENAMING, Ordering::SeqCst);
            self.tag.store(tag, Ordering::SeqCst);
        }
        self.id.store(id, Ordering::SeqCst);
    }

    /// The transaction that it is now, in the program's words, too.
    pub(super) fn party(self: &Arc<Self>) -> LockParty {
        loop {
            let id = self.id.load(Ordering::SeqCst);
            let tag = self.tag.load(Ordering::SeqCst);
            // Written in between, it may be of two.
            if id != RENAMING && self.id.load(Ordering::SeqCst) == id {
                return LockParty { owner: self.clone(), id, tag };
            }
            crate::sync::hint::spin_loop();
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// What the transaction has written so far: of a cycle, who has written least is ended (Rule: I53).
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Says how much it has written.
    pub fn set_writes(&self, writes: u64) {
        self.writes.store(writes, Ordering::Relaxed);
    }

    /// Says since when it holds locks, or that it holds none any more. For people to read: nothing goes by it.
    pub(super) fn set_since(&self, now: Option<Duration>) {
        let since = now.map_or(0, |now| now.as_nanos() as u64 + 1);
        self.since.store(since, Ordering::Relaxed);
    }

    /// Since when it holds locks, if it does.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }

    /// Asks the transaction of this id to stop what it does: a wait ends at once, and so does each later one until
    /// [`clear_interrupt`](Self::clear_interrupt). Nothing happens if it is over. From any thread; takes nothing that a
    /// thread holds while it waits.
    pub fn interrupt(&self, id: u64) {
        // Ids grow, so what is for an earlier one changes nothing (Invariant 3). SeqCst, as in `sleep`: either the
        // sleeper sees it, or it is seen sleeping here.
        self.interrupted.fetch_max(id + 1, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake();
        }
        self.heeding.wake();
    }

    /// Who is to be woken when it is interrupted, beside itself.
    pub(crate) fn heeding(&self) -> &Sleepers {
        &self.heeding
    }

    /// Whether the transaction was asked to stop since that was last cleared.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst) == self.id.load(Ordering::Relaxed) + 1
    }

    /// The same of the transaction of this id, which it may not be any more.
    pub fn was_interrupted(&self, id: u64) -> bool {
        self.interrupted.load(Ordering::SeqCst) == id + 1
    }

    /// What was asked is done: the statement has ended. Only the transaction's own thread says so.
    pub fn clear_interrupt(&self) {
        self.interrupted.store(0, Ordering::SeqCst);
    }

    /// The same, if it is that of this transaction still, and it was asked.
    pub fn clear_interrupt_of(&self, id: u64) {
        // One that came for the next transaction stays.
        let _ = self.interrupted.compare_exchange(id + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Its waits end, too, when this says so. Of an owner that never goes from one to the next.
    pub(crate) fn heed(&self, heed: Heed) {
        let first = self.heed.set(heed);
        debug_assert!(first.is_ok(), "an owner heeds one");
    }

    /// Whether its waits end by what it heeds.
    pub(super) fn is_stopped(&self) -> bool {
        self.heed.get().is_some_and(|heed| heed.must_go_on().is_err())
    }

    /// Has it woken by what it heeds, as long as it sleeps.
    pub(super) fn heeds(self: &Arc<Self>) -> Option<Woken> {
        self.heed.get()?.wakes(self)
    }

    /// Says that this owner's thread is about to sleep, or is not any more.
    pub(super) fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::SeqCst);
    }

    /// Ends its wait.
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

/// A transaction as the program's [`Hooks`](super::Hooks) are told of it. It may have ended since.
#[derive(Clone, Debug)]
pub struct LockParty {
    owner: Arc<Owner>,
    id: u64,
    tag: u64,
}

impl LockParty {
    /// Its number in reports of locks; no two of one opening of the store have the same.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The program's own name for it, as it was begun with; 0 for a batch.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// About how many entries it has written.
    pub fn writes(&self) -> u64 {
        self.owner.writes()
    }

    /// Asks it to stop what it does, as [`Interrupter`](crate::Interrupter) does.
    pub fn interrupt(&self) {
        self.owner.interrupt(self.id);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.registry.forget(self.number);
    }
}

/// Who has which number.
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
            number,
            writes: AtomicU64::new(0),
            interrupted: AtomicU64::new(0),
            heed: OnceLock::new(),
            heeding: Sleepers::default(),
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

    /// Hands every owner there is to `each`.
    pub fn each(&self, mut each: impl FnMut(&Arc<Owner>)) {
        for registry in &self.registries {
            // Collected first: the last reference may be ours, and dropping it asks for the registry.
            let owners: Vec<_> =
                registry.lock().unwrap().owners.iter().filter_map(Weak::upgrade).collect();
            owners.iter().for_each(&mut each);
        }
    }
}
