//! Transactions beyond memory: their writes are spilled, as sorted runs, to the store's file.
//!
//! Once a transaction's writes take more memory than its share, its next call that writes spills
//! all of them: they are sealed, cut at live marks, and written as one sorted run per tree (Rule:
//! I44, `txn/writes/spilled.rs`). The locks of their rows leave the lock table (Rule: I47,
//! `txn/lock_table/spilled.rs`). Nothing links the runs until the commit names them in the log;
//! after a rollback, a drop or a crash they are free space.
//!
//! Invariants
//! 1. Only the transaction sees its spilled writes, and searches for pending keys.
//! 2. A row call is not split: writes are spilled before such a call or after it.
//! 3. The runs are on disk before a record that names them can be (Rule: I11).
//! 4. While a scan may ask whether a row was deleted since its mark, the pieces after that mark can
//!    answer (Rule: I45).
//! 5. Merges stop soon after the transaction was cancelled, and leave the pieces unchanged (Rule:
//!    I53). A spill that has started is completed, up to a sixteenth of the cache: it cannot be
//!    undone, and otherwise the whole transaction would be lost. A cancelled prepare is the
//!    exception, because it loses the transaction anyway.
//!
//! Threads: as the transaction. Cost: an entry is sorted, encoded and written once, here, and once
//! more when it is applied.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use crate::{
    Error, Result, TreeId,
    block::columnar::ColumnSelection,
    db::Tree,
    message::{Kind, Tag},
    pipeline::Engine,
    run::{Entry, MergeCursor},
    sync::Arc,
    tree::{SortedRuns, SortedRunsCursor, SortedRunsWriter, TreeTraits},
    trim::give_freed_back,
    txn::{
        HashedKey, Leaving, LiveWrites, Mark, MemoryReservation, OwnState, Piece, PieceWrites,
        lock_table::{HoldsRows, Leaving as LeavingLocks, LockTable},
        may_be_asked,
    },
    types::VersionNumber,
    version::{Change, SpilledWrites},
};

use super::{State, Txn};

/// Spilled commits that may wait to be applied: readers must search each of them.
pub(super) const WAITING_MAX: usize = 2;

/// Pieces of about one size that are merged into one: a read must search each piece.
const MERGED: usize = 8;

/// Pieces that may exist between two live marks. Statements cut, so pieces of one size need not be
/// neighbours.
pub(super) const PIECES_MAX: usize = 4 * MERGED;

/// Entries, or groups of them, between two checks for cancellation.
const LOOKS_EVERY: usize = 256;

/// Trees that pieces have rows of, ascending.
fn trees_of(pieces: &[Piece]) -> BTreeSet<TreeId> {
    pieces.iter().flat_map(|piece| piece.writes.trees()).collect()
}

/// A cursor over all of these runs, on the first entry.
fn bulk_cursor(engine: &Engine, runs: &Arc<SortedRuns>) -> Result<SortedRunsCursor> {
    let mut cursor = SortedRunsCursor::bulk(&engine.cx, runs);
    cursor.seek_first().map(|()| cursor)
}

/// Chooses neighbouring pieces to merge, with no live mark between them: the newest ones of one
/// level, if there are enough; or, if there are more than `count_max` between two marks, those with
/// the fewest bytes.
fn to_merge(pieces: &[Piece], marks: &[Mark], count_max: usize) -> Option<Range<usize>> {
    let are_cut = |older: &Piece, newer: &Piece| {
        // Entries after a mark may be rolled back alone; it may lie at the end of what was in
        // memory then.
        let between = |mark: &Mark| older.start < *mark && *mark <= newer.start;
        marks.iter().any(between) && !plant!("txn: pieces are merged over marks")
    };
    let mut end = pieces.len();
    for stretch in pieces.chunk_by(|older, newer| !are_cut(older, newer)).rev() {
        let start = end - stretch.len();
        let windows = stretch.windows(MERGED).enumerate();
        let bytes = |window: &[Piece]| window.iter().map(|piece| piece.writes.bytes()).sum::<u64>();
        let alike = |(_, window): &(usize, &[Piece])| {
            window.iter().all(|piece| piece.level == window[0].level)
        };
        let smallest = || {
            let windows = windows.clone().filter(|_| stretch.len() > count_max);
            windows.min_by_key(|(_, window)| bytes(window))
        };
        if let Some((at, _)) = windows.clone().rev().find(alike).or_else(smallest) {
            return Some(start + at..start + at + MERGED);
        }
        end = start;
    }
    None
}

/// Whether an interrupt cancels writing a piece, which is lost then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancellable {
    No,
    Yes,
}

