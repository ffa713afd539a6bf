//! Turns the measurements of a step into named metrics, series and histograms.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use super::Step;
use crate::lab::results::{CounterSample, Latencies, StepResult};
use crate::measure::{Mark, Space, Taken, Usage, evenness, exit_velocity, rates};
use crate::targets::{Failure, Result};

/// Metrics of what all clients of a step use, divided by its operations.
const OF_ALL_CLIENTS: [&str; 11] = [
    "cpu_us_op",
    "cpu_user_us_op",
    "cpu_sys_us_op",
    "cpu_fg_us_op",
    "cpu_bg_us_op",
    "client_cpu_us_op",
    "ctx_op",
    "faults_steady_op",
    "rd_b_op",
    "rd_io_op",
    "device_rd_b_op",
];
/// Number of final rows over which the exit velocity is taken.
const EXIT_ROWS: u64 = 1_000_000;

/// A high percentile of the latency.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Name of the metric.
    pub name: &'static str,
    /// The quantile, below 1.
    pub quantile: f64,
}

/// The percentiles above the median, lowest first.
pub const TAIL: [Tail; 3] = [
    Tail { name: "p95_us", quantile: 0.95 },
    Tail { name: "p99_us", quantile: 0.99 },
    Tail { name: "p999_us", quantile: 0.999 },
];

impl Tail {
    /// Minimum number of requests for which the percentile is not simply the longest latency.
    pub fn requests_min(self) -> u64 {
        (1.0 / (1.0 - self.quantile)).round() as u64
    }

    /// The value in µs, if there are enough requests.
    fn us(self, latencies: &Histogram<u64>) -> Option<f64> {
        let value = || latencies.value_at_quantile(self.quantile) as f64 / 1e3;
        (latencies.len() >= self.requests_min()).then(value)
    }
}

/// Serializes a histogram for the database.
///
/// # Errors
/// The histogram cannot be serialized.
pub fn serialized(histogram: &Histogram<u64>) -> Result<Latencies> {
    let mut data = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut data)
        .map_err(|error| Failure(format!("a histogram: {error}")))?;
    Ok(Latencies { count: histogram.len(), data })
}

impl Latencies {
    /// Deserializes the histogram; its values are nanoseconds.
    ///
    /// # Errors
    /// The bytes are not a histogram.
    pub fn histogram(&self) -> Result<Histogram<u64>> {
        Deserializer::new()
            .deserialize(&mut self.data.as_slice())
            .map_err(|error| Failure(format!("a histogram: {error}")))
    }
}

/// Growth of a counter from the first sample to the last.
pub fn growth(samples: &[CounterSample], name: &str) -> Option<f64> {
    let mut of_name = samples.iter().filter(|sample| sample.name.eq_ignore_ascii_case(name));
    let first = of_name.next()?.value;
    Some(of_name.next_back()?.value - first)
}

/// Adds the metrics that exist only if a process was measured.
fn of_process(metrics: &mut BTreeMap<String, f64>, taken: &Taken) {
    let ops = taken.ops.max(1) as f64;
    let usage = &taken.usage;
    if usage.cpu_s <= 0.0 && taken.rss_peak_b == 0 {
        return; // a server that the lab did not start
    }
    let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
    put("cpu_us_op", usage.cpu_s * 1e6 / ops);
    put("cpu_user_us_op", (usage.cpu_s - usage.cpu_system_s) * 1e6 / ops);
    put("cpu_sys_us_op", usage.cpu_system_s * 1e6 / ops);
    if usage.switches > 0 {
        put("ctx_op", usage.switches as f64 / ops);
    }
    put("wr_b_op", usage.write_bytes as f64 / ops);
    put("rd_b_op", usage.read_bytes as f64 / ops);
    put("rss_peak_b", taken.rss_peak_b as f64);
}

