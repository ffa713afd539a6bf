//! Size of the web log as columns under zlib: an estimate for a store that separates columns and
//! compresses each with a general codec.
//!
//! Invariants
//! 1. Every choice is in zlib's favour: columns are in pieces many times its window, without
//!    headers and row numbers; integers are as short as possible; times are steps from row to row;
//!    and rows are in the order of arrival. Columns that can be computed from others (`log_id`,
//!    `end_ts`) are left out, and so is `error_code`, which is nearly always 0.
//! 2. Memory is bounded: one piece of rows, whatever their number.

use std::io::{self, Write};

use flate2::{Compression, write::ZlibEncoder};

use crate::schema::Value;

/// Number of rows in a piece.
pub const PIECE_ROWS: usize = 64 << 10;
/// Names of the columns that are left out.
pub const LEFT_OUT: [&str; 3] = ["log_id", "end_ts", "error_code"];

/// Computes the compressed size of rows that are split into columns.
pub struct ColumnSplit {
    piece_rows: usize,
    /// Columns of the current piece; those that are left out stay empty.
    columns: Vec<Vec<u8>>,
    rows_in_piece: usize,
    last_millis: u64,
    rows: u64,
    compressed_bytes: u64,
}

impl ColumnSplit {
    /// Starts without rows; a piece has `piece_rows` rows.
    pub fn new(piece_rows: usize) -> Self {
        Self {
            piece_rows: piece_rows.max(1),
            columns: Vec::new(),
            rows_in_piece: 0,
            last_millis: 0,
            rows: 0,
            compressed_bytes: 0,
        }
    }

    /// Adds a row, whose columns are named `names`.
    pub fn add(&mut self, names: &[&str], row: &[Value<'_>]) -> io::Result<()> {
        self.columns.resize_with(row.len(), Vec::new);
        for ((name, value), out) in names.iter().zip(row).zip(&mut self.columns) {
            if LEFT_OUT.contains(name) {
                continue;
            }
            match *value {
                Value::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    out.push(b'\n');
                }
                Value::Millis(millis) => {
                    let step = millis.wrapping_sub(self.last_millis) as i64;
                    append((step << 1 ^ step >> 63) as u64, out);
                    self.last_millis = millis;
                }
                Value::U64(v) => append(v, out),
                Value::U32(v) => append(v.into(), out),
                Value::F32(v) => append(v.to_bits().into(), out),
                Value::I32(v) => append((v << 1 ^ v >> 31) as u32 as u64, out),
                Value::I8(v) => out.push(v as u8),
                Value::I16(_) | Value::I64(_) => append(value.integer() as u64, out),
                Value::Blob(bytes) => out.extend_from_slice(bytes),
            }
        }
        self.rows += 1;
        self.rows_in_piece += 1;
        if self.rows_in_piece == self.piece_rows { self.end_piece() } else { Ok(()) }
    }

    /// Returns the bytes per row; `None` if there were no rows.
    pub fn finish(mut self) -> io::Result<Option<f64>> {
        self.end_piece()?;
        Ok((self.rows > 0).then(|| self.compressed_bytes as f64 / self.rows as f64))
    }

    fn end_piece(&mut self) -> io::Result<()> {
        for column in self.columns.iter_mut().filter(|column| !column.is_empty()) {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
            encoder.write_all(column)?;
            self.compressed_bytes += encoder.finish()?.len() as u64;
            column.clear();
        }
        self.rows_in_piece = 0;
        Ok(())
    }
}

/// Appends a number in LEB128: seven bits a byte, the lowest first.
fn append(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::super::generator::{Traffic, WebLog};
    use super::super::{column_names, columns};
    use super::*;

    /// Returns the bytes per row, raw and split.
    fn split(poll: f64, piece_rows: usize, rows: usize) -> (f64, f64) {
        // The reference data have a constant 400 rows per second on all instances.
        let rows_per_day = 400.0 * 86_400.0;
        let traffic = Traffic { rows_per_day, daily_curve: false, instance_subsets: false, poll };
        let mut log = WebLog::new(42, traffic);
        let population = log.population().clone();
        let (mut split, mut raw) = (ColumnSplit::new(piece_rows), 0);
        for _ in 0..rows {
            let call = log.next_call();
            let row = columns(&population, &call);
            raw += row.iter().map(Value::logical_bytes).sum::<u64>();
            split.add(&column_names(), &row).expect("in memory");
            log.give_back(call);
        }
        (raw as f64 / rows as f64, split.finish().expect("in memory").expect("rows"))
    }

    #[test]
    fn columns_compress_as_the_reference_does() {
        let references = [(0.25, 6.9), (0.75, 10.6), (0.95, 14.1)];
        for (poll, reference) in references {
            let (raw, split) = split(poll, 4096, 60_000);
            let ratio = raw / split;
            println!("{poll}: {split:.1} of {raw:.1} B a row, {ratio:.2}x for {reference}");
            assert!((ratio / reference - 1.0).abs() < 0.15, "{poll}: {ratio} for {reference}");
        }
    }

    #[test]
    fn larger_pieces_compress_better_and_the_last_one_counts() {
        let [small, large] = [1_000, PIECE_ROWS].map(|piece| split(0.25, piece, 5_500).1);
        assert!(large < small, "{large} {small}");
        let (mut one, row) = (ColumnSplit::new(2), [Value::Text("abc"), Value::U32(300)]);
        for _ in 0..3 {
            one.add(&["a", "b"], &row).expect("in memory");
        }
        // Two pieces of two columns, of at least two bytes each.
        assert!(one.finish().expect("in memory").is_some_and(|bytes| bytes > 8.0 / 3.0));
        assert_eq!(ColumnSplit::new(7).finish().expect("in memory"), None);
    }

    #[test]
    fn omitted_columns_take_no_bytes_and_exist_in_the_table() {
        let names = column_names();
        assert!(LEFT_OUT.iter().all(|name| names.contains(name)));
        let row: Vec<Value<'_>> = LEFT_OUT.iter().map(|_| Value::U64(u64::MAX)).collect();
        let mut split = ColumnSplit::new(7);
        split.add(&LEFT_OUT, &row).expect("in memory");
        assert_eq!(split.finish().expect("in memory"), Some(0.0));
    }
}
