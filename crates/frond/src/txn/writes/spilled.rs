//! Spilled writes: pieces, each with everything that was in memory at one time, as sorted runs
//! (Rule: I44).
//!
//! Everything in memory goes to disk at once, and memory starts empty, one *generation* later. The
//! writes are cut at live marks: savepoints, and the starts of scans that are still open. So each
//! piece lies wholly before or after every mark to which a rollback can go, and a rollback drops
//! whole pieces.
//!
//! ```text
//! begin_spill(cuts)    what is in memory, sealed, in pieces; other threads find it as before
//! (written by module db, in extents that nothing links)
//! end_spill(pieces)    from now on they are found on disk
//! ```
//!
//! Invariants
//! 1. Pieces are ordered oldest first, and what is in memory is newer than all of them.
//! 2. A piece has the folded result of each key's entries: nothing that a live scan must not see is
//!    in it. Keys that the piece deleted and set again are remembered separately, as long as a scan
//!    may ask (Rule: I45).
//! 3. A key is found from its append on: in memory, in what is being written to disk, or in a
//!    piece; these are searched in this order.
//!
//! Threads: one, under the lock of [`LiveWrites`](super::LiveWrites).

use std::ops::Range;

use crate::{
    Result, TreeId, blob::BlobHold, run::Folder, sync::Arc, txn::WriteSet, version::SpilledWrites,
};

use super::{Mark, ROWS_UNKNOWN, TxnWrites};

/// A piece that is being written to disk.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// The mark at which it starts.
    pub start: Mark,
    /// The entries, sealed.
    pub writes: Arc<WriteSet>,
    /// The changes of trees' row counts.
    rows: Vec<RowsOf>,
    /// Long values to which it refers.
    pub blobs: Vec<Arc<BlobHold>>,
}

/// A piece on disk.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The mark at which it starts.
    pub start: Mark,
    /// The entries, one set of runs per tree.
    pub writes: Arc<SpilledWrites>,
    /// Keys that it deleted although its folded entries say otherwise, as deletes; empty if no scan
    /// can ask for them. They are stored as runs, too, since a statement may do this to any number
    /// of keys. A commit ignores them.
    pub hidden_deletes: Arc<SpilledWrites>,
    /// Number of merges that its entries have been through.
    pub level: u32,
    /// True if no entry in it adds data.
    pub only_deletes: bool,
    /// The length in memory, measured as a batch.
    bytes: u64,
    rows: Vec<RowsOf>,
    pub blobs: Vec<Arc<BlobHold>>,
}

/// Whether a scan may ask what was deleted in a piece that starts at `start`: not if all scans that
/// are open, or start now, started later.
pub(crate) fn may_be_asked(scans_from: Option<Mark>, start: Mark) -> bool {
    scans_from.is_some_and(|mark| mark <= start)
}

/// The runs of a piece.
#[derive(Default, Debug)]
pub(crate) struct PieceWrites {
    /// See [`Piece::writes`].
    pub writes: SpilledWrites,
    /// See [`Piece::hidden_deletes`].
    pub hidden_deletes: SpilledWrites,
}

/// The change of a tree's row count by some entries, and the number of entries whose change is
/// unknown.
#[derive(Clone, Copy, Debug)]
struct RowsOf {
    tree: TreeId,
    rows: i64,
    unknown: u32,
}

/// The pieces on disk, oldest first.
pub(crate) type Pieces = Arc<Vec<Piece>>;

impl Leaving {
    /// Turns this into a piece on disk, whose runs are those of the argument.
    pub fn written(self, PieceWrites { writes, hidden_deletes }: PieceWrites) -> Piece {
        let Self { start, rows, blobs, writes: leaving } = self;
        let (bytes, only_deletes) = (leaving.bytes() as u64, leaving.only_deletes());
        let (writes, hidden_deletes) = (Arc::new(writes), Arc::new(hidden_deletes));
        Piece { start, writes, hidden_deletes, level: 0, only_deletes, bytes, rows, blobs }
    }
}

