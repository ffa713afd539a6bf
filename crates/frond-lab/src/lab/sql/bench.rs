//! The bench of a SQL cell, through which a workload runs its steps on a server and has them
//! measured and verified.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::counters::{self, Counted};
use super::own::Own;
use super::promises::{verify_memory, verify_syncs};
use super::recovery;
use super::rest::{self, Rested};
use super::server::{Place, Running};
use super::session::Session;
use super::settings;
use super::sum::Ledger;
use super::verify::{Expected, verify_table};
use super::worker::{Connect, Worker};
use crate::lab::device_io;
use crate::lab::machine::Class;
use crate::lab::machine::virtual_disk::Kind;
use crate::lab::results::{CellResult, State, StepResult, UNCHECKED};
use crate::lab::size::Durability;
use crate::lab::step::{Arrivals, Step, Tally, measured, warm_up};
use crate::lab::syncs::Counts;
use crate::lab::target::SqlTarget;
use crate::measure::{self, Plan, Space};
use crate::targets::{Failure, Result};

/// Maximum time to wait for background work.
const REST_MAX: Duration = Duration::from_secs(600);
/// Maximum duration of a step; longer ones are ended by the time limit or by hand.
const SECONDS_MAX: f64 = 1e8;

/// Runs the steps of one cell against its server.
pub struct Bench {
    running: Option<Running>,
    /// The target of the cell.
    pub target: SqlTarget,
    admin: Session,
    deadline: Option<Instant>,
    /// Rows that clients have inserted.
    ledger: Ledger,
    /// Results so far.
    pub result: CellResult,
    with_rest: bool,
    /// What counts as the target's size; `None` if its files are not accessible.
    space: Option<Space>,
    /// Index of the last step that wrote, if the bench has not waited for background work since.
    wrote: Option<usize>,
    /// Whether all targets have the same rows now, because no writing step has ended by time.
    same_rows: bool,
    counted: Counted,
    /// Resident size before the first step.
    base_rss: u64,
    /// Memory of the server without its engine.
    own: Own,
    /// Largest number of connections of a step.
    connections: u64,
    /// Whether the time limit or Ctrl-C ended a step.
    is_cut: bool,
    /// Maximum time to wait for background work.
    rest_max: Duration,
    durability: Durability,
    /// Whether the server has still to be killed once.
    crash_due: bool,
    /// Tables that were verified, as they were last.
    verified: recovery::Tables,
}

/// The conditions of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'c> {
    /// Memory of the target, bytes.
    pub memory: u64,
    /// Durability.
    pub durability: Durability,
    /// Storage class of the cell.
    pub class: &'c Class,
    /// Kind of the private disk that the server's directory is on.
    pub disk: Option<Kind>,
    /// Time limit for all steps together, seconds.
    pub time_limit: Option<u64>,
    /// Whether to wait for background work.
    pub with_rest: bool,
    /// Interval between two samples of counters.
    pub sample_every: Duration,
    /// Whether to kill the server once and verify what it recovers.
    pub with_crash: bool,
}

