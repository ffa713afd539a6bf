//! Reads with all that can be said of them: what they see, what they lock, how they meet the locks of others, for how long.
//!
//! [`Txn::get`](super::Txn::get) and its like are the usual ones; a server says more (Rule: I46).
//!
//! Invariants
//! 1. A row is handed out as locked only if this transaction has it locked, and then it is the newest there is.
//! 2. What another has locked, and is handed out all the same, was committed.
//! 3. Of many rows in one call the locks are taken in key order, all before any of the rows is read. A call that fails keeps
//!    none that it has newly taken.
//!
//! Threads: as the transaction.

use std::time::Duration;

use crate::{Error, Result, block::typed::Projection, txn::lock_table::RowMode};

use super::{
    super::{Parts, Tree, read::ReadView},
    IfLocked, Isolation, ManyRows, Meeting, RowLock, State, Txn,
    read::At,
};

/// Which commits a read shows that locks nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sees {
    /// Those that the transaction's level shows.
    #[default]
    AsLevel,
    /// All that are visible by now, whatever snapshot the transaction has.
    Newest,
}

/// How a read goes. By default as [`Txn::get`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'p> {
    /// What it sees, if it locks nothing: with a lock it is always the newest.
    pub sees: Sees,
    /// How it locks each row; `None`: not at all, but shared at [`Isolation::Serializable`].
    pub lock: Option<RowLock>,
    /// What it does if another has the row.
    pub if_locked: IfLocked,
    /// How long it waits for locks, all of the call together, whatever the transaction's options say; `Some(Duration::MAX)`:
    /// until it gets them. `None`: as the options say.
    pub wait: Option<Duration>,
    /// What it locks belongs to what the last locking read has locked: [`Txn::unlock_last`] gives both back. For the row that an
    /// index's entry names.
    pub with_last: bool,
    /// Only these parts of values.
    pub parts: Option<&'p Parts>,
}

/// What a read of one row came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowRead {
    /// There is such a row.
    pub exists: bool,
    /// It is locked for this transaction, whether it exists or not. Not so where the read locks nothing, or met another's
    /// lock and was to skip the row, or to read what was last committed.
    pub locked: bool,
    /// Its value, or the parts of it that were asked for.
    pub value: Vec<u8>,
}

impl ReadOptions<'_> {
    pub(super) fn meeting(&self) -> Meeting {
        Meeting { if_locked: self.if_locked, wait: self.wait }
    }
}

