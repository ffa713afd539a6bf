//! Writes of a row with all its entries in one call: its own entry, and one in each index.
//!
//! Everything that must be absent is checked first, in the caller's order, and only then is
//! anything written (Rule: I48).
//!
//! Invariants
//! 1. A call that is refused, or fails, writes nothing; the row that refused it is locked as
//!    requested.
//! 2. What must be absent is locked before it is checked, at the latest version, overlaid with the
//!    transaction's own writes (Rules: I3, I32).
//! 3. Entries that are not unique contain the row's key: if the row did not exist, neither did its
//!    entries, and they are fresh like the row (Rule: I7).
//! 4. While a call waits for a gap lock, it releases the locks that it has itself taken in the gap;
//!    otherwise a holder of the gap that reads there again would deadlock with the call (Rule:
//!    I46). Then the key is checked again.
//! 5. No other thread's call on the same transaction runs between the steps of a call.
//!
//! Threads: as the transaction.

use crate::{
    Duplicate, Error, Result,
    db::Tree,
    sync::{MutexGuard, thread_mark},
    txn::{HashedKey, OwnState, lock_table::LockMark},
};

use super::{
    IfLocked, RowLock, State, Txn,
    write_buffer::{Absent, Written},
};

/// One entry of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowEntry<'a> {
    /// The table's tree, or an index's.
    pub tree: &'a Tree,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether no other row may have the key.
    pub unique: bool,
    /// Whether the program knows that the key is absent, so that it is not checked: for example, if
    /// it contains a number that only [`reserve`](Tree::reserve) gives out. A number that others
    /// may also choose themselves does not qualify, even if it was just reserved. If this is the
    /// row's own entry, its entries that are not unique count as absent, too. If the key does
    /// exist, the consequences are those of [`put_absent`](RowWriter::put_absent).
    pub absent: bool,
}

/// The change of one entry of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowChange<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// The key that the entry had, if it existed.
    pub old: Option<&'a [u8]>,
    /// The key and value that it should have, if it should exist.
    pub new: Option<(&'a [u8], &'a [u8])>,
    /// Whether no other row may have the new key.
    pub unique: bool,
}

impl Absent {
    /// What is known about the other entries of an absent row, given the state of its own key
    /// before: if the transaction itself has deleted the row, the content of the trees is unknown.
    fn follows_from(own: OwnState) -> Self {
        if own == OwnState::Untouched { Self::Follows } else { Self::Whatever }
    }
}

impl<'a> RowChange<'a> {
    /// The key that the entry newly gets.
    fn comes_to(&self) -> Option<&'a [u8]> {
        self.new.map(|(key, _)| key).filter(|key| self.old != Some(*key))
    }

    /// The key that the entry no longer has.
    fn leaves(&self) -> Option<&'a [u8]> {
        self.old.filter(|old| self.new.is_none_or(|(key, _)| key != *old))
    }
}

/// A unique entry that another row already has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowConflict {
    /// Index of the entry in the call, from 0.
    pub index: usize,
    /// The value of the existing entry; in an index, it identifies the row.
    pub value: Vec<u8>,
}

/// Writes of a program that keeps indexes and sequences itself ([`Txn::row_writer`]): rows with all
/// their entries, and writes whose checks the program has already made.
///
/// A [`Table`](crate::Table) does this for its rows by itself.
#[derive(Clone, Copy, Debug)]
pub struct RowWriter<'t> {
    pub(super) txn: &'t Txn,
}

impl RowWriter<'_> {
    /// Inserts a row. If one of its unique entries exists already, returns the first such entry and
    /// its value, leaves that entry locked by `lock`, and writes nothing.
    ///
    /// The row's own entry must come first. If it is unique, entries that are not unique are taken
    /// to be the row's index entries, which contain its key and do not exist if the row does not.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{transaction::RowEntry, RowLock, TreeOptions};
    ///
    /// let unique = TreeOptions::new().unique(true);
    /// let rows = db.create_tree("rows", unique.clone())?;
    /// let mails = db.create_tree("mails", unique)?;
    /// let row = |id: &'static [u8]| {
    ///     [(&rows, id, &b"ada@example.org"[..]), (&mails, b"ada@example.org", id)]
    /// };
    /// let entries = |id| {
    ///     row(id).map(|(tree, key, value)| {
    ///         RowEntry { tree, key, value, unique: true, absent: false }
    ///     })
    /// };
    /// let txn = db.begin(Default::default())?;
    /// assert_eq!(txn.row_writer().insert(&entries(b"1"), RowLock::Exclusive)?, None);
    /// let conflict = txn.row_writer().insert(&entries(b"2"), RowLock::Exclusive)?;
    /// let conflict = conflict.expect("the mail is taken");
    /// assert_eq!((conflict.index, &conflict.value[..]), (1, &b"1"[..]));
    /// txn.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn insert(&self, entries: &[RowEntry<'_>], lock: RowLock) -> Result<Option<RowConflict>> {
        let txn = self.txn;
        if txn.insert_new_row(entries)? {
            return Ok(None);
        }
        txn.or_nothing(|| {
            if let Some(conflict) = txn.look_for_all(entries, lock)? {
                return Ok(Some(conflict));
            }
            let follows = txn.absent_with(entries)?;
            for (index, entry) in entries.iter().enumerate() {
                let RowEntry { tree, key, value, unique, absent } = *entry;
                let absent = match unique {
                    _ if absent => Absent::Follows,
                    true => Absent::Proven,
                    false => follows,
                };
                if let Some(conflict) = txn.put_entry((index, tree), (key, value), absent, lock)? {
                    return Ok(Some(conflict));
                }
            }
            Ok(None)
        })
    }

    /// Changes a row: entries whose key stays get their new value, others move to another key, are
    /// added or removed. If a unique entry moves to a key that exists already, nothing is written,
    /// as with [`insert`](Self::insert). Pass only the entries that change. Removed entries are not
    /// checked: `old` must be what exists.
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn update(&self, changes: &[RowChange<'_>], lock: RowLock) -> Result<Option<RowConflict>> {
        self.txn.change_row(changes, lock, (0, 0))
    }

    /// Deletes all entries of a row, given by tree and key. They are not checked: they must be what
    /// exists.
    ///
    /// # Errors
    /// As [`Txn::put`]; nothing was done.
    pub fn delete(&self, entries: &[(&Tree, &[u8])]) -> Result<()> {
        let txn = self.txn;
        txn.or_nothing(|| {
            let there = Absent::Not;
            entries.iter().try_for_each(|(tree, key)| txn.delete_checked(tree, key, there))?;
            Ok(None)
        })
        .map(drop)
    }
}

