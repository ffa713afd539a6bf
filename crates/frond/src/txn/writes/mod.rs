//! The writes of a transaction, private until it commits: a [`WriteSet`], and what a transaction
//! needs beyond a batch.
//!
//! # Tour
//! ```text
//! put, insert, delete, merge, delete_range        one entry each, with its change of the row count
//! messages(key), state_of(key)                    the transaction's own newest messages for a key
//! mark(), rollback_to(mark)                       statements and savepoints
//! OwnCursor                                       own writes in order, up to a mark, for a scan
//! changes(tree), is_deleted_since(key, mark)      whether rows read before must be checked again
//! row_deltas(), maximum(tree)                     the effect of all writes on a tree
//! LiveWrites::pending_key                         for others: any unpublished key in this range?
//! begin_spill(cuts), end_spill(pieces), pieces()  what is in memory leaves it, as sorted runs
//! seal(), sealed(), take_back()                   the write set as a commit or a prepare takes it
//! ```
//!
//! Invariants
//! 1. Entries are numbered in the order in which they are added, range deletes have a place between
//!    them, and a [`Mark`] is the number of both. Rolling back starts at the end, and its cost is
//!    proportional to what is rolled back: afterwards index, views, row counts and maxima are as
//!    they were at the mark (Rule: I44).
//! 2. For each key the messages count in the order in which they were added; a range delete hides
//!    what came before it (Rule: I5).
//! 3. Only an entry of a key that the caller proved absent, and for which the transaction itself
//!    had no entry, is marked as inserted, and so becomes fresh once sealed (Rule: I7).
//! 4. Every entry that can become visible can be found by [`LiveWrites::pending_key`] from its
//!    append until the write set is reclaimed (Rule: I33).
//!
//! Writes that exceed a budget are spilled to disk (`spilled.rs`). Everything here except marks,
//! rollback and row counts refers to what is in memory; a reader must then search the spilled
//! pieces, too. [`TxnWrites::bytes`] is the memory used.
//!
//! Threads: one, under the lock of [`LiveWrites`], where other threads look at keys.
//! Cost of an entry: `cargo bench -p frond-db --bench writes`.

mod chains;
mod cursor;
mod estimate;
mod live_writes;
mod read;
mod rollback;
mod spilled;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod trees;
mod view;

use crate::{
    Result, TreeId,
    blob::{BLOB_REF_BYTES, BlobHold},
    coding::put_varint,
    message::Tag,
    run::Folder,
    sync::Arc,
};

use super::{WriteSet, lock_table::LockTable};
use crate::version::SpilledWrites;
use chains::Chains;
pub use cursor::OwnCursor;
pub(crate) use live_writes::HoldsWrites;
pub use live_writes::LiveWrites;
pub use read::OwnState;
pub use rollback::Mark;
pub(crate) use spilled::{Leaving, Piece, PieceWrites, Pieces, may_be_asked};
pub use trees::ROWS_UNKNOWN;
use trees::Trees;

/// Memory kept from one transaction to the next, for each of index, entries and trees: later
/// transactions of a session should not hold what its largest one needed.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Bytes that an entry needs while it is being spilled, in addition to the memory for sorting: the
/// hash of its row in a set.
const HASH_BYTES: usize = 24;

/// Approximate size of a range delete, besides copies of its two keys: itself, and its fragments in
/// a map.
const RANGE_BYTES: usize = 256;

/// A key of a tree, hashed once for its row's lock and for all lookups in the writes.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey<'k> {
    /// The tree.
    pub tree: TreeId,
    /// The key.
    pub key: &'k [u8],
    /// Hash of both: that of the row's lock.
    pub hash: u128,
}

impl<'k> HashedKey<'k> {
    /// Hashes a key.
    pub fn new(tree: TreeId, key: &'k [u8]) -> Self {
        Self { tree, key, hash: LockTable::row_hash(tree, key) }
    }
}