/// Adds the exit velocity as published: the rate of the last million rows, or of the last fifth
/// where that is less; and that of the last 4 % of the planned rows.
fn exits(metrics: &mut BTreeMap<String, f64>, marks: &[Mark], planned: u64) {
    let done = marks.last().map_or(0, |mark| mark.ops);
    if let Some(rate) = exit_velocity(marks, EXIT_ROWS.min(done / 5)) {
        metrics.insert("exit_velocity".to_owned(), rate);
    }
    if let Some(rate) = exit_velocity(marks, planned / 25) {
        metrics.insert("exit_velocity_4pct".to_owned(), rate);
    }
}

/// Builds the result of a step. `syncs` names the counters that count syncs.
///
/// # Errors
/// A histogram cannot be serialized.
pub fn result(
    step: &Step<'_>,
    taken: &Taken,
    counters: &[CounterSample],
    syncs: &[String],
    keeps_rows: bool,
    changed_bytes: u64,
) -> Result<StepResult> {
    let mut metrics = BTreeMap::new();
    let ops = taken.ops.max(1) as f64;
    metrics.insert("ops".to_owned(), taken.ops as f64);
    metrics.insert("seconds".to_owned(), taken.seconds);
    metrics.insert("ops_s".to_owned(), taken.ops as f64 / taken.seconds.max(1e-9));
    metrics.insert("client_cpu_us_op".to_owned(), taken.client_cpu_s * 1e6 / ops);
    of_process(&mut metrics, taken);
    if let Some(planned) = step.planned {
        metrics.insert("planned".to_owned(), planned as f64);
        exits(&mut metrics, &taken.marks, planned);
    }
    let changed = step.changed_bytes * taken.ops + changed_bytes;
    if changed > 0 {
        metrics.insert("changed_b".to_owned(), changed as f64);
        // What a server writes that the lab did not start is unknown.
        if metrics.contains_key("wr_b_op") {
            let amplified = taken.usage.write_bytes as f64 / changed as f64;
            metrics.insert("write_amp".to_owned(), amplified);
        }
    }
    if keeps_rows && taken.disk_peak_b > 0 {
        metrics.insert("disk_peak_b".to_owned(), taken.disk_peak_b as f64);
    }
    let per_second: Vec<Mark> = taken.samples.iter().map(|sample| sample.mark).collect();
    if let Some(even) = evenness(&rates(&per_second)) {
        metrics.insert("worst_over_mean".to_owned(), even.worst_over_mean);
        metrics.insert("cv".to_owned(), even.cv);
        metrics.insert("stall_s".to_owned(), even.stalled as f64);
        metrics.insert("stall_longest_s".to_owned(), even.stalled_longest as f64);
    }
    let grown = syncs.iter().filter_map(|name| growth(counters, name));
    if let Some(grown) = grown.reduce(|a, b| a + b) {
        metrics.insert("fsync_op".to_owned(), grown / ops);
    }
    // The step's percentiles are those of its most frequent kind of request.
    if let Some(most) = taken.latencies.values().max_by_key(|latencies| latencies.len()) {
        metrics.insert("p50_us".to_owned(), most.value_at_quantile(0.5) as f64 / 1e3);
        let tail = TAIL.iter().filter_map(|tail| Some((tail.name.to_owned(), tail.us(most)?)));
        metrics.extend(tail);
        metrics.insert("max_us".to_owned(), most.max() as f64 / 1e3);
    }
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut push = |name: &str, t: f64, value: f64| {
        series.entry(name.to_owned()).or_default().push((t, value));
    };
    for sample in &taken.samples {
        let t = sample.mark.seconds;
        push("ops", t, sample.mark.ops as f64);
        push("rss_b", t, sample.rss_b as f64);
        push("cpu_s", t, sample.cpu_s);
        push("cpu_user_s", t, sample.cpu_s - sample.cpu_system_s);
        push("cpu_system_s", t, sample.cpu_system_s);
        push("written_b", t, sample.write_b as f64);
        push("read_b", t, sample.read_b as f64);
        if let Some(p99_us) = sample.p99_us {
            push("p99_us", t, p99_us);
        }
        if let Some(io) = sample.io {
            push("read_ios", t, io.reads as f64);
            push("write_ios", t, io.writes as f64);
            push("device_read_b", t, io.read_bytes as f64);
            push("device_written_b", t, io.written_bytes as f64);
        }
        if let Some(disk_b) = sample.disk_b.filter(|_| keeps_rows) {
            push("disk_b", t, disk_b as f64);
        }
    }
    push("ops", taken.seconds, taken.ops as f64);
    for (kind, marks) in &taken.kinds {
        marks.iter().for_each(|mark| push(kind, mark.seconds, mark.ops as f64));
    }
    if step.rate.is_some() {
        taken.busy.iter().for_each(|(t, busy)| push("busy", *t, *busy));
        let sum: f64 = taken.busy.iter().map(|(_, busy)| busy).sum();
        if !taken.busy.is_empty() {
            metrics.insert("busy".to_owned(), sum / taken.busy.len() as f64);
        }
    }
    let mut latencies = BTreeMap::new();
    for (kind, histogram) in &taken.latencies {
        if taken.latencies.len() > 1 {
            let of_kind =
                |tail: &Tail| Some((format!("{}.{kind}", tail.name), tail.us(histogram)?));
            metrics.extend(TAIL.iter().filter_map(of_kind));
        }
        latencies.insert((*kind).to_owned(), serialized(histogram)?);
    }
    Ok(StepResult { name: step.name.to_owned(), metrics, series, latencies, counters: Vec::new() })
}

