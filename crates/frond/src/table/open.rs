//! Creating, opening and dropping tables; dropping indexes.
//!
//! Invariants
//! 1. In an open store a table has one [`TableState`], however many handles there are: it is looked
//!    up, created and replaced under the lock of the place where the catalog keeps it
//!    ([`KeptPlace`](crate::catalog::KeptPlace)).
//! 2. Trees that a build has left behind are dropped once no transaction can hold locks on rows of
//!    them; a prepared transaction may hold such locks for a long time.
//!
//! Threads: all.

use std::any::Any;

use crate::{
    Db, Error, Result, Tree, TreeId, TreeOptions,
    db::{ExclusiveTreeLock, ExclusiveWait, StoredIndex, StoredTable, check_columns, is_table},
    layout::Part,
    sync::{Arc, Weak},
};

use super::{
    spec::{IndexInfo, IndexSpec, TableSpec},
    state::{Definition, IndexState, TableState},
};

/// A tree of rows, and the indexes that are kept in step with it: see [`Db::table`].
///
/// Cheap to clone, and usable from all threads concurrently; a handle keeps the store open. Writes
/// go through a [`Txn`](crate::Txn).
#[derive(Clone)]
pub struct Table {
    pub(super) db: Db,
    pub(super) state: Arc<TableState>,
    /// The rows, in the layout version that the handle knows.
    pub(super) rows: Tree,
}

short_debug!(Table, "Table", |table| table.name());

impl Db {
    /// Opens a table, or creates it if none has this name.
    ///
    /// The definition must list exactly the stored indexes, each as it was made. To add an index to
    /// a table that has rows, use [`TableSpec::build_missing`], or open the table without the index
    /// and call [`Table::build_index`]. To remove one, call [`drop_index`](Self::drop_index) before
    /// the table is opened without it. If an open store has several handles of a table, all use the
    /// functions that the first one was given.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{Duplicate, Error, IndexSpec, TableSpec};
    ///
    /// // A row is a mail address and a city, with a comma between.
    /// fn part<'r>(row: &'r [u8], number: usize) -> Result<&'r str, std::str::Utf8Error> {
    ///     Ok(std::str::from_utf8(row)?.split(',').nth(number).unwrap_or_default())
    /// }
    /// let people = db.table(
    ///     TableSpec::new("people")
    ///         .index(IndexSpec::new("mail", |_key, row, out| {
    ///             out.extend_from_slice(part(row, 0)?.as_bytes());
    ///             Ok(!out.is_empty()) // no address, no entry
    ///         }).unique())
    ///         .index(IndexSpec::new("city", |_key, row, out| {
    ///             out.extend_from_slice(part(row, 1)?.as_bytes());
    ///             Ok(true)
    ///         })),
    /// )?;
    ///
    /// db.transact(|txn| {
    ///     people.insert(txn, "1", "ada@example.org,London")?;
    ///     people.insert(txn, "2", ",Oslo")?;
    ///     let taken = people.insert(txn, "3", "ada@example.org,Paris");
    ///     assert!(matches!(taken, Err(Error::DuplicateKey(Duplicate::InIndex { index, row, .. }))
    ///         if index == "mail" && row == b"1"));
    ///     let broken = people.insert(txn, "3", b"\xff");
    ///     assert!(matches!(broken, Err(Error::IndexFunction { .. })));
    ///     Ok(())
    /// })?;
    ///
    /// let (key, row) = people.index("mail")?.get(&db, "ada@example.org")?.expect("a row");
    /// assert_eq!((&key[..], &row[..]), (&b"1"[..], &b"ada@example.org,London"[..]));
    /// let mut cities = people.index("city")?.scan(&db, "M"..)?;
    /// let found = cities.next()?.expect("a city");
    /// assert_eq!((found.extracted, found.key), (&b"Oslo"[..], &b"2"[..]));
    /// # drop(cities); drop(people);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TableMismatch` if the definition does not match what is stored, or the tree with this name
    /// is not a table; the message says what to do. `InvalidArgument` for names that are not
    /// allowed; `TreeExists` if another tree has the name of an index's tree; the errors of a
    /// commit. If it builds an index: those of [`Table::build_index`], in particular `LockBusy`
    /// while another handle builds one.
    pub fn table(&self, spec: TableSpec) -> Result<Table> {
        check(&spec)?;
        loop {
            let rows = match self.open_tree(&spec.name) {
                Err(Error::NoSuchTree(_)) => match self.create_table(&spec) {
                    // Another thread created it meanwhile.
                    Err(Error::TreeExists(name)) if name == spec.name => continue,
                    made => match made? {
                        Some(rows) => rows,
                        None => continue,
                    },
                },
                rows => rows?,
            };
            let place = self.kept(rows.id());
            let mut kept = place.lock().unwrap();
            // While this thread waited, the table may have been dropped or renamed, or its columns
            // changed.
            let rows = self.tree_by_id(rows.id()).filter(|rows| rows.name() == spec.name);
            let Some(rows) = rows else { continue };
            let (table, missing) = self.open_table(&spec, rows, &mut kept)?;
            drop(kept);
            if missing.is_empty() {
                return Ok(table);
            }
            for index in missing {
                let name = index.name.clone();
                match table.build_index(index) {
                    // Another handle has built it meanwhile.
                    Err(Error::InvalidArgument(_)) if table.index(&name).is_ok() => {}
                    built => built?,
                }
            }
            // The table now has the missing indexes, if they are as in this definition.
        }
    }

