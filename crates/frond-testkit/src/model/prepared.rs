//! Prepared transactions in the model. Written from docs/transactions.md and not from the engine's
//! code.
//!
//! A prepared transaction that has written something is part of the committed state: its prepare is
//! a step, and so is its decision. So after a crash it is there, not yet there, or gone, as any
//! commit, and never in part; its decision changes its rows in the same step in which it is
//! removed. One that has written nothing ends with the process.
//!
//! Invariants
//! 1. A prepared transaction keeps the locks on rows that it writes, and at `Serializable` all its
//!    locks. After a restart it has them again before anything else runs.
//! 2. It is decided once, by the slot that it is attached to or, if it is detached, by its number.
//! 3. A commit that is ordered is decided: it comes before everything committed later. The engine
//!    decides when it becomes visible, at the latest with a later commit; its locks are released
//!    with the commit that its slot makes, or when the slot detaches it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use frond::{Durability, Isolation};

use super::{
    Answer, Model, Refusal, Sessions, at_step,
    sessions::{Place, Session},
};
use crate::ops::{Key, Op, TxnOp, Write};

/// In-doubt transactions by number.
pub(super) type InDoubt = Arc<BTreeMap<u8, Arc<Session>>>;

/// A transaction that waits for its decision.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub session: Session,
    /// Whether it has written something, and so survives restarts.
    pub is_kept: bool,
    /// Crashes and kills that it has survived.
    crashes: u64,
    order: Order,
}

/// Whether its commit is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    No,
    /// Ordered, but possibly not visible yet.
    Given,
    /// Visible as this step.
    Landed(u64),
}

impl Sessions {
    /// Starts anew after a restart, with the prepared transactions of the model and nothing else.
    pub fn adopt(&mut self, model: &Model, is_crash: bool) {
        let crashes = |number: &u8| {
            let before = self.prepared.get(number).map_or(0, |prepared| prepared.crashes);
            before + u64::from(is_crash)
        };
        let again = |(number, session): (&u8, &Arc<Session>)| {
            let session = session.found_again();
            let crashes = crashes(number);
            (*number, Prepared { session, is_kept: true, crashes, order: Order::No })
        };
        let prepared = model.in_doubt().iter().map(again).collect();
        *self = Self { prepared, ..Self::default() };
    }

    /// The transaction prepared by a number, unless its commit is ordered.
    pub(super) fn in_doubt(&self, number: u8) -> Option<&Prepared> {
        self.prepared.get(&number).filter(|prepared| prepared.order == Order::No)
    }

    /// Number of ordered commits that are not steps of the model yet.
    pub fn in_order(&self) -> u64 {
        self.in_order.len() as u64
    }

    /// The oldest of these.
    pub fn next_in_order(&self) -> Option<u8> {
        self.in_order.first().copied()
    }

    /// Slots with an ordered transaction attached, whether it is a step yet or not.
    pub fn ordered_hands(&self) -> Vec<u8> {
        let is_ordered = |number: &u8| self.in_doubt(*number).is_none();
        self.hands.iter().filter(|(_, number)| is_ordered(number)).map(|(slot, _)| *slot).collect()
    }

    /// If the call commits an ordered transaction: the level, and the step once it is one.
    pub fn ordered_commit(&self, op: &Op) -> Option<(Option<Durability>, u64)> {
        let Op::InTxn(slot, TxnOp::Commit) = op else { return None };
        let prepared = self.prepared.get(self.hands.get(slot)?)?;
        match prepared.order {
            Order::No => None,
            Order::Given => Some((prepared.session.level, u64::MAX)),
            Order::Landed(step) => Some((prepared.session.level, step)),
        }
    }

    /// If a call detaches an ordered transaction from its slot, makes it visible, and those ordered
    /// before it.
    pub fn land_for(&mut self, model: &mut Model, op: &Op) {
        let (Op::Begin(slot, ..)
        | Op::InTxn(slot, TxnOp::Commit | TxnOp::Rollback | TxnOp::Detach)) = op
        else {
            return;
        };
        if let Some(number) = self.hands.get(slot).copied() {
            self.land_through(model, number);
        }
    }

