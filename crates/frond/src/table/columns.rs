//! Columns of a table's rows: their names, and changing them without touching any row (Rule: I49).
//!
//! Names belong to the table; the engine knows only the parts of rows, and from which older part
//! each comes. A change is one commit of the catalog, with the new layout of the rows, the former
//! layouts, and the names.
//!
//! Invariants
//! 1. Names are those of the parts of the newest layout after its version, in their order.
//! 2. The functions of indexes get rows in the layout version for which the program supplied them:
//!    a writer maps rows to that version before it calls them (`write.rs`), and an index is never
//!    read with functions for another version than its handle's.
//!
//! Threads: all; one change at a time.

use crate::{
    Error, Result,
    db::{StoredTable, check_columns},
    layout::NewPart,
    sync::Arc,
};

use super::{
    open::{Table, mismatch, must_fit},
    spec::{Column, IndexSpec},
    state::{Definition, IndexState},
};

/// A change of a table's columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnChange {
    /// Adds a column: existing rows have `default` in it.
    Add {
        /// The column.
        column: Column,
        /// The bytes in all existing rows, as the part is stored in a row (for a part with a length
        /// prefix, including that).
        default: Vec<u8>,
        /// The position, from 0; `None`: the last.
        at: Option<usize>,
    },
    /// Drops the column with this name, and its data.
    Drop(String),
    /// Renames a column.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Moves a column to another position.
    Move {
        /// The name.
        name: String,
        /// The position, from 0, after it is taken out.
        to: usize,
    },
}

impl Table {
    /// The columns in which the handle returns rows; empty if the table was created without
    /// columns.
    ///
    /// # Errors
    /// `DefinitionChanged` if they have changed since the handle was opened.
    pub fn columns(&self) -> Result<Vec<Column>> {
        // Read the catalog once: names and layout belong together.
        let options = self.rows.info().options;
        let stored = StoredTable::decode(&options.attributes);
        let stored = stored.map_err(|flaw| self.rows.malformed(flaw))?;
        let layout = options.value_layout.unwrap_or_default();
        if layout.version() != self.rows.layout_version() {
            return Err(Error::DefinitionChanged(self.name()));
        }
        let parts = layout.parts().iter().skip(1);
        let columns = stored.columns.into_iter().zip(parts);
        Ok(columns.map(|(name, &part)| Column { name, part }).collect())
    }

