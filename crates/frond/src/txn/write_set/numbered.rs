//! The entries of a write set by number, as long as it is not sealed: for who keeps an index of them, and
//! takes the last ones back. And a sealed one's keys in order.
//!
//! Threads: one.

use crate::{Message, TreeId};

use super::{RangeSlot, Slot, WriteSet};

impl WriteSet {
    pub(in crate::txn) fn entry_count(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(in crate::txn) fn tree_at(&self, number: u32) -> TreeId {
        self.slots[number as usize].tree
    }

    #[inline]
    pub(in crate::txn) fn key_at(&self, number: u32) -> &[u8] {
        self.key(&self.slots[number as usize])
    }

    #[inline]
    pub(in crate::txn) fn is_key_at(&self, number: u32, tree: TreeId, key: &[u8]) -> bool {
        let slot = &self.slots[number as usize];
        slot.tree == tree && self.key(slot) == key
    }

    /// True if it is marked as proven absent before.
    pub(in crate::txn) fn is_insert_at(&self, number: u32) -> bool {
        self.slots[number as usize].insert
    }

    #[inline]
    pub(in crate::txn) fn message_at(&self, number: u32) -> Message<'_> {
        let entry = self.entry(&self.slots[number as usize]);
        Message::new(entry.tag, entry.payload)
    }

    /// How many entries came before a range delete.
    #[inline]
    pub(in crate::txn) fn range_position(&self, number: u32) -> u32 {
        self.ranges[number as usize].position
    }

    pub(in crate::txn) fn pop_range(&mut self) -> Option<RangeSlot> {
        let range = self.ranges.pop()?;
        self.range_bytes -= range.from.len() + range.to.len();
        Some(range)
    }

    /// Takes back all entries but the first `count`. Range deletes that came after them are gone before. An
    /// insert that is taken back is not forgotten: whether there are others would cost a look at all.
    pub(in crate::txn) fn truncate(&mut self, count: usize) {
        if let Some(slot) = self.slots.get(count) {
            self.arena.truncate(slot.start as usize);
            self.slots.truncate(count);
            self.positions = count as u32;
        }
    }

    /// Moves the entries from `count` on into a set of their own. There are no range deletes.
    pub(in crate::txn) fn split_off(&mut self, count: usize) -> WriteSet {
        let has_inserts = self.has_inserts;
        if count == 0 {
            return std::mem::take(self);
        }
        let start = self.slots.get(count).map_or(self.arena.len(), |slot| slot.start as usize);
        let arena = self.arena.split_off(start);
        let mut slots = self.slots.split_off(count);
        slots.iter_mut().for_each(|slot| slot.start -= start as u32);
        self.positions = count as u32;
        WriteSet { arena, slots, has_inserts, ..WriteSet::default() }
    }

    /// Forgets all, and keeps at most about this much memory of each kind.
    pub(in crate::txn) fn clear_keeping(&mut self, bytes_max: usize) {
        self.clear();
        self.arena.shrink_to(bytes_max);
        let slots_max = bytes_max / size_of::<Slot>();
        self.slots.shrink_to(slots_max);
        self.sorted.clear();
        self.sorted.shrink_to(slots_max);
        self.order.clear();
        self.order.shrink_to(slots_max);
        self.ranges.shrink_to(slots_max);
    }

    /// What it takes in memory, range deletes apart.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() + self.sorted.capacity();
        let order = self.order.capacity() * size_of::<(u64, u32)>();
        self.arena.capacity() + slots * size_of::<Slot>() + order
    }

    /// What it would take beyond that to be sorted.
    pub(in crate::txn) fn bytes_to_sort(&self) -> usize {
        let len = self.slots.len();
        len.saturating_sub(self.sorted.capacity()) * size_of::<Slot>()
            + len.saturating_sub(self.order.capacity()) * size_of::<(u64, u32)>()
    }

    /// The first key of a tree that is not below `from`. After `seal`.
    pub(in crate::txn) fn first_key(&self, tree: TreeId, from: &[u8]) -> Option<&[u8]> {
        let at = self.slots.partition_point(|slot| (slot.tree, self.key(slot)) < (tree, from));
        self.slots.get(at).filter(|slot| slot.tree == tree).map(|slot| self.key(slot))
    }

    /// The last key of a tree below `to`, or of all of it.
    pub(in crate::txn) fn last_key(&self, tree: TreeId, to: Option<&[u8]>) -> Option<&[u8]> {
        let at = match to {
            Some(to) => self.slots.partition_point(|slot| (slot.tree, self.key(slot)) < (tree, to)),
            None => self.slots.partition_point(|slot| slot.tree <= tree),
        };
        let slot = self.slots.get(at.checked_sub(1)?)?;
        (slot.tree == tree).then(|| self.key(slot))
    }
}
