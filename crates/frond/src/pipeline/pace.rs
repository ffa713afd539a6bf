//! Pacing: slows writers by microseconds long before they would have to stop.
//!
//! The active memtable may fill only about as fast as the frozen one is applied: its fill, as a
//! share of its limit, stays below the progress of the running apply plus some slack. A writer that
//! is ahead waits a little. At the end of an apply the next memtable is about full, and writers
//! have seen no abrupt change of pace. Writers stop only when two memtables are full. While
//! background work has no space on the disk, no writer waits for it: commits get `Full`, deletes
//! last.
//!
//! Progress is measured in entries encoded, against what recent applies took per entry.
//!
//! A transaction waits before it locks its first row. While it holds rows, others may wait for
//! them, so it stops only where every writer must.
//!
//! Threads: committers, before they enter the sequencer; transactions, before they lock their first
//! row.

use std::time::Duration;

use crate::{
    Error, Result,
    sync::{AtomicU64, Ordering},
    version::MemtableRef,
};

use super::{Engine, turn::TurnTaken};

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
    /// It holds no locks and writes data.
    Free,
    /// It holds no locks and only deletes, which is how space comes back (Rule: I24).
    Deletes,
    /// It holds row locks, and was paced before it locked the first.
    HoldsRows {
        /// It only deletes.
        deletes: bool,
    },
}

/// How far the fill may run ahead of the apply, in 1/256 of the memtable's limit.
const SLACK: u64 = 64;

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
            self.slowed.add(self.env.clock.now().saturating_sub(since));
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
                let expected = self.progress_expected.load(Ordering::Relaxed);
                let done = self.progress.load(Ordering::Relaxed);
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

    /// Waits until a batch of `bytes` bytes fits into the memtables' quarter of the budget,
    /// together with what is there (Rule: I36). A batch that takes a good part of it excludes
    /// others like it while the guard lives; otherwise all of them would see the same space. Called
    /// before a commit locks anything but the catalog.
    ///
    /// # Errors
    /// `BatchTooLarge` if it never fits; `Full` while the disk has no space for what must be
    /// applied first; errors of `goes_on`, which is called before each wait.
    pub(crate) fn make_room(
        &self,
        bytes: u64,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<TurnTaken<'_>>> {
        let max = self.memtables_bytes_max();
        if bytes > max {
            let limit = "a store with this memory (a quarter of it)";
            return Err(Error::BatchTooLarge { bytes, max, limit });
        }
        if bytes < self.limits.memtable_bytes / 8 {
            return Ok(None);
        }
        let turn = self.large_batch.take(&|| self.health.check().and_then(|()| goes_on()))?;
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

    /// Waits until fewer than `waiting_max` commits that were written beyond memory are still to be
    /// applied. Other such commits are excluded while the guard lives.
    ///
    /// # Errors
    /// As [`make_room`](Self::make_room).
    pub(crate) fn wait_for_spilled(
        &self,
        waiting_max: usize,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<TurnTaken<'_>> {
        let turn = self.spilled_commit.take(&|| self.health.check().and_then(|()| goes_on()))?;
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
        if self.env.workers == crate::io::Workers::Manual {
            self.with_room(|| self.checkpoint_some())?;
        }
        self.help_or_wait(seen)
    }

    fn help_or_wait(&self, seen: u64) -> Result<()> {
        match self.env.workers {
            crate::io::Workers::Manual => {
                self.with_room(|| self.apply_oldest())?;
            }
            crate::io::Workers::Threads(_) => self.signal.wait(seen, 1),
        }
        Ok(())
    }
}
