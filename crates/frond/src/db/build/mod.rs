//! Indexes of a tree that is being written, built from entries that the program computes: the phases of a build (Rule: I34).
//!
//! 1. *Register* ([`Db::build_indexes`]): from then on whoever writes a row of the tree puts the row's key into a queue
//!    (`catalog/queue.rs`). Writers know nothing of the indexes.
//! 2. *Snapshot*: transactions that had written the tree before are waited for, also those that are prepared. Then a snapshot
//!    is taken; all that is missing from it is in the queue.
//! 3. *Base*: the program reads the snapshot and adds the entries of its rows, to a bulk load an index.
//! 4. *Rounds* (`round.rs`): writers turn to another queue, another snapshot is taken, and the program is handed each row that
//!    differs between the two, as it was and as it is, and says which entries go and come.
//! 5. *Lock*: the tree is nobody else's; one round more, and nothing is missing.
//! 6. *Publish*: one commit of the catalog makes all indexes what they are to be, and drops the queues.
//!
//! Invariants
//! 1. Before that commit the trees of a build have the mark of one in the catalog, and nobody reads them: a crash, an error, or a
//!    build that is given up leaves trees that are dropped with the next sweep, and nothing else (`leftover.rs`).
//! 2. After a round the indexes are what the program's entries of one moment are, that of the round's snapshot: in a unique one
//!    no two of that moment had the same.
//! 3. A row that differs between two snapshots of rounds is in a queue that the second round reads: a queue goes only after a round whose
//!    snapshot was taken when nobody could put into it any more.
//! 4. A snapshot from before the publication cannot read the indexes (Rule: I43).
//!
//! Threads: a build has one owner; writers go on beside it, but while the tree is locked. Memory: of bulk loads, one batch, one row.

mod leftover;
mod round;

use std::{collections::BTreeSet, time::Duration};

use crate::{
    Error, Progress, Result, TreeId,
    catalog::{BUILD_ATTRIBUTES, ChangeQueue},
    heed::Heed,
    sync::{Arc, AtomicBool, Ordering},
};

use super::{
    Alone, Batch, BulkLoad, CatalogChange, Db, Interrupter, Snapshot, Tree, TreeOptions,
    alter::WritersThen,
};
pub use round::RowChanged;
use round::{Queue, Round};

/// Between two looks whether somebody has ended.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a build that is given up waits for calls that are on their way; what it cannot drop then stays a leftover.
const PAUSES_AT_END: u32 = 100;

/// A build of indexes on its way: see [`Db::build_indexes`]. Dropped, it is given up: nothing is left of it.
#[derive(Debug)]
pub struct IndexBuild {
    db: Db,
    base: Tree,
    indexes: Vec<Building>,
    /// Until they are finished, one an index.
    loads: Vec<BulkLoad>,
    /// Oldest first; writers put into the last.
    queues: Vec<Queue>,
    /// Read to their end, and not dropped yet.
    gone: Vec<Queue>,
    /// Who had written the tree before.
    writers: WritersThen,
    /// What the indexes have, or will have with the base.
    has: Option<Snapshot>,
    round: Option<Round>,
    rounds: u32,
    /// Rows of the last round.
    changes: u64,
    batch: Batch,
    /// New entries of unique indexes that are in the batch.
    fresh: BTreeSet<(usize, Vec<u8>)>,
    alone: Option<Locked>,
    heed: Heed,
    failed: Option<Error>,
    is_published: bool,
}

#[derive(Debug)]
struct Building {
    name: String,
    id: TreeId,
    options: TreeOptions,
    /// From when its base is loaded.
    tree: Option<Tree>,
}

/// The tree is the build's alone.
#[derive(Debug)]
struct Locked {
    _alone: Alone,
    /// The last round was read to its end.
    is_whole: bool,
}

