//! The test kit of Frond: a simulated disk, a model, generated operations, and the campaigns that
//! combine them. For `tests/` folders, fuzz targets and the lab; no product code uses it.
//!
//! | module | what |
//! |---|---|
//! | [`disk`] | `SimVfs`: durable images plus pending operations; faults; all states that a crash can leave |
//! | [`model`] | the expected rows: a map per tree with its whole history, and which states are
//! legal after a crash |
//! | [`ops`] | operations as data: text form, seeded generator, shrinker |
//! | [`drive`] | the `Engine` under test, and the driver that runs a script on it and on the model |
//! | [`history`] | what concurrent transactions saw of each other, and the anomalies in it |
//! | [`campaign`] | crash at every call, fail the n-th call, fill the disk, sweep damage over a closed store |
//!
//! One seed determines everything. A failure prints the seed, the script, the call and the state of
//! the disk, and can be replayed from the script alone.
//!
//! The crate depends on `frond` and is a dev-dependency of it, so it can serve only scenario tests
//! in `crates/frond/tests/`: inside `frond`'s own unit tests its types belong to another build of
//! the crate.

#![deny(missing_docs)]

pub mod campaign;
mod db_engine;
mod dice;
pub mod disk;
pub mod drive;
pub mod effort;
pub mod history;
pub mod model;
pub mod ops;

pub use db_engine::DbEngine;
pub use dice::Dice;
