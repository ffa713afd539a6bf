//! Reads of one row: the transaction's own writes over what is committed.

use crate::{
    Error, Result, Seqno, TreeId,
    block::typed::Projection,
    sync::Arc,
    txn::{HashedKey, lock_table::RowMode},
    version::{Reader, SnapshotState, Version},
};

use super::{
    super::{
        Parts, Shared, Snapshot, Tree,
        read::{Messages, ReadView, in_key_order},
    },
    IfLocked, Isolation, ManyRows, Meeting, ReadOptions, RowLock, State, Txn,
    read_as::Sees,
};

/// What a read goes by.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    /// What the transaction's level says.
    Level,
    /// The newest commit, visible or about to be: under the row's lock.
    Latest,
    /// The last commit that is visible.
    Visible,
    /// What was committed through this one, in a version that has it.
    Moment(&'a Version, Seqno),
}

impl Txn {
    /// The value of a key: the transaction's own, or what its level shows. Never waits and locks nothing, but at level
    /// `Serializable`, where it is a [`get_for_share`](Self::get_for_share).
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped, truncated or filled by a load, also since the snapshot was taken;
    /// `DefinitionChanged` if it was created behind the snapshot; `TxnEnded`; I/O errors and damage of what had to be read.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(tree, key, &mut value)?.then_some(value))
    }

    /// The same into a buffer that is reused; false, and an empty buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(&self, tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut state = self.enter(tree, key)?;
        if self.options.isolation != Isolation::Serializable || self.options.read_only {
            return self.read_shown(&mut state, tree, key, At::Level, value);
        }
        // The lock is on the key: it keeps a row that is not there from being made, too.
        self.lock_row(&mut state, (tree.entry.id, key), RowMode::Shared, IfLocked::Wait.into())?;
        tree.entry.check()?;
        self.read_shown(&mut state, tree, key, At::Latest, value)
    }

    /// Parts of a value, as [`Tree::get_parts`](crate::Tree::get_parts) gives them: false, and an empty buffer, if there is no
    /// such key. What is read under locks, or of a transaction that has written, is read whole and cut.
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the value does not fit the layout of its tree, or the parts are of a
    /// tree with other layouts.
    pub fn get_parts(
        &self,
        tree: &Tree,
        key: &[u8],
        parts: &Parts,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        parts.check(tree.typing.as_ref())?;
        let mut state = self.enter(tree, key)?;
        if self.locks_all() || self.has_written_to(&state, tree) {
            drop(state);
            let found = self.get_into(tree, key, value)?;
            if found && let Err(misfit) = parts.keep(Some(&tree.entry), value) {
                value.clear();
                return Err(misfit);
            }
            return Ok(found);
        }
        let engine = &self.shared.engine;
        let (version, at) = self.moment(&mut state, tree, Sees::AsLevel)?;
        ReadView { engine, version: &version, at }.get_parts(&tree.entry, key, parts, value)
    }

    /// Whether some of the tree's rows may be the transaction's own.
    pub(super) fn has_written_to(&self, state: &State, tree: &Tree) -> bool {
        state.has_written && self.live.lock().changes(tree.entry.id) != 0
    }

    /// The snapshot that plain reads without locks walk over.
    pub(super) fn snapshot_seen(&self, state: &mut State, sees: Sees) -> Snapshot {
        match sees == Sees::Newest || !self.keeps_snapshot(state) {
            true => self.newest_snapshot(),
            false => self.snapshot_again(state),
        }
    }

    /// What plain reads of the tree go by now, where they lock nothing: the last commit that they see, in a version that has
    /// it.
    pub(super) fn moment(
        &self,
        state: &mut State,
        tree: &Tree,
        sees: Sees,
    ) -> Result<(Arc<Version>, Seqno)> {
        let engine = &self.shared.engine;
        if sees == Sees::Newest || !self.keeps_snapshot(state) {
            let version = engine.versions.hold();
            let at = engine.sequencer.visible();
            tree.entry.check_at(at)?;
            return Ok((version, at));
        }
        let snapshot = self.snapshot(state);
        tree.check_at(snapshot.at)?;
        Ok((snapshot.version(&engine.versions), snapshot.at))
    }

    /// Locks the row for this transaction alone, and reads its newest value. The row need not exist: then nobody
    /// else makes it until this transaction ends.
    ///
    /// # Errors
    /// `LockTimeout`: nothing was done. `Deadlock`, and of a snapshot transaction `Conflict` if the row was committed
    /// since its snapshot: it is rolled back. As [`get`](Self::get).
    pub fn get_for_update(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_locked(tree, key, RowLock::Exclusive, IfLocked::Wait)
    }

    /// Locks the row against writers, and reads its newest value.
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update).
    pub fn get_for_share(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_locked(tree, key, RowLock::Shared, IfLocked::Wait)
    }

    /// One of these two, which may be told not to wait. To skip rows that are busy, go on behind `LockBusy`; to see them as
    /// they were last committed, and for all else that can be asked of a read, see [`read`](Self::read).
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update); `LockBusy` if it was not to wait: nothing was done.
    pub fn get_locked(
        &self,
        tree: &Tree,
        key: &[u8],
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<Option<Vec<u8>>> {
        let mode = RowMode::from(lock);
        let mut found = self.get_locking(tree, key, mode, if_locked)?;
        if let Some(value) = &mut found {
            tree.bring_up(value)?;
        }
        Ok(found)
    }

    /// The newest value under an exclusive lock, in the version of the layout that it names, if it names one: for who maps it
    /// to the version that he knows once he has the lock.
    pub(crate) fn get_for_update_as_it_is(
        &self,
        tree: &Tree,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        self.get_locking(tree, key, RowMode::Exclusive, IfLocked::Wait)
    }

    /// The newest value, in the version of the layout that it names.
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
        // It may have waited for who dropped the tree.
        tree.entry.check()?;
        self.must_not_conflict(&mut state, tree, key)?;
        let mut value = Vec::new();
        let is_there = self.read_as_it_is(&mut state, tree, key, At::Latest, &mut value)?;
        state.seen.note(tree.entry.id, key, is_there);
        Ok(is_there.then_some(value))
    }

    /// The value in the version of the layout that the handle knows.
    pub(super) fn read_shown(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        at: At<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let is_there = self.read_as_it_is(state, tree, key, at, value)?;
        tree.bring_up(value)?;
        Ok(is_there)
    }

    /// The value in the version that it names, if it names one.
    pub(super) fn read_as_it_is(
        &self,
        state: &mut State,
        tree: &Tree,
        key: &[u8],
        at: At<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let id = tree.entry.id;
        let (mut messages, mut done) = (Messages::default(), false);
        let engine = &self.shared.engine;
        if state.has_written {
            let own = self.live.lock();
            for message in own.messages(HashedKey::new(id, key)) {
                done |= messages.take(message, true, value);
            }
            let pieces = (!done && own.is_spilled()).then(|| own.pieces().clone());
            drop(own);
            for runs in
                pieces.iter().flat_map(|all| all.iter().rev()).flat_map(|one| one.writes.of(id))
            {
                if !done && let Some(found) = runs.get(&engine.cx, key, &Projection::All)? {
                    done = messages.take(found.message(), true, value);
                }
            }
        }
        let done = done || self.private.is_some();
        let add = |messages: &mut Messages, value: &mut Vec<u8>, view: &ReadView<'_>| match done {
            true => Ok(()),
            false => view.add_messages(id, key, &Projection::All, messages, value),
        };
        // Operands are over what the row is by now, which is locked: a moment of before is not what they will be over.
        let is_over_newest = messages.is_open() && !done && self.goes_on_from_newer();
        let keeps = matches!(at, At::Level) && self.keeps_snapshot(state);
        // Whatever the transaction has written there itself: a scan would not see the rest.
        if keeps {
            tree.check_at(self.snapshot(state).at)?;
        }
        match at {
            At::Latest => {
                // The lock of the row, or of the tree, keeps the tree from ending.
                let version = engine.versions.current();
                let view = ReadView { engine, version: &version, at: Seqno(u64::MAX) };
                add(&mut messages, value, &view)?;
                messages.finish(&view, value)
            }
            At::Moment(version, at) if !is_over_newest => {
                let view = ReadView { engine, version, at };
                add(&mut messages, value, &view)?;
                messages.finish(&view, value)
            }
            At::Level if keeps && !is_over_newest => {
                let snapshot = self.snapshot(state);
                let version = snapshot.version_for_a_call(&engine.versions);
                let view = ReadView { engine, version: &version, at: snapshot.at };
                add(&mut messages, value, &view)?;
                messages.finish(&view, value)
            }
            At::Level | At::Visible | At::Moment(..) => {
                let version = engine.versions.current();
                let view = ReadView { engine, version: &version, at: engine.sequencer.visible() };
                tree.entry.check_at(view.at)?;
                add(&mut messages, value, &view)?;
                messages.finish(&view, value)
            }
        }
    }

    /// What own operands are over, in a scan whose snapshot shows this of the row: at `RepeatableRead` a newer one.
    pub(super) fn under_operands(
        &self,
        exists: bool,
        tree: &Tree,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        // Elsewhere a scan sees none that are older than its snapshot.
        if self.options.isolation != Isolation::RepeatableRead {
            return Ok(exists);
        }
        let engine = &self.shared.engine;
        let version = engine.versions.current();
        let view = ReadView { engine, version: &version, at: engine.sequencer.visible() };
        tree.entry.check_at(view.at)?;
        value.clear();
        view.get(tree.entry.id, key, value)
    }

    /// Whether own writes may go on from newer rows than plain reads see, and operands are over those.
    pub(super) fn goes_on_from_newer(&self) -> bool {
        matches!(self.options.isolation, Isolation::ReadCommitted | Isolation::RepeatableRead)
    }

    /// Whether plain reads see a snapshot, and not what is committed when they are called: at `ReadCommitted` only those of
    /// a statement, all of them the same one.
    pub(super) fn keeps_snapshot(&self, state: &State) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => state.statement.is_some() && self.private.is_none(),
            _ => true,
        }
    }

    /// Whether plain reads may see an older row than a write goes on from, and own writes stand over it.
    pub(crate) fn stands_over_older(&self) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => self.keeps_snapshot(&self.state.lock().unwrap()),
            isolation => isolation == Isolation::RepeatableRead,
        }
    }

    /// The snapshot that plain reads see; made by the first of them.
    pub(super) fn snapshot<'s>(&self, state: &'s mut State) -> &'s Arc<SnapshotState> {
        let engine = &self.shared.engine;
        let visible = || engine.sequencer.visible();
        let register = || engine.snapshots.register_for(self.reader(), visible);
        let snapshot = state.snapshot.get_or_insert_with(register);
        if snapshot.at > visible() {
            // It was taken before those commits could be seen; here nobody waits for this call.
            engine.wait_visible(snapshot.at);
        }
        snapshot
    }

    /// Takes the snapshot of the plain reads now instead of with the first of them: of all commits that have their place in
    /// the order, those that cannot be seen yet included. Waits for nothing, so that a server can call this where it keeps
    /// commits away; the first read waits until all of them are visible. Returns the last commit that it shows. One that has a
    /// snapshot keeps it.
    ///
    /// # Errors
    /// `InvalidArgument` at `ReadCommitted` and `Serializable`, which have none; `TxnEnded`, `Interrupted`.
    pub fn take_snapshot(&self) -> Result<Seqno> {
        let mut state = self.go_on()?;
        if !matches!(self.options.isolation, Isolation::RepeatableRead | Isolation::Snapshot) {
            let why = "a transaction of this level has no snapshot";
            return Err(Error::InvalidArgument(why.into()));
        }
        let engine = &self.shared.engine;
        if state.snapshot.is_none() {
            let last = engine.enter().last();
            // What became visible meanwhile may be in trees already.
            let at = || last.max(engine.sequencer.visible());
            state.snapshot = Some(engine.snapshots.register_for(self.reader(), at));
        }
        Ok(state.snapshot.as_ref().map_or(Seqno(0), |snapshot| snapshot.at))
    }

    /// The values of many keys, in their order, all from the same moment; looked for in key order, so that neighbours
    /// find their blocks in the cache. At `Serializable` each is locked shared, and is the newest.
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
        self.read_many_into(tree, keys, &ReadOptions::default(), &mut rows)?;
        Ok((0..rows.len()).map(|row| rows.get(row).map(<[u8]>::to_vec)).collect())
    }
}

