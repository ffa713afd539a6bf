//! Blocks: the unit of encoding and of caching inside a run. Pure functions on bytes.
//!
//! There are two forms. A *row block* ([`row`](mod@row)) holds rows in key order, one after the
//! other. A *columnar block* ([`columnar`](mod@columnar)) holds rows by field, in the columns of
//! [`encoding`](mod@encoding). A run asks a block for *seek*, *row i*, *next* and *previous*
//! ([`Position`]), and never looks inside; its [`Format`] says which of the two its blocks are. How
//! a block's bytes are stored, under a codec or [`transposed`](mod@transposed) for one, is its
//! [`Packing`]; decoding removes it.
//!
//! Invariants
//! 1. Any bytes give rows or [`BadBlock`], never a panic, and no loop longer than the block.
//!
//! Threads: blocks are immutable, builders and cursors belong to one thread; codecs keep their
//! contexts per thread. Bytes: docs/format.md, "Block".

mod bytes;
mod chunks;
mod codec;
pub mod columnar;
mod dictionary;
pub mod encoding;
mod format;
mod meter;
mod packing;
mod position;
mod row;
mod transposed;

pub use bytes::common_prefix;
pub(crate) use bytes::{varint_bytes, varint32};
pub use chunks::Chunks;
pub use codec::Codec;
pub use dictionary::{Dictionary, DictionaryEncoder, train};
pub use format::{ColumnarFormat, Format, MODELS_MEMORY_MAX, Payload};
pub use meter::DecodeMeter;
pub use packing::Packing;
pub use position::Position;
pub use row::{BlockBuilder, Pushed, Rows, Shape, check, find};
pub use transposed::Taken;

use crate::bounds;

/// Target length of a block before its codec, including the restart array; only a single row may
/// exceed it.
pub const BLOCK_RAW_BYTES_TARGET: usize = 16 << 10;

/// Longest block accepted from disk: one row with the longest key and the longest inline payload,
/// and ample space for merge operands that accumulate on one key.
pub const BLOCK_RAW_BYTES_MAX: usize = bounds::BLOCK_BYTES.default as usize;

/// Longest total of the rows of a block that has more than one: this bounds what such a block may
/// take; only a single row may be longer.
pub const BLOCK_ROWS_BYTES_MAX: usize = bounds::BLOCK_ROWS_BYTES.default as usize;

/// Every row with a number divisible by this has a whole key.
pub const RESTART_ROWS: usize = 16;

/// The error for a block that a newer Frond wrote.
pub const NEWER: BadBlock = BadBlock("it is of a newer version");

/// What is wrong with a block's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock(pub &'static str);
