//! Bulk loads: trees that are created with all their rows.
//!
//! 1. `begin`: the name must be free, or the tree that will be filled empty (`bulk_fill.rs`). The
//!    new tree gets its number, which its pages will carry.
//! 2. `put`: rows go where `loader/` puts them, into pages that nothing links.
//! 3. `finish`: the last pages are written, the store file is synced, and one commit to the catalog
//!    names the tree, its root, and the extents of its pages. The publish that applies the commit
//!    makes the root part of the version (`version/branches/mod.rs`), and the checkpoint after it
//!    makes the pages part of the space map. See docs/design/007.
//!
//! Invariants
//! 1. Until the commit nothing names the pages: a load that is dropped, fails or is cut off by a
//!    crash leaves nothing. From the commit on, the log names them until checkpoints in both
//!    superblock slots have them (Rule: I11).
//! 2. The pages are on disk before a record that names them can be.
//!
//! Threads: a load has one owner; finishing takes the lock of catalog changes.

use std::{collections::HashMap, time::Duration};

use crate::{
    Error, Result, TreeId, bounds,
    catalog::{StoredTable, TreeEntry, TreeRecord},
    db::{
        Db, Interrupter, Shared, Tree, TreeOptions,
        commit::LOCK_WAIT,
        load::bulk_fill,
        load::{Loader, Made},
        tree::must_be_there,
    },
    key_range::check_key,
    message::Tag,
    progress::Progress,
    run::Work,
    sync::Arc,
    tree::TreeTraits,
};

/// Rows between two checks for cancellation and two updates of the progress.
const ROWS_A_LOOK: u64 = 256;

/// Loads rows in any order into a tree that it creates ([`Db::bulk_load`]), or into an empty one
/// ([`Db::bulk_load_into`]).
///
/// Dropping it abandons the load, which cannot fail: nothing of it was in the store. An open load
/// keeps the store open.
#[must_use = "a load that is dropped is discarded: call `finish`"]
pub struct BulkLoad {
    pub(in crate::db) db: Db,
    /// The catalog record of the tree, without the commit that creates it.
    pub(in crate::db) record: TreeRecord,
    /// The number of the tree in the store from which it is copied, if the caller has given it.
    copied_from: Option<TreeId>,
    /// The empty tree that it will replace.
    pub(in crate::db) fills: Option<Tree>,
    /// How long `finish` waits for transactions with rows of that tree.
    pub(in crate::db) lock_timeout: Option<Duration>,
    pub(in crate::db) interrupter: Option<Interrupter>,
    pub(crate) loader: Loader,
    /// The error after which the load cannot continue.
    failed: Option<Error>,
    /// Rows put so far.
    rows: u64,
    /// Held, so that the tree's work counters continue from here once it exists.
    work: Arc<Work>,
}

short_debug!(BulkLoad, "BulkLoad", |load| load.record.name);

/// A tree that was loaded.
#[derive(Clone, Debug)]
pub struct BulkLoaded {
    /// The tree.
    pub tree: Tree,
    /// Number of its rows; fewer than were put if keys came more than once.
    pub rows: u64,
}

impl Db {
    /// Starts to load a new tree: for many rows at once, in any order, by far the cheapest way into
    /// the store. When [`finish`](BulkLoad::finish) returns, the tree exists with all its rows and
    /// is durable. Before that it is invisible, and neither a crash nor an error leaves anything
    /// behind.
    ///
    /// Rows are sorted in memory, within a part of `cache_size`, and beyond that in the store's own
    /// file: a load of unordered rows larger than memory needs disk space for all of them in
    /// addition to the tree. Rows in key order are written once. The log does not hold the rows,
    /// and a change feed only reports that the tree was loaded. Everything else goes on meanwhile,
    /// other loads included.
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
    /// `TreeExists`; `InvalidArgument` for a name or options that are not allowed; `ReadOnly`,
    /// `Closed`, `Failed`.
    pub fn bulk_load(&self, name: &str, options: TreeOptions) -> Result<BulkLoad> {
        let shared = &self.shared;
        shared.check_writable()?;
        let record = {
            let _change = shared.catalog.change();
            shared.must_be_free(name)?;
            let mut counters = shared.catalog.counters();
            let record = self.new_tree(name, options, &mut counters)?;
            // The number is used up even if the load never creates a tree.
            shared.catalog.set_counters(counters);
            record
        };
        Ok(self.begin_load(record, None))
    }

