//! `weblog`: a performance log of database calls, with long strings, three indexes and a partition
//! per day.
//!
//! | step | |
//! |---|---|
//! | `load` | seven days, by two writers, 500 rows per commit, in the order in which calls ended |
//! | `steady` | one writer at a fixed rate, concurrently with two clients that query (Q1 to Q6) |
//! | `queries before` | the queries alone |
//! | `retention drop` | DROP PARTITION of the oldest day, while the writer continues |
//! | `retention delete` | DELETE … LIMIT 10000 of the next day, while the writer continues |
//! | `queries after` | the queries again |
//!
//! Embedded stores have no partitions. There `retention drop` deletes ranges of keys, and
//! `retention delete` rows (`embedded.rs`).
//!
//! The generator is not tuned to reach a particular compression ratio.

mod embedded;
mod log;
mod queries;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::pace::{self, RATE, Rate};
use super::{Entry, Workload, refuse_without_rows};
use crate::data::Source;
use crate::data::weblog::generator::{START_MILLIS, WebLog};
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::size::Size;
use crate::lab::sql::{Bench, Connect, Session, Worker};
use crate::lab::step::{Step, measured};
use crate::measure::{self, Space};
use crate::targets::{Failure, Result};
use log::{DAY_MILLIS, Log, Times, Writer};
use queries::Queries;

pub use embedded::EMBEDDED;

/// Parameters in SQL. Embedded stores have all but the first.
const PARAMS: &[Param] = &[
    Param::fixed(
        "partitioned",
        "yes",
        "one partition per day; otherwise days are removed by DELETE only",
    ),
    Param::sized("rows", ["7_000", "365_000", "4_900_000", "70_000_000"], "rows of the load"),
    Param::fixed(
        "poll",
        "0.25",
        "fraction of calls made by pollers: typical 0.25, chatty 0.75, polling 0.95",
    ),
    Param::fixed("writers", "2", "clients of the load"),
    Param::fixed("rows_per_commit", "500", "rows per INSERT of the load"),
    Param::fixed(
        "steady_rate",
        "2000",
        "rows per second that the writer inserts while queries run",
    ),
    Param::fixed("steady_rows_per_commit", "50", "rows per INSERT of this writer"),
    Param::sized("steady_seconds", ["1", "1", "120", "600"], "duration of steady writes, seconds"),
    Param::sized(
        "query_seconds",
        ["1", "1", "30", "120"],
        "duration of queries without writes, seconds",
    ),
    Param::sized(
        "warm_up",
        ["0", "0.3", "20", "600"],
        "maximum warm-up before the queries, seconds",
    ),
    RATE,
    Param::sized(
        "retention_seconds",
        ["1", "1", "30", "120"],
        "minimum duration of a retention step, seconds",
    ),
    Param::sized(
        "back_seconds",
        ["1", "1", "60", "300"],
        "maximum wait for the bytes to be freed, seconds",
    ),
    Param::fixed("ratio", "10", "data to cache"),
    Param::sized("time_limit", ["60", "40", "1200", "0"], "seconds, 0 for none"),
];

pub const ENTRY: Entry = Entry {
    name: "weblog",
    about: "a performance log: load, steady writes with queries, and retention",
    headline: ("load", "ops_s"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Weblog::in_sql(params, seed)?)),
};

const DAYS: u64 = 7;
const QUERY_CLIENTS: u64 = 2;
/// Average bytes of a row, without headers.
pub const ROW_BYTES: u64 = 180;
pub const INNODB_ROW_BYTES: u64 = <WebLog as Source>::INNODB_ROW_BYTES;
/// Interval at which the size is checked while waiting for space to be freed.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

struct Weblog {
    seed: u64,
    rows: u64,
    poll: f64,
    partitioned: bool,
    writers: u64,
    per_commit: u64,
    steady_rate: f64,
    steady_per_commit: u64,
    steady_seconds: f64,
    query_seconds: f64,
    warm_up: f64,
    rate: Rate,
    retention_seconds: f64,
    back_seconds: f64,
}