impl Txn {
    /// Writes for a program that keeps indexes and sequences itself.
    pub fn row_writer(&self) -> RowWriter<'_> {
        RowWriter { txn: self }
    }

    /// The first entry that must be absent and exists.
    fn look_for_all(&self, entries: &[RowEntry<'_>], lock: RowLock) -> Result<Option<RowConflict>> {
        let looked_for = entries.iter().enumerate();
        for (index, entry) in looked_for.filter(|(_, entry)| entry.unique && !entry.absent) {
            if let Some(value) = self.look_for(entry.tree, entry.key, lock)? {
                return Ok(Some(RowConflict { index, value }));
            }
        }
        Ok(None)
    }

    /// What is known about entries that are not unique, once the unique ones are known to be
    /// absent.
    fn absent_with(&self, entries: &[RowEntry<'_>]) -> Result<Absent> {
        let own = entries.first().filter(|_| entries.iter().any(|e| !e.unique && !e.absent));
        match own {
            Some(own) if own.absent => Ok(Absent::Follows),
            Some(own) if own.unique => self.of_new(own.tree, own.key),
            _ => Ok(Absent::Whatever),
        }
    }

    /// Changes a row, like [`RowWriter::update`]. The caller has checked the first
    /// `looked` unique entries within the same row call ([`in_row_call`](Self::in_row_call)): they
    /// are absent, and locked. The first `new` changes belong to a new row, starting with its own
    /// entry.
    pub(crate) fn change_row(
        &self,
        changes: &[RowChange<'_>],
        lock: RowLock,
        (looked, new): (usize, usize),
    ) -> Result<Option<RowConflict>> {
        self.or_nothing(|| {
            let leaves = |tree: &Tree, key: &[u8]| {
                let gone = |change: &RowChange<'_>| {
                    change.tree.id() == tree.id() && change.leaves() == Some(key)
                };
                changes.iter().any(gone)
            };
            let unique = changes.iter().enumerate().filter(|(_, change)| change.unique);
            for (index, change) in unique.filter(|(index, _)| *index >= looked) {
                if let Some(key) = change.comes_to()
                    && !leaves(change.tree, key)
                    && let Some(value) = self.look_for(change.tree, key, lock)?
                {
                    return Ok(Some(RowConflict { index, value }));
                }
            }
            // Removals first: an entry may move to where another was.
            for change in changes {
                change
                    .leaves()
                    .map_or(Ok(()), |old| self.delete_checked(change.tree, old, Absent::Not))?;
            }
            let own = changes.first().filter(|own| own.unique && new > 1);
            let own = own.and_then(|own| Some((own.tree, own.comes_to()?)));
            let follows = own.map_or(Ok(Absent::Whatever), |(tree, key)| self.of_new(tree, key))?;
            for (index, change) in changes.iter().enumerate() {
                let RowChange { tree, new: row, unique, .. } = *change;
                let absent = match unique {
                    true => Absent::Proven,
                    false if index < new => follows,
                    false => Absent::Whatever,
                };
                match row {
                    Some(row) if change.comes_to().is_some() => {
                        if let Some(conflict) = self.put_entry((index, tree), row, absent, lock)? {
                            return Ok(Some(conflict));
                        }
                    }
                    Some((key, value)) => {
                        self.put_checked(tree, key, value, Absent::Not)?;
                    }
                    None => {}
                }
            }
            Ok(None)
        })
    }

    /// The value of a key that should be absent, with the key locked as requested; if the key is
    /// absent, it is locked exclusively.
    fn look_for(&self, tree: &Tree, key: &[u8], lock: RowLock) -> Result<Option<Vec<u8>>> {
        if lock == RowLock::Exclusive {
            return self.get_locked(tree, key, RowLock::Exclusive, IfLocked::Wait);
        }
        self.slow_down_to_write(&mut *self.enter_writing(tree, key)?)?;
        let mut meet = IfLocked::NoWait;
        loop {
            // Locked as for a write: two transactions that both took a shared lock first would
            // block each other.
            match self.get_locked(tree, key, RowLock::Exclusive, meet) {
                Ok(None) => return Ok(None),
                Ok(Some(_)) => self.control().unlock_last()?,
                Err(Error::LockBusy { .. }) => {}
                Err(error) => return Err(error),
            }
            // Other transactions may share it, too; those need not be waited for.
            let found = self.get_locked(tree, key, RowLock::Shared, IfLocked::Wait)?;
            if found.is_some() {
                return Ok(found);
            }
            self.control().unlock_last()?;
            meet = IfLocked::Wait;
        }
    }

    /// What is known about the entries of a row that was checked and is absent: they are absent,
    /// too, unless the transaction itself has deleted the row; then the content of the trees is
    /// unknown.
    fn of_new(&self, tree: &Tree, key: &[u8]) -> Result<Absent> {
        let own = self.own_state(&*self.go_on()?, HashedKey::new(tree.entry.id, key))?;
        Ok(Absent::follows_from(own))
    }

    fn put_entry(
        &self,
        (index, tree): (usize, &Tree),
        (key, value): (&[u8], &[u8]),
        absent: Absent,
        lock: RowLock,
    ) -> Result<Option<RowConflict>> {
        match self.put_checked(tree, key, value, absent)? {
            Written::Done(_) => Ok(None),
            // Another transaction inserted it while this one waited for a gap.
            Written::Exists => {
                let found = self.look_for(tree, key, lock)?;
                let gone =
                    || Error::DuplicateKey(Duplicate::Row { tree: tree.name(), key: key.to_vec() });
                Ok(Some(RowConflict { index, value: found.ok_or_else(gone)? }))
            }
        }
    }

    /// Groups calls into one until the guard is dropped: their lock waits share one time limit, and
    /// locks that they newly take may be released while they wait.
    pub(crate) fn begin_calls(&self) -> Result<RowCall<'_>> {
        let mut state = self.go_on()?;
        state.begin_call();
        if state.row_calls.depth == 0 {
            state.row_calls.mark = state.lock_mark();
            state.row_calls.caller = thread_mark();
        }
        state.row_calls.depth += 1;
        Ok(RowCall(self))
    }

    /// Runs several calls as one row call.
    pub(crate) fn in_row_call<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.spill_if_large(&mut *self.go_on()?)?;
        let _call = self.begin_calls()?;
        work()
    }

    /// Rolls back what a call has written unless it succeeds.
    fn or_nothing(
        &self,
        work: impl FnOnce() -> Result<Option<RowConflict>>,
    ) -> Result<Option<RowConflict>> {
        self.in_row_call(|| {
            let mark = self.buffer.live.lock().mark();
            let outcome = work();
            if !matches!(outcome, Ok(None)) && !self.is_over() {
                let mut writes = self.buffer.live.lock();
                writes.rollback_to(mark);
                let left = writes.len() as u64;
                drop(writes);
                let mut state = self.stay()?;
                state.locks_unwritten = true;
                // The last locking read may have seen the call's writes.
                state.seen.forget();
                if let Some(locks) = &state.locks {
                    locks.owner().set_writes(left);
                }
            }
            outcome
        })
    }

    /// Waits until no row call is running (invariant 5) and returns the state.
    #[cold]
    pub(super) fn after_row_calls<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        state.row_calls.waiting += 1;
        while state.row_calls.depth > 0 {
            state = self.row_calls_over.wait(state).unwrap();
        }
        state.row_calls.waiting -= 1;
        state
    }
}

/// A running row call.
pub(crate) struct RowCall<'a>(&'a Txn);

/// The running row calls of a transaction.
#[derive(Debug, Default)]
pub(super) struct RowCalls {
    /// Number of running row calls, each nested in the one before.
    pub depth: u32,
    /// The thread that makes them.
    pub caller: usize,
    /// Number of threads whose calls wait for them.
    pub waiting: u32,
    /// What was locked when the outermost of them started.
    pub mark: Option<LockMark>,
}

impl State {
    /// True if the calling thread must wait for another thread's row call.
    pub(super) fn is_in_row_call_of_another(&self) -> bool {
        self.row_calls.depth > 0 && self.row_calls.caller != thread_mark()
    }

    /// Starts a call, unless it is part of a row call.
    pub(super) fn begin_call(&mut self) {
        if self.row_calls.depth == 0
            && let Some(locks) = &mut self.locks
        {
            locks.begin_call();
        }
    }
}

impl Drop for RowCall<'_> {
    fn drop(&mut self) {
        // Also if a custom merge operator has panicked.
        let mut state = self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.row_calls.depth -= 1;
        if state.row_calls.depth == 0 && state.row_calls.waiting > 0 {
            self.0.row_calls_over.notify_all();
        }
    }
}
