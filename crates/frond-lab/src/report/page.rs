//! The HTML page: one file that needs no network and no script.
//!
//! Invariants
//! 1. Losses come first and are drawn exactly as wins.
//! 2. The figures of each chart are in a table below it; all rows are inlined as JSON.

use std::fmt::Write;

use super::scatter::{Point, scatter};
use super::svg::{Bar, Line, bars, escape, lines};
use super::table::figure;
use crate::results::{Conditions, Final, Row};
use crate::size::Bytes;
use crate::targets::{Result, TargetName};

const STYLE: &str = include_str!("page.css");

/// A metric that is charted.
struct Metric {
    name: &'static str,
    unit: &'static str,
    more_is_better: bool,
    of: fn(&Row) -> Option<f64>,
}

const METRICS: [Metric; 9] = [
    Metric { name: "Rate", unit: "operations/s", more_is_better: true, of: |row| Some(row.ops_s) },
    Metric {
        name: "Exit velocity",
        unit: "operations/s over the last million or fifth",
        more_is_better: true,
        of: |row| row.exit_velocity,
    },
    Metric {
        name: "Evenness",
        unit: "worst second / mean",
        more_is_better: true,
        of: |row| row.worst_over_mean,
    },
    Metric {
        name: "CPU",
        unit: "us per operation, all threads, generator subtracted",
        more_is_better: false,
        of: |row| row.cpu_us_op,
    },
    Metric {
        name: "Written",
        unit: "bytes per operation, until the quiesce ended",
        more_is_better: false,
        of: |row| row.wr_b_op_quiesced.or(row.wr_b_op).filter(|bytes| *bytes > 0.0),
    },
    Metric {
        name: "Read",
        unit: "bytes per operation",
        more_is_better: false,
        of: |row| row.rd_b_op.filter(|bytes| *bytes > 0.0),
    },
    Metric {
        name: "Latency p99",
        unit: "us per request",
        more_is_better: false,
        of: |row| row.latency("p99_us"),
    },
    Metric {
        name: "Size",
        unit: "bytes allocated per row, after clean close",
        more_is_better: false,
        of: |row| row.disk_b_row,
    },
    Metric {
        name: "Memory",
        unit: "MB resident at peak, beyond the null target",
        more_is_better: false,
        of: |row| row.rss_over_null_b.map(|bytes| bytes.max(0) as f64 / 1e6),
    },
];

/// Renders the page.
pub fn page(
    conditions: &Conditions,
    outcomes: &[(TargetName, Final)],
    rows: &[Row],
) -> Result<String> {
    let mut out = String::new();
    let title = format!("frond bench {}", escape(&conditions.workload));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <h1>{title}</h1>\n<p class=\"note\">{}</p>\n",
        caption(conditions, outcomes)
    );
    out.push_str(&stopped(rows, outcomes));
    out.push_str(&ratios(rows));
    let mut steps: Vec<&str> = rows.iter().map(|row| row.step.as_str()).collect();
    steps.dedup();
    steps.sort_unstable();
    steps.dedup();
    for step in steps {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.step == step).collect();
        out.push_str(&section(step, &rows, conditions));
    }
    out.push_str(&settings(outcomes));
    // `</` would end the script element inside a string.
    let json = serde_json::to_string(rows)?.replace("</", "<\\/");
    let _ = write!(out, "<script type=\"application/json\" id=\"rows\">{json}</script>\n</html>\n");
    Ok(out)
}

