//! Line charts of a group: rate over rows with the exit velocity marked, a study's requests per 10
//! s, rate over clients, CPU over time.
//!
//! Invariant: a rate is computed from the work done between two points in time; nothing is smoothed
//! unless its name says so.

use super::bars::title;
use super::figure::{Axis, Chart, Figure, Line, Mark, Table};
use super::group::{Group, Target};
use super::headline::{SWEEP_MIN, sweep as sweep_steps, threads};
use super::number::human;
use super::query::{Cell, Results};
use super::sentence::{Entry, count, ranking};
use crate::lab::metric::Better;
use crate::lab::statistics::Spread;
use crate::targets::Result;

/// Maximum number of points of a curve: twice what a phone can show.
pub const POINTS_MAX: usize = 240;
/// Maximum number of points for a repeat that is not the typical one.
const POINTS_FAINT_MAX: usize = 80;

/// Points of a curve: (x, rate).
type Points = Vec<[f64; 2]>;

/// Rate of operations in a step: over operations done if their number was planned, otherwise over
/// time.
pub fn rate(results: &Results<'_>, group: &Group<'_>, step: &str) -> Result<Option<Figure>> {
    let is_planned =
        group.targets.iter().any(|t| t.median(step, "planned").is_some_and(|n| n > 0.0));
    let mut lines = Vec::new();
    let mut table = Table::new(&[
        "target",
        "mean",
        "exit velocity",
        "last 4 %",
        "slowest second ÷ mean",
        "stalled",
        "longest stall",
    ]);
    let mut entries = Vec::new();
    for target in &group.targets {
        let of_step = || target.cells.iter().filter(|cell| cell.metric(step, "ops_s").is_some());
        let mut drawn = Vec::new();
        for cell in of_step() {
            let done = results.series(cell.id, step, "ops")?;
            let points = rates(&done, is_planned, POINTS_MAX);
            if points.len() >= 3 {
                drawn.push((*cell, done, points));
            }
        }
        if drawn.is_empty() {
            continue;
        }
        // A short step has enough samples only in its slow repeats. The curves of these alone, and
        // the evenness of their rates, would not represent the target.
        let is_whole = drawn.len() == of_step().count();
        let typical = target.sample(step, "ops_s").typical_repeat();
        for (cell, done, points) in drawn.into_iter().filter(|_| is_whole) {
            let is_faint = typical.is_some_and(|repeat| repeat != cell.repeat);
            let (points, mark) = if is_faint {
                (rates(&done, is_planned, POINTS_FAINT_MAX), None)
            } else {
                (points, exit(cell, step, &done, is_planned))
            };
            lines.push(Line { is_faint, mark, ..Line::of(target.name, target.look, points) });
        }
        let show = |name, unit| {
            target.median(step, name).map_or("–".to_owned(), |value| human(value, unit))
        };
        let name = if group.has(step, "exit_velocity") { "exit_velocity" } else { "ops_s" };
        if let Some(value) = target.median(step, name) {
            entries.push(Entry { target: target.name, value });
        }
        let show_even = |name, unit| if is_whole { show(name, unit) } else { "–".to_owned() };
        table.rows.push(vec![
            target.name.to_owned(),
            show("ops_s", "1/s"),
            show("exit_velocity", "1/s"),
            show("exit_velocity_4pct", "1/s"),
            show_even("worst_over_mean", ""),
            show_even("stall_s", "s"),
            show_even("stall_longest_s", "s"),
        ]);
    }
    if lines.is_empty() {
        return Ok(None);
    }
    set_zeros_apart(&mut lines);
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point[1]);
    let y = Axis::log("operations per second", "1/s", values);
    let x =
        if is_planned { Axis::linear("operations done", "") } else { Axis::linear("seconds", "s") };
    let what = if group.has(step, "exit_velocity") { "Exit velocity" } else { "Mean rate" };
    let ranked = ranking(&entries, "1/s", Better::Higher, group.base_name());
    let sentence = format!(
        "{what}: {} One curve per repeat, the typical one strong; ticks at the lower edge are times without progress.",
        if ranked.is_empty() { "not measured.".to_owned() } else { lower_first(&ranked) }
    );
    let text = if is_planned { "Rate over operations done" } else { "Rate over time" };
    let chart = Chart::Lines { x, y, lines };
    Ok(Some(Figure::new(&title(text, step), &chart, sentence, table)))
}

