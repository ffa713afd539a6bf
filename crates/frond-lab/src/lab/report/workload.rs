//! The page of a group: its figures, those that readers look for first at the top.

use serde::Serialize;

use super::counters::{self, QUANTITIES};
use super::figure::{Figure, Table, number};
use super::group::Group;
use super::headline::{Headline, detailed};
use super::matrix::{self, Matrix};
use super::number::human;
use super::query::Results;
use super::{bars, curves, latency};
use crate::lab::machine::fingerprint::disturbance;
use crate::targets::Result;

/// The page of a group.
#[derive(Serialize, Debug)]
pub struct Page {
    pub title: String,
    pub face: String,
    pub conditions: String,
    pub machine: String,
    pub base: &'static str,
    pub facts: Vec<(String, String)>,
    pub figures: Vec<Figure>,
    pub matrix: Matrix,
    /// Latencies by operation, as pairs of step and table.
    pub operations: Vec<(String, Table)>,
    /// Targets without a usable cell, and why they failed.
    pub failures: Vec<(String, String)>,
    /// Runs whose values other work on the machine may have disturbed: uid, and a sentence.
    pub disturbed: Vec<(String, String)>,
    /// Why there are no charts. Empty if there are.
    pub uncharted: String,
    /// Targets that were throttled only in part, with their values.
    pub partial: Option<Table>,
}

/// Builds the page of a group.
///
/// # Errors
/// The database cannot be read.
pub fn page(results: &Results<'_>, group: &Group<'_>) -> Result<Page> {
    let figures = if group.is_charted() { figures(results, group)? } else { Vec::new() };
    let mut operations = Vec::new();
    for step in &detailed(&group.steps()) {
        operations
            .extend(latency::operations(results, group, step)?.map(|table| (step.clone(), table)));
    }
    let uncharted = match group.is_charted() {
        true => String::new(),
        false => format!(
            "Size {} tests the lab itself: values are listed, but neither charted nor compared.",
            group.key.size
        ),
    };
    Ok(Page {
        title: group.title(),
        face: group.key.face.clone(),
        conditions: group.conditions(),
        machine: group.key.machine.clone(),
        base: group.base_name(),
        facts: facts(results, group),
        figures,
        matrix: matrix::of_group(group),
        operations,
        failures: group
            .targets
            .iter()
            .filter(|target| target.cells.is_empty() && !target.failed.is_empty())
            .map(|target| {
                let why = target.failed.first().and_then(|cell| cell.failure.clone());
                (target.name.to_owned(), why.unwrap_or_else(|| "no reason was recorded".to_owned()))
            })
            .collect(),
        disturbed: disturbed(group),
        uncharted,
        partial: partial(group),
    })
}

/// Runs of the group whose values other work on the machine may have disturbed.
fn disturbed(group: &Group<'_>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for run in group.targets.iter().map(|target| target.run) {
        let of = |name: &str| {
            run.environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
        };
        let sentence = disturbance(of);
        if !sentence.is_empty() && found.iter().all(|(uid, _)| *uid != run.uid) {
            found.push((run.uid.clone(), sentence));
        }
    }
    found
}

/// Rates and CPU of the targets that were throttled only in part, which are in no chart.
fn partial(group: &Group<'_>) -> Option<Table> {
    let mut table = Table::new(&["target", "repeat", "step", "rate", "CPU per operation"]);
    for cell in group.partial().flat_map(|target| &target.partial) {
        for step in detailed(&cell.metrics.keys().map(|step| step.0.clone()).collect::<Vec<_>>()) {
            let show = |name: &str, unit| {
                cell.metric(&step, name).map_or("–".to_owned(), |value| human(value, unit))
            };
            if let Some(rate) = cell.metric(&step, "ops_s") {
                let repeat = cell.repeat.to_string();
                let (rate, cpu) = (human(rate, "1/s"), show("cpu_us_op", "µs"));
                table.rows.push(vec![cell.target.clone(), repeat, step, rate, cpu]);
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The charts of a group, those that readers look for first at the top.
fn figures(results: &Results<'_>, group: &Group<'_>) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    figures.extend(curves::sweeps(group));
    let headline = Headline::of(group);
    let is_first =
        |step: &str| headline.as_ref().is_some_and(|h| h.steps.first().is_some_and(|s| s == step));
    let steps = detailed(&group.steps());
    // Only the figures of one step are expanded, or the page of a workload with fifteen steps would
    // be endless.
    let open = steps
        .iter()
        .find(|step| is_first(step) && !step.is_empty())
        .or_else(|| steps.iter().rev().find(|step| group.has(step, "ops_s")))
        .cloned();
    let of_steps = |make: &dyn Fn(&str) -> Result<Option<Figure>>| -> Result<Vec<Figure>> {
        let mut made = Vec::new();
        for step in &steps {
            if let Some(mut figure) = make(step)? {
                figure.is_minor = Some(step) != open.as_ref();
                made.push(figure);
            }
        }
        if made.iter().all(|figure| figure.is_minor) {
            made.iter_mut().take(1).for_each(|figure| figure.is_minor = false);
        }
        made.sort_by_key(|figure| figure.is_minor);
        Ok(made)
    };
    figures.extend(of_steps(&|step| curves::rate(results, group, step))?);
    figures.extend(bars::size(group));
    figures.extend(bars::size_against_speed(group));
    figures.extend(of_steps(&|step| Ok(latency::percentiles(group, step)))?);
    figures.extend(of_steps(&|step| Ok(bars::cpu(group, step)))?);
    figures.extend(of_steps(&|step| Ok(bars::bytes(group, step)))?);
    figures.extend(bars::memory(group));
    for quantity in QUANTITIES {
        for step in &steps {
            let figure = counters::over_time(results, group, step, quantity)?;
            figures.extend(figure.map(|figure| Figure { is_minor: true, ..figure }));
        }
    }
    number(&mut figures, "f");
    Ok(figures)
}

/// The caption of the page: the conditions under which all its charts were measured.
fn facts(results: &Results<'_>, group: &Group<'_>) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let Some(run) = group.targets.first().map(|target| target.run) else { return facts };
    for name in ["cpu", "device", "file_system", "kernel", "commit"] {
        let value = run.environment.iter().find(|(own, _)| own == name);
        facts.extend(value.cloned());
    }
    let mut versions: Vec<String> = group
        .targets
        .iter()
        .filter_map(|target| target.cells.first())
        .map(|cell| cell.version.clone())
        .filter(|version| !version.is_empty())
        .collect();
    versions.dedup();
    if !versions.is_empty() {
        facts.push(("versions".to_owned(), versions.join("; ")));
    }
    let runs = results.runs.iter().filter(|run| group.targets.iter().any(|t| t.run.id == run.id));
    let runs: Vec<String> = runs.map(|run| format!("{} ({})", run.uid, run.began)).collect();
    facts.push(("runs".to_owned(), runs.join(", ")));
    facts
}
