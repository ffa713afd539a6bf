//! Locking rows, and releasing locks.
//!
//! Threads: all.

use super::{
    LockTable, SHARDS,
    lock_error::{LockError, LockOn, Reason, Request, WaitPolicy},
    lock_set::{LockMark, LockSet},
    mode::{Mode, RowMode},
    owner::{Holder, Owner, Wait},
    shard::{LockHash, Name, Shard, Taken},
};
use crate::{
    TreeId,
    sync::{Mutex, MutexGuard},
    txn::HashedKey,
    types::KeyStart,
};

pub(super) const NOTED: &str = "lock table, invariant 1: what is noted is held";

/// Number of bits of a place, below the eight bits of its shard.
const PLACE_BITS: u32 = 24;

/// Notifies an owner that it was granted the lock it waited for, in this shard.
pub(super) fn granting(shard: usize) -> impl FnMut(u32, &Owner) {
    move |at, owner| owner.tell(Wait::Granted(located(shard, at)))
}

pub(super) fn located(shard: usize, at: u32) -> u32 {
    (shard as u32) << PLACE_BITS | at
}

pub(super) fn parts(place: u32) -> (usize, u32) {
    ((place >> PLACE_BITS) as usize, place & ((1 << PLACE_BITS) - 1))
}

impl Request {
    pub(super) fn name(&self) -> Name {
        Name { tree: self.tree, hash: self.hash, is_table: self.on == LockOn::Table }
    }
}

impl LockTable {
    /// Locks a row, which need not exist. A lock that is held in this mode or a greater one is not
    /// taken again; a lesser one is upgraded, ahead of all that wait for the row.
    ///
    /// If it waited, everything read before is outdated.
    pub fn lock_row(
        &self,
        locks: &mut LockSet,
        tree: TreeId,
        key: &[u8],
        mode: RowMode,
        wait_policy: WaitPolicy,
    ) -> Result<Taken, LockError> {
        if self.is_spilled_own(locks, tree, key) {
            locks.asks();
            return Ok(Taken::AlreadyHeld);
        }
        self.lock_unwritten(locks, HashedKey::new(tree, key), mode, wait_policy)
    }

    /// Locks a row for which the transaction has no spilled write; otherwise like
    /// [`lock_row`](Self::lock_row).
    pub fn lock_unwritten(
        &self,
        locks: &mut LockSet,
        HashedKey { tree, key, hash }: HashedKey<'_>,
        mode: RowMode,
        wait_policy: WaitPolicy,
    ) -> Result<Taken, LockError> {
        if mode != RowMode::Write {
            self.must_have_room(locks, tree)?;
        }
        let request = Request {
            on: LockOn::Row,
            tree,
            hash: LockHash(hash),
            mode: Mode::from(mode),
            writes: mode == RowMode::Write,
            row: None,
        };
        locks.asks();
        let (place, taken) = self.take(locks, &request, Some(key), wait_policy)?;
        locks.last.push((place, taken));
        if self.spilled.any()
            && let Err(denied) = self.pass_spilled(locks, &request, key, wait_policy)
        {
            if !plant!("locks: a wait that failed keeps the row") {
                self.unlock_behind(locks, locks.last_rows() - 1);
            }
            return Err(denied);
        }
        Ok(taken)
    }

    /// The hash that identifies a row in the table.
    pub fn row_hash(tree: TreeId, key: &[u8]) -> u128 {
        LockHash::of_row(tree, key).0
    }

    /// Releases what the last [`lock_row`](Self::lock_row) of this set newly took, together with
    /// the rows it was [joined](LockSet::join_last) to: the locks, or their upgrades (Rule: I46). A
    /// second call has no effect.
    pub fn unlock_last(&self, locks: &mut LockSet) {
        self.unlock_behind(locks, 0);
        locks.joins = false;
    }

    /// Releases the rows of the last unit except the first `kept`, like
    /// [`unlock_last`](Self::unlock_last).
    pub fn unlock_behind(&self, locks: &mut LockSet, kept: usize) {
        while locks.last.len() > kept
            && let Some((place, taken)) = locks.last.pop()
        {
            let (shard, at) = parts(place);
            match taken {
                Taken::New if plant!("locks: what was newly taken stays") => {}
                Taken::New => self.give_back(locks, place),
                // The only lesser mode of a row is shared.
                Taken::Upgraded => self.shards[shard].0.lock().unwrap().downgrade(
                    at,
                    locks.owner.number(),
                    Mode::Shared,
                    granting(shard),
                ),
                Taken::AlreadyHeld => {}
            }
        }
    }