/// How a day is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    DropPartition,
    Delete,
}

impl Way {
    /// Name of the step.
    fn step(self) -> &'static str {
        match self {
            Self::DropPartition => "retention drop",
            Self::Delete => "retention delete",
        }
    }
}

/// Result of a retention step: the time until the rows were gone, and the time until their space
/// was freed.
#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    gone_s: Option<f64>,
    bytes_back_s: Option<f64>,
}

impl Gone {
    /// Adds the result to the step, with the number of bytes freed.
    fn note(self, step: Option<&mut StepResult>, freed: Option<f64>) {
        let Some(step) = step else { return };
        for (name, value) in
            [("gone_s", self.gone_s), ("bytes_back_s", self.bytes_back_s), ("freed_b", freed)]
        {
            if let Some(value) = value {
                step.metrics.insert(name.to_owned(), value);
            }
        }
    }
}

/// A day that is being deleted.
struct Retired {
    /// Size before, in bytes.
    before: u64,
    /// Size at which half of the day's bytes are free.
    goal: u64,
    /// Start of the next day: all rows that began before it have to go.
    end: u64,
}

impl Retired {
    /// Retires the oldest day of a log that takes `before` bytes.
    fn new(log: &Log, before: u64) -> Self {
        let rows = log.rows();
        let end = log.retire_day();
        let share = (rows - log.rows()) as f64 / rows.max(1) as f64;
        Self { before, goal: before - (before as f64 * share / 2.0) as u64, end }
    }
}