    /// Opens an existing table; also returns the indexes that are to be built.
    fn open_table(
        &self,
        spec: &TableSpec,
        rows: Tree,
        kept: &mut KeptTable,
    ) -> Result<(Table, Vec<IndexSpec>)> {
        // The state is looked up first: while there is none, the stored definition does not change.
        let live = live_state(kept);
        let stored = stored(&rows)?;
        if let Some(state) = live {
            let definition = state.definition();
            let there: Vec<_> = definition.indexes.iter().map(|index| &index.spec).collect();
            must_have_columns(&rows, spec, &stored)?;
            let (known, missing) = spec.known_and_missing(&there);
            must_fit(&rows, &known, there)?;
            return Ok((Table { db: self.clone(), state, rows }, missing));
        }
        must_have_columns(&rows, spec, &stored)?;
        let there: Vec<_> = stored.indexes.iter().collect();
        let (known, missing) = spec.known_and_missing(&there);
        let specs = must_fit(&rows, &known, there)?;
        let with_tree = |(index, spec): (&StoredIndex, &IndexSpec)| {
            let tree = self.tree_by_id(index.tree).ok_or_else(|| {
                mismatch(&rows, format!("the tree of its index \"{}\" is gone; call Db::drop_index, and build it again", index.name))
            })?;
            let (number, spec, tree) = (index.number, spec.clone(), tree.for_table());
            Ok(Arc::new(IndexState { number, spec, tree }))
        };
        let indexes = stored.indexes.iter().zip(specs).map(with_tree).collect::<Result<_>>()?;
        let definition = Definition { rows: rows.clone(), indexes };
        let state = Arc::new(TableState::new(rows.clone().for_table(), definition, stored));
        let table = Table { db: self.clone(), state, rows };
        if !table.state.rows.is_read_only() {
            table.sweep(&mut *table.state.change()?)?;
        }
        let any: Arc<dyn Any + Send + Sync> = table.state.clone();
        *kept = Some(Arc::downgrade(&any));
        Ok((table, missing))
    }

