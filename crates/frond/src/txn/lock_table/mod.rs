//! The lock table: which transaction holds which locks on rows, gaps and trees.
//!
//! Rows and trees are locked in one sharded table, indexed by 128 bits of hash. A lock with one
//! holder and no waiter is a single word; any other lock has a queue, first come, first served. Gap
//! locks are intervals of keys, one per cursor, that grow as the cursor advances; they conflict
//! only with the inserts of others. Trees are locked by intents that each transaction records by
//! itself, until another transaction wants to lock a tree as a whole.
//!
//! A transaction searches for a cycle when its wait begins, and the transaction on the cycle that
//! has written least is aborted at once. A wait ends by a grant, by the abort of a victim, by
//! timeout, by an interrupt, or because the store is closed.
//!
//! Order of steps for inserts and for gap locks (Rules: I3, I32, I33)
//! - An insert: [`LockSet::mark`]; take the row with [`RowMode::Write`]; check, at the latest
//!   version, that the key is absent; append to the write set, where others find it; then
//!   [`LockTable::before_insert`]. If that waited, check again; if it failed, remove the key from
//!   the write set.
//! - A gap lock: [`LockTable::lock_range`], or growing the interval; then look for pending keys of
//!   the stretch in the write sets of the tree; wait for each with [`LockTable::lock_row`]; then
//!   read.
//!
//!   Each publishes first and looks then, with a fence in between: of an insert and a gap lock at
//!   the same key, at least one sees the other. If both do, the insert yields: while it waits for
//!   the gap it does not hold its row lock.
//! - After any wait, everything that was read before must be read again.
//!
//! A transaction whose writes have been spilled answers for its rows by a probe of its sorted runs,
//! and its row locks leave the table (Rule: I47, `spilled.rs`). Locks on rows that are not written
//! are limited to a share of memory (`lock_memory.rs`).
//!
//! Invariants
//! 1. A lock set releases everything it took: at its end the table has nothing of it.
//! 2. No request is granted ahead of a conflicting request that came first; but a holder that
//!    requests a stronger mode of its lock comes before waiters that hold nothing.
//! 3. Every wait is for some transaction, and every cycle of waits is resolved: it is found when
//!    its last wait begins, and only a real cycle is found.
//! 4. No call of [`Hooks`] is made under a mutex that a release or an interrupt takes.
//!
//! Threads: all; a lock set belongs to one thread at a time. Lock order of the mutexes: waits, one
//! shard (of rows or of ranges), one registry of owners, one owner's wait; docs/architecture.md.
//! Without contention a row costs only its shard's mutex. Memory: 28 bytes and a share of the
//! buckets and of the owner's list, about 45 bytes per lock.
//!
//! Ideas: a waits-for graph searched as a wait begins, as in InnoDB's and System R's lock managers;
//! intents kept out of the table until they matter, as in PostgreSQL's fast path.

mod deadlock;
mod deadlock_report;
mod held_locks;
mod hook_answers;
mod intervals;
mod introspection;
mod lock_error;
mod lock_memory;
mod lock_set;
mod mode;
mod owner;
mod prepare;
mod queue;
mod ranges;
mod rows;
mod shard;
mod spilled;
mod tables;
#[cfg(test)]
mod tests;
mod waits;

use std::{fmt, time::Duration};

use crate::{
    io::Clock,
    striped::CacheLine,
    sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering},
    types::KeyStart,
};

pub use deadlock_report::{Deadlock, Party};
pub use held_locks::{HeldLock, HeldLocks, HeldOn};
pub use introspection::{LiveTxn, LockStats, LockWait};
pub use lock_error::{LockError, LockOn, Reason, WaitPolicy};
pub use lock_set::{LockMark, LockSet};
pub use mode::{Mode as LockMode, RowMode, TableMode};
pub use owner::{LockParty, Owner};
pub use prepare::{LockList, RangeEntry, RowEntry};
pub use ranges::{RangeLock, Span};
pub use shard::Taken;
pub use spilled::{HoldsRows, Leaving};

use introspection::Counters;
use lock_error::Request;
use owner::{Holder, Owners};
use ranges::RangeShard;
use shard::Shard;
use spilled::Spilled;
use waits::Waits;

/// Shards of rows. With 64 threads in the table at once, one in five meets another. (The model
/// checker gets few, so that its threads meet.)
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 256 };
/// Shards of ranges, selected by tree.
const RANGE_SHARDS: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Counters of trees that are locked as a whole, selected by tree.
const STRONG: usize = if cfg!(shuttle) { 2 } else { 64 };

