//! Writes of a row with all its index entries in one call.

use std::ffi::c_void;

use frond::{
    RowLock, Tree,
    transaction::{RowChange, RowConflict, RowEntry},
};

use crate::{bytes::*, error::*, store::frond_tree, txn::*};

/// One entry of a row: the row's own entry, or one in an index.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_entry {
    /// The table's tree, or an index's.
    pub tree: *const frond_tree,
    /// Key of the entry.
    pub key: *const c_void,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// Value of the entry; may be null if it is empty.
    pub value: *const c_void,
    /// Length of the value in bytes.
    pub value_length: usize,
    /// Whether no other row may have the key.
    pub unique: bool,
    /// Whether the program knows that the key is absent, so that frond_txn_insert_row does not look
    /// it up: for example, if it contains a number that only frond_tree_reserve gives out. A number
    /// that others may also choose themselves does not qualify, even if it was just reserved. If
    /// this is the row's own entry, the row's entries that are not unique count as absent, too. If
    /// the key does exist, a later delete may bring the older value back, and the row count is
    /// wrong.
    pub absent: bool,
}

impl frond_entry {
    fn tree(&self) -> Done<&Tree> {
        // SAFETY: see `bytes.rs`, here and below.
        Ok(&unsafe { given(self.tree, "tree of an entry") }?.0)
    }

    fn key(&self) -> Done<&[u8]> {
        // SAFETY: as above.
        unsafe { list(self.key.cast::<u8>(), self.key_length, "key of an entry") }
    }

    fn value(&self) -> Done<&[u8]> {
        // SAFETY: as above.
        unsafe { list(self.value.cast::<u8>(), self.value_length, "value of an entry") }
    }
}

/// The change of one entry of a row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_change {
    /// The new entry. If the entry is removed, only its tree is used.
    pub entry: frond_entry,
    /// Whether the entry existed before; otherwise it is new.
    pub has_old: bool,
    /// Whether the entry exists from now on; otherwise it is removed.
    pub has_new: bool,
    /// The key that the entry had.
    pub old: *const c_void,
    /// Length of `old` in bytes.
    pub old_length: usize,
}

/// A conflict of a row: one of its unique entries already exists. That entry is locked as the call
/// requested. Nothing else is locked; in particular, not the row that an existing index entry
/// names.
///
/// To continue with that row (ON DUPLICATE KEY UPDATE, REPLACE), read and lock it by the key that
/// the entry holds (frond_txn_read; set `with_last` if both locks may be released together). Then
/// check that the row still has the entry: it may have been deleted or changed before it was
/// locked.
#[repr(C)]
pub struct frond_conflict {
    /// Index of the entry, from 0; -1 if there is no conflict.
    pub index: i64,
    /// The value of the existing entry; in an index, it identifies the row that has the entry.
    pub value: frond_buffer,
}

/// Writes the conflict to the caller's struct.
pub(crate) fn return_conflict(out: &mut frond_conflict, met: Option<RowConflict>) -> Done {
    match met {
        None => out.index = -1,
        Some(RowConflict { index, value }) => {
            out.index = index as i64;
            out.value.copy(&value);
        }
    }
    Ok(())
}

/// The lock that a call takes on a conflicting entry.
fn lock_of_conflict(row_lock: i32) -> Done<RowLock> {
    lock(row_lock)?.ok_or_else(|| misuse("the lock for conflicting rows is missing"))
}

/// Inserts a row. First looks up all its unique entries, in their order, and only then writes. Pass
/// the row's own entry first. `conflict->index` is -1 on success. Otherwise it is the index of the
/// entry that already exists, and `conflict->value` is the value of that entry; it is locked with
/// `row_lock` (FROND_SHARED, FROND_EXCLUSIVE), and nothing is written. Initialise the fields of
/// `conflict->value` to 0.
///
/// If the row's own entry is unique and does not exist yet, its entries that are not unique are
/// assumed not to exist either, and are not looked up, because they contain the row's key. If the
/// key of an entry may already exist, write that entry separately (frond_txn_put): otherwise its
/// older value may come back when the row is deleted, and the row count is wrong.
#[api]
fn frond_txn_insert_row(
    txn: &frond_txn,
    entries: &[frond_entry],
    row_lock: i32,
    conflict: &mut frond_conflict,
) -> Done {
    let lock = lock_of_conflict(row_lock)?;
    let mut row = Vec::with_capacity(entries.len().min(64));
    for entry in entries {
        let (tree, key, value) = (entry.tree()?, entry.key()?, entry.value()?);
        row.push(RowEntry { tree, key, value, unique: entry.unique, absent: entry.absent });
    }
    return_conflict(conflict, txn.txn.row_writer().insert(&row, lock)?)
}

/// Changes a row. Pass only the entries that change. If a unique entry moves to a key that exists
/// already, the call reports a conflict and writes nothing, as frond_txn_insert_row does.
#[api]
fn frond_txn_update_row(
    txn: &frond_txn,
    changes: &[frond_change],
    row_lock: i32,
    conflict: &mut frond_conflict,
) -> Done {
    let lock = lock_of_conflict(row_lock)?;
    let mut row = Vec::with_capacity(changes.len().min(64));
    for frond_change { entry, has_old, has_new, old, old_length } in changes {
        let old = old.cast::<u8>();
        // SAFETY: see `bytes.rs`.
        let old = has_old.then(|| unsafe { list(old, *old_length, "old key of an entry") });
        let new = if *has_new { Some((entry.key()?, entry.value()?)) } else { None };
        let (tree, old) = (entry.tree()?, old.transpose()?);
        row.push(RowChange { tree, old, new, unique: entry.unique });
    }
    return_conflict(conflict, txn.txn.row_writer().update(&row, lock)?)
}

/// Deletes all entries of a row, given by tree and key; values are ignored.
#[api]
fn frond_txn_delete_row(txn: &frond_txn, entries: &[frond_entry]) -> Done {
    let mut row = Vec::with_capacity(entries.len().min(64));
    for entry in entries {
        row.push((entry.tree()?, entry.key()?));
    }
    Ok(txn.txn.row_writer().delete(&row)?)
}

/// Releases the locks that the last locking read newly acquired. Meant for a row that turns out not
/// to be wanted. Releases the lock on that row (for a cursor, the row that it returned last), and
/// that on the index entry that named it (`with_last` of frond_read_options); after
/// frond_txn_read_many, the locks on all its rows. Gaps that a cursor has locked stay locked.
#[api]
fn frond_txn_unlock_last(txn: &frond_txn) -> Done {
    Ok(txn.txn.control().unlock_last()?)
}