impl Piece {
    /// Merges adjacent pieces into one, whose runs are those of the argument.
    pub fn merged(pieces: &[Piece], PieceWrites { writes, hidden_deletes }: PieceWrites) -> Self {
        let start = pieces.first().map(|piece| piece.start).unwrap_or_default();
        let level = pieces.iter().map(|piece| piece.level + 1).max().unwrap_or_default();
        let mut merged = Self {
            start,
            writes: Arc::new(writes),
            hidden_deletes: Arc::new(hidden_deletes),
            level,
            only_deletes: true,
            bytes: 0,
            rows: Vec::new(),
            blobs: Vec::new(),
        };
        for piece in pieces {
            merged.only_deletes &= piece.only_deletes;
            merged.bytes += piece.bytes;
            merged.blobs.extend(piece.blobs.iter().cloned());
            merged.rows.extend(piece.rows.iter().copied());
        }
        merged
    }
}

impl TxnWrites {
    /// True if some writes have been spilled.
    pub fn is_spilled(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Pieces that were rolled back, whose rows stay locked to the end.
    pub(crate) fn dropped(&self) -> &Arc<Vec<Arc<SpilledWrites>>> {
        &self.dropped
    }

    /// Forgets the dropped pieces, for writes that lock nothing.
    pub(crate) fn forget_dropped(&mut self) {
        self.dropped = Arc::default();
    }

    /// The pieces that were spilled.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Takes everything out of memory, sealed, in pieces that end at marks; memory is empty
    /// afterwards. `cuts` are the live marks, in any order; `separate` moves values out that
    /// folding made long. There must be no range deletes.
    ///
    /// After an error the writes are incomplete: the transaction must be ended.
    pub(crate) fn begin_spill(
        &mut self,
        cuts: &[Mark],
        folder: &Folder<'_>,
        mut separate: impl FnMut(&mut WriteSet, &mut Vec<Arc<BlobHold>>) -> Result<()>,
    ) -> Result<Vec<Leaving>> {
        assert!(
            !self.is_sealed && self.range_rows.is_empty(),
            "what is to leave memory is entries alone"
        );
        let count = self.set.entry_count() as u32;
        let mut starts: Vec<u32> = cuts
            .iter()
            .filter(|cut| cut.generation == self.generation && cut.entries < count)
            .map(|cut| cut.entries)
            .collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        if plant!("txn: what leaves memory is not cut at marks") {
            starts.truncate(1);
        }
        let mut pieces = Vec::with_capacity(starts.len());
        for &entries in starts.iter().rev() {
            let rows = self.rows_since(entries);
            let mut writes = self.set.split_off(entries as usize);
            let from = self.blobs.partition_point(|(slot, _)| *slot < entries);
            let mut blobs = self.blobs.drain(from..).map(|(_, hold)| hold).collect();
            writes.seal(folder)?;
            separate(&mut writes, &mut blobs)?;
            writes.freshen_inserts();
            let start = Mark { generation: self.generation, entries, ranges: 0 };
            let writes = Arc::new(writes);
            self.leaving.push(writes.clone());
            pieces.push(Leaving { start, writes, rows, blobs });
        }
        pieces.reverse();
        self.generation += 1;
        self.changes += 1;
        self.adds = false;
        self.set.clear_keeping(usize::MAX);
        self.chains.clear(usize::MAX);
        self.trees.leave_memory(self.changes);
        Ok(pieces)
    }

    /// The changes of trees' row counts by the entries from this one on.
    fn rows_since(&mut self, from: u32) -> Vec<RowsOf> {
        let mut all: Vec<RowsOf> = Vec::new();
        for slot in from..self.set.entry_count() as u32 {
            let tree = self.set.tree_at(slot);
            let (rows, unknown) = match self.chains.rows(slot) {
                ROWS_UNKNOWN => (0, 1),
                rows => (i64::from(rows), 0),
            };
            match all.iter_mut().find(|of| of.tree == tree) {
                Some(of) => (of.rows, of.unknown) = (of.rows + rows, of.unknown + unknown),
                None => all.push(RowsOf { tree, rows, unknown }),
            }
        }
        all
    }

    /// Updates the number of spilled entries, which is needed at each write and must not cost a
    /// loop over the pieces.
    fn count_spilled(&mut self) {
        self.spilled_entries = self.pieces.iter().map(|piece| piece.writes.entries()).sum();
    }

    /// Records that what was taken out lies on disk. If it `goes_on`, the memory is reused for the
    /// next piece: memory freed at every piece would partly stay in the allocator, and each new
    /// page costs a fault. Otherwise nothing is kept.
    pub(crate) fn end_spill(&mut self, pieces: Vec<Piece>, goes_on: bool) {
        Arc::make_mut(&mut self.pieces).extend(pieces);
        self.count_spilled();
        if !goes_on {
            self.leaving.clear();
            self.set.clear_keeping(0);
            self.chains.clear(0);
            return;
        }
        let left = self.leaving.drain(..).filter_map(|writes| Arc::try_unwrap(writes).ok());
        if let Some(mut left) = left.max_by_key(WriteSet::memory_bytes)
            && self.set.len() == 0
            && self.set.memory_bytes() < left.memory_bytes()
        {
            left.clear();
            self.set = left;
        }
    }

    /// Replaces the pieces of a range by the one that was merged from them.
    pub(crate) fn replace_pieces(&mut self, range: Range<usize>, merged: Piece) {
        Arc::make_mut(&mut self.pieces).splice(range, [merged]);
        self.count_spilled();
    }

    /// Drops the pieces that came after a mark.
    pub(super) fn drop_pieces(&mut self, mark: Mark) {
        let left = self.pieces.partition_point(|piece| piece.start < mark);
        if left == self.pieces.len() {
            return;
        }
        for piece in Arc::make_mut(&mut self.pieces).drain(left..) {
            Arc::make_mut(&mut self.dropped).push(piece.writes);
            for RowsOf { tree, rows, unknown } in piece.rows {
                if let Some(state) = self.trees.get_mut(tree) {
                    state.rows -= rows;
                    state.unknown -= unknown;
                    state.changed = self.changes;
                }
            }
        }
        self.count_spilled();
    }

    /// Forgets the hidden deletes of pieces before the earliest mark of an open or starting scan;
    /// of all pieces if there is none.
    pub(crate) fn forget_hidden_deletes(&mut self, scans_from: Option<Mark>) {
        let is_due = |piece: &Piece| {
            !may_be_asked(scans_from, piece.start) && piece.hidden_deletes.entries() > 0
        };
        if self.pieces.iter().any(is_due) {
            let pieces = Arc::make_mut(&mut self.pieces).iter_mut();
            pieces
                .filter(|piece| is_due(piece))
                .for_each(|piece| piece.hidden_deletes = Arc::default());
        }
    }

    /// Adds what a prepared transaction had spilled before a restart.
    pub(crate) fn has_left_memory(&mut self, writes: Arc<SpilledWrites>) {
        let merged = Piece::merged(&[], PieceWrites::default());
        self.end_spill(vec![Piece { writes, only_deletes: false, ..merged }], false);
    }

    /// The first key of a tree that is not below `from`, among pieces that are being written.
    pub(super) fn first_leaving(&self, tree: TreeId, from: &[u8]) -> Option<&[u8]> {
        self.leaving.iter().filter_map(|writes| writes.first_key(tree, from)).min()
    }

    /// The last key of a tree below `to`, among pieces that are being written.
    pub(super) fn last_leaving(&self, tree: TreeId, to: Option<&[u8]>) -> Option<&[u8]> {
        self.leaving.iter().filter_map(|writes| writes.last_key(tree, to)).max()
    }
}
