//! Calls of transactions, and decisions of prepared ones.

use std::collections::BTreeSet;

use frond::{IfLocked, Isolation, RowLock};

use super::{Generator, XIDS};
use crate::{
    model::rows,
    ops::{Key, Locking, Op, TxnOp, Value, Write},
};

impl Generator<'_> {
    /// A call of one of four transactions, or the call that begins it if it has not begun.
    pub(super) fn txn(&mut self) -> Op {
        let slot = self.dice.below(4) as u8;
        if let Some(call) = self.in_hand(slot) {
            return Op::InTxn(slot, call);
        }
        if self.open.insert(slot) {
            let isolation = *self.dice.pick(&[
                Isolation::ReadCommitted,
                Isolation::RepeatableRead,
                Isolation::Snapshot,
                Isolation::Snapshot,
                Isolation::Serializable,
            ]);
            return Op::Begin(slot, isolation, self.level());
        }
        let rows = self.swarm.rows;
        let prepares = if self.swarm.decide > 0 { 3 } else { 0 };
        let call = match self.weighted(&[
            16,
            5,
            5,
            3,
            4,
            3,
            2,
            1,
            5,
            1,
            3,
            1,
            prepares,
            rows,
            rows / 4,
            rows / 3,
        ]) {
            0 => match self.write() {
                Write::Range(tree, key, _) => TxnOp::Write(Write::Delete(tree, key)),
                write => TxnOp::Write(write),
            },
            1 => TxnOp::Get(self.tree(), self.key_in_txn()),
            2 => {
                let (tree, key) = (self.tree(), self.key_in_txn());
                TxnOp::Lock(tree, key, self.locking())
            }
            3 => self.txn_scan(false),
            4 => self.txn_scan(true),
            5 => TxnOp::Savepoint(self.dice.below(3) as u8),
            6 => TxnOp::BackTo(self.dice.below(3) as u8),
            7 => TxnOp::Release(self.dice.below(3) as u8),
            8 => TxnOp::Commit,
            9 => TxnOp::Rollback,
            10 => TxnOp::Statement,
            11 => TxnOp::UndoStatement,
            13 => self.row(),
            14 => {
                let (tree, key) = (self.tree(), self.key_in_txn());
                TxnOp::Look(tree, key, self.locking())
            }
            15 => {
                let tree = self.tree();
                let count = self.dice.between(1, 5);
                let keys: BTreeSet<Key> = (0..count).map(|_| self.key_in_txn()).collect();
                let locking = self.dice.chance(2, 3).then(|| self.locking());
                TxnOp::ReadMany(tree, keys.into_iter().collect(), locking)
            }
            _ => {
                let number = self.dice.below(XIDS) as u8;
                // If the number is taken, the prepare is refused.
                self.prepared.entry(number).or_insert(Some(slot));
                TxnOp::Prepare(number)
            }
        };
        if matches!(call, TxnOp::Commit | TxnOp::Rollback | TxnOp::Prepare(_)) {
            self.open.remove(&slot);
        }
        Op::InTxn(slot, call)
    }

    /// A key, sometimes of an entry of a row.
    fn key_in_txn(&mut self) -> Key {
        if self.swarm.rows == 0 || !self.dice.chance(1, 4) {
            return self.any_key();
        }
        let row = self.row_key();
        let value = self.row_value();
        let [row, plain, unique] = rows::entries("", row, value);
        self.dice.pick(&[row, plain, unique]).key().unwrap_or(Key::plain(0))
    }

    /// The key of one of a few rows.
    fn row_key(&mut self) -> Key {
        Key { number: self.dice.below(5) as u32, ..self.key_of(rows::ROW) }
    }

    fn row_value(&mut self) -> Value {
        let value = self.value();
        Value { bytes: value.bytes.max(rows::ROW_BYTES_MIN), ..value }
    }

    fn row(&mut self) -> TxnOp {
        let (tree, key) = (self.tree(), self.row_key());
        let value = self.dice.chance(2, 3).then(|| self.row_value());
        let lock = *self.dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        TxnOp::Row { tree, key, value, lock }
    }

    /// A call of a slot with a prepared transaction attached, if it has one; seldom it begins
    /// another.
    fn in_hand(&mut self, slot: u8) -> Option<TxnOp> {
        let (&number, _) = self.prepared.iter().find(|(_, hand)| **hand == Some(slot))?;
        let order = if self.swarm.rows > 0 { 3 } else { 0 };
        let call = match self.weighted(&[4, 1, 5, 1, order]) {
            0 => TxnOp::Commit,
            1 => TxnOp::Rollback,
            2 => TxnOp::Detach,
            4 => return Some(TxnOp::Order),
            _ => {
                self.prepared.insert(number, None);
                return None;
            }
        };
        match call {
            TxnOp::Detach => drop(self.prepared.insert(number, None)),
            _ => drop(self.prepared.remove(&number)),
        }
        Some(call)
    }

    /// Decides a transaction, usually a detached one.
    pub(super) fn decide(&mut self) -> Op {
        let free: Vec<u8> =
            self.prepared.iter().filter(|(_, hand)| hand.is_none()).map(|(xid, _)| *xid).collect();
        let number = match free.is_empty() || self.dice.chance(1, 10) {
            true => self.dice.below(XIDS) as u8,
            false => *self.dice.pick(&free),
        };
        if self.prepared.get(&number) == Some(&None) {
            self.prepared.remove(&number);
        }
        Op::Decide(number, self.dice.chance(2, 3))
    }

    fn locking(&mut self) -> Locking {
        let lock = *self.dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        let if_locked = *self.dice.pick(&[
            IfLocked::Wait,
            IfLocked::NoWait,
            IfLocked::SkipLocked,
            IfLocked::SemiConsistent,
        ]);
        Locking { lock, if_locked }
    }

    fn txn_scan(&mut self, locks: bool) -> TxnOp {
        let (tree, a, b) = (self.tree(), self.any_key(), self.any_key());
        let (from, to) = if a.bytes() <= b.bytes() { (a, b) } else { (b, a) };
        let limit = *self.dice.pick(&[1, 2, 5, 1000]);
        let reverse = self.dice.chance(1, 2);
        let locking = locks.then(|| self.locking());
        TxnOp::Scan { tree, from, to, limit, reverse, locking }
    }
}
