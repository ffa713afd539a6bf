//! Spilling: the writes of a transaction or temporary tree that take too much memory are moved to
//! sorted runs in the store's file.
//!
//! Once the writes of a buffer take more memory than its share, the next call that writes spills
//! all of them: they are sealed, cut at live marks, and written as one sorted run per tree, which
//! together are a *piece* (Rule: I44, `txn/writes/spilled.rs`). Nothing links the runs, so after a
//! rollback, a drop or a crash they are free space. Pieces are merged, so that a read need not
//! search many.
//!
//! Invariants
//! 1. While a scan may ask whether a row was deleted since its mark, the pieces after that mark can
//!    answer (Rule: I45).
//! 2. Merges stop soon after the owner was cancelled, and leave the pieces unchanged (Rule: I53). A
//!    spill that has started is completed, up to a sixteenth of the cache: it cannot be undone, and
//!    otherwise the whole buffer would be lost. A cancelled prepare is the exception, because it
//!    loses the transaction anyway.
//!
//! Threads: as the owner of the buffer. Cost: an entry is sorted, encoded and written once, here,
//! once more for each eightfold growth of its piece, and once more when it is applied.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use crate::{
    Error, Result, TreeId,
    db::Shared,
    message::{Kind, Tag},
    pipeline::Engine,
    run::{Entry, MergeCursor},
    sync::Arc,
    tree::{SortedRuns, SortedRunsCursor, SortedRunsWriter, TreeTraits},
    trim::give_freed_back,
    txn::{
        Leaving, LiveWrites, Mark, Piece, PieceWrites,
        lock_table::{LockTable, Owner},
        may_be_asked,
    },
    types::VersionNumber,
};

use super::{BufferState, WriteBuffer};

/// Pieces of about one size that are merged into one: a read must search each piece.
pub(in crate::db::session) const MERGED: usize = 8;

/// Most pieces between two live marks. Spills are cut at the starts of statements, so pieces of one
/// size need not be neighbours.
pub(in crate::db::session) const PIECES_MAX: usize = 4 * MERGED;

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
        // Entries after a mark may be rolled back alone; the mark may lie at the end of what was in
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

/// Whether an interrupt cancels the write of a piece; the piece is then lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::db::session) enum Cancellable {
    No,
    Yes,
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

/// Spills a buffer on behalf of its owner.
pub(in crate::db::session) struct Spiller<'a> {
    pub buffer: &'a WriteBuffer,
    pub shared: &'a Shared,
    /// The transaction whose interrupts cancel merges.
    pub owner: Option<Arc<Owner>>,
    /// The traits of the temporary tree whose buffer this is; `None` for a transaction's buffer.
    pub temporary: Option<&'a TreeTraits>,
}