/// Answers whether a transaction holds a row: one in its pieces, in pieces that a savepoint rolled
/// back, or, once these are dropped, in its sealed set.
#[derive(Debug)]
struct SpilledRows {
    engine: Arc<Engine>,
    live: Arc<LiveWrites>,
}

impl HoldsRows for SpilledRows {
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool> {
        let (pieces, dropped) = self.live.all_pieces();
        let all = pieces.iter().map(|piece| &piece.writes).chain(dropped.iter());
        let mut holds = Some(false);
        for writes in all {
            match tag_in(&self.engine, writes, tree, key) {
                Ok(Some(_)) => return Some(true),
                Ok(None) => {}
                // The row may be in the run that cannot be read.
                Err(_) => holds = None,
            }
        }
        // A row that was written again after a savepoint rolled its piece back took no new lock:
        // the rolled back piece stood for it, and a prepare drops those pieces.
        let in_memory = || {
            self.live.is_in_sealed(tree, key)
                && !plant!("txn: a prepare forgets rows written again")
        };
        if dropped.is_empty() && in_memory() { Some(true) } else { holds }
    }
}

/// Answers for the rows that a transaction has spilled.
pub(in crate::db) fn rows_beyond_memory(
    engine: &Arc<Engine>,
    live: &Arc<LiveWrites>,
) -> Arc<dyn HoldsRows> {
    Arc::new(SpilledRows { engine: engine.clone(), live: live.clone() })
}

/// The kind of message that a piece has for a key.
fn tag_in(
    engine: &Engine,
    writes: &SpilledWrites,
    tree: TreeId,
    key: &[u8],
) -> Result<Option<Tag>> {
    let none = ColumnSelection::Nothing;
    for runs in writes.of(tree) {
        if let Some(found) = runs.get(&engine.cx, key, &none)? {
            return Ok(Some(found.tag));
        }
    }
    Ok(None)
}

/// Writes one tree's part of a piece.
struct PieceWriter<'a> {
    tree: TreeId,
    writes: SortedRunsWriter<'a>,
    /// Deletes that its entries hide; `None` if no scan can ask for them.
    hidden: Option<SortedRunsWriter<'a>>,
}

impl PieceWriter<'_> {
    /// Adds an entry above all before it. `hides_delete`: it hides a delete of its key, or is one.
    fn push(&mut self, entry: Entry<'_>, hides_delete: bool) -> Result<()> {
        self.writes.push(entry)?;
        match &mut self.hidden {
            Some(hidden) if hides_delete && entry.tag.kind() != Kind::Delete => {
                hidden.push(Entry { key: entry.key, tag: Tag::DELETE, payload: &[] })
            }
            _ => Ok(()),
        }
    }

    fn finish(self, written: &mut PieceWrites) -> Result<()> {
        written.writes.push_older(self.tree, Arc::new(self.writes.finish()?));
        let hidden = self.hidden.map(SortedRunsWriter::finish).transpose()?;
        if let Some(hidden) = hidden.filter(|hidden| hidden.entries() > 0) {
            written.hidden_deletes.push_older(self.tree, Arc::new(hidden));
        }
        Ok(())
    }
}

/// How much a transaction has written, and the memory that it takes.
#[derive(Debug, Default)]
pub(super) struct BufferUse {
    /// Whether anything was written, even if it was rolled back; if not, own writes need not be
    /// searched.
    pub has_written: bool,
    /// Whether the writes take more memory than they should.
    pub is_large: bool,
    /// The memory reservation of the writes.
    pub memory: MemoryReservation,
    /// Number of spills.
    pub spills: u64,
}

impl State {
    /// Live marks, at which spilled pieces are cut.
    fn cuts(&self) -> Vec<Mark> {
        let marks = self.marks.savepoints.iter().map(|(_, mark)| *mark);
        marks.chain(self.scan_marks()).collect()
    }

    /// The lowest mark that an open scan has, or that a scan started now would have; `None` if that
    /// would see everything. No scan can get a lower mark later: a rollback past the start of a
    /// statement drops the pieces after it.
    fn scans_from(&self) -> Option<Mark> {
        self.scan_marks().min()
    }

    fn scan_marks(&self) -> impl Iterator<Item = Mark> {
        let statements =
            self.marks.statement.iter().chain(&self.marks.substatements).map(|(mark, _)| *mark);
        statements.chain(self.marks.cursor_marks.iter().copied())
    }

    /// Returns `Interrupted` if it was cancelled; checked only at some of many steps.
    fn check_interrupted_at(&self, step: usize) -> Result<()> {
        if step.is_multiple_of(LOOKS_EVERY) { self.check_interrupted() } else { Ok(()) }
    }
}