/// Callbacks for lock waits and for choosing deadlock victims (see docs/safety.md, I53).
///
/// Each call is made by the thread that waits, or is about to. A callback must not call the store,
/// except to interrupt the transactions that it is passed; those may have ended since. No lock is
/// held that another thread could need: other threads wait, commit, end and are interrupted
/// meanwhile.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use frond::{lock::{LockHooks, LockParty}, Options};
///
/// /// Interrupts the transaction that the program numbered later.
/// #[derive(Debug)]
/// struct InOrder;
///
/// impl LockHooks for InOrder {
///     fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
///         if holder.tag() > waiter.tag() {
///             holder.interrupt();
///         }
///     }
/// }
///
/// let db = frond::Db::open(dir.path().join("store"), Options::new().lock_hooks(InOrder))?;
/// # db.close()
/// # }
/// ```
pub trait Hooks: Send + Sync + fmt::Debug {
    /// Called before `waiter` sleeps until `holder` has ended; once per holder, under no mutex.
    fn on_wait(&self, _waiter: &LockParty, _holder: &LockParty) {}

    /// Chooses the victim among two transactions of a cycle: returns the id of the one to abort, or
    /// `None` to abort the one that has written less.
    fn prefer(&self, _a: &LockParty, _b: &LockParty) -> Option<u64> {
        None
    }

    /// Returns false if the order of the two is settled elsewhere: then an insert of one may pass
    /// gap locks of the other. Must give the same answer for the same two while both exist.
    fn needs_order(&self, _inserter: &LockParty, _holder: &LockParty) -> bool {
        true
    }
}

/// The lock table of a store.
pub struct LockTable {
    shards: Box<[CacheLine<Mutex<Shard>>]>,
    ranges: Box<[CacheLine<RangeShard>]>,
    /// Counters of trees locked as a whole; see `tables.rs`.
    strong: Box<[AtomicU32]>,
    spilled: Spilled,
    owners: Arc<Owners>,
    waits: Mutex<Waits>,
    counters: Counters,
    clock: Arc<dyn Clock>,
    hooks: Option<Arc<dyn Hooks>>,
    /// The store is being closed: no wait begins.
    is_closed: AtomicBool,
    /// Memory that all locks together may use (`lock_memory.rs`).
    bytes_max: u64,
}

impl fmt::Debug for LockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable").finish_non_exhaustive()
    }
}

impl LockTable {
    /// An empty table; `clock` times the waits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, None)
    }

    /// An empty table that reports its waits to `hooks`.
    pub fn with_hooks(clock: Arc<dyn Clock>, hooks: Arc<dyn Hooks>) -> Self {
        Self::with(clock, Some(hooks))
    }

    /// An empty table with optional hooks.
    pub fn with(clock: Arc<dyn Clock>, hooks: Option<Arc<dyn Hooks>>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CacheLine::default()).collect(),
            ranges: (0..RANGE_SHARDS).map(|_| CacheLine::default()).collect(),
            strong: (0..STRONG).map(|_| AtomicU32::new(0)).collect(),
            spilled: Spilled::default(),
            owners: Owners::new(),
            waits: Mutex::default(),
            counters: Counters::default(),
            clock,
            hooks,
            is_closed: AtomicBool::new(false),
            bytes_max: u64::MAX,
        }
    }

    /// The empty lock set of a new transaction. `id` names it in reports, and should be unique.
    pub fn begin(&self, id: u64) -> LockSet {
        LockSet::new(self.owners.register(id))
    }

    /// Records that a set is about to take its first lock: from now on it appears in
    /// [`live`](Self::live).
    pub fn begins(&self, locks: &LockSet) {
        locks.owner.set_since(Some(self.clock.now()));
    }

    /// The deadline of a wait that starts now; `None` for no limit. All waits of one call have the
    /// same deadline.
    fn deadline(&self, locks: &mut LockSet, wait_policy: WaitPolicy) -> Option<Duration> {
        match wait_policy {
            WaitPolicy::For(time) => {
                let lasts = if plant!("locks: a wait outlasts its time") { 10 } else { 1 };
                let end = || self.clock.now().saturating_add(time.saturating_mul(lasts));
                Some(*locks.until.get_or_insert_with(end))
            }
            WaitPolicy::NoWait | WaitPolicy::Forever => None,
        }
    }

    /// Refuses a wait whose deadline has passed before it begins, and any wait once the table is
    /// closed: such a request enters no queue, closes no cycle, and is not reported to the hooks.
    fn must_have_time(
        &self,
        request: &Request,
        deadline: Option<Duration>,
        key: Option<&[u8]>,
        holder: impl FnOnce() -> Option<Holder>,
    ) -> Result<(), LockError> {
        let reason = if self.is_closed.load(Ordering::Acquire) {
            Reason::Closed
        } else if deadline.is_none_or(|deadline| deadline > self.clock.now())
            || plant!("locks: an owner that does not wait is in a cycle")
        {
            return Ok(());
        } else {
            Reason::Timeout
        };
        self.counters.began();
        self.counters.ended(Duration::ZERO, Some(reason));
        Err(request.denied(reason, holder(), key.map(KeyStart::of)))
    }
}
