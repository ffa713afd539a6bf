//! A shard of the table: locks by hash, 28 bytes each, in places that do not move while they are
//! held.
//!
//! A lock with one holder and no waiter is one word; as soon as a second party is involved, the
//! word refers to a [`Queue`]. Owners remember places, so a release only searches the bucket in
//! order to unlink the lock.
//!
//! Invariants
//! 1. A place is in use exactly while its lock has a holder or a waiter, and its number is unique
//!    then.
//! 2. A word refers to a queue only while there are waiters or more than one holder.
//! 3. Two locks are the same only if all 128 bits of their hashes are equal: no false deadlocks
//!    (Rule: I32).
//!
//! Threads: under the shard's mutex. Memory: places grow by a quarter, not twofold; a shard that
//! was large and is empty frees its memory.

use super::{
    mode::Mode,
    owner::Owner,
    queue::{Queue, Waiter},
};
use crate::{TreeId, sync::Arc};

/// A 128-bit hash that identifies a row, or a tree as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct LockHash(pub u128);

/// Spreads tree numbers over 128 bits; any odd number would do. Bytes: docs/format.md § Prepared
/// transactions.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl LockHash {
    /// The hash of a row. The tree is mixed in after hashing, not as the seed: for keys of up to
    /// eight bytes the seed is added before mixing, so the key `p8` of one tree would have the hash
    /// of `n6` of another.
    pub fn of_row(tree: TreeId, key: &[u8]) -> Self {
        let spread = SPREAD.wrapping_mul(u128::from(tree.0) + 1);
        Self(xxhash_rust::xxh3::xxh3_128(key) ^ spread)
    }

    /// The hash of a tree as a whole; a key has the same one only by chance, as with any two keys.
    pub fn of_tree(tree: TreeId) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128_with_seed(&tree.0.to_le_bytes(), u64::MAX))
    }

    /// The hash of the lock on a transaction itself, by its id: the first such lock, or its
    /// replacement.
    pub fn of_owner(id: u64, is_first: bool) -> Self {
        let seed = u64::MAX - if is_first { 1 } else { 2 };
        Self(xxhash_rust::xxh3::xxh3_128_with_seed(&id.to_le_bytes(), seed))
    }

    fn bucket(self, buckets: usize) -> usize {
        self.0 as usize & (buckets - 1)
    }
}

/// What a lock is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub tree: TreeId,
    pub hash: LockHash,
    pub is_table: bool,
}

/// Result of a request without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The owner did not hold the lock before.
    New,
    /// The owner held the lock in a lesser mode.
    Upgraded,
    /// The owner already held the lock in this mode or a greater one.
    AlreadyHeld,
}

/// A place number has 24 bits, in addition to eight bits for the shard; the last number means none.
const PLACES: u32 = (1 << 24) - 1;
const NONE: u32 = PLACES;
/// Flag in a link: the holder has changed the row, or will (Rule: I54).
const WRITTEN: u32 = 1 << 24;
/// Flag in a link: a lock on a tree.
const TABLE: u32 = 1 << 25;
/// Flag in a word: the rest is a queue's number, not a mode and an owner.
const QUEUED: u32 = 1 << 31;
const MODE_SHIFT: u32 = 28;
const OWNER: u32 = (1 << MODE_SHIFT) - 1;

/// An empty shard with more places than this frees its memory; 28 KiB are worth keeping warm.
const PLACES_KEPT: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// In four parts; otherwise the slot would be padded to 32 bytes.
    hash: [u32; 4],
    tree: u32,
    word: u32,
    /// The next place of the bucket, or of the free list; and flags.
    link: u32,
}

fn quarters(hash: LockHash) -> [u32; 4] {
    [hash.0 as u32, (hash.0 >> 32) as u32, (hash.0 >> 64) as u32, (hash.0 >> 96) as u32]
}

impl Slot {
    fn name(&self) -> Name {
        let hash = self.hash.iter().rev().fold(0, |hash, &part| hash << 32 | u128::from(part));
        Name { tree: TreeId(self.tree), hash: LockHash(hash), is_table: self.link & TABLE != 0 }
    }

