//! The tree: immutable nodes of pivots, children and buffered runs; a batch and a root make a new
//! root.
//!
//! Entry points: [`TreeRoot`] (a root and its maximum) with `get` and `stretch` for readers;
//! [`Job`], a root-changing job: `apply`, `drain`; [`TreeBuilder`], which builds a tree bottom-up
//! from ascending rows.
//!
//! The tree knows nothing of the log, transactions or seqnos: it sees only sorted batches. The
//! checkpoint decides where a page is written; the tree links descriptors.
//!
//! Threads: readers need no lock; one job per tree (Rule: I8).

mod apply;
mod build;
mod context;
mod cut;
mod damage;
mod drain;
mod estimate;
mod front;
mod get;
mod get_many;
mod leaf;
mod leaf_walk;
mod meta;
mod node;
mod page;
mod piece;
mod root;
mod run_cache;
mod scan;
mod settle;
mod sorted_runs;
mod sums;
#[cfg(all(test, not(shuttle)))]
pub(crate) mod tests;

pub(crate) use apply::{Batch, Job, TreeRoot, clip};
pub(crate) use build::{Built, TreeBuilder};
pub use context::Shape;
pub(crate) use context::{Begun, Effects, TreeContext, TreeCounters, TreeTraits};
pub(crate) use damage::Damaged;
pub(crate) use estimate::{Held, Look};
pub(crate) use front::Front;
pub(crate) use get_many::Lacking;
pub(crate) use meta::Measured;
#[cfg(test)]
pub(crate) use meta::RunMeta;
#[cfg(test)]
pub(crate) use node::Tier;
pub(crate) use node::{Child, Node, NodeRef, Root, RunHandle, RunSlice};
#[cfg(test)]
pub(crate) use page::encode_node;
pub(crate) use page::{OTHER_LEVEL, parse_node, seal_node};
pub(crate) use run_cache::Descriptors;
pub(crate) use scan::{LeafStretch, Position};
pub(crate) use sorted_runs::{SortedRuns, SortedRunsCursor, SortedRunsWriter};
pub(crate) use sums::sums_below;
