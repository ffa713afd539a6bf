//! Rows with indexes, reads of many rows, and reads that release their locks, in the model. Written
//! from docs/transactions.md and not from the engine's code.
//!
//! A row has three entries in one tree: its own, one in a plain index, by its slot and its number,
//! and one in a unique index, by its slot alone. Their classes sort before all others, so that no
//! range delete of a batch meets them.
//!
//! Invariants
//! 1. A call on a row keeps its locks, whatever its result; its writes are undone if it is refused.

use frond::{IfLocked, Isolation, RowLock};

use super::{Answer, Model, Refusal, Sessions, TreeNumber, sessions::Place, walk::is_in};
use crate::ops::{Key, Locking, Op, TxnOp, Value, Write};

/// Class of a row; below, the classes of its entries in the plain and the unique index.
pub const ROW: u8 = b'R';
const PLAIN: u8 = b'I';
const UNIQUE: u8 = b'U';
/// Number of slots: few, so that rows conflict.
const SLOTS: u32 = 3;
/// Minimum bytes of a row: they start with its seed.
pub const ROW_BYTES_MIN: u32 = 12;

/// The writes of a call on a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowWrites {
    /// The key that must not exist, if there is one.
    pub comes_to: Option<Write>,
    /// Entries that are removed.
    pub leaves: Vec<Write>,
    /// Entries that are added or get a new value; those with a checked insert are new.
    pub comes: Vec<Write>,
}

/// A row's entries: its own, the plain one, the unique one.
pub fn entries(tree: &str, key: Key, value: Value) -> [Write; 3] {
    let slot = value.seed % SLOTS;
    let plain = Key { class: PLAIN, number: slot * 10_000 + key.number, tail: 0 };
    let unique = Key { class: UNIQUE, number: slot, tail: 0 };
    let name = Value { seed: key.number, bytes: ROW_BYTES_MIN };
    [
        Write::Insert(tree.into(), key, value),
        Write::Insert(tree.into(), plain, Value { seed: 0, bytes: 0 }),
        Write::Insert(tree.into(), unique, name),
    ]
}

/// The value that a row's bytes belong to, as far as its entries depend on it.
pub fn value_of(bytes: &[u8]) -> Value {
    let digits = bytes.iter().skip(1).take_while(|byte| byte.is_ascii_digit());
    let seed = digits.fold(0u32, |seed, digit| seed.wrapping_mul(10) + u32::from(digit - b'0'));
    Value { seed, bytes: bytes.len() as u32 }
}

/// The writes that change a row from `old` to `new`.
pub fn row_writes(tree: &str, key: Key, old: Option<&[u8]>, new: Option<Value>) -> RowWrites {
    let old = old.map(|bytes| entries(tree, key, value_of(bytes)));
    let new = new.map(|value| entries(tree, key, value));
    let delete = |write: &Write| Write::Delete(tree.into(), write.key().unwrap_or(key));
    let put = |write: &Write| match write {
        Write::Insert(tree, key, value) => Write::Put(tree.clone(), *key, *value),
        other => other.clone(),
    };
    match (old, new) {
        (None, None) => RowWrites { comes_to: None, leaves: Vec::new(), comes: Vec::new() },
        (None, Some(new)) => {
            RowWrites { comes_to: Some(new[2].clone()), leaves: Vec::new(), comes: new.into() }
        }
        (Some(old), None) => {
            let leaves = old.iter().map(delete).collect();
            RowWrites { comes_to: None, leaves, comes: Vec::new() }
        }
        (Some(old), Some(new)) => {
            let moves = |at: usize| old[at].key() != new[at].key();
            let leaves = (0..3).filter(|at| moves(*at)).map(|at| delete(&old[at])).collect();
            let comes = (0..3)
                // Nothing has checked whether an entry of the plain index existed.
                .map(|at| if moves(at) && at == 2 { new[at].clone() } else { put(&new[at]) })
                .collect();
            RowWrites { comes_to: moves(2).then(|| new[2].clone()), leaves, comes }
        }
    }
}

