//! Admission of writers: pacing, space for large batches, and what happens on a full disk.
//!
//! Pacing makes writers wait briefly, up to a millisecond at a time, long before they would have to
//! stop. The active memtable may fill only about as fast as the frozen one is applied: its fill, as
//! a share of its limit, stays below the progress of the running apply plus some slack. A writer
//! that is ahead waits a little. At the end of an apply the next memtable is about full, and
//! writers have seen no abrupt change of pace. Writers stop only when two memtables are full.
//! Progress is measured in entries encoded, against what recent applies took per entry.
//!
//! A transaction waits before it locks its first row. While it holds rows, others may wait for
//! them, so it stops only where every writer must.
//!
//! If background work finds the disk full, it waits for space while the store continues (P13).
//! Commits are admitted against a reserve (`store/reserve.rs`), so that an apply or a checkpoint
//! rarely finds the disk full. If one does, it has changed nothing and is retried after a moment;
//! no writer waits for it: commits fail with `Full` instead, and deletes are the last to do so. A
//! refused commit makes the pipeline hurry: the space of deleted rows comes back two checkpoints
//! after the delete is applied.
//!
//! Deletes may use the reserve, but their records could also take the disk space that was set aside
//! for the apply of rows committed before. Then no checkpoint would ever have enough space. So when
//! the disk is short of space, deletes wait from time to time until checkpoints have written those
//! rows, and a single commit of deletes that is too large even then is refused.
//!
//! Deletes that find no space in the log are not refused at once. They wait for checkpoints, which
//! shorten it (`wal/relief.rs`), and are refused if a checkpoint itself has no space, or if four
//! checkpoints have freed no space in the log. The wait is bounded: ten seconds, or 1000 attempts
//! if work is done by hand (`Workers::Manual`).
//!
//! Invariants
//! 1. A thread that waits for a [`CancellableMutex`] checks from time to time whether it should go
//!    on, so a holder that takes long does not keep it from being cancelled.
//!
//! Threads: all; committers before they enter the sequencer, transactions before they lock their
//! first row. Ranks: the mutex inside a [`CancellableMutex`] is held only for a moment, and no lock
//! is taken under it.

use std::time::Duration;

use crate::{
    Error, Result, Seqno,
    io::Workers,
    store::ReserveStats,
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering},
    version::MemtableRef,
    wal::LogUse,
};

use super::Engine;

/// Writers that were slowed since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Slowed {
    pub count: AtomicU64,
    pub nanos: AtomicU64,
}

impl Slowed {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The kind of writer to be paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paced {
    /// A writer that holds no locks and writes data.
    Free,
    /// A writer that holds no locks and only deletes, which is what frees space (Rule: I24).
    Deletes,
    /// A writer that holds row locks, and was paced before it locked the first.
    HoldsRows {
        /// True if it only deletes.
        deletes: bool,
    },
}

/// How far the fill may run ahead of the apply, in 1/256 of the memtable's limit.
const SLACK: u64 = 64;

/// How long a waiter sleeps between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A mutex whose waiters can be cancelled.
#[derive(Debug, Default)]
pub(crate) struct CancellableMutex {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// The guard of a [`CancellableMutex`].
#[derive(Debug)]
pub(crate) struct CancellableMutexGuard<'a>(&'a CancellableMutex);

impl CancellableMutex {
    /// Acquires the mutex.
    ///
    /// # Errors
    /// Errors of `goes_on`, which is called while it waits.
    pub fn take(&self, goes_on: &dyn Fn() -> Result<()>) -> Result<CancellableMutexGuard<'_>> {
        let mut is_taken = self.is_taken.lock().unwrap();
        while *is_taken {
            // `goes_on` may take locks.
            drop(is_taken);
            goes_on()?;
            is_taken = self.is_taken.lock().unwrap();
            if *is_taken {
                is_taken = self.is_free.wait_timeout(is_taken, POLL_INTERVAL).unwrap().0;
            }
        }
        *is_taken = true;
        Ok(CancellableMutexGuard(self))
    }
}

