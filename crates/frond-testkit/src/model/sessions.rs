//! Transactions as the model understands them: what was committed, a snapshot as a step, own writes over it, and
//! who holds which row. Written from docs/transactions.md and not from the engine's code.
//!
//! One thread plays all transactions, so no call waits: a row or a gap that another has is an answer
//! (`Refusal::Busy`), and a batch, or the drop of a tree, that would have to wait is not made ([`Sessions::would_wait`]).
//!
//! Invariants
//! 1. A row is locked by one alone, or shared by many; locks go when their transaction ends, never before, but for
//!    the row of a write that a gap has kept from being done.
//! 2. What is committed is one step of the model, in the order of the commits.
//!
//! One thing the engine may answer as it likes: a row that was written since the snapshot, and is as it was. The
//! memtable knows that somebody wrote it, the tree does not. The model then goes by the answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use frond::{Durability, Isolation, RowLock};

use super::{Answer, Model, Refusal, Row, TreeNumber, effect};
use crate::ops::{Key, Op, TxnOp, Write};

/// A row by its tree and key.
pub(super) type Place = (TreeNumber, Vec<u8>);
/// A stretch of keys.
pub(super) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// All transactions that are open, by their slots.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    open: BTreeMap<u8, Session>,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub isolation: Isolation,
    level: Option<Durability>,
    /// The step that plain reads see, from the first of them on.
    pub snapshot: Option<u64>,
    own: Vec<(Place, Write)>,
    /// Number by which it was made, and how much had been written then.
    savepoints: Vec<(u64, usize)>,
    /// The script's numbers of savepoints.
    names: BTreeMap<u8, u64>,
    made: u64,
    /// Locked rows; true: for it alone.
    rows: BTreeMap<Place, bool>,
    gaps: Vec<(TreeNumber, Span)>,
    /// Trees of which it has locked rows, or wanted to.
    intents: BTreeSet<TreeNumber>,
    /// Trees that it has written, even if it has gone back since.
    written: BTreeSet<TreeNumber>,
    is_over: bool,
}

impl Sessions {
    /// All are gone, as after a restart.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// A transaction is rolled back from outside.
    pub fn forget(&mut self, slot: u8) {
        self.open.remove(&slot);
    }

    /// True if the call is a batch, or drops a tree, and would wait for a transaction: of one thread, for ever.
    pub fn would_wait(&self, model: &Model, op: &Op) -> bool {
        let is_used =
            |tree: TreeNumber| self.open.values().any(|session| session.intents.contains(&tree));
        let writes = match op {
            Op::Drop(tree) => return model.tree(tree).is_ok_and(is_used),
            Op::Commit(_, writes) => writes,
            _ => return false,
        };
        let places = writes.iter().map(|write| model.tree(write.tree()).map(|tree| (tree, write)));
        let Ok(places) = places.collect::<Result<Vec<_>, _>>() else { return false };
        places.into_iter().any(|(tree, write)| match write.key() {
            Some(key) => {
                let place = (tree, key.bytes());
                self.is_held(None, &place, true) || self.is_in_a_gap(None, model, &place)
            }
            None => is_used(tree),
        })
    }

    /// If the call is a commit that makes a step: the level it asks for.
    pub fn commits_at(&self, op: &Op) -> Option<Option<Durability>> {
        let Op::InTxn(slot, TxnOp::Commit) = op else { return None };
        let session = self.open.get(slot)?;
        (!session.own.is_empty()).then_some(session.level)
    }

