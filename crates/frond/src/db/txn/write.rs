//! Writes of one row: locked, looked at, appended, and held against the gaps of others.

use crate::{
    Error, Result, bounds,
    catalog::TreeEntry,
    run::OPERATOR_USER_MIN,
    sync::{Arc, MutexGuard},
    txn::{
        HashedKey, OwnState, ROWS_UNKNOWN, TxnWrites,
        lock_table::{Denied, LockMark, Patience, RowMode, Taken},
    },
};

use super::{super::Tree, IfLocked, Seen, State, Txn};

/// What is to be known of a key that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Absent {
    /// Nothing.
    Whatever,
    /// That it is not there.
    Must,
    /// The same, which was looked at under the row's lock, and is looked at again only after a wait.
    Proven,
    /// The same, which follows from something else: it is the entry of a row that is not there, or the caller says so.
    Follows,
    /// That it is there, says the caller.
    Not,
}

/// What a write leaves of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaves {
    ARow,
    None,
}

/// What a write has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// It is among the transaction's; what the key was for the transaction before.
    Done(OwnState),
    /// The key is there, and nothing was written.
    Exists,
}

impl Txn {
    /// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
    ///
    /// # Errors
    /// `LockTimeout`, `KeyTooLong`, `ValueTooLong`, `NoSuchTree`, `TxnEnded`, `BatchTooLarge`, and for a value that is
    /// written at once those of a commit: nothing was done. `Deadlock`, and of a snapshot transaction `Conflict`: it
    /// is rolled back.
    pub fn put(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_checked(tree, key, value, Absent::Whatever).map(drop)
    }

