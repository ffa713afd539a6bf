//! What a workload runs its steps through: a server with one target, the meter, the clock.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::counters;
use super::promises::{Counts, verify_memory, verify_syncs};
use super::server::{Place, Running};
use super::session::Session;
use super::verify::verify_table;
use super::worker::{Arrivals, Errors, Worker};
use crate::lab::machine::virtual_disk::Kind;
use crate::lab::machine::{Class, Reading};
use crate::lab::results::{CellResult, State, StepResult};
use crate::lab::size::Durability;
use crate::lab::steps;
use crate::lab::target::SqlTarget;
use crate::measure::{self, Plan};
use crate::targets::{Failure, Result};

/// Longest time in which background work is waited for.
const REST_MAX: Duration = Duration::from_secs(600);
/// Longest step: what is longer ends by the time limit or by hand.
const SECONDS_MAX: f64 = 1e8;
/// Seconds in which a server that rests writes nothing and does not change its size.
const STILL_SECONDS: u32 = 3;

/// A step.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    /// Its name.
    pub name: &'s str,
    /// Operations planned, if it does not run for a time.
    pub planned: Option<u64>,
    /// Seconds that it runs for.
    pub seconds: Option<f64>,
    /// Seconds before that are not measured.
    pub warm_up: f64,
    /// Clients.
    pub clients: u64,
    /// Requests per second that arrive at all clients together, each served by one that is free: an open loop.
    pub rate: Option<f64>,
    /// Kinds of requests that have a series of their own: requests done so far.
    pub series: &'s [&'static str],
    /// Bytes of the rows that an operation changes.
    pub changed_bytes: u64,
}

impl<'s> Step<'s> {
    /// A load of so many rows by one client.
    pub fn load(name: &'s str, rows: u64, row_bytes: u64) -> Self {
        Self {
            name,
            planned: Some(rows),
            seconds: None,
            warm_up: 0.0,
            clients: 1,
            rate: None,
            series: &[],
            changed_bytes: row_bytes,
        }
    }

    /// Requests of so many clients for a time.
    pub fn timed(name: &'s str, seconds: f64, warm_up: f64, clients: u64) -> Self {
        let (planned, seconds) = (None, Some(seconds));
        let (rate, changed_bytes) = (None, 0);
        Self { name, planned, seconds, warm_up, clients, rate, series: &[], changed_bytes }
    }
}

/// Runs the steps of one cell against its server.
pub struct Bench {
    running: Option<Running>,
    /// What is measured.
    pub target: SqlTarget,
    admin: Session,
    deadline: Option<Instant>,
    /// What has been found so far.
    pub result: CellResult,
    with_rest: bool,
    /// Resident size before the first step.
    base_rss: u64,
    /// Most connections that a step had.
    connections: u64,
    /// Whether the time limit ended a step.
    is_cut: bool,
    /// Longest time in which background work is waited for.
    rest_max: Duration,
}

/// The conditions of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'c> {
    /// Memory of the target, bytes.
    pub memory: u64,
    /// Durability.
    pub durability: Durability,
    /// Storage class.
    pub class: &'c Class,
    /// The disk of its own that the server's directory is on.
    pub disk: Option<Kind>,
    /// Seconds for all steps.
    pub time_limit: Option<u64>,
    /// Whether background work is waited for.
    pub with_rest: bool,
}

