//! The bench of an embedded cell, through which a workload runs its steps on a store and has them
//! measured and verified.
//!
//! Invariants
//! 1. Every table is verified by its rows and through each index: an index has exactly the entries
//!    that the rows imply. After a load, the rows are those that the clients inserted.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::worker::{Ledger, Worker};
use crate::decode;
use crate::lab::device_io;
use crate::lab::machine::class::Confined;
use crate::lab::results::{CellResult, CounterSample, State, StepResult};
use crate::lab::step::measured::growth;
use crate::lab::step::{Arrivals, Step, Tally, measured, warm_up};
use crate::measure::{self, Plan, Space, Subject, Taken};
use crate::schema::{Checksum, EncodedRow, Table, Value};
use crate::targets::{Clients, Durability, Failure, Result, Span, Target, Visit};

/// Maximum time to wait for background work.
const REST_MAX: Duration = Duration::from_secs(600);
/// Seconds without writes and without a change of size after which a store counts as idle.
const STILL_SECONDS: u32 = 3;
/// Interval between two samples of the store's counters.
const SAMPLED_EVERY: Duration = Duration::from_secs(10);
/// Names that targets give to their counters of syncs.
pub(super) const SYNCS: [&str; 2] = ["wal_syncs", "syncs"];

/// Nanoseconds that Frond has spent on making models of strings for leaves.
const TRAINING: &str = "leaf_training_nanos";

