//! Writes of a row with all its index entries in one call.

use frond::{RowChange, RowConflict, RowEntry};

use crate::{
    bytes::{bytes, frond_buffer, given, given_mut, list},
    error::{Fail, call, frond_error, misuse},
    store::frond_tree,
    txn::{frond_txn, lock},
};

/// One entry of a row: its own, or one in an index.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_entry {
    /// Where: the table's tree, or an index's.
    pub tree: *const frond_tree,
    /// Its key.
    pub key: *const u8,
    /// Bytes of it.
    pub key_length: usize,
    /// Its value; may be null if it has no bytes.
    pub value: *const u8,
    /// Bytes of it.
    pub value_length: usize,
    /// Nobody else may have the key.
    pub unique: bool,
    /// For frond_txn_insert_row: the program knows that the key is absent, and it is not looked for. It holds a number that only
    /// frond_tree_reserve gives out, say; a number that others may also insert of their own choice will not do, even if it was just
    /// reserved. If this is the row's own entry, its entries that are not unique count as absent, too. If the key does exist,
    /// a later deletion may bring the older value back, and rows are counted wrong.
    pub absent: bool,
}

/// How one entry of a row changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_change {
    /// The entry from now on. Not looked at but for its tree if the entry goes.
    pub entry: frond_entry,
    /// It had a key before; else the entry is new.
    pub has_old: bool,
    /// It has one from now on; else the entry goes.
    pub has_new: bool,
    /// The key that it had.
    pub old: *const u8,
    /// Bytes of it.
    pub old_length: usize,
}

/// What is in the way of a row: one of its unique entries is there already. That entry is locked, as the call was told to, and it
/// alone: of an index, not the row that it names. Who goes on with that row (ON DUPLICATE KEY UPDATE, REPLACE) reads the row by the key that
/// the entry holds with a lock of its own (frond_txn_read; `with_last`, if it may be given back with the entry), and looks whether
/// it still has that entry: it may have gone or changed before it was locked.
#[repr(C)]
pub struct frond_conflict {
    /// Which entry it is, from 0; -1 if nothing is in the way.
    pub index: i64,
    /// The value that is there: of an index, it says whose it is.
    pub value: frond_buffer,
}

/// Writes the conflict to the caller's struct.
pub(crate) fn tell(out: &mut frond_conflict, met: Option<RowConflict>) -> Result<(), Fail> {
    match met {
        None => out.index = -1,
        Some(RowConflict { index, value }) => {
            out.index = index as i64;
            out.value.copy(&value);
        }
    }
    Ok(())
}

/// Inserts a row, its own entry first: looks for all its unique entries in their order, and only then writes. `conflict->index` is -1 if it
/// is done; else it says which entry is there already, what it holds, and that one is locked by `row_lock`
/// (FROND_SHARED, FROND_EXCLUSIVE), and nothing is written. Begin with the fields of `conflict->value` 0.
///
/// If the row's own entry is a unique one, entries that are not unique are taken to be absent with it, without a look, as those are that hold the
/// row's key: a key that may be there already is to be put by itself (frond_txn_put). What was there all the same may come
/// back with the row's deletion, and rows are counted wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_insert_row(
    txn: *const frond_txn,
    entries: *const frond_entry,
    count: usize,
    row_lock: i32,
    conflict: *mut frond_conflict,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            let conflict = given_mut(conflict, "the place for a conflict")?;
            let lock = lock(row_lock)?.ok_or_else(|| misuse("say how a conflict is locked"))?;
            let mut row = Vec::with_capacity(count.min(64));
            for entry in list(entries, count, "the entries")? {
                row.push(RowEntry {
                    tree: &given(entry.tree, "an entry's tree")?.tree,
                    key: bytes(entry.key, entry.key_length, "an entry's key")?,
                    value: bytes(entry.value, entry.value_length, "an entry's value")?,
                    unique: entry.unique,
                    absent: entry.absent,
                });
            }
            tell(conflict, given(txn, "the transaction")?.txn.insert_row(&row, lock)?)
        })
    }
}

/// Changes a row: give the entries that change. As frond_txn_insert_row, where a unique one comes to another key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_update_row(
    txn: *const frond_txn,
    changes: *const frond_change,
    count: usize,
    row_lock: i32,
    conflict: *mut frond_conflict,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let conflict = given_mut(conflict, "the place for a conflict")?;
            let lock = lock(row_lock)?.ok_or_else(|| misuse("say how a conflict is locked"))?;
            let mut row = Vec::with_capacity(count.min(64));
            for change in list(changes, count, "the changes")? {
                let frond_change { entry, has_old, has_new, old, old_length } = *change;
                let old = match has_old {
                    true => Some(bytes(old, old_length, "an entry's old key")?),
                    false => None,
                };
                let new = match has_new {
                    true => Some((
                        bytes(entry.key, entry.key_length, "an entry's key")?,
                        bytes(entry.value, entry.value_length, "an entry's value")?,
                    )),
                    false => None,
                };
                let tree = &given(entry.tree, "an entry's tree")?.tree;
                row.push(RowChange { tree, old, new, unique: entry.unique });
            }
            tell(conflict, given(txn, "the transaction")?.txn.update_row(&row, lock)?)
        })
    }
}

/// Deletes all entries of a row, by tree and key; their values are not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_delete_row(
    txn: *const frond_txn,
    entries: *const frond_entry,
    count: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let mut row = Vec::with_capacity(count.min(64));
            for entry in list(entries, count, "the entries")? {
                let key = bytes(entry.key, entry.key_length, "an entry's key")?;
                row.push((&given(entry.tree, "an entry's tree")?.tree, key));
            }
            Ok(given(txn, "the transaction")?.txn.delete_row(&row)?)
        })
    }
}

/// Gives back what the last locking read took, if it was new: for what is not wanted. That is the row, or the row that a cursor gave
/// last, with the entry that named it (`with_last` of frond_read_options), or all rows of frond_txn_read_many. Gaps that a cursor has
/// locked stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_unlock_last(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.unlock_last()?)) }
}
