//! The database of results: one SQLite file (schema.sql).
//!
//! Invariants
//! 1. A finished cell is written in one synced transaction, so a kill loses no finished cell.
//! 2. A file that has a newer schema, is damaged, or is not a database of the lab is refused and
//!    never written to.

mod cell;
mod database;
mod error;
mod read;
#[cfg(test)]
pub mod testing;
mod write;

pub use cell::{CellResult, CounterSample, Latencies, State, StepResult, UNCHECKED, Verification};
pub use database::Database;
pub use error::{Reason, ResultsError};
pub use read::{CellParameter, Measured, RunInfo};
pub use write::{CellKey, OWNER, PARTS, RunHead, remove_cell};
