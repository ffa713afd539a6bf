//! How long a request may wait, and the description of one that was not granted.
//!
//! Threads: none of its own.

use std::{fmt, time::Duration};

use super::{mode::Mode, owner::Holder, shard::LockHash};
use crate::{
    Error, TreeId,
    error::{LockHolder, WHOLE_TREE},
    types::KeyStart,
};

/// How long a request may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitPolicy {
    /// Do not wait. The caller decides whether a busy row is an error or is skipped.
    NoWait,
    /// Wait for this long, together with the other waits of the same call: see
    /// [`LockSet::begin_call`](super::LockSet::begin_call).
    For(Duration),
    /// Wait until it is granted, or ended by a deadlock, an interrupt or the store's close.
    Forever,
}

/// Why a request was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// There is a conflict, and the request must not wait.
    Busy,
    /// The wait reached its timeout.
    Timeout,
    /// The transaction was chosen as the victim of a deadlock, and must be rolled back.
    Deadlock,
    /// The owner was interrupted.
    Interrupted,
    /// The store was closed.
    Closed,
    /// There is no memory for more locks.
    Full,
}

/// The object of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockOn {
    /// A row.
    Row,
    /// An insert of a row whose gap others have locked.
    Insert,
    /// A tree as a whole.
    Table,
}

/// A request that was not granted. The transaction holds what it held before; for an insert see
/// [`LockTable::before_insert`](super::LockTable::before_insert).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockError {
    /// The reason.
    pub reason: Reason,
    /// What was requested.
    pub on: LockOn,
    /// The tree.
    pub tree: TreeId,
    /// 128-bit hash of the key; for a tree as a whole, that of the tree.
    pub key_hash: u128,
    /// The start of a row's key; locks that are restored after a restart are known only by their
    /// hash.
    pub key: Option<KeyStart>,
    /// A conflicting transaction, if it still existed when it was looked up.
    pub holder: Option<Holder>,
}

/// The parameters of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub on: LockOn,
    pub tree: TreeId,
    pub hash: LockHash,
    pub mode: Mode,
    /// The row will be changed.
    pub writes: bool,
    /// The wanted row and mode, if they differ from what is requested: a row that another
    /// transaction has spilled is waited for by that transaction's own lock
    /// (`spilled.rs`).
    pub row: Option<(LockHash, Mode)>,
}

impl Request {
    pub fn denied(
        &self,
        reason: Reason,
        holder: Option<Holder>,
        key: Option<KeyStart>,
    ) -> LockError {
        let Self { on, tree, .. } = *self;
        LockError { reason, on, tree, key_hash: self.wanted().0.0, key, holder }
    }

    /// What reports show: the hash of the row, and the mode.
    pub fn wanted(&self) -> (LockHash, Mode) {
        self.row.unwrap_or((self.hash, self.mode))
    }
}

impl LockError {
    /// Converts it to the error of a call on the tree with this name.
    pub fn into_error(self, tree: &str) -> Error {
        let tree = tree.to_owned();
        let (what, holder, key) = (self.what(), self.held_by(), self.key);
        match self.reason {
            Reason::Busy => Error::LockBusy { tree, what, holder, key },
            Reason::Timeout => Error::LockTimeout { tree, what, holder, key },
            Reason::Deadlock => Error::Deadlock { tree, what, holder, key },
            Reason::Interrupted => Error::Interrupted,
            Reason::Closed => Error::Closed,
            Reason::Full => Error::TooManyLocks { tree },
        }
    }

    fn what(&self) -> String {
        // Error messages contain no keys; the field does.
        Locked::of(self.on, self.key_hash, None)
    }

    fn held_by(&self) -> LockHolder {
        match self.holder {
            None => LockHolder::Other("another transaction"),
            Some(Holder { id, is_prepared: true, .. }) => LockHolder::Prepared { id },
            Some(Holder { id, is_of_this_thread, .. }) => {
                LockHolder::Transaction { id, began_on_this_thread: is_of_this_thread }
            }
        }
    }
}

/// Describes a locked object in words, with the start of its key if that may be shown.
pub(super) struct Locked<'k> {
    pub on: LockOn,
    pub key_hash: u128,
    pub key: Option<&'k KeyStart>,
    pub tree: NamedTree<'k>,
}

impl Locked<'_> {
    /// The object without its tree.
    fn of(on: LockOn, key_hash: u128, key: Option<&KeyStart>) -> String {
        let what = match on {
            LockOn::Row => "the row",
            LockOn::Insert => "the gap",
            LockOn::Table => return WHOLE_TREE.into(),
        };
        match key {
            Some(key) => format!("{what} of key {key}"),
            None => format!("{what} of key hash {key_hash:032x}"),
        }
    }
}

impl fmt::Display for Locked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on, key_hash, key, ref tree } = *self;
        match on {
            LockOn::Table => write!(f, "{WHOLE_TREE} {tree}"),
            _ => write!(f, "{} of tree {tree}", Self::of(on, key_hash, key)),
        }
    }
}

/// A tree by its name, if known; otherwise by its number.
pub(super) struct NamedTree<'n>(pub &'n str, pub TreeId);

impl fmt::Display for NamedTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => write!(f, "{}", self.1),
            name => write!(f, "\"{name}\""),
        }
    }
}