impl Txn {
    /// What the transaction itself did to a key.
    pub(super) fn own_state(&self, state: &State, hashed: HashedKey<'_>) -> Result<OwnState> {
        if !state.buffer.has_written {
            return Ok(OwnState::Untouched);
        }
        let own = self.live.lock();
        let in_memory = own.state_of(hashed);
        if in_memory != OwnState::Untouched || !own.is_spilled() {
            return Ok(in_memory);
        }
        let pieces = own.pieces().clone();
        drop(own);
        let mut is_merged = false;
        for piece in pieces.iter().rev() {
            let tag = tag_in(&self.shared.engine, &piece.writes, hashed.tree, hashed.key)?;
            match tag.map(|tag| tag.kind()) {
                None => {}
                Some(Kind::Merge | Kind::Versions) => is_merged = true,
                // Operands over a Delete form a value, too.
                Some(Kind::Delete) if !is_merged => {
                    return Ok(OwnState::Deleted { is_fresh: false });
                }
                Some(_) => return Ok(OwnState::Put { is_fresh: false }),
            }
        }
        Ok(if is_merged { OwnState::Merged } else { OwnState::Untouched })
    }

    /// True if the transaction has ever written to a tree.
    pub(crate) fn has_touched(&self, tree: &Tree) -> bool {
        self.live.lock().changes(tree.entry.id) != 0
    }

    /// Fails if the transaction was cancelled or has ended; for long loops.
    pub(crate) fn must_not_stop(&self) -> Result<()> {
        self.go_on().map(drop)
    }

    /// True if the transaction has written a key, and not rolled that back.
    pub(crate) fn has_said(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        let state = self.stay()?;
        Ok(self.own_state(&state, HashedKey::new(tree.entry.id, key))? != OwnState::Untouched)
    }