impl Drop for CancellableMutexGuard<'_> {
    fn drop(&mut self) {
        // If this thread is panicking, the panic may have been caused by another, poisoned lock;
        // nothing is half done here.
        *self.0.is_taken.lock().unwrap() = false;
        self.0.is_free.notify_one();
    }
}

/// How long background work pauses after it found the disk full, and the interval of rounds while
/// it hurries, milliseconds.
const PAUSE_MILLIS: u64 = 1000;
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
/// Bytes of deletes after which a commit checks that they leave the space admitted for rows.
const DELETES_UNCHECKED_BYTES: u64 = 1 << 20;
/// How often a delete checks the log for space, and for how long it waits in between, milliseconds.
const POLLS_MAX: u32 = 1000;
const POLL_MILLIS: u64 = 10;

/// A commit's wait for space in the log.
#[derive(Debug)]
pub(crate) struct LogWait {
    log_use: LogUse,
    /// The number of checkpoints, and the clock in milliseconds, when it first found no space.
    since: Option<(u64, u64)>,
    polls: u32,
    /// Whether the store was asked to give free space back to the file system.
    has_asked: bool,
}

impl LogWait {
    /// The wait of a commit that has not checked yet.
    pub fn new(log_use: LogUse) -> Self {
        Self { log_use, since: None, polls: 0, has_asked: false }
    }
}

/// State of the disk that background work and commits share.
#[derive(Debug, Default)]
pub(crate) struct FullDisk {
    /// Why the last attempt failed, until one succeeds.
    why: Mutex<Option<String>>,
    /// Clock, in milliseconds, before which no attempt is made unless space becomes free.
    paused_until: AtomicU64,
    /// Bytes that were free on the disk when the last attempt failed.
    free_at_failure: AtomicU64,
    /// Clock, in milliseconds, until which the pipeline hurries.
    hurries_until: AtomicU64,
    /// Clock, in milliseconds, of the next round while the pipeline hurries.
    next_round: AtomicU64,
    /// A delete waits for a checkpoint, so the next round is due at once.
    checkpoint_awaited: AtomicBool,
    /// The log is being replayed.
    is_replay: AtomicBool,
    /// Bytes of deletes committed since the last check of the space that they leave.
    deletes_unchecked: AtomicU64,
}

/// What admits writers, and what slows them down.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Held by a commit that takes a good part of the memtables' memory, until it is inserted.
    large_batch: CancellableMutex,
    /// Held by a commit of spilled writes, one at a time. Taken before `large_batch`.
    spilled_commit: CancellableMutex,
    /// Entries encoded so far by the running apply, and the number expected.
    pub progress: Arc<AtomicU64>,
    pub progress_expected: AtomicU64,
    pub slowed: Slowed,
    pub full: FullDisk,
}

impl FullDisk {
    /// True while the log is being replayed: an apply must not fail for lack of space then, because
    /// it is not retried.
    pub fn is_replay(&self) -> bool {
        self.is_replay.load(Ordering::Relaxed)
    }
}

fn too_large(bytes: u64, left: u64) -> String {
    format!(
        "{bytes} bytes of deletes in one commit need {} bytes, and {left} are left; delete in \
         smaller steps",
        bytes.saturating_mul(2)
    )
}

impl Engine {
    /// Waits while this writer is ahead of the background work. Called before a commit enters the
    /// sequencer.
    ///
    /// # Errors
    /// As `make_room`; errors of `goes_on`, which is called before each wait.
    pub(crate) fn pace(&self, paced: Paced, goes_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut waits_since = None;
        let result = self.pace_timed(paced, goes_on, &mut waits_since);
        if let Some(since) = waits_since {
            self.admission.slowed.add(self.env.clock.now().saturating_sub(since));
        }
        result
    }

