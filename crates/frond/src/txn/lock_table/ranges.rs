//! Gap locks: intervals of keys that conflict with the inserts of others.
//!
//! A cursor that locks as it advances has one interval, which grows to each row it returns (Rules:
//! I46, I47); growing never waits. An insert into an interval of another transaction waits until
//! that is released.
//!
//! Invariants
//! 1. An interval is registered, followed by a fence, before its owner looks for pending keys. An
//!    insert's key is published, followed by a fence, before it looks at intervals (Rule: I33).
//! 2. While an insert waits here, its row is not held, unless it was held before the insert: so a
//!    holder of the gap that wants that row does not deadlock with the inserting transaction.
//! 3. While no interval is in a shard, an insert costs one load.
//! 4. Inserts that check intervals are counted, in the same critical section as the check. A
//!    transaction that holds an interval of the tree all along, and finds the count unchanged, has
//!    grown the interval before any later published key was checked. So what it knows of pending
//!    keys is still valid, also for the stretch by which it has grown the interval.
//!
//! Threads: all. A shard's mutex is held for some comparisons and one copy of a key.

use std::ops::Bound;

use super::{
    LockTable, RANGE_SHARDS,
    intervals::{At, Intervals},
    lock_error::{LockError, LockOn, Reason, Request, WaitPolicy},
    lock_set::{LockMark, LockSet},
    mode::{Mode, RowMode},
    owner::{LockParty, Owner, Wait},
    shard::LockHash,
};
use crate::{
    TreeId,
    striped::CacheLine,
    sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, fence},
    types::KeyStart,
};

/// Number of an owner's intervals that are searched before a new one is made: a repeated statement
/// locks the same gap again.
const LOOKED_AT: usize = 8;

/// A stretch of keys, with bounds like those of a scan.
pub type Span<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// An interval of a lock set, for growing it. It is released with the set's locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLock {
    shard: u32,
    place: u32,
}

/// The intervals of some trees.
#[derive(Debug, Default)]
pub(super) struct RangeShard {
    /// Number of intervals; read without the mutex.
    count: AtomicU32,
    /// Number of times an insert has looked at them; counted under the mutex (Invariant 4).
    looks: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    intervals: Intervals,
    waiting: Vec<InsertWaiter>,
}

/// An insert that waits for gaps.
#[derive(Debug)]
struct InsertWaiter {
    owner: Arc<Owner>,
    tree: TreeId,
    key: Box<[u8]>,
}

impl Inner {
    /// The numbers of other owners whose intervals contain the key.
    fn over(&self, tree: TreeId, key: &[u8], own: u32) -> Vec<u32> {
        let mut found = Vec::new();
        self.intervals.over(tree, key, |owner| {
            if owner != own && !found.contains(&owner) {
                found.push(owner);
            }
            true
        });
        found
    }

    fn span(&self, place: u32) -> Span<'_> {
        (as_begin(self.intervals.begin(place)), as_end(self.intervals.end(place)))
    }
}

fn begin_of(bound: Bound<&[u8]>) -> At<'_> {
    match bound {
        Bound::Included(key) => At::Before(key),
        Bound::Excluded(key) => At::After(key),
        Bound::Unbounded => At::Unbounded,
    }
}

fn end_of(bound: Bound<&[u8]>) -> At<'_> {
    match bound {
        Bound::Included(key) => At::After(key),
        Bound::Excluded(key) => At::Before(key),
        Bound::Unbounded => At::Unbounded,
    }
}

pub(super) fn as_begin(at: At<'_>) -> Bound<&[u8]> {
    match at {
        At::Before(key) => Bound::Included(key),
        At::After(key) => Bound::Excluded(key),
        At::Unbounded => Bound::Unbounded,
    }
}

pub(super) fn as_end(at: At<'_>) -> Bound<&[u8]> {
    match at {
        At::Before(key) => Bound::Excluded(key),
        At::After(key) => Bound::Included(key),
        At::Unbounded => Bound::Unbounded,
    }
}

impl LockTable {
    fn range_shard(&self, tree: TreeId) -> (usize, &RangeShard) {
        let shard = tree.0 as usize % RANGE_SHARDS;
        (shard, &self.ranges[shard].0)
    }

    /// Locks a stretch against the inserts of others; never waits. After that, and only then, the
    /// caller looks for keys that others have inserted there and not committed.
    pub fn lock_range(&self, locks: &mut LockSet, tree: TreeId, span: Span<'_>) -> RangeLock {
        let (begin, end) = (begin_of(span.0), end_of(span.1));
        let (number, shard) = self.range_shard(tree);
        let mut inner = shard.inner.lock().unwrap();
        let own = locks.ranges.iter().rev().filter(|range| range.shard as usize == number);
        let holding = own.take(LOOKED_AT).find(|range| {
            let intervals = &inner.intervals;
            intervals.tree(range.place) == tree
                && intervals.begin(range.place).cmp_begin(begin).is_le()
                && intervals.end(range.place).cmp_end(end).is_ge()
        });
        if let Some(range) = holding {
            return *range;
        }
        let place = inner.intervals.insert(tree, locks.owner.number(), begin, end);
        // Pairs with the load in `before_insert`: SeqCst and the fence make one of the two see the
        // other.
        shard.count.store(inner.intervals.len() as u32, Ordering::SeqCst);
        drop(inner);
        fence(Ordering::SeqCst);
        let range = RangeLock { shard: number as u32, place };
        locks.ranges.push(range);
        range
    }

