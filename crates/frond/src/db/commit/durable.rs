//! The last step of a commit, waiting until it is durable; and the latencies of commits, of which
//! that is the largest part.
//!
//! A commit that waits for the log is always timed: two clock readings are negligible next to a
//! system call. Of the others a sample is timed. Only successful commits are counted.
//!
//! Threads: all.

use std::time::Duration;

use crate::{
    Durability, Result,
    latency::{Histogram, sample},
    wal::Reservation,
};

use super::super::Shared;

/// Stripes for commits: small commits of many threads are counted concurrently.
const COMMIT_STRIPES: usize = 8;
/// Stripes for sync waits: all threads that wait for one sync count their waits together.
const SYNC_STRIPES: usize = 2;

/// The histograms.
#[derive(Debug)]
pub(crate) struct Timings {
    /// Commits, from the call until it returns.
    pub commits: Histogram,
    /// Waits for the log sync, of commits that are synced.
    pub syncs: Histogram,
}

impl Default for Timings {
    fn default() -> Self {
        Self { commits: Histogram::new(COMMIT_STRIPES), syncs: Histogram::new(SYNC_STRIPES) }
    }
}

/// The start of a commit that is being timed.
#[derive(Debug)]
pub(in crate::db) struct Timing {
    began: Duration,
    /// Number of commits that it stands for; 0 if it is not timed.
    weight: u64,
}

impl Shared {
    pub(in crate::db) fn begin_timing(&self, level: Durability) -> Timing {
        let weight = if level == Durability::Lazy { sample() } else { 1 };
        let began = if weight > 0 { self.engine.env.clock.now() } else { Duration::ZERO };
        Timing { began, weight }
    }

    /// Counts a commit that is about to return.
    pub(in crate::db) fn end_timing(&self, Timing { began, weight }: &Timing) {
        if *weight > 0 {
            let lasted = self.engine.env.clock.now().saturating_sub(*began);
            self.timings.commits.count(lasted, *weight);
        }
    }

    /// Waits until a record is as durable as its level asks. If the log fails, the store fails:
    /// nothing may be written after it (P12).
    pub(in crate::db) fn wait_durable(
        &self,
        reservation: &Reservation,
        level: Durability,
    ) -> Result<()> {
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