    fn pace_timed(
        &self,
        paced: Paced,
        goes_on: &dyn Fn() -> Result<()>,
        waits_since: &mut Option<Duration>,
    ) -> Result<()> {
        let only_deletes = matches!(paced, Paced::Deletes | Paced::HoldsRows { deletes: true });
        let holds_rows = matches!(paced, Paced::HoldsRows { .. });
        loop {
            self.health.check()?;
            let seen = self.signal.epoch();
            let version = self.versions.current();
            let fill = self.fill(&version.active);
            let frozen = version.frozen.len();
            drop(version);
            if self.log_is_too_long() {
                self.check_room()?;
                goes_on()?;
                waits_since.get_or_insert_with(|| self.env.clock.now());
                self.shorten_log_or_wait(seen)?;
                continue;
            }
            if frozen == 0 || fill < SLACK || holds_rows && fill < 256 {
                return Ok(());
            }
            if fill < 256 {
                let expected = self.admission.progress_expected.load(Ordering::Relaxed);
                let done = self.admission.progress.load(Ordering::Relaxed);
                // The last part of the work is never certain until the publish.
                let progress = (done * 256).checked_div(expected).map_or(0, |share| share.min(224));
                if fill < progress + SLACK {
                    return Ok(());
                }
            }
            match self.check_room() {
                Err(_) if only_deletes && fill < 256 => return Ok(()),
                room => room?,
            }
            goes_on()?;
            waits_since.get_or_insert_with(|| self.env.clock.now());
            self.help_or_wait(seen)?;
        }
    }

    /// Waits until a batch of `bytes` bytes fits into the memory for memtables, together with what
    /// is there (Rule: I36). A batch of at least an eighth of a memtable's limit excludes others
    /// like it while the guard lives; otherwise all of them would see the same space. Called before
    /// a commit locks anything but the catalog.
    ///
    /// # Errors
    /// `BatchTooLarge` if it never fits; `Full` while the disk has no space for what must be
    /// applied first; errors of `goes_on`, which is called before each wait.
    pub(crate) fn make_room(
        &self,
        bytes: u64,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<CancellableMutexGuard<'_>>> {
        self.check_fits_memtables(bytes)?;
        let max = self.memtables_bytes_max();
        if bytes < self.limits.memtable_bytes / 8 {
            return Ok(None);
        }
        let turn = self
            .admission
            .large_batch
            .take(&|| self.health.check_open().and_then(|()| goes_on()))?;
        loop {
            self.health.check()?;
            // Nothing is applied until there is space on the disk, so the caller must know (Rule:
            // I36).
            self.check_room()?;
            let seen = self.signal.epoch();
            let version = self.versions.current();
            let used: u64 = version.memtables().map(|slot| slot.table.bytes() as u64).sum();
            let is_empty = version.memtables().all(|slot| slot.table.entries() == 0);
            let is_frozen = !version.frozen.is_empty();
            drop(version);
            if is_empty || used + bytes <= max {
                return Ok(Some(turn));
            }
            if !is_frozen {
                self.freeze();
                self.signal.notify();
            }
            goes_on()?;
            self.help_or_wait(seen)?;
        }
    }

    /// Waits until fewer than `waiting_max` commits that were spilled are still to be
    /// applied. Other such commits are excluded while the guard lives.
    ///
    /// # Errors
    /// As [`make_room`](Self::make_room).
    pub(crate) fn wait_for_spilled(
        &self,
        waiting_max: usize,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<CancellableMutexGuard<'_>> {
        let turn = self
            .admission
            .spilled_commit
            .take(&|| self.health.check_open().and_then(|()| goes_on()))?;
        loop {
            self.health.check()?;
            self.check_room()?;
            let seen = self.signal.epoch();
            let version = self.versions.current();
            let waiting = version.frozen.iter().filter(|slot| slot.spilled().is_some()).count();
            drop(version);
            if waiting < waiting_max {
                return Ok(turn);
            }
            goes_on()?;
            self.help_or_wait(seen)?;
        }
    }

    /// The memtables' part of the budget.
    pub(crate) fn memtables_bytes_max(&self) -> u64 {
        (self.cache_bytes / 4).max(2 * self.limits.memtable_bytes)
    }

