//! Registers that are rows with indexes, written as the handler of a server writes a table.
//!
//! A row is a number and a slot. A plain index has its key and number, a unique one its slot. The
//! rows of a group of keys have few slots, so that they conflict. To the checker each is one
//! register, whichever way it was found: if an index does not agree with its rows, one read sees
//! one version of the register and another read a different one.

use frond::{
    Isolation, ReadOptions, Result, RowLock, Snapshot, Tree,
    transaction::{RowChange, RowConflict, RowEntry},
};

use super::{
    super::{Call, Key, Number, Txn},
    Running, WINDOW, number,
};
use crate::Dice;

/// Rows are registers with numbers above all others.
const ROWS: Key = 1 << 32;
/// Number of keys in a group, and of slots.
const GROUP: u64 = 4;

/// Rows, their plain index, their unique index.
pub(super) struct Trees {
    rows: Tree,
    plain: Tree,
    slots: Tree,
}

/// A row as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    key: Key,
    number: Number,
    slot: u8,
}

impl Row {
    fn of(key: Key, value: &[u8]) -> Self {
        let (number_bytes, slot) = value.split_at(value.len().saturating_sub(1));
        Self { key, number: number(number_bytes.to_vec()), slot: slot.first().map_or(255, |s| *s) }
    }

    fn value(self) -> Vec<u8> {
        [&self.number.to_be_bytes()[..], &[self.slot]].concat()
    }

    fn in_plain(self) -> Vec<u8> {
        [self.key.to_be_bytes(), self.number.to_be_bytes()].concat()
    }

    fn in_slots(self) -> Vec<u8> {
        [&(self.key / GROUP).to_be_bytes()[..], &[self.slot]].concat()
    }
}

impl Trees {
    pub fn open(tree: &impl Fn(&str) -> Result<Tree>) -> Result<Self> {
        Ok(Self { rows: tree("rows")?, plain: tree("rows_plain")?, slots: tree("rows_slots")? })
    }

    /// Reads a row in all possible ways.
    pub fn finish(&self, snapshot: &Snapshot, key: Key, last: &mut Txn) -> Result<()> {
        let row = snapshot.get(&self.rows, &key.to_be_bytes())?.map(|value| Row::of(key, &value));
        last.calls.push((0, Call::Register(ROWS + key, row.map(|row| row.number), false)));
        let (from, to) = (key.to_be_bytes(), (key + 1).to_be_bytes());
        let mut cursor = snapshot.scan(&self.plain, &from[..]..&to[..])?;
        let mut found = Vec::new();
        while let Some((entry, _)) = cursor.next()? {
            found.push(entry.to_vec());
        }
        let expected: Vec<Vec<u8>> = row.iter().map(|row| row.in_plain()).collect();
        assert_eq!(found, expected, "I7: the plain index of row {key}");
        if let Some(row) = row {
            let slot = snapshot.get(&self.slots, &row.in_slots())?;
            assert_eq!(slot, Some(row.in_plain()), "I48: the unique index of row {key}");
        }
        Ok(())
    }
}

