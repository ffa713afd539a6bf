//! Online index builds: an index of a table is built concurrently with the table's writers, which
//! wait only for a moment at the very end (Rule: I34).
//!
//! The phases are those of any build (`db/load/build/`). Here the program's functions compute the
//! entries, from the rows of the snapshot and from those that the rounds return; and the commit
//! that publishes the index adds it to the table's definition. If the exclusive lock on the table
//! is not available soon after a short round, there is another round.
//!
//! Invariants
//! 1. Until the commit that publishes it the index is not read: a crash, an error or a cancellation
//!    leaves nothing of it.
//! 2. At that commit the build holds the table exclusively, so no call uses the old definition, and
//!    calls that wait read the new one ([`TableState`](super::state::TableState), invariants 1 and
//!    2).
//! 3. A snapshot from before that commit cannot read the index (Rule: I43).
//!
//! Threads: the caller's. Memory: that of a bulk load, and a batch.

use std::{ops::ControlFlow, time::Duration};

use crate::{
    Duplicate, Error, Result, Snapshot,
    db::{IndexBuild, RowChanged, StoredTable},
    sync::{Arc, MutexGuard},
};

use super::{
    entry::Form,
    open::{Table, check_name, tree_name},
    spec::IndexSpec,
    state::{Definition, IndexState},
    write::extract,
};

/// Pause between two checks whether transactions have ended.
const PAUSE: Duration = Duration::from_millis(1);
/// Time limits for locking the table, the first and the greatest: writers that arrive meanwhile
/// wait, too.
const PATIENCE_FIRST: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// Rows between two checks whether to continue.
const ROWS_A_LOOK: u64 = 256;

/// The progress of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildProgress {
    /// Waiting for transactions that have written the table, or for the lock on the table.
    Waiting,
    /// Reading the rows of the table.
    Loading {
        /// Rows so far.
        rows: u64,
    },
    /// A round of concurrent changes was applied.
    CatchingUp {
        /// Rounds so far.
        round: u32,
        /// Changes of this round.
        entries: u64,
    },
}

type Watch<'a> = &'a mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

impl Table {
    /// Builds an index of a table that has rows, while others read and write the table. When it
    /// returns, the index is complete and durable; until then it cannot be read. Holds the memory
    /// and disk space of a bulk load of the index.
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
    ///     Ok(true)
    /// }).unique())?;
    /// let found = words.index("word")?.get(&db, b"frond")?;
    /// assert_eq!(found, Some((b"1".to_vec(), b"frond".to_vec())));
    /// # drop(words);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing is left of the index, and the table is as it was. `DuplicateKey` if two rows have
    /// the same bytes in a unique index; `IndexFunction` if its function fails for a row;
    /// `InvalidArgument` if the table has an index with this
    /// name; `LockBusy` while another one is built or dropped; those of a bulk load and of commits.
    pub fn build_index(&self, spec: IndexSpec) -> Result<()> {
        self.build_index_with(spec, |_| ControlFlow::Continue(()))
    }

    /// Builds an index, like [`build_index`](Self::build_index), and reports its progress to
    /// `watch` several times per second. Gives up when `watch` returns `Break`.
    ///
    /// # Errors
    /// As [`build_index`](Self::build_index); `Interrupted` if `watch` returned `Break`.
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
        drop(definition);
        self.sweep(&mut changing)?;
        let name = tree_name(&self.name(), self.state.rows.id(), &spec, changing.next);
        let build = self.db.build_indexes(&self.rows, &[(&name, spec.tree())])?;
        let table = self;
        let mut build = Build { table, build, changing, spec, watch: &mut watch };
        build.load()?;
        build.catch_up()?;
        build.publish()
    }
}

/// A build in progress.
struct Build<'a> {
    table: &'a Table,
    /// Dropped before the table may have another build.
    build: IndexBuild,
    changing: MutexGuard<'a, StoredTable>,
    spec: IndexSpec,
    watch: Watch<'a>,
}

/// An entry's key and value.
type Entry = (Vec<u8>, Vec<u8>);

/// The entry of a row of a table, if it has one.
fn entry(table: &Table, spec: &IndexSpec, key: &[u8], row: Option<&[u8]>) -> Result<Option<Entry>> {
    let form = Form { unique: spec.unique, clustering: spec.clustering };
    let (mut extracted, mut at, mut value) = (Vec::new(), Vec::new(), Vec::new());
    let has_entry = extract(&table.rows, spec, key, row, &mut extracted)?;
    let Some(row) = row.filter(|_| has_entry) else { return Ok(None) };
    form.write_key(&extracted, key, &mut at);
    form.write_value(key, row, &mut value);
    Ok(Some((at, value)))
}

