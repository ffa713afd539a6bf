//! Rows of a tree outside transactions: each write is its own commit, each read sees the newest
//! commit.

use crate::{
    bytes::{bytes, frond_buffer, given, given_mut},
    error::{Fail, call, frond_error},
    store::frond_tree,
};

/// Reads the value of a key into `value`. FROND_NOT_FOUND if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_get(
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            let (tree, key) = (&given(tree, "the tree")?.tree, bytes(key, key_length, "the key")?);
            let value = given_mut(value, "the buffer")?;
            let key = value.apart(key);
            value.fill(|out| match tree.get_into(&key, out)? {
                true => Ok(()),
                false => Err(Fail::NotFound),
            })
        })
    }
}

/// Sets a value in a commit of its own, at the store's durability. Like a batch, it waits for
/// transactions that have locked the row, those of its own session included, for at most ten
/// seconds. Within a transaction, use frond_txn_put_autonomous to set the numbers of sequences.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_put(
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (tree, key) = (&given(tree, "the tree")?.tree, bytes(key, key_length, "the key")?);
            tree.put(key, bytes(value, value_length, "the value")?)?;
            Ok(())
        })
    }
}

/// Deletes a key, if it exists, at the store's durability.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_delete(
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            given(tree, "the tree")?.tree.delete(bytes(key, key_length, "the key")?)?;
            Ok(())
        })
    }
}
