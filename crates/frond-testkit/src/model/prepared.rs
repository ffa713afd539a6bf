//! Transactions that are prepared, as the model understands them. Written from docs/transactions.md and not from the
//! engine's code.
//!
//! One that has written something is a part of what is committed: its prepare is a step, and so is its decision. So a
//! crash leaves it there, or not yet, or no more, as any commit, and never in part; what its decision makes of its rows
//! comes in the step in which it goes. One that has written nothing is gone with the process.
//!
//! Invariants
//! 1. What is prepared keeps the rows that it locked to write them, and at `Serializable` all that it has locked. After
//!    a restart it has the rows that it writes, before anybody else is there, and at `Serializable` the rest, too.
//! 2. It is decided once, by the slot that has it in hand, or, where none has, by its number.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use frond::Isolation;

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
            (*number, Prepared { session, is_kept: true, crashes: crashes(number) })
        };
        let prepared = model.undecided().iter().map(again).collect();
        *self = Self { prepared, ..Self::default() };
    }

    /// True if the call prepares what has inserted a row and deleted it again: whether it writes that row, and so keeps
    /// it, depends on what had left memory. Such a call is not made.
    pub fn is_vague(&self, op: &Op) -> bool {
        let Op::InTxn(slot, TxnOp::Prepare(_)) = op else { return false };
        self.open.get(slot).is_some_and(Session::comes_to_nothing)
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
        self.prepared.insert(number, Prepared { session, is_kept, crashes: 0 });
        self.hands.insert(slot, number);
        Ok(())
    }

    /// A call of a slot that has what is prepared in hand; one that is none for it is not made.
    pub(super) fn in_hand(&mut self, model: &mut Model, slot: u8, call: &TxnOp) {
        let commits = match call {
            TxnOp::Commit => true,
            TxnOp::Rollback => false,
            TxnOp::Detach => {
                self.hands.remove(&slot);
                return;
            }
            _ => return,
        };
        if let Some(number) = self.hands.remove(&slot) {
            self.decide(model, number, commits);
        }
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
    /// True if it has inserted a row and deleted it again.
    fn comes_to_nothing(&self) -> bool {
        let mut rows: BTreeMap<&Place, (&Write, &Write)> = BTreeMap::new();
        for (place, write) in &self.own {
            rows.entry(place).and_modify(|(_, last)| *last = write).or_insert((write, write));
        }
        let mut ends = rows.into_values();
        ends.any(|ends| matches!(ends, (Write::Insert(..), Write::Delete(..))))
    }

    /// What a prepare lets go of: but at `Serializable`, all that is not locked to be written.
    fn let_go(&mut self) {
        if self.isolation != Isolation::Serializable {
            let Self { own, rows, changing, gaps, intents, exclusive, has_gone_back, .. } = self;
            // Rows that it has taken back are others' from here on.
            let own: BTreeSet<&Place> = own.iter().map(|(place, _)| place).collect();
            rows.retain(|place, _| {
                changing.contains(place) && (!*has_gone_back || own.contains(place))
            });
            gaps.clear();
            intents.clone_from(exclusive);
        }
    }

    /// As it is after a restart.
    fn found_again(&self) -> Session {
        let mut again = self.clone();
        let Session { own, rows, changing, gaps, intents, exclusive, .. } = &mut again;
        if self.isolation != Isolation::Serializable {
            rows.clear();
            gaps.clear();
            intents.clear();
            exclusive.clear();
            changing.clear();
        }
        for (place, _) in own.iter() {
            rows.insert(place.clone(), true);
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