/// Rates between samples of operations done. At most `most` intervals; each but the last has the
/// same number of samples.
pub fn rates(done: &[(f64, f64)], is_over_operations: bool, most: usize) -> Points {
    let size = done.len().div_ceil(most).max(1);
    let mut kept: Vec<(f64, f64)> = done.iter().copied().step_by(size).collect();
    kept.extend(done.last().filter(|last| kept.last() != Some(last)));
    // A short interval at the end is joined to the one before: its rate would be noisy.
    if let [.., (before, _), (middle, _), (end, _)] = *kept.as_slice()
        && end - middle < (middle - before) / 2.0
    {
        kept.remove(kept.len() - 2);
    }
    kept.windows(2)
        .filter_map(|pair| {
            let [(t0, from), (t1, to)] = *pair else { return None };
            let rate = (to - from) / (t1 - t0);
            let x = if is_over_operations { to } else { t1 };
            (t1 > t0 && rate.is_finite() && rate >= 0.0).then_some([x, rate])
        })
        .collect()
}

/// The exit velocity as a level over the rows in which it was measured: the last million, or the
/// last fifth if that is fewer.
fn exit(cell: &Cell, step: &str, done: &[(f64, f64)], is_over_operations: bool) -> Option<Mark> {
    let level = cell.metric(step, "exit_velocity").filter(|level| *level > 0.0)?;
    let (end, ops) = *done.last()?;
    let first = ops - (ops / 5.0).min(1e6);
    let (began, _) = *done.iter().find(|(_, ops)| *ops >= first)?;
    let (from, to) = if is_over_operations { (first, ops) } else { (began, end) };
    Some(Mark { from, to, level, text: human(level, "1/s") })
}

/// Moves zeros, which have no logarithm, from the points of the curves to their `zeros`.
fn set_zeros_apart(lines: &mut [Line]) {
    for line in lines {
        let (zeros, rest) = std::mem::take(&mut line.points).into_iter().partition(|p| p[1] <= 0.0);
        line.points = rest;
        line.zeros = Vec::into_iter(zeros).map(|point: [f64; 2]| point[0]).collect();
    }
}

