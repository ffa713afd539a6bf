//! Reads with all options: what they see, what they lock, what they do if a row is locked, and how
//! long they wait.
//!
//! [`Txn::get`](super::Txn::get) and [`Txn::get_for_update`](super::Txn::get_for_update) are the
//! usual reads; queues and servers need these (Rule: I46).
//!
//! Invariants
//! 1. A row is reported as locked only if this transaction holds its lock, and then it is the
//!    newest version.
//! 2. If a row that another transaction has locked is returned anyway, it is the last committed
//!    version.
//! 3. For many rows in one call, locks are taken in key order, all before any of the rows is read.
//!    A call that fails releases the locks that it has newly taken.
//!
//! Threads: as the transaction.

use std::time::Duration;

use crate::{
    Error, Result,
    block::columnar::ColumnSelection,
    db::{Projection, Tree, read::View},
    txn::lock_table::RowMode,
};

use super::{IfLocked, Isolation, ManyRows, Meeting, RowLock, State, Txn};

/// Which commits a read without locks sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sees {
    /// The commits that the transaction's level shows.
    #[default]
    AsLevel,
    /// All commits that are visible now, whatever snapshot the transaction has.
    Newest,
}

/// Which committed version a read sees.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    /// The version that the transaction's level shows.
    Level,
    /// The newest commit, visible or about to be; requires the row's lock.
    Latest,
    /// The last visible commit.
    Visible,
    /// The version in this view.
    View(&'a View<'a>),
}

/// Options of a read. The default behaves like [`Txn::get`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
#[must_use = "options have no effect until a read is called with them"]
pub struct ReadOptions<'p> {
    /// What it sees if it locks nothing; with a lock it always sees the newest version.
    pub sees: Sees,
    /// How it locks each row; `None`: not at all, except shared at [`Isolation::Serializable`].
    pub lock: Option<RowLock>,
    /// What it does if another transaction holds the row.
    pub if_locked: IfLocked,
    /// Limits all lock waits of the call together; overrides the transaction's options.
    /// `Some(Duration::MAX)` means no limit, `None`: as the options say.
    pub wait: Option<Duration>,
    /// Groups what it locks with what the last locking read has locked, so that
    /// [`TxnControl::unlock_last`](super::TxnControl::unlock_last) releases both. Meant for the row
    /// that an index entry names.
    pub with_last: bool,
    /// Only these parts of values.
    pub projection: Option<&'p Projection>,
}

/// The result of a read of one row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowRead {
    /// Whether the row exists.
    pub exists: bool,
    /// Whether it is locked by this transaction; it need not exist for that. False if the read
    /// locks nothing, or if it met another transaction's lock and was to skip the row or to read
    /// its last committed version.
    pub locked: bool,
    /// The value, or the requested parts of it.
    pub value: Vec<u8>,
}

impl RowRead {
    /// The value, or `None` if the row does not exist.
    pub fn into_value(self) -> Option<Vec<u8>> {
        self.exists.then_some(self.value)
    }

    /// Reads another row into this one, whose memory is reused. Otherwise like [`Txn::get_with`].
    ///
    /// # Errors
    /// As [`Txn::get_with`]; then the row is empty.
    pub fn read(
        &mut self,
        txn: &Txn,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<()> {
        let read = txn.read_as(tree, key.as_ref(), options, self);
        if read.is_err() {
            (self.exists, self.locked) = (false, false);
            self.value.clear();
        }
        read
    }
}

impl<'p> ReadOptions<'p> {
    /// The defaults: as [`Txn::get`], which locks nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it sees if it locks nothing; with a lock it always sees the newest version.
    pub fn sees(mut self, sees: Sees) -> Self {
        self.sees = sees;
        self
    }

    /// Locks each row, whether or not it exists.
    pub fn lock(mut self, lock: impl Into<Option<RowLock>>) -> Self {
        self.lock = lock.into();
        self
    }

    /// What it does if another transaction holds the row.
    pub fn if_locked(mut self, if_locked: IfLocked) -> Self {
        self.if_locked = if_locked;
        self
    }

    /// Limits all lock waits of the call together; overrides the transaction's options.
    /// `Some(Duration::MAX)` means no limit, `None`: as the options say.
    pub fn wait(mut self, wait: Option<Duration>) -> Self {
        self.wait = wait;
        self
    }

    /// Groups what it locks with what the last locking read has locked, so that
    /// [`TxnControl::unlock_last`](super::TxnControl::unlock_last) releases both. Meant for the row
    /// that an index entry names.
    pub fn with_last(mut self, with_last: bool) -> Self {
        self.with_last = with_last;
        self
    }