impl Weblog {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let number = |name| params.number(name);
        let made = Self {
            seed,
            rows: number("rows")?,
            poll: params.real("poll")?,
            partitioned: false,
            writers: number("writers")?,
            per_commit: number("rows_per_commit")?,
            steady_rate: params.real("steady_rate")?,
            steady_per_commit: number("steady_rows_per_commit")?,
            steady_seconds: params.real("steady_seconds")?,
            query_seconds: params.real("query_seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            retention_seconds: params.real("retention_seconds")?,
            back_seconds: params.real("back_seconds")?,
        };
        let sizes = [made.per_commit, made.steady_per_commit];
        let times = [made.steady_seconds, made.query_seconds, made.retention_seconds];
        let is_right = made.rows >= 1_000
            && made.poll <= 1.0
            && (1..=512).contains(&made.writers)
            && sizes.iter().all(|n| (1..=100_000).contains(n))
            && made.steady_rate > 0.0
            && times.iter().all(|seconds| *seconds > 0.0);
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "weblog: allowed are rows from 1000, poll from 0 to 1, writers from 1 to 512, rows of commits, rates and seconds above 0"
                .to_owned(),
        ))
    }

    fn in_sql(params: &Params, seed: u64) -> Result<Self> {
        Ok(Self { partitioned: params.flag("partitioned")?, ..Self::new(params, seed)? })
    }

    fn new_log(&self) -> Log {
        Log::new(self.seed, self.rows_per_day(), self.poll, self.days() as usize + 1)
    }

    fn rows_per_day(&self) -> f64 {
        self.rows as f64 / DAYS as f64
    }

    /// Number of days of the load and of the rows that are written after it, as an estimate.
    fn days(&self) -> u64 {
        let seconds = self.steady_seconds + 2.0 * (self.retention_seconds + self.back_seconds);
        let more = seconds * self.steady_rate / self.rows_per_day();
        DAYS + (more.ceil() as u64).min(900)
    }

    fn create(&self, bench: &mut Bench) -> Result<()> {
        let mut partitions = String::new();
        if self.partitioned {
            let mut times = Times::default();
            partitions.push_str("PARTITION BY RANGE COLUMNS(begin_ts)(");
            for day in 0..self.days() {
                let end = times.text(START_MILLIS + (day + 1) * DAY_MILLIS);
                partitions += &format!("PARTITION d{day} VALUES LESS THAN('{end}'),");
            }
            partitions += "PARTITION later VALUES LESS THAN(MAXVALUE))";
        }
        bench.create(
            "perf_log(log_id BIGINT UNSIGNED NOT NULL, begin_ts DATETIME(3) NOT NULL, end_ts DATETIME(3) NOT NULL, \
             duration_ms INT UNSIGNED NOT NULL, instance_name VARCHAR(64) NOT NULL, proc_name VARCHAR(128) NOT NULL, \
             app_server VARCHAR(64) NOT NULL, login_name VARCHAR(32) NOT NULL, row_count INT UNSIGNED NOT NULL, \
             error_code INT NOT NULL, param_text VARCHAR(2000) NOT NULL, PRIMARY KEY(begin_ts,log_id), \
             KEY ix_proc(proc_name,begin_ts), KEY ix_inst(instance_name,begin_ts), KEY ix_dur(duration_ms,begin_ts))",
            &partitions,
        )
    }

    fn load(&self, bench: &mut Bench, log: &Log) -> Result<()> {
        let mut step = Step::load("load", self.rows, ROW_BYTES);
        step.clients = self.writers;
        let left = AtomicU64::new(self.rows);
        bench.step(&step, |worker| {
            let mut writer = Writer::new(log);
            while worker.go_on() {
                match take(&left, self.per_commit) {
                    0 => break,
                    rows => writer.write(worker, rows)?,
                }
            }
            Ok(())
        })?;
        bench.loaded((log.rows(), log.live_bytes()))?;
        bench.verify("perf_log", Some(log.rows()), true)?;
        bench.crash()
    }

    /// Makes a step in which the writer runs at its rate.
    fn written<'s>(&self, name: &'s str, seconds: f64) -> Step<'s> {
        let mut step = Step::timed(name, seconds, 0.0, 1);
        step.rate = Some(self.steady_rate / self.steady_per_commit as f64);
        step.changed_bytes = ROW_BYTES;
        step.writes = true;
        step
    }

    fn go_on_writing(&self, worker: &mut Worker<'_>, log: &Log) -> Result<()> {
        let mut writer = Writer::new(log);
        while worker.go_on() {
            writer.write(worker, self.steady_per_commit)?;
        }
        Ok(())
    }

    fn steady(&self, bench: &mut Bench, log: &Log) -> Result<()> {
        let step = Step { is_shared: true, ..self.written("steady", self.steady_seconds) };
        let ask = |worker: &mut Worker<'_>| {
            let index = worker.index;
            let queries = Queries::new(log, self.seed, (0, index), &mut worker.session)?;
            ask(worker, queries)
        };
        let write = |worker: &mut Worker<'_>| self.go_on_writing(worker, log);
        measured::add_queries(bench.step_concurrent(&step, write, &[&ask, &ask])?);
        Ok(())
    }

    fn queries(&self, bench: &mut Bench, log: &Log, name: &str) -> Result<()> {
        let step = Step::timed(name, self.query_seconds, self.warm_up, QUERY_CLIENTS);
        pace::run(bench, &step, self.rate, |bench, step| {
            let prepare = |index, session: &mut Session, _: Connect<'_>| {
                Queries::new(log, self.seed, (1, index), session)
            };
            bench.step_prepared(step, prepare, ask, &[])?;
            Ok(())
        })
    }

    fn retention(&self, bench: &mut Bench, log: &Log, way: Way) -> Result<()> {
        let space = bench.space();
        let size = || space.as_ref().map_or(0, Space::bytes);
        let day = (log.oldest() - START_MILLIS) / DAY_MILLIS;
        let retired = Retired::new(log, size());
        let found = Mutex::new(Gone::default());
        let retire = |worker: &mut Worker<'_>| {
            let begin = Instant::now();
            let sql = match way {
                Way::DropPartition => format!("ALTER TABLE perf_log DROP PARTITION d{day}"),
                Way::Delete => {
                    let mut times = Times::default();
                    format!(
                        "DELETE FROM perf_log WHERE begin_ts<'{}' LIMIT 10000",
                        times.text(retired.end)
                    )
                }
            };
            let mut rows = 1;
            // Continues after the end of the step, since rows that are left would fail the
            // verification.
            while rows > 0 && !measure::is_interrupted() {
                let kind = if way == Way::Delete { "delete" } else { "drop" };
                worker.request(kind, 1, |session| {
                    rows = session.run(&sql)?;
                    Ok(())
                })?;
                worker.changed(rows * ROW_BYTES);
                if way == Way::DropPartition {
                    break;
                }
            }
            let gone = self.linger(begin, retired.goal, size, || worker.go_on());
            *found.lock().unwrap_or_else(|e| e.into_inner()) = gone;
            worker.stop();
            Ok(())
        };
        let step = self.retaining(way.step());
        bench.step_concurrent(&step, |worker| self.go_on_writing(worker, log), &[&retire])?;
        let gone = *found.lock().unwrap_or_else(|e| e.into_inner());
        let freed = space.is_some().then(|| retired.before as f64 - size() as f64);
        gone.note(bench.result.steps.last_mut(), freed);
        Ok(())
    }

    /// Makes a step in which a day is deleted while the writer continues.
    fn retaining<'s>(&self, name: &'s str) -> Step<'s> {
        let wait = self.retention_seconds.max(self.back_seconds);
        self.written(name, wait + patience(self.rows))
    }

    /// After the rows of a day have been deleted: waits until half of their bytes are free again,
    /// and until the step has taken its time. `go_on` is false when the step has to end.
    fn linger(
        &self,
        begin: Instant,
        goal: u64,
        size: impl Fn() -> u64,
        mut go_on: impl FnMut() -> bool,
    ) -> Gone {
        let elapsed = || begin.elapsed().as_secs_f64();
        let mut gone = Gone { gone_s: Some(elapsed()), bytes_back_s: None };
        let wait = duration(self.back_seconds);
        while go_on() && begin.elapsed() < wait && gone.bytes_back_s.is_none() {
            gone.bytes_back_s = (size() <= goal).then(elapsed);
            std::thread::sleep(CHECK_INTERVAL);
        }
        let least = duration(self.retention_seconds);
        while go_on() && begin.elapsed() < least {
            std::thread::sleep(CHECK_INTERVAL);
        }
        gone
    }
}

