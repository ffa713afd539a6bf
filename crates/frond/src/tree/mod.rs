//! The tree: immutable nodes of pivots, children and waiting runs; a batch and a root make a new root.
//!
//! Doors: [`TreeRoot`] (a root and its maximum), [`Job`] (a root-changing job: `apply`, `drain`),
//! [`TreeRoot::get`] and [`TreeScan`] for readers, [`walk`] for whoever must see every page.
//!
//! The tree knows no log, no transactions and no seqnos: only sorted batches. Where a page lives is
//! decided by the checkpoint; the tree links descriptors.
//!
//! Threads: readers need nothing; one job a tree (Rule: I8).

mod apply;
mod context;
mod get;
mod leaf;
mod node;
mod page;
mod scan;
mod settle;

pub(crate) use apply::{Batch, Job, TreeRoot};
pub(crate) use context::{Descriptors, Effects, TreeContext, TreeCounters, TreeTraits};
pub use context::Shape;
pub(crate) use get::Lookup;
pub(crate) use node::{Child, Node, NodeRef, Root, RunHandle, RunMeta};
pub(crate) use page::{encode_node, put_link, read_link};
pub(crate) use scan::TreeScan;
