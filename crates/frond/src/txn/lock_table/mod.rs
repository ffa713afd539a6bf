//! The lock table: who may touch which row, gap and tree while its transaction lasts.
//!
//! Rows and trees are locked in one sharded table, by 128 bits of hash. A lock that
//! has one holder and no waiter is a word; every other has a queue, first come, first served. Gaps are
//! intervals of keys, one for each cursor, that grow as it goes on; they stand against nothing but the
//! inserts of others. Trees are locked by intents that each transaction writes down by itself, until
//! somebody wants a tree for himself.
//!
//! Who waits looks for a cycle as the wait begins, and on the cycle the transaction that has written
//! least is ended at once. Waits end by a grant, by the cycle's end, by the clock or by an interrupt.
//!
//! Order, for those who insert and those who lock gaps (Rules: I3, I32, I33)
//! - An insert: [`LockSet::mark`]; take the row [`RowMode::Write`]; look that the key is absent, at latest;
//!   append to the write set, where others find it; then [`LockTable::before_insert`]. If that waited, look
//!   again; if it failed, take the key out of the write set.
//! - A gap: [`LockTable::lock_range`] or growing it; then look for pending keys of the stretch in the
//!   write sets of the tree; wait for each by [`LockTable::lock_row`]; then read.
//!
//!   Each publishes first and looks then, with a fence between: of two that meet, at least one sees the
//!   other. If both do, the insert steps back: while it waits for the gap it does not hold its row.
//! - After any wait everything that was read before is to be read again.
//!
//! A transaction whose writes have left memory answers for its rows by a probe of its sorted runs, and its rows leave
//! the table (Rule: I47, `spilled.rs`). What is locked and not written has a part of memory (`room.rs`).
//!
//! Invariants
//! 1. A lock set gives back all it took: at its end the table knows nothing of it.
//! 2. Nothing is granted past a request that stands against it and came first; but who holds a lock and
//!    asks for more of it comes before those who hold nothing.
//! 3. Every wait is for somebody, and every cycle of waits has an end: it is found when its last wait
//!    begins, and found only if it is there.
//! 4. No call of [`Hooks`] is made under a mutex that a release or an interrupt takes.
//!
//! Threads: all; a lock set is one thread's at a time. Ranks of mutexes, in the order they may be taken:
//! waits, one shard (of rows or of ranges), one registry of owners, one owner's wait; docs/architecture.md.
//! Uncontended, one shard's mutex is all that a row costs. Memory: 28 bytes and its share of buckets
//! and of the list of its owner, about 45 bytes a lock.
//!
//! Ideas: waits-for graph searched as a wait begins, as in InnoDB's and System R's lock managers;
//! intents out of the table until they matter, as PostgreSQL's fast path.

mod deadlock;
mod denied;
mod held;
mod intervals;
mod lock_set;
mod mode;
mod owner;
mod prepare;
mod queue;
mod ranges;
mod room;
mod rows;
mod said;
mod shard;
mod spilled;
mod tables;
#[cfg(test)]
mod tests;
mod waits;
mod watch;

use std::{fmt, time::Duration};

use crate::{
    KeyStart,
    io::Clock,
    sync::{Arc, AtomicU32, Mutex},
};

pub use deadlock::{Deadlock, Party};
pub use denied::{Denied, LockOn, Patience, Reason};
pub use held::{HeldLock, HeldLocks, HeldOn};
pub use lock_set::{LockMark, LockSet};
pub use mode::{Mode as LockMode, RowMode, TableMode};
pub use owner::{LockParty, Owner};
pub use prepare::{LockList, RangeEntry, RowEntry};
pub use ranges::{RangeLock, Span};
pub use shard::Taken;
pub use spilled::{HoldsRows, Leaving};
pub use watch::{LiveTxn, LockStats, LockWait};

use denied::Request;
use owner::Owners;
use ranges::RangeShard;
use shard::Shard;
use spilled::Spilled;
use waits::Waits;
use watch::Counters;

/// Shards of rows: with 64 threads in the table at once, one in five meets another. (The model checker
/// gets few, so that its threads meet.)
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 256 };
/// Shards of ranges, by tree.
const RANGE_SHARDS: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Counts of trees that somebody has for himself, by tree.
const STRONG: usize = if cfg!(shuttle) { 2 } else { 64 };

