//! Verifies that a target syncs each commit, if its durability requires that, and stays within its
//! memory limit.
//!
//! Settings prove nothing: an option may be misspelt, overridden, or not mean what its name says.

use std::path::Path;

use super::own::Own;
use super::session::Session;
use super::traced::Traced;
use crate::lab::machine::{DiskCount, Reading, Volume};
use crate::lab::results::CellResult;
use crate::targets::Result;

/// Number of commits in the test.
const COMMITS: u64 = 30;

/// Sources that count the syncs of a server.
pub struct Counts<'c> {
    /// Directory of the server.
    pub dir: &'c Path,
    /// Pid of the server.
    pub process: u32,
    /// Reads the counters of the server's control group.
    pub read: &'c dyn Fn() -> Option<Reading>,
    /// Status variables that count the engine's syncs.
    pub syncs: &'c [String],
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

    /// Reads the counters that run all the time: first those of the server, last that of the disk,
    /// which others may use as well.
    fn now(&self, session: &mut Session) -> [Count; 3] {
        let names: Vec<String> = self.syncs.iter().map(|name| format!("'{name}'")).collect();
        let of_engine = session.value(&format!(
            "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS \
             WHERE VARIABLE_NAME IN ({})",
            names.join(",")
        ));
        // The server may have no such variable.
        let of_engine = of_engine.ok().and_then(|value| value.parse().ok());
        let writes = (self.read)().and_then(|reading| Some(reading.io?.writes));
        [
            ("syncs by the engine's count", of_engine),
            ("writes of the server", writes),
            ("flushes of the disk", self.flushes()),
        ]
    }
}

/// Commits rows one by one, and verifies with every available counter that each commit was synced
/// before it was acknowledged.
///
/// # Errors
/// Errors of the server.
pub fn verify_syncs(
    session: &mut Session,
    options: &str,
    counts: &Counts<'_>,
    result: &mut CellResult,
) -> Result<()> {
    session.run(&format!("CREATE TABLE lab_probe(id INT PRIMARY KEY) {options}"))?;
    let statement = session.prepare("INSERT INTO lab_probe VALUES(?)")?;
    session.execute(&statement, (0,))?; // excludes the one-time costs of the first insert
    let before = counts.now(session);
    let traced = Traced::attach(counts.process, counts.dir);
    for id in 1..=COMMITS {
        session.execute(&statement, (id,))?;
    }
    let calls = traced.and_then(Traced::count);
    let after = counts.now(session);
    session.run("DROP TABLE lab_probe")?;
    let grown = before.iter().zip(&after).map(|((name, before), (_, after))| {
        (*name, after.zip(*before).map(|(after, before)| after.saturating_sub(before)))
    });
    let all: Vec<Count> =
        [("calls of the server that sync", calls)].into_iter().chain(grown).collect();
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

/// Verifies that the resident size grew by no more than the sum of: the memory of the run, a
/// quarter of that (at least `beside_b`) for what the engine keeps outside its cache, and the
/// memory of the server itself.
pub fn verify_memory(
    base: u64,
    peak: u64,
    (memory, beside_b): (u64, u64),
    own: Own,
    connections: u64,
    result: &mut CellResult,
) {
    let allowed = memory + beside_b.max(memory / 4) + own.of(connections);
    let grown = peak.saturating_sub(base);
    let detail = format!(
        "{} MiB more than at its start, with {} MiB of cache; {} MiB are allowed, of which the server itself takes {} MiB \
         with {connections} connections ({} KiB, and {} KiB for each, as measured before)",
        grown >> 20,
        memory >> 20,
        allowed >> 20,
        own.of(connections) >> 20,
        own.fixed_b >> 10,
        own.connection_b >> 10
    );
    result.verify("memory is within its limit", grown <= allowed, detail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::State;

    #[test]
    fn too_much_memory_fails_the_cell() {
        let verified = |peak: u64, memory: u64| {
            let mut result = CellResult::default();
            let own = Own { fixed_b: 10 << 20, connection_b: 2 << 20 };
            verify_memory(100 << 20, peak << 20, (memory << 20, 160 << 20), own, 4, &mut result);
            result.state
        };
        assert_eq!(verified(100 + 128 + 160 + 18, 128), State::Done);
        assert_eq!(verified(100 + 128 + 160 + 19, 128), State::Failed);
        assert_eq!(verified(100 + 1024 + 256 + 18, 1024), State::Done);
        assert_eq!(verified(50, 128), State::Done);
    }
}
