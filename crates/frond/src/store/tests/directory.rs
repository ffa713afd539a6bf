//! Tests of the root directory in pages: what a checkpoint writes, and what named snapshots cost.

use super::basics::{dir, env};
use crate::{
    io::Env,
    store::{page_table::NUMBERS, *},
    sync::Arc,
    types::{Lineage, Lsn, Seqno, TreeId, VersionNumber},
};

/// Ids in several groups and index pages, including the last possible one.
const TREES: [u32; 9] = [0, 1, 63, 64, 16_384, 16_385, 1 << 20, u32::MAX - 64, u32::MAX - 1];

fn root(tree: u32, at: VersionNumber) -> TreeRoot {
    TreeRoot {
        lineage: Lineage(tree),
        applied: Seqno(at.0),
        entries: at.0 + u64::from(tree),
        max_key: Some(vec![7; tree as usize % 100]),
        ..TreeRoot::default()
    }
}

fn directory(trees: &[u32], at: VersionNumber) -> RootDirectory {
    let trees = trees.iter().map(|&tree| (TreeId(tree), root(tree, at)));
    RootDirectory { trees: trees.collect(), snapshots: vec![] }
}

fn publish(store: &Store, at: VersionNumber, change: &DirectoryChange) {
    let applied = Seqno(at.0);
    let (log_from, log_synced) = (Lsn(0), Lsn(0));
    let roots = change;
    let checkpoint = Checkpoint { publish: at, applied, log_from, log_synced, clean: None, roots };
    store.publish(&checkpoint).unwrap();
}

fn reopened(env: &Env, store: Store) -> Opened {
    drop(store);
    open(env, dir(), StoreOptions::default()).unwrap()
}

/// When one group changes, its page, an index page, the root page and the head are written, however
/// many others exist.
#[test]
fn a_checkpoint_writes_only_changed_groups() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let mut at = store.counts_from().next();
    let mut expected = directory(&TREES, at);
    publish(&store, at, &DirectoryChange::whole(&expected));
    for tree in [64, u32::MAX - 1] {
        let before = store.stats().io;
        at = at.next();
        let id = TreeId(tree);
        expected.trees.insert(id, root(tree, at));
        let number = group_of(id);
        let group = expected.trees.iter().filter(|(id, _)| group_of(**id) == number);
        let group = group.map(|(id, root)| (*id, root.clone())).collect();
        let groups = [(number, group)].into();
        publish(&store, at, &DirectoryChange { groups, ..DirectoryChange::default() });
        let written = store.stats().io.write_bytes - before.write_bytes;
        assert!(written <= 8 * 4096, "{written} bytes for one tree");
    }
    let opened = reopened(&env, store);
    // Entries do not contain the commit through which they are applied: the slot does.
    expected.trees.values_mut().for_each(|root| root.applied = Seqno(at.0));
    assert_eq!(opened.roots, expected);
}

#[test]
fn groups_without_trees_leave_no_pages() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let first = store.counts_from().next();
    publish(&store, first, &DirectoryChange::whole(&directory(&TREES, first)));
    let second = first.next();
    let gone = TREES.map(|tree| (group_of(TreeId(tree)), Group::new()));
    let groups = gone.into_iter().collect();
    publish(&store, second, &DirectoryChange { groups, ..DirectoryChange::default() });
    assert_eq!(store.trees_root(), None);
    // Both slots are empty now: all pages but two heads and the map are free.
    publish(&store, second.next(), &DirectoryChange::default());
    publish(&store, second.next().next(), &DirectoryChange::default());
    let opened = reopened(&env, store);
    assert_eq!(opened.roots, RootDirectory::default());
    let live = opened.superblock.totals.live;
    assert!(live <= 3 * 4096, "{live} bytes");
}

