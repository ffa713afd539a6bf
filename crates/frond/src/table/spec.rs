//! What a program says of a table: how it is called, what is in its rows, which indexes it has.

use std::fmt;

use crate::{Layout, Part, SizeClass, TreeOptions, sync::Arc};

/// Appends what an index orders a row by, from the row's key and value; false if the row has no entry.
pub(super) type Extract = Arc<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> bool + Send + Sync>;

/// An index, as the program defines it.
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
    /// An index in which any number of rows may have the same. `extract` gets a row's key and value, and appends what
    /// the index orders it by, most easily by [`tuple`](crate::tuple); it returns false if the row is to have no
    /// entry. It must be a function of these bytes alone, the same at every opening, and not panic.
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

    /// No two rows may have the same. A row whose value has a null there, of which there may be many, has no entry:
    /// `extract` returns false.
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// Entries carry the row: scans need no look at the table, and every change of a row writes an entry.
    pub fn clustering(mut self) -> Self {
        self.clustering = true;
        self
    }

    /// Size against speed.
    pub fn size_class(mut self, class: SizeClass) -> Self {
        self.size_class = class;
        self
    }
}

/// A table, as the program defines it; see [`Db::table`](crate::Db::table).
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
    /// What it is called.
    pub name: String,
    /// What it is in a row's bytes.
    pub part: Part,
}

impl Column {
    /// A column of this name.
    pub fn new(name: &str, part: Part) -> Self {
        Self { name: name.into(), part }
    }
}

impl TableSpec {
    /// A table of this name, without indexes.
    pub fn new(name: &str) -> Self {
        // An insert's check of a new key costs no read.
        let rows = TreeOptions { unique: true, ..Default::default() };
        Self { name: name.into(), rows, columns: Vec::new(), indexes: Vec::new() }
    }

    /// Size class and layouts of the rows, if the table is created. Attributes are the table's own.
    pub fn rows(mut self, options: TreeOptions) -> Self {
        self.rows = options;
        self
    }

    /// The columns of the rows, which can come, go, and change names and places later
    /// ([`Table::change_columns`](crate::Table::change_columns)). A row is the version of its table's columns, two bytes,
    /// big-endian (0 in a new table; [`Tree::layout_version`](crate::Tree::layout_version) of
    /// [`Table::rows`](crate::Table::rows) says it), and the columns' parts in their order.
    pub fn columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = columns;
        self
    }

    /// One index more.
    pub fn index(mut self, index: IndexSpec) -> Self {
        self.indexes.push(index);
        self
    }
}

/// An index that a table has.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// No two rows have the same.
    pub unique: bool,
    /// Entries carry the row.
    pub clustering: bool,
    /// The tree of its entries, by name: for statistics.
    pub tree: String,
}

impl TableSpec {
    /// What the tree of the rows is to be like.
    pub(super) fn tree_of_rows(&self) -> TreeOptions {
        let mut rows = self.rows.clone();
        if !self.columns.is_empty() {
            rows.value_layout =
                Some(Layout::versioned(self.columns.iter().map(|column| column.part)));
        }
        rows
    }
}
