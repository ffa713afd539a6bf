//! How long a request may wait, and what is said of one that was not granted.
//!
//! Threads: none of its own.

use std::{fmt, time::Duration};

use super::{mode::Mode, shard::LockHash};
use crate::{Error, KeyStart, TreeId};

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
    /// There is no memory for more locks.
    Full,
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// What it was for.
    pub on: LockOn,
    /// The tree.
    pub tree: TreeId,
    /// 128 bits that stand for the key; of a tree as a whole, its own.
    pub key_hash: u128,
    /// The begin of the key, of a row; what is locked again after a restart is known by its hash alone.
    pub key: Option<KeyStart>,
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
    /// The row that is wanted, and in which mode, where that is not what is asked for: who has written it beyond memory
    /// is waited for as such (`spilled.rs`).
    pub row: Option<(LockHash, Mode)>,
}

impl Request {
    pub fn denied(&self, reason: Reason, holder: Option<u64>, key: Option<KeyStart>) -> Denied {
        let Self { on, tree, .. } = *self;
        Denied { reason, on, tree, key_hash: self.told().0.0, key, holder }
    }

    /// What people are told of it: what stands for the row, and the mode.
    pub fn told(&self) -> (LockHash, Mode) {
        self.row.unwrap_or((self.hash, self.mode))
    }
}

impl Denied {
    /// As an error of a call on the tree of this name.
    pub fn into_error(self, tree: &str) -> Error {
        let tree = tree.to_owned();
        let (what, holder, key) = (self.what(), self.held_by(), self.key);
        match self.reason {
            Reason::Busy => Error::LockBusy { tree, what, holder, key },
            Reason::Timeout => Error::LockTimeout { tree, what, holder, key },
            Reason::Deadlock => Error::Deadlock { tree, what, holder, key },
            Reason::Interrupted => Error::Interrupted,
            Reason::Full => Error::TooManyLocks { tree },
        }
    }

    fn what(&self) -> String {
        // Messages of errors hold no keys: the field does.
        Locked { on: self.on, key_hash: self.key_hash, key: None }.to_string()
    }

    fn held_by(&self) -> String {
        self.holder.map_or_else(|| "another transaction".into(), |id| format!("transaction {id}"))
    }
}

/// What is locked, in words; with the key's begin, if that may be told.
pub(super) struct Locked<'k> {
    pub on: LockOn,
    pub key_hash: u128,
    pub key: Option<&'k KeyStart>,
}

impl fmt::Display for Locked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.on {
            LockOn::Row => "the row",
            LockOn::Insert => "the gap",
            LockOn::Table => return write!(f, "the whole tree"),
        };
        match self.key {
            Some(key) => write!(f, "{what} of key {key}"),
            None => write!(f, "{what} of key hash {:032x}", self.key_hash),
        }
    }
}

/// A tree by its name, if that is known; else by its number.
pub(super) struct NamedTree<'n>(pub &'n str, pub TreeId);

impl fmt::Display for NamedTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => write!(f, "{}", self.1),
            name => write!(f, "\"{name}\""),
        }
    }
}
