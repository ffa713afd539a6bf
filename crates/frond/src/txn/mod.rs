//! Transactions: the write set, the sequencer, the lock table, the key locks of checked inserts, and
//! stretches known to be empty.
//!
//! A batch is one transaction: its write set is private until commit; the sequencer orders commits
//! and says what is visible.

#[cfg(all(test, shuttle))]
mod interleavings;
pub mod lock_table;
mod locks;
mod sequencer;
mod vacancy;
mod write_set;

pub(crate) use locks::{KeyLockTable, KeyLocks, lock_hash};
pub(crate) use sequencer::{Section, Sequencer};
pub(crate) use vacancy::{Stretch, TOMBSTONES_MIN, Vacancy};
pub(crate) use write_set::WriteSet;
