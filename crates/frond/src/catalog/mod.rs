//! The catalog: the trees with their options and merge operators, the definitions of tables, named
//! snapshots, and prepared transactions. It is stored as entries of tree 0.
//!
//! Bytes: docs/format.md, "Catalog records".

mod counters;
mod prepared;
mod queue;
mod record;
mod table;
mod trees;

pub(crate) use prepared::{Pieces, pieces};
pub(crate) use queue::ChangeQueue;
pub use record::{
    ATTRIBUTES_BYTES_MAX, BUILD_ATTRIBUTES, CounterRecord, DroppedRecord, NAME_BYTES_MAX, Parent,
    PreparedPiece, RECORD_BYTES_MAX, Record, SnapshotRecord, TABLE_ATTRIBUTES, TreeRecord,
    validate_name,
};
pub(crate) use table::{StoredIndex, StoredTable, check_columns, is_table};
pub(crate) use trees::{CATALOG_TREE, Catalog, KeptPlace, TreeEntry};