    fn land_through(&mut self, model: &mut Model, number: u8) {
        while self.in_order.contains(&number) {
            self.land(model);
        }
    }

    /// Makes the oldest ordered commit visible.
    pub fn land(&mut self, model: &mut Model) {
        if self.in_order.is_empty() {
            return;
        }
        let number = self.in_order.remove(0);
        let Some(prepared) = self.prepared.get_mut(&number) else { return };
        let rows = prepared.session.outcome(model);
        model.set_rows(rows.into_iter());
        model.change_in_doubt(|in_doubt| drop(in_doubt.remove(&number)));
        prepared.order = Order::Landed(model.step());
    }

    /// Makes all ordered commits visible.
    pub fn land_all(&mut self, model: &mut Model) {
        while !self.in_order.is_empty() {
            self.land(model);
        }
    }

    /// Detaches the prepared transaction of a slot; if its commit is ordered, it is over.
    pub(super) fn drop_hand(&mut self, model: &mut Model, slot: u8) {
        let Some(number) = self.hands.remove(&slot) else { return };
        self.land_through(model, number);
        self.end_if_landed(number);
    }

    /// Releases the locks of a transaction whose commit is visible.
    pub(super) fn end_if_landed(&mut self, number: u8) {
        let has_landed = |prepared: &Prepared| matches!(prepared.order, Order::Landed(_));
        if self.prepared.get(&number).is_some_and(has_landed) {
            self.prepared.remove(&number);
        }
    }

    /// If the call decides a prepared transaction unless it is refused: whether that one has
    /// survived a crash.
    pub fn decides(&self, op: &Op) -> Option<bool> {
        let number = match op {
            Op::Decide(number, _) => Some(number),
            Op::InTxn(slot, TxnOp::Commit | TxnOp::Rollback) => self.hands.get(slot),
            _ => None,
        };
        let prepared = self.prepared.get(number?)?;
        Some(prepared.crashes > 0)
    }

    /// The detached transaction that is prepared by a number.
    pub(super) fn free(&self, number: u8) -> Result<&Prepared, Refusal> {
        match self.prepared.get(&number) {
            None => Err(Refusal::NoSuchXid),
            Some(_) if self.hands.values().any(|held| *held == number) => Err(Refusal::XidBusy),
            Some(prepared) => Ok(prepared),
        }
    }

    pub(super) fn prepare(
        &mut self,
        model: &mut Model,
        slot: u8,
        number: u8,
    ) -> Result<(), Refusal> {
        let Some(mut session) = self.open.remove(&slot) else { return Ok(()) };
        if session.is_over {
            return Err(Refusal::Ended);
        }
        if self.prepared.contains_key(&number) {
            return Err(Refusal::XidExists);
        }
        let is_kept = !session.own.is_empty();
        if is_kept {
            if !session.written.iter().all(|tree| model.is_there_at(*tree, u64::MAX)) {
                return Err(Refusal::NoSuchTree);
            }
            let whole = Arc::new(session.clone());
            model.change_in_doubt(|in_doubt| drop(in_doubt.insert(number, whole)));
        }
        session.release_unwritten();
        let order = Order::No;
        self.prepared.insert(number, Prepared { session, is_kept, crashes: 0, order });
        self.hands.insert(slot, number);
        Ok(())
    }

