//! How long commits take their callers, and how much of it is waiting for a sync.
//!
//! A commit that waits for the log is timed each time: two readings of a clock are nothing beside a system call. One that
//! does not is timed by samples. Only commits that succeed are counted.
//!
//! Threads: all.

use std::time::Duration;

use crate::{
    Durability, Result,
    latency::{Histogram, sample},
    wal::Reservation,
};

use super::Shared;

/// Small commits of many threads are counted at once.
const COMMIT_STRIPES: usize = 8;
/// Who has waited for a sync comes with all who waited for the same.
const SYNC_STRIPES: usize = 2;

/// What is timed.
#[derive(Debug)]
pub(crate) struct Timings {
    /// Commits, from the call until it returns.
    pub commits: Histogram,
    /// Of commits that are to be synced, the waits for that.
    pub syncs: Histogram,
}

impl Default for Timings {
    fn default() -> Self {
        Self { commits: Histogram::new(COMMIT_STRIPES), syncs: Histogram::new(SYNC_STRIPES) }
    }
}

/// A commit that is under way.
#[derive(Debug)]
pub(super) struct Timing {
    began: Duration,
    /// It stands for so many; 0: it is not timed.
    weight: u64,
}

impl Shared {
    pub(super) fn begin_timing(&self, level: Durability) -> Timing {
        let weight = if level == Durability::Lazy { sample() } else { 1 };
        let began = if weight > 0 { self.engine.env.clock.now() } else { Duration::ZERO };
        Timing { began, weight }
    }

    /// The commit is done, and its caller told next.
    pub(super) fn end_timing(&self, Timing { began, weight }: &Timing) {
        if *weight > 0 {
            let lasted = self.engine.env.clock.now().saturating_sub(*began);
            self.timings.commits.count(lasted, *weight);
        }
    }

    /// Waits until a record is as durable as its level asks. A log that failed has failed the store: nothing may be
    /// written after it (P12).
    pub(super) fn wait_durable(&self, reservation: &Reservation, level: Durability) -> Result<()> {
        let engine = &self.engine;
        match level {
            Durability::Lazy => Ok(()),
            Durability::Os => engine.health.watch(engine.log().wait(reservation, level)),
            Durability::Sync => {
                let began = engine.env.clock.now();
                engine.health.watch(engine.log().wait(reservation, level))?;
                self.timings.syncs.count(engine.env.clock.now().saturating_sub(began), 1);
                Ok(())
            }
        }
    }
}
