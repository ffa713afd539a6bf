//! What transactions did to each other, from what they read: histories of a store under many threads, and a checker
//! that finds the anomalies in them and tells them in words (RELIABILITY §4.6).
//!
//! A history knows nothing of the engine: each transaction says what it wrote and what it saw. Numbers that are
//! written are unique, so that whoever reads one knows whose it is; keys hold lists, to which numbers are appended, so
//! that whoever reads one knows what came before; and registers, whose order is known as far as transactions read one
//! value and set the next. A deletion is a version of a register as any other, but that nobody reads its number:
//! `versions.rs` says whose it was, where it can be known.
//!
//! | file | what it does |
//! |---|---|
//! | `versions.rs` | whose is what, and in which order; what is wrong in itself: G1a, G1b, what is lost |
//! | `graph.rs` | who must have come before whom: ww, wr, rw, and real time |
//! | `cycles.rs` | strongly connected components, and a cycle with a name and in words |
//! | `record.rs` | histories of a store: threads, transactions of all levels, batches, restarts |
//! | `record/decide.rs` | those that are prepared, and who decides them |
//! | `record/rows.rs` | registers that are rows with indexes |
//! | `absent.rs` | whose deletion it was that a reader found nothing of |
//! | `tests.rs` | a bad history of every kind, and which levels forbid it |
//!
//! **What each level forbids.** A level says at which moments a transaction reads and writes. Each moment is a point
//! of the graph, every dependency goes from a point to a later one, and so a cycle is a lie of the store:
//!
//! | level | plain reads | locking reads and writes | dependencies come in |
//! |---|---|---|---|
//! | `ReadCommitted` | each call at a moment of its own | at the commit | where they are |
//! | `RepeatableRead` | all at one, the snapshot; of lists that it has appended to, at the commit | at the commit | where they are |
//! | `Snapshot` | all at one, the snapshot | at the commit | all at the snapshot: nothing is written over what it does not see |
//! | `Serializable` | at the commit | at the commit | there |
//!
//! Locking reads are at the commit, for nobody changes before it what they have seen. A glimpse past another's lock is at a
//! moment of its own at every level, and what a transaction has locked and not written is at its prepare, if it has one: but
//! at `Serializable` it gives that back then. From the moments follows the usual table, with the names of Adya; `tests.rs` holds it against this one:
//!
//! | | ReadCommitted | RepeatableRead | Snapshot | Serializable |
//! |---|---|---|---|---|
//! | G0, G1a, G1b, G1c | found | found | found | found |
//! | G-single: read skew | if it comes back to a later call | found | found | found |
//! | G-single: lost update (P4) | – | – | found | found |
//! | G-nonadjacent: long fork | if a later call goes back | found | found | found |
//! | G2: write skew | – | – | – | found |
//!
//! Ideas: Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed
//! Transactions", 1999; Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations",
//! 2020; Tarjan, "Depth-first search and linear graph algorithms", 1972.

mod absent;
mod cycles;
mod graph;
mod record;
mod versions;

use std::fmt;

use frond::Isolation;

pub use record::{Recorder, Workload};

/// A list, or a register: two keys of one number are not the same.
pub type Key = u64;
/// What is written once in a history.
pub type Number = u64;

/// A call that came to something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Appended to a list.
    Append(Key, Number),
    /// Put a list whole: what was read of it, and a number behind that.
    Rewrite(Key, Vec<Number>),
    /// Read a list; with a lock, or without.
    List(Key, Vec<Number>, bool),
    /// Set a register.
    Set(Key, Number),
    /// Read a register; with a lock, or without.
    Register(Key, Option<Number>, bool),
    /// Deleted a register. The number is the deletion's; whoever finds nothing has seen it, or another's.
    Delete(Key, Number),
    /// Read a register past the lock of another, as it was last committed.
    Glimpse(Key, Option<Number>),
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Acknowledged.
    Committed,
    /// Rolled back.
    Aborted,
    /// The store stopped meanwhile: it is there whole, or not at all.
    Unknown,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Txn {
    /// Whose.
    pub session: u32,
    /// Its level; a batch has any.
    pub isolation: Isolation,
    /// Moments of the history: before it began, after it had ended.
    pub begun: u64,
    /// See `begun`.
    pub ended: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// It was prepared before that: but at `Serializable`, what it had only read was others' from then on.
    pub prepared: bool,
    /// What it did, each call with its number: what one scan has read has one number.
    pub calls: Vec<(u32, Call)>,
    /// What it wrote and took back by a savepoint.
    pub undone: Vec<Number>,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All transactions.
    pub txns: Vec<Txn>,
    /// Moments at which the store went down and came back.
    pub restarts: Vec<u64>,
}

/// What is wrong, by Adya's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// Dirty write: each has written over the other.
    G0,
    /// Aborted read: what was rolled back, by a savepoint or as a whole, was seen.
    G1a,
    /// Intermediate read: a part of what a transaction wrote was seen.
    G1b,
    /// Circular information flow: each has seen what depends on it.
    G1c,
    /// Read skew: one reader saw a part of what depends on what it did not see.
    GSingle,
    /// Lost update: a version was written over by one who had read the one before.
    P4,
    /// Long fork, and the like: several readers, none of them following upon another.
    GNonadjacent,
    /// Write skew, and the like.
    G2,
    /// A transaction does not see its own writes, or sees more of its own than it wrote.
    Internal,
    /// What was seen was written by nobody.
    Unwritten,
    /// Two have seen a list in different orders.
    Order,
    /// What was acknowledged is not there later; or a commit is there in part.
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
            Anomaly::Unwritten => "read of what nobody wrote",
            Anomaly::Order => "two orders of one list",
            Anomaly::Lost => "lost write",
        })
    }
}

/// An anomaly that a level forbids, with what shows it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its name.
    pub anomaly: Anomaly,
    /// Who did what, in words.
    pub story: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.anomaly, self.story)
    }
}

impl History {
    /// All that the levels of its transactions forbid and that happened nevertheless; of a knot of cycles, one.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let versions = versions::Versions::of(self, &mut findings);
        let graph = graph::Graph::of(&versions);
        cycles::find(&versions, &graph, &mut findings);
        findings
    }

    /// The same history, as if all had asked for this level: what it shows then, the levels that they had let happen.
    pub fn as_level(&self, isolation: Isolation) -> History {
        let mut history = self.clone();
        history.txns.iter_mut().for_each(|txn| txn.isolation = isolation);
        history
    }

    /// Transactions that were acknowledged.
    pub fn committed(&self) -> usize {
        self.txns.iter().filter(|txn| txn.outcome == Outcome::Committed).count()
    }
}

#[cfg(test)]
mod tests;
