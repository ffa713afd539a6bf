//! The sequencer under a model checker: committers, a freezer and readers, with real memtables.
//!
//! Run: `make schedules`.

use crate::{
    Lsn, Seqno, Tag, TreeId,
    cache::FramePool,
    memtable::Memtable,
    sync::{Arc, Mutex, Ordering, explore, thread},
    version::MemSlot,
};

use super::Sequencer;

const TREE: TreeId = TreeId(3);
const COMMITTERS: u64 = 3;
const COMMITS: u64 = 2;

fn slot(base: Seqno) -> Arc<MemSlot> {
    MemSlot::new(Arc::new(Memtable::new(FramePool::new(0))), base, Lsn(0))
}

struct House {
    sequencer: Sequencer,
    /// Every memtable there ever was, oldest first.
    slots: Mutex<Vec<Arc<MemSlot>>>,
}

impl House {
    fn new() -> Arc<Self> {
        let first = slot(Seqno(0));
        let sequencer = Sequencer::new(Seqno(0), first.clone());
        Arc::new(Self { sequencer, slots: Mutex::new(vec![first]) })
    }

    fn commit(&self) -> Seqno {
        let mut section = self.sequencer.enter();
        let (seqno, slot) = section.assign();
        drop(section);
        let key = seqno.0.to_be_bytes();
        slot.table.insert(TREE, seqno, std::iter::once((&key[..], Tag::PUT, &key[..])));
        self.sequencer.finish(seqno, &slot);
        self.sequencer.wait_visible(seqno);
        seqno
    }

    /// Swaps the active memtable for a new one and waits until the old one may be applied.
    fn freeze(&self) {
        let mut section = self.sequencer.enter();
        let last = section.last();
        if last == section.active.base {
            return;
        }
        section.active.freeze(last);
        let fresh = slot(last);
        let old = std::mem::replace(&mut section.active, fresh.clone());
        self.slots.lock().unwrap().push(fresh);
        drop(section);
        self.sequencer.wait_visible(last);
        while old.writers.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        let interval = old.base.0 + 1..=last.0;
        assert_eq!(old.table.entries() as u64, last.0 - old.base.0, "Rule I2: {interval:?}");
        for seqno in interval {
            assert!(holds(&old, seqno), "Rule I2: commit {seqno} is in its memtable");
        }
    }
}

fn holds(slot: &MemSlot, seqno: u64) -> bool {
    let mut found = false;
    slot.table.get(TREE, &seqno.to_be_bytes(), Seqno(seqno), &mut |at, _| {
        found |= at.0 == seqno;
        false
    });
    found
}

/// Rules: I2, I3. A commit returns when it is visible; what is visible is whole; a frozen memtable is an
/// interval.
fn commits_freezes_and_reads() {
    let house = House::new();
    let mut threads: Vec<_> = (0..COMMITTERS)
        .map(|_| {
            let house = house.clone();
            thread::spawn(move || {
                for _ in 0..COMMITS {
                    let seqno = house.commit();
                    assert!(house.sequencer.visible() >= seqno, "Rule I3");
                }
            })
        })
        .collect();
    let freezing = house.clone();
    threads.push(thread::spawn(move || (0..2).for_each(|_| freezing.freeze())));
    for _ in 0..2 {
        let visible = house.sequencer.visible();
        let slots = house.slots.lock().unwrap().clone();
        for seqno in 1..=visible.0 {
            assert!(slots.iter().any(|slot| holds(slot, seqno)), "visible, and not there: {seqno}");
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(house.sequencer.visible(), Seqno(COMMITTERS * COMMITS));
}

#[test]
fn what_is_visible_is_a_prefix_and_memtables_are_intervals() {
    explore(1500, commits_freezes_and_reads);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: visible before those below are inserted" => what_is_visible_is_a_prefix_and_memtables_are_intervals,
    };
    crate::plant::assert_claims_hold("schedules of txn", claims);
}
