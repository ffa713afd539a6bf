//! What the writers of the web log share: the generator, and which rows there are.
//!
//! Invariants
//! 1. Writers take their commits from one generator, so the rows do not depend on their number.
//! 2. A row is counted when its commit has been acknowledged.
//!
//! Threads: `Log` is shared.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lab::sql::{InsertText, Worker};
use crate::lab::time::date_time;
use crate::random::Random;
use crate::schema::Value;
use crate::targets::Result;
use crate::workloads::weblog::generator::{Call, START_MILLIS, Traffic, WebLog, columns};
use crate::workloads::weblog::population::Population;

pub const DAY_MILLIS: u64 = 86_400_000;
/// One row of so many is remembered, to be asked for by its key.
const REMEMBERED_OF: u64 = 16;
const REMEMBERED_MAX: usize = 8_192;

/// Times as SQL reads them, to the millisecond; consecutive ones of a day cost little.
#[derive(Clone, Debug, Default)]
pub struct Times {
    day: u64,
    date: String,
    text: String,
}

impl Times {
    /// `2011-11-07 08:30:00.123`.
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

/// A row's key: its begin and number.
pub type Key = (u64, u64);

/// The log.
pub struct Log {
    source: Mutex<WebLog>,
    /// Populations of the generator.
    pub population: Population,
    /// Rows by the day that they began on; later ones are the last's.
    days: Vec<AtomicU64>,
    bytes: AtomicU64,
    /// Begin of the newest row that is there.
    newest: AtomicU64,
    /// Nothing that began earlier is there.
    oldest: AtomicU64,
    keys: Mutex<Vec<Key>>,
}

impl Log {
    /// The log of `seed`; rows are counted by so many days.
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

    /// Rows that have been inserted, less those of days that are gone.
    pub fn rows(&self) -> u64 {
        let from = self.day(self.oldest());
        self.days[from..].iter().map(|rows| rows.load(Ordering::Relaxed)).sum()
    }

    /// Bytes of those rows, as far as all are alike.
    pub fn live_bytes(&self) -> u64 {
        let all: u64 = self.days.iter().map(|rows| rows.load(Ordering::Relaxed)).sum();
        let bytes = self.bytes.load(Ordering::Relaxed) as f64;
        (bytes * self.rows() as f64 / all.max(1) as f64) as u64
    }

    /// Begin of the newest row.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// Begin of the oldest day that is there.
    pub fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Begin of the day after the oldest; what began before it is to go. It is no longer asked for.
    pub fn retire_day(&self) -> u64 {
        self.oldest.fetch_add(DAY_MILLIS, Ordering::Relaxed) + DAY_MILLIS
    }

    /// Key of a row that is there.
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

    /// Makes it look as if a row had begun then.
    #[cfg(test)]
    pub fn pretend(&self, newest: u64) {
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// Notes a commit.
    fn committed(&self, calls: &[Call], bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut newest = 0;
        for call in calls {
            self.days[self.day(call.begin_millis)].fetch_add(1, Ordering::Relaxed);
            newest = newest.max(call.begin_millis);
            if call.log_id % REMEMBERED_OF == 0 {
                let mut keys = self.keys.lock().unwrap_or_else(|e| e.into_inner());
                // The oldest makes room for the newest.
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

/// A client that writes the log.
pub struct Writer<'l> {
    log: &'l Log,
    calls: Vec<Call>,
    insert: InsertText,
    times: Times,
}

impl<'l> Writer<'l> {
    /// One of `log`.
    pub fn new(log: &'l Log) -> Self {
        let insert = InsertText::new("INSERT INTO perf_log VALUES");
        Self { log, calls: Vec::new(), insert, times: Times::default() }
    }

    /// Writes the next rows, in one commit.
    ///
    /// # Errors
    /// The server's.
    pub fn write(&mut self, worker: &mut Worker<'_>, rows: u64) -> Result<()> {
        let Self { log, calls, insert, times } = self;
        {
            let mut source = log.source.lock().unwrap_or_else(|e| e.into_inner());
            calls.drain(..).for_each(|call| source.give_back(call));
            calls.extend((0..rows).map(|_| source.next_call()));
        }
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
    fn times_are_those_of_the_calendar() {
        let mut times = Times::default();
        for millis in [START_MILLIS, START_MILLIS + 86_399_999, START_MILLIS + 86_400_000, 7] {
            let expected = format!("{}.{:03}", date_time(millis), millis % 1000);
            assert_eq!(times.text(millis), expected);
        }
    }

    #[test]
    fn rows_of_days_that_are_gone_do_not_count_and_are_not_asked_for() {
        let log = Log::new(42, 1_000.0, 0.25, 9);
        let calls: Vec<Call> = {
            let mut source = log.source.lock().expect("not poisoned");
            (0..3_000).map(|_| source.next_call()).collect()
        };
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
