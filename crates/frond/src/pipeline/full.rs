//! A full disk in background work: it waits for space while the store goes on (P13).
//!
//! Commits are admitted against a reserve (`store/reserve.rs`), so that an apply or a checkpoint
//! rarely meets a full disk. If one does, it has changed nothing and is retried after a moment;
//! commits that would have to wait for it get `Full` instead. A refused commit makes the pipeline
//! hurry: the space of deleted rows comes back two checkpoints after the delete is applied.
//!
//! Deletes that find no space in the log are not refused at once. They wait for checkpoints, which
//! shorten it (`wal/relief.rs`), and are refused if a checkpoint itself has no space, or if four
//! checkpoints have freed no space in the log. The wait is bounded: ten seconds, or 1000 attempts
//! if work is done by hand (`Workers::Manual`).
//!
//! Threads: all.

use crate::{
    Error, Result, Seqno,
    io::Workers,
    store::ReserveStats,
    sync::{AtomicBool, AtomicU64, Mutex, Ordering},
    wal::LogUse,
};

use super::Engine;

/// How long background work pauses after it met a full disk, and the interval of rounds while it
/// hurries, milliseconds.
const REST_MILLIS: u64 = 1000;
/// Background work tries again at once if this much more is free than when it failed.
const ROOM_BYTES: u64 = 1 << 20;
/// How long the pipeline hurries after a refusal, milliseconds.
const HURRY_MILLIS: u64 = 10_000;

/// A disk with less than this free is tight: a store that closes there keeps a small reserve, so
/// that deletes can empty it if nothing is free when it is opened again.
pub(super) const TIGHT_BYTES: u64 = 64 << 20;
/// How many checkpoints a delete waits for: the log is trimmed after the second at the latest,
/// unless another record holds it.
const CHECKPOINTS_MAX: u64 = 4;
/// How often a delete checks the log for space, and for how long it waits in between, milliseconds.
const LOOKS_MAX: u32 = 1000;
const LOOK_MILLIS: u64 = 10;

/// A commit's wait for space in the log.
#[derive(Debug)]
pub(crate) struct LogWait {
    log_use: LogUse,
    /// The number of checkpoints, and the clock in milliseconds, when it first found no space.
    since: Option<(u64, u64)>,
    looks: u32,
    /// Whether the store was asked to give back what it can.
    has_asked: bool,
}

impl LogWait {
    /// The wait of a commit that has not checked yet.
    pub fn new(log_use: LogUse) -> Self {
        Self { log_use, since: None, looks: 0, has_asked: false }
    }
}

/// State of the disk that background work and commits share.
#[derive(Debug, Default)]
pub(crate) struct FullDisk {
    /// Why the last attempt failed, until one succeeds.
    why: Mutex<Option<String>>,
    /// Clock before which no attempt is made, milliseconds, unless space became free.
    rests_until: AtomicU64,
    /// Bytes that were free on the disk when the last attempt failed.
    free_then: AtomicU64,
    /// Clock until which the pipeline hurries, milliseconds.
    hurries_until: AtomicU64,
    /// Clock of the next round while the pipeline hurries, milliseconds.
    next_round: AtomicU64,
    /// A delete waits for a shorter log, so the next round is due at once.
    log_awaited: AtomicBool,
    /// The log is being replayed.
    is_replay: AtomicBool,
}

impl FullDisk {
    /// True while the log is being replayed: an apply must not fail for lack of space then, because
    /// it is not retried.
    pub fn is_replay(&self) -> bool {
        self.is_replay.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Does a unit of background work, unless work is paused. A full disk is not an error here but
    /// `Ok(false)`.
    pub(crate) fn with_room(&self, work: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if self.now_millis() < self.full.rests_until.load(Ordering::Relaxed) && !self.room_came() {
            return Ok(false);
        }
        match work() {
            Err(Error::Full(why)) if !plant!("pipeline: a full disk ends the background") => {
                *self.full.why.lock().unwrap() = Some(why);
                let free = self.store.disk_free().unwrap_or(0);
                self.full.free_then.store(free, Ordering::Relaxed);
                self.full.rests_until.store(self.now_millis() + REST_MILLIS, Ordering::Relaxed);
                // No thread need wait for this work any longer.
                self.progress_expected.store(0, Ordering::Relaxed);
                self.signal.notify();
                Ok(false)
            }
            Ok(true) => {
                *self.full.why.lock().unwrap() = None;
                // Otherwise a commit that waits for the next unit would not notice a full disk and
                // wait in vain.
                self.full.rests_until.store(0, Ordering::Relaxed);
                Ok(true)
            }
            other => other,
        }
    }

    /// Starts a replay: until [`settle_recovered`](Self::settle_recovered), an apply needs no disk
    /// space.
    pub(crate) fn begin_replay(&self) {
        self.full.is_replay.store(true, Ordering::Relaxed);
    }

    /// Processes a memtable that replay has frozen. It is applied even if the disk has no space for
    /// checkpoints; otherwise frozen memtables would use up the memory.
    pub(crate) fn go_on_in_replay(&self, last: Seqno) -> Result<()> {
        while self.step()? {}
        self.apply_through(last)
    }

    /// Ends a recovery: applies what was replayed, and makes it durable in the trees by a
    /// checkpoint. Without the checkpoint nothing would be lost, because the log is on the medium
    /// (`wal/recovery.rs`), but a store that is killed soon after each open would keep more log
    /// each time. If the disk has no space for this, returns the reason and leaves it to background
    /// work, which goes on when there is space.
    pub(crate) fn settle_recovered(&self) -> Result<Option<String>> {
        self.full.is_replay.store(false, Ordering::Relaxed);
        // What had no space during the replay may have it now.
        self.full.rests_until.store(0, Ordering::Relaxed);
        self.with_room(|| {
            self.freeze();
            while self.apply_oldest()? {}
            self.publish_unchanged();
            if !plant!("db: recovery ends without a checkpoint") {
                self.run_checkpoint()?;
            }
            Ok(true)
        })?;
        Ok(self.full.why.lock().unwrap().clone())
    }

    /// True if the disk has more free space than when background work met it full.
    fn room_came(&self) -> bool {
        let enough = self.full.free_then.load(Ordering::Relaxed).saturating_add(ROOM_BYTES);
        self.store.disk_free().is_ok_and(|free| free >= enough)
    }

    /// Returns `Full` while background work has no space, for a commit that would wait for it.
    pub(super) fn check_room(&self) -> Result<()> {
        // Not under the lock: asking the file system may take long.
        let why = self.full.why.lock().unwrap().clone();
        match why {
            Some(why) if !self.room_came() => Err(Error::Full(why)),
            _ => Ok(()),
        }
    }

    /// True while background work has no space on the disk.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.full.why.lock().unwrap().is_some()
    }

