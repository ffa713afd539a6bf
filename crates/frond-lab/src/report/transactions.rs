//! The table of `txn`: the cost of transactions in each store, by number of clients.
//!
//! Invariants
//! 1. A step is one block of lines, Frond's first if it ran.
//! 2. A goal is shown next to its figure, whether it is met or not.

use std::fmt::Write;

use super::table::{aligned, figure, head, notes};
use crate::goals::{against, of};
use crate::results::{Conditions, Final, Row, is_target};
use crate::size::Bytes;
use crate::targets::TargetName;

const HEADS: [&str; 14] = [
    "step", "target", "txn/s", "frond x", "goal", "CPU us", "frond x", "fg us", "p50 us", "p99 us",
    "p99.9 us", "again", "syncs", "peak",
];

const LEGEND: &str = "\
put, get, rmw (get for update, put) of one row, LinkBench's mix, put with a sync; behind them the number of clients.
frond x: so many times this store's rate Frond's is, and of its CPU this store's (all threads, the clients' own work
subtracted; fg: of it the clients' threads). again: transactions done again because others were in their way. syncs: of
files, a transaction. peak: resident memory beyond that of the same step without a store.
alone, held: the same writes for four times as long; from the begin of held on a snapshot is held.
";

/// Formats the table of all steps, the goals, and the failures of targets.
pub fn transactions(
    conditions: &Conditions,
    outcomes: &[(TargetName, Final)],
    rows: &[Row],
) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for row in rows {
        if !steps.contains(&row.step.as_str()) {
            steps.push(&row.step);
        }
    }
    let mut lines = vec![HEADS.map(str::to_owned).to_vec()];
    for step in steps {
        let mut rows: Vec<&Row> = rows.iter().filter(|row| row.step == step).collect();
        rows.sort_by_key(|row| row.target != "frond");
        let frond = rows.first().copied().filter(|row| row.target == "frond");
        lines.extend(rows.iter().map(|row| line(row, frond)));
    }
    let mut out = head(conditions);
    let _ = writeln!(out, "{}{LEGEND}", aligned(&lines));
    out + &held(rows) + &notes(outcomes, rows)
}

fn line(row: &Row, frond: Option<&Row>) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let rival = frond.filter(|_| row.target != "frond");
    let rate = rival.map(|frond| frond.ops_s / row.ops_s.max(1e-9));
    let cpu = rival.and_then(|frond| Some(row.cpu_us_op? / frond.cpu_us_op?.max(1e-9)));
    let goal = against("rocksdb", "txn", &row.step, "ops_s")
        .filter(|_| is_target(&row.target, "rocksdb"))
        .map(|goal| match rate {
            Some(rate) if !goal.is_met(rate) => format!("{:.0} not met", goal.bound()),
            _ => format!("{:.0}", goal.bound()),
        });
    let peak = row.rss_over_null_b.map(|bytes| Bytes(bytes.max(0) as u64).to_string());
    vec![
        row.step.clone(),
        row.target.clone(),
        figure(row.ops_s),
        optional(rate),
        goal.unwrap_or_default(),
        optional(row.cpu_us_op),
        optional(cpu),
        optional(row.cpu_fg_us_op),
        optional(row.latency("p50_us")),
        optional(row.latency("p99_us")),
        optional(row.latency("p999_us")),
        row.retries.map_or("-".to_owned(), |retries| retries.to_string()),
        optional(row.fsync_op),
        peak.unwrap_or("-".to_owned()),
    ]
}

/// Formats what a held snapshot costs each store.
fn held(rows: &[Row]) -> String {
    let mut out = String::new();
    for alone in rows.iter().filter(|row| row.step.starts_with("alone-")) {
        let step = alone.step.replacen("alone", "held", 1);
        let held = rows.iter().find(|row| row.step == step && row.target == alone.target);
        let peaks = held.and_then(|held| Some((held, held.rss_peak_b?, alone.rss_peak_b?)));
        if let Some((held, with, without)) = peaks {
            let _ = writeln!(
                out,
                "snapshot held for {:.0} s, {}: rate {:.2} of that without, p99 {} against {} us, peak memory {} against {}, disk {} against {}",
                held.seconds,
                alone.target,
                held.ops_s / alone.ops_s.max(1e-9),
                held.latency("p99_us").map_or("-".to_owned(), figure),
                alone.latency("p99_us").map_or("-".to_owned(), figure),
                Bytes(with),
                Bytes(without),
                Bytes(held.disk_peak_b.unwrap_or(0)),
                Bytes(alone.disk_peak_b.unwrap_or(0)),
            );
            if held.target == "frond" {
                out += &held_goals(held, alone);
            }
        }
    }
    out
}

