//! Writes of one row: the row is locked, checked, appended, and then checked against others' gap
//! locks.

use crate::{
    Duplicate, Error, Result,
    catalog::TreeEntry,
    db::Tree,
    run::OPERATOR_USER_MIN,
    sync::{Arc, MutexGuard},
    txn::{
        HashedKey, OwnState,
        lock_table::{LockError, LockMark, RowMode, Taken, WaitPolicy},
    },
};

use super::{
    IfLocked, RowWriter, Seen, State, Txn,
    write_buffer::{Absent, RowWrite, Written},
};

impl Txn {
    /// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
    ///
    /// # Errors
    /// `LockTimeout`, `KeyTooLong`, `ValueTooLong`, `NoSuchTree`, `TxnEnded`, `BatchTooLarge`,
    /// `InvalidArgument` if the tree belongs to a table, and for a value that is written at once
    /// the errors of a commit: nothing was done. `Deadlock`, and for a snapshot transaction
    /// `Conflict`: the transaction is rolled back.
    pub fn put(&self, tree: &Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_checked(tree, key.as_ref(), value.as_ref(), Absent::Whatever).map(drop)
    }

    /// Sets the value of a key that must not exist. A `unique` tree detects most absent keys
    /// without a read.
    ///
    /// # Errors
    /// `DuplicateKey`: nothing was done except that the row is locked. As [`put`](Self::put).
    pub fn insert(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        match self.put_checked(tree, key, value, Absent::Must)? {
            Written::Done(_) => Ok(()),
            Written::Exists => {
                Err(Error::DuplicateKey(Duplicate::Row { tree: tree.name(), key: key.to_vec() }))
            }
        }
    }

    pub(super) fn put_checked(
        &self,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        absent: Absent,
    ) -> Result<Written> {
        tree.check_value(value)?;
        if !self.is_short(value) {
            // Checked before a long value is written.
            drop(self.enter_writing(tree, key)?);
        }
        self.write(tree, key, absent, &RowWrite::of_value(tree, value)?)
    }

    /// True if a value is stored in the tree, and not as a blob.
    pub(super) fn is_short(&self, value: &[u8]) -> bool {
        value.len() <= self.shared.engine.cx.shape.blob_bytes
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[doc(alias = "remove")]
    pub fn delete(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.delete_checked(tree, key, Absent::Whatever)
    }

    pub(super) fn delete_checked(&self, tree: &Tree, key: &[u8], absent: Absent) -> Result<()> {
        self.write(tree, key, absent, &RowWrite::Delete).map(drop)
    }

    /// Folds an operand into a value without reading it; [`operator`](crate::operator) lists the
    /// built-in operators.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `MissingOperator`.
    pub fn merge(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operator: u8,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_operand(tree, key.as_ref(), operator, operand.as_ref())
    }

    fn merge_operand(&self, tree: &Tree, key: &[u8], operator: u8, operand: &[u8]) -> Result<()> {
        let write = RowWrite::of_operand(tree, operator, operand)?;
        if operator >= OPERATOR_USER_MIN {
            drop(self.enter_writing(tree, key)?);
            self.shared.check_writable()?;
            // Before a row is locked: it may be a synced commit of its own, after other changes of
            // the catalog.
            self.shared.record_operators(&[(tree.entry.id, operator)])?;
        }
        self.write(tree, key, Absent::Whatever, &write).map(drop)
    }

    /// Locks the state for a call that writes.
    pub(super) fn enter_writing(&self, tree: &Tree, key: &[u8]) -> Result<MutexGuard<'_, State>> {
        let state = self.enter(tree, key)?;
        tree.must_not_bypass_table()?;
        if self.options.read_only {
            return Err(Error::InvalidArgument("a read-only transaction cannot write".into()));
        }
        Ok(state)
    }

    fn write(
        &self,
        tree: &Tree,
        key: &[u8],
        absent: Absent,
        write: &RowWrite<'_>,
    ) -> Result<Written> {
        let written = self.write_under_lock(tree, key, absent, write);
        if !matches!(written, Ok(Written::Done(_))) {
            // It may have locked the row.
            self.state.lock().unwrap().locks_unwritten = true;
        }
        written
    }

