//! Gap locks: intervals of keys that stand against the inserts of others.
//!
//! A cursor that locks as it goes has one interval, which grows to each row it hands out (Rules: I46,
//! I47); it never waits for that. Who inserts into an interval of another waits until it has gone.
//!
//! Invariants
//! 1. An interval is there, and a fence behind it, before its owner looks for pending keys; an insert's
//!    key is published, and a fence behind it, before intervals are looked at (Rule: I33).
//! 2. While an insert waits here, its row is not held, unless it was held before the insert: a holder of
//!    the gap who wants that row does not wait for who waits for him.
//! 3. While no interval is in a shard, an insert costs one load.
//! 4. Inserts that look at intervals are counted, in one section with the look. Who holds an interval of the tree all
//!    along, and finds the count as it was, has grown it before whatever was published since has looked: what he knows
//!    of pending keys is good still, for the stretch, too, that he has grown it by.
//!
//! Threads: all. A shard's mutex is held for some comparisons and one copy of a key.

use std::ops::Bound;

use super::{
    LockTable, RANGE_SHARDS,
    denied::{Denied, LockOn, Patience, Reason, Request},
    intervals::{At, Intervals},
    lock_set::{LockMark, LockSet},
    mode::{Mode, RowMode},
    owner::{LockParty, Owner, Wait},
    shard::LockHash,
};
use crate::{
    KeyStart, TreeId,
    sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, fence},
};

/// Of one owner, so many of its intervals are looked at before a new one is made: a statement that is
/// repeated locks the same gap again.
const LOOKED_AT: usize = 8;

/// A stretch of keys; its bounds are as those of a scan.
pub type Span<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// An interval of a lock set, to grow it by. It ends with the set's locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLock {
    shard: u32,
    place: u32,
}

/// Ranges of some trees.
#[derive(Debug, Default)]
pub(super) struct RangeShard {
    /// Intervals there are; read without the mutex.
    count: AtomicU32,
    /// How often an insert has looked at them; counted under the mutex (Invariant 4).
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
    /// Others' numbers whose intervals hold the key.
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
        Bound::Unbounded => At::Open,
    }
}

fn end_of(bound: Bound<&[u8]>) -> At<'_> {
    match bound {
        Bound::Included(key) => At::After(key),
        Bound::Excluded(key) => At::Before(key),
        Bound::Unbounded => At::Open,
    }
}

pub(super) fn as_begin(at: At<'_>) -> Bound<&[u8]> {
    match at {
        At::Before(key) => Bound::Included(key),
        At::After(key) => Bound::Excluded(key),
        At::Open => Bound::Unbounded,
    }
}

pub(super) fn as_end(at: At<'_>) -> Bound<&[u8]> {
    match at {
        At::Before(key) => Bound::Excluded(key),
        At::After(key) => Bound::Included(key),
        At::Open => Bound::Unbounded,
    }
}

impl LockTable {
    fn range_shard(&self, tree: TreeId) -> (usize, &RangeShard) {
        let shard = tree.0 as usize % RANGE_SHARDS;
        (shard, &self.ranges[shard].0)
    }