    /// Carries a call out, and says what it must answer. `found` is what the engine has answered.
    pub fn apply(&mut self, model: &mut Model, op: &Op, found: &Answer) -> Answer {
        let answer = match op {
            Op::Begin(slot, isolation, level) => {
                self.open.insert(*slot, Session::new(*isolation, *level));
                Ok(Answer::Done)
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
                self.write(model, slot, tree, write, may_conflict)?;
            }
            TxnOp::Get(tree, key) => {
                let tree = self.enter(model, slot, tree)?;
                let place = (tree, key.bytes());
                if self.at(slot).isolation == Isolation::Serializable {
                    self.lock(slot, &place, RowLock::Shared)?;
                    return Ok(Answer::Value(self.at(slot).value(model, &place, u64::MAX)));
                }
                let step = self.at_mut(slot).step_seen(model);
                if !self.at(slot).knows(&place) && !model.is_there_at(tree, step) {
                    return Err(Refusal::BornLater);
                }
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
                        .walk(model, slot, tree, (&from, &to), limits, locking, may_conflict)
                        .map(Answer::Rows);
                }
                let step = self.at_mut(slot).step_seen(model);
                if !model.is_there_at(tree, step) {
                    return Err(Refusal::BornLater);
                }
                let rows = self.at(slot).rows_at(model, tree, step, (&from, &to));
                return Ok(Answer::Rows(cut(rows, *limit as usize, *reverse)));
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
                session.own.truncate(session.savepoints[at].1);
            }
            TxnOp::Release(name) if self.at(slot).names.contains_key(name) => {
                let session = self.going(slot)?;
                let at = session.find(*name)?;
                session.savepoints.truncate(at);
            }
            TxnOp::BackTo(_) | TxnOp::Release(_) => {}
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
        let places: BTreeSet<&Place> = session.own.iter().map(|(place, _)| place).collect();
        let rows = places
            .into_iter()
            .map(|place| (place.0, place.1.clone(), session.value(model, place, u64::MAX)));
        let rows: Vec<_> = rows.collect();
        model.commit_rows(rows.into_iter());
        Ok(Answer::Done)
    }

    fn write(
        &mut self,
        model: &Model,
        slot: u8,
        tree: TreeNumber,
        write: &Write,
        may_conflict: bool,
    ) -> Result<(), Refusal> {
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
        if !is_own && self.is_in_a_gap(Some(slot), model, &place) {
            if before.is_none() {
                self.at_mut(slot).rows.remove(&place);
            }
            return Err(Refusal::Busy);
        }
        self.at_mut(slot).own.push((place, write.clone()));
        Ok(())
    }

    /// Locks a row, if nobody stands against it.
    pub(super) fn lock(&mut self, slot: u8, place: &Place, lock: RowLock) -> Result<(), Refusal> {
        let alone = lock == RowLock::Exclusive;
        let is_held = self.is_held(Some(slot), place, alone);
        let session = self.at_mut(slot);
        session.intents.insert(place.0);
        if session.rows.get(place).is_some_and(|held| *held || !alone) {
            return Ok(());
        }
        if is_held {
            return Err(Refusal::Busy);
        }
        session.rows.insert(place.clone(), alone);
        Ok(())
    }

    fn others(&self, slot: Option<u8>) -> impl Iterator<Item = &Session> {
        let others = self.open.iter().filter(move |(other, _)| Some(**other) != slot);
        others.map(|(_, session)| session)
    }

    /// True if another has the row so that nobody else may have it, or may not have it alone.
    fn is_held(&self, slot: Option<u8>, place: &Place, alone: bool) -> bool {
        self.others(slot).any(|other| other.rows.get(place).is_some_and(|held| *held || alone))
    }

    /// True if the row is not there, and another has locked the gap that it would go into.
    fn is_in_a_gap(&self, slot: Option<u8>, model: &Model, (tree, key): &Place) -> bool {
        let holds = |(of, span): &(TreeNumber, Span)| of == tree && is_in(key, span);
        model.trees[tree].at(key, u64::MAX).is_none()
            && self.others(slot).any(|other| other.gaps.iter().any(holds))
    }

