//! Locks on trees as a whole (Rule: I52).
//!
//! Nearly all of them are intents, and intents are compatible with each other. So a transaction
//! records its intents in its own [`Owner`](super::owner::Owner) and the table knows nothing of
//! them, until a transaction wants to lock a tree shared or exclusively. That transaction first
//! raises a counter, then visits all owners and moves their intents on this tree into the table;
//! from then on, other transactions also request their intents there.
//!
//! Invariants
//! 1. While the counter of a tree's class is not zero, no owner records an intent on a tree of the
//!    class and keeps it. An intent is recorded first and then the counter is read; the counter is
//!    raised first and then the owners are visited; all in one total order (SeqCst). So one of the
//!    two sees the other.
//! 2. An intent that was moved into the table is marked where it was recorded; its owner releases
//!    it in the table.
//! 3. A slot for an intent is emptied and filled only by its owner; others only mark it.
//!
//! Threads: all. Cost of an intent: a search of the owner's own slots, one atomic exchange, one
//! load.

use super::{
    LockTable, STRONG,
    lock_error::{LockError, LockOn, Request, WaitPolicy},
    lock_set::LockSet,
    mode::{Mode, TableMode},
    owner::{INTENTS, Owner},
    rows::granting,
    shard::{LockHash, Name, Shard, Taken},
};
use crate::{
    TreeId,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// Flag of an intent: it is in the table, too.
const MOVED: u64 = 1 << 2;
/// Flag of an intent: it is exclusive.
const EXCLUSIVE: u64 = 1 << 1;
/// Flag of an intent: the slot is in use.
const USED: u64 = 1;
const TREE_SHIFT: u32 = 8;

fn intent(tree: TreeId, mode: Mode) -> u64 {
    let exclusive = if mode == Mode::IntentExclusive { EXCLUSIVE } else { 0 };
    u64::from(tree.0) << TREE_SHIFT | exclusive | USED
}

fn tree_of(intent: u64) -> TreeId {
    TreeId((intent >> TREE_SHIFT) as u32)
}

fn mode_of(intent: u64) -> Mode {
    if intent & EXCLUSIVE != 0 { Mode::IntentExclusive } else { Mode::IntentShared }
}

/// The intent in a slot, if there is one and it is not in the table.
pub(super) fn written_down(place: &AtomicU64) -> Option<(TreeId, Mode)> {
    let own = place.load(Ordering::SeqCst);
    (own & (USED | MOVED) == USED).then(|| (tree_of(own), mode_of(own)))
}

fn name_of(tree: TreeId) -> Name {
    Name { tree, hash: LockHash::of_tree(tree), is_table: true }
}

impl LockTable {
    /// Locks a tree as a whole, or records what will be done to its rows. An intent on the tree
    /// must come before the first lock on one of its rows.
    pub fn lock_table(
        &self,
        locks: &mut LockSet,
        tree: TreeId,
        mode: TableMode,
        wait_policy: WaitPolicy,
    ) -> Result<Taken, LockError> {
        let mode = Mode::from(mode);
        let is_intent = matches!(mode, Mode::IntentShared | Mode::IntentExclusive);
        if is_intent && let Some(taken) = self.write_down(locks, tree, mode) {
            return Ok(taken);
        }
        let Name { hash, .. } = name_of(tree);
        let request = Request { on: LockOn::Table, tree, hash, mode, writes: false, row: None };
        if is_intent {
            return Ok(self.take(locks, &request, None, wait_policy)?.1);
        }
        self.strong_of(tree).fetch_add(1, Ordering::SeqCst);
        if !plant!("locks: intents of before are not asked for") {
            self.gather(tree);
        }
        let taken = self.take(locks, &request, None, wait_policy);
        match taken {
            Ok((_, Taken::New | Taken::Upgraded)) => locks.strong.push(tree),
            _ => drop(self.strong_of(tree).fetch_sub(1, Ordering::SeqCst)),
        }
        Ok(taken?.1)
    }

    fn strong_of(&self, tree: TreeId) -> &AtomicU32 {
        &self.strong[tree.0 as usize % STRONG]
    }

    /// Records an intent at its owner; `None` if it must be requested in the table.
    fn write_down(&self, locks: &mut LockSet, tree: TreeId, mode: Mode) -> Option<Taken> {
        let places = &locks.owner.intents[..locks.intents];
        // Relaxed: only the owner fills a slot, and a mark that is missed here is detected below.
        let found = places.iter().rev().find_map(|place| {
            let own = place.load(Ordering::Relaxed);
            (tree_of(own) == tree).then_some((place, own))
        });
        let Some((place, own)) = found else {
            if locks.intents == INTENTS {
                return None;
            }
            let place = &locks.owner.intents[locks.intents];
            locks.intents += 1;
            place.swap(intent(tree, mode), Ordering::SeqCst);
            if self.strong_of(tree).load(Ordering::SeqCst) == 0 {
                return Some(Taken::New);
            }
            if place.swap(0, Ordering::SeqCst) & MOVED != 0 {
                // Moved into the table just now: so it came first, and is held.
                place.store(intent(tree, mode) | MOVED, Ordering::SeqCst);
                return Some(Taken::New);
            }
            locks.intents -= 1;
            return None;
        };
        if mode_of(own).covers(mode) {
            return Some(Taken::AlreadyHeld);
        }
        let (set, fail) = (Ordering::SeqCst, Ordering::SeqCst);
        let more = intent(tree, mode);
        if own & MOVED != 0 || place.compare_exchange(own, more, set, fail).is_err() {
            return None;
        }
        if self.strong_of(tree).load(Ordering::SeqCst) == 0 {
            return Some(Taken::Upgraded);
        }
        // Undo the upgrade. If the intent was moved into the table meanwhile, it came first.
        let is_less = place.compare_exchange(more, own, set, fail).is_ok();
        (!is_less).then_some(Taken::Upgraded)
    }

    /// Moves all intents on this tree into the table.
    fn gather(&self, tree: TreeId) {
        let name = name_of(tree);
        let mut shard = self.lock_shard(name.hash).1;
        self.owners.each(|owner| move_intent(&mut shard, owner, name));
    }

    /// Releases all intents.
    pub(super) fn release_intents(&self, locks: &mut LockSet) {
        for place in &locks.owner.intents[..locks.intents] {
            let own = place.swap(0, Ordering::SeqCst);
            if own & MOVED != 0 {
                self.release_moved(&locks.owner, tree_of(own));
            }
        }
        locks.intents = 0;
    }

    /// Releases shared intents, and keeps the others.
    pub(super) fn release_shared_intents(&self, locks: &mut LockSet) {
        let mut kept = 0;
        for at in 0..locks.intents {
            let places = &locks.owner.intents;
            let own = places[at].load(Ordering::SeqCst);
            if self.mode_now(&locks.owner, own) == Mode::IntentShared {
                if places[at].swap(0, Ordering::SeqCst) & MOVED != 0 {
                    self.release_moved(&locks.owner, tree_of(own));
                }
                continue;
            }
            if at != kept {
                self.move_place(&locks.owner, at, kept);
            }
            kept += 1;
        }
        locks.intents = kept;
    }

    /// The current mode of an intent: if it was moved into the table, it may have been upgraded
    /// there.
    fn mode_now(&self, owner: &Owner, intent: u64) -> Mode {
        let hash = LockHash::of_tree(tree_of(intent));
        let held = || self.lock_shard(hash).1.held(hash, owner.number());
        let held = if intent & MOVED != 0 { held() } else { None };
        held.map_or(mode_of(intent), |held| held.1)
    }

    /// Moves an intent to an empty slot. Under the shard of its tree, so that a concurrent `gather`
    /// sees it in exactly one slot.
    fn move_place(&self, owner: &Owner, from: usize, to: usize) {
        let tree = tree_of(owner.intents[from].load(Ordering::SeqCst));
        let _no_gathering = self.lock_shard(LockHash::of_tree(tree)).1;
        let own = owner.intents[from].swap(0, Ordering::SeqCst);
        owner.intents[to].store(own, Ordering::SeqCst);
    }

    fn release_moved(&self, owner: &Owner, tree: TreeId) {
        let (shard, mut guard) = self.lock_shard(LockHash::of_tree(tree));
        if let Some((at, _)) = guard.held(LockHash::of_tree(tree), owner.number()) {
            guard.release(at, owner.number(), granting(shard));
        }
    }

    /// Lowers the counters of the trees that were locked as a whole.
    pub(super) fn release_strong(&self, locks: &mut LockSet) {
        for tree in locks.strong.drain(..) {
            self.strong_of(tree).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Calls `each` for every intent of a set.
    pub(super) fn each_intent(&self, locks: &LockSet, mut each: impl FnMut(TreeId, Mode)) {
        for place in &locks.owner.intents[..locks.intents] {
            let own = place.load(Ordering::SeqCst);
            each(tree_of(own), self.mode_now(&locks.owner, own));
        }
    }
}

/// Moves an owner's intent on this tree into the table, if it has recorded one.
fn move_intent(shard: &mut Shard, owner: &Owner, name: Name) {
    for place in &owner.intents {
        let mut own = place.load(Ordering::SeqCst);
        while own != 0 && own & MOVED == 0 && tree_of(own) == name.tree {
            let (set, fail) = (Ordering::SeqCst, Ordering::SeqCst);
            match place.compare_exchange(own, own | MOVED, set, fail) {
                Ok(_) => {
                    shard.hold(name, owner.number(), mode_of(own));
                    break;
                }
                Err(now) => own = now,
            }
        }
    }
}
