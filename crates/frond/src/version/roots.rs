//! Roots of all trees of a version, in groups that versions share.
//!
//! Naively, a version would hold one map of roots. But each publish would copy it as a whole, and
//! each checkpoint compare it as a whole. Here a change copies three things: the tree's group, the
//! stretch of 64 groups that this group is in, and the list of stretches. A checkpoint finds what
//! it must write by comparing stretches, and then the groups of those that differ.
//!
//! Invariants
//! 1. Groups are those of `store::group_of`: a page of the root directory holds one group.
//! 2. There is no empty group and no empty stretch.
//! 3. What is shared never changes: the same group, or stretch, means the same roots.
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
    /// Roots by ascending id.
    roots: Vec<(TreeId, Arc<TreeRoot>)>,
    /// How many of the roots are nodes.
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

/// Groups per stretch: 4096 trees.
const STRETCH_GROUPS: u32 = 64;

/// Neighbouring groups, by number.
type Stretch = BTreeMap<u32, Arc<RootGroup>>;

/// Roots by tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    stretches: BTreeMap<u32, Arc<Stretch>>,
}

impl Roots {
    /// An empty set of roots.
    pub fn new() -> Self {
        Self::default()
    }

    fn groups(&self) -> impl Iterator<Item = (u32, &Arc<RootGroup>)> {
        let stretches = self.stretches.values().flat_map(|stretch| stretch.iter());
        stretches.map(|(&number, group)| (number, group))
    }

    fn find_group(&self, number: u32) -> Option<&Arc<RootGroup>> {
        self.stretches.get(&(number / STRETCH_GROUPS))?.get(&number)
    }

    /// The root of a tree.
    pub fn get(&self, tree: &TreeId) -> Option<&Arc<TreeRoot>> {
        let group = self.find_group(group_of(*tree))?;
        let at = group.find(tree).ok()?;
        group.roots.get(at).map(|(_, root)| root)
    }

    /// All roots, ids ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&TreeId, &Arc<TreeRoot>)> {
        self.groups().flat_map(|(_, group)| group.iter())
    }

    /// Roots that are nodes, ids ascending; the others have no buffers. Visits each group, not each
    /// root.
    pub fn nodes(&self) -> impl Iterator<Item = (&TreeId, &Arc<TreeRoot>)> {
        let groups = self.groups().filter(|(_, group)| group.nodes > 0);
        groups.flat_map(|(_, group)| group.iter()).filter(|(_, root)| root.is_node())
    }

    /// Sets the root of a tree.
    pub fn insert(&mut self, tree: TreeId, root: Arc<TreeRoot>) {
        let number = group_of(tree);
        let stretch = self.stretches.entry(number / STRETCH_GROUPS).or_default();
        let group = Arc::make_mut(stretch).entry(number).or_default();
        Arc::make_mut(group).insert(tree, root);
    }

    /// Removes the root of a tree.
    pub fn remove(&mut self, tree: &TreeId) {
        if self.get(tree).is_none() {
            return;
        }
        let number = group_of(*tree);
        let Some(shared) = self.stretches.get_mut(&(number / STRETCH_GROUPS)) else { return };
        let stretch = Arc::make_mut(shared);
        let Some(group) = stretch.get_mut(&number) else { return };
        let group = Arc::make_mut(group);
        if let Ok(at) = group.find(tree) {
            group.remove(at);
        }
        if group.roots.is_empty() {
            stretch.remove(&number);
        }
        if stretch.is_empty() {
            self.stretches.remove(&(number / STRETCH_GROUPS));
        }
    }

    /// Roots of a group, ids ascending; empty if there is no such group.
    pub fn group(&self, number: u32) -> &[(TreeId, Arc<TreeRoot>)] {
        self.find_group(number).map_or(&[], |group| &group.roots)
    }

    /// Marks of these roots, for a later comparison. Marks keep no root alive. Marks of unchanged
    /// stretches are taken from `older`.
    pub fn marks(&self, older: RootMarks) -> RootMarks {
        let mut older = older.0;
        let mark = |(&number, stretch): (&u32, &Arc<Stretch>)| {
            let old = older.remove(&number).filter(|old| old.is_of(stretch));
            (number, old.unwrap_or_else(|| StretchMark::of(stretch)))
        };
        RootMarks(self.stretches.iter().map(mark).collect())
    }

    /// Numbers of the groups that differ from `marks`, ascending.
    pub fn differing(&self, marks: &RootMarks) -> Vec<u32> {
        let mut numbers = Vec::new();
        let (no_groups, no_marks) = (Stretch::new(), BTreeMap::new());
        for (number, stretch) in &self.stretches {
            let mark = marks.0.get(number);
            if !mark.is_some_and(|mark| mark.is_of(stretch)) {
                compare(stretch, mark.map_or(&no_marks, |mark| &mark.groups), &mut numbers);
            }
        }
        let gone = marks.0.iter().filter(|(number, _)| !self.stretches.contains_key(number));
        gone.for_each(|(_, mark)| compare(&no_groups, &mark.groups, &mut numbers));
        numbers.sort_unstable();
        numbers
    }
}

