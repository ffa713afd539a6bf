//! Estimates of how many rows of a tree lie in a range, computed from where two descents end,
//! without a walk over the range.
//!
//! Each step down adds the share of the keys that lies below the child taken, assuming that all
//! children have equally many. In the leaf the share is exact, since keys are compared there: an
//! empty range is reported as 0.
//!
//! Threads: all. Cost: two descents per source.

use std::cell::Cell;

use super::{
    Memtable,
    tree::{Seen, Tree},
};
use crate::TreeId;

impl Memtable {
    /// Estimates the number of keys from `from` up to, not including, `to` whose newest version is
    /// a value, and the bytes of all versions there. 0 only if there is no version, since an older
    /// version may be a value. Ignores range deletes.
    pub fn estimate(&self, tree: TreeId, from: Option<&[u8]>, to: Option<&[u8]>) -> (f64, f64) {
        let Some(table) = self.table(tree) else { return (0.0, 0.0) };
        let (all, all_bytes) = table.rows();
        let (mut own, mut own_bytes) = (all as f64, all_bytes as f64);
        let (mut rows, mut bytes) = (0.0, 0.0);
        if table.has_runs() {
            for attached in self.runs.of_tree(tree, super::LATEST) {
                let (run, run_bytes) = (attached.run.rows(), attached.run.entry_bytes());
                let share = share_between(attached.run.tree(), from, to);
                rows += part(share, run as f64);
                bytes += share * run_bytes as f64;
                own -= run as f64;
                own_bytes -= run_bytes as f64;
            }
        }
        let share = share_between(table.tree(&self.arena), from, to);
        (rows + part(share, own), bytes + share * own_bytes.max(0.0))
    }
}

/// Multiplies a number of rows by a share; 0 only if the share is 0.
fn part(share: f64, rows: f64) -> f64 {
    if share == 0.0 { 0.0 } else { (share * rows).max(f64::MIN_POSITIVE) }
}

/// The place where a key belongs in a tree.
struct End {
    /// The share of the tree's keys that lies below it.
    share: f64,
    /// The leaf, its version, and the slot: two ends with equal places have nothing between them.
    place: (usize, u64, usize),
}

fn share_between(tree: Tree<'_>, from: Option<&[u8]>, to: Option<&[u8]>) -> f64 {
    // A tree without a root is empty.
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
    // A split between the two descents moves one of the ends, so that they coincide then proves
    // nothing.
    (share(high, 1.0) - share(low, 0.0)).max(f64::MIN_POSITIVE)
}

/// The place where a key belongs; `None` if the tree is empty.
fn end(tree: Tree<'_>, key: &[u8]) -> Option<End> {
    loop {
        let (share, leaf, slot) = descend(tree, key)?;
        // Only for an unchanged leaf is it certain that nothing lies between two places.
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
        // The descent started again from the root, since something that it had read has changed.
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
