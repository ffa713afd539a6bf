//! The report: a table on the terminal, and one self-contained page.
//!
//! Invariants
//! 1. Every number stands with its conditions: machine, versions, settings, memory, durability, seed.
//! 2. What Frond loses is shown as large as what it wins.

mod table;

pub use table::table;

use crate::results::{Conditions, Final, Row};
use crate::targets::{Result, TargetName};

/// The page.
pub fn page(_: &Conditions, _: &[(TargetName, Final)], _: &[Row]) -> Result<String> {
    Ok(String::new())
}
