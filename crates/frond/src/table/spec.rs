//! The program's definition of a table: its name, the layout or columns of its rows, and its
//! indexes.

use std::{error, fmt};

use crate::{
    SizeClass, TreeOptions,
    layout::{Layout, Part},
    sync::Arc,
};

/// Whether a row has an entry, or why that cannot be determined.
type Extracted = Result<bool, Box<dyn error::Error + Send + Sync>>;

/// A function that appends the bytes by which an index orders a row, computed from the row's key
/// and value; returns false if the row has no entry.
pub(super) type Extract = Arc<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Extracted + Send + Sync>;

/// The program's definition of an index.
#[derive(Clone)]
#[must_use = "a definition has no effect until a table is opened with it"]
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
    /// it by, most easily with [`tuple`](crate::tuple); it returns `Ok(false)` if the row is to
    /// have no entry. It must depend only on these bytes, and be the same at every opening.
    ///
    /// A row for which it fails, with any error, is not written: the call returns
    /// [`IndexFunction`](crate::Error::IndexFunction) with that error.
    ///
    /// ```
    /// use frond::{tuple, IndexSpec};
    /// use std::borrow::Cow;
    ///
    /// // A row: the tuple of a name and a city, which are read without a copy.
    /// let by_city = IndexSpec::new("city", |_key, row, out| {
    ///     let (_name, city): (Cow<str>, Cow<str>) = tuple::decode(row)?;
    ///     out.extend_from_slice(city.as_bytes());
    ///     Ok(!city.is_empty())
    /// });
    /// ```
    pub fn new(
        name: &str,
        extract: impl Fn(
            &[u8],
            &[u8],
            &mut Vec<u8>,
        ) -> Result<bool, Box<dyn error::Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
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
#[must_use = "a definition has no effect until a table is opened with it"]
pub struct TableSpec {
    pub(super) name: String,
    pub(super) rows: TreeOptions,
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<IndexSpec>,
    pub(super) builds_missing: bool,
}

/// A column of a table's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The part in a row's bytes.
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
        // `unique`, so that checking a new key on insert costs no read.
        let rows = TreeOptions::new().unique(true);
        let (columns, indexes) = (Vec::new(), Vec::new());
        Self { name: name.into(), rows, columns, indexes, builds_missing: false }
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

    /// Whether opening the table builds the indexes that this definition has and the stored one
    /// does not, as [`Table::build_index`](crate::Table::build_index) does. Default: no, opening
    /// fails. Opening then takes as long as the builds, which wait for transactions that have
    /// written the table, prepared ones included; other transactions are not delayed.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{IndexSpec, TableSpec};
    ///
    /// let words = db.table(TableSpec::new("words"))?;
    /// db.transact(|txn| words.insert(txn, "1", "frond"))?;
    /// // A later version of the program orders words by their length, too.
    /// let length = IndexSpec::new("length", |_key, word, out| {
    ///     out.push(word.len().try_into()?);
    ///     Ok(true)
    /// });
    /// let words = db.table(TableSpec::new("words").index(length).build_missing(true))?;
    /// assert_eq!(words.index("length")?.range(&db, [5]..=[5]).count(), 1);
    /// # drop(words);
    /// # db.close()
    /// # }
    /// ```
    pub fn build_missing(mut self, builds: bool) -> Self {
        self.builds_missing = builds;
        self
    }
}

/// An existing index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The name.
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
