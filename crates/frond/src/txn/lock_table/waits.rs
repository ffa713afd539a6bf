//! Waiting: how a wait begins, lasts and ends.
//!
//! 1. Under the mutex of the waits the request is made once more; if it is refused again, its owner
//!    is added to the queue and the wait is recorded.
//! 2. Under the same mutex, cycles are searched for and resolved (`deadlock.rs`). The server's
//!    hooks are called without the mutex, and then the search is repeated.
//! 3. Without any mutex the server is notified of the transactions waited for; then the owner
//!    sleeps.
//! 4. A grant, or the choice as a victim, is reported to the owner and removes it from the queue. A
//!    timeout, an interrupt and the close of the store only wake it: it removes itself from the
//!    queue, unless it was granted meanwhile.
//!
//! Invariants
//! 1. While the mutex of the waits is held, no wait begins, and none ends except by a grant. A
//!    waiting owner releases nothing. So an owner that is found waiting, after its lock was seen to
//!    conflict, has held that lock all the while: a cycle that is read edge by edge is real.
//! 2. Releasing locks and interrupting do not take that mutex.
//! 3. The end of a wait is reported once, by the thread that removes the owner from the queue.
//!
//! Threads: those that wait. Cost: each wait takes one mutex of the store twice, and the search.

use std::{collections::BTreeMap, time::Duration};

use super::{
    LockTable,
    deadlock_report::Deadlock,
    lock_error::{LockError, LockOn, Reason, Request},
    owner::{LockParty, Owner, Wait},
    rows::{granting, located},
    shard::Taken,
};
use crate::{
    cancel::Sleeper,
    sync::{Arc, MutexGuard, Ordering},
    types::KeyStart,
};

/// A wait in progress.
#[derive(Debug)]
pub(super) struct Waiting {
    pub owner: Arc<Owner>,
    pub request: Request,
    /// The start of a row's key, for reports.
    pub key: Option<KeyStart>,
    pub since: Duration,
    pub deadline: Option<Duration>,
}

/// All waits, by the owner's number.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub waiting: BTreeMap<u32, Waiting>,
    pub last_deadlock: Option<Arc<Deadlock>>,
}

impl LockTable {
    /// Waits for a lock that was refused.
    pub(super) fn wait_for_lock(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        key: Option<&[u8]>,
        deadline: Option<Duration>,
    ) -> Result<(u32, Taken), LockError> {
        let number = owner.number();
        // Before the mutex of all waits is taken, since it allocates.
        let waiting = self.waiting(owner, request, key, deadline);
        let mut waits = self.waits.lock().unwrap();
        let (shard, mut guard) = self.lock_shard(request.hash);
        // The lock may have become free meanwhile.
        let asked = if plant!("locks: a refusal is not looked at again") {
            None
        } else {
            guard.ask(request.name(), number, request.mode, request.writes)
        };
        if let Some((at, taken)) = asked {
            return Ok((located(shard, at), taken));
        }
        let taken = match guard.held(request.hash, number) {
            Some(_) => Taken::Upgraded,
            None => Taken::New,
        };
        *owner.wait.lock().unwrap() = Wait::On;
        guard.enqueue(request.hash, owner.clone(), request.mode);
        drop(guard);
        waits.waiting.insert(number, waiting);
        let place = self.sleep(waits, owner, request, deadline)?;
        if request.writes {
            self.lock_shard(request.hash).1.mark_written(request.hash);
        }
        Ok((place, taken))
    }

    /// The record of a wait that begins now.
    pub(super) fn waiting(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        key: Option<&[u8]>,
        deadline: Option<Duration>,
    ) -> Waiting {
        let since = self.clock.now();
        let (owner, request, key) = (owner.clone(), *request, key.map(KeyStart::of));
        Waiting { owner, request, key, since, deadline }
    }

