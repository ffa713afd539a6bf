//! The locks of one transaction.
//!
//! A lock set has a four-byte place for each lock of the table, the transaction's ranges, and the
//! number of intents it has recorded. It is private to the transaction, so nothing here is guarded;
//! others see its [`Owner`].
//!
//! Threads: one at a time. A prepared transaction may continue on another thread.

use std::time::Duration;

use super::{
    lock_memory::LOCKS_FREE, owner::Owner, ranges::RangeLock, shard::Taken, spilled::HoldsRows,
};
use crate::{
    TreeId,
    sync::{Arc, panicking},
};

/// The locks of a transaction. They must be released with
/// [`LockTable::release_all`](super::LockTable::release_all) before the set is dropped, since
/// others would wait for them for ever; an assertion checks this.
#[derive(Debug)]
pub struct LockSet {
    pub(super) owner: Arc<Owner>,
    /// Shard and place of each lock of the table.
    pub(super) held: Vec<u32>,
    /// The places of the rows that were requested last, as a unit, and the result for each.
    pub(super) last: Vec<(u32, Taken)>,
    /// The next row belongs to the same unit.
    pub(super) joins: bool,
    pub(super) ranges: Vec<RangeLock>,
    /// Number of the owner's intent slots in use.
    pub(super) intents: usize,
    /// Trees that it has locked, or asked to lock, as a whole: one entry per request.
    pub(super) strong: Vec<TreeId>,
    /// Number of locks at which to check whether there is memory for more.
    pub(super) looks_at: usize,
    /// When the waits of the current call end; set at its first wait.
    pub(super) until: Option<Duration>,
    /// Answers for the rows whose writes have been spilled.
    pub(super) spilled: Option<Arc<dyn HoldsRows>>,
}

/// A moment in the life of a lock set, to tell which locks were taken after it. The default is the
/// start of the set.
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

    /// Number of locks held: rows, ranges and trees.
    pub fn len(&self) -> usize {
        self.held.len() + self.ranges.len() + self.intents
    }

    /// Marks this moment. Valid until a lock from before it is released.
    pub fn mark(&self) -> LockMark {
        LockMark(self.held.len())
    }

    /// Starts a call: the time limit of its waits counts from its first wait.
    #[inline]
    pub fn begin_call(&mut self) {
        self.until = None;
    }

    /// Sets when the waits of the current call end, for a call that has already waited.
    pub fn wait_until(&mut self, until: Duration) {
        self.until = Some(until);
    }

    /// Keeps the rows taken last: [`unlock_last`](super::LockTable::unlock_last) finds nothing to
    /// release.
    pub fn keep_last(&mut self) {
        self.last.clear();
        self.joins = false;
    }

    /// Joins the next requested row to the ones before it, so that they can be released together:
    /// for instance an index entry and the row that it names.
    pub fn join_last(&mut self) {
        self.joins = true;
    }

    /// Number of rows in the unit that was requested last.
    pub fn last_rows(&self) -> usize {
        self.last.len()
    }

    /// Starts a new unit for a requested row, unless it was joined to the one before.
    pub(super) fn asks(&mut self) {
        if !std::mem::take(&mut self.joins) {
            self.last.clear();
        }
    }

    /// True if it holds no locks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the set itself, bytes.
    pub fn bytes(&self) -> usize {
        self.held.capacity() * size_of::<u32>()
            + self.ranges.capacity() * size_of::<RangeLock>()
            + self.last.capacity() * size_of::<(u32, Taken)>()
    }

    /// Reuses an empty set for the next transaction, whose id is greater, or renames its own: its
    /// memory and its owner's number are kept.
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
