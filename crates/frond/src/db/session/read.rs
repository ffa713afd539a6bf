//! Reads of one row: committed data, overlaid with the transaction's own writes.

use crate::{
    Result, TreeId,
    block::columnar::ColumnSelection,
    db::{
        Shared, Snapshot, Tree,
        read::{Messages, View, in_key_order},
    },
    sync::Arc,
    txn::lock_table::RowMode,
    version::{Reader, SnapshotState},
};

use super::{
    IfLocked, Isolation, ManyRows, Meeting, ReadOptions, RowLock, State, Txn,
    read_as::{At, Sees},
};

impl Txn {
    /// The value of a key: the transaction's own, or what its level shows. Never waits and locks
    /// nothing, except at level `Serializable`, where it locks the row shared.
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped, truncated or filled by a load, also since the snapshot
    /// was taken; `DefinitionChanged` if it was created after the snapshot; `TxnEnded`; I/O errors
    /// and damage of what had to be read.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let mut value = Vec::new();
        Ok(self.get_into(tree, key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key into a reusable buffer, like [`get`](Self::get); false, with an
    /// empty buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_plain_into(tree, key.as_ref(), value)
    }

    fn get_plain_into(&self, tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut state = self.enter(tree, key)?;
        if self.options.isolation != Isolation::Serializable || self.options.read_only {
            return self.read_shown(&mut state, tree, key, At::Level, value);
        }
        // The lock is on the key, so it also keeps others from inserting a row that does not exist.
        self.lock_row(&mut state, (tree.entry.id, key), RowMode::Shared, IfLocked::Wait.into())?;
        tree.entry.check()?;
        self.read_shown(&mut state, tree, key, At::Latest, value)
    }

    /// True if some of the tree's rows may be the transaction's own.
    pub(super) fn has_written_to(&self, state: &State, tree: &Tree) -> bool {
        self.buffer.has_written_to(&state.buffer, tree.entry.id)
    }

    /// The snapshot for plain scans without locks.
    pub(super) fn snapshot_seen(&self, state: &mut State, sees: Sees) -> Snapshot {
        match sees == Sees::Newest || !self.keeps_snapshot(state) {
            true => self.newest_snapshot(),
            false => self.snapshot_again(state),
        }
    }

    /// What plain reads of the tree without locks currently see.
    pub(super) fn view(&self, state: &mut State, tree: &Tree, sees: Sees) -> Result<View<'_>> {
        let engine = &self.shared.engine;
        if sees == Sees::Newest || !self.keeps_snapshot(state) {
            let view = View::visible(engine);
            tree.entry.check_at(view.at)?;
            return Ok(view);
        }
        let snapshot = self.snapshot(state);
        tree.check_at(snapshot.at)?;
        Ok(View::of(engine, snapshot))
    }

    /// Locks the row exclusively and reads its newest value. The row need not exist: then no other
    /// transaction can insert it until this one ends.
    ///
    /// # Errors
    /// `LockTimeout`: nothing was done. `Deadlock`, and for a snapshot transaction `Conflict` if
    /// the row was committed since its snapshot: the transaction is rolled back. As
    /// [`get`](Self::get).
    #[doc(alias = "compare_and_swap")]
    pub fn get_for_update(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.get_locked(tree, key, RowLock::Exclusive, IfLocked::Wait)
    }

