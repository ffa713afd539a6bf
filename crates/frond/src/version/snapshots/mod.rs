//! The registry of snapshots, and what a snapshot reads once later commits are applied to the
//! trees.
//!
//! A snapshot is a seqno. While the roots of the current version hold nothing above it, the
//! snapshot reads whatever version is current, and keeps nothing alive. When the memtable that its
//! seqno lies in is applied, the snapshot gets the version before that publish and that one
//! memtable to keep: everything older is in the roots of that version, and everything newer is
//! invisible to the snapshot. If the snapshot lasts until that version is durable, the memtable's
//! commits are written to disk as runs, which take the memtable's place (`pipeline/spill.rs`). So
//! no long reader holds memory (Rule: I28).
//!
//! Every transaction that reads has a snapshot, even if it does only one read. So that
//! registrations rarely contend, there are several lists, each shared by few threads; a publish
//! locks all lists. The time at which a snapshot was taken comes from a variable that a thread of
//! the store sets from time to time: reading it is cheap, since it hardly ever changes.
//!
//! Invariants
//! 1. Registration and publishing exclude each other: a snapshot is either in the registry when a
//!    publish looks, or was taken after it and is at or above its boundary (Rule: I4).
//! 2. A snapshot is pinned before the version that it must not read is published.
//! 3. A checkpoint writes a pinned version as it is while a snapshot keeps it, so that what died
//!    after it does not stay in memory unwritten; only then is its memtable spilled.
//!
//! Threads: all. Ranks: lists in their order.

use std::time::Duration;

use arc_swap::Guard;

use crate::{
    Seqno,
    striped::{CacheLine, Striped},
    sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, thread_number},
    types::VersionNumber,
};

use super::{MemtableRef, Version, Versions};

/// Number of lists. Locking one costs a publish about ten nanoseconds; registrations contend only
/// if their threads share a list.
const LISTS: usize = if cfg!(shuttle) { 2 } else { 16 };

/// A snapshot: its seqno, and the version that it reads.
#[derive(Debug)]
pub(crate) struct SnapshotState {
    pub at: Seqno,
    pinned: Pinned,
    /// False for a named snapshot: it has a version of its own from the start, which later
    /// publishes do not affect.
    is_registered: bool,
    /// The list that a registered snapshot is in.
    list: usize,
}

/// A transaction that holds a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reader {
    /// The id, and the program's tag for it.
    pub id: u64,
    pub tag: u64,
}

/// A snapshot that is held by a transaction or, if `reader` is `None`, by handles and cursors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LiveSnapshot {
    pub reader: Option<Reader>,
    pub at: Seqno,
    pub lasts: Duration,
}

/// The version that a snapshot keeps once a publish has gone beyond it. Nearly every snapshot ends
/// before that, so the empty case must be cheap.
#[derive(Debug, Default)]
struct Pinned {
    is_set: AtomicBool,
    version: Mutex<Option<Arc<Version>>>,
}

/// A snapshot registered in one list, and its holders.
#[derive(Debug)]
struct Held {
    state: Arc<SnapshotState>,
    holders: usize,
    /// Number of holders that are not transactions, and the time in milliseconds at which the first
    /// of these was added.
    handles: usize,
    since: u64,
}

/// The snapshots registered in one list.
#[derive(Debug, Default)]
struct Listed {
    /// Registered snapshots, by seqno, ascending.
    held: Vec<Held>,
    /// Transactions among the holders, with the seqno they hold and since when, milliseconds; one
    /// entry for each hold.
    readers: Vec<(Reader, Seqno, u64)>,
}

/// The registry of snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    lists: Striped<Mutex<Listed>, LISTS>,
    /// The time, milliseconds.
    now: CacheLine<AtomicU64>,
}

/// The registry, locked for a publish.
pub(crate) struct Publishing<'a> {
    lists: Vec<MutexGuard<'a, Listed>>,
}

/// A time of the store's clock in milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The position of a seqno in a list, or where it would be inserted.
fn find(held: &[Held], at: Seqno) -> Result<usize, usize> {
    held.binary_search_by_key(&at, |held| held.state.at)
}

impl Snapshots {
    /// Sets the time: snapshots count as taken at this time until the next call.
    pub fn tick(&self, now: Duration) {
        self.now.0.store(millis(now), Ordering::Relaxed);
    }

    /// Registers a snapshot at the seqno that `visible` returns. Snapshots of one seqno share their
    /// state if their threads share a list.
    pub fn register(&self, visible: impl FnOnce() -> Seqno) -> Arc<SnapshotState> {
        self.register_by(visible, None)
    }