    /// `BatchTooLarge` if memtables could never hold `bytes` bytes of one commit.
    pub(crate) fn check_fits_memtables(&self, bytes: u64) -> Result<()> {
        let max = self.memtables_bytes_max();
        match bytes > max {
            true => {
                let limit = "the memory for memtables in this store";
                Err(Error::BatchTooLarge { bytes, max, limit })
            }
            false => Ok(()),
        }
    }

    fn fill(&self, slot: &MemtableRef) -> u64 {
        let table = slot.table.bytes() as u64 * 256 / self.limits.memtable_bytes.max(1);
        // What blobs replace is free only after apply and checkpoint.
        let blobs = slot.blob_bytes.load(Ordering::Relaxed);
        let blobs = blobs.saturating_mul(256) / self.limits.checkpoint_log_bytes.max(1);
        let log = slot.log_bytes.load(Ordering::Relaxed);
        table.max(blobs).max(log.saturating_mul(256) / self.limits.memtable_log_bytes.max(1))
    }

    /// True if recovery from the older slot would have to replay more than it may (Rule: I13).
    /// Checkpoints start at three quarters of that, so it is reached only if the disk cannot keep
    /// up.
    fn log_is_too_long(&self) -> bool {
        self.log_kept_bytes() >= self.limits.log_kept_max()
            && !plant!("pipeline: commits do not wait for a shorter log")
    }

    fn shorten_log_or_wait(&self, seen: u64) -> Result<()> {
        if self.env.workers == Workers::Manual {
            self.with_room(|| self.checkpoint_some())?;
        }
        self.help_or_wait(seen)
    }

    fn help_or_wait(&self, seen: u64) -> Result<()> {
        self.health.check_open()?;
        match self.env.workers {
            Workers::Manual => {
                self.with_room(|| self.apply_oldest())?;
            }
            Workers::Threads(_) => self.signal.wait(seen, 1),
        }
        Ok(())
    }

    /// Does a unit of background work, unless work is paused. A full disk is not an error here but
    /// `Ok(false)`.
    pub(crate) fn with_room(&self, work: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if self.now_millis() < self.admission.full.paused_until.load(Ordering::Relaxed)
            && !self.has_more_space()
        {
            return Ok(false);
        }
        match work() {
            Err(Error::Full(why)) if !plant!("pipeline: a full disk ends the background") => {
                *self.admission.full.why.lock().unwrap() = Some(why);
                let free = self.store.disk_free().unwrap_or(0);
                self.admission.full.free_at_failure.store(free, Ordering::Relaxed);
                self.admission
                    .full
                    .paused_until
                    .store(self.now_millis() + PAUSE_MILLIS, Ordering::Relaxed);
                // No thread need wait for this work any longer.
                self.admission.progress_expected.store(0, Ordering::Relaxed);
                self.signal.notify();
                Ok(false)
            }
            Ok(true) => {
                *self.admission.full.why.lock().unwrap() = None;
                // Otherwise a commit that waits for the next unit would not notice a full disk and
                // wait in vain.
                self.admission.full.paused_until.store(0, Ordering::Relaxed);
                Ok(true)
            }
            other => other,
        }
    }

    /// Starts a replay: until [`end_replay`](Self::end_replay), an apply needs no disk space.
    pub(crate) fn begin_replay(&self) {
        self.admission.full.is_replay.store(true, Ordering::Relaxed);
    }

    /// Processes a memtable that replay has frozen. It is applied even if the disk has no space for
    /// checkpoints; otherwise frozen memtables would use up the memory.
    pub(crate) fn apply_in_replay(&self, last: Seqno) -> Result<()> {
        while self.step()? {}
        self.apply_through(last)
    }

