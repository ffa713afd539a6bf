//! Verification: each table's rows by its primary key, and the same through each of its indexes.
//!
//! A checksum is a sum of CRC-32 over the columns as text, so that it depends neither on the engine nor on the order.

use std::collections::BTreeMap;

use super::session::{Session, text_of};
use crate::lab::results::CellResult;
use crate::targets::{Failure, Result};

/// Indexes of a table with their columns; PRIMARY among them, if there is one.
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

fn columns(session: &mut Session, table: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let sql = format!(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{table}' \
         ORDER BY ORDINAL_POSITION"
    );
    session.rows(&sql, |row| found.extend(text_of(row, 0)))?;
    Ok(found)
}

/// An expression for the sum over these columns of all rows.
fn sum_of(columns: &[String]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|name| format!("COALESCE(`{name}`,'\\0')")).collect();
    format!("COALESCE(SUM(CRC32(CONCAT_WS(0x1F,{}))),0)", columns.join(","))
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

/// Verifies a table; `rows` is how many it must have, if that is known. With `is_fixed` every target must have the same
/// rows in the end.
///
/// # Errors
/// The server's.
pub fn verify_table(
    session: &mut Session,
    table: &str,
    rows: Option<u64>,
    is_fixed: bool,
    result: &mut CellResult,
) -> Result<()> {
    let indexes = indexes(session, table)?;
    let primary = indexes.get("PRIMARY").cloned().unwrap_or_default();
    let with_key = |columns: &[String]| -> Vec<String> {
        let more = primary.iter().filter(|column| !columns.contains(column));
        columns.iter().chain(more).cloned().collect()
    };
    let secondary: Vec<(&String, Vec<String>)> = indexes
        .iter()
        .filter(|(name, _)| *name != "PRIMARY")
        .map(|(name, columns)| (name, with_key(columns)))
        .collect();
    let sums: Vec<String> = secondary.iter().map(|(_, columns)| sum_of(columns)).collect();
    let all = columns(session, table)?;
    let hint = if primary.is_empty() { "" } else { " FORCE INDEX(PRIMARY)" };
    let mut select = vec!["COUNT(*)".to_owned(), sum_of(&all)];
    select.extend(sums.iter().cloned());
    let by_key = texts(session, &format!("SELECT {} FROM `{table}`{hint}", select.join(",")))?;
    let (count, sum) = (&by_key[0], &by_key[1]);
    if let Some(rows) = rows {
        let detail = format!("{count} rows, {rows} expected");
        result.verify(&format!("rows of {table}"), count.parse() == Ok(rows), detail);
    }
    if is_fixed {
        result.facts.insert(format!("{table} by PRIMARY"), format!("{count} rows, sum {sum}"));
    }
    for (at, (name, _)) in secondary.iter().enumerate() {
        let sql = format!("SELECT COUNT(*),{} FROM `{table}` FORCE INDEX(`{name}`)", sums[at]);
        let by_index = texts(session, &sql)?;
        let is_same = by_index[0] == *count && by_index[1] == by_key[2 + at];
        let detail = format!(
            "{} entries with sum {}, by PRIMARY {count} with {}",
            by_index[0],
            by_index[1],
            by_key[2 + at]
        );
        result.verify(&format!("{table} by {name}"), is_same, detail);
    }
    Ok(())
}
