//! The table of a server's engines: what one client saw, and what the server's process used.

use std::fmt::Write;

use super::table::{aligned, figure, head, verdict};
use crate::results::{Conditions, Final, Row, bars, times};
use crate::size::Bytes;
use crate::targets::TargetName;

const HEADS: [&str; 13] = [
    "target",
    "step",
    "done",
    "rows/s",
    "exit/s",
    "worst/mean",
    "CPU us",
    "client us",
    "wr B/row",
    "p99 ms",
    "disk",
    "B/row",
    "RSS",
];

/// The table of all rows, the bars, and how each target ended.
pub fn sql(conditions: &Conditions, outcomes: &[(TargetName, Final)], rows: &[Row]) -> String {
    let lines = std::iter::once(HEADS.map(str::to_owned).to_vec()).chain(rows.iter().map(cells));
    let lines: Vec<Vec<String>> = lines.collect();
    let mut out = head(conditions) + &aligned(&lines);
    for bar in bars(rows, &conditions.durability) {
        let than = match bar.rival {
            Some((rival, figure_of)) => {
                format!(" = {:.2} x {} of {rival}", bar.reached(), figure(figure_of))
            }
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "bar     {}: {}{than}, wanted {} {}{}: {}",
            bar.what,
            figure(bar.measured),
            if bar.more_is_better { ">=" } else { "<=" },
            times(bar.bar),
            if bar.rival.is_some() { " x" } else { "" },
            verdict(bar.is_met()),
        );
    }
    for row in rows.iter().filter(|row| !row.finished) {
        let _ = writeln!(
            out,
            "{} was stopped at {} %: its figures are of that part",
            row.target,
            row.percent_done()
        );
    }
    for (target, outcome) in outcomes {
        if let Some(failure) = &outcome.failure {
            let _ = writeln!(out, "{target} failed: {failure}");
        }
    }
    for row in rows.iter().filter(|row| !row.errors.is_empty()) {
        let _ = writeln!(out, "{} {}: errors {:?}", row.target, row.step, row.errors);
    }
    let sizes = "disk: Frond's and MyRocks' files with their logs after a clean shutdown; InnoDB's table \
                 file alone, not its log of a fixed size";
    let _ = writeln!(out, "{sizes}");
    out
}

fn cells(row: &Row) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |b| Bytes(b).to_string());
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
        optional(row.cpu_generator_us_op),
        optional(row.wr_b_op_quiesced.or(row.wr_b_op)),
        optional(row.latency("p99_us").map(|us| us / 1e3)),
        bytes(row.disk_b),
        optional(row.disk_b_row),
        bytes(row.rss_peak_b),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_below_the_table_with_their_verdicts() {
        let row = |target: &str, exit| Row {
            target: target.to_owned(),
            step: "iibench".to_owned(),
            ops: 500,
            ops_planned: 1000,
            finished: target != "sql:innodb-4k",
            exit_velocity: Some(exit),
            cpu_us_op: Some(6.5),
            cpu_generator_us_op: Some(1.25),
            ..Row::default()
        };
        let rows =
            [row("sql:blackhole", 400e3), row("sql:frond", 200e3), row("sql:innodb-4k", 10e3)];
        let text = sql(&Conditions::default(), &[], &rows);
        let has =
            |line: &str| assert!(text.lines().any(|l| l.starts_with(line)), "{line} in {text}");
        has(
            "bar     rows/s at the end: 200.0k = 0.50 x 400.0k of sql:blackhole, wanted >= 0.5 x: met",
        );
        has("bar     rows/s at the end: 200.0k = 20.00 x 10.0k of sql:innodb-4k, \
             wanted >= 33.4 x: not met");
        has("bar     CPU us a row, all of the server: 6.50, wanted <= 6: not met");
        has("sql:innodb-4k was stopped at 50 %");
        assert!(text.lines().any(|l| l.contains("sql:frond") && l.contains("1.25")), "{text}");
    }
}
