//! Reports of held locks, with their owners, tree names and starts of keys.
//!
//! The lock table knows rows by hashes (`txn/lock_table/held_locks.rs`). The keys of rows that a
//! live transaction has written are found among its newest writes.
//!
//! Threads: all. A writer waits for a thread that reports locks only while that looks at some tens
//! of keys.

use std::collections::{HashMap, HashSet};

use crate::{
    Result, TreeId,
    db::{Db, Shared, Tree},
    sync::Arc,
    txn::{
        LiveWrites,
        lock_table::{HeldLock, HeldLocks, HeldOn, LockMode, LockTable},
    },
    types::KeyStart,
};

use super::TxnControl;

/// Number of entries of a transaction that are searched, newest first.
const LOOKED_AT: usize = 4096;

impl Db {
    /// Returns up to `max` locks that are currently held, ordered by owner, and about how many more
    /// there are. It is not a consistent snapshot: locks are acquired and released meanwhile. Lock
    /// calls wait for this one no longer than for each other.
    ///
    /// A row's key is included if its transaction has written it recently, or if another
    /// transaction waits for it; otherwise only its hash. Rows whose writes were spilled are not
    /// listed.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::lock::HeldOn;
    ///
    /// let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(frond::TxnOptions::new().tag(7))?;
    /// txn.put(&tree, b"key", b"value")?;
    /// let held = db.locks(100);
    /// assert_eq!((held.locks.len(), held.more), (2, 0), "the tree, by an intent, and the row");
    /// let HeldOn::Row { key_hash, key } = &held.locks[1].on else { panic!() };
    /// assert_eq!((held.locks[1].tag, *key_hash), (7, tree.key_hash(b"key")));
    /// assert_eq!(key.as_ref().unwrap().as_bytes(), b"key");
    /// # txn.rollback();
    /// # drop(tree);
    /// # db.close()
    /// # }
    /// ```
    pub fn locks(&self, max: usize) -> HeldLocks {
        let mut held = self.shared.locking.table.held(max);
        let mut writers = Vec::new();
        for tree in self.shared.name_trees(&mut held.locks) {
            let Some(entry) = self.shared.catalog.by_id(tree) else { continue };
            writers.clear();
            entry.writers.others(None, &mut writers);
            tell_keys(&mut held.locks, tree, &writers);
        }
        held
    }
}

impl TxnControl<'_> {
    /// Returns up to `max` locks that the transaction holds, and how many more there are: trees,
    /// gaps, then rows in the order in which they were locked. Otherwise as [`Db::locks`].
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn locks(&self, max: usize) -> Result<HeldLocks> {
        let state = self.txn.stay()?;
        let table = &self.txn.shared.locking.table;
        let mut held =
            state.locks.as_ref().map_or_else(HeldLocks::default, |locks| table.held_by(locks, max));
        for tree in self.txn.shared.name_trees(&mut held.locks) {
            tell_keys(&mut held.locks, tree, std::slice::from_ref(&self.txn.buffer.live));
        }
        Ok(held)
    }
}

impl Tree {
    /// The hash that stands for a key of this tree in lock reports; equal only for equal keys, as
    /// far as 128 bits can tell.
    pub fn key_hash(&self, key: impl AsRef<[u8]>) -> u128 {
        let key = key.as_ref();
        LockTable::row_hash(self.id(), key)
    }
}

impl Shared {
    /// Fills in tree names; returns the trees with rows whose keys may be found.
    fn name_trees(&self, locks: &mut [HeldLock]) -> Vec<TreeId> {
        let mut names: HashMap<TreeId, String> = HashMap::new();
        let mut trees = Vec::new();
        for lock in locks {
            let name = names.entry(lock.tree).or_insert_with(|| self.tree_name(lock.tree));
            lock.tree_name.clone_from(name);
            if lock.mode == LockMode::Exclusive
                && matches!(lock.on, HeldOn::Row { key: None, .. })
                && !trees.contains(&lock.tree)
            {
                trees.push(lock.tree);
            }
        }
        trees
    }
}

/// Fills in the keys of a tree's rows that these writers have written.
fn tell_keys(locks: &mut [HeldLock], tree: TreeId, writers: &[Arc<LiveWrites>]) {
    let mut unknown: HashMap<(u64, u128), usize> = HashMap::new();
    for (at, lock) in locks.iter().enumerate() {
        if lock.tree == tree
            && let HeldOn::Row { key_hash, key: None } = &lock.on
        {
            unknown.insert((lock.owner, *key_hash), at);
        }
    }
    let owners: HashSet<u64> = unknown.keys().map(|(owner, _)| *owner).collect();
    for writer in writers.iter().filter(|writer| owners.contains(&writer.number())) {
        writer.newest_keys(tree, LOOKED_AT, |key| {
            let hash = LockTable::row_hash(tree, key);
            if let Some(at) = unknown.get(&(writer.number(), hash))
                && let HeldOn::Row { key: place, .. } = &mut locks[*at].on
            {
                *place = Some(KeyStart::of(key));
            }
        });
    }
}