    /// Starts a load that will become this tree.
    pub(in crate::db) fn begin_load(&self, record: TreeRecord, fills: Option<Tree>) -> BulkLoad {
        let shared = &self.shared;
        let engine = &shared.engine;
        let (lineage, class) = (record.lineage, record.size_class);
        let work = shared.catalog.work.of(lineage);
        let schema = record.schema(&work);
        let traits = TreeTraits { lineage, class, leaf_filters: record.unique, schema };
        let birth = engine.versions.current().publish;
        let kind = (&*record.name, record.unique);
        let loader = Loader::new(&engine.cx, &engine.loads, traits, birth, kind);
        let (failed, rows, lock_timeout, interrupter) = (None, 0, Some(LOCK_WAIT), None);
        BulkLoad {
            db: self.clone(),
            record,
            copied_from: None,
            fills,
            lock_timeout,
            interrupter,
            loader,
            failed,
            rows,
            work,
        }
    }
}

impl BulkLoad {
    /// Makes the load cancellable: after this call, an interrupt ends the call in progress,
    /// `finish` included, with `Interrupted`, and the load with it.
    pub fn set_interrupter(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(&mut self.loader.cancel);
        self.interrupter = Some(interrupter.clone());
    }

    /// Limits how long `finish` of a load into an existing tree waits for transactions with rows of
    /// it, before it fails with [`Error::LockTimeout`]; `None` means no limit. The default is ten
    /// seconds. If several loads finish together, the shortest limit counts.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// Sets the number that the tree has in the store from which its rows and attributes are
    /// copied. If the attributes are those of a table's rows, and the trees of its indexes are
    /// loaded and [finished](Self::finish_all) together with them, the new trees are a table again.
    pub fn copied_from(&mut self, number: TreeId) {
        self.copied_from = Some(number);
    }

    /// Sets a callback for a duplicate key in a `unique` tree. It gets the key and the value of one
    /// of the rows that have it. It is called at most once, by [`put`](Self::put) or
    /// [`finish`](Self::finish), before that fails with `DuplicateKey`.
    pub fn on_duplicate(&mut self, tell: impl FnMut(&[u8], &[u8]) + Send + 'static) {
        self.loader.on_duplicate(Box::new(tell));
    }

    /// How far the load is; readable from other threads, also while it is [finished](Self::finish).
    pub fn progress(&self) -> Progress {
        self.loader.progress.clone()
    }

    /// Reports progress to `progress`, which may be shared with other loads.
    pub(in crate::db) fn tell(&mut self, progress: &Progress) {
        self.loader.progress = progress.clone();
    }