    /// Carries out a call of a slot with a prepared transaction attached; a call that does not
    /// apply to one is not made.
    pub(super) fn in_hand(
        &mut self,
        model: &mut Model,
        slot: u8,
        call: &TxnOp,
    ) -> Result<Answer, Refusal> {
        let is_ordered = self.ordered_hands().contains(&slot);
        match call {
            TxnOp::Commit | TxnOp::Detach | TxnOp::Rollback if is_ordered => {
                self.drop_hand(model, slot);
                if *call == TxnOp::Rollback {
                    return Err(Refusal::BadCall);
                }
            }
            TxnOp::Commit | TxnOp::Rollback => {
                if let Some(number) = self.hands.remove(&slot) {
                    self.decide(model, number, *call == TxnOp::Commit);
                }
            }
            TxnOp::Detach => drop(self.hands.remove(&slot)),
            TxnOp::Order if !is_ordered => {
                let number = self.hands[&slot];
                if let Some(prepared) = self.prepared.get_mut(&number).filter(|one| one.is_kept) {
                    prepared.order = Order::Given;
                    self.in_order.push(number);
                }
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    pub(super) fn decide_free(
        &mut self,
        model: &mut Model,
        number: u8,
        commits: bool,
    ) -> Result<Answer, Refusal> {
        self.free(number)?;
        self.decide(model, number, commits);
        Ok(Answer::Done)
    }

    fn decide(&mut self, model: &mut Model, number: u8, commits: bool) {
        let Some(Prepared { session, is_kept, .. }) = self.prepared.remove(&number) else { return };
        if !is_kept {
            return;
        }
        if commits {
            let rows = session.outcome(model);
            model.set_rows(rows.into_iter());
        }
        model.change_in_doubt(|in_doubt| drop(in_doubt.remove(&number)));
    }
}

impl Session {
    /// True if it has inserted all its rows, and deleted them again.
    pub(super) fn cancels_out_completely(&self) -> bool {
        let places: BTreeSet<&Place> = self.own.iter().map(|(place, _)| place).collect();
        !places.is_empty() && self.rows_that_cancel_out().len() == places.len()
    }

    /// Rows that it has inserted and deleted again.
    fn rows_that_cancel_out(&self) -> BTreeSet<Place> {
        let mut rows: BTreeMap<&Place, (&Write, &Write)> = BTreeMap::new();
        for (place, write) in &self.own {
            rows.entry(place).and_modify(|(_, last)| *last = write).or_insert((write, write));
        }
        let rows = rows.into_iter();
        let gone = rows.filter(|(_, ends)| matches!(ends, (Write::Insert(..), Write::Delete(..))));
        gone.map(|(place, _)| place.clone()).collect()
    }

    /// Releases what a prepare releases: everything that it does not write, except at
    /// `Serializable`.
    fn release_unwritten(&mut self) {
        if self.isolation != Isolation::Serializable {
            self.maybe = self.rows_that_cancel_out();
            let Self { maybe, own, rows, gaps, intents, exclusive, .. } = self;
            // Locks on rows that it has rolled back, or did not write in the end, are released from
            // here on.
            let own: BTreeSet<&Place> = own.iter().map(|(place, _)| place).collect();
            rows.retain(|place, _| own.contains(place) && !maybe.contains(place));
            gaps.clear();
            intents.clone_from(exclusive);
        }
    }

    /// The transaction as it is after a restart.
    fn found_again(&self) -> Session {
        let mut again = self.clone();
        if self.isolation != Isolation::Serializable {
            again.maybe = self.rows_that_cancel_out();
        }
        let Session { maybe, own, rows, gaps, intents, exclusive, .. } = &mut again;
        if self.isolation != Isolation::Serializable {
            rows.clear();
            gaps.clear();
            intents.clear();
            exclusive.clear();
        }
        for (place, _) in own.iter() {
            if !maybe.contains(place) {
                rows.insert(place.clone(), true);
            }
            intents.insert(place.0);
        }
        again
    }
}

impl Model {
    pub(super) fn in_doubt(&self) -> &InDoubt {
        at_step(&self.in_doubt, u64::MAX)
    }

    /// The in-doubt transactions by number, and a row that each writes: the current name of the
    /// tree, and the key.
    pub fn in_doubt_rows(&self) -> Vec<(u8, Option<(String, Key)>)> {
        let row = |session: &Session| {
            let (place, write) = session.own.last()?;
            let name = self.names().iter().find(|(_, tree)| **tree == place.0)?.0;
            Some((name.clone(), write.key()?))
        };
        self.in_doubt().iter().map(|(number, session)| (*number, row(session))).collect()
    }

    /// Changes the set of in-doubt transactions in one step, together with the rows set for it.
    fn change_in_doubt(&mut self, change: impl FnOnce(&mut BTreeMap<u8, Arc<Session>>)) {
        let mut in_doubt = self.in_doubt().clone();
        change(Arc::make_mut(&mut in_doubt));
        self.in_doubt.push((self.step() + 1, in_doubt));
        self.finish_step();
    }
}
