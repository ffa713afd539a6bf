//! The data set `weblog`: a performance log of database calls, with long strings and three indexes.
//!
//! Invariants
//! 1. The generator is not tuned towards a compression ratio; its test compares the ratio with that
//!    of reference data.

pub mod generator;
pub mod population;
mod split;

use super::Source;
use crate::schema::{Column, Index, Table, Type, Value};
use crate::targets::Result;
use generator::{Call, Traffic, WebLog, columns};
use split::{ColumnSplit, PIECE_ROWS};

/// Days of traffic, over which the rows are spread.
const DAYS: f64 = 7.0;
/// Fraction of the calls that come from pollers.
const POLL: f64 = 0.25;

/// Returns the table `perf_log`.
pub fn table() -> Table {
    Table {
        name: "perf_log",
        base: 0,
        columns: vec![
            Column::new("log_id", Type::U64),
            Column::new("begin_ts", Type::Millis),
            Column::new("end_ts", Type::Millis),
            Column::new("duration_ms", Type::U32),
            Column::new("instance_name", Type::Text),
            Column::new("proc_name", Type::Text),
            Column::new("app_server", Type::Text),
            Column::new("login_name", Type::Text),
            Column::new("row_count", Type::U32),
            Column::new("error_code", Type::I32),
            Column::new("param_text", Type::Text),
        ],
        primary: vec![1, 0],
        indexes: vec![
            Index { name: "ix_proc", columns: vec![5, 1] },
            Index { name: "ix_inst", columns: vec![4, 1] },
            Index { name: "ix_dur", columns: vec![3, 1] },
        ],
    }
}

/// Names of the columns in DDL order.
fn column_names() -> Vec<&'static str> {
    table().columns.iter().map(|column| column.name).collect()
}

impl WebLog {
    /// A log of a week that has about this many rows.
    pub fn of_a_week(seed: u64, rows: u64) -> Self {
        let rows_per_day = rows as f64 / DAYS;
        let traffic =
            Traffic { rows_per_day, daily_curve: true, instance_subsets: true, poll: POLL };
        Self::new(seed, traffic)
    }
}

impl Source for WebLog {
    type Record = Call;
    type Columns<'a> = [Value<'a>; 11];
    const NAME: &'static str = "weblog";
    const ROWS_PER_COMMIT: u64 = 500;
    // After the load, measured at 300,000 rows.
    const INNODB_ROW_BYTES: u64 = 460;

    fn table() -> Table {
        table()
    }

    fn next(&mut self, call: &mut Call) -> bool {
        self.give_back(std::mem::take(call));
        *call = self.next_call();
        true
    }

    fn columns<'a>(&'a self, call: &'a Call) -> Self::Columns<'a> {
        columns(self.population(), call)
    }

    /// Returns the size of the columns under zlib, each compressed separately, without the indexes.
    fn yardstick(seed: u64, rows: u64) -> Result<Option<(&'static str, f64)>> {
        let (mut log, mut call) = (Self::of_a_week(seed, rows), Call::default());
        let (names, mut split) = (column_names(), ColumnSplit::new(PIECE_ROWS));
        for _ in 0..rows {
            log.next(&mut call);
            split.add(&names, &log.columns(&call))?;
        }
        Ok(split.finish()?.map(|bytes| ("columns_b_row", bytes)))
    }
}
