//! Transactions in the model: the committed state, a snapshot as a step, a transaction's own writes
//! over it, and the holders of locks. Written from docs/transactions.md and not from the engine's
//! code.
//!
//! One thread runs all transactions, so no call waits: if another transaction holds a row or a gap,
//! the answer is `Refusal::Busy`; and a batch, or the drop of a tree, that would have to wait is
//! not made ([`Sessions::would_wait`]).
//!
//! Invariants
//! 1. A row is locked exclusively by one transaction, or shared by many. Locks are released when
//!    their transaction ends, never before. There are two exceptions: the row of a write that a
//!    locked gap has prevented, and what a prepare releases (`prepared.rs`).
//! 2. What is committed is one step of the model, in the order of the commits.
//!
//! In two cases the engine may answer either way, and the model follows its answer: a row that was
//! written since the snapshot and has its old value (the memtable knows that it was written, the
//! tree does not); and how far a scan has locked a gap in which it failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use frond::{Durability, Isolation, RowLock};

use super::{Answer, Model, Refusal, Row, TreeNumber, effect, prepared::Prepared, walk::is_in};
use crate::ops::{Key, Op, TxnOp, Write};

/// A row by its tree and key.
pub(super) type Place = (TreeNumber, Vec<u8>);
/// An interval of keys.
pub(super) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An interval into which others cannot insert.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub tree: TreeNumber,
    pub span: Span,
    /// A scan failed in it, and may not have reached its end: a row that the statement has deleted
    /// is a place to stop at, unless it was spilled.
    pub is_vague: bool,
}

/// All open transactions, by slot, and the prepared ones.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    pub(super) open: BTreeMap<u8, Session>,
    /// Prepared transactions by number.
    pub(super) prepared: BTreeMap<u8, Prepared>,
    /// Slots with a prepared transaction attached, and its number.
    pub(super) hands: BTreeMap<u8, u8>,
    /// Prepared transactions whose commits are ordered and may not be visible yet, oldest first.
    pub(super) in_order: Vec<u8>,
    /// Whether the engine has answered that the call is blocked by another transaction.
    pub(super) is_busy: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub isolation: Isolation,
    pub level: Option<Durability>,
    /// The step that plain reads see, from the first of them on.
    pub snapshot: Option<u64>,
    pub own: Vec<(Place, Write)>,
    /// Internal number of each savepoint, and how much had been written then.
    savepoints: Vec<(u64, usize)>,
    /// The script's numbers of savepoints.
    names: BTreeMap<u8, u64>,
    made: u64,
    /// How much had been written, and how many savepoints set, when its statement started.
    statement: Option<(usize, u64)>,
    /// Locked rows; true: exclusively.
    pub rows: BTreeMap<Place, bool>,
    /// Rows that it has inserted and deleted again before its prepare; the engine decides whether
    /// it keeps their locks.
    pub maybe: BTreeSet<Place>,
    pub gaps: Vec<Gap>,
    /// Trees in which it has locked rows, or tried to.
    pub intents: BTreeSet<TreeNumber>,
    /// The trees among `intents` in which it tried to lock rows exclusively.
    pub exclusive: BTreeSet<TreeNumber>,
    /// Trees that it has written, even if that was rolled back.
    pub written: BTreeSet<TreeNumber>,
    pub is_over: bool,
}

impl Sessions {
    /// Removes all sessions, as a restart does; [`adopt`](Self::adopt) adds the prepared ones
    /// again.
    pub fn clear(&mut self) {
        self.open.clear();
        self.hands.clear();
        self.in_order.clear();
    }

    /// Rolls back the transaction of a slot from outside; a prepared one is detached.
    pub fn forget(&mut self, slot: u8) {
        self.open.remove(&slot);
        if let Some(number) = self.hands.remove(&slot) {
            self.end_if_landed(number);
        }
    }

