//! What InnoDB counts of its compressed pages, and what the server says of a table's length.

use crate::lab::sql::{Bench, Session, SqlResult};
use crate::targets::Result;

const COUNTERS: &str = "SELECT SUM(compress_ops), SUM(compress_ops_ok), SUM(compress_time), SUM(uncompress_ops), \
                        SUM(uncompress_time) FROM information_schema.INNODB_CMP";

/// Least whole seconds of compression that a time per page is made of: below, the clock's step is more than 1 %.
pub const SECONDS_MIN: f64 = 100.0;

/// Whether it is InnoDB that is measured.
fn is_innodb(bench: &Bench) -> bool {
    bench.target.engine.eq_ignore_ascii_case("InnoDB")
}

/// Sets the counters to zero.
///
/// # Errors
/// The server's.
pub fn reset(bench: &mut Bench) -> Result<()> {
    if is_innodb(bench) {
        bench.admin().run("SELECT * FROM information_schema.INNODB_CMP_RESET")?;
    }
    Ok(())
}

/// Gives the last step what the counters have come to since they were zero.
///
/// # Errors
/// The server's.
pub fn note(bench: &mut Bench) -> Result<()> {
    if !is_innodb(bench) {
        return Ok(());
    }
    let [ops, ok, seconds, uncompressed, uncompress_s] = numbers(bench.admin(), COUNTERS)?;
    let mut put = |name, value| put(bench, name, value);
    put("compress_ops", ops);
    put("compress_ops_ok", ok);
    put("compress_s", seconds);
    put("uncompress_ops", uncompressed);
    put("uncompress_s", uncompress_s);
    if ops > 0.0 {
        put("compress_failed_pct", 100.0 * (ops - ok) / ops);
        put("compress_us_page", seconds * 1e6 / ops);
        put("compress_too_short", f64::from(u8::from(seconds < SECONDS_MIN)));
    }
    if uncompressed > 0.0 {
        put("uncompress_us_page", uncompress_s * 1e6 / uncompressed);
    }
    Ok(())
}

/// Gives the last step the lengths that SHOW TABLE STATUS has of a table.
///
/// # Errors
/// The server's.
pub fn note_lengths(bench: &mut Bench, table: &str) -> Result<()> {
    if !bench.keeps_rows() || bench.is_over() {
        return Ok(());
    }
    bench.admin().run(&format!("ANALYZE TABLE {table}"))?;
    let sql = format!(
        "SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{table}'"
    );
    let [data, index] = numbers(bench.admin(), &sql)?;
    put(bench, "data_length_b", data);
    put(bench, "index_length_b", index);
    Ok(())
}

/// The numbers of a query's only row; what is NULL is 0.
fn numbers<const N: usize>(session: &mut Session, sql: &str) -> SqlResult<[f64; N]> {
    let mut found = [0.0; N];
    session.rows(sql, |row| {
        for (at, number) in found.iter_mut().enumerate() {
            let text = crate::lab::sql::text_of(row, at);
            *number = text.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        }
    })?;
    Ok(found)
}

/// Gives the last step a metric.
pub fn put(bench: &mut Bench, name: &str, value: f64) {
    if let Some(step) = bench.result.steps.last_mut() {
        step.metrics.insert(name.to_owned(), value);
    }
}