    /// Registers a snapshot for a transaction, like [`register`](Self::register).
    pub fn register_for(
        &self,
        reader: Reader,
        visible: impl FnOnce() -> Seqno,
    ) -> Arc<SnapshotState> {
        self.register_by(visible, Some(reader))
    }

    fn register_by(
        &self,
        visible: impl FnOnce() -> Seqno,
        reader: Option<Reader>,
    ) -> Arc<SnapshotState> {
        let list = thread_number() % LISTS;
        // Relaxed: no other data depends on it. Some milliseconds more or less do not matter.
        let since = self.now.0.load(Ordering::Relaxed);
        let mut listed = self.lists.at(list).lock().unwrap();
        let held = &mut listed.held;
        let at = visible();
        let index = find(held, at).unwrap_or_else(|index| {
            let state = SnapshotState { at, pinned: Pinned::default(), is_registered: true, list };
            let state = Arc::new(state);
            held.insert(index, Held { state, holders: 0, handles: 0, since: 0 });
            index
        });
        listed.hold(index, reader, since);
        listed.held[index].state.clone()
    }

    fn list(&self, state: &SnapshotState) -> MutexGuard<'_, Listed> {
        self.lists.at(state.list).lock().unwrap()
    }

    /// Adds a holder to a registered snapshot: a transaction, or `None` for a handle or cursor.
    pub fn share(&self, state: &SnapshotState, reader: Option<Reader>) {
        if !state.is_registered {
            return;
        }
        let since = self.now.0.load(Ordering::Relaxed);
        let mut listed = self.list(state);
        if let Ok(index) = find(&listed.held, state.at) {
            listed.hold(index, reader, since);
        }
    }

    /// Removes a holder: one of the transaction `id`, or a handle or cursor.
    pub fn release(&self, state: &SnapshotState, id: Option<u64>) {
        if state.is_registered {
            self.list(state).remove_holder(state, id);
        }
    }

    /// All snapshots held at time `now`: one entry for each transaction's hold, and one for each
    /// snapshot with other holders.
    pub fn live(&self, now: Duration) -> Vec<LiveSnapshot> {
        let lasts = |since: u64| Duration::from_millis(millis(now).saturating_sub(since));
        let mut live = Vec::new();
        for list in self.lists.iter() {
            let listed = list.lock().unwrap();
            for &(reader, at, since) in &listed.readers {
                live.push(LiveSnapshot { reader: Some(reader), at, lasts: lasts(since) });
            }
            for held in listed.held.iter().filter(|held| held.handles > 0) {
                live.push(LiveSnapshot {
                    reader: None,
                    at: held.state.at,
                    lasts: lasts(held.since),
                });
            }
        }
        live
    }

    /// Number of holders of snapshots: transactions, handles and cursors.
    pub fn holders(&self) -> u64 {
        let of = |list: &Mutex<Listed>| {
            let held = &list.lock().unwrap().held;
            held.iter().map(|held| held.holders as u64).sum::<u64>()
        };
        self.lists.iter().map(of).sum()
    }

    /// Versions that only snapshots still read, each once.
    pub fn pinned_versions(&self) -> Vec<VersionNumber> {
        let pinned = self.publishing().pinned();
        let mut versions: Vec<_> = pinned.iter().map(|(_, version)| version.publish).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }

    /// Locks the registry while a publish is decided and done.
    pub fn publishing(&self) -> Publishing<'_> {
        Publishing { lists: self.lists.iter().map(|list| list.lock().unwrap()).collect() }
    }

    /// Pinned versions that still hold a memtable with anything in it, oldest first, and the seqnos
    /// of the snapshots that read them, ascending.
    pub fn unspilled(&self) -> Vec<(Arc<Version>, Vec<Seqno>)> {
        let mut pinned = self.publishing().pinned();
        pinned.retain(|(_, version)| version.active.table.entries() > 0);
        pinned.sort_by_key(|(at, _)| *at);
        let mut found: Vec<(Arc<Version>, Vec<Seqno>)> = Vec::new();
        for (at, version) in pinned {
            match found.last_mut() {
                // One snapshot, registered in two lists.
                Some((last, readers)) if Arc::ptr_eq(last, &version) && readers.contains(&at) => {}
                Some((last, readers)) if Arc::ptr_eq(last, &version) => readers.push(at),
                _ => found.push((version, vec![at])),
            }
        }
        found
    }

    /// Makes snapshots at `at` that are still held and read `old` read `new` from now on.
    pub fn move_over(&self, at: Seqno, old: &Arc<Version>, new: Arc<Version>) {
        for listed in &self.publishing().lists {
            if let Ok(index) = find(&listed.held, at)
                && let state = &listed.held[index].state
                && state.pinned.get().is_some_and(|pinned| Arc::ptr_eq(&pinned, old))
            {
                state.pinned.set(new.clone());
            }
        }
    }

    /// Bytes of memtables that only snapshots hold.
    pub fn pinned_memtable_bytes(&self) -> u64 {
        let mut seen: Vec<*const MemtableRef> = Vec::new();
        let mut bytes = 0;
        for (_, version) in self.publishing().pinned() {
            let slot = Arc::as_ptr(&version.active);
            if !seen.contains(&slot) {
                seen.push(slot);
                bytes += version.active.table.bytes() as u64;
            }
        }
        bytes
    }
}