/// Judges whether a held snapshot slows down writers, and whether memory keeps growing while it is
/// held.
fn held_goals(held: &Row, alone: &Row) -> String {
    let shown = |value: f64| format!("{value:.2}");
    let rate = held.ops_s / alone.ops_s.max(1e-9);
    let mut out = String::new();
    for (metric, value) in [("held_rate", Some(rate)), ("held_growth", growth(held))] {
        if let (Some(goal), Some(value)) = (of("txn", &held.step, metric), value) {
            let (verdict, _) = goal.verdict(value, None, shown);
            let _ = writeln!(out, "goal    {} in {:.0} s: {verdict}", goal.what, held.seconds);
        }
    }
    out
}

/// Returns the mean resident memory in the last quarter of a step relative to the second quarter;
/// in the first quarter caches fill.
fn growth(row: &Row) -> Option<f64> {
    const SAMPLES_MIN: usize = 8;
    let quarter = |number: usize| {
        let at = |part: usize| row.series.len() * part / 4;
        let samples = row.series.get(at(number)..at(number + 1)).unwrap_or_default();
        samples.iter().map(|sample| sample.rss_b as f64).sum::<f64>() / samples.len().max(1) as f64
    };
    (row.series.len() >= SAMPLES_MIN).then(|| quarter(3) / quarter(1).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Mark, Sample};

    fn row(target: &str, step: &str, ops_s: f64) -> Row {
        Row {
            target: target.to_owned(),
            step: step.to_owned(),
            ops_s,
            cpu_us_op: Some(1e6 / ops_s),
            rss_peak_b: Some(ops_s as u64),
            ..Row::default()
        }
    }

    #[test]
    fn an_unmet_goal_is_reported() {
        let rows = [
            row("rocksdb", "put-2", 100.0),
            row("frond", "put-2", 150.0),
            row("rocksdb", "get-2", 100.0),
            row("frond", "get-2", 150.0),
            row("sqlite", "put-2", 10.0),
        ];
        let text = transactions(&Conditions::default(), &[], &rows);
        let line = |step: &str, target: &str| {
            let of = |line: &&str| line.starts_with(step) && line.contains(target);
            text.lines().find(of).unwrap_or_default().to_owned()
        };
        assert!(line("put-2", "rocksdb").contains("1.50  2 not met"), "{text}");
        assert!(line("get-2", "rocksdb").contains("1.50") && !text.contains("1 not met"), "{text}");
        assert!(line("put-2", "sqlite").contains("15.0"), "{text}");
        let first = text.lines().position(|line| line.contains("frond ") && line.contains("put-2"));
        let second = text.lines().position(|line| line.contains("rocksdb "));
        assert!(first < second, "{text}");
    }

    #[test]
    fn the_cost_of_a_held_snapshot_is_reported_for_each_store() {
        let rows = [row("frond", "alone-2", 200.0), row("frond", "held-2", 150.0)];
        let text = held(&rows);
        assert!(
            text.contains(", frond: rate 0.75") && text.contains("150 B against 200 B"),
            "{text}"
        );
        assert!(text.contains("without it in 0 s: 0.75, wanted >= 0.95: not met"), "{text}");
        assert!(!text.contains("quarter"), "there is no series to tell by: {text}");
    }

    #[test]
    fn memory_growth_under_a_held_snapshot_is_detected() {
        let with = |last: u64| {
            let rss = [1, 500, 100, 100, 100, 300, last, last];
            let sample = |&rss_b: &u64| Sample {
                mark: Mark { ops: 1, seconds: 1.0 },
                rss_b,
                read_b: 0,
                write_b: 0,
                cpu_s: 0.0,
                cpu_system_s: 0.0,
                faults_minor: 0,
                p99_us: None,
                io: None,
                disk_b: None,
            };
            let series = rss.iter().map(sample).collect();
            let rows =
                [row("frond", "alone-2", 100.0), Row { series, ..row("frond", "held-2", 95.0) }];
            held(&rows)
        };
        assert!(with(105).contains("second quarter in 0 s: 1.05, wanted <= 1.05: met"));
        assert!(with(106).contains("wanted <= 1.05: not met") && with(106).contains("0.95: met"));
    }
}
