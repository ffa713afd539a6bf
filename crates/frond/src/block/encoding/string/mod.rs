//! String columns: the variable fields of keys and values, and fixed fields wider than eight bytes.
//!
//! A column states its own encoding; what its encoding needs to know beyond the block (a
//! dictionary, a symbol table, a shape, templates) is in the [`StringModel`] of its leaf. [`Strs`]
//! reads one row without decoding the others; [`StrEncoder`] encodes by a [`StringPlan`], which
//! [`train`] finds.
//!
//! | kind | file | purpose |
//! |---|---|---|
//! | raw | `raw.rs` | bytes and the end of each string; for what nothing else shrinks |
//! | prefix | `prefix.rs` | prefix compression, for sorted strings, above all keys |
//! | dictionary | `dictionary.rs` | few distinct strings; the block's dictionary or the leaf's |
//! | shape | `shape/` | patterns: each position a constant, digit or hex digit |
//! | alphabet | `alphabet.rs` | few characters, as in tokens: each in as few bits as suffice |
//! | symbols | `fsst.rs` | text (FSST): frequent pieces of up to eight bytes as one byte |
//! | templates | `templates.rs`, `templated.rs` | few formats, as in logs; what varies is packed |
//!
//! Readers know each kind as a `StringColumn` (`traits.rs`).
//!
//! The bytes of raw and symbol columns may be compressed by a general codec (`chunk.rs`), as one
//! chunk that is decoded when the column is parsed; everything else is read in place.
//!
//! Invariants
//! 1. Arbitrary bytes yield strings or [`BadBlock`](crate::block::BadBlock): no panic, no loop
//!    beyond the column, no more memory than its block's rows may take. A column that passed
//!    [`Strs::check`] yields strings.
//! 2. A column's length follows from its bytes and the number of its rows.
//! 3. Equal strings, model and plan give equal bytes.
//! 4. Strings compare as memcmp, in every kind.
//!
//! Threads: models are immutable and shared; encoders belong to one thread. Bytes: docs/format.md,
//! "String columns".

mod alphabet;
mod bit_writer;
mod chunk;
mod dictionary;
mod encoder;
mod exceptions;
mod fsst;
mod fsst_training;
mod model;
mod plan;
mod prefix;
mod raw;
mod scratch;
mod shape;
mod shape_training;
mod strings;
mod strs;
mod template_index;
mod template_training;
mod template_walk;
mod templated;
mod templates;
mod tokens;
mod training;
mod traits;

pub use chunk::Chunked;
pub use encoder::{StrEncoder, Written};
pub use model::StringModel;
pub(in crate::block) use model::VERSION as MODEL_VERSION;
pub use plan::{StrKind, StringPlan};
pub use strings::{Strings, equal_short};
pub use strs::Strs;
pub use training::{Purpose, Trained, train};
pub use traits::Apart;

#[cfg(test)]
mod tests;