    /// Creates the tree of a new table's rows; `None` if another thread has dropped it immediately
    /// afterwards.
    fn create_table(&self, spec: &TableSpec) -> Result<Option<Tree>> {
        let mut change = self.change_catalog()?;
        let rows = change.create(&spec.name, spec.tree_of_rows())?;
        let (mut stored, mut number) = (Vec::new(), 0);
        for index in &spec.indexes {
            let tree = change.create(&tree_name(&spec.name, rows, index, number), index.tree())?;
            stored.push(index.stored(number, tree));
            number += 1;
        }
        let columns = spec.columns.iter().map(|column| column.name.clone()).collect();
        let stored =
            StoredTable { rows, next: number, indexes: stored, leftovers: Vec::new(), columns };
        change.set_attributes(rows, stored.encode())?;
        change.commit()?;
        Ok(self.tree_by_id(rows))
    }

    /// Drops a table with its indexes, in one commit. Waits at most ten seconds for transactions
    /// that have locked rows of it. Afterwards its handles fail with `NoSuchTree`.
    ///
    /// # Errors
    /// `NoSuchTree`; `TableMismatch` if it is not a table; `LockTimeout`; `LockBusy` while an index
    /// is being built.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let rows = self.open_tree(name)?;
        let place = self.kept(rows.id());
        let kept = place.lock().unwrap();
        // Another thread may have dropped it while this one waited.
        rows.check_there()?;
        let live = live_state(&kept);
        // No build starts or ends meanwhile.
        let _changing = live.as_ref().map(|state| state.change()).transpose()?;
        let stored = stored(&rows)?;
        let indexes = stored.indexes.iter().map(|index| index.tree);
        let trees =
            indexes.chain(stored.leftovers.iter().copied()).filter_map(|id| self.tree_by_id(id));
        let trees: Vec<Tree> = std::iter::once(rows).chain(trees).collect();
        let _alone = self.lock_trees(&trees, ExclusiveWait::DefaultTimeout)?;
        let mut change = self.change_catalog()?;
        trees.iter().for_each(|tree| change.drop_tree(tree.id()));
        change.commit().map(drop)
    }

    /// Drops an index of a table, which need not be open. Waits as [`drop_table`](Self::drop_table)
    /// does; writers of the table wait meanwhile.
    ///
    /// # Errors
    /// `NoSuchTree`; `TableMismatch` if there is no such table or index; `LockTimeout`; `LockBusy`
    /// while an index is being built.
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.drop_index_of(&self.open_tree(table)?, index)
    }

    /// Drops an index of the table with these rows, even if the table was renamed.
    fn drop_index_of(&self, rows: &Tree, index: &str) -> Result<()> {
        let place = self.kept(rows.id());
        let kept = place.lock().unwrap();
        rows.check_there()?;
        let live = live_state(&kept);
        let mut changing = live.as_ref().map(|state| state.change()).transpose()?;
        let mut stored = stored(rows)?;
        let Some(at) = stored.indexes.iter().position(|other| other.name == index) else {
            return Err(mismatch(rows, format!("it has no index \"{index}\"")));
        };
        let gone = stored.indexes.remove(at);
        let tree = self.tree_by_id(gone.tree);
        let both: Vec<Tree> = std::iter::once(rows.clone()).chain(tree).collect();
        let _alone = self.lock_trees(&both, ExclusiveWait::DefaultTimeout)?;
        let mut change = self.change_catalog()?;
        change.set_attributes(rows.id(), stored.encode())?;
        change.drop_tree(gone.tree);
        change.commit()?;
        if let (Some(state), Some(changing)) = (&live, &mut changing) {
            let mut definition = Definition::clone(&state.definition());
            definition.indexes.retain(|index| index.number != gone.number);
            state.turn_to(definition);
            **changing = stored;
        }
        Ok(())
    }
}

/// What the catalog keeps about a table: its state, as long as there are handles.
type KeptTable = Option<Weak<dyn Any + Send + Sync>>;

fn live_state(kept: &KeptTable) -> Option<Arc<TableState>> {
    kept.as_ref()?.upgrade()?.downcast().ok()
}

