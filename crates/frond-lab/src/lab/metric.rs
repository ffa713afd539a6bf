//! The metrics: what is measured, in which unit, which direction is better, and where it is shown.
//! A new metric needs one line here, and one that adds it to the metrics of a step or cell.
//!
//! Names end with their unit. `_op` means "per operation of the step", `_row` "per row in the table
//! at the end".

/// Direction in which a metric improves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
    /// Neither: the metric only describes the run.
    Neither,
}

/// A place that shows metrics as numbers. Charts choose theirs themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The tables of `lab show` and of the Markdown export.
    Tables,
    /// The matrix on the page of a workload.
    Page,
    /// The matrices on the page of a workload and on the first page.
    FirstPage,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of the metric in the database and on the command line.
    pub name: &'static str,
    /// Unit, as charts show it.
    pub unit: &'static str,
    /// Direction in which the metric improves.
    pub better: Better,
    /// Smallest relative difference that matters if it is significant.
    pub magnitude: f64,
    /// Description in one phrase.
    pub what: &'static str,
    /// Where it is shown, in addition to the places that show the headline of its workload.
    shown: &'static [Place],
    /// Name of a metric of the same step. If it is 1, this one was measured for too short a time to
    /// be exact.
    pub unless: Option<&'static str>,
}

use Better::{Higher, Lower, Neither};
use Place::{FirstPage, Page, Tables};

impl Metric {
    const fn shown(self, shown: &'static [Place]) -> Self {
        Self { shown, ..self }
    }

    const fn unless(self, flag: &'static str) -> Self {
        Self { unless: Some(flag), ..self }
    }

    /// Whether a place shows the metric.
    pub fn is_shown(&self, place: Place) -> bool {
        self.shown.iter().any(|own| *own == place || (place, *own) == (Page, FirstPage))
    }
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    better: Better,
    magnitude: f64,
    what: &'static str,
) -> Metric {
    Metric { name, unit, better, magnitude, what, shown: &[], unless: None }
}