    /// True if the transaction has deleted a row since a mark.
    pub(super) fn is_deleted_since(&self, tree: TreeId, key: &[u8], mark: Mark) -> Result<bool> {
        let pieces = {
            let own = self.live.lock();
            if own.is_deleted_since(HashedKey::new(tree, key), mark) {
                return Ok(true);
            }
            own.pieces().clone()
        };
        let since = pieces.partition_point(|piece| piece.start < mark);
        let since = pieces.iter().skip(since);
        for writes in since.flat_map(|piece| [&piece.writes, &piece.hidden_deletes]) {
            let tag = tag_in(&self.shared.engine, writes, tree, key)?;
            if tag.is_some_and(|tag| tag.kind() == Kind::Delete) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Spills what is in memory if it has become too much. Called before a call that writes; a row
    /// call writes several times and is not split.
    ///
    /// An error ends the transaction, because what was being spilled is incomplete. An interrupt
    /// does not.
    pub(super) fn spill_if_large(&self, state: &mut State) -> Result<()> {
        if !state.buffer.is_large || state.row_calls.depth > 0 {
            return Ok(());
        }
        let (bytes, adds) = {
            let own = self.live.lock();
            (own.commit_bytes() as u64, own.adds())
        };
        // It may have been rolled back. And deletes stay in memory as long as possible, where they
        // need no disk space.
        let most = self.shared.engine.memtables_bytes_max();
        let is_large = self.is_large(bytes) || self.takes_too_much(state);
        state.buffer.is_large = is_large && (adds || bytes > most / 2);
        if !state.buffer.is_large {
            return Ok(());
        }
        self.shared.check_writable()?;
        if adds {
            // Checked before anything is spilled, so that nothing is lost.
            self.shared.engine.admit(bytes)?;
            self.shared.engine.store.settle_admitted(bytes);
        }
        self.leave_memory(state, Cancellable::No).inspect_err(|error| self.end_by(state, error))?;
        // Allowed with open scans: their marks are among the cuts, and they reposition once pieces
        // have changed.
        let merged = self.merge_pieces(state, &state.cuts(), state.scans_from(), PIECES_MAX);
        merged.inspect_err(|error| {
            // In that case everything is as before, in more pieces.
            if !matches!(error, Error::Interrupted) {
                self.shared.stop_if_unwritable(error);
                self.end_by(state, error);
            }
        })
    }

    /// Ends the transaction with an error that a retry would meet again.
    fn end_by(&self, state: &mut State, error: &Error) {
        state.ended_by = Some(Box::new(error.clone()));
        self.end(state);
    }

    /// Spills everything that is in memory. After an error the transaction must be ended.
    pub(super) fn leave_memory(&self, state: &mut State, cancellable: Cancellable) -> Result<()> {
        state.buffer.is_large = false;
        self.spill(state, cancellable).inspect_err(|error| self.shared.stop_if_unwritable(error))
    }

    /// True if writes that take so much memory should be spilled.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        // A session may have many temporary trees.
        let share = if self.private.is_some() { 4 } else { 1 };
        bytes > self.shared.engine.limits.own_writes_bytes / share
    }

    /// True if it takes more memory than it may while all transactions together take too much.
    #[inline]
    pub(super) fn takes_too_much(&self, state: &State) -> bool {
        let own = state.buffer.memory.bytes();
        own > 0 && own > self.shared.engine.share_of_writes()
    }

    fn spill(&self, state: &mut State, cancellable: Cancellable) -> Result<()> {
        let shared = &*self.shared;
        state.entered.iter().try_for_each(|tree| tree.check())?;
        let (cuts, scans_from) = (state.cuts(), state.scans_from());
        let leaving = {
            let mut own = self.live.lock();
            own.forget_hidden_deletes(scans_from);
            let separate = |writes: &mut _, blobs: &mut _| shared.separate(writes, blobs);
            own.begin_spill(&cuts, &shared.engine.cx.folder(), separate)?
        };
        let entries = leaving.iter().map(|piece| piece.writes.len()).sum();
        let mut hashes = HashSet::with_capacity(entries);
        let mut pieces = Vec::with_capacity(leaving.len());
        for piece in leaving {
            let is_asked = may_be_asked(scans_from, piece.start);
            let written = self.write_piece(state, cancellable, (&piece, is_asked), &mut hashes)?;
            pieces.push(piece.written(written));
        }
        // The memory is released instead of reused in three cases: a prepared transaction writes no
        // more; a session may have many temporary trees; and while all transactions together take
        // too much, this one returns what it has taken when there was enough.
        let is_scarce = shared.engine.share_of_writes() < u64::MAX;
        let goes_on = cancellable == Cancellable::No && self.private.is_none() && !is_scarce;
        self.live.lock().end_spill(pieces, goes_on);
        if !goes_on {
            let freed_bytes = state.buffer.memory.clear();
            let memory = &shared.engine.writes_memory;
            if is_scarce && memory.is_trim_due(shared.engine.env.clock.now()) {
                give_freed_back(freed_bytes.max(memory.bytes()));
            }
        }
        state.buffer.spills += 1;
        if let Some(locks) = &mut state.locks {
            let rows = rows_beyond_memory(&shared.engine, &self.live);
            shared.lock_table.spill(locks, rows, LeavingLocks::Rows(&hashes));
        }
        Ok(())
    }

    /// Writes one piece, and collects the hashes of its rows. `is_asked`: a scan may ask what was
    /// deleted in it.
    fn write_piece(
        &self,
        state: &State,
        cancellable: Cancellable,
        (piece, is_asked): (&Leaving, bool),
        hashes: &mut HashSet<u128>,
    ) -> Result<PieceWrites> {
        let mut written = PieceWrites::default();
        for tree in piece.writes.trees() {
            let mut writer = self.writer(tree, is_asked)?;
            for (step, entry) in piece.writes.entries(tree).enumerate() {
                if cancellable == Cancellable::Yes {
                    state.check_interrupted_at(step)?;
                }
                hashes.insert(LockTable::row_hash(tree, entry.key));
                let crate::txn::Entry { key, tag, payload, hides_delete, .. } = entry;
                let hides_delete =
                    hides_delete && !plant!("txn: what leaves memory forgets what it hides");
                writer.push(Entry { key, tag, payload }, hides_delete)?;
            }
            writer.finish(&mut written)?;
        }
        Ok(written)
    }

    fn writer(&self, tree: TreeId, is_asked: bool) -> Result<PieceWriter<'_>> {
        let (cx, traits) = (&self.shared.engine.cx, self.traits(tree)?);
        let hidden = is_asked.then(|| SortedRunsWriter::new(cx, traits.clone(), self.birth()));
        Ok(PieceWriter { tree, writes: SortedRunsWriter::new(cx, traits, self.birth()), hidden })
    }

