//! Columnar blocks: rows stored field by field, with the same interface as row blocks.
//!
//! The layouts of a tree describe the fields of its keys and values; a columnar block stores each
//! field of all its rows as a [column](mod@super::encoding). A search proceeds from key column to
//! key column, each within the rows left over by the previous one; a point read takes one row from
//! the requested columns; a scan decodes a few hundred rows at a time. Nothing needs to be
//! decompressed first.
//!
//! ```text
//! block    version u8 | flags u8 | rows u16 | raw bytes u32 |
//!          where each column ends, u16 or u32 each | columns | 8 bytes 0
//! columns  tags | parts of the key | parts of the value | other payloads
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `columns.rs` | the columns, derived from a tree's layouts |
//! | `frame.rs` | the places of a block's columns |
//! | `difference.rs` | columns stored as the difference to another |
//! | `line.rs` | linear functions that columns may be differences to |
//! | `reference.rs` | string columns that refer to others |
//! | `search.rs` | finding the row of a key |
//! | `row.rs` | one row from its columns; point lookup |
//! | `vector.rs` | many rows from their columns |
//! | `lines.rs` | whole rows, assembled from columns |
//! | `spare.rs` | memory that is passed from one vector to the next |
//! | `rows.rs` | a position in a block |
//! | `check.rs` | checking a whole block |
//! | `unpack.rs` | unpacked blocks: faster to read, for a cache with free space |
//! | `weigh.rs` | the size of each column |
//! | `builder.rs`, `pushed_rows.rs` | rows in, block out; rows as pushed, and the ends of their columns |
//! | `writer.rs` | choosing each column's encoding, from block to block |
//! | `samples.rs` | training samples for models of strings |
//!
//! Invariants
//! 1. A columnar block returns the rows that were pushed, byte for byte, whether they fit the
//!    layouts or not, and answers every search as memcmp of whole keys does.
//! 2. Arbitrary bytes yield rows or [`BadBlock`](super::BadBlock), never a panic, no endless loop,
//!    and no more memory than rows and columns allow. A block that passed [`check()`] is read
//!    without an error.
//! 3. If keys do not fit their layout, the block loses its key columns, not its rows: all its keys
//!    are then one prefix-compressed string column. A value that does not fit is stored with the
//!    other payloads.
//! 4. Parsing a block reads its header only; a column is parsed only when a row of it is needed.
//!
//! Threads: blocks and [`Columns`] are immutable; builders and positions belong to one thread.
//! Bytes: docs/format.md, "Columnar block". Why: docs/design/012-columnar-blocks.md.

mod builder;
mod check;
mod columns;
mod difference;
mod frame;
mod line;
mod lines;
mod pushed_rows;
mod reference;
mod row;
mod rows;
mod samples;
mod search;
mod spare;
mod unpack;
mod vector;
mod weigh;
mod writer;

pub use builder::ColumnarBuilder;
pub use check::{check, check_into};
pub use columns::{ColumnSelection, Columns};
pub use difference::Against;
pub use frame::{ColumnarBlock, Models};
pub use lines::EvenLines;
#[cfg(test)]
pub use row::find;
pub use row::find_selected;
pub use rows::ColumnarRows;
pub use samples::Samples;
pub use search::rows_below;
pub use unpack::unpack;
pub use vector::Even;
pub use weigh::{ColumnOf, ColumnWeight, Encoding, weigh};
pub use writer::{ChunkCounts, Plans};

#[cfg(test)]
mod tests;
