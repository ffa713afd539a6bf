//! Bulk loads: trees that begin whole.
//!
//! 1. `begin`: the name must be free, or the tree that is to be filled empty (`fill.rs`); the new tree gets its number, which its
//!    pages will carry.
//! 2. `put`: rows go where `load/` puts them, into pages that nothing links.
//! 3. `finish`: the last pages are written, the store file is synced, and one commit to the catalog says
//!    what the tree is called, where its root is, and which extents it brings. The publish that applies
//!    the commit makes the root part of the version (`version/branches.rs`), the checkpoint after it the
//!    pages part of the space map. See docs/design/007.
//!
//! Invariants
//! 1. Until the commit nothing names the pages: dropped, failed or cut off by a crash, a load leaves
//!    nothing. From the commit on the log names them until a checkpoint of both slots has them (Rule: I11).
//! 2. The pages are on disk before a record that names them can be.
//!
//! Threads: a load has one owner; finishing takes the lock of catalog changes.

use std::{collections::HashMap, time::Duration};

use crate::{
    Error, Progress, Result, Tag, TreeId, bounds,
    catalog::{TreeEntry, TreeRecord},
    load::{Loader, Made},
    run::Work,
    sync::Arc,
    tree::TreeTraits,
};

use super::{
    Db, Interrupter, Shared, Tree, TreeOptions, batch::check_key, commit::LOCK_WAIT, fill,
    tree::must_be_there,
};

/// Rows between two looks whether to go on, and two words of how far it is.
const ROWS_A_LOOK: u64 = 256;

/// Loads rows in any order into a tree that it creates ([`Db::bulk_load`]), or into one that is empty ([`Db::bulk_load_into`]).
///
/// Dropping it gives everything up. An open load keeps the store open.
#[derive(Debug)]
pub struct BulkLoad {
    pub(super) db: Db,
    /// The tree as it will be, but for the commit that creates it.
    pub(super) record: TreeRecord,
    /// The tree whose place it is to take, which is empty.
    pub(super) fills: Option<Tree>,
    /// How long it waits at its end for who has rows of that.
    pub(super) lock_timeout: Option<Duration>,
    pub(super) stops: Option<Interrupter>,
    pub(crate) loader: Loader,
    /// Why it cannot go on.
    failed: Option<Error>,
    /// Rows that were put.
    rows: u64,
    /// Held, so that counting goes on from here when the tree is there.
    work: Arc<Work>,
}

/// A tree that was loaded.
#[derive(Clone, Debug)]
pub struct BulkLoaded {
    /// The tree.
    pub tree: Tree,
    /// Its rows. Fewer than were put if keys came more than once.
    pub rows: u64,
}

impl Db {
    /// Begins to load a tree: for many rows at once, in any order, by far the cheapest way into the
    /// store. The tree is there, whole and durable, when [`finish`](BulkLoad::finish) returns; before
    /// that nobody sees anything of it, and neither a crash nor an error leaves anything behind.
    ///
    /// Rows are sorted in memory, within a part of `cache_size`, and in the store's own file beyond
    /// that: a load of rows that are larger than memory and come in no order needs disk space for all of
    /// them besides the tree. Rows that come in the order of their keys are written once. The log does
    /// not hold the rows, and a change feed only says that the tree was loaded. Everything else goes on
    /// meanwhile, other loads too.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let mut load = db.bulk_load("squares", Default::default())?;
    /// for n in (0..1000u64).rev() {
    ///     load.put(&n.to_be_bytes(), &(n * n).to_be_bytes())?;
    /// }
    /// let loaded = load.finish()?;
    /// assert_eq!(loaded.rows, 1000);
    /// assert_eq!(loaded.tree.get(&7u64.to_be_bytes())?, Some(49u64.to_be_bytes().to_vec()));
    /// # drop(loaded);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TreeExists`; `InvalidArgument` for a name or options that are not allowed; `ReadOnly`, `Closed`,
    /// `Failed`.
    pub fn bulk_load(&self, name: &str, options: TreeOptions) -> Result<BulkLoad> {
        let shared = &self.shared;
        shared.check_writable()?;
        let record = {
            let _change = shared.catalog.change();
            shared.must_be_free(name)?;
            let mut counters = shared.catalog.counters();
            let record = self.new_tree(name, options, &mut counters)?;
            // Nobody else gets its number, also if no tree ever does.
            shared.catalog.set_counters(counters);
            record
        };
        Ok(self.begin_load(record, None))
    }