    /// Locks the row in a given mode and reads its newest value. If another transaction has locked
    /// the row, waits for it or fails with `LockBusy`.
    pub(crate) fn get_locked(
        &self,
        tree: &Tree,
        key: &[u8],
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<Option<Vec<u8>>> {
        let mode = RowMode::from(lock);
        let mut found = self.get_locking(tree, key, mode, if_locked)?;
        if let Some(value) = &mut found {
            tree.to_newest_version(value)?;
        }
        Ok(found)
    }

    /// Reads the newest value under an exclusive lock, in the version of the layout that it names,
    /// if any. Meant for a caller that maps it, once it has the lock, to the version that it knows.
    pub(crate) fn get_for_update_as_it_is(
        &self,
        tree: &Tree,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        self.get_locking(tree, key, RowMode::Exclusive, IfLocked::Wait)
    }

    /// Locks the row and reads the newest value, in the version of the layout that it names.
    fn get_locking(
        &self,
        tree: &Tree,
        key: &[u8],
        mode: RowMode,
        if_locked: IfLocked,
    ) -> Result<Option<Vec<u8>>> {
        let mut state = self.enter(tree, key)?;
        let meeting = Meeting::from(if_locked).that_locks();
        self.lock_row(&mut state, (tree.entry.id, key), mode, meeting)?;
        // It may have waited for a transaction that dropped the tree.
        tree.entry.check()?;
        self.must_not_conflict(&mut state, tree, key)?;
        let mut value = Vec::new();
        let is_there = self.read_as_it_is(&mut state, tree, key, At::Latest, &mut value)?;
        state.seen.note(tree.entry.id, key, is_there);
        Ok(is_there.then_some(value))
    }

    /// Reads the value in the version of the layout that the handle knows.
    pub(super) fn read_shown(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        at: At<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let is_there = self.read_as_it_is(state, tree, key, at, value)?;
        tree.to_newest_version(value)?;
        Ok(is_there)
    }

    /// Reads the value in the version that it names, if any.
    pub(super) fn read_as_it_is(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        at: At<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let (buffer, engine, id) = (&self.buffer, &self.shared.engine, tree.entry.id);
        let mut messages = Messages::default();
        let place = (id, key);
        let done = buffer.take_messages(engine, &state.buffer, place, &mut messages, value)?;
        // Operands apply to the current, locked row, so an older snapshot would not show their
        // result.
        let is_over_newest = messages.is_open() && !done && self.goes_on_from_newer();
        let keeps = matches!(at, At::Level) && self.keeps_snapshot(state);
        // Checked even if the transaction has written the row itself, because a scan would not see
        // the other rows.
        if keeps {
            tree.check_at(self.snapshot(state).at)?;
        }
        let taken;
        let view = match at {
            At::View(view) if !is_over_newest => view,
            _ => {
                taken = match at {
                    // The lock of the row, or of the tree, keeps the tree from ending.
                    At::Latest => View::latest(engine),
                    At::Level if keeps && !is_over_newest => View::of(engine, self.snapshot(state)),
                    At::Level | At::Visible | At::View(_) => {
                        let view = View::visible(engine);
                        tree.entry.check_at(view.at)?;
                        view
                    }
                };
                &taken
            }
        };
        if !done {
            view.add_messages(id, key, &ColumnSelection::All, &mut messages, value)?;
        }
        messages.finish(engine, value)
    }

    /// The row to which own merge operands apply, in a scan whose snapshot shows `value`: at
    /// `RepeatableRead` the newer row.
    pub(super) fn under_operands(
        &self,
        exists: bool,
        tree: &Tree,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        // At other levels a scan sees no rows that are older than its operands' base.
        if self.options.isolation != Isolation::RepeatableRead {
            return Ok(exists);
        }
        let view = View::visible(&self.shared.engine);
        tree.entry.check_at(view.at)?;
        value.clear();
        view.get(tree.entry.id, key, value)
    }

    /// True if own writes may be based on newer rows than plain reads see, so that operands apply
    /// to those.
    pub(super) fn goes_on_from_newer(&self) -> bool {
        matches!(self.options.isolation, Isolation::ReadCommitted | Isolation::RepeatableRead)
    }

    /// True if plain reads see a snapshot rather than what is committed when they are called. At
    /// `ReadCommitted` this applies within a statement, whose reads share one snapshot.
    pub(super) fn keeps_snapshot(&self, state: &State) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => state.buffer.marks.statement.is_some(),
            _ => true,
        }
    }

    /// True if plain reads may see an older row than a write is based on, overlaid with own writes.
    pub(crate) fn stands_over_older(&self) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => self.keeps_snapshot(&self.state.lock().unwrap()),
            isolation => isolation == Isolation::RepeatableRead,
        }
    }

    /// The snapshot for plain reads, taken by the first of them.
    pub(super) fn snapshot<'s>(&self, state: &'s mut State) -> &'s Arc<SnapshotState> {
        let engine = &self.shared.engine;
        let visible = || engine.sequencer.visible();
        let register = || engine.snapshots.register_for(self.reader(), visible);
        let snapshot = state.snapshot.get_or_insert_with(register);
        if snapshot.at > visible() {
            // The snapshot was taken before those commits were visible. Waiting here blocks nothing
            // else.
            engine.wait_visible(snapshot.at);
        }
        snapshot
    }

    /// The values of many keys, in the order of the keys, all at one snapshot; they are looked up
    /// in key order, so that neighbouring keys find their blocks in the cache. At `Serializable`
    /// each row is locked shared, and its newest value is returned.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        if self.locks_all() {
            let _call = self.begin_calls()?;
            return in_key_order(keys, |key| self.get(tree, key));
        }
        let mut rows = ManyRows::default();
        rows.read(self, tree, keys, &ReadOptions::default())?;
        Ok((0..rows.len()).map(|row| rows.get(row).map(<[u8]>::to_vec)).collect())
    }
}

