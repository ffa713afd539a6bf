//! What all handles of a table share: which indexes its writers keep, and who changes that.
//!
//! Invariants
//! 1. A call that writes a row has the definition that it took *after* it had locked the row, until it ends. So
//!    what two calls do for one row, one after the other, goes by one definition or by a later one.
//! 2. Whoever has the table's tree of rows for himself alone knows that no call has a definition, and that nothing
//!    is written that others do not see.
//! 3. `stored` is what the catalog says. It is locked by whoever changes the definition, from begin to end.
//!
//! Threads: all.

use std::fmt;

use crate::{
    Error, Result, Tree,
    sync::{Arc, Mutex, MutexGuard, RwLock, TryLockError},
};

use super::{
    entry::Form,
    form::Stored,
    spec::{IndexInfo, IndexSpec},
};

/// An index as it is used.
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

/// What a writer keeps in step.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// Rows in the version that the functions of the indexes know.
    pub rows: Tree,
    pub indexes: Vec<Arc<IndexState>>,
}

/// Of one table of one open store.
#[derive(Debug)]
pub(super) struct TableState {
    /// The tree of the rows; in which version they are read, handles and definitions say.
    pub rows: Tree,
    current: RwLock<Arc<Definition>>,
    stored: Mutex<Stored>,
}

impl TableState {
    pub fn new(rows: Tree, definition: Definition, stored: Stored) -> Self {
        Self { rows, current: RwLock::new(Arc::new(definition)), stored: Mutex::new(stored) }
    }

    /// For a call that writes: under the lock of its row (Invariant 1).
    pub fn definition(&self) -> Arc<Definition> {
        self.current.read().unwrap().clone()
    }

    /// What there is by now, for who knows rows in the version of `rows`.
    pub fn definition_for(&self, rows: &Tree) -> Result<Arc<Definition>> {
        let definition = self.definition();
        match definition.rows.layout_version() == rows.layout_version() {
            true => Ok(definition),
            false => Err(Error::DefinitionChanged(self.rows.name())),
        }
    }

    /// The index of this name, for who knows rows in the version of `rows`.
    pub fn index(&self, rows: &Tree, name: &str) -> Result<Arc<IndexState>> {
        let current = self.definition_for(rows)?;
        let found = current.indexes.iter().find(|index| index.spec.name == name);
        // While it is dropped, it is in the definition for a moment more.
        let found = found.filter(|index| index.tree.check_there().is_ok());
        found.cloned().ok_or_else(|| {
            let why = format!("it has no index \"{name}\"");
            Error::TableMismatch { table: self.rows.name(), why }
        })
    }

    /// Calls take this one from now on.
    pub fn turn_to(&self, definition: Definition) {
        *self.current.write().unwrap() = Arc::new(definition);
    }

    /// The right to change the definition; nobody waits for it, as a build may last.
    pub fn change(&self) -> Result<MutexGuard<'_, Stored>> {
        match self.stored.try_lock() {
            Ok(changing) => Ok(changing),
            // A function of the program's has panicked in a build, which has cleared away.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::LockBusy {
                tree: self.rows.name(),
                what: "the definition of the table".into(),
                holder: "another change of it".into(),
                key: None,
            }),
        }
    }
}