impl Sessions {
    /// Changes a row that was locked and read before.
    pub(super) fn row(
        &mut self,
        model: &Model,
        slot: u8,
        (name, tree): (&str, TreeNumber),
        (key, new, lock): (Key, Option<Value>, RowLock),
        found: &Answer,
    ) -> Result<Answer, Refusal> {
        let may_conflict = *found == Answer::Refused(Refusal::Conflict);
        let own = (tree, key.bytes());
        self.lock(slot, &own, RowLock::Exclusive)?;
        self.must_not_conflict(model, slot, &own, may_conflict)?;
        let old = self.at(slot).value(model, &own, u64::MAX);
        let writes = row_writes(name, key, old.as_deref(), new);
        if let Some(unique) = writes.comes_to.as_ref().and_then(Write::key) {
            let place = (tree, unique.bytes());
            if let Some(value) = self.look_for(model, slot, &place, lock, may_conflict)? {
                return Ok(Answer::Rows(vec![(vec![2], value)]));
            }
        }
        let before = self.at(slot).own.len();
        for write in writes.leaves.iter().chain(&writes.comes) {
            let went = self.write(model, slot, tree, write, found);
            went.inspect_err(|_| {
                let session = self.at_mut(slot);
                session.own.truncate(before.min(session.own.len()));
            })?;
        }
        Ok(Answer::Done)
    }

    /// The value of an entry that must not exist, locked as requested; if it does not exist, it is
    /// locked exclusively.
    fn look_for(
        &mut self,
        model: &Model,
        slot: u8,
        place: &Place,
        lock: RowLock,
        may_conflict: bool,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let before = self.at(slot).rows.get(place).copied();
        let alone = self.lock(slot, place, RowLock::Exclusive);
        if lock == RowLock::Exclusive {
            alone?;
            self.must_not_conflict(model, slot, place, may_conflict)?;
            return Ok(self.at(slot).value(model, place, u64::MAX));
        }
        if alone.is_ok() {
            self.must_not_conflict(model, slot, place, may_conflict)?;
            if self.at(slot).value(model, place, u64::MAX).is_none() {
                return Ok(None);
            }
            self.unlock(slot, place, before);
        }
        self.lock(slot, place, RowLock::Shared)?;
        self.must_not_conflict(model, slot, place, may_conflict)?;
        let found = self.at(slot).value(model, place, u64::MAX);
        if found.is_none() {
            // Others share it, so it cannot be locked exclusively.
            self.unlock(slot, place, before);
            return Err(Refusal::Busy);
        }
        Ok(found)
    }

    /// Restores the lock that the transaction had on a row before.
    pub(super) fn unlock(&mut self, slot: u8, place: &Place, before: Option<bool>) {
        let rows = &mut self.at_mut(slot).rows;
        match before {
            Some(alone) => rows.insert(place.clone(), alone),
            None => rows.remove(place),
        };
    }

