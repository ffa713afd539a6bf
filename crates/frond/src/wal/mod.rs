//! The write-ahead log: every commit is appended to it, in order, before it takes effect.
//!
//! Tour
//! - [`RecordBuilder`] builds the body of a commit record, [`decode`] reads a record back.
//! - [`Log::create`] makes the log of a new store. [`recover`] and then [`Log::resume`] open an
//!   existing one.
//! - A commit, together with the sequencer (module `txn`):
//!
//! ```text
//! let body = builder.finish();                   // &[u8], before the sequencer
//! let log_use = LogUse::relief_if(it only deletes);
//! let large = body.len() + TRAILER_BYTES > log.record_bytes_max();
//! let (fragments, rest) = if large {
//!     Some(log.append_fragments(body, log_use, wait)?) …
//! } else {
//!     (None, body)
//! };
//! let reservation = loop {
//!     lock the sequencer; seqno = last + 1; memtable = active
//!     match log.try_reserve(rest.len() + TRAILER_BYTES, log_use)  // or try_reserve_last(..)
//!         Some(r) => break r, with seqno and memtable taken
//!         // Full: nothing happened
//!         None    => { unlock the sequencer; log.wait_for_room(log_use)?; }
//! };
//! log.fill(&reservation, &[rest, &trailer(seqno)]);        // in parallel with others
//! insert into the memtable; make visible; release locks
//! log.wait(&reservation, durability)?;                     // OutcomeUnknown if the log fails
//! ```
//! - [`Log::guarantee`] reserves space for a later record, so that its reservation cannot fail;
//!   [`Log::try_reserve_guaranteed`] uses that space.
//! - Freezing a memtable: [`Log::position`], called inside the sequencer, is where replay of the
//!   next memtable starts.
//! - Checkpoint: call [`Log::sync_through_now`] before writing the slot, [`Log::trim`] after.
//! - The log thread calls [`Log::tick`] at least every 50 ms. Without a log thread, the owner of
//!   the clock calls it; everything else runs on the calling thread.
//! - [`Log::feed`] follows durable commits, for the change feed.
//! - [`Log::close`] returns the exact end, for the slot's clean mark; [`Log::trim`] still works
//!   afterwards.
//!
//! The log knows nothing about trees: record payloads are opaque to it. `record.rs` defines the
//! commit record for the modules above.
//!
//! Bytes: docs/format.md, "Log". Rules: I13–I15. Promises: P1, P3, P5, P6, P8, P9, P11, P12, P19,
//! P20.

mod assembly;
mod feed;
mod group;
mod guarantee;
mod idle;
mod in_place;
mod leader;
mod log;
mod reader;
mod record;
mod recovered_tail;
mod recovery;
mod relief;
mod segment;
mod spares;
#[cfg(test)]
mod tests;

pub use feed::{LogFeed, TRIMMED, TakeCommit, in_group};
pub use group::{FRAGMENT_ROOM, Fragments, LogUse, Reservation};
pub use guarantee::GuaranteeRefused;
pub use log::{Log, LogOptions, LogStats};
pub use record::{
    Item, KeyMemory, LogExtent, Record, RecordBuilder, RecordItems, RecordPool, TRAILER_BYTES,
    checkpoint_record, decode, items, keeps_trailer, trailer,
};
pub use recovered_tail::RecoveredTail;
pub use recovery::{Expect, recover};
pub use segment::{begin, begins, was_being_created};
