//! The writes of a live transaction, reachable by other threads.
//!
//! Write sets are private, so a range that another transaction locks may contain keys that it
//! cannot see yet. Both sides publish first and look then, so that one of them finds the other
//! (Rule: I33):
//!
//! - An inserter appends the entry, is listed in the tree's
//!   [`TreeWriters`](crate::txn::TreeWriters) from its first entry there on, and then looks for
//!   range locks on the key.
//! - A locker registers its range lock, then asks each listed writer for pending keys in the range,
//!   waits for their locks, and only then reads.
//!
//! Every key with an entry counts as pending, even if it was deleted again: a rollback to a
//! savepoint may bring it back. Range deletes do not count: what they delete is in the store, and a
//! scan finds it there.
//!
//! Invariant: a key is found here from its append until its commit is visible or it is rolled back:
//! in the growing set, in the sealed set, or in the sealed set's new holder.
//!
//! Threads: all. The lock is held for a few entries at a time, for nothing outside this module, and
//! under no other lock of it. Two operations take longer in a large set: ordering its keys for the
//! first scan or the first search by another thread, and sealing it.

use crate::{
    TreeId,
    run::Direction,
    sync::{Arc, Mutex, MutexGuard, thread_number},
    txn::WriteSet,
    version::SpilledWrites,
};

use super::{Pieces, TxnWrites, trees::TreeWrites, view::View};

/// The holder of a sealed write set while its commit is in progress.
pub(crate) trait HoldsWrites: Send + Sync + std::fmt::Debug {
    /// The sealed set.
    fn writes(&self) -> &WriteSet;
}

/// The writes of one transaction, shared with other threads that search them for keys.
#[derive(Debug, Default)]
pub struct LiveWrites {
    number: u64,
    /// Selects the list in a tree's writers: by the thread that started the transaction, so that
    /// threads seldom share a list.
    place: usize,
    writes: Mutex<TxnWrites>,
}

impl LiveWrites {
    /// Empty writes of the transaction with this number.
    pub fn new(number: u64) -> Self {
        Self { number, place: thread_number(), writes: Mutex::default() }
    }

    /// Reuses this for the next transaction, which no other thread knows yet.
    pub(crate) fn renew(&mut self, number: u64) {
        (self.number, self.place) = (number, thread_number());
    }

    /// Locks the writes. Hold the lock for a call or two only: others wait for it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, TxnWrites> {
        self.writes.lock().unwrap()
    }

    /// True if the memory used is at most `bytes_max`, and no panic has left the lock poisoned.
    pub(crate) fn is_within(&self, bytes_max: usize) -> bool {
        self.writes.lock().is_ok_and(|writes| writes.bytes() <= bytes_max)
    }

    /// Clears everything, even after a panic.
    pub(crate) fn clear(&self) {
        self.writes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The pieces that were spilled, if any. Call it after searching what is in memory: whatever
    /// was spilled since then is here.
    pub(crate) fn pieces(&self) -> Option<Pieces> {
        pieces_of(&self.lock())
    }

    /// Everything that the transaction has spilled, including rolled-back pieces:
    /// their rows are locked.
    pub(crate) fn all_pieces(&self) -> (Pieces, Arc<Vec<Arc<SpilledWrites>>>) {
        let writes = self.lock();
        (writes.pieces().clone(), writes.dropped().clone())
    }

    /// True if the sealed set, or its holder, has an entry of a key.
    pub(crate) fn is_in_sealed(&self, tree: TreeId, key: &[u8]) -> bool {
        let mut writes = self.lock();
        writes.is_sealed && writes.first_key(tree, key) == Some(key)
    }

    /// Passes keys of a tree with entries in memory to `each`, looking at the newest `max` entries
    /// of all trees, newest first. A key may come more than once, and none comes if a commit is in
    /// progress. For diagnostics that must not delay other threads: the lock is released every now
    /// and then.
    pub(crate) fn newest_keys(&self, tree: TreeId, max: usize, mut each: impl FnMut(&[u8])) {
        const AT_ONCE: usize = 64;
        let mut end = usize::MAX;
        for _ in 0..max.div_ceil(AT_ONCE) {
            let writes = self.lock();
            if writes.is_sealed {
                return;
            }
            end = end.min(writes.set.entry_count());
            let begin = end.saturating_sub(AT_ONCE);
            for slot in (begin..end).rev().map(|slot| slot as u32) {
                if writes.set.tree_at(slot) == tree {
                    each(writes.set.key_at(slot));
                }
            }
            if begin == 0 {
                return;
            }
            end = begin;
        }
    }

    /// Stores the first unpublished key in `[from, to)` that is in memory in `found`; false if
    /// there is none. To get all of them, ask again after each, and look into the
    /// [`pieces`](Self::pieces).
    pub fn pending_key(
        &self,
        tree: TreeId,
        from: &[u8],
        to: Option<&[u8]>,
        found: &mut Vec<u8>,
    ) -> bool {
        self.pending(tree, (from, to), Direction::Forward, found).0
    }

    /// Finds an unpublished key like [`pending_key`](Self::pending_key), from either end; also
    /// returns the pieces as of that moment.
    pub(crate) fn pending(
        &self,
        tree: TreeId,
        (from, to): (&[u8], Option<&[u8]>),
        direction: Direction,
        found: &mut Vec<u8>,
    ) -> (bool, Option<Pieces>) {
        let mut writes = self.lock();
        let key = match direction {
            Direction::Forward => writes.first_key(tree, from),
            Direction::Backward => writes.last_key(tree, to),
        };
        let key = key.filter(|&key| key >= from && to.is_none_or(|to| key < to));
        found.clear();
        let any = key.is_some_and(|key| {
            found.extend_from_slice(key);
            true
        });
        (any, pieces_of(&writes))
    }
}