    /// Begins a load that ends as this tree.
    pub(super) fn begin_load(&self, record: TreeRecord, fills: Option<Tree>) -> BulkLoad {
        let shared = &self.shared;
        let engine = &shared.engine;
        let (lineage, class) = (record.lineage, record.size_class);
        let work = shared.catalog.work.of(lineage);
        let typing = record.typing(&work);
        let traits = TreeTraits { lineage, class, leaf_filters: record.unique, typing };
        let birth = engine.versions.current().publish;
        let kind = (&*record.name, record.unique);
        let loader = Loader::new(&engine.cx, &engine.loads, traits, birth, kind);
        let (failed, rows, lock_timeout, stops) = (None, 0, Some(LOCK_WAIT), None);
        let db = self.clone();
        BulkLoad { db, record, fills, lock_timeout, stops, loader, failed, rows, work }
    }
}

impl BulkLoad {
    /// From here on an interrupt ends the call that the load is in, also its end, with `Interrupted`, and with it the load.
    pub fn heed(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(&mut self.loader.heed);
        self.stops = Some(interrupter.clone());
    }

    /// How long the end of a load into a tree that is there waits for who has rows of it, before it fails with
    /// [`Error::LockTimeout`]; `None`: until they have ended. Ten seconds if nobody says. Of several that end together the
    /// shortest time counts.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// What is told of a duplicate key in a `unique` tree: the key, and the value of one of the rows that have it. It is
    /// called once at most, by [`put`](Self::put) or [`finish`](Self::finish), before that fails with `DuplicateKey`.
    pub fn on_duplicate(&mut self, tell: impl FnMut(&[u8], &[u8]) + Send + 'static) {
        self.loader.on_duplicate(Box::new(tell));
    }

    /// How far it is, for others to look at: also while it is [finished](Self::finish).
    pub fn progress(&self) -> Progress {
        self.loader.heed.progress.clone()
    }

    /// Tells this one, which others may tell, too, how far it is.
    pub(super) fn tell(&mut self, progress: &Progress) {
        self.loader.heed.progress = progress.clone();
    }

