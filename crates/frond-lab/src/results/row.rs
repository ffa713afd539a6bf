//! The result row of a step, computed from what the meter measured.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Budget, Goal, PartSize, Yardstick};
use crate::measure::{Mark, Sample, Taken, evenness, exit_velocity, rates, seconds_at};
use crate::workloads::Volume;

/// Number of operations over which the exit velocity is taken, unless a fifth of all is less.
const EXIT_OPS: u64 = 1_000_000;

/// The results of one step on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Target.
    pub target: String,
    /// Step.
    pub step: String,
    /// What one operation is: row, get, commit.
    pub op: String,
    /// Operations done, and planned.
    pub ops: u64,
    pub ops_planned: u64,
    /// Whether all planned operations were done.
    pub finished: bool,
    pub seconds: f64,
    pub ops_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_velocity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_velocity_4pct: Option<f64>,
    /// Rate of the last million operations ÷ rate of the second (or tenths, where there are fewer).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_over_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_over_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_longest_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cv: Option<f64>,
    /// CPU µs per operation without the generator: all, client threads, the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_fg_us_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_bg_us_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_generator_us_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wr_b_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rd_b_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wr_io_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rd_io_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_op: Option<f64>,
    /// Number of concurrent clients, if the step has a defined number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Transactions that were run again because of conflicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// `wr_b_op` with everything written until the quiesce ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wr_b_op_quiesced: Option<f64>,
    /// `cpu_us_op` with everything done until the quiesce ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_op_quiesced: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_load_b: Option<u64>,
    /// After what was in memory had been written out, before any background work was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_flushed_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_peak_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_end_b: Option<u64>,
    /// After a full compaction, if the target has one and it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_compacted_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_b_row: Option<f64>,
    /// `disk_flushed_b` ÷ `disk_b`: by how much a store still shrinks after a load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_flushed_over_end: Option<f64>,
    /// `disk_b` by kind of file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disk_files_b: BTreeMap<String, u64>,
    /// Raw bytes of the keys and values of a row and its index entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_b_row: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_amp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_amp_ix: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak_b: Option<u64>,
    /// `rss_peak_b` minus the null target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_over_null_b: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_peak_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctx_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_minor_op: Option<f64>,
    /// `faults_minor_op` of the step's second half. Memory was touched before that, so what still
    /// faults was given back and taken again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_minor_steady_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_major_op: Option<f64>,
    /// Rows found by gets and visited by scans, in steps that count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// Checksum of the logical rows, equal for all targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_crc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// Number of errors by kind; empty if there were none.
    pub errors: BTreeMap<String, u64>,
    /// Latencies by name: `get_p50_us` and so on.
    #[serde(flatten)]
    pub latencies: BTreeMap<String, f64>,
    /// Latency histograms by operation, ns; not in the JSON.
    #[serde(skip)]
    pub histograms: BTreeMap<&'static str, Histogram<u64>>,
    /// Rate of each second.
    pub int_ops_s: Vec<f64>,
    /// Per second: operations, resident bytes, bytes written, CPU.
    pub series: Vec<Sample>,
    /// Marks at even operation counts, thinned out: progress against operations.
    pub curve: Vec<Mark>,
    /// What the engine counted during the step.
    pub engine: BTreeMap<String, f64>,
    /// The design's budgets with the measured values.
    pub budgets: Vec<Budget>,
    /// Goals relative to a rival in the same run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// A size that is known of the rows themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<Yardstick>,
    /// Sizes of the columns, in a store that keeps rows by part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartSize>,
    /// Remarks that a reader of the numbers must know.
    pub notes: Vec<String>,
}

/// Result of the verification pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verified {
    /// Keyspaces with the right count and checksum, and the number of all keyspaces.
    pub keyspaces: usize,
    pub of: usize,
    /// Entries read.
    pub entries: u64,
    pub seconds: f64,
}

/// The complete result of a target's run, known when it has been closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Final {
    /// Engine and version.
    pub version: String,
    /// Effective settings.
    pub settings: Vec<(String, String)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// All rows, complete.
    pub rows: Vec<Row>,
}

