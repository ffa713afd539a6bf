//! Versions under the model checker: snapshots are taken while memtables are frozen, applied and
//! published and while checkpoints free dead pages, on a real store in memory.
//!
//! Run: `make schedules`.

use std::{collections::BTreeMap, path::Path};

use crate::{
    Seqno, TreeId,
    cache::FramePool,
    io::{Env, MemoryVfs},
    memtable::Memtable,
    message::Tag,
    page::{Link, PageKind},
    store::{self, Checkpoint, DirectoryChange, RootDirectory, Store, StoreOptions, TreeRoot},
    sync::{Arc, AtomicU64, Mutex, Ordering, explore, thread},
    types::{Lineage, Lsn, VersionNumber},
};

use super::{Branches, MemtableRef, Roots, SnapshotState, Snapshots, Version, Versions};

const TREE: TreeId = TreeId(3);
const LINE: Lineage = Lineage(3);
const KEY: &[u8] = b"k";

/// A store with a tree of one page, which holds the number of the last commit applied.
struct House {
    store: Arc<Store>,
    versions: Versions,
    snapshots: Snapshots,
    visible: AtomicU64,
    pages: Mutex<BTreeMap<VersionNumber, Link>>,
}

fn slot(base: Seqno) -> Arc<MemtableRef> {
    MemtableRef::new(Arc::new(Memtable::new(FramePool::new(0))), base, Lsn(0))
}

impl House {
    fn new() -> Arc<Self> {
        let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
        let opened = store::create(&env, Path::new("/store"), StoreOptions::default()).unwrap();
        let store = Arc::new(opened.store);
        let first = store.counts_from().next();
        let root = (Roots::new(), Branches::default());
        let versions = Versions::new(store.clone(), first, Seqno(0), root, slot(Seqno(0)));
        let house = Self {
            store,
            versions,
            snapshots: Snapshots::default(),
            visible: AtomicU64::new(0),
            pages: Mutex::default(),
        };
        house.write_page(first, 0);
        house.checkpoint(first);
        Arc::new(house)
    }

    fn write_page(&self, publish: VersionNumber, applied: u64) {
        let page = self.store.put_page(PageKind::Node, publish, LINE, &[&applied.to_be_bytes()]);
        self.pages.lock().unwrap().insert(publish, page.unwrap());
    }

    fn checkpoint(&self, publish: VersionNumber) {
        let link = Some(self.pages.lock().unwrap()[&publish]);
        let root = TreeRoot { link, lineage: LINE, ..TreeRoot::default() };
        let roots = RootDirectory { trees: [(TREE, root)].into(), snapshots: vec![] };
        let checkpoint = Checkpoint {
            publish,
            applied: Seqno(0),
            log_from: Lsn(0),
            log_synced: Lsn(0),
            clean: None,
            roots: &DirectoryChange::whole(&roots),
        };
        self.store.publish(&checkpoint).unwrap();
    }

    fn commit(&self, seqno: u64) {
        let value = seqno.to_be_bytes();
        let table = self.versions.hold().active.table.clone();
        table.insert(TREE, Seqno(seqno), std::iter::once((KEY, Tag::PUT, &value[..])));
        self.visible.store(seqno, Ordering::SeqCst);
    }

    fn freeze(&self, last: u64) {
        self.versions.hold().active.freeze(Seqno(last));
        self.versions.freeze(slot(Seqno(last)));
    }

    /// Applies the oldest frozen memtable to the tree as `pipeline/apply.rs` does; then makes a
    /// checkpoint, after which pages of the version before last are free unless a snapshot pins
    /// them.
    fn apply(&self) {
        let old = self.versions.hold();
        let slot = old.frozen.last().expect("something is frozen").clone();
        let publish = VersionNumber(old.publish.0 + 1);
        self.write_page(publish, slot.last().unwrap().0);
        let publishing = self.snapshots.publishing();
        publishing.pin_below(&self.versions.hold(), &slot, &self.versions);
        self.versions.publish(publish, old.roots.clone(), old.branches.clone(), Some(&slot));
        drop(publishing);
        let dead = self.pages.lock().unwrap()[&old.publish];
        drop(old);
        self.store.die(&dead, LINE, publish).unwrap();
        self.checkpoint(publish);
    }

    /// What a snapshot reads: its memtables newest first, then the page of its version.
    fn read(&self, state: &SnapshotState) -> u64 {
        let version: Arc<Version> = state.version(&self.versions);
        let mut found = None;
        for slot in version.memtables() {
            slot.table.get(TREE, KEY, state.at, &mut |seqno, _| {
                found = Some(seqno.0);
                false
            });
            if let Some(found) = found {
                return found;
            }
        }
        let link = self.pages.lock().unwrap()[&version.publish];
        let page = self.store.read_page(&link, PageKind::Node, "a page that a snapshot reads");
        u64::from_be_bytes(page.expect("Rule I18: pinned")[..8].try_into().unwrap())
    }
}

/// Rules: I4, I18, I28. Promise: P25. Whenever a snapshot is taken and however often it is read, it
/// shows the last commit that was visible when it was taken.
fn snapshots_concurrent_with_publishes() {
    let house = House::new();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let house = house.clone();
            thread::spawn(move || {
                let visible = || Seqno(house.visible.load(Ordering::SeqCst));
                let state = house.snapshots.register(visible);
                for _ in 0..3 {
                    assert_eq!(house.read(&state), state.at.0, "the snapshot moved");
                    thread::yield_now();
                }
                house.snapshots.release(&state, None);
            })
        })
        .collect();
    for round in 0..3 {
        house.commit(2 * round + 1);
        house.commit(2 * round + 2);
        house.freeze(2 * round + 2);
        house.apply();
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn a_snapshot_stays_consistent_during_publishes_and_frees() {
    explore(600, snapshots_concurrent_with_publishes);
}
