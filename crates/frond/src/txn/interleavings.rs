//! The sequencer under a model checker: committers, a freezer and readers, with real memtables; and
//! the writers of a tree with a transaction that locks a range of it.
//!
//! Run: `make schedules`.

use crate::{
    Seqno, TreeId,
    cache::FramePool,
    memtable::Memtable,
    message::Tag,
    sync::{Arc, AtomicBool, Mutex, Ordering, explore, thread},
    types::Lsn,
    version::MemtableRef,
};

use super::{HashedKey, LiveWrites, LockGate, Sequencer, TreeWriters};

const TREE: TreeId = TreeId(3);
const COMMITTERS: u64 = 3;
const COMMITS: u64 = 2;

fn slot(base: Seqno) -> Arc<MemtableRef> {
    MemtableRef::new(Arc::new(Memtable::new(FramePool::new(0))), base, Lsn(0))
}

/// The payload of a commit: its own key.
type Payload = [u8; 1];

fn insert(payload: &Payload, seqno: Seqno, slot: &MemtableRef) {
    slot.table.insert(TREE, seqno, std::iter::once((&payload[..], Tag::PUT, &payload[..])));
}

struct House {
    sequencer: Sequencer<Payload>,
    /// All memtables, oldest first.
    slots: Mutex<Vec<Arc<MemtableRef>>>,
    /// The payload of each commit, by seqno from 1 on.
    brought: Mutex<Vec<u8>>,
}

impl House {
    fn new() -> Arc<Self> {
        let first = slot(Seqno(0));
        let sequencer = Sequencer::new(Seqno(0), first.clone());
        Arc::new(Self { sequencer, slots: Mutex::new(vec![first]), brought: Mutex::default() })
    }

    fn assign(&self, key: u8) -> (Arc<Payload>, Seqno, Arc<MemtableRef>) {
        let payload = Arc::new([key]);
        let mut section = self.sequencer.enter(insert);
        let (seqno, slot) = self.sequencer.assign(&mut section, &payload, std::iter::empty());
        self.brought.lock().unwrap().push(key);
        (payload, seqno, slot)
    }

    fn commit(&self, key: u8) -> Seqno {
        let (payload, seqno, slot) = self.assign(key);
        insert(&payload, seqno, &slot);
        self.sequencer.finish(seqno);
        self.sequencer.wait_visible(seqno, insert);
        seqno
    }

    /// Replaces the active memtable with a new one and waits until the old one may be applied.
    fn freeze(&self) {
        let mut section = self.sequencer.enter(insert);
        let last = section.last();
        if last == section.active.base {
            return;
        }
        section.active.freeze(last);
        let fresh = slot(last);
        let old = std::mem::replace(&mut section.active, fresh.clone());
        self.slots.lock().unwrap().push(fresh);
        drop(section);
        self.sequencer.wait_visible(last, insert);
        while old.writers.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        for seqno in old.base.0 + 1..=last.0 {
            assert!(self.holds(&old, seqno), "Rule I2: commit {seqno} is in its memtable");
        }
        let mut cursor = old.table.apply_cursor(TREE, last);
        let mut versions = 0;
        while let Some(row) = cursor.next() {
            versions += row.versions.count() as u64;
        }
        assert_eq!(versions, last.0 - old.base.0, "Rule I2: and nothing else");
    }

    fn holds(&self, slot: &MemtableRef, seqno: u64) -> bool {
        let key = self.brought.lock().unwrap()[seqno as usize - 1];
        holds(slot, seqno, key)
    }

    /// Checks that everything visible is there.
    fn look(&self) {
        let visible = self.sequencer.visible();
        let slots = self.slots.lock().unwrap().clone();
        for seqno in 1..=visible.0 {
            let there = slots.iter().any(|slot| self.holds(slot, seqno));
            assert!(there, "visible, and not there: {seqno}");
        }
    }
}

fn holds(slot: &MemtableRef, seqno: u64, key: u8) -> bool {
    let mut found = false;
    slot.table.get(TREE, &[key], Seqno(seqno), &mut |at, _| {
        found |= at.0 == seqno;
        false
    });
    found
}

/// Rules: I2, I3. A commit returns when it is visible; what is visible is complete; a frozen
/// memtable holds an interval of seqnos.
fn commits_freezes_and_reads() {
    let house = House::new();
    let mut threads: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let house = house.clone();
            thread::spawn(move || {
                for _ in 0..COMMITS {
                    let seqno = house.commit(committer as u8);
                    assert!(house.sequencer.visible() >= seqno, "Rule I3");
                }
            })
        })
        .collect();
    let freezing = house.clone();
    threads.push(thread::spawn(move || (0..2).for_each(|_| freezing.freeze())));
    for _ in 0..2 {
        house.look();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(house.sequencer.visible(), Seqno(COMMITTERS * COMMITS));
}