impl Spiller<'_> {
    /// True if the buffer must be spilled before its next write. Checks that there is disk space
    /// for it.
    ///
    /// # Errors
    /// `Full` and others that prevent writing: nothing was done.
    pub fn is_due(&self, state: &mut BufferState) -> Result<bool> {
        let engine = &self.shared.engine;
        let (bytes, adds) = {
            let own = self.live().lock();
            (own.commit_bytes() as u64, own.adds())
        };
        // It may have been rolled back. And deletes stay in memory as long as possible, where they
        // need no disk space.
        let is_large = self.buffer.should_spill(engine, state, bytes);
        state.is_large = is_large && (adds || bytes > engine.memtables_bytes_max() / 2);
        if !state.is_large {
            return Ok(false);
        }
        self.shared.check_writable()?;
        if adds {
            // Checked before anything is spilled, so that nothing is lost.
            engine.admit(bytes)?;
            engine.store.release_admitted(bytes);
        }
        Ok(true)
    }

    /// Spills everything that is in memory, and collects the hashes of its rows, if asked to. After
    /// an error the buffer is incomplete.
    pub fn spill(
        &self,
        state: &mut BufferState,
        cancellable: Cancellable,
        mut hashes: Option<&mut HashSet<u128>>,
    ) -> Result<()> {
        let shared = self.shared;
        state.is_large = false;
        let (cuts, scans_from) = (state.marks.cuts(), state.marks.scans_from());
        let leaving = {
            let mut own = self.live().lock();
            own.forget_hidden_deletes(scans_from);
            let separate = |writes: &mut _, blobs: &mut _| shared.separate(writes, blobs);
            own.begin_spill(&cuts, &shared.engine.cx.folder(), separate)?
        };
        if let Some(hashes) = &mut hashes {
            hashes.reserve(leaving.iter().map(|piece| piece.writes.len()).sum());
        }
        let mut pieces = Vec::with_capacity(leaving.len());
        for piece in leaving {
            let is_asked = may_be_asked(scans_from, piece.start);
            let written = self.write_piece(cancellable, (&piece, is_asked), &mut hashes)?;
            pieces.push(piece.written(written));
        }
        // The memory is released instead of reused in three cases: a prepared transaction writes no
        // more; a session may have many temporary trees; and while all transactions together take
        // too much, this one returns what it has taken when there was enough.
        let is_scarce = shared.engine.share_of_writes() < u64::MAX;
        let goes_on = cancellable == Cancellable::No && self.temporary.is_none() && !is_scarce;
        self.live().lock().end_spill(pieces, goes_on);
        if !goes_on {
            let freed_bytes = state.memory.clear();
            let memory = &shared.engine.writes_memory;
            if is_scarce && memory.is_trim_due(shared.engine.env.clock.now()) {
                give_freed_back(freed_bytes.max(memory.bytes()));
            }
        }
        state.spills += 1;
        Ok(())
    }

    /// Merges pieces after a spill. After an error everything is as before, in more pieces.
    pub fn merge_after_spill(&self, state: &BufferState) -> Result<()> {
        // Allowed with open scans: their marks are among the cuts, and they reposition once pieces
        // have changed.
        self.merge_pieces(&state.marks.cuts(), state.marks.scans_from(), PIECES_MAX)
    }

    /// Writes one piece. `is_asked`: a scan may ask what was deleted in it.
    fn write_piece(
        &self,
        cancellable: Cancellable,
        (piece, is_asked): (&Leaving, bool),
        hashes: &mut Option<&mut HashSet<u128>>,
    ) -> Result<PieceWrites> {
        let mut written = PieceWrites::default();
        for tree in piece.writes.trees() {
            let mut writer = self.writer(tree, is_asked)?;
            for (step, entry) in piece.writes.entries(tree).enumerate() {
                if cancellable == Cancellable::Yes {
                    self.check_interrupted_at(step)?;
                }
                if let Some(hashes) = hashes {
                    hashes.insert(LockTable::row_hash(tree, entry.key));
                }
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

    /// Merges neighbouring pieces with no live mark between them, while there are [`MERGED`] of one
    /// size, or more than `count_max` of any size. So each entry is written once more for each
    /// eightfold growth of its piece.
    pub fn merge_pieces(
        &self,
        marks: &[Mark],
        scans_from: Option<Mark>,
        count_max: usize,
    ) -> Result<()> {
        loop {
            let pieces = self.live().all_pieces().0;
            let Some(range) = to_merge(&pieces, marks, count_max) else { return Ok(()) };
            let is_asked = may_be_asked(scans_from, pieces[range.start].start);
            let merged = self.merge_run(&pieces[range.clone()], is_asked)?;
            self.live().lock().replace_pieces(range, merged);
        }
    }

    /// Merges several pieces into one. A key's message is kept even if it folds to nothing, because
    /// it stands for the row's lock. `is_asked`: a scan may ask what was deleted in them.
    fn merge_run(&self, pieces: &[Piece], is_asked: bool) -> Result<Piece> {
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
                self.check_interrupted_at(step)?;
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

    fn live(&self) -> &LiveWrites {
        &self.buffer.live
    }

    /// Returns `Interrupted` if the owner was cancelled; checked only at some of many steps.
    fn check_interrupted_at(&self, step: usize) -> Result<()> {
        let owner = self.owner.as_ref().filter(|_| step.is_multiple_of(LOOKS_EVERY));
        match owner.is_some_and(|owner| owner.is_interrupted()) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn birth(&self) -> VersionNumber {
        self.shared.engine.versions.current().publish
    }

    fn traits(&self, tree: TreeId) -> Result<TreeTraits> {
        // A transaction's lock on the tree keeps others from dropping it.
        let traits = self.temporary.cloned().or_else(|| self.shared.engine.trees.traits(tree));
        traits.ok_or_else(|| Error::NoSuchTree(self.shared.tree_name(tree)))
    }
}
