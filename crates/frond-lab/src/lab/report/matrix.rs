//! The matrix of workloads and targets, one per face (SQL, embedded): ratios to the base, coloured
//! only if they are significant.

use serde::Serialize;

use super::group::{Group, Target};
use super::headline::{Headline, detailed, name_of};
use super::number::{human, ratio};
use super::palette;
use super::sentence::count;
use super::size;
use crate::lab::metric::{self, METRICS, Metric, Place};
use crate::lab::statistics::{Ratio, Sample, Verdict};
use crate::lab::workloads;

/// Note on a target whose storage class limited only a part of its I/O.
pub const THROTTLED_IN_PART: &str = "throttled only in part: neither charted nor compared";

/// What is shown in place of a value that was measured for too short a time to be exact.
pub const TOO_SHORT: &str = "too short";

/// A matrix: its targets are the columns.
#[derive(Serialize, Debug)]
pub struct Matrix {
    pub face: String,
    pub base: &'static str,
    /// Whether the base has a value in any row.
    pub has_base: bool,
    pub targets: Vec<String>,
    pub rows: Vec<Row>,
}

/// The two matrices of a face: by workload, and by step.
#[derive(Serialize, Debug)]
pub struct FaceMatrix {
    pub workloads: Matrix,
    /// Rate or duration of each step, and size.
    pub steps: Matrix,
}

/// A row of a matrix: one metric of a workload, or of a step of it.
#[derive(Serialize, Debug)]
pub struct Row {
    pub title: String,
    /// Link to the workload's page; empty if the matrix is on that page.
    pub link: String,
    pub conditions: String,
    pub what: String,
    pub cells: Vec<Square>,
}

/// A field of a matrix: one target in one row.
#[derive(Serialize, Debug, Default)]
pub struct Square {
    /// CSS class: `better`, `worse`, `differs`, `dim`, `base`, `failed`, or empty.
    pub class: &'static str,
    pub text: String,
    pub range: String,
    /// The verdict in words, so that a reader need not see the colour.
    pub why: String,
    pub is_noisy: bool,
}

