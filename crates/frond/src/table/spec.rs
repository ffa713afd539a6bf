//! The program's definition of a table: its name, what is in its rows, and its indexes.

use std::fmt;

use crate::{
    SizeClass, TreeOptions,
    layout::{Layout, Part},
    sync::Arc,
};

/// Appends what an index orders a row by, from the row's key and value; returns false if the row
/// has no entry.
pub(super) type Extract = Arc<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> bool + Send + Sync>;

/// The program's definition of an index.
#[derive(Clone)]
pub struct IndexSpec {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) clustering: bool,
    pub(super) size_class: SizeClass,
    pub(super) extract: Extract,
}

impl fmt::Debug for IndexSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unique, clustering, size_class, .. } = self;
        f.debug_struct("IndexSpec")
            .field("name", name)
            .field("unique", unique)
            .field("clustering", clustering)
            .field("size_class", size_class)
            .finish_non_exhaustive()
    }
}

impl IndexSpec {
    /// A non-unique index. `extract` gets a row's key and value, and appends what the index orders
    /// it by, most easily with [`tuple`](crate::tuple); it returns false if the row is to have no
    /// entry. It must depend only on these bytes, be the same at every opening, and not panic.
    pub fn new(
        name: &str,
        extract: impl Fn(&[u8], &[u8], &mut Vec<u8>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            unique: false,
            clustering: false,
            size_class: SizeClass::default(),
            extract: Arc::new(extract),
        }
    }

    /// Makes the index unique: no two rows may have the same extracted bytes. For SQL semantics of
    /// nulls, of which there may be many, let `extract` return false for a row with a null: it has
    /// no entry.
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// Makes the index clustering: entries contain the row. Scans need no lookup in the table, and
    /// every change of a row writes an entry.
    pub fn clustering(mut self) -> Self {
        self.clustering = true;
        self
    }

    /// Sets the size class: size versus speed.
    pub fn size_class(mut self, class: SizeClass) -> Self {
        self.size_class = class;
        self
    }
}

/// The program's definition of a table; see [`Db::table`](crate::Db::table).
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub(super) name: String,
    pub(super) rows: TreeOptions,
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<IndexSpec>,
}

/// A column of a table's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// Its part in a row's bytes.
    pub part: Part,
}

impl Column {
    /// A column with this name and part.
    pub fn new(name: &str, part: Part) -> Self {
        Self { name: name.into(), part }
    }
}

impl TableSpec {
    /// A table with this name and no indexes.
    pub fn new(name: &str) -> Self {
        // So that checking a new key on insert costs no read.
        let rows = TreeOptions::new().unique(true);
        Self { name: name.into(), rows, columns: Vec::new(), indexes: Vec::new() }
    }

    /// Sets the size class and layouts of the rows, used if the table is created. The table sets
    /// the attributes itself.
    pub fn rows(mut self, options: TreeOptions) -> Self {
        self.rows = options;
        self
    }

    /// Sets the columns of the rows, which can later be added, dropped, renamed and moved
    /// ([`Table::change_columns`](crate::Table::change_columns)). A row consists of the version of
    /// its table's columns in two bytes, big-endian (0 in a new table; see
    /// [`Tree::layout_version`](crate::Tree::layout_version) of
    /// [`Table::rows`](crate::Table::rows)), and the columns' parts in their order.
    pub fn columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = columns;
        self
    }

    /// Adds an index.
    pub fn index(mut self, index: IndexSpec) -> Self {
        self.indexes.push(index);
        self
    }
}

/// An existing index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// Whether it is unique: no two rows have the same extracted bytes.
    pub unique: bool,
    /// Whether entries contain the row.
    pub clustering: bool,
    /// The name of the tree of its entries, for statistics.
    pub tree: String,
}

impl TableSpec {
    /// The options of the tree of the rows.
    pub(super) fn tree_of_rows(&self) -> TreeOptions {
        let mut rows = self.rows.clone();
        if !self.columns.is_empty() {
            rows.value_layout =
                Some(Layout::versioned(self.columns.iter().map(|column| column.part)));
        }
        rows
    }
}
