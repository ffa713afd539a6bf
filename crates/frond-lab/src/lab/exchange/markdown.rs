//! Runs as Markdown tables, for the terminal and for notes.

use std::collections::BTreeMap;

use crate::lab::goals;
use crate::lab::machine::fingerprint::disturbance;
use crate::lab::metric::{self, METRICS, Place};
use crate::lab::results::{Database, Measured, RunInfo, State};
use crate::lab::setup::Setup;
use crate::lab::statistics::Spread;
use crate::lab::workloads;
use crate::targets::Result;

/// Formats a number with three significant digits, in thousands or millions where it is large.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        n if n >= 1e9 => (value / 1e9, " G"),
        n if n >= 1e6 => (value / 1e6, " M"),
        n if n >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        n if n >= 100.0 || n == 0.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{unit}")
}

/// Formats a run with one table per workload and step: one line per target, with the median of its
/// repeats, and min–max if there are several.
///
/// # Errors
/// Errors of SQLite.
pub fn markdown(database: &Database, run: &RunInfo) -> Result<String> {
    let environment = database.environment(run.id)?;
    let of = |name: &str| environment.get(name).map(String::as_str);
    let class = Setup::new(of, &run.command).describe(&run.class);
    let mut out = format!(
        "Run {} ({}): {}, size {}, class {class}, durability {}\n",
        run.uid, run.began, run.command, run.size, run.durability
    );
    let disturbance = disturbance(of);
    if !disturbance.is_empty() {
        out += &format!("{disturbance}\n");
    }
    let measured = database.measured(run.id)?;
    let mut tables: BTreeMap<(String, String, String, String), Vec<&Measured>> = BTreeMap::new();
    for one in &measured {
        let step = (one.workload.clone(), one.variant.clone(), one.face.clone(), one.step.clone());
        tables.entry(step).or_default().push(one);
    }
    for ((workload, variant, face, step), values) in tables {
        let headline = workloads::headline(&face, &workload).map(|(_, metric)| metric);
        let shown = METRICS.iter().filter(|metric| metric.is_shown(Place::Tables));
        let mut metrics: Vec<&str> = shown.map(|metric| metric.name).collect();
        if let Some(first) = headline.filter(|name| !metrics.contains(name)) {
            metrics.insert(0, first);
        }
        metrics.retain(|name| values.iter().any(|one| one.metric == *name));
        if metrics.is_empty() {
            continue;
        }
        let title: Vec<&str> = [workload.as_str(), &variant, &face, &step]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect();
        out += &format!("\n**{}**\n\n| target |", title.join(" · "));
        for name in &metrics {
            let unit = metric::find(name).map_or("", |metric| metric.unit);
            out += &format!(" {name}{}{unit} |", if unit.is_empty() { "" } else { ", " });
        }
        out += &format!("\n|---|{}\n", "---:|".repeat(metrics.len()));
        let mut targets: Vec<&str> = Vec::new();
        for one in &values {
            if !targets.contains(&one.target.as_str()) {
                targets.push(&one.target);
            }
        }
        for target in targets {
            out += &format!("| {target} |");
            for name in &metrics {
                let of_target =
                    values.iter().filter(|one| one.target == target && one.metric == *name);
                let of_target: Vec<f64> = of_target.map(|one| one.value).collect();
                match Spread::of(&of_target) {
                    Some(spread) if of_target.len() > 1 => {
                        let (low, high) = (short(spread.min), short(spread.max));
                        out += &format!(" {} ({low}–{high}) |", short(spread.median));
                    }
                    Some(spread) => out += &format!(" {} |", short(spread.median)),
                    None => out += " – |",
                }
            }
            out += "\n";
        }
    }
    let goals = goals::lines(run, &measured, &database.parameters(run.id)?);
    if !goals.is_empty() {
        out += &format!("\n```text\n{goals}```\n");
    }
    for (cell, state, failure) in database.unfinished(run.id)? {
        out += &if state == State::Stopped.name() {
            format!(
                "\nStopped by the time limit or by Ctrl-C, so its figures are partial: {cell}\n"
            )
        } else {
            format!("\nFailed: {cell}: {failure}\n")
        };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::testing::{a_cell, a_database, a_key, a_run};

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (1234.0, "1234"),
            (12_345.0, "12.3 k"),
            (2.5e6, "2.50 M"),
            (7.1e9, "7.10 G"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn a_run_is_shown_by_step_and_target() {
        let (_dir, mut database) = a_database();
        let mut head = a_run("u1");
        for (name, value) in [("busy_pct", "95.2"), ("disk", "virtual")] {
            head.environment.push((name.to_owned(), value.to_owned()));
        }
        let run = database.begin_run(&head).expect("begun");
        for (repeat, rate) in [(1, 1000.0), (2, 3000.0), (3, 2000.0)] {
            let mut cell = a_cell();
            cell.steps[0].metrics.insert("ops_s".to_owned(), rate);
            cell.metrics.insert("disk_cpu_s".to_owned(), 7.5);
            cell.state = if repeat == 2 { State::Stopped } else { State::Done };
            database.write_cell(run, &a_key("innodb", repeat), 0, &cell).expect("written");
        }
        let run = database.find_run("last").expect("it is there");
        let text = markdown(&database, &run).expect("shown");
        assert!(text.contains("**iibench · sql · load**"), "{text}");
        assert!(text.contains("class host on a virtual disk, durability safe"), "{text}");
        assert!(text.contains("The machine was 95 % busy with other work"), "{text}");
        let stopped: Vec<&str> = text.lines().filter(|line| line.starts_with("Stopped")).collect();
        assert!(stopped.len() == 1 && stopped[0].ends_with("repeat 2"), "{text}");
        assert!(text.contains("| innodb | 2000 (1000–3000) | 900 (900–900) |"), "{text}");
        let whole = text.split("**iibench · sql**").nth(1).unwrap_or_default();
        assert!(whole.contains("disk_cpu_s, s") && whole.contains("disk_b, B"), "{text}");
        assert!(whole.contains("7.50 (7.50–7.50)"), "{text}");
    }
}