/// Work of a client that runs concurrently with the clients of a step, and ends with them.
pub type Concurrent<'b> = &'b (dyn Fn(&mut Worker<'_>) -> Result<()> + Sync);

type Body<'b> = &'b dyn Fn(&mut Worker<'_>) -> Result<()>;

/// Runs the steps of one cell against its store.
pub struct Bench<'t> {
    /// The store.
    pub target: &'t dyn Target,
    tables: &'t [Table],
    /// How this process is limited and counted.
    confined: &'t Confined,
    dir: PathBuf,
    deadline: Option<Instant>,
    /// Results so far.
    pub result: CellResult,
    with_rest: bool,
    rest_max: Duration,
    /// What clients have inserted as batches.
    ledger: Ledger,
    /// Index of the last step that wrote, if the bench has not waited for background work since.
    wrote: Option<usize>,
    /// Whether all targets have the same rows now, because no writing step has ended by time.
    same_rows: bool,
    /// Whether the time limit or Ctrl-C ended a step.
    is_cut: bool,
    /// Whether the size of the last step is to be taken once the store is closed.
    pub(super) is_compacted: bool,
}

impl<'t> Bench<'t> {
    /// A bench for a store in `dir`.
    pub(super) fn new(
        target: &'t dyn Target,
        tables: &'t [Table],
        confined: &'t Confined,
        dir: PathBuf,
        time_limit: Option<u64>,
        with_rest: bool,
    ) -> Self {
        let deadline = time_limit.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let rest_max =
            time_limit.map_or(REST_MAX, |limit| REST_MAX.min(Duration::from_secs(3 * limit)));
        let (result, wrote, same_rows) = (CellResult::default(), None, true);
        Self {
            target,
            tables,
            confined,
            dir,
            deadline,
            result,
            with_rest,
            rest_max,
            ledger: Ledger::default(),
            wrote,
            same_rows,
            is_cut: false,
            is_compacted: false,
        }
    }

    /// Finds a table by name.
    pub fn table(&self, name: &str) -> Result<&'t Table> {
        let found = self.tables.iter().find(|table| table.name == name);
        found.ok_or_else(|| Failure(format!("there is no table {name}")))
    }

    /// All tables, in the order of the workload.
    pub fn tables(&self) -> &'t [Table] {
        self.tables
    }

    /// Whether inserted rows can be read again.
    pub fn keeps_rows(&self) -> bool {
        self.target.keeps_rows()
    }

    /// Whether the time limit or Ctrl-C has ended the cell.
    pub fn is_over(&self) -> bool {
        measure::is_interrupted()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// What counts as the store's size.
    pub fn space(&self) -> Space {
        Space::whole(&self.dir)
    }

    /// Runs a step. Each client runs `body`, which returns when `Worker::go_on` returns false or
    /// all work is done.
    ///
    /// # Errors
    /// The first error of a client.
    pub fn step(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<&mut StepResult> {
        self.measured(step, None, body, &[])
    }

    /// Whether commits of a client can be synced where those of the store are not.
    pub fn can_sync(&self) -> bool {
        self.target.connect(Clients { count: 1, durability: Some(Durability::Sync) }).is_ok()
    }

    /// Runs a step whose commits are synced, whatever the durability of the cell.
    ///
    /// # Errors
    /// The first error of a client.
    pub fn step_synced(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<&mut StepResult> {
        self.measured(step, Some(Durability::Sync), body, &[])
    }

    /// Runs a step concurrently with further clients, whose requests do not count as the step's.
    ///
    /// # Errors
    /// The first error of a client.
    pub fn step_concurrent(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
        concurrent: &[Concurrent<'_>],
    ) -> Result<&mut StepResult> {
        self.measured(step, None, body, concurrent)
    }

    fn measured(
        &mut self,
        step: &Step<'_>,
        durability: Option<Durability>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
        concurrent: &[Concurrent<'_>],
    ) -> Result<&mut StepResult> {
        let clients = Clients { count: step.clients + concurrent.len() as u64, durability };
        let mut warm_up_s = None;
        if step.warm_up > 0.0 && !self.is_over() {
            let made = self.run(step, Some(step.warm_up), true, clients, (&body, concurrent))?;
            warm_up_s = made.metrics.get("seconds").copied();
        }
        // If the time limit was reached before the step, there is nothing to measure.
        let is_late = self.is_over() && (step.seconds.is_some() || warm_up_s.is_some());
        let mut made = match is_late {
            true => StepResult { name: step.name.to_owned(), ..StepResult::default() },
            false => self.run(step, step.seconds, false, clients, (&body, concurrent))?,
        };
        if let Some(seconds) = warm_up_s.filter(|_| !is_late) {
            made.metrics.insert("warm_up_s".to_owned(), seconds);
        }
        self.is_cut |= self.is_over();
        let ran_for_time = step.seconds.is_some() && step.writes;
        self.same_rows &= !(ran_for_time || self.is_cut);
        self.result.steps.push(made);
        if step.writes && !is_late {
            self.wrote = Some(self.result.steps.len() - 1);
        }
        Ok(self.result.steps.last_mut().expect("it was pushed"))
    }

    fn run(
        &self,
        step: &Step<'_>,
        seconds: Option<f64>,
        is_warm_up: bool,
        clients: Clients,
        (body, concurrent): (&(impl Fn(&mut Worker<'_>) -> Result<()> + Sync), &[Concurrent<'_>]),
    ) -> Result<StepResult> {
        let own = seconds.map(|s| Instant::now() + Duration::from_secs_f64(s.clamp(0.0, 1e8)));
        let deadline = match (own, self.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let plan = Plan {
            step: step.name.to_owned(),
            planned: step.planned.unwrap_or(0),
            deadline,
            space: self.space(),
            progress: true,
            subject: Subject::Own,
            kinds: step.series.to_vec(),
        };
        let (target, tally) = (self.target, Mutex::new(Tally::default()));
        let (counters, over) = (Mutex::new(sample(target, 0.0)), AtomicBool::new(false));
        let (arrivals, confined) = (step.rate.map(Arrivals::new), self.confined);
        let counting_s = Mutex::new(0.0);
        confined.reset_memory_peak();
        let before = confined.counts();
        let mut taken = measure::run(&plan, &|| confined.io(), |meter| {
            let run = |index: u64, is_concurrent, body: Body<'_>| -> Result<()> {
                let cpu_s = measure::thread_cpu_s();
                let connection = target.connect(clients)?;
                let with = (&self.ledger, cpu_s);
                let mut worker = Worker::new(index, connection, meter, is_concurrent, with);
                if let (Some(arrivals), false) = (&arrivals, is_concurrent) {
                    worker.share(arrivals);
                }
                let done = body(&mut worker);
                tally.lock().unwrap_or_else(|e| e.into_inner()).add(&worker.tally);
                if done.is_err() {
                    worker.stop(); // the others would run for the step's full time
                }
                done
            };
            std::thread::scope(|scope| {
                let sampler = scope.spawn(|| {
                    match is_warm_up {
                        true => warm_up::watch(meter, step.warm_up, &over),
                        false => follow(target, &counters, &over),
                    }
                    measure::thread_cpu_s()
                });
                let run = &run;
                let clients: Vec<_> = (0..step.clients)
                    .map(|index| scope.spawn(move || run(index, false, body)))
                    .collect();
                let others: Vec<_> = (0..)
                    .zip(concurrent)
                    .map(|(index, body)| scope.spawn(move || run(index, true, *body)))
                    .collect();
                let panicked = |_| Err(Failure("a client panicked".to_owned()));
                let mut outcome = Ok(());
                for client in clients {
                    outcome = outcome.and(client.join().unwrap_or_else(panicked));
                }
                meter.stop();
                for client in others {
                    outcome = outcome.and(client.join().unwrap_or_else(panicked));
                }
                over.store(true, Ordering::Relaxed);
                sampler.thread().unpark();
                let cpu_s = sampler.join().unwrap_or_default();
                *counting_s.lock().unwrap_or_else(|e| e.into_inner()) = cpu_s;
                outcome
            })
        })?;
        taken.meter_cpu_s += counting_s.into_inner().unwrap_or_default();
        let mut counters = counters.into_inner().unwrap_or_default();
        counters.extend(sample(target, taken.seconds));
        let tally = tally.into_inner().unwrap_or_default();
        let mut made = self.result_of(step, &mut taken, counters, tally)?;
        device_io::add(
            &mut made.metrics,
            (before.as_ref(), confined.counts().as_ref()),
            &taken.usage,
        );
        if let Some(arrivals) = arrivals {
            // Requests that became due after the deadline, while the last ones were still being
            // served, do not count.
            let unserved = arrivals.unserved(taken.seconds, deadline) as f64;
            made.metrics.insert("unserved".to_owned(), unserved);
            made.metrics.insert("wanted_s".to_owned(), step.rate.unwrap_or(0.0));
        }
        Ok(made)
    }

    fn result_of(
        &self,
        step: &Step<'_>,
        taken: &mut Taken,
        counters: Vec<CounterSample>,
        tally: Tally,
    ) -> Result<StepResult> {
        // The CPU of the meter belongs neither to the store nor to the clients.
        taken.usage.cpu_s = (taken.usage.cpu_s - taken.meter_cpu_s).max(taken.client_cpu_s);
        let known = |name: &&&str| counters.iter().any(|counter| counter.name == **name);
        let syncs: Vec<String> =
            SYNCS.iter().find(known).map(|name| (*name).to_owned()).into_iter().collect();
        let (keeps_rows, changed) = (self.keeps_rows(), tally.changed_bytes);
        let mut made = measured::result(step, taken, &counters, &syncs, keeps_rows, changed)?;
        made.counters = counters;
        measured::sampling(&mut made.metrics, taken.meter_cpu_s, taken.usage.cpu_s);
        let ops = taken.ops.max(1) as f64;
        let foreground = taken.client_cpu_s * 1e6 / ops;
        let all = taken.usage.cpu_s * 1e6 / ops;
        for (name, value) in [
            ("cpu_fg_us_op", foreground),
            ("cpu_bg_us_op", all - foreground),
            ("ctx_op", taken.usage.switches as f64 / ops),
            ("errors_deadlock", tally.deadlock as f64),
            ("deadlocks_s", tally.deadlock as f64 / taken.seconds.max(1e-9)),
        ] {
            made.metrics.insert(name.to_owned(), value);
        }
        if let Some(faults) = measure::faults_of_second_half(&taken.samples) {
            made.metrics.insert("faults_steady_op".to_owned(), faults);
        }
        if let Some(nanos) = growth(&made.counters, TRAINING).filter(|nanos| *nanos > 0.0) {
            made.metrics.insert("training_ns_op".to_owned(), nanos / ops);
        }
        // The CPU of the clients' threads includes the store's work; the clients' own part is known
        // only from the null target, and not by mode.
        for name in ["client_cpu_us_op", "cpu_user_us_op", "cpu_sys_us_op"] {
            made.metrics.remove(name);
        }
        measured::remove_unknown(step, &mut made);
        if self.keeps_rows() {
            let disk = measure::allocated_bytes(&self.dir);
            made.metrics.insert("disk_load_b".to_owned(), disk as f64);
        }
        Ok(made)
    }

    /// Waits until background work has ended, and charges that work to the last step that wrote.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn rest(&mut self) -> Result<()> {
        if !self.keeps_rows() || !self.with_rest || measure::is_interrupted() {
            return Ok(());
        }
        let (begin, before) = (Instant::now(), Subject::Own.usage());
        self.target.settle()?;
        let flushed = measure::allocated_bytes(&self.dir);
        let now = || (Subject::Own.usage().write_bytes, measure::allocated_bytes(&self.dir));
        let (mut last, mut still) = (now(), 0);
        while begin.elapsed() < self.rest_max && still < STILL_SECONDS && !measure::is_interrupted()
        {
            println!("progress rest 0 {} 0", begin.elapsed().as_secs());
            std::thread::sleep(Duration::from_secs(1));
            let seen = std::mem::replace(&mut last, now());
            still = if seen == last { still + 1 } else { 0 };
        }
        let paid = Subject::Own.usage().since(&before);
        let seconds = begin.elapsed().as_secs_f64() - f64::from(still);
        if let Some(step) = self.wrote.take().and_then(|at| self.result.steps.get_mut(at)) {
            measured::charge_rest(step, &paid, seconds);
            let rested = last.1.max(1) as f64;
            step.metrics.insert("flushed_over_rested".to_owned(), flushed as f64 / rested);
        }
        // The time limit covers only measured work.
        self.deadline = self.deadline.map(|deadline| deadline + begin.elapsed());
        Ok(())
    }

    /// Ends a load: waits for background work, and adds the size of all tables together, with
    /// `live` (rows, bytes of their columns), to the step of the load.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn loaded(&mut self, live: (u64, u64)) -> Result<()> {
        self.rest()?;
        if !self.keeps_rows() || !self.with_rest || measure::is_interrupted() {
            return Ok(());
        }
        let (name, space) = (self.size_name(), self.space());
        if let Some(step) = self.result.steps.last_mut() {
            measured::size(&mut step.metrics, name, &space, live);
        }
        Ok(())
    }

    /// Ends a cell that is a load alone: the store rewrites everything into its smallest form, if
    /// it can, and the step's size is that after the store was closed.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn compact(&mut self) -> Result<()> {
        self.is_compacted = self.keeps_rows() && self.with_rest && !measure::is_interrupted();
        if self.is_compacted {
            self.target.compact()?;
        }
        Ok(())
    }

    /// Name of the size metric at this point. It differs once targets have different rows, because
    /// steps wrote for a fixed time.
    pub(super) fn size_name(&self) -> &'static str {
        if self.same_rows { "disk_b" } else { "disk_end_b" }
    }

    /// Reads all entries of a keyspace of a table.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn read_all(&self, table: &Table, keyspace: usize, visit: Visit<'_>) -> Result<()> {
        let mut connection = self.target.connect(Clients::ONE)?;
        Ok(connection.range(table, keyspace, &Span::ALL, visit)?)
    }

    /// Verifies a table (Invariant 1). `rows` is the expected number of rows, if known. With
    /// `is_fixed` the table has just been loaded: it must have the rows that the clients inserted
    /// as batches, and every target the same rows. Returns the number of rows and the bytes of
    /// their columns.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn verify(
        &mut self,
        table: &Table,
        rows: Option<u64>,
        is_fixed: bool,
    ) -> Result<(u64, u64)> {
        if !self.keeps_rows() || measure::is_interrupted() {
            return Ok((0, 0));
        }
        println!("progress verify 0 0 0");
        let begin = Instant::now();
        let mut said = vec![Checksum::default(); 1 + table.indexes.len()];
        let (mut encoded, mut strange, mut bytes) = (EncodedRow::default(), 0u64, 0);
        self.read_all(table, 0, &mut |key, value| {
            match decode::row(table, key, value) {
                Some(row) => {
                    encoded.encode(table, &row);
                    encoded.add_to(&mut said);
                    bytes += row.iter().map(Value::logical_bytes).sum::<u64>();
                }
                None => strange += 1,
            }
            true
        })?;
        let (name, count) = (table.name, said[0].rows);
        self.result.verify(
            &format!("{name} by PRIMARY"),
            strange == 0,
            format!("{count} rows with sum {}, {strange} that are none", said[0].hex()),
        );
        if let Some(rows) = rows {
            let detail = format!("{count} rows, {rows} expected");
            self.result.verify(&format!("rows of {name}"), count == rows, detail);
        }
        let inserted = self.ledger.get_mut().unwrap_or_else(|e| e.into_inner()).get(&table.base);
        if let Some(inserted) = inserted.copied().filter(|_| is_fixed) {
            let detail = format!(
                "{count} rows with sum {}, inserted {} with {}",
                said[0].hex(),
                inserted.rows,
                inserted.hex()
            );
            self.result.verify(&format!("{name} as inserted"), said[0] == inserted, detail);
        }
        let raw: u64 = said.iter().map(|sum| sum.bytes).sum();
        if let Some(step) = self.result.steps.last_mut().filter(|_| is_fixed && count > 0) {
            step.metrics.insert("raw_b_row".to_owned(), raw as f64 / count as f64);
        }
        if is_fixed && !self.is_cut {
            let fact = format!("{count} rows, sum {}", said[0].hex());
            self.result.facts.insert(format!("{name} by PRIMARY"), fact);
        }
        for (at, index) in table.indexes.iter().enumerate() {
            let mut found = Checksum::default();
            self.read_all(table, at + 1, &mut |key, _| {
                found.add(key, &[]);
                true
            })?;
            let wanted = said[at + 1];
            let detail = format!(
                "{} entries with sum {}, by PRIMARY {} with {}",
                found.rows,
                found.hex(),
                wanted.rows,
                wanted.hex()
            );
            self.result.verify(&format!("{name} by {}", index.name), found == wanted, detail);
        }
        self.deadline = self.deadline.map(|deadline| deadline + begin.elapsed());
        Ok((count, bytes))
    }

    /// Verifies a table of raw keys and values: it must have exactly the expected entries. With
    /// `is_fixed` every target must end with the same ones. Returns their number and bytes.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn verify_raw(
        &mut self,
        table: &Table,
        expected: Checksum,
        is_fixed: bool,
    ) -> Result<(u64, u64)> {
        if !self.keeps_rows() || measure::is_interrupted() {
            return Ok((0, 0));
        }
        println!("progress verify 0 0 0");
        let (begin, mut found) = (Instant::now(), Checksum::default());
        self.read_all(table, 0, &mut |key, value| {
            found.add(key, value);
            true
        })?;
        let text = |sum: &Checksum| format!("{} entries with sum {}", sum.rows, sum.hex());
        let detail = format!("{}, expected {}", text(&found), text(&expected));
        self.result.verify(&format!("entries of {}", table.name), found == expected, detail);
        if is_fixed && !self.is_cut {
            self.result.facts.insert(format!("entries of {}", table.name), text(&found));
        }
        self.deadline = self.deadline.map(|deadline| deadline + begin.elapsed());
        Ok((found.rows, found.bytes))
    }

    /// Returns the result, with the state in which the cell ended.
    pub(super) fn into_result(mut self) -> CellResult {
        if (self.is_cut || measure::is_interrupted()) && self.result.state == State::Done {
            self.result.state = State::Stopped;
        }
        if let Some(said) = device_io::note(&self.result.steps) {
            self.result.settings.insert("(I/O counts)".to_owned(), said);
        }
        let peaks = self.result.steps.iter().filter_map(|step| step.metrics.get("mem_peak_b"));
        if let Some(peak) = peaks.copied().reduce(f64::max) {
            self.result.metrics.insert("mem_peak_b".to_owned(), peak);
        }
        self.result
    }
}

fn sample(target: &dyn Target, t: f64) -> Vec<CounterSample> {
    let counter = |(name, value)| CounterSample { t, source: "engine".to_owned(), name, value };
    target.counters().into_iter().map(counter).collect()
}

/// Samples the store's counters until the step is over.
fn follow(target: &dyn Target, counters: &Mutex<Vec<CounterSample>>, over: &AtomicBool) {
    let (begin, mut due) = (Instant::now(), SAMPLED_EVERY);
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(due.saturating_sub(begin.elapsed()));
        if begin.elapsed() >= due {
            let sampled = sample(target, begin.elapsed().as_secs_f64());
            counters.lock().unwrap_or_else(|e| e.into_inner()).extend(sampled);
            due += SAMPLED_EVERY;
        }
    }
}
