//! The state shared by all handles of a table: which indexes its writers maintain, and how that set
//! changes.
//!
//! Invariants
//! 1. A call that writes a row keeps the definition that it read *after* it had locked the row,
//!    until it ends. So of two successive calls on one row, the second uses the same definition or
//!    a later one.
//! 2. A thread that holds the table's tree of rows exclusively knows that no call is using a
//!    definition, and that there are no uncommitted writes.
//! 3. `stored` is the catalog's definition. A change of the definition holds the lock of `stored`
//!    from start to end.
//!
//! Threads: all.

use std::fmt;

use crate::{
    Error, Result, Tree,
    db::StoredTable,
    error::LockHolder,
    sync::{Arc, Mutex, MutexGuard, RwLock, TryLockError},
};

use super::{
    entry::Form,
    spec::{IndexInfo, IndexSpec},
};

/// An index in use.
pub(super) struct IndexState {
    pub number: u64,
    pub spec: IndexSpec,
    pub tree: Tree,
}

impl fmt::Debug for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexState")
            .field("number", &self.number)
            .field("spec", &self.spec)
            .finish()
    }
}

impl IndexState {
    pub fn form(&self) -> Form {
        Form { unique: self.spec.unique, clustering: self.spec.clustering }
    }

    pub fn info(&self) -> IndexInfo {
        IndexInfo {
            name: self.spec.name.clone(),
            unique: self.spec.unique,
            clustering: self.spec.clustering,
            tree: self.tree.name(),
        }
    }
}

/// The rows and indexes that a writer maintains.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// The rows, in the layout version that the functions of the indexes know.
    pub rows: Tree,
    pub indexes: Vec<Arc<IndexState>>,
}

/// The state of one table of an open store.
#[derive(Debug)]
pub(super) struct TableState {
    /// The tree of the rows, for writing; handles and definitions determine the layout version for
    /// reading.
    pub rows: Tree,
    current: RwLock<Arc<Definition>>,
    stored: Mutex<StoredTable>,
}

impl TableState {
    pub fn new(rows: Tree, definition: Definition, stored: StoredTable) -> Self {
        Self { rows, current: RwLock::new(Arc::new(definition)), stored: Mutex::new(stored) }
    }

    /// The current definition, for a call that writes: call it under the lock of the row (Invariant
    /// 1).
    pub fn definition(&self) -> Arc<Definition> {
        self.current.read().unwrap().clone()
    }

    /// The current definition, for a caller that knows rows in the layout version of `rows`.
    pub fn definition_for(&self, rows: &Tree) -> Result<Arc<Definition>> {
        let definition = self.definition();
        match definition.rows.layout_version() == rows.layout_version() {
            true => Ok(definition),
            false => Err(Error::DefinitionChanged(self.rows.name())),
        }
    }

    /// The index with this name, for a caller that knows rows in the layout version of `rows`.
    pub fn index(&self, rows: &Tree, name: &str) -> Result<Arc<IndexState>> {
        let current = self.definition_for(rows)?;
        let found = current.indexes.iter().find(|index| index.spec.name == name);
        // An index that is being dropped stays in the definition for a moment after its tree has
        // ended.
        let found = found.filter(|index| index.tree.check_there().is_ok());
        found.cloned().ok_or_else(|| {
            let why = format!("it has no index \"{name}\"");
            Error::TableMismatch { table: self.rows.name(), why }
        })
    }

    /// Makes this the current definition.
    pub fn turn_to(&self, definition: Definition) {
        *self.current.write().unwrap() = Arc::new(definition);
    }

    /// Locks the definition for a change. Fails instead of waiting, since a build may take long.
    pub fn change(&self) -> Result<MutexGuard<'_, StoredTable>> {
        match self.stored.try_lock() {
            Ok(changing) => Ok(changing),
            // A function of the program has panicked in a build, which has cleaned up.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::LockBusy {
                tree: self.rows.name(),
                what: "the definition of the table".into(),
                holder: LockHolder::Other("another change of it"),
                key: None,
            }),
        }
    }
}
