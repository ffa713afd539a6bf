//! Loading many rows at once: bulk loads into new or empty trees, and builds of indexes.
//!
//! Threads: a load has one owner.

mod build;
mod bulk;
mod bulk_fill;
mod loader;

pub use build::{IndexBuild, RowChanged};
pub use bulk::{BulkLoad, BulkLoaded};
pub(super) use loader::{Loader, Made};
