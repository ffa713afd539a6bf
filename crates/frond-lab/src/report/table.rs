//! The table of results for the terminal.

use std::fmt::Write;

use crate::results::{Conditions, Final, Row};
use crate::size::Bytes;
use crate::targets::TargetName;

const HEADS: [&str; 14] = [
    "target",
    "step",
    "done",
    "ops/s",
    "exit/s",
    "worst/mean",
    "CPU us",
    "fg",
    "bg",
    "wr B/op",
    "p99 us",
    "disk",
    "B/row",
    "RSS-null",
];

/// Formats the table of all rows, the goals, and the failures of targets.
pub fn table(conditions: &Conditions, outcomes: &[(TargetName, Final)], rows: &[Row]) -> String {
    let lines = std::iter::once(HEADS.map(str::to_owned).to_vec()).chain(rows.iter().map(cells));
    let lines: Vec<Vec<String>> = lines.collect();
    head(conditions) + &aligned(&lines) + &notes(outcomes, rows)
}

/// Formats the conditions of the run.
pub fn head(conditions: &Conditions) -> String {
    format!(
        "{}: {} rows, memory {}, durability {}, seed {}{}\n",
        conditions.workload,
        conditions.rows,
        Bytes(conditions.memory_b),
        conditions.durability,
        conditions.seed,
        conditions.time_limit_s.map(|s| format!(", {s} s a target")).unwrap_or_default(),
    )
}

/// Aligns lines with equal numbers of cells: the first two columns flush left, figures flush right.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            match column {
                0 | 1 => out.push_str(&format!("{cell}{pad}  ")),
                _ => out.push_str(&format!("{pad}{cell}  ")),
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Formats Frond's goals with the measured figures, and what failed.
pub fn notes(outcomes: &[(TargetName, Final)], rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        for goal in &row.goals {
            let _ = writeln!(out, "goal    {} {}: {}", row.step, goal.metric, goal.text);
        }
    }
    for (target, outcome) in outcomes {
        if let Some(failure) = &outcome.failure {
            let _ = writeln!(out, "{target} failed: {failure}");
        }
    }
    for row in rows.iter().filter(|row| !row.errors.is_empty()) {
        let _ = writeln!(out, "{} {}: errors {:?}", row.target, row.step, row.errors);
    }
    out
}

/// Formats a figure with about three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.2}M", value / 1e6),
        v if v >= 1e4 => format!("{:.1}k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// Returns the words for whether a goal is met.
pub fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

fn cells(row: &Row) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let done = match row.finished {
        true => "all".to_owned(),
        false => format!("{} %", row.percent_done()),
    };
    vec![
        row.target.clone(),
        row.step.clone(),
        done,
        figure(row.ops_s),
        optional(row.exit_velocity),
        optional(row.worst_over_mean),
        optional(row.cpu_us_op),
        optional(row.cpu_fg_us_op),
        optional(row.cpu_bg_us_op),
        optional(row.wr_b_op_quiesced.or(row.wr_b_op)),
        optional(row.latency("p99_us")),
        row.disk_b.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string()),
        optional(row.disk_b_row),
        row.rss_over_null_b.map_or("-".to_owned(), |bytes| Bytes(bytes.max(0) as u64).to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::goals;

    #[test]
    fn figures_keep_three_digits() {
        let shown = [1_234_567.0, 45_678.0, 345.6, 12.34, 1.234, 0.0].map(figure);
        assert_eq!(shown, ["1.23M", "45.7k", "346", "12.3", "1.23", "0.00"]);
    }

    #[test]
    fn goals_are_shown_with_their_verdicts() {
        let row = |target: &str, exit_velocity, cpu_us_op| Row {
            target: target.to_owned(),
            step: "iibench".to_owned(),
            ops: 1000,
            finished: true,
            exit_velocity: Some(exit_velocity),
            cpu_us_op: Some(cpu_us_op),
            ..Row::default()
        };
        let mut frond = row("frond", 290.0, 4.0);
        let mut rows = vec![row("rocksdb-m3", 100.0, 13.0), row("rocksdb-m6", 99.0, 12.5)];
        frond.goals = goals(&frond, &rows, figure);
        rows.push(frond);
        let text = table(&Conditions::default(), &[], &rows);
        let has =
            |line: &str| assert!(text.lines().any(|l| l.starts_with(line)), "{line} in {text}");
        has("goal    iibench cpu_us_op: 4.00, wanted <= 4: met (");
        has(
            "goal    iibench exit_velocity: 290 = 2.90 x 100 of rocksdb-m3, wanted >= 3 x: not met (",
        );
        has(
            "goal    iibench cpu_us_op_rested: 4.00 = 0.32 x 12.5 of rocksdb-m6, wanted <= 0.33 x: met (",
        );
    }

    #[test]
    fn a_stopped_target_shows_its_progress() {
        let row = Row {
            target: "sqlite".to_owned(),
            step: "iibench".to_owned(),
            ops: 250,
            ops_planned: 1000,
            ..Row::default()
        };
        let text = table(&Conditions::default(), &[], &[row]);
        assert!(
            text.lines().any(|line| line.contains("sqlite") && line.contains("25 %")),
            "{text}"
        );
    }
}
