//! The list of held locks, for diagnostics: those of one transaction, or of all.
//!
//! Rows are known here by hashes of their keys. The starts of keys come from waiting requests, and
//! from the writes of transactions (`db/session/lock_report.rs`).
//!
//! Invariants
//! 1. Shards are examined one at a time, for as many locks as the list has room for; further locks
//!    are only counted.
//! 2. The name of a lock's holder is read while the lock cannot be released, so that it is not that
//!    of a later transaction.
//!
//! Threads: all. Under a shard's mutex nothing is allocated except starts of keys of gaps, and a
//! list that was too short.

use std::{collections::HashMap, fmt, ops::Bound};

use super::{
    LockMode, LockTable,
    lock_error::{LockOn, Locked, NamedTree},
    lock_set::LockSet,
    mode::Mode,
    ranges::Span,
    rows::{NOTED, parts},
    spilled::OWNERS,
};
use crate::{TreeId, types::KeyStart};

/// The object of a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeldOn {
    /// A row, which need not exist.
    Row {
        /// 128-bit hash of the key: [`Tree::key_hash`](crate::Tree::key_hash).
        key_hash: u128,
        /// The start of the key, if it is known. For rows that are only locked it is known only
        /// while another transaction waits for them.
        key: Option<KeyStart>,
    },
    /// A gap: others cannot insert a key between `from` and `to`.
    Gap {
        /// Where the gap starts.
        from: Bound<KeyStart>,
        /// Where the gap ends.
        to: Bound<KeyStart>,
    },
    /// A tree as a whole; most of these locks are intents.
    Tree,
}

/// A held lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLock {
    /// The id of the transaction that holds it.
    pub owner: u64,
    /// The program's own name for it, as in [`LiveTxn`](crate::txn::lock_table::LiveTxn).
    pub tag: u64,
    /// The locked object.
    pub on: HeldOn,
    /// The tree.
    pub tree: TreeId,
    /// The name of the tree, if the tree still exists.
    pub tree_name: String,
    /// The mode; gaps are always shared.
    pub mode: LockMode,
}

impl fmt::Display for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, on, tree, tree_name, mode, .. } = self;
        let tree = NamedTree(tree_name, *tree);
        write!(f, "transaction {owner} has {mode} access to ")?;
        match on {
            HeldOn::Row { key_hash, key } => {
                let key = key.as_ref();
                write!(f, "{}", Locked { on: LockOn::Row, key_hash: *key_hash, key, tree })
            }
            HeldOn::Gap { from, to } => {
                write!(f, "the gap")?;
                match from {
                    Bound::Included(key) => write!(f, " from key {key}")?,
                    Bound::Excluded(key) => write!(f, " after key {key}")?,
                    Bound::Unbounded => {}
                }
                match to {
                    Bound::Included(key) => write!(f, " up to key {key}")?,
                    Bound::Excluded(key) => write!(f, " before key {key}")?,
                    Bound::Unbounded => {}
                }
                write!(f, " of tree {tree}")
            }
            HeldOn::Tree => write!(f, "the whole tree {tree}"),
        }
    }
}

/// Held locks, up to the requested number.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeldLocks {
    /// Whole trees first, then gaps, then rows.
    pub locks: Vec<HeldLock>,
    /// Approximate number of further locks.
    pub more: usize,
}

impl HeldLocks {
    fn add(&mut self, max: usize, (owner, tag): (u64, u64), on: HeldOn, tree: TreeId, mode: Mode) {
        match self.locks.len() < max {
            true => {
                let tree_name = String::new();
                self.locks.push(HeldLock { owner, tag, on, tree, tree_name, mode });
            }
            false => self.more += 1,
        }
    }

    /// Allocates space before a mutex is taken.
    fn reserve(&mut self, max: usize) {
        self.locks.reserve((max - self.locks.len()).min(1024));
    }

    fn is_full(&self, max: usize) -> bool {
        self.locks.len() >= max
    }
}

fn gap((from, to): Span<'_>) -> HeldOn {
    HeldOn::Gap { from: from.map(KeyStart::of), to: to.map(KeyStart::of) }
}

fn row(key_hash: u128) -> HeldOn {
    HeldOn::Row { key_hash, key: None }
}