/// Adds what measuring cost: the CPU of the sampler and of the client side of the counters'
/// statements, in percent of the CPU of the step, which is that of the engine and its clients.
pub fn sampling(metrics: &mut BTreeMap<String, f64>, sampling_s: f64, step_s: f64) {
    if step_s > 0.0 {
        metrics.insert("sampling_pct".to_owned(), 100.0 * sampling_s / step_s);
    }
}

/// Removes the metrics that are unknown if the step [is shared](Step::is_shared).
pub fn remove_unknown(step: &Step<'_>, result: &mut StepResult) {
    if step.is_shared {
        result.metrics.retain(|name, _| !OF_ALL_CLIENTS.contains(&name.as_str()));
    }
}

/// Adds the rate of the requests other than commits, if there were any.
pub fn add_queries(step: &mut StepResult) {
    let queries = step.latencies.iter().filter(|(kind, _)| *kind != "commit");
    let count: u64 = queries.map(|(_, latencies)| latencies.count).sum();
    if count > 0 {
        let seconds = step.metrics.get("seconds").copied().unwrap_or(0.0);
        step.metrics.insert("queries_s".to_owned(), count as f64 / seconds.max(1e-9));
    }
}

/// Charges the background work done after a step that wrote to that step.
pub fn charge_rest(step: &mut StepResult, paid: &Usage, seconds: f64) {
    let metrics = &mut step.metrics;
    metrics.insert("rest_s".to_owned(), seconds);
    let ops = metrics.get("ops").copied().unwrap_or(1.0).max(1.0);
    if let Some(cpu) = metrics.get("cpu_us_op").copied() {
        metrics.insert("cpu_us_op_rested".to_owned(), cpu + paid.cpu_s * 1e6 / ops);
    }
    // Unknown of a server that the lab did not start.
    let Some(written) = metrics.get("wr_b_op").copied() else { return };
    let rested = written + paid.write_bytes as f64 / ops;
    if let Some(changed) = metrics.get("changed_b").copied() {
        metrics.insert("write_amp".to_owned(), rested * ops / changed);
    }
    metrics.insert("wr_b_op_rested".to_owned(), rested);
}

