//! Trees of tables: what would put their rows and indexes out of step is refused.
//!
//! A handle that a program has opened reads such a tree, and cannot write it. The handles of the
//! table's own code can ([`Tree::for_table`]). Which trees belong to a table is noted where the
//! catalog shows the definition (`catalog/trees.rs`), so no handle is older than that.
//!
//! Threads: all. Cost: one atomic load per write, from the catalog entry whose end the write checks
//! anyway.

use crate::{
    Error, Result, TreeId,
    db::{Shared, Tree},
};

/// How a table is written.
const WRITE: &str =
    "write rows by Table::put, Table::delete and the like, which keep the indexes in step";

impl Tree {
    /// The name of the table to which the tree belongs: as the tree of its rows, which has the name
    /// of the table, or as one of its indexes. A `Tree` can read such a tree, but only the
    /// [`Table`](crate::Table) can write it. If the handle was opened through a snapshot, the table
    /// is that of the snapshot.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let words = db.table(frond::TableSpec::new("words"))?;
    /// let tree = db.open_tree("words")?;
    /// assert_eq!(tree.table().as_deref(), Some("words"));
    /// assert!(matches!(tree.put(b"k", b"v"), Err(frond::Error::InvalidArgument(_))));
    /// db.transact(|txn| words.put(txn, b"k", b"v"))?;
    /// assert_eq!(tree.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// # drop((words, tree));
    /// # db.close()
    /// # }
    /// ```
    pub fn table(&self) -> Option<String> {
        match &self.then {
            Some(then) => then.table.clone(),
            None => Some(self.shared.tree_name(self.entry.table()?)),
        }
    }

    /// A handle for the code of tables, which writes rows and index entries together.
    pub(crate) fn for_table(mut self) -> Self {
        self.is_of_table = true;
        self
    }

    /// Fails if the tree belongs to a table, unless this is the table's own handle.
    #[inline]
    pub(in crate::db) fn must_not_bypass_table(&self) -> Result<()> {
        match self.entry.table() {
            Some(_) if !self.is_of_table => self.bypasses_table(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn bypasses_table(&self) -> Result<()> {
        if plant!("db: trees of tables are written directly") {
            return Ok(());
        }
        self.shared.must_be_of_no_table(self.entry.id, WRITE)
    }
}

impl Shared {
    /// Fails if the tree belongs to a table; `instead` says what to do with one.
    pub(in crate::db) fn must_be_of_no_table(&self, tree: TreeId, instead: &str) -> Result<()> {
        let Some(rows) = self.catalog.by_id(tree).and_then(|entry| entry.table()) else {
            return Ok(());
        };
        let (tree_name, table) = (self.tree_name(tree), self.tree_name(rows));
        Err(Error::InvalidArgument(match tree == rows {
            true => format!("\"{table}\" is a table: {instead}"),
            false => format!("\"{tree_name}\" is an index of table \"{table}\": {instead}"),
        }))
    }

    /// Fails if the tree is an index of a table: the table's name is that of its rows' tree.
    pub(in crate::db) fn must_be_no_index(&self, tree: TreeId) -> Result<()> {
        match self.catalog.by_id(tree).and_then(|entry| entry.table()) {
            Some(rows) if rows != tree => self.must_be_of_no_table(tree, "it keeps its name"),
            _ => Ok(()),
        }
    }
}

/// A handle that writes a tree although it belongs to a table, for tests of tables that are out of
/// step.
#[cfg(feature = "internals")]
pub fn bypass_table(tree: &Tree) -> Tree {
    tree.clone().for_table()
}