    /// Changes the columns of the table, one change after the other, in one commit whose cost does
    /// not depend on the number of rows. `indexes` lists all indexes of the table, with functions
    /// that know the new form of rows; for a row mapped to the new form they must extract the same
    /// bytes as before. The returned handle returns rows in their new form.
    ///
    /// Other handles continue: they write rows in the form that they know, and read until they meet
    /// a newer one. Then, and when they ask for an index, they fail with `DefinitionChanged`, and
    /// must be opened again.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{layout::{End, Hint, Part}, table::{Column, ColumnChange}, TableSpec};
    ///
    /// let people = db.table(
    ///     TableSpec::new("people").columns(vec![Column::new("name", Part::Var(End::Prefixed))]),
    /// )?;
    /// db.transact(|txn| people.insert(txn, b"1", b"\0\0\x03ada"))?;
    /// let born = ColumnChange::Add {
    ///     column: Column::new("born", Part::Fixed(2, Hint::Integer)),
    ///     default: 0u16.to_be_bytes().to_vec(),
    ///     at: Some(0),
    /// };
    /// let people = people.change_columns(&[born], vec![])?;
    /// db.transact(|txn| {
    ///     assert_eq!(people.get(txn, b"1")?, Some(b"\0\x01\0\0\x03ada".to_vec()));
    ///     people.insert(txn, b"2", b"\0\x01\x07\xd0\x03bob")
    /// })?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing was done (unless `Full` says that the change will be there when the store is opened
    /// again). `InvalidArgument` for columns that do not exist, are listed twice, or do not match
    /// their parts, and after too many changes ([`Db::change_layout`](crate::Db::change_layout));
    /// `TableMismatch` if `indexes` are not those of the table, or it was made without columns;
    /// `DefinitionChanged` if its columns have changed since the handle was opened; `LockBusy`
    /// while an index is being built or dropped; those of a commit.
    pub fn change_columns(
        &self,
        changes: &[ColumnChange],
        indexes: Vec<IndexSpec>,
    ) -> Result<Self> {
        // So that no thread opens the table between the commit and the switch to the new functions.
        let place = self.db.kept(self.rows.id());
        let _kept = place.lock().unwrap();
        let mut changing = self.state.change()?;
        self.rows.check_there()?;
        let definition = self.state.definition_for(&self.rows)?;
        let there = definition.indexes.iter().map(|index| &index.spec).collect();
        let specs = must_fit(&self.rows, &indexes, there)?;
        if changing.columns.is_empty() {
            let why =
                "it was made without columns; make one with TableSpec::columns, and copy the rows";
            return Err(mismatch(&self.rows, why.into()));
        }
        let names = changing.columns.iter();
        let mut columns: Vec<Planned> =
            (1..).zip(names).map(|(number, name)| Planned::kept(name, number)).collect();
        changes.iter().try_for_each(|change| apply(&mut columns, change))?;
        check_columns(columns.iter().map(|column| &*column.name))?;
        if columns.is_empty() {
            return Err(Error::InvalidArgument("a table with columns has at least one".into()));
        }
        let (names, parts): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|column| (column.name, column.new)).unzip();
        let stored = StoredTable { columns: names, ..changing.clone() };
        let mut change = self.db.change_catalog()?;
        // If only names change, rows stay as they are.
        change.change_layout(stored.rows, &parts)?;
        change.set_attributes(stored.rows, stored.encode())?;
        change.commit()?;
        let id = stored.rows;
        *changing = stored;
        let rows = self.db.tree_by_id(id).ok_or_else(|| Error::NoSuchTree(self.name()))?;
        let with_function = |(index, spec): (&Arc<IndexState>, &IndexSpec)| {
            let (number, tree) = (index.number, index.tree.clone());
            Arc::new(IndexState { number, spec: spec.clone(), tree })
        };
        let indexes = definition.indexes.iter().zip(specs).map(with_function).collect();
        drop(definition);
        // Calls that still use the old definition write the same entries as the new functions
        // would.
        self.state.turn_to(Definition { rows: rows.clone(), indexes });
        Ok(Self { db: self.db.clone(), state: self.state.clone(), rows })
    }
}

/// A column after the change.
struct Planned {
    name: String,
    new: NewPart,
}

impl Planned {
    fn kept(name: &str, number: usize) -> Self {
        Self { name: name.into(), new: NewPart::Keep(number) }
    }
}

fn apply(columns: &mut Vec<Planned>, change: &ColumnChange) -> Result<()> {
    let place = |columns: &[Planned], name: &str| {
        columns.iter().position(|column| column.name == *name).ok_or_else(|| {
            Error::InvalidArgument(format!("change of columns: there is no column \"{name}\""))
        })
    };
    let at_most = |at: usize, most: usize| match at <= most {
        true => Ok(at),
        false => Err(Error::InvalidArgument(format!(
            "change of columns: position {at} does not exist; the last is {most}"
        ))),
    };
    match change {
        ColumnChange::Add { column: Column { name, part }, default, at } => {
            let at = at_most(at.unwrap_or(columns.len()), columns.len())?;
            let new = NewPart::Add { part: *part, default: default.clone() };
            columns.insert(at, Planned { name: name.clone(), new });
        }
        ColumnChange::Drop(name) => drop(columns.remove(place(columns, name)?)),
        ColumnChange::Rename { from, to } => {
            let at = place(columns, from)?;
            columns[at].name.clone_from(to);
        }
        ColumnChange::Move { name, to } => {
            let column = columns.remove(place(columns, name)?);
            columns.insert(at_most(*to, columns.len())?, column);
        }
    }
    Ok(())
}
