//! Sorting the entries of a batch by tree, key and position.
//!
//! The naive sort compares keys, each of which is a cache miss in the arena. Storing the tree's
//! number and a few bytes of the key next to each entry does not help much: rows of a table with
//! indexes come as one entry per tree, row after row, and keys of one tree have a common prefix. So
//! the entries are
//!
//! 1. put into groups, one per tree, in their order: one pass, since rows name the same trees in
//!    the same order;
//! 2. within a tree, left alone if they ascend, as those of rows in the order of their primary key
//!    do;
//! 3. otherwise sorted by the eight bytes after the common prefix of all keys of the tree, which
//!    almost always decide.
//!
//! Threads: one. Cost: n for the groups, n log n without cache misses for each tree whose entries
//! do not ascend.

use std::cmp::Ordering;

use crate::TreeId;

use super::{Slot, WriteSet};

/// Batches of more trees than this are grouped by a sort.
const TREES_MAX: usize = 64;
/// Batches with fewer entries are also grouped by a sort, such as a row with its index entries:
/// groups would cost them more.
const GROUPED_MIN: usize = 32;

impl WriteSet {
    /// Establishes invariant 3, except for keys that occur more than once.
    pub(super) fn sort(&mut self) {
        if self.slots.len() < GROUPED_MIN || !self.group_by_tree() {
            // A stable sort keeps the order of entries within a tree.
            self.slots.sort_by_key(|slot| slot.tree);
        }
        let mut from = 0;
        while let Some(first) = self.slots.get(from) {
            let tree = first.tree;
            let count = self.slots[from..].iter().take_while(|slot| slot.tree == tree).count();
            self.sort_keys(from, count);
            from += count;
        }
    }

    /// Puts the entries of each tree together, trees ascending. Returns false, without any change,
    /// if there are too many trees.
    fn group_by_tree(&mut self) -> bool {
        let mut trees: Vec<TreeId> = Vec::new();
        self.groups.clear();
        let mut near = 0;
        for slot in &self.slots {
            if trees.get(near) != Some(&slot.tree) {
                near = trees.iter().position(|tree| *tree == slot.tree).unwrap_or(trees.len());
                if near == trees.len() {
                    trees.push(slot.tree);
                }
                if near == TREES_MAX {
                    return false;
                }
            }
            self.groups.push(near as u8);
            // The next entry of a row is mostly of the same tree as in the row before.
            near = if near + 1 < trees.len() { near + 1 } else { 0 };
        }
        let mut counts = vec![0; trees.len()];
        self.groups.iter().for_each(|&tree| counts[usize::from(tree)] += 1);
        let mut ascending: Vec<usize> = (0..trees.len()).collect();
        ascending.sort_unstable_by_key(|&tree| trees[tree]);
        let (mut next, mut from) = (vec![0; trees.len()], 0);
        for tree in ascending {
            next[tree] = from;
            from += counts[tree];
        }
        let Some(&any) = self.slots.first() else { return true };
        self.sorted.clear();
        self.sorted.resize(self.slots.len(), any);
        for (slot, &tree) in self.slots.iter().zip(&self.groups) {
            let place = &mut next[usize::from(tree)];
            self.sorted[*place] = *slot;
            *place += 1;
        }
        std::mem::swap(&mut self.slots, &mut self.sorted);
        true
    }

    /// Sorts the entries of one tree.
    fn sort_keys(&mut self, from: usize, count: usize) {
        let slots = &self.slots[from..from + count];
        if slots.windows(2).all(|pair| self.key(&pair[0]) < self.key(&pair[1])) {
            return;
        }
        let first = self.key(&slots[0]);
        let shared = |skip: usize, slot: &Slot| {
            first[..skip].iter().zip(self.key(slot)).take_while(|(a, b)| a == b).count()
        };
        let skip = slots.iter().fold(first.len(), shared);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..).zip(slots).map(|(at, slot)| (head8(&self.key(slot)[skip..]), at)));
        order.sort_unstable_by(|a, b| match a.0.cmp(&b.0) {
            Ordering::Equal => {
                let (x, y) = (&slots[a.1 as usize], &slots[b.1 as usize]);
                let by_position = match plant!("txn: the first of two writes wins") {
                    true => b.1.cmp(&a.1),
                    false => a.1.cmp(&b.1),
                };
                self.key(x).cmp(self.key(y)).then(by_position)
            }
            other => other,
        });
        self.sorted.clear();
        self.sorted.extend(order.iter().map(|&(_, at)| slots[at as usize]));
        self.slots[from..from + count].copy_from_slice(&self.sorted);
        self.order = order;
    }
}

/// The first eight bytes of a key as a number with the same order.
#[inline]
fn head8(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let count = key.len().min(8);
    head[..count].copy_from_slice(&key[..count]);
    u64::from_be_bytes(head)
}
