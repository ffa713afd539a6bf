//! Key locks of checked inserts: an array of locks, indexed by the hash of (tree, key).
//!
//! A commit with checked inserts, or one that writes a tree with such inserts, takes the locks of
//! all its keys there, in array order, so that no two commits deadlock. It holds them until it is
//! visible (Rule: I3). Unrelated keys may share a lock: that costs a wait, never a deadlock.
//!
//! Threads: all.

use crate::{
    TreeId,
    sync::{Mutex, MutexGuard},
};

/// Number of locks. With a hundred committers of ten keys each, one key in four meets another.
const LOCKS: usize = if cfg!(shuttle) { 2 } else { 4096 };

#[derive(Debug)]
pub(crate) struct KeyLockTable {
    locks: Box<[Mutex<()>]>,
}

/// Acquired locks; released together on drop.
#[derive(Debug)]
pub(crate) struct KeyLocks<'a> {
    _held: Vec<MutexGuard<'a, ()>>,
}

/// The hash that selects the lock of a key.
pub(crate) fn lock_hash(tree: TreeId, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(tree.0))
}

impl Default for KeyLockTable {
    fn default() -> Self {
        Self { locks: (0..LOCKS).map(|_| Mutex::new(())).collect() }
    }
}

impl KeyLockTable {
    /// Acquires the locks of all `hashes`.
    pub fn lock(&self, hashes: Vec<u64>) -> KeyLocks<'_> {
        let mut places: Vec<usize> = hashes.iter().map(|hash| *hash as usize % LOCKS).collect();
        places.sort_unstable();
        places.dedup();
        KeyLocks { _held: places.iter().map(|&place| self.locks[place].lock().unwrap()).collect() }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
