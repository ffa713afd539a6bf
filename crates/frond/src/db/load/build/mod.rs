//! Online index builds: indexes of a tree that is being written, from entries that the program
//! computes (Rule: I34).
//!
//! The naive way, to read a snapshot and add its rows' entries, misses what is written meanwhile.
//! So a build has these phases:
//!
//! 1. *Register* ([`Db::build_indexes`]): from then on every writer of a row of the tree puts the
//!    row's key into a queue (`catalog/queue.rs`). Writers know nothing of the indexes.
//! 2. *Snapshot*: wait for transactions that had written the tree before, prepared ones included.
//!    Then take a snapshot; everything that is missing from it is in the queue.
//! 3. *Base*: the program reads the snapshot and adds the entries of its rows, to one bulk load per
//!    index.
//! 4. *Rounds* (`round.rs`): writers switch to another queue, and another snapshot is taken. The
//!    program gets each row that differs between the two snapshots, as it was and as it is, and
//!    says which entries to remove and to add.
//! 5. *Lock*: lock the tree exclusively; after one more round nothing is missing.
//! 6. *Publish*: one commit of the catalog gives all indexes their final attributes and drops the
//!    queues.
//!
//! Invariants
//! 1. Before that commit the trees of a build are marked as such in the catalog, and nothing reads
//!    them. A crash, an error or an abandoned build leaves only trees that the next sweep drops
//!    (`leftover.rs`).
//! 2. After a round the indexes hold the program's entries as of one moment, that of the round's
//!    snapshot; in a unique index no two entries as of that moment have the same key.
//! 3. If a row differs between the snapshots of two rounds, its key is in a queue that the second
//!    round reads: a queue is dropped only after a round whose snapshot was taken when nothing
//!    could be put into the queue any more.
//! 4. A snapshot from before the publication cannot read the indexes (Rule: I43).
//!
//! Threads: a build has one owner; writers go on concurrently, except while the tree is locked.
//! Memory: that of bulk loads, one batch, and one row.

mod leftover;
mod round;

use std::{collections::BTreeSet, time::Duration};

use crate::{
    Error, Result, TreeId,
    cancel::CancelToken,
    catalog::{BUILD_ATTRIBUTES, ChangeQueue},
    db::{
        Batch, BulkLoad, CatalogChange, Db, ExclusiveTreeLock, Interrupter, Snapshot, Tree,
        TreeOptions, ddl::WritersThen,
    },
    error::{LockHolder, WHOLE_TREE},
    progress::Progress,
    sync::{Arc, AtomicBool, Ordering},
};

pub use round::RowChanged;
use round::{Queue, Round};

/// Interval of checks while waiting for others to end.
const PAUSE: Duration = Duration::from_millis(1);
/// Number of such intervals that an abandoned build waits for calls in progress; trees that it
/// cannot drop then are left to the next sweep.
const PAUSES_AT_END: u32 = 100;

/// A running index build: see [`Db::build_indexes`]. Dropping it abandons the build, which
/// reports no errors: the trees of a build have no public name, and those that cannot be dropped
/// now are dropped later.
#[must_use = "a build that is dropped is discarded"]
pub struct IndexBuild {
    db: Db,
    base: Tree,
    indexes: Vec<Building>,
    /// One load per index, until they are finished.
    loads: Vec<BulkLoad>,
    /// Oldest first; writers put keys into the last.
    queues: Vec<Queue>,
    /// Queues that are completely read but not dropped yet.
    gone: Vec<Queue>,
    /// Transactions that had written the tree before.
    writers: WritersThen,
    /// The state that the indexes hold, or will hold with the base.
    has: Option<Snapshot>,
    round: Option<Round>,
    rounds: u32,
    /// Rows of the last round.
    changes: u64,
    batch: Batch,
    /// New entries of unique indexes that are in the batch.
    fresh: BTreeSet<(usize, Vec<u8>)>,
    alone: Option<Locked>,
    cancel: CancelToken,
    progress: Progress,
    failed: Option<Error>,
    is_published: bool,
}

short_debug!(IndexBuild, "IndexBuild", |build| build.base.name());

#[derive(Debug)]
struct Building {
    name: String,
    id: TreeId,
    options: TreeOptions,
    /// Set once its base is loaded.
    tree: Option<Tree>,
}

/// The build's exclusive lock on the tree.
#[derive(Debug)]
struct Locked {
    _alone: ExclusiveTreeLock,
    /// Whether a round has ended since the tree was locked.
    is_whole: bool,
}

