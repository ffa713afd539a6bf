//! Tests of the store as a whole, on files in memory.

mod basics;
mod damage;
mod directory;
mod dropped_trees;
mod fallback;
mod faults;
mod hostile;
mod model;
#[cfg(feature = "planted-bugs")]
mod planted;