    /// Grows an interval so that it ends at `end` or after it.
    pub fn grow_up(&self, locks: &mut LockSet, range: RangeLock, end: Bound<&[u8]>) {
        debug_assert!(locks.ranges.contains(&range), "a set grows its own");
        let shard = &self.ranges[range.shard as usize].0;
        shard.inner.lock().unwrap().intervals.grow_end(range.place, end_of(end));
        fence(Ordering::SeqCst);
    }

    /// Grows an interval so that it starts at `begin` or before it.
    pub fn grow_down(&self, locks: &mut LockSet, range: RangeLock, begin: Bound<&[u8]>) {
        debug_assert!(locks.ranges.contains(&range), "a set grows its own");
        let shard = &self.ranges[range.shard as usize].0;
        if !plant!("locks: a cursor that goes back locks nothing") {
            shard.inner.lock().unwrap().intervals.grow_begin(range.place, begin_of(begin));
        }
        fence(Ordering::SeqCst);
    }

    /// Number of times inserts have looked at the shard of a tree's intervals. Read it after
    /// locking or growing an interval of the tree, and before looking for pending keys. While it is
    /// unchanged after the next growth, every key pending there was pending before or will be
    /// checked against the interval (Invariant 4).
    pub fn inserts_looked(&self, tree: TreeId) -> u64 {
        self.range_shard(tree).1.looks.load(Ordering::Acquire)
    }

    /// Waits until no other transaction has locked the gap into which this key goes. Called when
    /// the row is locked for writing and others can find the key. Returns true if it waited; the
    /// caller must then check again that the key is absent.
    ///
    /// A row lock newly taken since `mark` is released while this waits, and is held again when it
    /// returns successfully. After an error from a wait, or because the time is over, it is not
    /// held, and the caller must remove the key from the write set.
    pub fn before_insert(
        &self,
        locks: &mut LockSet,
        tree: TreeId,
        key: &[u8],
        mark: LockMark,
        wait_policy: WaitPolicy,
    ) -> Result<bool, LockError> {
        // After the caller's publication of the key.
        fence(Ordering::SeqCst);
        if plant!("locks: an insert passes by gaps")
            || !self.are_gaps_against(&locks.owner, tree, key)
        {
            return Ok(false);
        }
        let hash = LockHash::of_row(tree, key);
        let mode = Mode::Exclusive;
        let request = Request { on: LockOn::Insert, tree, hash, mode, writes: true, row: None };
        if wait_policy == WaitPolicy::NoWait {
            let holders = self.gaps_against(&locks.owner, tree, key);
            let holder = holders.first().map(LockParty::as_holder);
            return Err(request.denied(Reason::Busy, holder, Some(KeyStart::of(key))));
        }
        let deadline = self.deadline(locks, wait_policy);
        loop {
            let is_new = self.unlock_since(locks, hash, mark);
            self.must_have_time(&request, deadline, Some(key), || {
                self.gaps_against(&locks.owner, tree, key).first().map(LockParty::as_holder)
            })?;
            self.wait_for_gaps(&locks.owner, &request, key, deadline)?;
            if is_new {
                self.lock_row(locks, tree, key, RowMode::Write, wait_policy)?;
            }
            fence(Ordering::SeqCst);
            if !self.are_gaps_against(&locks.owner, tree, key) {
                return Ok(true);
            }
        }
    }

    /// Whether another transaction has locked the gap into which the key goes. Called after
    /// publishing the key: a row that exists and is locked needs no gap.
    pub fn is_gap_locked(&self, locks: &LockSet, tree: TreeId, key: &[u8]) -> bool {
        self.is_any_gap_locked(locks, &mut std::iter::once((tree, key)))
    }

    /// Whether another transaction has locked the gap of any of these keys.
    pub fn is_any_gap_locked<'k>(
        &self,
        locks: &LockSet,
        keys: &mut impl Iterator<Item = (TreeId, &'k [u8])>,
    ) -> bool {
        fence(Ordering::SeqCst);
        keys.any(|(tree, key)| self.are_gaps_against(&locks.owner, tree, key))
    }

