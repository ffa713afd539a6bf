//! Temporary trees, each of one session, which exist until they are released.

use frond::{TemporaryEntry, TemporaryTree};

use crate::{
    bytes::{bytes, frond_buffer, give, given, given_mut, list, take_back},
    cursor::{frond_cursor, range},
    error::{Fail, call, frond_error},
    row::{frond_conflict, tell},
    snapshot::{frond_bytes, many},
    store::{frond_db, frond_tree_options, tree_options},
    txn::frond_txn,
};

/// A temporary tree. Its rows are written as part of a session's transactions, are invisible to
/// others, and are removed with the tree. One transaction at a time writes to it; reads see what
/// was written last.
pub struct frond_temporary {
    pub(crate) tree: TemporaryTree,
}

/// Creates a temporary tree, at once and without a name. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_create(
    db: *const frond_db,
    options: *const frond_tree_options,
    tree: *mut *mut frond_temporary,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let db = &given(db, "the store")?.db;
                Ok(frond_temporary { tree: db.create_temporary(tree_options(options)?)? })
            })
        })
    }
}

/// Releases a temporary tree. Its rows are removed with it, or with the last of its cursors. Null
/// is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_free(tree: *mut frond_temporary) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(tree, "the tree").map(drop)) };
}

/// Sets a value as part of a transaction, whose savepoints, statement and rollback undo it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_put(
    txn: *const frond_txn,
    tree: *const frond_temporary,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(tree.tree.put(&txn.txn, key, value)?)
        })
    }
}

/// Sets the value of a key that must not exist; FRD-1108 if it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_insert(
    txn: *const frond_txn,
    tree: *const frond_temporary,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(tree.tree.insert(&txn.txn, key, value)?)
        })
    }
}

/// Deletes a key, if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_delete(
    txn: *const frond_txn,
    tree: *const frond_temporary,
    key: *const u8,
    key_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            Ok(tree.tree.delete(&txn.txn, bytes(key, key_length, "the key")?)?)
        })
    }
}

/// Reads the value of a key, as written last, into `value`. FROND_NOT_FOUND if there is no such
/// key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_get(
    tree: *const frond_temporary,
    key: *const u8,
    key_length: usize,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (tree, value) = (&given(tree, "the tree")?.tree, given_mut(value, "the buffer")?);
            let found = tree.get(bytes(key, key_length, "the key")?)?;
            value.copy(&found.ok_or(Fail::NotFound)?);
            Ok(())
        })
    }
}

/// Opens a cursor over the rows from `from` up to, but not including, `to`: as they are now or,
/// within a statement of the transaction that writes the tree, as they were when the statement
/// started. A null bound means from the first key, or to the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_scan(
    tree: *const frond_temporary,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    cursor: *mut *mut frond_cursor,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(cursor, || {
                let range = range((from, from_length), (to, to_length))?;
                frond_cursor::of_temporary(given(tree, "the tree")?.tree.clone(), range)
            })
        })
    }
}

/// Removes all rows, unless a transaction that has written to the tree has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_clear(
    tree: *const frond_temporary,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(tree, "the tree")?.tree.clear()?)) }
}

/// One entry of a row of temporary trees: the row's own entry, or one in an index.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_temporary_entry {
    /// The table's tree, or an index's.
    pub tree: *const frond_temporary,
    /// Key of the entry.
    pub key: *const u8,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// Value of the entry; may be null if it is empty.
    pub value: *const u8,
    /// Length of the value in bytes.
    pub value_length: usize,
    /// Whether the key must not exist.
    pub unique: bool,
}

/// Inserts a row, its own entry first: all its entries, or none. Like frond_txn_insert_row, but
/// locks nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_insert_row(
    txn: *const frond_txn,
    entries: *const frond_temporary_entry,
    count: usize,
    conflict: *mut frond_conflict,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let conflict = given_mut(conflict, "the place for a conflict")?;
            let mut row = Vec::with_capacity(count.min(64));
            for entry in list(entries, count, "the entries")? {
                row.push(TemporaryEntry {
                    tree: &given(entry.tree, "an entry's tree")?.tree,
                    key: bytes(entry.key, entry.key_length, "an entry's key")?,
                    value: bytes(entry.value, entry.value_length, "an entry's value")?,
                    unique: entry.unique,
                });
            }
            tell(conflict, given(txn, "the transaction")?.txn.insert_temporary_row(&row)?)
        })
    }
}

/// Reads the values of many keys, as written last, like frond_txn_get_many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_get_many(
    tree: *const frond_temporary,
    keys: *const frond_bytes,
    count: usize,
    memory: *mut frond_buffer,
    values: *mut frond_bytes,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            many(keys, count, memory, values, |keys| tree.get_many(keys))
        })
    }
}

/// Takes `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
/// `least`, and is returned in `first`. No rollback returns the numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_reserve(
    tree: *const frond_temporary,
    counter: u32,
    least: u64,
    count: u64,
    first: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (tree, first) =
                (&given(tree, "the tree")?.tree, given_mut(first, "the place for the number")?);
            *first = tree.reserve(counter as usize, least, count)?.start;
            Ok(())
        })
    }
}

/// Returns the next number of a counter, without taking it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_next_number(
    tree: *const frond_temporary,
    counter: u32,
    next: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            *given_mut(next, "the place for the number")? = tree.next_number(counter as usize)?;
            Ok(())
        })
    }
}

/// Returns the number of rows. `exact`, which may be null, tells whether they were counted. If not,
/// something was put or deleted without knowing whether it existed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_row_count(
    tree: *const frond_temporary,
    rows: *mut u64,
    exact: *mut bool,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            let (place, count) = (given_mut(rows, "the place for the number")?, tree.row_count()?);
            *place = count.rows;
            exact.as_mut().into_iter().for_each(|exact| *exact = count.exact);
            Ok(())
        })
    }
}

/// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
/// they take; 0 rows only if there are none. A null bound means from the first key, or to the last.
/// `data_bytes` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_estimate(
    tree: *const frond_temporary,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    rows: *mut u64,
    data_bytes: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            let place = given_mut(rows, "the place for the number")?;
            let estimate = tree.estimate(range((from, from_length), (to, to_length))?)?;
            *place = estimate.rows;
            data_bytes.as_mut().into_iter().for_each(|bytes| *bytes = estimate.bytes);
            Ok(())
        })
    }
}
