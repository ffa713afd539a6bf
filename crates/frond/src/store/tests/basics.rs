//! Tests of creating, opening, locking and publishing.

use std::path::Path;

use crate::{
    error::Error,
    io::{Env, File, HookedVfs, MemoryVfs},
    store::*,
    sync::{Arc, Mutex},
    types::{Lineage, Lsn, Seqno, TreeId, VersionNumber},
};

pub(super) fn env() -> Env {
    Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() }
}

pub(super) fn dir() -> &'static Path {
    Path::new("/store")
}

pub(super) const L: Lineage = Lineage(1);

/// Publishes `roots` as version `at`.
pub(super) fn publish(store: &Store, at: VersionNumber, roots: &RootDirectory) -> Superblock {
    let change = DirectoryChange::whole(roots);
    store
        .publish(&Checkpoint {
            publish: at,
            applied: Seqno(at.0),
            log_from: Lsn(0),
            log_synced: Lsn(0),
            clean: None,
            roots: &change,
        })
        .unwrap()
}

pub(super) fn one_tree(link: Link) -> RootDirectory {
    // Applied through the commit whose number is `publish`.
    let applied = Seqno(link.birth.0);
    let root = TreeRoot { link: Some(link), lineage: L, applied, ..TreeRoot::default() };
    RootDirectory { trees: [(TreeId(1), root)].into(), snapshots: vec![] }
}

#[test]
pub(super) fn published_pages_survive_reopening() {
    let env = env();
    let opened = create(&env, dir(), StoreOptions::default()).unwrap();
    assert!(opened.superblock.is_new() && opened.warnings.is_empty());
    let store = opened.store;
    let mut v = store.counts_from();
    let mut links = Vec::new();
    for round in 0..5u8 {
        v = v.next();
        let link = store.put_page(PageKind::Node, v, L, &[b"round ", &[round]]).unwrap();
        publish(&store, v, &one_tree(link));
        links.push(link);
    }
    drop(store);
    let opened = open(&env, dir(), StoreOptions::default()).unwrap();
    assert_eq!(opened.roots, one_tree(links[4]));
    assert_eq!(opened.superblock.publish, v);
    assert!(
        opened.store.counts_from() >= VersionNumber(v.0 + (1 << 32)),
        "births are never used twice"
    );
    for (round, link) in links.iter().enumerate() {
        let page = opened.store.read_page(link, PageKind::Node, "a node").unwrap();
        assert_eq!(&page[..], [b"round ", &[round as u8][..]].concat());
    }
    let stats = opened.store.stats();
    assert_eq!(stats.space.live, opened.superblock.totals.live);
}

/// Pages are checked as a reader would before they are written: the store stops before a slot names
/// an unreadable page, and opens with the version before.
#[test]
pub(super) fn an_unreadable_root_directory_is_never_published() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let v1 = store.counts_from().next();
    let link = store.put_page(PageKind::Node, v1, L, &[b"node"]).unwrap();
    publish(&store, v1, &one_tree(link));
    let mut roots = one_tree(link);
    roots.trees.get_mut(&TreeId(1)).unwrap().level = 200;
    let change = DirectoryChange::whole(&roots);
    let refused = store.publish(&Checkpoint {
        publish: v1.next(),
        applied: Seqno(v1.0 + 1),
        log_from: Lsn(0),
        log_synced: Lsn(0),
        clean: None,
        roots: &change,
    });
    assert!(matches!(refused, Err(Error::Unreadable(..))), "{refused:?}");
    assert!(store.put_page(PageKind::Node, v1.next(), L, &[b"more"]).is_err(), "it has stopped");
    drop(store);
    let opened = open(&env, dir(), StoreOptions::default()).unwrap();
    assert_eq!((opened.superblock.publish, opened.roots), (v1, one_tree(link)));
    assert!(opened.warnings.is_empty());
}

/// The pages of a publish, of each kind, are accepted by their readers. Nothing is read back from
/// the file here: only the checks before writing verify.
#[test]
pub(super) fn every_published_page_is_accepted_by_its_reader() {
    let store = create(&env(), dir(), StoreOptions::default()).unwrap().store;
    let mut at = store.counts_from();
    for _ in 0..3 {
        at = at.next();
        let link = store.put_page(PageKind::Node, at, L, &[b"node"]).unwrap();
        publish(&store, at, &one_tree(link));
    }
}

/// Promise: P18.
#[test]
pub(super) fn a_second_opener_learns_which_process_owns_the_store() {
    let env = env();
    let first = create(&env, dir(), StoreOptions::default()).unwrap();
    for read_only in [false, true] {
        let second = open(&env, dir(), StoreOptions { read_only, ..Default::default() });
        let owner = match second {
            Err(Error::Locked { owner, .. }) => owner,
            other => panic!("{other:?}"),
        };
        assert!(owner.contains(&std::process::id().to_string()), "{owner}");
    }
    drop(first);
    open(&env, dir(), StoreOptions::default()).unwrap();
}