    /// True if the call is a batch, or drops a tree, and would wait for a transaction: in one
    /// thread, for ever.
    pub fn would_wait(&self, model: &Model, op: &Op) -> bool {
        let is_used =
            |tree: TreeNumber| self.others(None).any(|session| session.intents.contains(&tree));
        let writes = match op {
            Op::Drop(tree) | Op::Fill { tree, .. } => return model.tree(tree).is_ok_and(is_used),
            Op::Commit(_, writes) => writes,
            _ => return false,
        };
        let places = writes.iter().map(|write| model.tree(write.tree()).map(|tree| (tree, write)));
        let Ok(places) = places.collect::<Result<Vec<_>, _>>() else { return false };
        let may_be_held = |place: &Place| self.others(None).any(|one| one.maybe.contains(place));
        places.into_iter().any(|(tree, write)| match write.key() {
            Some(key) => {
                let place = (tree, key.bytes());
                self.is_held(None, &place, true)
                    || may_be_held(&place)
                    || self.is_in_a_gap(None, model, &place, true)
            }
            None => is_used(tree),
        })
    }

    /// If the call makes a step unless it is refused: the level that it asks for.
    pub fn step_of(&self, op: &Op) -> Option<Option<Durability>> {
        let (changes, level) = match op {
            Op::InTxn(slot, call) => match (self.hands.get(slot), call) {
                (Some(number), TxnOp::Commit) => {
                    let prepared = self.in_doubt(*number)?;
                    (prepared.is_kept, prepared.session.level)
                }
                (Some(number), TxnOp::Rollback) => (self.in_doubt(*number)?.is_kept, None),
                (None, TxnOp::Commit) => {
                    let session = self.open.get(slot)?;
                    (!session.own.is_empty(), session.level)
                }
                (None, TxnOp::Prepare(number)) if !self.prepared.contains_key(number) => {
                    let session = self.open.get(slot)?;
                    (!session.own.is_empty(), session.level.or(Some(Durability::Sync)))
                }
                _ => return None,
            },
            Op::Decide(number, _) => (self.free(*number).ok()?.is_kept, None),
            _ => return None,
        };
        changes.then_some(level)
    }

    /// Carries out a call, and returns the answer that the engine must give. `found` is the answer
    /// that it has given.
    pub fn apply(&mut self, model: &mut Model, op: &Op, found: &Answer) -> Answer {
        self.is_busy = *found == Answer::Refused(Refusal::Busy);
        let answer = match op {
            Op::Begin(slot, isolation, level) => {
                self.drop_hand(model, *slot);
                self.open.insert(*slot, Session::new(*isolation, *level));
                Ok(Answer::Done)
            }
            Op::Decide(number, commits) => self.decide_free(model, *number, *commits),
            Op::InTxn(slot, call) if self.hands.contains_key(slot) => {
                self.in_hand(model, *slot, call)
            }
            Op::InTxn(slot, _) if !self.open.contains_key(slot) => Ok(Answer::Done),
            Op::InTxn(slot, call) => self.call(model, *slot, call, found),
            _ => Ok(Answer::Done),
        };
        answer.unwrap_or_else(Answer::Refused)
    }

