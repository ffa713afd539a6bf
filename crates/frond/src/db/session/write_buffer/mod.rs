//! Write buffers: uncommitted writes, and reads of these writes alone. Transactions and temporary
//! trees both have one.
//!
//! A write buffer has a write set in memory ([`TxnWrites`]), sorted runs in the store's file to
//! which the set is spilled when it takes too much memory, and marks in the order of the writes:
//! savepoints, statements, open scans. It knows no locks, no snapshot and no committed rows; the
//! transaction has those. A temporary tree is a write buffer that is never committed.
//!
//! It has two halves, because other threads search a transaction's writes for pending keys, and
//! scans stay open from one call to the next; neither may take the lock that calls of its owner
//! hold. [`WriteBuffer`] is shared and has a lock of its own, which is held for a few entries at a
//! time; [`BufferState`] belongs to the owner's state and is protected by the owner's lock.
//!
//! | file | what it does |
//! |---|---|
//! | `marks.rs` | savepoints, statements, marks of open scans; partial rollback |
//! | `row_write.rs` | a write of one key, and what is known about the key |
//! | `spill.rs` | spills what takes too much memory, and merges what was spilled |
//! | `cursor.rs` | a cursor over what is in memory and what was spilled |
//! | `place.rs` | where a scan stands |
//! | `scan.rs` | a cursor that stays at its mark while its buffer is written, spilled, rolled back |
//!
//! Invariants
//! 1. What is in memory is newer than what was spilled.
//! 2. A call that fails leaves the buffer as it was, unless it fails in a spill: then the owner
//!    must discard the buffer.
//!
//! Threads: as the owner.

mod cursor;
mod marks;
mod place;
mod row_write;
mod scan;
mod spill;

use crate::{
    Result, TreeId,
    block::columnar::ColumnSelection,
    db::{RangeEstimate, read::Messages},
    message::{Kind, Tag},
    pipeline::Engine,
    sync::Arc,
    txn::{HashedKey, LiveWrites, Mark, MemoryReservation, OwnState, TxnWrites},
    version::SpilledWrites,
};

use cursor::WriteBufferCursor;
pub(super) use marks::{Marks, no_savepoint};
pub(super) use place::{Place, Position};
pub(super) use row_write::{Absent, RowWrite, Written};
pub(super) use scan::{BufferScan, above};
#[cfg(all(test, not(shuttle)))]
pub(super) use spill::PIECES_MAX;
pub(super) use spill::{Cancellable, MERGED, Spiller};

/// The shared half of a write buffer.
pub(super) struct WriteBuffer {
    /// The writes in memory, and the list of what was spilled.
    pub live: Arc<LiveWrites>,
    /// Writes that take more memory than this are spilled.
    pub bytes_max: u64,
}

/// The half of a write buffer that its owner's lock protects.
#[derive(Debug, Default)]
pub(super) struct BufferState {
    /// Whether anything was written, even if it was rolled back; if not, the buffer need not be
    /// searched.
    pub has_written: bool,
    /// Whether the writes take more memory than they should.
    pub is_large: bool,
    /// The memory reservation of the writes.
    pub memory: MemoryReservation,
    /// Number of spills.
    pub spills: u64,
    /// The points in the writes that can be rolled back to, or that scans see.
    pub marks: Marks,
}

impl BufferState {
    /// Prepares the state for the next owner, and keeps the memory of its lists.
    pub fn reset(&mut self) {
        self.marks.reset();
        self.memory.clear();
        (self.has_written, self.is_large, self.spills) = (false, false, 0);
    }
}

impl WriteBuffer {
    /// True if some rows of a tree may be in the buffer.
    pub fn has_written_to(&self, state: &BufferState, tree: TreeId) -> bool {
        state.has_written && self.changes(tree) != 0
    }

    /// See [`TxnWrites::changes`].
    pub fn changes(&self, tree: TreeId) -> u64 {
        self.live.lock().changes(tree)
    }