impl Running<'_> {
    /// Reads a row under an exclusive lock, and inserts, changes or deletes it.
    pub(super) fn write_row(&mut self, key: Key, dice: &mut Dice) -> Result<()> {
        let Trees { rows, plain, slots } = &self.trees.rows;
        let lock = *dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        let new = Row { key, number: self.recorder.number(), slot: dice.below(GROUP) as u8 };
        let at = key.to_be_bytes();
        // A checked insert looks it up by itself.
        let is_blind = dice.chance(1, 3);
        let old = match is_blind {
            true => None,
            false => {
                let value = self.txn.get_for_update(rows, &at)?;
                let old = value.map(|value| Row::of(key, &value));
                self.note(Call::Register(ROWS + key, old.map(|row| row.number), true));
                old
            }
        };
        let (value, in_plain, in_slots) = (new.value(), new.in_plain(), new.in_slots());
        let Some(old) = old else {
            let entry =
                |tree, key, value, unique| RowEntry { tree, key, value, unique, absent: false };
            let entries = [
                entry(rows, &at, &value, true),
                entry(plain, &in_plain, &[], false),
                entry(slots, &in_slots, &in_plain, true),
            ];
            return match self.txn.row_writer().insert(&entries, lock)? {
                None => {
                    self.note(Call::Register(ROWS + key, None, true));
                    self.note(Call::Set(ROWS + key, new.number));
                    Ok(())
                }
                Some(conflict) => {
                    if conflict.index != 0 {
                        // It has looked up the row's own entry before.
                        self.note(Call::Register(ROWS + key, None, true));
                    }
                    self.met(key, &conflict);
                    Ok(())
                }
            };
        };
        let (old_plain, old_slots) = (old.in_plain(), old.in_slots());
        if dice.chance(1, 3) {
            self.txn.row_writer().delete(&[
                (rows, &at),
                (plain, &old_plain),
                (slots, &old_slots),
            ])?;
            self.note(Call::Delete(ROWS + key, new.number));
            return Ok(());
        }
        let change = |tree, old, key, value, unique| RowChange {
            tree,
            old: Some(old),
            new: Some((key, value)),
            unique,
        };
        let changes = [
            change(rows, &at[..], &at[..], &value[..], true),
            change(plain, &old_plain[..], &in_plain[..], &[], false),
            change(slots, &old_slots[..], &in_slots[..], &in_plain[..], true),
        ];
        match self.txn.row_writer().update(&changes, lock)? {
            None => self.note(Call::Set(ROWS + key, new.number)),
            Some(conflict) => self.met(key, &conflict),
        }
        Ok(())
    }

    /// Records the conflicting entry, which was read under a lock.
    fn met(&mut self, key: Key, conflict: &RowConflict) {
        match conflict.index {
            0 => {
                let row = Row::of(key, &conflict.value);
                self.note(Call::Register(ROWS + key, Some(row.number), true));
            }
            // Only the entry is locked, not its row; but a change of that row must lock the entry,
            // too.
            _ => self.entry(&conflict.value, true),
        }
    }

    /// Records what an index entry says about a row.
    fn entry(&mut self, entry: &[u8], locks: bool) {
        let (key, of) = entry.split_at(entry.len().min(8));
        let key = number(key.to_vec());
        if !self.shows_others(key, locks) {
            self.note(Call::Register(ROWS + key, Some(number(of.to_vec())), locks));
        }
    }

    /// Whether an index entry shows what others have written. At `RepeatableRead`, own writes apply
    /// over a snapshot, and may know more than it: what the snapshot shows under the entry that the
    /// row had then stays, although the transaction has changed the row since.
    fn shows_others(&self, key: Key, locks: bool) -> bool {
        let writes = |call: &Call| matches!(call, Call::Set(at, _) | Call::Delete(at, _) if *at == ROWS + key);
        !locks
            && self.done.isolation == Isolation::RepeatableRead
            && self.done.calls.iter().any(|(_, call)| writes(call))
    }

    /// Reads rows, by their key or by an index.
    pub(super) fn read_rows(&mut self, key: Key, locks: bool, dice: &mut Dice) -> Result<()> {
        let Trees { rows, plain, slots } = &self.trees.rows;
        match dice.below(3) {
            0 => {
                let value = self.read(rows, key, locks, dice)?;
                let row = value.map(|value| Row::of(key, &value));
                self.note(Call::Register(ROWS + key, row.map(|row| row.number), locks));
            }
            1 => {
                let slot = Row { key, number: 0, slot: dice.below(GROUP) as u8 };
                let entry = match locks {
                    true => self
                        .txn
                        .get_with(
                            slots,
                            &slot.in_slots(),
                            &ReadOptions::new().lock(RowLock::Shared),
                        )
                        .map(|row| row.into_value())?,
                    false => self.txn.get(slots, &slot.in_slots())?,
                };
                if let Some(entry) = entry {
                    self.entry(&entry, locks);
                }
            }
            _ => {
                let first = self.recorder.first_key();
                let (from, to) = (first.to_be_bytes(), (first + WINDOW).to_be_bytes());
                let range = &from[..]..&to[..];
                let cursor = match locks {
                    true => self.txn.scan_with(
                        plain,
                        range,
                        &ReadOptions::new().lock(RowLock::Shared),
                    )?,
                    false => self.txn.scan(plain, range)?,
                };
                let found = super::keys(cursor, dice.chance(1, 2))?;
                for entry in &found {
                    self.entry(entry, locks);
                }
                if !locks || self.locks_gaps() {
                    let has = |key: Key| found.iter().any(|at| at.starts_with(&key.to_be_bytes()));
                    for key in (first..first + WINDOW).filter(|key| !has(*key)) {
                        if self.shows_others(key, locks) {
                            continue;
                        }
                        self.note(Call::Register(ROWS + key, None, locks));
                    }
                }
            }
        }
        Ok(())
    }
}