impl LockTable {
    /// Up to `max` of all held locks. Names of trees are not filled in here; rows whose writes have
    /// been spilled are not included.
    pub fn held(&self, max: usize) -> HeldLocks {
        let mut held = HeldLocks::default();
        self.owners.each(|owner| {
            let before = owner.party();
            let mut intents = [None; super::owner::INTENTS];
            for (place, intent) in owner.intents.iter().zip(&mut intents) {
                *intent = super::tables::written_down(place);
            }
            // Otherwise the intents may belong to two transactions.
            if owner.party().id() == before.id() {
                for (tree, mode) in intents.into_iter().flatten() {
                    held.add(max, (before.id(), before.tag()), HeldOn::Tree, tree, mode);
                }
            }
        });
        for shard in 0..self.ranges.len() {
            held.reserve(max);
            let mut listed = 0;
            let count = self.each_interval(shard, |tree, number, span| {
                let has_room = !held.is_full(max);
                if has_room {
                    held.add(max, self.name_of(number), gap(span), tree, Mode::Shared);
                    listed += 1;
                }
                has_room
            });
            held.more += count - listed;
        }
        for shard in &self.shards {
            held.reserve(max);
            let shard = shard.0.lock().unwrap();
            let mut last = None;
            let mut listed = 0;
            if !held.is_full(max) {
                listed = shard.each(|name, number, mode| {
                    // Usually the same owner as before.
                    let of = match last {
                        Some((at, of)) if at == number => of,
                        _ => self.name_of(number),
                    };
                    last = Some((number, of));
                    if name.tree != OWNERS {
                        let on = if name.is_table { HeldOn::Tree } else { row(name.hash.0) };
                        held.add(max, of, on, name.tree, mode);
                    }
                    !held.is_full(max)
                });
            }
            held.more += shard.live().saturating_sub(listed);
        }
        self.tell_keys(&mut held);
        // An intent that was moved into the table meanwhile may be listed twice.
        held.locks.sort_by_key(|one| (one.owner, one.tree, kind(&one.on)));
        held.locks.dedup_by(|a, b| a == b && a.on == HeldOn::Tree);
        held
    }

    /// Up to `max` of the locks of one set, as in [`held`](Self::held).
    pub fn held_by(&self, locks: &LockSet, max: usize) -> HeldLocks {
        let mut held = HeldLocks::default();
        let party = locks.owner.party();
        let of = (party.id(), party.tag());
        self.each_intent(locks, |tree, mode| held.add(max, of, HeldOn::Tree, tree, mode));
        for range in &locks.ranges {
            if held.is_full(max) {
                break;
            }
            self.look_at_range(*range, |tree, span| {
                held.add(max, of, gap(span), tree, Mode::Shared);
            });
        }
        for &place in &locks.held {
            if held.is_full(max) {
                break;
            }
            let (shard, at) = parts(place);
            let found = self.shards[shard].0.lock().unwrap().look(at, locks.owner.number());
            let (name, mode, _) = found.expect(NOTED);
            if name.tree != OWNERS {
                let on = if name.is_table { HeldOn::Tree } else { row(name.hash.0) };
                held.add(max, of, on, name.tree, mode);
            }
        }
        let own = usize::from(locks.spilled.is_some());
        held.more = locks.len().saturating_sub(own + held.locks.len());
        self.tell_keys(&mut held);
        held.locks.sort_by_key(|one| kind(&one.on));
        held
    }

    /// Id and tag of the owner with this number, which holds a lock that cannot be released
    /// meanwhile.
    fn name_of(&self, number: u32) -> (u64, u64) {
        let party = self.owners.find(number).map(|owner| owner.party());
        party.map_or((0, 0), |party| (party.id(), party.tag()))
    }

    /// Fills in the keys of rows for which a transaction waits.
    fn tell_keys(&self, held: &mut HeldLocks) {
        let waits = self.waits.lock().unwrap();
        let rows = waits.waiting.values().filter(|wait| wait.request.on == LockOn::Row);
        let named = rows.filter_map(|wait| Some((wait.request.wanted().0.0, wait.key.clone()?)));
        let keys: HashMap<u128, KeyStart> = named.collect();
        drop(waits);
        for lock in &mut held.locks {
            if let HeldOn::Row { key_hash, key } = &mut lock.on {
                *key = keys.get(key_hash).cloned();
            }
        }
    }
}

fn kind(on: &HeldOn) -> u8 {
    match on {
        HeldOn::Tree => 0,
        HeldOn::Gap { .. } => 1,
        HeldOn::Row { .. } => 2,
    }
}
