//! Bulk loads into existing, empty trees: a new, loaded tree replaces the empty one.
//!
//! 1. `begin`: the tree is checked, so that a caller that cannot load gets the error before it has
//!    put rows.
//! 2. The rows become pages of a new tree, as in any load (`bulk.rs`).
//! 3. `finish`: the tree is locked exclusively, as every change locks the trees that it removes
//!    (`exclusive_lock.rs`): this waits for transactions with rows of it, prepared ones included,
//!    and for batches. Then it is checked again. The commit that makes the new tree drops the old
//!    one, as a truncation does (`CatalogChange::truncate`), together with the tombstones that it
//!    still has.
//!
//! Invariants
//! 1. From the second check until the new tree is shown, nothing commits rows of the old one: an
//!    acknowledged row is never dropped unseen. A writer that has waited gets `NoSuchTree`, before
//!    it has a place in the log.
//! 2. The new tree has the old one's name, class, layouts and attributes as of the commit, and its
//!    counters; it has its own number and birth (Rules: I35, I43).
//! 3. A load that is refused has done nothing: the tree is unchanged, and its handles are valid.
//!
//! If a transaction has written the tree, the load waits instead of being refused: only the end of
//! the transaction decides whether the tree will be empty, and a truncation would wait, too.
//!
//! Threads: as `bulk.rs`. The trees are locked before the lock of catalog changes is taken
//! (`exclusive_lock.rs`, 2).

use std::time::Duration;

use crate::{
    Error, Result, TreeId,
    cancel::CancelToken,
    catalog::TreeRecord,
    db::{
        BulkLoad, CatalogChange, Db, ExclusiveTreeLock, Interrupter, Tree,
        ddl::{catalog_change::instead_of, one_tree::must_be_no_build},
        load::Made,
    },
    sync::Arc,
    txn::lock_table::WaitPolicy,
};

/// How finishing loads wait for transactions with rows of the trees that the loads fill.
#[derive(Default)]
pub(in crate::db) struct Waits {
    lock_timeout: Option<Duration>,
    cancel: CancelToken,
    interrupter: Option<Interrupter>,
}

impl Waits {
    pub fn of(loads: &[BulkLoad]) -> Self {
        let mut filling = loads.iter().filter(|load| load.fills.is_some());
        let lock_timeout = filling.clone().filter_map(|load| load.lock_timeout).min();
        match filling.next() {
            None => Self::default(),
            Some(first) => {
                let (cancel, interrupter) =
                    (first.loader.cancel.clone(), first.interrupter.clone());
                Self { lock_timeout, cancel, interrupter }
            }
        }
    }
}

impl Db {
    /// Starts to load an existing tree that has no rows, for callers that create a tree first and
    /// fill it later; otherwise like [`bulk_load`](Self::bulk_load). Until
    /// [`finish`](BulkLoad::finish) the tree is unchanged, and others may use it. Then a new tree
    /// with the rows replaces it in one commit. Name, attributes, layouts, settings and counters
    /// ([`Tree::reserve`]) are the same, the number is another, as with
    /// [`TreesChange::truncate`](crate::db::TreesChange::truncate). From then on handles of the old
    /// tree fail with `NoSuchTree`, [`BulkLoaded::tree`](crate::db::BulkLoaded::tree) is a handle
    /// of the new one, and older snapshots fail with `DefinitionChanged` there. If no row was put,
    /// the tree stays, and so do its handles.
    ///
    /// `finish` waits for transactions that have rows of the tree or have locked it, prepared ones
    /// included ([`lock_timeout`](BulkLoad::lock_timeout)). A load belongs to no transaction, so
    /// `finish` would wait for a transaction of its own session until the timeout. After the wait,
    /// the tree must be empty. Deleted rows do not count, however many there were; the checks, here
    /// and in `finish`, cost as much as a scan over the deleted rows.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let squares = db.create_tree("squares", Default::default())?;
    /// let mut load = db.bulk_load_into(&squares)?;
    /// for n in (0..1000u64).rev() {
    ///     load.put(&n.to_be_bytes(), &(n * n).to_be_bytes())?;
    /// }
    /// let squares = load.finish()?.tree;
    /// assert_eq!(squares.get(&7u64.to_be_bytes())?, Some(49u64.to_be_bytes().to_vec()));
    /// assert!(matches!(db.bulk_load_into(&squares), Err(frond::Error::TreeNotEmpty(_))));
    /// # drop(squares);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TreeNotEmpty` if the tree has a row, also at the end; `NoSuchTree` if it was dropped,
    /// truncated or filled, also meanwhile; `InvalidArgument` if it belongs to a table, an index
    /// build or another store; `LockTimeout` at the end if a transaction lasts too long: nothing
    /// was done, but the load is over. `Full`: likewise; if the disk becomes full after the commit,
    /// the call waits for space. `ReadOnly`, `Closed`, `Failed`; I/O errors and damage of what had
    /// to be read.
    pub fn bulk_load_into(&self, tree: &Tree) -> Result<BulkLoad> {
        self.shared.check_writable()?;
        tree.entry.check()?;
        if !Arc::ptr_eq(&self.shared, &tree.shared) {
            let why = format!("tree \"{}\" is of another store", tree.name());
            return Err(Error::InvalidArgument(why));
        }
        let old = tree.entry.record();
        self.must_take_rows(&old)?;
        self.must_be_empty(tree, None)?;
        let id = self.change_catalog()?.take_number()?;
        let birth = old.birth;
        Ok(self.begin_load(instead_of(old, id, birth), Some(tree.clone())))
    }

    fn must_be_empty(&self, tree: &Tree, interrupter: Option<&Interrupter>) -> Result<()> {
        let mut rows = self.snapshot().scan(tree, ..)?;
        interrupter.inspect(|interrupter| rows.set_interrupter(interrupter));
        match rows.next()? {
            None => Ok(()),
            Some(_) => Err(Error::TreeNotEmpty(tree.name())),
        }
    }

    /// Locks these trees exclusively, and fails unless they are empty.
    pub(in crate::db) fn keep_empty(
        &self,
        trees: &[&Tree],
        waits: &Waits,
    ) -> Result<Option<ExclusiveTreeLock>> {
        if trees.is_empty() {
            return Ok(None);
        }
        let mut ids: Vec<TreeId> = trees.iter().map(|tree| tree.id()).collect();
        ids.sort_unstable();
        let wait_policy = waits.lock_timeout.map_or(WaitPolicy::Forever, WaitPolicy::For);
        let alone = self.shared.lock_alone(&ids, wait_policy, Some(&waits.cancel));
        let alone = alone.map_err(|(_, error)| error)?;
        for tree in trees {
            // From here on nothing can drop it.
            tree.entry.check()?;
            if !plant!("load: an empty tree is not checked again under its lock") {
                self.must_be_empty(tree, waits.interrupter.as_ref())?;
            }
        }
        Ok(Some(alone))
    }

    /// Replaces a tree that is [kept empty](Self::keep_empty) by the loaded tree `new`.
    pub(in crate::db) fn fill(
        &self,
        change: &mut CatalogChange<'_>,
        tree: &Tree,
        new: TreeId,
        made: Made,
    ) -> Result<()> {
        self.must_take_rows(&tree.entry.record())?;
        change.fill(tree.id(), new, made)
    }

    fn must_take_rows(&self, tree: &TreeRecord) -> Result<()> {
        must_be_no_build(tree)?;
        let instead = "put rows by Table::put, which keeps the indexes in step";
        self.shared.must_be_of_no_table(tree.id, instead)
    }
}
