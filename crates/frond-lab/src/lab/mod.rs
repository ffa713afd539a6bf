//! The lab: every experiment with one command, its results in a database, and pages of them.
//!
//! ```text
//!  cli ─► run (plan, order, resume) ─► cell (a process each) ─► workloads ─► sql │ embedded
//!   │                │                                             └─► measure
//!   └─► report ◄─ results (SQLite) ◄──┘
//! ```
//!
//! A workload is a file below `workloads/` and a line in its registry, a SQL target a file below `lab/targets/`, a metric
//! a line in `metric.rs`. docs/lab.md shows one of each.

mod cli;
pub mod machine;
pub mod metric;
pub mod results;

pub use cli::main;
