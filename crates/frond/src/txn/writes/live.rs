//! The writes of a live transaction where other threads can reach them.
//!
//! Write sets are private, so a range that somebody locks may hold keys that nobody sees yet. Both sides
//! publish first and look then, so that one of them meets the other (Rule: I33):
//!
//! - Who inserts appends the entry, is listed in the tree's [`TreeWriters`](crate::txn::TreeWriters) from
//!   his first entry there on, and then looks for range locks on the key.
//! - Who locks a range registers the lock, then asks each listed writer for pending keys in it, waits for
//!   their locks, and only then reads.
//!
//! Every key with an entry counts as pending, also one that was deleted again: a rollback to a savepoint may
//! bring it back. Range deletes count for nothing: what they delete is in the store, and whoever scans meets
//! it there.
//!
//! Invariant: a key is found here from its append until its commit is visible or it is rolled back: in
//! the set as it grows, in the sealed set, or where that was taken to.
//!
//! Threads: all. The lock is held for a few entries at a time, for nothing that is not of this room, and
//! under no other lock of it. Two things take longer in a large set: to put its keys in order for the first
//! scan or the first question, and to seal it.

use crate::{
    TreeId,
    run::Direction,
    sync::{Arc, Mutex, MutexGuard, thread_number},
    txn::WriteSet,
    version::SpilledWrites,
};

use super::{Pieces, TxnWrites, trees::TreeWrites, view::View};

/// Who has a sealed write set while its commit is on its way.
pub(crate) trait HoldsWrites: Send + Sync + std::fmt::Debug {
    /// The set, sealed.
    fn writes(&self) -> &WriteSet;
}

/// The writes of one transaction, shared with those who must know of them.
#[derive(Debug, Default)]
pub struct LiveWrites {
    number: u64,
    /// Which list of a tree's writers it stands in: that of the thread that began it, so that threads seldom meet there.
    place: usize,
    writes: Mutex<TxnWrites>,
}

impl LiveWrites {
    /// Empty, of the transaction of this number.
    pub fn new(number: u64) -> Self {
        Self { number, place: thread_number(), writes: Mutex::default() }
    }

    /// Makes it the next transaction's, which nobody else knows yet.
    pub(crate) fn renew(&mut self, number: u64) {
        (self.number, self.place) = (number, thread_number());
    }

    /// The writes. Held for a call or two: others wait for it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, TxnWrites> {
        self.writes.lock().unwrap()
    }

    /// True if it takes at most so much memory, and no panic has left anything in it.
    pub(crate) fn is_within(&self, bytes_max: usize) -> bool {
        self.writes.lock().is_ok_and(|writes| writes.bytes() <= bytes_max)
    }

    /// Forgets everything, whatever a panic has left of it.
    pub(crate) fn clear(&self) {
        self.writes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What has left memory, if anything has. For who has looked at what is in memory before: what left it meanwhile
    /// is here.
    pub(crate) fn pieces(&self) -> Option<Pieces> {
        pieces_of(&self.lock())
    }

    /// Whatever the transaction has written beyond memory, also what counts no more: its rows are locked.
    pub(crate) fn all_pieces(&self) -> (Pieces, Arc<Vec<Arc<SpilledWrites>>>) {
        let writes = self.lock();
        (writes.pieces().clone(), writes.dropped().clone())
    }

    /// True if the sealed set, or where it went, has an entry of a key.
    pub(crate) fn is_in_sealed(&self, tree: TreeId, key: &[u8]) -> bool {
        let mut writes = self.lock();
        writes.is_sealed && writes.first_key(tree, key) == Some(key)
    }

    /// Hands keys of a tree to `each` that have entries in memory, from the newest of all entries back, so many of which are looked
    /// at; one may come more than once, and none if a commit is on its way. For people who look, who hold nobody up: the lock
    /// is let go every now and then.
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

    /// The first unpublished key in `[from, to)` that is in memory, put into `found`; false if there is none. Who needs
    /// all asks again behind it, and looks into the [`pieces`](Self::pieces).
    pub fn pending_key(
        &self,
        tree: TreeId,
        from: &[u8],
        to: Option<&[u8]>,
        found: &mut Vec<u8>,
    ) -> bool {
        self.pending(tree, (from, to), Direction::Forward, found).0
    }

    /// The same from either end, and the pieces of that moment.
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

    /// The keys of a tree in order, put in order if nobody has asked before; `None` if there are none.
    ///
    /// Also for a few: to keep their view up to date costs less than to sort them for the second scan.
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
