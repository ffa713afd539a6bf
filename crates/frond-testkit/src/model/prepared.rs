//! Transactions that are prepared, as the model understands them. Written from docs/transactions.md and not from the
//! engine's code.
//!
//! One that has written something is a part of what is committed: its prepare is a step, and so is its decision. So a
//! crash leaves it there, or not yet, or no more, as any commit, and never in part; what its decision makes of its rows
//! comes in the step in which it goes. One that has written nothing is gone with the process.
//!
//! Invariants
//! 1. What is prepared keeps the rows that it writes, and at `Serializable` all that it has locked. After a restart it has
//!    them again before anybody else is there.
//! 2. It is decided once, by the slot that has it in hand, or, where none has, by its number.
//! 3. Committed in order it is decided: it comes before all that is committed later. When it can be seen is the engine's to
//!    say, at the latest with a later commit; its locks go with the commit that its slot makes, or when that lets go of it.

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

/// By number.
pub(super) type Undecided = Arc<BTreeMap<u8, Arc<Session>>>;

/// A transaction that waits for its decision.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub session: Session,
    /// It had written something, and so is kept over restarts.
    pub is_kept: bool,
    /// Crashes and kills that it has gone through.
    crashes: u64,
    order: Order,
}

/// Whether it is committed in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    No,
    /// And may not be seen.
    Given,
    /// It is this step.
    Landed(u64),
}

impl Sessions {
    /// After a restart there is what is prepared in the model, and nothing else.
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
        let prepared = model.undecided().iter().map(again).collect();
        *self = Self { prepared, ..Self::default() };
    }

    /// What is prepared by a number, if it is not committed in order.
    pub(super) fn undecided(&self, number: u8) -> Option<&Prepared> {
        self.prepared.get(&number).filter(|prepared| prepared.order == Order::No)
    }

    /// How many are committed in order, and no steps of the model yet.
    pub fn in_order(&self) -> u64 {
        self.in_order.len() as u64
    }

    /// The oldest of them.
    pub fn next_in_order(&self) -> Option<u8> {
        self.in_order.first().copied()
    }

    /// Slots that have such a one in hand, whether it is a step or not.
    pub fn ordered_hands(&self) -> Vec<u8> {
        let is_ordered = |number: &u8| self.undecided(*number).is_none();
        self.hands.iter().filter(|(_, number)| is_ordered(number)).map(|(slot, _)| *slot).collect()
    }

    /// The call commits what is committed in order: at which level, and, once it has landed, which step it is.
    pub fn ordered_commit(&self, op: &Op) -> Option<(Option<Durability>, u64)> {
        let Op::InTxn(slot, TxnOp::Commit) = op else { return None };
        let prepared = self.prepared.get(self.hands.get(slot)?)?;
        match prepared.order {
            Order::No => None,
            Order::Given => Some((prepared.session.level, u64::MAX)),
            Order::Landed(step) => Some((prepared.session.level, step)),
        }
    }

    /// If a slot lets go of what is committed in order, that can be seen, and what has its place before it.
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

    /// The oldest that is committed in order can be seen.
    pub fn land(&mut self, model: &mut Model) {
        if self.in_order.is_empty() {
            return;
        }
        let number = self.in_order.remove(0);
        let Some(prepared) = self.prepared.get_mut(&number) else { return };
        let rows = prepared.session.outcome(model);
        model.set_rows(rows.into_iter());
        model.change_undecided(|undecided| drop(undecided.remove(&number)));
        prepared.order = Order::Landed(model.step());
    }

    /// All of them.
    pub fn land_all(&mut self, model: &mut Model) {
        while !self.in_order.is_empty() {
            self.land(model);
        }
    }

    /// A slot lets go of what it has in hand: what is committed in order is over.
    pub(super) fn drop_hand(&mut self, model: &mut Model, slot: u8) {
        let Some(number) = self.hands.remove(&slot) else { return };
        self.land_through(model, number);
        self.end_if_landed(number);
    }

    /// Its locks go.
    pub(super) fn end_if_landed(&mut self, number: u8) {
        let has_landed = |prepared: &Prepared| matches!(prepared.order, Order::Landed(_));
        if self.prepared.get(&number).is_some_and(has_landed) {
            self.prepared.remove(&number);
        }
    }

    /// If the call decides what is prepared, unless it is refused: whether that has gone through a crash.
    pub fn decides(&self, op: &Op) -> Option<bool> {
        let number = match op {
            Op::Decide(number, _) => Some(number),
            Op::InTxn(slot, TxnOp::Commit | TxnOp::Rollback) => self.hands.get(slot),
            _ => None,
        };
        let prepared = self.prepared.get(number?)?;
        Some(prepared.crashes > 0)
    }

    /// What is prepared by a number and in nobody's hands.
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
            model.change_undecided(|undecided| drop(undecided.insert(number, whole)));
        }
        session.let_go();
        let order = Order::No;
        self.prepared.insert(number, Prepared { session, is_kept, crashes: 0, order });
        self.hands.insert(slot, number);
        Ok(())
    }

    /// A call of a slot that has what is prepared in hand; one that is none for it is not made.
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
        model.change_undecided(|undecided| drop(undecided.remove(&number)));
    }
}