fn pieces_of(writes: &TxnWrites) -> Option<Pieces> {
    writes.is_spilled().then(|| writes.pieces().clone())
}

impl TxnWrites {
    /// The first key of a tree that has an entry and is not below `from`.
    fn first_key(&mut self, tree: TreeId, from: &[u8]) -> Option<&[u8]> {
        if !self.leaving.is_empty() {
            // Nothing is appended meanwhile.
            return self.first_leaving(tree, from);
        }
        if !self.is_sealed {
            let (set, view) = self.view(tree)?;
            return view.first(view.seek(set, from)).map(|first| set.key_at(first));
        }
        match &self.gone_to {
            Some(holder) if !plant!("txn: nothing is pending in a set on its way") => {
                holder.writes().first_key(tree, from)
            }
            _ => self.set.first_key(tree, from),
        }
    }

    /// The last key of a tree that has an entry and is below `to`.
    fn last_key(&mut self, tree: TreeId, to: Option<&[u8]>) -> Option<&[u8]> {
        if !self.leaving.is_empty() {
            return self.last_leaving(tree, to);
        }
        if !self.is_sealed {
            let (set, view) = self.view(tree)?;
            let end = to.map_or(view.end(), |to| view.seek(set, to));
            return view.first(view.previous(end)?).map(|first| set.key_at(first));
        }
        match &self.gone_to {
            Some(holder) => holder.writes().last_key(tree, to),
            None => self.set.last_key(tree, to),
        }
    }

    /// The ordered keys of a tree, ordered now if this is the first request; `None` if there are
    /// none.
    ///
    /// This pays off for a few keys, too: keeping a view up to date costs less than sorting again
    /// for the second scan.
    pub(super) fn view(&mut self, tree: TreeId) -> Option<(&WriteSet, &View)> {
        let Self { set, chains, trees, .. } = self;
        let TreeWrites { keys, view, .. } = trees.get_mut(tree).filter(|state| state.keys > 0)?;
        let view = view.get_or_insert_with(|| {
            // From the newest on: the tree that is scanned is often the one just written.
            let slots = (0..set.entry_count() as u32).rev();
            let firsts = slots.filter(|&slot| chains.is_first(slot) && set.tree_at(slot) == tree);
            View::new(set, firsts.take(*keys))
        });
        Some((set, view))
    }
}
