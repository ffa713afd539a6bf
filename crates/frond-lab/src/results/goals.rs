//! Goals (`lab/goals.toml`) for the rows of `frond bench`.
//!
//! Invariants
//! 1. A figure is compared with the best that any of RocksDB's settings reached in the same run:
//!    no single setting has to be best at everything.
//! 2. A figure that was not measured is not judged, nor is one that the rival did not measure.

use serde::{Deserialize, Serialize};

use super::Row;
use crate::goals::{Goal, all};

/// A goal that was judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The metric.
    pub metric: String,
    /// What was measured, what was wanted, and the verdict.
    pub text: String,
    pub is_met: bool,
}

/// The figure of a row that the lab calls `metric`.
fn figure_of(row: &Row, metric: &str) -> Option<f64> {
    match metric {
        "ops_s" => Some(row.ops_s),
        "exit_velocity" => row.exit_velocity,
        "cpu_us_op" => row.cpu_us_op,
        "cpu_fg_us_op" => row.cpu_fg_us_op,
        "cpu_bg_us_op" => row.cpu_bg_us_op,
        // What is left to be done when the last row is in counts, too.
        "cpu_us_op_rested" => row.cpu_us_op_quiesced.or(row.cpu_us_op),
        "wr_b_op_rested" => row.wr_b_op_quiesced.or(row.wr_b_op),
        "faults_steady_op" => row.faults_minor_steady_op,
        "disk_b_row" => row.disk_b_row,
        "flushed_over_rested" => row.disk_flushed_over_end,
        "training_ns_op" => {
            row.engine.get("leaf_training_nanos").map(|nanos| nanos / row.ops.max(1) as f64)
        }
        _ => None,
    }
}

/// Whether the goal is of this row. A load has the name of its workload here.
fn is_of(goal: &Goal, row: &Row) -> bool {
    let is_step = match goal.step == "load" {
        true => goal.workload == row.step,
        false => goal.is_of(&row.step),
    };
    goal.face == "embedded" && is_step
}

/// Judges the goals of `frond`, a row of Frond, with `rows`, all rows of the same run.
pub fn goals(frond: &Row, rows: &[Row], shown: impl Fn(f64) -> String) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for goal in all().iter().filter(|goal| is_of(goal, frond)) {
        let figure = |row: &Row| figure_of(row, &goal.metric);
        let Some(own) = figure(frond) else { continue };
        let rival = match &goal.rival {
            None => None,
            Some(name) => match best(goal, name, frond, rows) {
                None => continue,
                found => found,
            },
        };
        let rival = rival.as_ref().map(|(name, theirs)| (name.as_str(), *theirs));
        let (text, is_met) = goal.verdict(own, rival, &shown);
        let (metric, text) = (goal.metric.clone(), format!("{text} ({})", goal.what));
        verdicts.push(Verdict { metric, text, is_met });
    }
    verdicts
}

/// The best figure of a rival with any settings (Invariant 1): the name of its target, with how far
/// it got if it was stopped, and the figure.
fn best(goal: &Goal, rival: &str, frond: &Row, rows: &[Row]) -> Option<(String, f64)> {
    let rivals = rows.iter().filter(|row| row.step == frond.step && is_target(&row.target, rival));
    let figures = rivals.filter_map(|row| Some((row, figure_of(row, &goal.metric)?)));
    let better = |a: f64, b: f64| if goal.is_floor() { a.total_cmp(&b) } else { b.total_cmp(&a) };
    let (row, figure) =
        figures.filter(|(_, figure)| *figure > 0.0).max_by(|a, b| better(a.1, b.1))?;
    let name = match row.finished {
        true => row.target.clone(),
        false => format!("{}, stopped at {} %", row.target, row.percent_done()),
    };
    Some((name, figure))
}

/// Whether a target is this one, with any settings: `rocksdb-m3` is `rocksdb`.
pub fn is_target(target: &str, name: &str) -> bool {
    target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, step: &str) -> Row {
        Row { target: target.to_owned(), step: step.to_owned(), finished: true, ..Row::default() }
    }

    fn iibench(target: &str, exit: f64, cpu: f64, written: f64) -> Row {
        Row {
            exit_velocity: Some(exit),
            cpu_us_op: Some(cpu),
            wr_b_op: Some(written),
            ..row(target, "iibench")
        }
    }

    fn judged(frond: &Row, rows: &[Row]) -> Vec<(String, String)> {
        let verdicts = goals(frond, rows, |value| value.to_string());
        verdicts.into_iter().map(|one| (one.metric, one.text)).collect()
    }

    #[test]
    fn each_figure_is_compared_with_the_best_rival() {
        let frond = iibench("frond", 300.0, 3.0, 81.0);
        let rows = [
            iibench("rocksdb-m3", 100.0, 12.0, 101.0),
            frond.clone(),
            Row {
                finished: false,
                ops: 42,
                ops_planned: 100,
                ..iibench("rocksdb", 90.0, 8.0, 90.0)
            },
            iibench("sqlite", 1e6, 0.1, 1.0),
            Row { exit_velocity: Some(1e6), ..row("rocksdb", "other") },
        ];
        let judged = judged(&frond, &rows);
        let has = |metric: &str, text: &str| {
            let found = judged.iter().any(|(of, line)| of == metric && line.starts_with(text));
            assert!(found, "{metric} {text}: {judged:?}");
        };
        has("exit_velocity", "300 = 3.00 x 100 of rocksdb-m3, wanted >= 3 x: met (");
        has(
            "cpu_us_op_rested",
            "3 = 0.38 x 8 of rocksdb, stopped at 42 %, wanted <= 0.33 x: not met",
        );
        has("wr_b_op_rested", "81 = 0.90 x 90 of rocksdb");
        has("cpu_us_op", "3, wanted <= 4: met");
        assert!(judged.iter().all(|(metric, _)| metric != "disk_b_row"), "{judged:?}");
    }

    #[test]
    fn figures_at_rest_count_if_measured() {
        let paid = |row: Row, cpu| Row { cpu_us_op_quiesced: Some(cpu), ..row };
        let frond = paid(iibench("frond", 1.0, 1.0, 1.0), 5.0);
        let judged = judged(&frond, &[paid(iibench("rocksdb", 1.0, 1.0, 1.0), 10.0)]);
        assert!(judged.iter().any(|(_, text)| text.starts_with("5 = 0.50 x 10 of rocksdb")));
    }

    #[test]
    fn figures_that_one_side_lacks_are_not_judged() {
        let frond = Row { cpu_us_op: None, ..iibench("frond", 3.0, 1.0, 1.0) };
        let judged = judged(&frond, &[frond.clone(), iibench("sqlite", 1.0, 1.0, 1.0)]);
        assert!(judged.iter().all(|(_, text)| !text.contains(" x ")), "{judged:?}");
        assert!(judged.iter().all(|(metric, _)| metric != "cpu_us_op"));
    }

    #[test]
    fn targets_are_recognized_with_their_settings() {
        assert!(is_target("rocksdb", "rocksdb") && is_target("rocksdb-m3", "rocksdb"));
        assert!(!is_target("rocksdbx", "rocksdb") && !is_target("sqlite", "rocksdb"));
    }
}
