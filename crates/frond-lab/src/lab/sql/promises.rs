//! Verifies that a target syncs each commit, if its durability says so, and stays within its memory limit.
//!
//! A setting is no proof: an option may be misspelt, overridden, or not mean what its name says.

use crate::lab::machine::{DiskCount, Reading, Volume};
use crate::lab::results::CellResult;
use crate::targets::Result;

use super::session::Session;

/// Commits of the probe.
const COMMITS: u64 = 30;

/// Counts of the server's I/O and of the flushes of the disk that it is on.
pub struct Counts<'c> {
    /// The directory of the server.
    pub dir: &'c std::path::Path,
    /// What the server's control group counts.
    pub read: &'c dyn Fn() -> Option<Reading>,
}

impl Counts<'_> {
    fn flushes(&self) -> Option<u64> {
        let volume = Volume::of(self.dir).ok()?;
        let disk = volume.disk().ok()?;
        // A disk without a volatile cache is never told to flush.
        let has_cache = disk.write_cache.contains("back");
        disk.count().filter(|_| has_cache).map(|DiskCount { flushes, .. }| flushes)
    }

    fn writes(&self) -> Option<u64> {
        Some((self.read)()?.io?.writes)
    }
}

/// Commits rows one by one: each must reach the disk before it is acknowledged, which both the control group (writes) and
/// the disk (flushes) count.
///
/// # Errors
/// The server's.
pub fn verify_syncs(
    session: &mut Session,
    options: &str,
    counts: &Counts<'_>,
    result: &mut CellResult,
) -> Result<()> {
    session.run(&format!("CREATE TABLE lab_probe(id INT PRIMARY KEY) {options}"))?;
    let statement = session.prepare("INSERT INTO lab_probe VALUES(?)")?;
    session.execute(&statement, (0,))?; // excludes the one-time costs of the first insert
    let before = (counts.writes(), counts.flushes());
    for id in 1..=COMMITS {
        session.execute(&statement, (id,))?;
    }
    let after = (counts.writes(), counts.flushes());
    session.run("DROP TABLE lab_probe")?;
    let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    let (writes, flushes) = (grown(before.0, after.0), grown(before.1, after.1));
    let told = |count: Option<u64>| count.map_or("not counted here".to_owned(), |n| n.to_string());
    let detail = format!(
        "{COMMITS} commits: writes {}, flushes of the disk {}",
        told(writes),
        told(flushes)
    );
    if writes.is_none() && flushes.is_none() {
        result.settings.insert("(durability)".to_owned(), format!("not verified: {detail}"));
        return Ok(());
    }
    let enough = |count: Option<u64>| count.is_none_or(|n| n >= COMMITS);
    result.verify("each commit is synced", enough(writes) && enough(flushes), detail);
    Ok(())
}

/// What a server may take beside its memory: buffers of sorts and results, dictionaries, code; and for each connection.
const SLACK_B: u64 = 192 << 20;
const SLACK_CONNECTION_B: u64 = 1 << 20;

/// That the resident size grew by no more than the memory of the run, with a quarter more for what allocators lose.
pub fn verify_memory(base: u64, peak: u64, memory: u64, connections: u64, result: &mut CellResult) {
    let allowed = memory + memory / 4 + SLACK_B + connections * SLACK_CONNECTION_B;
    let grown = peak.saturating_sub(base);
    let detail = format!(
        "{} MiB more than at its start, with {} MiB of cache and {connections} connections; {} MiB are allowed",
        grown >> 20,
        memory >> 20,
        allowed >> 20
    );
    result.verify("memory is within its limit", grown <= allowed, detail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::State;

    #[test]
    fn too_much_memory_fails_the_cell() {
        let verified = |peak: u64| {
            let mut result = CellResult::default();
            verify_memory(100 << 20, peak << 20, 256 << 20, 4, &mut result);
            result.state
        };
        assert_eq!(verified(100 + 256 + 64 + 192 + 4), State::Done);
        assert_eq!(verified(100 + 256 + 64 + 192 + 5), State::Failed);
        assert_eq!(verified(50), State::Done);
    }
}
