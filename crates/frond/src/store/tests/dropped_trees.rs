//! Tests of freeing the pages of dropped trees.

use super::basics::{L, dir, env, one_tree, publish};
use crate::{
    store::*,
    types::{Lineage, TreeId, VersionNumber},
};

const DROPPED: Lineage = Lineage(2);
const PAGES: u64 = 10;

/// A store with two trees, of which the second is dropped in the returned version and its lineage
/// ended.
fn with_a_dropped_tree(
    env: &crate::io::Env,
    inherited: bool,
) -> (Store, VersionNumber, RootDirectory) {
    let store = create(env, dir(), StoreOptions::default()).unwrap().store;
    let v1 = store.counts_from().next();
    let kept = store.put_page(PageKind::Node, v1, L, &[b"kept"]).unwrap();
    let page = |n: u64| store.put_page(PageKind::Node, v1, DROPPED, &[&n.to_le_bytes()]).unwrap();
    let links: Vec<Link> = (0..PAGES).map(page).collect();
    let mut both = one_tree(kept);
    let root = TreeRoot { link: Some(links[0]), lineage: DROPPED, ..TreeRoot::default() };
    both.trees.insert(TreeId(2), root);
    publish(&store, v1, &both);
    if inherited {
        store.space().pin_lineage(DROPPED, v1, v1);
    }
    let v2 = v1.next();
    store.end_lineage(DROPPED);
    store.end_some(v2, 4);
    publish(&store, v2, &one_tree(kept));
    (store, v2, one_tree(kept))
}

fn kept_bytes(store: &Store) -> u64 {
    store.stats().space.kept
}

/// Rule: I22.
#[test]
pub(super) fn a_dropped_tree_is_freed_in_steps_that_continue_after_reopening() {
    let env = env();
    let (store, v2, roots) = with_a_dropped_tree(&env, false);
    assert!(store.is_ending());
    let live = store.stats().space.live;
    store.end_some(v2.next(), 2);
    assert_eq!(live - store.stats().space.live, 2 * 4096, "two more pages died");
    drop(store);
    let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
    assert!(store.is_ending(), "the map tells what is left");
    let now = store.counts_from().next();
    store.end_some(now, usize::MAX);
    store.end_some(now, usize::MAX);
    assert!(!store.is_ending());
    for next in 1..=2 {
        publish(&store, VersionNumber(store.counts_from().0.max(v2.0) + next), &roots);
    }
    let (space, totals) = (store.stats().space, store.newest().totals);
    // The tree that is left, four pages of the root directory, and two of the map.
    assert!(space.live <= 7 * 4096 && totals.live == space.live, "{space:?}");
    drop(store);
    let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
    assert!(!store.is_ending());
}

/// What a clone inherited dies, but is kept for the clone. Rules: I19, I22.
#[test]
fn a_clone_keeps_the_pages_of_its_dropped_parent() {
    let env = env();
    let (store, v2, roots) = with_a_dropped_tree(&env, true);
    store.end_some(v2.next(), usize::MAX);
    store.end_some(v2.next(), usize::MAX);
    assert!(!store.is_ending());
    for next in 1..=3 {
        publish(&store, VersionNumber(v2.0 + next), &roots);
    }
    assert!(kept_bytes(&store) >= PAGES * 4096, "{:?}", store.stats().space);
    assert!(store.space().unpin_lineage(DROPPED, VersionNumber(v2.0 - 1), VersionNumber(v2.0 + 4)));
    for next in 4..=6 {
        publish(&store, VersionNumber(v2.0 + next), &roots);
    }
    assert!(kept_bytes(&store) < PAGES * 4096, "{:?}", store.stats().space);
}

/// A pass continues while versions without the tree become durable: a page that dies late is listed
/// as alive in both slots, and its space is reused only after two more. Rules: I16, I18, I22.
#[test]
fn pages_listed_in_both_slots_are_not_reused_however_late_they_die() {
    let env = env();
    let (store, v2, roots) = with_a_dropped_tree(&env, false);
    publish(&store, v2.next(), &roots);
    let mut next = v2.next();
    for _ in 0..3 {
        next = next.next();
        let before = store.stats().space;
        store.end_some(next, 2);
        let after = store.stats().space;
        assert_eq!(before.live - after.live, 2 * 4096, "two pages died");
        assert_eq!(after.free, before.free, "and a crash may still go back to them: {after:?}");
        publish(&store, next, &roots);
    }
}
