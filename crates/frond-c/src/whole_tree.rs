//! Locks on whole trees.

use frond::lock::TreeLock;

use crate::{bytes::*, error::*, store::frond_tree, txn::*};

/// The transaction will lock rows of the tree shared; every locking read takes this lock by itself.
/// Conflicts with FROND_TREE_EXCLUSIVE.
pub const FROND_TREE_INTENT_SHARED: i32 = 1;
/// The transaction will lock rows of the tree exclusively, or write them; every write takes this
/// lock by itself. Conflicts also with FROND_TREE_SHARED.
pub const FROND_TREE_INTENT_EXCLUSIVE: i32 = 2;
/// No other transaction can write to the tree.
pub const FROND_TREE_SHARED: i32 = 3;
/// No other transaction can write to the tree, or read it under locks.
pub const FROND_TREE_EXCLUSIVE: i32 = 4;

/// FROND_TREE_SHARED and FROND_TREE_INTENT_EXCLUSIVE together: reported for a transaction that has
/// requested both; it cannot be requested by itself.
pub const FROND_TREE_SHARED_INTENT_EXCLUSIVE: i32 = 5;

/// Locks a whole tree until the transaction ends. Rolling back a statement or to a savepoint does
/// not release the lock, and a prepared transaction keeps it. `mode` is FROND_TREE_SHARED, ….
/// `when_locked` is FROND_WAIT, or FROND_NO_WAIT for FRD-1105 if another transaction holds a
/// conflicting lock. Plain reads are not affected.
#[api]
fn frond_txn_lock_tree(txn: &frond_txn, tree: &frond_tree, mode: i32, when_locked: i32) -> Done {
    let lock = match mode {
        FROND_TREE_INTENT_SHARED => TreeLock::IntentShared,
        FROND_TREE_INTENT_EXCLUSIVE => TreeLock::IntentExclusive,
        FROND_TREE_SHARED => TreeLock::Shared,
        FROND_TREE_EXCLUSIVE => TreeLock::Exclusive,
        other => return Err(misuse(format!("unknown tree lock {other}"))),
    };
    Ok(txn.txn.lock_tree(&tree.0, lock, if_locked(when_locked)?)?)
}
