//! Sampling the engine's own counters beside a step: at its ends and every ten seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::session::{Session, text_of};
use crate::lab::results::CounterSample;
use crate::measure::Meter;

const INTERVAL: Duration = Duration::from_secs(10);

/// Which table a statement asks; the status of the server otherwise.
fn source(statement: &str) -> &str {
    let word = |text: &'static str| statement.contains(text).then_some(text);
    word("INNODB_CMP")
        .or_else(|| word("ROCKSDB_DBSTATS"))
        .or_else(|| word("ROCKSDB_CFSTATS"))
        .unwrap_or("global_status")
}

/// What all statements say now. A statement that the server refuses is left out: a counter is no reason to fail.
pub fn sample(session: &mut Session, statements: &[String], t: f64) -> Vec<CounterSample> {
    let mut all = Vec::new();
    for statement in statements {
        let source = source(statement);
        let _ = session.rows(statement, |row| {
            if let (Some(name), Some(Ok(value))) =
                (text_of(row, 0), text_of(row, 1).map(|text| text.parse::<f64>()))
            {
                all.push(CounterSample { t, source: source.to_owned(), name, value });
            }
        });
    }
    all
}

/// Samples until the step is over; the last sample, after its end, is the caller's.
pub fn follow(
    session: &mut Session,
    statements: &[String],
    meter: &Meter,
    over: &AtomicBool,
) -> Vec<CounterSample> {
    let begin = Instant::now();
    let mut all = sample(session, statements, 0.0);
    let mut due = begin + INTERVAL;
    while !over.load(Ordering::Relaxed) {
        // The step's end wakes it: a pause would be part of the step's time.
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        if Instant::now() >= due {
            if !meter.is_stopped() {
                all.extend(sample(session, statements, begin.elapsed().as_secs_f64()));
            }
            due += INTERVAL;
        }
    }
    all
}

/// How much a counter grew from the first sample to the last.
pub fn growth(samples: &[CounterSample], name: &str) -> Option<f64> {
    let mut of_name = samples.iter().filter(|sample| sample.name.eq_ignore_ascii_case(name));
    let first = of_name.next()?.value;
    Some(of_name.next_back()?.value - first)
}
