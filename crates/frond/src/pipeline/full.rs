//! A full disk behind the commits: background work waits for room, and the store goes on (P13).
//!
//! Commits are admitted against a reserve (`store/reserve.rs`), so that an apply or a checkpoint rarely
//! meets a full disk. When one does all the same, it has changed nothing, and is tried again after a
//! moment; commits that would have to wait for it get `Full` instead. Whoever was refused has the pipeline
//! hurry: what is deleted gives its space back two checkpoints after it is applied.
//!
//! Deletes that find no room in the log wait for checkpoints, which shorten it, instead of being refused
//! (`wal/relief.rs`). They are refused if a checkpoint has no room itself, or if four of them have given no
//! room to the log. So the wait has an end: each attempt waits for at most 10 ms, and there are 1000.
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

/// How long background work rests after it met a full disk, and how often it hurries, milliseconds.
const REST_MILLIS: u64 = 1000;
/// So much more than then, and an attempt is worth its while at once, bytes.
const ROOM_BYTES: u64 = 1 << 20;
/// For how long after a refusal the pipeline hurries, milliseconds.
const HURRY_MILLIS: u64 = 10_000;

/// A disk with less than this free is tight: a store that closes there keeps a little in reserve, with which
/// it can be emptied by deletes if nothing is free when it is opened again.
pub(super) const TIGHT_BYTES: u64 = 64 << 20;
/// Checkpoints that a delete waits for: the log is trimmed after the second at the latest, unless another
/// record holds it.
const CHECKPOINTS_MAX: u64 = 4;
/// How often a delete looks for room in the log, and how long it waits between two looks, milliseconds.
const LOOKS_MAX: u32 = 1000;
const LOOK_MILLIS: u64 = 10;

/// A commit's wait for room in the log.
#[derive(Debug)]
pub(crate) struct LogWait {
    log_use: LogUse,
    /// Checkpoints when it first found none.
    since: Option<u64>,
    looks: u32,
    /// The store has given back what it could.
    has_asked: bool,
}

impl LogWait {
    /// Of a commit that has not looked yet.
    pub fn new(log_use: LogUse) -> Self {
        Self { log_use, since: None, looks: 0, has_asked: false }
    }
}

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
    /// A delete waits for a shorter log: the next round is due at once.
    log_awaited: AtomicBool,
    /// The log is being replayed.
    is_replay: AtomicBool,
}

impl FullDisk {
    /// True while the log is being replayed: then an apply must not fail for want of room, for it is not tried again.
    pub fn is_replay(&self) -> bool {
        self.is_replay.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Does a unit of background work unless it rests. A full disk is no error of it: `Ok(false)`.
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
                // Whoever waits for this work need not.
                self.progress_expected.store(0, Ordering::Relaxed);
                self.signal.notify();
                Ok(false)
            }
            Ok(true) => {
                *self.full.why.lock().unwrap() = None;
                // Or a commit that waits for the next unit would be told of no full disk, and wait for nothing.
                self.full.rests_until.store(0, Ordering::Relaxed);
                Ok(true)
            }
            other => other,
        }
    }

    /// From here on until [`settle_recovered`](Self::settle_recovered), or for good, an apply needs no room on the disk.
    pub(crate) fn begin_replay(&self) {
        self.full.is_replay.store(true, Ordering::Relaxed);
    }

    /// A memtable that a replay has frozen goes on its way. A disk without room for checkpoints keeps none from being
    /// applied: they would take the memory.
    pub(crate) fn go_on_in_replay(&self, last: Seqno) -> Result<()> {
        while self.step()? {}
        self.apply_through(last)
    }

    /// The end of a recovery: what was replayed is applied, and a checkpoint makes it durable in trees. Without it
    /// nothing would be lost, for the log is on the medium (`wal/recovery.rs`); but a store that is killed soon
    /// after each opening would keep more log each time. Says why, if the disk has no room for that: then it is
    /// left to the background, which goes on when it has.
    pub(crate) fn settle_recovered(&self) -> Result<Option<String>> {
        self.full.is_replay.store(false, Ordering::Relaxed);
        // What had no room amid the replay may have it now.
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
            self.hurry();
        }
        admitted
    }

    fn hurry(&self) {
        self.full.hurries_until.store(self.now_millis() + HURRY_MILLIS, Ordering::Relaxed);
        self.signal.notify();
    }

    /// Waits until the log may have room for a commit that found none. Called outside of the sequencer.
    ///
    /// # Errors
    /// `Full` for rows if the disk has no room for the log, for deletes as the head of this file says;
    /// nothing of the commit has happened then.
    pub(crate) fn wait_for_log(&self, wait: &mut LogWait) -> Result<()> {
        if wait.since.is_some() {
            self.await_log();
        }
        // After that, which would end this sleep, too; and before the look, so that no checkpoint is slept through.
        let seen = self.signal.epoch();
        let refused = match self.health.watch(self.log().wait_for_room(wait.log_use)) {
            Err(refused @ Error::Full(_)) => refused,
            waited => return waited,
        };
        if !wait.has_asked {
            // The file may have free space that the file system has not: it is given back only beyond a
            // share of the live bytes, which on a small disk may be all.
            wait.has_asked = true;
            let ReserveStats { target, backed_free, .. } = self.store.reserve_stats();
            let is_enough = backed_free >= target.saturating_add(self.log().reserve_bytes());
            if is_enough && self.health.watch(self.store.give_back(0))? > 0 {
                return Ok(());
            }
        }
        let checkpoints = self.checkpoint.count.load(Ordering::Relaxed);
        let is_first = wait.since.is_none();
        let since = *wait.since.get_or_insert(checkpoints);
        wait.looks += 1;
        if is_first {
            self.hurry();
        }
        if wait.log_use == LogUse::Rows
            || checkpoints >= since + CHECKPOINTS_MAX
            || wait.looks > LOOKS_MAX
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
            // The background is told that the log is awaited; then it is looked for again.
            Workers::Threads(_) if is_first => {}
            Workers::Threads(_) => self.signal.wait(seen, LOOK_MILLIS),
        }
        Ok(())
    }

    /// Tells the background that a delete waits for a shorter log.
    fn await_log(&self) {
        self.full.log_awaited.store(true, Ordering::Relaxed);
        self.hurry();
    }

    /// Has the log's reserve made again once it was used, of the store's space if the disk has none: after a
    /// checkpoint, which may have freed some.
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

    /// What gives space back soonest after a commit was refused: the memtable frozen, so that its deletes
    /// are applied; a version of its own for a checkpoint, while slots keep what is dead. True once a round.
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
