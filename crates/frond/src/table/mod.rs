//! Tables: a tree of rows and secondary indexes, each a tree of its own, that stay in step.
//!
//! A thin layer for programs that embed the engine: keys and rows are bytes, and what an index orders by is a
//! function of them that the program gives.
//!
//! | file | what it does |
//! |---|---|
//! | `spec.rs` | what a program says of a table |
//! | `form.rs` | what of that the catalog keeps |
//! | `entry.rs` | entries of indexes as bytes |
//! | `state.rs` | what all handles share |
//! | `open.rs` | tables created, opened, dropped; indexes dropped |
//! | `write.rs` | insert, put, update, delete |
//! | `read.rs` | a row by its key; an index to read by |
//! | `scan.rs` | rows in the order of an index |
//! | `columns.rs` | columns that come, go, and change names and places |
//! | `beside.rs` | entries that a transaction's own writes stand over |
//! | `build.rs` | an index of a table that is being written |
//! | `check.rs` | whether all is in step |
//!
//! Invariants
//! 1. At every commit each index has exactly the entries that its function gives of the rows.
//! 2. What the catalog says of a table changes in one commit: an index is there as a whole or not at all (Rule: I34).
//!
//! Threads: all; a transaction is one thread's at a time. Guide: docs/tables.md.

mod beside;
mod build;
mod check;
mod columns;
mod entry;
mod form;
mod open;
mod read;
mod scan;
mod spec;
mod state;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod write;

pub use build::BuildProgress;
pub use check::{TableFinding, TableReport};
pub use columns::ColumnChange;
pub use open::Table;
pub use read::TableIndex;
pub use scan::{IndexRow, IndexScan};
pub use spec::{Column, IndexInfo, IndexSpec, TableSpec};
