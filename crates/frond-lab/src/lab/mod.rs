//! The lab: runs each experiment with one command, stores its results in a database, and renders
//! them as web pages.
//!
//! ```text
//!  cli ─► run (plan, interleave, resume) ─► cell (a process each) ─► workloads ─► sql │ embedded
//!   │                │                                             └─► measure
//!   └─► report ◄─ results (SQLite) ◄──┘
//! ```
//!
//! A workload is a file below `workloads/` and a line in its registry. A SQL target is a file below
//! `lab/targets/`. A metric is a line in `metric.rs`. docs/lab.md shows one of each.

pub mod bench;
mod cell;
mod cell_spec;
mod cli;
mod compare;
mod device_io;
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
mod setup;
mod size;
mod sql;
mod statistics;
mod stdout;
mod step;
mod storage;
mod suggest;
mod suites;
mod syncs;
mod target;
mod time;
mod version;
mod workloads;

pub use cell::main as cell;
pub use cli::main;
