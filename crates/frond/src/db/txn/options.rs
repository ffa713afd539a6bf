//! What a transaction is to be like.

use std::time::Duration;

use super::super::commit::LOCK_WAIT;
use crate::{Durability, txn::lock_table::Patience};

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

impl TxnOptions {
    pub(super) fn patience(&self, wait: IfLocked) -> Patience {
        match (wait, self.lock_timeout) {
            (IfLocked::Fail | IfLocked::Skip, _) => Patience::NoWait,
            (IfLocked::Wait, Some(time)) => Patience::For(time),
            (IfLocked::Wait, None) => Patience::Forever,
        }
    }
}
