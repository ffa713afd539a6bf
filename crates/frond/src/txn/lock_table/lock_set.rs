//! What one transaction holds.
//!
//! A place of four bytes for each lock of the table, its ranges, and how many intents it has written
//! down. It is the transaction's own, so nothing here is guarded; others see its [`Owner`].
//!
//! Threads: one at a time. A transaction that was prepared may go on in another.

use std::time::Duration;

use super::{owner::Owner, ranges::RangeLock, room::LOCKS_FREE, shard::Taken, spilled::HoldsRows};
use crate::{
    TreeId,
    sync::{Arc, panicking},
};

/// The locks of a transaction. To be given back by [`LockTable::release_all`](super::LockTable::release_all)
/// before it is dropped, or others would wait for it for ever: that it is empty then is asserted.
#[derive(Debug)]
pub struct LockSet {
    pub(super) owner: Arc<Owner>,
    /// Shard and place of each lock of the table.
    pub(super) held: Vec<u32>,
    /// Where the rows lie that were asked for last, together, and what that came to.
    pub(super) last: Vec<(u32, Taken)>,
    /// The next row belongs to those.
    pub(super) joins: bool,
    pub(super) ranges: Vec<RangeLock>,
    /// How many of the owner's places for intents are in use.
    pub(super) intents: usize,
    /// Trees that it has, or has asked for, for itself: once for each time.
    pub(super) strong: Vec<TreeId>,
    /// With so many locks it is looked whether there is memory for more.
    pub(super) looks_at: usize,
    /// When the waits of the call that goes on end, from its first wait on.
    pub(super) until: Option<Duration>,
    /// Who answers for the rows whose writes have left memory.
    pub(super) spilled: Option<Arc<dyn HoldsRows>>,
}

/// A moment in the life of a lock set: what was taken behind it is known. By default, its begin.
#[derive(Clone, Copy, Default, Debug)]
pub struct LockMark(pub(super) usize);

impl LockSet {
    pub(super) fn new(owner: Arc<Owner>) -> Self {
        Self {
            owner,
            held: Vec::new(),
            last: Vec::new(),
            joins: false,
            ranges: Vec::new(),
            intents: 0,
            strong: Vec::new(),
            looks_at: LOCKS_FREE,
            until: None,
            spilled: None,
        }
    }

    /// The transaction, as others see it.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Locks held: rows, ranges and trees.
    pub fn len(&self) -> usize {
        self.held.len() + self.ranges.len() + self.intents
    }

    /// Marks this moment. Good until a lock from before it is given back.
    pub fn mark(&self) -> LockMark {
        LockMark(self.held.len())
    }

    /// A call begins: its waits together may take as long as it says, from the first of them on.
    #[inline]
    pub fn begin_call(&mut self) {
        self.until = None;
    }

    /// The call that goes on has waited already, and ends its waits by this time.
    pub fn wait_until(&mut self, until: Duration) {
        self.until = Some(until);
    }

    /// What was taken last is to stay: [`unlock_last`](super::LockTable::unlock_last) finds nothing.
    pub fn keep_last(&mut self) {
        self.last.clear();
        self.joins = false;
    }

    /// The next row that is asked for may be given back together with those before it: with an index's entry, say, the row
    /// that it names.
    pub fn join_last(&mut self) {
        self.joins = true;
    }

    /// How many rows belong together that were asked for last.
    pub fn last_rows(&self) -> usize {
        self.last.len()
    }

    /// A row is asked for: those before it stay, unless it belongs to them.
    pub(super) fn asks(&mut self) {
        if !std::mem::take(&mut self.joins) {
            self.last.clear();
        }
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the list itself.
    pub fn bytes(&self) -> usize {
        self.held.capacity() * size_of::<u32>()
            + self.ranges.capacity() * size_of::<RangeLock>()
            + self.last.capacity() * size_of::<(u32, Taken)>()
    }

    /// Makes an empty set the next transaction's, whose id is greater, or names its own once more: its memory and its
    /// place stay.
    pub fn renew(&mut self, id: u64, tag: u64) {
        assert!(self.is_empty(), "a transaction that holds locks is not over");
        self.owner.set_name(id, tag);
        self.owner.set_writes(0);
        self.looks_at = LOCKS_FREE;
    }
}

impl Drop for LockSet {
    fn drop(&mut self) {
        let panics = panicking();
        assert!(panics || self.is_empty(), "lock table, invariant 1: locks are given back");
    }
}