impl Db {
    /// Starts to build indexes of a tree that has rows, while others write it. The indexes are
    /// trees with these names, whose entries the program computes. A tree can have one build at a
    /// time.
    ///
    /// Writers, transactions and batches alike, need not know of the build, and do not wait for it
    /// until [`lock`](IndexBuild::lock). The keys of the rows that they write are kept in a queue,
    /// in their own commits, and the program computes the entries of these rows, too. An entry's
    /// key must belong to only one row, unless the index is `unique` and the build should find
    /// duplicates.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::TreeOptions;
    /// use std::time::Duration;
    ///
    /// // An index of people by name.
    /// let people = db.create_tree("people", Default::default())?;
    /// people.put(b"1", b"ada")?;
    /// let unique = TreeOptions::new().unique(true);
    /// let mut build = db.build_indexes(&people, &[("people by name", unique)])?;
    ///
    /// let snapshot = build.snapshot(Duration::from_secs(10))?;
    /// let mut rows = snapshot.scan(&people, ..)?;
    /// while let Some((number, name)) = rows.next()? {
    ///     build.add(0, name, number)?;
    /// }
    /// people.put(b"2", b"bob")?; // Others go on.
    /// loop {
    ///     while let Some(row) = build.next_change()? {
    ///         let (old, new) = (row.old.map(<[u8]>::to_vec), row.new.map(<[u8]>::to_vec));
    ///         let number = row.key.to_vec();
    ///         build.change(0, old.as_deref(), new.as_deref().map(|name| (name, &number[..])))?;
    ///     }
    ///     if build.is_locked() {
    ///         break;
    ///     }
    ///     if build.is_near()? {
    ///         build.lock(Duration::from_secs(1))?; // On a timeout: another round.
    ///     }
    /// }
    /// let trees = build.publish(|_| {})?; // From here on writers write the index, too.
    /// assert_eq!(trees[0].get(b"bob")?.as_deref(), Some(&b"2"[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `LockBusy` if the tree has a build; `TreeExists` and `InvalidArgument` for names and
    /// options; errors of [`bulk_load`](Self::bulk_load) and of a commit.
    pub fn build_indexes(
        &self,
        base: &Tree,
        indexes: &[(&str, TreeOptions)],
    ) -> Result<IndexBuild> {
        base.check_there()?;
        if !Arc::ptr_eq(&self.shared, &base.shared) {
            let why = format!("tree \"{}\" is of another store", base.name());
            return Err(Error::InvalidArgument(why));
        }
        self.sweep_builds()?;
        let (mut loads, mut building) = (Vec::new(), Vec::new());
        for (name, options) in indexes {
            let mut load = self.bulk_load(name, options.clone())?;
            load.record.attributes = BUILD_ATTRIBUTES.to_vec();
            let (id, options) = (load.tree_id(), options.clone());
            building.push(Building { name: (*name).into(), id, options, tree: None });
            loads.push(load);
        }
        let (cancel, progress) = (CancelToken::default(), Progress::default());
        loads.iter_mut().for_each(|load| load.tell(&progress));
        let queue = self.first_queue(base, &building)?;
        let (writers, queues) = (base.writers_now(), vec![queue]);
        Ok(IndexBuild {
            db: self.clone(),
            base: base.clone(),
            indexes: building,
            loads,
            queues,
            gone: Vec::new(),
            writers,
            has: None,
            round: None,
            rounds: 0,
            changes: 0,
            batch: Batch::new(),
            fresh: BTreeSet::new(),
            alone: None,
            cancel,
            progress,
            failed: None,
            is_published: false,
        })
    }

    /// Registers a build, without waiting for earlier writers.
    fn first_queue(&self, base: &Tree, building: &[Building]) -> Result<Queue> {
        let mut ours = self.shared.catalog.building.lock().unwrap();
        if base.entry.queue.get().is_some() {
            return Err(Error::LockBusy {
                tree: base.name(),
                what: "the tree".into(),
                holder: LockHolder::Other("a build of indexes"),
                key: None,
            });
        }
        let queue = self.make_queue(&mut ours, &[])?;
        ours.extend(building.iter().map(|index| index.id));
        // Before another build can check whether the tree has a build.
        base.entry.queue.set(Some(queue.queue.clone()));
        self.shared.catalog.queues.fetch_add(1, Ordering::SeqCst);
        drop(ours);
        self.end_batches();
        Ok(queue)
    }

