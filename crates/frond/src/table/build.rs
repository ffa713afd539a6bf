//! An index of a table that is being written: built beside its writers, who never wait for it but at its very end, for
//! a moment (Rule: I34).
//!
//! 1. The build is registered: the catalog names the trees it will make, and from then on writers put into a *queue*
//!    what the index would have to learn. Calls that still have the older definition are waited for, then all
//!    transactions that were writing the table; those that are prepared, too. New ones go on.
//! 2. The rows of a snapshot are loaded. All that is missing from it is in the queue.
//! 3. In rounds: writers turn to another queue, the users of the one before are waited for, and it is brought into the
//!    index ([`queue`](super::queue)). Each round has what came during the last.
//! 4. Once a round was short, the build takes the table for itself, brings the rest in, and one commit of the catalog says
//!    that there is an index; queues go with it. If the table is not to be had soon, there is another round.
//!
//! Invariants
//! 1. Until that commit nobody reads the index, and what it takes is named among the table's leftovers: a crash, an
//!    error or a cancel leaves trees that the next sweep drops, and nothing else.
//! 2. Of one row, queues have its changes in the order of their commits: what is in a later queue was written later
//!    ([`TableState`](super::state::TableState), invariant 1).
//! 3. A snapshot from before that commit cannot read the index (Rule: I43).
//!
//! Threads: the caller's. Memory: that of a bulk load, and a batch.

use std::{ops::ControlFlow, time::Duration};

use crate::{
    BulkLoad, Db, Error, Result, Snapshot, Tree, TreeId,
    db::{Alone, WaitAlone},
    sync::{Arc, MutexGuard},
};

use super::{
    entry::Form,
    form::Stored,
    open::{Table, check_name, tree_name},
    queue::{apply, has_more_than},
    spec::IndexSpec,
    state::{Changing, Definition, IndexState, Queue, is_unused},
    write::extract,
};

/// Between two looks whether somebody has ended.
const PAUSE: Duration = Duration::from_millis(1);
/// A round of so many entries is short. Each round more are, so that a build comes to its end beside any writers.
const SHORT_ENTRIES: u64 = 1000;
/// At most so many times as much: writers wait while that is brought in, some tenths of a second.
const SHORT_DOUBLED_MAX: u32 = 6;
/// How long the table is waited for, the first time and at most: writers that come meanwhile wait, too.
const PATIENCE_FIRST: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// Rows between two looks whether to go on.
const ROWS_A_LOOK: u64 = 256;
/// How long a build that has failed waits for calls that are on their way; what it cannot drop then stays a leftover.
const PAUSES_AT_END: u32 = 100;

/// How far a build has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildProgress {
    /// It waits for transactions that have written the table, or for the table itself.
    Waiting,
    /// So many rows of the table were read.
    Loading {
        /// Rows so far.
        rows: u64,
    },
    /// A round of changes that came meanwhile was brought in.
    CatchingUp {
        /// Rounds so far.
        round: u32,
        /// Changes of this round.
        entries: u64,
    },
}

type Watch<'a> = &'a mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

impl Table {
    /// Builds an index of a table that has rows, while others read and write it. When it returns the index is there,
    /// whole, and durable; until then it cannot be read. Needs the memory and disk space of a bulk load of the index.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{IndexSpec, TableSpec};
    ///
    /// let words = db.table(TableSpec::new("words"))?;
    /// db.transact(|txn| words.insert(txn, b"1", b"frond"))?;
    /// words.build_index(IndexSpec::new("word", |_, row, out| {
    ///     out.extend_from_slice(row);
    ///     true
    /// }).unique())?;
    /// let txn = db.begin(Default::default())?;
    /// let found = words.index("word")?.get(&txn, b"frond")?;
    /// assert_eq!(found, Some((b"1".to_vec(), b"frond".to_vec())));
    /// # drop(txn); drop(words);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing is left of the index, and the table is as it was. `IndexDuplicates` if two rows have the same in a
    /// unique one; `InvalidArgument` if the table has an index of this name; `LockBusy` while another one is built or
    /// dropped; those of a bulk load and of commits.
    pub fn build_index(&self, spec: IndexSpec) -> Result<()> {
        self.build_index_with(spec, |_| ControlFlow::Continue(()))
    }