    fn write_under_lock(
        &self,
        tree: &Tree,
        key: &[u8],
        absent: Absent,
        write: &RowWrite<'_>,
    ) -> Result<Written> {
        let mut state = self.enter_writing(tree, key)?;
        let state = &mut *state;
        self.spill_if_large(state)?;
        let id = tree.entry.id;
        let held = match state.row_calls.depth {
            0 => state.lock_mark(),
            _ => state.row_calls.mark,
        };
        let hashed = HashedKey::new(id, key);
        let own = self.own_state(state, hashed)?;
        // The transaction holds the locks of what it has written.
        if own == OwnState::Untouched {
            if plant!("txn: a conflict is looked for before the lock") {
                self.must_not_conflict(state, tree, key)?;
            }
            self.intend(state, id, RowMode::Write, IfLocked::Wait.into())?;
            let wait_policy = state.wait_policy(IfLocked::Wait.into());
            let taken = self.lock_to_write(state, hashed, wait_policy);
            if let Some(locks) = &mut state.locks {
                // The lock was not taken by a reading call, so `unlock_last` must not release it.
                locks.keep_last();
            }
            taken.map_err(|denied| self.denied(state, denied))?;
        }
        // A key that was proven absent before may have been written since, in the same call.
        let is_own = matches!(own, OwnState::Put { .. } | OwnState::Merged);
        let is_insert = matches!(absent, Absent::Must | Absent::Proven);
        let looks = absent == Absent::Must || absent == Absent::Proven && is_own;
        if self.exists(state, tree, key, own, looks)? {
            return Ok(Written::Exists);
        }
        let was_there = absent.was_there(own).or_else(|| state.seen.is_there(hashed));
        let (mark, entries) = self.buffer.append(
            &self.shared.engine,
            &mut state.buffer,
            (hashed, own),
            write,
            (absent.is_insert(), was_there),
        )?;
        self.list_as_writer(state, &tree.entry);
        // After the transaction is listed as a writer: an index build searches that list for
        // transactions that do not know of the build.
        let queued = self.queue_change(state, tree, key);
        let waited = queued.and_then(|()| match own {
            OwnState::Untouched => self.pass_gaps(state, tree, key, held),
            // It was pending already.
            _ => Ok(false),
        });
        if let (Ok(true), Some(locks)) = (&waited, &mut state.locks) {
            // The wait has locked the row again, which is written now.
            locks.keep_last();
        }
        let exists = waited.and_then(|waited| match waited {
            true => self.exists(state, tree, key, own, is_insert),
            false => Ok(false),
        });
        if !matches!(exists, Ok(false)) {
            if !state.is_over {
                self.buffer.live.lock().rollback_to(mark);
            }
            return exists.map(|_| Written::Exists);
        }
        if let Some(locks) = &state.locks {
            locks.owner().set_writes(entries);
        }
        Ok(Written::Done(own))
    }

    /// Locks a row that is about to be written and of which the transaction has no effective
    /// writes. Called after the intent.
    pub(super) fn lock_to_write(
        &self,
        state: &mut State,
        key: HashedKey<'_>,
        wait_policy: WaitPolicy,
    ) -> Result<Taken, LockError> {
        let locks = state.locks.as_mut().expect("there since the intent");
        let table = &self.shared.locking.table;
        match state.buffer.spills > 0 && state.buffer.marks.rollbacks_made > 0 {
            // It also holds the locks of writes that it has rolled back.
            true => table.lock_row(locks, key.tree, key.key, RowMode::Write, wait_policy),
            false => table.lock_unwritten(locks, key, RowMode::Write, wait_policy),
        }
    }

    /// Lists the transaction as a writer of a tree. Called once its first entry for the tree is
    /// among the writes.
    pub(super) fn list_as_writer(&self, state: &mut State, entry: &Arc<TreeEntry>) {
        if !state.entered.iter().any(|entered| entered.id == entry.id) {
            entry.writers.enter(&self.buffer.live);
            state.entered.push(entry.clone());
        }
    }

    /// True if a key exists that must be absent; also checks for a conflict. Called under the key's
    /// lock.
    fn exists(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        own: OwnState,
        must_be_absent: bool,
    ) -> Result<bool> {
        // For its own writes the transaction has checked this when it made them.
        if own == OwnState::Untouched && !plant!("txn: a conflict is looked for before the lock") {
            self.must_not_conflict(state, tree, key)?;
        }
        if !must_be_absent {
            return Ok(false);
        }
        match own {
            OwnState::Deleted { .. } => Ok(false),
            OwnState::Put { .. } | OwnState::Merged => Ok(true),
            OwnState::Untouched => self.shared.exists_at_latest(tree.entry.id, key),
        }
    }

    /// Waits until no other transaction has locked the gap that the key goes into; true if it
    /// waited.
    fn pass_gaps(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        held: Option<LockMark>,
    ) -> Result<bool> {
        let wait_policy = state.wait_policy(IfLocked::Wait.into());
        let Some(locks) = &mut state.locks else { return Ok(false) };
        // An existing row is protected by its own lock, and is in no gap.
        if !self.shared.locking.table.is_gap_locked(locks, tree.entry.id, key)
            || self.shared.exists_at_latest(tree.entry.id, key)?
        {
            return Ok(false);
        }
        // Without a mark, the transaction held no locks before this call.
        let mark = held.unwrap_or_default();
        let passed =
            self.shared.locking.table.before_insert(locks, tree.entry.id, key, mark, wait_policy);
        passed.map_err(|denied| self.denied(state, denied))
    }
}

impl RowWriter<'_> {
    /// Sets the value of a key that the program knows to be absent, without a check: for example, a
    /// row with a number that was just [reserved](crate::Tree::reserve), or an index entry of such
    /// a row. A later delete of it then costs the store nothing, and the tree's row count stays
    /// exact. If the key did exist, a later delete may bring the older value back: if in doubt, use
    /// [`Txn::insert`].
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn put_absent(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.txn.put_checked(tree, key.as_ref(), value.as_ref(), Absent::Follows).map(drop)
    }
}

impl State {
    /// A mark of what is locked now.
    pub(super) fn lock_mark(&self) -> Option<LockMark> {
        self.locks.as_ref().map(|locks| locks.mark())
    }
}

impl Seen {
    /// Whether the row exists, if it is the one that was read.
    fn is_there(&self, key: HashedKey<'_>) -> Option<bool> {
        (self.tree == key.tree && self.key == key.key).then_some(self.is_there)
    }
}
