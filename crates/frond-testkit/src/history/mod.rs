//! Histories of what concurrent transactions did and saw, and a checker that finds the isolation
//! anomalies in them and describes them in words (docs/safety.md §4.6).
//!
//! A history knows nothing of the engine: each transaction records what it wrote and what it saw.
//! Every number is written only once, so a reader of a number knows which transaction wrote it.
//! Keys hold lists, to which numbers are appended, so a reader also knows what came before; and
//! registers, whose order is known as far as transactions read one value and set the next. A
//! deletion is a version of a register like any other, except that no reader sees its number:
//! `versions.rs` determines which deletion it was, where that can be known.
//!
//! | file | what it does |
//! |---|---|
//! | `versions.rs` | which transaction wrote which version, and in which order; anomalies without a cycle: G1a, G1b, lost writes |
//! | `graph.rs` | which transaction must have come before which: ww, wr, rw, and real time |
//! | `cycles.rs` | strongly connected components; a cycle, its name and its description |
//! | `record/mod.rs` | records histories of a store: threads, transactions of all levels, batches, restarts |
//! | `record/decide.rs` | prepared transactions, and how they are decided |
//! | `record/rows.rs` | registers that are rows with indexes |
//! | `absent.rs` | which deletion a reader saw when it found nothing |
//! | `tests.rs` | a bad history of every kind, and which levels forbid it |
//!
//! **What each level forbids.** A level says at which moments a transaction reads and writes. Each
//! moment is a point of the graph, and every dependency goes from a point to a later one. So a
//! cycle proves that the store broke its promise:
//!
//! | level | plain reads | locking reads and writes | dependencies enter at |
//! |---|---|---|---|
//! | `ReadCommitted` | each call at a moment of its own | the commit | the point of the read or write |
//! | `RepeatableRead` | all at one moment, the snapshot; lists to which it has appended: at the commit | the commit | the point of the read or write |
//! | `Snapshot` | all at one moment, the snapshot | the commit | the snapshot, always: it overwrites nothing that it does not see |
//! | `Serializable` | the commit | the commit | the commit |
//!
//! Locking reads are at the commit, because no other transaction changes what they have seen before
//! it. A glimpse, which reads the last committed value of a locked row, is at a moment of its own
//! at every level. Locking reads of rows that a prepared transaction has not written are at its
//! prepare, since it releases these locks then, except at `Serializable`. From these moments the
//! usual table follows, with the names of Adya; `tests.rs` checks it:
//!
//! | | ReadCommitted | RepeatableRead | Snapshot | Serializable |
//! |---|---|---|---|---|
//! | G0, G1a, G1b, G1c | found | found | found | found |
//! | G-single: read skew | if it comes back to a later call | found | found | found |
//! | G-single: lost update (P4) | – | – | found | found |
//! | G-nonadjacent: long fork | if a later call goes back | found | found | found |
//! | G2: write skew | – | – | – | found |
//!
//! Ideas: Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for
//! Distributed Transactions", 1999; Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", 2020; Tarjan, "Depth-first search and linear graph algorithms",
//! 1972.

mod absent;
mod cycles;
mod graph;
mod record;
mod versions;

use std::fmt;

use frond::Isolation;

pub use record::{Recorder, Workload};

/// A list or a register; a list and a register with the same number are different keys.
pub type Key = u64;
/// A number that is written only once in a history.
pub type Number = u64;

/// A call that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Appended to a list.
    Append(Key, Number),
    /// Rewrote a whole list: what was read of it, followed by a new number.
    Rewrite(Key, Vec<Number>),
    /// Read a list; true: with a lock.
    List(Key, Vec<Number>, bool),
    /// Set a register.
    Set(Key, Number),
    /// Read a register; true: with a lock.
    Register(Key, Option<Number>, bool),
    /// Deleted a register. The number identifies the deletion; a reader that finds nothing has seen
    /// it, or another one.
    Delete(Key, Number),
    /// Read the last committed value of a register that another transaction had locked.
    Glimpse(Key, Option<Number>),
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Acknowledged.
    Committed,
    /// Rolled back.
    Aborted,
    /// The store stopped meanwhile: the transaction is there completely, or not at all.
    Unknown,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Txn {
    /// The session that ran it.
    pub session: u32,
    /// The isolation level; irrelevant for a batch.
    pub isolation: Isolation,
    /// A moment of the history before it began.
    pub begun: u64,
    /// A moment after it had ended.
    pub ended: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it was prepared before its end. From then on others could write what it had only
    /// read, except at `Serializable`.
    pub prepared: bool,
    /// The calls, each with a number; everything that one scan has read has the same number.
    pub calls: Vec<(u32, Call)>,
    /// Numbers that it wrote and rolled back to a savepoint.
    pub undone: Vec<Number>,
}

/// The record of what happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All transactions.
    pub txns: Vec<Txn>,
    /// Moments at which the store was restarted.
    pub restarts: Vec<u64>,
}

/// The kinds of anomalies, by Adya's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// Dirty write: each has overwritten the other.
    G0,
    /// Aborted read: something was seen that was rolled back, completely or to a savepoint.
    G1a,
    /// Intermediate read: only a part of a transaction's writes was seen.
    G1b,
    /// Circular information flow: each has seen something that depends on it.
    G1c,
    /// Read skew: a reader saw something that depends on what it did not see.
    GSingle,
    /// Lost update: a transaction that had read an older version overwrote a newer one.
    P4,
    /// Long fork, and the like: several readers, none of which follows directly on another.
    GNonadjacent,
    /// Write skew, and the like.
    G2,
    /// A transaction does not see its own writes, or sees more of its own than it wrote.
    Internal,
    /// Something was seen that no transaction has written.
    Unwritten,
    /// Two readers have seen a list in different orders.
    Order,
    /// Something acknowledged is missing later, or only a part of a commit is there.
    Lost,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anomaly::G0 => "G0, dirty write",
            Anomaly::G1a => "G1a, aborted read",
            Anomaly::G1b => "G1b, intermediate read",
            Anomaly::G1c => "G1c, circular information flow",
            Anomaly::GSingle => "G-single, read skew",
            Anomaly::P4 => "G-single, lost update (P4)",
            Anomaly::GNonadjacent => "G-nonadjacent, long fork",
            Anomaly::G2 => "G2, write skew",
            Anomaly::Internal => "own writes not as they were written",
            Anomaly::Unwritten => "read of a value that was never written",
            Anomaly::Order => "two orders of one list",
            Anomaly::Lost => "lost write",
        })
    }
}

/// An anomaly that a level forbids, with its evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The name.
    pub anomaly: Anomaly,
    /// What each transaction did, in words.
    pub story: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.anomaly, self.story)
    }
}

impl History {
    /// Finds all anomalies that the levels of the transactions forbid; of each set of connected
    /// cycles, only one.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let versions = versions::Versions::of(self, &mut findings);
        let graph = graph::Graph::of(&versions);
        cycles::find(&versions, &graph, &mut findings);
        findings
    }

    /// The history with all transactions set to this level. Findings that it has in addition are
    /// those that the transactions' own levels allow.
    pub fn as_level(&self, isolation: Isolation) -> History {
        let mut history = self.clone();
        history.txns.iter_mut().for_each(|txn| txn.isolation = isolation);
        history
    }

    /// Number of transactions that were acknowledged.
    pub fn committed(&self) -> usize {
        self.txns.iter().filter(|txn| txn.outcome == Outcome::Committed).count()
    }
}

#[cfg(test)]
mod tests;