fn caption(conditions: &Conditions, outcomes: &[(TargetName, Final)]) -> String {
    let stores = outcomes.iter().filter(|(target, _)| *target != TargetName::Null);
    let mut versions: Vec<&str> = Vec::new();
    for (_, outcome) in stores {
        let version = outcome.version.as_str();
        if !version.is_empty() && !versions.contains(&version) {
            versions.push(version);
        }
    }
    let began = jiff::Timestamp::from_second(conditions.began_unix_s as i64).unwrap_or_default();
    let quiesce = if conditions.quiesce { "quiesced" } else { "no quiesce" };
    let limit = conditions.time_limit_s.map(|s| format!(", {s} s a target")).unwrap_or_default();
    escape(&format!(
        "{} rows, memory {} for everything, durability {}, seed {}, {quiesce}{limit}. {}; Frond {}. \
         {}, {} of memory, Linux {}, {}; load {} at the start, {}. Each target in its own \
         process, one run: read ratios, not absolutes.",
        conditions.rows,
        Bytes(conditions.memory_b),
        conditions.durability,
        conditions.seed,
        versions.join(", "),
        conditions.frond,
        conditions.cpu,
        Bytes(conditions.machine_memory_b),
        conditions.kernel,
        conditions.file_system,
        conditions.load_average,
        began.strftime("%Y-%m-%d %H:%M UTC"),
    ))
}

fn stopped(rows: &[Row], outcomes: &[(TargetName, Final)]) -> String {
    let mut out = String::new();
    for row in rows.iter().filter(|row| !row.finished) {
        let part = row.percent_done();
        let _ = writeln!(
            out,
            "<p class=\"note\"><b>{}</b> was stopped in {} after {part} % of {} operations; its \
             figures are for that part.</p>",
            escape(&row.target),
            escape(&row.step),
            row.ops_planned
        );
    }
    for (target, outcome) in outcomes {
        if let Some(failure) = &outcome.failure {
            let _ = writeln!(out, "<p class=\"loses\">{target} failed: {}</p>", escape(failure));
        }
    }
    out
}

