//! Deadlocks: a cycle of waits is found when its last wait begins, resolved at once, and reported
//! (`deadlock_report.rs`).
//!
//! The search starts at the owner that begins to wait and follows all that it waits for, directly
//! or through others, until it meets the owner again or has visited all. A queue is expanded once,
//! whichever of its waiters was reached first ([`Queue::closure`](super::queue::Queue::closure)).
//! The victim of a cycle is the transaction that has written least (of several, the one that closed
//! the cycle), unless the server prefers another. The victim's wait is ended before the search
//! continues, since there may be a second cycle.
//!
//! Invariants
//! 1. An owner does not sleep before its search is done, so a cycle always goes through the
//!    searcher.
//! 2. Every owner on a cycle waits, so each can be aborted by removing it from its queue.
//!    Exception: an insert may have been woken meanwhile because one of several gaps was released;
//!    when it checks again it begins a new wait, and searches by itself.
//! 3. The server is asked under no mutex. Its answer about two transactions is valid for the whole
//!    search. While the server answers, other transactions may start and end, so the search then
//!    starts again.
//!
//! Threads: under the mutex of the waits; shards are examined one at a time.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    LockTable,
    deadlock_report::{Deadlock, Party},
    hook_answers::HookAnswers,
    lock_error::LockOn,
    owner::{Owner, Wait},
    queue::Edge,
    waits::{Waiting, Waits},
};
use crate::sync::{Arc, MutexGuard};

impl LockTable {
    /// Resolves every cycle through this owner, which begins to wait. The mutex of the waits is
    /// released while the server is asked.
    pub(super) fn end_cycles<'a>(
        &'a self,
        mut waits: MutexGuard<'a, Waits>,
        start: u32,
    ) -> MutexGuard<'a, Waits> {
        if plant!("locks: cycles are not searched") {
            return waits;
        }
        let mut said = HookAnswers::new(self.hooks.as_ref());
        loop {
            let cycle = self.cycle(&waits, start, &mut said);
            let victim = cycle.as_ref().map(|cycle| self.victim(&waits, cycle, &mut said));
            if said.has_questions() {
                drop(waits);
                said.ask();
                waits = self.waits.lock().unwrap();
                continue;
            }
            let (Some(cycle), Some(victim)) = (cycle, victim) else { return waits };
            let deadlock = self.described(&waits, &cycle, victim);
            let Some(Waiting { owner, request, .. }) = waits.waiting.get(&victim) else {
                return waits;
            };
            if !self.withdraw(victim, request) {
                let was_woken = request.on == LockOn::Insert;
                assert!(was_woken, "locks, deadlock, invariant 2: every owner on a cycle waits");
                continue;
            }
            owner.tell(Wait::Victim);
            waits.last_deadlock = Some(Arc::new(deadlock));
            if victim == start {
                return waits;
            }
        }
    }

    /// A cycle through this owner: numbers, each of an owner that waits for the next, from `start`
    /// on.
    fn cycle(&self, waits: &Waits, start: u32, said: &mut HookAnswers<'_>) -> Option<Vec<u32>> {
        let mut came_from: BTreeMap<u32, u32> = BTreeMap::new();
        let mut work = vec![start];
        let mut edges = Vec::new();
        while let Some(number) = work.pop() {
            edges.clear();
            self.edges(waits, number, said, &mut edges);
            for &Edge { from, to, is_walked } in &edges {
                if to == start {
                    let mut cycle = vec![from];
                    while cycle.last() != Some(&start) {
                        cycle.push(came_from[&cycle[cycle.len() - 1]]);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if let Entry::Vacant(unmet) = came_from.entry(to) {
                    unmet.insert(from);
                    if !is_walked && waits.waiting.contains_key(&to) {
                        work.push(to);
                    }
                }
            }
        }
        None
    }

    /// The edges from this owner, and from those after which it queues.
    fn edges(&self, waits: &Waits, number: u32, said: &mut HookAnswers<'_>, edges: &mut Vec<Edge>) {
        let Some(Waiting { owner, request, .. }) = waits.waiting.get(&number) else { return };
        if request.on == LockOn::Insert {
            for to in self.gaps_of_waiter(number, request.tree) {
                if said.needs_order(owner, || self.owners.find(to)) {
                    edges.push(Edge { from: number, to, is_walked: false });
                }
            }
        } else if let Some(queue) = self.lock_shard(request.hash).1.queue(request.hash) {
            queue.closure(number, edges);
        }
    }

    /// The victim of a cycle. The searcher comes first, so it is the victim among equals.
    fn victim(&self, waits: &Waits, cycle: &[u32], said: &mut HookAnswers<'_>) -> u32 {
        let owner = |number: &u32| -> &Arc<Owner> { &waits.waiting[number].owner };
        let mut chosen = cycle[0];
        for other in &cycle[1..] {
            let (a, b) = (owner(&chosen), owner(other));
            let b_is_chosen = match said.prefer(a, b) {
                Some(id) if id == a.id() => false,
                Some(id) if id == b.id() => true,
                _ => b.writes() < a.writes(),
            };
            if b_is_chosen {
                chosen = *other;
            }
        }
        chosen
    }

    fn described(&self, waits: &Waits, cycle: &[u32], victim: u32) -> Deadlock {
        let now = self.clock.now();
        let party = |number: &u32| {
            let Waiting { owner, request, key, since, .. } = &waits.waiting[number];
            let party = owner.party();
            let (hash, mode) = request.wanted();
            Party {
                id: party.id(),
                tag: party.tag(),
                writes: owner.writes(),
                on: request.on,
                tree: request.tree,
                tree_name: String::new(),
                key_hash: hash.0,
                key: key.clone(),
                mode,
                waited: now.saturating_sub(*since),
            }
        };
        Deadlock {
            parties: cycle.iter().map(party).collect(),
            victim: waits.waiting[&victim].owner.id(),
            at: now,
        }
    }
}
