//! The meter of one step: counts operations, records latencies, and samples the process every
//! second.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::disk::Space;
use super::group::IoCount;
use super::process::{self, Subject, Usage};
use super::recent::{Counts, Recent, Window};
use super::series::Mark;
use crate::targets::Result;

/// Longest latency that is recorded as it is, ns: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Number of marks over the planned operations; the exit velocity is computed from two of them.
const MARKS: u64 = 2_000;
/// Bound on the marks, however many more operations than planned are done: marks must not distort
/// the store's memory, which is measured in the same process.
const MARKS_MAX: usize = 2 * MARKS as usize;
/// Share of a core that counting the allocated bytes may take. If a store has so many files that
/// counting takes longer, it is done less often than each second.
const SPACE_SHARE: f64 = 0.002;

/// The plan of a step: what it will do, and how to measure it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the step.
    pub step: String,
    /// Operations planned.
    pub planned: u64,
    /// When the step ends even if not all operations are done.
    pub deadline: Option<Instant>,
    /// The target's files, whose size is sampled.
    pub space: Space,
    /// Whether to print progress lines.
    pub progress: bool,
    /// The process whose resource use is measured.
    pub subject: Subject,
    /// Kinds of requests that are counted each second.
    pub kinds: Vec<&'static str>,
}

/// One sample of the time series.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Operations done, and seconds since the step started.
    #[serde(flatten)]
    pub mark: Mark,
    /// Resident bytes.
    pub rss_b: u64,
    /// Bytes written since the step started.
    pub write_b: u64,
    /// Bytes read since the step started.
    #[serde(default)]
    pub read_b: u64,
    /// CPU of the whole process since the step started, seconds.
    pub cpu_s: f64,
    /// The part of `cpu_s` spent in the kernel, seconds.
    #[serde(default)]
    pub cpu_system_s: f64,
    /// Minor page faults since the step started.
    #[serde(default)]
    pub faults_minor: u64,
    /// 99th percentile of the latency of the step's requests that ended since the last sample, µs.
    #[serde(default)]
    pub p99_us: Option<f64>,
    /// I/O of the device since the step started, if it is counted.
    #[serde(skip)]
    pub io: Option<IoCount>,
    /// Allocated bytes, if they were counted this time.
    #[serde(default)]
    pub disk_b: Option<u64>,
}

/// The measurements of a step.
#[derive(Debug)]
pub struct Taken {
    /// Operations done.
    pub ops: u64,
    /// Duration, seconds.
    pub seconds: f64,
    /// Resource use of the measured process.
    pub usage: Usage,
    /// CPU of the client threads, seconds.
    pub client_cpu_s: f64,
    /// CPU of the meter itself, seconds.
    pub meter_cpu_s: f64,
    /// Latencies in ns by operation.
    pub latencies: BTreeMap<&'static str, Histogram<u64>>,
    /// Samples, one per second.
    pub samples: Vec<Sample>,
    /// Requests done so far, per second, for each kind that the plan names.
    pub kinds: BTreeMap<&'static str, Vec<Mark>>,
    /// Average number of clients in a request over the second that ends at this time: (time,
    /// clients).
    pub busy: Vec<(f64, f64)>,
    /// Marks at even operation counts.
    pub marks: Vec<Mark>,
    /// Peak resident bytes.
    pub rss_peak_b: u64,
    /// Largest allocated bytes seen.
    pub disk_peak_b: u64,
}

/// The meter that the clients of a step share.
pub struct Meter {
    start: Instant,
    deadline: Option<Instant>,
    stopped: AtomicBool,
    done: AtomicU64,
    next_mark: AtomicU64,
    mark_every: AtomicU64,
    marks: Mutex<Vec<Mark>>,
    latencies: Mutex<BTreeMap<&'static str, Histogram<u64>>>,
    client_cpu_ns: AtomicU64,
    kinds: Vec<(&'static str, AtomicU64)>,
    busy_ns: AtomicU64,
    recent: Recent,
    over: Mutex<bool>,
    wake: Condvar,
}

/// One client thread's part of the meter, for one kind of operation.
pub struct Client<'m> {
    meter: &'m Meter,
    operation: &'static str,
    latencies: Histogram<u64>,
    cpu_s: Option<f64>,
    /// The latencies of the last second, if its operations count as the step's.
    recent: Option<Arc<Counts>>,
    kind: Option<&'m AtomicU64>,
}