    /// Reads many rows, in the requested order; returns for each, after its key, whether it exists
    /// and is locked.
    pub(super) fn read_many(
        &mut self,
        model: &Model,
        slot: u8,
        (tree, keys): (TreeNumber, &[Key]),
        locking: Option<Locking>,
        found: &Answer,
    ) -> Result<Answer, Refusal> {
        let may_conflict = *found == Answer::Refused(Refusal::Conflict);
        let is_serial = self.at(slot).isolation == Isolation::Serializable;
        let row = |key: &Key, value: Option<Vec<u8>>, locked: bool| {
            let mut name = key.bytes();
            name.extend([u8::from(value.is_some()), u8::from(locked)]);
            (name, value.unwrap_or_default())
        };
        let Some(locking) = locking.or(is_serial.then_some(super::walk::SERIAL)) else {
            let step = self.at_mut(slot).step_seen(model);
            if !model.is_there_at(tree, step) {
                return Err(Refusal::BornLater);
            }
            let session = self.at(slot);
            let value = |key: &Key| {
                let place = (tree, key.bytes());
                let step = session.step_under(model, &session.own, &place, step);
                session.value(model, &place, step)
            };
            return Ok(Answer::Rows(keys.iter().map(|key| row(key, value(key), false)).collect()));
        };
        let passes = match locking.if_locked {
            IfLocked::SkipLocked => true,
            IfLocked::SemiConsistent => !is_serial,
            IfLocked::Wait | IfLocked::NoWait => false,
        };
        let mut order: Vec<&Key> = keys.iter().collect();
        order.sort_by_key(|key| key.bytes());
        let mut taken = Vec::new();
        for key in &order {
            let place = (tree, key.bytes());
            let before = self.at(slot).rows.get(&place).copied();
            match self.lock(slot, &place, locking.lock) {
                Ok(()) => taken.push((place, before)),
                Err(_) if passes => {}
                Err(busy) => {
                    // The call then has locked none.
                    for (place, before) in taken.iter().rev() {
                        self.unlock(slot, place, *before);
                    }
                    return Err(busy);
                }
            }
        }
        for (place, _) in &taken {
            self.must_not_conflict(model, slot, place, may_conflict)?;
        }
        let session = self.at(slot);
        let read = |key: &Key| {
            let place = (tree, key.bytes());
            let locked = taken.iter().any(|(one, _)| *one == place);
            let value = match locking.if_locked {
                _ if locked => session.value(model, &place, u64::MAX),
                IfLocked::SkipLocked => None,
                _ => session.value(model, &place, model.step()),
            };
            row(key, value, locked)
        };
        Ok(Answer::Rows(keys.iter().map(read).collect()))
    }

    /// True if the result of a call would depend on what was spilled, or was added and removed
    /// again. Such a call is not made:
    ///
    /// - A prepare of rows that were all inserted and deleted again: whether it writes anything.
    /// - A call on many rows, one of which another, prepared transaction has inserted and deleted
    ///   again: whether that one keeps the lock.
    /// - A call on a row whose new entries go into a gap that another transaction has locked: in
    ///   which order it releases what it had locked.
    pub fn is_vague(&self, model: &Model, op: &Op) -> bool {
        let Op::InTxn(slot, call) = op else { return false };
        let Some(session) = self.open.get(slot).filter(|session| !session.is_over) else {
            return false;
        };
        let others = || self.others(Some(*slot));
        let may_keep = |tree: &str, is_met: &dyn Fn(&[u8]) -> bool| {
            let Ok(tree) = model.tree(tree) else { return false };
            others().any(|one| one.maybe.iter().any(|(of, key)| *of == tree && is_met(key)))
        };
        match call {
            TxnOp::Prepare(_) => session.cancels_out_completely(),
            TxnOp::Scan { tree, from, to, .. } => {
                let span = (
                    std::ops::Bound::Included(from.bytes()),
                    std::ops::Bound::Included(to.bytes()),
                );
                may_keep(tree, &|key| is_in(key, &span))
            }
            TxnOp::ReadMany(tree, keys, _) => {
                may_keep(tree, &|met| keys.iter().any(|key| key.bytes() == met))
            }
            TxnOp::Lock(tree, key, locking) | TxnOp::Look(tree, key, locking) => {
                let passes =
                    matches!(locking.if_locked, IfLocked::SkipLocked | IfLocked::SemiConsistent);
                passes && may_keep(tree, &|met| met == key.bytes())
            }
            TxnOp::Row { tree, .. } => {
                let is_row =
                    |key: &[u8]| key.first().is_some_and(|class| class.is_ascii_uppercase());
                let has_gaps = model.tree(tree).is_ok_and(|tree| {
                    others().any(|one| one.gaps.iter().any(|gap| gap.tree == tree))
                });
                has_gaps || may_keep(tree, &is_row)
            }
            _ => false,
        }
    }
}