    /// Ends a replay: applies what was replayed, and makes it durable in the trees by a
    /// checkpoint. Without the checkpoint nothing would be lost, because the log is on the medium
    /// (`wal/recovery.rs`), but a store that is killed soon after each open would keep more log
    /// each time. If the disk has no space for this, returns the reason and leaves it to background
    /// work, which continues when there is space.
    pub(crate) fn end_replay(&self) -> Result<Option<String>> {
        self.admission.full.is_replay.store(false, Ordering::Relaxed);
        // What had no space during the replay may have it now.
        self.admission.full.paused_until.store(0, Ordering::Relaxed);
        self.with_room(|| {
            self.freeze();
            while self.apply_oldest()? {}
            self.publish_unchanged();
            if !plant!("db: recovery ends without a checkpoint") {
                self.run_checkpoint()?;
            }
            Ok(true)
        })?;
        Ok(self.admission.full.why.lock().unwrap().clone())
    }

    /// True if the disk has more free space than when background work found it full.
    fn has_more_space(&self) -> bool {
        let enough =
            self.admission.full.free_at_failure.load(Ordering::Relaxed).saturating_add(ROOM_BYTES);
        self.store.disk_free().is_ok_and(|free| free >= enough)
    }

    /// Returns `Full` while background work has no space, for a commit that would wait for it.
    pub(super) fn check_room(&self) -> Result<()> {
        // Not under the lock: asking the file system may take long.
        let why = self.admission.full.why.lock().unwrap().clone();
        match why {
            Some(why) if !self.has_more_space() => Err(Error::Full(why)),
            _ => Ok(()),
        }
    }

