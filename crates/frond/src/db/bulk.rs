//! Bulk loads: trees that begin whole.
//!
//! 1. `begin`: the name must be free; the tree gets its number, which its pages will carry.
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

use crate::{
    Error, Progress, Result, Tag, VALUE_BYTES_MAX,
    catalog::{Record, TreeRecord},
    load::{Loader, Made},
    run::Work,
    sync::Arc,
    tree::{Built, TreeTraits},
    version::{Change, Loaded},
};

use super::{Db, Interrupter, Shared, Tree, TreeOptions, batch::check_key, tree::must_be_there};

/// Rows between two looks whether to go on, and two words of how far it is.
const ROWS_A_LOOK: u64 = 256;

/// Loads rows in any order into a tree that it creates; see [`Db::bulk_load`].
///
/// Dropping it gives everything up. An open load keeps the store open.
#[derive(Debug)]
pub struct BulkLoad {
    shared: Arc<Shared>,
    /// The tree as it will be, but for the commit that creates it.
    pub(super) record: TreeRecord,
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
        let engine = &shared.engine;
        let (lineage, class) = (record.lineage, record.size_class);
        let work = shared.catalog.work.of(lineage);
        let typing = record.typing(&work);
        let traits = TreeTraits { lineage, class, leaf_filters: record.unique, typing };
        let birth = engine.versions.current().publish;
        let kind = (name, record.unique);
        let loader = Loader::new(&engine.cx, &engine.loads, traits, birth, kind);
        Ok(BulkLoad { shared: shared.clone(), record, loader, failed: None, rows: 0, work })
    }
}

impl BulkLoad {
    /// From here on an interrupt ends the call that the load is in, also its end, with `Interrupted`, and with it the load.
    pub fn heed(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(&mut self.loader.heed);
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
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len(), max: VALUE_BYTES_MAX });
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
        let cx = &self.shared.engine.cx;
        let put = if value.len() <= cx.shape.blob_bytes {
            self.loader.put(key, Tag::PUT, value)
        } else {
            cx.write_blob(value, self.record.size_class, false)
                .and_then(|(reference, hold)| self.loader.put_blob(key, reference, hold))
        };
        put.inspect_err(|error| {
            self.failed = Some(error.clone());
            self.shared.stop_if_unwritable(error);
        })
    }

    /// Creates the tree with all rows that were put. Synced when it returns, whatever the durability of
    /// the store; waits until what was committed so far is applied.
    ///
    /// # Errors
    /// `DuplicateKey` if two rows of a unique tree have the same key; `TreeExists` if the name was given
    /// away meanwhile; `Full`; `Interrupted`; what [`put`](Self::put) has failed with: nothing is there (unless `Full` says that
    /// the tree will be when the store is opened again). `OutcomeUnknown`, `Failed`: the store has stopped.
    pub fn finish(self) -> Result<BulkLoaded> {
        let mut loaded = Self::finish_all(vec![self])?;
        Ok(loaded.pop().expect("as many as were given"))
    }

    /// Creates the trees of several loads in one commit: all of them are there, or none. For a table and
    /// its indexes.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), if any of them fails; `InvalidArgument` if they are of different
    /// stores, or two of them have the same name.
    pub fn finish_all(loads: Vec<BulkLoad>) -> Result<Vec<BulkLoaded>> {
        let Some(first) = loads.first() else { return Ok(Vec::new()) };
        let shared = first.shared.clone();
        for (at, load) in loads.iter().enumerate() {
            load.check()?;
            let twice = loads.iter().take(at).any(|other| other.record.name == load.record.name);
            if twice || !Arc::ptr_eq(&load.shared, &shared) {
                let name = &load.record.name;
                let why = format!("\"{name}\" is loaded twice, or into another store");
                return Err(Error::InvalidArgument(why));
            }
        }
        for load in &loads {
            load.loader.heed.progress.note_rows(load.rows % ROWS_A_LOOK);
        }
        let _counted: Vec<_> = loads.iter().map(|load| load.work.clone()).collect();
        let made = loads.into_iter().map(|load| Ok((load.record, load.loader.finish()?)));
        let made = made.collect::<Result<Vec<_>>>();
        let made = made.inspect_err(|error| shared.stop_if_unwritable(error))?;
        shared.publish_loads(made)
    }

    /// An error if it cannot go on.
    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        self.shared.check_writable()
    }
}

impl Shared {
    /// An error of a load, or of a long value, is its own affair, unless the store can write no more (P12).
    pub(super) fn stop_if_unwritable(&self, error: &Error) {
        if self.engine.store.check_writable().is_err() {
            self.engine.health.fail(error.to_string());
        }
    }

    /// Step 3: the trees of loads that are wholly written.
    fn publish_loads(self: &Arc<Self>, made: Vec<(TreeRecord, Made)>) -> Result<Vec<BulkLoaded>> {
        let engine = &self.engine;
        if !plant!("load: record before the pages are synced") {
            engine.health.watch(engine.store.sync())?;
        }
        let _change = self.catalog.change();
        let birth = engine.sequencer.visible().next();
        let mut put = vec![Record::Counters(self.catalog.counters())];
        let (mut changes, mut rows) = (Vec::new(), Vec::new());
        for (record, Made { built: Built { root, pages }, rows: count, blobs }) in made {
            self.must_be_free(&record.name)?;
            if count > 0 {
                let (tree, pages) = (record.id, Arc::new(pages));
                changes.push(Change::Load(Arc::new(Loaded { tree, root, pages, blobs })));
            }
            put.push(Record::Tree(TreeRecord { birth, ..record }));
            rows.push(count);
        }
        let seqno = self.change(&put, &[], &changes)?;
        self.begin_trees(seqno, &put)?;
        let records = put.into_iter().filter_map(|record| match record {
            // Whoever sees less sees no such tree (Rule: I43).
            Record::Tree(record) => Some(TreeRecord { birth: seqno, ..record }),
            _ => None,
        });
        let show = |(record, rows)| {
            let tree = Tree::new(self.clone(), self.catalog.show_tree(record));
            BulkLoaded { tree, rows }
        };
        Ok(records.zip(rows).map(show).collect())
    }
}
