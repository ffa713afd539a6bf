//! Verification after a crash: what the tables held before the server was killed, and what they
//! hold after it has started again.
//!
//! Invariants
//! 1. At durability `safe` every acknowledged commit survives, including those immediately before
//!    the kill. At others the last commits may be lost, but no table has more rows than before.

use std::collections::BTreeMap;

use super::session::{Session, text_of};
use super::sum::Ledger;
use super::verify::{Expected, verify_table};
use crate::lab::results::CellResult;
use crate::targets::{Failure, Result};

/// Table with the rows that are committed immediately before the kill, and their number.
const TABLE: &str = "lab_recovery";
const ROWS: u64 = 30;
/// Appended to the names of verifications.
const AFTER: &str = " after kill -9";

/// Tables by name, each with the number of rows that it must have, if known, and whether it holds
/// exactly what clients have sent.
pub type Tables = BTreeMap<String, (Option<u64>, bool)>;

fn count(session: &mut Session, table: &str) -> Result<u64> {
    let found = session.value(&format!("SELECT COUNT(*) FROM `{table}`"))?;
    found.parse().map_err(|_| Failure(format!("server: {found} rows in {table}")))
}

/// Prepares the kill: drops tables from the list that no longer exist. If rows may be lost, counts
/// those that there are; if not, commits some more, one by one. `options` are the table options of
/// the target.
///
/// # Errors
/// Errors of the server.
pub fn prepare(
    session: &mut Session,
    tables: &mut Tables,
    options: &str,
    is_exact: bool,
) -> Result<()> {
    let mut present = Vec::new();
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE()";
    session.rows(sql, |row| present.extend(text_of(row, 0)))?;
    tables.retain(|name, _| present.contains(name));
    if !is_exact {
        for (name, (rows, _)) in tables.iter_mut() {
            *rows = Some(count(session, name)?);
        }
        return Ok(());
    }
    let columns = "id INT PRIMARY KEY, v INT NOT NULL, KEY v(v)";
    session.run(&format!("CREATE TABLE {TABLE}({columns}) {options}"))?;
    tables.insert(TABLE.to_owned(), (Some(ROWS), false));
    let insert = session.prepare(&format!("INSERT INTO {TABLE} VALUES(?,?)"))?;
    for id in 0..ROWS {
        session.execute(&insert, (id, id % 7))?;
    }
    Ok(())
}

/// Verifies the tables after recovery.
///
/// # Errors
/// Errors of the server.
pub fn verify(
    session: &mut Session,
    tables: &Tables,
    ledger: &Ledger,
    is_exact: bool,
    result: &mut CellResult,
) -> Result<()> {
    for (table, &(rows, is_as_sent)) in tables {
        if is_exact {
            let sent = ledger.of(table).filter(|_| is_as_sent);
            let expected = Expected { rows, sent: sent.as_ref(), is_fixed: false, when: AFTER };
            verify_table(session, table, expected, result)?;
            continue;
        }
        let (found, before) = (count(session, table)?, rows.unwrap_or(u64::MAX));
        let detail = format!("{found} rows, {before} before");
        result.verify(&format!("rows of {table}{AFTER}"), found <= before, detail);
    }
    Ok(session.run(&format!("DROP TABLE IF EXISTS {TABLE}")).map(drop)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::lab::machine::class;
    use crate::lab::results::{CellResult, State};
    use crate::lab::size::Durability;
    use crate::lab::sql::{Bench, Conditions, InsertText, Place};
    use crate::lab::step::Step;
    use crate::lab::target::SqlTarget;

    /// The result of a cell that loads a table and is killed once.
    fn crashed(target: &str, durability: Durability) -> CellResult {
        let dir = tempfile::tempdir().expect("a directory");
        let class = class::find("host").expect("a class");
        let conditions = Conditions {
            memory: 64 << 20,
            durability,
            class: &class,
            disk: None,
            time_limit: None,
            with_rest: false,
            sample_every: Duration::from_secs(10),
            with_crash: true,
        };
        let target = SqlTarget::find(target).expect("a target");
        let place = Place::Own(dir.path().to_owned());
        let mut bench = Bench::start(&place, &target, &conditions).expect("started");
        // Whether commits are synced is another verification.
        (bench.result.state, bench.result.failure) = (State::Done, None);
        bench.create("t(id INT PRIMARY KEY, v INT, KEY v(v))", "").expect("made");
        let loaded = bench.step(&Step::load("load", 500, 8), |worker| {
            let mut insert = InsertText::new("INSERT INTO t VALUES");
            for id in 0..500 {
                insert.row().plain(id).plain(id % 11);
            }
            worker.insert("commit", &mut insert).map(drop)
        });
        loaded.expect("loaded");
        bench.verify("t", Some(500), true).expect("verified");
        bench.crash().expect("it recovers");
        let step = bench.step(&Step::load("after", 1, 0), |worker| {
            worker.request("select", 1, |session| session.run("SELECT COUNT(*) FROM t").map(drop))
        });
        assert!(step.expect("the server answers").metrics["ops"] == 1.0);
        bench.finish((500, 4_000)).expect("ended")
    }

    fn passed(result: &CellResult, name: &str) -> Option<bool> {
        result.verified.iter().find(|found| found.name == name).map(|found| found.passed)
    }

    #[test]
    fn sql_a_killed_server_recovers_what_was_acknowledged_or_fails() {
        let safe = crashed("frond", Durability::Safe);
        assert_eq!((safe.state, &safe.failure), (State::Done, &None));
        for name in ["t as generated", "t by v", "rows of lab_recovery", "lab_recovery by v"] {
            assert_eq!(passed(&safe, &format!("{name} after kill -9")), Some(true), "{name}");
        }
        assert!(safe.metrics["recovery_s"] > 0.0);

        // At the end of the cell, since rows may be lost.
        let lazy = crashed("innodb", Durability::Lazy);
        assert_eq!((lazy.state, &lazy.failure), (State::Done, &None));
        assert_eq!(passed(&lazy, "rows of t after kill -9"), Some(true));
        assert_eq!(passed(&lazy, "rows of lab_recovery after kill -9"), None);

        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("liar.toml");
        let text = "about = 'loses what it has acknowledged'\nlike = 'innodb'\n[durability.safe]\n\
            innodb_flush_log_at_trx_commit = { value = '0', why = 'the planted fault' }\n\
            innodb_flush_log_at_timeout = { value = '2700', why = 'no commit is written by chance' }\n";
        std::fs::write(&file, text).expect("written");
        let liar = crashed(&file.display().to_string(), Durability::Safe);
        assert_eq!(liar.state, State::Failed);
        assert_eq!(passed(&liar, "rows of lab_recovery after kill -9"), Some(false));
    }
}
