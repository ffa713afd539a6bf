//! What a transaction is to be like.

use std::time::Duration;

use super::{super::commit::LOCK_WAIT, State, Txn};
use crate::{
    Durability,
    txn::lock_table::{Patience, RowMode},
};

/// What a transaction sees of others, and when two stand against each other.
///
/// At every level writes are locked until the transaction ends, nobody sees what is not committed, and a locking
/// read ([`Txn::get_for_update`](super::Txn::get_for_update)) sees the newest commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Each call sees what was committed when it began. Where the program says when its statements begin
    /// ([`Txn::begin_statement`](super::Txn::begin_statement)), all plain reads of one see what was committed when the first
    /// of them began.
    ReadCommitted,
    /// Plain reads see what was committed when the first of them began; writes and locking reads go by the newest
    /// commit, as InnoDB has it. A value that was read and is written back may undo what another has committed
    /// meanwhile.
    RepeatableRead,
    /// All reads see what was committed when the first of them began, and of two transactions that write one row
    /// the second fails with [`Error::Conflict`](crate::Error::Conflict). A transaction that has read nothing yet
    /// has nothing to be in conflict with.
    #[default]
    Snapshot,
    /// As `RepeatableRead`, and every plain read is a locking one: rows are locked shared, and what was scanned stays
    /// as it was. What transactions do is what they would have done one after the other.
    Serializable,
}

impl Isolation {
    /// Whether locking scans keep others from inserting into what they have gone over.
    pub(super) fn locks_gaps(self) -> bool {
        matches!(self, Self::RepeatableRead | Self::Serializable)
    }
}

/// How a locking read locks a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLock {
    /// Against writers; others may lock it so, too.
    Shared,
    /// Against all but plain reads.
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

/// What a locking read does if another has the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IfLocked {
    /// It waits, as long as the transaction's `lock_timeout` says.
    #[default]
    Wait,
    /// It fails with [`Error::LockBusy`](crate::Error::LockBusy) at once.
    Fail,
    /// A scan goes on behind the row; a read of one row fails as above. For queues, at `ReadCommitted`: at `Snapshot` a scan
    /// that comes to a row which others have taken away since is a conflict all the same.
    Skip,
    /// It reads the row as it was last committed, says so, and does not lock it: for a statement that wants few of the rows
    /// it comes to, and locks those then ([`TxnCursor::relock`](super::TxnCursor::relock)). Calls that cannot say so wait, and
    /// all do at [`Isolation::Serializable`].
    LastCommit,
}

/// Options of one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxnOptions {
    /// What it sees of others.
    pub isolation: Isolation,
    /// Writing is an error; nothing is ever locked.
    pub read_only: bool,
    /// How long a call waits for locks, all of them together, before it fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout); `None`: until it gets them.
    pub lock_timeout: Option<Duration>,
    /// What the program's [`LockHooks`](crate::LockHooks) are to know it by; 0 says nothing.
    pub tag: u64,
    /// When its commit is acknowledged; `None`: as the store's are.
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

/// How a call meets the locks of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meeting {
    pub if_locked: IfLocked,
    /// For how long it waits, if not as long as the transaction's options say.
    pub wait: Option<Duration>,
}

impl From<IfLocked> for Meeting {
    fn from(if_locked: IfLocked) -> Self {
        Self { if_locked, wait: None }
    }
}

impl Meeting {
    /// The same of locks for which there is nothing but to wait.
    pub fn that_waits(self) -> Self {
        Self { if_locked: IfLocked::Wait, ..self }
    }

    /// The same of a call that locks whatever it reads.
    pub fn that_locks(self) -> Self {
        if self.if_locked == IfLocked::LastCommit { self.that_waits() } else { self }
    }
}

impl Txn {
    /// For how long calls that come wait for locks, all those of a call together; `None`: until they get them. As
    /// [`TxnOptions::lock_timeout`], which it was begun with; for a server whose statements say so themselves. Zero: a call that
    /// would have to wait fails at once. It stays until it is set again, and takes nothing from a transaction that is over.
    pub fn set_lock_timeout(&self, timeout: Option<Duration>) {
        self.state.lock().unwrap().lock_timeout = timeout;
    }
}

impl State {
    pub(super) fn patience(&self, meeting: Meeting) -> Patience {
        match (meeting.if_locked, self.wait(meeting)) {
            (IfLocked::Fail | IfLocked::Skip | IfLocked::LastCommit, _) => Patience::NoWait,
            (IfLocked::Wait, Some(time)) => Patience::For(time),
            (IfLocked::Wait, None) => Patience::Forever,
        }
    }

    /// For how long a call waits, if it waits; `None`: until it gets what it waits for.
    pub(super) fn wait(&self, meeting: Meeting) -> Option<Duration> {
        meeting.wait.or(self.lock_timeout).filter(|wait| *wait != Duration::MAX)
    }
}