    /// Releases a row if it was newly taken since the mark.
    pub(super) fn unlock_since(&self, locks: &mut LockSet, hash: LockHash, mark: LockMark) -> bool {
        let number = locks.owner.number();
        let (shard, mut guard) = self.lock_shard(hash);
        let Some((at, _)) = guard.held(hash, number) else { return false };
        let place = located(shard, at);
        let Some(newer) = locks.held.get(mark.0..) else { return false };
        let Some(index) = newer.iter().rposition(|&held| held == place) else { return false };
        guard.release(at, number, granting(shard));
        locks.held.remove(mark.0 + index);
        locks.keep_last();
        true
    }

    /// Releases everything; the set is as new afterwards. To be called only when the transaction's
    /// commit is visible, or its rollback done (Rule: I3).
    pub fn release_all(&self, locks: &mut LockSet) {
        self.forget_spilled(locks);
        locks.owner.set_since(None);
        locks.until = None;
        let number = locks.owner.number();
        for place in locks.held.drain(..) {
            let (shard, at) = parts(place);
            self.shards[shard].0.lock().unwrap().release(at, number, granting(shard));
        }
        // Do not keep the memory of a transaction with very many locks.
        if locks.held.capacity().max(locks.last.capacity()) > 1 << 16 {
            locks.held = Vec::new();
            locks.last = Vec::new();
        }
        locks.keep_last();
        self.release_ranges(locks);
        self.release_intents(locks);
        self.release_strong(locks);
    }

    /// The shard of a hash. Its buckets are selected by other bits.
    pub(super) fn shard(&self, hash: LockHash) -> (usize, &Mutex<Shard>) {
        let shard = (hash.0 >> 120) as usize % SHARDS;
        (shard, &self.shards[shard].0)
    }

    pub(super) fn lock_shard(&self, hash: LockHash) -> (usize, MutexGuard<'_, Shard>) {
        let (number, shard) = self.shard(hash);
        (number, shard.lock().unwrap())
    }

    /// Takes a lock of the table and records it. `key` is shown in reports of waits.
    pub(super) fn take(
        &self,
        locks: &mut LockSet,
        request: &Request,
        key: Option<&[u8]>,
        wait_policy: WaitPolicy,
    ) -> Result<(u32, Taken), LockError> {
        let number = locks.owner.number();
        let (shard, mut guard) = self.lock_shard(request.hash);
        let asked = guard.ask(request.name(), number, request.mode, request.writes);
        let (place, taken) = match asked {
            Some((at, taken)) => (located(shard, at), taken),
            None if wait_policy == WaitPolicy::NoWait => {
                let holder = guard.refuses(request.hash, number, request.mode);
                drop(guard);
                let holder = self.holder(holder);
                return Err(request.denied(Reason::Busy, holder, key.map(KeyStart::of)));
            }
            None => {
                drop(guard);
                let deadline = self.deadline(locks, wait_policy);
                self.must_have_time(request, deadline, key, || {
                    let guard = self.lock_shard(request.hash).1;
                    let holder = guard.refuses(request.hash, number, request.mode);
                    drop(guard);
                    self.holder(holder)
                })?;
                self.wait_for_lock(&locks.owner, request, key, deadline)?
            }
        };
        if taken == Taken::New {
            locks.held.push(place);
        }
        Ok((place, taken))
    }

    /// Releases the locks of the table for which `is_kept` returns false; the kept ones stay in the
    /// order in which they were taken.
    pub(super) fn release_others(
        &self,
        locks: &mut LockSet,
        mut is_kept: impl FnMut(Name, Mode, bool) -> bool,
    ) {
        let number = locks.owner.number();
        locks.keep_last();
        locks.held.retain(|&place| {
            let (shard, at) = parts(place);
            let mut guard = self.shards[shard].0.lock().unwrap();
            let (name, mode, writes) = guard.look(at, number).expect(NOTED);
            let kept = is_kept(name, mode, writes);
            if !kept {
                guard.release(at, number, granting(shard));
            }
            kept
        });
    }

    /// Calls `each` for every lock of the table that a set holds.
    pub(super) fn each_held(&self, locks: &LockSet, mut each: impl FnMut(Name, Mode, bool)) {
        for &place in &locks.held {
            let (shard, at) = parts(place);
            let guard = self.shards[shard].0.lock().unwrap();
            let (name, mode, writes) = guard.look(at, locks.owner.number()).expect(NOTED);
            drop(guard);
            each(name, mode, writes);
        }
    }

    /// A transaction by its owner's number, while the owner exists.
    pub(super) fn holder(&self, number: Option<u32>) -> Option<Holder> {
        Some(self.owners.find(number?)?.as_holder())
    }
}
