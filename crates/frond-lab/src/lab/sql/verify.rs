//! Verifies tables: the rows read by the primary key must match those read through each index, and
//! those that the clients sent.
//!
//! Invariants
//! 1. A read through an index reads nothing else: EXPLAIN must confirm this for the statement
//!    itself, or the cell fails.

use std::collections::BTreeMap;

use super::session::{Session, text_named, text_of};
use super::sum::{Column, Sent, expression};
use crate::lab::results::CellResult;
use crate::targets::{Failure, Result};

/// The indexes of a table with their columns, including PRIMARY if there is one.
fn indexes(session: &mut Session, table: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let sql = format!(
        "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() \
         AND TABLE_NAME='{table}' ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    );
    session.rows(&sql, |row| {
        if let (Some(index), Some(column)) = (text_of(row, 0), text_of(row, 1)) {
            found.entry(index).or_default().push(column);
        }
    })?;
    Ok(found)
}

fn columns(session: &mut Session, table: &str) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    let sql = format!(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() \
         AND TABLE_NAME='{table}' ORDER BY ORDINAL_POSITION"
    );
    session.rows(&sql, |row| {
        if let Some(name) = text_of(row, 0) {
            let is_float = text_of(row, 1).is_some_and(|name| name == "float");
            found.push(Column { name, is_float });
        }
    })?;
    Ok(found)
}

/// How the server reads a table, according to EXPLAIN.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Access {
    /// Column `type` of EXPLAIN: `ALL`, `index`, …
    kind: String,
    key: Option<String>,
    extra: String,
}

impl Access {
    /// Runs EXPLAIN on a statement.
    fn of(session: &mut Session, sql: &str) -> Result<Self> {
        let mut found = Vec::new();
        session.rows(&format!("EXPLAIN {sql}"), |row| {
            let text = |name| text_named(row, name).unwrap_or_default();
            found.push(Self {
                kind: text("type"),
                key: text_named(row, "key"),
                extra: text("Extra"),
            });
        })?;
        match <[Self; 1]>::try_from(found) {
            Ok([access]) => Ok(access),
            Err(_) => Err(Failure(format!("server: no plan of one table for {sql}"))),
        }
    }

    /// Whether the server reads all of this index, and nothing else.
    fn is_all_of(&self, index: &str) -> bool {
        let key = self.key.as_deref();
        self.kind == "index" && key == Some(index) && self.extra.contains("Using index")
    }

    /// Whether the server reads all rows themselves: a scan of the table, which is a scan of the
    /// primary key.
    fn is_of_rows(&self) -> bool {
        match self.key.as_deref() {
            None => self.kind == "ALL",
            Some(key) => self.kind == "index" && key == "PRIMARY",
        }
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.as_deref().unwrap_or("no index");
        write!(f, "the server reads {key} (type {}, {})", self.kind, self.extra)
    }
}

fn texts(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    session.rows(sql, |row| {
        found = (0..row.len()).map(|at| text_of(row, at).unwrap_or_default()).collect();
    })?;
    match found.is_empty() {
        true => Err(Failure(format!("server: no answer to {sql}"))),
        false => Ok(found),
    }
}

/// What a table must contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'e> {
    /// Number of rows, if known.
    pub rows: Option<u64>,
    /// What clients have sent, if the table contains nothing else.
    pub sent: Option<&'e Sent>,
    /// Whether every target must end with the same rows.
    pub is_fixed: bool,
    /// Appended to the names of the verifications.
    pub when: &'e str,
}

