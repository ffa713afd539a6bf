//! The lab: workloads, the stores that they run against, measurement, and the report.
//!
//! ```text
//!  bench ─► parent ─► child (own process) ─► workloads ─► targets
//!    │                                          │
//!    └─► report ◄─ results ◄──────────────── measure
//! ```
//!
//! The lab uses Frond only through its public interface.
#![cfg_attr(not(feature = "lab"), allow(dead_code, unused_imports))] // what only `lab` uses

pub mod bench;
mod child;
mod decode;
mod goals;
#[cfg(feature = "lab")]
pub mod lab;
mod layout;
mod machine;
mod measure;
mod parent;
mod plan;
mod random;
mod report;
mod results;
mod schema;
mod size;
mod targets;
mod workloads;

pub use targets::Failure;
