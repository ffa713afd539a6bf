//! Temporary trees: of one session, for as long as it lasts.

use frond::TemporaryTree;

use crate::{
    bytes::{bytes, frond_buffer, give, given, given_mut, take_back},
    cursor::{frond_cursor, range},
    error::{Fail, call, frond_error},
    store::{frond_db, frond_tree_options, tree_options},
    txn::frond_txn,
};

/// A temporary tree: its rows are written as part of a session's transactions, seen by nobody else, and gone with it. One
/// transaction at a time writes it; reads see what was last written.
pub struct frond_temporary {
    pub(crate) tree: TemporaryTree,
}

/// Makes a temporary tree, at once and without a name. `options` may be null.
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

/// Gives the tree back, with its rows. Its cursors come before it. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_free(tree: *mut frond_temporary) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(tree, "the tree").map(drop)) };
}

/// Sets a value, as part of a transaction, whose savepoints, statement and rollback take it back.
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

/// Sets the value of a key that must not exist: else FRD-1108.
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

/// The value of a key as last written, into `value`. FROND_NOT_FOUND if there is none.
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

/// Rows from `from` on and below `to` (null: from the first, to the last), as they are now, or were when the statement of the
/// transaction that writes the tree began.
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

/// Takes all rows out, unless a transaction has written the tree and not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_temporary_clear(
    tree: *const frond_temporary,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(tree, "the tree")?.tree.clear()?)) }
}