    fn call(
        &mut self,
        model: &mut Model,
        slot: u8,
        call: &TxnOp,
        found: &Answer,
    ) -> Result<Answer, Refusal> {
        let may_conflict = *found == Answer::Refused(Refusal::Conflict);
        match call {
            TxnOp::Write(write) => {
                let tree = self.enter(model, slot, write.tree())?;
                self.write(model, slot, tree, write, found)?;
            }
            TxnOp::Get(tree, key) => {
                let tree = self.enter(model, slot, tree)?;
                let place = (tree, key.bytes());
                if self.at(slot).isolation == Isolation::Serializable {
                    self.lock(slot, &place, RowLock::Shared)?;
                    return Ok(Answer::Value(self.at(slot).value(model, &place, u64::MAX)));
                }
                let step = self.at_mut(slot).step_seen(model);
                // Even if it has written there itself: a scan would not see the rest.
                if !model.is_there_at(tree, step) {
                    return Err(Refusal::BornLater);
                }
                let session = self.at(slot);
                let step = session.step_under(model, &session.own, &place, step);
                return Ok(Answer::Value(self.at(slot).value(model, &place, step)));
            }
            TxnOp::Lock(tree, key, locking) => {
                let place = (self.enter(model, slot, tree)?, key.bytes());
                self.lock(slot, &place, locking.lock)?;
                self.must_not_conflict(model, slot, &place, may_conflict)?;
                return Ok(Answer::Value(self.at(slot).value(model, &place, u64::MAX)));
            }
            TxnOp::Scan { tree, from, to, limit, reverse, locking } => {
                let tree = self.enter(model, slot, tree)?;
                let (from, to) = (from.bytes(), to.bytes());
                if from >= to {
                    return Ok(Answer::Rows(Vec::new()));
                }
                let is_serial = self.at(slot).isolation == Isolation::Serializable;
                let locking = locking.or(is_serial.then_some(super::walk::SERIAL));
                if let Some(locking) = locking {
                    let limits = (*limit as usize, *reverse);
                    return self
                        .walk(model, slot, tree, (&from, &to), limits, locking, found)
                        .map(Answer::Rows);
                }
                let step = self.at_mut(slot).step_seen(model);
                if !model.is_there_at(tree, step) {
                    return Err(Refusal::BornLater);
                }
                let limits = (*limit as usize, *reverse);
                let rows = self.at(slot).rows_at(model, (tree, step), (&from, &to), limits);
                return Ok(Answer::Rows(rows));
            }
            TxnOp::Look(tree, key, locking) => {
                let place = (self.enter(model, slot, tree)?, key.bytes());
                let before = self.at(slot).rows.get(&place).copied();
                self.lock(slot, &place, locking.lock)?;
                self.must_not_conflict(model, slot, &place, may_conflict)?;
                self.unlock(slot, &place, before);
                return Ok(Answer::Value(self.at(slot).value(model, &place, u64::MAX)));
            }
            TxnOp::ReadMany(tree, keys, locking) => {
                let tree = self.enter(model, slot, tree)?;
                return self.read_many(model, slot, (tree, keys), *locking, found);
            }
            TxnOp::Row { tree, key, value, lock } => {
                let number = self.enter(model, slot, tree)?;
                return self.row(model, slot, (tree, number), (*key, *value, *lock), found);
            }
            TxnOp::Savepoint(name) => {
                let session = self.going(slot)?;
                session.made += 1;
                session.savepoints.push((session.made, session.own.len()));
                session.names.insert(*name, session.made);
            }
            TxnOp::BackTo(name) if self.at(slot).names.contains_key(name) => {
                let session = self.going(slot)?;
                let at = session.find(*name)?;
                session.savepoints.truncate(at + 1);
                let there = session.savepoints[at].1;
                session.own.truncate(there);
                // This rolls back to before the start of the statement, so the statement starts
                // anew.
                let is_beyond = session.statement.is_some_and(|(began, _)| there < began);
                session.statement = session.statement.map(|(began, made)| (began.min(there), made));
                if is_beyond {
                    session.looks_anew();
                }
            }
            TxnOp::Release(name) if self.at(slot).names.contains_key(name) => {
                let session = self.going(slot)?;
                let at = session.find(*name)?;
                session.savepoints.truncate(at);
            }
            TxnOp::Statement => {
                let session = self.going(slot)?;
                session.statement = Some((session.own.len(), session.made));
                session.looks_anew();
            }
            TxnOp::UndoStatement => {
                let session = self.going(slot)?;
                let (began, made) = session.statement.ok_or(Refusal::BadCall)?;
                session.savepoints.retain(|(number, _)| *number <= made);
                session.own.truncate(began);
                session.looks_anew();
            }
            TxnOp::BackTo(_) | TxnOp::Release(_) | TxnOp::Detach | TxnOp::Order => {}
            TxnOp::Prepare(number) => self.prepare(model, slot, *number)?,
            TxnOp::Commit => return self.commit(model, slot),
            TxnOp::Rollback => self.forget(slot),
        }
        Ok(Answer::Done)
    }

