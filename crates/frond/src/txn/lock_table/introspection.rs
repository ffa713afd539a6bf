//! Introspection of the lock table: live waits, live transactions, and how long waits last.
//!
//! Threads: all. Counters are touched by waiting threads; listing the waits delays only threads
//! that begin or end a wait meanwhile.

use std::{fmt, time::Duration};

use super::{
    LockMode, LockTable,
    deadlock_report::Deadlock,
    lock_error::{LockOn, Locked, NamedTree, Reason},
    owner::LockParty,
    waits::Waiting,
};
use crate::{
    Seqno, TreeId,
    latency::{Histogram, LatencyStats},
    sync::{Arc, AtomicU64, Ordering},
    types::KeyStart,
};

/// A wait in progress.
#[derive(Clone, Debug)]
pub struct LockWait {
    /// The id of the waiting transaction.
    pub waiter: u64,
    /// The program's own name for it, as in [`LiveTxn`].
    pub tag: u64,
    /// The ids of the transactions it waits for: holders, and requests that came first.
    pub holders: Vec<u64>,
    /// The program's own names for them, in the same order.
    pub holder_tags: Vec<u64>,
    /// What it waits for.
    pub on: LockOn,
    /// The tree.
    pub tree: TreeId,
    /// The name of the tree, if the tree exists.
    pub tree_name: String,
    /// 128-bit hash of the key.
    pub key_hash: u128,
    /// The start of the key; `None` if it waits for the whole tree.
    pub key: Option<KeyStart>,
    /// The requested mode.
    pub mode: LockMode,
    /// When the wait began, by the store's clock.
    pub since: Duration,
    /// How long it has lasted.
    pub lasts: Duration,
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, holders, on, tree, tree_name, key_hash, key, mode, lasts, .. } = self;
        let tree = NamedTree(tree_name, *tree);
        let what = Locked { on: *on, key_hash: *key_hash, key: key.as_ref(), tree };
        write!(f, "transaction {waiter} has waited {:.3} s ", lasts.as_secs_f64())?;
        write!(f, "for {mode} access to {what}, behind")?;
        holders.iter().try_for_each(|holder| write!(f, " {holder}"))
    }
}

/// A transaction that holds locks or a snapshot, a batch that holds locks, or a snapshot outside of
/// any transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LiveTxn {
    /// The id, as in reports of waits; 0 for a snapshot outside of any transaction.
    pub id: u64,
    /// The program's own name for it; 0 for a batch, a snapshot, and a transaction that was
    /// prepared before the store was opened.
    pub tag: u64,
    /// Approximate number of entries that it has written.
    pub writes: u64,
    /// How long it has held locks, if it holds any.
    pub locks: Option<Duration>,
    /// The last commit that its reads see, and how long it has held that snapshot, if it holds one.
    pub snapshot: Option<(Seqno, Duration)>,
    /// Whether it waits for a lock.
    pub waits: bool,
}

impl LiveTxn {
    /// How long it has held its oldest lock or snapshot.
    pub fn lasts(&self) -> Duration {
        self.locks.max(self.snapshot.map(|(_, lasts)| lasts)).unwrap_or_default()
    }
}

impl fmt::Display for LiveTxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, tag, writes, locks, snapshot, waits } = self;
        match id {
            0 => write!(f, "a snapshot")?,
            _ => write!(f, "transaction {id}")?,
        }
        if *tag != 0 {
            write!(f, " (tag {tag})")?;
        }
        if let Some(lasts) = locks {
            write!(f, " has held locks for {:.3} s, {writes} writes", lasts.as_secs_f64())?;
        }
        if let Some((at, lasts)) = snapshot {
            let and = if locks.is_some() { "," } else { "" };
            write!(f, "{and} has been reading as of commit {at} for {:.3} s", lasts.as_secs_f64())?;
        }
        if *waits { write!(f, ", is waiting for a lock") } else { Ok(()) }
    }
}

/// Current sizes of the lock table, and counters since the store was opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockStats {
    /// Rows and trees that are locked now; intents recorded only at their owners are not counted.
    pub locks: usize,
    /// Ranges that are locked now.
    pub ranges: usize,
    /// Waits that began.
    pub waits: u64,
    /// Waits that ended by timeout.
    pub timeouts: u64,
    /// Waits that ended because of a deadlock.
    pub deadlocks: u64,
    /// Waits that ended by an interrupt.
    pub interrupts: u64,
    /// Durations of the waits that have ended, in whatever way.
    pub lasted: LatencyStats,
    /// Memory of the locks, bytes, except for queues and ranges.
    pub bytes: usize,
}