/// Adds the size of a directory that holds `live` (rows, bytes): allocated bytes as the metric
/// `name`, and allocated bytes per row and per live byte.
pub fn size(metrics: &mut BTreeMap<String, f64>, name: &str, space: &Space, live: (u64, u64)) {
    let disk = space.bytes() as f64;
    metrics.insert(name.to_owned(), disk);
    if space.tells_logs() {
        metrics.insert("log_b".to_owned(), space.log_bytes() as f64);
    }
    let (rows, bytes) = live;
    if rows > 0 {
        metrics.insert("disk_b_row".to_owned(), disk / rows as f64);
    }
    if bytes > 0 {
        metrics.insert("space_amp".to_owned(), disk / bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::measure::{self, IoCount, Plan, Subject};

    #[test]
    fn each_second_has_rate_latency_cpu_ios_memory_and_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = Plan {
            step: "load".to_owned(),
            planned: 1,
            deadline: None,
            space: Space::whole(dir.path()),
            progress: false,
            subject: Subject::Own,
            kinds: Vec::new(),
        };
        let reads = AtomicU64::new(7);
        let io = || {
            let reads = reads.fetch_add(5, Ordering::Relaxed);
            Some(IoCount { reads, ..IoCount::default() })
        };
        let taken = measure::run(&plan, &io, |meter| {
            let (mut client, begin) = (meter.client("put"), Instant::now());
            std::thread::sleep(Duration::from_millis(2));
            client.finish_at(begin, 1);
            drop(client);
            std::thread::sleep(Duration::from_millis(1_100));
            Ok(())
        });
        let taken = taken.expect("it runs");
        let made = result(&Step::load("load", 1, 8), &taken, &[], &[], true, 0).expect("a step");
        for name in [
            "ops",
            "rss_b",
            "cpu_s",
            "cpu_user_s",
            "cpu_system_s",
            "written_b",
            "read_b",
            "write_ios",
            "read_ios",
            "p99_us",
            "disk_b",
        ] {
            assert!(made.series.contains_key(name), "{name} of {:?}", made.series.keys());
        }
        assert_eq!(made.series["read_ios"][0].1, 5.0);
        assert!(made.series["p99_us"][0].1 > 1_900.0, "{:?}", made.series["p99_us"]);
    }

    #[test]
    fn percentiles_need_enough_requests() {
        let known = |requests: u64| -> Vec<bool> {
            let mut histogram = Histogram::<u64>::new(3).expect("a histogram");
            histogram.record_n(5_000, requests).expect("in range");
            TAIL.iter().map(|tail| tail.us(&histogram).is_some()).collect()
        };
        assert_eq!(known(19), [false, false, false]);
        assert_eq!(known(20), [true, false, false]);
        assert_eq!(known(100), [true, true, false]);
        assert_eq!(known(1_000), [true, true, true]);
    }

    #[test]
    fn background_work_is_charged_to_the_changed_bytes() {
        let metric = |step: &StepResult, name: &str| step.metrics.get(name).copied();
        let mut step = StepResult::default();
        for (name, value) in
            [("ops", 10.0), ("wr_b_op", 0.0), ("cpu_us_op", 0.0), ("changed_b", 1_000.0)]
        {
            step.metrics.insert(name.to_owned(), value);
        }
        let paid = Usage { write_bytes: 4_000, cpu_s: 1e-3, ..Usage::default() };
        charge_rest(&mut step, &paid, 2.0);
        assert_eq!(metric(&step, "wr_b_op_rested"), Some(400.0));
        assert_eq!(metric(&step, "write_amp"), Some(4.0), "even if the step itself wrote nothing");
        assert_eq!(metric(&step, "cpu_us_op_rested"), Some(100.0));
        // A step whose changed rows are unknown has no ratio.
        step.metrics.remove("changed_b");
        step.metrics.remove("write_amp");
        charge_rest(&mut step, &paid, 2.0);
        assert_eq!(metric(&step, "write_amp"), None);
        // A step whose CPU is unknown is charged the bytes alone.
        let shared = Step { is_shared: true, ..Step::load("load", 10, 0) };
        step.metrics.remove("cpu_us_op_rested");
        remove_unknown(&shared, &mut step);
        charge_rest(&mut step, &paid, 2.0);
        assert_eq!(metric(&step, "wr_b_op_rested"), Some(400.0));
        assert_eq!(metric(&step, "cpu_us_op").or(metric(&step, "cpu_us_op_rested")), None);
        // Of a server that the lab did not start, only the time is known.
        let mut step = StepResult::default();
        charge_rest(&mut step, &Usage::default(), 2.0);
        assert_eq!(step.metrics.into_iter().collect::<Vec<_>>(), [("rest_s".to_owned(), 2.0)]);
    }
}
