//! Rows with entries in several temporary trees.
//!
//! A server's temporary table is one tree for its rows and one for each index. They are invisible
//! to others, so nothing is locked.
//!
//! Threads: as the transaction.

use crate::{
    Result,
    db::session::{
        RowConflict, RowWriter,
        write_buffer::{Absent, Written},
    },
    sync::Arc,
};

use super::TemporaryTree;

/// One entry of a row in temporary trees: its own, or one in an index.
#[derive(Clone, Copy, Debug)]
pub struct TemporaryEntry<'r> {
    /// The tree that it is put into.
    pub tree: &'r TemporaryTree,
    /// The key.
    pub key: &'r [u8],
    /// The value.
    pub value: &'r [u8],
    /// Whether the key must be absent.
    pub unique: bool,
}

impl RowWriter<'_> {
    /// Inserts a row into temporary trees: all its entries, or none. If one of the unique entries
    /// exists already, returns the first such entry and its value. The row's own entry must come
    /// first: if it is unique, entries that are not unique are taken to be absent with it, as by
    /// [`insert`](RowWriter::insert).
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
    /// assert_eq!(txn.row_writer().insert_temporary(&row(b"1"))?, None);
    /// let conflict = txn.row_writer().insert_temporary(&row(b"2"))?.unwrap();
    /// assert_eq!((conflict.index, &conflict.value[..]), (1, &b"1"[..]));
    /// assert_eq!(rows.get(b"2")?, None);
    /// # drop(txn); drop((rows, names));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TemporaryTree::put`].
    pub fn insert_temporary(&self, entries: &[TemporaryEntry<'_>]) -> Result<Option<RowConflict>> {
        entries.iter().try_for_each(|entry| entry.tree.enroll(self.txn))?;
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.unique) {
            if let Some(value) = entry.tree.get(entry.key)? {
                return Ok(Some(RowConflict { index, value }));
            }
        }
        let follows = match entries.first() {
            Some(own) if own.unique => Absent::Follows,
            _ => Absent::Whatever,
        };
        let mut before: Vec<(&TemporaryTree, u64)> = Vec::new();
        if entries.len() > 1 {
            for TemporaryEntry { tree, .. } in entries {
                if !before.iter().any(|(other, _)| Arc::ptr_eq(&other.held, &tree.held)) {
                    let savepoint = tree.held.buffer.set_savepoint(&mut tree.held.lock()?.buffer);
                    before.push((tree, savepoint));
                }
            }
        }
        let put = put_all(entries, follows);
        let is_done = matches!(put, Ok(None));
        for (tree, savepoint) in before {
            if !is_done {
                tree.held.rollback_to_savepoint(savepoint)?;
            }
            // A lost tree reports that itself.
            if let Ok(mut state) = tree.held.lock() {
                state.buffer.marks.release(savepoint)?;
            }
        }
        put
    }
}

/// Puts the entries of a row; returns a conflict if the row itself has an entry twice.
fn put_all(entries: &[TemporaryEntry<'_>], follows: Absent) -> Result<Option<RowConflict>> {
    for (index, entry) in entries.iter().enumerate() {
        let TemporaryEntry { tree, key, value, unique } = *entry;
        let absent = if unique { Absent::Proven } else { follows };
        let put = tree.held.put(key, value, absent)?;
        if put == Written::Exists {
            let value = tree.get(key)?.unwrap_or_default();
            return Ok(Some(RowConflict { index, value }));
        }
    }
    Ok(None)
}
