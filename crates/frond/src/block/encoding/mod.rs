//! Columns: one field of all rows of a block, encoded so that any row is read without decoding the
//! others.
//!
//! A column is a byte string that starts with its own header, so that a reader that knows the
//! number of rows knows its length, and columns can lie back to back. Integers ([`Ints`]) are codes
//! of as few bits as possible, packed relative to what they have in common; their encoder
//! ([`IntEncoder`]) computes the exact length of every encoding of a column before it writes one.
//! Strings ([`string`]) consist of integer columns and bytes.
//!
//! Invariants
//! 1. Decoding returns the encoded values bit for bit, for any values.
//! 2. Arbitrary bytes yield a column or [`BadBlock`](super::BadBlock); reading a column that was
//!    parsed never panics, never reads beyond the bytes it was given, and takes no longer than the
//!    number of rows allows. The values read are meaningful only if its `check` passed.
//! 3. At least [`PAD_BYTES`] readable bytes follow every column: a code is extracted from a load of
//!    eight bytes.
//! 4. The columns of any block that was ever written stay readable: kinds are added, never changed.
//!
//! Threads: columns borrow immutable bytes; encoders belong to one thread. Bytes: docs/format.md,
//! "Columns". Idea: Abadi, Madden, Ferreira, "Integrating Compression and Execution in
//! Column-Oriented Database Systems", 2006; Zukowski, Heman, Nes, Boncz, "Super-Scalar RAM-CPU
//! Cache Compression", 2006.

mod bits;
mod ints;
pub mod string;

pub use bits::PAD_BYTES;
pub(super) use bits::partition;
pub use ints::{Chosen, Float, IntEncoder, IntKind, Ints};

/// Most rows of a column: as many as a block can have.
pub const ROWS_MAX: usize = u16::MAX as usize;
