//! Runs workloads of `frond bench` as cells.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::Value;

use super::{Entry, class_of, find, library_of, target};
use crate::child;
use crate::lab::cell::Order;
use crate::lab::params::Params;
use crate::lab::results::{CellResult, CounterSample, State, StepResult};
use crate::lab::suggest::unknown;
use crate::lab::{metric, steps};
use crate::results::{Final, Row};
use crate::size::Bytes;
use crate::targets::{Failure, Result};
use crate::workloads::{Name, Profile, Rest, Shape, Spec};

fn word<T: ValueEnum>(params: &Params, name: &str) -> Result<T> {
    let text = params.text(name);
    let names: Vec<String> = T::value_variants()
        .iter()
        .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    T::from_str(text, false).map_err(|_| unknown(&format!("value of {name}"), text, &names))
}

fn has(entry: &Entry, name: &str) -> bool {
    entry.params.iter().any(|param| param.name == name)
}

/// Translates an order into the one that a child process of `frond bench` gets.
///
/// # Errors
/// A parameter is invalid, or embedded stores do not have the durability.
pub fn child_order(order: &Order) -> Result<child::Order> {
    let entry = find(&order.workload)?;
    let params = order.params()?;
    let own = |name: &str, default: u64| -> Result<u64> {
        if has(entry, name) { params.number(name) } else { Ok(default) }
    };
    let workload = match has(entry, "test") {
        true => word(&params, "test")?,
        false => Name::from_str(entry.name, false).map_err(Failure)?,
    };
    let durability = class_of(order.durability)?;
    let rows = params.number("rows")?;
    if rows == 0 {
        return Err(Failure(format!("{}: rows from 1", entry.name)));
    }
    Ok(child::Order {
        target: target(&order.target)?,
        version: library_of(order),
        workload,
        spec: Spec {
            rows,
            seed: order.seed,
            shape: if has(entry, "shape") { word(&params, "shape")? } else { Shape::Script },
            threads: own("threads", 1)?.max(1),
            seconds: own("seconds", 60)?,
            held: None,
            query_rate: 10.0,
            profile: if has(entry, "profile") {
                word(&params, "profile")?
            } else {
                Profile::Typical
            },
            durability,
            one_writer: false,
            packages: Default::default(),
            clients: vec![1],
            phases: Vec::new(),
        },
        memory: Bytes(order.memory()?),
        dir: order.dir.clone(),
        rest: if order.with_rest { Rest::UntilStill } else { Rest::None },
        compact: false,
        yardstick: false,
        verify: true,
        time_limit: Some(params.number("time_limit")?).filter(|seconds| *seconds > 0),
        // The resident size before the store is opened.
        base_rss: crate::measure::Subject::Own.rss_bytes(),
    })
}

/// Runs a cell.
///
/// # Errors
/// As for [`child_order`].
pub fn run(order: &Order) -> Result<CellResult> {
    converted(&child::collect(&child_order(order)?))
}

/// Metrics that `frond bench` and the lab name differently: (its name, the lab's name).
const RENAMED: [(&str, &str); 2] =
    [("wr_b_op_quiesced", "wr_b_op_rested"), ("cpu_us_op_quiesced", "cpu_us_op_rested")];
/// Metrics that describe the store at the end of the cell.
const OF_CELL: [&str; 4] = ["disk_b", "disk_b_row", "space_amp", "mem_peak_b"];

fn converted(found: &Final) -> Result<CellResult> {
    let mut result = CellResult { version: found.version.clone(), ..CellResult::default() };
    result.settings.extend(found.settings.iter().cloned());
    let all_planned = found.rows.iter().all(|row| row.ops >= row.ops_planned);
    for row in &found.rows {
        let step = step(row)?;
        for name in OF_CELL {
            if let Some(value) = step.metrics.get(name) {
                result.metrics.insert(name.to_owned(), *value);
            }
        }
        result.steps.push(step);
        // A step that the time limit ended has changed different rows on each target.
        if let Some(crc) = row.rows_crc.as_ref().filter(|_| all_planned) {
            result.facts.insert(format!("rows of {}", row.step), crc.clone());
        }
        if let Some(verified) = &row.verified {
            let detail = format!(
                "{} of {} keyspaces, {} entries",
                verified.keyspaces, verified.of, verified.entries
            );
            result.verify(
                &format!("keyspaces after {}", row.step),
                verified.keyspaces == verified.of,
                detail,
            );
        }
        for (kind, n) in row.errors.iter().filter(|(kind, _)| *kind != "verification") {
            result.verify(&format!("errors in {}", row.step), false, format!("{n} times {kind}"));
        }
        if !row.finished && result.state == State::Done {
            result.state = State::Stopped;
        }
    }
    if let Some(failure) = &found.failure {
        result.state = State::Failed;
        result.failure = Some(failure.clone());
    }
    Ok(result)
}

/// Converts a row of results into a step with the lab's metrics.
fn step(row: &Row) -> Result<StepResult> {
    let Value::Object(fields) = serde_json::to_value(row)? else {
        return Err(Failure("a row of results is no object".to_owned()));
    };
    let mut metrics = BTreeMap::new();
    for (name, value) in &fields {
        let renamed = RENAMED
            .iter()
            .find(|(theirs, _)| theirs == name)
            .map_or(name.as_str(), |(_, ours)| ours);
        if let (Some(metric), Some(value)) = (metric::find(renamed), value.as_f64()) {
            metrics.insert(metric.name.to_owned(), value);
        }
    }
    metrics.insert("planned".to_owned(), row.ops_planned as f64);
    // Percentiles of the step's main request, which are named `REQUEST_p99_us`.
    for (name, value) in &row.latencies {
        let metric =
            metric::METRICS.iter().find(|metric| name.ends_with(&format!("_{}", metric.name)));
        let is_main = !name.starts_with("query_");
        if let Some(metric) = metric.filter(|_| is_main) {
            metrics.entry(metric.name.to_owned()).or_insert(*value);
        }
    }
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in &row.series {
        for (name, value) in [
            ("ops", sample.mark.ops as f64),
            ("rss_b", sample.rss_b as f64),
            ("cpu_s", sample.cpu_s),
            ("written_b", sample.write_b as f64),
            ("read_b", sample.read_b as f64),
        ] {
            series.entry(name.to_owned()).or_default().push((sample.mark.seconds, value));
        }
    }
    series.entry("ops".to_owned()).or_default().push((row.seconds, row.ops as f64));
    let mut latencies = BTreeMap::new();
    for (kind, histogram) in &row.histograms {
        latencies.insert((*kind).to_owned(), steps::serialized(histogram)?);
    }
    let counter = |t, (name, value): (&String, &f64)| CounterSample {
        t,
        source: "engine".to_owned(),
        name: name.clone(),
        value: *value,
    };
    let counters = row.engine.iter().map(|one| counter(row.seconds, one)).collect();
    Ok(StepResult { name: row.step.clone(), metrics, series, latencies, counters })
}
