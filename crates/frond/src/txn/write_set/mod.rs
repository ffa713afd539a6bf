//! The write set: the operations of a batch, private until commit.
//!
//! Keys and payloads are appended to one arena; an entry is a position in it. At commit the entries
//! are sorted by (tree, key, position) and folded to one message per key (Rule: I5). A batch that
//! was filled in order, as most are, is not sorted. Checked inserts are resolved before that
//! (`inserts.rs`).
//!
//! Invariants
//! 1. For each key the messages fold in the order in which they were added; a range delete hides
//!    only earlier entries.
//! 2. Positions ascend in the order in which entries and range deletes were added, even across a
//!    seal.
//! 3. After `seal`, entries ascend strictly by (tree, key). Range deletes are ordered by tree and
//!    then as they were added, and are older than every remaining entry that they cover.
//!
//! Threads: one.

use crate::bounds;
use std::{collections::BTreeMap, ops::Range};

use crate::{
    Error, TreeId,
    blob::BLOB_REF_BYTES,
    error::Result,
    message::{Kind, Message, Tag},
    run::Folder,
};

use super::range_tombstones::RangeTombstones;

/// One entry: the place of its key and payload in the arena.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tree: TreeId,
    tag: Tag,
    /// True for a checked insert: the store must not have the key. For a folded entry, the flag of
    /// the key's oldest entry.
    insert: bool,
    /// Made by folding, so its length has not been checked.
    made: bool,
    /// A seal has folded a delete of the key into it.
    hides_delete: bool,
    /// Position in the batch, not counting range deletes. For a folded entry, the position of the
    /// checked insert, if there is one.
    position: u32,
    start: u32,
    key_bytes: u32,
    payload_bytes: u32,
}

/// A range delete, with its position among the entries.
#[derive(Clone, Debug)]
pub(super) struct RangeSlot {
    pub tree: TreeId,
    pub from: Vec<u8>,
    pub to: Vec<u8>,
    /// Number of entries before it.
    position: u32,
}

/// The entries of one batch. Reused from batch to batch; its memory is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSet {
    arena: Vec<u8>,
    slots: Vec<Slot>,
    ranges: Vec<RangeSlot>,
    /// Total length of the keys of range deletes.
    range_bytes: usize,
    /// Buffers for sorting (`sort.rs`): prefixes of keys, and group numbers of trees.
    order: Vec<(u64, u32)>,
    groups: Vec<u8>,
    sorted: Vec<Slot>,
    /// Number of entries added so far, including those that a seal hid or folded: a batch whose
    /// commit failed is sealed and may be filled further.
    positions: u32,
    has_inserts: bool,
    /// Inserts whose entries a range delete hides: their keys must still be absent (`inserts.rs`).
    hidden_inserts: Vec<Slot>,
}

/// A borrowed entry of a sealed write set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub key: &'a [u8],
    pub tag: Tag,
    pub payload: &'a [u8],
    pub insert: bool,
    /// An older message of the key, which a seal has folded into this one, was a delete.
    pub hides_delete: bool,
    pub position: usize,
}

impl WriteSet {
    pub fn clear(&mut self) {
        self.arena.clear();
        self.slots.clear();
        self.ranges.clear();
        self.range_bytes = 0;
        self.positions = 0;
        self.has_inserts = false;
        self.hidden_inserts.clear();
    }

    pub fn len(&self) -> usize {
        self.slots.len() + self.ranges.len()
    }

    pub fn bytes(&self) -> usize {
        self.arena.len() + self.range_bytes + self.len() * 24
    }

    /// True if no entry adds data.
    pub fn only_deletes(&self) -> bool {
        self.slots.iter().all(|slot| slot.tag.kind() == Kind::Delete)
    }

    pub fn has_inserts(&self) -> bool {
        self.has_inserts
    }

    /// Appends an entry; `payload` comes in pieces, so that an operator and its operand need no
    /// buffer.
    pub fn push(&mut self, tree: TreeId, key: &[u8], tag: Tag, payload: &[&[u8]], insert: bool) {
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        payload.iter().for_each(|piece| self.arena.extend_from_slice(piece));
        let payload_bytes = self.arena.len() - start - key.len();
        self.has_inserts |= insert;
        self.slots.push(Slot {
            tree,
            tag,
            insert,
            made: false,
            hides_delete: false,
            position: self.positions,
            start: start as u32,
            key_bytes: key.len() as u32,
            payload_bytes: payload_bytes as u32,
        });
        self.positions += 1;
    }

    pub fn push_range(&mut self, tree: TreeId, from: &[u8], to: &[u8]) {
        self.range_bytes += from.len() + to.len();
        let (from, to) = (from.to_vec(), to.to_vec());
        self.ranges.push(RangeSlot { tree, from, to, position: self.positions });
    }

