//! Columns: one part of all rows of a block, in a form that is read at any row without decoding the
//! others.
//!
//! A column is bytes that begin with their own header, so that a reader who knows the number of rows
//! knows how long it is, and columns can lie back to back. Integers ([`Ints`]) are codes of as few
//! bits as do, packed against what they have in common; whoever writes them ([`IntEncoder`]) knows
//! the exact length of every way to write a column before it writes one. Strings ([`string`]) are made of
//! integer columns and bytes.
//!
//! Invariants
//! 1. What is encoded comes back, bit by bit, for any values.
//! 2. Any bytes whatever give a column or [`BadBlock`](super::BadBlock); reading a column that was
//!    parsed never panics, never reads beyond the bytes it was given, and takes no longer than the
//!    number of rows allows. What it reads means something only if its `check` passed.
//! 3. At least [`PAD_BYTES`] bytes that may be read follow every column: a code is taken out of a load
//!    of eight bytes.
//! 4. The columns of any block that was ever written stay readable: kinds are added, never changed.
//!
//! Threads: columns borrow immutable bytes; encoders belong to one thread. Bytes: docs/format.md,
//! "Columns". Idea: Abadi, Madden, Ferreira, "Integrating Compression and Execution in Column-Oriented
//! Database Systems", 2006; Zukowski, Heman, Nes, Boncz, "Super-Scalar RAM-CPU Cache Compression",
//! 2006.

mod bits;
mod ints;
pub mod string;

pub use bits::PAD_BYTES;
pub(super) use bits::partition;
pub use ints::{Chosen, Float, IntEncoder, IntKind, Ints};

/// Most rows of a column: as many as a block has.
pub const ROWS_MAX: usize = u16::MAX as usize;