    /// Adds a row. If a key comes more than once, the row put last stays, unless the tree is
    /// `unique`: then that is an error, returned here or at the latest by [`finish`](Self::finish).
    ///
    /// Costs a copy of the row; now and then a part of the rows is sorted and written on this
    /// thread.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`: the row was not added, and the load may go on. After any other
    /// error it cannot: `DuplicateKey`, `Full`, `Interrupted`, I/O errors, `Closed`, `Failed`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_row(key.as_ref(), value.as_ref())
    }

    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
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
            self.loader
                .cancel
                .check_cancelled()
                .inspect_err(|error| self.failed = Some(error.clone()))?;
            self.loader.progress.note_rows(ROWS_A_LOOK);
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

    /// Creates the tree with all rows that were put, or fills the existing one. It is synced when
    /// this returns, whatever the durability of the store. Waits until what was committed so far is
    /// applied.
    ///
    /// # Errors
    /// `DuplicateKey` if two rows of a unique tree have the same key; `TreeExists` if the name was
    /// taken meanwhile; `Full`; `Interrupted`; the error with which [`put`](Self::put) has failed.
    /// After these nothing was created, unless the message of `Full` says that a new tree will
    /// exist when the store is opened again. `OutcomeUnknown`, `Failed`: the store has stopped. A
    /// load into an existing tree also returns the errors of [`Db::bulk_load_into`].
    pub fn finish(self) -> Result<BulkLoaded> {
        let mut loaded = Self::finish_all(vec![self])?;
        Ok(loaded.pop().expect("as many as were given"))
    }

    /// Creates or fills the trees of several loads in one commit: all of them, or none. Meant for a
    /// table and its indexes. The wait for transactions with rows of the filled trees is cancelled
    /// by the interrupter of the first of these loads.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), if any of them fails; `InvalidArgument` if they belong to
    /// different stores, if two of them have the same name or the same tree to fill, or if the rows
    /// of a table are [copied](Self::copied_from) without one of its indexes.
    pub fn finish_all(mut loads: Vec<BulkLoad>) -> Result<Vec<BulkLoaded>> {
        let Some(first) = loads.first() else { return Ok(Vec::new()) };
        let db = first.db.clone();
        loads.iter().try_for_each(BulkLoad::check)?;
        Self::must_go_together(&loads.iter().collect::<Vec<_>>())?;
        renumber_tables(&mut loads)?;
        for load in &loads {
            load.loader.progress.note_rows(load.rows % ROWS_A_LOOK);
        }
        let _counted: Vec<_> = loads.iter().map(|load| load.work.clone()).collect();
        let waits = bulk_fill::Waits::of(&loads);
        let made = loads.into_iter().map(|load| {
            let made = load.loader.finish()?;
            Ok(MadeTree { record: load.record, fills: load.fills, made })
        });
        let made = made.collect::<Result<Vec<_>>>();
        let made = made.inspect_err(|error| db.shared.stop_if_unwritable(error))?;
        db.publish_loads(made, &waits)
    }

    /// Checks what [`finish_all`](Self::finish_all) requires, without consuming the loads.
    ///
    /// # Errors
    /// `InvalidArgument` if they belong to different stores, or if two of them have the same name
    /// or the same tree to fill.
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

    /// Fails if the load cannot go on.
    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        self.db.shared.check_writable()
    }
}

/// Makes the definitions of copied tables name the new trees.
fn renumber_tables(loads: &mut [BulkLoad]) -> Result<()> {
    let numbers = loads.iter().filter_map(|load| Some((load.copied_from?, load.record.id)));
    let numbers: HashMap<TreeId, TreeId> = numbers.collect();
    for load in loads {
        let record = &mut load.record;
        let table = load.copied_from.and_then(|rows| StoredTable::of(rows, &record.attributes));
        let Some(table) = table else { continue };
        let table = table.renumbered(record.id, &numbers).map_err(|index| {
            let name = &record.name;
            let why = format!("table \"{name}\" is loaded without its index \"{index}\"");
            Error::InvalidArgument(why)
        })?;
        record.attributes = table.encode();
    }
    Ok(())
}

/// The result of a load.
struct MadeTree {
    record: TreeRecord,
    fills: Option<Tree>,
    made: Made,
}

impl Shared {
    /// Stops the store if it can no longer write (P12). Other errors concern only the load or the
    /// long value.
    pub(in crate::db) fn stop_if_unwritable(&self, error: &Error) {
        if let Err(Error::Failed(_)) = self.engine.store.check_writable() {
            self.engine.health.fail(error.to_string());
        }
    }
}

impl Db {
    /// Step 3: publishes the trees of completely written loads.
    fn publish_loads(
        &self,
        made: Vec<MadeTree>,
        waits: &bulk_fill::Waits,
    ) -> Result<Vec<BulkLoaded>> {
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
            // A tree that was filled with no rows is unchanged.
            let entry = shown.get(&new).or(fills.as_ref().map(|tree| &tree.entry)).cloned();
            let tree = Tree::new(self.shared.clone(), entry.expect("it was put, or is there"));
            BulkLoaded { tree, rows }
        });
        Ok(loaded.collect())
    }
}