    /// Reads only these parts of values.
    pub fn projection(mut self, projection: impl Into<Option<&'p Projection>>) -> Self {
        self.projection = projection.into();
        self
    }

    pub(super) fn meeting(&self) -> Meeting {
        Meeting { if_locked: self.if_locked, wait: self.wait }
    }
}

impl Txn {
    /// Reads one row with the given options: whether and how it is locked, what happens if another
    /// transaction has locked it, which version is read, and which parts of it.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{IfLocked, ReadOptions, RowLock};
    ///
    /// let jobs = db.create_tree("jobs", Default::default())?;
    /// jobs.put(b"1", b"open")?;
    /// let (one, two) = (db.begin(Default::default())?, db.begin(Default::default())?);
    /// one.put(&jobs, b"1", b"done")?;
    /// let look = ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::SemiConsistent);
    /// let row = two.get_with(&jobs, b"1", &look)?;
    /// assert_eq!((row.exists, row.locked, &row.value[..]), (true, false, &b"open"[..]));
    /// # one.rollback(); two.rollback();
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update); `LockBusy` with [`IfLocked::NoWait`] if another
    /// transaction holds the row: nothing was done; `InvalidArgument` if the value does not fit the
    /// layout of its tree, or if the projection is for a tree with other layouts.
    pub fn get_with(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<RowRead> {
        let key = key.as_ref();
        let mut row = RowRead::default();
        row.read(self, tree, key, options)?;
        Ok(row)
    }

    fn read_as(
        &self,
        tree: &Tree,
        key: &[u8],
        options: &ReadOptions<'_>,
        row: &mut RowRead,
    ) -> Result<()> {
        options.projection.map_or(Ok(()), |projection| projection.check(tree.schema.as_ref()))?;
        (row.exists, row.locked) = (false, false);
        let mut state = self.enter(tree, key)?;
        let state = &mut *state;
        let Some((mode, meeting)) = self.locking(options) else {
            return self.read_plain(state, tree, key, options, row);
        };
        self.or_unlocked(state, options, |state| {
            row.locked = self.lock_or_pass(state, (tree, key), mode, meeting, options.with_last)?;
            self.read_met(state, tree, key, row)?;
            options.cut(tree, row)
        })
    }

    /// Locks rows and reads them. If that fails, it releases what it has newly locked, because
    /// nothing of it was returned (invariant 3).
    pub(super) fn or_unlocked(
        &self,
        state: &mut State,
        options: &ReadOptions<'_>,
        lock_and_read: impl FnOnce(&mut State) -> Result<()>,
    ) -> Result<()> {
        if let Some(locks) = state.locks.as_mut().filter(|_| !options.with_last) {
            locks.keep_last();
        }
        let kept = state.locks.as_ref().map_or(0, |locks| locks.last_rows());
        let read = lock_and_read(state);
        if let (Err(_), Some(locks)) = (&read, &mut state.locks) {
            self.shared.locking.table.unlock_behind(locks, kept);
            state.seen.forget();
        }
        read
    }

    /// The values of many keys, in the order of the keys; they are looked up in key order. Plain
    /// reads all see one snapshot. With a lock, all rows are locked first, in key order, and then
    /// read. With [`IfLocked::SkipLocked`], rows that others have locked are left out: they are
    /// reported as neither locked nor existing.
    ///
    /// # Errors
    /// As [`get_with`](Self::get_with); locks that the call had newly taken are released.
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<Vec<RowRead>> {
        let mut rows = ManyRows::default();
        rows.read(self, tree, keys, options)?;
        let row = |number| {
            let value = rows.get(number);
            let (exists, locked) = (value.is_some(), rows.is_locked(number));
            RowRead { exists, locked, value: value.unwrap_or_default().to_vec() }
        };
        Ok((0..rows.len()).map(row).collect())
    }

    pub(super) fn read_locked<K: AsRef<[u8]>>(
        &self,
        state: &mut State,
        (tree, keys): (&Tree, &[K]),
        (mode, meeting): (RowMode, Meeting),
        order: &[usize],
        rows: &mut [RowRead],
    ) -> Result<()> {
        let mut skipped = vec![false; rows.len()];
        if meeting.if_locked == IfLocked::SkipLocked && !order.is_empty() {
            // A holder of the whole tree is waited for: its rows are not skipped.
            self.intend(state, tree.entry.id, mode, meeting.that_waits())?;
        }
        for &index in order {
            state.check_interrupted()?;
            let key = keys[index].as_ref();
            match self.lock_or_pass(state, (tree, key), mode, meeting, true) {
                Ok(locked) => rows[index].locked = locked,
                Err(Error::LockBusy { .. }) if meeting.if_locked == IfLocked::SkipLocked => {
                    skipped[index] = true;
                }
                Err(error) => return Err(error),
            }
        }
        for &index in order.iter().filter(|index| !skipped[**index]) {
            state.check_interrupted()?;
            self.read_met(state, tree, keys[index].as_ref(), &mut rows[index])?;
        }
        Ok(())
    }

    /// True if plain reads lock what they read, too.
    pub(super) fn locks_all(&self) -> bool {
        self.options.isolation == Isolation::Serializable && !self.options.read_only
    }

    /// How rows are locked, if they are.
    pub(super) fn locking(&self, options: &ReadOptions<'_>) -> Option<(RowMode, Meeting)> {
        let locks_all = self.locks_all();
        let lock = options.lock.or(locks_all.then_some(RowLock::Shared))?;
        // At `Serializable`, a decision based on a row that may still change would not be
        // serializable.
        let meeting = match locks_all {
            true => options.meeting().that_locks(),
            false => options.meeting(),
        };
        Some((RowMode::from(lock), meeting))
    }

    /// Locks a row; false if another transaction holds it and its last committed version should be
    /// read.
    pub(super) fn lock_or_pass(
        &self,
        state: &mut State,
        (tree, key): (&Tree, &[u8]),
        mode: RowMode,
        meeting: Meeting,
        with_last: bool,
    ) -> Result<bool> {
        let passes = meeting.if_locked == IfLocked::SemiConsistent;
        // A holder of the whole tree is waited for.
        let of_tree = if passes { meeting.that_waits() } else { meeting };
        self.intend(state, tree.entry.id, mode, of_tree)?;
        if let Some(locks) = state.locks.as_mut().filter(|_| with_last) {
            locks.join_last();
        }
        match self.lock_row(state, (tree.entry.id, key), mode, meeting) {
            Ok(_) => Ok(true),
            Err(Error::LockBusy { .. }) if passes => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Locks and reads a row that was read before.
    pub(super) fn read_again(
        &self,
        tree: &Tree,
        key: &[u8],
        (mode, meeting): (RowMode, Meeting),
        row: &mut RowRead,
    ) -> Result<()> {
        let mut state = self.enter(tree, key)?;
        row.locked = self.lock_or_pass(&mut state, (tree, key), mode, meeting, false)?;
        self.read_met(&mut state, tree, key, row)
    }

    /// Reads a row after the attempt to lock it: the newest version if it is locked, otherwise the
    /// last committed one.
    fn read_met(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        row: &mut RowRead,
    ) -> Result<()> {
        // It may have waited for a transaction that dropped the tree.
        tree.entry.check()?;
        if !row.locked {
            row.exists = self.read_shown(state, tree, key, At::Visible, &mut row.value)?;
            return Ok(());
        }
        self.must_not_conflict(state, tree, key)?;
        row.exists = self.read_shown(state, tree, key, At::Latest, &mut row.value)?;
        state.seen.note(tree.entry.id, key, row.exists);
        Ok(())
    }

    /// Reads a row without locking.
    fn read_plain(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        options: &ReadOptions<'_>,
        row: &mut RowRead,
    ) -> Result<()> {
        let has_touched = self.has_written_to(state, tree);
        if let Some(projection) = options.projection.filter(|_| !has_touched) {
            let view = self.view(state, tree, options.sees)?;
            row.exists = view.get_projected(&tree.entry, key, projection, &mut row.value)?;
            return Ok(());
        }
        let at = match options.sees {
            Sees::AsLevel => At::Level,
            Sees::Newest => At::Visible,
        };
        row.exists = self.read_shown(state, tree, key, at, &mut row.value)?;
        options.cut(tree, row)
    }
}

impl ReadOptions<'_> {
    /// The requested parts of values.
    pub(super) fn columns(&self) -> &ColumnSelection {
        self.projection.map_or(&ColumnSelection::All, |projection| projection.columns())
    }

    /// Cuts a value down to the requested parts.
    pub(super) fn cut(&self, tree: &Tree, row: &mut RowRead) -> Result<()> {
        match self.projection.filter(|_| row.exists) {
            Some(projection) => projection.keep(Some(&tree.entry), &mut row.value),
            None => Ok(()),
        }
    }
}
