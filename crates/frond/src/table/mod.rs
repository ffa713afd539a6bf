//! Tables: a tree of rows, and secondary indexes that every write keeps consistent with it, each a
//! tree of its own.
//!
//! A thin layer for programs that embed the engine: keys and rows are bytes, and the program
//! provides the function that extracts what an index orders by.
//!
//! | file | what it does |
//! |---|---|
//! | `spec.rs` | the program's definition of a table |
//! | `entry.rs` | encoding of index entries |
//! | `state.rs` | the state shared by all handles |
//! | `open.rs` | creating, opening and dropping tables; dropping indexes |
//! | `write.rs` | insert, put, update, delete |
//! | `delete_range.rs` | deleting all rows in a range |
//! | `read.rs` | reading a row by its key, or by an index |
//! | `scan.rs` | rows in the order of an index |
//! | `hidden_entries.rs` | index entries that a transaction's own writes hide |
//! | `columns.rs` | adding, dropping, renaming and moving columns |
//! | `build.rs` | building an index of a table that is being written |
//! | `check.rs` | checking that index entries match the rows |
//!
//! Invariants
//! 1. At every commit each index has exactly the entries that its function extracts from the rows.
//! 2. The catalog's definition of a table changes in one commit: an index exists as a whole or not
//!    at all (Rule: I34).
//!
//! Reads take a [`Reader`](crate::Reader), which is a `Db`, a `Snapshot` or a `Txn`. Reads that
//! lock, and writes, take a `Txn`.
//!
//! Threads: all; a transaction belongs to one thread at a time. Guide: docs/tables.md.

// The documentation shows the calls of a type in the order of modules: first the most used.
mod read;
mod write;

mod delete_range;

mod build;
mod check;
mod columns;
mod entry;
mod hidden_entries;
mod open;
mod scan;
mod spec;
mod state;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use build::BuildProgress;
pub use check::{TableFinding, TableReport};
pub use columns::ColumnChange;
pub use open::Table;
pub use read::TableIndex;
pub use scan::{IndexRow, IndexRows, IndexScan};
pub use spec::{Column, IndexInfo, IndexSpec, TableSpec};