    /// True while background work has no space on the disk.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.admission.full.why.lock().unwrap().is_some()
    }

    /// Reserves disk space for a commit (Rule: I24).
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        let admitted = self.store.admit(bytes);
        if matches!(admitted, Err(Error::Full(_))) {
            self.hurry();
        }
        admitted
    }

    /// Reserves disk space for a commit (Rule: I24). Returns the bytes to release when the commit
    /// is applied and durable.
    ///
    /// # Errors
    /// `Full`; for a commit that frees space, only if it is large.
    pub(crate) fn admit_commit(&self, bytes: u64, relieves: bool) -> Result<u64> {
        match relieves {
            true => self.admit_deletes(bytes),
            false => self.admit(bytes).map(|()| bytes),
        }
    }

    /// Reserves disk space for a commit of deletes, like that of rows if possible. If the disk is
    /// too full for that, the commit may use the reserve. Before it does, this call waits from time
    /// to time for checkpoints to write what was admitted earlier, and to trim the log, as far as
    /// possible.
    fn admit_deletes(&self, bytes: u64) -> Result<u64> {
        // A large record takes much of the disk, too.
        let wanted = bytes.saturating_add(bytes / 2);
        let admit = || match self.store.admit(wanted) {
            Ok(()) => Ok(Some(wanted)),
            Err(Error::Full(_)) => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(admitted) = admit()? {
            return Ok(admitted);
        }
        let unchecked = &self.admission.full.deletes_unchecked;
        if unchecked.fetch_add(bytes, Ordering::Relaxed) + bytes < DELETES_UNCHECKED_BYTES
            || plant!("pipeline: deletes take what is admitted")
        {
            return Ok(0);
        }
        unchecked.store(0, Ordering::Relaxed);
        let checkpoints = self.checkpoint.count.load(Ordering::Relaxed);
        let (began, mut polls) = (self.now_millis(), 0);
        loop {
            let seen = self.signal.epoch();
            let ReserveStats { target, admitted, backed_free, disk_free } =
                self.store.reserve_stats();
            let comes = admitted > 0 || self.log_kept_bytes() > bytes;
            let waited = self.checkpoint.count.load(Ordering::Relaxed) - checkpoints;
            polls += 1;
            let is_over = waited >= CHECKPOINTS_MAX || self.has_waited_enough(began, polls);
            if !comes || is_over || self.check_room().is_err() {
                let left = backed_free.saturating_add(disk_free).saturating_sub(admitted);
                // Small commits are what the reserve is for.
                let fits = bytes <= target / 4 || left >= bytes.saturating_mul(2);
                return if fits { Ok(0) } else { Err(Error::Full(too_large(bytes, left))) };
            }
            self.await_checkpoint();
            self.checkpoint_or_wait(seen)?;
            if let Some(admitted) = admit()? {
                return Ok(admitted);
            }
        }
    }

    fn hurry(&self) {
        self.admission
            .full
            .hurries_until
            .store(self.now_millis() + HURRY_MILLIS, Ordering::Relaxed);
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
            self.await_checkpoint();
        }
        // Read after `await_checkpoint`, whose notification would end this thread's own sleep, and
        // before the check, so that a checkpoint that ends after the check still wakes this thread.
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
        wait.polls += 1;
        if is_first {
            self.hurry();
        }
        if wait.log_use == LogUse::Rows
            || checkpoints >= since + CHECKPOINTS_MAX
            || self.has_waited_enough(began, wait.polls)
            || plant!("pipeline: deletes do not wait for the log")
        {
            return Err(refused);
        }
        self.check_room()?;
        if is_first && matches!(self.env.workers, Workers::Threads(_)) {
            // Background threads now know that a delete waits; the log is checked once more before
            // this thread sleeps.
            return Ok(());
        }
        self.checkpoint_or_wait(seen)
    }

    /// True if a delete that waits since `began`, and has checked `polls` times, gives up. Any
    /// event in the store ends a sleep early, so attempts are counted only where work is done by
    /// hand.
    fn has_waited_enough(&self, began: u64, polls: u32) -> bool {
        match self.env.workers {
            Workers::Manual => polls > POLLS_MAX,
            Workers::Threads(_) => self.now_millis() >= began + u64::from(POLLS_MAX) * POLL_MILLIS,
        }
    }

    /// Applies and checkpoints by hand, or sleeps until something happens in the store.
    fn checkpoint_or_wait(&self, seen: u64) -> Result<()> {
        self.health.check_open()?;
        match self.env.workers {
            Workers::Manual => {
                self.with_room(|| self.apply_oldest())?;
                self.with_room(|| self.checkpoint_some())?;
            }
            Workers::Threads(_) => self.signal.wait(seen, POLL_MILLIS),
        }
        Ok(())
    }

    /// Notifies the background threads that a delete waits for a checkpoint.
    fn await_checkpoint(&self) {
        self.admission.full.checkpoint_awaited.store(true, Ordering::Relaxed);
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
    pub(super) fn free_space_if_due(&self) -> bool {
        let now = self.now_millis();
        let is_awaited = self.admission.full.checkpoint_awaited.swap(false, Ordering::Relaxed);
        let is_due = is_awaited
            || now < self.admission.full.hurries_until.load(Ordering::Relaxed)
                && now >= self.admission.full.next_round.load(Ordering::Relaxed);
        if is_due {
            self.admission.full.next_round.store(now + PAUSE_MILLIS, Ordering::Relaxed);
            self.freeze();
            let keeps = is_awaited || self.store.space().stats().kept > 0;
            if self.versions.current().frozen.is_empty() && keeps {
                self.publish_unchanged();
            }
        }
        is_due
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        Error,
        sync::{AtomicBool, AtomicUsize, Ordering, thread},
    };

    #[test]
    fn a_wait_for_the_mutex_can_be_cancelled() {
        let turn = CancellableMutex::default();
        let taken = turn.take(&|| Ok(())).unwrap();
        let (polls, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                turn.take(&|| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) { Err(Error::Interrupted) } else { Ok(()) }
                })
                .map(drop)
            });
            while polls.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
            assert!(matches!(waiting.join().unwrap(), Err(Error::Interrupted)));
        });
        drop(taken);
        drop(turn.take(&|| unreachable!("it has no owner")).unwrap());
    }

    #[test]
    fn the_mutex_is_exclusive_and_every_waiter_gets_it() {
        let (turn, inside, turns) =
            (CancellableMutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _taken = turn.take(&|| Ok(())).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        turns.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(turns.load(Ordering::SeqCst), 800);
    }
}