    /// Sets the value of a key that must not exist. A tree that is `unique` finds out about most absent keys
    /// without a read.
    ///
    /// # Errors
    /// `RowExists`: nothing was done but that the row is locked. As [`put`](Self::put).
    pub fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        match self.put_checked(tree, key, value, Absent::Must)? {
            Written::Done(_) => Ok(()),
            Written::Exists => Err(Error::RowExists { tree: tree.name(), key: key.to_vec() }),
        }
    }

    /// Sets the value of a key that the program knows to be absent, without a look: of a row under a number that it has just
    /// [reserved](crate::Tree::reserve), say, or of an entry in an index of such a row. A delete of it costs the store nothing
    /// then, and the tree goes on counting its rows. Where the key was there after all, a later delete may bring the older
    /// value back: if in doubt, [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_absent(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_checked(tree, key, value, Absent::Follows).map(drop)
    }

    pub(super) fn put_checked(
        &self,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        absent: Absent,
    ) -> Result<Written> {
        let is_insert = matches!(absent, Absent::Must | Absent::Proven | Absent::Follows);
        tree.check_value(value)?;
        if self.is_short(value) {
            let leaves = (absent, Leaves::ARow);
            return self.write(tree, key, leaves, |writes, hashed, is_unsaid, rows| {
                match is_insert && is_unsaid {
                    true => writes.insert(hashed, value, rows),
                    false => writes.put(hashed, value, rows),
                }
            });
        }
        // Before so much is written.
        drop(self.enter_writing(tree, key)?);
        self.shared.check_writable()?;
        let class = tree.entry.class;
        let written = self.shared.engine.cx.write_blob(value, class, false);
        let (reference, hold) =
            written.inspect_err(|error| self.shared.stop_if_unwritable(error))?;
        self.write(tree, key, (absent, Leaves::ARow), |writes, hashed, is_unsaid, rows| {
            let is_absent = is_insert && is_unsaid;
            writes.put_blob(hashed, &reference.to_disk(), hold.clone(), is_absent, rows)
        })
    }

    /// Whether a value goes into the tree, and not into a blob of its own.
    pub(super) fn is_short(&self, value: &[u8]) -> bool {
        value.len() <= self.shared.engine.cx.shape.blob_bytes
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.delete_checked(tree, key, Absent::Whatever)
    }

    pub(super) fn delete_checked(&self, tree: &Tree, key: &[u8], absent: Absent) -> Result<()> {
        let delete =
            |writes: &mut TxnWrites, hashed: HashedKey<'_>, _, rows| writes.delete(hashed, rows);
        self.write(tree, key, (absent, Leaves::None), delete).map(drop)
    }

    /// Folds an operand into a value without reading it: [`operator`](crate::operator) has the built-in ones.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `MissingOperator`.
    pub fn merge(&self, tree: &Tree, key: &[u8], operator: u8, operand: &[u8]) -> Result<()> {
        if !bounds::OPERAND_BYTES.admits(operand.len()) {
            return Err(Error::ValueTooLong {
                bytes: operand.len(),
                max: bounds::OPERAND_BYTES.len(),
            });
        }
        if !self.shared.engine.cx.operators.knows(operator) {
            return Err(Error::MissingOperator(operator));
        }
        tree.must_take_operands()?;
        if operator >= OPERATOR_USER_MIN {
            drop(self.enter_writing(tree, key)?);
            self.shared.check_writable()?;
            // Before a row is locked: it may be a synced commit of its own, behind other changes of the catalog.
            self.shared.record_operators(&[(tree.entry.id, operator)])?;
        }
        let merge = |writes: &mut TxnWrites, hashed: HashedKey<'_>, _, rows| {
            writes.merge(hashed, operator, operand, rows)
        };
        self.write(tree, key, (Absent::Whatever, Leaves::ARow), merge).map(drop)
    }

    /// The state, for a call that writes.
    pub(super) fn enter_writing(&self, tree: &Tree, key: &[u8]) -> Result<MutexGuard<'_, State>> {
        let state = self.enter(tree, key)?;
        if self.options.read_only {
            return Err(Error::InvalidArgument("a read-only transaction writes nothing".into()));
        }
        Ok(state)
    }

    fn write(
        &self,
        tree: &Tree,
        key: &[u8],
        level: (Absent, Leaves),
        append: impl FnOnce(&mut TxnWrites, HashedKey<'_>, bool, i8) -> Result<()>,
    ) -> Result<Written> {
        let written = self.write_under_lock(tree, key, level, append);
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
        (absent, leaves): (Absent, Leaves),
        append: impl FnOnce(&mut TxnWrites, HashedKey<'_>, bool, i8) -> Result<()>,
    ) -> Result<Written> {
        let mut state = self.enter_writing(tree, key)?;
        let state = &mut *state;
        self.spill_if_large(state)?;
        let id = tree.entry.id;
        let held = match state.row_calls {
            0 => state.lock_mark(),
            _ => state.row_mark,
        };
        let hashed = HashedKey::new(id, key);
        let own = self.own_state(state, hashed)?;
        // What it has written it has locked.
        if own == OwnState::Untouched && self.private.is_none() {
            if plant!("txn: a conflict is looked for before the lock") {
                self.must_not_conflict(state, tree, key)?;
            }
            self.intend(state, id, RowMode::Write, IfLocked::Wait.into())?;
            let patience = state.patience(IfLocked::Wait.into());
            let taken = self.lock_to_write(state, hashed, patience);
            if let Some(locks) = &mut state.locks {
                // No reading call took it: it is not given back before the end.
                locks.keep_last();
            }
            taken.map_err(|denied| self.denied(state, denied))?;
        }
        // What was proven before may have been written since, in the same call.
        let is_own = matches!(own, OwnState::Put { .. } | OwnState::Merged);
        let is_insert = matches!(absent, Absent::Must | Absent::Proven);
        let looks = absent == Absent::Must || absent == Absent::Proven && is_own;
        if self.exists(state, tree, key, own, looks)? {
            return Ok(Written::Exists);
        }
        state.has_written = true;
        let rows = match (state.was_there(own, absent, hashed), leaves) {
            (Some(was_there), Leaves::ARow) => i8::from(!was_there),
            (Some(was_there), Leaves::None) => -i8::from(was_there),
            (None, _) => ROWS_UNKNOWN,
        };
        let mut writes = self.live.lock();
        let mark = writes.mark();
        // What has left memory the set does not know, when it says whether a key is fresh (Rule: I7).
        let is_unsaid = !writes.is_spilled() || own == OwnState::Untouched;
        append(&mut writes, hashed, is_unsaid, rows)?;
        let entries = writes.len() as u64;
        if let Err(error) = self.charge_writes(state, &writes) {
            writes.rollback_to(mark);
            return Err(error);
        }
        drop(writes);
        if self.private.is_none() {
            self.list_as_writer(state, &tree.entry);
        }
        // Behind the list of writers, where a build of indexes looks for those who do not know of it.
        let queued = self.queue_change(state, tree, key);
        let waited = queued.and_then(|()| match own {
            OwnState::Untouched => self.pass_gaps(state, tree, key, held),
            // It was pending already.
            _ => Ok(false),
        });
        if let (Ok(true), Some(locks)) = (&waited, &mut state.locks) {
            // The wait has taken the row again, which is written by now.
            locks.keep_last();
        }
        let exists = waited.and_then(|waited| match waited {
            true => self.exists(state, tree, key, own, is_insert),
            false => Ok(false),
        });
        if !matches!(exists, Ok(false)) {
            if !state.is_over {
                self.live.lock().rollback_to(mark);
            }
            return exists.map(|_| Written::Exists);
        }
        if let Some(locks) = &state.locks {
            locks.owner().set_writes(entries);
        }
        Ok(Written::Done(own))
    }

    /// Locks a row that is to be written and of which the transaction has no writes that count. After the intent.
    pub(super) fn lock_to_write(
        &self,
        state: &mut State,
        key: HashedKey<'_>,
        patience: Patience,
    ) -> Result<Taken, Denied> {
        let locks = state.locks.as_mut().expect("there since the intent");
        let table = &self.shared.lock_table;
        match state.spills > 0 && state.rollbacks_made > 0 {
            // What it has taken back it has locked, too.
            true => table.lock_row(locks, key.tree, key.key, RowMode::Write, patience),
            false => table.lock_unwritten(locks, key, RowMode::Write, patience),
        }
    }

    /// Counts what the writes take by now.
    ///
    /// # Errors
    /// `BatchTooLarge`: the last of them are to be taken back.
    pub(super) fn charge_writes(&self, state: &mut State, writes: &TxnWrites) -> Result<()> {
        let bytes = writes.commit_bytes() as u64;
        let all = &self.shared.engine.writes_memory;
        state.memory.grow(all, bytes, || writes.bytes_leaving() as u64);
        state.is_large = self.is_large(bytes) || self.takes_too_much(state);
        let max = self.shared.engine.memtables_bytes_max();
        if bytes > max {
            let limit = "a store with this memory (a quarter of it)";
            return Err(Error::BatchTooLarge { bytes, max, limit });
        }
        Ok(())
    }

    /// Lists the transaction as a writer of a tree, of which its first entry is among the writes.
    pub(super) fn list_as_writer(&self, state: &mut State, entry: &Arc<TreeEntry>) {
        if !state.entered.iter().any(|entered| entered.id == entry.id) {
            entry.writers.enter(&self.live);
            state.entered.push(entry.clone());
        }
    }

    /// Whether a key is there that must not be; under its lock, where it must not be a conflict, too.
    fn exists(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        own: OwnState,
        must_be_absent: bool,
    ) -> Result<bool> {
        // What the transaction has written it has looked at then.
        if own == OwnState::Untouched && !plant!("txn: a conflict is looked for before the lock") {
            self.must_not_conflict(state, tree, key)?;
        }
        if !must_be_absent {
            return Ok(false);
        }
        match own {
            OwnState::Deleted { .. } => Ok(false),
            OwnState::Put { .. } | OwnState::Merged => Ok(true),
            // Below what a temporary tree holds there is nothing.
            OwnState::Untouched if self.private.is_some() => Ok(false),
            OwnState::Untouched => self.shared.exists_at_latest(tree.entry.id, key),
        }
    }

    /// Waits until no other has locked the gap that the key goes into; true if it waited.
    fn pass_gaps(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        held: Option<LockMark>,
    ) -> Result<bool> {
        let patience = state.patience(IfLocked::Wait.into());
        let Some(locks) = &mut state.locks else { return Ok(false) };
        // A row that is there is under its own lock, and in no gap.
        if !self.shared.lock_table.is_gap_locked(locks, tree.entry.id, key)
            || self.shared.exists_at_latest(tree.entry.id, key)?
        {
            return Ok(false);
        }
        // Without a mark, it held nothing before this call.
        let mark = held.unwrap_or_default();
        let passed =
            self.shared.lock_table.before_insert(locks, tree.entry.id, key, mark, patience);
        passed.map_err(|denied| self.denied(state, denied))
    }
}

impl State {
    /// What is locked by now.
    pub(super) fn lock_mark(&self) -> Option<LockMark> {
        self.locks.as_ref().map(|locks| locks.mark())
    }

    /// Whether there is a row of a key that is about to be written, under its lock, as far as that is known without a
    /// look at the store: by what the transaction has written, by what the write asks for, or by what the last locking
    /// read found. For counting rows (Rule: I51).
    fn was_there(&self, own: OwnState, absent: Absent, key: HashedKey<'_>) -> Option<bool> {
        match (own, absent) {
            (OwnState::Put { .. } | OwnState::Merged, _) => Some(true),
            (OwnState::Deleted { .. }, _) => Some(false),
            (OwnState::Untouched, Absent::Must | Absent::Proven | Absent::Follows) => Some(false),
            (OwnState::Untouched, Absent::Not) => Some(true),
            (OwnState::Untouched, Absent::Whatever) => {
                let Seen { tree, key: seen, is_there } = &self.seen;
                (*tree == key.tree && seen == key.key).then_some(*is_there)
            }
        }
    }
}