    /// Creates a queue, in the commit that drops the queues in `gone`.
    fn make_queue(&self, ours: &mut BTreeSet<TreeId>, gone: &[TreeId]) -> Result<Queue> {
        let mut change = self.change_catalog()?;
        gone.iter().for_each(|&id| change.drop_tree(id));
        let names = (0u32..).map(|n| format!("changes for a build, {n}"));
        let name = names.into_iter().find(|name| change.find(name).is_none());
        let name = name.unwrap_or_default();
        let id = change.create(&name, Default::default())?;
        change.set_attributes(id, BUILD_ATTRIBUTES.to_vec())?;
        // Before a sweep can mistake the queue for a leftover.
        ours.insert(id);
        let made = change.commit();
        if let Err(error) = made {
            ours.remove(&id);
            return Err(error);
        }
        ours.retain(|id| !gone.contains(id));
        let tree = self.tree_by_id(id).ok_or(Error::NoSuchTree(name))?;
        let queue = Arc::new(ChangeQueue { tree: id, has_missed: AtomicBool::new(false) });
        Ok(Queue { tree, queue, is_closed: false })
    }

    /// Waits for batches that have passed the gate; later batches see what was set before.
    fn end_batches(&self) {
        let gate = &self.shared.locking.gate;
        if gate.close(|| true) {
            gate.open();
        }
    }
}

impl IndexBuild {
    /// Makes the build cancellable: an interrupt from another thread ends the call in progress and
    /// each later one with `Interrupted`, until it is cleared. An interrupt before the first call,
    /// between rounds, or between the rows of a round loses nothing: after [`Interrupter::clear`]
    /// the build goes on. If it interrupts [`add`](Self::add), or the call that finishes the base,
    /// the build fails.
    pub fn set_interrupter(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(&mut self.cancel);
        self.loads.iter_mut().for_each(|load| load.set_interrupter(interrupter));
    }

    /// How far the build is; readable from other threads.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The snapshot at which the program must read the base; each call returns the same one. The
    /// first call waits until all transactions have ended that had written the tree when the build
    /// started, prepared ones included; other transactions are not affected. If the building thread
    /// has such a transaction open itself, the wait ends only with `LockTimeout`.
    ///
    /// # Errors
    /// `LockTimeout` if a transaction lasts longer than `wait`: call again; `Interrupted`.
    pub fn snapshot(&mut self, wait: Duration) -> Result<Snapshot> {
        self.go_on()?;
        if self.has.is_none() {
            let now = || self.db.shared.engine.env.clock.now();
            let until = now().saturating_add(wait);
            while !self.writers.have_ended()
                && !plant!("db: writers of before a build are not waited for")
            {
                if now() >= until {
                    return Err(Error::LockTimeout {
                        tree: self.base.name(),
                        what: WHOLE_TREE.into(),
                        holder: LockHolder::Other(
                            "a transaction that had written it before the build began",
                        ),
                        key: None,
                    });
                }
                self.cancel.check_cancelled()?;
                self.db.pause(PAUSE)?;
            }
            self.has = Some(self.db.snapshot());
        }
        self.has.clone().ok_or(Error::Closed)
    }

    /// Adds the entry of a row of the [`snapshot`](Self::snapshot) to one of the indexes, in any
    /// order. Indexes are numbered from 0 in the order in which they were given.
    ///
    /// # Errors
    /// `InvalidArgument` before the snapshot was taken, or after the first round started; errors of
    /// [`BulkLoad::put`].
    pub fn add(&mut self, index: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.go_on()?;
        if self.has.is_none() {
            return Err(misuse("the base tree is read at the snapshot: take the snapshot first"));
        }
        let load = self.loads.get_mut(index);
        load.ok_or_else(|| misuse("no such index, or the base tree has all columns"))?
            .put(key, value)
    }

    /// Completes the base: makes trees of what was added. [`next_change`](Self::next_change) and
    /// [`lock`](Self::lock) do it if it was not called.
    ///
    /// # Errors
    /// `DuplicateKey`: two rows have the same key in `tree`, a unique index; as
    /// [`BulkLoad::finish`]. The build has failed.
    pub fn end_base(&mut self) -> Result<()> {
        self.go_on()?;
        if self.has.is_none() {
            return Err(misuse("the base tree is read at the snapshot: take the snapshot first"));
        }
        if self.loads.is_empty() {
            return Ok(());
        }
        let loads = std::mem::take(&mut self.loads);
        let loaded = BulkLoad::finish_all(loads);
        let loaded = loaded.inspect_err(|error| self.failed = Some(error.clone()))?;
        for (index, loaded) in self.indexes.iter_mut().zip(loaded) {
            index.tree = Some(loaded.tree);
        }
        Ok(())
    }

    /// Locks the tree exclusively, so that the next round is the last; writers wait from here on.
    /// Once a round has ended and [`is_near`](Self::is_near) is true, few changes are left.
    ///
    /// # Errors
    /// `LockTimeout` if transactions keep rows of the tree for longer than `wait`: nothing was
    /// done, run more rounds and try again; `NoSuchTree` if the tree was dropped or truncated
    /// meanwhile; `Interrupted`, also while it waits: likewise; as
    /// [`end_base`](Self::end_base).
    pub fn lock(&mut self, wait: Duration) -> Result<()> {
        self.end_base()?;
        if self.round.is_some() {
            return Err(misuse("a round is in progress: continue until it has no more changes"));
        }
        if self.alone.is_none() {
            let alone = self.db.lock_tree_cancellable(&self.base, wait, &self.cancel)?;
            // From here on nothing can drop the tree.
            self.base.check_there()?;
            self.alone = Some(Locked { _alone: alone, is_whole: false });
        }
        Ok(())
    }