    /// The same; tells `watch` how it goes, some times a second, and gives up when that says so.
    ///
    /// # Errors
    /// As [`build_index`](Self::build_index); `Interrupted` if it was to give up.
    pub fn build_index_with(
        &self,
        spec: IndexSpec,
        mut watch: impl FnMut(BuildProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        check_name(&spec)?;
        self.state.rows.check_there()?;
        let mut changing = self.state.change()?;
        let definition = self.state.definition_for(&self.rows)?;
        if definition.indexes.iter().any(|index| index.spec.name == spec.name) {
            let why = format!("table \"{}\" has an index \"{}\"", self.name(), spec.name);
            return Err(Error::InvalidArgument(why));
        }
        // As any call, or the build would wait for itself.
        drop(definition);
        self.sweep(&mut changing)?;
        let (mut build, load) = Build::begin(self, spec, changing, &mut watch)?;
        build.load(load)?;
        build.catch_up()
    }
}

/// A build on its way.
struct Build<'a> {
    table: &'a Table,
    changing: MutexGuard<'a, Changing>,
    spec: IndexSpec,
    number: u64,
    /// The tree that the index will be.
    base: TreeId,
    /// Queues made so far.
    queues: u32,
    /// What was brought in by the last round, in nobody's hands any more.
    applied: Option<(Tree, Alone<'a>)>,
    watch: Watch<'a>,
    is_done: bool,
}

impl<'a> Build<'a> {
    /// Step 1, but for the waits.
    fn begin(
        table: &'a Table,
        spec: IndexSpec,
        changing: MutexGuard<'a, Changing>,
        watch: Watch<'a>,
    ) -> Result<(Self, BulkLoad)> {
        let number = changing.stored.next;
        let name = tree_name(&table.name(), table.state.rows.id(), &spec, number);
        let load = table.db.bulk_load(&name, spec.tree())?;
        let (base, applied) = (load.tree_id(), None);
        let mut build =
            Self { table, changing, spec, number, base, queues: 0, applied, watch, is_done: false };
        let old = build.turn()?.0;
        build.wait_for_calls(old)?;
        // Some may have one from before that, and know of no queue.
        while let Some(older) = build.changing.retired.pop() {
            build.wait_for_calls(older)?;
        }
        let mut writers = table.state.rows.writers_now();
        while !writers.have_ended() && !plant!("table: writers of before are not waited for") {
            build.wait()?;
        }
        Ok((build, load))
    }

    fn db(&self) -> &'a Db {
        &self.table.db
    }

    fn form(&self) -> Form {
        Form { unique: self.spec.unique, clustering: self.spec.clustering }
    }

    /// Makes a queue, and has writers turn to it; the queue of the last round goes. Returns what they had before.
    fn turn(&mut self) -> Result<(Arc<Definition>, Option<Queue>)> {
        let (table, db) = (self.table, self.db());
        let mut stored = self.changing.stored.clone();
        // The number is taken by the first of them.
        stored.next = self.number + 1;
        let name = tree_name(&table.name(), stored.rows, &self.spec, self.number);
        let mut change = db.change_catalog()?;
        let queue =
            change.create(&format!("{name}/changes {}", self.queues), Default::default())?;
        if let Some((applied, _)) = &self.applied {
            change.drop_tree(applied.id());
            stored.leftovers.retain(|id| *id != applied.id());
        }
        if self.queues == 0 {
            stored.leftovers.push(self.base);
        }
        stored.leftovers.push(queue);
        change.set_attributes(stored.rows, stored.encode())?;
        change.commit()?;
        self.changing.stored = stored;
        self.applied = None;
        self.queues += 1;
        let tree = db.tree(queue).ok_or(Error::NoSuchTree(name))?;
        let mut definition = Definition::clone(&table.state.definition());
        let before = definition.queue.replace(Queue { spec: self.spec.clone(), tree });
        Ok((table.state.turn_to(definition), before))
    }

