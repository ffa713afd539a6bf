//! The holder of a lock, as errors name it.

use std::fmt;

/// The holder of a lock that conflicted with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LockHolder {
    /// A transaction.
    Transaction {
        /// Its id ([`TxnControl::id`](crate::transaction::TxnControl::id)).
        id: u64,
        /// True if the thread that made the request also began the transaction. Unless another
        /// thread ends the transaction, such a wait never succeeds.
        began_on_this_thread: bool,
    },
    /// A transaction that is [prepared](crate::Txn::prepare): it keeps its locks until it is
    /// committed or rolled back, also across restarts.
    Prepared {
        /// Its id.
        id: u64,
    },
    /// Anything else, in words: "a batch that is being committed".
    Other(&'static str),
}

impl LockHolder {
    /// What to do about a holder that kept the lock for too long.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Transaction { began_on_this_thread: true, .. } => {
                ", which began on this thread: if it is still open here, commit it or drop it first"
            }
            Self::Prepared { .. } => ": commit it or roll it back first",
            _ => "; try again, or raise the lock timeout",
        }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction { id, .. } => write!(f, "transaction {id}"),
            Self::Prepared { id } => write!(f, "transaction {id}, which is prepared"),
            Self::Other(words) => f.write_str(words),
        }
    }
}