/// The client of a step that runs beside the others: it ends with them.
pub type Beside<'b> = &'b (dyn Fn(&mut Worker<'_>) -> Result<()> + Sync);

impl Bench {
    /// Starts the server.
    ///
    /// # Errors
    /// What is missing, or why the server does not start.
    pub fn start(place: &Place, target: &SqlTarget, conditions: &Conditions<'_>) -> Result<Self> {
        let Conditions { memory, durability, class, disk, time_limit, with_rest } = *conditions;
        let running = Running::start(place, target, memory, durability, (class, disk))?;
        let mut admin = running.session()?;
        let server = admin.value("SELECT VERSION()")?;
        let version = format!("{} in MariaDB {server}", target.engine);
        let mut result = CellResult { memory_b: memory, version, ..CellResult::default() };
        let text = |(name, value, why): &(String, String, String)| {
            (name.clone(), format!("{value}  ({why})"))
        };
        result.settings.extend(running.settings.iter().map(text));
        result.settings.insert("CREATE TABLE …".to_owned(), target.create.clone());
        result.settings.extend(running.confined.settings(class, disk));
        if let (Durability::Safe, true, Some(dir)) = (durability, target.keeps_rows, running.dir())
        {
            let counts = Counts { dir, read: &|| running.counts() };
            verify_syncs(&mut admin, &target.create, &counts, &mut result)?;
        }
        let deadline = time_limit.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let target = target.clone();
        let base_rss = running.subject().rss_bytes();
        // A quick cell does not rest for minutes.
        let rest_max =
            time_limit.map_or(REST_MAX, |limit| REST_MAX.min(Duration::from_secs(3 * limit)));
        Ok(Self {
            running: Some(running),
            target,
            admin,
            deadline,
            result,
            with_rest,
            base_rss,
            connections: 0,
            is_cut: false,
            rest_max,
        })
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().ok_or_else(|| Failure("the server has ended".to_owned()))
    }

    /// Whether what is inserted can be read again.
    pub fn keeps_rows(&self) -> bool {
        self.target.keeps_rows
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// The server's.
    pub fn session(&self) -> Result<Session> {
        Ok(self.running()?.session()?)
    }

    /// The connection for what is not measured.
    pub fn admin(&mut self) -> &mut Session {
        &mut self.admin
    }

    /// Creates a table: `definition` is `t(…)` without options, which are the target's; `more` follows them
    /// (`PARTITION BY …`). Fails if the server took another engine.
    ///
    /// # Errors
    /// The server's.
    pub fn create(&mut self, definition: &str, more: &str) -> Result<()> {
        let options = &self.target.create;
        let sql = format!("CREATE TABLE {definition} {options} DEFAULT CHARSET=latin1 {more}");
        self.admin.run(&sql)?;
        let name = definition.split(['(', ' ']).next().unwrap_or_default().trim_matches('`');
        let made = self.admin.value(&format!(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{name}'"
        ))?;
        if made.eq_ignore_ascii_case(&self.target.engine) {
            return Ok(());
        }
        Err(Failure(format!("table {name} was made with {made}, not {}", self.target.engine)))
    }

    /// When the time limit ends the cell.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Directory with the target's files: none of a server that is not the lab's own, or of a target that keeps no rows.
    pub fn files(&self) -> Option<PathBuf> {
        let running = self.running.as_ref()?;
        running.files(&self.target).filter(|_| self.target.keeps_rows)
    }

    /// Whether the time limit, or Ctrl-C, has ended the cell.
    pub fn is_over(&self) -> bool {
        measure::is_interrupted()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Runs a step: `body` is what each client does until `Worker::go_on` is false or all is done.
    ///
    /// # Errors
    /// The first client's that fails.
    pub fn step(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<&mut StepResult> {
        self.step_beside(step, body, &[])
    }

    /// Runs a step with clients beside it, whose requests are not the step's.
    ///
    /// # Errors
    /// The first client's that fails.
    pub fn step_beside(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
        beside: &[Beside<'_>],
    ) -> Result<&mut StepResult> {
        self.step_prepared(step, |_, _| Ok(()), |worker, ()| body(worker), beside)
    }

    /// Runs a step whose clients prepare before its clock runs: what `prepare` makes for a client, by its number and
    /// on its connection, is what `body` then has.
    ///
    /// # Errors
    /// The first client's that fails.
    pub fn step_prepared<S: Send>(
        &mut self,
        step: &Step<'_>,
        prepare: impl Fn(u64, &mut Session) -> Result<S>,
        body: impl Fn(&mut Worker<'_>, S) -> Result<()> + Sync,
        beside: &[Beside<'_>],
    ) -> Result<&mut StepResult> {
        if step.warm_up > 0.0 && !self.is_over() {
            self.run(step, Some(step.warm_up), &prepare, &body, beside)?;
        }
        // A limit that was reached before the step leaves nothing to measure: its requests would be one for each client.
        let made = match step.seconds.is_some() && self.is_over() {
            true => StepResult { name: step.name.to_owned(), ..StepResult::default() },
            false => self.run(step, step.seconds, &prepare, &body, beside)?,
        };
        self.is_cut |= self.is_over();
        self.connections = self.connections.max(step.clients + beside.len() as u64 + 2);
        self.result.steps.push(made);
        Ok(self.result.steps.last_mut().expect("it was pushed"))
    }

    fn run<S: Send>(
        &self,
        step: &Step<'_>,
        seconds: Option<f64>,
        prepare: &impl Fn(u64, &mut Session) -> Result<S>,
        body: &(impl Fn(&mut Worker<'_>, S) -> Result<()> + Sync),
        beside: &[Beside<'_>],
    ) -> Result<StepResult> {
        let running = self.running()?;
        // Connections and statements are made before the clock runs.
        let mut clients = Vec::new();
        for index in 0..step.clients {
            let mut session = self.session()?;
            let prepared = prepare(index, &mut session)?;
            clients.push((session, prepared));
        }
        let side_sessions = beside.iter().map(|_| self.session()).collect::<Result<Vec<_>>>()?;
        let mut watcher = self.session()?;
        let own =
            seconds.map(|s| Instant::now() + Duration::from_secs_f64(s.clamp(0.0, SECONDS_MAX)));
        let deadline = match (own, self.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let dir = running.files(&self.target).unwrap_or_else(|| "/nonexistent".into());
        let plan = Plan {
            step: step.name.to_owned(),
            planned: step.planned.unwrap_or(0),
            deadline,
            dir: dir.clone(),
            progress: true,
            subject: running.subject(),
            kinds: step.series.to_vec(),
        };
        let (errors, sampled) = (Mutex::new(Errors::default()), Mutex::new(Vec::new()));
        let over = AtomicBool::new(false);
        let connect = || self.session();
        let arrivals = std::sync::OnceLock::new();
        let statements = &self.target.counters;
        running.reset_memory_peak();
        let before = running.counts();
        let taken = measure::run(&plan, |meter| {
            std::thread::scope(|scope| {
                let sampling =
                    scope.spawn(|| counters::follow(&mut watcher, statements, meter, &over));
                let arrivals = step.rate.map(|rate| arrivals.get_or_init(|| Arrivals::new(rate)));
                let clients: Vec<_> = (0..)
                    .zip(clients)
                    .map(|(index, (session, prepared))| {
                        let (errors, connect) = (&errors, &connect);
                        scope.spawn(move || {
                            let mut worker = Worker::new(index, session, meter, false, connect);
                            if let Some(arrivals) = arrivals {
                                worker.share(arrivals);
                            }
                            let done = body(&mut worker, prepared);
                            leave(worker, done, errors)
                        })
                    })
                    .collect();
                let others: Vec<_> = (0..)
                    .zip(side_sessions)
                    .zip(beside)
                    .map(|((index, session), body)| {
                        let (errors, connect) = (&errors, &connect);
                        scope.spawn(move || {
                            let mut worker = Worker::new(index, session, meter, true, connect);
                            let done = body(&mut worker);
                            leave(worker, done, errors)
                        })
                    })
                    .collect();
                let panicked = |_| Err(Failure("a client panicked".to_owned()));
                let mut outcome = Ok(());
                for client in clients {
                    outcome = outcome.and(client.join().unwrap_or_else(panicked));
                }
                meter.stop_side_clients();
                for client in others {
                    outcome = outcome.and(client.join().unwrap_or_else(panicked));
                }
                over.store(true, Ordering::Relaxed);
                sampling.thread().unpark();
                let samples = sampling.join().unwrap_or_default();
                *sampled.lock().unwrap_or_else(|e| e.into_inner()) = samples;
                outcome
            })
        })?;
        let mut counters = sampled.into_inner().unwrap_or_default();
        counters.extend(counters::sample(&mut watcher, statements, taken.seconds));
        let errors = errors.into_inner().unwrap_or_default();
        let mut made = steps::result(step, &taken, &counters, &self.target)?;
        made.counters = counters;
        of_group(&mut made, before.as_ref(), running.counts().as_ref());
        for (name, n) in [
            ("errors_deadlock", errors.deadlock),
            ("errors_lock_timeout", errors.lock_timeout),
            ("errors_duplicate", errors.duplicate),
        ] {
            made.metrics.insert(name.to_owned(), n as f64);
        }
        let deadlocks = errors.deadlock as f64 / taken.seconds.max(1e-9);
        made.metrics.insert("deadlocks_s".to_owned(), deadlocks);
        if self.keeps_rows() {
            made.metrics.insert("disk_load_b".to_owned(), measure::allocated_bytes(&dir) as f64);
        }
        Ok(made)
    }

    /// Waits until background work has ended, and charges it to the last step that wrote.
    ///
    /// # Errors
    /// The server's.
    pub fn rest(&mut self) -> Result<()> {
        if !self.keeps_rows() || !self.with_rest || measure::is_interrupted() {
            return Ok(());
        }
        let begin = Instant::now();
        let rested = self.rest_now(begin);
        self.extend_limit(begin.elapsed());
        rested
    }

    /// The time limit is one of what is measured.
    fn extend_limit(&mut self, by: Duration) {
        self.deadline = self.deadline.map(|deadline| deadline + by);
    }

    fn rest_now(&mut self, begin: Instant) -> Result<()> {
        let running =
            self.running.as_ref().ok_or_else(|| Failure("the server has ended".to_owned()))?;
        let subject = running.subject();
        let before = subject.usage();
        let usual = usual_values(&mut self.admin, &self.target.settle_variables)?;
        for (name, value) in &self.target.settle_variables {
            self.admin.run(&format!("SET GLOBAL {name} = {value}"))?;
        }
        for statement in &self.target.settle {
            self.admin.run(statement)?;
        }
        let dir = running.files(&self.target).unwrap_or_else(|| "/nonexistent".into());
        let now = || (subject.usage().write_bytes, measure::allocated_bytes(&dir));
        let (mut last, mut still) = (now(), 0);
        while begin.elapsed() < self.rest_max && still < STILL_SECONDS && !measure::is_interrupted()
        {
            println!("progress rest 0 {} 0", begin.elapsed().as_secs());
            std::thread::sleep(Duration::from_secs(1));
            let seen = std::mem::replace(&mut last, now());
            let is_settled = zero(&mut self.admin, &self.target.zero_when_settled)?;
            still = if seen == last && is_settled { still + 1 } else { 0 };
        }
        for (name, value) in usual.iter().rev() {
            self.admin.run(&format!("SET GLOBAL {name} = {value}"))?;
        }
        let paid = subject.usage().since(&before);
        let seconds = begin.elapsed().as_secs_f64() - f64::from(still);
        steps::charge_rest(&mut self.result.steps, &paid, seconds);
        Ok(())
    }

    /// Verifies a table through each of its indexes. With `is_fixed` every target must have the same rows in the end.
    ///
    /// # Errors
    /// The server's.
    pub fn verify(&mut self, table: &str, rows: Option<u64>, is_fixed: bool) -> Result<()> {
        if !self.keeps_rows() || measure::is_interrupted() {
            return Ok(());
        }
        println!("progress verify 0 0 0");
        let begin = Instant::now();
        let is_fixed = is_fixed && !self.is_cut;
        let verified = verify_table(&mut self.admin, table, rows, is_fixed, &mut self.result);
        self.extend_limit(begin.elapsed());
        verified
    }

    /// Verifies that the server stayed within its memory.
    fn verify_memory(&mut self) {
        let peaks = self.result.steps.iter().filter_map(|step| step.metrics.get("rss_peak_b"));
        let peak = peaks.copied().fold(0.0, f64::max) as u64;
        if peak > 0 && self.base_rss > 0 {
            let memory = self.result.memory_b;
            verify_memory(self.base_rss, peak, memory, self.connections, &mut self.result);
        }
    }

    /// Ends the server and finishes the result; `live` is what is alive in the end: rows, and their bytes.
    ///
    /// # Errors
    /// The server does not end, or its files are damaged.
    pub fn finish(mut self, live: (u64, u64)) -> Result<CellResult> {
        if (self.is_cut || measure::is_interrupted()) && self.result.state == State::Done {
            self.result.state = State::Stopped;
        }
        self.verify_memory();
        let Some(running) = self.running.take() else { return Ok(self.result) };
        self.result.log_tail = Some(running.log_tail());
        let files = running.files(&self.target);
        drop(self.admin);
        running.stop()?;
        let Some(files) = files.filter(|_| self.target.keeps_rows) else { return Ok(self.result) };
        let disk = measure::allocated_bytes(&files) as f64;
        let metrics = &mut self.result.metrics;
        metrics.insert("disk_b".to_owned(), disk);
        let (rows, bytes) = live;
        if rows > 0 {
            metrics.insert("disk_b_row".to_owned(), disk / rows as f64);
        }
        if bytes > 0 {
            metrics.insert("space_amp".to_owned(), disk / bytes as f64);
        }
        if self.target.is_frond() && !measure::is_interrupted() {
            match frond::check(&files, frond::CheckMode::Full, frond::io::Env::real()) {
                Ok(report) => {
                    self.result.verify("frond check", report.is_clean(), report.to_string());
                }
                // Another commit's format may be unknown to the check of this one.
                Err(error) if self.target.plugin_path.is_some() => {
                    let why = format!("not checked: {error}");
                    self.result.settings.insert("(frond check)".to_owned(), why);
                }
                Err(error) => return Err(Failure(format!("frond check: {error}"))),
            }
        }
        Ok(self.result)
    }

    /// The last lines of the server's log, for a cell that failed.
    pub fn log_tail(&self) -> Option<String> {
        self.running.as_ref().map(Running::log_tail)
    }
}

/// A client has ended: its errors are counted, and one that failed ends the step, which would go on for all of its time.
fn leave(worker: Worker<'_>, done: Result<()>, errors: &Mutex<Errors>) -> Result<()> {
    errors.lock().unwrap_or_else(|e| e.into_inner()).add(&worker.errors());
    if done.is_err() {
        worker.stop();
    }
    done
}

/// The values of global variables now.
fn usual_values(
    session: &mut Session,
    variables: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let mut usual = Vec::new();
    for (name, _) in variables {
        usual.push((name.clone(), session.value(&format!("SELECT @@GLOBAL.{name}"))?));
    }
    Ok(usual)
}

/// Whether all of these status variables are zero.
fn zero(session: &mut Session, names: &[String]) -> Result<bool> {
    for name in names {
        let value = session.value(&format!(
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='{name}'"
        ))?;
        if value.parse::<f64>().is_ok_and(|value| value > 0.0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the control group counted over a step: I/Os of the device, and memory with the page cache.
fn of_group(made: &mut StepResult, before: Option<&Reading>, after: Option<&Reading>) {
    let ops = made.metrics.get("ops").copied().unwrap_or(1.0).max(1.0);
    if let Some(peak) = after.and_then(|after| after.memory?.peak) {
        made.metrics.insert("mem_peak_b".to_owned(), peak as f64);
    }
    if let (Some(before), Some(after)) =
        (before.and_then(|one| one.io.as_ref()), after.and_then(|one| one.io.as_ref()))
    {
        let io = after.since(before);
        for (name, count) in [
            ("rd_io_op", io.reads),
            ("wr_io_op", io.writes),
            ("device_rd_b_op", io.read_bytes),
            ("device_wr_b_op", io.written_bytes),
        ] {
            made.metrics.insert(name.to_owned(), count as f64 / ops);
        }
    }
}