impl Db {
    /// Begins to build indexes of a tree that has rows, while others write it: trees of these names, whose entries the program
    /// computes. A tree has one build at a time.
    ///
    /// Writers need not know of it, transactions and batches alike, nor do they wait, until [`lock`](IndexBuild::lock): the keys of the rows
    /// that they write are kept in a queue, in their own commits, and the program computes the entries of these rows, too. An entry's key
    /// must be no other row's, unless the index is `unique` and that is to be found out.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::TreeOptions;
    /// use std::time::Duration;
    ///
    /// // Of people by number, an index by name.
    /// let people = db.create_tree("people", Default::default())?;
    /// people.put(b"1", b"ada")?;
    /// let unique = TreeOptions { unique: true, ..Default::default() };
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
    ///         let (number, old, new) = (row.key.to_vec(), row.old.map(<[u8]>::to_vec), row.new.map(<[u8]>::to_vec));
    ///         build.change(0, old.as_deref(), new.as_deref().map(|name| (name, &number[..])))?;
    ///     }
    ///     if build.is_locked() {
    ///         break;
    ///     }
    ///     if build.is_near()? {
    ///         build.lock(Duration::from_secs(1))?; // If that is not to be had: another round.
    ///     }
    /// }
    /// let trees = build.publish(|_| {})?; // From here on writers write the index, too.
    /// assert_eq!(trees[0].get(b"bob")?.as_deref(), Some(&b"2"[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `LockBusy` if the tree has a build; `TreeExists`, `InvalidArgument` for names and options, as those of
    /// [`bulk_load`](Self::bulk_load) and of a commit.
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
        let heed = Heed::default();
        loads.iter_mut().for_each(|load| load.tell(&heed.progress));
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
            heed,
            failed: None,
            is_published: false,
        })
    }

    /// Registers a build: all but the wait.
    fn first_queue(&self, base: &Tree, building: &[Building]) -> Result<Queue> {
        let mut ours = self.shared.catalog.building.lock().unwrap();
        if base.entry.queue.get().is_some() {
            return Err(Error::LockBusy {
                tree: base.name(),
                what: "the tree".into(),
                holder: "a build of indexes".into(),
                key: None,
            });
        }
        let queue = self.make_queue(&mut ours, &[])?;
        ours.extend(building.iter().map(|index| index.id));
        // Before another can ask whether the tree has a build.
        base.entry.queue.set(Some(queue.queue.clone()));
        self.shared.catalog.queues.fetch_add(1, Ordering::SeqCst);
        drop(ours);
        self.end_batches();
        Ok(queue)
    }

    /// A new queue, in the commit that drops those that are gone.
    fn make_queue(&self, ours: &mut BTreeSet<TreeId>, gone: &[TreeId]) -> Result<Queue> {
        let mut change = self.change_catalog()?;
        gone.iter().for_each(|&id| change.drop_tree(id));
        let names = (0u32..).map(|n| format!("changes for a build, {n}"));
        let name = names.into_iter().find(|name| change.find(name).is_none());
        let name = name.unwrap_or_default();
        let id = change.create(&name, Default::default())?;
        change.set_attributes(id, BUILD_ATTRIBUTES.to_vec())?;
        // Before anybody can take it for a leftover.
        ours.insert(id);
        let made = change.commit();
        if let Err(error) = made {
            ours.remove(&id);
            return Err(error);
        }
        ours.retain(|id| !gone.contains(id));
        let tree = self.tree(id).ok_or(Error::NoSuchTree(name))?;
        let queue = Arc::new(ChangeQueue { tree: id, has_missed: AtomicBool::new(false) });
        Ok(Queue { tree, queue, is_closed: false })
    }

    /// Waits for batches that have passed the gate: those that come later see what was set before.
    fn end_batches(&self) {
        let gate = &self.shared.gate;
        if gate.close(|| true) {
            gate.open();
        }
    }
}

impl IndexBuild {
    /// Ends, with `Interrupted`, the call that it is in and each later one, until that is cleared: of another thread. Before the first
    /// call and between rounds and their rows nothing is lost by it: after [`Interrupter::clear`] the build goes on. Where it meets
    /// [`add`](Self::add), or the base while that is finished, it ends the build.
    pub fn heed(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(&mut self.heed);
        self.loads.iter_mut().for_each(|load| load.heed(interrupter));
    }

    /// How far it is, for others to look at.
    pub fn progress(&self) -> Progress {
        self.heed.progress.clone()
    }

