//! Rows of transactions whose writes have left memory: those writes are their locks (Rule: I47).
//!
//! A transaction of millions of rows would need as many places of the table. Instead it answers for the rows whose
//! entries lie in its sorted runs, and their locks leave the table. Who locks a row asks such transactions, once the
//! row is had from the table; who finds the row with one of them waits for its end: each of them holds one lock more,
//! which stands for itself.
//!
//! Invariants
//! 1. A transaction is listed before a lock of it leaves the table, and until its commit is visible or its rollback
//!    done; a row is asked for here behind the table. So of a row that it holds, one of the two is found.
//! 2. It asks for none of its own rows again: who has taken one from the table and waits for it, it does not wait for.
//!
//! Threads: all. While nobody is listed, a row costs one load more. Rank: the list is locked below nothing.

use std::fmt;

use super::{
    LockTable,
    denied::{Denied, LockOn, Patience, Request},
    lock_set::LockSet,
    mode::Mode,
    rows::{NOTED, granting, parts},
    shard::{LockHash, Taken},
};
use crate::{
    TreeId,
    sync::{Arc, AtomicUsize, Ordering, RwLock},
};

/// The tree in whose name locks stand that are transactions' own: none.
pub(super) const OWNERS: TreeId = TreeId(u32::MAX);

/// Says which rows a transaction has written that are not in memory.
pub trait HoldsRows: Send + Sync + fmt::Debug {
    /// Whether it has; nothing if that cannot be found out. Others wait for who may have a row, and who may have it himself
    /// asks the table.
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool>;
}

/// A transaction that answers for rows.
#[derive(Clone, Debug)]
struct Holder {
    /// Its id, which no other transaction has, or had.
    id: u64,
    /// The lock by which others wait for its end.
    end: LockHash,
    rows: Arc<dyn HoldsRows>,
}

/// All of them; there are seldom any, and never many.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    count: AtomicUsize,
    holders: RwLock<Vec<Holder>>,
}

impl Spilled {
    #[inline]
    pub fn any(&self) -> bool {
        // Pairs with the store in `list`: the shard's mutex, which the row was taken under, is between.
        self.count.load(Ordering::Acquire) > 0
    }

    fn list(&self, holder: Holder) {
        let mut holders = self.holders.write().unwrap();
        holders.push(holder);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Others wait for the end of this one by another lock from here on.
    fn replace_end(&self, id: u64, end: LockHash) {
        let mut holders = self.holders.write().unwrap();
        holders.iter_mut().filter(|holder| holder.id == id).for_each(|holder| holder.end = end);
    }

    fn forget(&self, id: u64) {
        let mut holders = self.holders.write().unwrap();
        holders.retain(|holder| holder.id != id);
        self.count.store(holders.len(), Ordering::Release);
    }

    fn others(&self, id: u64) -> Vec<Holder> {
        let holders = self.holders.read().unwrap();
        holders.iter().filter(|holder| holder.id != id).cloned().collect()
    }
}

impl LockTable {
    /// From here on `rows` answers for the locks of this set whose writes `has_left` memory, by tree and hash of the
    /// key; they leave the table.
    pub fn spill(
        &self,
        locks: &mut LockSet,
        rows: Arc<dyn HoldsRows>,
        mut has_left: impl FnMut(TreeId, u128) -> bool,
    ) {
        if locks.spilled.is_none() {
            let id = locks.owner.id();
            let end = LockHash::of_owner(id, true);
            self.take_own(locks, end);
            self.spilled.list(Holder { id, end, rows: rows.clone() });
            locks.spilled = Some(rows);
        }
        self.release_others(locks, |name, _, writes| {
            !writes || name.is_table || !has_left(name.tree, name.hash.0)
        });
    }

    /// Takes the lock that stands for the set's owner.
    fn take_own(&self, locks: &mut LockSet, hash: LockHash) {
        let own = Request {
            on: LockOn::Row,
            tree: OWNERS,
            hash,
            mode: Mode::Exclusive,
            writes: false,
            row: None,
        };
        self.take(locks, &own, None, Patience::NoWait)
            .expect("nobody asks for it before it is listed");
    }

    /// The set answers for fewer rows than before, once: who waits for its end looks again whether he has to.
    pub fn answers_for_fewer(&self, locks: &mut LockSet) {
        if locks.spilled.is_none() {
            return;
        }
        let (id, new) = (locks.owner.id(), LockHash::of_owner(locks.owner.id(), false));
        self.take_own(locks, new);
        self.spilled.replace_end(id, new);
        self.release_others(locks, |name, _, _| name.tree != OWNERS || name.hash == new);
    }

    /// True if the set answers for the row itself: it has it. What it cannot find out is not enough: where a read had failed,
    /// it took a row to be its own that another held in the table, and both went on.
    #[inline]
    pub(super) fn is_spilled_own(&self, locks: &LockSet, tree: TreeId, key: &[u8]) -> bool {
        let Some(rows) = &locks.spilled else { return false };
        let holds = rows.holds(tree, key);
        holds.unwrap_or(plant!("locks: what cannot be read is one's own"))
    }

    /// Waits for those who answer for the row that was wanted. It was had from the table before.
    #[cold]
    pub(super) fn pass_spilled(
        &self,
        locks: &mut LockSet,
        wanted: &Request,
        key: &[u8],
        patience: Patience,
    ) -> Result<(), Denied> {
        let tree = wanted.tree;
        loop {
            let mut others = self.spilled.others(locks.owner.id());
            if plant!("txn: rows that left memory are nobody's") {
                others.clear();
            }
            let may_hold = |holder: &Holder| holder.rows.holds(tree, key) != Some(false);
            let Some(holder) = others.into_iter().find(may_hold) else { return Ok(()) };
            let end = Request {
                on: LockOn::Row,
                tree,
                hash: holder.end,
                mode: Mode::Shared,
                writes: false,
                // A wait, a refusal and a deadlock are of the row, which was known by its key alone: they named the hash of
                // the holder's own lock, and a writer's wait was called a shared one.
                row: Some((wanted.hash, wanted.mode)),
            };
            let waited = self.take(locks, &end, Some(key), patience);
            if let Ok((place, Taken::New)) = waited {
                self.give_back(locks, place);
            }
            waited?;
        }
    }

    /// Gives the lock of one place back.
    pub(super) fn give_back(&self, locks: &mut LockSet, place: u32) {
        let (shard, at) = parts(place);
        let index = locks.held.iter().rposition(|&held| held == place).expect(NOTED);
        locks.held.remove(index);
        let number = locks.owner.number();
        self.shards[shard].0.lock().unwrap().release(at, number, granting(shard));
    }

    /// The end of a set that answered for rows.
    pub(super) fn forget_spilled(&self, locks: &mut LockSet) {
        if locks.spilled.take().is_some() {
            self.spilled.forget(locks.owner.id());
        }
    }
}