/// The writes of one transaction. Reused from transaction to transaction, with some of its memory.
#[derive(Debug, Default)]
pub struct TxnWrites {
    set: WriteSet,
    chains: Chains,
    trees: Trees,
    /// The change of the row count by each range delete.
    range_rows: Vec<i64>,
    /// Approximate memory of range deletes.
    range_bytes: usize,
    /// Blobs that the set refers to, each with the entry it came with.
    blobs: Vec<(u32, Arc<BlobHold>)>,
    /// Number of changes so far, including earlier transactions.
    changes: u64,
    /// Buffer for the header of a merge's payload; kept for its memory.
    head: Vec<u8>,
    is_sealed: bool,
    /// Whether any entry in memory adds data, or did before a rollback.
    adds: bool,
    /// How many times memory has been emptied by a spill.
    generation: u32,
    /// Number of entries that were spilled.
    spilled_entries: u64,
    /// The pieces that were spilled.
    pieces: Pieces,
    /// Pieces that were rolled back.
    dropped: Arc<Vec<Arc<SpilledWrites>>>,
    /// Pieces that are being written.
    leaving: Vec<Arc<WriteSet>>,
    /// The holder of the sealed set while its commit is in progress.
    gone_to: Option<Arc<dyn HoldsWrites>>,
}