/// Promise: P20. Rule: I19. The trees of a snapshot stay readable however the newest ones change,
/// and a snapshot costs one entry.
#[test]
pub(super) fn named_snapshots_show_their_trees_until_they_are_dropped() {
    let env = env();
    let mut store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let mut at = store.counts_from();
    let mut named: Vec<(NamedSnapshot, Vec<u32>)> = Vec::new();
    for id in 1..=600u64 {
        at = at.next();
        let trees: Vec<u32> =
            TREES.into_iter().filter(|tree| u64::from(*tree) % 7 != id % 7).collect();
        let mut snapshots: Vec<_> = named.iter().map(|(one, _)| one.clone()).collect();
        let (seqno, publish_at) = (Seqno(at.0), at);
        let own = NamedSnapshot { id, seqno, publish: publish_at, trees: SnapshotTrees::Own };
        snapshots.push(own.clone());
        let change =
            DirectoryChange { snapshots, ..DirectoryChange::whole(&directory(&trees, at)) };
        store.space().pin_version(at);
        store.space().pin_named(at);
        publish(&store, at, &change);
        store.space().unpin_version(at);
        let root = SnapshotTrees::Paged(store.trees_root());
        named.push((NamedSnapshot { trees: root, ..own }, trees));
    }
    let opened = reopened(&env, store);
    assert_eq!(
        opened.roots.snapshots,
        named.iter().map(|(one, _)| one.clone()).collect::<Vec<_>>()
    );
    store = opened.store;
    for (snapshot, trees) in &named {
        let found = store.snapshot_trees(snapshot).unwrap();
        assert_eq!(*found, directory(trees, snapshot.publish).trees);
    }
    // Dropped snapshots leave nothing.
    at = store.counts_from().next();
    for (snapshot, _) in &named {
        assert!(store.space().unpin_named(snapshot.publish, at));
    }
    for _ in 0..3 {
        publish(&store, at, &DirectoryChange::whole(&directory(&TREES, at)));
        at = at.next();
    }
    let space = store.stats().space;
    assert!(space.kept < 60 * 4096, "{space:?}: something is kept for snapshots that are gone");
    assert!(space.live < 60 * 4096, "{space:?}: pages live that no slot has");
}

/// A store from before page tables lists the roots of all snapshots in one page; they stay until
/// they are dropped.
#[test]
fn snapshots_of_a_single_page_directory_move_into_their_own_page() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let at = store.counts_from().next();
    let listed = |id| NamedSnapshot {
        id,
        seqno: Seqno(3),
        publish: VersionNumber(4),
        trees: SnapshotTrees::Listed(Arc::new(directory(&[5, 600], VersionNumber(3)).trees)),
    };
    let mut roots = directory(&TREES, at);
    roots.snapshots = vec![listed(3), listed(9)];
    publish(&store, at, &DirectoryChange::whole(&roots));
    let opened = reopened(&env, store);
    assert_eq!(opened.roots, roots);
    let at = opened.counts_from().next();
    let snapshots = vec![listed(9)];
    publish(&opened.store, at, &DirectoryChange { snapshots, ..DirectoryChange::default() });
    let opened = reopened(&env, opened.store);
    assert_eq!(opened.roots.snapshots, [listed(9)]);
}

/// A bound replaces a very long largest key, and no key of the tree is above it.
#[test]
fn a_very_long_largest_key_is_bounded() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let at = store.counts_from().next();
    let long = [vec![b'k'; 5000], vec![0xff; 60_000]].concat();
    let capped = [vec![b'a'], vec![0xff; 50_000]].concat();
    let keys = [vec![b'k'; 4096], long, capped, vec![0xff; 5000]];
    let trees = (0u32..).zip(&keys);
    let trees = trees.map(|(tree, key)| {
        (TreeId(tree), TreeRoot { max_key: Some(key.clone()), ..root(tree, at) })
    });
    let roots = RootDirectory { trees: trees.collect(), snapshots: vec![] };
    publish(&store, at, &DirectoryChange::whole(&roots));
    let opened = reopened(&env, store);
    let found: Vec<_> = opened.roots.trees.values().map(|root| root.max_key.clone()).collect();
    let bound = [vec![b'k'; 4095], vec![b'l']].concat();
    assert_eq!(found, [Some(keys[0].clone()), Some(bound), Some(vec![b'b']), None]);
    let is_bound =
        |(key, found): (&Vec<u8>, &Option<Vec<u8>>)| found.as_ref().is_none_or(|f| f >= key);
    assert!(keys.iter().zip(&found).all(is_bound));
}

/// The bound of the root page: as many index pages as there can be.
#[test]
fn a_page_table_has_a_number_for_every_tree() {
    assert!(group_of(TreeId(u32::MAX)) < NUMBERS);
}
