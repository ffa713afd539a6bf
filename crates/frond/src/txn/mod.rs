//! Transactions: the write set, the sequencer, what is visible.
//!
//! A batch is one transaction: its write set is private until commit; the sequencer orders commits.
//! Locks, savepoints and two-phase commit will live here.

mod sequencer;
mod write_set;

pub(crate) use sequencer::Sequencer;
pub(crate) use write_set::WriteSet;
