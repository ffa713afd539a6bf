//! The log: every commit goes through it, in order, before it counts.
//!
//! Tour
//! - [`RecordBuilder`] makes the body of a commit record, [`decode`] reads a record back.
//! - [`Log::create`] for a new store; [`recover`], then [`Log::resume`], for one that exists.
//! - Committing, with the sequencer of the room above:
//!
//! ```text
//! let body = builder.finish();                                  // &[u8], before the sequencer
//! let log_use = LogUse::relief_if(it only deletes);
//! let large = body.len() + TRAILER_BYTES > log.record_bytes_max();
//! let (fragments, rest) = if large { Some(log.append_fragments(body, log_use, wait)?) … } else { (None, body) };
//! let reservation = loop {
//!     lock the sequencer; seqno = last + 1; memtable = active
//!     match log.try_reserve(rest.len() + TRAILER_BYTES, log_use)  // or try_reserve_last(&fragments, …)
//!         Some(r) => break r, with seqno and memtable taken
//!         None    => { unlock the sequencer; log.wait_for_room(log_use)?; }    // Full: nothing happened
//! };
//! log.fill(&reservation, &[rest, &trailer(seqno)]);             // in parallel with others
//! insert into the memtable; make visible; release locks
//! log.wait(&reservation, durability)?;                          // OutcomeUnknown if the log fails
//! ```
//! - [`Log::promise`] keeps room for a record to come, [`Log::try_reserve_promised`] takes it.
//! - Freezing: [`Log::position`] inside the sequencer is where replay of the next memtable starts.
//! - Checkpoint: [`Log::sync_through_now`] before the slot is written, [`Log::trim`] after.
//! - The log thread: `loop { log.wait_for_work(50 ms); log.tick(clock.now())?; }`. Without it, whoever
//!   owns the clock calls [`Log::tick`]; all else works from the calling thread.
//! - [`Log::feed`] follows durable commits, for the change feed.
//! - [`Log::close`] returns the exact end, for the slot's clean mark; [`Log::trim`] goes on.
//!
//! The log knows nothing of trees: record payloads are opaque to it. `record.rs` is the commit record,
//! used by the rooms above.
//!
//! Bytes: docs/format.md, "Log". Rules: I13–I15. Promises: P1, P3, P5, P6, P8, P9, P11, P12, P19, P20.

mod aligned;
mod assembly;
mod feed;
mod group;
mod in_place;
mod leader;
mod log;
mod open;
mod promise;
mod reader;
mod record;
mod recovery;
mod relief;
mod reserve;
mod rest;
mod segment;
#[cfg(test)]
mod tests;

pub use feed::{LogFeed, TakeCommit, in_group};
pub use log::{Log, LogOptions, LogStats};
pub use promise::PromiseRefused;
pub use record::{
    Item, KeyMemory, LogExtent, Record, RecordBuilder, RecordItems, TRAILER_BYTES,
    checkpoint_record, decode, items, keeps_trailer, trailer,
};
pub use recovery::{Expect, RecoveredTail, recover};
pub use relief::LogUse;
pub use reserve::{FRAGMENT_ROOM, Fragments, Reservation};
pub use segment::begin;