/// Returns the minor faults per operation from the sample at half of the operations to the last
/// one.
fn faults_of_second_half(samples: &[Sample]) -> Option<f64> {
    let last = samples.last()?;
    let half = samples.iter().find(|sample| sample.mark.ops >= last.mark.ops / 2)?;
    let ops = last.mark.ops - half.mark.ops;
    (ops > 0).then(|| (last.faults_minor - half.faults_minor) as f64 / ops as f64)
}

impl Row {
    /// Computes the row of a step.
    pub fn new(
        target: &str,
        step: &str,
        op: &str,
        planned: u64,
        taken: &Taken,
        volume: Volume,
    ) -> Self {
        let ops = taken.ops.max(1) as f64;
        let per_op = |n: u64| Some(n as f64 / ops);
        let us_per_op = |seconds: f64| Some(seconds.max(0.0) * 1e6 / ops);
        let usage = &taken.usage;
        let own_cpu = usage.cpu_s - taken.meter_cpu_s;
        let mut row = Self {
            target: target.to_owned(),
            step: step.to_owned(),
            op: op.to_owned(),
            ops: taken.ops,
            ops_planned: planned,
            finished: !taken.stopped,
            seconds: taken.seconds,
            ops_s: taken.ops as f64 / taken.seconds.max(1e-9),
            cpu_us_op: us_per_op(own_cpu),
            cpu_fg_us_op: us_per_op(taken.client_cpu_s),
            cpu_bg_us_op: us_per_op(own_cpu - taken.client_cpu_s),
            wr_b_op: per_op(usage.write_bytes),
            rd_b_op: per_op(usage.read_bytes),
            wr_io_op: per_op(usage.write_calls),
            rd_io_op: per_op(usage.read_calls),
            disk_peak_b: Some(taken.disk_peak_b),
            rss_peak_b: Some(taken.rss_peak_b),
            ctx_op: per_op(usage.switches),
            faults_minor_op: per_op(usage.faults_minor),
            faults_major_op: per_op(usage.faults_major),
            faults_minor_steady_op: faults_of_second_half(&taken.samples),
            series: taken.samples.clone(),
            ..Self::default()
        };
        row.take_latencies(taken);
        row.take_series(taken);
        if volume.changed_bytes > 0 {
            row.write_amp = Some(usage.write_bytes as f64 / volume.changed_bytes as f64);
        }
        row
    }

    /// Percentage of the planned operations that were done, rounded down, so that a stopped step
    /// never shows 100.
    pub fn percent_done(&self) -> u64 {
        100 * self.ops / self.ops_planned.max(1)
    }

    /// Returns a latency of the step's main operation, which is the one with the most requests.
    pub fn latency(&self, part: &str) -> Option<f64> {
        let counts =
            self.latencies.iter().filter_map(|(name, n)| Some((name.strip_suffix("_count")?, n)));
        let (main, _) = counts.max_by(|a, b| a.1.total_cmp(b.1))?;
        self.latencies.get(&format!("{main}_{part}")).copied()
    }

    fn take_latencies(&mut self, taken: &Taken) {
        for (operation, histogram) in &taken.latencies {
            if histogram.is_empty() {
                continue;
            }
            self.histograms.insert(operation, histogram.clone());
            let parts = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
            for (name, quantile) in parts {
                let micros = histogram.value_at_quantile(quantile) as f64 / 1e3;
                self.latencies.insert(format!("{operation}_{name}_us"), micros);
            }
            self.latencies.insert(format!("{operation}_max_us"), histogram.max() as f64 / 1e3);
            self.latencies.insert(format!("{operation}_count"), histogram.len() as f64);
        }
    }