/// Verifies a table, and records the outcome in `result`.
///
/// # Errors
/// Errors of the server.
pub fn verify_table(
    session: &mut Session,
    table: &str,
    expected: Expected<'_>,
    result: &mut CellResult,
) -> Result<()> {
    let (indexes, when) = (indexes(session, table)?, expected.when);
    let all = columns(session, table)?;
    let of = |names: &[String]| -> Vec<&Column> {
        let find = |name| all.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        names.iter().filter_map(|name| find(name)).collect()
    };
    let primary = indexes.get("PRIMARY").cloned().unwrap_or_default();
    let secondary: Vec<(&String, String)> = indexes
        .iter()
        .filter(|(name, _)| *name != "PRIMARY")
        .map(|(name, columns)| {
            let more = primary.iter().filter(|column| !columns.contains(column));
            let with_key: Vec<String> = columns.iter().chain(more).cloned().collect();
            (name, expression(of(&with_key)))
        })
        .collect();
    let hint = if primary.is_empty() { "" } else { " FORCE INDEX(PRIMARY)" };
    let mut select = vec!["COUNT(*)".to_owned(), expression(&all)];
    select.extend(secondary.iter().map(|(_, sum)| sum.clone()));
    // The last column is the sum over the columns that the statements of the load name.
    if let Some(sent) = expected.sent {
        let named = of(&sent.columns);
        select.push(if named.is_empty() { expression(&all) } else { expression(named) });
    }
    let sql = format!("SELECT {} FROM `{table}`{hint}", select.join(","));
    let access = Access::of(session, &sql)?;
    let by_key = texts(session, &sql)?;
    let (count, sum) = (&by_key[0], &by_key[1]);
    if !access.is_of_rows() {
        result.verify(&format!("{table} by PRIMARY{when}"), false, access.to_string());
    }
    if let Some(rows) = expected.rows {
        let detail = format!("{count} rows, {rows} expected");
        result.verify(&format!("rows of {table}{when}"), count.parse() == Ok(rows), detail);
    }
    if let (Some(sent), Some(found)) = (expected.sent, by_key.last()) {
        let is_same = count.parse() == Ok(sent.rows) && found.parse() == Ok(sent.sum);
        let detail = format!(
            "{count} rows with checksum {found}, {} with {} were generated",
            sent.rows, sent.sum
        );
        result.verify(&format!("{table} as generated{when}"), is_same, detail);
    }
    if expected.is_fixed {
        result.facts.insert(format!("{table} by PRIMARY"), format!("{count} rows, sum {sum}"));
    }
    for ((name, sum), of_rows) in secondary.iter().zip(&by_key[2..]) {
        let what = format!("{table} by {name}{when}");
        let sql = format!("SELECT COUNT(*),{sum} FROM `{table}` FORCE INDEX(`{name}`)");
        let access = Access::of(session, &sql)?;
        if !access.is_all_of(name) {
            result.verify(&what, false, access.to_string()); // Invariant 1
            continue;
        }
        let by_index = texts(session, &sql)?;
        let is_same = by_index[0] == *count && by_index[1] == *of_rows;
        let (entries, found) = (&by_index[0], &by_index[1]);
        let detail =
            format!("{entries} entries with sum {found}, by PRIMARY {count} with {of_rows}");
        result.verify(&what, is_same, detail);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::State;
    use crate::lab::sql::{Bench, InsertText, Place};
    use crate::lab::step::Step;
    use crate::lab::target::SqlTarget;
    use crate::lab::workloads::testing::{must_fail, start};

    const ROWS: u64 = 900;

    /// The verification that failed; there must be exactly one.
    fn failed(bench: &mut Bench) -> String {
        let verified = std::mem::take(&mut bench.result.verified);
        bench.result.state = State::Done;
        let mut wrong = verified.iter().filter(|found| !found.passed);
        let first = wrong.next().unwrap_or_else(|| panic!("nothing failed: {verified:?}"));
        assert_eq!(wrong.next(), None, "{verified:?}");
        format!("{}: {}", first.name, first.detail)
    }

    fn verify(bench: &mut Bench) -> Result<()> {
        bench.verify("t", Some(ROWS), true)
    }

    #[test]
    fn sql_each_planted_fault_fails_by_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::Own(dir.path().to_owned());
        let target = SqlTarget::find("innodb").expect("a target of ours");
        let mut bench = start(&place, &target).expect("started");
        // Index `v` holds the value that the expression had when the row was written.
        let table = |name: &str, expression: &str| {
            format!(
                "{name}(id INT PRIMARY KEY, f FLOAT, a INT NOT NULL, v INT AS ({expression}), s VARCHAR(40), KEY v(v))"
            )
        };
        bench.create(&table("t", "a+1"), "").expect("made");
        let step = Step { clients: 3, ..Step::load("load", ROWS, 40) };
        let loaded = bench.step(&step, |worker| {
            let mut insert = InsertText::new("INSERT INTO t(id, f, a, s) VALUES");
            for id in worker.index * 300..(worker.index + 1) * 300 {
                let row = insert.row().plain(id).float(id as f32 / 7.0).plain(id * 3);
                if id % 10 == 0 {
                    row.null()
                } else {
                    row.text("it's one \\ or the other")
                };
            }
            worker.insert("commit", &mut insert).map(drop)
        });
        loaded.expect("loaded");
        verify(&mut bench).expect("verified");
        assert_eq!(bench.result.state, State::Done, "{:?}", bench.result.failure);
        assert_eq!(bench.result.verified.len(), 3);
        bench.result.verified.clear();

        must_fail(&mut bench, "UPDATE t SET a=a+1 WHERE id=7", verify);
        let wrong = failed(&mut bench);
        assert!(wrong.starts_with("t as generated: 900 rows with checksum"), "{wrong}");
        must_fail(&mut bench, "UPDATE t SET a=a-1, f=f+0.01 WHERE id=7", verify);
        assert!(failed(&mut bench).starts_with("t as generated"));
        bench.admin().run("UPDATE t SET f=7/7 WHERE id=7").expect("undone");

        must_fail(&mut bench, "DELETE FROM t WHERE id=7", |bench| {
            bench.verify("t", Some(ROWS), false)
        });
        assert_eq!(failed(&mut bench), "rows of t: 899 rows, 900 expected");
        let again = "INSERT INTO t(id,f,a,s) VALUES(7,1,21,'it''s one \\\\ or the other')";
        bench.admin().run(again).expect("undone");

        bench.admin().run("ALTER TABLE t ADD KEY part(s(5))").expect("made");
        verify(&mut bench).expect("verified");
        let wrong = failed(&mut bench);
        assert!(wrong.starts_with("t by part: the server reads no index (type ALL"), "{wrong}");
        bench.admin().run("ALTER TABLE t DROP KEY part").expect("dropped");

        // The table gets the definition of another one, under which the `v` of each row differs
        // from the index.
        bench.create(&table("other", "a+2"), "").expect("made");
        let files = bench.files().expect("the server is ours");
        std::fs::copy(files.join("other.frm"), files.join("t.frm")).expect("copied");
        bench.admin().run("FLUSH TABLES").expect("the old one is forgotten");
        verify(&mut bench).expect("verified");
        let wrong = failed(&mut bench);
        assert!(wrong.starts_with("t by v: 900 entries with sum"), "{wrong}");
    }

    #[test]
    fn other_access_paths_do_not_verify_an_index() {
        let access = |kind: &str, key: Option<&str>, extra: &str| Access {
            kind: kind.to_owned(),
            key: key.map(str::to_owned),
            extra: extra.to_owned(),
        };
        assert!(access("index", Some("k"), "Using index").is_all_of("k"));
        for other in [
            access("index", Some("k2"), "Using index"),
            access("index", Some("k"), ""),
            access("range", Some("k"), "Using where; Using index"),
            access("ALL", None, ""),
        ] {
            assert!(!other.is_all_of("k"), "{other}");
        }
        assert!(access("ALL", None, "").is_of_rows());
        assert!(access("index", Some("PRIMARY"), "").is_of_rows());
        assert!(!access("index", Some("k"), "Using index").is_of_rows());
    }
}
