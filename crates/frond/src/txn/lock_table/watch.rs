//! What can be seen of the table from outside: live waits, what is held, how long waits last.
//!
//! Threads: all. Counters are touched by those who wait; who looks at waits holds up those who begin or
//! leave one meanwhile, and nobody else.

use std::{fmt, time::Duration};

use super::{
    LockTable,
    deadlock::Deadlock,
    denied::{LockOn, Locked, Reason},
    waits::Waiting,
};
use crate::{
    TreeId,
    sync::{Arc, AtomicU64, Ordering},
};

/// Classes of waits by length: the first is shorter than 1 µs, each next one up to twice as long, the last
/// everything beyond.
pub const WAIT_BUCKETS: usize = 32;

/// A wait that goes on.
#[derive(Clone, Debug)]
pub struct LockWait {
    /// The id of the transaction that waits.
    pub waiter: u64,
    /// The ids of those it waits for: holders, and who came first.
    pub holders: Vec<u64>,
    /// For what.
    pub on: LockOn,
    /// In which tree.
    pub tree: TreeId,
    /// 128 bits that stand for the key.
    pub key_hash: u128,
    /// In which mode, in words.
    pub mode: &'static str,
    /// Since when, by the store's clock.
    pub since: Duration,
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, holders, on, tree, key_hash, mode, .. } = self;
        let what = Locked { on: *on, key_hash: *key_hash };
        write!(f, "transaction {waiter} waits for {mode} access to {what} of tree {tree}, behind")?;
        holders.iter().try_for_each(|holder| write!(f, " {holder}"))
    }
}

/// Counts since the store was opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockStats {
    /// Rows and trees that are locked now; intents that only their owners know are not counted.
    pub locks: usize,
    /// Ranges that are locked now.
    pub ranges: usize,
    /// Waits that began.
    pub waits: u64,
    /// Waits that ended by the clock.
    pub timeouts: u64,
    /// Waits that ended because of a deadlock.
    pub deadlocks: u64,
    /// Waits that ended by an interrupt.
    pub interrupts: u64,
    /// Waits by how long they lasted, in powers of two of a microsecond.
    pub lasted: [u64; WAIT_BUCKETS],
    /// Memory of locks, in bytes, but for queues and ranges.
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct Counters {
    waits: AtomicU64,
    timeouts: AtomicU64,
    deadlocks: AtomicU64,
    interrupts: AtomicU64,
    lasted: [AtomicU64; WAIT_BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            waits: zero(),
            timeouts: zero(),
            deadlocks: zero(),
            interrupts: zero(),
            lasted: std::array::from_fn(|_| zero()),
        }
    }
}

impl Counters {
    pub fn began(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ended(&self, lasted: Duration, reason: Option<Reason>) {
        let micros = lasted.as_micros() as u64;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.lasted[bucket.min(WAIT_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        let counter = match reason {
            None | Some(Reason::Busy) => return,
            Some(Reason::Timeout) => &self.timeouts,
            Some(Reason::Deadlock) => &self.deadlocks,
            Some(Reason::Interrupted) => &self.interrupts,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl LockTable {
    /// All waits that go on, longest first.
    pub fn waits(&self) -> Vec<LockWait> {
        let waits = self.waits.lock().unwrap();
        let mut live: Vec<LockWait> = Vec::with_capacity(waits.waiting.len());
        for (number, Waiting { owner, request, since, .. }) in &waits.waiting {
            let holders = self.blockers(&waits, *number);
            let holders: Vec<u64> =
                holders.into_iter().filter_map(|number| self.id_of(Some(number))).collect();
            // Granted, and not awake yet.
            if !holders.is_empty() {
                live.push(LockWait {
                    waiter: owner.id(),
                    holders,
                    on: request.on,
                    tree: request.tree,
                    key_hash: request.hash.0,
                    mode: request.mode.in_words(),
                    since: *since,
                });
            }
        }
        drop(waits);
        live.sort_by_key(|wait| (wait.since, wait.waiter));
        live
    }

    /// The last cycle of waits that was ended.
    pub fn last_deadlock(&self) -> Option<Arc<Deadlock>> {
        self.waits.lock().unwrap().last_deadlock.clone()
    }

    /// Counts and sums.
    pub fn stats(&self) -> LockStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = LockStats {
            ranges: self.ranges_live(),
            waits: of(&self.counters.waits),
            timeouts: of(&self.counters.timeouts),
            deadlocks: of(&self.counters.deadlocks),
            interrupts: of(&self.counters.interrupts),
            lasted: std::array::from_fn(|at| of(&self.counters.lasted[at])),
            ..LockStats::default()
        };
        for shard in &self.shards {
            let shard = shard.0.lock().unwrap();
            stats.locks += shard.live();
            stats.bytes += shard.bytes();
        }
        stats
    }
}
