//! Locks on whole trees.

use frond::TreeLock;

use crate::{
    bytes::given,
    error::{call, frond_error, misuse},
    store::frond_tree,
    txn::{frond_txn, if_locked},
};

/// Rows of the tree will be locked shared: what every locking read says by itself. Against FROND_TREE_EXCLUSIVE.
pub const FROND_TREE_INTENT_SHARED: i32 = 1;
/// Rows of it will be locked exclusively, or written: what every write says by itself. Against FROND_TREE_SHARED, too.
pub const FROND_TREE_INTENT_EXCLUSIVE: i32 = 2;
/// Nobody else writes it.
pub const FROND_TREE_SHARED: i32 = 3;
/// Nobody else writes it, nor reads it under locks.
pub const FROND_TREE_EXCLUSIVE: i32 = 4;

/// FROND_TREE_SHARED and FROND_TREE_INTENT_EXCLUSIVE at once: told of who has asked for both, never asked for.
pub const FROND_TREE_SHARED_INTENT_EXCLUSIVE: i32 = 5;

/// Locks a tree as a whole until the transaction ends, whatever of it is taken back; one that is prepared keeps it. `mode` is
/// FROND_TREE_SHARED, …; `when_locked` FROND_WAIT, or FROND_FAIL for FRD-1105 if another stands against it. Plain reads go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_lock_tree(
    txn: *const frond_txn,
    tree: *const frond_tree,
    mode: i32,
    when_locked: i32,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let lock = match mode {
                FROND_TREE_INTENT_SHARED => TreeLock::IntentShared,
                FROND_TREE_INTENT_EXCLUSIVE => TreeLock::IntentExclusive,
                FROND_TREE_SHARED => TreeLock::Shared,
                FROND_TREE_EXCLUSIVE => TreeLock::Exclusive,
                other => return Err(misuse(format!("there is no lock {other} on trees"))),
            };
            Ok(txn.txn.lock_tree(&tree.tree, lock, if_locked(when_locked)?)?)
        })
    }
}