/// Compares Frond with each rival, worst ratio first (Invariant 1). Above 1 Frond is better.
fn ratios(rows: &[Row]) -> String {
    let mut all: Vec<(f64, String)> = Vec::new();
    for frond in rows.iter().filter(|row| row.target == "frond") {
        let rivals = rows.iter().filter(|row| {
            row.step == frond.step && !["frond", "null"].contains(&row.target.as_str())
        });
        for (rival, metric) in rivals.flat_map(|rival| METRICS.iter().map(move |m| (rival, m))) {
            let (Some(ours), Some(theirs)) = ((metric.of)(frond), (metric.of)(rival)) else {
                continue;
            };
            let better = if metric.more_is_better { ours / theirs } else { theirs / ours };
            if !better.is_finite() {
                continue;
            }
            let class = match better {
                b if b < 0.95 => "loses",
                b if b > 1.05 => "wins",
                _ => "even",
            };
            let line = format!(
                "<tr><td>{}</td><td>{} ({})</td><td>{}</td><td>{}</td><td>{}</td><td \
                 class=\"{class}\">{better:.2}</td></tr>\n",
                escape(&frond.step),
                metric.name,
                metric.unit,
                escape(&rival.target) + if rival.finished { "" } else { " (stopped)" },
                figure(ours),
                figure(theirs),
            );
            all.push((better, line));
        }
    }
    if all.is_empty() {
        return String::new();
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let losses = all.iter().filter(|(better, _)| *better < 0.95).count();
    let wins = all.iter().filter(|(better, _)| *better > 1.05).count();
    let lines: String = all.into_iter().map(|(_, line)| line).collect();
    format!(
        "<h2>Frond against the others, worst first</h2>\n<p>{losses} losses, {wins} wins. Above 1 Frond \
         is better by that factor.</p>\n<div class=\"scroll\"><table><tr><th>step</th><th>figure</th>\
         <th>against</th><th>Frond</th><th>rival</th><th>times better</th></tr>\n{lines}</table></div>\n"
    )
}

fn section(step: &str, rows: &[&Row], conditions: &Conditions) -> String {
    let mut out = format!("<h2>{}</h2>\n", escape(step));
    let note = format!(
        "{}, {} rows, memory {}, durability {}, seed {}",
        conditions.workload,
        conditions.rows,
        Bytes(conditions.memory_b),
        conditions.durability,
        conditions.seed
    );
    out.push_str(&size_and_speed(rows, &note));
    let curves: Vec<Line> = rows
        .iter()
        .map(|row| Line { target: row.target.clone(), points: curve(row) })
        .filter(|line| line.points.len() > 1)
        .collect();
    if !curves.is_empty() {
        let chart = lines("operations done", "operations/s", &curves);
        let _ = writeln!(
            out,
            "<figure>{chart}<figcaption>Rate of each second against operations done. {}</figcaption>\
             </figure>",
            escape(&note)
        );
    }
    for metric in &METRICS {
        let marks: Vec<Bar> = rows
            .iter()
            .filter_map(|row| {
                let remark = match row.finished {
                    true => String::new(),
                    false => "(stopped)".to_owned(),
                };
                Some(Bar { target: row.target.clone(), value: (metric.of)(row)?, remark })
            })
            .collect();
        if marks.is_empty() {
            continue;
        }
        let direction = if metric.more_is_better { "more is better" } else { "less is better" };
        let _ = writeln!(
            out,
            "<figure>{}<figcaption><b>{}</b>, {}; {direction}. {}</figcaption></figure>",
            bars(metric.unit, &marks),
            metric.name,
            metric.unit,
            escape(&note)
        );
    }
    out.push_str(&goals(rows));
    out.push_str(&parts(rows));
    out.push_str(&figures(rows));
    out
}

/// Draws size and speed in one chart, if any store keeps rows.
fn size_and_speed(rows: &[&Row], note: &str) -> String {
    let point = |row: &&Row| {
        let remark = if row.finished { String::new() } else { "(stopped)".to_owned() };
        Some(Point { target: row.target.clone(), x: row.disk_b_row?, y: row.ops_s, remark })
    };
    let points: Vec<Point> = rows.iter().filter_map(point).collect();
    if points.is_empty() {
        return String::new();
    }
    format!(
        "<figure>{}<figcaption><b>Size and speed</b>: the further up and left, the better. Bytes on disk of all \
         of a store after clean close, over its rows; operations of the step a second. {}</figcaption></figure>\n",
        scatter("bytes on disk a row", "operations/s", &points),
        escape(note)
    )
}

/// Returns the rate of each second over the operations done so far.
fn curve(row: &Row) -> Vec<(f64, f64)> {
    row.series.iter().zip(&row.int_ops_s).map(|(s, rate)| (s.mark.ops as f64, *rate)).collect()
}

/// Lists Frond's goals with their verdicts.
fn goals(rows: &[&Row]) -> String {
    let of_all = || rows.iter().flat_map(|row| &row.goals);
    if of_all().next().is_none() {
        return String::new();
    }
    let mut out = "<details open><summary>Frond's goals</summary><table><tr><th>metric</th>\
                   <th>measured</th></tr>"
        .to_owned();
    for goal in of_all() {
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"{}\">{}</td></tr>",
            escape(&goal.metric),
            if goal.is_met { "wins" } else { "loses" },
            escape(&goal.text)
        );
    }
    out + "</table></details>\n"
}

/// Lists what each column takes and saves, for stores that keep rows by part.
fn parts(rows: &[&Row]) -> String {
    let mut out = String::new();
    for row in rows.iter().filter(|row| !row.parts.is_empty()) {
        let _ = write!(
            out,
            "<details><summary>Columns in {}</summary><div class=\"scroll\"><table><tr><th>of</th>\
             <th>column</th><th>raw bytes a row</th><th>encoded</th><th>saved</th><th>as</th></tr>",
            escape(&row.target)
        );
        for part in &row.parts {
            let saved = part.saved().map(|saved| format!("{:.1} %", 100.0 * saved));
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td><td>{}</td></tr>",
                escape(&part.keyspace),
                escape(&part.part),
                part.raw_b_row,
                part.b_row,
                saved.unwrap_or_default(),
                escape(&part.encoding)
            );
        }
        out.push_str("</table></div></details>\n");
    }
    out
}

