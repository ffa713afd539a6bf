//! Transactions: the write set and what a transaction needs beyond a batch, the sequencer, the lock
//! table, the key locks of checked inserts, and empty-range hints.
//!
//! A batch is a transaction of one call: its write set is private until commit; the sequencer
//! orders commits and decides what is visible. A transaction of many calls reads its own writes and
//! can roll some of them back ([`TxnWrites`]); other transactions ask it whether it has pending
//! keys in a range that they lock ([`TreeWriters`]).

mod empty_ranges;
mod gate;
#[cfg(all(test, shuttle))]
mod interleavings;
pub mod lock_table;
mod locks;
mod memory_reservation;
mod range_tombstones;
mod sequencer;
mod write_set;
mod writers;
mod writes;

pub(crate) use empty_ranges::{EmptyRanges, Stretch, TOMBSTONES_MIN};
pub(crate) use gate::LockGate;
pub(crate) use locks::{KeyLockTable, KeyLocks, lock_hash};
pub use memory_reservation::{MemoryReservation, WritesMemory};
pub(crate) use sequencer::{Section, Sequencer};
pub(crate) use write_set::{Asks, Entry, WriteSet};
pub use writers::TreeWriters;
pub use writes::{HashedKey, LiveWrites, Mark, OwnCursor, OwnState, ROWS_UNKNOWN, TxnWrites};
pub(crate) use writes::{HoldsWrites, Leaving, Piece, PieceWrites, may_be_asked};
