//! Verifies that a server syncs each commit, if its durability requires that, and stays within its
//! memory limit.

use super::own::Own;
use super::session::Session;
use crate::lab::results::CellResult;
use crate::lab::syncs::{self, Counts};
use crate::targets::Result;

/// Commits rows one by one, and verifies with every available counter that each commit was synced
/// before it was acknowledged. `counters` are the status variables that count the engine's syncs.
///
/// # Errors
/// Errors of the server.
pub fn verify_syncs(
    session: &mut Session,
    options: &str,
    counts: &Counts<'_>,
    counters: &[String],
    result: &mut CellResult,
) -> Result<()> {
    session.run(&format!("CREATE TABLE lab_probe(id INT PRIMARY KEY) {options}"))?;
    let statement = session.prepare("INSERT INTO lab_probe VALUES(?)")?;
    let names: Vec<String> = counters.iter().map(|name| format!("'{name}'")).collect();
    let of_engine = format!(
        "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS \
         WHERE VARIABLE_NAME IN ({})",
        names.join(",")
    );
    syncs::verify(
        session,
        counts,
        // The server may have no such variable.
        |session| session.value(&of_engine).ok()?.parse().ok(),
        |session, id| Ok(session.execute(&statement, (id,)).map(drop)?),
        result,
    )?;
    session.run("DROP TABLE lab_probe")?;
    Ok(())
}

/// Verifies that the resident size grew by no more than the sum of: the memory of the run, a
/// quarter of that (at least `overhead_b`) for what the engine keeps outside its cache, and the
/// memory of the server itself.
pub fn verify_memory(
    base: u64,
    peak: u64,
    (memory, overhead_b): (u64, u64),
    own: Own,
    connections: u64,
    result: &mut CellResult,
) {
    let allowed = memory + overhead_b.max(memory / 4) + own.of(connections);
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