impl Txn {
    /// Under what name its snapshot is held.
    fn reader(&self) -> Reader {
        Reader { id: self.id(), tag: self.options.tag }
    }

    /// The newest snapshot there is, under its name.
    pub(crate) fn newest_snapshot(&self) -> Snapshot {
        Snapshot::newest_for(self.shared.store(), self.reader())
    }

    /// The snapshot that plain reads see, once more.
    pub(super) fn snapshot_again(&self, state: &mut State) -> Snapshot {
        self.held_again(self.snapshot(state))
    }

    /// A snapshot that it holds, once more.
    pub(super) fn held_again(&self, snapshot: &Arc<SnapshotState>) -> Snapshot {
        Snapshot::again(self.shared.store(), snapshot.clone(), self.reader())
    }

    /// Lets its snapshot go.
    pub(super) fn release_snapshot(&self, snapshot: Option<Arc<SnapshotState>>) {
        if let Some(snapshot) = snapshot {
            self.shared.engine.snapshots.release(&snapshot, Some(self.id()));
        }
    }
}

impl Shared {
    /// Whether a row exists, at the newest inserted version. Under its lock (Rule: I3).
    pub(in crate::db) fn exists_at_latest(&self, tree: TreeId, key: &[u8]) -> Result<bool> {
        let engine = &self.engine;
        let version = engine.versions.current();
        ReadView { engine, version: &version, at: Seqno(u64::MAX) }.exists(tree, key)
    }

