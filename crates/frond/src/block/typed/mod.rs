//! Typed blocks: rows kept by part, behind the questions that a run asks any block.
//!
//! A tree that has layouts says what its keys and values are made of; a typed block keeps each part of all
//! its rows as a [column](mod@super::column). A search goes from key column to key column, each within
//! the rows that the one before left over; a point read takes one row out of the columns that were
//! asked for; a scan decodes some hundred rows at a time. Nothing is decompressed first.
//!
//! ```text
//! block    version u8 | flags u8 | rows u16 | raw bytes u32 | where each column ends, u16 or u32 each |
//!          columns | 8 bytes 0
//! columns  tags | parts of the key | parts of the value | other payloads
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `columns.rs` | which columns a tree's layouts make |
//! | `frame.rs` | where a block's columns lie |
//! | `difference.rs` | columns that are the difference to another |
//! | `line.rs` | lines that columns may be differences to |
//! | `quotes.rs` | columns of strings that quote others |
//! | `search.rs` | the row of a key |
//! | `row.rs` | one row out of its columns; point lookup |
//! | `vector.rs` | many rows out of their columns |
//! | `lines.rs` | rows side by side, put together of columns |
//! | `spare.rs` | memory that goes from one vector to the next |
//! | `rows.rs` | a position in a block |
//! | `check.rs` | everything a block must be |
//! | `unpack.rs` | a block as a cache with room keeps it |
//! | `weigh.rs` | what each column takes |
//! | `builder.rs`, `held.rs` | rows in, block out; rows as they came, and where their columns end |
//! | `writer.rs` | how each column is best written, from block to block |
//! | `samples.rs` | what models of strings are made from |
//!
//! Invariants
//! 1. A typed block gives back the rows that were pushed, byte by byte, whether they fit the layouts or
//!    not, and answers every search as memcmp of whole keys does.
//! 2. Any bytes whatever give rows or [`BadBlock`](super::BadBlock), never a panic, no loop and no memory
//!    beyond what rows and columns allow. What passed [`check`] is read without an error.
//! 3. Keys that do not fit their layout cost the block its key columns, not its rows: all its keys are then
//!    one string column, cut by prefixes. A value that does not fit stands with the other payloads.
//! 4. Parsing a block reads its header only; a column is looked at when a row of it is wanted.
//!
//! Threads: blocks and [`Columns`] are immutable; builders and positions belong to one thread. Bytes:
//! docs/format.md, "Typed block". Why it is so: docs/design/012-typed-blocks.md.

mod builder;
mod check;
mod columns;
mod difference;
mod frame;
mod held;
mod line;
mod lines;
mod quotes;
mod row;
mod rows;
mod samples;
mod search;
mod spare;
mod unpack;
mod vector;
mod weigh;
mod writer;

pub use builder::TypedBuilder;
pub use check::{check, check_into};
pub use columns::{Columns, Projection};
pub use difference::Against;
pub use frame::{Models, Typed};
pub use lines::EvenLines;
#[cfg(test)]
pub use row::find;
pub use row::find_parts;
pub use rows::TypedRows;
pub use samples::Samples;
pub use search::rows_below;
pub use unpack::unpack;
pub use vector::Even;
pub use weigh::{ColumnOf, ColumnWeight, Encoding, weigh};
pub use writer::{ChunkCounts, Plans};

#[cfg(test)]
mod tests;
