//! Verifies that each commit is synced before it is acknowledged, with every counter that this
//! machine offers.
//!
//! Settings prove nothing: an option may be misspelt, overridden, or not mean what its name says.

mod traced;

use std::path::Path;

use traced::Traced;

use super::machine::{DiskCount, Reading, Volume};
use super::results::CellResult;
use crate::targets::Result;

/// Number of commits in the test.
const COMMITS: u64 = 30;

/// The process that syncs, and what counts its I/O.
pub struct Counts<'c> {
    /// Directory of its files.
    pub dir: &'c Path,
    /// The pid.
    pub process: u32,
    /// Reads the counters of its control group.
    pub read: &'c dyn Fn() -> Option<Reading>,
}

/// Name of a counter, and its value, if it is available.
type Count = (&'static str, Option<u64>);

impl Counts<'_> {
    fn flushes(&self) -> Option<u64> {
        let volume = Volume::of(self.dir).ok()?;
        let disk = volume.disk().ok()?;
        // The kernel sends no flushes to a disk without a volatile cache.
        let has_cache = disk.write_cache.contains("back");
        disk.count().filter(|_| has_cache).map(|DiskCount { flushes, .. }| flushes)
    }

    /// Reads the counters that run all the time: first those of the process, last that of the disk,
    /// which others may use as well.
    fn now(&self, of_engine: Option<u64>) -> [Count; 3] {
        let writes = (self.read)().and_then(|reading| Some(reading.io?.writes));
        [
            ("syncs by the engine's count", of_engine),
            ("writes of the process", writes),
            ("flushes of the disk", self.flushes()),
        ]
    }
}

/// Runs commits one by one on `store`, and verifies with every available counter that each was
/// synced before it was acknowledged. `commit` gets a number that differs each time; `of_engine`
/// returns the number of syncs that the engine counts, if it does.
///
/// # Errors
/// Errors of `commit`.
pub fn verify<S>(
    store: &mut S,
    counts: &Counts<'_>,
    of_engine: impl Fn(&mut S) -> Option<u64>,
    mut commit: impl FnMut(&mut S, u64) -> Result<()>,
    result: &mut CellResult,
) -> Result<()> {
    commit(store, 0)?; // excludes the one-time costs of the first one
    let before = counts.now(of_engine(store));
    let traced = Traced::attach(counts.process, counts.dir);
    for number in 1..=COMMITS {
        commit(store, number)?;
    }
    let calls = traced.and_then(Traced::count);
    let after = counts.now(of_engine(store));
    let grown = before.iter().zip(&after).map(|((name, before), (_, after))| {
        (*name, after.zip(*before).map(|(after, before)| after.saturating_sub(before)))
    });
    let all: Vec<Count> =
        [("calls of the process that sync", calls)].into_iter().chain(grown).collect();
    let told = all.iter().map(|(name, count)| {
        let count = count.map_or("not counted here".to_owned(), |count| count.to_string());
        format!("{name} {count}")
    });
    let detail = format!("{COMMITS} commits: {}", told.collect::<Vec<_>>().join(", "));
    if all.iter().all(|(_, count)| count.is_none()) {
        result.settings.insert("(durability)".to_owned(), format!("not verified: {detail}"));
        return Ok(());
    }
    let enough = all.iter().all(|(_, count)| count.is_none_or(|count| count >= COMMITS));
    result.verify("each commit is synced", enough, detail);
    Ok(())
}