    /// Reserves disk space for a commit (Rule: I24).
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        let admitted = self.store.admit(bytes);
        if matches!(admitted, Err(Error::Full(_))) {
            self.hurry();
        }
        admitted
    }

    fn hurry(&self) {
        self.full.hurries_until.store(self.now_millis() + HURRY_MILLIS, Ordering::Relaxed);
        self.signal.notify();
    }

    /// Waits until the log may have space for a commit that found none. Called outside the
    /// sequencer's section.
    ///
    /// # Errors
    /// `Full`: for rows if the disk has no space for the log, for deletes as described at the top
    /// of this file. Nothing of the commit has happened then.
    pub(crate) fn wait_for_log(&self, wait: &mut LogWait) -> Result<()> {
        if wait.since.is_some() {
            self.await_log();
        }
        // Read after `await_log`, whose notification would end this thread's own sleep, and before
        // the check, so that a checkpoint that ends after the check still wakes this thread.
        let seen = self.signal.epoch();
        let refused = match self.health.watch(self.log().wait_for_room(wait.log_use)) {
            Err(refused @ Error::Full(_)) => refused,
            waited => return waited,
        };
        if !wait.has_asked {
            // The store file may have free space that the file system lacks: it is given back only
            // beyond a share of the live bytes, and on a small disk that share may be all of it.
            wait.has_asked = true;
            let ReserveStats { target, backed_free, .. } = self.store.reserve_stats();
            let is_enough = backed_free >= target.saturating_add(self.log().reserve_bytes());
            if is_enough && self.health.watch(self.store.give_back(0))? > 0 {
                return Ok(());
            }
        }
        let checkpoints = self.checkpoint.count.load(Ordering::Relaxed);
        let is_first = wait.since.is_none();
        let (since, began) = *wait.since.get_or_insert((checkpoints, self.now_millis()));
        wait.looks += 1;
        if is_first {
            self.hurry();
        }
        // Any event in the store ends a sleep early, so attempts are counted only where work is
        // done by hand.
        let is_over = match self.env.workers {
            Workers::Manual => wait.looks > LOOKS_MAX,
            Workers::Threads(_) => self.now_millis() >= began + u64::from(LOOKS_MAX) * LOOK_MILLIS,
        };
        if wait.log_use == LogUse::Rows
            || checkpoints >= since + CHECKPOINTS_MAX
            || is_over
            || plant!("pipeline: deletes do not wait for the log")
        {
            return Err(refused);
        }
        self.check_room()?;
        match self.env.workers {
            Workers::Manual => {
                self.with_room(|| self.apply_oldest())?;
                self.with_room(|| self.checkpoint_some())?;
            }
            // The background now knows that a delete waits; the log is checked once more before
            // this thread sleeps.
            Workers::Threads(_) if is_first => {}
            Workers::Threads(_) => self.signal.wait(seen, LOOK_MILLIS),
        }
        Ok(())
    }

    /// Notifies the background that a delete waits for a shorter log.
    fn await_log(&self) {
        self.full.log_awaited.store(true, Ordering::Relaxed);
        self.hurry();
    }

    /// Restores the log's reserve after it was used, from the store's space if the disk has none.
    /// Called after a checkpoint, which may have freed space.
    pub(crate) fn refill_log(&self) -> Result<()> {
        if self.log().has_reserve() || !matches!(self.log().refill(), Err(Error::Full(_))) {
            return Ok(());
        }
        self.store.yield_to_log()?;
        match self.log().refill() {
            Err(Error::Full(_)) => Ok(()),
            refilled => refilled,
        }
    }

    /// Does what frees space soonest after a commit was refused: freezes the memtable, so that its
    /// deletes are applied, and publishes a version for a checkpoint while slots keep dead pages.
    /// True once per round.
    pub(super) fn hurries(&self) -> bool {
        let now = self.now_millis();
        let is_awaited = self.full.log_awaited.swap(false, Ordering::Relaxed);
        let is_due = is_awaited
            || now < self.full.hurries_until.load(Ordering::Relaxed)
                && now >= self.full.next_round.load(Ordering::Relaxed);
        if is_due {
            self.full.next_round.store(now + REST_MILLIS, Ordering::Relaxed);
            self.freeze();
            let keeps = is_awaited || self.store.space().stats().kept > 0;
            if self.versions.current().frozen.is_empty() && keeps {
                self.publish_unchanged();
            }
        }
        is_due
    }
}