/// Growth of a series per 10 s over operations done, as LinkBench's study drew ADD_LINK. The faint
/// curve is the measured values; the strong one is their rolling mean over 5 minutes, or over a
/// tenth of the run if that is shorter.
pub fn per_ten_seconds(
    results: &Results<'_>,
    group: &Group<'_>,
    step: &str,
    series: &str,
    what: &str,
) -> Result<Option<Figure>> {
    let mut lines = Vec::new();
    let mut table = Table::new(&["target", "mean", "last 10 %", "least", "most"]);
    let mut entries = Vec::new();
    for target in &group.targets {
        let Some(cell) = typical(target, step) else { continue };
        let points = ten_seconds(
            &results.series(cell.id, step, series)?,
            &results.series(cell.id, step, "ops")?,
        );
        if points.len() < 3 {
            continue;
        }
        let window = (points.len() / 10).clamp(1, 30);
        let means: Points =
            points.windows(window).map(|part| [part[part.len() - 1][0], mean(part)]).collect();
        let last = mean(&points[points.len() - (points.len() / 10).max(1)..]);
        let spread = Spread::of(&points.iter().map(|point| point[1]).collect::<Vec<f64>>());
        let show = |value: Option<f64>| value.map_or("–".to_owned(), |value| human(value, ""));
        table.rows.push(vec![
            target.name.to_owned(),
            show(Some(mean(&points))),
            show(Some(last)),
            show(spread.map(|spread| spread.min)),
            show(spread.map(|spread| spread.max)),
        ]);
        entries.push(Entry { target: target.name, value: last });
        lines.push(Line { is_faint: true, ..Line::of(target.name, target.look, thin(points)) });
        lines.push(Line::of(target.name, target.look, thin(means)));
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let ranked = ranking(&entries, "", Better::Higher, group.base_name());
    let sentence =
        format!("In the last tenth of the run: {} Strong: rolling mean.", lower_first(&ranked));
    let (x, y) = (Axis::linear("operations done", ""), Axis::linear(what, ""));
    let chart = Chart::Lines { x, y, lines };
    Ok(Some(Figure::new(
        &title(&format!("{what}, over operations done"), step),
        &chart,
        sentence,
        table,
    )))
}

/// Growth of a series in each 10 s, with the number of operations done so far as x.
fn ten_seconds(series: &[(f64, f64)], ops: &[(f64, f64)]) -> Points {
    let mut points = Vec::new();
    let mut from = (0.0, 0.0);
    for (t, value) in series.iter().copied().filter(|(t, _)| *t > 0.0) {
        if t - from.0 < 9.5 {
            continue;
        }
        let x = ops.iter().rev().find(|(at, _)| *at <= t).map_or(value, |(_, done)| *done);
        let grown = (value - from.1) * 10.0 / (t - from.0);
        if grown >= 0.0 {
            points.push([x, grown]);
        }
        from = (t, value);
    }
    points
}

/// Rate over the number of clients: one chart per test of a sweep.
pub fn sweeps(group: &Group<'_>) -> Vec<Figure> {
    let steps = group.steps();
    let mut tests: Vec<&str> = steps.iter().filter_map(|step| Some(threads(step)?.test)).collect();
    tests.dedup();
    tests.into_iter().filter_map(|test| sweep(group, test)).collect()
}

fn sweep(group: &Group<'_>, test: &str) -> Option<Figure> {
    let steps: Vec<(u32, String)> = sweep_steps(&group.steps(), test)
        .into_iter()
        .filter_map(|step| Some((threads(&step)?.clients, step)))
        .filter(|(_, step)| group.has(step, "ops_s"))
        .collect();
    if steps.len() < SWEEP_MIN {
        return None;
    }
    let mut table =
        Table::new(&["target", "peak", "at", "last ÷ peak", "p99 of the last", "deadlocks"]);
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for target in &group.targets {
        let points: Points = steps
            .iter()
            .filter_map(|(clients, step)| {
                Some([
                    f64::from(*clients),
                    target.median(step, "ops_s").filter(|rate| *rate >= 0.0)?,
                ])
            })
            .collect();
        let Some(peak) = points.iter().max_by(|a, b| a[1].total_cmp(&b[1])).copied() else {
            continue;
        };
        let last = points[points.len() - 1];
        let last_step = steps.iter().rev().find(|(_, step)| target.median(step, "ops_s").is_some());
        let at_last = |name: &str, unit| {
            let value = last_step.and_then(|(_, step)| target.median(step, name));
            value.map_or("–".to_owned(), |value| human(value, unit))
        };
        table.rows.push(vec![
            target.name.to_owned(),
            human(peak[1], "1/s"),
            count(peak[0] as usize, "client"),
            if peak[1] > 0.0 { human(last[1] / peak[1], "") } else { "–".to_owned() },
            at_last("p99_us", "µs"),
            at_last("errors_deadlock", ""),
        ]);
        entries.push(Entry { target: target.name, value: peak[1] });
        lines.push(Line::of(target.name, target.look, points));
    }
    let sentence = format!(
        "Peak: {}",
        lower_first(&ranking(&entries, "1/s", Better::Higher, group.base_name()))
    );
    let x = Axis { scale: "log2", ..Axis::linear("clients", "") };
    let chart = Chart::Lines { x, y: Axis::linear("operations per second", "1/s"), lines };
    Some(Figure::new(&title("Rate over clients", test), &chart, sentence, table))
}

/// Number of cores that the engine kept busy, over time.
pub fn cpu_over_time(
    results: &Results<'_>,
    group: &Group<'_>,
    step: &str,
) -> Result<Option<Figure>> {
    let mut table = Table::new(&["target", "mean", "most"]);
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for target in &group.targets {
        let Some(cell) = typical(target, step) else { continue };
        let points = rates(&results.series(cell.id, step, "cpu_s")?, false, POINTS_MAX);
        if points.len() < 3 {
            continue;
        }
        let most = points.iter().map(|point| point[1]).fold(0.0, f64::max);
        table.rows.push(vec![target.name.to_owned(), human(mean(&points), ""), human(most, "")]);
        entries.push(Entry { target: target.name, value: mean(&points) });
        lines.push(Line::of(target.name, target.look, points));
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let ranked = ranking(&entries, "", Better::Neither, group.base_name());
    let sentence = format!("Mean of cores busy: {}", lower_first(&ranked));
    let chart =
        Chart::Lines { x: Axis::linear("seconds", "s"), y: Axis::linear("cores busy", ""), lines };
    Ok(Some(Figure::new(&title("CPU of the engine over time", step), &chart, sentence, table)))
}

/// The cell whose rate is nearest to the median over the repeats.
pub fn typical<'a>(target: &Target<'a>, step: &str) -> Option<&'a Cell> {
    let repeat = target.sample(step, "ops_s").typical_repeat();
    let of_repeat = target.cells.iter().find(|cell| Some(cell.repeat) == repeat);
    of_repeat.or(target.cells.first()).copied()
}