impl Session {
    /// True if it has inserted all its rows, and deleted them again.
    pub(super) fn comes_to_nothing_at_all(&self) -> bool {
        let places: BTreeSet<&Place> = self.own.iter().map(|(place, _)| place).collect();
        !places.is_empty() && self.come_to_nothing().len() == places.len()
    }

    /// Rows that it has inserted and deleted again.
    fn come_to_nothing(&self) -> BTreeSet<Place> {
        let mut rows: BTreeMap<&Place, (&Write, &Write)> = BTreeMap::new();
        for (place, write) in &self.own {
            rows.entry(place).and_modify(|(_, last)| *last = write).or_insert((write, write));
        }
        let rows = rows.into_iter();
        let gone = rows.filter(|(_, ends)| matches!(ends, (Write::Insert(..), Write::Delete(..))));
        gone.map(|(place, _)| place.clone()).collect()
    }

    /// What a prepare lets go of: but at `Serializable`, all that it does not write.
    fn let_go(&mut self) {
        if self.isolation != Isolation::Serializable {
            self.maybe = self.come_to_nothing();
            let Self { maybe, own, rows, gaps, intents, exclusive, .. } = self;
            // Rows that it has taken back, or did not come to write, are others' from here on.
            let own: BTreeSet<&Place> = own.iter().map(|(place, _)| place).collect();
            rows.retain(|place, _| own.contains(place) && !maybe.contains(place));
            gaps.clear();
            intents.clone_from(exclusive);
        }
    }

    /// As it is after a restart.
    fn found_again(&self) -> Session {
        let mut again = self.clone();
        if self.isolation != Isolation::Serializable {
            again.maybe = self.come_to_nothing();
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
    pub(super) fn undecided(&self) -> &Undecided {
        at_step(&self.undecided, u64::MAX)
    }

    /// What is prepared, by number, and of each a row that it writes: the tree by its name now, and the key.
    pub fn undecided_rows(&self) -> Vec<(u8, Option<(String, Key)>)> {
        let row = |session: &Session| {
            let (place, write) = session.own.last()?;
            let name = self.names().iter().find(|(_, tree)| **tree == place.0)?.0;
            Some((name.clone(), write.key()?))
        };
        self.undecided().iter().map(|(number, session)| (*number, row(session))).collect()
    }

    /// One step, with the rows that were set for it.
    fn change_undecided(&mut self, change: impl FnOnce(&mut BTreeMap<u8, Arc<Session>>)) {
        let mut undecided = self.undecided().clone();
        change(Arc::make_mut(&mut undecided));
        self.undecided.push((self.step() + 1, undecided));
        self.finish_step();
    }
}