impl Txn {
    /// How the snapshot registry identifies the transaction.
    pub(super) fn reader(&self) -> Reader {
        Reader { id: self.id(), tag: self.options.tag }
    }

    /// A snapshot of the newest state, registered for this transaction.
    pub(crate) fn newest_snapshot(&self) -> Snapshot {
        Snapshot::newest_for(self.shared.store(), self.reader())
    }

    /// Another handle of the snapshot for plain reads.
    pub(super) fn snapshot_again(&self, state: &mut State) -> Snapshot {
        self.held_again(self.snapshot(state))
    }

    /// Another handle of a snapshot that it holds.
    pub(super) fn held_again(&self, snapshot: &Arc<SnapshotState>) -> Snapshot {
        Snapshot::again(self.shared.store(), snapshot.clone(), self.reader())
    }

    /// Releases its snapshot.
    pub(super) fn release_snapshot(&self, snapshot: Option<Arc<SnapshotState>>) {
        if let Some(snapshot) = snapshot {
            self.shared.engine.snapshots.release(&snapshot, Some(self.id()));
        }
    }
}

impl Shared {
    /// True if a row exists, at the newest inserted version. Called under its lock (Rule: I3).
    pub(in crate::db) fn exists_at_latest(&self, tree: TreeId, key: &[u8]) -> Result<bool> {
        View::latest(&self.engine).exists(tree, key)
    }

    /// True if a row was committed since a snapshot. Called under the row's lock (Rules: I3, I27).
    pub(super) fn has_changed(
        &self,
        snapshot: &SnapshotState,
        tree: &Tree,
        key: &[u8],
    ) -> Result<bool> {
        let id = tree.entry.id;
        let engine = &self.engine;
        let latest = View::latest(engine);
        if let Some(seqno) = latest.newest_in_memtables(id, key)? {
            return Ok(seqno > snapshot.at);
        }
        // Trees store no seqnos: what is in them is at most as new as the last applied commit.
        if latest.version.applied <= snapshot.at || plant!("txn: rows of trees have never changed")
        {
            return Ok(false);
        }
        let (mut now, mut then) = (Vec::new(), Vec::new());
        let all = ColumnSelection::All;
        let of_now = latest.messages(id, key, &all, &mut now)?;
        let before = View::of(engine, snapshot);
        let of_then = before.messages(id, key, &all, &mut then)?;
        let has_layouts = tree.entry.row_version().is_some();
        // Long values are written once: they are unchanged if their references are, and need not be
        // read (Rule: I27). Only a merge that maps rows to a layout rewrites one.
        if of_now.is_reference() && of_then.is_reference() && (now == then || !has_layouts) {
            return Ok(now != then);
        }
        let is_now = of_now.finish(engine, &mut now)?;
        let was_then = of_then.finish(engine, &mut then)?;
        // A merge may have mapped the row to the newest version of its layout, which is not a
        // commit.
        if now != then && has_layouts {
            let newest = Tree::new(tree.shared.clone(), tree.entry.clone());
            newest.to_newest_version(&mut now)?;
            newest.to_newest_version(&mut then)?;
        }
        Ok(is_now != was_then || now != then)
    }
}
