//! The lab: workloads, the stores that they run against, measurement, and the report.
//!
//! ```text
//!  lab (commands, runs, results, reports) ─► workloads ─► targets
//!                                     │          └─► data (generators)
//!                                     └─► measure
//! ```
//!
//! The lab uses Frond only through its public interface. Without the feature `lab` this library is
//! empty: it needs the libraries of the rivals.
#![cfg(feature = "lab")]

mod data;
mod decode;
pub mod lab;
mod layout;
mod machine;
mod measure;
mod random;
mod schema;
mod size;
mod targets;

pub use targets::Failure;
