//! Tests of a slot that cannot be read at one open, but can be read at the next.

use super::basics::{L, dir, env, one_tree, publish};
use crate::{
    error::{Error, Result},
    io::{ALIGN, BadRanges, Env, OpenMode},
    store::*,
    sync::Arc,
    types::VersionNumber,
};

/// A store with three checkpoints whose process was killed: the disk below, and one whose sectors
/// may be bad.
struct Killed {
    below: Env,
    env: Env,
    bad: BadRanges,
    roots: [RootDirectory; 3],
    newest: Superblock,
}

fn killed() -> Killed {
    let below = env();
    let bad = BadRanges::default();
    let env = Env { vfs: Arc::new(bad.over(below.vfs.clone())), ..below.clone() };
    let store = create(&below, dir(), StoreOptions::default()).unwrap().store;
    let mut v = store.counts_from();
    let mut old: Option<Link> = None;
    let roots = [0u8; 3].map(|_| {
        v = v.next();
        let link = store.put_page(PageKind::Node, v, L, &[&[7; 100]]).unwrap();
        if let Some(old) = old.replace(link) {
            store.die(&old, L, v).unwrap();
        }
        publish(&store, v, &one_tree(link));
        one_tree(link)
    });
    let newest = store.newest();
    Killed { below, env, bad, roots, newest }
}

impl Killed {
    fn open(&self) -> Result<Opened> {
        open(&self.env, dir(), StoreOptions::default())
    }

    /// Places that make an open pass over the newest slot while they cannot be read.
    fn places(&self) -> [(&'static str, u64); 3] {
        let slot = (self.newest.sequence % 2) * (64 << 10);
        let (roots, map) = (self.newest.roots.unwrap(), self.newest.map.unwrap());
        [("slot", slot), ("root directory", roots.offset), ("space map", map.offset)]
    }

    fn break_reads(&self, at: u64) {
        *self.bad.reads.lock().unwrap() = Some(at..at + ALIGN as u64);
    }

    fn heal(&self) {
        *self.bad.reads.lock().unwrap() = None;
        *self.bad.writes.lock().unwrap() = None;
    }

    fn image(&self) -> Vec<u8> {
        let file = self.below.vfs.open(&dir().join(STORE_FILE), OpenMode::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }
}

/// Promise: P10. The open that falls back may be killed at any moment after it has started to write
/// pages.
#[test]
pub(super) fn a_slot_skipped_by_recovery_is_never_chosen_again() {
    for index in 0..3 {
        let store = killed();
        let (what, at) = store.places()[index];
        store.break_reads(at);
        let opened = store.open().unwrap();
        assert_eq!(opened.roots, store.roots[1], "{what}");
        assert_eq!(opened.warnings.len(), 1, "{what}: {:?}", opened.warnings);
        assert_eq!(opened.superblock, opened.store.newest());
        // It fills what only the passed-over version used, and is killed before its first
        // checkpoint.
        let v = opened.store.counts_from().next();
        for _ in 0..20 {
            opened.store.put_page(PageKind::Node, v, L, &[b"written after the fallback"]).unwrap();
        }
        drop(opened);
        store.heal();
        let opened = store.open().unwrap();
        assert_eq!(
            opened.roots, store.roots[1],
            "{what}: the version that was passed over is back"
        );
        assert!(opened.warnings.is_empty(), "{what}: {:?}", opened.warnings);
        for link in opened.roots.links() {
            opened.store.read_page(link, PageKind::Node, "a page").unwrap();
        }
        // The store continues from there.
        let v = opened.store.counts_from().next();
        let link = opened.store.put_page(PageKind::Node, v, L, &[b"next"]).unwrap();
        publish(&opened.store, v, &one_tree(link));
        drop(opened);
        assert_eq!(store.open().unwrap().roots, one_tree(link), "{what}");
    }
}

/// The sequence and the limit of the slot are unknown to the open that cannot read it; numbers
/// issued afterwards are still above both. Rule: I20.
#[test]
pub(super) fn numbers_of_a_slot_that_cannot_be_read_are_not_issued_again() {
    for index in 0..3 {
        let store = killed();
        let (what, at) = store.places()[index];
        let mut issued = store.newest.sequence;
        let mut limit = store.newest.publish_limit;
        // From the second round on the heir cannot be read. For the pages that the passed-over slot
        // linked there is no second round, because nothing links them any more.
        for round in 0..if index == 0 { 5 } else { 1 } {
            store.break_reads(at);
            let opened = store.open().unwrap();
            let newest = opened.store.newest();
            assert!(newest.sequence > issued, "{what}, round {round}: {newest:?} after {issued}");
            let from = opened.store.counts_from();
            assert!(from >= limit, "{what}, round {round}: births above {from}, limit {limit}");
            (issued, limit) = (newest.sequence, VersionNumber(from.0 + (1 << 32)));
            drop(opened);
            store.heal();
        }
        // The chosen slot stays the only one that can be read.
        let opened = store.open().unwrap();
        let v = opened.store.counts_from().next();
        let next = publish(&opened.store, v, &store.roots[1]);
        assert!(next.sequence > issued, "{what}");
    }
}

/// A slot that can be neither read nor replaced may become readable later: the open fails, and the
/// error says where.
#[test]
pub(super) fn a_slot_that_cannot_be_replaced_fails_the_open() {
    for index in 0..3 {
        let store = killed();
        let (what, at) = store.places()[index];
        let slot = store.places()[0].1;
        store.break_reads(at);
        *store.bad.writes.lock().unwrap() = Some(slot..slot + ALIGN as u64);
        let before = store.image();
        match store.open() {
            Err(Error::Io { action, offset, .. }) => {
                assert_eq!(offset, slot, "{what}");
                assert!(action.contains("slot that was passed over"), "{what}: {action}");
            }
            other => panic!("{what}: {other:?}"),
        }
        let mut after = store.image();
        let owner = 128 << 10..(128 << 10) + ALIGN;
        after[owner.clone()].copy_from_slice(&before[owner]);
        assert_eq!(after, before, "{what}: nothing but the owner page was written");
        store.heal();
        assert_eq!(store.open().unwrap().roots, store.roots[2], "{what}: nothing was lost");
    }
}

/// Promise: P21.
#[test]
fn a_read_only_open_that_falls_back_writes_nothing() {
    for index in 0..3 {
        let store = killed();
        let (what, at) = store.places()[index];
        store.break_reads(at);
        let before = store.image();
        let options = StoreOptions { read_only: true, ..StoreOptions::default() };
        let opened = open(&store.env, dir(), options).unwrap();
        assert_eq!(opened.roots, store.roots[1], "{what}");
        drop(opened);
        assert_eq!(store.image(), before, "{what}");
        store.heal();
        assert_eq!(store.open().unwrap().roots, store.roots[2], "{what}");
    }
}