    /// True if an interval of another owner contains the key and conflicts.
    fn are_gaps_against(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> bool {
        let shard = self.range_shard(tree).1;
        if shard.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut found = false;
        let inner = shard.inner.lock().unwrap();
        if !plant!("locks: an insert that looks is not counted") {
            let looks = shard.looks.load(Ordering::Relaxed);
            // Pairs with the load in `inserts_looked`.
            shard.looks.store(looks + 1, Ordering::Release);
        }
        inner.intervals.over(tree, key, |holder| {
            found = holder != owner.number();
            !found
        });
        drop(inner);
        found && !self.gaps_against(owner, tree, key).is_empty()
    }

    /// The transactions whose gap locks conflict with this owner's insert.
    fn gaps_against(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> Vec<LockParty> {
        let over = self.range_shard(tree).1.inner.lock().unwrap().over(tree, key, owner.number());
        self.that_need_order(&owner.party(), self.parties(over))
    }

    /// The numbers of the owners whose intervals contain the key of a waiting insert, whether they
    /// conflict or not; empty if it does not wait any more.
    pub(super) fn gaps_of_waiter(&self, number: u32, tree: TreeId) -> Vec<u32> {
        let inner = self.range_shard(tree).1.inner.lock().unwrap();
        let waiter = inner.waiting.iter().find(|waiter| waiter.owner.number() == number);
        waiter.map_or_else(Vec::new, |waiter| inner.over(tree, &waiter.key, number))
    }

    /// Filters the holders of a gap to those that conflict with an insert. Called under no mutex
    /// (Invariant 4 of `mod.rs`), since it asks the server.
    pub(super) fn that_need_order(
        &self,
        inserter: &LockParty,
        mut holders: Vec<LockParty>,
    ) -> Vec<LockParty> {
        if let Some(hooks) = &self.hooks {
            holders.retain(|holder| hooks.needs_order(inserter, holder));
        }
        holders
    }

    /// Returns when a gap that contained the key was released, or at once if none contains it.
    fn wait_for_gaps(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        key: &[u8],
        deadline: Option<std::time::Duration>,
    ) -> Result<(), LockError> {
        let (tree, number) = (request.tree, owner.number());
        let waiter = InsertWaiter { owner: owner.clone(), tree, key: key.into() };
        let waiting = self.waiting(owner, request, Some(key), deadline);
        let mut waits = self.waits.lock().unwrap();
        *owner.wait.lock().unwrap() = Wait::On;
        let mut inner = self.range_shard(tree).1.inner.lock().unwrap();
        let over = inner.over(tree, key, number);
        // It counts as waiting from now on, so that a gap released while the server is asked is not
        // missed.
        inner.waiting.push(waiter);
        drop(inner);
        waits.waiting.insert(number, waiting);
        if self.hooks.is_some() || over.is_empty() {
            drop(waits);
            let stands = !self.that_need_order(&owner.party(), self.parties(over)).is_empty();
            waits = self.waits.lock().unwrap();
            // If the insert was notified meanwhile, it sees that below.
            if !stands && self.withdraw_insert(number, tree) {
                waits.waiting.remove(&number);
                return Ok(());
            }
        }
        self.sleep(waits, owner, request, deadline).map(drop)
    }

    /// Removes a waiting insert; false if it does not wait.
    pub(super) fn withdraw_insert(&self, number: u32, tree: TreeId) -> bool {
        let mut inner = self.range_shard(tree).1.inner.lock().unwrap();
        let at = inner.waiting.iter().position(|waiter| waiter.owner.number() == number);
        at.inspect(|&at| drop(inner.waiting.swap_remove(at))).is_some()
    }

    /// Releases all ranges of a set, and makes the inserts that waited for them check again.
    pub(super) fn release_ranges(&self, locks: &mut LockSet) {
        for range in locks.ranges.drain(..) {
            let shard = &self.ranges[range.shard as usize].0;
            let mut inner = shard.inner.lock().unwrap();
            let Inner { intervals, waiting } = &mut *inner;
            waiting.retain(|waiter| {
                let was_held = intervals.holds(range.place, waiter.tree, &waiter.key);
                if was_held {
                    waiter.owner.tell(Wait::Look);
                }
                !was_held
            });
            intervals.remove(range.place);
            shard.count.store(intervals.len() as u32, Ordering::SeqCst);
        }
    }

    /// Calls `each` for every range of a set.
    pub(super) fn each_range(&self, locks: &LockSet, mut each: impl FnMut(TreeId, Span<'_>)) {
        locks.ranges.iter().for_each(|range| self.look_at_range(*range, &mut each));
    }

    /// Calls `look` with a range.
    pub(super) fn look_at_range(&self, range: RangeLock, look: impl FnOnce(TreeId, Span<'_>)) {
        let inner = self.ranges[range.shard as usize].0.inner.lock().unwrap();
        look(inner.intervals.tree(range.place), inner.span(range.place));
    }

    /// Calls `each` for every interval of a shard, with its owner's number, until it returns false;
    /// returns the number of intervals.
    pub(super) fn each_interval(
        &self,
        shard: usize,
        mut each: impl FnMut(TreeId, u32, Span<'_>) -> bool,
    ) -> usize {
        let shard = &self.ranges[shard].0;
        if shard.count.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let inner = shard.inner.lock().unwrap();
        inner.intervals.each(|at, owner| each(inner.intervals.tree(at), owner, inner.span(at)));
        inner.intervals.len()
    }

    /// Number of ranges.
    pub(super) fn ranges_live(&self) -> usize {
        let count = |shard: &CacheLine<RangeShard>| shard.0.count.load(Ordering::SeqCst);
        self.ranges.iter().map(|shard| count(shard) as usize).sum()
    }
}