impl Txn {
    /// Reads one row as asked.
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
    /// let look = ReadOptions {
    ///     lock: Some(RowLock::Exclusive),
    ///     if_locked: IfLocked::LastCommit,
    ///     ..Default::default()
    /// };
    /// let row = two.read(&jobs, b"1", &look)?;
    /// assert_eq!((row.exists, row.locked, &row.value[..]), (true, false, &b"open"[..]));
    /// # one.rollback(); two.rollback();
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get_locked`](Self::get_locked); `InvalidArgument` if the value does not fit the layout of its tree, or the parts
    /// are of a tree with other layouts.
    pub fn read(&self, tree: &Tree, key: &[u8], options: &ReadOptions<'_>) -> Result<RowRead> {
        let mut row = RowRead::default();
        self.read_into(tree, key, options, &mut row)?;
        Ok(row)
    }

    /// The same into a row whose memory is reused.
    ///
    /// # Errors
    /// As [`read`](Self::read); then the row is empty.
    pub fn read_into(
        &self,
        tree: &Tree,
        key: &[u8],
        options: &ReadOptions<'_>,
        row: &mut RowRead,
    ) -> Result<()> {
        let read = self.read_as(tree, key, options, row);
        if read.is_err() {
            (row.exists, row.locked) = (false, false);
            row.value.clear();
        }
        read
    }

    fn read_as(
        &self,
        tree: &Tree,
        key: &[u8],
        options: &ReadOptions<'_>,
        row: &mut RowRead,
    ) -> Result<()> {
        options.parts.map_or(Ok(()), |parts| parts.check(tree.typing.as_ref()))?;
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

    /// Locks rows and reads them. If that fails, it gives back what it has newly locked: others may have what nobody has seen
    /// (Invariant 3).
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
            self.shared.lock_table.unlock_behind(locks, kept);
            state.seen.forget();
        }
        read
    }

    /// The values of many keys, in the order of the keys; looked for in key order. Plain reads are all of one moment. With a
    /// lock, all rows are locked first, in key order, and then read; those that others have are left out if so asked
    /// ([`IfLocked::Skip`]): they are neither locked nor do they exist.
    ///
    /// # Errors
    /// As [`read`](Self::read); what the call had locked and others may have is given back.
    pub fn read_many<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<Vec<RowRead>> {
        let mut rows = ManyRows::default();
        self.read_many_into(tree, keys, options, &mut rows)?;
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
        if meeting.if_locked == IfLocked::Skip && !order.is_empty() {
            // Who has the whole tree is waited for: its rows are not passed by.
            self.intend(state, tree.entry.id, mode, meeting.that_waits())?;
        }
        for &index in order {
            state.must_go_on()?;
            let key = keys[index].as_ref();
            match self.lock_or_pass(state, (tree, key), mode, meeting, true) {
                Ok(locked) => rows[index].locked = locked,
                Err(Error::LockBusy { .. }) if meeting.if_locked == IfLocked::Skip => {
                    skipped[index] = true;
                }
                Err(error) => return Err(error),
            }
        }
        for &index in order.iter().filter(|index| !skipped[**index]) {
            state.must_go_on()?;
            self.read_met(state, tree, keys[index].as_ref(), &mut rows[index])?;
        }
        Ok(())
    }

    /// Whether plain reads lock what they read, too.
    pub(super) fn locks_all(&self) -> bool {
        self.options.isolation == Isolation::Serializable && !self.options.read_only
    }

    /// How rows are locked, if they are.
    pub(super) fn locking(&self, options: &ReadOptions<'_>) -> Option<(RowMode, Meeting)> {
        let locks_all = self.locks_all();
        let lock = options.lock.or(locks_all.then_some(RowLock::Shared))?;
        // What was decided by a row that may change is not as if one had run after the other.
        let meeting = match locks_all {
            true => options.meeting().that_locks(),
            false => options.meeting(),
        };
        Some((RowMode::from(lock), meeting))
    }

    /// Locks a row; false if another has it, and it is to be read as it was last committed.
    pub(super) fn lock_or_pass(
        &self,
        state: &mut State,
        (tree, key): (&Tree, &[u8]),
        mode: RowMode,
        meeting: Meeting,
        with_last: bool,
    ) -> Result<bool> {
        let passes = meeting.if_locked == IfLocked::LastCommit;
        // Who has the whole tree is waited for.
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

    /// A row that was read before, under its lock.
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

    /// A row whose lock was asked for: the newest there is if it is locked, else what was last committed.
    fn read_met(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        row: &mut RowRead,
    ) -> Result<()> {
        // It may have waited for who dropped the tree.
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

    /// A read that locks nothing.
    fn read_plain(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        options: &ReadOptions<'_>,
        row: &mut RowRead,
    ) -> Result<()> {
        let has_touched = state.has_written && self.live.lock().changes(tree.entry.id) != 0;
        if let Some(parts) = options.parts.filter(|_| !has_touched) {
            let engine = &self.shared.engine;
            let (version, at) = self.moment(state, tree, options.sees)?;
            let view = ReadView { engine, version: &version, at };
            row.exists = view.get_parts(&tree.entry, key, parts, &mut row.value)?;
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
    /// What of values is asked for.
    pub(super) fn projection(&self) -> &Projection {
        self.parts.map_or(&Projection::All, |parts| parts.projection())
    }

    /// Cuts a value down to the parts that are asked for.
    pub(super) fn cut(&self, tree: &Tree, row: &mut RowRead) -> Result<()> {
        match self.parts.filter(|_| row.exists) {
            Some(parts) => parts.keep(Some(&tree.entry), &mut row.value),
            None => Ok(()),
        }
    }
}