    pub(super) fn at(&self, slot: u8) -> &Session {
        &self.open[&slot]
    }

    pub(super) fn at_mut(&mut self, slot: u8) -> &mut Session {
        self.open.get_mut(&slot).expect("asked for before")
    }

    fn going(&mut self, slot: u8) -> Result<&mut Session, Refusal> {
        let session = self.at_mut(slot);
        if session.is_over { Err(Refusal::Ended) } else { Ok(session) }
    }

    fn enter(&mut self, model: &Model, slot: u8, tree: &str) -> Result<TreeNumber, Refusal> {
        let tree = model.tree(tree)?;
        self.going(slot).map(|_| tree)
    }

    fn commit(&mut self, model: &mut Model, slot: u8) -> Result<Answer, Refusal> {
        let Some(session) = self.open.remove(&slot) else { return Ok(Answer::Done) };
        if session.is_over {
            return Err(Refusal::Ended);
        }
        if session.own.is_empty() {
            return Ok(Answer::Done);
        }
        if !session.written.iter().all(|tree| model.is_there_at(*tree, u64::MAX)) {
            return Err(Refusal::NoSuchTree);
        }
        let rows = session.outcome(model);
        model.set_rows(rows.into_iter());
        model.finish_step();
        Ok(Answer::Done)
    }

    pub(super) fn write(
        &mut self,
        model: &Model,
        slot: u8,
        tree: TreeNumber,
        write: &Write,
        found: &Answer,
    ) -> Result<(), Refusal> {
        let may_conflict = *found == Answer::Refused(Refusal::Conflict);
        let may_be_busy = *found == Answer::Refused(Refusal::Busy);
        let place = (tree, write.key().unwrap_or(Key::plain(0)).bytes());
        let before = self.at(slot).rows.get(&place).copied();
        self.lock(slot, &place, RowLock::Exclusive)?;
        let is_own = self.at(slot).own.iter().any(|(own, _)| *own == place);
        if !is_own {
            self.must_not_conflict(model, slot, &place, may_conflict)?;
        }
        let exists = || self.at(slot).value(model, &place, u64::MAX).is_some();
        if matches!(write, Write::Insert(..)) && exists() {
            return Err(Refusal::KeyExists);
        }
        self.at_mut(slot).written.insert(tree);
        if !is_own && self.is_in_a_gap(Some(slot), model, &place, may_be_busy) {
            if before.is_none() {
                self.at_mut(slot).rows.remove(&place);
            }
            return Err(Refusal::Busy);
        }
        self.at_mut(slot).own.push((place, write.clone()));
        Ok(())
    }

    /// Locks a row, unless another transaction holds a conflicting lock.
    pub(super) fn lock(&mut self, slot: u8, place: &Place, lock: RowLock) -> Result<(), Refusal> {
        let alone = lock == RowLock::Exclusive;
        let is_held = self.is_held(Some(slot), place, alone);
        let session = self.at_mut(slot);
        session.intend(place.0, lock);
        if session.rows.get(place).is_some_and(|held| *held || !alone) {
            return Ok(());
        }
        if is_held {
            return Err(Refusal::Busy);
        }
        session.rows.insert(place.clone(), alone);
        Ok(())
    }

    pub(super) fn others(&self, slot: Option<u8>) -> impl Iterator<Item = &Session> {
        let others = self.open.iter().filter(move |(other, _)| Some(**other) != slot);
        let prepared = self.prepared.values().map(|prepared| &prepared.session);
        others.map(|(_, session)| session).chain(prepared)
    }

    /// True if another transaction holds the row exclusively or, with `alone`, at all.
    fn is_held(&self, slot: Option<u8>, place: &Place, alone: bool) -> bool {
        let has = |other: &Session| {
            let held = other.rows.get(place).is_some_and(|held| *held || alone);
            held || self.is_busy && other.maybe.contains(place)
        };
        self.others(slot).any(has)
    }

