//! What a server has said of transactions in one search for cycles, and what it is still to be asked.
//!
//! The search runs under the mutex of the waits, and no call of [`Hooks`] is made there: what it needs to know and does not
//! is noted, asked when the mutex is free, and the search begins again.
//!
//! Invariants
//! 1. Of two transactions, by their ids, one thing is asked once a search.
//! 2. A search ends however others come and go: after [`ROUNDS`] of questions what is not known is as if there were no server.
//!
//! Threads: the searcher's.

use std::collections::BTreeMap;

use super::{
    Hooks,
    owner::{LockParty, Owner},
};
use crate::sync::Arc;

/// Each round needs somebody new who holds what is waited for.
const ROUNDS: usize = 64;

/// Two transactions.
type Pair = (u64, u64);

/// Answers, by the ids of the two, and questions.
pub(super) struct Said<'h> {
    hooks: Option<&'h Arc<dyn Hooks>>,
    orders: BTreeMap<Pair, bool>,
    preferred: BTreeMap<Pair, Option<u64>>,
    /// Inserter and holder of a gap.
    of_order: Vec<(LockParty, LockParty)>,
    /// Two of a cycle.
    of_preference: Vec<(LockParty, LockParty)>,
    rounds: usize,
}

impl<'h> Said<'h> {
    pub fn new(hooks: Option<&'h Arc<dyn Hooks>>) -> Self {
        Self {
            hooks,
            orders: BTreeMap::new(),
            preferred: BTreeMap::new(),
            of_order: Vec::new(),
            of_preference: Vec::new(),
            rounds: 0,
        }
    }

    /// Whether the gap of `holder` stands against an insert: as long as that is not known it does not.
    pub fn needs_order(
        &mut self,
        inserter: &Arc<Owner>,
        holder: impl FnOnce() -> Option<Arc<Owner>>,
    ) -> bool {
        if self.hooks.is_none() {
            return true;
        }
        let Some(holder) = holder() else { return false };
        let (inserter, holder) = (inserter.party(), holder.party());
        match self.orders.get(&(inserter.id(), holder.id())) {
            Some(needs) => *needs,
            None if self.rounds == ROUNDS => true,
            None => {
                self.of_order.push((inserter, holder));
                false
            }
        }
    }

    /// Which of the two should rather be ended, if that is known and matters.
    pub fn prefer(&mut self, a: &Arc<Owner>, b: &Arc<Owner>) -> Option<u64> {
        self.hooks?;
        let (a, b) = (a.party(), b.party());
        match self.preferred.get(&(a.id(), b.id())) {
            Some(preferred) => *preferred,
            None if self.rounds == ROUNDS => None,
            None => {
                self.of_preference.push((a, b));
                None
            }
        }
    }

    /// Whether something is to be asked before the search means anything.
    pub fn has_questions(&self) -> bool {
        !self.of_order.is_empty() || !self.of_preference.is_empty()
    }

    /// Asks what is to be asked. Under no mutex.
    pub fn ask(&mut self) {
        let Some(hooks) = self.hooks else { return };
        for (inserter, holder) in self.of_order.drain(..) {
            let of = (inserter.id(), holder.id());
            self.orders.entry(of).or_insert_with(|| hooks.needs_order(&inserter, &holder));
        }
        for (a, b) in self.of_preference.drain(..) {
            let of = (a.id(), b.id());
            self.preferred.entry(of).or_insert_with(|| hooks.prefer(&a, &b));
        }
        self.rounds += 1;
    }
}