/// The matrices of all faces, SQL first.
pub fn all(groups: &[(Group<'_>, String)]) -> Vec<FaceMatrix> {
    faces(groups).into_iter().filter_map(|face| of_face(groups, face)).collect()
}

/// The faces of these groups, SQL first.
pub fn faces<'g>(groups: &'g [(Group<'_>, String)]) -> Vec<&'g str> {
    let mut faces: Vec<&str> = groups.iter().map(|(group, _)| group.key.face.as_str()).collect();
    faces.sort_by_key(|face| (*face != "sql", *face));
    faces.dedup();
    faces
}

fn of_face(groups: &[(Group<'_>, String)], face: &str) -> Option<FaceMatrix> {
    let own: Vec<&(Group<'_>, String)> =
        groups.iter().filter(|(group, _)| group.key.face == face && group.is_charted()).collect();
    let base = own.first()?.0.base_name();
    let mut targets: Vec<&str> =
        own.iter().flat_map(|(group, _)| &group.targets).map(|target| target.name).collect();
    targets.sort_by(|a, b| palette::order(a).cmp(&palette::order(b)));
    targets.dedup();
    let (mut rows, mut steps) = (Vec::new(), Vec::new());
    for (group, link) in own {
        let link_to = |mut row: Row| {
            row.link.clone_from(link);
            row
        };
        rows.push(link_to(headline_row(group, &targets)));
        let of_group = metric_rows(group, &targets, &shown(Place::FirstPage));
        steps.extend(of_group.into_iter().map(link_to));
    }
    let matrix = |rows| Matrix::new(face, base, &targets, rows);
    Some(FaceMatrix { workloads: matrix(rows), steps: matrix(steps) })
}

impl Matrix {
    fn new(face: &str, base: &'static str, targets: &[&str], rows: Vec<Row>) -> Self {
        Self {
            face: face.to_owned(),
            base,
            has_base: rows.iter().any(Row::has_base),
            targets: targets.iter().map(|name| (*name).to_owned()).collect(),
            rows,
        }
    }
}

impl Row {
    /// Whether the base has a value in this row.
    pub fn has_base(&self) -> bool {
        self.cells.iter().any(|square| square.class == "base")
    }
}

/// The metrics that a place shows, in the order of tables.
fn shown(place: Place) -> Vec<&'static Metric> {
    METRICS.iter().filter(|metric| metric.is_shown(place)).collect()
}

/// The matrix of a group: every metric in which its steps are compared, the workload's own one
/// first.
pub fn of_group(group: &Group<'_>) -> Matrix {
    let targets: Vec<&str> = group.targets.iter().map(|target| target.name).collect();
    let own = workloads::headline(&group.key.face, &group.key.workload);
    let own = own.and_then(|(_, name)| metric::find(name));
    let mut metrics = shown(Place::Page);
    if let Some(own) = own.filter(|own| !own.is_shown(Place::Page)) {
        metrics.insert(0, own);
    }
    let rows = metric_rows(group, &targets, &metrics);
    Matrix::new(&group.key.face, group.base_name(), &targets, rows)
}

fn row(
    group: &Group<'_>,
    targets: &[&str],
    what: String,
    square: impl Fn(&Target<'_>) -> Square,
) -> Row {
    let of = |name: &&str| match group.target(name) {
        Some(target) => square(target),
        None => Square { why: "not run".to_owned(), ..Square::default() },
    };
    Row {
        title: group.title(),
        link: String::new(),
        conditions: group.conditions(),
        what,
        cells: targets.iter().map(of).collect(),
    }
}

fn headline_row(group: &Group<'_>, targets: &[&str]) -> Row {
    let Some(headline) = Headline::of(group) else {
        return row(group, targets, "nothing measured".to_owned(), without_value);
    };
    row(group, targets, headline.what(), |target| {
        let own = headline.values(target);
        of(group, target, headline.metric, &own, headline.ratio(group, target))
    })
}

/// One row per step and metric that was measured.
fn metric_rows(group: &Group<'_>, targets: &[&str], metrics: &[&'static Metric]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (step, metric) in measured(group, metrics) {
        let name = name_of(metric);
        let what = if step.is_empty() { name.to_owned() } else { format!("{step}: {name}") };
        rows.push(row(group, targets, what, |target| {
            if target.is_too_short(&step, metric.name) {
                return too_short(target);
            }
            let own = target.sample(&step, metric.name);
            of(group, target, metric, &own, group.ratio(target, &step, metric.name))
        }));
    }
    rows
}

/// Pairs of step and metric that were measured and are not 0 on all targets. A size is listed only
/// at the step at which sizes are compared.
fn measured(group: &Group<'_>, metrics: &[&'static Metric]) -> Vec<(String, &'static Metric)> {
    let mut pairs = Vec::new();
    let size = size::place(group);
    let is_misplaced = |step: &str, name: &str| {
        size::METRICS.contains(&name)
            && size.as_ref().is_none_or(|place| place.step != step || place.metric != name)
    };
    for step in detailed(&group.steps()) {
        let is_there = |name: &str| {
            group.targets.iter().any(|target| {
                target.median(&step, name).is_some_and(|value| value != 0.0)
                    || target.is_too_short(&step, name)
            })
        };
        // If there is a rate, the duration says the same.
        let is_said = |name: &str| name == "seconds" && group.has(&step, "ops_s");
        let is_wanted = |name: &str| is_there(name) && !is_misplaced(&step, name) && !is_said(name);
        let wanted = metrics.iter().filter(|metric| is_wanted(metric.name));
        pairs.extend(wanted.map(|metric| (step.clone(), *metric)));
    }
    pairs
}

fn of(
    group: &Group<'_>,
    target: &Target<'_>,
    metric: &Metric,
    own: &Sample,
    against: Option<Ratio>,
) -> Square {
    let Some(value) = own.median() else { return without_value(target) };
    let shown = human(value, metric.unit);
    if !group.is_charted() {
        let why = format!("of size {}: not compared", group.key.size);
        return Square { class: "dim", text: shown, why, ..Square::default() };
    }
    if target.name == group.base_name() {
        let why = format!("the base, {}", repeats(target, own));
        return Square {
            class: "base", text: "1×".to_owned(), range: shown, why, is_noisy: false
        };
    }
    let Some(against) = against else {
        let why = format!("no {} to compare with, {}", group.base_name(), repeats(target, own));
        return Square { class: "dim", text: shown, why, ..Square::default() };
    };
    let text = match against.has_zero() {
        true if against.of_medians > 0.0 => format!("{shown}, not 0"),
        true => "0".to_owned(),
        false => ratio(against.of_medians),
    };
    let range = if against.repeats > 1 && !against.has_zero() {
        format!("{}–{}", ratio(against.low).trim_end_matches('×'), ratio(against.high))
    } else {
        String::new()
    };
    let noise = "the repeats spread over 15 %";
    let (class, said) = match against.verdict {
        _ if palette::is_null(target.name) => ("dim", "it stores nothing".to_owned()),
        Verdict::Better if against.is_noisy => ("dim", format!("probably better, but {noise}")),
        Verdict::Worse if against.is_noisy => ("dim", format!("probably worse, but {noise}")),
        Verdict::Better => ("better", "significantly better".to_owned()),
        Verdict::Worse => ("worse", "significantly worse".to_owned()),
        Verdict::Differs => ("differs", "differs significantly".to_owned()),
        Verdict::Insignificant(why) => ("dim", format!("not significant: {why}")),
    };
    let why = format!("{said}; {shown}, {}", repeats(target, own));
    Square { class, text, range, why, is_noisy: against.is_noisy }
}

/// Number of repeats with the value, and how many were stopped or failed.
fn repeats(target: &Target<'_>, own: &Sample) -> String {
    let all = count(target.cells.len(), "repeat");
    let mut text = match own.len() {
        measured if measured < target.cells.len() => format!("measured in {measured} of {all}"),
        _ => all,
    };
    for (n, what) in
        [(target.stopped(), "stopped at the time limit"), (target.failed.len(), "failed")]
    {
        if n > 0 {
            text.push_str(&format!(", {n} {what}"));
        }
    }
    text
}

/// The field of a target whose value was measured for too short a time to be exact.
fn too_short(target: &Target<'_>) -> Square {
    let why = format!(
        "the clock is too coarse for so short a time, {}",
        count(target.cells.len(), "repeat")
    );
    Square { class: "dim", text: TOO_SHORT.to_owned(), why, ..Square::default() }
}

/// The field of a target without a value: it was throttled only in part, it failed, it was stopped
/// too early, or it does not have the metric.
fn without_value(target: &Target<'_>) -> Square {
    if !target.partial.is_empty() {
        let (text, why) = ("partial".to_owned(), THROTTLED_IN_PART.to_owned());
        return Square { class: "dim", text, why, ..Square::default() };
    }
    if let Some(cell) = target.failed.first() {
        let why = cell.failure.clone().unwrap_or_else(|| "failed without a reason".to_owned());
        return Square { class: "failed", text: "failed".to_owned(), why, ..Square::default() };
    }
    let why = match target.stopped() {
        0 => "not measured",
        _ => "not measured: stopped at the time limit",
    };
    Square { why: why.to_owned(), ..Square::default() }
}
