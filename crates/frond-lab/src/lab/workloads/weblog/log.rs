//! The state that the writers of the web log share: the generator, and which rows exist.
//!
//! Invariants
//! 1. All writers take their rows from one generator, so the rows do not depend on the number of
//!    writers.
//! 2. A row is counted once its commit has been acknowledged.
//!
//! Threads: `Log` is shared by all clients.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::weblog::generator::{Call, START_MILLIS, Traffic, WebLog, columns};
use crate::data::weblog::population::Population;
use crate::lab::sql::{InsertText, Worker};
use crate::lab::time::date_time;
use crate::random::Random;
use crate::schema::Value;
use crate::targets::Result;

pub const DAY_MILLIS: u64 = 86_400_000;
/// One row in this many is remembered, so that queries can look it up by its key.
const REMEMBERED_OF: u64 = 16;
const REMEMBERED_MAX: usize = 8_192;

/// Formats times for SQL, to the millisecond. The date is cached, so consecutive times of a day are
/// cheap.
#[derive(Clone, Debug, Default)]
pub struct Times {
    day: u64,
    date: String,
    text: String,
}

impl Times {
    /// Formats a time like `2011-11-07 08:30:00.123`.
    pub fn text(&mut self, millis: u64) -> &str {
        let (day, in_day) = (millis / DAY_MILLIS, millis % DAY_MILLIS);
        if self.date.is_empty() || self.day != day {
            self.date = date_time(day * DAY_MILLIS)[..10].to_owned();
            self.day = day;
        }
        let (seconds, rest) = (in_day / 1000, in_day % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        self.text.clear();
        write!(self.text, "{} {hour:02}:{minute:02}:{second:02}.{rest:03}", self.date)
            .expect("a string takes all that is written");
        &self.text
    }
}

/// A row's key: its start time and its number.
pub type Key = (u64, u64);

/// The web log.
pub struct Log {
    source: Mutex<WebLog>,
    /// The generator's population of procedures and instances.
    pub population: Population,
    /// Number of rows by the day on which they began. Those after the last day count for that.
    days: Vec<AtomicU64>,
    bytes: AtomicU64,
    /// Begin time of the newest row that exists.
    newest: AtomicU64,
    /// Start of the oldest day that is kept: rows that began earlier are deleted or being deleted.
    oldest: AtomicU64,
    keys: Mutex<Vec<Key>>,
}

impl Log {
    /// Makes the log of `seed`, which counts its rows by `days` days.
    pub fn new(seed: u64, rows_per_day: f64, poll: f64, days: usize) -> Self {
        let traffic = Traffic { rows_per_day, daily_curve: true, instance_subsets: true, poll };
        let log = WebLog::new(seed, traffic);
        let (newest, oldest) = (AtomicU64::new(START_MILLIS), AtomicU64::new(START_MILLIS));
        Self {
            population: log.population().clone(),
            source: Mutex::new(log),
            days: (0..days.max(1)).map(|_| AtomicU64::new(0)).collect(),
            bytes: AtomicU64::new(0),
            newest,
            oldest,
            keys: Mutex::new(Vec::new()),
        }
    }

    fn day(&self, millis: u64) -> usize {
        (((millis - START_MILLIS) / DAY_MILLIS) as usize).min(self.days.len() - 1)
    }

    /// Number of rows inserted, without those of days that have been retired.
    pub fn rows(&self) -> u64 {
        let from = self.day(self.oldest());
        self.days[from..].iter().map(|rows| rows.load(Ordering::Relaxed)).sum()
    }

    /// Bytes of those rows, estimated from the average row.
    pub fn live_bytes(&self) -> u64 {
        let all: u64 = self.days.iter().map(|rows| rows.load(Ordering::Relaxed)).sum();
        let bytes = self.bytes.load(Ordering::Relaxed) as f64;
        (bytes * self.rows() as f64 / all.max(1) as f64) as u64
    }

    /// Begin time of the newest row.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// Start of the oldest day that is kept.
    pub fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Retires the oldest day, so that queries no longer ask for it. Returns the start of the next
    /// day: the caller must delete rows that began before it.
    pub fn retire_day(&self) -> u64 {
        self.oldest.fetch_add(DAY_MILLIS, Ordering::Relaxed) + DAY_MILLIS
    }