    fn tell(&mut self, progress: BuildProgress) -> Result<()> {
        match (self.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.tell(BuildProgress::Waiting)?;
        self.db().pause(PAUSE);
        Ok(())
    }

    /// Waits until no call has a definition that was turned from.
    fn wait_for_calls(&mut self, mut old: Arc<Definition>) -> Result<()> {
        while !is_unused(&mut old) {
            let gone_on = self.wait();
            gone_on.inspect_err(|_| self.changing.retired.push(old.clone()))?;
        }
        Ok(())
    }

    /// Step 2.
    fn load(&mut self, mut load: BulkLoad) -> Result<()> {
        let (snapshot, form, mut count) = (self.db().snapshot(), self.form(), 0);
        let mut rows = snapshot.scan(&self.table.rows, ..)?;
        let (mut extracted, mut at, mut value) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((key, row)) = rows.next()? {
            count += 1;
            if extract(&self.spec, key, Some(row), &mut extracted) {
                at.clear();
                value.clear();
                form.write_key(&extracted, key, &mut at);
                form.write_value(key, row, &mut value);
                load.put(&at, &value).map_err(|error| self.name_both(&snapshot, error))?;
            }
            if count % ROWS_A_LOOK == 0 {
                self.tell(BuildProgress::Loading { rows: count })?;
            }
        }
        self.tell(BuildProgress::Loading { rows: count })?;
        load.finish().map(drop).map_err(|error| self.name_both(&snapshot, error))
    }

    /// The rows of a snapshot that have the same.
    fn name_both(&self, snapshot: &Snapshot, error: Error) -> Error {
        let Error::DuplicateKey { key: twice, .. } = error else { return error };
        let mut found = Vec::new();
        let mut look = || -> Result<()> {
            let mut rows = snapshot.scan(&self.table.rows, ..)?;
            let mut extracted = Vec::new();
            while let Some((key, row)) = rows.next()?.filter(|_| found.len() < 2) {
                if extract(&self.spec, key, Some(row), &mut extracted) && extracted == twice {
                    found.push(key.to_vec());
                }
            }
            Ok(())
        };
        look().map_or_else(|error| error, |()| self.duplicates(found))
    }

    fn duplicates(&self, rows: Vec<Vec<u8>>) -> Error {
        let (table, index) = (self.table.name(), self.spec.name.clone());
        Error::IndexDuplicates { table, index, rows }
    }

    /// Steps 3 and 4.
    fn catch_up(&mut self) -> Result<()> {
        let (table, db) = (self.table, self.db());
        let tree = db.tree(self.base).ok_or_else(|| Error::NoSuchTree(self.spec.name.clone()))?;
        let (number, spec) = (self.number, self.spec.clone());
        let index = Arc::new(IndexState { number, spec, tree });
        let mut patience = PATIENCE_FIRST;
        for round in 1.. {
            let (old, queue) = self.turn()?;
            let queue = queue.expect("there is one since the build was registered").tree;
            self.wait_for_calls(old)?;
            let alone = self.wait_for_users(&queue)?;
            let entries = apply(table, &index, &queue)?;
            self.applied = Some((queue, alone));
            self.tell(BuildProgress::CatchingUp { round, entries })?;
            let short = SHORT_ENTRIES << (round - 1).min(SHORT_DOUBLED_MAX);
            let rest = table.state.definition().queue.clone();
            let rest = rest.expect("as before").tree;
            if entries > short || has_more_than(db, &rest, short)? {
                continue;
            }
            match db.lock_tree(&table.state.rows, WaitAlone::For(patience)) {
                Ok(alone) => {
                    apply(table, &index, &rest)?;
                    return self.publish(&index, &rest, &alone);
                }
                Err(Error::LockTimeout { .. } | Error::LockBusy { .. }) => {
                    patience = (2 * patience).min(PATIENCE_MAX);
                    self.tell(BuildProgress::Waiting)?;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("rounds end by returning")
    }

    /// Waits until nobody has changes in a queue that writers have turned from.
    fn wait_for_users(&mut self, queue: &Tree) -> Result<Alone<'a>> {
        loop {
            match self.db().lock_tree(queue, WaitAlone::Not) {
                Err(Error::LockTimeout { .. } | Error::LockBusy { .. }) => self.wait()?,
                locked => return locked,
            }
        }
    }

    /// The index is there from this commit on. The table is nobody else's, so that no writer has the definition that
    /// is turned from, and whoever waits takes the new one.
    fn publish(&mut self, index: &Arc<IndexState>, rest: &Tree, _alone: &Alone<'_>) -> Result<()> {
        let base = self.base;
        let mut stored = self.changing.stored.clone();
        let mut gone = vec![rest.id()];
        gone.extend(self.applied.iter().map(|(tree, _)| tree.id()));
        stored.leftovers.retain(|id| *id != base && !gone.contains(id));
        stored.indexes.push(index.spec.stored(index.number, base));
        let mut change = self.db().change_catalog()?;
        gone.iter().for_each(|&id| change.drop_tree(id));
        publish_at(&mut change, base, &stored)?;
        change.commit()?;
        self.changing.stored = stored;
        let mut definition = Definition::clone(&self.table.state.definition());
        definition.queue = None;
        definition.indexes.push(index.clone());
        self.table.state.turn_to(definition);
        self.is_done = true;
        Ok(())
    }
}

fn publish_at(
    change: &mut crate::db::CatalogChange<'_>,
    base: TreeId,
    stored: &Stored,
) -> Result<()> {
    if !plant!("table: an index begins with its load") {
        change.begin(base)?;
    }
    change.set_attributes(stored.rows, stored.encode())
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let Self { table, changing, applied, .. } = self;
        *applied = None;
        let mut definition = Definition::clone(&table.state.definition());
        if definition.queue.take().is_some() {
            changing.retired.push(table.state.turn_to(definition));
        }
        for _ in 0..PAUSES_AT_END {
            changing.retired.retain_mut(|definition| !is_unused(definition));
            if changing.retired.is_empty() {
                break;
            }
            table.db.pause(PAUSE);
        }
        // What it cannot drop now, the next sweep does.
        let _ = table.sweep(changing);
    }
}
