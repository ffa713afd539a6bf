//! Temporary trees, each of one session, which exist until they are released.

use std::ffi::c_void;

use frond::{TemporaryTree, transaction::TemporaryEntry};

use crate::{
    bytes::*,
    counts::{return_count, return_estimate},
    cursor::frond_cursor,
    error::*,
    projection::frond_projection,
    row::*,
    snapshot::*,
    store::*,
    txn::frond_txn,
};

/// A temporary tree. Its rows are written as part of a session's transactions, are invisible to
/// others, and are removed with the tree. One transaction at a time writes to it; reads see what
/// was written last.
pub struct frond_temporary(pub(crate) TemporaryTree);

/// Creates a temporary tree, which has no name. It exists at once, and no rollback removes it.
/// `options` may be null.
#[api]
fn frond_temporary_create(
    db: &frond_db,
    options: Option<&frond_tree_options>,
    tree: New<frond_temporary>,
) -> Done {
    tree.give(frond_temporary(db.0.create_temporary(tree_options(options)?)?))
}

/// Releases a temporary tree. Its rows are removed with it, or with the last of its cursors. Null
/// is allowed.
#[api]
fn frond_temporary_free(tree: Option<Box<frond_temporary>>) {}

/// Sets a value as part of a transaction: rolling back the transaction, its statement, or to a
/// savepoint undoes it.
#[api]
fn frond_temporary_put(txn: &frond_txn, tree: &frond_temporary, key: &[u8], value: &[u8]) -> Done {
    Ok(tree.0.put(&txn.txn, key, value)?)
}

/// Sets the value of a key that must not exist; FRD-1108 if it does.
#[api]
fn frond_temporary_insert(
    txn: &frond_txn,
    tree: &frond_temporary,
    key: &[u8],
    value: &[u8],
) -> Done {
    Ok(tree.0.insert(&txn.txn, key, value)?)
}

/// Sets the value of a key that the program knows to be absent; nothing is checked. The row count
/// stays exact.
#[api]
fn frond_temporary_put_absent(
    txn: &frond_txn,
    tree: &frond_temporary,
    key: &[u8],
    value: &[u8],
) -> Done {
    Ok(tree.0.put_absent(&txn.txn, key, value)?)
}

/// Folds an operand into a value without reading it, like frond_txn_merge.
#[api]
fn frond_temporary_merge(
    txn: &frond_txn,
    tree: &frond_temporary,
    key: &[u8],
    operation: u8,
    operand: &[u8],
) -> Done {
    Ok(tree.0.merge(&txn.txn, key, operation, operand)?)
}

/// Deletes all rows from `from` up to, but not including, `to`. Within a statement, only rows
/// written before it are deleted. A null bound means from the first key, or to the last. `rows`,
/// which may be null, receives the number of rows. If the call fails, no row was deleted.
#[api]
fn frond_temporary_delete_range(
    txn: &frond_txn,
    tree: &frond_temporary,
    range: Keys,
    rows: Option<&mut u64>,
) -> Done {
    set(rows, tree.0.delete_range(&txn.txn, range)?)
}

/// Deletes a key, if it exists.
#[api]
fn frond_temporary_delete(txn: &frond_txn, tree: &frond_temporary, key: &[u8]) -> Done {
    Ok(tree.0.delete(&txn.txn, key)?)
}

/// Reads the value of a key, as written last, into `value`. FROND_NOT_FOUND if there is no such
/// key.
#[api]
fn frond_temporary_get(tree: &frond_temporary, key: &[u8], value: &mut frond_buffer) -> Done {
    value.fill(|out| tree.0.get_into(key, out))
}

/// Selects parts of the tree's values, like frond_projection_new.
#[api]
fn frond_temporary_projection_new(
    tree: &frond_temporary,
    numbers: &[usize],
    projection: New<frond_projection>,
) -> Done {
    projection.give(frond_projection(tree.0.projection(numbers)?))
}

/// Reads parts of a value, like frond_get_projected.
#[api]
fn frond_temporary_get_projected(
    tree: &frond_temporary,
    key: &[u8],
    projection: &frond_projection,
    value: &mut frond_buffer,
) -> Done {
    value.fill(|out| tree.0.get_projected(key, &projection.0, out))
}