    /// Locks a stretch against the inserts of others; never waits. Afterwards, and only then, the caller
    /// looks for keys that others have inserted there and not committed.
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
        // Pairs with the load of `before_insert`: SeqCst and the fence make one of the two see the other.
        shard.count.store(inner.intervals.len() as u32, Ordering::SeqCst);
        drop(inner);
        fence(Ordering::SeqCst);
        let range = RangeLock { shard: number as u32, place };
        locks.ranges.push(range);
        range
    }

    /// Grows an interval so that it ends here or behind.
    pub fn grow_up(&self, locks: &mut LockSet, range: RangeLock, end: Bound<&[u8]>) {
        debug_assert!(locks.ranges.contains(&range), "a set grows its own");
        let shard = &self.ranges[range.shard as usize].0;
        shard.inner.lock().unwrap().intervals.grow_end(range.place, end_of(end));
        fence(Ordering::SeqCst);
    }

    /// Grows an interval so that it begins here or before.
    pub fn grow_down(&self, locks: &mut LockSet, range: RangeLock, begin: Bound<&[u8]>) {
        debug_assert!(locks.ranges.contains(&range), "a set grows its own");
        let shard = &self.ranges[range.shard as usize].0;
        if !plant!("locks: a cursor that goes back locks nothing") {
            shard.inner.lock().unwrap().intervals.grow_begin(range.place, begin_of(begin));
        }
        fence(Ordering::SeqCst);
    }

    /// How often inserts have looked for intervals among which those of a tree are. Read behind the lock of an interval of the
    /// tree, or its growth, and before pending keys are looked for; as long as it is the same behind the next growth, nothing is
    /// pending there that was not then and does not meet the interval (Invariant 4).
    pub fn inserts_looked(&self, tree: TreeId) -> u64 {
        self.range_shard(tree).1.looks.load(Ordering::Acquire)
    }

    /// Waits until no other transaction has locked the gap this key goes into. To be called when the row
    /// is locked for writing and the key is where others find it; true if it waited, and then the caller
    /// looks again whether the key is absent.
    ///
    /// A row lock that was newly taken since `mark` is given back while this waits, and is held again when
    /// it returns well. If it returns an error after a wait, or because its time is over, it is not; and the key is
    /// to be taken out of the write set.
    pub fn before_insert(
        &self,
        locks: &mut LockSet,
        tree: TreeId,
        key: &[u8],
        mark: LockMark,
        patience: Patience,
    ) -> Result<bool, Denied> {
        // Behind what the caller has published.
        fence(Ordering::SeqCst);
        if plant!("locks: an insert passes by gaps")
            || !self.are_gaps_against(&locks.owner, tree, key)
        {
            return Ok(false);
        }
        let hash = LockHash::of_row(tree, key);
        let mode = Mode::Exclusive;
        let request = Request { on: LockOn::Insert, tree, hash, mode, writes: true, row: None };
        if patience == Patience::NoWait {
            let holders = self.gaps_against(&locks.owner, tree, key);
            let holder = holders.first().map(LockParty::id);
            return Err(request.denied(Reason::Busy, holder, Some(KeyStart::of(key))));
        }
        let deadline = self.deadline(locks, patience);
        loop {
            let is_new = self.unlock_since(locks, hash, mark);
            self.must_have_time(&request, deadline, Some(key), || {
                self.gaps_against(&locks.owner, tree, key).first().map(LockParty::id)
            })?;
            self.wait_for_gaps(&locks.owner, &request, key, deadline)?;
            if is_new {
                self.lock_row(locks, tree, key, RowMode::Write, patience)?;
            }
            fence(Ordering::SeqCst);
            if !self.are_gaps_against(&locks.owner, tree, key) {
                return Ok(true);
            }
        }
    }

    /// Whether another has locked the gap that the key goes into. Behind what the caller has published: a row that
    /// exists, and is locked, needs no gap.
    pub fn is_gap_locked(&self, locks: &LockSet, tree: TreeId, key: &[u8]) -> bool {
        self.is_any_gap_locked(locks, &mut std::iter::once((tree, key)))
    }

    /// The same of several keys.
    pub fn is_any_gap_locked<'k>(
        &self,
        locks: &LockSet,
        keys: &mut impl Iterator<Item = (TreeId, &'k [u8])>,
    ) -> bool {
        fence(Ordering::SeqCst);
        keys.any(|(tree, key)| self.are_gaps_against(&locks.owner, tree, key))
    }

    /// True if another's interval holds the key.
    fn are_gaps_against(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> bool {
        let shard = self.range_shard(tree).1;
        if shard.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut found = false;
        let inner = shard.inner.lock().unwrap();
        if !plant!("locks: an insert that looks is not counted") {
            let looks = shard.looks.load(Ordering::Relaxed);
            // Pairs with the load of `inserts_looked`.
            shard.looks.store(looks + 1, Ordering::Release);
        }
        inner.intervals.over(tree, key, |holder| {
            found = holder != owner.number();
            !found
        });
        drop(inner);
        found && !self.gaps_against(owner, tree, key).is_empty()
    }

    /// Who has locked the gap against this owner.
    fn gaps_against(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> Vec<LockParty> {
        let over = self.range_shard(tree).1.inner.lock().unwrap().over(tree, key, owner.number());
        self.that_need_order(&owner.party(), self.parties(over))
    }

    /// Whose intervals hold the key of an insert that waits, whether they stand against it or not: numbers; nothing if it does
    /// not wait any more.
    pub(super) fn gaps_of_waiter(&self, number: u32, tree: TreeId) -> Vec<u32> {
        let inner = self.range_shard(tree).1.inner.lock().unwrap();
        let waiter = inner.waiting.iter().find(|waiter| waiter.owner.number() == number);
        waiter.map_or_else(Vec::new, |waiter| inner.over(tree, &waiter.key, number))
    }

    /// Those of the holders of a gap that stand against an insert. Under no mutex (Invariant 4 of `mod.rs`): the server is asked.
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

    /// Returns when some gap that held the key has gone, or at once if none does.
    fn wait_for_gaps(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        key: &[u8],
        deadline: Option<std::time::Duration>,
    ) -> Result<(), Denied> {
        let (tree, number) = (request.tree, owner.number());
        let waiter = InsertWaiter { owner: owner.clone(), tree, key: key.into() };
        let waiting = self.waiting(owner, request, Some(key), deadline);
        let mut waits = self.waits.lock().unwrap();
        *owner.wait.lock().unwrap() = Wait::On;
        let mut inner = self.range_shard(tree).1.inner.lock().unwrap();
        let over = inner.over(tree, key, number);
        // It waits from now on: a gap that goes while the server is asked is not missed.
        inner.waiting.push(waiter);
        drop(inner);
        waits.waiting.insert(number, waiting);
        if self.hooks.is_some() || over.is_empty() {
            drop(waits);
            let stands = !self.that_need_order(&owner.party(), self.parties(over)).is_empty();
            waits = self.waits.lock().unwrap();
            // Who was told something meanwhile hears of it below.
            if !stands && self.withdraw_insert(number, tree) {
                waits.waiting.remove(&number);
                return Ok(());
            }
        }
        self.sleep(waits, owner, request, deadline).map(drop)
    }

    /// Takes an insert out of those that wait; false if it is not among them.
    pub(super) fn withdraw_insert(&self, number: u32, tree: TreeId) -> bool {
        let mut inner = self.range_shard(tree).1.inner.lock().unwrap();
        let at = inner.waiting.iter().position(|waiter| waiter.owner.number() == number);
        at.inspect(|&at| drop(inner.waiting.swap_remove(at))).is_some()
    }

    /// Gives all ranges of a set back, and lets those look again who waited for them.
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

    /// Hands the stretches of a set to `each`.
    pub(super) fn each_range(&self, locks: &LockSet, mut each: impl FnMut(TreeId, Span<'_>)) {
        locks.ranges.iter().for_each(|range| self.look_at_range(*range, &mut each));
    }

    /// Hands a stretch to `look`.
    pub(super) fn look_at_range(&self, range: RangeLock, look: impl FnOnce(TreeId, Span<'_>)) {
        let inner = self.ranges[range.shard as usize].0.inner.lock().unwrap();
        look(inner.intervals.tree(range.place), inner.span(range.place));
    }

    /// Hands the stretches of a shard, with the numbers of their owners, to `each`, until that says no: how many there are.
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

    /// Ranges there are.
    pub(super) fn ranges_live(&self) -> usize {
        let count = |shard: &super::Aligned<RangeShard>| shard.0.count.load(Ordering::SeqCst);
        self.ranges.iter().map(|shard| count(shard) as usize).sum()
    }
}