pub fn mean(points: &[[f64; 2]]) -> f64 {
    points.iter().map(|point| point[1]).sum::<f64>() / points.len().max(1) as f64
}

/// Keeps every n-th point, and always the last.
pub fn thin(points: Points) -> Points {
    let size = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let kept = |at: &usize| at.is_multiple_of(size) || *at == last;
    points.into_iter().enumerate().filter(|(at, _)| kept(at)).map(|(_, point)| point).collect()
}

/// Lowercases the first letter, for text that continues a sentence after a colon.
pub fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_computed_between_samples() {
        let done = [(0.0, 0.0), (1.0, 100.0), (2.0, 100.0), (4.0, 500.0), (4.0, 600.0)];
        assert_eq!(rates(&done, false, 100), [[1.0, 100.0], [2.0, 0.0], [4.0, 250.0]]);
        assert_eq!(rates(&done, true, 100)[2], [600.0, 250.0]);
        let long: Vec<(f64, f64)> = (0..1001).map(|t| (f64::from(t), f64::from(t) * 7.0)).collect();
        let few = rates(&long, true, 100);
        assert!(few.len() <= 101 && few.iter().all(|point| (point[1] - 7.0).abs() < 1e-9));
        assert_eq!(few.last().map(|point| point[0]), Some(7000.0));
        let rest = rates(&[(0.0, 0.0), (1.0, 10.0), (2.0, 20.0), (2.1, 20.0)], false, 9);
        assert_eq!(rest.iter().map(|point| point[0]).collect::<Vec<_>>(), [1.0, 2.1]);
        assert!(rates(&[(0.0, 5.0), (1.0, 1.0)], true, 9).is_empty(), "a counter that fell");
    }

    #[test]
    fn ten_second_windows_are_indexed_by_completed_operations() {
        let series: Vec<(f64, f64)> =
            (0..=30).map(|t| (f64::from(t), f64::from(t) * 3.0)).collect();
        let ops: Vec<(f64, f64)> = (0..=30).map(|t| (f64::from(t), f64::from(t) * 50.0)).collect();
        assert_eq!(ten_seconds(&series, &ops), [[500.0, 30.0], [1000.0, 30.0], [1500.0, 30.0]]);
    }

    #[test]
    fn the_exit_is_marked_over_the_last_fifth_or_million() {
        let mut cell = Cell::default();
        let step = cell.metrics.entry(super::super::natural::Natural::new("load")).or_default();
        step.insert("exit_velocity".to_owned(), 900.0);
        let done = [(0.0, 0.0), (5.0, 5000.0), (9.0, 9000.0), (10.0, 10_000.0)];
        let mark = exit(&cell, "load", &done, true);
        assert!(mark.is_some_and(|m| m.from == 8000.0 && m.to == 10_000.0 && m.level == 900.0));
        let done = [(0.0, 0.0), (10.0, 25e6)];
        assert!(exit(&cell, "load", &done, true).is_some_and(|m| m.from == 24e6));
        assert!(exit(&Cell::default(), "load", &done, true).is_none());
    }

    #[test]
    fn zeros_are_set_apart_from_a_curve() {
        let mut lines = [Line::of(
            "frond",
            super::super::palette::look_of("frond"),
            vec![[0.0, 0.0], [1.0, 42.0], [2.0, 0.0]],
        )];
        set_zeros_apart(&mut lines);
        assert_eq!(
            (lines[0].points.as_slice(), lines[0].zeros.as_slice()),
            ([[1.0, 42.0]].as_slice(), [0.0, 2.0].as_slice())
        );
    }
}