    /// Draws the key of a row that exists.
    pub fn key(&self, random: &mut Random) -> Key {
        let keys = self.keys.lock().unwrap_or_else(|e| e.into_inner());
        let oldest = self.oldest();
        for _ in 0..100 {
            let Some(key) = keys.get(random.below(keys.len() as u64) as usize) else { break };
            if key.0 >= oldest {
                return *key;
            }
        }
        (self.newest(), 0)
    }

    /// Sets the start time of the newest row, without a row.
    #[cfg(test)]
    pub fn pretend(&self, newest: u64) {
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// Replaces the calls of the last commit by the next `rows` calls.
    pub fn take(&self, rows: u64, calls: &mut Vec<Call>) {
        let mut source = self.source.lock().unwrap_or_else(|e| e.into_inner());
        calls.drain(..).for_each(|call| source.give_back(call));
        calls.extend((0..rows).map(|_| source.next_call()));
    }

    /// Counts the rows of a commit, which has been acknowledged (Invariant 2).
    pub fn committed(&self, calls: &[Call], bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut newest = 0;
        for call in calls {
            self.days[self.day(call.begin_millis)].fetch_add(1, Ordering::Relaxed);
            newest = newest.max(call.begin_millis);
            if call.log_id % REMEMBERED_OF == 0 {
                let mut keys = self.keys.lock().unwrap_or_else(|e| e.into_inner());
                // When the list is full, the newest key replaces the oldest.
                let at = (call.log_id / REMEMBERED_OF) as usize % REMEMBERED_MAX;
                match keys.get_mut(at) {
                    Some(key) => *key = (call.begin_millis, call.log_id),
                    None => keys.push((call.begin_millis, call.log_id)),
                }
            }
        }
        self.newest.fetch_max(newest, Ordering::Relaxed);
    }
}

/// A client that writes the log in SQL.
pub struct Writer<'l> {
    log: &'l Log,
    calls: Vec<Call>,
    insert: InsertText,
    times: Times,
}

impl<'l> Writer<'l> {
    /// Makes a writer of `log`.
    pub fn new(log: &'l Log) -> Self {
        let insert = InsertText::new("INSERT INTO perf_log VALUES");
        Self { log, calls: Vec::new(), insert, times: Times::default() }
    }

    /// Writes the next `rows` rows in one commit.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn write(&mut self, worker: &mut Worker<'_>, rows: u64) -> Result<()> {
        let Self { log, calls, insert, times } = self;
        log.take(rows, calls);
        let mut bytes = 0;
        for call in calls.iter() {
            let row = columns(&log.population, call);
            bytes += row.iter().map(Value::logical_bytes).sum::<u64>();
            let mut out = insert.row();
            for value in row {
                out = match value {
                    Value::U64(number) => out.plain(number),
                    Value::U32(number) => out.plain(number),
                    Value::I32(number) => out.plain(number),
                    Value::Millis(millis) => out.simple(times.text(millis)),
                    Value::Text(text) => out.text(text),
                    Value::F32(number) => out.float(number),
                    Value::I8(number) => out.plain(number),
                    Value::I16(_) | Value::I64(_) | Value::Blob(_) => out.plain(value.integer()),
                };
            }
        }
        if worker.insert("commit", insert)? > 0 {
            log.committed(calls, bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        let mut times = Times::default();
        for millis in [START_MILLIS, START_MILLIS + 86_399_999, START_MILLIS + 86_400_000, 7] {
            let expected = format!("{}.{:03}", date_time(millis), millis % 1000);
            assert_eq!(times.text(millis), expected);
        }
    }

    #[test]
    fn rows_of_retired_days_are_neither_counted_nor_queried() {
        let log = Log::new(42, 1_000.0, 0.25, 9);
        let mut calls = Vec::new();
        log.take(3_000, &mut calls);
        log.committed(&calls, 3_000 * 180);
        assert_eq!((log.rows(), log.live_bytes()), (3_000, 3_000 * 180));
        let end = log.retire_day();
        let kept = calls.iter().filter(|call| call.begin_millis >= end).count() as u64;
        assert_eq!((log.rows(), log.live_bytes()), (kept, kept * 180));
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let (begin, id) = log.key(&mut random);
            assert!(begin >= end);
            assert!(calls.iter().any(|call| (call.begin_millis, call.log_id) == (begin, id)));
        }
        assert!(log.newest() > end);
    }
}
