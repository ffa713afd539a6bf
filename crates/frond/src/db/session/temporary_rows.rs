//! Temporary trees as servers use them: rows with unique entries, reads of many keys, counters, row
//! counts.
//!
//! A server's temporary table is one tree for its rows and one for each index. They are invisible
//! to others, so nothing is locked.
//!
//! Threads: as `temporary.rs`.

use std::ops::Range;

use crate::{
    KeyRange, Result,
    db::{RangeEstimate, RowCount},
    sync::Arc,
};

use super::{
    RowConflict, Savepoint, TemporaryTree, Txn,
    write::{Absent, Written},
};

/// One entry of a row in temporary trees: its own, or one in an index.
#[derive(Clone, Copy, Debug)]
pub struct TemporaryEntry<'r> {
    /// The tree that it is put into.
    pub tree: &'r TemporaryTree,
    /// Its key.
    pub key: &'r [u8],
    /// Its value.
    pub value: &'r [u8],
    /// Whether the key must be absent.
    pub unique: bool,
}

impl Txn {
    /// Inserts a row into temporary trees: all its entries, or none. If one of the unique entries
    /// exists already, returns the first such entry and its value. The row's own entry must come
    /// first: if it is unique, entries that are not unique are taken to be absent with it, as by
    /// [`insert_row`](Txn::insert_row).
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::transaction::TemporaryEntry;
    ///
    /// let rows = db.create_temporary(Default::default())?;
    /// let names = db.create_temporary(Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// let row = |id: &'static [u8]| {
    ///     [
    ///         TemporaryEntry { tree: &rows, key: id, value: b"anna", unique: true },
    ///         TemporaryEntry { tree: &names, key: b"anna", value: id, unique: true },
    ///     ]
    /// };
    /// assert_eq!(txn.insert_temporary_row(&row(b"1"))?, None);
    /// let conflict = txn.insert_temporary_row(&row(b"2"))?.unwrap();
    /// assert_eq!((conflict.index, &conflict.value[..]), (1, &b"1"[..]));
    /// assert_eq!(rows.get(b"2")?, None);
    /// # drop(txn); drop((rows, names));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TemporaryTree::put`].
    pub fn insert_temporary_row(
        &self,
        entries: &[TemporaryEntry<'_>],
    ) -> Result<Option<RowConflict>> {
        entries.iter().try_for_each(|entry| entry.tree.enroll(self))?;
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.unique) {
            if let Some(value) = entry.tree.get(entry.key)? {
                return Ok(Some(RowConflict { index, value }));
            }
        }
        let follows = match entries.first() {
            Some(own) if own.unique => Absent::Follows,
            _ => Absent::Whatever,
        };
        let mut before: Vec<(&TemporaryTree, Savepoint)> = Vec::new();
        if entries.len() > 1 {
            for TemporaryEntry { tree, .. } in entries {
                if !before.iter().any(|(other, _)| Arc::ptr_eq(&other.held, &tree.held)) {
                    before.push((tree, tree.held.rows.savepoint()?));
                }
            }
        }
        let put = put_all(entries, follows);
        let is_done = matches!(put, Ok(None));
        for (tree, savepoint) in before {
            let rows = &tree.held.rows;
            // A lost tree reports that itself.
            let back = if is_done { Ok(()) } else { rows.rollback_to(&savepoint) };
            let _ = back.and_then(|()| rows.release(&savepoint));
        }
        put
    }
}

/// Puts the entries of a row; returns a conflict if the row itself has an entry twice.
fn put_all(entries: &[TemporaryEntry<'_>], follows: Absent) -> Result<Option<RowConflict>> {
    for (index, entry) in entries.iter().enumerate() {
        let TemporaryEntry { tree, key, value, unique } = *entry;
        let absent = if unique { Absent::Proven } else { follows };
        let put = tree.held.rows.put_checked(&tree.held.tree, key, value, absent)?;
        if put == Written::Exists {
            let value = tree.get(key)?.unwrap_or_default();
            return Ok(Some(RowConflict { index, value }));
        }
    }
    Ok(None)
}

impl TemporaryTree {
    /// The values of many keys, as last written, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.held.rows.get_many(&self.held.tree, keys)
    }

    /// Takes `count` numbers from one of the tree's counters, as
    /// [`Tree::reserve`](crate::Tree::reserve) does. The counters end with the tree: neither a
    /// rollback nor [`clear`](Self::clear) resets them.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter, or too few numbers are left.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Result<Range<u64>> {
        self.held.tree.reserve_unlogged(counter, least, count)
    }

    /// The next number of a counter, without taking it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter.
    pub fn next_number(&self, counter: usize) -> Result<u64> {
        self.held.tree.next_number(counter)
    }

    /// Estimates how many rows are in a range, and how many bytes they take; 0 rows only if there
    /// are none. Reads nothing.
    ///
    /// # Errors
    /// `TxnEnded` if the tree is lost; `Interrupted`.
    pub fn estimate(&self, range: impl KeyRange) -> Result<RangeEstimate> {
        self.held.rows.estimate(&self.held.tree, range)
    }

    /// Number of rows: exact while every write knew whether its key existed (inserts, rows with a
    /// unique own entry), otherwise an estimate.
    ///
    /// # Errors
    /// As [`estimate`](Self::estimate).
    pub fn row_count(&self) -> Result<RowCount> {
        if let Some(rows) = self.held.rows.rows_written(&self.held.tree)? {
            return Ok(RowCount { rows, exact: true });
        }
        Ok(RowCount { rows: self.estimate(..)?.rows, exact: false })
    }
}