impl Build<'_> {
    fn tell(&mut self, progress: BuildProgress) -> Result<()> {
        match (self.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }

    /// The snapshot from which the rows are read, taken once all transactions that had written the
    /// table before have ended.
    fn snapshot(&mut self) -> Result<Snapshot> {
        loop {
            match self.build.snapshot(Duration::ZERO) {
                Err(Error::LockTimeout { .. }) => {
                    self.tell(BuildProgress::Waiting)?;
                    self.table.db.pause(PAUSE)?;
                }
                snapshot => return snapshot,
            }
        }
    }

    fn load(&mut self) -> Result<()> {
        let snapshot = self.snapshot()?;
        let mut rows = snapshot.scan(&self.table.rows, ..)?;
        let mut count = 0;
        while let Some((key, row)) = rows.next()? {
            count += 1;
            if let Some((at, value)) = entry(self.table, &self.spec, key, Some(row))? {
                let added = self.build.add(0, &at, &value);
                added.map_err(|error| self.name_both(&snapshot, error))?;
            }
            if count % ROWS_A_LOOK == 0 {
                self.tell(BuildProgress::Loading { rows: count })?;
            }
        }
        self.tell(BuildProgress::Loading { rows: count })?;
        self.build.end_base().map_err(|error| self.name_both(&snapshot, error))
    }

    /// Turns a duplicate key into an error that names the rows of the snapshot that have the same
    /// bytes.
    fn name_both(&self, snapshot: &Snapshot, error: Error) -> Error {
        let Error::DuplicateKey(Duplicate::InLoad { key: twice, .. }) = error else { return error };
        let mut found = Vec::new();
        let mut look = || -> Result<()> {
            let mut rows = snapshot.scan(&self.table.rows, ..)?;
            let mut extracted = Vec::new();
            while let Some((key, row)) = rows.next()?.filter(|_| found.len() < 2) {
                let table = &self.table.rows;
                let has_entry = extract(table, &self.spec, key, Some(row), &mut extracted)?;
                if has_entry && extracted == twice {
                    found.push(key.to_vec());
                }
            }
            Ok(())
        };
        let looked = look();
        let (table, index) = (self.table.name(), self.spec.name.clone());
        looked.map_or_else(
            |error| error,
            |()| Error::DuplicateKey(Duplicate::InIndexBuild { table, index, rows: found }),
        )
    }

    /// Performs rounds, until the build holds the table exclusively and nothing is missing.
    fn catch_up(&mut self) -> Result<()> {
        let mut patience = PATIENCE_FIRST;
        loop {
            self.round()?;
            if self.build.is_locked() {
                return Ok(());
            }
            let (round, entries) = self.build.rounds();
            self.tell(BuildProgress::CatchingUp { round, entries })?;
            if !self.build.is_near()? {
                continue;
            }
            match self.build.lock(patience) {
                Err(Error::LockTimeout { .. } | Error::LockBusy { .. }) => {
                    patience = (2 * patience).min(PATIENCE_MAX);
                    self.tell(BuildProgress::Waiting)?;
                }
                locked => locked?,
            }
        }
    }

    fn round(&mut self) -> Result<()> {
        loop {
            let (old, new) = match self.build.next_change() {
                Ok(None) => return Ok(()),
                Ok(Some(RowChanged { key, old, new })) => {
                    let entry = |row| entry(self.table, &self.spec, key, row);
                    (entry(old)?, entry(new)?)
                }
                Err(error) => {
                    let at = self.build.target_snapshot();
                    return Err(at.map_or(error.clone(), |at| self.name_both(&at, error)));
                }
            };
            if old != new {
                let old = old.as_ref().map(|(key, _)| &key[..]);
                self.build.change(
                    0,
                    old,
                    new.as_ref().map(|(key, value)| (&key[..], &value[..])),
                )?;
            }
        }
    }

    fn publish(self) -> Result<()> {
        let Self { table, mut changing, spec, build, .. } = self;
        let number = changing.next;
        let base = build.tree_ids()[0];
        let mut stored = StoredTable { next: number + 1, ..changing.clone() };
        stored.indexes.push(spec.stored(number, base));
        let also = |change: &mut crate::db::CatalogChange<'_>| {
            change.set_attributes(stored.rows, stored.encode())
        };
        build.publish_with(also, |trees| {
            let mut definition = Definition::clone(&table.state.definition());
            let tree = trees[0].clone().for_table();
            definition.indexes.push(Arc::new(IndexState { number, spec, tree }));
            table.state.turn_to(definition);
        })?;
        *changing = stored;
        Ok(())
    }
}
