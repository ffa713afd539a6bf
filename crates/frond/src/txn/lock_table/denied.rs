//! How long a request may wait, and what is said of one that was not granted.
//!
//! Threads: none of its own.

use std::{fmt, time::Duration};

use super::{mode::Mode, shard::LockHash};
use crate::{Error, TreeId};

/// How long a request may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Not at all. Whether a row that is busy is an error or passed by is the caller's to say.
    NoWait,
    /// So long, with the other waits of the same call: see [`LockSet::begin_call`](super::LockSet::begin_call).
    For(Duration),
    /// Until it is granted, or ended by a deadlock or an interrupt.
    Forever,
}

/// Why a request was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Somebody stands against it, and it was not to wait.
    Busy,
    /// It waited as long as it was to.
    Timeout,
    /// It was on a cycle of waits, and chosen to be ended: the transaction must be rolled back.
    Deadlock,
    /// Its owner was interrupted.
    Interrupted,
}

/// What a request was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockOn {
    /// A row.
    Row,
    /// To insert a row where others have locked the gap.
    Insert,
    /// A tree as a whole.
    Table,
}

/// A request that was not granted. The transaction holds what it held before; of an insert see
/// [`LockTable::before_insert`](super::LockTable::before_insert).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// What it was for.
    pub on: LockOn,
    /// The tree.
    pub tree: TreeId,
    /// 128 bits that stand for the key; of a tree as a whole, its own.
    pub key_hash: u128,
    /// The id of a transaction that stood against it, if it was still there when it was asked for.
    pub holder: Option<u64>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub on: LockOn,
    pub tree: TreeId,
    pub hash: LockHash,
    pub mode: Mode,
    /// The row will be changed.
    pub writes: bool,
}

impl Request {
    pub fn denied(&self, reason: Reason, holder: Option<u64>) -> Denied {
        Denied { reason, on: self.on, tree: self.tree, key_hash: self.hash.0, holder }
    }
}

impl Denied {
    /// As an error of a call on the tree of this name.
    pub fn into_error(self, tree: &str) -> Error {
        let tree = tree.to_owned();
        let (what, holder) = (self.what(), self.held_by());
        match self.reason {
            Reason::Busy => Error::LockBusy { tree, what, holder },
            Reason::Timeout => Error::LockTimeout { tree, what, holder },
            Reason::Deadlock => Error::Deadlock { tree, what, holder },
            Reason::Interrupted => Error::Interrupted,
        }
    }

    fn what(&self) -> String {
        Locked { on: self.on, key_hash: self.key_hash }.to_string()
    }

    fn held_by(&self) -> String {
        self.holder.map_or_else(|| "another transaction".into(), |id| format!("transaction {id}"))
    }
}

/// What is locked, in words; never the key itself.
pub(super) struct Locked {
    pub on: LockOn,
    pub key_hash: u128,
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.on {
            LockOn::Row => write!(f, "the row of key hash {:032x}", self.key_hash),
            LockOn::Insert => write!(f, "the gap of key hash {:032x}", self.key_hash),
            LockOn::Table => write!(f, "the whole tree"),
        }
    }
}
