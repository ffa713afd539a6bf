//! The locks that a prepared transaction keeps, as a list that a log record can hold, and acquiring
//! them again (Rules: I12, I54).
//!
//! The encoding of the list is specified with the record that contains it. Rows are listed by tree
//! and hash, so the hash is part of that format: XXH3 of the key, 128 bits, with the tree's number
//! mixed in afterwards (`LockHash::of_row`).
//!
//! Threads: all.

use std::ops::Bound;

use super::{
    LockTable,
    lock_error::{LockError, LockOn, Request, WaitPolicy},
    lock_set::LockSet,
    mode::{Mode, RowMode, TableMode},
    shard::LockHash,
    spilled::OWNERS,
};
use crate::TreeId;

/// A lock on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowEntry {
    /// The tree.
    pub tree: TreeId,
    /// 128-bit hash of the key, by `LockHash::of_row`.
    pub key_hash: u128,
    /// The mode.
    pub mode: RowMode,
}

/// A lock on a range of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeEntry {
    /// The tree.
    pub tree: TreeId,
    /// Where the range starts.
    pub from: Bound<Vec<u8>>,
    /// Where the range ends.
    pub to: Bound<Vec<u8>>,
}

/// The locks of a prepared transaction.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockList {
    /// Rows.
    pub rows: Vec<RowEntry>,
    /// Gaps: only if everything is kept.
    pub ranges: Vec<RangeEntry>,
    /// Trees.
    pub tables: Vec<(TreeId, TableMode)>,
}

impl LockTable {
    /// Releases what a prepared transaction does not need: everything except rows locked for
    /// writing, exclusive intents on trees, and trees locked as a whole. Rows that it does not
    /// write after all, according to `writes_row` (by tree and hash of the key), are released, too.
    pub fn release_at_prepare(
        &self,
        locks: &mut LockSet,
        mut writes_row: impl FnMut(TreeId, u128) -> bool,
    ) {
        self.release_others(locks, |name, mode, writes| match name.is_table {
            true => mode != Mode::IntentShared,
            false if plant!("txn: a prepare releases its write locks") => false,
            // Its own lock, with which others wait for its end.
            false => name.tree == OWNERS || writes && writes_row(name.tree, name.hash.0),
        });
        self.release_ranges(locks);
        self.release_shared_intents(locks);
        locks.owner.set_prepared();
    }

    /// The trees that a set has locked as a whole, and its exclusive intents, for the record of a
    /// prepare that keeps nothing else; empty if there are only intents.
    pub fn whole_trees(&self, locks: &LockSet) -> Vec<(TreeId, TableMode)> {
        let mut list = LockList::default();
        if !locks.strong.is_empty() {
            self.each_held(locks, |name, mode, _| {
                if name.is_table {
                    list_table(&mut list, name.tree, mode);
                }
            });
            self.each_intent(locks, |tree, mode| list_table(&mut list, tree, mode));
            list.tables.retain(|(_, mode)| *mode != TableMode::IntentShared);
        }
        list.tables
    }

    /// Everything that a set holds, for the record of its prepare.
    pub fn list(&self, locks: &LockSet) -> LockList {
        let mut list = LockList::default();
        self.each_held(locks, |name, mode, writes| {
            if name.is_table {
                list_table(&mut list, name.tree, mode);
            } else if name.tree != OWNERS {
                let mode = match mode {
                    Mode::Exclusive if writes => RowMode::Write,
                    Mode::Exclusive => RowMode::Exclusive,
                    _ => RowMode::Shared,
                };
                list.rows.push(RowEntry { tree: name.tree, key_hash: name.hash.0, mode });
            }
        });
        self.each_intent(locks, |tree, mode| list_table(&mut list, tree, mode));
        self.each_range(locks, |tree, (from, to)| {
            let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
            list.ranges.push(RangeEntry { tree, from, to });
        });
        list
    }

    /// Acquires all locks of a list again, for a transaction with this id, before there are other
    /// transactions. Two lists that cannot both have been held are refused.
    pub fn restore(&self, id: u64, list: &LockList) -> Result<LockSet, LockError> {
        let mut locks = self.begin(id);
        self.begins(&locks);
        let restored = self.restore_into(&mut locks, list);
        if let Err(denied) = restored {
            self.release_all(&mut locks);
            return Err(denied);
        }
        Ok(locks)
    }

    fn restore_into(&self, locks: &mut LockSet, list: &LockList) -> Result<(), LockError> {
        for (tree, mode) in &list.tables {
            self.lock_table(locks, *tree, *mode, WaitPolicy::NoWait)?;
        }
        for row in &list.rows {
            let request = Request {
                on: LockOn::Row,
                tree: row.tree,
                hash: LockHash(row.key_hash),
                mode: row.mode.into(),
                writes: row.mode == RowMode::Write,
                row: None,
            };
            self.take(locks, &request, None, WaitPolicy::NoWait)?;
        }
        for RangeEntry { tree, from, to } in &list.ranges {
            let span = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            self.lock_range(locks, *tree, span);
        }
        locks.owner.set_prepared();
        Ok(())
    }
}

/// Adds a tree to a list. A mode that only arises by combination is listed as the two modes that
/// were requested.
fn list_table(list: &mut LockList, tree: TreeId, mode: Mode) {
    let modes: &[TableMode] = match mode {
        Mode::IntentShared => &[TableMode::IntentShared],
        Mode::IntentExclusive => &[TableMode::IntentExclusive],
        Mode::Shared => &[TableMode::Shared],
        Mode::SharedIntentExclusive => &[TableMode::Shared, TableMode::IntentExclusive],
        Mode::Exclusive => &[TableMode::Exclusive],
    };
    list.tables.extend(modes.iter().map(|mode| (tree, *mode)));
}
