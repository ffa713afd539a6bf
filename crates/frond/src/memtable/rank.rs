//! How many entries of a tree lie in a range, about: by where two descents come out, without a walk.
//!
//! Each step down says which share of the keys lies below the child that was taken, as if all children had as many. The
//! share is right at the leaf, where keys are told one from the other: nothing between two ends is told as nothing.
//!
//! Threads: all. Cost: two descents a source.

use std::cell::Cell;

use super::{
    Memtable,
    tree::{Seen, Tree},
};
use crate::TreeId;

impl Memtable {
    /// Versions of the keys from `from` up to, not including, `to`, and their bytes: estimates, 0 only if there were
    /// none. Range deletes are not looked at.
    pub fn estimate(&self, tree: TreeId, from: Option<&[u8]>, to: Option<&[u8]>) -> (f64, f64) {
        let Some(table) = self.table(tree) else { return (0.0, 0.0) };
        let (all, all_bytes) = table.entries();
        let (mut own, mut own_bytes) = (all as f64, all_bytes as f64);
        let (mut entries, mut bytes) = (0.0, 0.0);
        if table.has_runs() {
            for attached in self.runs.of_tree(tree, super::LATEST) {
                let (run, run_bytes) = (attached.run.entries(), attached.run.entry_bytes());
                let share = share_between(attached.run.tree(), from, to);
                entries += share * run as f64;
                bytes += share * run_bytes as f64;
                own -= run as f64;
                own_bytes -= run_bytes as f64;
            }
        }
        let share = share_between(table.tree(&self.arena), from, to);
        (entries + share * own.max(1.0), bytes + share * own_bytes.max(0.0))
    }
}

/// Where a key belongs in a tree.
struct End {
    /// Which share of the tree's keys lies below it.
    share: f64,
    /// The leaf, its version, and the slot: what has the same is the same place, with nothing between.
    place: (usize, u64, usize),
}

fn share_between(tree: Tree<'_>, from: Option<&[u8]>, to: Option<&[u8]>) -> f64 {
    // A tree without a root has nothing.
    if !tree.find_any() {
        return 0.0;
    }
    let [low, high] = [from, to].map(|key| key.map(|key| end(tree, key)));
    let is_nothing = match (&low, &high) {
        (Some(Some(low)), Some(Some(high))) => low.place == high.place,
        (None, Some(Some(high))) => high.share == 0.0,
        _ => false,
    };
    if is_nothing {
        return 0.0;
    }
    let share =
        |end: Option<Option<End>>, open| end.map_or(open, |end| end.map_or(open, |end| end.share));
    // What splits between the two descents moves one of them: that they meet then proves nothing.
    (share(high, 1.0) - share(low, 0.0)).max(f64::MIN_POSITIVE)
}

/// Where this key belongs; `None` if there are none.
fn end(tree: Tree<'_>, key: &[u8]) -> Option<End> {
    loop {
        let (share, leaf, slot) = descend(tree, key)?;
        // Only of a leaf that stood still it is sure that nothing lies between two places.
        if leaf.node.lock().validate(leaf.version) {
            let address = std::ptr::from_ref(leaf.node.lock()).addr();
            return Some(End { share, place: (address, leaf.version, slot) });
        }
    }
}

fn descend<'a>(tree: Tree<'a>, key: &[u8]) -> Option<(f64, Seen<'a>, usize)> {
    let (below, width, level) = (Cell::new(0.0), Cell::new(1.0), Cell::new(u32::MAX));
    let step = |slot: usize, count: usize| {
        let part = width.get() / count.max(1) as f64;
        below.set(below.get() + part * slot as f64);
        width.set(part);
    };
    let leaf = tree.descend(|node| {
        // From the root again, if somebody changed what was read.
        if node.level() >= level.get() {
            below.set(0.0);
            width.set(1.0);
        }
        level.set(node.level());
        let slot = node.child_slot_for(tree.arena, key);
        step(slot, node.count());
        slot
    })?;
    let slot = leaf.node.search(tree.arena, key).slot;
    step(slot, leaf.node.count());
    Some((below.get(), leaf, slot))
}
