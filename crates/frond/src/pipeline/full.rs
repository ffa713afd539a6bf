//! A full disk behind the commits: background work waits for room, and the store goes on (P13).
//!
//! Commits are admitted against a reserve (`store/reserve.rs`), so that an apply or a checkpoint rarely
//! meets a full disk. When one does all the same, it has changed nothing, and is tried again after a
//! moment; commits that would have to wait for it get `Full` instead. Whoever was refused has the pipeline
//! hurry: what is deleted gives its space back two checkpoints after it is applied.
//!
//! Threads: all.

use crate::{
    Error, Result,
    sync::{AtomicU64, Mutex, Ordering},
};

use super::Engine;

/// How long background work rests after it met a full disk, and how often it hurries, milliseconds.
const REST_MILLIS: u64 = 1000;
/// So much more than then, and an attempt is worth its while at once, bytes.
const ROOM_BYTES: u64 = 1 << 20;
/// For how long after a refusal the pipeline hurries, milliseconds.
const HURRY_MILLIS: u64 = 10_000;

/// What background work and commits tell each other of the disk.
#[derive(Debug, Default)]
pub(crate) struct FullDisk {
    /// Why the last attempt failed, until one succeeds.
    why: Mutex<Option<String>>,
    /// Clock before which no attempt is made, milliseconds, unless room has come.
    rests_until: AtomicU64,
    /// What the disk had free when the last attempt failed, bytes.
    free_then: AtomicU64,
    /// Clock until which the pipeline hurries, milliseconds.
    hurries_until: AtomicU64,
    /// Clock of the next round in a hurry, milliseconds.
    next_round: AtomicU64,
}

impl Engine {
    /// Does a unit of background work unless it rests. A full disk is no error of it: `Ok(false)`.
    pub(super) fn with_room(&self, work: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if self.now_millis() < self.full.rests_until.load(Ordering::Relaxed) && !self.room_came() {
            return Ok(false);
        }
        match work() {
            Err(Error::Full(why)) if !plant!("pipeline: a full disk ends the background") => {
                *self.full.why.lock().unwrap() = Some(why);
                let free = self.store.disk_free().unwrap_or(0);
                self.full.free_then.store(free, Ordering::Relaxed);
                self.full.rests_until.store(self.now_millis() + REST_MILLIS, Ordering::Relaxed);
                // Whoever waits for this work need not.
                self.progress_expected.store(0, Ordering::Relaxed);
                self.signal.notify();
                Ok(false)
            }
            Ok(true) => {
                *self.full.why.lock().unwrap() = None;
                Ok(true)
            }
            other => other,
        }
    }

    /// True if the disk has more room than when background work met it full.
    fn room_came(&self) -> bool {
        let enough = self.full.free_then.load(Ordering::Relaxed).saturating_add(ROOM_BYTES);
        self.store.disk_free().is_ok_and(|free| free >= enough)
    }

    /// `Full` while background work has no room, for a commit that would wait for it.
    pub(super) fn check_room(&self) -> Result<()> {
        // Not under the lock: asking a file system may take long.
        let why = self.full.why.lock().unwrap().clone();
        match why {
            Some(why) if !self.room_came() => Err(Error::Full(why)),
            _ => Ok(()),
        }
    }

    /// True while background work has no room on the disk.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.full.why.lock().unwrap().is_some()
    }

    /// Asks for room for a commit (Rule: I24).
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        let admitted = self.store.admit(bytes);
        if matches!(admitted, Err(Error::Full(_))) {
            self.full.hurries_until.store(self.now_millis() + HURRY_MILLIS, Ordering::Relaxed);
            self.signal.notify();
        }
        admitted
    }

    /// What gives space back soonest after a commit was refused: the memtable frozen, so that its deletes
    /// are applied; a version of its own for a checkpoint, while slots keep what is dead. True once a round.
    pub(super) fn hurries(&self) -> bool {
        let now = self.now_millis();
        let is_due = now < self.full.hurries_until.load(Ordering::Relaxed)
            && now >= self.full.next_round.load(Ordering::Relaxed);
        if is_due {
            self.full.next_round.store(now + REST_MILLIS, Ordering::Relaxed);
            self.freeze();
            if self.versions.current().frozen.is_empty() && self.store.space().stats().kept > 0 {
                self.publish_unchanged();
            }
        }
        is_due
    }
}