/// Counters of waits. They are not striped: a waiting thread sleeps anyway.
#[derive(Debug)]
pub(super) struct Counters {
    waits: AtomicU64,
    timeouts: AtomicU64,
    deadlocks: AtomicU64,
    interrupts: AtomicU64,
    lasted: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            waits: zero(),
            timeouts: zero(),
            deadlocks: zero(),
            interrupts: zero(),
            lasted: Histogram::new(1),
        }
    }
}

impl Counters {
    pub fn began(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ended(&self, lasted: Duration, reason: Option<Reason>) {
        self.lasted.count(lasted, 1);
        let counter = match reason {
            None | Some(Reason::Busy | Reason::Full | Reason::Closed) => return,
            Some(Reason::Timeout) => &self.timeouts,
            Some(Reason::Deadlock) => &self.deadlocks,
            Some(Reason::Interrupted) => &self.interrupts,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl LockTable {
    /// All waits in progress, longest first. Names of trees are not filled in here.
    pub fn waits(&self) -> Vec<LockWait> {
        let now = self.clock.now();
        let waits = self.waits.lock().unwrap();
        let mut live: Vec<(LockWait, Vec<LockParty>)> = Vec::with_capacity(waits.waiting.len());
        let mut waiters = Vec::with_capacity(waits.waiting.len());
        for (number, Waiting { owner, request, key, since, .. }) in &waits.waiting {
            let parties = self.parties(self.blockers(&waits, *number));
            // Otherwise it was granted, and the waiter has not woken yet.
            if !parties.is_empty() {
                let party = owner.party();
                let (hash, mode) = request.wanted();
                let wait = LockWait {
                    waiter: party.id(),
                    tag: party.tag(),
                    holders: Vec::new(),
                    holder_tags: Vec::new(),
                    on: request.on,
                    tree: request.tree,
                    tree_name: String::new(),
                    key_hash: hash.0,
                    key: key.clone(),
                    mode,
                    since: *since,
                    lasts: now.saturating_sub(*since),
                };
                waiters.push(party);
                live.push((wait, parties));
            }
        }
        drop(waits);
        let tell = |(mut wait, holders): (LockWait, Vec<LockParty>), waiter: LockParty| {
            let holders = match wait.on {
                LockOn::Insert => self.that_need_order(&waiter, holders),
                LockOn::Row | LockOn::Table => holders,
            };
            wait.holders = holders.iter().map(LockParty::id).collect();
            wait.holder_tags = holders.iter().map(LockParty::tag).collect();
            (!wait.holders.is_empty()).then_some(wait)
        };
        let waits = live.into_iter().zip(waiters);
        let mut live: Vec<_> = waits.filter_map(|(wait, waiter)| tell(wait, waiter)).collect();
        live.sort_by_key(|wait| (wait.since, wait.waiter));
        live
    }

    /// All transactions that hold locks.
    pub fn live(&self) -> Vec<LiveTxn> {
        let now = self.clock.now();
        let waiting: Vec<u32> = self.waits.lock().unwrap().waiting.keys().copied().collect();
        let mut live = Vec::new();
        self.owners.each(|owner| {
            let party = owner.party();
            if let Some(since) = owner.since() {
                live.push(LiveTxn {
                    id: party.id(),
                    tag: party.tag(),
                    writes: party.writes(),
                    locks: Some(now.saturating_sub(since)),
                    snapshot: None,
                    waits: waiting.contains(&owner.number()),
                });
            }
        });
        live
    }

    /// The last cycle of waits that was resolved.
    pub fn last_deadlock(&self) -> Option<Arc<Deadlock>> {
        self.waits.lock().unwrap().last_deadlock.clone()
    }

    /// Current counters and sums.
    pub fn stats(&self) -> LockStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = LockStats {
            ranges: self.ranges_live(),
            waits: of(&self.counters.waits),
            timeouts: of(&self.counters.timeouts),
            deadlocks: of(&self.counters.deadlocks),
            interrupts: of(&self.counters.interrupts),
            lasted: self.counters.lasted.times(),
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
