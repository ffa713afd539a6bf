//! String columns: the variable parts of keys and values, and fixed parts wider than eight bytes.
//!
//! A column says by itself how it is encoded; what its encoding needs to know beyond the block (a
//! dictionary, a symbol table, a shape, templates) is the [`StringModel`] of its leaf. [`Strs`] reads one row
//! without decoding the others, [`StrEncoder`] writes by a [`StringPlan`], which [`train`] finds.
//!
//! | kind | file | what it is for |
//! |---|---|---|
//! | raw | `raw.rs` | bytes and where each string ends; what nothing else shrinks |
//! | prefix | `prefix.rs` | sorted strings, keys above all: cut by what they share with the one before |
//! | dictionary | `dictionary.rs` | few distinct strings; the block's own, or the leaf's |
//! | shape | `shape.rs`, `shape_even.rs` | one length, each position a constant, a digit, or a hex digit; GUIDs, phone numbers |
//! | symbols | `symbols.rs` | text: frequent pieces of up to eight bytes as one byte |
//! | templates | `templates.rs`, `templated.rs` | sorts of strings: parameters, queries, lines of logs; what changes is packed |
//!
//! The bytes of raw and symbol columns may stand under a general codec (`chunk.rs`), as one chunk
//! that is decoded when the column is parsed; all else is read in place.
//!
//! Invariants
//! 1. Any bytes whatever give strings or [`BadBlock`](crate::block::BadBlock): no panic, no loop
//!    beyond the column, no memory beyond what its block's rows may take.
//!    What passed [`Strs::check`] gives strings.
//! 2. A column's length follows from its bytes and the number of its rows.
//! 3. Equal strings, model and plan give equal bytes.
//! 4. Strings compare as memcmp, in every kind.
//!
//! Threads: models are immutable and shared; encoders belong to one thread. Bytes: docs/format.md,
//! "String columns".

mod chunk;
mod dictionary;
mod encoder;
mod exceptions;
mod model;
mod plan;
mod prefix;
mod raw;
mod shape;
mod shape_even;
mod shape_training;
mod strings;
mod strs;
mod symbol_training;
mod symbols;
mod template_index;
mod template_training;
mod template_walk;
mod templated;
mod templates;
mod tokens;

pub use chunk::Chunked;
pub use encoder::{StrEncoder, Written};
pub use model::StringModel;
pub(in crate::block) use model::VERSION as MODEL_VERSION;
pub use plan::{Purpose, StrKind, StringPlan, Trained, train};
pub use shape_even::Apart;
pub use strings::{Strings, equal_short};
pub use strs::Strs;

#[cfg(test)]
mod tests;
