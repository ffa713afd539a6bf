//! The SQL face: runs the steps of a cell on a MariaDB server, and verifies their results.
//!
//! Invariants
//! 1. Every target gets the same statements from the same client, over a Unix socket unless a URL
//!    names another way.
//! 2. Deadlocks and lock timeouts are counted and retried, and duplicate keys are counted; any
//!    other error ends the cell.

mod bench;
mod counters;
mod foreign;
mod guard;
mod insert;
mod own;
pub mod process;
mod promises;
mod recovery;
mod rest;
mod server;
mod session;
mod settings;
mod sum;
#[cfg(test)]
mod tests;
mod verify;
mod worker;

pub use bench::{Bench, Concurrent, Conditions};
pub use foreign::target as foreign_target;
pub use insert::{InsertText, push_hexadecimal};
pub use process::remove_stale;
pub use server::Place;
pub use session::{Session, SqlResult, Statement, Value, number_of, text_of};
pub use sum::RowSum;
pub use worker::{Connect, Worker};