    /// True if the row does not exist, and another transaction has locked the gap into which it
    /// would go, or may have.
    fn is_in_a_gap(
        &self,
        slot: Option<u8>,
        model: &Model,
        (tree, key): &Place,
        or_may_be: bool,
    ) -> bool {
        let holds =
            |gap: &Gap| gap.tree == *tree && (or_may_be || !gap.is_vague) && is_in(key, &gap.span);
        model.trees[tree].at(key, u64::MAX).is_none()
            && self.others(slot).any(|other| other.gaps.iter().any(holds))
    }

    /// Keys in an interval that others have written and not committed, ascending.
    pub(super) fn pending(&self, slot: u8, tree: TreeNumber, span: &Span) -> BTreeSet<Vec<u8>> {
        let own = self.others(Some(slot)).flat_map(|other| &other.own);
        let keys = own.filter(|((of, key), _)| *of == tree && is_in(key, span));
        keys.map(|((_, key), _)| key.clone()).collect()
    }

    /// Ends a snapshot transaction if another has committed the row since its snapshot.
    pub(super) fn must_not_conflict(
        &mut self,
        model: &Model,
        slot: u8,
        place: &Place,
        may_conflict: bool,
    ) -> Result<(), Refusal> {
        let session = self.at_mut(slot);
        let Some(step) = session.snapshot.filter(|_| session.isolation == Isolation::Snapshot)
        else {
            return Ok(());
        };
        let history = &model.trees[&place.0];
        let is_changed = history.at(&place.1, step) != history.at(&place.1, u64::MAX);
        if is_changed || may_conflict && history.is_touched_since(&place.1, step) {
            session.end();
            return Err(Refusal::Conflict);
        }
        Ok(())
    }
}

impl Session {
    fn new(isolation: Isolation, level: Option<Durability>) -> Self {
        Self {
            isolation,
            level,
            snapshot: None,
            own: Vec::new(),
            savepoints: Vec::new(),
            names: BTreeMap::new(),
            made: 0,
            statement: None,
            rows: BTreeMap::new(),
            maybe: BTreeSet::new(),
            gaps: Vec::new(),
            intents: BTreeSet::new(),
            exclusive: BTreeSet::new(),
            written: BTreeSet::new(),
            is_over: false,
        }
    }

    /// Marks the transaction as rolled back; its later calls are refused accordingly.
    pub fn end(&mut self) {
        let names = std::mem::take(&mut self.names);
        *self = Self { is_over: true, names, ..Self::new(self.isolation, self.level) };
    }

    fn find(&self, name: u8) -> Result<usize, Refusal> {
        let number = self.names.get(&name);
        let found = self.savepoints.iter().position(|(made, _)| Some(made) == number);
        found.ok_or(Refusal::BadCall)
    }

    /// Starts a statement: at READ COMMITTED its first plain read sees what is committed by then,
    /// and the others see the same.
    fn looks_anew(&mut self) {
        if self.isolation == Isolation::ReadCommitted {
            self.snapshot = None;
        }
    }

    /// The step that a plain read sees.
    pub(super) fn step_seen(&mut self, model: &Model) -> u64 {
        match self.isolation {
            Isolation::ReadCommitted if self.statement.is_none() => model.step(),
            _ => *self.snapshot.get_or_insert(model.step()),
        }
    }

    /// The step to whose row these writes apply. Operands apply to the row that others have
    /// committed last, even if the transaction's reads do not see it: the row is locked, so it is
    /// still the last when this transaction commits.
    pub fn step_under(&self, model: &Model, own: &[(Place, Write)], at: &Place, step: u64) -> u64 {
        let mut own = own.iter().filter(|(of, _)| of == at).map(|(_, write)| write).peekable();
        let base =
            |write: &Write| matches!(write, Write::Put(..) | Write::Insert(..) | Write::Delete(..));
        let goes_on = !matches!(self.isolation, Isolation::Snapshot | Isolation::Serializable);
        if goes_on && own.peek().is_some() && !own.any(base) { model.step() } else { step }
    }