impl TableSpec {
    /// The indexes of the definition that must already exist, and those that are to be built.
    fn known_and_missing(&self, there: &[&impl Known]) -> (Vec<IndexSpec>, Vec<IndexSpec>) {
        let is_there = |index: &IndexSpec| there.iter().any(|other| other.known().0 == index.name);
        let all = self.indexes.iter().cloned();
        all.partition(|index| !self.builds_missing || is_there(index))
    }
}

impl IndexSpec {
    pub(super) fn tree(&self) -> TreeOptions {
        TreeOptions::new().size_class(self.size_class).unique(self.unique)
    }

    pub(super) fn stored(&self, number: u64, tree: TreeId) -> StoredIndex {
        let Self { name, unique, clustering, .. } = self;
        let (name, unique, clustering) = (name.clone(), *unique, *clustering);
        StoredIndex { number, name, unique, clustering, tree }
    }
}

/// The name of an index's tree; the numbers make it unique.
pub(super) fn tree_name(table: &str, rows: TreeId, index: &IndexSpec, number: u64) -> String {
    format!("{table}/{}#{}.{number}", index.name, rows.0)
}

pub(super) fn mismatch(rows: &Tree, why: String) -> Error {
    Error::TableMismatch { table: rows.name(), why }
}

/// The catalog's definition of a table.
pub(super) fn stored(rows: &Tree) -> Result<StoredTable> {
    let attributes = rows.info().options.attributes;
    if !is_table(&attributes) {
        return Err(mismatch(
            rows,
            "the tree of this name is not a table; choose another name".into(),
        ));
    }
    let stored = StoredTable::decode(&attributes).map_err(|flaw| rows.malformed(flaw))?;
    if stored.rows != rows.id() {
        let why = "the tree of this name is a clone of a table's rows, without indexes; read it as a tree, or make a table of it by inserting its rows";
        return Err(mismatch(rows, why.into()));
    }
    Ok(stored)
}

fn check(spec: &TableSpec) -> Result<()> {
    if !spec.rows.attributes.is_empty() {
        return Err(Error::InvalidArgument("the attributes of a table cannot be set".into()));
    }
    check_columns(spec.columns.iter().map(|column| &*column.name))?;
    if !spec.columns.is_empty() && spec.rows.value_layout.is_some() {
        return Err(Error::InvalidArgument(
            "the layout of a table with columns is determined by the columns".into(),
        ));
    }
    for (at, index) in spec.indexes.iter().enumerate() {
        check_name(index)?;
        if spec.indexes[..at].iter().any(|other| other.name == index.name) {
            let why = format!("index \"{}\" is defined twice", index.name);
            return Err(Error::InvalidArgument(why));
        }
    }
    Ok(())
}

pub(super) fn check_name(index: &IndexSpec) -> Result<()> {
    // Together with the table's name, it forms the name of a tree; the other checks are made on
    // that name.
    match index.name.is_empty() {
        true => Err(Error::InvalidArgument("an index has no name".into())),
        false => Ok(()),
    }
}

/// The properties of an index that are known to both the definition and the store.
pub(super) trait Known {
    fn known(&self) -> (&str, bool, bool);
}

impl Known for StoredIndex {
    fn known(&self) -> (&str, bool, bool) {
        (&self.name, self.unique, self.clustering)
    }
}

impl Known for IndexSpec {
    fn known(&self) -> (&str, bool, bool) {
        (&self.name, self.unique, self.clustering)
    }
}