    /// Resolves cycles, notifies the server, and sleeps until the wait ends: returns the place that
    /// was granted, or 0 if the caller must check again.
    pub(super) fn sleep<'a>(
        &'a self,
        mut waits: MutexGuard<'a, Waits>,
        owner: &Arc<Owner>,
        request: &Request,
        deadline: Option<Duration>,
    ) -> Result<u32, LockError> {
        let number = owner.number();
        self.counters.began();
        let mut blockers = self.blockers(&waits, number);
        if self.hooks.is_none() || request.on != LockOn::Insert {
            // Except for inserts, a wait reports only the first.
            blockers.truncate(1);
        }
        let against = self.parties(blockers);
        waits = self.end_cycles(waits, number);
        // After the search: a wait that the search has ended has no holders.
        let holders = self.hooks.as_ref().map(|_| self.holders(&waits, number));
        drop(waits);
        let needs = |holders| match request.on {
            LockOn::Insert => self.that_need_order(&owner.party(), holders),
            LockOn::Row | LockOn::Table => holders,
        };
        let against = needs(against).first().map(LockParty::as_holder);
        if let Some(hooks) = &self.hooks {
            let waiter = owner.party();
            needs(holders.unwrap_or_default())
                .iter()
                .for_each(|holder| hooks.on_wait(&waiter, holder));
        }
        owner.set_sleeps(!plant!("locks: a sleeper is not announced"));
        let wait = self.sleep_until(owner, request, deadline);
        owner.set_sleeps(false);
        let mut waits = self.waits.lock().unwrap();
        let waited = waits.waiting.remove(&number);
        drop(waits);
        let now = self.clock.now();
        let began = waited.as_ref().map(|waited| waited.since);
        let lasted = began.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let key = waited.and_then(|waited| waited.key);
        let ended = match wait {
            Ok(Wait::Granted(place)) => Ok(place),
            Ok(Wait::Victim) => Err(request.denied(Reason::Deadlock, against, key)),
            Ok(Wait::Look | Wait::On) => Ok(0),
            Err(reason) => Err(request.denied(reason, against, key)),
        };
        self.counters.ended(lasted, ended.as_ref().err().map(|denied| denied.reason));
        ended
    }

    fn sleep_until(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        deadline: Option<Duration>,
    ) -> Result<Wait, Reason> {
        // Registered before the check for cancellation.
        let _woken = owner.list_sleeper();
        let mut wait = owner.wait.lock().unwrap();
        loop {
            if *wait != Wait::On {
                return Ok(*wait);
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(self.clock.now()));
            let reason = if self.is_closed.load(Ordering::Acquire) {
                Some(Reason::Closed)
            } else if owner.is_interrupted() || owner.is_stopped() {
                Some(Reason::Interrupted)
            } else if left == Some(Duration::ZERO) {
                Some(Reason::Timeout)
            } else {
                None
            };
            if let Some(reason) = reason {
                drop(wait);
                let is_leak =
                    reason == Reason::Interrupted && plant!("locks: the killed stay in the queue");
                if is_leak || self.leave(owner, request) {
                    return Err(reason);
                }
                wait = owner.wait.lock().unwrap();
                continue;
            }
            wait = match left {
                Some(left) => owner.woken.wait_timeout(wait, left).unwrap().0,
                None => owner.woken.wait(wait).unwrap(),
            };
        }
    }

    /// Removes an owner from the queue on its own initiative; false if it was removed already.
    fn leave(&self, owner: &Owner, request: &Request) -> bool {
        let _no_search = self.waits.lock().unwrap();
        self.withdraw(owner.number(), request)
    }

    /// Removes a waiter from its queue; false if it is not there any more. Under the mutex of the
    /// waits.
    pub(super) fn withdraw(&self, number: u32, request: &Request) -> bool {
        if request.on == LockOn::Insert {
            return self.withdraw_insert(number, request.tree);
        }
        let (shard, mut guard) = self.lock_shard(request.hash);
        guard.withdraw(request.hash, number, granting(shard))
    }

    /// The owners that an owner waits for; for an insert all holders of the gap, since the server
    /// is not asked here.
    pub(super) fn blockers(&self, waits: &Waits, number: u32) -> Vec<u32> {
        let Some(Waiting { request, .. }) = waits.waiting.get(&number) else {
            return Vec::new();
        };
        if request.on == LockOn::Insert {
            return self.gaps_of_waiter(number, request.tree);
        }
        let guard = self.lock_shard(request.hash).1;
        guard.queue(request.hash).map_or_else(Vec::new, |queue| queue.blockers(number))
    }

    /// The owners that still exist, as parties.
    pub(super) fn parties(&self, numbers: Vec<u32>) -> Vec<LockParty> {
        numbers.into_iter().filter_map(|at| Some(self.owners.find(at)?.party())).collect()
    }

    /// The owners that an owner waits for, as reported to a server. An owner may have ended and
    /// been reused while it was named; it is reported only if its new transaction conflicts, too.
    fn holders(&self, waits: &Waits, number: u32) -> Vec<LockParty> {
        let owners: Vec<_> = self
            .blockers(waits, number)
            .into_iter()
            .filter_map(|at| self.owners.find(at))
            .collect();
        let mut named: Vec<_> =
            owners.iter().map(|owner| (owner.number(), owner.party())).collect();
        let still = self.blockers(waits, number);
        named.retain(|(at, _)| still.contains(at));
        named.into_iter().map(|(_, party)| party).collect()
    }

    /// Wakes all waiters whose time is over by the table's clock. In real time, sleepers wake by
    /// themselves; with a simulated clock, this is called after it has advanced.
    pub fn expire(&self) {
        let now = self.clock.now();
        self.wake(|waiting| waiting.deadline.is_some_and(|at| at <= now));
    }

    /// Ends all waits, and every later one, with [`Reason::Closed`]: the store is being closed.
    pub fn close(&self) {
        // Under the mutex of the waits, a wait is either found below or begins later. In both cases
        // the sleeper looks at the flag after this.
        self.is_closed.store(true, Ordering::Release);
        if !plant!("locks: a close wakes no waiter") {
            self.wake(|_| true);
        }
    }

    fn wake(&self, is_meant: impl Fn(&Waiting) -> bool) {
        let waits = self.waits.lock().unwrap();
        let meant = waits.waiting.values().filter(|waiting| is_meant(waiting));
        let owners: Vec<_> = meant.map(|waiting| waiting.owner.clone()).collect();
        drop(waits);
        owners.iter().for_each(|owner| owner.wake());
    }
}
