//! Registered snapshots, and what becomes of them when the commits they exclude enter the trees.
//!
//! A snapshot is a seqno. While the roots of the current version hold nothing above it, it reads the
//! current version, whichever that is, and pins nothing but its memtables' order. When the memtable
//! that the seqno lies in is applied, the snapshot is given the version before that publish and that
//! one memtable to keep; everything older is in the roots it keeps, everything newer is not its
//! concern. One that lasts until that version is durable is given the memtable's commits as runs on
//! disk in the memtable's stead (`pipeline/spill.rs`): no long reader holds memory (Rule: I28).
//!
//! Invariants
//! 1. Registration and publishing exclude each other: a snapshot is either in the registry when a
//!    publish looks, or was taken after it and lies at or above its boundary (Rule: I4).
//! 2. A snapshot is pinned before the version that it must not read is published.
//! 3. A pinned version is written by a checkpoint as it is while a snapshot keeps it, so that what
//!    died after it does not stay in memory unwritten; only then is its memtable spilled.
//!
//! Threads: all.

use std::collections::BTreeMap;

use crate::{
    Publish, Seqno,
    sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering},
};

use super::{MemSlot, Version, Versions};

/// What a snapshot reads from.
#[derive(Debug)]
pub(crate) struct SnapshotState {
    pub at: Seqno,
    pinned: Pinned,
    /// False for a named snapshot: it has a version of its own from the beginning, which no publish
    /// passes by.
    is_registered: bool,
}

/// The version of a snapshot that the current one has gone beyond. Nearly every snapshot ends before
/// that, so it must cost nothing to be without.
#[derive(Debug, Default)]
struct Pinned {
    is_set: AtomicBool,
    version: Mutex<Option<Arc<Version>>>,
}

/// All snapshots that are held, by seqno and how many hold it.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seqno, (Arc<SnapshotState>, usize)>>,
}

/// The registry, locked for a publish.
pub(crate) struct Publishing<'a> {
    held: MutexGuard<'a, BTreeMap<Seqno, (Arc<SnapshotState>, usize)>>,
}

impl Snapshots {
    /// Registers a snapshot of what `visible` gives. Snapshots of one seqno share their state.
    pub fn register(&self, visible: impl FnOnce() -> Seqno) -> Arc<SnapshotState> {
        let mut held = self.held.lock().unwrap();
        let at = visible();
        let state = || SnapshotState { at, pinned: Pinned::default(), is_registered: true };
        let fresh = || (Arc::new(state()), 0);
        let (state, count) = held.entry(at).or_insert_with(fresh);
        *count += 1;
        state.clone()
    }

    /// One more holder of a registered snapshot.
    pub fn share(&self, state: &SnapshotState) {
        if !state.is_registered {
            return;
        }
        if let Some((_, count)) = self.held.lock().unwrap().get_mut(&state.at) {
            *count += 1;
        }
    }

    /// One holder less.
    pub fn release(&self, state: &SnapshotState) {
        if !state.is_registered {
            return;
        }
        let mut held = self.held.lock().unwrap();
        if let Some((_, count)) = held.get_mut(&state.at) {
            *count -= 1;
            if *count == 0 {
                held.remove(&state.at);
            }
        }
    }

    /// Keeps registrations away while a publish is decided and done.
    pub fn publishing(&self) -> Publishing<'_> {
        Publishing { held: self.held.lock().unwrap() }
    }

    /// Pinned versions that still hold a memtable with anything in it, oldest first, and the seqnos
    /// of the snapshots that read them, ascending.
    pub fn unspilled(&self) -> Vec<(Arc<Version>, Vec<Seqno>)> {
        let mut found: Vec<(Arc<Version>, Vec<Seqno>)> = Vec::new();
        for (&at, (state, _)) in &*self.held.lock().unwrap() {
            let Some(version) = state.pinned.get() else { continue };
            if version.active.table.entries() == 0 {
                continue;
            }
            match found.last_mut() {
                Some((last, readers)) if Arc::ptr_eq(last, &version) => readers.push(at),
                _ => found.push((version, vec![at])),
            }
        }
        found
    }

    /// The snapshot at `at`, if it is still held and reads `old`, reads `new` from now on.
    pub fn move_over(&self, at: Seqno, old: &Arc<Version>, new: Arc<Version>) {
        let held = self.held.lock().unwrap();
        if let Some((state, _)) = held.get(&at)
            && state.pinned.get().is_some_and(|pinned| Arc::ptr_eq(&pinned, old))
        {
            state.pinned.set(new);
        }
    }

    /// Bytes of memtables that only snapshots hold.
    pub fn pinned_memtable_bytes(&self) -> u64 {
        let held = self.held.lock().unwrap();
        let mut seen: Vec<*const MemSlot> = Vec::new();
        let mut bytes = 0;
        for (state, _) in held.values() {
            if let Some(version) = state.pinned.get() {
                let slot = Arc::as_ptr(&version.active);
                if !seen.contains(&slot) {
                    seen.push(slot);
                    bytes += version.active.table.bytes() as u64;
                }
            }
        }
        bytes
    }
}

impl Publishing<'_> {
    /// The oldest pinned version younger than `written`.
    pub fn oldest_pinned_after(&self, written: Publish) -> Option<Arc<Version>> {
        let pinned = self.held.values().filter_map(|(state, _)| state.pinned.get());
        pinned.filter(|version| version.publish > written).min_by_key(|version| version.publish)
    }

    /// Pins every snapshot that the publish of `slot` leaves behind: those below its last commit.
    pub fn pin_below(&self, old: &Arc<Version>, slot: &Arc<MemSlot>, versions: &Versions) {
        let Some(last) = slot.last() else { return };
        let mut kept: Option<Arc<Version>> = None;
        for (&at, (state, _)) in self.held.range(..last) {
            if state.pinned.get().is_none() {
                debug_assert!(at >= old.applied, "snapshots.rs invariant 1");
                let kept = kept.get_or_insert_with(|| versions.with_memtable(old, slot));
                state.pinned.set(kept.clone());
            }
        }
    }
}

impl Pinned {
    fn get(&self) -> Option<Arc<Version>> {
        // Set before the version that the snapshot must not read is published, so whoever sees that
        // one sees this too.
        self.is_set.load(Ordering::Acquire).then(|| self.version.lock().unwrap().clone()).flatten()
    }

    fn set(&self, version: Arc<Version>) {
        *self.version.lock().unwrap() = Some(version);
        self.is_set.store(true, Ordering::Release);
    }
}

impl SnapshotState {
    /// What reads a named snapshot's version.
    pub fn named(version: Version) -> Arc<Self> {
        let (at, pinned) = (version.applied, Pinned::default());
        pinned.set(Arc::new(version));
        Arc::new(Self { at, pinned, is_registered: false })
    }

    /// The version to read, filtered by `at`.
    pub fn version(&self, versions: &Versions) -> Arc<Version> {
        loop {
            if let Some(pinned) = self.pinned.get()
                && !plant!("version: a snapshot reads past its version")
            {
                return pinned;
            }
            let current = versions.hold();
            if current.applied <= self.at || plant!("version: a snapshot reads past its version") {
                return current;
            }
            // A publish went by since the first look; the pin stands before the swap.
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
