//! Transaction options.

use std::time::Duration;

use super::{State, Txn};
use crate::{
    Durability,
    db::commit::LOCK_WAIT,
    txn::lock_table::{RowMode, WaitPolicy},
};

/// Isolation level: what a transaction sees of others, and when two conflict.
///
/// At every level writes are locked until the transaction ends, uncommitted writes are invisible to
/// others, and a locking read ([`Txn::get_for_update`](super::Txn::get_for_update)) sees the newest
/// commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Each call sees what was committed when it started. If the program marks the start of its
    /// statements ([`Txn::statement`](super::Txn::statement)), all plain reads of a
    /// statement see what was committed when the first of them started.
    ReadCommitted,
    /// Plain reads see what was committed when the first of them started; writes and locking reads
    /// use the newest commit, as in InnoDB. Writing back a value that was read may overwrite what
    /// another transaction has committed meanwhile (lost update).
    RepeatableRead,
    /// All reads see what was committed when the first of them started, and of two transactions
    /// that write one row the second fails with [`Error::Conflict`](crate::Error::Conflict). A
    /// transaction that has not read yet cannot be in conflict.
    #[default]
    Snapshot,
    /// As `RepeatableRead`, but every plain read is a locking read: rows are locked shared, and
    /// scanned ranges cannot change. The effect of concurrent transactions is that of some serial
    /// order.
    Serializable,
}

impl Isolation {
    /// True if locking scans prevent others from inserting into the ranges that they have passed.
    pub(super) fn locks_gaps(self) -> bool {
        matches!(self, Self::RepeatableRead | Self::Serializable)
    }
}

/// The lock mode of a locking read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLock {
    /// Excludes writers; several transactions may hold it.
    Shared,
    /// Excludes everything but plain reads.
    Exclusive,
}

impl From<RowLock> for RowMode {
    fn from(lock: RowLock) -> Self {
        match lock {
            RowLock::Shared => Self::Shared,
            RowLock::Exclusive => Self::Exclusive,
        }
    }
}

/// What a locking read does if another transaction holds the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IfLocked {
    /// Waits, as long as the transaction's `lock_timeout` allows.
    #[default]
    Wait,
    /// NOWAIT: fails with [`Error::LockBusy`](crate::Error::LockBusy) at once.
    NoWait,
    /// SKIP LOCKED: a scan skips the row; a read of one row fails as with `NoWait`. Meant for
    /// queues, at `ReadCommitted`: at `Snapshot` a scan that reaches a row which others have
    /// deleted since is still in conflict.
    SkipLocked,
    /// Semi-consistent read: reads the row as last committed, reports that, and does not lock it.
    /// Meant for statements that want few of the rows that they reach and lock those afterwards
    /// ([`TxnCursor::relock`](super::TxnCursor::relock)). Calls that cannot report it wait, and at
    /// [`Isolation::Serializable`] all calls do.
    SemiConsistent,
}

/// Options of one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use = "options have no effect until a transaction begins with them"]
pub struct TxnOptions {
    /// The isolation level.
    pub isolation: Isolation,
    /// Makes writing an error; the transaction never locks anything.
    pub read_only: bool,
    /// How long a call waits for locks, all of them together, before it fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout); `None` means no limit.
    pub lock_timeout: Option<Duration>,
    /// Identifies the transaction to the program's [`LockHooks`](crate::txn::lock_table::Hooks); 0
    /// for none.
    pub tag: u64,
    /// When its commit is acknowledged; `None`: at the store's level.
    pub durability: Option<Durability>,
}

impl Default for TxnOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            read_only: false,
            lock_timeout: Some(LOCK_WAIT),
            tag: 0,
            durability: None,
        }
    }
}

impl TxnOptions {
    /// The defaults: level [`Isolation::Snapshot`], reads and writes, a lock timeout of ten
    /// seconds, the store's durability.
    pub fn new() -> Self {
        Self::default()
    }

    /// The isolation level.
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.isolation = level;
        self
    }

    /// Makes writing an error; the transaction never locks anything.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How long a call waits for locks, all of them together, before it fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout); `None` means no limit.
    pub fn lock_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Identifies the transaction to the program's [`LockHooks`](crate::lock::LockHooks); 0 for
    /// none.
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// When its commit is acknowledged, if not at the store's level.
    pub fn durability(mut self, level: impl Into<Option<Durability>>) -> Self {
        self.durability = level.into();
        self
    }
}

/// What a call does if another transaction holds a lock, and how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meeting {
    pub if_locked: IfLocked,
    /// How long it waits, if not as long as the transaction's options say.
    pub wait: Option<Duration>,
}

impl From<IfLocked> for Meeting {
    fn from(if_locked: IfLocked) -> Self {
        Self { if_locked, wait: None }
    }
}

impl Meeting {
    /// The policy for locks that can only be waited for.
    pub fn that_waits(self) -> Self {
        Self { if_locked: IfLocked::Wait, ..self }
    }

    /// The policy for a call that must lock whatever it reads.
    pub fn that_locks(self) -> Self {
        if self.if_locked == IfLocked::SemiConsistent { self.that_waits() } else { self }
    }
}

impl Txn {
    /// Sets how long later calls wait for locks, all those of a call together; `None` means no
    /// limit. Overrides [`TxnOptions::lock_timeout`], for a server whose statements set their own
    /// timeouts. Zero: a call that would have to wait fails at once. It stays until it is set
    /// again, and has no effect on a transaction that is over.
    pub fn set_lock_timeout(&self, timeout: Option<Duration>) {
        self.state.lock().unwrap().lock_timeout = timeout;
    }
}

impl State {
    pub(super) fn wait_policy(&self, meeting: Meeting) -> WaitPolicy {
        match (meeting.if_locked, self.wait(meeting)) {
            (IfLocked::NoWait | IfLocked::SkipLocked | IfLocked::SemiConsistent, _) => {
                WaitPolicy::NoWait
            }
            (IfLocked::Wait, Some(time)) => WaitPolicy::For(time),
            (IfLocked::Wait, None) => WaitPolicy::Forever,
        }
    }

    /// How long a call waits, if it waits; `None` means no limit.
    pub(super) fn wait(&self, meeting: Meeting) -> Option<Duration> {
        meeting.wait.or(self.lock_timeout).filter(|wait| *wait != Duration::MAX)
    }
}
