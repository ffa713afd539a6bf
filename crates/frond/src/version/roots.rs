//! Roots of all trees of a version, in groups that versions share.
//!
//! A plain map would be copied as a whole for each publish, and compared as a whole by each checkpoint. Here a change
//! copies the group of its tree and the list of groups, and what a checkpoint has to write is found by comparing groups.
//!
//! Invariants
//! 1. A group is that of `store::group_of`: a page of the root directory holds one group.
//! 2. There is no empty group.
//! 3. A group that is shared never changes: the same group means the same roots.
//!
//! Threads: values.

use std::collections::BTreeMap;

use crate::{
    TreeId,
    store::group_of,
    sync::{Arc, Weak},
    tree::TreeRoot,
};

/// Roots of neighbouring trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootGroup {
    /// Ids ascending.
    roots: Vec<(TreeId, Arc<TreeRoot>)>,
    /// How many of them are nodes.
    nodes: usize,
}

impl RootGroup {
    fn find(&self, tree: &TreeId) -> Result<usize, usize> {
        self.roots.binary_search_by_key(tree, |(tree, _)| *tree)
    }

    /// The roots, ids ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&TreeId, &Arc<TreeRoot>)> {
        self.roots.iter().map(|(tree, root)| (tree, root))
    }

    fn insert(&mut self, tree: TreeId, root: Arc<TreeRoot>) {
        self.nodes += usize::from(root.is_node());
        match self.find(&tree) {
            Ok(at) => {
                let old = std::mem::replace(&mut self.roots[at].1, root);
                self.nodes -= usize::from(old.is_node());
            }
            Err(at) => self.roots.insert(at, (tree, root)),
        }
    }

    fn remove(&mut self, at: usize) {
        let (_, old) = self.roots.remove(at);
        self.nodes -= usize::from(old.is_node());
    }
}

/// Roots by tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    groups: BTreeMap<u32, Arc<RootGroup>>,
}

impl Roots {
    /// No roots.
    pub fn new() -> Self {
        Self::default()
    }

    /// The root of a tree.
    pub fn get(&self, tree: &TreeId) -> Option<&Arc<TreeRoot>> {
        let group = self.groups.get(&group_of(*tree))?;
        let at = group.find(tree).ok()?;
        group.roots.get(at).map(|(_, root)| root)
    }

