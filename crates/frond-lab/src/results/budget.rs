//! The design's budgets, to be compared with what was measured.
//!
//! A budget holds for one core of the development machine; a figure of twice the budget is a
//! defect.

use serde::{Deserialize, Serialize};

use super::{Row, is_rocksdb};

/// A budget and the measured figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// Column of the row that is budgeted.
    pub column: String,
    /// What is budgeted, in words.
    pub what: String,
    /// Upper bound.
    pub budget: f64,
    /// Measured figure.
    pub measured: f64,
}

const TRAINING: &str = "training_ns_op";

/// Step, column, budget and description. Times are in µs unless noted.
const BUDGETS: [(&str, &str, f64, &str); 27] = [
    ("iibench", "cpu_us_op", 4.0, "row with three random secondary entries, all CPU"),
    // 3 × 0.7 µs for the random entries and 0.3 µs for the append-only row.
    ("iibench", "cpu_bg_us_op", 2.4, "background part: 3 x 0.7 + 0.3 us"),
    // Six times the 48 logical bytes of secondary entries, and the row twice (log and leaf).
    ("iibench", "wr_b_op_quiesced", 344.0, "6 x bytes of secondary entries, row twice"),
    ("iibench", "faults_minor_steady_op", 0.001, "no page faults in steady state"),
    ("fillseq", "cpu_fg_us_op", 2.0, "commit without sync, one row"),
    ("fillrandom", "cpu_fg_us_op", 2.0, "commit without sync, one row"),
    ("overwrite", "cpu_fg_us_op", 2.0, "commit without sync, one row"),
    ("put-1", "cpu_fg_us_op", 2.0, "transaction without sync, one row"),
    ("readrandom", "cpu_fg_us_op", 1.5, "point read, block cached"),
    ("readmissing", "cpu_fg_us_op", 0.3, "absent key, unique tree"),
    ("seekrandom", "cpu_fg_us_op", 8.0, "short scan, blocks cached"),
    ("readseq", "cpu_fg_us_op", 0.03, "next row of a scan (narrow rows)"),
    ("readreverse", "cpu_fg_us_op", 0.03, "next row of a scan (narrow rows)"),
    // 3 ns for each of iibench's four entries; for the others it depends on the kind of row.
    ("sbtest", TRAINING, 20.0, "ns a row, making models of strings for leaves"),
    ("iibench", TRAINING, 12.0, "ns a row, making models of strings for leaves"),
    ("weblog", TRAINING, 200.0, "ns a row, making models of strings for leaves"),
    ("packages", TRAINING, 500.0, "ns a row, making models of strings for leaves"),
    // Sizes are those of the whole store after it has settled and was closed.
    ("sbtest", "disk_b_row", 85.0, "bytes on disk, with the index"),
    ("iibench", "disk_b_row", 26.0, "bytes on disk, with three indexes, at 10 M rows"),
    ("weblog", "disk_b_row", 100.0, "bytes on disk, with three indexes"),
    ("linktable", "disk_b_row", 18.0, "bytes on disk"),
    ("packages", "disk_b_row", 135.0, "bytes on disk"),
    ("sbtest", "disk_flushed_over_end", 1.15, "right after the load against settled"),
    ("iibench", "disk_flushed_over_end", 1.15, "right after a random load against settled"),
    ("weblog", "disk_flushed_over_end", 1.15, "right after a random load against settled"),
    ("linktable", "disk_flushed_over_end", 1.15, "right after the load against settled"),
    ("packages", "disk_flushed_over_end", 1.15, "right after the load against settled"),
];

/// Minimum size of RocksDB with zstd relative to Frond, by data set.
const TIMES_AS_LARGE: [(&str, f64); 5] =
    [("sbtest", 1.3), ("iibench", 1.3), ("weblog", 1.3), ("linktable", 1.2), ("packages", 1.2)];

/// Returns the minimum size of a data set in a rival relative to Frond; `None` if there is no goal.
pub fn times_as_large(step: &str, target: &str) -> Option<f64> {
    let (_, times) = TIMES_AS_LARGE.iter().find(|(of, _)| *of == step)?;
    is_rocksdb(target).then_some(*times)
}

/// Returns the maximum bytes per row of a data set in Frond.
pub fn bytes_a_row(step: &str) -> Option<f64> {
    let size = |(of, column, ..): &&(&str, &str, f64, &str)| *of == step && *column == "disk_b_row";
    BUDGETS.iter().find(size).map(|(_, _, budget, _)| *budget)
}

/// Returns the budgets that apply to a row.
pub fn budgets(row: &Row) -> Vec<Budget> {
    let of_step = BUDGETS.iter().filter(|(step, ..)| *step == row.step);
    let measured = |column: &str| match column {
        "cpu_us_op" => row.cpu_us_op,
        "cpu_fg_us_op" => row.cpu_fg_us_op,
        "cpu_bg_us_op" => row.cpu_bg_us_op,
        "wr_b_op_quiesced" => row.wr_b_op_quiesced.or(row.wr_b_op),
        "faults_minor_steady_op" => row.faults_minor_steady_op,
        "disk_b_row" => row.disk_b_row,
        "disk_flushed_over_end" => row.disk_flushed_over_end,
        TRAINING => {
            row.engine.get("leaf_training_nanos").map(|nanos| nanos / row.ops.max(1) as f64)
        }
        _ => None,
    };
    of_step
        .filter_map(|&(_, column, budget, what)| {
            let measured = measured(column)?;
            Some(Budget { column: column.to_owned(), what: what.to_owned(), budget, measured })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_budget_names_a_column_that_can_be_measured() {
        for (step, column, ..) in BUDGETS {
            let row = Row {
                step: step.to_owned(),
                cpu_us_op: Some(1.0),
                cpu_fg_us_op: Some(1.0),
                cpu_bg_us_op: Some(1.0),
                wr_b_op: Some(1.0),
                faults_minor_steady_op: Some(0.0),
                disk_b_row: Some(1.0),
                disk_flushed_over_end: Some(1.0),
                engine: [("leaf_training_nanos".to_owned(), 1.0)].into(),
                ..Row::default()
            };
            assert!(budgets(&row).iter().any(|budget| budget.column == column), "{step} {column}");
        }
    }

    #[test]
    fn every_data_set_has_its_goals() {
        for (step, times) in TIMES_AS_LARGE {
            assert!(bytes_a_row(step).is_some_and(|bytes| bytes > 0.0), "{step}");
            assert_eq!(times_as_large(step, "rocksdb-m3"), Some(times));
            for other in ["sqlite", "lmdb", "frond"] {
                assert_eq!(times_as_large(step, other), None);
            }
        }
        assert_eq!((bytes_a_row("fillseq"), times_as_large("fillseq", "rocksdb")), (None, None));
    }
}