    /// What the buffer has done to a key.
    pub fn own_state(
        &self,
        engine: &Engine,
        state: &BufferState,
        hashed: HashedKey<'_>,
    ) -> Result<OwnState> {
        if !state.has_written {
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
            let tag = tag_in(engine, &piece.writes, hashed.tree, hashed.key)?;
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

    /// Takes the buffer's messages for a key, newest first; true if no older message matters.
    #[inline]
    pub fn take_messages(
        &self,
        engine: &Engine,
        state: &BufferState,
        (tree, key): (TreeId, &[u8]),
        messages: &mut Messages,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if !state.has_written {
            return Ok(false);
        }
        let mut done = false;
        let own = self.live.lock();
        for message in own.messages(HashedKey::new(tree, key)) {
            done |= messages.take(message, true, value);
        }
        let pieces = (!done && own.is_spilled()).then(|| own.pieces().clone());
        drop(own);
        for runs in
            pieces.iter().flat_map(|all| all.iter().rev()).flat_map(|one| one.writes.of(tree))
        {
            if !done && let Some(found) = runs.get(&engine.cx, key, &ColumnSelection::All)? {
                done = messages.take(found.message(), true, value);
            }
        }
        Ok(done)
    }

    /// True if a row was deleted since a mark.
    pub fn is_deleted_since(
        &self,
        engine: &Engine,
        tree: TreeId,
        key: &[u8],
        mark: Mark,
    ) -> Result<bool> {
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
            let tag = tag_in(engine, writes, tree, key)?;
            if tag.is_some_and(|tag| tag.kind() == Kind::Delete) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Estimates the buffer's rows in a range, and returns their change of the tree's total row
    /// count, if that is known.
    pub fn estimate(
        &self,
        state: &BufferState,
        tree: TreeId,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> (RangeEstimate, Option<i64>) {
        if !state.has_written {
            return (RangeEstimate::default(), Some(0));
        }
        let mut own = self.live.lock();
        let (mut rows, mut bytes) = own.estimate(tree, range);
        let delta = row_delta(&own, tree);
        let pieces = own.pieces().clone();
        drop(own);
        for runs in pieces.iter().flat_map(|piece| piece.writes.of(tree)) {
            let held = runs.estimate(range);
            rows += held.rows_at_least();
            bytes += held.bytes.round() as u64;
        }
        (RangeEstimate { rows, bytes }, delta)
    }

    /// Change of a tree's row count by the buffer's writes, if that is known.
    pub fn row_delta(&self, state: &BufferState, tree: TreeId) -> Option<i64> {
        if state.has_written { row_delta(&self.live.lock(), tree) } else { Some(0) }
    }

    /// Adds a write of a key; returns the mark before it, and the number of entries after it. `own`
    /// is the key's state in the buffer; `was_there` tells whether a row exists for the key, if
    /// that is known.
    #[inline]
    pub fn append(
        &self,
        engine: &Engine,
        state: &mut BufferState,
        (key, own): (HashedKey<'_>, OwnState),
        write: &RowWrite<'_>,
        (is_insert, was_there): (bool, Option<bool>),
    ) -> Result<(Mark, u64)> {
        state.has_written = true;
        let rows = write.rows(was_there);
        let mut writes = self.live.lock();
        let mark = writes.mark();
        // The set does not know spilled writes when it decides whether a key is fresh (Rule: I7).
        let is_untouched = !writes.is_spilled() || own == OwnState::Untouched;
        write.append_to(&mut writes, key, is_insert && is_untouched, rows)?;
        let entries = writes.len() as u64;
        if let Err(error) = self.charge(engine, state, &writes) {
            writes.rollback_to(mark);
            return Err(error);
        }
        Ok((mark, entries))
    }

    /// Updates the memory reservation of the writes.
    ///
    /// # Errors
    /// `BatchTooLarge`: the last of them must be rolled back.
    #[inline]
    pub fn charge(
        &self,
        engine: &Engine,
        state: &mut BufferState,
        writes: &TxnWrites,
    ) -> Result<()> {
        let bytes = writes.commit_bytes() as u64;
        state.memory.grow(&engine.writes_memory, bytes, || writes.bytes_leaving() as u64);
        state.is_large = self.should_spill(engine, state, bytes);
        engine.check_fits_memtables(bytes)
    }

    /// True if writes of this many bytes should be spilled: they take more than the buffer's limit,
    /// or than its share while all buffers together take too much.
    #[inline]
    fn should_spill(&self, engine: &Engine, state: &BufferState, bytes: u64) -> bool {
        let own = state.memory.bytes();
        bytes > self.bytes_max || own > 0 && own > engine.share_of_writes()
    }
}

/// Change of a tree's row count, if that is known.
fn row_delta(own: &TxnWrites, tree: TreeId) -> Option<i64> {
    match own.changes(tree) {
        0 => Some(0),
        _ => own.row_deltas().find(|(other, _)| *other == tree).map(|(_, delta)| delta),
    }
}

/// The kind of message that a piece has for a key.
pub(super) fn tag_in(
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