/// Samples taken while a step runs.
#[derive(Default)]
struct Sampled {
    samples: Vec<Sample>,
    kinds: BTreeMap<&'static str, Vec<Mark>>,
    busy: Vec<(f64, f64)>,
    disk_peak: u64,
    meter_cpu_s: f64,
}

impl Meter {
    fn new(plan: &Plan) -> Self {
        let mark_every = (plan.planned / MARKS).max(1);
        Self {
            start: Instant::now(),
            deadline: plan.deadline,
            stopped: AtomicBool::new(false),
            done: AtomicU64::new(0),
            next_mark: AtomicU64::new(mark_every),
            mark_every: AtomicU64::new(mark_every),
            marks: Mutex::new(Vec::with_capacity(MARKS_MAX)),
            latencies: Mutex::new(BTreeMap::new()),
            client_cpu_ns: AtomicU64::new(0),
            kinds: plan.kinds.iter().map(|kind| (*kind, AtomicU64::new(0))).collect(),
            busy_ns: AtomicU64::new(0),
            recent: Recent::default(),
            over: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Returns a client whose operations count as the step's.
    pub fn client(&self, operation: &'static str) -> Client<'_> {
        self.new_client(operation, true)
    }

    /// Returns a client that runs concurrently with the step: its latencies are kept, but its
    /// operations do not count as the step's.
    pub fn side_client(&self, operation: &'static str) -> Client<'_> {
        self.new_client(operation, false)
    }

    /// Returns a client for another kind of operation on a thread that already has a client, which
    /// counts the thread's CPU. These operations do not count as the step's.
    pub fn second_client(&self, operation: &'static str) -> Client<'_> {
        let mut client = self.new_client(operation, false);
        client.cpu_s = None;
        client
    }

    /// Returns a client for a further kind of the step's operations, on a thread that already has a
    /// client, which counts the thread's CPU.
    pub fn further_client(&self, operation: &'static str) -> Client<'_> {
        let mut client = self.new_client(operation, true);
        client.cpu_s = None;
        client
    }

    fn new_client(&self, operation: &'static str, counts: bool) -> Client<'_> {
        Client {
            meter: self,
            operation,
            latencies: new_histogram(),
            cpu_s: Some(process::thread_cpu_s()),
            recent: counts.then(|| self.recent.join()),
            kind: self.kinds.iter().find(|(kind, _)| *kind == operation).map(|(_, done)| done),
        }
    }

    /// Records that a client was in a request for this long.
    pub fn was_busy(&self, time: Duration) {
        self.busy_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Operations done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether the step should end early.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || super::is_interrupted()
    }

    /// For a client that waits: ends the step if its time is over. Returns whether the step has
    /// ended.
    pub fn is_over(&self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped()
    }

    /// Ends the step.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn mark(&self, done: u64, now: Instant) {
        let due = self.next_mark.load(Ordering::Relaxed);
        if done < due {
            return;
        }
        let mut marks = lock(&self.marks);
        if marks.last().is_none_or(|last| last.ops < done) {
            // A step that runs for a time may do any number of operations: keep every second mark.
            if marks.len() == MARKS_MAX {
                let mut number = 0;
                marks.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                self.mark_every
                    .fetch_add(self.mark_every.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            marks.push(Mark { ops: done, seconds: (now - self.start).as_secs_f64() });
            let every = self.mark_every.load(Ordering::Relaxed);
            self.next_mark.store(done + every, Ordering::Relaxed);
        }
    }

    /// Takes a sample each second until the step is over.
    fn sample(&self, plan: &Plan, begin: &Usage, io: Io<'_>) -> Sampled {
        let mut all = Sampled::default();
        let (mut tick, mut busy_before) = (0u32, (0.0, 0));
        let (mut window, mut space_due) = (Window::new(), 0);
        let io_begin = io().unwrap_or_default();
        let mut over = lock(&self.over);
        loop {
            tick += 1;
            let due = self.start + Duration::from_secs(1) * tick;
            while !*over {
                let now = Instant::now();
                if now >= due {
                    break;
                }
                over = self.wake.wait_timeout(over, due - now).unwrap_or_else(|e| e.into_inner()).0;
            }
            if *over {
                break;
            }
            let usage = plan.subject.usage().since(begin);
            let mark = Mark { ops: self.done(), seconds: self.start.elapsed().as_secs_f64() };
            for (kind, done) in &self.kinds {
                let mark = Mark { ops: done.load(Ordering::Relaxed), ..mark };
                all.kinds.entry(kind).or_default().push(mark);
            }
            let busy = (mark.seconds, self.busy_ns.load(Ordering::Relaxed));
            let (seconds, ns) = (busy.0 - busy_before.0, busy.1 - busy_before.1);
            all.busy.push((mark.seconds, ns as f64 / 1e9 / seconds.max(1e-9)));
            busy_before = busy;
            let disk_b = (tick >= space_due).then(|| {
                let cpu_s = process::thread_cpu_s();
                let bytes = plan.space.bytes();
                let seconds = (process::thread_cpu_s() - cpu_s) / SPACE_SHARE;
                space_due = tick + (seconds.ceil() as u32).clamp(1, 60);
                all.disk_peak = all.disk_peak.max(bytes);
                bytes
            });
            all.samples.push(Sample {
                mark,
                rss_b: plan.subject.rss_bytes(),
                write_b: usage.write_bytes,
                read_b: usage.read_bytes,
                cpu_s: usage.cpu_s,
                cpu_system_s: usage.cpu_system_s,
                faults_minor: usage.faults_minor,
                p99_us: window.quantile_us(&self.recent, 0.99),
                io: io().map(|io| io.since(&io_begin)),
                disk_b,
            });
            if plan.progress {
                println!(
                    "progress {} {} {:.1} {}",
                    plan.step, mark.ops, mark.seconds, plan.planned
                );
            }
        }
        all.meter_cpu_s = process::thread_cpu_s();
        all
    }
}

/// Locks a mutex even if it is poisoned: that only means that a client panicked, and the panic is
/// already propagating.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are valid")
}

impl Client<'_> {
    /// Returns this client with its CPU counted from the point where its thread had used `cpu_s`.
    pub fn with_cpu_from(mut self, cpu_s: f64) -> Self {
        self.cpu_s = self.cpu_s.map(|_| cpu_s);
        self
    }

    /// Records a request that started at `begin`, has just ended, and did `ops` operations. A
    /// request that was due earlier starts then, so that a stall is charged to every request that
    /// it delayed.
    #[inline]
    pub fn finish_at(&mut self, begin: Instant, ops: u64) {
        let end = Instant::now();
        let ns = end.saturating_duration_since(begin).as_nanos() as u64;
        self.latencies.saturating_record(ns);
        if let Some(recent) = &self.recent {
            recent.count(ns);
            let done = self.meter.done.fetch_add(ops, Ordering::Relaxed) + ops;
            self.meter.mark(done, end);
        }
        if let Some(kind) = self.kind {
            kind.fetch_add(1, Ordering::Relaxed);
        }
        if self.meter.deadline.is_some_and(|deadline| end >= deadline) {
            self.meter.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Counts operations that are too many to time one by one (rows of a scan).
    pub fn count(&mut self, ops: u64) {
        let done = self.meter.done.fetch_add(ops, Ordering::Relaxed) + ops;
        let now = Instant::now();
        self.meter.mark(done, now);
        if self.meter.deadline.is_some_and(|deadline| now >= deadline) {
            self.meter.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to continue; false if the step must end early.
    #[inline]
    pub fn go_on(&self) -> bool {
        !self.meter.is_stopped()
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let cpu = self.cpu_s.map_or(0.0, |begin| process::thread_cpu_s() - begin);
        self.meter.client_cpu_ns.fetch_add((cpu * 1e9) as u64, Ordering::Relaxed);
        if let Some(recent) = self.recent.take() {
            self.meter.recent.leave(recent);
        }
        let mut all = lock(&self.meter.latencies);
        let sum = all.entry(self.operation).or_insert_with(new_histogram);
        sum.add(&self.latencies).expect("all histograms have the same bounds");
    }
}

/// Returns the minor faults per operation from the sample at half of the operations to the last
/// one.
pub fn faults_of_second_half(samples: &[Sample]) -> Option<f64> {
    let last = samples.last()?;
    let half = samples.iter().find(|sample| sample.mark.ops >= last.mark.ops / 2)?;
    let ops = last.mark.ops - half.mark.ops;
    (ops > 0).then(|| (last.faults_minor - half.faults_minor) as f64 / ops as f64)
}

/// Reads the I/O of the device that is counted for the measured process, if it is counted.
pub type Io<'i> = &'i (dyn Fn() -> Option<IoCount> + Sync);

/// Runs a step and measures it, including the I/O of the device.
pub fn run(plan: &Plan, io: Io<'_>, body: impl FnOnce(&Meter) -> Result<()>) -> Result<Taken> {
    plan.subject.reset_rss_peak();
    let meter = Meter::new(plan);
    let begin = plan.subject.usage_with_switches();
    let (mut sampled, outcome, seconds, usage) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| meter.sample(plan, &begin, io));
        let outcome = body(&meter);
        let seconds = meter.start.elapsed().as_secs_f64();
        let usage = plan.subject.usage_with_switches().since(&begin);
        *lock(&meter.over) = true;
        meter.wake.notify_all();
        (sampler.join().unwrap_or_default(), outcome, seconds, usage)
    });
    outcome?;
    let ops = meter.done();
    for (kind, done) in &meter.kinds {
        let mark = Mark { ops: done.load(Ordering::Relaxed), seconds };
        sampled.kinds.entry(kind).or_default().push(mark);
    }
    let mut marks = meter.marks.into_inner().unwrap_or_default();
    if marks.last().is_none_or(|last| last.ops < ops) {
        marks.push(Mark { ops, seconds });
    }
    Ok(Taken {
        ops,
        seconds,
        usage,
        client_cpu_s: meter.client_cpu_ns.into_inner() as f64 / 1e9,
        meter_cpu_s: sampled.meter_cpu_s,
        latencies: meter.latencies.into_inner().unwrap_or_default(),
        samples: sampled.samples,
        kinds: sampled.kinds,
        busy: sampled.busy,
        marks,
        rss_peak_b: plan.subject.rss_peak_bytes(),
        disk_peak_b: sampled.disk_peak.max(plan.space.bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(planned: u64, deadline: Option<Instant>) -> Plan {
        let space = Space::whole(&std::env::temp_dir().join("frond-lab-none"));
        let step = "test".to_owned();
        let kinds = vec!["put"];
        Plan { step, planned, deadline, space, progress: false, subject: Subject::Own, kinds }
    }

    #[test]
    fn operations_of_all_clients_are_counted_and_side_clients_are_not() {
        let taken = run(&plan(300, None), &|| None, |meter| {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let mut client = meter.client("put");
                        (0..10).for_each(|_| client.finish_at(Instant::now(), 10));
                    });
                }
                let mut side = meter.side_client("get");
                (0..7).for_each(|_| side.finish_at(Instant::now(), 1));
            });
            Ok(())
        });
        let taken = taken.expect("nothing fails");
        assert_eq!(taken.ops, 300);
        assert_eq!(taken.latencies["put"].len(), 30);
        assert_eq!(taken.latencies["get"].len(), 7);
        assert_eq!(taken.marks.last().map(|mark| mark.ops), Some(300));
    }

    #[test]
    fn requests_of_a_named_kind_are_counted_each_second() {
        let taken = run(&plan(30, None), &|| None, |meter| {
            let (mut puts, mut gets) = (meter.client("put"), meter.further_client("get"));
            for _ in 0..3 {
                puts.finish_at(Instant::now(), 10);
                gets.finish_at(Instant::now(), 1);
            }
            Ok(())
        });
        let taken = taken.expect("nothing fails");
        assert_eq!(taken.kinds.keys().collect::<Vec<_>>(), [&"put"]);
        assert_eq!(taken.kinds["put"].last().map(|mark| mark.ops), Some(3));
    }

    #[test]
    fn marks_are_bounded_for_any_number_of_operations() {
        let taken = run(&plan(MARKS, None), &|| None, |meter| {
            let mut client = meter.client("put");
            (0..100 * MARKS).for_each(|_| client.finish_at(Instant::now(), 1));
            Ok(())
        });
        let marks = taken.expect("nothing fails").marks;
        assert!((MARKS as usize / 2..=MARKS_MAX + 1).contains(&marks.len()), "{}", marks.len());
        assert!(marks.windows(2).all(|pair| pair[0].ops < pair[1].ops));
        assert_eq!(marks.last().map(|mark| mark.ops), Some(100 * MARKS));
    }

    #[test]
    fn deadline_stops_a_step_and_its_progress_is_kept() {
        let taken = run(&plan(u64::MAX, Some(Instant::now())), &|| None, |meter| {
            let mut client = meter.client("put");
            while client.go_on() {
                client.finish_at(Instant::now(), 1);
            }
            Ok(())
        });
        let taken = taken.expect("nothing fails");
        assert_eq!(taken.ops, 1, "{taken:?}");
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