/// All metrics, in the order of tables.
pub const METRICS: &[Metric] = &[
    metric("ops_s", "1/s", Higher, 0.07, "operations per second over the step")
        .shown(&[Tables, FirstPage]),
    metric(
        "exit_velocity",
        "1/s",
        Higher,
        0.07,
        "rate over the last million rows, or over the last fifth",
    )
    .shown(&[Tables, FirstPage]),
    metric("ops_s_p50", "1/s", Higher, 0.07, "median of the rates per second").shown(&[Page]),
    metric("ops_s_p90", "1/s", Higher, 0.07, "rate that nine tenths of the seconds do not exceed")
        .shown(&[Page]),
    metric("exit_velocity_4pct", "1/s", Higher, 0.07, "rate over the last 4 % of the planned rows"),
    metric(
        "add_link_10s",
        "",
        Higher,
        0.07,
        "ADD_LINK requests per 10 s, mean over the last tenth of the step",
    )
    .shown(&[FirstPage]),
    metric("nopm", "1/min", Higher, 0.07, "new orders per minute").shown(&[FirstPage]),
    metric("busy", "", Lower, 0.10, "open loop: mean number of clients with a request in progress")
        .shown(&[Tables, Page]),
    metric("wanted_s", "1/s", Neither, 0.0, "open loop: requests due per second"),
    metric(
        "unserved",
        "",
        Lower,
        0.50,
        "open loop: requests that were due but not served within the step",
    )
    .shown(&[Tables, Page]),
    metric(
        "warm_up_s",
        "s",
        Neither,
        0.0,
        "duration of the warm-up before the step, which is not measured",
    ),
    metric(
        "rows_deleted",
        "",
        Neither,
        0.0,
        "rows that the step deleted; its other requests found none",
    ),
    metric("gone_s", "s", Lower, 0.10, "time until all rows of the dropped day are deleted")
        .shown(&[Page]),
    metric(
        "bytes_back_s",
        "s",
        Lower,
        0.10,
        "time until half of the bytes of these rows are free again, if ever",
    )
    .shown(&[Page]),
    metric("freed_b", "B", Higher, 0.10, "bytes freed, minus those taken by new rows"),
    metric(
        "drift_pct",
        "%",
        Lower,
        0.50,
        "difference in rate from the same step at the start; above 5 the machine or table changed",
    ),
    metric("seconds", "s", Lower, 0.07, "duration of the step").shown(&[FirstPage]),
    metric("ops", "", Neither, 0.0, "operations completed"),
    metric("planned", "", Neither, 0.0, "operations planned"),
    metric("p50_us", "µs", Lower, 0.10, "median latency of a request").shown(&[Tables]),
    metric("p95_us", "µs", Lower, 0.10, "95th percentile of the latency"),
    metric("p99_us", "µs", Lower, 0.10, "99th percentile of the latency").shown(&[Tables, Page]),
    metric("p999_us", "µs", Lower, 0.20, "99.9th percentile of the latency"),
    metric("max_us", "µs", Lower, 0.50, "longest latency").shown(&[Tables]),
    metric(
        "worst_over_mean",
        "",
        Higher,
        0.30,
        "rate of the slowest second, as a fraction of the mean rate",
    )
    .shown(&[Tables]),
    metric("stall_s", "s", Lower, 0.50, "seconds below a tenth of the mean rate"),
    metric(
        "stall_longest_s",
        "s",
        Lower,
        0.50,
        "longest run of seconds below a tenth of the mean rate",
    )
    .shown(&[Page]),
    metric(
        "cv",
        "",
        Lower,
        0.30,
        "standard deviation of the rate per second, as a fraction of the mean",
    ),
    metric("cpu_us_op", "µs", Lower, 0.03, "CPU of the engine's process per operation")
        .shown(&[Tables, Page]),
    metric("cpu_user_us_op", "µs", Lower, 0.03, "SQL: user-mode CPU of the server per operation"),
    metric("cpu_sys_us_op", "µs", Lower, 0.03, "SQL: kernel-mode CPU of the server per operation"),
    metric(
        "cpu_us_op_rested",
        "µs",
        Lower,
        0.03,
        "CPU per operation, including background work after the step",
    ),
    metric(
        "cpu_fg_us_op",
        "µs",
        Lower,
        0.03,
        "embedded store: CPU of the client threads per operation, without the client's own work",
    ),
    metric(
        "cpu_bg_us_op",
        "µs",
        Lower,
        0.05,
        "embedded store: CPU of all other threads per operation",
    ),
    metric(
        "training_ns_op",
        "ns",
        Lower,
        0.10,
        "Frond: time per operation for making models of strings",
    ),
    metric(
        "faults_steady_op",
        "",
        Lower,
        0.50,
        "embedded store: page faults per operation in the second half of the step",
    ),
    metric(
        "client_ratio",
        "×",
        Higher,
        0.05,
        "rate of the lab's client, relative to that of another client with the same statements",
    )
    .shown(&[Tables]),
    metric("client_cpu_us_op", "µs", Neither, 0.03, "CPU of the client per operation")
        .shown(&[Tables]),
    metric(
        "sampling_pct",
        "%",
        Neither,
        0.0,
        "CPU that measuring the step took, relative to that of the engine and its clients",
    ),
    metric("wr_b_op", "B", Lower, 0.03, "bytes sent to the device per operation").shown(&[Page]),
    metric(
        "wr_b_op_rested",
        "B",
        Lower,
        0.03,
        "bytes sent to the device per operation, including background work after the step",
    )
    .shown(&[Tables]),
    metric("rd_b_op", "B", Lower, 0.03, "bytes read from the device per operation")
        .shown(&[Tables, Page]),
    metric(
        "device_wr_b_op",
        "B",
        Lower,
        0.05,
        "bytes written by the engine's own calls per operation, as counted by its control group",
    ),
    metric(
        "device_rd_b_op",
        "B",
        Lower,
        0.05,
        "bytes read per operation, as counted by the engine's control group",
    ),
    metric(
        "device_wr_of_proc",
        "×",
        Neither,
        0.0,
        "bytes written as counted by the control group, over those of /proc; 1 within 5 % or 1 MiB",
    ),
    metric(
        "device_rd_of_proc",
        "×",
        Neither,
        0.0,
        "bytes read as counted by the control group, over those of /proc; 1 within 5 % or 1 MiB",
    ),
    metric("wr_io_op", "", Lower, 0.05, "device writes per operation"),
    metric("rd_io_op", "", Lower, 0.05, "device reads per operation"),
    metric("fsync_op", "", Lower, 0.03, "syncs per operation, as counted by the engine")
        .shown(&[Page]),
    metric(
        "disk_cpu_s",
        "s",
        Neither,
        0.0,
        "CPU that the lab uses to serve a virtual disk; it competes with the engine",
    )
    .shown(&[Tables, Page]),
    metric("ctx_op", "", Lower, 0.10, "context switches per operation"),
    metric(
        "write_amp",
        "×",
        Lower,
        0.03,
        "bytes written per byte of changed rows, including background work after the step",
    )
    .shown(&[Page]),
    metric("changed_b", "B", Neither, 0.0, "bytes of the rows that the step changed"),
    metric(
        "disk_b",
        "B",
        Lower,
        0.02,
        "allocated bytes after background work, without logs; all targets hold the same rows",
    )
    .shown(&[Tables, FirstPage]),
    metric(
        "disk_end_b",
        "B",
        Neither,
        0.0,
        "disk_b where targets hold different rows: compare bytes per row instead",
    ),
    metric(
        "disk_load_b",
        "B",
        Lower,
        0.02,
        "embedded store: allocated bytes at the end of the step",
    ),
    metric("disk_peak_b", "B", Lower, 0.05, "peak of allocated bytes; in SQL without logs"),
    metric("disk_b_row", "B", Lower, 0.02, "allocated bytes per row after background work")
        .shown(&[Tables, FirstPage]),
    metric(
        "flushed_over_rested",
        "",
        Lower,
        0.05,
        "embedded store: allocated bytes once memory was written out, over those after the rest",
    ),
    metric(
        "raw_b_row",
        "B",
        Neither,
        0.0,
        "embedded store: bytes of the keys and values of a row and its index entries, as given",
    )
    .shown(&[Tables]),
    metric(
        "random_b_row",
        "B",
        Neither,
        0.0,
        "random bytes of a row, which no store can leave out",
    )
    .shown(&[Tables]),
    metric(
        "columns_b_row",
        "B",
        Lower,
        0.02,
        "stored bytes of the columns of a row; on the target null, under zlib column by column",
    )
    .shown(&[Tables]),
    metric(
        "log_b",
        "B",
        Neither,
        0.0,
        "allocated bytes of logs after background work; not part of the size",
    ),
    metric(
        "space_amp",
        "×",
        Lower,
        0.02,
        "allocated bytes per byte of live rows, without index entries",
    ),
    metric("rss_peak_b", "B", Lower, 0.05, "peak resident size of the engine's process"),
    metric(
        "mem_peak_b",
        "B",
        Lower,
        0.05,
        "peak memory of the engine's control group, including page cache",
    ),
    metric(
        "held_rate",
        "",
        Higher,
        0.05,
        "rate while a snapshot is held, as a fraction of the rate without it",
    )
    .shown(&[Tables]),
    metric(
        "held_growth",
        "",
        Lower,
        0.05,
        "memory in the last quarter of the step, as a multiple of that in the second quarter",
    )
    .shown(&[Tables]),
    metric("queries_s", "1/s", Higher, 0.07, "queries per second while rows are inserted")
        .shown(&[Tables, Page]),
    metric("background_s", "1/s", Higher, 0.05, "rows per second inserted while queries run")
        .shown(&[Page]),
    metric(
        "sla_failed",
        "",
        Lower,
        0.50,
        "1 if the background rate missed 95 % of its target; the query rate is then invalid",
    )
    .shown(&[Page]),
    metric("writer_p999_us", "µs", Lower, 0.20, "99.9th percentile of the writer's latency")
        .shown(&[Page]),
    metric("writer_max_us", "µs", Lower, 0.50, "longest time for which the writer was blocked")
        .shown(&[Page]),
    metric("saving_pct", "%", Higher, 0.02, "bytes saved by page compression").shown(&[Page]),
    metric("data_length_b", "B", Lower, 0.02, "length of the table, from SHOW TABLE STATUS")
        .shown(&[Page]),
    metric(
        "index_length_b",
        "B",
        Lower,
        0.02,
        "length of its secondary indexes, from SHOW TABLE STATUS",
    )
    .shown(&[Page]),
    metric(
        "compress_ops",
        "",
        Neither,
        0.0,
        "pages compressed by InnoDB, blocks compressed by Frond",
    ),
    metric(
        "compress_in_b",
        "B",
        Neither,
        0.0,
        "bytes of compressed pages or blocks before compression",
    ),
    metric(
        "compress_out_b",
        "B",
        Neither,
        0.0,
        "bytes of compressed pages or blocks after compression",
    ),
    metric("compress_ops_ok", "", Neither, 0.0, "compressions whose result was small enough"),
    metric(
        "compress_failed_pct",
        "%",
        Lower,
        0.10,
        "percentage of compressions whose result was too large",
    )
    .shown(&[Page]),
    metric("compress_s", "s", Lower, 0.07, "seconds spent compressing; whole seconds for InnoDB"),
    metric("compress_us_page", "µs", Lower, 0.07, "time to compress 16 KiB")
        .shown(&[Page])
        .unless("compress_too_short"),
    metric(
        "compress_too_short",
        "",
        Neither,
        0.0,
        "1 if compression took less than 100 s in all: times per page are then inexact",
    ),
    metric(
        "uncompress_too_short",
        "",
        Neither,
        0.0,
        "1 if decompression took less than 100 s in all: times per page are then inexact",
    ),
    metric(
        "uncompress_ops",
        "",
        Lower,
        0.07,
        "pages decompressed by InnoDB, parts of blocks decompressed by Frond",
    ),
    metric(
        "uncompress_s",
        "s",
        Lower,
        0.07,
        "seconds spent decompressing; whole seconds for InnoDB",
    ),
    metric("uncompress_us_page", "µs", Lower, 0.07, "time to decompress to 16 KiB")
        .shown(&[Page])
        .unless("uncompress_too_short"),
    metric(
        "rest_s",
        "s",
        Lower,
        0.20,
        "time from the end of the step until background work had ended",
    )
    .shown(&[Page]),
    metric(
        "recovery_s",
        "s",
        Lower,
        0.10,
        "time from the start of a killed server until it answers",
    )
    .shown(&[Page]),
    metric(
        "errors_deadlock",
        "",
        Lower,
        0.50,
        "transactions that were deadlock victims and were retried",
    ),
    metric("deadlocks_s", "1/s", Lower, 0.50, "deadlock victims per second").shown(&[Page]),
    metric("errors_lock_timeout", "", Lower, 0.50, "statements that exceeded the lock timeout"),
    metric("errors_duplicate", "", Lower, 0.50, "statements rejected because of a duplicate key"),
    #[cfg(test)]
    metric("odd_pct", "%", Neither, 0.0, "percentage of rows with an odd value (workload example)"),
];

