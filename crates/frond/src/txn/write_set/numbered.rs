//! Access to the entries of an unsealed write set by number, for code that indexes them and removes
//! the last ones; and to the ordered keys of a sealed one.
//!
//! Threads: one.

use crate::{TreeId, message::Message};

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

    /// True if the entry is marked as a checked insert, proven absent.
    pub(in crate::txn) fn is_insert_at(&self, number: u32) -> bool {
        self.slots[number as usize].insert
    }

    #[inline]
    pub(in crate::txn) fn message_at(&self, number: u32) -> Message<'_> {
        let entry = self.entry(&self.slots[number as usize]);
        Message::new(entry.tag, entry.payload)
    }

    /// Number of entries before a range delete.
    #[inline]
    pub(in crate::txn) fn range_position(&self, number: u32) -> u32 {
        self.ranges[number as usize].position
    }

    pub(in crate::txn) fn pop_range(&mut self) -> Option<RangeSlot> {
        let range = self.ranges.pop()?;
        self.range_bytes -= range.from.len() + range.to.len();
        Some(range)
    }

    /// Removes all entries but the first `count`. Range deletes that came after them must already
    /// be removed. `has_inserts` stays set even if the last insert is removed: finding out would
    /// cost a look at all entries.
    pub(in crate::txn) fn truncate(&mut self, count: usize) {
        if let Some(slot) = self.slots.get(count) {
            self.arena.truncate(slot.start as usize);
            self.slots.truncate(count);
            self.positions = count as u32;
        }
    }

    /// Moves the entries from `count` on into a set of their own. There must be no range deletes.
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

    /// Clears the set and keeps at most about `bytes_max` of memory of each kind.
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

    /// Memory used, except for range deletes.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() + self.sorted.capacity();
        let order = self.order.capacity() * size_of::<(u64, u32)>();
        self.arena.capacity() + slots * size_of::<Slot>() + order
    }

    /// Additional memory needed to sort the set.
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

    /// The last key of a tree below `to`, or of the whole tree. After `seal`.
    pub(in crate::txn) fn last_key(&self, tree: TreeId, to: Option<&[u8]>) -> Option<&[u8]> {
        let at = match to {
            Some(to) => self.slots.partition_point(|slot| (slot.tree, self.key(slot)) < (tree, to)),
            None => self.slots.partition_point(|slot| slot.tree <= tree),
        };
        let slot = self.slots.get(at.checked_sub(1)?)?;
        (slot.tree == tree).then(|| self.key(slot))
    }
}