/// Appends the numbers of a stretch's groups that differ from the marks.
fn compare(stretch: &Stretch, marks: &BTreeMap<u32, Weak<RootGroup>>, numbers: &mut Vec<u32>) {
    let is_same = |number: &u32, group: &Arc<RootGroup>| {
        marks.get(number).is_some_and(|mark| Weak::as_ptr(mark) == Arc::as_ptr(group))
    };
    let changed = stretch.iter().filter(|(number, group)| !is_same(number, group));
    let gone = marks.keys().filter(|number| !stretch.contains_key(number));
    numbers.extend(changed.map(|(&number, _)| number).chain(gone.copied()));
}

/// Identities of groups, to find out later which ones changed. A mark is a weak reference: while it
/// exists, the memory of a dropped group or stretch is not reused for another one, so equal
/// addresses mean the same group or stretch.
#[derive(Debug, Default)]
pub(crate) struct RootMarks(BTreeMap<u32, StretchMark>);

#[derive(Debug)]
struct StretchMark {
    stretch: Weak<Stretch>,
    groups: BTreeMap<u32, Weak<RootGroup>>,
}

impl StretchMark {
    fn of(stretch: &Arc<Stretch>) -> Self {
        let groups = stretch.iter().map(|(&number, group)| (number, Arc::downgrade(group)));
        Self { stretch: Arc::downgrade(stretch), groups: groups.collect() }
    }

    fn is_of(&self, stretch: &Arc<Stretch>) -> bool {
        Weak::as_ptr(&self.stretch) == Arc::as_ptr(stretch)
    }
}

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
    fn only_trees_with_nodes_are_considered_for_draining() {
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
        assert!(nodes(&roots) == [300] && roots.find_group(1).unwrap().nodes == 0);
    }

    #[test]
    fn only_changed_groups_differ() {
        let mut roots: Roots =
            [0, 64, 128, 192].map(|id| (TreeId(id), root())).into_iter().collect();
        let (before, marks) = (roots.clone(), roots.marks(RootMarks::default()));
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

    #[test]
    fn a_change_copies_only_one_stretch_and_its_marks() {
        let mut roots: Roots = (0..20_000).step_by(64).map(|id| (TreeId(id), root())).collect();
        let (before, older) = (roots.clone(), roots.marks(RootMarks::default()));
        roots.insert(TreeId(5000), root());
        let shared =
            |number: &u32| Arc::ptr_eq(&roots.stretches[number], &before.stretches[number]);
        assert_eq!((0..5).filter(shared).collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(roots.differing(&older), [78]);
        let marks = roots.marks(older);
        assert!(roots.differing(&marks).is_empty());
        assert_eq!(before.differing(&marks), [78]);
        (8192..12_288).for_each(|id| roots.remove(&TreeId(id)));
        assert_eq!(roots.stretches.len(), 4, "no stretch is empty");
        assert_eq!(roots.differing(&marks), (128..192).collect::<Vec<_>>());
        let marks = roots.marks(marks);
        assert_eq!(before.differing(&marks), [vec![78], (128..192).collect()].concat());
    }
}
