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

mod cell;
mod cli;
mod compare;
mod embedded;
mod exchange;
mod goals;
pub mod machine;
pub mod metric;
mod params;
mod progress;
pub mod report;
pub mod results;
mod run;
mod size;
mod sql;
mod statistics;
mod steps;
mod storage;
mod suggest;
mod suites;
mod target;
mod time;
mod version;
mod workloads;

pub use cli::main;