/// Lists every column that is a plain figure: one line each, with one cell per target.
fn figures(rows: &[&Row]) -> String {
    let values: Vec<serde_json::Value> =
        rows.iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
    let mut names: Vec<&String> = Vec::new();
    for name in values.iter().filter_map(|value| value.as_object()).flat_map(|map| map.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut out =
        "<details><summary>All figures</summary><div class=\"scroll\"><table><tr><th>column\
                   </th><th></th>"
            .to_owned();
    rows.iter().for_each(|row| {
        let _ = write!(out, "<th>{}</th>", escape(&row.target));
    });
    out.push_str("</tr>");
    for name in names {
        let cells: Vec<String> = values.iter().map(|value| cell(&value[name.as_str()])).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            let _ = writeln!(out, "<tr><td>{}</td><td></td>{cells}</tr>", escape(name));
        }
    }
    out + "</table></div></details>\n"
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Number(n) => n.as_f64().map(figure).unwrap_or_default(),
        serde_json::Value::String(text) => escape(text),
        serde_json::Value::Bool(yes) => yes.to_string(),
        _ => String::new(),
    }
}

fn settings(outcomes: &[(TargetName, Final)]) -> String {
    let mut out = "<h2>Settings</h2>\n".to_owned();
    let mut shown = Vec::new();
    for (target, outcome) in outcomes.iter().filter(|(_, outcome)| !outcome.settings.is_empty()) {
        // A target runs once for each data set: show equal settings only once.
        if shown.contains(&(target, &outcome.settings)) {
            continue;
        }
        shown.push((target, &outcome.settings));
        let _ = write!(
            out,
            "<details><summary>{target}: {}</summary><table>",
            escape(&outcome.version)
        );
        for (name, value) in &outcome.settings {
            let _ = write!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value));
        }
        out.push_str("</table></details>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, ops_s: f64, cpu: f64) -> Row {
        Row {
            target: target.to_owned(),
            step: "iibench".to_owned(),
            finished: true,
            ops_s,
            cpu_us_op: Some(cpu),
            ..Row::default()
        }
    }

    #[test]
    fn losses_are_listed_before_wins() {
        let rows = [row("frond", 100.0, 9.0), row("rocksdb", 50.0, 3.0)];
        let text = page(&Conditions::default(), &[], &rows).expect("plain data");
        let (loss, win) = (text.find("0.33</td>"), text.find("2.00</td>"));
        assert!(loss.is_some() && loss < win, "{loss:?} {win:?}");
        assert!(text.contains("1 losses, 1 wins"));
    }

    #[test]
    fn size_and_speed_share_one_chart() {
        let sized = |target, bytes| Row { disk_b_row: Some(bytes), ..row(target, 10.0, 1.0) };
        let rows = [sized("frond", 30.0), sized("rocksdb", 60.0), row("null", 99.0, 0.0)];
        let text = page(&Conditions::default(), &[], &rows).expect("plain data");
        assert_eq!(text.matches("<circle").count(), 2, "a store without rows has no size");
        assert!(text.contains("<b>Size and speed</b>"));
        assert!(!page(&Conditions::default(), &[], &rows[2..]).expect("data").contains("<circle"));
    }

    #[test]
    fn page_needs_nothing_from_outside() {
        let rows = [row("frond", 1.0, 1.0), row("</script><b>", 1.0, 1.0)];
        let text = page(&Conditions::default(), &[], &rows).expect("plain data");
        assert!(!text.contains("http") && !text.contains("src=") && !text.contains("@import"));
        assert_eq!(text.matches("</script>").count(), 1);
        assert!(text.contains("prefers-color-scheme: dark"));
    }
}