    /// Keys in a stretch that others have written and not committed, ascending.
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
            rows: BTreeMap::new(),
            gaps: Vec::new(),
            intents: BTreeSet::new(),
            written: BTreeSet::new(),
            is_over: false,
        }
    }

    /// It was rolled back, and answers so.
    pub fn end(&mut self) {
        let names = std::mem::take(&mut self.names);
        *self = Self { is_over: true, names, ..Self::new(self.isolation, self.level) };
    }

    fn find(&self, name: u8) -> Result<usize, Refusal> {
        let number = self.names.get(&name);
        let found = self.savepoints.iter().position(|(made, _)| Some(made) == number);
        found.ok_or(Refusal::BadCall)
    }

    /// The step that a plain read sees.
    fn step_seen(&mut self, model: &Model) -> u64 {
        match self.isolation {
            Isolation::ReadCommitted => model.step(),
            _ => *self.snapshot.get_or_insert(model.step()),
        }
    }

    /// True if own writes alone say what the row is.
    fn knows(&self, place: &Place) -> bool {
        let own = self.own.iter().filter(|(own, _)| own == place);
        own.into_iter().any(|(_, write)| {
            matches!(write, Write::Put(..) | Write::Insert(..) | Write::Delete(..))
        })
    }

    /// Own writes over the row of a step.
    pub fn value(&self, model: &Model, place: &Place, step: u64) -> Option<Vec<u8>> {
        let base = model.trees[&place.0].at(&place.1, step).map(|value| value.to_vec());
        let own = self.own.iter().filter(|(own, _)| own == place);
        own.fold(base, |base, (_, write)| effect(write, base.as_deref()))
    }

    /// Own keys of a tree in a stretch, ascending.
    pub fn own_keys(&self, tree: TreeNumber, (from, to): (&[u8], &[u8])) -> BTreeSet<Vec<u8>> {
        let own = self.own.iter().filter(|((of, _), _)| *of == tree);
        let keys = own
            .map(|((_, key), _)| key)
            .filter(|key| key.as_slice() >= from && key.as_slice() < to);
        keys.cloned().collect()
    }

    fn rows_at(
        &self,
        model: &Model,
        tree: TreeNumber,
        step: u64,
        (from, to): (&[u8], &[u8]),
    ) -> Vec<Row> {
        let mut keys = self.own_keys(tree, (from, to));
        let committed = model.trees[&tree].rows_at(step).map(|(key, _)| key);
        keys.extend(committed.filter(|key| key.as_slice() >= from && key.as_slice() < to).cloned());
        let row = |key: Vec<u8>| {
            let place = (tree, key);
            self.value(model, &place, step).map(|value| (place.1, value))
        };
        keys.into_iter().filter_map(row).collect()
    }

    /// Keeps others from inserting here.
    pub fn lock_gap(&mut self, tree: TreeNumber, span: Span) {
        self.intents.insert(tree);
        self.gaps.push((tree, span));
    }
}

/// The first rows, in a direction.
fn cut(mut rows: Vec<Row>, limit: usize, reverse: bool) -> Vec<Row> {
    if reverse {
        rows.reverse();
    }
    rows.truncate(limit);
    rows
}

/// True if a key is in a stretch.
pub(super) fn is_in(key: &[u8], (low, high): &Span) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    };
    above && below
}

impl Model {
    /// Whether a tree, by its number, was there after a step.
    pub(super) fn is_there_at(&self, tree: TreeNumber, step: u64) -> bool {
        self.names_at(step).values().any(|number| *number == tree)
    }
}

impl super::History {
    /// Whether anybody has written a key since a step, whatever came of it.
    fn is_touched_since(&self, key: &[u8], step: u64) -> bool {
        let versions = self.rows.get(key).and_then(|versions| versions.last());
        let covers = |(at, from, to): &(u64, Vec<u8>, Vec<u8>)| {
            *at > step && key >= from.as_slice() && key < to.as_slice()
        };
        versions.is_some_and(|(at, _)| *at > step) || self.ranges.iter().any(covers)
    }
}