    /// The value of a row: own writes over the row of a step.
    pub fn value(&self, model: &Model, place: &Place, step: u64) -> Option<Vec<u8>> {
        over(&self.own, model, place, step)
    }

    /// What a scan returns for a row, if anything: own writes from before the statement, over the
    /// row of a step. It skips rows that were deleted since, even if they were written again.
    pub fn scanned(&self, model: &Model, place: &Place, step: u64) -> Option<Vec<u8>> {
        let (before, since) = self.own.split_at(self.scans_to());
        let is_delete =
            |(own, write): &(Place, Write)| own == place && matches!(write, Write::Delete(..));
        let step = self.step_under(model, before, place, step);
        over(before, model, place, step).filter(|_| !since.iter().any(is_delete))
    }

    /// How many of its own writes its scans see.
    fn scans_to(&self) -> usize {
        self.statement.map_or(self.own.len(), |(began, _)| began)
    }

    /// The rows that its commit would write, with their values.
    pub fn outcome(&self, model: &Model) -> Vec<(TreeNumber, Vec<u8>, Option<Vec<u8>>)> {
        let places: BTreeSet<&Place> = self.own.iter().map(|(place, _)| place).collect();
        let row = |place: &Place| (place.0, place.1.clone(), self.value(model, place, u64::MAX));
        places.into_iter().map(row).collect()
    }

    /// Own keys of a tree in an interval, as scans see them, ascending.
    pub fn own_keys(&self, tree: TreeNumber, (from, to): (&[u8], &[u8])) -> BTreeSet<Vec<u8>> {
        let own = self.own[..self.scans_to()].iter().filter(|((of, _), _)| *of == tree);
        let keys = own
            .map(|((_, key), _)| key)
            .filter(|key| key.as_slice() >= from && key.as_slice() < to);
        keys.cloned().collect()
    }

    fn rows_at(
        &self,
        model: &Model,
        (tree, step): (TreeNumber, u64),
        (from, to): (&[u8], &[u8]),
        (limit, reverse): (usize, bool),
    ) -> Vec<Row> {
        let mut keys = self.own_keys(tree, (from, to));
        let committed = model.trees[&tree].rows_at(step).map(|(key, _)| key);
        keys.extend(committed.filter(|key| key.as_slice() >= from && key.as_slice() < to).cloned());
        let mut keys: Vec<Vec<u8>> = keys.into_iter().collect();
        if reverse {
            keys.reverse();
        }
        let mut rows = Vec::new();
        for place in keys.into_iter().map(|key| (tree, key)) {
            if rows.len() == limit {
                break;
            }
            if let Some(value) = self.scanned(model, &place, step) {
                rows.push((place.1, value));
            }
        }
        rows
    }

    /// Keeps others from inserting into an interval.
    pub fn lock_gap(&mut self, tree: TreeNumber, span: Span, lock: RowLock) {
        self.intend(tree, lock);
        self.gaps.push(Gap { tree, span, is_vague: false });
    }

    /// Records that the scan that locked the last gap has failed in it.
    pub fn fails_in_gap(&mut self) {
        let is_vague = self.statement.is_some();
        self.gaps.last_mut().into_iter().for_each(|gap| gap.is_vague = is_vague);
    }

    fn intend(&mut self, tree: TreeNumber, lock: RowLock) {
        self.intents.insert(tree);
        if lock == RowLock::Exclusive {
            self.exclusive.insert(tree);
        }
    }
}

/// Applies writes to the row of a step.
fn over(own: &[(Place, Write)], model: &Model, place: &Place, step: u64) -> Option<Vec<u8>> {
    let base = model.trees[&place.0].at(&place.1, step).map(|value| value.to_vec());
    let own = own.iter().filter(|(own, _)| own == place);
    own.fold(base, |base, (_, write)| effect(write, base.as_deref()))
}