/// Reads a byte range of a value, like frond_snapshot_get_at.
#[api]
fn frond_temporary_get_at(
    tree: &frond_temporary,
    key: &[u8],
    from: usize,
    #[length(length)] out: &mut [u8],
    count: &mut usize,
) -> Done {
    let found = tree.0.get_at(key, from, out)?;
    set(count, found.ok_or(Fail::NotFound)?)
}

/// Opens a cursor over the rows from `from` up to, but not including, `to`: as they are now or,
/// within a statement of the transaction that writes the tree, as they were when the statement
/// started. A null bound means from the first key, or to the last.
#[api]
fn frond_temporary_scan(tree: &frond_temporary, range: Keys, cursor: New<frond_cursor>) -> Done {
    cursor.give(frond_cursor::of_temporary(tree.0.clone(), range)?)
}

/// Removes all rows. FRD-1001 if a transaction that has written to the tree has not ended.
#[api]
fn frond_temporary_clear(tree: &frond_temporary) -> Done {
    Ok(tree.0.clear()?)
}

/// One entry of a row of temporary trees: the row's own entry, or one in an index.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_temporary_entry {
    /// The table's tree, or an index's.
    pub tree: *const frond_temporary,
    /// Key of the entry.
    pub key: *const c_void,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// Value of the entry; may be null if it is empty.
    pub value: *const c_void,
    /// Length of the value in bytes.
    pub value_length: usize,
    /// Whether the key must not exist.
    pub unique: bool,
}

/// Inserts a row, its own entry first: all its entries, or none. Like frond_txn_insert_row, but
/// locks nothing.
#[api]
fn frond_temporary_insert_row(
    txn: &frond_txn,
    entries: &[frond_temporary_entry],
    conflict: &mut frond_conflict,
) -> Done {
    let mut row = Vec::with_capacity(entries.len().min(64));
    for entry in entries {
        // SAFETY: see `bytes.rs`.
        row.push(unsafe {
            TemporaryEntry {
                tree: &given(entry.tree, "tree of an entry")?.0,
                key: list(entry.key.cast::<u8>(), entry.key_length, "key of an entry")?,
                value: list(entry.value.cast::<u8>(), entry.value_length, "value of an entry")?,
                unique: entry.unique,
            }
        });
    }
    return_conflict(conflict, txn.txn.row_writer().insert_temporary(&row)?)
}

/// Reads the values of many keys, as written last, like frond_txn_get_many.
#[api]
fn frond_temporary_get_many(
    tree: &frond_temporary,
    keys: &[frond_bytes],
    memory: Option<&mut frond_buffer>,
    values: &mut [Place<frond_bytes>],
) -> Done {
    many(keys, memory, values, |keys| tree.0.get_many(keys))
}

/// Reserves `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
/// `least`, and is returned in `first`. A rollback does not release the numbers.
#[api]
fn frond_temporary_reserve(
    tree: &frond_temporary,
    counter: u32,
    least: u64,
    count: u64,
    first: &mut u64,
) -> Done {
    set(first, tree.0.reserve(counter as usize, least, count)?.start)
}

/// Returns the next number of a counter, without reserving it.
#[api]
fn frond_temporary_next_number(tree: &frond_temporary, counter: u32, next: &mut u64) -> Done {
    set(next, tree.0.next_number(counter as usize)?)
}

/// Returns the number of rows. `exact`, which may be null, receives whether they were counted. If
/// not, the number is an estimate, because something was put or deleted without knowing whether it
/// existed.
#[api]
fn frond_temporary_row_count(
    tree: &frond_temporary,
    rows: &mut u64,
    exact: Option<&mut bool>,
) -> Done {
    return_count(tree.0.row_count()?, rows, exact)
}

/// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
/// they take. Returns 0 rows only if there are none. A null bound means from the first key, or to
/// the last. `data_bytes` may be null.
#[api]
fn frond_temporary_estimate(
    tree: &frond_temporary,
    range: Keys,
    rows: &mut u64,
    data_bytes: Option<&mut u64>,
) -> Done {
    return_estimate(tree.0.estimate(range)?, rows, data_bytes)
}

/// Counts the rows from `from` up to, but not including, `to` that a scan would find. A null bound
/// means from the first key, or to the last.
#[api]
fn frond_temporary_count(tree: &frond_temporary, range: Keys, rows: &mut u64) -> Done {
    set(rows, tree.0.count(range)?)
}
