//! Changes of the catalog: trees are created, cloned, renamed, changed and dropped, one by one or
//! several in one commit; and named snapshots.
//!
//! | file | what it does |
//! |---|---|
//! | `catalog_change/` | the commit to the catalog that all of them share |
//! | `one_tree.rs` | the calls for one tree |
//! | `change_trees.rs` | the call for several trees at once |
//! | `exclusive_lock.rs` | the lock under which a tree is removed |
//! | `named_snapshot.rs` | snapshots that have a name |
//! | `operators.rs` | which merge operators a tree needs |
//!
//! Threads: all; changes of the catalog are made one at a time.

// First, because the documentation shows the calls of a type in the order of modules.
pub(super) mod one_tree;

pub(super) mod catalog_change;
pub(super) mod change_trees;
mod exclusive_lock;
mod named_snapshot;
pub(super) mod operators;

pub(crate) use catalog_change::CatalogChange;
pub use change_trees::{ChangeStep, TreesChange, TreesChanged, WhichTree};
pub(super) use exclusive_lock::WritersThen;
pub(crate) use exclusive_lock::{ExclusiveTreeLock, ExclusiveWait};
pub use named_snapshot::SnapshotInfo;