/// Openers that only read share a store, and exclude those that write. Promise: P18.
#[test]
fn readers_share_a_store_and_exclude_writers() {
    let env = env();
    drop(create(&env, dir(), StoreOptions::default()).unwrap());
    let read = || open(&env, dir(), StoreOptions { read_only: true, ..Default::default() });
    let write = || open(&env, dir(), StoreOptions::default());
    let (first, second) = (read().unwrap(), read().unwrap());
    for readers in [Some(first), Some(second)] {
        match write() {
            Err(Error::Locked { owner, .. }) => assert!(owner.contains("read-only"), "{owner}"),
            other => panic!("{other:?}"),
        }
        // The attempt has not taken their lock.
        drop(read().unwrap());
        drop(readers);
    }
    let writer = write().unwrap();
    assert!(matches!(read(), Err(Error::Locked { .. })));
    drop(writer);
    drop(read().unwrap());
}

/// A lock ends with the store, not with the last descriptor of its file. A store was once refused
/// as locked while it was made, because another thread of the program started a process.
#[test]
pub(super) fn the_lock_is_released_with_the_store_not_with_its_file() {
    let env = env();
    // These stand for the descriptors of a process that is about to run another program.
    let kept_open = Mutex::new(Vec::new());
    let keep = move |file: Arc<dyn File>| {
        kept_open.lock().unwrap().push(file.clone());
        file
    };
    let env = Env { vfs: Arc::new(HookedVfs::new(env.vfs.clone()).on_open(keep)), ..env };
    drop(create(&env, dir(), StoreOptions::default()).unwrap());
    drop(open(&env, dir(), StoreOptions::default()).unwrap());
    open(&env, dir(), StoreOptions::default()).unwrap();
}

/// A creation that ends between two checks of the directory by an opener is no damage.
#[test]
pub(super) fn a_creation_that_ends_meanwhile_leaves_a_store() {
    for is_reader in [false, true] {
        let below = env();
        let options = || crate::Options::new().env(below.clone()).read_only(is_reader);
        crate::Db::open(dir(), options().read_only(false)).unwrap().close().unwrap();
        let (path, new) = (dir().join("store.frond"), dir().join("store.frond.new"));
        below.vfs.rename(&path, &new).unwrap();
        let vfs = Arc::new(HookedVfs::new(below.vfs.clone()));
        let ended = below.clone();
        vfs.after_next_list(move || ended.vfs.rename(&new, &path).unwrap());
        crate::Db::open(dir(), options().env(Env { vfs, ..below.clone() })).unwrap();
    }
}

/// Promise: P19.
#[test]
pub(super) fn a_store_is_created_only_where_none_exists() {
    let env = env();
    assert_eq!(probe(&env, dir()).unwrap(), Found::Nothing);
    assert!(matches!(open(&env, dir(), Default::default()), Err(Error::NotAStore { .. })));
    drop(create(&env, dir(), Default::default()).unwrap());
    assert!(matches!(create(&env, dir(), Default::default()), Err(Error::NotAStore { .. })));
    let store = dir().join(STORE_FILE);
    env.vfs.rename(&store, &dir().join("log-0000000001.frond")).unwrap();
    assert_eq!(probe(&env, dir()).unwrap(), Found::LogOnly);
    assert!(matches!(create(&env, dir(), Default::default()), Err(Error::NotAStore { .. })));
    assert!(matches!(open(&env, dir(), Default::default()), Err(Error::NotAStore { .. })));
}

#[test]
pub(super) fn a_page_dead_at_v_is_free_only_after_the_next_checkpoint() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let v1 = store.counts_from().next();
    let old = store.put_page(PageKind::Node, v1, L, &[b"old"]).unwrap();
    publish(&store, v1, &one_tree(old));
    let v2 = v1.next();
    let new = store.put_page(PageKind::Node, v2, L, &[b"new"]).unwrap();
    store.die(&old, L, v2).unwrap();
    assert!(store.die(&old, L, v2).is_err(), "it dies once");
    publish(&store, v2, &one_tree(new));
    let next = store.put_page(PageKind::Node, v2.next(), L, &[b"x"]).unwrap();
    assert_ne!(next.offset, old.offset, "the older slot shows it alive");
    publish(&store, v2.next(), &one_tree(new));
    let reuse = store.put_page(PageKind::Node, v2.next().next(), L, &[b"y"]).unwrap();
    assert!(reuse.offset <= old.offset, "low places are used again");
}
