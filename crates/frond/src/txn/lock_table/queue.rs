//! The queue of a lock with more than one party: its holders and waiters.
//!
//! Invariants
//! 1. Holders are ordered by number, each once; any two are compatible.
//! 2. A waiter waits for some other: for a conflicting holder, or for a conflicting waiter before
//!    it. A request that waits for none is granted at once, so the edges of
//!    [`closure`](Queue::closure) are all the reasons for all waits, and no cycle is hidden.
//! 3. A holder that waits for an upgrade comes before waiters that hold nothing, and after other
//!    upgraders: the others could not pass it anyway.
//!
//! Threads: under the mutex of its shard.

use std::collections::VecDeque;

use super::{
    mode::{MODES, Mode},
    owner::Owner,
};
use crate::sync::Arc;

/// A waiter.
#[derive(Debug)]
pub(super) struct Waiter {
    pub owner: Arc<Owner>,
    /// The mode that it will hold.
    pub mode: Mode,
    /// True if the owner already holds the lock in a lesser mode.
    pub upgrades: bool,
}

/// An edge of the waits-for graph: one owner waits for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    /// The other waits in the same queue, and everything that it waits for is among the edges, too.
    pub is_walked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    holders: Vec<(u32, Mode)>,
    /// Number of holders by mode.
    counts: [u32; MODES],
    pub waiting: VecDeque<Waiter>,
}

impl Queue {
    pub fn holders(&self) -> &[(u32, Mode)] {
        &self.holders
    }

    /// The mode in which this owner holds the lock.
    pub fn held(&self, owner: u32) -> Option<Mode> {
        let at = self.holders.binary_search_by_key(&owner, |holder| holder.0).ok()?;
        Some(self.holders[at].1)
    }

    /// Makes an owner hold the lock in this mode, which replaces its previous one.
    pub fn hold(&mut self, owner: u32, mode: Mode) {
        match self.holders.binary_search_by_key(&owner, |holder| holder.0) {
            Ok(at) => {
                self.counts[self.holders[at].1 as usize] -= 1;
                self.holders[at].1 = mode;
            }
            Err(at) => self.holders.insert(at, (owner, mode)),
        }
        self.counts[mode as usize] += 1;
    }

    /// Removes a holder; false if it was none.
    pub fn drop_holder(&mut self, owner: u32) -> bool {
        let Ok(at) = self.holders.binary_search_by_key(&owner, |holder| holder.0) else {
            return false;
        };
        let (_, mode) = self.holders.remove(at);
        self.counts[mode as usize] -= 1;
        true
    }

    /// Whether all other holders are compatible with this mode.
    pub fn holders_admit(&self, owner: u32, mode: Mode) -> bool {
        let own = self.held(owner);
        Mode::ALL.into_iter().all(|other| {
            let count = self.counts[other as usize] - u32::from(own == Some(other));
            count == 0 || mode.admits(other)
        })
    }

    /// Whether no waiter conflicts with a request in this mode by an owner that holds nothing.
    pub fn waiters_admit(&self, mode: Mode) -> bool {
        self.waiting.iter().all(|waiter| waiter.mode.admits(mode))
    }

    /// Whether no waiting upgrader conflicts with a further upgrade to this mode.
    pub fn upgraders_admit(&self, mode: Mode) -> bool {
        let mut upgraders = self.waiting.iter().take_while(|waiter| waiter.upgrades);
        upgraders.all(|waiter| waiter.mode.admits(mode))
    }

    /// Adds a waiter in its place.
    pub fn enqueue(&mut self, waiter: Waiter) {
        if waiter.upgrades && !plant!("locks: an upgrade queues after others") {
            let at = self.waiting.iter().position(|other| !other.upgrades);
            self.waiting.insert(at.unwrap_or(self.waiting.len()), waiter);
        } else {
            self.waiting.push_back(waiter);
        }
    }

    /// Removes a waiter.
    pub fn withdraw(&mut self, owner: u32) -> bool {
        let at = self.waiting.iter().position(|waiter| waiter.owner.number() == owner);
        at.is_some_and(|at| self.waiting.remove(at).is_some())
    }

    /// Grants the lock to all waiters that no longer wait for anything, and passes each to
    /// `granted`.
    pub fn promote(&mut self, mut granted: impl FnMut(&Owner)) {
        let mut before = 0;
        let mut at = 0;
        while let Some(waiter) = self.waiting.get(at) {
            let (number, mode) = (waiter.owner.number(), waiter.mode);
            if before & mode.conflicts() == 0 && self.holders_admit(number, mode) {
                self.hold(number, mode);
                if let Some(waiter) = self.waiting.remove(at) {
                    granted(&waiter.owner);
                }
                continue;
            }
            before |= mode.bit();
            if before & Mode::Exclusive.bit() != 0 {
                break; // no waiter after it is compatible
            }
            at += 1;
        }
    }

    /// The edges from an owner that waits here, and from the waiters before it on which it depends:
    /// enough edges to reach every owner it waits for, directly or indirectly.
    ///
    /// An exclusive waiter waits for everything before it, so few waiters have to be expanded,
    /// however long the queue is.
    pub fn closure(&self, owner: u32, edges: &mut Vec<Edge>) {
        let number = |at: usize| self.waiting[at].owner.number();
        let Some(start) = (0..self.waiting.len()).find(|&at| number(at) == owner) else { return };
        let mut reached_waiters = vec![false; start];
        let mut reached_holders = vec![false; self.holders.len()];
        let mut work = vec![start];
        while let Some(at) = work.pop() {
            let Waiter { mode, .. } = self.waiting[at];
            let from = number(at);
            for (reached, &(holder, held)) in reached_holders.iter_mut().zip(&self.holders) {
                if !*reached && holder != from && !mode.admits(held) {
                    *reached = true;
                    edges.push(Edge { from, to: holder, is_walked: false });
                }
            }
            let mut is_nearest = true;
            for ahead in (0..at).rev() {
                if !reached_waiters[ahead] && !mode.admits(self.waiting[ahead].mode) {
                    reached_waiters[ahead] = true;
                    edges.push(Edge { from, to: number(ahead), is_walked: true });
                    if is_nearest {
                        work.push(ahead);
                        is_nearest = self.waiting[ahead].mode != Mode::Exclusive;
                    }
                }
            }
        }
    }

    /// The owners that a waiter waits for, each once: only its own edges, by definition. A holder
    /// that waits for an upgrade conflicts in both roles, but must be reported only once.
    pub fn blockers(&self, owner: u32) -> Vec<u32> {
        let Some(start) = self.waiting.iter().position(|waiter| waiter.owner.number() == owner)
        else {
            return Vec::new();
        };
        let mode = self.waiting[start].mode;
        let holders = self.holders.iter().filter(|holder| holder.0 != owner);
        let holders = holders.filter(|holder| !mode.admits(holder.1)).map(|holder| holder.0);
        let ahead = self.waiting.iter().take(start);
        let ahead = ahead.filter(|waiter| !mode.admits(waiter.mode));
        let is_new = |number| self.held(number).is_none_or(|held| mode.admits(held));
        let ahead = ahead.filter(|waiter| is_new(waiter.owner.number()));
        holders.chain(ahead.map(|waiter| waiter.owner.number())).collect()
    }
}