    fn take_series(&mut self, taken: &Taken) {
        let start = Mark { ops: 0, seconds: 0.0 };
        let marks: Vec<Mark> =
            std::iter::once(start).chain(taken.samples.iter().map(|sample| sample.mark)).collect();
        self.int_ops_s = rates(&marks);
        if let Some(even) = evenness(&self.int_ops_s) {
            self.worst_over_mean = Some(even.worst_over_mean);
            self.cv = Some(even.cv);
            self.stall_s = Some(even.stalled as f64);
            self.stall_longest_s = Some(even.stalled_longest as f64);
        }
        let curve: Vec<Mark> = std::iter::once(start).chain(taken.marks.iter().copied()).collect();
        self.exit_velocity = exit_velocity(&curve, EXIT_OPS.min(taken.ops / 5));
        self.exit_velocity_4pct = exit_velocity(&curve, taken.ops / 25);
        let slice = EXIT_OPS.min(taken.ops / 10);
        let second = seconds_at(&curve, 2 * slice).zip(seconds_at(&curve, slice));
        if let (Some((end, begin)), Some(last)) = (second, exit_velocity(&curve, slice)) {
            self.last_over_second = Some(last * (end - begin) / slice.max(1) as f64);
        }
        // 200 points are plenty for a chart.
        let step = (curve.len() / 200).max(1);
        let last = curve.last().copied();
        self.curve = curve.iter().step_by(step).copied().chain(last).collect();
        self.curve.dedup_by_key(|mark| mark.ops);
    }
}

/// Subtracts the null target's CPU from the same steps of the other targets (Invariant 3). A
/// server's row has no generator CPU and stays as it is.
pub fn subtract_generator(rows: &mut [Row], null: &[Row]) {
    for row in rows.iter_mut().filter(|row| row.cpu_fg_us_op.is_some()) {
        let Some(base) = null.iter().find(|base| base.step == row.step) else { continue };
        if let (Some(peak), Some(base)) = (row.rss_peak_b, base.rss_peak_b) {
            row.rss_over_null_b = Some(peak as i64 - base as i64);
        }
        let Some(generator) = base.cpu_fg_us_op.filter(|_| base.ops > 0) else { continue };
        row.cpu_generator_us_op = Some(generator);
        for cpu in [&mut row.cpu_us_op, &mut row.cpu_fg_us_op, &mut row.cpu_us_op_quiesced] {
            *cpu = cpu.map(|cpu| (cpu - generator).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_cpu_is_subtracted_and_shown() {
        let row = |cpu| Row {
            step: "load".to_owned(),
            ops: 10,
            cpu_us_op: Some(cpu + 1.0),
            cpu_fg_us_op: Some(cpu),
            rss_peak_b: Some(100),
            ..Row::default()
        };
        let mut rows = vec![row(5.0), Row { step: "other".to_owned(), ..row(5.0) }];
        subtract_generator(&mut rows, &[row(2.0)]);
        assert_eq!(rows[0].cpu_us_op, Some(4.0));
        assert_eq!(rows[0].cpu_fg_us_op, Some(3.0));
        assert_eq!(rows[0].cpu_generator_us_op, Some(2.0));
        assert_eq!(rows[0].rss_over_null_b, Some(0));
        assert_eq!(rows[1].cpu_generator_us_op, None);
    }

    #[test]
    fn rows_survive_json_with_their_columns_by_name() {
        let mut row = Row { target: "null".to_owned(), exit_velocity: Some(2.5), ..Row::default() };
        row.latencies.insert("commit_p99_us".to_owned(), 17.5);
        let json = serde_json::to_value(&row).expect("plain data");
        assert_eq!(json["target"], "null");
        assert_eq!(json["commit_p99_us"], 17.5);
        assert!(json.get("cv").is_none(), "not measured, so absent");
        let back: Row = serde_json::from_value(json).expect("its own output");
        assert_eq!(back.latencies, row.latencies);
    }

    #[test]
    fn faults_of_the_first_half_are_not_steady() {
        let sample = |ops, faults_minor| Sample {
            mark: Mark { ops, seconds: ops as f64 },
            rss_b: 0,
            read_b: 0,
            write_b: 0,
            cpu_s: 0.0,
            cpu_system_s: 0.0,
            p99_us: None,
            io: None,
            disk_b: None,
            faults_minor,
        };
        let samples =
            [sample(10, 9_000), sample(50, 10_000), sample(90, 10_004), sample(100, 10_005)];
        assert_eq!(faults_of_second_half(&samples), Some(0.1));
        assert_eq!(faults_of_second_half(&samples[..1]), None);
        assert_eq!(faults_of_second_half(&[]), None);
    }
}