/// Rule: I3. A commit that stalls after taking its seqno blocks neither commits nor freezes,
/// however many places there are; when it continues, nothing changes. If `half_awake`, it inserts
/// concurrently with its helpers.
fn a_commit_stalls(half_awake: bool) {
    let house = House::new();
    let (payload, seqno, slot) = house.assign(9);
    let mut threads: Vec<_> = (0..2)
        .map(|committer| {
            let house = house.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    house.commit(committer);
                }
                house.look();
            })
        })
        .collect();
    let freezing = house.clone();
    threads.push(thread::spawn(move || freezing.freeze()));
    if half_awake {
        insert(&payload, seqno, &slot);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(house.sequencer.visible(), Seqno(7));
    insert(&payload, seqno, &slot);
    house.sequencer.finish(seqno);
    house.sequencer.wait_visible(seqno, insert);
    house.look();
    assert_eq!(slot.writers.load(Ordering::Acquire), 0, "finished once");
    house.freeze();
}

#[test]
fn a_waiter_inserts_a_stalled_commit() {
    explore(500, || a_commit_stalls(false));
}

#[test]
fn owner_and_helpers_insert_a_stalled_commit_once() {
    explore(500, || a_commit_stalls(true));
}

#[test]
fn visible_commits_are_a_prefix_and_memtables_are_intervals() {
    explore(1500, commits_freezes_and_reads);
}

/// Rule: I33. An inserter appends, is listed, and looks for range locks; a locker registers its
/// range, and looks for writers and their keys. One of the two finds the other.
fn an_insert_into_a_locked_range() {
    let tree = Arc::new(TreeWriters::default());
    let locked = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|number| {
            let (tree, locked) = (tree.clone(), locked.clone());
            let live = Arc::new(LiveWrites::new(number));
            let writing = live.clone();
            let thread = thread::spawn(move || {
                let own = &[number as u8][..];
                writing.lock().insert(HashedKey::new(TREE, own), own, 1).unwrap();
                tree.enter(&writing);
                // Later entries of the tree are only appended.
                writing.lock().insert(HashedKey::new(TREE, &[7, 7]), own, 1).unwrap();
                locked.load(Ordering::SeqCst)
            });
            (live, thread)
        })
        .collect();
    locked.store(true, Ordering::SeqCst);
    let (mut listed, mut found) = (Vec::new(), Vec::new());
    tree.others(None, &mut listed);
    for (number, (live, thread)) in writers.into_iter().enumerate() {
        let is_listed = listed.iter().any(|writer| Arc::ptr_eq(writer, &live));
        let ask = |from: &[u8], found: &mut Vec<u8>| live.pending_key(TREE, from, None, found);
        let first = is_listed && ask(&[], &mut found) && found == [number as u8];
        let second = is_listed && ask(&[7], &mut found);
        let saw_lock = thread.join().unwrap();
        assert!(saw_lock || (first && second), "Rule I33");
        tree.leave(&live);
    }
    listed.clear();
    tree.others(None, &mut listed);
    assert!(listed.is_empty());
}

#[test]
fn an_insert_and_a_range_lock_conflict() {
    explore(1000, an_insert_into_a_locked_range);
}

/// Batches that pass the gate, and transactions that close it: no batch changes what a transaction
/// looks at.
fn no_admitted_batch_runs_during_a_transaction() {
    let (gate, row) = (Arc::new(LockGate::default()), Arc::new(Mutex::new(0u64)));
    let mut threads = Vec::new();
    for number in 0..2 {
        let (gate, row) = (gate.clone(), row.clone());
        threads.push(thread::spawn(move || {
            let passed = gate.pass(number);
            if passed.is_some() {
                *row.lock().unwrap() += 1;
            }
        }));
    }
    let locks = |gate: Arc<LockGate>, row: Arc<Mutex<u64>>| {
        assert!(gate.close(|| true));
        let before = *row.lock().unwrap();
        thread::yield_now();
        let after = *row.lock().unwrap();
        assert_eq!(before, after, "I3: what a transaction has read under its lock stays");
        gate.open();
    };
    threads.push(thread::spawn({
        let (gate, row) = (gate.clone(), row.clone());
        move || locks(gate, row)
    }));
    locks(gate, row);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn batches_pass_the_gate_before_a_transaction_or_not_at_all() {
    explore(1000, no_admitted_batch_runs_during_a_transaction);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: visible before those below are inserted" =>
            visible_commits_are_a_prefix_and_memtables_are_intervals,
        "txn: batches pass a closed gate" =>
            batches_pass_the_gate_before_a_transaction_or_not_at_all,
        "txn: waiting threads do not help" => a_waiter_inserts_a_stalled_commit,
        "txn: helped before it is inserted" => a_waiter_inserts_a_stalled_commit,
    };
    crate::plant::assert_claims_hold("schedules of txn", claims);
}
