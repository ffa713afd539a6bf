//! Row blocks: rows in key order, with prefix-compressed keys. Each key lacks the prefix that it
//! shares with the previous one; every [`RESTART_ROWS`] rows a key is whole (a restart), and an
//! array lists the offsets of the restarts.
//!
//! ```text
//! block   = row* | restart offsets, u16 each | rows u16 | restarts u16
//! row     = tag u8 | shared | suffix bytes | payload bytes | suffix | payload     (lengths LEB128)
//! ```
//!
//! Invariants
//! 1. Keys ascend strictly; a row whose number is a multiple of [`RESTART_ROWS`] shares nothing.
//! 2. A block has at least one row, and is at most [`BLOCK_RAW_BYTES_TARGET`] long unless it holds
//!    a single row. Readers refuse a block of several rows that is longer than
//!    [`BLOCK_ROWS_BYTES_MAX`].
//!
//! Threads: builders and positions belong to one thread. Bytes: docs/format.md, "Block".
//!
//! [`RESTART_ROWS`]: super::RESTART_ROWS
//! [`BLOCK_RAW_BYTES_TARGET`]: super::BLOCK_RAW_BYTES_TARGET
//! [`BLOCK_ROWS_BYTES_MAX`]: super::BLOCK_ROWS_BYTES_MAX

mod builder;
mod rows;

pub use builder::{BlockBuilder, Pushed};
pub(super) use builder::{Head, TRAILER_BYTES};
pub(super) use rows::each;
pub use rows::{Rows, Shape, check, find};
