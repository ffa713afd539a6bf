//! Rows of a tree outside transactions: each write is its own commit, each read sees the newest
//! commit.

use crate::{bytes::*, error::*, store::frond_tree};

/// Reads the value of a key into `value`. FROND_NOT_FOUND if there is no such key.
#[api]
fn frond_get(tree: &frond_tree, key: &[u8], value: &mut frond_buffer) -> Done {
    value.fill(|out| tree.0.get_into(key, out))
}

/// Sets a value in a commit of its own, at the store's durability. Like a batch, it waits for
/// transactions that have locked the row, those of its own session included, for at most ten
/// seconds. Within a transaction, use frond_txn_put_autonomous to set the numbers of sequences.
#[api]
fn frond_put(tree: &frond_tree, key: &[u8], value: &[u8]) -> Done {
    tree.0.put(key, value)?;
    Ok(())
}

/// Deletes a key, if it exists, at the store's durability.
#[api]
fn frond_delete(tree: &frond_tree, key: &[u8]) -> Done {
    tree.0.delete(key)?;
    Ok(())
}
