//! Results: one SQLite file (schema.sql).
//!
//! Invariants
//! 1. A cell is written in one transaction when it has ended, synced: a kill loses no finished cell.
//! 2. A file of a newer schema, or one that is damaged or no database of the lab's, is refused and not written to.

mod cell;
mod database;
mod read;
#[cfg(test)]
pub mod testing;
mod write;

pub use cell::{CellResult, CounterSample, Latencies, State, StepResult, Verification};
pub use database::Database;
pub use read::{Measured, RunInfo};
pub use write::{CellKey, PARTS, RunHead};