impl TxnWrites {
    /// Sets a value. `rows` is the change of the tree's row count: 1 if the key is known to be
    /// absent, 0 if it is known to exist, else [`ROWS_UNKNOWN`].
    ///
    /// # Errors
    /// `BatchTooLarge`, here and in all methods that append.
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], rows: i8) -> Result<()> {
        self.append(key, Tag::PUT, &[value], false, rows)
    }

    /// Sets the value of a key that was proven absent (at the latest version and under its lock),
    /// or that this transaction deleted.
    pub fn insert(&mut self, key: HashedKey<'_>, value: &[u8], rows: i8) -> Result<()> {
        self.append(key, Tag::PUT, &[value], true, rows)
    }

    /// Sets a value that was written as a blob; otherwise like [`put`](Self::put), or like
    /// [`insert`](Self::insert) if `is_absent`.
    pub fn put_blob(
        &mut self,
        key: HashedKey<'_>,
        reference: &[u8; BLOB_REF_BYTES],
        hold: Arc<BlobHold>,
        is_absent: bool,
        rows: i8,
    ) -> Result<()> {
        let slot = self.set.entry_count() as u32;
        self.append(key, Tag::PUT_BLOB, &[reference], is_absent, rows)?;
        self.blobs.push((slot, hold));
        Ok(())
    }

    /// Deletes a key, if it exists.
    pub fn delete(&mut self, key: HashedKey<'_>, rows: i8) -> Result<()> {
        self.append(key, Tag::DELETE, &[], false, rows)
    }

    /// Folds an operand into whatever the key has.
    pub fn merge(
        &mut self,
        key: HashedKey<'_>,
        operator: u8,
        operand: &[u8],
        rows: i8,
    ) -> Result<()> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.push(operator);
        put_varint(&mut head, operand.len() as u64);
        let appended = self.append(key, Tag::MERGE, &[&head, operand], false, rows);
        self.head = head;
        appended
    }

    /// Deletes all keys in `[from, to)`.
    pub fn delete_range(&mut self, tree: TreeId, from: &[u8], to: &[u8], rows: i64) -> Result<()> {
        assert!(!self.is_sealed, "Rule I5: what is sealed does not change");
        self.set.check_room(from.len() + to.len())?;
        let number = self.range_rows.len() as u32;
        self.set.push_range(tree, from, to);
        self.range_rows.push(rows);
        self.range_bytes += range_bytes(from, to);
        self.changes += 1;
        let state = self.trees.enter(tree);
        state.covers.add(from, to, number);
        state.rows += rows;
        state.changed = self.changes;
        Ok(())
    }

    #[inline]
    fn append(
        &mut self,
        HashedKey { tree, key, hash }: HashedKey<'_>,
        tag: Tag,
        payload: &[&[u8]],
        is_absent: bool,
        rows: i8,
    ) -> Result<()> {
        assert!(!self.is_sealed, "Rule I5: what is sealed does not change");
        let payload_bytes: usize = payload.iter().map(|piece| piece.len()).sum();
        self.set.check_room(key.len() + payload_bytes)?;
        let Self { set, chains, trees, .. } = self;
        let slot = set.entry_count() as u32;
        let is_first = chains.push(hash, rows, |first| set.is_key_at(first, tree, key));
        let state = trees.enter(tree);
        // If the transaction deleted the key itself, it is not known whether the trees have it.
        let is_untouched = is_first && state.covers.newest(key).is_none();
        let is_inserted = is_absent && (is_untouched || plant!("txn: every insert is fresh"));
        set.push(tree, key, tag, payload, is_inserted);
        self.adds |= tag.kind() != crate::message::Kind::Delete;
        state.note(set, slot, tag, is_first);
        state.count(rows);
        self.changes += 1;
        state.changed = self.changes;
        Ok(())
    }

    /// Number of entries and range deletes.
    pub fn len(&self) -> usize {
        self.set.len() + self.spilled_entries as usize
    }

    /// True if no entry adds data.
    pub fn only_deletes(&self) -> bool {
        self.pieces.iter().all(|piece| piece.only_deletes) && self.set.only_deletes()
    }

    /// True if anything in memory may add data; what was rolled back counts, too.
    pub(crate) fn adds(&self) -> bool {
        self.adds
    }

    /// Length of the writes in memory, measured as the length of a batch is.
    pub fn commit_bytes(&self) -> usize {
        self.set.bytes()
    }

    /// Memory used, bytes.
    pub fn bytes(&self) -> usize {
        let blobs = self.blobs.capacity() * size_of::<(u32, Arc<BlobHold>)>();
        let entries = self.set.memory_bytes() + self.chains.bytes();
        entries + self.trees.bytes() + self.range_bytes + blobs
    }

    /// Approximate memory used until the writes are spilled or committed, including what the spill
    /// or commit itself requires.
    pub fn bytes_leaving(&self) -> usize {
        self.bytes() + self.set.bytes_to_sort() + self.set.len() * HASH_BYTES
    }

    /// The change of each tree's row count, for trees where it is known, ascending.
    pub fn row_deltas(&self) -> impl Iterator<Item = (TreeId, i64)> {
        let known = self.trees.iter().filter(|(_, state)| state.unknown == 0);
        known.map(|(tree, state)| (tree, state.rows))
    }

    /// The greatest key of a tree to which a write in memory gave a value, even if it was deleted
    /// later. Only before sealing.
    pub fn maximum(&self, tree: TreeId) -> Option<&[u8]> {
        self.trees.get(tree)?.maxima.last().map(|&slot| self.set.key_at(slot))
    }

    /// A number that grows with each change to the tree, rollbacks included: while it stays the
    /// same, rows that a scan read ahead need not be checked again (Rule: I45). 0 if the tree is
    /// untouched.
    pub fn changes(&self, tree: TreeId) -> u64 {
        self.trees.get(tree).map_or(0, |state| state.changed)
    }

    /// Sorts and folds to one message per key, as a batch does (Rules: I5, I7). Nothing can be
    /// added afterwards; after an error the set can only be cleared.
    pub fn seal(&mut self, folder: &Folder<'_>) -> Result<()> {
        self.is_sealed = true;
        self.set.seal(folder)?;
        self.set.freshen_inserts();
        Ok(())
    }

    /// The sealed set. A caller that moves it elsewhere must record the new holder under the same
    /// lock, with [`gone_to`](Self::gone_to).
    pub(crate) fn sealed(&mut self) -> &mut WriteSet {
        assert!(self.is_sealed, "Rule I5: sealed before it is passed on");
        &mut self.set
    }

    /// The blobs to which the set refers.
    pub fn blobs(&self) -> impl ExactSizeIterator<Item = &Arc<BlobHold>> {
        self.blobs.iter().map(|(_, hold)| hold)
    }

    /// Records the holder of the sealed set: from now on its keys are looked up there (Invariant
    /// 4).
    pub(crate) fn gone_to(&mut self, holder: Arc<dyn HoldsWrites>) {
        self.gone_to = Some(holder);
    }

    /// Returns the memory of the set to this buffer and clears it, once the commit is visible and
    /// no other thread reads the set.
    pub(crate) fn take_back(&mut self, set: WriteSet) {
        self.set = set;
        self.clear();
    }

    /// Forgets the holder of the sealed set: its commit is visible, or there will be none.
    pub(crate) fn forget_holder(&mut self) {
        self.gone_to = None;
    }

    /// Clears everything, as a full rollback does.
    pub fn clear(&mut self) {
        self.set.clear_keeping(KEPT_BYTES_MAX);
        self.chains.clear(KEPT_BYTES_MAX);
        self.trees.clear(KEPT_BYTES_MAX);
        self.range_rows.clear();
        self.range_bytes = 0;
        self.blobs.clear();
        self.changes += 1;
        self.is_sealed = false;
        (self.generation, self.spilled_entries, self.adds) = (0, 0, false);
        if self.is_spilled() || !self.dropped.is_empty() {
            (self.pieces, self.dropped) = Default::default();
        }
        self.leaving.clear();
        self.gone_to = None;
    }
}

/// Approximate memory of a range delete: its keys are in the set, in a map, and in what the map
/// remembers.
fn range_bytes(from: &[u8], to: &[u8]) -> usize {
    RANGE_BYTES + 3 * (from.len() + to.len())
}
