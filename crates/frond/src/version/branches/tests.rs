//! Tests of branches and of their pins in the space map.

use std::path::Path;

use super::*;
use crate::{
    io::{Env, MemoryVfs},
    store::{self, Store, StoreOptions},
};

const PARENT: TreeId = TreeId(3);
const CLONE: TreeId = TreeId(4);
const GRANDCHILD: TreeId = TreeId(5);

fn store() -> Arc<Store> {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
    let opened = store::create(&env, Path::new("/store"), StoreOptions::default());
    Arc::new(opened.unwrap().store)
}

/// Closes a pin in the space map; false if it is not there.
fn unpin(store: &Store, tree: TreeId, at: u64) -> bool {
    store.space().unpin_lineage(tree.lineage(), VersionNumber(at), VersionNumber(90))
}

/// Rule: I19. Invariant 2: a clone of a clone pins both lineages, each where it branched off.
#[test]
fn a_clone_of_a_clone_pins_both_lineages() {
    let store = store();
    let mut branches = Branches::default();
    branches.clone_tree(store.space(), CLONE, PARENT, VersionNumber(10));
    branches.clone_tree(store.space(), GRANDCHILD, CLONE, VersionNumber(20));
    let inherited = |tree| branches.inherits[&tree].clone();
    assert_eq!(inherited(CLONE), [(PARENT.lineage(), VersionNumber(10))]);
    let both = [(PARENT.lineage(), VersionNumber(10)), (CLONE.lineage(), VersionNumber(20))];
    assert_eq!(inherited(GRANDCHILD), both, "the oldest ancestor first");
    // Two branches branched off the parent at version 10.
    assert!(branches.drop_tree(store.space(), CLONE, VersionNumber(30)));
    assert!(unpin(&store, PARENT, 10) && unpin(&store, CLONE, 20));
    assert!(!unpin(&store, PARENT, 10), "no more pins than branches");
}

#[test]
fn dropping_a_branch_closes_its_pins_once() {
    let store = store();
    let mut branches = Branches::default();
    branches.clone_tree(store.space(), CLONE, PARENT, VersionNumber(10));
    assert!(
        branches.drop_tree(store.space(), PARENT, VersionNumber(11)),
        "a parent pins nothing itself"
    );
    assert!(branches.drop_tree(store.space(), CLONE, VersionNumber(12)));
    assert!(!unpin(&store, PARENT, 10), "closed already");
    assert!(branches.drop_tree(store.space(), CLONE, VersionNumber(13)), "nothing left to close");
}

#[test]
fn a_named_snapshot_pins_its_version_once() {
    let store = store();
    let mut branches = Branches::default();
    branches.clone_tree(store.space(), CLONE, PARENT, VersionNumber(10));
    let root = || (PARENT, Default::default());
    let roots: Roots = [root(), (CLONE, Default::default())].into_iter().collect();
    let named = NamedVersion::fresh(1, Seqno(7), VersionNumber(15), &Arc::new(roots));
    assert!(!named.is_durable());
    branches.add_snapshot(store.space(), named);
    let NamedRoots::Fresh(roots) = branches.named[&1].roots() else { panic!("not durable yet") };
    assert_eq!(roots.iter().count(), 2);
    drop(roots);
    branches.named[&1].set_durable(None);
    let durable = branches.named[&1].listed(VersionNumber(16));
    assert_eq!(durable.trees, SnapshotTrees::Paged(None));
    assert!(matches!(branches.named[&1].roots(), NamedRoots::Durable(one) if *one == durable));
    let mut other = branches.clone();
    assert!(branches.drop_snapshot(store.space(), 1, VersionNumber(20)));
    assert!(!unpin(&store, PARENT, 15) && !unpin(&store, CLONE, 15));
    assert!(unpin(&store, PARENT, 10), "the clone's own");
    // A map without such pins contradicts the directory.
    assert!(!other.drop_snapshot(store.space(), 1, VersionNumber(21)));
}

#[test]
fn a_named_snapshot_with_an_impossible_number_is_not_loaded() {
    let listed = |id| NamedSnapshot {
        id,
        seqno: Seqno(1),
        publish: VersionNumber(2),
        trees: SnapshotTrees::Paged(None),
    };
    assert!(NamedVersion::load(listed(u64::from(u32::MAX) + 1)).is_none());
    let loaded = NamedVersion::load(listed(3)).expect("a number that was given out");
    assert!(loaded.is_durable() && loaded.listed(VersionNumber(9)) == listed(3));
}
