//! Result rows: one for each target and step, with one field for each measured column.
//!
//! Invariants
//! 1. A column that was not measured is absent, never zero.
//! 2. The unit is part of a column's name.
//! 3. Generator CPU, taken from the null target's row of the same step, is subtracted from
//!    `cpu_us_op` and `cpu_fg_us_op` and shown as `cpu_generator_us_op`.

mod goals;
mod part;
mod row;
mod yardstick;

pub use goals::{Verdict, goals, is_target};
pub use part::PartSize;
pub use row::{Final, Row, Verified, subtract_generator};
pub use yardstick::Yardstick;

use serde::{Deserialize, Serialize};

/// The conditions of a run, without which its numbers are not published.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// Workload.
    pub workload: String,
    /// Number of rows asked for.
    pub rows: u64,
    /// Memory, bytes.
    pub memory_b: u64,
    /// Durability class.
    pub durability: String,
    /// Seed of the generators.
    pub seed: u64,
    /// Version of Frond and how it was built.
    pub frond: String,
    /// CPU model and count.
    pub cpu: String,
    /// Memory of the machine, bytes.
    pub machine_memory_b: u64,
    /// Kernel.
    pub kernel: String,
    /// File system of the directory.
    pub file_system: String,
    /// Start time, seconds since 1970.
    pub began_unix_s: u64,
    /// Load average at the start.
    pub load_average: String,
    /// Whether targets were given time to quiesce after writes.
    pub quiesce: bool,
    /// Time limit for a target, seconds, if there is one.
    pub time_limit_s: Option<u64>,
}
