//! An owner of locks: one a transaction, known to all who may have to wait for it.
//!
//! What an owner holds is its own business ([`LockSet`](super::LockSet)); here is what others need:
//! who it is, how much it has written, whether somebody wants it to stop, where to wake it, and its
//! intents on trees, which it writes down here instead of in the table (`tables.rs`).
//!
//! Invariants
//! 1. An owner has its number from its creation until it is dropped; while it holds or waits for a lock
//!    that is not before it holds nothing, so a number found in a lock is somebody's.
//! 2. An interrupt is never lost: it is counted first, and whoever goes to sleep looks at the count
//!    after it said that it sleeps.
//!
//! Threads: all. Ranks: an owner's `wait` is taken below every mutex of the table.

use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, Weak};

/// Trees whose intents an owner writes down here; those of more trees stand in the table.
pub(super) const INTENTS: usize = 8;

/// Numbers are given out by so many shards of the registry, chosen by the transaction's id.
const REGISTRIES: usize = if cfg!(shuttle) { 1 } else { 16 };

/// Numbers have 28 bits in a lock's word.
pub(super) const NUMBERS: u32 = 1 << 28;

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
    number: u32,
    writes: AtomicU64,
    interrupts: AtomicU32,
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

    pub(super) fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
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

    /// Asks the transaction to stop what it does: a wait ends at once, and so does each later one until
    /// [`clear_interrupts`](Self::clear_interrupts). From any thread; takes nothing that a thread holds
    /// while it waits.
    pub fn interrupt(&self) {
        // SeqCst, as in `sleep`: either the sleeper sees the count, or it is seen sleeping here.
        self.interrupts.fetch_add(1, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// How often it was asked to stop since it was last cleared.
    pub fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }

    /// What was asked is done: the statement has ended.
    pub fn clear_interrupts(&self) {
        self.interrupts.store(0, Ordering::SeqCst);
    }

    /// Says that this owner's thread is about to sleep, or is not any more.
    pub(super) fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::SeqCst);
    }

    /// Wakes it, to look around.
    pub(super) fn wake(&self) {
        drop(self.wait.lock().unwrap());
        self.woken.notify_all();
    }

    /// Ends its wait.
    pub(super) fn tell(&self, wait: Wait) {
        *self.wait.lock().unwrap() = wait;
        self.woken.notify_all();
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
            number,
            writes: AtomicU64::new(0),
            interrupts: AtomicU32::new(0),
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
