//! Metrics of compression: InnoDB's counters of compressed pages, Frond's counters of blocks, and
//! the lengths of tables that the server reports.

use crate::lab::sql::{Bench, Session, SqlResult, number_of, text_of};
use crate::targets::Result;

const COUNTERS: &str = "SELECT SUM(compress_ops), SUM(compress_ops_ok), SUM(compress_time), SUM(uncompress_ops), \
                        SUM(uncompress_time) FROM information_schema.INNODB_CMP";

/// Frond's counters since they were last read: the sums over all trees, including dropped ones
/// (here), and those of each existing tree (below). Reading resets them.
const FROND: &str = "SELECT SUM(compress_ops), SUM(bytes_in), SUM(bytes_out), SUM(compress_seconds), \
                     SUM(decompress_ops), SUM(decompress_bytes_out), SUM(decompress_seconds) \
                     FROM information_schema.FROND_CMP_RESET";
const FROND_TREES: &str = "SELECT CONCAT_WS('/',table_name,partition_name,index_name), compress_ops, bytes_in, \
                           bytes_out, CAST(compress_seconds*1e9 AS INTEGER) \
                           FROM information_schema.FROND_CMP_PER_INDEX_RESET WHERE table_name IS NOT NULL";
/// Number of bytes to which times are scaled, since block sizes differ between engines: one page of
/// InnoDB.
const PAGE_BYTES: f64 = 16384.0;

/// Minimum number of seconds of compression, and of decompression, for an exact time per page:
/// InnoDB counts whole seconds, and one second is more than 1 % of anything less.
const SECONDS_MIN: f64 = 100.0;

/// Whether the target is InnoDB.
fn is_innodb(bench: &Bench) -> bool {
    bench.target.engine.eq_ignore_ascii_case("InnoDB")
}

/// Sets the counters to zero.
///
/// # Errors
/// The server reports an error.
pub fn reset(bench: &mut Bench) -> Result<()> {
    if is_innodb(bench) {
        bench.admin().run("SELECT * FROM information_schema.INNODB_CMP_RESET")?;
    } else if bench.target.is_frond() {
        bench.admin().run(FROND)?;
        bench.admin().run(FROND_TREES)?;
    }
    Ok(())
}

/// Adds the values of the counters since the reset to the metrics of the last step.
///
/// # Errors
/// The server reports an error.
pub fn note(bench: &mut Bench) -> Result<()> {
    if bench.target.is_frond() {
        return note_frond(bench);
    }
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
        put("compress_too_short", is_too_short(seconds));
    }
    if uncompressed > 0.0 {
        put("uncompress_us_page", uncompress_s * 1e6 / uncompressed);
        put("uncompress_too_short", is_too_short(uncompress_s));
    }
    Ok(())
}

/// 1 if these whole seconds are too few for an exact time per page, otherwise 0.
fn is_too_short(seconds: f64) -> f64 {
    f64::from(u8::from(seconds < SECONDS_MIN))
}

fn note_frond(bench: &mut Bench) -> Result<()> {
    let [ops, bytes_in, bytes_out, seconds, uncompressed, uncompressed_b, uncompress_s] =
        numbers(bench.admin(), FROND)?;
    let mut trees = Vec::new();
    bench.admin().rows(FROND_TREES, |row| {
        let number = |at| number_of(row, at).unwrap_or(0) as f64;
        if let Some(tree) = text_of(row, 0).filter(|_| number(1) > 0.0) {
            trees.push((tree.replace('.', "_"), [1, 2, 3, 4].map(number)));
        }
    })?;
    let mut put = |name: &str, value| put(bench, name, value);
    put("compress_ops", ops);
    put("compress_in_b", bytes_in);
    put("compress_out_b", bytes_out);
    put("compress_s", seconds);
    put("uncompress_ops", uncompressed);
    put("uncompress_s", uncompress_s);
    if bytes_in > 0.0 {
        put("compress_us_page", seconds * 1e6 * PAGE_BYTES / bytes_in);
    }
    if uncompressed_b > 0.0 {
        put("uncompress_us_page", uncompress_s * 1e6 * PAGE_BYTES / uncompressed_b);
    }
    for (tree, [ops, bytes_in, bytes_out, nanos]) in trees {
        put(&format!("compress_ops.{tree}"), ops);
        put(&format!("compress_in_b.{tree}"), bytes_in);
        put(&format!("compress_out_b.{tree}"), bytes_out);
        put(&format!("compress_s.{tree}"), nanos / 1e9);
    }
    Ok(())
}

/// Adds the lengths that SHOW TABLE STATUS reports for a table to the metrics of the last step.
///
/// # Errors
/// The server reports an error.
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

/// Returns the numbers in a query's only row, with 0 for NULL.
fn numbers<const N: usize>(session: &mut Session, sql: &str) -> SqlResult<[f64; N]> {
    let mut found = [0.0; N];
    session.rows(sql, |row| {
        for (at, number) in found.iter_mut().enumerate() {
            let text = text_of(row, at);
            *number = text.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        }
    })?;
    Ok(found)
}

/// Adds a metric to the last step.
pub fn put(bench: &mut Bench, name: &str, value: f64) {
    if let Some(step) = bench.result.steps.last_mut() {
        step.metrics.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_exact_enough_from_a_hundred() {
        assert_eq!([0.0, 99.0, 100.0, 463.0].map(is_too_short), [1.0, 1.0, 0.0, 0.0]);
    }
}