    /// Whether a row was committed since a snapshot. Under the row's lock (Rules: I3, I27).
    pub(super) fn has_changed(
        &self,
        snapshot: &SnapshotState,
        tree: &Tree,
        key: &[u8],
    ) -> Result<bool> {
        let id = tree.entry.id;
        let engine = &self.engine;
        let version = engine.versions.hold();
        let latest = ReadView { engine, version: &version, at: Seqno(u64::MAX) };
        if let Some(seqno) = latest.newest_in_memtables(id, key)? {
            return Ok(seqno > snapshot.at);
        }
        // Trees know no seqnos: what is in them is at least as old as what was applied last.
        if version.applied <= snapshot.at || plant!("txn: rows of trees have never changed") {
            return Ok(false);
        }
        let (mut now, mut then) = (Vec::new(), Vec::new());
        let all = Projection::All;
        let of_now = latest.messages(id, key, &all, &mut now)?;
        let of_snapshot = snapshot.version(&engine.versions);
        let before = ReadView { engine, version: &of_snapshot, at: snapshot.at };
        let of_then = before.messages(id, key, &all, &mut then)?;
        let has_layouts = tree.entry.row_version().is_some();
        // Long values are written once: they are as they were if their references are, and need not be read (Rule: I27). Only a
        // merge that maps rows to a layout writes one anew.
        if of_now.is_reference() && of_then.is_reference() && (now == then || !has_layouts) {
            return Ok(now != then);
        }
        let is_now = of_now.finish(&latest, &mut now)?;
        let was_then = of_then.finish(&before, &mut then)?;
        // A merge may have mapped the row to the newest version of its layout meanwhile, which nobody has committed.
        if now != then && has_layouts {
            let newest = Tree::new(tree.shared.clone(), tree.entry.clone());
            newest.bring_up(&mut now)?;
            newest.bring_up(&mut then)?;
        }
        Ok(is_now != was_then || now != then)
    }
}
