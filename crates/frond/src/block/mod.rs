//! Blocks: the unit of encoding and of caching inside a run. Pure functions on bytes.
//!
//! Two encodings. The *opaque* block: rows in key order, each key cut by the prefix that it shares with the
//! one before, whole keys every [`RESTART_ROWS`] rows, and an array of where these stand. The *typed* block
//! ([`typed`](mod@typed)): rows by part, in the columns of [`column`](mod@column). A run asks a block for
//! *seek*, *row i*, *next* and *previous* ([`Position`]), and never looks inside; which of the two its blocks are is
//! its [`Format`]. How its bytes are stored, under a codec or [`transposed`](mod@transposed) for one, is its
//! [`Packing`], and ends when it is decoded.
//!
//! ```text
//! block   = row* | restart offsets, u16 each | rows u16 | restarts u16
//! row     = tag u8 | shared | suffix bytes | payload bytes | suffix | payload     (lengths LEB128)
//! ```
//!
//! Invariants of opaque blocks
//! 1. Keys ascend strictly; a row whose number is a multiple of [`RESTART_ROWS`] shares nothing.
//! 2. A block has at least one row, and is at most [`BLOCK_RAW_BYTES_TARGET`] long unless it holds a
//!    single row. No reader takes one of several rows that is longer than [`BLOCK_ROWS_BYTES_MAX`].
//! 3. Any bytes whatever give rows or [`BadBlock`], never a panic, and no loop longer than the block.
//!
//! Threads: blocks are immutable, builders and cursors belong to one thread; codecs keep their
//! contexts per thread. Bytes: docs/format.md, "Block".

mod builder;
mod bytes;
mod chunks;
mod codec;
pub mod column;
mod dictionary;
mod format;
mod meter;
mod packing;
mod position;
mod rows;
mod transposed;
pub mod typed;

pub use builder::{BlockBuilder, Pushed};
pub use bytes::common_prefix;
pub(crate) use bytes::{varint_bytes, varint32};
pub use chunks::Chunks;
pub use codec::Codec;
pub use dictionary::{Dictionary, DictionaryEncoder, train};
pub use format::{Format, MODELS_MEMORY_MAX, Payload, TypedFormat};
pub use meter::DecodeMeter;
pub use packing::Packing;
pub use position::Position;
pub use rows::{Rows, Shape, check, find};
pub use transposed::Taken;

use crate::bounds;

/// Length of a block before its codec, restart array included, unless a single row is longer.
pub const BLOCK_RAW_BYTES_TARGET: usize = 16 << 10;

/// Longest block accepted from disk: one row of the longest key with the longest inline payload, and
/// ample room for merge operands that pile up on one key.
pub const BLOCK_RAW_BYTES_MAX: usize = bounds::BLOCK_BYTES.default as usize;

/// Longest rows together of a block that has more than one: what such a block may take is bounded by this, and
/// only a row that long by itself may take more.
pub const BLOCK_ROWS_BYTES_MAX: usize = bounds::BLOCK_ROWS_BYTES.default as usize;

/// Every so many rows a key stands whole.
pub const RESTART_ROWS: usize = 16;

/// A newer Frond wrote the block.
pub const NEWER: BadBlock = BadBlock("it is of a newer version");

/// What is wrong with a block's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock(pub &'static str);