impl Listed {
    fn hold(&mut self, index: usize, reader: Option<Reader>, since: u64) {
        let Self { held, readers } = self;
        let held = &mut held[index];
        held.holders += 1;
        match reader {
            Some(reader) => readers.push((reader, held.state.at, since)),
            None => {
                if held.handles == 0 {
                    held.since = since;
                }
                held.handles += 1;
            }
        }
    }

    fn remove_holder(&mut self, state: &SnapshotState, id: Option<u64>) {
        let Self { held, readers } = self;
        let Ok(index) = find(held, state.at) else { return };
        match id {
            None => held[index].handles -= 1,
            Some(id) => {
                // Searched from the end: the most recent holds usually end first.
                let own =
                    |(reader, at, _): &(Reader, Seqno, u64)| (reader.id, *at) == (id, state.at);
                if let Some(index) = readers.iter().rposition(own) {
                    readers.swap_remove(index);
                }
            }
        }
        held[index].holders -= 1;
        if held[index].holders == 0 {
            held.remove(index);
        }
    }
}

impl Publishing<'_> {
    /// Pinned versions, with the snapshots that read them.
    fn pinned(&self) -> Vec<(Seqno, Arc<Version>)> {
        let all = self.lists.iter().flat_map(|listed| listed.held.iter());
        all.filter_map(|held| Some((held.state.at, held.state.pinned.get()?))).collect()
    }

    /// The oldest pinned version newer than `written`.
    pub fn oldest_pinned_after(&self, written: VersionNumber) -> Option<Arc<Version>> {
        let pinned = self.pinned().into_iter().map(|(_, version)| version);
        pinned.filter(|version| version.publish > written).min_by_key(|version| version.publish)
    }

    /// Pins the snapshots that the publish of `slot` overtakes: those below its last commit.
    pub fn pin_below(&self, old: &Arc<Version>, slot: &Arc<MemtableRef>, versions: &Versions) {
        let Some(last) = slot.last() else { return };
        let mut kept: Option<Arc<Version>> = None;
        let below = |held: &[Held]| find(held, last).unwrap_or_else(|index| index);
        let held = self.lists.iter().map(|listed| &listed.held);
        for Held { state, .. } in held.flat_map(|held| &held[..below(held)]) {
            if state.pinned.get().is_none() {
                debug_assert!(state.at >= old.applied, "snapshots.rs invariant 1");
                let kept = kept.get_or_insert_with(|| match slot.spilled() {
                    None => versions.with_memtable(old, slot),
                    // They are before its only commit and read nothing of it.
                    Some(_) => versions.with_memtable(old, &versions.nothing_above(slot)),
                });
                state.pinned.set(kept.clone());
            }
        }
    }
}

impl Pinned {
    fn get(&self) -> Option<Arc<Version>> {
        // Acquire pairs with the release in `set`. The pin is set before the version that the
        // snapshot must not read is published, so a reader that sees that version sees the pin,
        // too.
        self.is_set.load(Ordering::Acquire).then(|| self.version.lock().unwrap().clone()).flatten()
    }

    fn set(&self, version: Arc<Version>) {
        *self.version.lock().unwrap() = Some(version);
        self.is_set.store(true, Ordering::Release);
    }
}

impl SnapshotState {
    /// A state that reads a named snapshot's version.
    pub fn named(version: Version) -> Arc<Self> {
        let (at, pinned) = (version.applied, Pinned::default());
        pinned.set(Arc::new(version));
        Arc::new(Self { at, pinned, is_registered: false, list: 0 })
    }

    /// The version to read, filtered by `at`.
    pub fn version(&self, versions: &Versions) -> Arc<Version> {
        Guard::into_inner(self.version_for_a_call(versions))
    }

    /// The version to read during one call. Touches no reference count that readers share.
    pub fn version_for_a_call(&self, versions: &Versions) -> Guard<Arc<Version>> {
        loop {
            if let Some(pinned) = self.pinned.get()
                && !plant!("version: a snapshot reads past its version")
            {
                return Guard::from_inner(pinned);
            }
            let current = versions.current();
            if current.applied <= self.at || plant!("version: a snapshot reads past its version") {
                return current;
            }
            // A publish happened since the first check; the pin was set before its swap.
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