    /// The spilled part of its commit: the change to be noted, and the bytes to reserve for it.
    pub(super) fn spilled_change(&self, state: &State) -> Result<(Change, u64)> {
        let shared = &*self.shared;
        // It has no scans any more.
        self.live.lock().forget_hidden_deletes(None);
        // Readers search each piece, and an apply reads all of them concurrently.
        self.merge_pieces(state, &[], None, 2 * MERGED)?;
        let pieces = self.live.all_pieces().0;
        let mut all = SpilledWrites::default();
        for (tree, runs) in pieces.iter().rev().flat_map(|piece| piece.writes.iter()) {
            all.push_older(tree, runs.clone());
        }
        if !plant!("txn: record before the spilled runs are synced") {
            shared.engine.health.watch(shared.engine.store.sync())?;
        }
        // Deletes are always allowed: they are how space comes back (Rule: I24).
        let adds = pieces.iter().any(|piece| !piece.only_deletes);
        let bytes = if adds { all.bytes() } else { 0 };
        Ok((Change::Spill(Arc::new(all)), bytes))
    }

    /// Merges neighbouring pieces with no live mark between them, while there are [`MERGED`] of one
    /// size, or more than `count_max` of any size. So each entry is written once more for each
    /// eightfold growth of its piece.
    fn merge_pieces(
        &self,
        state: &State,
        marks: &[Mark],
        scans_from: Option<Mark>,
        count_max: usize,
    ) -> Result<()> {
        loop {
            let pieces = self.live.all_pieces().0;
            let Some(range) = to_merge(&pieces, marks, count_max) else { return Ok(()) };
            let is_asked = may_be_asked(scans_from, pieces[range.start].start);
            let merged = self.merge_run(state, &pieces[range.clone()], is_asked)?;
            self.live.lock().replace_pieces(range, merged);
        }
    }

    /// Merges several pieces into one. A key's message is kept even if it folds to nothing, because
    /// it stands for the row's lock. `is_asked`: a scan may ask what was deleted in them.
    fn merge_run(&self, state: &State, pieces: &[Piece], is_asked: bool) -> Result<Piece> {
        let engine = &*self.shared.engine;
        let mut written = PieceWrites::default();
        let folder = engine.cx.folder();
        let (mut payload, mut spare) = (Vec::new(), Vec::new());
        for tree in trees_of(pieces) {
            let writes = pieces.iter().rev().flat_map(|piece| piece.writes.of(tree));
            let mut cursors: Vec<_> =
                writes.map(|runs| bulk_cursor(engine, runs)).collect::<Result<_>>()?;
            // After the messages, and not counted as such: their keys are among those of the
            // messages.
            let messages = cursors.len();
            let asked = pieces.iter().filter(|_| is_asked);
            for runs in asked.flat_map(|piece| piece.hidden_deletes.of(tree)) {
                cursors.push(bulk_cursor(engine, runs)?);
            }
            let mut merge = MergeCursor::new(cursors);
            let mut writer = self.writer(tree, is_asked)?;
            let mut step = 0;
            while merge.next_group()? {
                state.check_interrupted_at(step)?;
                step += 1;
                let versions = merge.group().filter(|(source, _)| *source < messages);
                let versions = versions.map(|(_, entry)| entry.message());
                let tag = folder.fold_versions(versions, true, &mut payload, &mut spare)?;
                let key = merge.group().next().map(|(_, entry)| entry.key).unwrap_or_default();
                if let Some(tag) = tag {
                    let mut group = merge.group();
                    let hides_delete = is_asked
                        && group.any(|(_, entry)| entry.tag.kind() == Kind::Delete)
                        && !plant!("txn: merged pieces forget what they hide");
                    writer.push(Entry { key, tag, payload: &payload }, hides_delete)?;
                }
            }
            writer.finish(&mut written)?;
        }
        Ok(Piece::merged(pieces, written))
    }

    fn birth(&self) -> VersionNumber {
        self.shared.engine.versions.current().publish
    }

    fn traits(&self, tree: TreeId) -> Result<TreeTraits> {
        if let Some(private) = &self.private {
            return Ok(TreeTraits::clone(private));
        }
        // Its lock on the tree keeps others from dropping it.
        let traits = self.shared.engine.trees.traits(tree);
        traits.ok_or_else(|| Error::NoSuchTree(self.shared.tree_name(tree)))
    }

    /// Cursors over a tree's spilled pieces, for a scan that started at a mark: newest first, each
    /// piece completely before the mark.
    pub(super) fn pieces_before(
        &self,
        tree: &Tree,
        mark: Mark,
        (lo, hi): (Option<&[u8]>, Option<&[u8]>),
    ) -> Vec<SortedRunsCursor> {
        let Some(pieces) = self.live.pieces() else { return Vec::new() };
        let before = pieces.iter().rev().filter(|piece| piece.start < mark);
        let runs = before.flat_map(|piece| piece.writes.of(tree.entry.id));
        runs.map(|runs| SortedRunsCursor::new(&self.shared.engine.cx, runs, (lo, hi))).collect()
    }
}
