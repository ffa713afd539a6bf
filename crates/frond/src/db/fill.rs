//! Loads into trees that are there, and empty: a new tree, loaded, takes the place of the empty one.
//!
//! 1. `begin`: the tree is looked at, so that who cannot load learns it before he has put rows.
//! 2. The rows become pages of a new tree, as those of any load (`bulk.rs`).
//! 3. `finish`: the tree is locked as any change locks the trees that it takes away (`alter.rs`), which waits for transactions with
//!    rows of it, prepared ones included, and for batches; then it is looked at again. The commit that makes the new tree drops the old one, as a truncation does
//!    (`CatalogChange::truncate`), and with it goes whatever the old one still has of deleted rows.
//!
//! Invariants
//! 1. From the second look until the new tree is shown nobody commits rows of the old one: a row that was acknowledged is never
//!    dropped unseen. Who has waited is told that his tree is gone (`NoSuchTree`), before he has a place in the log.
//! 2. The new tree is the old one in name, class, layouts and attributes, as those are at the commit, and in its counters; not in its
//!    number, nor in its birth (Rules: I35, I43).
//! 3. A load that is refused has done nothing: the tree is what it was, its handles are good.
//!
//! The tree is waited for, and not refused because a transaction has written it: only the end of that tells whether it will be empty,
//! and a truncation of it would wait, too.
//!
//! Threads: as `bulk.rs`. The trees are locked before the lock of catalog changes is taken (`alter.rs`, 2).

use std::time::Duration;

use crate::{
    Error, Result, TreeId, catalog::TreeRecord, heed::Heed, load::Made, sync::Arc,
    txn::lock_table::Patience,
};

use super::{
    Alone, BulkLoad, CatalogChange, Db, Interrupter, Tree, catalog::must_be_no_build,
    catalog_change::instead_of, change_trees::must_be_no_table,
};

/// How the end of loads waits for who has rows of trees that they fill.
#[derive(Default)]
pub(super) struct Waits {
    lock_timeout: Option<Duration>,
    heed: Heed,
    stops: Option<Interrupter>,
}

impl Waits {
    pub fn of(loads: &[BulkLoad]) -> Self {
        let mut filling = loads.iter().filter(|load| load.fills.is_some());
        let lock_timeout = filling.clone().filter_map(|load| load.lock_timeout).min();
        match filling.next() {
            None => Self::default(),
            Some(first) => {
                let (heed, stops) = (first.loader.heed.clone(), first.stops.clone());
                Self { lock_timeout, heed, stops }
            }
        }
    }
}

impl Db {
    /// Begins to load a tree that is there and has no rows: for who creates a tree first and fills it then, as
    /// [`bulk_load`](Self::bulk_load) does it with one that is new. Until [`finish`](BulkLoad::finish) the tree is as it was, and others may
    /// use it. Then a new tree with the rows takes its place in one commit, like it in name, attributes, layouts, settings and
    /// counters ([`Tree::reserve`]), with another number, as [`TreesChange::truncate`](crate::TreesChange::truncate) makes one: handles of the
    /// tree that was there fail with `NoSuchTree` from then on, [`BulkLoaded::tree`](crate::BulkLoaded::tree) is the new one's, and snapshots of before fail
    /// with `DefinitionChanged` there. If no row was put, the tree stays, and so do its handles.
    ///
    /// The end of the load waits for transactions that have rows of the tree, or have locked it, those that are prepared, too
    /// ([`lock_timeout`](BulkLoad::lock_timeout)): a load belongs to no transaction, and would wait for its own session's in vain. Then the tree
    /// must be empty. Rows that were all deleted are none, however many there were; to find that out, here and
    /// at the end, costs what a walk over them costs.
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
    /// `TreeNotEmpty` if it has a row, also at the end; `NoSuchTree` if it was dropped, truncated or filled, also meanwhile;
    /// `InvalidArgument` if it is a table's or a build's, or of another store; `LockTimeout` at the end if a transaction lasts too long:
    /// nothing was done, but the load is over. `Full`: likewise; a disk that becomes full behind the commit is waited for. `ReadOnly`, `Closed`, `Failed`; I/O errors and damage of what had to be read.
    pub fn bulk_load_into(&self, tree: &Tree) -> Result<BulkLoad> {
        self.shared.check_writable()?;
        tree.entry.check()?;
        if !Arc::ptr_eq(&self.shared, &tree.shared) {
            let why = format!("tree \"{}\" is of another store", tree.name());
            return Err(Error::InvalidArgument(why));
        }
        let old = tree.entry.record();
        must_take_rows(&old)?;
        self.must_be_empty(tree, None)?;
        let id = self.change_catalog()?.take_number()?;
        let birth = old.birth;
        Ok(self.begin_load(instead_of(old, id, birth), Some(tree.clone())))
    }

    fn must_be_empty(&self, tree: &Tree, stops: Option<&Interrupter>) -> Result<()> {
        let mut rows = self.snapshot().scan(tree, ..)?;
        stops.inspect(|stops| rows.heed(stops));
        match rows.next()? {
            None => Ok(()),
            Some(_) => Err(Error::TreeNotEmpty(tree.name())),
        }
    }

    /// Waits until these trees are nobody else's, and keeps others away from there on; an error unless they are empty.
    pub(super) fn keep_empty(&self, trees: &[&Tree], waits: &Waits) -> Result<Option<Alone>> {
        if trees.is_empty() {
            return Ok(None);
        }
        let mut ids: Vec<TreeId> = trees.iter().map(|tree| tree.id()).collect();
        ids.sort_unstable();
        let patience = waits.lock_timeout.map_or(Patience::Forever, Patience::For);
        let alone = self.shared.lock_alone(&ids, patience, Some(&waits.heed));
        let alone = alone.map_err(|(_, error)| error)?;
        for tree in trees {
            // Nobody drops it from here on.
            tree.entry.check()?;
            if !plant!("load: an empty tree is not looked at again behind its lock") {
                self.must_be_empty(tree, waits.stops.as_ref())?;
            }
        }
        Ok(Some(alone))
    }

    /// Puts what was loaded, as tree `new`, in the place of a tree that is [kept empty](Self::keep_empty).
    pub(super) fn fill(
        &self,
        change: &mut CatalogChange<'_>,
        tree: &Tree,
        new: TreeId,
        made: Made,
    ) -> Result<()> {
        must_take_rows(&tree.entry.record())?;
        change.fill(tree.id(), new, made)
    }
}

fn must_take_rows(tree: &TreeRecord) -> Result<()> {
    must_be_no_build(tree)?;
    must_be_no_table(tree, "its rows are in step with its indexes")
}
