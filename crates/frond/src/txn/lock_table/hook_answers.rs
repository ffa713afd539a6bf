//! Answers of the server's hooks during one search for cycles, and the open questions.
//!
//! The search runs under the mutex of the waits, where [`Hooks`] must not be called. So a missing
//! answer is noted as a question, asked after the mutex is released, and the search starts again.
//!
//! Invariants
//! 1. Each question about two transactions (by their ids) is asked once per search.
//! 2. A search ends however other transactions come and go: after [`ROUNDS`] rounds of questions,
//!    missing answers are treated as if there were no server.
//!
//! Threads: the searcher's.

use std::collections::BTreeMap;

use super::{
    Hooks,
    owner::{LockParty, Owner},
};
use crate::sync::Arc;

/// Maximum number of rounds. Each round needs a new transaction that holds what is waited for.
const ROUNDS: usize = 64;

/// The ids of two transactions.
type Pair = (u64, u64);

/// Answers, by the ids of the two, and open questions.
pub(super) struct HookAnswers<'h> {
    hooks: Option<&'h Arc<dyn Hooks>>,
    orders: BTreeMap<Pair, bool>,
    preferred: BTreeMap<Pair, Option<u64>>,
    /// Questions about order: inserter and holder of a gap.
    of_order: Vec<(LockParty, LockParty)>,
    /// Questions about preference: two transactions of a cycle.
    of_preference: Vec<(LockParty, LockParty)>,
    rounds: usize,
}

impl<'h> HookAnswers<'h> {
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

    /// Whether the gap lock of `holder` conflicts with an insert; false while the answer is
    /// missing.
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

    /// Which of the two should rather be the victim, if the server has named one.
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

    /// Whether there are open questions, so that the result of the search does not count yet.
    pub fn has_questions(&self) -> bool {
        !self.of_order.is_empty() || !self.of_preference.is_empty()
    }

    /// Asks the open questions. Called under no mutex.
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