    /// Removes the entries of these trees, which were the last to be pushed.
    pub fn forget(&mut self, trees: &[TreeId]) {
        let theirs = self.slots.iter().filter(|slot| trees.contains(&slot.tree));
        let first = theirs.min_by_key(|slot| slot.position).copied();
        let Some(Slot { position, start, .. }) = first else { return };
        self.positions = position;
        self.slots.retain(|slot| !trees.contains(&slot.tree));
        // Not if a later fold of other entries has added to the memory.
        let mut kept = self.slots.iter().chain(&self.hidden_inserts);
        if kept.all(|slot| slot.start < start) {
            self.arena.truncate(start as usize);
        }
    }

    fn key(&self, slot: &Slot) -> &[u8] {
        let start = slot.start as usize;
        &self.arena[start..start + slot.key_bytes as usize]
    }

    fn entry(&self, slot: &Slot) -> Entry<'_> {
        let payload = slot.start as usize + slot.key_bytes as usize;
        Entry {
            key: self.key(slot),
            tag: slot.tag,
            payload: &self.arena[payload..payload + slot.payload_bytes as usize],
            insert: slot.insert,
            hides_delete: slot.hides_delete,
            position: slot.position as usize,
        }
    }

    /// True if it consists of one entry: invariant 3 holds then without sealing.
    pub fn is_one_entry(&self) -> bool {
        self.slots.len() == 1 && self.ranges.is_empty()
    }

    /// Sorts and folds. Invariant 3 holds afterwards.
    pub fn seal(&mut self, folder: &Folder<'_>) -> Result<()> {
        self.hide_range_deleted();
        // A stable sort keeps the order within a tree.
        self.ranges.sort_by_key(|range| range.tree);
        if !self.is_ascending() {
            self.sort();
            self.fold(folder)?;
        }
        Ok(())
    }

    fn is_ascending(&self) -> bool {
        self.slots
            .windows(2)
            .all(|pair| (pair[0].tree, self.key(&pair[0])) < (pair[1].tree, self.key(&pair[1])))
    }

    /// The range deletes of each tree.
    fn covers(&self) -> BTreeMap<TreeId, RangeTombstones> {
        let mut covers: BTreeMap<TreeId, RangeTombstones> = BTreeMap::new();
        for (number, range) in (0u32..).zip(&self.ranges) {
            covers.entry(range.tree).or_default().add(&range.from, &range.to, number);
        }
        covers
    }

    fn hide_range_deleted(&mut self) {
        if self.ranges.is_empty() || self.slots.is_empty() {
            return;
        }
        let covers = self.covers();
        let (arena, ranges) = (&self.arena, &self.ranges);
        self.slots.retain(|slot| {
            let start = slot.start as usize;
            let key = &arena[start..start + slot.key_bytes as usize];
            let cover = covers.get(&slot.tree).and_then(|covers| covers.newest(key));
            cover.is_none_or(|number| ranges[number as usize].position <= slot.position)
        });
    }

    /// Reduces to one message per key: later messages over earlier ones.
    fn fold(&mut self, folder: &Folder<'_>) -> Result<()> {
        if !self.slots.windows(2).any(|pair| self.is_same_key(&pair[0], &pair[1])) {
            return Ok(());
        }
        let mut folded: Vec<Slot> = Vec::with_capacity(self.slots.len());
        let mut from = 0;
        while let Some(&oldest) = self.slots.get(from) {
            let rest = &self.slots[from..];
            let count = rest.iter().take_while(|slot| self.is_same_key(&oldest, slot)).count();
            let deletes = |slot: &Slot| slot.hides_delete || slot.tag.kind() == Kind::Delete;
            let older = &rest[..count - 1];
            let hides_delete = older.iter().any(deletes) || rest[count - 1].hides_delete;
            let newest = self.fold_key(from..from + count, folder)?;
            let (insert, places) = (oldest.insert, [newest.position, oldest.position]);
            let position = places[usize::from(insert)];
            folded.push(Slot { insert, hides_delete, position, ..newest });
            from += count;
        }
        self.slots = folded;
        Ok(())
    }

    fn is_same_key(&self, a: &Slot, b: &Slot) -> bool {
        a.tree == b.tree && self.key(a) == self.key(b)
    }

    /// Folds all entries of one key, oldest first, into one.
    fn fold_key(&mut self, slots: Range<usize>, folder: &Folder<'_>) -> Result<Slot> {
        let group = &self.slots[slots];
        for pair in group.windows(2) {
            if pair[1].insert && pair[0].tag.kind() != Kind::Delete {
                return Err(self.inserted_twice(&pair[1]));
            }
        }
        let newest = group[group.len() - 1];
        if group.len() == 1 || newest.tag.kind() != Kind::Merge {
            return Ok(newest);
        }
        // Operands over a Delete become a value: the base is nothing, and older values stay hidden.
        let (mut made, mut spare) = (Vec::new(), Vec::new());
        let versions = group.iter().rev().map(|slot| {
            let entry = self.entry(slot);
            Message::new(entry.tag, entry.payload)
        });
        let tag = folder.fold_versions(versions, true, &mut made, &mut spare)?;
        self.append_made(&newest, tag.unwrap_or(newest.tag), &made)
    }

    fn append_made(&mut self, slot: &Slot, tag: Tag, payload: &[u8]) -> Result<Slot> {
        let key = self.key(slot).to_vec();
        self.check_room(key.len() + payload.len())?;
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(&key);
        self.arena.extend_from_slice(payload);
        Ok(Slot { tag, start, payload_bytes: payload.len() as u32, made: true, ..*slot })
    }

    /// Replaces values that folding made longer than `bytes_max` with references; `write` makes a
    /// blob of each. After `seal`.
    pub fn separate(
        &mut self,
        bytes_max: usize,
        mut write: impl FnMut(TreeId, &[u8]) -> Result<[u8; BLOB_REF_BYTES]>,
    ) -> Result<()> {
        for index in 0..self.slots.len() {
            let slot = self.slots[index];
            let is_long = slot.payload_bytes as usize > bytes_max;
            if slot.made && is_long && slot.tag.kind() == Kind::Put {
                let reference = write(slot.tree, self.entry(&slot).payload)?;
                self.slots[index] = self.append_made(&slot, slot.tag.of_blob(), &reference)?;
            }
        }
        Ok(())
    }

    /// Fails if `bytes` more are too many for a batch.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        let bytes = self.arena.len() + self.range_bytes + bytes;
        if bounds::WRITE_SET_BYTES.admits(bytes) { Ok(()) } else { Err(too_large(bytes)) }
    }

    /// The trees touched, ascending.
    pub fn trees(&self) -> Vec<TreeId> {
        let mut trees = Vec::new();
        self.list_trees(&mut trees);
        trees
    }

    /// Writes the trees touched, ascending, into a reusable list.
    pub fn list_trees(&self, trees: &mut Vec<TreeId>) {
        trees.clear();
        for slot in &self.slots {
            if trees.last() != Some(&slot.tree) {
                trees.push(slot.tree);
            }
        }
        for range in &self.ranges {
            if trees.last() != Some(&range.tree) {
                trees.push(range.tree);
            }
        }
        trees.sort_unstable();
        trees.dedup();
    }

    /// The entries of a tree, ascending. After `seal`.
    pub fn entries(&self, tree: TreeId) -> impl ExactSizeIterator<Item = Entry<'_>> + Clone {
        let from = self.slots.partition_point(|slot| slot.tree < tree);
        let to = self.slots.partition_point(|slot| slot.tree <= tree);
        self.slots[from..to].iter().map(|slot| self.entry(slot))
    }

    /// The number of entries of a tree. After `seal`.
    pub fn count(&self, tree: TreeId) -> usize {
        self.entries(tree).len()
    }

    /// The range deletes of a tree, in the order in which they were added. After `seal`.
    pub fn ranges(&self, tree: TreeId) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = self.ranges.partition_point(|range| range.tree < tree);
        let mine = self.ranges[from..].iter().take_while(move |range| range.tree == tree);
        mine.map(|range| (&*range.from, &*range.to))
    }

    /// The change of a tree's row count, if the batch only has checked inserts there: for a put or
    /// a delete it is not known whether the key exists. After `seal`.
    pub fn rows(&self, tree: TreeId) -> Option<i64> {
        let mut entries = self.entries(tree);
        let is_known = self.ranges(tree).next().is_none() && entries.all(|entry| entry.insert);
        let puts = self.entries(tree).filter(|entry| entry.tag.kind() != Kind::Delete);
        is_known.then(|| puts.count() as i64)
    }

    /// Marks all inserts of the batch, which were proven absent, as fresh (Rule: I7).
    pub fn freshen_inserts(&mut self) {
        for slot in &mut self.slots {
            if slot.insert && slot.tag.is_put() {
                slot.tag = slot.tag.with_fresh();
            }
        }
    }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let (bytes, max) = (bytes as u64, bounds::WRITE_SET_BYTES.max());
    Error::BatchTooLarge { bytes, max, limit: "a batch" }
}

mod inserts;
pub(crate) use inserts::Asks;
mod numbered;
mod sort;
#[cfg(all(test, not(shuttle)))]
mod tests;