/// Work of a client that runs concurrently with the clients of a step, and ends with them.
pub type Concurrent<'b> = &'b (dyn Fn(&mut Worker<'_>) -> Result<()> + Sync);

impl Bench {
    /// Starts or connects to the server, and verifies that it syncs commits if the durability
    /// requires that.
    ///
    /// # Errors
    /// Something is not installed, or the server does not start.
    pub fn start(place: &Place, target: &SqlTarget, conditions: &Conditions<'_>) -> Result<Self> {
        let Conditions { memory, durability, class, disk, time_limit, with_rest, .. } = *conditions;
        let running = Running::start(place, target, memory, durability, (class, disk))?;
        let mut admin = running.session()?;
        let version = format!("{} in {}", target.engine, settings::server_version(&mut admin)?);
        let mut result = CellResult { memory_b: memory, version, ..CellResult::default() };
        result.settings = settings::effective(&mut admin, &running.settings)?;
        result.settings.insert("CREATE TABLE …".to_owned(), target.create.clone());
        for (name, value) in &target.bulk_variables {
            let value = format!("{value} during LOAD DATA and ALTER TABLE with a copy");
            result.settings.insert(format!("SET SESSION {name}"), value);
        }
        let isolation = settings::isolation_level(&mut admin)?;
        result.facts.insert("isolation level".to_owned(), isolation);
        result.settings.extend(running.confined.settings(class, disk));
        let ours = running.dir().zip(running.pid());
        if let (Durability::Safe, true, Some((dir, process))) =
            (durability, target.keeps_rows, ours)
        {
            let counts = Counts { dir, process, read: &|| running.confined.counts() };
            verify_syncs(&mut admin, &target.create, &counts, &target.syncs, &mut result)?;
        }
        if ours.is_none() {
            let why = "a server that the lab did not start has its own settings";
            for what in ["durability", "memory"] {
                result.settings.insert(format!("({what})"), format!("not verified: {why}"));
            }
        }
        let space = running.space(target).filter(|_| target.keeps_rows);
        if let Some(space) = &space {
            let empty = format!("{} bytes, which are subtracted from sizes", space.empty_bytes());
            result.settings.insert("(empty data directory)".to_owned(), empty);
        }
        let counted = Counted::new(&running, target, conditions.sample_every);
        let deadline = time_limit.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let target = target.clone();
        let rss = || running.subject().rss_bytes();
        let base_rss = rss();
        let is_ours = ours.is_some();
        let own = match ours {
            Some(_) => Own::measure(&|| Ok(running.session()?), rss)?,
            None => Own::default(),
        };
        // A quick cell does not wait for minutes.
        let rest_max =
            time_limit.map_or(REST_MAX, |limit| REST_MAX.min(Duration::from_secs(3 * limit)));
        Ok(Self {
            running: Some(running),
            target,
            admin,
            deadline,
            ledger: Ledger::default(),
            result,
            with_rest,
            space,
            wrote: None,
            same_rows: true,
            counted,
            base_rss,
            own,
            connections: 0,
            is_cut: false,
            rest_max,
            durability,
            crash_due: conditions.with_crash && is_ours,
            verified: recovery::Tables::new(),
        })
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().ok_or_else(|| Failure("the server has ended".to_owned()))
    }

    /// Whether inserted rows can be read again.
    pub fn keeps_rows(&self) -> bool {
        self.target.keeps_rows
    }

    /// Opens a new connection.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn session(&self) -> Result<Session> {
        Ok(self.running()?.session()?)
    }

    /// The connection for statements that are not measured.
    pub fn admin(&mut self) -> &mut Session {
        &mut self.admin
    }

    /// Creates a table. `definition` is `t(…)` without table options, which come from the target;
    /// `more` follows them (`PARTITION BY …`). Fails if the server chose another engine.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn create(&mut self, definition: &str, more: &str) -> Result<()> {
        let options = &self.target.create;
        let sql = format!("CREATE TABLE {definition} {options} DEFAULT CHARSET=latin1 {more}");
        self.admin.run(&sql)?;
        let name = definition.split(['(', ' ']).next().unwrap_or_default().trim_matches('`');
        self.ledger.forget(name);
        self.verified.remove(name);
        let made = self.admin.value(&format!(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{name}'"
        ))?;
        if made.eq_ignore_ascii_case(&self.target.engine) {
            return Ok(());
        }
        Err(Failure(format!("table {name} was made with {made}, not {}", self.target.engine)))
    }

    /// When the time limit ends the cell, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What counts as the target's size; `None` for a server that the lab did not start, or a
    /// target that keeps no rows.
    pub fn space(&self) -> Option<Space> {
        self.space.clone()
    }

    /// Directory with the target's files; `None` for a server that the lab did not start, or a
    /// target that keeps no rows.
    pub fn files(&self) -> Option<PathBuf> {
        let running = self.running.as_ref()?;
        running.files(&self.target).filter(|_| self.target.keeps_rows)
    }

    /// Whether the time limit or Ctrl-C has ended the cell.
    pub fn is_over(&self) -> bool {
        measure::is_interrupted()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Runs a step. Each client runs `body`, which returns when `Worker::go_on` is false or all is
    /// done.
    ///
    /// # Errors
    /// The first error of a client.
    pub fn step(
        &mut self,
        step: &Step<'_>,
        body: impl Fn(&mut Worker<'_>) -> Result<()> + Sync,
    ) -> Result<&mut StepResult> {
        self.step_concurrent(step, body, &[])
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
        self.step_prepared(step, |_, _, _| Ok(()), |worker, ()| body(worker), concurrent)
    }

    /// Runs a step whose clients prepare before its clock starts. `prepare` gets the number of a
    /// client, its connection, and a function that opens further connections; `body` gets what
    /// `prepare` returns.
    ///
    /// # Errors
    /// The first error of a client.
    pub fn step_prepared<S: Send>(
        &mut self,
        step: &Step<'_>,
        prepare: impl Fn(u64, &mut Session, Connect<'_>) -> Result<S>,
        body: impl Fn(&mut Worker<'_>, S) -> Result<()> + Sync,
        concurrent: &[Concurrent<'_>],
    ) -> Result<&mut StepResult> {
        let mut warm_up_s = None;
        if step.warm_up > 0.0 && !self.is_over() {
            let made = self.run(step, Some(step.warm_up), true, &prepare, &body, concurrent)?;
            warm_up_s = made.metrics.get("seconds").copied();
        }
        // If the time limit was reached before the step, there is nothing to measure: each client
        // would still run one request.
        let is_late = self.is_over() && (step.seconds.is_some() || warm_up_s.is_some());
        let mut made = match is_late {
            true => StepResult { name: step.name.to_owned(), ..StepResult::default() },
            false => self.run(step, step.seconds, false, &prepare, &body, concurrent)?,
        };
        if let Some(seconds) = warm_up_s.filter(|_| !is_late) {
            made.metrics.insert("warm_up_s".to_owned(), seconds);
        }
        self.is_cut |= self.is_over();
        let ran_for_time = step.seconds.is_some() && step.writes;
        self.same_rows &= !(ran_for_time || !concurrent.is_empty() || self.is_cut);
        self.connections = self.connections.max(step.clients + concurrent.len() as u64 + 2);
        self.result.steps.push(made);
        if step.writes && !is_late {
            self.wrote = Some(self.result.steps.len() - 1);
        }
        Ok(self.result.steps.last_mut().expect("it was pushed"))
    }

    fn run<S: Send>(
        &self,
        step: &Step<'_>,
        seconds: Option<f64>,
        is_warm_up: bool,
        prepare: &impl Fn(u64, &mut Session, Connect<'_>) -> Result<S>,
        body: &(impl Fn(&mut Worker<'_>, S) -> Result<()> + Sync),
        concurrent: &[Concurrent<'_>],
    ) -> Result<StepResult> {
        let running = self.running()?;
        let connect = || self.session();
        // Connections are opened and statements prepared before the clock starts.
        let mut clients = Vec::new();
        for index in 0..step.clients {
            let mut session = self.session()?;
            let prepared = prepare(index, &mut session, &connect)?;
            clients.push((session, prepared));
        }
        let guarded = self.deadline.zip(running.guard());
        if let Some((deadline, guard)) = guarded {
            let connections = clients.iter().map(|(session, _)| session.id()).collect();
            guard.limit(Instant::now(), deadline, connections);
        }
        let side_sessions =
            concurrent.iter().map(|_| self.session()).collect::<Result<Vec<_>>>()?;
        let mut watcher = self.session()?;
        let own =
            seconds.map(|s| Instant::now() + Duration::from_secs_f64(s.clamp(0.0, SECONDS_MAX)));
        let deadline = match (own, self.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let nothing = || Space::whole(Path::new("/nonexistent"));
        let plan = Plan {
            step: step.name.to_owned(),
            planned: step.planned.unwrap_or(0),
            deadline,
            space: self.space.clone().unwrap_or_else(nothing),
            progress: true,
            subject: running.subject(),
            kinds: step.series.to_vec(),
        };
        let tally = Mutex::new(Tally::default());
        // The first sample is taken before the clock starts, the last one after it has stopped.
        let first = match is_warm_up {
            true => Vec::new(),
            false => self.counted.sample(&mut watcher, 0.0),
        };
        let sampled = Mutex::new((first, 0.0));
        let over = AtomicBool::new(false);
        let arrivals = std::sync::OnceLock::new();
        let confined = &running.confined;
        confined.reset_memory_peak();
        let before = confined.counts();
        let taken = measure::run(&plan, &|| confined.io(), |meter| {
            std::thread::scope(|scope| {
                let watching = scope.spawn(|| {
                    let samples = match is_warm_up {
                        true => {
                            warm_up::watch(meter, step.warm_up, &over);
                            Vec::new()
                        }
                        false => self.counted.follow(&mut watcher, meter, &over),
                    };
                    (samples, measure::thread_cpu_s())
                });
                let arrivals = step.rate.map(|rate| arrivals.get_or_init(|| Arrivals::new(rate)));
                let clients: Vec<_> = (0..)
                    .zip(clients)
                    .map(|(index, (session, prepared))| {
                        let (tally, ledger) = (&tally, &self.ledger);
                        scope.spawn(move || {
                            let mut worker = Worker::new(index, session, meter, false, ledger);
                            if let Some(arrivals) = arrivals {
                                worker.share(arrivals);
                            }
                            let done = body(&mut worker, prepared);
                            leave(worker, done, tally)
                        })
                    })
                    .collect();
                let others: Vec<_> = (0..)
                    .zip(side_sessions)
                    .zip(concurrent)
                    .map(|((index, session), body)| {
                        let (tally, ledger) = (&tally, &self.ledger);
                        scope.spawn(move || {
                            let mut worker = Worker::new(index, session, meter, true, ledger);
                            let done = body(&mut worker);
                            leave(worker, done, tally)
                        })
                    })
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
                watching.thread().unpark();
                let (samples, cpu_s) = watching.join().unwrap_or_default();
                let mut sampled = sampled.lock().unwrap_or_else(|e| e.into_inner());
                sampled.0.extend(samples);
                sampled.1 = cpu_s;
                outcome
            })
        });
        if let Some((_, guard)) = guarded {
            guard.unlimit();
        }
        let taken = taken?;
        let after = confined.counts();
        let (mut counters, counting_s) = sampled.into_inner().unwrap_or_default();
        if !is_warm_up {
            counters.extend(self.counted.sample(&mut watcher, taken.seconds));
        }
        let tally = tally.into_inner().unwrap_or_default();
        let SqlTarget { syncs, keeps_rows, .. } = &self.target;
        let changed = tally.changed_bytes;
        let mut made = measured::result(step, &taken, &counters, syncs, *keeps_rows, changed)?;
        made.counters = counters::changes(counters);
        device_io::add(&mut made.metrics, (before.as_ref(), after.as_ref()), &taken.usage);
        let all_cpu_s = taken.usage.cpu_s + taken.client_cpu_s;
        measured::sampling(&mut made.metrics, taken.meter_cpu_s + counting_s, all_cpu_s);
        for (name, n) in [
            ("errors_deadlock", tally.deadlock),
            ("errors_lock_timeout", tally.lock_timeout),
            ("errors_duplicate", tally.duplicate),
        ] {
            made.metrics.insert(name.to_owned(), n as f64);
        }
        let deadlocks = tally.deadlock as f64 / taken.seconds.max(1e-9);
        made.metrics.insert("deadlocks_s".to_owned(), deadlocks);
        if let Some(arrivals) = arrivals.get() {
            // Requests that became due after the deadline, while the last ones were still being
            // served, do not count.
            let unserved = arrivals.unserved(taken.seconds, deadline) as f64;
            made.metrics.insert("unserved".to_owned(), unserved);
            made.metrics.insert("wanted_s".to_owned(), step.rate.unwrap_or(0.0));
        }
        measured::remove_unknown(step, &mut made);
        Ok(made)
    }

    /// Waits until background work has ended, and charges that work to the last step that wrote.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn rest(&mut self) -> Result<()> {
        if !self.keeps_rows() || !self.with_rest || measure::is_interrupted() {
            return Ok(());
        }
        let (begin, space) = (Instant::now(), self.space.as_ref());
        let subject = self.running()?.subject();
        let rested = rest::rest(&mut self.admin, &self.target, subject, space, self.rest_max);
        self.extend_limit(begin.elapsed());
        let Rested { paid, seconds } = rested?;
        if let Some(step) = self.wrote.take().and_then(|at| self.result.steps.get_mut(at)) {
            measured::charge_rest(step, &paid, seconds);
        }
        Ok(())
    }

    /// Ends a load: waits for background work, and adds the size of all tables together, with
    /// `live` (rows, bytes), to the step of the load. Sizes are compared at this point, since steps
    /// that write for a fixed time leave different rows on each target.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn loaded(&mut self, live: (u64, u64)) -> Result<()> {
        self.rest()?;
        if !self.with_rest || measure::is_interrupted() {
            return Ok(());
        }
        let name = self.size_name();
        if let (Some(space), Some(step)) = (&self.space, self.result.steps.last_mut()) {
            measured::size(&mut step.metrics, name, space, live);
        }
        Ok(())
    }

    /// Name of the size metric. It differs where targets have different rows, so that such sizes
    /// are not compared.
    fn size_name(&self) -> &'static str {
        if self.same_rows { "disk_b" } else { "disk_end_b" }
    }

    /// Extends the time limit, which covers only measured work.
    fn extend_limit(&mut self, by: Duration) {
        self.deadline = self.deadline.map(|deadline| deadline + by);
    }

    /// Verifies a table through each of its indexes. `is_fixed` says that on every target it holds
    /// exactly what was loaded; the rows are then compared with those that were sent.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn verify(&mut self, table: &str, rows: Option<u64>, is_fixed: bool) -> Result<()> {
        if !self.keeps_rows() || measure::is_interrupted() {
            return Ok(());
        }
        println!("progress verify 0 0 0");
        let begin = Instant::now();
        self.verified.insert(table.to_owned(), (rows, is_fixed));
        let sent = self.ledger.of(table).filter(|_| is_fixed);
        let is_fixed = is_fixed && !self.is_cut;
        let expected = Expected { rows, sent: sent.as_ref(), is_fixed, when: "" };
        let verified = verify_table(&mut self.admin, table, expected, &mut self.result);
        self.extend_limit(begin.elapsed());
        verified
    }

    /// Kills the server once per cell, if that was ordered, and verifies what it recovers. A
    /// workload calls this after its load has been verified. If commits may be lost, the server is
    /// killed at the end of the cell instead, since later steps rely on the rows.
    ///
    /// # Errors
    /// The server does not start again; errors of the server.
    pub fn crash(&mut self) -> Result<()> {
        match self.durability == Durability::Safe && !self.is_over() {
            true => self.crash_now(),
            false => Ok(()),
        }
    }

    fn crash_now(&mut self) -> Result<()> {
        let is_due = self.crash_due && self.keeps_rows() && !self.verified.is_empty();
        if !is_due || measure::is_interrupted() || self.result.state == State::Failed {
            return Ok(());
        }
        self.crash_due = false;
        println!("progress recovery 0 0 0");
        let (begin, is_exact) = (Instant::now(), self.durability == Durability::Safe);
        let mut tables = std::mem::take(&mut self.verified);
        recovery::prepare(&mut self.admin, &mut tables, &self.target.create, is_exact)?;
        let ended = || Failure("the server has ended".to_owned());
        let running = self.running.as_mut().ok_or_else(ended)?;
        let took = running.crash()?;
        self.admin = running.session()?;
        self.counted = Counted::new(running, &self.target, self.counted.every);
        self.result.metrics.insert("recovery_s".to_owned(), took.as_secs_f64());
        let (ledger, result) = (&self.ledger, &mut self.result);
        recovery::verify(&mut self.admin, &tables, ledger, is_exact, result)?;
        self.extend_limit(begin.elapsed());
        Ok(())
    }

    /// Verifies that the server stayed within its memory limit.
    fn verify_memory(&mut self) {
        let peaks = self.result.steps.iter().filter_map(|step| step.metrics.get("rss_peak_b"));
        let peak = peaks.copied().fold(0.0, f64::max) as u64;
        if peak > 0 && self.base_rss > 0 {
            let memory = (self.result.memory_b, self.target.overhead_b);
            let (own, connections) = (self.own, self.connections);
            verify_memory(self.base_rss, peak, memory, own, connections, &mut self.result);
        }
    }

    /// Stops the server and completes the result. `live` is the number of live rows at the end, and
    /// their bytes.
    ///
    /// # Errors
    /// The server does not stop, or its files are damaged.
    pub fn finish(mut self, live: (u64, u64)) -> Result<CellResult> {
        if (self.is_cut || measure::is_interrupted()) && self.result.state == State::Done {
            self.result.state = State::Stopped;
        }
        self.verify_memory();
        if let Err(failure) = self.crash_now() {
            // Keep what was measured before the failure.
            (self.result.state, self.result.failure) = (State::Failed, Some(failure.0));
            self.result.log_tail = self.log_tail();
            return Ok(self.result);
        }
        if let Some(said) = device_io::note(&self.result.steps) {
            self.result.settings.insert("(I/O counts)".to_owned(), said);
        }
        let size_name = self.size_name();
        let Some(running) = self.running.take() else { return Ok(self.result) };
        self.result.log_tail = Some(running.log_tail());
        let files = running.files(&self.target);
        drop(self.admin);
        running.stop()?;
        let Some(files) = files.filter(|_| self.target.keeps_rows) else { return Ok(self.result) };
        if measure::is_interrupted() {
            return Ok(self.result);
        }
        if let Some(space) = &self.space {
            measured::size(&mut self.result.metrics, size_name, space, live);
        }
        if self.target.is_frond() {
            match frond::check::store(&files, frond::check::CheckMode::Full) {
                Ok(report) => {
                    self.result.verify("frond check", report.is_clean(), report.to_string());
                }
                // This check may not know the format of another commit.
                Err(error) if self.target.plugin_path.is_some() => {
                    let why = format!("not checked: {error}");
                    self.result.settings.insert(UNCHECKED.to_owned(), why);
                }
                Err(error) => return Err(Failure(format!("frond check: {error}"))),
            }
        }
        Ok(self.result)
    }

    /// The last lines of the server's log, for a failed cell.
    pub fn log_tail(&self) -> Option<String> {
        self.running.as_ref().map(Running::log_tail)
    }
}

/// Ends a client: adds its tally, and if it failed, stops the step, which would otherwise run for
/// its full time.
fn leave(worker: Worker<'_>, done: Result<()>, tally: &Mutex<Tally>) -> Result<()> {
    tally.lock().unwrap_or_else(|e| e.into_inner()).add(&worker.tally());
    if done.is_err() {
        worker.stop();
    }
    done
}