/// Loads a log without partitions, and returns its number of rows.
///
/// # Errors
/// The server reports an error.
pub fn load_whole(bench: &mut Bench, rows: u64, seed: u64) -> Result<u64> {
    let changes = [("rows", rows.to_string()), ("partitioned", "no".to_owned())];
    let changes = changes.map(|(name, value)| (name.to_owned(), value));
    let weblog = Weblog::in_sql(&Params::new("weblog", PARAMS, Size::Tiny, &changes)?, seed)?;
    weblog.create(bench)?;
    let log = weblog.new_log();
    weblog.load(bench, &log)?;
    Ok(log.rows())
}

/// Takes up to `most` of the rows that are left; returns their number.
fn take(left: &AtomicU64, most: u64) -> u64 {
    let taken = |left: u64| Some(left.saturating_sub(most));
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
    before.unwrap_or_default().min(most)
}

/// Seconds after which the deletion of a day is given up: a minute, and more for a day that takes
/// longer at a hundred rows per second.
fn patience(rows: u64) -> f64 {
    60.0 + (rows / DAYS / 100) as f64
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn ask(worker: &mut Worker<'_>, mut queries: Queries<'_>) -> Result<()> {
    while worker.go_on() {
        queries.ask(worker)?;
    }
    Ok(())
}

impl Workload for Weblog {
    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        refuse_without_rows(bench, "weblog")?;
        self.create(bench)?;
        let log = self.new_log();
        self.load(bench, &log)?;
        let this = &*self;
        type Part<'p> = &'p dyn Fn(&mut Bench) -> Result<()>;
        let drop_partition: Part<'_> = &|bench| match this.partitioned {
            true => this.retention(bench, &log, Way::DropPartition),
            false => Ok(()),
        };
        let parts: [Part<'_>; 5] = [
            &|bench| this.steady(bench, &log),
            &|bench| this.queries(bench, &log, "queries before"),
            drop_partition,
            &|bench| this.retention(bench, &log, Way::Delete),
            &|bench| this.queries(bench, &log, "queries after"),
        ];
        for part in parts {
            if bench.is_over() {
                return Ok((log.rows(), log.live_bytes()));
            }
            part(bench)?;
        }
        bench.rest()?;
        verify(bench, &log)?;
        Ok((log.rows(), log.live_bytes()))
    }
}