    fn next(&self) -> u32 {
        self.link & PLACES
    }

    fn set_next(&mut self, next: u32) {
        self.link = self.link & !PLACES | next;
    }
}

fn word(owner: u32, mode: Mode) -> u32 {
    (mode as u32) << MODE_SHIFT | owner
}

#[derive(Debug)]
pub(super) struct Shard {
    slots: Vec<Slot>,
    /// First places of the buckets; a power of two of them.
    buckets: Vec<u32>,
    free: u32,
    live: usize,
    queues: Vec<Queue>,
    free_queues: Vec<u32>,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            buckets: vec![NONE; 8],
            free: NONE,
            live: 0,
            queues: Vec::new(),
            free_queues: Vec::new(),
        }
    }
}

impl Shard {
    /// Number of locks.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Memory used, except for queues.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.buckets.capacity() * size_of::<u32>()
    }

    fn find(&self, hash: LockHash) -> Option<u32> {
        let parts = quarters(hash);
        let mut at = self.buckets[hash.bucket(self.buckets.len())];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.hash == parts {
                return Some(at);
            }
            at = slot.next();
        }
        None
    }

    /// Requests a lock, or a stronger mode of a lock that is held, without waiting. Returns its
    /// place and the result, or `None` if there is a conflict.
    pub fn ask(
        &mut self,
        name: Name,
        owner: u32,
        mode: Mode,
        writes: bool,
    ) -> Option<(u32, Taken)> {
        let Some(at) = self.find(name.hash) else {
            return Some((self.insert(name, word(owner, mode), writes), Taken::New));
        };
        let slot = &mut self.slots[at as usize];
        let taken = if slot.word & QUEUED == 0 {
            let (holder, held) = (slot.word & OWNER, Mode::from_bits(slot.word >> MODE_SHIFT));
            if holder == owner {
                let joint = held.join(mode);
                slot.word = word(owner, joint);
                if joint == held { Taken::AlreadyHeld } else { Taken::Upgraded }
            } else if held.admits(mode) {
                self.queue_of(at).hold(owner, mode);
                Taken::New
            } else {
                return None;
            }
        } else {
            let queue = &mut self.queues[(slot.word & !QUEUED) as usize];
            match queue.held(owner) {
                Some(held) if held.covers(mode) => Taken::AlreadyHeld,
                // Ahead of the waiters: they wait for this holder, too, or do not conflict with it.
                Some(held) => {
                    let joint = held.join(mode);
                    if !queue.holders_admit(owner, joint) || !queue.upgraders_admit(joint) {
                        return None;
                    }
                    queue.hold(owner, joint);
                    Taken::Upgraded
                }
                None if queue.holders_admit(owner, mode) && queue.waiters_admit(mode) => {
                    queue.hold(owner, mode);
                    Taken::New
                }
                None => return None,
            }
        };
        if writes {
            self.slots[at as usize].link |= WRITTEN;
        }
        Some((at, taken))
    }

    /// Adds an owner to the queue of a lock that was just refused to it.
    pub fn enqueue(&mut self, hash: LockHash, owner: Arc<Owner>, mode: Mode) {
        let at = self
            .find(hash)
            .expect("invariant 1: the owner that refuses it holds the lock or waits");
        let queue = self.queue_of(at);
        let held = queue.held(owner.number());
        let joint = held.map_or(mode, |held| held.join(mode));
        queue.enqueue(Waiter { owner, mode: joint, upgrades: held.is_some() });
    }

    /// Removes a waiter from the queue; false if it does not wait there any more.
    pub fn withdraw(
        &mut self,
        hash: LockHash,
        owner: u32,
        granted: impl FnMut(u32, &Owner),
    ) -> bool {
        let Some(at) = self.find(hash) else { return false };
        let word = self.slots[at as usize].word;
        if word & QUEUED == 0 || !self.queues[(word & !QUEUED) as usize].withdraw(owner) {
            return false;
        }
        self.grant_waiting(at, granted);
        true
    }

    /// Releases a lock.
    pub fn release(&mut self, at: u32, owner: u32, granted: impl FnMut(u32, &Owner)) {
        let slot = &mut self.slots[at as usize];
        if slot.word & QUEUED == 0 {
            assert_eq!(slot.word & OWNER, owner, "invariant 1: a place is its holder's");
            self.remove(at);
            return;
        }
        slot.link &= !WRITTEN; // a flag of exclusive holders: if this one is not, there is none
        let dropped = self.queues[(slot.word & !QUEUED) as usize].drop_holder(owner);
        assert!(dropped, "invariant 1: a place is its holder's");
        self.grant_waiting(at, granted);
    }

    /// Downgrades a lock.
    pub fn downgrade(&mut self, at: u32, owner: u32, mode: Mode, granted: impl FnMut(u32, &Owner)) {
        let slot = &mut self.slots[at as usize];
        slot.link &= !WRITTEN;
        if slot.word & QUEUED == 0 {
            slot.word = word(owner, mode);
            return;
        }
        self.queues[(slot.word & !QUEUED) as usize].hold(owner, mode);
        self.grant_waiting(at, granted);
    }

    /// Makes an owner hold a lock that it already holds elsewhere (`tables.rs`).
    pub fn hold(&mut self, name: Name, owner: u32, mode: Mode) {
        match self.find(name.hash) {
            None => drop(self.insert(name, word(owner, mode), false)),
            Some(at) if self.slots[at as usize].word & (QUEUED | OWNER) == owner => {
                let slot = &mut self.slots[at as usize];
                slot.word = word(owner, Mode::from_bits(slot.word >> MODE_SHIFT).join(mode));
            }
            Some(at) => {
                let queue = self.queue_of(at);
                let joint = queue.held(owner).map_or(mode, |held| held.join(mode));
                queue.hold(owner, joint);
            }
        }
    }

    /// Marks a row lock: its holder will change the row.
    pub fn mark_written(&mut self, hash: LockHash) {
        if let Some(at) = self.find(hash) {
            self.slots[at as usize].link |= WRITTEN;
        }
    }

    /// The place of a lock, and the mode in which this owner holds it.
    pub fn held(&self, hash: LockHash, owner: u32) -> Option<(u32, Mode)> {
        let at = self.find(hash)?;
        self.mode_at(at, owner).map(|mode| (at, mode))
    }

    fn mode_at(&self, at: u32, owner: u32) -> Option<Mode> {
        let word = self.slots[at as usize].word;
        if word & QUEUED != 0 {
            return self.queues[(word & !QUEUED) as usize].held(owner);
        }
        (word & OWNER == owner).then(|| Mode::from_bits(word >> MODE_SHIFT))
    }

    /// The lock in a place that this owner holds: its name, mode, and whether it is for writing.
    pub fn look(&self, at: u32, owner: u32) -> Option<(Name, Mode, bool)> {
        let slot = self.slots.get(at as usize)?;
        let mode = self.mode_at(at, owner)?;
        Some((slot.name(), mode, slot.link & WRITTEN != 0))
    }

    /// Calls `each` for every lock and holder until it returns false; returns the number of locks
    /// visited.
    pub fn each(&self, mut each: impl FnMut(Name, u32, Mode) -> bool) -> usize {
        let mut handed = 0;
        for &first in &self.buckets {
            let mut at = first;
            while at != NONE {
                let slot = &self.slots[at as usize];
                at = slot.next();
                handed += 1;
                let goes_on = if slot.word & QUEUED == 0 {
                    each(slot.name(), slot.word & OWNER, Mode::from_bits(slot.word >> MODE_SHIFT))
                } else {
                    let queue = &self.queues[(slot.word & !QUEUED) as usize];
                    queue.holders().iter().all(|&(holder, mode)| each(slot.name(), holder, mode))
                };
                if !goes_on {
                    return handed;
                }
            }
        }
        handed
    }

    /// The queue of a lock, if it has one.
    pub fn queue(&self, hash: LockHash) -> Option<&Queue> {
        let word = self.slots[self.find(hash)? as usize].word;
        (word & QUEUED != 0).then(|| &self.queues[(word & !QUEUED) as usize])
    }

    /// An owner that conflicts with a request in this mode by an owner that does not wait yet.
    pub fn refuses(&self, hash: LockHash, owner: u32, mode: Mode) -> Option<u32> {
        let word = self.slots[self.find(hash)? as usize].word;
        if word & QUEUED == 0 {
            return Some(word & OWNER);
        }
        let queue = &self.queues[(word & !QUEUED) as usize];
        let joint = queue.held(owner).map_or(mode, |held| held.join(mode));
        let mut holders = queue.holders().iter();
        let holder = holders.find(|held| held.0 != owner && !joint.admits(held.1));
        let waiter = || queue.waiting.iter().find(|waiter| !joint.admits(waiter.mode));
        holder.map(|held| held.0).or_else(|| waiter().map(|waiter| waiter.owner.number()))
    }

    /// The queue of a place; created from its one holder if necessary.
    fn queue_of(&mut self, at: u32) -> &mut Queue {
        let slot = &mut self.slots[at as usize];
        if slot.word & QUEUED == 0 {
            let number = self.free_queues.pop().unwrap_or_else(|| {
                self.queues.push(Queue::default());
                self.queues.len() as u32 - 1
            });
            let holder = (slot.word & OWNER, Mode::from_bits(slot.word >> MODE_SHIFT));
            self.queues[number as usize].hold(holder.0, holder.1);
            slot.word = QUEUED | number;
        }
        &mut self.queues[(slot.word & !QUEUED) as usize]
    }

    /// Grants what can be granted, and removes the queue if it is no longer needed.
    fn grant_waiting(&mut self, at: u32, mut granted: impl FnMut(u32, &Owner)) {
        let word = &mut self.slots[at as usize].word;
        let number = *word & !QUEUED;
        let queue = &mut self.queues[number as usize];
        if !plant!("locks: a release wakes no waiter") {
            queue.promote(|owner| granted(at, owner));
        }
        if !queue.waiting.is_empty() || queue.holders().len() > 1 {
            return;
        }
        let last = queue.holders().first().copied();
        if let Some((owner, mode)) = last {
            queue.drop_holder(owner);
            *word = self::word(owner, mode);
        } else {
            self.remove(at);
        }
        self.free_queues.push(number);
    }

    fn insert(&mut self, name: Name, word: u32, writes: bool) -> u32 {
        if self.live >= self.buckets.len() {
            self.rehash(self.buckets.len() * 2);
        }
        let flags = if name.is_table { TABLE } else { 0 } | if writes { WRITTEN } else { 0 };
        let bucket = name.hash.bucket(self.buckets.len());
        let slot = Slot {
            hash: quarters(name.hash),
            tree: name.tree.0,
            word,
            link: self.buckets[bucket] | flags,
        };
        let at = self.free;
        let at = if at == NONE {
            let at = self.slots.len() as u32;
            assert!(at < PLACES, "more locks at once than the table can name");
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(self.slots.len() / 4 + 16);
            }
            self.slots.push(slot);
            at
        } else {
            self.free = self.slots[at as usize].next();
            self.slots[at as usize] = slot;
            at
        };
        self.buckets[bucket] = at;
        self.live += 1;
        at
    }

    fn remove(&mut self, at: u32) {
        let slot = self.slots[at as usize];
        let bucket = slot.name().hash.bucket(self.buckets.len());
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = slot.next();
        } else {
            while self.slots[before as usize].next() != at {
                before = self.slots[before as usize].next();
            }
            self.slots[before as usize].set_next(slot.next());
        }
        self.slots[at as usize].link = self.free;
        self.free = at;
        self.live -= 1;
        if self.live == 0 && self.slots.len() > PLACES_KEPT {
            *self = Self::default();
        }
    }

    fn rehash(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![NONE; buckets]);
        for mut at in old {
            while at != NONE {
                let slot = &mut self.slots[at as usize];
                let next = slot.next();
                let bucket = slot.name().hash.bucket(buckets);
                slot.set_next(self.buckets[bucket]);
                self.buckets[bucket] = at;
                at = next;
            }
        }
    }
}
