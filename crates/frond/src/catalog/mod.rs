//! The catalog: trees with the merge operators they use, and named snapshots, kept as entries of tree 0.
//!
//! Bytes: docs/format.md, "Catalog records".

mod record;
mod trees;

pub use record::{
    ATTRIBUTES_BYTES_MAX, CounterRecord, DroppedRecord, NAME_BYTES_MAX, Parent, RECORD_BYTES_MAX,
    Record, SnapshotRecord, TreeRecord, validate_name,
};
pub(crate) use trees::{CATALOG_TREE, Catalog, TreeEntry};
