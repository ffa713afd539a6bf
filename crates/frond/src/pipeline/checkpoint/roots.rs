//! The root directory entries that a checkpoint writes: the groups of trees that differ from those
//! in the newest slot.
//!
//! Threads: the one checkpoint.

use std::collections::btree_map::Entry;

use super::super::Engine;
use crate::{
    Result, Seqno, TreeId,
    store::{DirectoryChange, Group, TreeRoot as DurableRoot, group_of, trees_of},
    sync::Arc,
    tree::{Root, TreeRoot},
    version::{RootMarks, Version},
};

impl Engine {
    /// Step 3: collects the groups of the version's root directory that differ from the newest
    /// slot's. `counted` lists trees whose counters or existence changed without a change of roots.
    pub(super) fn write_roots(
        &self,
        version: &Arc<Version>,
        counted: &[TreeId],
    ) -> Result<DirectoryChange> {
        let marks = self.checkpoint.written_roots.lock().unwrap();
        let nothing = RootMarks::default();
        let mut numbers = version.roots.differing(marks.as_ref().unwrap_or(&nothing));
        let is_whole = marks.is_none();
        if !is_whole && plant!("pipeline: a group of roots that changed is not written") {
            numbers.pop();
        }
        drop(marks);
        numbers.extend(counted.iter().map(|&tree| group_of(tree)));
        numbers.sort_unstable();
        numbers.dedup();
        let mut change = DirectoryChange { is_whole, ..DirectoryChange::default() };
        for number in numbers {
            let mut group = Group::new();
            for (tree, root) in version.roots.group(number) {
                let mut durable = self.write_tree(*tree, root, version.applied)?;
                let branches = &version.branches;
                durable.inherits = branches.inherits.get(tree).cloned().unwrap_or_default();
                durable.loaded = branches.loaded.get(tree).copied().unwrap_or_default();
                group.insert(*tree, durable);
            }
            // A tree to which nothing was applied has no root, but may have handed out counter
            // values (Rule: I35).
            for tree in self.trees.counting(trees_of(number), version.applied) {
                if let Entry::Vacant(place) = group.entry(tree) {
                    place.insert(self.write_tree(tree, &TreeRoot::default(), version.applied)?);
                }
            }
            change.groups.insert(number, group);
        }
        let named = version.branches.named.values();
        change.snapshots = named.map(|snapshot| snapshot.listed(version.publish)).collect();
        Ok(change)
    }

    /// Step 3, for one tree.
    fn write_tree(&self, tree: TreeId, root: &TreeRoot, applied: Seqno) -> Result<DurableRoot> {
        let mut durable = DurableRoot {
            applied,
            lineage: tree.lineage(),
            max_key: root.max_key.clone(),
            // Rows of the catalog are not needed, and those of an empty tree are known.
            counts: self.trees.counts(tree),
            rows: root.counted.filter(|_| tree != TreeId(0) && !matches!(root.root, Root::Empty)),
            ..DurableRoot::default()
        };
        match &root.root {
            Root::Empty => {}
            Root::Leaf(run) => {
                self.write_run(run)?;
                durable.link = run.link().copied();
                durable.entries = run.meta.entries;
                durable.bytes = run.meta.bytes;
                durable.leaf_has_blobs = run.meta.blobs;
                durable.sums = root.known_sums();
            }
            Root::Node(node) => {
                self.write_node(node)?;
                durable.link = node.link().copied();
                durable.level = node.level;
                (durable.entries, durable.bytes) = root.estimate_to_store(&self.cx);
                durable.sums = root.known_sums();
            }
        }
        Ok(durable)
    }
}
