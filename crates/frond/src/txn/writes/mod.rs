//! What a transaction has written, private until it commits: a [`WriteSet`], and what a transaction needs
//! of it beyond what a batch does.
//!
//! # Tour
//! ```text
//! put, insert, delete, merge, delete_range        one entry each; also by how much it changes the rows
//! messages(key), state_of(key)                    the transaction's own newest word on a key
//! mark(), rollback_to(mark)                       statements and savepoints
//! OwnCursor                                       own writes in order, up to a mark, as a scan merges them
//! changes(tree), is_deleted_since(key, mark)      whether rows read before must be looked at again
//! row_deltas(), maximum(tree)                     what the whole of it does to a tree
//! LiveWrites::pending_key                         another thread asks: anything unpublished in this range?
//! begin_spill(cuts), end_spill(pieces), pieces()  what is in memory leaves it, as sorted runs
//! seal(), sealed(), take_back()                   the write set as a commit or a prepare takes it
//! ```
//!
//! Invariants
//! 1. Entries are numbered as they come, range deletes have a place between them, and a [`Mark`] is how
//!    much there was of both. Taking back begins at the end and costs what is taken back: index, views,
//!    row counts and maxima end as they were at the mark (Rule: I44).
//! 2. Per key the messages count in the order they came; a range delete hides what came before it
//!    (Rule: I5).
//! 3. Only an entry of a key that the caller proved absent, and of which the transaction itself had said
//!    nothing, is marked as inserted, and so fresh once sealed (Rule: I7).
//! 4. Every entry that can become visible can be found by [`LiveWrites::pending_key`] from its append on
//!    until the write set is taken back (Rule: I33).
//!
//! What is beyond a budget leaves memory (`spilled.rs`); all here but marks, taking back and row counts is of what is
//! in memory, and who reads looks into the pieces behind it. [`TxnWrites::bytes`] says what memory it takes.
//!
//! Threads: one, behind the lock of [`LiveWrites`], where others look at keys.
//! Cost of an entry: `cargo bench -p frond --bench writes`.

mod chains;
mod cursor;
mod estimate;
mod live;
mod read;
mod rollback;
mod spilled;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod trees;
mod view;

use crate::{
    Result, Tag, TreeId,
    blob::{BLOB_REF_BYTES, BlobHold},
    coding::put_varint,
    run::Folder,
    sync::Arc,
};

use super::{WriteSet, lock_table::LockTable};
use crate::version::SpilledWrites;
use chains::Chains;
pub use cursor::OwnCursor;
pub(crate) use live::HoldsWrites;
pub use live::LiveWrites;
pub use read::OwnState;
pub use rollback::Mark;
pub(crate) use spilled::{Leaving, Piece, PieceWrites, Pieces, may_be_asked};
pub use trees::ROWS_UNKNOWN;
use trees::Trees;

/// Memory that is kept from one transaction to the next, each of index, entries and trees. What the largest
/// transaction of a session took, its later ones shall not hold.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What an entry needs to leave memory, beside places by which it is sorted: a hash of its row in a set.
const HASH_BYTES: usize = 24;

/// About what a range delete takes beside copies of its two keys: itself, and its fragments in a map.
const RANGE_BYTES: usize = 256;

/// A key of a tree, hashed once for its row's lock and for all that is asked of the writes.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey<'k> {
    /// The tree.
    pub tree: TreeId,
    /// The key.
    pub key: &'k [u8],
    /// Of both: that of the row's lock.
    pub hash: u128,
}

impl<'k> HashedKey<'k> {
    /// A key whose hash nobody has yet.
    pub fn new(tree: TreeId, key: &'k [u8]) -> Self {
        Self { tree, key, hash: LockTable::row_hash(tree, key) }
    }
}

/// The writes of one transaction. Reused from transaction to transaction; some memory stays.
#[derive(Debug, Default)]
pub struct TxnWrites {
    set: WriteSet,
    chains: Chains,
    trees: Trees,
    /// By how much each range delete changes the number of rows.
    range_rows: Vec<i64>,
    /// About what range deletes take.
    range_bytes: usize,
    /// Blobs whose references stand in the set, each with the entry it came with.
    blobs: Vec<(u32, Arc<BlobHold>)>,
    /// Changes so far, also those of transactions before.
    changes: u64,
    /// An operand's, under construction; kept for its memory.
    head: Vec<u8>,
    is_sealed: bool,
    /// Something in memory adds data, or did.
    adds: bool,
    /// How often memory has begun anew.
    generation: u32,
    /// Entries that have left memory.
    spilled_entries: u64,
    /// What has left memory.
    pieces: Pieces,
    /// What was there and counts no more.
    dropped: Arc<Vec<Arc<SpilledWrites>>>,
    /// What is on its way there.
    leaving: Vec<Arc<WriteSet>>,
    /// Where the sealed set is, while its commit is on its way.
    gone_to: Option<Arc<dyn HoldsWrites>>,
}