/// Finds a metric by name. `p99_us.add_link` is the metric `p99_us` of the requests `add_link`.
pub fn find(name: &str) -> Option<&'static Metric> {
    let name = name.split('.').next().unwrap_or_default();
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_distinct_and_comparable_metrics_have_a_magnitude() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..at].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(metric.better == Neither || metric.magnitude > 0.0, "{}", metric.name);
            assert!(metric.unless.is_none_or(|flag| find(flag).is_some()), "{}", metric.name);
        }
        assert_eq!(find("ops_s").map(|metric| metric.unit), Some("1/s"));
        assert_eq!(find("p99_us.add_link").map(|metric| metric.name), Some("p99_us"));
        assert!(find("nonsense").is_none());
    }

    #[test]
    fn the_line_of_a_metric_says_where_it_is_shown() {
        let places = |name: &str| {
            let metric = find(name).expect("a metric");
            [Tables, Page, FirstPage].map(|place| metric.is_shown(place))
        };
        assert_eq!(places("ops_s"), [true, true, true]);
        assert_eq!(places("p99_us"), [true, true, false]);
        assert_eq!(places("p50_us"), [true, false, false]);
        assert_eq!(places("planned"), [false; 3]);
        for name in ["busy", "unserved", "queries_s", "disk_cpu_s"] {
            assert_eq!(places(name), [true, true, false], "{name}");
        }
    }
}