    /// Number of indexes in the build.
    pub fn index_count(&self) -> usize {
        self.indexes.len()
    }

    /// The numbers of the indexes' trees.
    pub(crate) fn tree_ids(&self) -> Vec<TreeId> {
        self.indexes.iter().map(|index| index.id).collect()
    }

    /// True if the build holds the tree exclusively.
    pub fn is_locked(&self) -> bool {
        self.alone.is_some()
    }

    /// Checks what [`publish`](Self::publish) requires, without consuming the build.
    ///
    /// # Errors
    /// The error with which the build has failed; `InvalidArgument` unless the tree is
    /// [locked](Self::lock) and a round has ended since.
    pub fn must_be_whole(&self) -> Result<()> {
        self.go_on()?;
        match self.alone.as_ref().is_some_and(|alone| alone.is_whole) {
            true => Ok(()),
            false => Err(misuse("changes are missing: lock the tree, and read a round to its end")),
        }
    }

    /// Makes the indexes live in one commit, which is synced when this returns. `then` is called
    /// with their trees before any writer that waited for the tree goes on: from there on, whatever
    /// tells writers which indexes exist must include these. A writer that decides what to write
    /// before it has an intent lock on the tree ([`Txn::lock_tree`](crate::Txn::lock_tree)) may
    /// have decided by the old state: have it take the lock first, or exclude it. `then` itself
    /// must not write to the tree, which is locked.
    ///
    /// # Errors
    /// `InvalidArgument` unless the tree is [locked](Self::lock) and a round has ended since.
    /// Errors of a commit: then either nothing is left of the build, or all indexes are there.
    pub fn publish(self, then: impl FnOnce(&[Tree])) -> Result<Vec<Tree>> {
        self.publish_with(|_| Ok(()), then)
    }

    /// Publishes the indexes, like [`publish`](Self::publish), together with other catalog changes
    /// made by `also`.
    pub(crate) fn publish_with(
        mut self,
        also: impl FnOnce(&mut CatalogChange<'_>) -> Result<()>,
        then: impl FnOnce(&[Tree]),
    ) -> Result<Vec<Tree>> {
        self.must_be_whole()?;
        let trees: Vec<Tree> = self.indexes.iter().filter_map(|index| index.tree.clone()).collect();
        let db = self.db.clone();
        let mut change = db.change_catalog()?;
        for index in &self.indexes {
            change.set_attributes(index.id, index.options.attributes.clone())?;
            if !plant!("db: an index begins with its load") {
                change.begin(index.id)?;
            }
        }
        let queues = self.queues.iter().chain(&self.gone);
        queues.for_each(|queue| change.drop_tree(queue.tree.id()));
        also(&mut change)?;
        change.commit()?;
        self.is_published = true;
        self.base.entry.queue.set(None);
        self.unregister();
        then(&trees);
        Ok(trees)
    }

    /// Unregisters the build, after writers have switched from its queues. From then on the tree
    /// may have another build.
    fn unregister(&mut self) {
        self.db.shared.catalog.queues.fetch_sub(1, Ordering::SeqCst);
        let mut ours = self.db.shared.catalog.building.lock().unwrap();
        let queues = self.queues.iter().chain(&self.gone).map(|queue| queue.tree.id());
        let own: Vec<TreeId> = queues.chain(self.tree_ids()).collect();
        ours.retain(|id| !own.contains(id));
    }

    /// Fails if the build has failed or was cancelled.
    fn go_on(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        self.cancel.check_cancelled()
    }
}

fn misuse(why: &str) -> Error {
    Error::InvalidArgument(why.into())
}

impl Drop for IndexBuild {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        self.loads.clear();
        (self.round, self.has) = (None, None);
        self.base.entry.queue.set(None);
        self.db.end_batches();
        self.alone = None;
        let mut queues: Vec<Queue> = self.queues.drain(..).chain(self.gone.drain(..)).collect();
        for _ in 0..PAUSES_AT_END {
            if queues.iter_mut().all(Queue::is_unused) || self.db.pause(PAUSE).is_err() {
                break;
            }
        }
        self.queues = queues;
        self.unregister();
        // What cannot be dropped now, the next sweep drops.
        let _ = self.db.sweep_builds();
    }
}