/// The program's definitions of the existing indexes, in their order, or an error that says what
/// does not match.
pub(super) fn must_fit<'s>(
    rows: &Tree,
    specs: &'s [IndexSpec],
    there: Vec<&impl Known>,
) -> Result<Vec<&'s IndexSpec>> {
    for index in specs {
        if !there.iter().any(|other| other.known().0 == index.name) {
            let why = format!(
                "it has no index \"{}\" yet: use TableSpec::build_missing, or open the table without it and call Table::build_index",
                index.name
            );
            return Err(mismatch(rows, why));
        }
    }
    let fits = |known: &&_| {
        let (name, unique, clustering) = Known::known(*known);
        let found = specs.iter().find(|index| index.name == name);
        let found = found.ok_or_else(|| {
            let why = format!("it has an index \"{name}\", which the definition lacks: add it, or call Db::drop_index");
            mismatch(rows, why)
        })?;
        if (found.unique, found.clustering) == (unique, clustering) {
            return Ok(found);
        }
        let kind = |(unique, clustering)| match (unique, clustering) {
            (false, false) => "plain",
            (false, true) => "clustering",
            (true, false) => "unique",
            (true, true) => "unique and clustering",
        };
        let (is, said) = (kind((unique, clustering)), kind((found.unique, found.clustering)));
        let why = format!(
            "its index \"{name}\" is {is}, and {said} in the definition: change the definition, or call Db::drop_index and build it again"
        );
        Err(mismatch(rows, why))
    };
    there.iter().map(fits).collect()
}

impl Table {
    /// The table's name.
    pub fn name(&self) -> String {
        self.state.rows.name()
    }

    /// The tree of its rows, for reading. It cannot be written directly: the indexes would not be
    /// updated.
    pub fn rows(&self) -> &Tree {
        &self.rows
    }

    /// The indexes that can be read now.
    pub fn indexes(&self) -> Vec<IndexInfo> {
        let definition = self.state.definition();
        let there = definition.indexes.iter().filter(|index| index.tree.check_there().is_ok());
        there.map(|index| index.info()).collect()
    }

    /// Drops an index: see [`Db::drop_index`].
    ///
    /// # Errors
    /// As [`Db::drop_index`].
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.db.drop_index_of(&self.state.rows, name)
    }

    /// Drops the trees that earlier builds have left behind, unless a transaction may still hold
    /// rows of them (Invariant 2).
    pub(super) fn sweep(&self, stored: &mut StoredTable) -> Result<()> {
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        let mut alone: Vec<ExclusiveTreeLock> = Vec::new();
        for &id in &stored.leftovers {
            let Some(tree) = self.db.tree_by_id(id) else { continue };
            match self.db.lock_tree(&tree, ExclusiveWait::NoWait) {
                Ok(locked) => {
                    alone.push(locked);
                    gone.push(id);
                }
                Err(Error::LockBusy { .. }) => kept.push(id),
                Err(error) => return Err(error),
            }
        }
        if kept.len() == stored.leftovers.len() {
            return Ok(());
        }
        let next = StoredTable { leftovers: kept, ..stored.clone() };
        let mut change = self.db.change_catalog()?;
        change.set_attributes(next.rows, next.encode())?;
        gone.into_iter().for_each(|id| change.drop_tree(id));
        change.commit()?;
        *stored = next;
        Ok(())
    }
}

/// Fails if the definition lists other columns than the table has; a definition without columns
/// accepts any.
fn must_have_columns(rows: &Tree, spec: &TableSpec, stored: &StoredTable) -> Result<()> {
    if spec.columns.is_empty() {
        return Ok(());
    }
    let layout = rows.info().options.value_layout.unwrap_or_default();
    let parts: Vec<Part> = layout.parts().iter().skip(1).copied().collect();
    let is_same = spec.columns.len() == stored.columns.len()
        && spec.columns.len() == parts.len()
        && spec.columns.iter().zip(&stored.columns).all(|(column, name)| column.name == *name)
        && spec.columns.iter().zip(&parts).all(|(column, part)| column.part == *part);
    match is_same {
        true => Ok(()),
        false if stored.columns.is_empty() => {
            Err(mismatch(rows, "it was made without columns: change the definition".into()))
        }
        false => Err(mismatch(
            rows,
            format!(
                "its columns are {}, each as it was made: change the definition, or call Table::change_columns",
                stored.columns.join(", ")
            ),
        )),
    }
}