    /// All of them, ids ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&TreeId, &Arc<TreeRoot>)> {
        self.groups.values().flat_map(|group| group.iter())
    }

    /// Those that are nodes, ids ascending: the others have no buffers. Costs a look at each group, not at each root.
    pub fn nodes(&self) -> impl Iterator<Item = (&TreeId, &Arc<TreeRoot>)> {
        let groups = self.groups.values().filter(|group| group.nodes > 0);
        groups.flat_map(|group| group.iter()).filter(|(_, root)| root.is_node())
    }

    /// Puts a root in the place of the tree's.
    pub fn insert(&mut self, tree: TreeId, root: Arc<TreeRoot>) {
        Arc::make_mut(self.groups.entry(group_of(tree)).or_default()).insert(tree, root);
    }

    /// Takes the root of a tree away.
    pub fn remove(&mut self, tree: &TreeId) {
        let number = group_of(*tree);
        let Some(shared) = self.groups.get_mut(&number) else { return };
        let Ok(at) = shared.find(tree) else { return };
        let group = Arc::make_mut(shared);
        group.remove(at);
        if group.roots.is_empty() {
            self.groups.remove(&number);
        }
    }

    /// Roots of the group of this number, ids ascending: none if there is no such group.
    pub fn group(&self, number: u32) -> &[(TreeId, Arc<TreeRoot>)] {
        self.groups.get(&number).map_or(&[], |group| &group.roots)
    }

    /// What to compare other roots with later. Keeps no root.
    pub fn marks(&self) -> RootMarks {
        RootMarks(
            self.groups.iter().map(|(&number, group)| (number, Arc::downgrade(group))).collect(),
        )
    }

    /// Numbers of groups that are not those of `marks`, ascending.
    pub fn differing(&self, marks: &RootMarks) -> Vec<u32> {
        let is_same = |number: &u32, group: &Arc<RootGroup>| {
            marks.0.get(number).is_some_and(|mark| Weak::as_ptr(mark) == Arc::as_ptr(group))
        };
        let changed = self.groups.iter().filter(|(number, group)| !is_same(number, group));
        let gone = marks.0.keys().filter(|number| !self.groups.contains_key(number));
        let mut numbers: Vec<u32> =
            changed.map(|(&number, _)| number).chain(gone.copied()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Which groups some roots had. The memory of a group that is gone is not used for another one while a mark has it, so
/// that equal addresses mean the same group.
#[derive(Debug, Default)]
pub(crate) struct RootMarks(BTreeMap<u32, Weak<RootGroup>>);

impl FromIterator<(TreeId, Arc<TreeRoot>)> for Roots {
    fn from_iter<I: IntoIterator<Item = (TreeId, Arc<TreeRoot>)>>(roots: I) -> Self {
        let mut all = Self::new();
        roots.into_iter().for_each(|(tree, root)| all.insert(tree, root));
        all
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn root() -> Arc<TreeRoot> {
        Arc::default()
    }

    #[test]
    fn roots_are_found_in_order() {
        let ids = [0, 63, 64, 65, 1000, u32::MAX - 1].map(TreeId);
        let mut roots: Roots = ids.iter().rev().map(|&tree| (tree, root())).collect();
        assert_eq!(roots.iter().map(|(tree, _)| *tree).collect::<Vec<_>>(), ids);
        roots.insert(TreeId(64), root());
        assert_eq!(roots.iter().count(), ids.len(), "a root takes the place of the tree's");
        roots.remove(&TreeId(64));
        roots.remove(&TreeId(66));
        assert!(roots.get(&TreeId(64)).is_none() && roots.get(&TreeId(65)).is_some());
        assert_eq!(roots.iter().count(), ids.len() - 1);
    }

    #[test]
    fn only_nodes_are_looked_at_for_a_drain() {
        let node = || {
            let link = crate::page::Link { bytes: 4096, ..Default::default() };
            let root = crate::tree::NodeRef::on_disk(link, 1);
            Arc::new(TreeRoot { root: crate::tree::Root::Node(root), ..TreeRoot::default() })
        };
        let mut roots: Roots = (0..200).map(|id| (TreeId(id), root())).collect();
        let nodes = |roots: &Roots| roots.nodes().map(|(tree, _)| tree.0).collect::<Vec<_>>();
        assert!(nodes(&roots).is_empty());
        for id in [3, 70, 71, 300] {
            roots.insert(TreeId(id), node());
        }
        assert_eq!(nodes(&roots), [3, 70, 71, 300]);
        roots.insert(TreeId(70), node());
        roots.insert(TreeId(3), root());
        roots.remove(&TreeId(71));
        assert_eq!(nodes(&roots), [70, 300]);
        roots.remove(&TreeId(70));
        assert!(nodes(&roots) == [300] && roots.groups[&1].nodes == 0);
    }

    #[test]
    fn groups_that_changed_differ_and_no_others() {
        let mut roots: Roots =
            [0, 64, 128, 192].map(|id| (TreeId(id), root())).into_iter().collect();
        let (before, marks) = (roots.clone(), roots.marks());
        assert!(roots.differing(&marks).is_empty());
        roots.insert(TreeId(65), root());
        roots.remove(&TreeId(128));
        roots.remove(&TreeId(193));
        roots.insert(TreeId(300), root());
        assert_eq!(roots.differing(&marks), [1, 2, 4]);
        assert!(before.differing(&marks).is_empty(), "versions share groups and change none");
        drop(before);
        roots.insert(TreeId(193), root());
        assert_eq!(roots.differing(&marks), [1, 2, 3, 4], "also a group that nothing else holds");
        assert_eq!(roots.differing(&RootMarks::default()), [0, 1, 3, 4]);
    }
}