/// What a server wants to know, and to have a say in (Rule: I53).
///
/// Each call is made by the thread that waits, or is about to. None may call the store but to interrupt who is told of;
/// those may have ended since. No lock is held that another thread could need: whoever waits, commits, ends or is interrupted
/// meanwhile does so.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use frond::{LockHooks, LockParty, Options};
///
/// /// Of two, the one that the program numbered later is to go.
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
    /// `waiter` is about to sleep until `holder` has gone; called for each, under no mutex.
    fn on_wait(&self, _waiter: &LockParty, _holder: &LockParty) {}

    /// Which of two in a circle should be ended rather than the other, if it matters: it is said by its id. Else the one
    /// that has written less is.
    fn prefer(&self, _a: &LockParty, _b: &LockParty) -> Option<u64> {
        None
    }

    /// False if the order of the two is settled elsewhere: then an insert of one passes gaps of the other. To be the
    /// same for the same two as long as they last.
    fn needs_order(&self, _inserter: &LockParty, _holder: &LockParty) -> bool {
        true
    }
}

/// A mutex that shares its cache line with no other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Aligned<T>(T);

/// The locks of a store.
pub struct LockTable {
    shards: Box<[Aligned<Mutex<Shard>>]>,
    ranges: Box<[Aligned<RangeShard>]>,
    /// See `tables.rs`.
    strong: Box<[AtomicU32]>,
    spilled: Spilled,
    owners: Arc<Owners>,
    waits: Mutex<Waits>,
    counters: Counters,
    clock: Arc<dyn Clock>,
    hooks: Option<Arc<dyn Hooks>>,
    /// What all locks together may take (`room.rs`).
    bytes_max: u64,
}

impl fmt::Debug for LockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable").finish_non_exhaustive()
    }
}

impl LockTable {
    /// An empty table; waits are timed by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, None)
    }

    /// An empty table whose waits a server hears of.
    pub fn with_hooks(clock: Arc<dyn Clock>, hooks: Arc<dyn Hooks>) -> Self {
        Self::with(clock, Some(hooks))
    }

    /// An empty table.
    pub fn with(clock: Arc<dyn Clock>, hooks: Option<Arc<dyn Hooks>>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Aligned::default()).collect(),
            ranges: (0..RANGE_SHARDS).map(|_| Aligned::default()).collect(),
            strong: (0..STRONG).map(|_| AtomicU32::new(0)).collect(),
            spilled: Spilled::default(),
            owners: Owners::new(),
            waits: Mutex::default(),
            counters: Counters::default(),
            clock,
            hooks,
            bytes_max: u64::MAX,
        }
    }

    /// A transaction that holds nothing. `id` is its name in reports, and should differ from others'.
    pub fn begin(&self, id: u64) -> LockSet {
        LockSet::new(self.owners.register(id))
    }

    /// Says that a set is about to take its first lock: from here on it is among [`live`](Self::live).
    pub fn begins(&self, locks: &LockSet) {
        locks.owner.set_since(Some(self.clock.now()));
    }

    /// When a wait that begins now ends, if ever: of the waits of one call, all at the same time.
    fn deadline(&self, locks: &mut LockSet, patience: Patience) -> Option<Duration> {
        match patience {
            Patience::For(time) => {
                let lasts = if plant!("locks: a wait outlasts its time") { 10 } else { 1 };
                let end = || self.clock.now().saturating_add(time.saturating_mul(lasts));
                Some(*locks.until.get_or_insert_with(end))
            }
            Patience::NoWait | Patience::Forever => None,
        }
    }

    /// Refuses a wait whose time is over before it has begun: it stands in no queue, closes no cycle, and the server does not
    /// hear of it.
    fn must_have_time(
        &self,
        request: &Request,
        deadline: Option<Duration>,
        key: Option<&[u8]>,
        holder: impl FnOnce() -> Option<u64>,
    ) -> Result<(), Denied> {
        if deadline.is_none_or(|deadline| deadline > self.clock.now())
            || plant!("locks: who has no time is in a cycle")
        {
            return Ok(());
        }
        self.counters.began();
        self.counters.ended(Duration::ZERO, Some(Reason::Timeout));
        Err(request.denied(Reason::Timeout, holder(), key.map(KeyStart::of)))
    }
}