impl TxnWrites {
    /// Sets a value. `rows` is by how much it changes the tree's number of rows: 1 if the key is known to
    /// be absent, 0 if it is known to be there, else [`ROWS_UNKNOWN`].
    ///
    /// # Errors
    /// `BatchTooLarge`, here and in all that appends.
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], rows: i8) -> Result<()> {
        self.append(key, Tag::PUT, &[value], false, rows)
    }

    /// Sets the value of a key that was proven absent, at latest and under its lock, or deleted by this
    /// transaction.
    pub fn insert(&mut self, key: HashedKey<'_>, value: &[u8], rows: i8) -> Result<()> {
        self.append(key, Tag::PUT, &[value], true, rows)
    }

    /// The same two for a value that was written as a blob.
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
        // Of what the transaction deleted itself nobody knows whether the trees have it.
        let is_unsaid = is_first && state.covers.newest(key).is_none();
        let is_inserted = is_absent && (is_unsaid || plant!("txn: every insert is fresh"));
        set.push(tree, key, tag, payload, is_inserted);
        self.adds |= tag.kind() != crate::Kind::Delete;
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

    /// True if nothing in it adds data.
    pub fn only_deletes(&self) -> bool {
        self.pieces.iter().all(|piece| piece.only_deletes) && self.set.only_deletes()
    }

    /// True if anything that is in memory may add data; also what was taken back.
    pub(crate) fn adds(&self) -> bool {
        self.adds
    }

    /// What is in memory of it comes to as a batch.
    pub fn commit_bytes(&self) -> usize {
        self.set.bytes()
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let blobs = self.blobs.capacity() * size_of::<(u32, Arc<BlobHold>)>();
        let entries = self.set.memory_bytes() + self.chains.bytes();
        entries + self.trees.bytes() + self.range_bytes + blobs
    }

    /// About what it takes until it has left memory, or is committed: also what is needed for that.
    pub fn bytes_leaving(&self) -> usize {
        self.bytes() + self.set.bytes_to_sort() + self.set.len() * HASH_BYTES
    }

    /// By how much the number of rows of each tree changes of which that is known, ascending.
    pub fn row_deltas(&self) -> impl Iterator<Item = (TreeId, i64)> {
        let known = self.trees.iter().filter(|(_, state)| state.unknown == 0);
        known.map(|(tree, state)| (tree, state.rows))
    }

    /// The greatest key of a tree that the transaction gave a value, whether it has one still or not, of what is in
    /// memory. Before it is sealed.
    pub fn maximum(&self, tree: TreeId) -> Option<&[u8]> {
        self.trees.get(tree)?.maxima.last().map(|&slot| self.set.key_at(slot))
    }

    /// A number that grows with each change to the tree, a rollback too: as long as it stays, rows that a
    /// scan read ahead need not be looked at again (Rule: I45). 0 if it is untouched.
    pub fn changes(&self, tree: TreeId) -> u64 {
        self.trees.get(tree).map_or(0, |state| state.changed)
    }

    /// Sorts and folds to one message a key, as a batch is (Rules: I5, I7). Nothing can be added any more;
    /// what failed can only be cleared.
    pub fn seal(&mut self, folder: &Folder<'_>) -> Result<()> {
        self.is_sealed = true;
        self.set.seal(folder)?;
        self.set.freshen_inserts();
        Ok(())
    }

    /// The sealed set. Who takes it out to pass it on says where it goes under the same lock, by
    /// [`gone_to`](Self::gone_to).
    pub(crate) fn sealed(&mut self) -> &mut WriteSet {
        assert!(self.is_sealed, "Rule I5: sealed before it is passed on");
        &mut self.set
    }

    /// Blobs that the set's references name.
    pub fn blobs(&self) -> impl ExactSizeIterator<Item = &Arc<BlobHold>> {
        self.blobs.iter().map(|(_, hold)| hold)
    }

    /// The sealed set is there from here on: there its keys are looked for (Invariant 4).
    pub(crate) fn gone_to(&mut self, holder: Arc<dyn HoldsWrites>) {
        self.gone_to = Some(holder);
    }

    /// Takes the set's memory back, once the commit is visible and nobody else reads it, and forgets all.
    pub(crate) fn take_back(&mut self, set: WriteSet) {
        self.set = set;
        self.clear();
    }

    /// The sealed set is nowhere any more: its commit is visible, or there will be none.
    pub(crate) fn forget_holder(&mut self) {
        self.gone_to = None;
    }

    /// Forgets everything, as a rollback of all of it does.
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

/// About what a range delete takes: its keys stand in the set, in a map, and in what the map remembers.
fn range_bytes(from: &[u8], to: &[u8]) -> usize {
    RANGE_BYTES + 3 * (from.len() + to.len())
}
