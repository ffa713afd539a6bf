//! Tests of what snapshots read when publishes overtake them.

use std::{path::Path, time::Duration};

use super::*;
use crate::{
    TreeId,
    cache::FramePool,
    io::{Env, MemoryVfs},
    memtable::Memtable,
    message::Tag,
    store::{self, StoreOptions},
    types::Lsn,
    version::{Branches, Roots},
};

fn slot(base: u64) -> Arc<MemtableRef> {
    MemtableRef::new(Arc::new(Memtable::new(FramePool::new(0))), Seqno(base), Lsn(0))
}

fn versions() -> Versions {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
    let opened = store::create(&env, Path::new("/store"), StoreOptions::default()).unwrap();
    let roots = (Roots::new(), Branches::default());
    Versions::new(Arc::new(opened.store), VersionNumber(5), Seqno(0), roots, slot(0))
}

/// Freezes the active memtable through `last` and publishes a version that has it applied.
fn apply(versions: &Versions, snapshots: &Snapshots, last: u64) {
    let active = versions.hold().active.clone();
    active.table.insert(TreeId(1), Seqno(last), std::iter::once((&b"k"[..], Tag::PUT, &b""[..])));
    active.freeze(Seqno(last));
    versions.freeze(slot(last));
    let old = versions.hold();
    let publishing = snapshots.publishing();
    publishing.pin_below(&old, &active, versions);
    let publish = VersionNumber(old.publish.0 + 1);
    versions.publish(publish, old.roots.clone(), old.branches.clone(), Some(&active));
}

/// Rules: I4, I28. Invariants 1 and 2.
#[test]
fn a_publish_pins_the_old_version_only_for_older_snapshots() {
    let (versions, snapshots) = (versions(), Snapshots::default());
    let inside = snapshots.register(|| Seqno(3));
    let at_end = snapshots.register(|| Seqno(6));
    apply(&versions, &snapshots, 6);
    assert_eq!(inside.version(&versions).applied, Seqno(0), "the version before");
    assert_eq!(inside.version(&versions).active.last(), Some(Seqno(6)), "and that memtable");
    assert_eq!(at_end.version(&versions).applied, Seqno(6), "the roots end where it does");
    let kept = inside.version(&versions);
    apply(&versions, &snapshots, 9);
    assert!(Arc::ptr_eq(&kept, &inside.version(&versions)), "pinned once");
    assert_eq!(at_end.version(&versions).applied, Seqno(6), "now it is left behind, too");
    assert!(snapshots.pinned_memtable_bytes() > 0);
    snapshots.release(&inside, None);
    snapshots.release(&at_end, None);
    assert_eq!(snapshots.pinned_memtable_bytes(), 0, "memtables without readers are not pinned");
}

#[test]
fn snapshots_of_one_seqno_are_shared_until_the_last_release() {
    let (versions, snapshots) = (versions(), Snapshots::default());
    let one = snapshots.register(|| Seqno(3));
    let other = snapshots.register(|| Seqno(3));
    assert!(Arc::ptr_eq(&one, &other));
    snapshots.share(&one, None);
    snapshots.release(&one, None);
    snapshots.release(&one, None);
    apply(&versions, &snapshots, 6);
    assert_eq!(snapshots.unspilled().len(), 1, "one holds it still");
    snapshots.release(&other, None);
    assert!(snapshots.unspilled().is_empty());
}

/// Of several snapshots inside one memtable, a spill serves each by itself, and only while it reads
/// the same version.
#[test]
fn a_snapshot_moves_to_its_spill_only_if_it_reads_the_same_version() {
    let (versions, snapshots) = (versions(), Snapshots::default());
    let first = snapshots.register(|| Seqno(2));
    let second = snapshots.register(|| Seqno(4));
    apply(&versions, &snapshots, 6);
    let found = snapshots.unspilled();
    let [(old, readers)] = &found[..] else { panic!("{} versions", found.len()) };
    assert_eq!(readers[..], [Seqno(2), Seqno(4)]);
    let pool = FramePool::new(0);
    let spilled = versions.spilled(old, Seqno(2), Arc::default(), Vec::new(), &pool);
    snapshots.move_over(Seqno(2), old, spilled.clone());
    assert!(Arc::ptr_eq(&first.version(&versions), &spilled));
    assert!(Arc::ptr_eq(&second.version(&versions), old));
    let again = versions.spilled(old, Seqno(2), Arc::default(), Vec::new(), &pool);
    snapshots.move_over(Seqno(2), old, again);
    assert!(Arc::ptr_eq(&first.version(&versions), &spilled), "it reads another version by now");
    assert_eq!(snapshots.unspilled().len(), 1, "the second waits");
    assert_eq!(
        snapshots.publishing().oldest_pinned_after(VersionNumber(0)).map(|version| version.publish),
        Some(old.publish)
    );
    assert!(snapshots.publishing().oldest_pinned_after(old.publish).is_none());
}

fn live(snapshots: &Snapshots) -> Vec<(Option<u64>, u64, u64)> {
    let live = snapshots.live(Duration::from_millis(100));
    let of = |one: &LiveSnapshot| {
        (one.reader.map(|reader| reader.id), one.at.0, one.lasts.as_millis() as u64)
    };
    let mut live: Vec<_> = live.iter().map(of).collect();
    live.sort_unstable();
    live
}

/// A snapshot held by no transaction is listed separately from one of the same seqno that a
/// transaction holds.
#[test]
fn a_snapshot_without_a_transaction_is_listed_separately() {
    let snapshots = Snapshots::default();
    let reader = |id| Reader { id, tag: 0 };
    snapshots.tick(Duration::from_millis(10));
    let handles = snapshots.register(|| Seqno(3));
    snapshots.tick(Duration::from_millis(20));
    let first = snapshots.register_for(reader(7), || Seqno(3));
    snapshots.tick(Duration::from_millis(30));
    // A cursor of the transaction.
    snapshots.share(&first, Some(reader(7)));
    assert_eq!(live(&snapshots), [(None, 3, 90), (Some(7), 3, 70), (Some(7), 3, 80)]);
    snapshots.release(&handles, None);
    assert_eq!(live(&snapshots), [(Some(7), 3, 70), (Some(7), 3, 80)], "a cursor is its own");
    snapshots.release(&first, Some(7));
    assert_eq!(live(&snapshots).len(), 1);
    // The time of the non-transactional hold does not come from the transaction's.
    let handles = snapshots.register(|| Seqno(3));
    assert_eq!(live(&snapshots)[0], (None, 3, 70));
    snapshots.release(&first, Some(7));
    assert_eq!(live(&snapshots), [(None, 3, 70)]);
    snapshots.release(&handles, None);
    assert!(live(&snapshots).is_empty() && snapshots.holders() == 0);
}

/// A transaction that holds two snapshots releases the one that it names.
#[test]
fn a_transaction_releases_the_named_one_of_its_snapshots() {
    let snapshots = Snapshots::default();
    let reader = Reader { id: 7, tag: 0 };
    let old = snapshots.register_for(reader, || Seqno(3));
    let new = snapshots.register_for(reader, || Seqno(5));
    snapshots.release(&old, Some(7));
    assert_eq!(live(&snapshots).iter().map(|one| one.1).collect::<Vec<_>>(), [5]);
    snapshots.release(&new, Some(7));
    assert_eq!(snapshots.holders(), 0);
}
