//! Duplicate keys: what an insert, a load or a unique index found.

use std::fmt;

/// A key that had to be new but already exists, and what it conflicts with
/// ([`Error::DuplicateKey`](crate::Error::DuplicateKey)).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Duplicate {
    /// `insert` found an existing key (FRD-1103). The batch had no effect.
    #[error(
        "FRD-1103 duplicate key: entry {entry} of the batch inserts a key that already exists in tree \"{tree}\"; nothing was written"
    )]
    InBatch {
        /// The tree.
        tree: String,
        /// Position in the batch, from 0.
        entry: usize,
        /// The key.
        key: Vec<u8>,
    },
    /// A load or build of a unique tree found a key twice (FRD-1104). Nothing of it remains.
    #[error(
        "FRD-1104 duplicate keys: two rows for unique tree \"{tree}\" have the same key; nothing was created"
    )]
    InLoad {
        /// The tree.
        tree: String,
        /// The key.
        key: Vec<u8>,
    },
    /// An insert found an existing key (FRD-1108). The row is locked; nothing else was done.
    #[error("FRD-1108 the key already exists in tree \"{tree}\"; nothing was written")]
    Row {
        /// The tree.
        tree: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Another row has the same bytes in a unique index (FRD-1113). Nothing was written.
    #[error(
        "FRD-1113 duplicate key in unique index \"{index}\" of table \"{table}\"; nothing was written"
    )]
    InIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The key of the other row.
        row: Vec<u8>,
    },
    /// Two rows have the same bytes in an index that was to be unique (FRD-1114). It was not built.
    #[error(
        "FRD-1114 duplicate keys in table \"{table}\": the unique index \"{index}\" was not built"
    )]
    InIndexBuild {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The keys of two such rows.
        rows: Vec<Vec<u8>>,
    },
}

impl fmt::Debug for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Duplicate {
    /// The name of the tree or table.
    pub(super) fn tree(&self) -> &str {
        match self {
            Self::InBatch { tree, .. } | Self::InLoad { tree, .. } | Self::Row { tree, .. } => tree,
            Self::InIndex { table, .. } | Self::InIndexBuild { table, .. } => table,
        }
    }

    /// The key; in an index, that of the row that was there first.
    pub(super) fn key(&self) -> Option<&Vec<u8>> {
        match self {
            Self::InBatch { key, .. } | Self::InLoad { key, .. } | Self::Row { key, .. } => {
                Some(key)
            }
            Self::InIndex { row, .. } => Some(row),
            Self::InIndexBuild { rows, .. } => rows.first(),
        }
    }
}
