//! Writes that have left memory: pieces, each all that was in memory at once, as sorted runs (Rule: I44).
//!
//! What is in memory goes to disk as a whole, and memory begins anew, one *generation* later. It is cut at live
//! marks: savepoints, and the begins of scans that are not over. So each piece lies wholly before or behind every mark
//! that can be gone back to, and going back drops whole pieces.
//!
//! ```text
//! begin_spill(cuts)    what is in memory, sealed, in pieces; found by others as before
//! (written by the db room, in extents that nothing links)
//! end_spill(pieces)    from now on they are found on disk
//! ```
//!
//! Invariants
//! 1. Pieces stand oldest first, and what is in memory is newer than all of them.
//! 2. A piece says of each key what its entries come to, folded: what a scan must not see of it, it sees nothing of. Of
//!    keys that it deleted and gave something again that is remembered apart, as long as a scan may ask (Rule: I45).
//! 3. A key is found from its append on: in memory, in what is being written, or in a piece, looked for in this order.
//!
//! Threads: one, behind the lock of [`LiveWrites`](super::LiveWrites).

use std::ops::Range;

use crate::{
    Result, TreeId, blob::BlobHold, run::Folder, sync::Arc, txn::WriteSet, version::SpilledWrites,
};

use super::{Mark, ROWS_UNKNOWN, TxnWrites};

/// A piece that is on its way to disk.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// What was before it.
    pub start: Mark,
    /// Sealed.
    pub writes: Arc<WriteSet>,
    /// By how much it changes the rows of trees.
    rows: Vec<RowsOf>,
    /// Long values that it names.
    pub blobs: Vec<Arc<BlobHold>>,
}

/// A piece.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// What was before it.
    pub start: Mark,
    /// Its entries, one piece of runs a tree.
    pub writes: Arc<SpilledWrites>,
    /// Keys that it deleted and of which its entries say something else, as deletes; none that no scan can ask for. They are
    /// runs, too: a statement may do so to any number of keys. No commit has anything of them.
    pub hidden_deletes: Arc<SpilledWrites>,
    /// Merges that its entries have been through.
    pub level: u32,
    /// Nothing in it adds data.
    pub only_deletes: bool,
    /// What it was in memory, as a batch.
    bytes: u64,
    rows: Vec<RowsOf>,
    pub blobs: Vec<Arc<BlobHold>>,
}

/// Whether a scan may ask what was deleted in what begins at `start`: not if all that there are, or that begin now, began later.
pub(crate) fn may_be_asked(scans_from: Option<Mark>, start: Mark) -> bool {
    scans_from.is_some_and(|mark| mark <= start)
}

/// Where a piece lies.
#[derive(Default, Debug)]
pub(crate) struct PieceWrites {
    /// See [`Piece::writes`].
    pub writes: SpilledWrites,
    /// See [`Piece::hidden_deletes`].
    pub hidden_deletes: SpilledWrites,
}

/// By how much entries change the rows of a tree, and of how many of them that is not known.
#[derive(Clone, Copy, Debug)]
struct RowsOf {
    tree: TreeId,
    rows: i64,
    unknown: u32,
}

/// Pieces, oldest first.
pub(crate) type Pieces = Arc<Vec<Piece>>;

impl Leaving {
    /// Says where it lies now.
    pub fn written(self, PieceWrites { writes, hidden_deletes }: PieceWrites) -> Piece {
        let Self { start, rows, blobs, writes: leaving } = self;
        let (bytes, only_deletes) = (leaving.bytes() as u64, leaving.only_deletes());
        let (writes, hidden_deletes) = (Arc::new(writes), Arc::new(hidden_deletes));
        Piece { start, writes, hidden_deletes, level: 0, only_deletes, bytes, rows, blobs }
    }
}

impl Piece {
    /// Neighbours as one, which lies where `writes` says.
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
    /// True if something of it has left memory.
    pub fn is_spilled(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Pieces that count no more, and whose rows stay locked to the end.
    pub(crate) fn dropped(&self) -> &Arc<Vec<Arc<SpilledWrites>>> {
        &self.dropped
    }

    /// Forgets these, of writes that lock nothing.
    pub(crate) fn forget_dropped(&mut self) {
        self.dropped = Arc::default();
    }

    /// What has left memory.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Takes all that is in memory out, sealed, in pieces that end at marks; memory is empty then. `cuts` are the live
    /// marks, in any order; `separate` moves values out that folding made long. There must be no range deletes.
    ///
    /// After an error nothing is whole: the transaction is to be ended.
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

    /// By how much the entries from this one on change the rows of trees.
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

    /// The length is asked for at each write: not piece by piece.
    fn count_spilled(&mut self) {
        self.spilled_entries = self.pieces.iter().map(|piece| piece.writes.entries()).sum();
    }

    /// What was taken out lies on disk. If it `goes_on`, its memory is that of the next piece: what is given back at every piece the
    /// allocator would keep in part, and each new page of it costs a fault. Else nothing of it is kept.
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

    /// Puts one piece in the place of those that it was merged of.
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

    /// Forgets the hidden deletes of pieces from before the first mark that a scan has, or begins at; of all if there is none.
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

    /// What a transaction that was prepared had written beyond memory, which it has again.
    pub(crate) fn has_left_memory(&mut self, writes: Arc<SpilledWrites>) {
        let merged = Piece::merged(&[], PieceWrites::default());
        self.end_spill(vec![Piece { writes, only_deletes: false, ..merged }], false);
    }

    /// The first key of a tree that is not below `from`, in what is on its way to disk.
    pub(super) fn first_leaving(&self, tree: TreeId, from: &[u8]) -> Option<&[u8]> {
        self.leaving.iter().filter_map(|writes| writes.first_key(tree, from)).min()
    }

    /// And the last one below `to`.
    pub(super) fn last_leaving(&self, tree: TreeId, to: Option<&[u8]>) -> Option<&[u8]> {
        self.leaving.iter().filter_map(|writes| writes.last_key(tree, to)).max()
    }
}