    /// Adds a row. Of a key that comes more than once the row that came last stays, unless the tree is
    /// `unique`: then that is an error, told here or at the latest by [`finish`](Self::finish).
    ///
    /// Costs a copy of the row; now and then a part of what came is sorted and written, on this thread.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`: the row was not added, and the load may go on. After any other error
    /// it cannot: `DuplicateKey`, `Full`, `Interrupted`, I/O errors, `Closed`, `Failed`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check()?;
        check_key(key)?;
        if !bounds::VALUE_BYTES.admits(value.len()) {
            return Err(Error::ValueTooLong { bytes: value.len(), max: bounds::VALUE_BYTES.len() });
        }
        let newest = self.record.value_layout.as_ref().and_then(|layout| layout.version());
        if let (Some(newest), Some(named)) = (newest, value.first_chunk()) {
            must_be_there(u16::from_be_bytes(*named), Some(newest), &self.record.name)?;
        }
        if self.rows % ROWS_A_LOOK == ROWS_A_LOOK - 1 {
            self.loader.heed.must_go_on().inspect_err(|error| self.failed = Some(error.clone()))?;
            self.loader.heed.progress.note_rows(ROWS_A_LOOK);
        }
        self.rows += 1;
        let cx = &self.db.shared.engine.cx;
        let put = if value.len() <= cx.shape.blob_bytes {
            self.loader.put(key, Tag::PUT, value)
        } else {
            cx.write_blob(value, self.record.size_class, false)
                .and_then(|(reference, hold)| self.loader.put_blob(key, reference, hold))
        };
        put.inspect_err(|error| {
            self.failed = Some(error.clone());
            self.db.shared.stop_if_unwritable(error);
        })
    }

    /// Creates the tree with all rows that were put, or fills the one that is there. Synced when it returns, whatever the durability
    /// of the store; waits until what was committed so far is applied.
    ///
    /// # Errors
    /// `DuplicateKey` if two rows of a unique tree have the same key; `TreeExists` if the name was given
    /// away meanwhile; `Full`; `Interrupted`; what [`put`](Self::put) has failed with: nothing is there (unless `Full` says that
    /// a new tree will be when the store is opened again). `OutcomeUnknown`, `Failed`: the store has stopped. Of a load into a
    /// tree that is there also those that [`Db::bulk_load_into`] names.
    pub fn finish(self) -> Result<BulkLoaded> {
        let mut loaded = Self::finish_all(vec![self])?;
        Ok(loaded.pop().expect("as many as were given"))
    }

    /// Creates, or fills, the trees of several loads in one commit: all of them are there, or none. For a table and
    /// its indexes. What waits for who has rows of trees that are filled heeds what the first of these loads heeds.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), if any of them fails; `InvalidArgument` if they are of different
    /// stores, or two of them have the same name, or are for the same tree.
    pub fn finish_all(loads: Vec<BulkLoad>) -> Result<Vec<BulkLoaded>> {
        let Some(first) = loads.first() else { return Ok(Vec::new()) };
        let db = first.db.clone();
        loads.iter().try_for_each(BulkLoad::check)?;
        Self::must_go_together(&loads.iter().collect::<Vec<_>>())?;
        for load in &loads {
            load.loader.heed.progress.note_rows(load.rows % ROWS_A_LOOK);
        }
        let _counted: Vec<_> = loads.iter().map(|load| load.work.clone()).collect();
        let waits = fill::Waits::of(&loads);
        let made = loads.into_iter().map(|load| {
            let made = load.loader.finish()?;
            Ok(MadeTree { record: load.record, fills: load.fills, made })
        });
        let made = made.collect::<Result<Vec<_>>>();
        let made = made.inspect_err(|error| db.shared.stop_if_unwritable(error))?;
        db.publish_loads(made, &waits)
    }

    /// What [`finish_all`](Self::finish_all) asks of loads, which takes them.
    ///
    /// # Errors
    /// `InvalidArgument` if they are of different stores, or two of them have the same name, or are for the same tree.
    pub fn must_go_together(loads: &[&BulkLoad]) -> Result<()> {
        for (at, load) in loads.iter().enumerate() {
            let twice = loads.iter().take(at).any(|other| other.is_for_that_of(load));
            if twice || !Arc::ptr_eq(&load.db.shared, &loads[0].db.shared) {
                let name = &load.record.name;
                let why = format!("\"{name}\" is loaded twice, or into another store");
                return Err(Error::InvalidArgument(why));
            }
        }
        Ok(())
    }

    fn is_for_that_of(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|load| load.fills.as_ref().map(Tree::id));
        self.record.name == other.record.name || own.is_some() && own == others
    }

    /// An error if it cannot go on.
    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        self.db.shared.check_writable()
    }
}

/// What a load has come to.
struct MadeTree {
    record: TreeRecord,
    fills: Option<Tree>,
    made: Made,
}

impl Shared {
    /// An error of a load, or of a long value, is its own affair, unless the store can write no more (P12).
    pub(super) fn stop_if_unwritable(&self, error: &Error) {
        if self.engine.store.check_writable().is_err() {
            self.engine.health.fail(error.to_string());
        }
    }
}

impl Db {
    /// Step 3: the trees of loads that are wholly written.
    fn publish_loads(&self, made: Vec<MadeTree>, waits: &fill::Waits) -> Result<Vec<BulkLoaded>> {
        let engine = &self.shared.engine;
        if !plant!("load: record before the pages are synced") {
            engine.health.watch(engine.store.sync())?;
        }
        let filled: Vec<&Tree> = made.iter().filter_map(|made| made.fills.as_ref()).collect();
        let _empty = self.keep_empty(&filled, waits)?;
        let mut change = self.change_catalog()?;
        let mut trees = Vec::new();
        for MadeTree { record, fills, made } in made {
            let (new, rows) = (record.id, made.rows);
            match &fills {
                None => change.add_loaded(record, made)?,
                Some(tree) => self.fill(&mut change, tree, new, made)?,
            }
            trees.push((new, rows, fills));
        }
        let shown = match change.is_empty() {
            true => Vec::new(),
            false => change.commit_shown()?.1,
        };
        let shown: HashMap<TreeId, Arc<TreeEntry>> =
            shown.into_iter().map(|entry| (entry.id, entry)).collect();
        let loaded = trees.into_iter().map(|(new, rows, fills)| {
            // One that was to be filled with nothing is what it was.
            let entry = shown.get(&new).or(fills.as_ref().map(|tree| &tree.entry)).cloned();
            let tree = Tree::new(self.shared.clone(), entry.expect("it was put, or is there"));
            BulkLoaded { tree, rows }
        });
        Ok(loaded.collect())
    }
}