    /// The moment that the base is to be read at, the same with each call. The first call waits until transactions have ended that had
    /// written the tree when the build began, those that are prepared, too; others go on. A transaction of the thread that builds
    /// would be waited for in vain.
    ///
    /// # Errors
    /// `LockTimeout` if one lasts longer than `wait`: call again; `Interrupted`.
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
                        what: "the tree, to build an index".into(),
                        holder: "a transaction that had written it".into(),
                        key: None,
                    });
                }
                self.heed.must_go_on()?;
                self.db.pause(PAUSE);
            }
            self.has = Some(self.db.snapshot());
        }
        self.has.clone().ok_or(Error::Closed)
    }

    /// Adds the entry of a row of the [`snapshot`](Self::snapshot), in any order, to one of the indexes, which are numbered from 0 in the
    /// order in which they were given.
    ///
    /// # Errors
    /// `InvalidArgument` before the snapshot was taken, or after the first round; those of [`BulkLoad::put`].
    pub fn add(&mut self, index: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.go_on()?;
        if self.has.is_none() {
            return Err(misuse("the base is read at the snapshot: take it first"));
        }
        let load = self.loads.get_mut(index);
        load.ok_or_else(|| misuse("there is no such index, or the base is whole"))?.put(key, value)
    }

    /// The base is whole: makes trees of what was added. [`next_change`](Self::next_change) and [`lock`](Self::lock) do it if nobody has.
    ///
    /// # Errors
    /// `DuplicateKey`: two rows have the same in an index, `tree`, that is unique; as [`BulkLoad::finish`]. The build is over.
    pub fn end_base(&mut self) -> Result<()> {
        self.go_on()?;
        if self.has.is_none() {
            return Err(misuse("the base is read at the snapshot: take it first"));
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

    /// Takes the tree for the build alone, so that the next round is the last; writers wait from here on. Once a round has come to its
    /// end and [`is_near`](Self::is_near), few changes are left.
    ///
    /// # Errors
    /// `LockTimeout` if transactions keep rows of it for longer than `wait`: nothing was done, go on with rounds and try again;
    /// `NoSuchTree` if it was dropped or truncated meanwhile; `Interrupted`, also while it waits: go on likewise; as [`end_base`](Self::end_base).
    pub fn lock(&mut self, wait: Duration) -> Result<()> {
        self.end_base()?;
        if self.round.is_some() {
            return Err(misuse("a round is on its way: go on until it has no more changes"));
        }
        if self.alone.is_none() {
            let alone = self.db.lock_tree_heeding(&self.base, wait, &self.heed)?;
            // Nobody drops it from here on.
            self.base.check_there()?;
            self.alone = Some(Locked { _alone: alone, is_whole: false });
        }
        Ok(())
    }

    /// How many indexes it builds.
    pub fn index_count(&self) -> usize {
        self.indexes.len()
    }

    /// The numbers of the indexes' trees.
    pub(crate) fn tree_ids(&self) -> Vec<TreeId> {
        self.indexes.iter().map(|index| index.id).collect()
    }

    /// Whether the tree is the build's alone.
    pub fn is_locked(&self) -> bool {
        self.alone.is_some()
    }

    /// What [`publish`](Self::publish) asks for, which takes the build.
    ///
    /// # Errors
    /// What the build has failed with; `InvalidArgument` unless the tree is [locked](Self::lock) and a round has come to its end since.
    pub fn must_be_whole(&self) -> Result<()> {
        self.go_on()?;
        match self.alone.as_ref().is_some_and(|alone| alone.is_whole) {
            true => Ok(()),
            false => Err(misuse("changes are missing: lock the tree, and read a round to its end")),
        }
    }

    /// Makes the indexes what they are to be, in one commit, synced when it returns. `then` is called with their trees before any writer
    /// comes who has waited for the tree: what writers go by must say from there on that there are indexes. A writer that has decided
    /// what to write before it has an intent lock on the tree ([`Txn::lock_tree`](crate::Txn::lock_tree)) may have decided by what was
    /// so before: have it take the lock first, or keep it away. `then` itself writes nothing to the tree, which is locked.
    ///
    /// # Errors
    /// `InvalidArgument` unless the tree is [locked](Self::lock) and a round has come to its end since. Those of a commit: nothing is left
    /// of the build, or all is there.
    pub fn publish(self, then: impl FnOnce(&[Tree])) -> Result<Vec<Tree>> {
        self.publish_with(|_| Ok(()), then)
    }

    /// The same, with other changes of the catalog beside.
    pub(crate) fn publish_with(
        mut self,
        beside: impl FnOnce(&mut CatalogChange<'_>) -> Result<()>,
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
        beside(&mut change)?;
        change.commit()?;
        self.is_published = true;
        self.base.entry.queue.set(None);
        self.unregister();
        then(&trees);
        Ok(trees)
    }

    /// After writers have turned from its queues: from then on the tree may have another build, whose queue it has.
    fn unregister(&mut self) {
        self.db.shared.catalog.queues.fetch_sub(1, Ordering::SeqCst);
        let mut ours = self.db.shared.catalog.building.lock().unwrap();
        let queues = self.queues.iter().chain(&self.gone).map(|queue| queue.tree.id());
        let own: Vec<TreeId> = queues.chain(self.tree_ids()).collect();
        ours.retain(|id| !own.contains(id));
    }

    /// An error if it cannot go on, or is not to.
    fn go_on(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        self.heed.must_go_on()
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
            if queues.iter_mut().all(Queue::is_unused) {
                break;
            }
            self.db.pause(PAUSE);
        }
        self.queues = queues;
        self.unregister();
        // What it cannot drop now, the next sweep does.
        let _ = self.db.sweep_builds();
    }
}