fn verify(bench: &mut Bench, log: &Log) -> Result<()> {
    bench.verify("perf_log", Some(log.rows()), false)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{must_fail, on_both, step};
    use super::queries::{SHARES, draw};
    use super::*;
    use crate::random::Random;

    #[test]
    fn queries_address_existing_rows_in_their_shares() {
        let log = Log::new(42, 100_000.0, 0.25, 9);
        let end = START_MILLIS + 3 * DAY_MILLIS;
        log.pretend(end);
        let (mut random, mut counts) = (Random::new(5), [0u32; 6]);
        const DRAWS: u32 = 100_000;
        for _ in 0..DRAWS {
            let drawn = draw(&log, &mut random);
            counts[drawn.query] += 1;
            assert!((START_MILLIS..=end).contains(&drawn.from), "{drawn:?}");
            let length = match drawn.query {
                0 => 15 * 60_000,
                1 => 60 * 60_000,
                3 => 5 * 60_000,
                5 => DAY_MILLIS,
                _ => continue,
            };
            assert!(drawn.until == drawn.from + length && drawn.until <= end, "{drawn:?}");
            if drawn.query == 5 {
                assert!(drawn.text.starts_with("%SessionId='") && drawn.text.len() == 17);
            }
        }
        for (count, share) in counts.iter().zip(SHARES) {
            let percent = f64::from(*count) * 100.0 / f64::from(DRAWS);
            assert!((percent - f64::from(share)).abs() < 0.5, "{percent} for {share}");
        }
    }

    #[test]
    fn sql_days_are_retired_by_drop_and_by_delete_and_a_lost_row_fails() {
        on_both("weblog", &[], |bench| {
            for way in ["retention drop", "retention delete"] {
                let metrics = &step(bench, way).metrics;
                assert!(metrics.contains_key("gone_s") && metrics["ops"] > 0.0, "{metrics:?}");
            }
            let steady = step(bench, "steady");
            assert!(steady.latencies.contains_key("commit") && steady.metrics["queries_s"] > 0.0);
            assert!(!steady.metrics.contains_key("cpu_us_op"), "{:?}", steady.metrics);
            let count = "SELECT COUNT(*) FROM perf_log WHERE begin_ts<'2011-11-09'";
            assert_eq!(bench.admin().value(count).expect("a count"), "0", "two days are gone");
            let rows = bench.admin().value("SELECT COUNT(*) FROM perf_log").expect("a count");
            let rows = rows.parse().expect("a number");
            must_fail(bench, "DELETE FROM perf_log LIMIT 1", |bench| {
                bench.verify("perf_log", Some(rows), false)
            });
        });
    }

    #[test]
    fn sql_days_are_retired_without_partitions() {
        on_both("weblog", &[("partitioned", "no"), ("poll", "0.95")], |bench| {
            assert!(bench.result.steps.iter().all(|step| step.name != "retention drop"));
        });
    }
}
